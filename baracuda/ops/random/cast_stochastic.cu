// Rounding by chance: a thread makes two blocks of Philox words and rounds eight elements (four of f64) by them. x and y move once: the floor is memory bandwidth.
#include "baracuda/ops/random/cast_stochastic_cuda.hpp"
#include "baracuda/ops/random/cast_stochastic_math.hpp"
#include "baracuda/ops/random/random_words.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class From> inline constexpr int kTogether = sizeof(From) == 8 ? 4 : 8;
template <class From, class To> __global__ void __launch_bounds__(kBlock) cast_stochastic_kernel(const __grid_constant__ CastStochasticCuda p) {
  constexpr int E = kTogether<From>;
  const From* x = static_cast<const From*>(p.x);
  To* y = static_cast<To*>(p.y);
  const bool together = whole<From, E>(p.words, p.walk, 0, x) && whole<To, E>(p.words, p.walk, 1, y);
  for_words<E, 1>(p.words, [&](int64_t first, const uint32_t(&w)[E]) {
    if (together && first + E <= p.words.n) {
      const Stretch<From, E> in = *reinterpret_cast<const Stretch<From, E>*>(x + first);
      Stretch<To, E> out;
#pragma unroll
      for (int j = 0; j < E; ++j) out.lane[j] = stochastic::rounded<To>(in.lane[j], w[j], p.saturate);
      return put(y + first, out);
    }
#pragma unroll
    for (int j = 0; j < E; ++j) {
      if (first + j < 0 || first + j >= p.words.n) continue;
      int64_t at[2];
      p.walk.offsets(first + j, at);
      y[at[1]] = stochastic::rounded<To>(x[at[0]], w[j], p.saturate);
    }
  });
}
using CastLaunch = int (*)(const CastStochasticCuda&, void*);
template <class From, class To> int cast(const CastStochasticCuda& p, void* stream) {
  return device::launch(cast_stochastic_kernel<From, To>, blocks(p.words, kTogether<From>), kBlock, 0, stream, p);
}
template <class From, class... To> constexpr ByDType<CastLaunch> row(TypeList<To...>) {
  ByDType<CastLaunch> r;
  ((r[kDTypeOf<To>] = cast<From, To>), ...);
  return r;
}
template <class... From> constexpr ByDType<ByDType<CastLaunch>> table(TypeList<From...>) {
  ByDType<ByDType<CastLaunch>> t;
  ((t[kDTypeOf<From>] = row<From>(join(TypeList<f16, bf16>{}, Float8{}))), ...);
  return t;
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<ByDType<int (*)(const CastStochasticCuda&, void*)>> cast_stochastic_cuda = table(Floating{});

}  // namespace baracuda
