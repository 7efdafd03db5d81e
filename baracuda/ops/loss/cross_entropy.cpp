#include "baracuda/ops/loss/cross_entropy.hpp"
#include <cstring>
#include "baracuda/host/thread_team.hpp"
#include "baracuda/ops/loss/loss_detail.hpp"

namespace baracuda {
namespace {

Status check_gradient(std::string_view op, const CrossEntropyDescriptor& d, const TensorView& logits, const TensorView& dlogits) {
  BARACUDA_TRY(expect_matrix(op, "dlogits", dlogits, d.dtype, d.tokens, d.classes));
  const bool same = dlogits.data == logits.data && (d.tokens == 1 || dlogits.strides[0] == logits.strides[0]);
  if (same && !d.in_place && d.tokens > 0) return invalid(op, "dlogits overlaps logits: they are the same tensor, and the plan was made without in_place");
  return {};
}
PrecisionGuarantee guarantee(const CrossEntropyDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = d.reduction == Reduction::none};
}
// Rows per block of work: some 16384 elements.
int64_t grain(const CrossEntropyDescriptor& d) { return d.classes < 16384 ? 16384 / d.classes : 1; }

// Capped halves wait in f32, a row per worker, rather than be capped in each pass.
float* carve_capped(const CrossEntropyDescriptor& d, Carver& c) {
  return d.softcap > 0 && d.dtype != accumulator(d.dtype) && d.tokens ? c.take<float>("capped logits of a row", Shape{c.threads(), d.classes}.numel()) : nullptr;
}
template <class Args>
LossRow row_of(const CrossEntropyDescriptor& d, const Args& a, const LossTokens& tokens, int64_t i, int64_t target, float* capped) {
  const int64_t size = int64_t(byte_size(d.dtype));
  LossRow r{};
  r.x = a.logits.template as<char>() + i * a.logits.row_stride() * size;
  if (!a.dlogits.absent()) {
    r.dx = a.dlogits.template as<char>() + i * a.dlogits.row_stride() * size;
    r.scratch = r.dx;
    r.g = tokens.gradient(i);
  }
  if (accumulator(d.dtype) != d.dtype) r.scratch = capped;
  r.n = d.classes, r.target = target;
  r.smoothing = d.label_smoothing, r.z = d.z_loss, r.softcap = d.softcap;
  return r;
}
template <class Args> void zero_row(const CrossEntropyDescriptor& d, const Args& a, int64_t i) {
  if (a.dlogits.absent()) return;
  const int64_t size = int64_t(byte_size(d.dtype));
  std::memset(a.dlogits.template as<char>() + i * a.dlogits.row_stride() * size, 0, size_t(d.classes * size));
}

struct RowLosses { double *loss, *z; };
RowLosses carve_rows(const CrossEntropyDescriptor& d, Carver& c) {
  double* loss = c.take<double>("loss per row", d.tokens);
  return {loss, c.take<double>("z part per row", d.tokens)};
}
Status run_forward(const Launch<CrossEntropy>& l) {
  const CrossEntropyDescriptor& d = l.desc;
  const auto& a = l.args;
  Carver carver = l.carver();
  const RowLosses rows = carve_rows(d, carver);
  float* capped = carve_capped(d, carver);
  const LossTokens tokens(loss_options(d), a.target, a.weights, a.dloss, 1);
  const auto kernel = BARACUDA_ISA_PICK(loss_kernels).row[d.dtype];
  parallel_for(d.tokens, grain(d), l.threads, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t t = tokens.target(i);
      double lse = 0;
      if (t >= 0) {
        LossRow r = row_of(d, a, tokens, i, t, capped ? capped + worker * d.classes : nullptr);
        kernel(r);
        const double w = tokens.weight(i);
        rows.loss[i] = w * r.loss, rows.z[i] = w * r.z_part, lse = r.lse;
      } else {
        rows.loss[i] = rows.z[i] = lse = t == LossTokens::kInvalid ? NAN : 0;
        zero_row(d, a, i);
      }
      if (!a.lse.absent()) write_acc(a.lse, i, lse);
    }
  });
  tokens.reduce(rows.loss, a.loss);
  tokens.reduce(rows.z, a.z_part);
  return {};
}
Status run_backward(const Launch<CrossEntropyBackward>& l) {
  const CrossEntropyDescriptor& d = l.desc;
  const auto& a = l.args;
  Carver carver = l.carver();
  float* capped = carve_capped(d, carver);
  const LossTokens tokens(loss_options(d), a.target, a.weights, a.dloss, a.scale);
  const auto kernel = BARACUDA_ISA_PICK(loss_kernels).row[d.dtype];
  parallel_for(d.tokens, grain(d), l.threads, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t t = tokens.target(i);
      if (t < 0) {
        zero_row(d, a, i);
        continue;
      }
      LossRow r = row_of(d, a, tokens, i, t, capped ? capped + worker * d.classes : nullptr);
      r.lse_known = !a.lse.absent();
      if (r.lse_known) r.lse = read_acc(a.lse, i);
      kernel(r);
    }
  });
  return {};
}

}  // namespace

Status CrossEntropy::validate(const Descriptor& d) { return validate_loss(name, loss_options(d)); }
Status CrossEntropy::check(const Descriptor& d, const Args& a) {
  const LossOptions o = loss_options(d);
  const Shape losses = loss_shape(d.reduction, d.tokens);
  BARACUDA_TRY(expect_matrix(name, "logits", a.logits, d.dtype, d.tokens, d.classes));
  BARACUDA_TRY(check_loss(name, o, a.target, a.weights, a.dloss));
  BARACUDA_TRY(expect_elements(name, "loss", a.loss, o.acc, losses));
  if (!a.z_part.absent()) BARACUDA_TRY(expect_elements(name, "z_part", a.z_part, o.acc, losses));
  if (!a.lse.absent()) BARACUDA_TRY(expect_elements(name, "lse", a.lse, o.acc, {d.tokens}));
  if (d.grad_logits == a.dlogits.absent())
    return invalid(name, d.grad_logits ? "dlogits is missing, and the plan was made with grad_logits"
                                       : "dlogits is given, and the plan was made without grad_logits");
  return d.grad_logits ? check_gradient(name, d, a.logits, a.dlogits) : Status();
}
std::span<const Kernel<CrossEntropy>> CrossEntropy::kernels() {
  static constexpr Kernel<CrossEntropy> list[] = {
      {.name = "cross_entropy.cpu.row", .launch = launch_all<CrossEntropy>(Floating{}, run_forward), .guarantee = guarantee,
       .carve = [](const Descriptor& d, const void*, Carver& c) { (void)carve_rows(d, c), (void)carve_capped(d, c); }}};
  return list;
}

Status CrossEntropyBackward::validate(const Descriptor& d) { return validate_loss(name, loss_options(d)); }
Status CrossEntropyBackward::check(const Descriptor& d, const Args& a) {
  const LossOptions o = loss_options(d);
  BARACUDA_TRY(expect_matrix(name, "logits", a.logits, d.dtype, d.tokens, d.classes));
  BARACUDA_TRY(check_loss(name, o, a.target, a.weights, a.dloss));
  if (!a.lse.absent()) BARACUDA_TRY(expect_elements(name, "lse", a.lse, o.acc, {d.tokens}));
  return check_gradient(name, d, a.logits, a.dlogits);
}
std::span<const Kernel<CrossEntropyBackward>> CrossEntropyBackward::kernels() {
  static constexpr Kernel<CrossEntropyBackward> list[] = {
      {.name = "cross_entropy_backward.cpu.row", .launch = launch_all<CrossEntropyBackward>(Floating{}, run_backward), .guarantee = guarantee,
       .carve = [](const Descriptor& d, const void*, Carver& c) { (void)carve_capped(d, c); }}};
  return list;
}

}  // namespace baracuda
