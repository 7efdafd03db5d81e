#pragma once
// Penalties on tokens that were there already, before the next one is drawn.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

// y = x, the last axis being the vocabulary, but for the indices in `tokens` (what was generated) and `prompt`: of these
//   repetition   x / repetition where x > 0, else x repetition (Keskar et al., "CTRL", 2019), for both lists
//   frequency    then minus frequency times the count among tokens
//   presence     then minus presence where the count is not 0
// Each row has its own lists; negative entries are padding. tokens has shape's outer axes and `length` entries, prompt `prompt_length`. A
// factor may be a tensor of one f32 per row instead of the field. In f64, rounded once, so the order of the lists does not matter. NaN stays,
// infinities by the formula. An index beyond the vocabulary is refused by run before anything is written. y may be x (equal strides).
// Dtypes f16 bf16 f32 f64. Any strides. Workspace: a count per index and thread. Guarantee: deterministic, batch invariant.
struct TokenPenaltyDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  int64_t length = 0, prompt_length = 0;
  DType index_dtype = DType::i64;
  double repetition = 1, frequency = 0, presence = 0;
  static constexpr auto fields() {
    using D = TokenPenaltyDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x and y"), field("shape", &D::shape, "of both, rank >= 1"), field("length", &D::length, "tokens of a row"),
                      field("prompt_length", &D::prompt_length, "of a row, where there is a prompt"), field("index_dtype", &D::index_dtype, "i32 or i64"),
                      field("repetition", &D::repetition, "> 0; 1 is none"), field("frequency", &D::frequency, "per time that a token is there"),
                      field("presence", &D::presence, "once"));
  }
};
struct TokenPenalty {
  static constexpr std::string_view name = "token_penalty", category = "random", summary = "y = logits less penalties on tokens that were there";
  using Descriptor = TokenPenaltyDescriptor;
  struct Args {
    TensorView x, tokens, y;
    TensorView prompt = {}, repetition = {}, frequency = {}, presence = {};
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in, "logits"), arg("tokens", &Args::tokens, Role::in, "that were generated"), arg("y", &Args::y, Role::out),
                        arg("prompt", &Args::prompt, Role::optional_in, "tokens for the repetition only"),
                        arg("repetition", &Args::repetition, Role::optional_in, "of each row"), arg("frequency", &Args::frequency, Role::optional_in, "of each row"),
                        arg("presence", &Args::presence, Role::optional_in, "of each row"));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<TokenPenalty>> kernels();
};
using TokenPenaltyPlan = Plan<TokenPenalty>;

}  // namespace baracuda
