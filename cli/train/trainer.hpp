#pragma once
// A training run from start to finish: data, model, optimiser, checkpoints, loss curve, sample, report.
#include <string>
#include "cli/train/settings.hpp"

namespace baracuda::cli {

struct TrainOptions {
  Settings settings;                 // taken from the checkpoint where resume is given
  std::string resume;                // "": start afresh
  std::string data, checkpoint, svg; // "": checkpoint and svg are not written
  std::string save_init, save_gradients;
  std::string prompt = "\n";
  int64_t checkpoint_every = 0;      // steps; 0: only at the end
  int64_t stop_after = 0;            // save and stop after this step; 0: run to the end
  int64_t sample = 0;                // bytes of text to generate at the end
  double temperature = 0.8;
  int threads = 0;                   // 0: all processors
  std::string device = "cpu";
  bool time_kernels = false;
};

// Prints progress and report on stdout. `interrupted` is set where a signal ended the run, after saving.
Status train(const TrainOptions& options, bool& interrupted);

}  // namespace baracuda::cli
