#include "cli/train/model.hpp"
#include "baracuda/core/transfer.hpp"

namespace baracuda::cli {
namespace {

// Norm weights are few and stay in f32 beside bf16 matrices.
constexpr DType kVectors = DType::f32;

// Columns [first, first + count) of a row-major matrix.
TensorView columns(const TensorView& m, int64_t first, int64_t count) {
  TensorView v = m;
  v.data = m.as<char>() + first * int64_t(byte_size(m.dtype));
  v.shape[1] = count;
  return v;
}

}  // namespace

TensorView heads_view(const TensorView& packed, int64_t batch, int64_t context, int64_t head_dim, int64_t first, int64_t count) {
  const int64_t pitch = packed.strides[0];
  TensorView v = packed;
  v.data = packed.as<char>() + first * head_dim * int64_t(byte_size(packed.dtype));
  v.shape = {batch, count, context, head_dim};
  v.strides = {context * pitch, head_dim, pitch, 1};
  return v;
}

Model::Model(const Settings& s, Plans& plans)
    : weights(s, plans.stream().device, s.dtype, kVectors), gradients(s, plans.stream().device, DType::f32, DType::f32), s_(s), plans_(plans), arena_(plans.stream().device), saved_(size_t(s.layers)) {
  const int64_t n = s.tokens(), packed = (s.heads + 2 * s.kv_heads) * s.head_dim();
  for (Saved& l : saved_) {
    for (TensorView* t : {&l.in, &l.normed, &l.attended, &l.mid, &l.mid_normed}) arena_.add(*t, s.dtype, {n, s.width});
    for (TensorView* t : {&l.rstd, &l.mid_rstd}) arena_.add(*t, DType::f32, {n});
    arena_.add(l.qkv, s.dtype, {n, packed});
    arena_.add(l.lse, DType::f32, {s.batch, s.heads, s.context});
    arena_.add(l.gate_up, s.dtype, {n, 2 * s.hidden});
    arena_.add(l.act, s.dtype, {n, s.hidden});
  }
  for (TensorView* t : {&final_, &final_normed_, &branch_, &dstream_, &dbranch_, &dattended_}) arena_.add(*t, s.dtype, {n, s.width});
  for (TensorView* t : {&tokens_, &targets_}) arena_.add(*t, DType::i64, {n});
  arena_.add(final_rstd_, DType::f32, {n});
  arena_.add(loss_, DType::f32, {});
  arena_.add(dqkv_, s.dtype, {n, packed});
  arena_.add(dgate_up_, s.dtype, {n, 2 * s.hidden});
  arena_.add(dact_, s.dtype, {n, s.hidden});
}

Status Model::select() {
  const int64_t n = s_.tokens(), d = s_.head_dim();
  const EmbeddingDescriptor embed{.dtype = s_.dtype, .vocabulary = s_.vocabulary, .width = s_.width, .indices = {n}};
  BARACUDA_TRY(plans_.select(embed_, embed));
  const RmsNormDescriptor norm{.dtype = s_.dtype, .shape = {n, s_.width}, .eps = s_.norm_eps, .weight_dtype = kVectors};
  BARACUDA_TRY(plans_.select(norm_, norm));
  BARACUDA_TRY(select_linear(qkv_, s_.width, (s_.heads + 2 * s_.kv_heads) * d));
  const auto rope = [&](int64_t heads) { return RopeDescriptor{.dtype = s_.dtype, .shape = {s_.batch, heads, s_.context, d}, .theta = s_.rope_theta}; };
  BARACUDA_TRY(plans_.select(rope_q_, rope(s_.heads)));
  BARACUDA_TRY(plans_.select(rope_k_, rope(s_.kv_heads)));
  const SdpaDescriptor attention{.dtype = s_.dtype, .batch = s_.batch, .heads = s_.heads, .kv_heads = s_.kv_heads, .q_len = s_.context,
                                 .k_len = s_.context, .head_dim = d, .causal = true};
  BARACUDA_TRY(plans_.select(attention_, attention));
  BARACUDA_TRY(select_linear(out_, s_.width, s_.width));
  BARACUDA_TRY(select_linear(gate_up_, s_.width, 2 * s_.hidden));
  const GatedDescriptor gated{.kind = GatedKind::swiglu, .dtype = s_.dtype, .shape = {n, s_.hidden}};
  BARACUDA_TRY(plans_.select(gated_, gated));
  BARACUDA_TRY(select_linear(down_, s_.hidden, s_.width));
  FusedLinearCrossEntropyDescriptor loss{.dtype = s_.dtype, .tokens = n, .hidden = s_.width, .classes = s_.vocabulary, .dw_dtype = DType::f32};
  BARACUDA_TRY(plans_.select(loss_only_, loss));
  loss.grad_x = loss.grad_w = true;
  BARACUDA_TRY(plans_.select(loss_with_gradients_, loss));

  BARACUDA_TRY(plans_.select(norm_backward_, norm));
  BARACUDA_TRY(plans_.select(gated_backward_, gated));
  BARACUDA_TRY(plans_.select(attention_backward_, attention));
  BARACUDA_TRY(plans_.select(rope_q_backward_, rope(s_.heads)));
  BARACUDA_TRY(plans_.select(rope_k_backward_, rope(s_.kv_heads)));
  // A tied head's gradient is already in place when the embedding adds its own.
  return plans_.select(embed_backward_, {.dtype = s_.dtype, .vocabulary = s_.vocabulary, .width = s_.width, .indices = {n},
                                         .grad_dtype = DType::f32, .accumulate = s_.tied});
}

Status Model::allocate() {
  BARACUDA_TRY(weights.allocate());
  BARACUDA_TRY(gradients.allocate());
  return arena_.allocate();
}

// y = x w^T, dx = dy w, dw = dy^T x.
Status Model::select_linear(Linear& l, int64_t inputs, int64_t outputs) {
  const int64_t n = s_.tokens();
  BARACUDA_TRY(plans_.select(l.forward, {.dtype = s_.dtype, .m = n, .n = outputs, .k = inputs, .trans_b = true}));
  BARACUDA_TRY(plans_.select(l.dx, {.dtype = s_.dtype, .m = n, .n = inputs, .k = outputs}));
  return plans_.select(l.dw, {.dtype = s_.dtype, .out = DType::f32, .m = outputs, .n = inputs, .k = n, .trans_a = true});
}

Status Model::linear_backward(const Linear& l, const TensorView& dy, const TensorView& x, const TensorView& w, const TensorView& dx, const TensorView& dw) {
  BARACUDA_TRY(plans_.run(l.dx, {dy, w, dx, {}}));
  return plans_.run(l.dw, {dy, x, dw, {}});
}

TensorView Model::heads_of(const TensorView& packed, int64_t first, int64_t count) const {
  return heads_view(packed, s_.batch, s_.context, s_.head_dim(), first, count);
}
TensorView Model::gate_of(const TensorView& p) const { return columns(p, 0, s_.hidden); }
TensorView Model::up_of(const TensorView& p) const { return columns(p, s_.hidden, s_.hidden); }

// Everything up to the normalised input of the head. Each half of a layer leaves its result in branch_; the next norm
// adds it to the residual stream on its way.
Status Model::hidden(std::span<const int64_t> tokens, std::span<const int64_t> targets) {
  BARACUDA_TRY(copy(plans_.stream(), tokens_.data, tokens.data(), tokens.size_bytes()));
  BARACUDA_TRY(copy(plans_.stream(), targets_.data, targets.data(), targets.size_bytes()));
  BARACUDA_TRY(plans_.run(embed_, {tokens_, weights.embedding, saved_[0].in}));
  for (size_t i = 0; i < saved_.size(); ++i) {
    const Saved& a = saved_[i];
    const LayerParameters& w = weights.layers[i];
    if (i == 0) BARACUDA_TRY(plans_.run(norm_, {.x = a.in, .weight = w.attention_norm, .y = a.normed, .rstd = a.rstd}));
    else
      BARACUDA_TRY(plans_.run(norm_, {.x = branch_, .weight = w.attention_norm, .residual = saved_[i - 1].mid, .y = a.normed, .residual_out = a.in, .rstd = a.rstd}));
    BARACUDA_TRY(linear(qkv_, a.normed, w.qkv, a.qkv));
    BARACUDA_TRY(plans_.run(rope_q_, {.x = q_of(a.qkv), .y = q_of(a.qkv)}));
    BARACUDA_TRY(plans_.run(rope_k_, {.x = k_of(a.qkv), .y = k_of(a.qkv)}));
    BARACUDA_TRY(plans_.run(attention_, {.q = q_of(a.qkv), .k = k_of(a.qkv), .v = v_of(a.qkv), .y = heads_of(a.attended, 0, s_.heads), .lse = a.lse}));
    BARACUDA_TRY(linear(out_, a.attended, w.out, branch_));
    BARACUDA_TRY(plans_.run(norm_, {.x = branch_, .weight = w.mlp_norm, .residual = a.in, .y = a.mid_normed, .residual_out = a.mid, .rstd = a.mid_rstd}));
    BARACUDA_TRY(linear(gate_up_, a.mid_normed, w.gate_up, a.gate_up));
    BARACUDA_TRY(plans_.run(gated_, {gate_of(a.gate_up), up_of(a.gate_up), a.act}));
    BARACUDA_TRY(linear(down_, a.act, w.down, branch_));
  }
  return plans_.run(norm_, {.x = branch_, .weight = weights.norm, .residual = saved_.back().mid, .y = final_normed_, .residual_out = final_, .rstd = final_rstd_});
}

// The gradients that the loss can already give, of the head and of its input, come with it.
Status Model::forward(std::span<const int64_t> tokens, std::span<const int64_t> targets) {
  BARACUDA_TRY(hidden(tokens, targets));
  return plans_.run(loss_with_gradients_, {.x = final_normed_, .w = weights.head, .target = targets_, .loss = loss_, .dx = dbranch_, .dw = gradients.head});
}

Status Model::evaluate(std::span<const int64_t> tokens, std::span<const int64_t> targets) {
  BARACUDA_TRY(hidden(tokens, targets));
  return plans_.run(loss_only_, {.x = final_normed_, .w = weights.head, .target = targets_, .loss = loss_});
}

Status Model::loss(float& value) const {
  BARACUDA_TRY(copy(plans_.stream(), &value, loss_.data, sizeof value));
  return wait(plans_.stream());
}

// dstream_ is the gradient of the residual stream, from the last layer to the embedding; dbranch_ that of the norms' outputs.
Status Model::backward() {
  BARACUDA_TRY(plans_.run(norm_backward_, {.dy = dbranch_, .x = final_, .weight = weights.norm, .rstd = final_rstd_, .dx = dstream_, .dweight = gradients.norm}));
  for (size_t i = saved_.size(); i-- > 0;) {
    const Saved& a = saved_[i];
    const LayerParameters &w = weights.layers[i], &g = gradients.layers[i];
    BARACUDA_TRY(linear_backward(down_, dstream_, a.act, w.down, dact_, g.down));
    BARACUDA_TRY(plans_.run(gated_backward_, {dact_, gate_of(a.gate_up), up_of(a.gate_up), gate_of(dgate_up_), up_of(dgate_up_)}));
    BARACUDA_TRY(linear_backward(gate_up_, dgate_up_, a.mid_normed, w.gate_up, dbranch_, g.gate_up));
    BARACUDA_TRY(plans_.run(norm_backward_, {dbranch_, a.mid, w.mlp_norm, a.mid_rstd, dstream_, dstream_, g.mlp_norm}));
    BARACUDA_TRY(linear_backward(out_, dstream_, a.attended, w.out, dattended_, g.out));
    BARACUDA_TRY(plans_.run(attention_backward_, {.dy = heads_of(dattended_, 0, s_.heads), .q = q_of(a.qkv), .k = k_of(a.qkv), .v = v_of(a.qkv),
                                                  .y = heads_of(a.attended, 0, s_.heads), .lse = a.lse, .dq = q_of(dqkv_), .dk = k_of(dqkv_), .dv = v_of(dqkv_)}));
    BARACUDA_TRY(plans_.run(rope_q_backward_, {.dy = q_of(dqkv_), .dx = q_of(dqkv_)}));
    BARACUDA_TRY(plans_.run(rope_k_backward_, {.dy = k_of(dqkv_), .dx = k_of(dqkv_)}));
    BARACUDA_TRY(linear_backward(qkv_, dqkv_, a.normed, w.qkv, dbranch_, g.qkv));
    BARACUDA_TRY(plans_.run(norm_backward_, {dbranch_, a.in, w.attention_norm, a.rstd, dstream_, dstream_, g.attention_norm}));
  }
  return plans_.run(embed_backward_, {dstream_, tokens_, gradients.embedding});
}

}  // namespace baracuda::cli
