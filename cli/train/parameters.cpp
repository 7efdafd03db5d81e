#include "cli/train/parameters.hpp"

#include <fmt/format.h>

namespace baracuda::cli {
namespace {

// Rows [first, first + count) of a matrix.
TensorView rows(const TensorView& m, int64_t first, int64_t count) {
  return TensorView::dense(m.as<char>() + first * m.shape[1] * int64_t(byte_size(m.dtype)), m.dtype, {count, m.shape[1]}, m.device);
}

}  // namespace

Parameters::Parameters(const Settings& s, Device device, DType matrix_dtype, std::optional<DType> vector_dtype)
    : layers(size_t(s.layers)), s_(s), with_vectors_(vector_dtype.has_value()), arena_(device) {
  const int64_t d = s.head_dim();
  arena_.add(embedding, matrix_dtype, {s.vocabulary, s.width});
  for (LayerParameters& l : layers) {
    arena_.add(l.qkv, matrix_dtype, {(s.heads + 2 * s.kv_heads) * d, s.width});
    arena_.add(l.out, matrix_dtype, {s.width, s.width});
    arena_.add(l.gate_up, matrix_dtype, {2 * s.hidden, s.width});
    arena_.add(l.down, matrix_dtype, {s.width, s.hidden});
  }
  if (!s.tied) arena_.add(head, matrix_dtype, {s.vocabulary, s.width});
  if (!vector_dtype) return;
  for (LayerParameters& l : layers) {
    arena_.add(l.attention_norm, *vector_dtype, {s.width});
    arena_.add(l.mlp_norm, *vector_dtype, {s.width});
  }
  arena_.add(norm, *vector_dtype, {s.width});
}

Status Parameters::allocate() {
  BARACUDA_TRY(arena_.allocate());
  if (s_.tied) head = embedding;
  return {};
}

std::vector<TensorView> Parameters::matrices() const {
  std::vector<TensorView> all{embedding};
  for (const LayerParameters& l : layers) all.insert(all.end(), {l.qkv, l.out, l.gate_up, l.down});
  if (!s_.tied) all.push_back(head);
  return all;
}

std::vector<TensorView> Parameters::vectors() const {
  std::vector<TensorView> all;
  if (!with_vectors_) return all;
  for (const LayerParameters& l : layers) all.insert(all.end(), {l.attention_norm, l.mlp_norm});
  all.push_back(norm);
  return all;
}

std::vector<io::NamedTensor> Parameters::named(const std::string& prefix) const {
  const int64_t d = s_.head_dim(), q = s_.heads * d, kv = s_.kv_heads * d;
  std::vector<io::NamedTensor> all{{prefix + "model.embed_tokens.weight", embedding}};
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerParameters& l = layers[i];
    const auto add = [&](const char* name, const TensorView& t) { all.push_back({fmt::format("{}model.layers.{}.{}.weight", prefix, i, name), t}); };
    if (with_vectors_) add("input_layernorm", l.attention_norm);
    add("self_attn.q_proj", rows(l.qkv, 0, q));
    add("self_attn.k_proj", rows(l.qkv, q, kv));
    add("self_attn.v_proj", rows(l.qkv, q + kv, kv));
    add("self_attn.o_proj", l.out);
    if (with_vectors_) add("post_attention_layernorm", l.mlp_norm);
    add("mlp.gate_proj", rows(l.gate_up, 0, s_.hidden));
    add("mlp.up_proj", rows(l.gate_up, s_.hidden, s_.hidden));
    add("mlp.down_proj", l.down);
  }
  if (with_vectors_) all.push_back({prefix + "model.norm.weight", norm});
  if (!s_.tied) all.push_back({prefix + "lm_head.weight", head});
  return all;
}

}  // namespace baracuda::cli
