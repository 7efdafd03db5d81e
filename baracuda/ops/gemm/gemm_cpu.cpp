// c = act(alpha sums + beta c + bias) over one block. Reads the sums (and c, and bias), writes c: a few bytes per element
// while the product behind it costs 2 k flops; blocks are in the second cache, so the floor is a load and a store.
#include "baracuda/math/element.hpp"
#include "baracuda/ops/gemm/gemm_cpu.hpp"
#include "baracuda/ops/gemm/gemm_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

// `count` elements with a stride, as lanes.
template <class T, int N> BARACUDA_HD Pack<Acc<T>, N> fetch(const T* p, int64_t stride, int count) {
  using V = Pack<Acc<T>, N>;
  if (stride == 1) return count == N ? load<N>(p) : load_tail<N>(p, count);
  if (stride == 0) return V(double(load<1>(p).v));
  V x = 0;
  for (int i = 0; i < count; ++i) x.set_lane(i, load<1>(p + i * stride).v);
  return x;
}

// kPlain: dense c that is not read, no bias; what remains is a scaled copy.
template <bool kPlain, class Act, class T, class C> void rows(const GemmFinish& f) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  const V alpha = f.alpha, beta = f.beta;
  const bool reads_c = !kPlain && f.beta != 0, has_bias = !kPlain && f.bias, dense = kPlain || f.c_col == 1, has_sums = kPlain || f.sums;
  for (int64_t i = 0; i < f.m; ++i) {
    const A* sums = static_cast<const A*>(f.sums) + (has_sums ? i * f.sums_row : 0);
    C* c = static_cast<C*>(f.c) + i * f.c_row;
    const T* bias = static_cast<const T*>(f.bias) + (has_bias ? i * f.bias_row : 0);
    auto step = [&](int64_t j, int count) __attribute__((always_inline)) {
      const V y = Act::act(gemm::combine(has_sums, reads_c, has_bias, alpha, beta,
                                         [&]() __attribute__((always_inline)) { return fetch<A, N>(sums + j, 1, count); },
                                         [&]() __attribute__((always_inline)) { return fetch<C, N>(c + j * f.c_col, f.c_col, count); },
                                         [&]() __attribute__((always_inline)) { return fetch<T, N>(bias + j * f.bias_col, f.bias_col, count); }));
      if (dense) count == N ? store<C, N>(c + j, y) : store_tail<C, N>(c + j, y, count);
      else for (int l = 0; l < count; ++l) store<C, 1>(c + (j + l) * f.c_col, Pack<A, 1>::of(y.lane(l)));
    };
    int64_t j = 0;
    for (; j + N <= f.n; j += N) step(j, N);
    if (j < f.n) step(j, int(f.n - j));
  }
}
template <class Act, class T, class C> void finish(const GemmFinish& f) {
  if (f.c_col == 1 && f.beta == 0 && !f.bias && f.sums) rows<true, Act, T, C>(f);
  else rows<false, Act, T, C>(f);
}
template <bool kWide, class... Act> constexpr void fill(ByDType<GemmFinishRun> (&table)[kGemmEpilogues], gemm::Acts<Act...>) {
  static_assert(sizeof...(Act) == kGemmEpilogues);
  int e = 0;
  ((table[e++] = by_dtype<GemmFinishRun>(Floating{}, []<class T>() -> GemmFinishRun {
    if constexpr (kWide) return &finish<Act, T, Acc<T>>;
    else return &finish<Act, T, T>;
  })), ...);
}
constexpr GemmKernels make() {
  GemmKernels k;
  fill<false>(k.finish[0], gemm::Epilogues{});
  fill<true>(k.finish[1], gemm::Epilogues{});
  return k;
}

}  // namespace
extern constexpr GemmKernels gemm_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
