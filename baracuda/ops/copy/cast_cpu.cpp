// y = x in another dtype. sizeof(From) + sizeof(To) bytes per element; the floor is memory bandwidth. Pairs of floats go
// through packs, the others through a loop over elements that the compiler vectorises. 8-bit floats and saturating casts
// take what is not f32 through a block of f32 in L1, rounded to odd on the way in, so that the last rounding is the only one.
#include "baracuda/math/twice.hpp"
#include "baracuda/ops/copy/cast_cpu.hpp"
#include "baracuda/ops/copy/cast_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> inline constexpr bool kPacked = kIsNarrow<T> || std::is_same_v<T, float>;
template <class T> inline constexpr bool kExactInFloat = kPacked<T> || (std::is_integral_v<T> && sizeof(T) < 4);
constexpr int64_t kStage = 512;

// N doubles to halves: rounded to To's places as integers. Where one would be subnormal or is NaN, element by element.
template <class To, int N> BARACUDA_HD void round_doubles(const double* x, To* y) {
  using D = Pack<double, N / 2>;
  constexpr int kPlace = kIsF16<To> ? 42 : 45;
  constexpr int64_t kBelow = (int64_t(1) << kPlace) - 1;
  const D a = load<N / 2>(x), b = load<N / 2>(x + N / 2);
  auto odd_case = [](D d) { return ((abs(d) < D(kIsF16<To> ? 0x1p-14 : 0x1p-126)) & (d != D(0))) | (d != d); };
  auto rounded = [](D d) { return D::from_bits((bits(d) + (kBelow >> 1) + (bits(d) >> kPlace & 1)) & ~kBelow); };
  if (!any(odd_case(a) | odd_case(b))) store<To, N>(y, narrow(rounded(a), rounded(b)));
  else for (int i = 0; i < N; ++i) y[i] = cast_element<To>(x[i]);
}
template <class From, class To> __attribute__((noinline)) void convert_all(const From* x, To* y, int64_t n) {
  int64_t i = 0;
  if constexpr (kPacked<From> && kPacked<To>) {
    constexpr int N = kLanes<float>;
    for (; i + N <= n; i += N) store<To, N>(y + i, load<N>(x + i));
  } else if constexpr (kLanes<float> > 1 && std::is_same_v<From, double> && kIsHalf<To>) {
    constexpr int N = kLanes<float>;
    for (; i + N <= n; i += N) round_doubles<To, N>(x + i, y + i);
  } else if constexpr (kLanes<float> > 1 && kIsHalf<From> && std::is_same_v<To, double>) {
    constexpr int N = kLanes<float>;
    for (; i + N <= n; i += N) {
      const auto d = widen(load<N>(x + i));
      store<double, N / 2>(y + i, d.low), store<double, N / 2>(y + i + N / 2, d.high);
    }
  }
  for (; i < n; ++i) y[i] = cast_element<To>(x[i]);
}
template <class From> __attribute__((noinline)) void to_odd_floats(const From* x, float* y, int64_t n) {
  if constexpr (kExactInFloat<From>) convert_all(x, y, n);
  else for (int64_t i = 0; i < n; ++i) y[i] = to_odd_float(odd_double(x[i]));
}
template <class To> __attribute__((noinline)) void saturate(float* x, int64_t n) {
  constexpr int N = kLanes<float>;
  int64_t i = 0;
  for (; i + N <= n; i += N) store<float, N>(x + i, saturated<To>(load<N>(x + i)));
  for (; i < n; ++i) store<float, 1>(x + i, saturated<To>(load<1>(x + i)));
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
