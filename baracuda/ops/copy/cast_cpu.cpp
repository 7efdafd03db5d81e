// y = x in another dtype. sizeof(From) + sizeof(To) bytes per element; the floor is memory bandwidth. Pairs of floats go
// through packs, the others through a loop over elements that the compiler vectorises.
#include "baracuda/math/element.hpp"
#include "baracuda/ops/copy/cast_cpu.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> inline constexpr bool kPacked = kIsHalf<T> || std::is_same_v<T, float>;

template <class From, class To> void cast(const double*, const void* const* in, void* const* out, int64_t n) {
  const From* x = static_cast<const From*>(in[0]);
  To* y = static_cast<To*>(out[0]);
  int64_t i = 0;
  if constexpr (kPacked<From> && kPacked<To>) {
    constexpr int N = kLanes<float>;
    for (; i + N <= n; i += N) store<To, N>(y + i, load<N>(x + i));
  }
  for (; i < n; ++i) y[i] = cast_element<To>(x[i]);
}
template <class From, class... To> constexpr ByDType<MapRun> row(TypeList<To...>) {
  return by_dtype<MapRun>(TypeList<To...>{}, []<class T>() { return &cast<From, T>; });
}
template <class... From> constexpr CastKernels table(TypeList<From...> all) {
  CastKernels t;
  ((t.from[kDTypeOf<From>] = row<From>(all)), ...);
  return t;
}

}  // namespace
extern constexpr CastKernels cast_kernels = table(Castable{});
}  // namespace BARACUDA_ISA
}  // namespace baracuda
