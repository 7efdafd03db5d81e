#include "cli/train/trainer.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <fstream>
#include "cli/on_device.hpp"
#include "cli/progress.hpp"
#include "cli/train/checkpoint.hpp"
#include "cli/train/data.hpp"
#include "cli/train/generate.hpp"
#include "cli/train/optimizer.hpp"

namespace baracuda::cli {
namespace {

// Set by the first SIGINT or SIGTERM; the run then saves and stops after the current step. The second one ends the
// process at once, as usual.
std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

class StopSignals {
 public:
  StopSignals() {
    stop_requested = false;
    struct sigaction action = {};
    action.sa_handler = [](int) { stop_requested = true; };
    action.sa_flags = int(SA_RESETHAND | SA_RESTART);
    sigaction(SIGINT, &action, &before_[0]);
    sigaction(SIGTERM, &action, &before_[1]);
  }
  ~StopSignals() {
    sigaction(SIGINT, &before_[0], nullptr);
    sigaction(SIGTERM, &before_[1], nullptr);
  }

 private:
  struct sigaction before_[2];
};

// Bytes that a process may still get, 0 where the system does not tell.
uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key; file.ignore(256, '\n')) {
    uint64_t kib = 0;
    if (key == "MemAvailable:" && file >> kib) return kib << 10;
  }
  return 0;
}

std::string size(uint64_t bytes) {
  return bytes >= uint64_t(1) << 30 ? fmt::format("{:.1f} GiB", double(bytes) / double(1 << 30)) : fmt::format("{:.1f} MiB", double(bytes) / double(1 << 20));
}

// Tensors of the run as files take them.
struct OnHost {
  explicit OnHost(const Stream& stream) : copies(stream) {}
  Status make(std::vector<io::NamedTensor> list) {
    for (io::NamedTensor& t : list) {
      BARACUDA_TRY_ASSIGN(host, copies.of(t.tensor));
      t.tensor = host;
    }
    tensors = std::move(list);
    return {};
  }
  Copies copies;
  std::vector<io::NamedTensor> tensors;
};

class Run {
 public:
  Run(const TrainOptions& options, const Stream& stream) : o_(options), stream_(stream), plans_(stream), sampling_(stream) {}
  Status prepare();
  Status loop(bool& interrupted);
  Status sample();
  void report() const;

 private:
  Status measure_held_out();
  Status save();
  Status save_list(const std::string& path, std::vector<io::NamedTensor> list) const;
  std::string model_line() const;

  const TrainOptions& o_;
  Stream stream_;
  RunState state_;
  Corpus corpus_;
  Plans plans_, sampling_;
  std::optional<Windows> windows_;
  std::optional<Model> model_;
  std::optional<Optimizer> optimizer_;
  std::optional<Generator> generator_;
  std::vector<int64_t> tokens_, targets_;
  int64_t timed_steps_ = 0;
};

std::string Run::model_line() const {
  const Settings& s = state_.settings;
  return fmt::format("{} layers, {} wide, {} heads ({} for keys), context {}, {:.2f} M parameters, {}", s.layers, s.width, s.heads, s.kv_heads, s.context,
                     double(parameters(s)) / 1e6, name(s.dtype));
}

// Everything that can fail for a wrong setting, path or file fails here, before the first step.
Status Run::prepare() {
  set_threads(o_.threads);
  std::optional<Checkpoint> from;
  state_.settings = o_.settings;
  if (!o_.resume.empty()) {
    BARACUDA_TRY_ASSIGN(checkpoint, Checkpoint::open(o_.resume));
    state_ = checkpoint.state();
    from = std::move(checkpoint);
  }
  const Settings& s = state_.settings;
  BARACUDA_TRY(validate(s));
  const std::string text_path = o_.data.empty() && from ? state_.text_path : o_.data;
  BARACUDA_TRY_ASSIGN(corpus, read_corpus(text_path, s.context));
  corpus_ = std::move(corpus);
  if (from && corpus_.fingerprint() != state_.text_fingerprint)
    return {Code::invalid_problem, io::in_quotes(text_path) + " is not the text that " + io::in_quotes(o_.resume) + " was trained on"};
  state_.text_path = text_path;
  state_.text_fingerprint = corpus_.fingerprint();
  BARACUDA_TRY_ASSIGN(windows, Windows::over(corpus_.train(), s.context, uint64_t(s.seed)));
  windows_ = windows;
  for (const std::string* path : {&o_.checkpoint, &o_.svg, &o_.save_init, &o_.save_gradients})
    if (!path->empty()) {
      // Created and dropped: tells now what would otherwise come to light after minutes.
      BARACUDA_TRY_ASSIGN(file, io::AtomicFile::create(*path));
      (void)file;
    }

  model_.emplace(s, plans_);
  optimizer_.emplace(s, plans_, *model_);
  BARACUDA_TRY(model_->select());
  BARACUDA_TRY(optimizer_->select());
  uint64_t bytes = model_->bytes() + optimizer_->bytes() + plans_.workspace_bytes();
  if (o_.sample > 0) {
    generator_.emplace(s, sampling_, model_->weights);
    BARACUDA_TRY(generator_->select());
    bytes += generator_->bytes() + sampling_.workspace_bytes();
  }
  const auto too_large = [&](const std::string& free) {
    return Status(Code::out_of_memory, fmt::format("this model and batch take {}, {} free: choose a smaller preset, batch or context", size(bytes), free));
  };
  const bool on_cpu = stream_.device.kind == DeviceKind::cpu;
  if (const uint64_t available = on_cpu ? available_memory() : 0; available && bytes > available) return too_large(size(available) + " are");
  tokens_.resize(size_t(s.tokens()));
  targets_.resize(size_t(s.tokens()));
  const Status allocated = [&]() -> Status {
    BARACUDA_TRY(model_->allocate());
    BARACUDA_TRY(optimizer_->allocate());
    if (generator_) BARACUDA_TRY(generator_->allocate());
    BARACUDA_TRY(sampling_.allocate());
    return plans_.allocate();
  }();
  if (allocated.code() == Code::out_of_memory && !on_cpu) return too_large("not as much of " + to_string(stream_.device) + " is");
  BARACUDA_TRY(allocated);
  if (from) {
    OnHost state(stream_);
    BARACUDA_TRY(state.make(optimizer_->state()));
    BARACUDA_TRY(from->read(state.tensors));
    BARACUDA_TRY(state.copies.to_device());
  } else {
    BARACUDA_TRY(optimizer_->initialise());
    BARACUDA_TRY(plans_.allocate());
  }
  if (!o_.save_init.empty()) BARACUDA_TRY(save_list(o_.save_init, optimizer_->full_weights()));

  fmt::print("model: {}\n", model_line());
  fmt::print("text: {}, {} bytes to train on, {} held out\n", text_path, corpus_.train().size(), corpus_.held_out().size());
  fmt::print("run: {} steps of {} tokens, {}, {} of memory\n", s.steps, s.tokens(), place(stream_), size(bytes));
  if (from) fmt::print("resumed from {} after step {}\n", o_.resume, state_.step);
  fflush(stdout);
  return {};
}

// Mean loss on consecutive windows of the held-out text, at most kBatches batches; rows that are left over in the last
// batch are ignored by the loss.
Status Run::measure_held_out() {
  constexpr int64_t kBatches = 8;
  const Settings& s = state_.settings;
  const std::span<const uint8_t> text = corpus_.held_out();
  if (text.empty()) return {};
  const int64_t windows = std::min((int64_t(text.size()) - 1) / s.context, kBatches * s.batch);
  double sum = 0;
  for (int64_t first = 0; first < windows; first += s.batch) {
    const int64_t rows = std::min(s.batch, windows - first);
    std::fill(tokens_.begin(), tokens_.end(), 0);
    std::fill(targets_.begin(), targets_.end(), -100);
    for (int64_t i = 0; i < rows * s.context; ++i) {
      tokens_[size_t(i)] = text[size_t(first * s.context + i)];
      targets_[size_t(i)] = text[size_t(first * s.context + i + 1)];
    }
    float loss = 0;
    BARACUDA_TRY(model_->evaluate(tokens_, targets_));
    BARACUDA_TRY(model_->loss(loss));
    sum += double(loss) * double(rows);
  }
  state_.held_out.push_back({double(state_.step), sum / double(windows)});
  return {};
}

Status Run::save_list(const std::string& path, std::vector<io::NamedTensor> list) const {
  OnHost host(stream_);
  BARACUDA_TRY(host.make(std::move(list)));
  BARACUDA_TRY(host.copies.to_host());
  return save_tensors(path, state_.settings, host.tensors);
}

Status Run::save() {
  if (!o_.checkpoint.empty()) {
    OnHost host(stream_);
    BARACUDA_TRY(host.make(optimizer_->state()));
    BARACUDA_TRY(host.copies.to_host());
    BARACUDA_TRY(save_checkpoint(o_.checkpoint, state_, host.tensors));
  }
  if (!o_.svg.empty()) {
    LossChart chart{"Training loss", model_line() + ", " + state_.text_path, "loss (nats per byte)", state_.losses, state_.held_out};
    BARACUDA_TRY(io::write_text(o_.svg, loss_chart_svg(chart)));
  }
  return {};
}

Status Run::loop(bool& interrupted) {
  const Settings& s = state_.settings;
  const StopSignals signals;
  const int64_t last = o_.stop_after > 0 ? std::min(o_.stop_after, s.steps) : s.steps, held_out_every = std::max<int64_t>(1, s.steps / 10);
  const int64_t first = state_.step;
  state_.losses.reserve(size_t(s.steps));
  Progress progress(stdout, first, s.steps, s.tokens());
  int64_t saved = first;
  while (state_.step < last) {
    const int64_t step = state_.step + 1;
    windows_->fill(step, s.batch, tokens_, targets_);
    float loss = 0;
    BARACUDA_TRY(model_->forward(tokens_, targets_));
    BARACUDA_TRY(model_->backward());
    BARACUDA_TRY(optimizer_->step(step));
    BARACUDA_TRY(model_->loss(loss));  // the one wait of a step
    if (!std::isfinite(loss)) {
      progress.finish();
      return {Code::invalid_problem, fmt::format("the loss of step {} is {}: a smaller --lr or another --seed may help; {}", step, loss,
                                                 o_.checkpoint.empty() || saved == first ? "nothing was saved" : fmt::format("{} holds step {}", o_.checkpoint, saved))};
    }
    if (step == first + 1 && !o_.save_gradients.empty()) BARACUDA_TRY(save_list(o_.save_gradients, model_->gradients.named("")));
    if (o_.time_kernels && step == first + 1) plans_.time();  // what the first call of a kernel takes is not a step's
    else ++timed_steps_;
    state_.step = step;
    state_.losses.push_back(loss);
    progress.step(step, loss);
    if (step % held_out_every == 0 || step == s.steps) BARACUDA_TRY(measure_held_out());
    interrupted = stop_requested && step < last;
    if (interrupted) break;
    if (o_.checkpoint_every > 0 && step % o_.checkpoint_every == 0 && step < last) {
      BARACUDA_TRY(save());
      saved = step;
    }
  }
  progress.finish();
  BARACUDA_TRY(save());
  if (state_.step > first) fmt::print("trained {} steps, {:.0f} tokens/s\n", state_.step - first, progress.tokens_per_second());
  if (!state_.held_out.empty() && state_.step == s.steps) fmt::print("held-out loss {:.4f} nats per byte\n", state_.held_out.back().loss);
  if (!o_.checkpoint.empty()) fmt::print("checkpoint: {}\n", o_.checkpoint);
  if (!o_.svg.empty()) fmt::print("loss curve: {}\n", o_.svg);
  if (state_.step < s.steps)
    fmt::print("stopped after step {} of {}{}\n", state_.step, s.steps,
               o_.checkpoint.empty() ? "" : "; continue with: baracuda train --resume " + o_.checkpoint);
  return {};
}

Status Run::sample() {
  if (!generator_) return {};
  std::string text;
  BARACUDA_TRY(generator_->generate(o_.prompt, o_.sample, o_.temperature, uint64_t(state_.settings.seed), text));
  fmt::print("\n--- sample, temperature {}\n{}\n---\n", o_.temperature, printable(o_.prompt + text));
  return {};
}

// One line for all, then one per kernel.
void Run::report() const {
  int plans = 0, deterministic = 0;
  for (const Plans* list : {&plans_, &sampling_})
    for (const Plans::Entry& e : list->entries()) plans += e.count, deterministic += e.deterministic ? e.count : 0;
  fmt::print("\n{} plans ran, {} of them deterministic{}\n", plans, deterministic,
             plans != deterministic                           ? ""
             : stream_.device.kind == DeviceKind::cpu ? ": every run on this machine gives the same bits, with any number of threads"
                                                      : ": every run on this device gives the same bits");
  const auto list = [&](const char* title, const Plans& of) {
    double total = 0;
    for (const Plans::Entry& e : of.entries()) total += e.seconds;
    fmt::print("{}\n", title);
    for (const Plans::Entry& e : of.entries())
      fmt::print("  {:<42} {:<4} {:>3}x  {}{}\n", e.kernel, e.dtype, e.count,
                 total > 0 ? fmt::format("{:>9.3f} ms a step {:>5.1f}%  ", 1e3 * e.seconds / double(timed_steps_), 100 * e.seconds / total) : "", e.guarantee);
  };
  list("training:", plans_);
  if (generator_) list("sampling:", sampling_);
}

}  // namespace

Status train(const TrainOptions& options, bool& interrupted) {
  interrupted = false;
  BARACUDA_TRY_ASSIGN(stream, stream_on(options.device));
  Run run(options, stream);
  BARACUDA_TRY(run.prepare());
  BARACUDA_TRY(run.loop(interrupted));
  if (interrupted) return {};
  BARACUDA_TRY(run.sample());
  run.report();
  return {};
}

}  // namespace baracuda::cli
