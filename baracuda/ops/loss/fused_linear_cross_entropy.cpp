// For each chunk of kept rows:  logits = x w^T   rows: loss, dlogits in place   dw += dlogits^T x   dx = dlogits w
// 2 tokens hidden classes flops for each of the three products; beside them some 60 flops and 12 bytes per logit, which
// stay in the third-level cache when chunk x classes does. dw is read and written once per chunk.
#include "baracuda/ops/loss/fused_linear_cross_entropy.hpp"
#include <cstring>
#include "baracuda/host/thread_team.hpp"
#include "baracuda/ops/gemm/gemm.hpp"
#include "baracuda/ops/loss/loss_detail.hpp"

namespace baracuda {
namespace {

using D = FusedLinearCrossEntropyDescriptor;

// The types that follow from those of x and w.
struct Types {
  DType acc, logits_in, dlogits;  // logits_in: operands of the first product; dlogits: operands of the other two
  explicit Types(const D& d)
      : acc(accumulator(d.dtype)), logits_in(d.weight() == d.dtype ? d.dtype : acc),
        dlogits(d.dtype == DType::bf16 && d.weight() == DType::bf16 ? DType::bf16 : acc) {}
};
bool any_gradient(const D& d) { return d.grad_x || d.grad_w || d.grad_bias; }
bool dw_is_sum(const D& d) { return d.weight_gradient() == accumulator(d.dtype); }  // dw itself holds the sums
// x as it is, and x widened, as operands of a product.
bool uses_x(const D& d) { return Types(d).logits_in == d.dtype || (d.grad_w && Types(d).dlogits == d.dtype); }
bool uses_wide_x(const D& d) {
  const Types t(d);
  return t.acc != d.dtype && (t.logits_in == t.acc || (d.grad_w && t.dlogits == t.acc));
}
// dx = dlogits w needs w in the type of dlogits: where it has another, blocks of rows of w are widened one by one.
bool widens_w(const D& d) { return d.grad_x && Types(d).dlogits != d.weight(); }
int64_t w_block(const D& d) {
  constexpr int64_t kElements = int64_t(1) << 20;
  return widens_w(d) ? std::min(d.classes, std::max<int64_t>(64, kElements / std::max<int64_t>(1, d.hidden))) : d.classes;
}
DType dx_out(const D& d) { return Types(d).dlogits == d.dtype ? d.dtype : Types(d).acc; }

// The products for pieces of so many rows.
struct Products {
  int64_t rows;
  std::optional<GemmPlan> logits, dw_first, dw_more, dx_first, dx_more, dx_last;
};
struct State : FusedLossChunk {
  std::vector<Products> pieces;  // by rows, most first
  int64_t most_rows = 0, pitch = 0;
  uint64_t gemm_bytes = 0;
};
// Rows start 64 bytes apart from a page, so that columns do not compete for one set of a cache.
int64_t logits_pitch(int64_t classes) {
  const int64_t pitch = (classes + 15) / 16 * 16;
  return pitch % 512 == 0 ? pitch + 16 : pitch;
}
Result<State> make_state(const Stream& stream, const D& d, PlanPreference preference, int64_t chunk) {
  State s;
  s.rows = chunk;
  s.most_rows = std::min(chunk, d.tokens);
  s.pitch = logits_pitch(d.classes);
  if (d.tokens == 0) return s;
  // Pieces: whole chunks, the last one; and, for when rows are skipped, a ladder that wastes less than a sixteenth of a chunk.
  std::vector<int64_t> sizes = {s.most_rows};
  for (int part : {2, 4, 8, 16})
    if (s.most_rows / part >= 16) sizes.push_back(s.most_rows / part);
  if (const int64_t tail = d.tokens % s.most_rows; tail && std::find(sizes.begin(), sizes.end(), tail) == sizes.end()) sizes.push_back(tail);
  std::sort(sizes.rbegin(), sizes.rend());

  preference.max_workspace = UINT64_MAX;
  preference.allow_nondeterministic = false;  // this row promises its bits
  preference.require_kernel = {};
  preference.require_backend = Backend::count;
  const Types t(d);
  Status failed;
  auto make = [&](const GemmDescriptor& g) -> std::optional<GemmPlan> {
    auto plan = GemmPlan::select(stream, g, preference);
    if (!plan.ok()) { failed = plan.status(); return {}; }
    s.gemm_bytes = std::max(s.gemm_bytes, plan->workspace_size());
    return *plan;
  };
  for (int64_t m : sizes) {
    Products p{m, {}, {}, {}, {}, {}, {}};
    p.logits = make({.dtype = t.logits_in, .out = t.acc, .m = m, .n = d.classes, .k = d.hidden, .batch = {}, .trans_b = true});
    if (d.grad_w) {
      GemmDescriptor g{.dtype = t.dlogits, .out = t.acc, .m = d.classes, .n = d.hidden, .k = m, .batch = {}, .trans_a = true, .beta = 1};
      p.dw_more = make(g);
      if (!(d.accumulate && dw_is_sum(d))) g.beta = 0;
      p.dw_first = make(g);
    }
    if (d.grad_x) {
      const int64_t block = w_block(d), tail = d.classes % block;
      GemmDescriptor g{.dtype = t.dlogits, .out = dx_out(d), .m = m, .n = d.hidden, .k = block, .batch = {}};
      p.dx_first = make(g);
      g.beta = 1;
      if (d.classes > block) p.dx_more = make(g);
      g.k = tail;
      if (tail) p.dx_last = make(g);
    }
    if (!failed.ok()) return failed;
    s.pieces.push_back(std::move(p));
  }
  return s;
}

struct Scratch {
  double *loss, *z_part, *dbias;
  int64_t* kept;
  void *bias, *logits, *x, *wide_x, *dx, *dw, *wide_w;
  Workspace gemm;
};
Scratch carve(const D& d, const State& s, Carver& c) {
  const Types t(d);
  const int64_t acc = int64_t(byte_size(t.acc));
  auto take = [&](std::string_view name, bool wanted, int64_t rows, int64_t n, DType type) {
    if (!wanted || d.tokens == 0) return static_cast<void*>(nullptr);
    return c.take_bytes(name, Shape{rows, n}.numel(), byte_size(type));
  };
  Scratch w{};
  w.loss = c.take<double>("loss per row", d.tokens);
  w.z_part = c.take<double>("z part per row", d.tokens);
  w.kept = c.take<int64_t>("kept rows", d.tokens);
  w.dbias = static_cast<double*>(take("sums of dbias", d.grad_bias, 1, d.classes, DType::f64));
  w.bias = take("bias", d.bias && d.weight() != t.acc, 1, d.classes, t.acc);
  w.logits = c.take_bytes("logits", Shape{s.most_rows, s.pitch}.numel(), uint64_t(acc));
  w.x = take("rows of x", uses_x(d), s.most_rows, d.hidden, d.dtype);
  w.wide_x = take("widened rows of x", uses_wide_x(d), s.most_rows, d.hidden, t.acc);
  w.dx = take("rows of dx", d.grad_x, s.most_rows, d.hidden, dx_out(d));
  w.dw = take("sums of dw", d.grad_w && !dw_is_sum(d), d.classes, d.hidden, t.acc);
  w.wide_w = take("widened rows of w", widens_w(d), w_block(d), d.hidden, t.acc);
  w.gemm = {c.take_bytes("matrix products", int64_t(s.gemm_bytes), 1), s.gemm_bytes};
  return w;
}

// The rule, or more rows where it asks for few: a chunk reads and writes dw and packs w twice, which 64 rows do not pay
// for. 2048 x 512 x 32000 on two Zen 4 cores, fraction of the rate of a 2048^3 product with 64, 256, 512, 1024, 2048 rows:
// f32 .68 .87 .93 .99 1.0, bf16 .66 .87 .87 .88 .92. Not at the price of more than 128 MiB of logits, though.
int64_t default_chunk(const D& d) {
  constexpr int64_t kLogits = int64_t(128) << 20;
  const int64_t rule = fused_loss_chunk_rule(d.tokens, d.hidden, d.classes), row = int64_t(byte_size(accumulator(d.dtype)));
  int64_t rows = std::min(int64_t(1024), int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(1, d.tokens)))));
  while (rows > rule && d.classes > kLogits / row / rows) rows /= 2;
  return std::max(rule, rows);
}
Result<PlanState> prepare(const Stream& stream, const D& d, const PlanPreference& preference) {
  int64_t chunk = d.chunk ? d.chunk : default_chunk(d);
  for (;; chunk /= 2) {
    const bool last = d.chunk || chunk == 1;
    if (!last && uint64_t(std::min(chunk, d.tokens)) * byte_size(accumulator(d.dtype)) > preference.max_workspace / uint64_t(d.classes)) continue;
    BARACUDA_TRY_ASSIGN(state, make_state(stream, d, preference, chunk));
    Carver c(threads());
    carve(d, state, c);
    if (last || c.size() <= preference.max_workspace) return PlanState(std::make_shared<const State>(std::move(state)));
  }
}
std::string refuse(const D& d, const PlanPreference&) {
  const DType t = accumulator(d.dtype);
  if (d.weight() != d.dtype && d.weight() != t) return text("no ", d.dtype, " x with ", d.weight(), " w; w has the dtype of x, or f32 with f16 and bf16 x");
  if (d.weight_gradient() != d.weight() && d.weight_gradient() != t)
    return text("no ", d.weight_gradient(), " dw with ", d.weight(), " w; dw has the dtype of w, or f32");
  return {};
}
PrecisionGuarantee guarantee(const D& d) {
  const DType acc = accumulator(d.dtype);
  return {.math_precision = any_gradient(d) ? Types(d).dlogits : acc, .accumulator = acc};
}

TensorView matrix(const void* p, DType t, int64_t rows, int64_t n, int64_t pitch) {
  return {const_cast<void*>(p), t, {}, {rows, n}, {pitch, 1}};
}
char* row_at(const TensorView& v, int64_t i) { return v.as<char>() + i * v.strides[0] * int64_t(byte_size(v.dtype)); }
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
    w_ = carve(d_, s_, c);
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
    int64_t n = 0;
    for (int64_t i = 0; i < d_.tokens; ++i) {
      const int64_t t = tokens_.target(i);
      if (t >= 0) { w_.kept[n++] = i; continue; }
      w_.loss[i] = w_.z_part[i] = t == LossTokens::kInvalid ? NAN : 0;
      if (d_.grad_x) std::memset(row_at(a_.dx, i), 0, size_t(d_.hidden) * byte_size(d_.dtype));
    }
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
  static constexpr Kernel<FusedLinearCrossEntropy> list[] = {
      {.name = "fused_linear_cross_entropy.cpu.chunked", .launch = launch_all<FusedLinearCrossEntropy>(Floating{}, run_forward),
       .guarantee = guarantee, .refuse = refuse,
       .carve = [](const Descriptor& d, const void* state, Carver& c) { (void)carve(d, *static_cast<const State*>(state), c); }, .prepare = prepare}};
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
       .guarantee = guarantee, .refuse = refuse}};
  return list;
}

}  // namespace baracuda
