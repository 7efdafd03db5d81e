// The chunk loop on CUDA. How many rows count is known on the device alone. The row `kept` (sm_90) gathers them, and its products (gemm_sm90.cu) read the
// count: chunks behind it do nothing. In the others every chunk runs, and rows that do not count are cleared: in x for dw, in the gradient of the
// logits, in dx. Floor: three products; beside them each logit is written once, read
// twice and written as a gradient, and dw is read and written once per chunk.
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/gemm/gemm_sm90.hpp"
#include "baracuda/ops/loss/fused_loss_cuda.hpp"
#include "baracuda/ops/loss/fused_loss_plan.hpp"
#include "baracuda/ops/loss/loss_cuda_args.hpp"

namespace baracuda {
namespace {

using namespace fused_loss;
constexpr std::string_view kName = "fused_linear_cross_entropy.cuda.chunked";

// A chunk reads and writes an f32 dw, 8 bytes for the 6 x rows flops of an element of w: on an H200 244 / rows of the products' time.
// Chunks of 512 rows take as long as slices, which compute the logits twice.
constexpr int64_t kMostRows = 16384, kMostBytes = int64_t(1) << 30, kLeastRows = 512;
// Of kept, unasked: dw by its own products waits for what is there already. 16384 x 4096 x 128256 by chunks of 2048 rows: 92.6 ms, chunked_bf16 in the same 512 MiB 84.3.
constexpr int64_t kLeastRowsOfKept = 4096;

class Run {
 public:
  explicit Run(const Launch<FusedLinearCrossEntropy>& l)
      : l_(l), d_(l.desc), a_(l.args), s_(*static_cast<const State*>(l.state)), t_(d_), k_(loss_cuda_kernels), f_(fused_loss_cuda_kernels) {
    Carver c = l.carver();
    w_ = carve(d_, s_, DeviceKind::cuda, c);
    tokens_ = tokens_of(d_, a_, 1, w_.factor);
  }
  Status operator()() {
    BARACUDA_TRY(queue([&](void* stream) { return k_.denominator[t_.acc](tokens_, stream); }));
    if (d_.tokens && d_.bias && w_.bias) BARACUDA_TRY(copy(f_.widen[d_.weight()], vector(a_.bias.data, d_.weight()), vector(w_.bias, t_.acc)));
    if (s_.kept && d_.tokens && engine_reads()) {
      BARACUDA_TRY(s_.fused ? fused() : kept());
      return finish();
    }
    const bool chunks_in_dw = s_.rows_in_dw && a_.dw.strides[0] == d_.hidden;
    if (chunks_in_dw) w_.logits = in_dw(0);
    const int64_t most = chunks_in_dw ? s_.rows_in_dw : s_.most_rows;
    for (int64_t done = 0; done < d_.tokens; done += most) {
      const int64_t rows = std::min(most, d_.tokens - done);
      for (const Products& p : chunks_in_dw ? s_.pieces_in_dw : s_.pieces)
        if (p.rows == rows) { BARACUDA_TRY(piece(p, done)); break; }
    }
    if (s_.slice && d_.tokens) BARACUDA_TRY(slices());
    return finish();
  }

 private:
  template <class F> Status queue(F f) const { return device::queue(l_.stream, kName, [&] { return f(l_.stream.handle); }); }
  TensorView view(const void* p, DType t, int64_t rows, int64_t n, int64_t pitch) const { return matrix(p, t, rows, n, pitch, l_.stream.device); }
  TensorView vector(const void* p, DType t) const { return view(p, t, 1, d_.classes, d_.classes); }
  TensorView rows_of(const TensorView& v, int64_t first, int64_t rows) const { return view(row_at(v, first), v.dtype, rows, v.shape[1], v.strides[0]); }
  // `first`: the token of row 0, where rows that do not count are cleared; -1: none is.
  Status copy(FusedLossCopyRun run, const TensorView& from, const TensorView& to, int64_t first = -1, bool add = false) const {
    const FusedLossCopy c{tokens_, first, first >= 0, add, from.data, to.data, from.strides[0], to.strides[0], to.shape[0], to.shape[1], {}};
    return queue([&](void* stream) { return run(c, stream); });
  }
  // Room in rows of dw that are not written yet.
  void* in_dw(int64_t row) const { return reinterpret_cast<void*>((uintptr_t(row_at(a_.dw, row)) + kAlignInDw - 1) / kAlignInDw * kAlignInDw); }
  Status product(const GemmPlan& plan, const TensorView& a, const TensorView& b, const TensorView& c) const {
    return plan.run(l_.stream, {w_.gemm.data, plan.workspace_size()}, {a, b, c, {}});
  }
  Status piece(const Products& p, int64_t done) const {
    const int64_t h = d_.hidden, v = d_.classes, logit = int64_t(byte_size(s_.logits));
    const TensorView x = rows_of(a_.x, done, p.rows), wide_x = view(w_.wide_x, t_.acc, p.rows, h, h);
    // Rows of dx are written last, and hold those of x until then.
    const bool of_w = d_.grad_w && !s_.slice, clears_x = of_w && t_.dlogits == d_.dtype;
    const TensorView clear_x = d_.grad_x ? rows_of(a_.dx, done, p.rows) : view(w_.x, d_.dtype, p.rows, h, h);
    if (clears_x) BARACUDA_TRY(copy(f_.same[d_.dtype], x, clear_x, done));
    if (w_.wide_x) BARACUDA_TRY(copy(f_.widen[d_.dtype], x, wide_x, done));
    BARACUDA_TRY(product(*p.logits, t_.logits_in == d_.dtype ? x : wide_x, a_.w, view(w_.logits, s_.logits, p.rows, v, s_.pitch)));

    // The gradient lies where the logits were; one of half their size in the second half of each row.
    const int64_t parts = logit / int64_t(byte_size(t_.dlogits));
    const TensorView dlogits = view(static_cast<char*>(w_.logits) + (parts - 1) * s_.pitch * logit / 2, t_.dlogits, p.rows, v, s_.pitch * parts);
    LossCudaRows r = rows_from(s_.pitch, dlogits, done, 0);
    if (!(d_.grad_x || d_.grad_bias || of_w)) r.dx = nullptr;
    r.loss = w_.loss, r.z_part = w_.z_part, r.total = w_.total;
    if (s_.slice) r.lse_out = DeviceVector::of(lse());
    BARACUDA_TRY(rows(r));

    if (d_.grad_bias) {
      const FusedLossColumns c{dlogits.data, dlogits.strides[0], p.rows, v, w_.dbias, done > 0, 0, {}};
      BARACUDA_TRY(queue([&](void* stream) { return f_.columns[t_.dlogits](c, stream); }));
    }
    if (of_w)
      BARACUDA_TRY(product(done == 0 ? *p.dw_first : *p.dw_more, dlogits, t_.dlogits == d_.dtype ? clear_x : wide_x,
                           w_.dw ? view(w_.dw, t_.acc, v, h, h) : a_.dw));
    return d_.grad_x ? gradient_of_x(p, dlogits, done) : Status();
  }
  // Chunks of the rows that count, the last one first: rows of dx hold the gathered rows of x of their own chunk, and what dx gets lies where later
  // tokens are, so that no chunk finds results of another one in its place.
  bool engine_reads() const {
    const auto reads = [](const TensorView& v) {
      return uintptr_t(v.data) % 16 == 0 && v.strides[0] * int64_t(byte_size(v.dtype)) % 16 == 0 && v.strides[0] >= (v.shape[0] > 1 ? 1 : 0);
    };
    return reads(a_.w) && (d_.grad_x ? reads(a_.dx) : d_.hidden * int64_t(byte_size(d_.dtype)) % 16 == 0);
  }
  LossKept all() const { return {w_.kept, w_.count}; }
  Status keep() const {
    return queue([&](void* stream) { return k_.keep({tokens_, w_.kept, w_.count, w_.loss, w_.z_part, w_.target}, stream); });
  }
  // Rows of x that count, from `first` on, in order.
  Status gather(const TensorView& x, int64_t first) const {
    const FusedLossCopy c{tokens_, first, false, false, a_.x.data, x.data, a_.x.strides[0], x.strides[0], x.shape[0], d_.hidden, all()};
    return queue([&](void* stream) { return f_.same[d_.dtype](c, stream); });
  }
  const float* bias_at(int64_t first_class) const {
    return d_.bias ? static_cast<const float*>(w_.bias ? w_.bias : a_.bias.data) + first_class : nullptr;
  }
  Status kept() const {
    BARACUDA_TRY(keep());
    for (int64_t done = (d_.tokens - 1) / s_.most_rows * s_.most_rows; done >= 0; done -= s_.most_rows) {
      const int64_t rows = std::min(s_.most_rows, d_.tokens - done), h = d_.hidden, v = d_.classes;
      const TensorView x = d_.grad_x ? rows_of(a_.dx, done, rows) : view(w_.x, d_.dtype, rows, h, h), logits = view(w_.logits, s_.logits, rows, v, s_.pitch);
      BARACUDA_TRY(gather(x, done));
      const GemmSm90Side x_terms{x.data, x.strides[0], true}, w_terms{a_.w.data, a_.w.strides[0], true}, slope{logits.data, s_.pitch, false}, slope_across{logits.data, s_.pitch, true};
      const GemmSm90 of_logits{rows, v, h, {x.data, x.strides[0], false}, {a_.w.data, a_.w.strides[0], false}, logits.data, s_.pitch, false, false, GemmSm90::kRows, w_.count, done, nullptr};
      LossCudaRows r = rows_from(s_.pitch, logits, done, 0);
      r.loss = w_.loss, r.z_part = w_.z_part, r.total = w_.total, r.kept = all();
      r.capped = d_.bias || d_.softcap > 0, r.bias = nullptr;
      if (r.capped) BARACUDA_TRY(queue([&](void* stream) { return fused_product_kernels.logits({of_logits, 0, bias_at(0), d_.softcap, nullptr, nullptr, nullptr, nullptr, nullptr}, stream); }));
      else BARACUDA_TRY(queue([&](void* stream) { return gemm_sm90[d_.dtype](of_logits, stream); }));
      BARACUDA_TRY(this->rows(r));
      BARACUDA_TRY(sum_columns(logits, 0, done));
      const bool wide = w_.dw || a_.dw.dtype == DType::f32;
      const auto product = [&](const GemmSm90& g) { return queue([&](void* stream) { return gemm_sm90[d_.dtype](g, stream); }); };
      if (done == 0 && last_chunk_writes_dw()) {
        const GemmSm90 g{v, h, rows, slope_across, x_terms, a_.dw.data, a_.dw.strides[0], false, false, GemmSm90::kTerms, w_.count, done, nullptr};
        BARACUDA_TRY(queue([&](void* stream) { return fused_product_kernels.last({g, static_cast<const float*>(w_.dw), h}, stream); }));
      } else if (d_.grad_w)
        BARACUDA_TRY(product({v, h, rows, slope_across, x_terms, w_.dw ? w_.dw : a_.dw.data, w_.dw ? h : a_.dw.strides[0], wide, !w_.dw && d_.accumulate, GemmSm90::kTerms, w_.count, done, nullptr}));
      if (d_.grad_x) BARACUDA_TRY(product({rows, h, v, slope, w_terms, a_.dx.data, a_.dx.strides[0], false, false, GemmSm90::kRows, w_.count, done, w_.kept}));
    }
    return d_.grad_x ? clear_dx() : Status();
  }
  // dw, rounded from what it is in f32 and the terms of that chunk.
  bool last_chunk_writes_dw() const { return s_.kept && !s_.fused && engine_reads() && w_.dw && !d_.accumulate && d_.hidden % 4 == 0; }
  // Rows of dx that do not count.
  Status clear_dx() const { return copy(f_.same[d_.dtype], view(nullptr, d_.dtype, d_.tokens, d_.hidden, d_.hidden), a_.dx, 0); }
  Status sum_columns(const TensorView& dlogits, int64_t first_class, int64_t done) const {
    if (!d_.grad_bias) return {};
    const FusedLossColumns c{dlogits.data, dlogits.strides[0], dlogits.shape[0], dlogits.shape[1], w_.dbias + first_class, false, done, all()};
    return queue([&](void* stream) { return f_.columns[t_.dlogits](c, stream); });
  }
  // All rows that count: statistics of their logits, which are not stored; then, for one slice of the classes after another, the logits again, as their
  // gradients, and both products of these. dx holds the rows of x until it is written, and dw what has no room elsewhere until its rows are: slices are the wider the
  // more of them are left, so that dx is read and written less often.
  Status fused() const {
    BARACUDA_TRY(keep());
    const int64_t n = d_.tokens, h = d_.hidden, v = d_.classes;
    const TensorView x = d_.grad_x ? rows_of(a_.dx, 0, n) : view(w_.x, d_.dtype, n, h, h);
    BARACUDA_TRY(gather(x, 0));
    const bool dw_is_free = !d_.accumulate && a_.dw.strides[0] == h;
    const auto product = [&](int64_t first, int64_t rows, int64_t first_class, int64_t classes, void* to, int64_t pitch) {
      const GemmSm90 g{rows, classes, h, {row_at(x, first), x.strides[0], false}, {row_at(a_.w, first_class), a_.w.strides[0], false}, to, pitch, false, false,
                       GemmSm90::kRows, w_.count, first, nullptr};
      return FusedProduct{g, first_class, bias_at(first_class), d_.softcap, w_.target, nullptr, nullptr, w_.at_target, w_.slopes};
    };
    // The parts lie where slices will be.
    const bool parts_in_dw = dw_is_free && statistics_fit_dw(d_);
    const int64_t tiles = (v + kFusedColumns - 1) / kFusedColumns, most = parts_in_dw ? n : statistics_rows(d_, s_);
    for (int64_t first = 0; first < n; first += most) {
      const int64_t rows = std::min(most, n - first);
      FusedProduct p = product(first, rows, 0, v, nullptr, s_.slice_pitch);
      p.parts = static_cast<FusedPart*>(parts_in_dw ? in_dw(0) : w_.logits), p.totals = d_.label_smoothing > 0 ? reinterpret_cast<float*>(p.parts + tiles * rows) : nullptr;
      BARACUDA_TRY(queue([&](void* stream) { return fused_product_kernels.statistics(p, stream); }));
      LossCudaRows r = rows_from(0, view(nullptr, t_.dlogits, rows, v, 0), first, 0);
      r.loss = w_.loss, r.z_part = w_.z_part, r.kept = all();
      BARACUDA_TRY(queue([&](void* stream) { return fused_product_kernels.join({r, rows, p.parts, p.totals, w_.at_target, w_.slopes}, stream); }));
    }
    for (int64_t first = 0, classes = 0; first < v; first += classes) {
      const Slice wider = dw_is_free ? slice_in_dw(d_, s_, first) : Slice{0, 0};
      classes = wider.classes ? wider.classes : std::min(s_.slice, v - first);
      const int64_t pitch = wider.classes ? wider.pitch : s_.slice_pitch;
      const TensorView slope = view(wider.classes ? in_dw(first + classes) : w_.logits, t_.dlogits, n, classes, pitch), dw = rows_of(a_.dw, first, classes);
      BARACUDA_TRY(queue([&](void* stream) { return fused_product_kernels.gradients(product(0, n, first, classes, slope.data, pitch), stream); }));
      BARACUDA_TRY(sum_columns(slope, first, 0));
      const bool wide = dw.dtype == DType::f32;
      const GemmSm90 of_w{classes, h, n, {slope.data, pitch, true}, {x.data, x.strides[0], true}, dw.data, dw.strides[0], wide, wide && d_.accumulate, GemmSm90::kTerms, w_.count, 0, nullptr};
      const GemmSm90 of_x{n, h, classes, {slope.data, pitch, false}, {row_at(a_.w, first), a_.w.strides[0], true}, w_.dx, h, true, first > 0, GemmSm90::kRows, w_.count, 0, nullptr};
      BARACUDA_TRY(queue([&](void* stream) { return d_.grad_x ? gemm_sm90_both(of_w, of_x, stream) : gemm_sm90[d_.dtype](of_w, stream); }));
    }
    if (!d_.grad_x) return {};
    FusedLossCopy c{tokens_, 0, false, false, w_.dx, a_.dx.data, h, a_.dx.strides[0], n, h, all()};
    c.scatter = true;
    BARACUDA_TRY(queue([&](void* stream) { return f_.narrow[d_.dtype](c, stream); }));
    return clear_dx();
  }
  // dlogits in the place of logits, whose rows are x_pitch apart.
  LossCudaRows rows_from(int64_t x_pitch, const TensorView& dlogits, int64_t first, int64_t first_column) const {
    LossCudaRows r{};
    r.t = tokens_;
    const void* const bias = w_.bias ? w_.bias : a_.bias.data;
    r.x = w_.logits, r.x_pitch = x_pitch, r.bias = d_.bias ? static_cast<const char*>(bias) + first_column * int64_t(byte_size(t_.acc)) : nullptr;
    r.dx = dlogits.data, r.dx_pitch = dlogits.strides[0];
    r.first = first, r.rows = dlogits.shape[0], r.first_column = first_column, r.columns = dlogits.shape[1];
    r.smoothing = d_.label_smoothing, r.z = d_.z_loss, r.softcap = d_.softcap;
    return r;
  }
  Status rows(const LossCudaRows& r) const {
    return queue([&](void* stream) { return (s_.logits == t_.dlogits ? k_.rows[s_.logits] : k_.rows_to_bf16)(r, stream); });
  }
  TensorView lse() const { return TensorView::dense(w_.lse, t_.acc, {d_.tokens}, l_.stream.device); }
  // The logits of some classes again, for all tokens: dw of these classes in one product.
  Status slices() const {
    const int64_t n = d_.tokens, h = d_.hidden;
    void* const behind = static_cast<char*>(w_.logits) + n * s_.slice_pitch * int64_t(byte_size(s_.logits));
    const TensorView x = view(!s_.fused ? behind : d_.grad_x ? w_.dx : w_.x, d_.dtype, n, h, h);
    BARACUDA_TRY(copy(f_.same[d_.dtype], a_.x, x, 0));
    for (int64_t first = 0; first < d_.classes; first += s_.slice) {
      const Products& p = s_.slices[d_.classes - first < s_.slice];
      const TensorView logits = view(w_.logits, s_.logits, n, p.rows, s_.slice_pitch);
      BARACUDA_TRY(product(*p.logits, a_.x, rows_of(a_.w, first, p.rows), logits));
      LossCudaRows r = rows_from(s_.slice_pitch, logits, 0, first);
      r.lse_in = DeviceVector::of(lse());
      BARACUDA_TRY(rows(r));
      BARACUDA_TRY(product(*p.dw_first, logits, x, rows_of(a_.dw, first, p.rows)));
    }
    return {};
  }
  bool narrows_dx() const { return w_.dx && !s_.fused; }
  Status gradient_of_x(const Products& p, const TensorView& dlogits, int64_t done) const {
    const int64_t h = d_.hidden, v = d_.classes, block = w_block(d_);
    const TensorView out = rows_of(a_.dx, done, p.rows), dx = narrows_dx() ? view(w_.dx, dx_out(d_), p.rows, h, h) : out;
    for (int64_t b = 0; b < v; b += block) {
      const int64_t n = std::min(block, v - b);
      TensorView w = rows_of(a_.w, b, n);
      if (widens_w(d_)) {
        const TensorView wide = view(w_.wide_w, t_.acc, n, h, h);
        BARACUDA_TRY(copy(f_.widen[d_.weight()], w, wide));
        w = wide;
      }
      TensorView columns = dlogits;
      columns.data = dlogits.as<char>() + b * int64_t(byte_size(t_.dlogits)), columns.shape[1] = n;
      BARACUDA_TRY(product(b == 0 ? *p.dx_first : n < block ? *p.dx_last : *p.dx_more, columns, w, dx));
    }
    // 0 w is no zero where w is not finite.
    return narrows_dx() ? copy(f_.narrow[d_.dtype], dx, out, done) : copy(f_.same[d_.dtype], view(nullptr, d_.dtype, p.rows, h, h), out, done);
  }
  Status finish() const {
    const auto sum = [&](const double* per_token, const TensorView& out) {
      return out.absent() ? Status() : queue([&](void* stream) { return k_.sum[t_.acc]({tokens_, per_token, DeviceVector::of(out)}, stream); });
    };
    BARACUDA_TRY(sum(w_.loss, a_.loss));
    BARACUDA_TRY(sum(w_.z_part, a_.z_part));
    const DType dw = d_.weight_gradient();
    const TensorView dbias = vector(a_.dbias.data, dw);
    if (d_.tokens == 0) {
      if (d_.accumulate) return {};
      if (d_.grad_w) BARACUDA_TRY(clear(a_.dw));
      return d_.grad_bias ? clear(dbias) : Status();
    }
    if (w_.dw && !last_chunk_writes_dw()) BARACUDA_TRY(copy(f_.narrow[dw], view(w_.dw, t_.acc, d_.classes, d_.hidden, d_.hidden), a_.dw, -1, d_.accumulate));
    return d_.grad_bias ? copy(f_.from_double[dw], vector(w_.dbias, DType::f64), dbias, -1, d_.accumulate) : Status();
  }
  Status clear(const TensorView& v) const {
    return copy(f_.same[v.dtype], view(nullptr, v.dtype, v.shape[0], v.shape[1], 0), v);
  }

  const Launch<FusedLinearCrossEntropy>& l_;
  const D& d_;
  const FusedLinearCrossEntropy::Args& a_;
  const State& s_;
  Types t_;
  const LossCudaKernels& k_;
  const FusedLossCudaKernels& f_;
  LossCudaTokens tokens_{};
  Scratch w_{};
};
Status run_forward(const Launch<FusedLinearCrossEntropy>& l) { return Run(l)(); }

Status run_backward(const Launch<FusedLinearCrossEntropyBackward>& l) {
  constexpr std::string_view name = FusedLinearCrossEntropyBackward::name;
  const auto& a = l.args;
  if (a.dloss.absent() && a.scale == 1) return {};
  if (l.desc.accumulate)
    return invalid(name, a.dloss.absent() ? text("the factor is ", a.scale, ", and with accumulate dw and dbias hold other gradients too: give dloss to the forward")
                                          : std::string("dloss is given, on a device where only a kernel can read it, and with accumulate dw and dbias hold other gradients too: give dloss to the forward"));
  for (const TensorView* v : {&a.dx, &a.dw, &a.dbias}) {
    if (v->absent()) continue;
    const bool flat = v->shape.rank == 1;
    const FusedLossScale s{v->data, flat ? v->shape[0] : v->strides[0], flat ? 1 : v->shape[0], v->shape[v->shape.rank - 1], a.scale, a.dloss.data};
    BARACUDA_TRY(device::queue(l.stream, "fused_linear_cross_entropy_backward.cuda.scale", [&] { return fused_loss_cuda_kernels.scale[v->dtype](s, l.stream.handle); }));
  }
  return {};
}

// Whether the products of f32 rows could take TF32.
bool any_f32_product(const D& d) {
  const Types t(d);
  return t.acc == DType::f32 && (t.logits_in == DType::f32 || (any_gradient(d) && t.dlogits == DType::f32));
}
template <bool kTf32> PrecisionGuarantee promises(const D& d) {
  PrecisionGuarantee g = guarantee(d);
  g.tf32 = kTf32;
  return g;
}
template <bool kTf32> std::string refuse(const D& d, const PlanPreference&) {
  if (kTf32 && !any_f32_product(d)) return "none of its products is one of f32 operands";
  return refuse_types(d);
}
std::string refuse_rounded(const D& d, const PlanPreference&) {
  if (Types(d).dlogits != DType::bf16) return "rounds logits to bf16, and x and w are not both of it";
  if (!any_gradient(d)) return "rounds logits to bf16, as their gradient is, and none is asked for";
  return refuse_types(d);
}
// Of an H200, no row ignored: 16384 x 4096 x 128256 in chunks of 4096 rows takes 79.2 ms by kept, by chunked_bf16 78.5; of hidden 2048 and 256000 classes 90.4 and 83.3. The
// latter in 256 MiB by fused 112, by slices of chunked_bf16 122.
constexpr int64_t kLeastHidden = 4096, kLeastHiddenOfFused = 2048;
std::string refuse_kept(const D& d, const PlanPreference& p) {
  if (d.hidden < kLeastHidden && p.require_kernel.empty()) return text("its products are slower than cuBLASLt's where hidden is below ", kLeastHidden, "; require_kernel takes it all the same");
  if (d.accumulate && d.grad_w && d.weight_gradient() != DType::f32 && d.tokens <= kMostRows) return "adds to dw in f32 alone";
  return refuse_rounded(d, p);
}
std::string refuse_fused(const D& d, const PlanPreference& p) {
  if (!d.grad_w) return "is for gradients of w";
  if (d.accumulate && d.weight_gradient() != DType::f32) return "adds to dw in f32 alone";
  if (d.chunk) return "has no chunks";
  if (d.hidden < kLeastHiddenOfFused && p.require_kernel.empty())
    return text("its products are slower than cuBLASLt's where hidden is below ", kLeastHiddenOfFused, "; require_kernel takes it all the same");
  return refuse_rounded(d, p);
}
template <bool kTf32, bool kRounded, bool kKept = false, bool kFused = false> Result<PlanState> prepare_row(const Stream& s, const D& d, const PlanPreference& preference) {
  if (kKept) BARACUDA_TRY(device::only_sm90a(s));
  PlanPreference p = preference;
  p.math = kTf32 ? MathMode::allow_tf32 : MathMode::strict;
  const int64_t least = kKept && !kFused && p.require_kernel.empty() ? kLeastRowsOfKept : kLeastRows;
  return prepare(s, d, p, {kMostRows, kMostBytes, kRounded, least, kKept, kFused});
}
void carve_row(const D& d, const void* state, Carver& c) { (void)carve(d, *static_cast<const State*>(state), DeviceKind::cuda, c); }

}  // namespace

template <> std::span<const Kernel<FusedLinearCrossEntropy>> cuda_kernels<FusedLinearCrossEntropy>() {
  static constexpr Kernel<FusedLinearCrossEntropy> list[] = {
      {.name = "fused_linear_cross_entropy.cuda.chunked_tf32", .device = DeviceKind::cuda, .min_arch = 80,
       .launch = launch_all<FusedLinearCrossEntropy>(TypeList<f16, bf16, float>{}, run_forward), .guarantee = promises<true>, .refuse = refuse<true>,
       .carve = carve_row, .prepare = prepare_row<true, false>},
      {.name = "fused_linear_cross_entropy.cuda.kept", .device = DeviceKind::cuda, .min_arch = 90,
       .launch = launch_all<FusedLinearCrossEntropy>(TypeList<bf16>{}, run_forward), .guarantee = promises<false>, .refuse = refuse_kept,
       .carve = carve_row, .prepare = prepare_row<false, true, true>},
      {.name = "fused_linear_cross_entropy.cuda.fused", .device = DeviceKind::cuda, .min_arch = 90,
       .launch = launch_all<FusedLinearCrossEntropy>(TypeList<bf16>{}, run_forward), .guarantee = promises<false>, .refuse = refuse_fused,
       .carve = carve_row, .prepare = prepare_row<false, true, true, true>},
      {.name = "fused_linear_cross_entropy.cuda.chunked_bf16", .device = DeviceKind::cuda, .min_arch = 80,
       .launch = launch_all<FusedLinearCrossEntropy>(TypeList<bf16>{}, run_forward), .guarantee = promises<false>, .refuse = refuse_rounded,
       .carve = carve_row, .prepare = prepare_row<false, true>},
      {.name = kName, .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<FusedLinearCrossEntropy>(Floating{}, run_forward),
       .guarantee = promises<false>, .refuse = refuse<false>, .carve = carve_row, .prepare = prepare_row<false, false>}};
  return list;
}
template <> std::span<const Kernel<FusedLinearCrossEntropyBackward>> cuda_kernels<FusedLinearCrossEntropyBackward>() {
  static constexpr Kernel<FusedLinearCrossEntropyBackward> list[] = {
      {.name = "fused_linear_cross_entropy_backward.cuda.scale", .device = DeviceKind::cuda, .min_arch = 80,
       .launch = launch_all<FusedLinearCrossEntropyBackward>(Floating{}, run_backward), .guarantee = guarantee, .refuse = refuse<false>}};
  return list;
}

}  // namespace baracuda
