#pragma once
// A case of the fused loss: tensors, run and oracle. For tests.
#include "baracuda/ops/loss/fused_linear_cross_entropy.hpp"
#include "baracuda/ops/loss/loss_oracle.hpp"

namespace baracuda::testing {

using FusedDescriptor = FusedLinearCrossEntropyDescriptor;

struct FusedCase {
  FusedDescriptor d;
  Tensor x, w, bias, weights, dloss;   // absent ones default-constructed
  std::vector<int64_t> target;
};
struct FusedOutputs { Tensor loss, z_part, dx, dw, dbias; };

inline FusedCase fused_case(const FusedDescriptor& d, uint64_t seed, int ignore_every = 4, bool weights = false, bool dloss = false,
                            Layout layout = Layout::dense) {
  const DType acc = accumulator(d.dtype);
  FusedCase c{d, Tensor::normal(d.dtype, {d.tokens, d.hidden}, seed, 0, 1, layout),
              Tensor::normal(d.weight(), {d.classes, d.hidden}, seed + 1, 0, 1.5 / std::sqrt(double(d.hidden)), layout), {}, {}, {},
              some_targets(d.tokens, d.classes, seed + 2, ignore_every, d.ignore_index)};
  if (d.bias) c.bias = Tensor::normal(d.weight(), {d.classes}, seed + 3);
  if (weights) c.weights = Tensor::uniform(acc, {d.tokens}, seed + 4, 0, 2);
  if (dloss) c.dloss = Tensor::normal(acc, {d.reduction == Reduction::none ? d.tokens : 1}, seed + 5);
  return c;
}
// Outputs, poisoned; dw and dbias hold `before` with accumulate.
inline FusedOutputs fused_outputs(const FusedDescriptor& d, Layout layout = Layout::dense) {
  const DType acc = accumulator(d.dtype), dw = d.weight_gradient();
  const Shape losses = d.reduction == Reduction::none ? Shape{d.tokens} : Shape{1};
  FusedOutputs o{Tensor(acc, losses), Tensor(acc, losses), {}, {}, {}};
  if (d.grad_x) o.dx = Tensor(d.dtype, {d.tokens, d.hidden}, layout);
  if (d.grad_w) o.dw = d.accumulate ? Tensor::normal(dw, {d.classes, d.hidden}, 77, 0, 0.01) : Tensor(dw, {d.classes, d.hidden}, layout);
  if (d.grad_bias) o.dbias = d.accumulate ? Tensor::normal(dw, {d.classes}, 78, 0, 0.01) : Tensor(dw, {d.classes});
  return o;
}
inline Status run_fused(const FusedCase& c, const FusedOutputs& o, const PlanPreference& preference = {}) {
  const Tensor target = target_tensor(c.target, c.d.target_dtype);
  return run_plan<FusedLinearCrossEntropy>(c.d, {c.x, c.w, c.bias, target, c.weights, c.dloss, o.loss, o.z_part, o.dx, o.dw, o.dbias}, preference);
}

struct FusedWant {
  LossWant loss;
  std::vector<double> logits, dx, dw, dbias;
  std::vector<double> dx_scale, dw_scale, dbias_scale;  // with the relative error of the gradient of the logits in them
};
// The row that CUDA takes unasked rounds the logits to bf16 where their gradient is.
inline bool rounds_logits(const FusedDescriptor& d) {
  return on_cuda() && d.dtype == DType::bf16 && d.weight() == DType::bf16 && (d.grad_x || d.grad_w || d.grad_bias);
}
inline constexpr PlanPreference kKept{.require_kernel = "fused_linear_cross_entropy.cuda.kept"};
inline constexpr PlanPreference kFused{.require_kernel = "fused_linear_cross_entropy.cuda.fused"};
inline constexpr PlanPreference kEveryRow{.require_kernel = "fused_linear_cross_entropy.cuda.chunked_bf16"};
inline constexpr PlanPreference kExactLogits{.require_kernel = "fused_linear_cross_entropy.cuda.chunked"};
// round_logits, round_dlogits: what an unfused computation in that dtype would do; f64 for the oracle proper. rounded: the scales allow
// for a rounding of each logit to bf16.
inline FusedWant fused_oracle(const FusedCase& c, DType round_logits, DType round_dlogits, bool rounded_logits) {
  const int64_t t = c.d.tokens, h = c.d.hidden, v = c.d.classes;
  const std::vector<double> x = c.x.values(), w = c.w.values(), bias = c.d.bias ? c.bias.values() : std::vector<double>(size_t(v), 0);
  FusedWant out;
  LossCase l{t, v, {}, c.target, {}, {}, int(c.d.reduction), c.d.ignore_index, c.d.label_smoothing, c.d.z_loss, c.d.softcap,
             c.d.invalid_target == InvalidTarget::zero, c.d.mean_over == MeanOver::weights};
  if (c.weights.numel() == t && !c.weights.view().absent()) l.weights = c.weights.values();
  if (!c.dloss.view().absent()) l.dloss = c.dloss.values();
  std::vector<double> size(size_t(t), 0), most(size_t(t), 0);  // largest sum of |x w| in a row, largest |x w|
  for (int64_t i = 0; i < t; ++i)
    for (int64_t j = 0; j < v; ++j) {
      double s = bias[size_t(j)], m = std::fabs(s);
      for (int64_t k = 0; k < h; ++k) s += x[size_t(i * h + k)] * w[size_t(j * h + k)], m += std::fabs(x[size_t(i * h + k)] * w[size_t(j * h + k)]);
      l.logits.push_back(rounded(round_logits, s));
      size[size_t(i)] = std::max(size[size_t(i)], m);
      most[size_t(i)] = std::max(most[size_t(i)], std::fabs(s - bias[size_t(j)]));
    }
  out.loss = loss_oracle(l);
  out.logits = l.logits;
  auto& dlogits = out.loss.dlogits;
  for (double& e : dlogits) e = rounded(round_dlogits, e);
  // A relative error of the accumulator in a logit is an absolute one of size times that in dlogits over p. A rounding to bf16 of the
  // logit and of the others in the sum: two of most times its unit, in those that a comparison with 4 terms allows, 12 of f32.
  for (size_t i = 0; i < size.size() && rounded_logits; ++i) size[i] += 2 * most[i] * unit_roundoff(DType::bf16) / (12 * unit_roundoff(DType::f32));
  std::vector<double> scale = out.loss.dlogits_scale;
  const bool halves = c.d.dtype == DType::bf16 && c.d.weight() == DType::bf16;
  for (int64_t i = 0; i < t; ++i)
    for (int64_t j = 0; j < v; ++j) {
      double& s = scale[size_t(i * v + j)];
      s *= 1 + size[size_t(i)];
      if (halves) s += std::fabs(dlogits[size_t(i * v + j)]) * unit_roundoff(DType::bf16) / (4 * unit_roundoff(DType::f32));
    }
  out.dx.assign(size_t(t * h), 0), out.dw.assign(size_t(v * h), 0), out.dbias.assign(size_t(v), 0);
  out.dx_scale = out.dx, out.dw_scale = out.dw, out.dbias_scale = out.dbias;
  for (int64_t i = 0; i < t; ++i)
    for (int64_t j = 0; j < v; ++j) {
      const double g = dlogits[size_t(i * v + j)], s = scale[size_t(i * v + j)];
      if (s == 0) continue;  // an ignored row counts nowhere, whatever is in x
      out.dbias[size_t(j)] += g, out.dbias_scale[size_t(j)] += s;
      for (int64_t k = 0; k < h; ++k) {
        const double xv = x[size_t(i * h + k)], wv = w[size_t(j * h + k)];
        out.dx[size_t(i * h + k)] += g * wv, out.dx_scale[size_t(i * h + k)] += s * std::fabs(wv);
        out.dw[size_t(j * h + k)] += g * xv, out.dw_scale[size_t(j * h + k)] += s * std::fabs(xv);
      }
    }
  if (c.d.reduction == Reduction::none)
    for (int64_t i = 0; i < t; ++i) out.loss.loss_scale[size_t(i)] *= 1 + size[size_t(i)];
  else {
    double most = 0;
    for (double s : size) most = std::max(most, s);
    out.loss.loss_scale[0] *= 1 + most;
  }
  return out;
}
inline FusedWant fused_oracle(const FusedCase& c) { return fused_oracle(c, DType::f64, DType::f64, rounds_logits(c.d)); }
// Everything that the descriptor asks for, against the oracle; `before` are the contents of dw and dbias.
inline void expect_fused(const FusedCase& c, const FusedOutputs& o, const FusedWant& want, const std::vector<double>& dw_before = {},
                         const std::vector<double>& dbias_before = {}) {
  EXPECT_CLOSE(o.loss, want.loss.loss, {.ulps = 1, .terms = 4}, &want.loss.loss_scale);
  EXPECT_CLOSE(o.z_part, want.loss.z_part, {.ulps = 1, .terms = 4}, &want.loss.loss_scale);
  auto sum = [](std::vector<double> a, const std::vector<double>& b) {
    for (size_t i = 0; i < b.size(); ++i) a[i] += b[i];
    return a;
  };
  if (c.d.grad_x) EXPECT_CLOSE(o.dx, want.dx, {.ulps = 1, .terms = 4}, &want.dx_scale);
  if (c.d.grad_w) EXPECT_CLOSE(o.dw, sum(want.dw, dw_before), {.ulps = 1, .terms = 4}, &want.dw_scale);
  if (c.d.grad_bias) EXPECT_CLOSE(o.dbias, sum(want.dbias, dbias_before), {.ulps = 1, .terms = 4}, &want.dbias_scale);
  for (const Tensor* t : {&o.loss, &o.z_part, &o.dx, &o.dw, &o.dbias})
    if (!t->view().absent()) EXPECT_TRUE(t->guards_intact());
}

}  // namespace baracuda::testing
