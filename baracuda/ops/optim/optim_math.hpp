#pragma once
// The formula of Adam for any V; with v_max that of AMSGrad. Constants of a step are made once, in f64.
#include "baracuda/math/pack.hpp"
#include "baracuda/ops/optim/optim_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace optim {

template <class V> BARACUDA_HD void adam(const AdamStep& s, V g, V& p, V& m, V& v, V* v_max) {
  g = s.grad_scale * g;
  if (s.l2 != 0) g = fma(V(s.l2), p, g);
  else p = p * s.keep;
  m = fma(V(s.one_minus_beta1), g - m, m);
  v = fma(V(s.one_minus_beta2) * g, g, s.beta2 * v);
  V w = v;
  if (v_max) w = *v_max = max_nan(v, *v_max);
  p = fma(V(-s.step_size), m / (sqrt(w) / V(s.root_correction2) + s.eps), p);
}

}  // namespace optim
}  // namespace baracuda
