// For each chunk of kept rows:  logits = x w^T   rows: loss, dlogits in place   dw += dlogits^T x   dx = dlogits w
// 2 tokens hidden classes flops for each of the three products; beside them some 60 flops and 12 bytes per logit, which
// stay in the third-level cache when chunk x classes does. dw is read and written once per chunk.
#include "baracuda/ops/loss/fused_linear_cross_entropy.hpp"
#include <cstring>
#include "baracuda/host/thread_team.hpp"
#include "baracuda/ops/loss/fused_loss_plan.hpp"
#include "baracuda/ops/loss/fused_loss_streamed.hpp"
#include "baracuda/ops/loss/loss_detail.hpp"

namespace baracuda {
namespace {

using namespace fused_loss;

// More rows than the rule where it asks for few: a chunk reads and writes dw and packs w twice, which 64 rows do not pay
// for. 2048 x 512 x 32000 on two Zen 4 cores, fraction of the rate of a 2048^3 product with 64, 256, 512, 1024, 2048 rows:
// f32 .68 .87 .93 .99 1.0, bf16 .66 .87 .87 .88 .92. Not at the price of more than 128 MiB of logits, though.
constexpr ChunkLimits kLimits{1024, int64_t(128) << 20};

// f(row) for the rows of [0, rows), in blocks of about 16384 elements.
template <class F> void for_rows(int64_t rows, int64_t n, int threads, F f) {
  parallel_for(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n)), threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}
void clear(const TensorView& v, int threads) {
  for_rows(v.shape[0], v.shape[1], threads, [&](int64_t i) { std::memset(row_at(v, i), 0, size_t(v.shape[1]) * byte_size(v.dtype)); });
}

// One run of the op.
class Run {
 public:
  explicit Run(const Launch<FusedLinearCrossEntropy>& l)
      : l_(l), d_(l.desc), a_(l.args), s_(*static_cast<const State*>(l.state)), t_(d_), k_(BARACUDA_ISA_PICK(loss_kernels)),
        tokens_(loss_options(d_), a_.target, a_.weights, a_.dloss, 1), dense_(tokens_.kept() == d_.tokens) {
    Carver c = l.carver();
    w_ = carve(d_, s_, DeviceKind::cpu, c);
  }
  Status operator()() {
    start();
    for (int64_t done = 0; done < tokens_.kept();) {
      const Products& p = next(tokens_.kept() - done);
      const int64_t used = std::min(p.rows, tokens_.kept() - done);
      BARACUDA_TRY(piece(p, done, used));
      done += used;
    }
    finish();
    return {};
  }

 private:
  void start() {
    const int64_t n = tokens_.list(w_.kept, w_.loss, w_.z_part);
    if (d_.grad_x && n < d_.tokens)
      for (int64_t i = 0; i < d_.tokens; ++i)
        if (tokens_.target(i) < 0) std::memset(row_at(a_.dx, i), 0, size_t(d_.hidden) * byte_size(d_.dtype));
    if (d_.grad_bias && n) std::memset(w_.dbias, 0, size_t(d_.classes) * sizeof(double));
    if (d_.bias && n && w_.bias) k_.to_acc[d_.weight()](a_.bias.data, w_.bias, d_.classes);
  }
  const Products& next(int64_t rest) const {
    for (const Products& p : s_.pieces)
      if (p.rows <= rest && (!dense_ || p.rows == rest || p.rows == s_.most_rows)) return p;
    return s_.pieces.back();
  }
  int64_t row(int64_t kept) const { return dense_ ? kept : w_.kept[kept]; }
  Status product(const GemmPlan& plan, const TensorView& a, const TensorView& b, const TensorView& c) const {
    return plan.run(l_.stream, {w_.gemm.data, plan.workspace_size()}, {a, b, c, {}});
  }
  // Rows [done, done + used) of the kept ones, computed as p.rows: the rest are zeros.
  Status piece(const Products& p, int64_t done, int64_t used) {
    const int64_t h = d_.hidden, v = d_.classes, acc = int64_t(byte_size(t_.acc));
    TensorView x = a_.x;
    if (dense_) x = matrix(row_at(a_.x, done), d_.dtype, p.rows, h, a_.x.strides[0]);
    else if (uses_x(d_)) x = matrix(w_.x, d_.dtype, p.rows, h, h);
    const TensorView wide_x = matrix(w_.wide_x, t_.acc, p.rows, h, h);
    if (!dense_ || w_.wide_x)
      for_rows(p.rows, h, l_.threads, [&](int64_t r) {
        const char* from = r < used ? row_at(a_.x, row(done + r)) : nullptr;
        if (!dense_ && uses_x(d_)) {
          if (from) std::memcpy(row_at(x, r), from, size_t(h) * byte_size(d_.dtype));
          else std::memset(row_at(x, r), 0, size_t(h) * byte_size(d_.dtype));
        }
        if (w_.wide_x) {
          if (from) k_.to_acc[d_.dtype](from, row_at(wide_x, r), h);
          else std::memset(row_at(wide_x, r), 0, size_t(h * acc));
        }
      });
    const TensorView logits = matrix(w_.logits, t_.acc, p.rows, v, s_.pitch);
    BARACUDA_TRY(product(*p.logits, t_.logits_in == d_.dtype ? x : wide_x, a_.w, logits));

    const bool gradient = any_gradient(d_);
    const auto kernel = t_.dlogits == t_.acc ? k_.row[t_.acc] : k_.row_to_bf16;
    for_rows(p.rows, v, l_.threads, [&](int64_t r) {
      char* at = row_at(logits, r);
      if (r >= used) {
        if (gradient) std::memset(at, 0, size_t(v * acc));
        return;
      }
      const int64_t i = row(done + r);
      LossRow e{};
      e.x = e.scratch = at, e.dx = gradient ? at : nullptr;
      e.bias = !d_.bias ? nullptr : w_.bias ? w_.bias : a_.bias.data;
      e.n = v, e.target = tokens_.target(i), e.g = gradient ? tokens_.gradient(i) : 0;
      e.smoothing = d_.label_smoothing, e.z = d_.z_loss, e.softcap = d_.softcap;
      kernel(e);
      const double weight = tokens_.weight(i);
      w_.loss[i] = weight * e.loss, w_.z_part[i] = weight * e.z_part;
    });
    if (!gradient) return {};
    // The gradient lies in the first bytes of the rows of logits.
    const TensorView dlogits = matrix(w_.logits, t_.dlogits, p.rows, v, s_.pitch * acc / int64_t(byte_size(t_.dlogits)));
    if (d_.grad_bias)
      parallel_for(v, 1024, l_.threads, [&](int64_t begin, int64_t end, int) {
        k_.add_columns[t_.dlogits](dlogits.as<char>() + begin * int64_t(byte_size(t_.dlogits)), dlogits.strides[0], used, end - begin, w_.dbias + begin);
      });
    if (d_.grad_w)
      BARACUDA_TRY(product(done == 0 ? *p.dw_first : *p.dw_more, dlogits, t_.dlogits == d_.dtype ? x : wide_x,
                           dw_is_sum(d_) ? a_.dw : matrix(w_.dw, t_.acc, v, h, h)));
    return d_.grad_x ? gradient_of_x(p, dlogits, done, used) : Status();
  }
  Status gradient_of_x(const Products& p, const TensorView& dlogits, int64_t done, int64_t used) {
    const int64_t h = d_.hidden, v = d_.classes, block = w_block(d_), element = int64_t(byte_size(t_.dlogits));
    const bool direct = dense_ && dx_out(d_) == d_.dtype;
    const TensorView dx = direct ? matrix(row_at(a_.dx, done), d_.dtype, p.rows, h, a_.dx.strides[0]) : matrix(w_.dx, dx_out(d_), p.rows, h, h);
    for (int64_t b = 0; b < v; b += block) {
      const int64_t n = std::min(block, v - b);
      TensorView w = matrix(row_at(a_.w, b), d_.weight(), n, h, a_.w.strides[0]);
      if (widens_w(d_)) {
        const TensorView wide = matrix(w_.wide_w, t_.acc, n, h, h);
        for_rows(n, h, l_.threads, [&](int64_t i) { k_.to_acc[d_.weight()](row_at(w, i), row_at(wide, i), h); });
        w = wide;
      }
      TensorView columns = dlogits;
      columns.data = dlogits.as<char>() + b * element, columns.shape[1] = n;
      BARACUDA_TRY(product(b == 0 ? *p.dx_first : n < block ? *p.dx_last : *p.dx_more, columns, w, dx));
    }
    if (!direct)
      for_rows(used, h, l_.threads, [&](int64_t r) {
        char* to = row_at(a_.dx, row(done + r));
        if (dx_out(d_) == d_.dtype) std::memcpy(to, row_at(dx, r), size_t(h) * byte_size(d_.dtype));
        else k_.from_acc[d_.dtype](row_at(dx, r), to, h, false);
      });
    return {};
  }
  void finish() {
    tokens_.reduce(w_.loss, a_.loss);
    tokens_.reduce(w_.z_part, a_.z_part);
    const bool nothing = tokens_.kept() == 0;
    if (nothing && d_.accumulate) return;
    const DType dw = d_.weight_gradient();
    if (d_.grad_w && nothing) clear(a_.dw, l_.threads);
    else if (d_.grad_w && !dw_is_sum(d_)) {
      const TensorView sums = matrix(w_.dw, t_.acc, d_.classes, d_.hidden, d_.hidden);
      for_rows(d_.classes, d_.hidden, l_.threads, [&](int64_t i) { k_.from_acc[dw](row_at(sums, i), row_at(a_.dw, i), d_.hidden, d_.accumulate); });
    }
    if (d_.grad_bias && nothing) std::memset(a_.dbias.data, 0, size_t(d_.classes) * byte_size(dw));
    else if (d_.grad_bias) k_.from_double[dw](w_.dbias, a_.dbias.data, d_.classes, d_.accumulate);
  }

  const Launch<FusedLinearCrossEntropy>& l_;
  const D& d_;
  const FusedLinearCrossEntropy::Args& a_;
  const State& s_;
  Types t_;
  const LossKernels& k_;
  LossTokens tokens_;
  bool dense_;
  Scratch w_{};
};
Status run_forward(const Launch<FusedLinearCrossEntropy>& l) { return Run(l)(); }

Status validate_fused(std::string_view op, const D& d) {
  BARACUDA_TRY(validate_loss(op, loss_options(d)));
  if (d.hidden < 1) return invalid(op, text("hidden is ", d.hidden, ", at least 1 is needed"));
  if (!Shape{d.tokens, d.hidden}.valid() || !Shape{d.classes, d.hidden}.valid())
    return invalid(op, text("hidden ", d.hidden, " times tokens ", d.tokens, " or classes ", d.classes, " exceeds 2^63 - 1"));
  if (!valid(d.weight()) || !valid(d.weight_gradient())) return invalid(op, "w_dtype or dw_dtype is not a dtype");
  if (d.chunk < 0) return invalid(op, text("chunk is ", d.chunk, ", it must be positive, or 0 to have it chosen"));
  if (d.grad_bias && !d.bias) return invalid(op, "grad_bias without bias");
  return {};
}
Status expect_vector(std::string_view op, std::string_view arg, const TensorView& v, DType dtype, int64_t n) {
  BARACUDA_TRY(expect(op, arg, v, dtype, {n}));
  if (n > 1 && v.strides[0] != 1) return invalid(op, text(arg, " has stride ", v.strides[0], ", it must be dense"));
  return {};
}
// Present if and only if the descriptor says so.
Status expect_flag(std::string_view op, std::string_view arg, std::string_view flag, bool wanted, const TensorView& v) {
  if (wanted != v.absent()) return {};
  return invalid(op, text(arg, wanted ? " is missing, and the plan was made with " : " is given, and the plan was made without ", flag));
}
Status check_gradients(std::string_view op, const D& d, const TensorView& dx, const TensorView& dw, const TensorView& dbias) {
  if (!dx.absent()) BARACUDA_TRY(expect_matrix(op, "dx", dx, d.dtype, d.tokens, d.hidden));
  if (!dw.absent()) BARACUDA_TRY(expect_matrix(op, "dw", dw, d.weight_gradient(), d.classes, d.hidden));
  if (!dbias.absent()) BARACUDA_TRY(expect_vector(op, "dbias", dbias, d.weight_gradient(), d.classes));
  return {};
}

Status run_backward(const Launch<FusedLinearCrossEntropyBackward>& l) {
  const auto& a = l.args;
  const double factor = a.scale * (a.dloss.absent() ? 1 : read_acc(a.dloss, 0));
  if (factor == 1) return {};
  if (l.desc.accumulate)
    return invalid(FusedLinearCrossEntropyBackward::name,
                   text("the factor is ", factor, ", and with accumulate dw and dbias hold other gradients too: give dloss to the forward"));
  const LossKernels& k = BARACUDA_ISA_PICK(loss_kernels);
  for (const TensorView* v : {&a.dx, &a.dw})
    if (!v->absent()) for_rows(v->shape[0], v->shape[1], l.threads, [&](int64_t i) { k.scale[v->dtype](row_at(*v, i), v->shape[1], factor); });
  if (!a.dbias.absent()) k.scale[a.dbias.dtype](a.dbias.data, a.dbias.numel(), factor);
  return {};
}

}  // namespace

Status FusedLinearCrossEntropy::validate(const Descriptor& d) { return validate_fused(name, d); }
Status FusedLinearCrossEntropy::check(const Descriptor& d, const Args& a) {
  const LossOptions o = loss_options(d);
  const Shape losses = loss_shape(d.reduction, d.tokens);
  BARACUDA_TRY(expect_matrix(name, "x", a.x, d.dtype, d.tokens, d.hidden));
  BARACUDA_TRY(expect_matrix(name, "w", a.w, d.weight(), d.classes, d.hidden));
  BARACUDA_TRY(expect_flag(name, "bias", "bias", d.bias, a.bias));
  if (d.bias) BARACUDA_TRY(expect_vector(name, "bias", a.bias, d.weight(), d.classes));
  BARACUDA_TRY(check_loss(name, o, a.target, a.weights, a.dloss));
  BARACUDA_TRY(expect_elements(name, "loss", a.loss, o.acc, losses));
  if (!a.z_part.absent()) BARACUDA_TRY(expect_elements(name, "z_part", a.z_part, o.acc, losses));
  BARACUDA_TRY(expect_flag(name, "dx", "grad_x", d.grad_x, a.dx));
  BARACUDA_TRY(expect_flag(name, "dw", "grad_w", d.grad_w, a.dw));
  BARACUDA_TRY(expect_flag(name, "dbias", "grad_bias", d.grad_bias, a.dbias));
  return check_gradients(name, d, a.dx, a.dw, a.dbias);
}
std::span<const Kernel<FusedLinearCrossEntropy>> FusedLinearCrossEntropy::kernels() {
  static const Kernel<FusedLinearCrossEntropy> list[] = {
      fused_loss_streamed_row(),
      {.name = "fused_linear_cross_entropy.cpu.chunked", .launch = launch_all<FusedLinearCrossEntropy>(Floating{}, run_forward),
       .guarantee = guarantee, .refuse = [](const Descriptor& d, const PlanPreference&) { return refuse_types(d); },
       .carve = [](const Descriptor& d, const void* state, Carver& c) { (void)carve(d, *static_cast<const State*>(state), DeviceKind::cpu, c); },
       .prepare = [](const Stream& s, const Descriptor& d, const PlanPreference& p) { return prepare(s, d, p, kLimits); }}};
  return list;
}

Status FusedLinearCrossEntropyBackward::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_fused(name, d));
  if (d.reduction == Reduction::none)
    return invalid(name, "reduction is none: the gradients of tokens cannot be told apart in dw afterwards; give dloss to the forward");
  return {};
}
Status FusedLinearCrossEntropyBackward::check(const Descriptor& d, const Args& a) {
  if (!a.dloss.absent()) BARACUDA_TRY(expect_elements(name, "dloss", a.dloss, accumulator(d.dtype), {}));
  return check_gradients(name, d, a.dx, a.dw, a.dbias);
}
std::span<const Kernel<FusedLinearCrossEntropyBackward>> FusedLinearCrossEntropyBackward::kernels() {
  static constexpr Kernel<FusedLinearCrossEntropyBackward> list[] = {
      {.name = "fused_linear_cross_entropy_backward.cpu.scale", .launch = launch_all<FusedLinearCrossEntropyBackward>(Floating{}, run_backward),
       .guarantee = guarantee, .refuse = [](const Descriptor& d, const PlanPreference&) { return refuse_types(d); }}};
  return list;
}

}  // namespace baracuda
