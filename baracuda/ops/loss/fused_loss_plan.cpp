#include "baracuda/ops/loss/fused_loss_plan.hpp"
#include "baracuda/host/thread_team.hpp"
#include "baracuda/ops/loss/loss_cuda.hpp"

namespace baracuda::fused_loss {

int64_t w_block(const D& d) {
  constexpr int64_t kElements = int64_t(1) << 20;
  return widens_w(d) ? std::min(d.classes, std::max<int64_t>(64, kElements / std::max<int64_t>(1, d.hidden))) : d.classes;
}

namespace {
// Of a row's parts of statistics.
int64_t part_bytes(const D& d) { return (d.classes + kFusedColumns - 1) / kFusedColumns * int64_t(sizeof(FusedPart) + (d.label_smoothing > 0 ? sizeof(float) : 0)); }
// Rows start 64 bytes apart from a page, so that columns do not compete for one set of a cache.
int64_t logits_pitch(int64_t classes) {
  const int64_t pitch = (classes + 15) / 16 * 16;
  return pitch % 512 == 0 ? pitch + 16 : pitch;
}
// n in so many parts of one size, in whole tiles of a product.
constexpr int64_t kTile = 128;
int64_t chunk_of(int64_t n, int64_t parts) { return ((n - 1) / parts / kTile + 1) * kTile; }
// The next smaller chunk on CUDA: a tile less, in as many parts as that needs; below a tile halves.
int64_t smaller_chunk(int64_t n, int64_t chunk) { return chunk <= kTile ? chunk / 2 : chunk_of(n, (n - 1) / (chunk - kTile) + 1); }
// The arrangement without its products.
State sized(const Stream& stream, const D& d, int64_t chunk, bool rounded) {
  const Types t(d);
  State s;
  s.rows = chunk;
  s.most_rows = std::min(chunk, d.tokens);
  s.pitch = logits_pitch(d.classes);
  s.logits = rounded ? t.dlogits : t.acc;
  // The CPU's pieces follow the rows that count.
  s.dw_at_once = stream.device.kind == DeviceKind::cuda && d.grad_w && d.tokens <= chunk && d.weight_gradient() == t.dlogits;
  return s;
}
Result<State> make_state(const Stream& stream, const D& d, PlanPreference preference, State s, uint64_t most_of_products = UINT64_MAX) {
  if (d.tokens == 0) return s;
  const Types t(d);
  // Pieces: whole chunks, the last one; and, where rows are skipped, a ladder that wastes less than a sixteenth of a chunk.
  const auto sizes_of = [&](int64_t most) {
    std::vector<int64_t> sizes = {most};
    if (stream.device.kind == DeviceKind::cpu)
      for (int part : {2, 4, 8, 16})
        if (most / part >= 16) sizes.push_back(most / part);
    if (const int64_t tail = d.tokens % most; tail && std::find(sizes.begin(), sizes.end(), tail) == sizes.end()) sizes.push_back(tail);
    std::sort(sizes.rbegin(), sizes.rend());
    return sizes;
  };

  preference.max_workspace = most_of_products;
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
  if (s.slice)
    for (int64_t n : {s.slice, d.classes % s.slice}) {
      if (n == 0) continue;
      Products p{n, {}, {}, {}, {}, {}, {}};
      p.logits = make({.dtype = t.logits_in, .out = s.logits, .m = d.tokens, .n = n, .k = d.hidden, .batch = {}, .trans_b = true});
      p.dw_first = make({.dtype = t.dlogits, .out = d.weight_gradient(), .m = n, .n = d.hidden, .k = d.tokens, .batch = {}, .trans_a = true, .beta = d.accumulate ? 1. : 0.});
      if (!failed.ok()) return failed;
      s.slices.push_back(std::move(p));
    }
  const auto piece = [&](int64_t m) {
    Products p{m, {}, {}, {}, {}, {}, {}};
    p.logits = make({.dtype = t.logits_in, .out = s.logits, .m = m, .n = d.classes, .k = d.hidden, .batch = {}, .trans_b = true});
    if (d.grad_w && !s.slice) {
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
    return p;
  };
  for (int64_t m : sizes_of(s.most_rows)) s.pieces.push_back(piece(m));
  if (s.rows_in_dw)
    for (int64_t m : sizes_of(s.rows_in_dw)) s.pieces_in_dw.push_back(piece(m));
  if (!failed.ok()) return failed;
  return s;
}

int64_t default_chunk(const D& d, ChunkLimits limits) {
  const int64_t rule = fused_loss_chunk_rule(d.tokens, d.hidden, d.classes), row = int64_t(byte_size(accumulator(d.dtype)));
  int64_t rows = std::min(limits.rows, int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(1, d.tokens)))));
  while (rows > rule && d.classes > limits.logits_bytes / row / rows) rows /= 2;
  return std::max(rule, rows);
}
// Elements of the logits of a chunk, or of those of a slice and all rows of x after them; -1 beyond all counts.
int64_t logits_count(const D& d, const State& s) {
  const int64_t of_chunk = Shape{s.most_rows, s.pitch}.numel(), of_slice = s.slice ? Shape{d.tokens, s.slice_pitch + (s.fused ? 0 : d.hidden)}.numel() : 0;
  if (of_chunk < 0 || of_slice < 0) return -1;
  return std::max({of_chunk, of_slice, s.fused ? kTile * part_bytes(d) / int64_t(byte_size(s.logits)) : 0});
}
uint64_t logits_bytes(const D& d, const State& s) {
  const int64_t count = logits_count(d, s);
  return count < 0 || count > INT64_MAX / 8 ? UINT64_MAX : uint64_t(count) * byte_size(s.logits);
}
// Rows of a chunk whose logits fit in a dw of halves that is rounded from sums at the end; 0 where there is none, or no more of them than the scratch holds.
int64_t rows_in_dw(const D& d, const State& s) {
  if (!d.grad_w || !d.grad_x || d.accumulate || s.dw_at_once || s.logits != d.weight_gradient() || d.tokens == 0) return 0;
  const int64_t size = int64_t(byte_size(s.logits)), rows = std::min((Shape{d.classes, d.hidden}.numel() * size - kAlignInDw) / (s.pitch * size), d.tokens) / kTile * kTile;
  return rows > s.most_rows ? chunk_of(d.tokens, (d.tokens - 1) / rows + 1) : 0;
}
// Slices, and chunks, as large as `most` bytes allow.
template <class F> std::optional<State> sliced(const Stream& stream, const D& d, uint64_t most, uint64_t of_products, F size_of) {
  const auto arrangement = [&](int64_t rows, int64_t slice) {
    State s = sized(stream, d, rows, true);
    s.dw_at_once = false, s.slice = slice, s.slice_pitch = logits_pitch(slice);
    return s;
  };
  const State least = arrangement(1, std::min(kTile, d.classes));
  if (size_of(least) + of_products > most) return {};
  const uint64_t room = logits_bytes(d, least) + (most - size_of(least) - of_products);
  int64_t rows = chunk_of(d.tokens, 1), width = chunk_of(d.classes, 1);
  while (rows > 0 && logits_bytes(d, sized(stream, d, rows, true)) > room) rows = smaller_chunk(d.tokens, rows);
  if (rows == 0) return {};
  while (logits_bytes(d, arrangement(1, std::min(d.classes, width))) > room) width = smaller_chunk(d.classes, width);
  return arrangement(rows, std::min(d.classes, width));
}
// Slices of all rows that count, as few as `most` bytes allow, and chunks of rows that fit there too, for operands that the copy engine cannot read.
template <class F> std::optional<State> fused_slices(const Stream& stream, const D& d, uint64_t most, uint64_t of_products, F size_of) {
  const int64_t tiles = (d.classes + kFusedColumns - 1) / kFusedColumns;
  for (int64_t parts = 1; parts <= tiles; ++parts) {
    const int64_t width = std::min(d.classes, (tiles - 1) / parts * kFusedColumns + kFusedColumns), pitch = logits_pitch(width);
    State s = sized(stream, d, std::max<int64_t>(1, Shape{d.tokens, pitch}.numel() / logits_pitch(d.classes)), true);
    s.dw_at_once = false, s.kept = s.fused = true, s.slice = width, s.slice_pitch = pitch;
    if (const uint64_t size = size_of(s); size <= most && most - size >= of_products) return s;
  }
  return {};
}
}  // namespace

bool statistics_fit_dw(const D& d) {
  return Shape{d.tokens, part_bytes(d)}.numel() + kAlignInDw <= Shape{d.classes, d.hidden}.numel() * int64_t(byte_size(d.weight_gradient()));
}
Slice slice_in_dw(const D& d, const State& s, int64_t first) {
  const int64_t of_class = d.hidden * int64_t(byte_size(d.weight_gradient())), of_gradients = d.tokens * int64_t(byte_size(s.logits));
  const int64_t room = (d.classes - first) * of_class - kAlignInDw - of_gradients * 32;  // a pitch is less than that wider
  const int64_t classes = room / (of_class + of_gradients) / kFusedColumns * kFusedColumns;
  return classes > s.slice ? Slice{classes, logits_pitch(classes)} : Slice{0, 0};
}
int64_t statistics_rows(const D& d, const State& s) { return std::max<int64_t>(1, logits_count(d, s) * int64_t(byte_size(s.logits)) / part_bytes(d) / kTile) * kTile; }

Result<PlanState> prepare(const Stream& stream, const D& d, const PlanPreference& preference, ChunkLimits limits) {
  const bool cpu = stream.device.kind == DeviceKind::cpu;
  const uint64_t logit = byte_size(limits.rounded ? Types(d).dlogits : accumulator(d.dtype));
  const uint64_t most = cpu ? preference.max_workspace : std::min(preference.max_workspace, uint64_t(limits.logits_bytes));
  const auto size_of = [&](const State& s) {
    Carver c(threads());
    carve(d, s, stream.device.kind, c);
    return c.size();
  };
  const auto done = [](State s) { return PlanState(std::make_shared<const State>(std::move(s))); };
  constexpr uint64_t kLittle = 4096;  // of products
  const uint64_t of_products = limits.kept ? kLittle : UINT64_MAX;  // kept: only operands that the copy engine cannot read need them
  if (limits.fused) {
    if (preference.require_kernel.empty() && d.tokens > 0)
      for (const int64_t chunk : {std::min(limits.rows, d.tokens), std::min(limits.least_rows, d.tokens)})
        if (size_of(sized(stream, d, chunk, true)) <= preference.max_workspace) return Status(Code::unsupported, "chunks of rows fit too, and take three products instead of four");
    auto s = fused_slices(stream, d, std::min(preference.max_workspace, uint64_t(limits.logits_bytes)), kLittle, size_of);
    if (!s) return Status(Code::unsupported, "max_workspace leaves no room for slices of the classes");
    BARACUDA_TRY_ASSIGN(made, make_state(stream, d, preference, *std::move(s), kLittle));
    return done(std::move(made));
  }
  bool slices = limits.rounded && !limits.kept && d.grad_w && !dw_is_sum(d) && !d.chunk;
  int64_t chunk = d.chunk ? d.chunk : cpu ? default_chunk(d, limits) : d.tokens == 0 ? 1 : chunk_of(d.tokens, (d.tokens - 1) / limits.rows + 1);
  for (;; chunk = cpu ? chunk / 2 : smaller_chunk(d.tokens, chunk)) {
    const bool last = d.chunk || chunk == 1;
    if (slices && !last && chunk < std::min(limits.least_rows, d.tokens)) {
      slices = false;
      for (const uint64_t of_products : {UINT64_MAX, kLittle}) {  // again, where the products take too much of it
        auto s = sliced(stream, d, most, of_products == kLittle ? kLittle : 0, size_of);
        if (!s) break;
        BARACUDA_TRY_ASSIGN(made, make_state(stream, d, preference, *std::move(s), of_products));
        if (size_of(made) <= most) return done(std::move(made));
      }
    }
    if (!last && uint64_t(std::min(chunk, d.tokens)) * logit > most / uint64_t(d.classes)) continue;
    if (limits.kept && !d.chunk && chunk < std::min(limits.least_rows, d.tokens)) return Status(Code::unsupported, "max_workspace leaves no room for chunks of rows that count");
    State without = sized(stream, d, chunk, limits.rounded);
    without.kept = limits.kept;
    if (!last && size_of(without) > preference.max_workspace) continue;
    if (limits.rounded && !limits.kept && !d.chunk) without.rows_in_dw = rows_in_dw(d, without);
    if (without.rows_in_dw) {
      auto with = make_state(stream, d, preference, without, of_products);
      if (with.ok() && size_of(*with) <= preference.max_workspace) return done(*std::move(with));
      without.rows_in_dw = 0;
    }
    BARACUDA_TRY_ASSIGN(state, make_state(stream, d, preference, without, of_products));
    if (last || size_of(state) <= preference.max_workspace) return done(std::move(state));
  }
}
Scratch carve(const D& d, const State& s, DeviceKind device, Carver& c) {
  const Types t(d);
  const bool cpu = device == DeviceKind::cpu;
  auto take = [&](std::string_view name, bool wanted, int64_t rows, int64_t n, DType type) {
    if (!wanted || d.tokens == 0) return static_cast<void*>(nullptr);
    return c.take_bytes(name, Shape{rows, n}.numel(), byte_size(type));
  };
  Scratch w{};
  w.loss = c.take<double>("loss per row", d.tokens);
  w.z_part = c.take<double>("z part per row", d.tokens);
  // The CPU gathers the rows that count. CUDA knows their number on the device alone: it does so too, or keeps every row where it is and clears the others.
  if (cpu || s.kept) w.kept = c.take<int64_t>("kept rows", d.tokens);
  if (s.kept) w.count = c.take<int64_t>("their number", 1);
  if (s.fused) w.target = c.take<int>("their targets", d.tokens), w.at_target = c.take<float>("logits at targets", d.tokens), w.slopes = c.take<FusedSlope>("factors per row", d.tokens);
  if (!cpu) w.factor = c.take<double>("1 / denominator", 1 + kLossParts);
  if (!cpu && d.label_smoothing > 0) w.total = c.take<double>("sum per row", d.tokens);
  w.dbias = static_cast<double*>(take("sums of dbias", d.grad_bias, 1, d.classes, DType::f64));
  w.bias = take("bias", d.bias && d.weight() != t.acc, 1, d.classes + d.classes % 2, t.acc);  // kernels read pairs
  w.logits = c.take_bytes("logits", logits_count(d, s), byte_size(s.logits));
  w.lse = take("lse", s.slice, 1, d.tokens, t.acc);
  w.x = take("rows of x", cpu ? uses_x(d) : !d.grad_x && (s.kept || (d.grad_w && t.dlogits == d.dtype && !s.slice)), s.fused ? d.tokens : s.most_rows, d.hidden, d.dtype);
  w.wide_x = take("widened rows of x", uses_wide_x(d), s.most_rows, d.hidden, t.acc);
  w.dx = s.fused ? take("sums of dx", d.grad_x, d.tokens, d.hidden, t.acc) : take("rows of dx", d.grad_x && (cpu || dx_out(d) != d.dtype), s.most_rows, d.hidden, dx_out(d));
  w.dw = take("sums of dw", d.grad_w && !dw_is_sum(d) && !s.dw_at_once && !s.slice, d.classes, d.hidden, t.acc);
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
