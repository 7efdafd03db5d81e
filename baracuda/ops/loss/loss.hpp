#pragma once
// What the losses share. Per row, with x the logits after bias and softcap, p = softmax(x), lse = log sum exp x:
//
//   softcap      x = c tanh(x / c)                                    0: none
//   ce           (1 - eps) (lse - x_target) + eps (lse - mean x)      eps: label_smoothing, torch's definition
//   z            z_loss * lse^2                                       St-MoE (Zoph et al. 2022), also returned apart
//   loss         weight * (ce + z)
//   dx           g ((1 + 2 z_loss lse) p - eps / V - (1 - eps) onehot)(1 - (x / c)^2)
//
// and g = weight * dloss, over the denominator for mean. A row whose target is ignore_index is untouched: its loss is 0,
// its gradient exactly 0, its logits and inputs are not looked at. Any other target outside [0, V) makes the loss of its
// row NaN with a zero gradient row; invalid_target = zero drops the row like an ignored one. The denominator of mean is
// the number of targets that are not ignored (invalid ones count, unless dropped), or the sum of their weights; mean of
// nothing is 0. A weight of 0 scales, it does not hide: NaN and infinity in such a row show. A row of logits that are
// all -inf, or with a +inf or NaN, has loss NaN and a NaN gradient row.
#include "baracuda/core/plan.hpp"

namespace baracuda {

enum class Reduction : uint8_t { none, mean, sum };
constexpr std::array<std::string_view, 3> enum_names(Reduction) { return {"none", "mean", "sum"}; }
enum class InvalidTarget : uint8_t { nan, zero };
constexpr std::array<std::string_view, 2> enum_names(InvalidTarget) { return {"nan", "zero"}; }
enum class MeanOver : uint8_t { tokens, weights };
constexpr std::array<std::string_view, 2> enum_names(MeanOver) { return {"tokens", "weights"}; }

// The fields that every cross entropy has, in this order, for the list of a descriptor D.
template <class D> constexpr auto loss_fields() {
  return std::tuple(field("target_dtype", &D::target_dtype, "i64 or i32"), field("reduction", &D::reduction),
                    field("ignore_index", &D::ignore_index, "rows with this target do not count"),
                    field("label_smoothing", &D::label_smoothing, "in [0, 1]"),
                    field("z_loss", &D::z_loss, "factor of lse^2"), field("softcap", &D::softcap, "0: none"),
                    field("invalid_target", &D::invalid_target, "what a target outside [0, classes) does"),
                    field("mean_over", &D::mean_over, "what mean divides by"));
}

}  // namespace baracuda
