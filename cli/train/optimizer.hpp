#pragma once
// First weights and their improvement: AdamW with decay on matrices alone, gradients clipped to a global norm. With bf16
// weights the step is taken on f32 masters and the weights are their rounded values.
#include "baracuda/ops/copy/copy.hpp"
#include "baracuda/ops/optim/optim.hpp"
#include "cli/train/model.hpp"

namespace baracuda::cli {

class Optimizer {
 public:
  Optimizer(const Settings& s, Plans& plans, Model& model);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Status select();
  uint64_t bytes() const { return m_.bytes() + v_.bytes() + (masters_ ? masters_->bytes() : 0) + scalars_.bytes(); }
  Status allocate();  // after the model's

  // Weights from the seed, moments 0. Matrices are normal with standard deviation 1 / sqrt(inputs), those that write to
  // the residual stream divided by sqrt(2 layers); the embedding, which is also the head where tied, 0.02; norms are 1.
  Status initialise();
  // One step on the model's gradients; step = 1, 2, ...
  Status step(int64_t step);

  // Everything that a checkpoint holds.
  std::vector<io::NamedTensor> state() const;
  // The weights in f32.
  std::vector<io::NamedTensor> full_weights() const;

 private:
  Settings s_;
  Plans& plans_;
  Model& model_;
  Parameters m_, v_;
  std::optional<Parameters> masters_;
  Arena scalars_;
  TensorView norm_, scale_;
  // One list per role: matrices, then vectors.
  struct Group { std::vector<TensorView> weights, gradients, m, v, masters; };
  Group matrices_, vectors_;
  std::vector<TensorView> all_gradients_;
  std::optional<AdamWPlan> matrices_step_, vectors_step_;
  std::optional<GlobalNormPlan> global_norm_;
  std::optional<ClipScalePlan> clip_;
};

}  // namespace baracuda::cli
