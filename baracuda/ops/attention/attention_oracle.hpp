#pragma once
// Attention and its gradients from the formula, in double, with plain loops; and how far a result may be from it.
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/attention/attention.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda::testing {

inline constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

inline SdpaDescriptor shape(DType t, int64_t b, int64_t h, int64_t hk, int64_t sq, int64_t sk, int64_t d, int64_t dv = 0) {
  return {.dtype = t, .batch = b, .heads = h, .kv_heads = hk, .q_len = sq, .k_len = sk, .head_dim = d, .head_dim_v = dv};
}

// The tensors of a case. Unused ones stay absent.
struct Sdpa {
  SdpaDescriptor d;
  Tensor q, k, v, dy, bias, slopes, cu_q, cu_k;
  Tensor y, lse, dq, dk, dv, dbias;
  PlanPreference preference, backward_preference;

  static Shape q_shape(const SdpaDescriptor& d, int64_t width) {
    return d.varlen ? Shape{d.total_q, d.heads, width} : Shape{d.batch, d.heads, d.q_len, width};
  }
  static Shape k_shape(const SdpaDescriptor& d, int64_t width) {
    return d.varlen ? Shape{d.total_k, d.hk(), width} : Shape{d.batch, d.hk(), d.k_len, width};
  }
  explicit Sdpa(const SdpaDescriptor& desc, uint64_t seed = 1, double spread = 1, Layout layout = Layout::dense) : d(desc) {
    const DType t = d.dtype;
    q = Tensor::normal(t, q_shape(d, d.head_dim), seed, 0, spread, layout);
    k = Tensor::normal(t, k_shape(d, d.head_dim), seed + 1, 0, spread, layout);
    v = Tensor::normal(t, k_shape(d, d.dv()), seed + 2, 0.3, 1, layout);
    dy = Tensor::normal(t, q_shape(d, d.dv()), seed + 3, 0, 1, layout);
    if (d.has_bias()) {
      bias = Tensor::normal(d.bias_dtype.value_or(t), d.bias_shape, seed + 4);
      dbias = Tensor(d.bias_dtype.value_or(t), d.bias_shape);
    }
    if (d.alibi) slopes = Tensor::uniform(DType::f32, {d.batch, d.heads}, seed + 5, 0, 0.5);
    const DType sum = accumulator(t);
    y = Tensor(t, q_shape(d, d.dv()), layout);
    lse = Tensor(sum, d.varlen ? Shape{d.heads, d.total_q} : Shape{d.batch, d.heads, d.q_len});
    dq = Tensor(t, q_shape(d, d.head_dim), layout), dk = Tensor(t, k_shape(d, d.head_dim), layout), dv = Tensor(t, k_shape(d, d.dv()), layout);
  }
  void lengths(const std::vector<int64_t>& queries, const std::vector<int64_t>& keys, DType t = DType::i32) {
    cu_q = Tensor(t, {d.batch + 1}), cu_k = Tensor(t, {d.batch + 1});
    for (int64_t b = 0; b <= d.batch; ++b) cu_q.set(b, double(queries[size_t(b)])), cu_k.set(b, double(keys[size_t(b)]));
  }
  FlashSdpa::Args forward_args() const { return {q, k, v, y, lse, bias, slopes, cu_q, cu_k}; }
  FlashSdpaBackward::Args backward_args() const { return {dy, q, k, v, y, lse, dq, dk, dv, bias, dbias, slopes, cu_q, cu_k}; }
  Status forward() const { return run_plan<FlashSdpa>(d, forward_args(), preference); }
  Status backward() const { return run_plan<FlashSdpaBackward>(d, backward_args(), backward_preference); }
};

struct SdpaTruth {
  std::vector<double> y, lse, dq, dk, dv, dbias;
  // Magnitudes for the tolerance, in roundings of the type of sums: see `roundings`.
  std::vector<double> y_scale, lse_scale, dq_scale, dk_scale, dv_scale, dbias_scale;
  int64_t terms = 0;
};

inline SdpaTruth sdpa_truth(const Sdpa& c) {
  const SdpaDescriptor& d = c.d;
  const int64_t D = d.head_dim, Dv = d.dv(), H = d.heads, Hk = d.hk();
  SdpaTruth t;
  t.terms = std::max<int64_t>({D, Dv, 128});  // products run in blocks of 128
  const std::vector<double> q = c.q.values(), k = c.k.values(), v = c.v.values(), dy = c.dy.values();
  const std::vector<double> bias = d.has_bias() ? c.bias.values() : std::vector<double>();
  for (auto* x : {&t.y, &t.y_scale}) x->assign(size_t(c.y.numel()), 0);
  for (auto* x : {&t.lse, &t.lse_scale}) x->assign(size_t(c.lse.numel()), 0);
  for (auto* x : {&t.dq, &t.dq_scale}) x->assign(q.size(), 0);
  for (auto* x : {&t.dk, &t.dk_scale}) x->assign(k.size(), 0);
  for (auto* x : {&t.dv, &t.dv_scale}) x->assign(v.size(), 0);
  for (auto* x : {&t.dbias, &t.dbias_scale}) x->assign(bias.size(), 0);

  // Errors relative to p: the scores' own, that of the short exponential, p rounded for bf16 products; and, in the
  // backward, y rounded in delta. All in units of one rounding of the sums times (4 + 4 sqrt(terms)).
  const bool half = d.dtype == DType::f16 || d.dtype == DType::bf16;
  const double unit = unit_roundoff(accumulator(d.dtype)) * (4 + 4 * std::sqrt(double(t.terms)));
  const auto plan = FlashSdpaPlan::select(test_stream(), d, c.preference);
  const auto gradients = FlashSdpaBackwardPlan::select(test_stream(), d, c.backward_preference);
  const bool rounds = d.dtype == DType::bf16 || (half && plan.ok() && plan->precision_guarantee().math_precision == d.dtype) ||
                      (half && gradients.ok() && gradients->precision_guarantee().math_precision == d.dtype);
  const double weight = ((half ? 0x1p-18 : 0) + (rounds ? 2 * unit_roundoff(d.dtype) : 0)) / unit;
  const double rounded_y = half ? unit_roundoff(d.dtype) / unit : 0;

  const double scale = d.scale.value_or(1 / std::sqrt(double(D)));
  for (int64_t b = 0; b < d.batch; ++b) {
    int64_t sq = d.q_len, sk = d.k_len, q0 = 0, k0 = 0;
    if (d.varlen) q0 = int64_t(c.cu_q.at(b)), k0 = int64_t(c.cu_k.at(b)), sq = int64_t(c.cu_q.at(b + 1)) - q0, sk = int64_t(c.cu_k.at(b + 1)) - k0;
    for (int64_t h = 0; h < H; ++h) {
      const int64_t g = h / (H / Hk);
      auto q_row = [&](int64_t i) { return d.varlen ? (q0 + i) * H + h : (b * H + h) * sq + i; };
      auto k_row = [&](int64_t j) { return d.varlen ? (k0 + j) * Hk + g : (b * Hk + g) * sk + j; };
      for (int64_t i = 0; i < sq; ++i) {
        const int64_t position = d.align == CausalAlign::top_left ? i : i + sk - sq, qr = q_row(i);
        std::vector<double> s(size_t(sk), -INFINITY), slope(size_t(sk), 1), p(size_t(sk), 0), mass(size_t(sk), 0);
        std::vector<int64_t> at_bias(size_t(sk), 0);
        double top = -INFINITY, condition = 0;
        for (int64_t j = 0; j < sk; ++j) {
          if ((d.causal && j > position) || (d.window_left >= 0 && position - j > d.window_left) ||
              (d.window_right >= 0 && j - position > d.window_right))
            continue;
          double extra = 0;
          if (d.has_bias()) {
            int64_t at = 0;
            const int64_t index[4] = {b, h, i, j};
            for (int a = 0; a < 4; ++a) at = at * d.bias_shape[a] + (d.bias_shape[a] == 1 ? 0 : index[a]);
            at_bias[size_t(j)] = at;
            extra = bias[size_t(at)];
            if (extra == -INFINITY) continue;
          }
          double dot = 0, size = 0;
          for (int64_t e = 0; e < D; ++e) dot += q[size_t(qr * D + e)] * k[size_t(k_row(j) * D + e)], size += std::fabs(q[size_t(qr * D + e)] * k[size_t(k_row(j) * D + e)]);
          double x = dot * scale;
          if (d.softcap > 0) {
            const double th = std::tanh(x / d.softcap);
            x = d.softcap * th, slope[size_t(j)] = 1 - th * th;
          }
          if (d.alibi) extra -= c.slopes.at(b * H + h) * std::fabs(double(position - j));
          s[size_t(j)] = x + extra;
          condition = std::max(condition, size * std::fabs(scale) + std::fabs(extra));
          if (!(s[size_t(j)] <= top)) top = s[size_t(j)];
        }
        double sum = 0;
        for (int64_t j = 0; j < sk; ++j) sum += s[size_t(j)] == -INFINITY ? 0 : std::exp(s[size_t(j)] - top);
        const bool none = sum == 0;
        const double lse = none ? -INFINITY : top + std::log(sum);
        const int64_t lr = d.varlen ? h * d.total_q + q0 + i : (b * H + h) * sq + i;
        const double error = 1 + 2 * condition + weight;
        t.lse[size_t(lr)] = lse, t.lse_scale[size_t(lr)] = 1 + 2 * condition + (half ? 0x1p-18 / unit : 0);
        if (none) continue;
        double delta = 0, delta_size = 0;
        for (int64_t j = 0; j < sk; ++j) p[size_t(j)] = s[size_t(j)] == -INFINITY ? 0 : std::exp(s[size_t(j)] - lse);
        for (int64_t e = 0; e < Dv; ++e) {
          double y = 0, size = 0;
          for (int64_t j = 0; j < sk; ++j)
            if (s[size_t(j)] != -INFINITY) y += p[size_t(j)] * v[size_t(k_row(j) * Dv + e)], size += p[size_t(j)] * std::fabs(v[size_t(k_row(j) * Dv + e)]);
          t.y[size_t(qr * Dv + e)] = y, t.y_scale[size_t(qr * Dv + e)] = error * size;
          delta += dy[size_t(qr * Dv + e)] * y, delta_size += std::fabs(dy[size_t(qr * Dv + e)]) * size;
        }
        for (int64_t j = 0; j < sk; ++j) {
          if (s[size_t(j)] == -INFINITY) continue;
          const int64_t kr = k_row(j);
          double dp = 0, dp_size = 0;
          for (int64_t e = 0; e < Dv; ++e) {
            const double g_e = dy[size_t(qr * Dv + e)], v_e = v[size_t(kr * Dv + e)];
            dp += g_e * v_e, dp_size += std::fabs(g_e * v_e);
            t.dv[size_t(kr * Dv + e)] += p[size_t(j)] * g_e;
            t.dv_scale[size_t(kr * Dv + e)] += error * p[size_t(j)] * std::fabs(g_e);
          }
          const double ds = p[size_t(j)] * (dp - delta), size = p[size_t(j)] * (dp_size + delta_size) * (error + rounded_y);
          if (d.has_bias()) t.dbias[size_t(at_bias[size_t(j)])] += ds, t.dbias_scale[size_t(at_bias[size_t(j)])] += size;
          for (int64_t e = 0; e < D; ++e) {
            const double k_e = k[size_t(kr * D + e)], q_e = q[size_t(qr * D + e)];
            t.dq[size_t(qr * D + e)] += scale * ds * slope[size_t(j)] * k_e, t.dq_scale[size_t(qr * D + e)] += std::fabs(scale * k_e) * size;
            t.dk[size_t(kr * D + e)] += scale * ds * slope[size_t(j)] * q_e, t.dk_scale[size_t(kr * D + e)] += std::fabs(scale * q_e) * size;
          }
        }
      }
    }
  }
  return t;
}

// Runs forward and backward and compares everything with the oracle. y and lse of the forward feed the backward.
inline void check_sdpa(const Sdpa& c) {
  SCOPED_TRACE(describe(c.d));
  const SdpaTruth t = sdpa_truth(c);
  ASSERT_OK(c.forward());
  ASSERT_OK(c.backward());
  const Tolerance tolerance{.dtype = c.d.dtype, .ulps = 1, .terms = double(t.terms)};
  Tolerance sums = tolerance;
  sums.dtype = accumulator(c.d.dtype);
  EXPECT_CLOSE(c.y, t.y, tolerance, &t.y_scale);
  EXPECT_CLOSE(c.lse, t.lse, sums, &t.lse_scale);
  EXPECT_CLOSE(c.dq, t.dq, tolerance, &t.dq_scale);
  EXPECT_CLOSE(c.dk, t.dk, tolerance, &t.dk_scale);
  EXPECT_CLOSE(c.dv, t.dv, tolerance, &t.dv_scale);
  if (c.d.has_bias()) {
    Tolerance b = tolerance;
    b.dtype = c.dbias.dtype();
    EXPECT_CLOSE(c.dbias, t.dbias, b, &t.dbias_scale);
  }
  for (const Tensor* x : {&c.y, &c.lse, &c.dq, &c.dk, &c.dv}) EXPECT_TRUE(x->guards_intact());
}

}  // namespace baracuda::testing
