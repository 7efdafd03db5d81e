#pragma once
// Indices drawn from rows of logits or probabilities, as language models choose the next token and torch's multinomial does.
#include <span>
#include "baracuda/ops/random/integers.hpp"

namespace baracuda {

enum class WeightKind : uint8_t {
  logits,         // drawn from softmax(x / temperature); -inf is never drawn
  probabilities,  // drawn with x over the sum of the row; 0 is never drawn
};
constexpr std::array<std::string_view, 2> enum_names(WeightKind) { return {"logits", "probabilities"}; }

// y[..., s] = the s-th index drawn from the last axis of x. First the row is cut down to the likeliest indices, equal ones in the order of
// their index: the top_k first ones; of these the fewest whose probability reaches top_p, the one that crosses it included; of these
// the ones with at least min_p times the largest. Then a race: index i has the value (x_i - largest) / temperature - log(-log u), or
// x_i / -log u for probabilities, all in f64, with u number offset + i of the row's and the sample's stretch of n numbers, the f64 numbers of
// random_gumbel and random_exponential; the largest wins, of equals the first. With replacement every sample is a race of its own
// (row r, sample s: numbers from (r samples + s) n on), without it one race (from r n on) has the samples as its places in order. No sum
// decides but top_p's, of whole multiples of 2^-63 of the largest probability.
// Refused by run, before anything is written: NaN, +inf, a negative probability (with its place), a row with fewer choices than it needs; on CUDA such
// a row gives -1 in all its places.
// Dtypes of x f16 bf16 f32 f64, of y i64. Workspace: rows of scores and, where the row is cut or not replaced, of indices, per
// thread. Guarantee: deterministic, batch invariant but for the numbers, which belong to the place of the row; CUDA gives the
// CPU's indices.
struct CategoricalDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  WeightKind kind = WeightKind::logits;
  int64_t samples = 1;
  bool replacement = true;
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1, min_p = 0;
  Shape y_shape() const;  // of a valid descriptor
  static constexpr auto fields() {
    using D = CategoricalDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x"), field("shape", &D::shape, "of x, rank >= 1"), field("kind", &D::kind, "what x is"),
                      field("samples", &D::samples, "indices per row"), field("replacement", &D::replacement, "an index may be drawn again"),
                      field("temperature", &D::temperature, "logits are divided by it"), field("top_k", &D::top_k, "likeliest indices to draw from; 0: all"),
                      field("top_p", &D::top_p, "probability that they reach, in (0, 1]"), field("min_p", &D::min_p, "of the largest probability, in [0, 1]"));
  }
};
struct Categorical {
  static constexpr std::string_view name = "categorical", category = "random", summary = "y = indices drawn from rows of logits or probabilities";
  using Descriptor = CategoricalDescriptor;
  struct Args {
    TensorView x, y;
    uint64_t seed = 0, offset = 0;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out), arg("seed", &Args::seed, Role::value), arg("offset", &Args::offset, Role::value));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Categorical>> kernels();
};
using CategoricalPlan = Plan<Categorical>;

// y = x where an index may be drawn after the cuts of categorical, elsewhere -inf (logits) or 0; probabilities are divided by the sum of
// those that stay: top_k and top_p renormalised or masked, as sampling kernels of inference servers. In f64, rounded once. y may be x (equal
// strides). Refused by run as there; on CUDA such a row gives NaN. Dtypes f16 bf16 f32 f64. Workspace: as there. Guarantee: deterministic, batch invariant.
struct SamplingFilterDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  WeightKind kind = WeightKind::logits;
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1, min_p = 0;
  static constexpr auto fields() {
    using D = SamplingFilterDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x and y"), field("shape", &D::shape, "of both, rank >= 1"), field("kind", &D::kind, "what x is"),
                      field("temperature", &D::temperature, "of the probabilities that top_p and min_p see"),
                      field("top_k", &D::top_k, "likeliest indices to keep; 0: all"), field("top_p", &D::top_p, "probability that they reach, in (0, 1]"),
                      field("min_p", &D::min_p, "of the largest probability, in [0, 1]"));
  }
};
struct SamplingFilter {
  static constexpr std::string_view name = "sampling_filter", category = "random", summary = "y = logits or probabilities without the unlikely ones";
  using Descriptor = SamplingFilterDescriptor;
  struct Args {
    TensorView x, y;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out)); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<SamplingFilter>> kernels();
};
using SamplingFilterPlan = Plan<SamplingFilter>;

}  // namespace baracuda
