#include "cli/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace baracuda::cli {
namespace {

int columns(FILE* out) {
  winsize w{};
  return ioctl(fileno(out), TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

}  // namespace

std::string duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-:--";
  const auto s = int64_t(std::min(seconds, 1e12) + 0.5);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60) : fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string progress_line(int64_t step, float loss) { return fmt::format("step {} loss {}", step, loss); }

std::string progress_bar(const ProgressState& s, int width) {
  const std::string facts = fmt::format(" {}/{}  loss {:.4f}  {:.0f} tokens/s  {} left", s.step, s.steps, s.loss, s.tokens_per_second, duration(s.seconds_left));
  const int room = std::min(width - int(facts.size()) - 2, 40);
  if (room < 5) return facts.substr(1, size_t(std::max(width, 1)));
  const double share = s.steps > 0 ? std::clamp(double(s.step) / double(s.steps), 0.0, 1.0) : 1.0;
  const int full = int(share * room);
  return "[" + std::string(size_t(full), '#') + std::string(size_t(room - full), '.') + "]" + facts;
}

Progress::Progress(FILE* out, int64_t first, int64_t steps, int64_t tokens_per_step)
    : out_(out), terminal_(isatty(fileno(out)) == 1), first_(first), steps_(steps), tokens_per_step_(tokens_per_step), done_(first), start_(Clock::now()) {}

double Progress::tokens_per_second() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  return seconds > 0 ? double((done_ - first_) * tokens_per_step_) / seconds : 0;
}

void Progress::step(int64_t done, float loss) {
  done_ = done;
  if (!terminal_) {
    fmt::print(out_, "{}\n", progress_line(done, loss));
    return;
  }
  const auto now = Clock::now();
  if (drawn_ && done < steps_ && now - last_drawn_ < std::chrono::milliseconds(100)) return;
  const double rate = tokens_per_second();
  const double left = rate > 0 ? double((steps_ - done) * tokens_per_step_) / rate : INFINITY;
  // \x1b[K clears what a longer bar left behind.
  fmt::print(out_, "\r{}\x1b[K", progress_bar({done, steps_, loss, rate, left}, columns(out_) - 1));
  fflush(out_);
  drawn_ = true, last_drawn_ = now;
}

void Progress::finish() {
  if (drawn_) fputc('\n', out_);
  drawn_ = false;
  fflush(out_);
}

}  // namespace baracuda::cli
