#include "baracuda/host/isa.hpp"
#include "baracuda/host/amx.hpp"
#include "baracuda/host/gathers.hpp"

#include <atomic>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace baracuda {
namespace {

Isa detect() {
#if defined(__x86_64__)
  // __builtin_cpu_supports also asks the operating system whether it saves the wide registers.
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2");
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool f16c_movbe = __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1) && (c >> 22 & 1);
  const bool lzcnt = __get_cpuid(0x80000001, &a, &b, &c, &d) && (c >> 5 & 1);
  if (!v3 || !f16c_movbe || !lzcnt) return Isa::portable;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512cd") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return Isa::avx2;
  const bool bf16 = __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
  return bf16 ? Isa::avx512bf16 : Isa::avx512;
#else
  return Isa::portable;
#endif
}

bool detect_amx() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  constexpr unsigned kTile = 1u << 24, kBf16 = 1u << 22;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & kTile) || !(d & kBf16)) return false;
  if (const char* wanted = std::getenv("BARACUDA_ISA"))
    for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16})
      if (name(isa) == wanted) return false;
  constexpr long kRequestState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM: for all threads of the process
  return syscall(SYS_arch_prctl, kRequestState, kTileData) == 0;
#else
  return false;
#endif
}

bool detect_fast_gathers() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 23 & 1) && __builtin_cpu_is("intel");  // AVX512-FP16
#else
  return false;
#endif
}

Isa detect_and_ask() {
  Isa best = detect();
  if (const char* wanted = std::getenv("BARACUDA_ISA"))
    for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16})
      if (name(isa) == wanted && isa < best) best = isa;
  return best;
}

std::atomic<Isa> limit{Isa::avx512bf16};
std::atomic<bool> amx_allowed{true}, gathers_allowed{true};

}  // namespace

Isa isa() {
  static const Isa best = detect_and_ask();
  const Isa at_most = limit.load(std::memory_order_relaxed), chosen = at_most < best ? at_most : best;
#ifdef BARACUDA_WITHOUT_AVX2
  if (chosen == Isa::avx2) return Isa::portable;
#endif
  return chosen;
}
bool has_amx() {
  if (isa() != Isa::avx512bf16 || !amx_allowed.load(std::memory_order_relaxed)) return false;
  static const bool has = detect_amx();
  return has;
}
bool has_fast_gathers() {
  static const bool has = detect_fast_gathers();
  return has && gathers_allowed.load(std::memory_order_relaxed);
}
void limit_gathers(bool allowed) { gathers_allowed.store(allowed, std::memory_order_relaxed); }
void limit_amx(bool allowed) { amx_allowed.store(allowed, std::memory_order_relaxed); }
void limit_isa(Isa at_most) { limit.store(at_most, std::memory_order_relaxed); }

}  // namespace baracuda
