#pragma once
// Text from a model, one token at a time: keys and values of earlier tokens stay in a cache, attention reads it with
// plans of one query. When the context is full, its second half is read again from position 0 and generation goes on.
#include "cli/train/model.hpp"

namespace baracuda::cli {

class Generator {
 public:
  Generator(const Settings& s, Plans& plans, const Parameters& weights);
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  Status select();
  uint64_t bytes() const { return arena_.bytes(); }
  Status allocate();

  // `count` bytes after `prompt` (which must not be empty), drawn from softmax(logits / temperature) over the 256 bytes;
  // temperature 0 takes the likeliest. The draws are a function of seed and position alone.
  Status generate(std::string_view prompt, int64_t count, double temperature, uint64_t seed, std::string& text);
  // The logits, f32 [vocabulary], after reading `token` at `position`, whose predecessors have been read; they stay until
  // the next is read.
  Status read(int64_t token, int64_t position);
  std::span<const float> logits() const { return on_host_; }

 private:
  Settings s_;
  Plans& plans_;
  const Parameters& weights_;
  Arena arena_;
  std::vector<TensorView> cache_;  // per layer [context, (heads + 2 kv_heads) d]: the rows of the fused product
  TensorView inputs_;              // i64 [5]: the token, then the first and last of the queries and of the keys
  TensorView token_, cu_q_, cu_k_; // views of it
  std::array<int64_t, 5> given_;   // inputs_ on the host
  std::vector<float> on_host_;     // the logits
  TensorView stream_, normed_, attended_, branch_, gate_up_, act_, logits_;
  std::optional<EmbeddingPlan> embed_;
  std::optional<RmsNormPlan> norm_;
  std::optional<RopePlan> rope_q_, rope_k_;
  std::optional<FlashSdpaPlan> attention_;
  std::optional<GatedPlan> gated_;
  std::optional<GemmPlan> qkv_, out_, gate_up_product_, down_, head_;
};

// The index that a uniform number in [0, 1) selects.
int64_t draw(std::span<const float> logits, double temperature, double uniform);
// Text from a model made fit for a terminal: control characters other than newline, and bytes that are not UTF-8, as '?'.
std::string printable(std::string_view text);

}  // namespace baracuda::cli
