#pragma once
// A Llama-style decoder on plans: embedding; layers of RMSNorm, rotary positions, grouped-query causal attention and
// SwiGLU with residual connections; RMSNorm and a linear head fused with the cross entropy. All plans are chosen and all
// memory is laid out in prepare(); forward, backward and evaluate allocate nothing.
//
// dtype f32: everything in f32. dtype bf16: matrices and activations bf16, norm weights and all gradients of weights f32.
#include "baracuda/ops/attention/attention.hpp"
#include "baracuda/ops/embedding/embedding.hpp"
#include "baracuda/ops/gated/gated.hpp"
#include "baracuda/ops/gemm/gemm.hpp"
#include "baracuda/ops/loss/fused_linear_cross_entropy.hpp"
#include "baracuda/ops/norm/norm.hpp"
#include "baracuda/ops/position/position.hpp"
#include "cli/train/parameters.hpp"
#include "cli/train/plans.hpp"

namespace baracuda::cli {

// Heads [first, first + count) of a packed [batch * context, any * head_dim] tensor as [batch, count, context, head_dim].
TensorView heads_view(const TensorView& packed, int64_t batch, int64_t context, int64_t head_dim, int64_t first, int64_t count);

class Model {
 public:
  Model(const Settings& s, Plans& plans);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Chooses the plans and counts the memory; nothing is allocated yet.
  Status select();
  uint64_t bytes() const { return arena_.bytes() + weights.bytes() + gradients.bytes(); }
  Status allocate();

  // Queue work on the stream for a batch of batch * context tokens and targets, which stay as they are until loss() has
  // returned. forward also prepares backward, which fills `gradients` for the batch of the last forward.
  Status forward(std::span<const int64_t> tokens, std::span<const int64_t> targets);
  Status backward();
  Status evaluate(std::span<const int64_t> tokens, std::span<const int64_t> targets);
  // The mean loss of the last batch; waits for the stream.
  Status loss(float& value) const;

  Parameters weights, gradients;

 private:
  // What the backward needs of a layer.
  struct Saved {
    TensorView in, normed, rstd, qkv, lse, attended;  // attention half; `in` is the residual stream that enters it
    TensorView mid, mid_normed, mid_rstd, gate_up, act;  // feed-forward half
  };
  Status hidden(std::span<const int64_t> tokens, std::span<const int64_t> targets);
  TensorView heads_of(const TensorView& packed, int64_t first, int64_t count) const;
  TensorView q_of(const TensorView& p) const { return heads_of(p, 0, s_.heads); }
  TensorView k_of(const TensorView& p) const { return heads_of(p, s_.heads, s_.kv_heads); }
  TensorView v_of(const TensorView& p) const { return heads_of(p, s_.heads + s_.kv_heads, s_.kv_heads); }
  TensorView gate_of(const TensorView& p) const;
  TensorView up_of(const TensorView& p) const;

  Settings s_;
  Plans& plans_;
  Arena arena_;
  std::vector<Saved> saved_;
  TensorView tokens_, targets_;
  // The end of the network, and memory that every layer uses in turn.
  TensorView final_, final_normed_, final_rstd_, loss_;
  TensorView branch_;                                // what a half of a layer adds to the residual stream
  TensorView dstream_, dbranch_, dqkv_, dattended_, dgate_up_, dact_;

  std::optional<EmbeddingPlan> embed_;
  std::optional<EmbeddingBackwardPlan> embed_backward_;
  std::optional<RmsNormPlan> norm_;
  std::optional<RmsNormBackwardPlan> norm_backward_;
  std::optional<RopePlan> rope_q_, rope_k_;
  std::optional<RopeBackwardPlan> rope_q_backward_, rope_k_backward_;
  std::optional<FlashSdpaPlan> attention_;
  std::optional<FlashSdpaBackwardPlan> attention_backward_;
  std::optional<GatedPlan> gated_;
  std::optional<GatedBackwardPlan> gated_backward_;
  struct Linear { std::optional<GemmPlan> forward, dx, dw; };
  Linear qkv_, out_, gate_up_, down_;
  Status select_linear(Linear& l, int64_t inputs, int64_t outputs);
  Status linear(const Linear& l, const TensorView& x, const TensorView& w, const TensorView& y) { return plans_.run(l.forward, {x, w, y, {}}); }
  Status linear_backward(const Linear& l, const TensorView& dy, const TensorView& x, const TensorView& w, const TensorView& dx, const TensorView& dw);
  std::optional<FusedLinearCrossEntropyPlan> loss_with_gradients_, loss_only_;
};

}  // namespace baracuda::cli
