// y = x in another dtype. sizeof(From) + sizeof(To) bytes per element; the floor is memory bandwidth. Pairs of floats go
// through packs, the others through a loop over elements that the compiler vectorises. 8-bit floats and saturating casts
// take what is not f32 through a block of f32 in L1, rounded to odd on the way in, so that the last rounding is the only one.
#include "baracuda/math/element.hpp"
#include "baracuda/ops/copy/cast_cpu.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> inline constexpr bool kPacked = kIsNarrow<T> || std::is_same_v<T, float>;
template <class T> inline constexpr bool kExactInFloat = kPacked<T> || (std::is_integral_v<T> && sizeof(T) < 4);
constexpr int64_t kStage = 512;

template <class From, class To> __attribute__((noinline)) void convert_all(const From* x, To* y, int64_t n) {
  int64_t i = 0;
  if constexpr (kPacked<From> && kPacked<To>) {
    constexpr int N = kLanes<float>;
    for (; i + N <= n; i += N) store<To, N>(y + i, load<N>(x + i));
  }
  for (; i < n; ++i) y[i] = cast_element<To>(x[i]);
}
template <class From> __attribute__((noinline)) void to_odd_floats(const From* x, float* y, int64_t n) {
  if constexpr (kExactInFloat<From>) convert_all(x, y, n);
  else for (int64_t i = 0; i < n; ++i) y[i] = to_odd_float(odd_double(x[i]));
}
// Beyond the largest finite value of To that value, infinities too. NaN stays.
template <class To> __attribute__((noinline)) void saturate(float* x, int64_t n) {
  constexpr int N = kLanes<float>;
  const auto bound = [](auto v) {
    using V = decltype(v);
    const V most = kIsF16<To> ? V(65504) : kIsFloat8<To> ? V(to_float(To{uint8_t(kFloat8<To>.largest)})) : V(0x1.fep127);
    return where(v > most, most, where(v < -most, -most, v));
  };
  int64_t i = 0;
  for (; i + N <= n; i += N) store<float, N>(x + i, bound(load<N>(x + i)));
  for (; i < n; ++i) store<float, 1>(x + i, bound(load<1>(x + i)));
}
template <class From, class To, bool kSaturate> void cast(const double*, const void* const* in, void* const* out, int64_t n) {
  const From* x = static_cast<const From*>(in[0]);
  To* y = static_cast<To*>(out[0]);
  if constexpr (!kSaturate && (!kIsFloat8<From> || std::is_same_v<To, float>) && (!kIsFloat8<To> || std::is_same_v<From, float>)) convert_all(x, y, n);
  else for (int64_t i = 0, m; i < n; i += m) {
    alignas(64) float stage[kStage];
    m = n - i < kStage ? n - i : kStage;
    to_odd_floats(x + i, stage, m);
    if constexpr (kSaturate) saturate<To>(stage, m);
    convert_all(stage, y + i, m);
  }
}
uint32_t scale(float* x, float factor, int64_t n) {
  uint32_t most = 0;
  for (int64_t i = 0; i < n; ++i) {  // bits of numbers without sign are in the order of the numbers
    const uint32_t u = __builtin_bit_cast(uint32_t, x[i]) & 0x7fffffff;
    most = u > most ? u : most;
    x[i] = x[i] * factor;
  }
  return most;
}
template <class From, bool kSaturate, class... To> constexpr ByDType<MapRun> row(TypeList<To...>) {
  return by_dtype<MapRun>(TypeList<To...>{}, []<class T>() { return &cast<From, T, kSaturate>; });
}
template <class... From> constexpr CastKernels table(TypeList<From...> all) {
  CastKernels t{};
  t.scale = scale;
  ((t.from[kDTypeOf<From>] = row<From, false>(all), t.saturated[kDTypeOf<From>] = row<From, true>(Saturable{})), ...);
  return t;
}

}  // namespace
extern constexpr CastKernels cast_kernels = table(CastableOrFloat8{});
}  // namespace BARACUDA_ISA
}  // namespace baracuda
