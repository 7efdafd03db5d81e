#include <algorithm>
#include <cmath>
#include "baracuda/host/thread_team.hpp"
#include "baracuda/ops/attention/attention_problem.hpp"

namespace baracuda {
namespace attention {
namespace {

std::string axes(const Shape& s) { return to_string(s); }
constexpr int64_t kMostElements = int64_t(1) << 48;
int64_t cu_at(const TensorView& v, int64_t i) {
  const int64_t at = i * v.strides[0];
  return v.dtype == DType::i32 ? int64_t(v.as<int32_t>()[at]) : v.as<int64_t>()[at];
}

}  // namespace

Status validate(std::string_view op, const SdpaDescriptor& d) {
  struct { std::string_view name; int64_t value, least; } extents[] = {
      {"batch", d.batch, 0}, {"heads", d.heads, 1}, {"kv_heads", d.kv_heads, 0}, {"q_len", d.q_len, 0}, {"k_len", d.k_len, 0},
      {"head_dim", d.head_dim, 1}, {"head_dim_v", d.head_dim_v, 0}, {"total_q", d.total_q, 0}, {"total_k", d.total_k, 0}};
  for (const auto& e : extents)
    if (e.value < e.least) return invalid(op, text(e.name, " is ", e.value, ", at least ", e.least, " is needed"));
  if (d.heads % d.hk()) return invalid(op, text("heads ", d.heads, " is not a multiple of kv_heads ", d.hk()));
  if (std::max(d.head_dim, d.dv()) > kMaxHeadDim)
    return invalid(op, text(d.head_dim > kMaxHeadDim ? "head_dim " : "head_dim_v ", std::max(d.head_dim, d.dv()), " is more than ", kMaxHeadDim));
  if (d.scale && !std::isfinite(*d.scale)) return invalid(op, text("scale ", *d.scale, " is not finite"));
  if (!std::isfinite(d.softcap) || d.softcap < 0) return invalid(op, text("softcap ", d.softcap, " is not finite and >= 0"));
  if (!valid_enum(d.align)) return invalid(op, text("align ", int(d.align), " is not an alignment"));
  if (d.window_left < -1) return invalid(op, text("window_left ", d.window_left, " is negative; only -1 means unbounded"));
  if (d.window_right < -1) return invalid(op, text("window_right ", d.window_right, " is negative; only -1 means unbounded"));
  if (!d.varlen && (d.total_q || d.total_k)) return invalid(op, "total_q and total_k are for varlen");
  // So that no product of extents, threads and bytes overflows, here or in the workspace.
  const int64_t width = std::max(d.head_dim, d.dv());
  auto some = [](int64_t n) { return std::max<int64_t>(n, 1); };
  struct { std::string_view name; Shape shape; } tensors[] = {{"q", {some(d.batch), d.heads, some(d.q_len), width}},
                                                              {"k", {some(d.batch), d.heads, some(d.k_len), width}},
                                                              {"q", {some(d.total_q), d.heads, width}},
                                                              {"k", {some(d.total_k), d.heads, width}}};
  for (const auto& t : tensors)
    if (!t.shape.valid() || t.shape.numel() > kMostElements) return invalid(op, text(t.name, " ", t.shape, " has more than 2^48 elements"));
  if (d.has_bias()) {
    if (d.varlen) return invalid(op, "bias is not defined with varlen");
    const int64_t full[4] = {d.batch, d.heads, d.q_len, d.k_len};
    bool fits = d.bias_shape.rank == 4;
    for (int i = 0; fits && i < 4; ++i) fits = d.bias_shape[i] == 1 || d.bias_shape[i] == full[i];
    if (!fits) return invalid(op, text("bias_shape ", axes(d.bias_shape), " does not broadcast to ", axes({full[0], full[1], full[2], full[3]})));
    if (d.bias_dtype && *d.bias_dtype != d.dtype && *d.bias_dtype != DType::f32)
      return invalid(op, text("bias_dtype ", *d.bias_dtype, " is neither ", d.dtype, " nor f32"));
  }
  return {};
}

Shape q_shape(const SdpaDescriptor& d, int64_t width) {
  return d.varlen ? Shape{d.total_q, d.heads, width} : Shape{d.batch, d.heads, d.q_len, width};
}
Shape k_shape(const SdpaDescriptor& d, int64_t width) {
  return d.varlen ? Shape{d.total_k, d.hk(), width} : Shape{d.batch, d.hk(), d.k_len, width};
}
Shape lse_shape(const SdpaDescriptor& d) { return d.varlen ? Shape{d.heads, d.total_q} : Shape{d.batch, d.heads, d.q_len}; }

Status expect_rows(std::string_view op, std::string_view arg, const TensorView& v, DType dtype, const Shape& shape) {
  BARACUDA_TRY(expect(op, arg, v, dtype, shape));
  const int last = shape.rank - 1;
  if (shape[last] > 1 && v.strides[last] != 1 && v.numel() > 0)
    return {Code::unsupported, text(op, ": ", arg, " has stride ", v.strides[last], " along its last axis, which must be dense")};
  return {};
}

Status expect_side(std::string_view op, const SdpaDescriptor& d, const TensorView& bias, const TensorView& slopes, const TensorView& cu_q,
                   const TensorView& cu_k) {
  auto given = [&](std::string_view arg, const TensorView& v, bool wanted, std::string_view why) -> Status {
    if (v.absent() == !wanted) return {};
    return invalid(op, text(arg, wanted ? " is missing: " : " is given: ", why));
  };
  BARACUDA_TRY(given("bias", bias, d.has_bias(), d.has_bias() ? "the descriptor has a bias_shape" : "the descriptor has no bias_shape"));
  BARACUDA_TRY(given("alibi_slopes", slopes, d.alibi, d.alibi ? "the descriptor says alibi" : "the descriptor does not say alibi"));
  const std::string_view why = d.varlen ? "the descriptor says varlen" : "the descriptor does not say varlen";
  BARACUDA_TRY(given("cu_seqlens_q", cu_q, d.varlen, why));
  BARACUDA_TRY(given("cu_seqlens_k", cu_k, d.varlen, why));
  if (d.has_bias()) BARACUDA_TRY(expect(op, "bias", bias, d.bias_dtype.value_or(d.dtype), d.bias_shape));
  if (d.alibi) {
    const Shape& s = slopes.shape;
    const bool fits = (s.rank == 1 && s[0] == d.heads) || (s.rank == 2 && s[1] == d.heads && (s[0] == 1 || s[0] == d.batch));
    if (!fits)
      return unexpected(op, "alibi_slopes", DType::f32, Shape{d.heads},
                        text("has shape ", s, ", expected [", d.heads, "], [1, ", d.heads, "] or [", d.batch, ", ", d.heads, "]"));
    BARACUDA_TRY(expect(op, "alibi_slopes", slopes, DType::f32, s));
  }
  if (d.varlen)
    for (const auto& [arg, v] : {std::pair{"cu_seqlens_q", &cu_q}, {"cu_seqlens_k", &cu_k}})
      BARACUDA_TRY(expect(op, arg, *v, v->dtype == DType::i32 ? DType::i32 : DType::i64, {d.batch + 1}));
  return {};
}

PrecisionGuarantee guarantee(const SdpaDescriptor& d) {
  const bool pairs = d.dtype == DType::bf16 && isa() == Isa::avx512bf16;
  return {.math_precision = pairs ? DType::bf16 : accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}

SdpaTensor rows_of(const SdpaDescriptor& d, const TensorView& v) {
  if (v.absent()) return {};
  if (d.varlen) return {v.data, 0, v.strides[1], v.strides[0]};
  return {v.data, v.strides[0], v.strides[1], v.strides[2]};
}
SdpaTensor lse_of(const SdpaDescriptor& d, const TensorView& v) {
  if (v.absent()) return {};
  if (d.varlen) return {v.data, 0, v.strides[0], v.strides[1]};
  return {v.data, v.strides[0], v.strides[1], v.strides[2]};
}
SdpaCall call_of(const SdpaDescriptor& d, const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& y, const TensorView& lse,
                 const TensorView& bias, const TensorView& slopes) {
  SdpaCall p{};
  p.heads = d.heads, p.kv_heads = d.hk(), p.group = d.heads / d.hk(), p.head_dim = d.head_dim, p.head_dim_v = d.dv();
  p.scale = d.scale.value_or(1 / std::sqrt(double(d.head_dim)));
  p.softcap = d.softcap;
  p.top_left = d.align == CausalAlign::top_left;
  const int64_t far = d.q_len + d.k_len;  // as good as unbounded, and no sum overflows
  p.left = d.window_left > far ? -1 : d.window_left;
  p.right = d.causal ? 0 : d.window_right > far ? -1 : d.window_right;
  p.q = rows_of(d, q), p.k = rows_of(d, k), p.v = rows_of(d, v), p.y = rows_of(d, y), p.lse = lse_of(d, lse);
  if (d.alibi) {
    const int r = slopes.shape.rank;
    p.slopes = slopes.as<const float>();
    p.slopes_head = slopes.strides[r - 1], p.slopes_batch = r == 2 && slopes.shape[0] > 1 ? slopes.strides[0] : 0;
  }
  if (d.has_bias()) {
    p.bias = bias.data, p.bias_f32 = bias.dtype == DType::f32;
    for (int i = 0; i < 4; ++i) p.bias_stride[i] = bias.shape[i] > 1 ? bias.strides[i] : 0;
  }
  return p;
}

SdpaSequence sequence_of(const SdpaDescriptor& d, const TensorView& cu_q, const TensorView& cu_k, int64_t b) {
  if (!d.varlen) return {b, d.q_len, d.k_len, 0, 0};
  const int64_t q = cu_at(cu_q, b), k = cu_at(cu_k, b);
  return {b, cu_at(cu_q, b + 1) - q, cu_at(cu_k, b + 1) - k, q, k};
}
Status check_sequences(std::string_view op, const SdpaDescriptor& d, const TensorView& cu_q, const TensorView& cu_k) {
  if (!d.varlen) return {};
  struct { std::string_view name, most; const TensorView& v; int64_t total, longest; } each[] = {
      {"cu_seqlens_q", "q_len", cu_q, d.total_q, d.q_len}, {"cu_seqlens_k", "k_len", cu_k, d.total_k, d.k_len}};
  for (const auto& e : each) {
    int64_t before = cu_at(e.v, 0);
    if (before != 0) return invalid(op, text(e.name, "[0] is ", before, ", expected 0"));
    for (int64_t b = 1; b <= d.batch; ++b) {
      const int64_t at = cu_at(e.v, b);
      if (at < before || at > e.total)
        return invalid(op, text(e.name, "[", b, "] is ", at, ", expected at least ", before, " and at most ", e.total, " rows"));
      if (at - before > e.longest)
        return invalid(op, text(e.name, ": sequence ", b - 1, " has ", at - before, " rows, ", e.most, " allows ", e.longest));
      before = at;
    }
  }
  return {};
}

namespace {

using Forward = FlashSdpa;

// Few queries: the heads that share keys go through together, so that decoding reads each key once.
bool joined(const SdpaDescriptor& d) { return d.q_len < kSdpaPanel && d.heads > d.hk(); }
// How the rows are dealt out: blocks of as many as leave every thread several. Keys and values are prepared once a block. No bits depend on it.
struct Shares {
  int64_t heads, share, rows, parts, scratch;  // scratch: of a thread
};
Shares shares_of(const SdpaDescriptor& d, int threads) {
  const bool together = joined(d);
  Shares s{together ? d.hk() : d.heads, together ? d.heads / d.hk() : 1, kSdpaMostRows, 0, 0};
  const auto few = [&] { return d.batch * s.heads * blocks(d.q_len * s.share, s.rows) < 8 * int64_t(threads); };
  while (s.rows > kSdpaRows && (few() || d.q_len * s.share <= s.rows / 2)) s.rows /= 2;
  s.parts = blocks(d.q_len * s.share, s.rows);
  s.scratch = (sdpa_forward_scratch(s.rows, d.head_dim, d.dv(), sum_size(d.dtype)) + 255) / 256 * 256;
  return s;
}
char* carve_all(const SdpaDescriptor& d, Carver& c) { return c.take<char>("block scratch", shares_of(d, c.threads()).scratch * c.threads()); }
void carve(const SdpaDescriptor& d, const void*, Carver& c) { carve_all(d, c); }

Status run_forward(const Launch<Forward>& l) {
  const SdpaDescriptor& d = l.desc;
  const auto& a = l.args;
  BARACUDA_TRY(check_sequences(Forward::name, d, a.cu_seqlens_q, a.cu_seqlens_k));
  Carver c = l.carver();
  char* scratch = carve_all(d, c);
  const SdpaProblem p{call_of(d, a.q, a.k, a.v, a.y, a.lse, a.bias, a.alibi_slopes), &gemm_tiles().of[d.dtype]};
  const auto kernel = p.tile->dense_rows ? sdpa_forward_amx.bf16 : BARACUDA_ISA_PICK_BF16(sdpa_forward_kernels).forward[d.dtype];
  const Shares s = shares_of(d, l.threads);
  // The longest blocks of a causal mask first, so that no thread is left alone with one.
  parallel_for(d.batch * s.heads * s.parts, 1, l.threads, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = s.parts - 1 - i / (d.batch * s.heads), b = i / s.heads % d.batch, head = i % s.heads * s.share;
      SdpaBlock block{&p, sequence_of(d, a.cu_seqlens_q, a.cu_seqlens_k, b), head, s.share, part * s.rows, 0, scratch + worker * s.scratch};
      block.rows = std::min(s.rows, block.sequence.q_len * s.share - block.row0);
      if (block.rows > 0) kernel(block);
    }
  });
  return {};
}

}  // namespace
}  // namespace attention

Status FlashSdpa::validate(const Descriptor& d) { return attention::validate(name, d); }
namespace {
// Pairs of a query and a key that it sees; 0 where only the run knows.
double visible_pairs(const SdpaDescriptor& d) {
  const int64_t shift = d.align == CausalAlign::top_left ? 0 : d.k_len - d.q_len, far = d.q_len + d.k_len, right = d.causal ? 0 : d.window_right;
  double pairs = 0;
  for (int64_t i = 0; i < d.q_len && !d.varlen; ++i) {
    const int64_t first = d.window_left < 0 ? 0 : std::max<int64_t>(0, i + shift - std::min(d.window_left, far));
    const int64_t end = right < 0 ? d.k_len : std::min(d.k_len, i + shift + std::min(right, far) + 1);
    pairs += double(std::max<int64_t>(0, end - first));
  }
  return pairs * double(d.batch) * double(d.heads);
}
}  // namespace
double FlashSdpa::flops(const Descriptor& d) { return 2 * visible_pairs(d) * double(d.head_dim + d.dv()); }
double FlashSdpaBackward::flops(const Descriptor& d) { return visible_pairs(d) * double(6 * d.head_dim + 4 * d.dv()); }
Status FlashSdpa::check(const Descriptor& d, const Args& a) {
  using namespace attention;
  BARACUDA_TRY(expect_rows(name, "q", a.q, d.dtype, q_shape(d, d.head_dim)));
  BARACUDA_TRY(expect_rows(name, "k", a.k, d.dtype, k_shape(d, d.head_dim)));
  BARACUDA_TRY(expect_rows(name, "v", a.v, d.dtype, k_shape(d, d.dv())));
  BARACUDA_TRY(expect_rows(name, "y", a.y, d.dtype, q_shape(d, d.dv())));
  if (!a.lse.absent()) BARACUDA_TRY(expect(name, "lse", a.lse, accumulator(d.dtype), lse_shape(d)));
  return expect_side(name, d, a.bias, a.alibi_slopes, a.cu_seqlens_q, a.cu_seqlens_k);
}
std::span<const Kernel<FlashSdpa>> FlashSdpa::kernels() {
  static constexpr Kernel<FlashSdpa> list[] = {{.name = "flash_sdpa.cpu.online",
                                                .launch = launch_all<FlashSdpa>(Floating{}, attention::run_forward),
                                                .guarantee = attention::guarantee,
                                                .carve = attention::carve}};
  return list;
}

}  // namespace baracuda
