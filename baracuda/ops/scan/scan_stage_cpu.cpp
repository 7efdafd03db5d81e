// Elements of a lane, or of neighbouring lanes, from memory into L1 in the computing type, and back. Reads and writes each
// element once; what is larger than the caches is written past them, whole lines at a time.
#include "baracuda/math/element.hpp"
#include "baracuda/ops/scan/scan_cpu.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> using StagedOf = std::conditional_t<std::is_integral_v<T>, int64_t, Acc<T>>;
// bool is read as a byte: any value but 0 is true.
template <class T> using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <int N, class T> BARACUDA_HD Pack<StagedOf<T>, N> get(const Stored<T>* p) {
  using E = StagedOf<T>;
  if constexpr (!std::is_integral_v<T>) return load<N>(p);
  else if constexpr (N == 1) return Pack<E, 1>::of(std::is_same_v<T, bool> ? E(*p != 0) : E(*p));
  else {
    Raw<Stored<T>, N> raw;
    __builtin_memcpy(&raw, p, sizeof raw);
    auto wide = __builtin_convertvector(raw, Raw<E, N>);
    if constexpr (std::is_same_v<T, bool>) wide = -(wide != 0);
    return Pack<E, N>::of(wide);
  }
}
template <int N, class T> BARACUDA_HD void put(Stored<T>* p, Pack<StagedOf<T>, N> v) {
  if constexpr (!std::is_integral_v<T>) store<T, N>(p, v);
  else if constexpr (N == 1) *p = Stored<T>(v.v);
  else {
    const auto raw = __builtin_convertvector(v.v, Raw<Stored<T>, N>);
    __builtin_memcpy(p, &raw, sizeof raw);
  }
}
// Types whose registers may be written past the caches.
template <class T> inline constexpr bool kStreams = std::is_same_v<StagedOf<T>, T> || kIsHalf<T>;

template <class T> void in(const void* from, int64_t step, void* to, int64_t n, int64_t ahead) {
  using E = StagedOf<T>;
  constexpr int N = kLanes<E>;
  const auto* x = static_cast<const Stored<T>*>(from);
  E* const e = static_cast<E*>(to);
  int64_t i = 0;
  if (step == 1) {
    if (ahead)
      for (int64_t b = 0; b < n * int64_t(sizeof(T)); b += 64) __builtin_prefetch(static_cast<const char*>(from) + ahead + b);
    for (; i + N <= n; i += N) store<E, N>(e + i, get<N, T>(x + i));
  }
  for (; i < n; ++i) e[i] = get<1, T>(x + i * step).v;
}
template <class T> void out(const void* from, void* to, int64_t step, int64_t n, bool past) {
  using E = StagedOf<T>;
  constexpr int N = kLanes<E>, kLine = 64 / sizeof(T);
  const E* const e = static_cast<const E*>(from);
  auto* y = static_cast<Stored<T>*>(to);
  int64_t i = 0;
  if (step == 1) {
    if constexpr (kStreams<T>)
      if (past) {
        for (; i < n && reinterpret_cast<uintptr_t>(y + i) % 64; ++i) put<1, T>(y + i, load<1>(e + i));
        for (; i + kLine <= n; i += kLine)
          for (int k = 0; k < kLine; k += N) store_past<T, N>(y + i + k, load<N>(e + i + k));
      }
    for (; i + N <= n; i += N) put<N, T>(y + i, load<N>(e + i));
  }
  for (; i < n; ++i) put<1, T>(y + i * step, load<1>(e + i));
}

using Staged = TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>;
constexpr ScanStage make() {
  using In = void (*)(const void*, int64_t, void*, int64_t, int64_t);
  using Out = void (*)(const void*, void*, int64_t, int64_t, bool);
  return {by_dtype<In>(Staged{}, []<class T>() { return &in<T>; }), by_dtype<Out>(Staged{}, []<class T>() { return &out<T>; })};
}

}  // namespace
extern constexpr ScanStage scan_stage = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
