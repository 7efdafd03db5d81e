#include "cli/train/generate.hpp"
#include "baracuda/core/transfer.hpp"

#include <algorithm>
#include <cmath>
#include "cli/train/data.hpp"

namespace baracuda::cli {

Generator::Generator(const Settings& s, Plans& plans, const Parameters& weights)
    : s_(s), plans_(plans), weights_(weights), arena_(plans.stream().device), cache_(size_t(s.layers)) {
  arena_.add(inputs_, DType::i64, {5});
  for (TensorView* t : {&stream_, &normed_, &attended_, &branch_}) arena_.add(*t, s.dtype, {1, s.width});
  arena_.add(gate_up_, s.dtype, {1, 2 * s.hidden});
  arena_.add(act_, s.dtype, {1, s.hidden});
  arena_.add(logits_, DType::f32, {1, s.vocabulary});
  for (TensorView& t : cache_) arena_.add(t, s.dtype, {s.context, (s.heads + 2 * s.kv_heads) * s.head_dim()});
}

Status Generator::allocate() {
  BARACUDA_TRY(arena_.allocate());
  on_host_.resize(size_t(s_.vocabulary));
  const auto part = [&](int64_t first, int64_t count) { return TensorView::dense(inputs_.as<int64_t>() + first, {count}, inputs_.device); };
  token_ = part(0, 1), cu_q_ = part(1, 2), cu_k_ = part(3, 2);
  return {};
}

Status Generator::select() {
  const int64_t d = s_.head_dim();
  BARACUDA_TRY(plans_.select(embed_, {.dtype = s_.dtype, .vocabulary = s_.vocabulary, .width = s_.width, .indices = {1}}));
  BARACUDA_TRY(plans_.select(norm_, {.dtype = s_.dtype, .shape = {1, s_.width}, .eps = s_.norm_eps, .weight_dtype = DType::f32}));
  BARACUDA_TRY(plans_.select(rope_q_, {.dtype = s_.dtype, .shape = {1, s_.heads, 1, d}, .theta = s_.rope_theta}));
  BARACUDA_TRY(plans_.select(rope_k_, {.dtype = s_.dtype, .shape = {1, s_.kv_heads, 1, d}, .theta = s_.rope_theta}));
  // One query against a cache whose filled length the run is told: a variable-length problem of one sequence.
  BARACUDA_TRY(plans_.select(attention_, {.dtype = s_.dtype, .heads = s_.heads, .kv_heads = s_.kv_heads, .q_len = 1, .k_len = s_.context,
                                          .head_dim = d, .varlen = true, .total_q = 1, .total_k = s_.context}));
  BARACUDA_TRY(plans_.select(gated_, {.kind = GatedKind::swiglu, .dtype = s_.dtype, .shape = {1, s_.hidden}}));
  const auto product = [&](int64_t inputs, int64_t outputs) { return GemmDescriptor{.dtype = s_.dtype, .m = 1, .n = outputs, .k = inputs, .trans_b = true}; };
  BARACUDA_TRY(plans_.select(qkv_, product(s_.width, (s_.heads + 2 * s_.kv_heads) * d)));
  BARACUDA_TRY(plans_.select(out_, product(s_.width, s_.width)));
  BARACUDA_TRY(plans_.select(gate_up_product_, product(s_.width, 2 * s_.hidden)));
  BARACUDA_TRY(plans_.select(down_, product(s_.hidden, s_.width)));
  GemmDescriptor head = product(s_.width, s_.vocabulary);
  head.out = DType::f32;
  return plans_.select(head_, head);
}

Status Generator::read(int64_t token, int64_t position) {
  const int64_t d = s_.head_dim(), h = s_.heads, kv = s_.kv_heads;
  given_ = {token, 0, 1, 0, position + 1};
  BARACUDA_TRY(copy(plans_.stream(), inputs_.data, given_.data(), sizeof given_));
  BARACUDA_TRY(plans_.run(embed_, {token_, weights_.embedding, stream_}));
  for (size_t i = 0; i < cache_.size(); ++i) {
    const LayerParameters& w = weights_.layers[i];
    if (i == 0) BARACUDA_TRY(plans_.run(norm_, {.x = stream_, .weight = w.attention_norm, .y = normed_}));
    else BARACUDA_TRY(plans_.run(norm_, {.x = branch_, .weight = w.attention_norm, .residual = stream_, .y = normed_, .residual_out = stream_}));
    TensorView row = cache_[i];
    row.data = row.as<char>() + position * row.strides[0] * int64_t(byte_size(row.dtype));
    row.shape[0] = 1;
    BARACUDA_TRY(plans_.run(qkv_, {normed_, w.qkv, row, {}}));
    const TensorView q = heads_view(row, 1, 1, d, 0, h), k = heads_view(row, 1, 1, d, h, kv);
    BARACUDA_TRY(plans_.run(rope_q_, {.x = q, .y = q, .offset = position}));
    BARACUDA_TRY(plans_.run(rope_k_, {.x = k, .y = k, .offset = position}));
    // [tokens, heads, d] views: drop the batch axis and put tokens before heads.
    const auto varlen = [&](const TensorView& packed, int64_t first, int64_t count) {
      TensorView v = packed;
      v.data = packed.as<char>() + first * d * int64_t(byte_size(packed.dtype));
      v.shape = {packed.shape[0], count, d};
      v.strides = {packed.strides[0], d, 1};
      return v;
    };
    BARACUDA_TRY(plans_.run(attention_, {.q = varlen(row, 0, h), .k = varlen(cache_[i], h, kv), .v = varlen(cache_[i], h + kv, kv), .y = varlen(attended_, 0, h),
                                         .cu_seqlens_q = cu_q_, .cu_seqlens_k = cu_k_}));
    BARACUDA_TRY(plans_.run(out_, {attended_, w.out, branch_, {}}));
    BARACUDA_TRY(plans_.run(norm_, {.x = branch_, .weight = w.mlp_norm, .residual = stream_, .y = normed_, .residual_out = stream_}));
    BARACUDA_TRY(plans_.run(gate_up_product_, {normed_, w.gate_up, gate_up_, {}}));
    TensorView gate = gate_up_, up = gate_up_;
    gate.shape[1] = up.shape[1] = s_.hidden;
    up.data = gate_up_.as<char>() + s_.hidden * int64_t(byte_size(s_.dtype));
    BARACUDA_TRY(plans_.run(gated_, {gate, up, act_}));
    BARACUDA_TRY(plans_.run(down_, {act_, w.down, branch_, {}}));
  }
  BARACUDA_TRY(plans_.run(norm_, {.x = branch_, .weight = weights_.norm, .residual = stream_, .y = normed_, .residual_out = stream_}));
  BARACUDA_TRY(plans_.run(head_, {normed_, weights_.head, logits_, {}}));
  BARACUDA_TRY(copy(plans_.stream(), on_host_.data(), logits_.data, on_host_.size() * sizeof(float)));
  return wait(plans_.stream());
}

Status Generator::generate(std::string_view prompt, int64_t count, double temperature, uint64_t seed, std::string& text) {
  text.assign(prompt);
  if (prompt.empty()) return {Code::invalid_problem, "the prompt is empty"};
  // The part of the text that is in the cache: [begin, read).
  size_t begin = text.size() > size_t(s_.context) ? text.size() - size_t(s_.context) : 0, end = begin;
  for (int64_t n = 0; n < count; ++n) {
    if (text.size() - begin > size_t(s_.context)) begin = end = text.size() - size_t((s_.context + 1) / 2);
    for (; end < text.size(); ++end) BARACUDA_TRY(read(static_cast<uint8_t>(text[end]), int64_t(end - begin)));
    const double uniform = double(mix(seed, uint64_t(n)) >> 11) * 0x1p-53;
    text += char(draw(logits().first(256), temperature, uniform));
  }
  text.erase(0, prompt.size());
  return {};
}

int64_t draw(std::span<const float> logits, double temperature, double uniform) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return best - logits.begin();
  const auto share = [&](float x) { return std::exp((double(x) - double(*best)) / temperature); };
  double left = 0;
  for (const float x : logits) left += share(x);
  left *= uniform;
  for (size_t i = 0; i < logits.size(); ++i)
    if ((left -= share(logits[i])) < 0) return int64_t(i);
  return best - logits.begin();  // reached only through rounding, or NaN logits
}

std::string printable(std::string_view text) {
  const bool utf8 = io::decode_text(std::as_bytes(std::span(text))).ok();
  std::string s(text);
  for (char& c : s) {
    const auto b = static_cast<unsigned char>(c);
    if ((b < 0x20 && c != '\n') || b == 0x7F || (b >= 0x80 && !utf8)) c = '?';
  }
  return s;
}

}  // namespace baracuda::cli
