#pragma once
// A training run on disk: one safetensors file with the weights under the names of Llama checkpoints, the optimiser's
// state beside them, and settings, step and the text's identity as metadata. Data order and learning rate are functions
// of settings and step, so nothing else is needed to continue with the same bits.
#include <vector>
#include "baracuda/io/safetensors.hpp"
#include "cli/chart.hpp"
#include "cli/train/settings.hpp"

namespace baracuda::cli {

struct RunState {
  Settings settings;
  int64_t step = 0;                 // optimisation steps done
  std::string text_path;            // where the text was; what counts is the fingerprint
  uint64_t text_fingerprint = 0;
  std::vector<float> losses;        // of steps 1 ... step
  std::vector<HeldOut> held_out;
};

// Writes atomically. `tensors`: weights and optimiser state.
Status save_checkpoint(const std::string& path, const RunState& state, std::span<const io::NamedTensor> tensors);

class Checkpoint {
 public:
  // Checks everything but the tensors of the model; each error is one line that names the file.
  static Result<Checkpoint> open(const std::string& path);
  const RunState& state() const { return state_; }
  // Reads every tensor of the list into its place. Refused: a file with tensors that are not in the list, and a file
  // whose contents, metadata included, do not match its checksum.
  Status read(std::span<const io::NamedTensor> tensors) const;

 private:
  Checkpoint(io::SafetensorsFile file, RunState state, uint64_t checksum) : file_(std::move(file)), state_(std::move(state)), checksum_(checksum) {}
  io::SafetensorsFile file_;
  RunState state_;
  uint64_t checksum_ = 0;
};

// Weights or gradients alone, with the settings; what --save-init and --save-gradients write.
Status save_tensors(const std::string& path, const Settings& settings, std::span<const io::NamedTensor> tensors);

}  // namespace baracuda::cli
