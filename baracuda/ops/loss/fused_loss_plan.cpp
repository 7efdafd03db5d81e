#include "baracuda/ops/loss/fused_loss_plan.hpp"
#include "baracuda/host/thread_team.hpp"

namespace baracuda::fused_loss {

int64_t w_block(const D& d) {
  constexpr int64_t kElements = int64_t(1) << 20;
  return widens_w(d) ? std::min(d.classes, std::max<int64_t>(64, kElements / std::max<int64_t>(1, d.hidden))) : d.classes;
}

namespace {
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
  const Types t(d);
  // The CPU's pieces follow the rows that count.
  s.dw_at_once = stream.device.kind == DeviceKind::cuda && d.grad_w && d.tokens <= chunk && d.weight_gradient() == t.dlogits;
  // Pieces: whole chunks, the last one; and, where rows are skipped, a ladder that wastes less than a sixteenth of a chunk.
  std::vector<int64_t> sizes = {s.most_rows};
  if (stream.device.kind == DeviceKind::cpu)
    for (int part : {2, 4, 8, 16})
      if (s.most_rows / part >= 16) sizes.push_back(s.most_rows / part);
  if (const int64_t tail = d.tokens % s.most_rows; tail && std::find(sizes.begin(), sizes.end(), tail) == sizes.end()) sizes.push_back(tail);
  std::sort(sizes.rbegin(), sizes.rend());

  preference.max_workspace = UINT64_MAX;
  preference.allow_nondeterministic = false;  // this row promises its bits
  preference.require_kernel = {};
  preference.require_backend = Backend::count;
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
      GemmDescriptor g{.dtype = t.dlogits, .out = s.dw_at_once ? d.weight_gradient() : t.acc, .m = d.classes, .n = d.hidden, .k = m, .batch = {}, .trans_a = true, .beta = 1};
      if (!s.dw_at_once) p.dw_more = make(g);
      if (!(d.accumulate && (dw_is_sum(d) || s.dw_at_once))) g.beta = 0;
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

int64_t default_chunk(const D& d, ChunkLimits limits) {
  const int64_t rule = fused_loss_chunk_rule(d.tokens, d.hidden, d.classes), row = int64_t(byte_size(accumulator(d.dtype)));
  int64_t rows = std::min(limits.rows, int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(1, d.tokens)))));
  while (rows > rule && d.classes > limits.logits_bytes / row / rows) rows /= 2;
  return std::max(rule, rows);
}
}  // namespace

Result<PlanState> prepare(const Stream& stream, const D& d, const PlanPreference& preference, ChunkLimits limits) {
  int64_t chunk = d.chunk ? d.chunk : default_chunk(d, limits);
  for (;; chunk /= 2) {
    const bool last = d.chunk || chunk == 1;
    if (!last && uint64_t(std::min(chunk, d.tokens)) * byte_size(accumulator(d.dtype)) > preference.max_workspace / uint64_t(d.classes)) continue;
    BARACUDA_TRY_ASSIGN(state, make_state(stream, d, preference, chunk));
    Carver c(threads());
    carve(d, state, stream.device.kind, c);
    if (last || c.size() <= preference.max_workspace) return PlanState(std::make_shared<const State>(std::move(state)));
  }
}
Scratch carve(const D& d, const State& s, DeviceKind device, Carver& c) {
  const Types t(d);
  const bool cpu = device == DeviceKind::cpu;
  const int64_t acc = int64_t(byte_size(t.acc));
  auto take = [&](std::string_view name, bool wanted, int64_t rows, int64_t n, DType type) {
    if (!wanted || d.tokens == 0) return static_cast<void*>(nullptr);
    return c.take_bytes(name, Shape{rows, n}.numel(), byte_size(type));
  };
  Scratch w{};
  w.loss = c.take<double>("loss per row", d.tokens);
  w.z_part = c.take<double>("z part per row", d.tokens);
  // The CPU gathers the rows that count; CUDA, which cannot know their number, keeps every row where it is and clears the others.
  if (cpu) w.kept = c.take<int64_t>("kept rows", d.tokens);
  else w.factor = c.take<double>("1 / denominator", 1);
  w.dbias = static_cast<double*>(take("sums of dbias", d.grad_bias, 1, d.classes, DType::f64));
  w.bias = take("bias", d.bias && d.weight() != t.acc, 1, d.classes, t.acc);
  w.logits = c.take_bytes("logits", Shape{s.most_rows, s.pitch}.numel(), uint64_t(acc));
  w.x = take("rows of x", cpu ? uses_x(d) : d.grad_w && t.dlogits == d.dtype, s.most_rows, d.hidden, d.dtype);
  w.wide_x = take("widened rows of x", uses_wide_x(d), s.most_rows, d.hidden, t.acc);
  w.dx = take("rows of dx", d.grad_x && (cpu || dx_out(d) != d.dtype), s.most_rows, d.hidden, dx_out(d));
  w.dw = take("sums of dw", d.grad_w && !dw_is_sum(d) && !s.dw_at_once, d.classes, d.hidden, t.acc);
  w.wide_w = take("widened rows of w", widens_w(d), w_block(d), d.hidden, t.acc);
  w.gemm = {c.take_bytes("matrix products", int64_t(s.gemm_bytes), 1), s.gemm_bytes};
  return w;
}

std::string refuse_types(const D& d) {
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

}  // namespace baracuda::fused_loss
