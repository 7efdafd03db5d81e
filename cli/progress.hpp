#pragma once
// Progress of a long run on one stream: a bar that redraws itself with loss, tokens/s and time left on a terminal;
// elsewhere a plain line `step N loss X` for every step, X in the shortest form that reads back to the same float.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace baracuda::cli {

struct ProgressState {
  int64_t step, steps;  // done and in all
  float loss;
  double tokens_per_second, seconds_left;
};
// One line of at most `width` columns, without line end.
std::string progress_bar(const ProgressState& s, int width);
std::string progress_line(int64_t step, float loss);
std::string duration(double seconds);  // "1:02:03", "2:03"

class Progress {
 public:
  // `first`: steps done before this run began.
  Progress(FILE* out, int64_t first, int64_t steps, int64_t tokens_per_step);
  ~Progress() { finish(); }
  void step(int64_t done, float loss);
  // Leaves the bar on its own line; called before anything else is printed.
  void finish();
  double tokens_per_second() const;  // over the whole run

 private:
  using Clock = std::chrono::steady_clock;
  FILE* out_;
  bool terminal_;
  int64_t first_, steps_, tokens_per_step_, done_;
  Clock::time_point start_, last_drawn_;
  bool drawn_ = false;
};

}  // namespace baracuda::cli
