#include "baracuda/math/brief.hpp"
#include "baracuda/math/exp_of_halves.hpp"
#include "baracuda/math/math_table.hpp"
#include "baracuda/math/twice.hpp"
#include "baracuda/math/value_types_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

template <class T, class F> BARACUDA_HD void map(const T* x, T* y, int64_t n, F f) {
  constexpr int N = kLanes<T>;
  int64_t i = 0;
  for (; i + N <= n; i += N) store<T, N>(y + i, f(load<N>(x + i)));
  if (i < n) store_tail<T, N>(y + i, f(load_tail<N>(x + i, int(n - i))), int(n - i));
}
template <class T, class F> BARACUDA_HD void map2(const T* a, const T* b, T* y, int64_t n, F f) {
  constexpr int N = kLanes<T>;
  int64_t i = 0;
  for (; i + N <= n; i += N) store<T, N>(y + i, f(load<N>(a + i), load<N>(b + i)));
  for (; i < n; ++i) store<T, 1>(y + i, f(load<1>(a + i), load<1>(b + i)));
}
template <class From, class To> void convert_all(const From* x, To* y, int64_t n) {
  constexpr int N = kLanes<float>;
  int64_t i = 0;
  for (; i + 4 * N <= n; i += 4 * N) {
    store_twice<To, N>(y + i, load<N>(x + i), load<N>(x + i + N), false);
    const auto both = load_apart<N>(x + i + 2 * N);
    store_by_turns<To, N>(y + i + 2 * N, both.low, both.high, false);
  }
  for (; i + N <= n; i += N) store<To, N>(y + i, load<N>(x + i));
  if (i < n) store_tail<To, N>(y + i, load_tail<N>(x + i, int(n - i)), int(n - i));
}
template <int N> BARACUDA_HD Brief<N> exp_for_half(Brief<N> x) { return exp_up_for_half<false>(smaller(Brief<N>(0), x)) * kDown<Brief<N>>; }
#define BARACUDA_UNARY(name) [](const T* x, T* y, int64_t n) { map(x, y, n, [](auto v) { return name(v); }); },
#define BARACUDA_OF_BRIEF(name) \
  [](const T* x, T* y, int64_t n) { map(x, y, n, []<int N>(Pack<T, N> v) { return Pack<T, N>::of(name(Brief<N>::of(v.v)).v); }); },
#define BARACUDA_BINARY(name) \
  [](const T* a, const T* b, T* y, int64_t n) { map2(a, b, y, n, [](auto u, auto v) { return name(u, v); }); }
template <class T> constexpr MathFunctions<T> functions() {
  return {BARACUDA_MATH_UNARY(BARACUDA_UNARY) BARACUDA_BINARY(pow), BARACUDA_BINARY(max_nan), BARACUDA_BINARY(min_nan),
          BARACUDA_BINARY(copysign)};
}
void gelu(const float* x, float* y, int64_t n) { map(x, y, n, [](auto v) { return GeluProof{}.fwd(v); }); }
void scan(const float* dy, const float* carry, float* out, int64_t n, int64_t rows) {
  constexpr int N = kLanes<float>;
  for (int64_t r = 0; r + N <= rows; r += N) {
    PackOf<float> s = 0;
    for (int64_t k = n; k-- > 0;) {
      s = CumprodBackwardProof{}.step(load<N>(dy + k * rows + r), load<N>(carry + k * rows + r), s);
      store<float, N>(out + k * rows + r, s);
    }
  }
}
using T = float;

}  // namespace

extern const MathTable math_table = {functions<float>(),
                                     functions<double>(),
                                     {BARACUDA_MATH_BRIEF(BARACUDA_OF_BRIEF)},
                                     convert_all<f16, float>,
                                     convert_all<bf16, float>,
                                     convert_all<float, f16>,
                                     convert_all<float, bf16>,
                                     gelu,
                                     scan,
                                     kLanes<float>};

}  // namespace baracuda
