#pragma once
// Everything that decides the numbers of a training run. One field list serves the command line (--layers 4), the
// checkpoint's metadata and the comparison on --resume.
#include <optional>
#include <span>
#include <string_view>
#include "baracuda/core/fields.hpp"

namespace baracuda::cli {

struct Settings {
  // Model: Llama-style decoder.
  int64_t vocabulary = 256, layers = 4, width = 128, heads = 4, kv_heads = 2, hidden = 384, context = 256;
  double rope_theta = 10000, norm_eps = 1e-5;
  bool tied = true;
  DType dtype = DType::f32;
  // Optimisation: AdamW, linear warm-up, cosine decay to lr * lr_floor, global norm clipping.
  int64_t steps = 1700, batch = 8, warmup = 100;
  double lr = 4e-3, lr_floor = 0.1, beta1 = 0.9, beta2 = 0.95, adam_eps = 1e-8, weight_decay = 0.1, clip = 1;
  int64_t seed = 1;

  int64_t head_dim() const { return width / heads; }
  int64_t tokens() const { return batch * context; }  // per step

  static constexpr auto fields() {
    using S = Settings;
    return std::tuple(
        field("vocabulary", &S::vocabulary, "tokens known; 256 are the bytes, more are there for measurements"),
        field("layers", &S::layers, "decoder layers"),
        field("width", &S::width, "size of the residual stream"),
        field("heads", &S::heads, "query heads; each is width / heads wide"),
        field("kv_heads", &S::kv_heads, "key and value heads; divides heads"),
        field("hidden", &S::hidden, "size inside the gated feed-forward block"),
        field("context", &S::context, "tokens per sequence"),
        field("rope_theta", &S::rope_theta, "base of the rotary positions"),
        field("norm_eps", &S::norm_eps, "epsilon of the RMS norms"),
        field("tied", &S::tied, "whether the head shares the embedding's weights"),
        field("dtype", &S::dtype, "f32 or bf16 (with f32 master weights)"),
        field("steps", &S::steps, "optimisation steps"),
        field("batch", &S::batch, "sequences per step"),
        field("warmup", &S::warmup, "steps of linear warm-up"),
        field("lr", &S::lr, "highest learning rate"),
        field("lr_floor", &S::lr_floor, "last learning rate as a share of the highest"),
        field("beta1", &S::beta1, "AdamW"), field("beta2", &S::beta2, "AdamW"), field("adam_eps", &S::adam_eps, "AdamW"),
        field("weight_decay", &S::weight_decay, "AdamW, on matrices only"),
        field("clip", &S::clip, "largest global gradient norm; 0: no clipping"),
        field("seed", &S::seed, "of weights, data order and samples"));
  }
};
static_assert(fields_complete<Settings>());

struct Preset { std::string_view name, help; Settings settings; };
std::span<const Preset> presets();
const Preset* find_preset(std::string_view name);

// invalid_problem: the setting, its value and its rule, in one line.
Status validate(const Settings& s);
int64_t parameters(const Settings& s);
// Learning rate of step 1, 2, ..., steps.
double learning_rate(const Settings& s, int64_t step);

}  // namespace baracuda::cli
