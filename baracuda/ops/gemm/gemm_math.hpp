#pragma once
// The last step of a product, for any V: SIMD pack, CUDA thread.
#include "baracuda/ops/gated/gated_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace gemm {

struct Identity { template <class V> BARACUDA_HD static V act(V x) { return x; } };
// In the order of GemmEpilogue.
template <class... A> struct Acts { static constexpr int count = sizeof...(A); };
using Epilogues = Acts<Identity, gated::Relu, gated::Gelu, gated::GeluTanh, gated::Silu>;

// alpha sums + beta c + bias. What the flags say is not there is neither asked for nor added, so that it cannot show: a
// product without k leaves beta c as it is. sums(), c() and bias() load.
template <class V, class Sums, class C, class Bias>
BARACUDA_HD V combine(bool has_sums, bool reads_c, bool has_bias, V alpha, V beta, Sums sums, C c, Bias bias) {
  V y = 0;
  if (has_sums) {
    y = alpha * sums();
    if (reads_c) y = fma(beta, c(), y);
  } else if (reads_c) {
    y = beta * c();
  }
  return has_bias ? y + bias() : y;
}

}  // namespace gemm
}  // namespace baracuda
