#include <cmath>
#include "baracuda/ops/attention/attention.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

struct Problem {
  int64_t batch, heads, kv_heads, q_len, k_len, d, dv;
  double scale;
  bool causal;
  Values bias;  // [batch, heads, q_len, k_len]; empty: none
};
struct Row { Values p; double most; };  // softmax of one query, largest term of a score
Row softmax_row(const Problem& a, const Values& q, const Values& k, int64_t b, int64_t h, int64_t i) {
  const int64_t kh = h / (a.heads / a.kv_heads);
  Row row{Values(size_t(a.k_len)), 0};
  double most = -INFINITY, sum = 0;
  for (int64_t j = 0; j < a.k_len; ++j) {
    double s = 0, size = 0;
    for (int64_t e = 0; e < a.d; ++e) {
      const double term = q[size_t(((b * a.heads + h) * a.q_len + i) * a.d + e)] * k[size_t(((b * a.kv_heads + kh) * a.k_len + j) * a.d + e)];
      s += term, size += std::fabs(term);
    }
    row.most = std::max(row.most, size * std::fabs(a.scale));
    s *= a.scale;
    if (!a.bias.empty()) s += a.bias[size_t(((b * a.heads + h) * a.q_len + i) * a.k_len + j)];
    if (a.causal && j > i) s = -INFINITY;
    row.p[size_t(j)] = s, most = std::max(most, s);
  }
  for (double& s : row.p) s = most == -INFINITY ? 0 : std::exp(s - most), sum += s;
  for (double& s : row.p) s = sum > 0 ? s / sum : 0;
  return row;
}
Numbers forward(const Problem& a, const Values& q, const Values& k, const Values& v) {
  Numbers n;
  for (int64_t b = 0; b < a.batch; ++b)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.q_len; ++i) {
        const Row row = softmax_row(a, q, k, b, h, i);
        for (int64_t e = 0; e < a.dv; ++e) {
          double y = 0, size = 0;
          for (int64_t j = 0; j < a.k_len; ++j) {
            const double term = row.p[size_t(j)] * v[size_t(((b * a.kv_heads + h / (a.heads / a.kv_heads)) * a.k_len + j) * a.dv + e)];
            y += term, size += std::fabs(term);
          }
          n.y.push_back(y), n.scale.push_back(size * (1 + row.most));  // the exponent's error is that of the score
        }
      }
  return n;
}

Status sdpa(Replay& r, std::string_view) {
  const Held *q = r.input(), *k = r.tensor(0, "key"), *v = r.tensor(1, "value"), *mask = r.tensor(2, "attn_mask");
  if (r.value(3, "dropout_p", 0.0) != 0) return r.decline(kDropout);
  // [batch.., heads, length, width]; without a head axis there is one head.
  auto four = [](TensorView t) {
    while (t.shape.rank < 4) t = unsqueezed(t, t.shape.rank == 3 ? 1 : 0);
    return t;
  };
  const TensorView q4 = four(*q), k4 = four(*k), v4 = four(*v);
  SdpaDescriptor d{.dtype = q->dtype(), .batch = q4.shape[0], .heads = q4.shape[1], .kv_heads = k4.shape[1], .q_len = q4.shape[2],
                   .k_len = k4.shape[2], .head_dim = q4.shape[3], .head_dim_v = v4.shape[3], .causal = r.value(4, "is_causal", false),
                   .align = CausalAlign::top_left};
  if (r.argument(5, "scale")) d.scale = r.value(5, "scale", 1.0);
  Problem a{d.batch, d.heads, d.hk(), d.q_len, d.k_len, d.head_dim, d.dv(), d.scale.value_or(1 / std::sqrt(double(d.head_dim))), d.causal, {}};
  std::optional<Tensor> bias;  // a mask of booleans hides where it is false
  TensorView bias4;
  if (mask) {
    bias.emplace(mask->dtype() == DType::boolean ? DType::f32 : mask->dtype(), mask->shape());
    const Values m = mask->values();
    for (size_t i = 0; i < m.size(); ++i) bias->set(int64_t(i), mask->dtype() == DType::boolean ? (m[i] != 0 ? 0 : -INFINITY) : m[i]);
    bias4 = *bias;
    while (bias4.shape.rank < 4) bias4 = unsqueezed(bias4, mask->shape().rank == 3 && q->shape().rank == 3 ? 1 : 0);
    d.bias_shape = bias4.shape, d.bias_dtype = bias->dtype();
    a.bias = values_of(expanded(bias4, {d.batch, d.heads, d.q_len, d.k_len}));
  }
  Tensor y(d.dtype, {d.batch, d.heads, d.q_len, d.dv()}), lse(accumulator(d.dtype), {d.batch, d.heads, d.q_len});
  BARACUDA_TRY(run_plan<FlashSdpa>(d, {.q = q4, .k = k4, .v = v4, .y = y, .lse = lse, .bias = bias4}));
  r.output(0, y);
  // Where the processor has bf16 products, p and ds are rounded to bf16, and delta reads the rounded y.
  r.judge = {.ulps = 1, .terms = double(std::max(d.k_len, d.head_dim)), .inner = d.dtype == DType::bf16 ? 3.0 : 0.0};
  if (!mask || mask->gradient < 0)
    r.reference = [&r, a, q, k, v](const Inputs& in) { return forward(a, r.numbers(*q, in), r.numbers(*k, in), r.numbers(*v, in)); };
  if (!r.has_gradients()) return {};
  Tensor dq(d.dtype, q4.shape), dk(d.dtype, k4.shape), dv(d.dtype, v4.shape), dbias;
  if (mask && mask->gradient >= 0) dbias = Tensor(bias->dtype(), bias4.shape);
  BARACUDA_TRY(run_plan<FlashSdpaBackward>(d, {.dy = four(r.dy()), .q = q4, .k = k4, .v = v4, .y = y, .lse = lse, .dq = dq, .dk = dk, .dv = dv,
                                               .bias = bias4, .dbias = dbias}));
  r.gradient(*q, dq), r.gradient(*k, dk), r.gradient(*v, dv);
  if (mask && mask->gradient >= 0) r.gradient(*mask, dbias);
  // ds = p (dp - delta), with the errors of p, dp and delta.
  const Values qv = q->values(), kv = k->values(), vv = v->values(), dy = r.dy().values(), yv = y.values();
  Values cq(qv.size()), ck(kv.size()), cv(vv.size());
  for (int64_t b = 0; b < a.batch; ++b)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.q_len; ++i) {
        const Row row = softmax_row(a, qv, kv, b, h, i);
        const int64_t kh = h / (a.heads / a.kv_heads), at = ((b * a.heads + h) * a.q_len + i);
        for (int64_t j = 0; j < a.k_len; ++j) {
          const int64_t key = (b * a.kv_heads + kh) * a.k_len + j;
          const double p = row.p[size_t(j)] * (1 + row.most);
          double size = 0;
          for (int64_t e = 0; e < a.dv; ++e) {
            const double g = std::fabs(dy[size_t(at * a.dv + e)]);
            size += g * (std::fabs(vv[size_t(key * a.dv + e)]) + std::fabs(yv[size_t(at * a.dv + e)]));
            cv[size_t(key * a.dv + e)] += p * g;
          }
          for (int64_t e = 0; e < a.d; ++e) {
            cq[size_t(at * a.d + e)] += std::fabs(a.scale * kv[size_t(key * a.d + e)]) * p * size;
            ck[size_t(key * a.d + e)] += std::fabs(a.scale * qv[size_t(at * a.d + e)]) * p * size;
          }
        }
      }
  r.condition(*q, cq), r.condition(*k, ck), r.condition(*v, cv);
  return {};
}

}  // namespace

Family attention_family() {
  static const Entry entries[] = {{"nn.functional.scaled_dot_product_attention", sdpa}};
  static const Declined declined[] = {{"nn.functional.scaled_dot_product_attention", {2, 3, 6, 7}, kDropout}};
  return {.adapters = entries, .declined = declined};
}

}  // namespace baracuda::golden
