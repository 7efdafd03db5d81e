#pragma once
// Scaled dot-product attention whose scores are never whole in memory, and its gradients (Dao, "FlashAttention-2",
// 2023; the online softmax of Milakov and Gimelshein, 2018).
//
//   s[i][j] = softcap(scale q[i].k[j]) + bias[i][j] - slope |p(i) - j|,   -inf where the mask hides key j from query i
//   lse[i]  = log sum_j exp(s[i][j]),   y[i] = sum_j exp(s[i][j] - lse[i]) v[j]
//
// in this order: scale, softcap(s) = c tanh(s / c) for c > 0, bias and ALiBi, mask. scale is 1 / sqrt(head_dim) unless
// given. lse is the natural logarithm, no maximum subtracted, so results over two sets of keys merge:
// y = sum_t exp(lse_t - lse) y_t. It is f32, f64 for f64.
//
// Shapes. q, dq [B, H, Sq, D]; k, dk [B, Hk, Sk, D]; v, dv [B, Hk, Sk, Dv]; y, dy [B, H, Sq, Dv]; lse [B, H, Sq]. Any
// strides (zero for inputs, negative), but the last axis dense: a [B, S, H, D] tensor is a view with the strides of its
// axes in this order. Every tensor has strides of its own. lse, bias and the slopes may have any strides.
// varlen: q, y [total_q, H, D|Dv], k, v [total_k, Hk, D|Dv], lse [H, total_q]; cu_seqlens_q and cu_seqlens_k (i32 or
// i64, [B + 1], from 0, not falling) give each sequence's rows; q_len and k_len are the largest lengths. Rows of no sequence are
// not written. No bias with varlen. The CPU refuses wrong lengths; on CUDA they are on the device and are cut to the tensors.
// Heads. H is a multiple of Hk; query head h reads key head h / (H / Hk). dk and dv are summed over the group.
// Mask. Query i stands at position p(i) = i + Sk - Sq (bottom_right, the default: the last query sees the last key) or
// p(i) = i (top_left). causal: j <= p(i). window_left = l: j >= p(i) - l, window_right = r: j <= p(i) + r, both
// inclusive; -1 is unbounded, other negative values are refused. A window of w tokens in all is window_left = w - 1.
// ALiBi. slopes f32 [H], [1, H] or [B, H]; distances count from p(i). Bias: [B|1, H|1, Sq|1, Sk|1] as bias_shape says,
// of dtype or f32; a bias of -inf hides the key like the mask does.
//
// Hidden keys never matter, whatever they hold: NaN in them stays there, forward and backward. A query that sees no key
// (Sk = 0 included) gives y = 0, lse = -inf and gradient 0. NaN in a visible key or in the query gives NaN.
//
// Gradients. dy is the gradient of y; lse carries none. With p = exp(s - lse), delta[i] = dy[i].y[i]:
//   dv = p^T dy,   dp = dy v^T,   ds = p (dp - delta),   dbias = ds summed over broadcast axes,
//   dq = scale (ds slope) k,   dk = scale (ds slope)^T q,   slope = 1 - tanh^2 of the softcap, 1 without one.
//
// Dtypes f16 bf16 f32 f64. Sums and softmax in f32 (f64 for f64), results rounded once. Products: f32 for f16; for bf16
// on processors with AVX512_BF16 bf16 products with f32 sums, for which p and ds are rounded to bf16. On CUDA's tensor cores p and
// ds are rounded to the dtype (math_precision of the guarantee says so); ds of f16 is kept in range by powers of two.
// Guarantee: deterministic, independent of the number of threads, batch invariant. Workspace: scratch per thread, delta,
// and what plan.workspace_items() tells; k and v are never expanded to the query heads.
// Rows of cuDNN, taken only where the preference names them, promise less (attention.md): tensors lie as [B, H, S, D] or [B, S, H, D] without
// gaps, NaN and infinities of a hidden key show in rows that do not see it, ds of f16 is not kept in range, the backward's bits change from run to run.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

enum class CausalAlign : uint8_t { bottom_right, top_left };
constexpr std::array<std::string_view, 2> enum_names(CausalAlign) { return {"bottom_right", "top_left"}; }

inline constexpr int64_t kMaxHeadDim = 256;

struct SdpaDescriptor {
  DType dtype = DType::f32;
  int64_t batch = 1, heads = 1, kv_heads = 0, q_len = 1, k_len = 1, head_dim = 64, head_dim_v = 0;
  std::optional<double> scale;
  bool causal = false;
  CausalAlign align = CausalAlign::bottom_right;
  int64_t window_left = -1, window_right = -1;
  double softcap = 0;
  bool alibi = false;
  Shape bias_shape;
  std::optional<DType> bias_dtype;
  bool varlen = false;
  int64_t total_q = 0, total_k = 0;

  // The values that the defaults stand for.
  int64_t hk() const { return kv_heads ? kv_heads : heads; }
  int64_t dv() const { return head_dim_v ? head_dim_v : head_dim; }
  bool has_bias() const { return bias_shape.rank != 0; }

  static constexpr auto fields() {
    using D = SdpaDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of q, k, v and y"), field("batch", &D::batch, "items, or sequences with varlen"),
                      field("heads", &D::heads, "of q"), field("kv_heads", &D::kv_heads, "of k and v, a divisor of heads; 0: heads"),
                      field("q_len", &D::q_len, "queries per item; with varlen the most"),
                      field("k_len", &D::k_len, "keys per item; with varlen the most"), field("head_dim", &D::head_dim, "of q and k, at most 256"),
                      field("head_dim_v", &D::head_dim_v, "of v and y, at most 256; 0: head_dim"),
                      field("scale", &D::scale, "of the scores; none: 1 / sqrt(head_dim)"), field("causal", &D::causal, "no key after the query's position"),
                      field("align", &D::align, "whether the last or the first query meets the last or first key"),
                      field("window_left", &D::window_left, "keys before the query's position; -1: all"),
                      field("window_right", &D::window_right, "keys after the query's position; -1: all"),
                      field("softcap", &D::softcap, "c of c tanh(s / c); 0: none"), field("alibi", &D::alibi, "slopes are given"),
                      field("bias_shape", &D::bias_shape, "[B|1, H|1, Sq|1, Sk|1]; empty: no bias"),
                      field("bias_dtype", &D::bias_dtype, "f32 or dtype; none: dtype"),
                      field("varlen", &D::varlen, "sequences of different lengths, one after the other"),
                      field("total_q", &D::total_q, "query rows of all sequences, with varlen"),
                      field("total_k", &D::total_k, "key rows of all sequences, with varlen"));
  }
};

struct FlashSdpa {
  static constexpr std::string_view name = "flash_sdpa", category = "attention",
                                    summary = "y = softmax(scale q k^T + bias, masked) v and its log-sum-exp";
  using Descriptor = SdpaDescriptor;
  struct Args {
    TensorView q, k, v, y, lse, bias, alibi_slopes, cu_seqlens_q, cu_seqlens_k;
    static constexpr auto args() {
      return std::tuple(arg("q", &Args::q, Role::in), arg("k", &Args::k, Role::in), arg("v", &Args::v, Role::in), arg("y", &Args::y, Role::out),
                        arg("lse", &Args::lse, Role::optional_out, "the backward needs it"), arg("bias", &Args::bias, Role::optional_in),
                        arg("alibi_slopes", &Args::alibi_slopes, Role::optional_in), arg("cu_seqlens_q", &Args::cu_seqlens_q, Role::optional_in),
                        arg("cu_seqlens_k", &Args::cu_seqlens_k, Role::optional_in));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<FlashSdpa>> kernels();
  static std::string_view layout(const Descriptor& d) { return d.varlen ? "varlen" : "strided"; }
  static double flops(const Descriptor&);  // of the matrix products, over the pairs of a query and a key that it sees; 0 with varlen
};
using FlashSdpaPlan = Plan<FlashSdpa>;

// y and lse are those of the forward. dbias, where wanted, has bias_shape and the dtype of bias.
struct FlashSdpaBackward {
  static constexpr std::string_view name = "flash_sdpa_backward", category = "attention", summary = "gradients of flash_sdpa";
  using Descriptor = SdpaDescriptor;
  struct Args {
    TensorView dy, q, k, v, y, lse, dq, dk, dv, bias, dbias, alibi_slopes, cu_seqlens_q, cu_seqlens_k;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("q", &Args::q, Role::in), arg("k", &Args::k, Role::in), arg("v", &Args::v, Role::in),
                        arg("y", &Args::y, Role::in), arg("lse", &Args::lse, Role::in), arg("dq", &Args::dq, Role::out),
                        arg("dk", &Args::dk, Role::out), arg("dv", &Args::dv, Role::out), arg("bias", &Args::bias, Role::optional_in),
                        arg("dbias", &Args::dbias, Role::optional_out), arg("alibi_slopes", &Args::alibi_slopes, Role::optional_in),
                        arg("cu_seqlens_q", &Args::cu_seqlens_q, Role::optional_in), arg("cu_seqlens_k", &Args::cu_seqlens_k, Role::optional_in));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<FlashSdpaBackward>> kernels();
  static std::string_view layout(const Descriptor& d) { return d.varlen ? "varlen" : "strided"; }
  static double flops(const Descriptor&);
};
using FlashSdpaBackwardPlan = Plan<FlashSdpaBackward>;

}  // namespace baracuda
