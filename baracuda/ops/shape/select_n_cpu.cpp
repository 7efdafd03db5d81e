// The loops of select_n, which the compiler vectorises. sizeof(T) bytes per stream and element; the floor is memory bandwidth.
#include "baracuda/ops/shape/select_n_cpu.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

struct Wide { uint64_t a, b; };
template <class T> void keep(const int32_t* which, int32_t k, const void* from, void* to, int64_t n) {
  const T* x = static_cast<const T*>(from);
  T* const y = static_cast<T*>(to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T u = x[i], v = y[i];
    y[i] = which[i] == k ? u : v;
  }
}
template <class T> void keep_only(const int32_t* which, int32_t k, const void* from, void* to, int64_t n) {
  const T* x = static_cast<const T*>(from);
  T* const y = static_cast<T*>(to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T u = x[i];
    y[i] = which[i] == k ? u : T{};
  }
}
template <class I> void places(const void* from, int64_t last, int32_t* to, int64_t n) {
  const I* which = static_cast<const I*>(from);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t w = which[i], least = w < 0 ? 0 : w;
    to[i] = int32_t(least > last ? last : least);
  }
}

}  // namespace
extern constexpr SelectNKernels select_n_kernels = {{keep<uint8_t>, keep<uint16_t>, keep<uint32_t>, keep<uint64_t>, keep<Wide>},
                                                   {keep_only<uint8_t>, keep_only<uint16_t>, keep_only<uint32_t>, keep_only<uint64_t>, keep_only<Wide>},
                                                   places<uint8_t>, places<int32_t>, places<int64_t>};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
