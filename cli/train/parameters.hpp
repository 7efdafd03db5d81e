#pragma once
// One tensor for each weight of the model, in one allocation. The same layout holds weights, their gradients, f32
// masters and both moments of AdamW, so that each is a list of the same length and order.
//
// Matrices that are multiplied with the same input are stored as one: qkv has the rows of q, then k, then v; gate_up
// those of gate, then up. Files name them apart, as Llama checkpoints do. y = x W^T, so a matrix is [outputs, inputs].
#include <optional>
#include <string>
#include "baracuda/io/safetensors.hpp"
#include "cli/train/arena.hpp"
#include "cli/train/settings.hpp"

namespace baracuda::cli {

struct LayerParameters {
  TensorView attention_norm, qkv, out, mlp_norm, gate_up, down;
};

class Parameters {
 public:
  // vector_dtype: of the norm weights; none: matrices only.
  Parameters(const Settings& s, Device device, DType matrix_dtype, std::optional<DType> vector_dtype);
  Status allocate();

  TensorView embedding, head, norm;  // head is embedding where tied; all valid after allocate()
  std::vector<LayerParameters> layers;

  // Every tensor once, as stored.
  std::vector<TensorView> matrices() const;
  std::vector<TensorView> vectors() const;
  // Every tensor under its name in files, after `prefix`.
  std::vector<io::NamedTensor> named(const std::string& prefix) const;
  uint64_t bytes() const { return arena_.bytes(); }

 private:
  Settings s_;
  bool with_vectors_;
  Arena arena_;
};

}  // namespace baracuda::cli
