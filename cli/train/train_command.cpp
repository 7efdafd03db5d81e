// baracuda train: the options, and what follows from them.
#include <fmt/format.h>

#include <memory>
#include "baracuda/host/thread_team.hpp"
#include "baracuda/io/file.hpp"
#include "cli/command.hpp"
#include "cli/on_device.hpp"
#include "cli/train/checkpoint.hpp"
#include "cli/train/trainer.hpp"

namespace baracuda::cli {
namespace {

struct Line {
  TrainOptions options;
  std::string preset = "tiny";
  CLI::Option *preset_option = nullptr, *checkpoint_option = nullptr;
  std::vector<std::pair<std::string_view, std::string>> settings;  // field and text, as given
};

// Field kv_heads is option --kv-heads.
std::string option_of(std::string_view field) {
  std::string s = "--" + std::string(field);
  std::replace(s.begin(), s.end(), '_', '-');
  return s;
}

Status apply_settings(const Line& line, Settings& s) {
  for (const auto& [field, value] : line.settings)
    if (Status set = set_field(s, field, value); !set.ok()) return {set.code(), option_of(field) + ": " + set.message()};
  return {};
}

// A resumed run keeps its settings: an option that asks for anything else is refused rather than ignored.
Status check_against_checkpoint(const Line& line) {
  if (line.preset_option->count() > 0) return {Code::invalid_problem, "--preset does not go with --resume: the checkpoint has its own settings"};
  BARACUDA_TRY_ASSIGN(checkpoint, Checkpoint::open(line.options.resume));
  const Settings& stored = checkpoint.state().settings;
  Settings asked = stored;
  BARACUDA_TRY(apply_settings(line, asked));
  Status status;
  for_each_field<Settings>([&](const auto& f) {
    if (status.ok() && asked.*f.member != stored.*f.member)
      status = {Code::invalid_problem, fmt::format("{} {} contradicts {}, which has {}", option_of(f.name), field_text(asked.*f.member),
                                                   io::in_quotes(line.options.resume), field_text(stored.*f.member))};
  });
  return status;
}

Status resolve(Line& line) {
  TrainOptions& o = line.options;
  if (o.threads < 0 || o.threads > kMaxThreads) return {Code::invalid_problem, fmt::format("--threads is {}: must be in [0, {}]", o.threads, kMaxThreads)};
  for (const auto& [name, value] : {std::pair<const char*, int64_t>{"--checkpoint-every", o.checkpoint_every}, {"--stop-after", o.stop_after}, {"--sample", o.sample}})
    if (value < 0 || value > int64_t(1) << 30) return {Code::invalid_problem, fmt::format("{} is {}: must be in [0, {}]", name, value, int64_t(1) << 30)};
  if (!(o.temperature >= 0 && o.temperature <= 1000)) return {Code::invalid_problem, fmt::format("--temperature is {}: must be in [0, 1000]", o.temperature)};
  if (o.prompt.empty()) return {Code::invalid_problem, "--prompt is empty: it needs at least one byte"};
  if (!o.resume.empty()) {
    if (line.checkpoint_option->count() == 0) o.checkpoint = o.resume;
    return check_against_checkpoint(line);
  }
  const Preset* preset = find_preset(line.preset);
  if (!preset) {
    std::string known;
    for (const Preset& p : presets()) known += " " + std::string(p.name);
    return {Code::invalid_problem, "--preset " + io::in_quotes(line.preset) + " is not one of" + known};
  }
  o.settings = preset->settings;
  if (o.data.empty()) o.data = "data/emma.txt";
  BARACUDA_TRY(apply_settings(line, o.settings));
  return validate(o.settings);
}

}  // namespace

std::function<int()> train_command(CLI::App& app) {
  const auto line = std::make_shared<Line>();
  TrainOptions& o = line->options;
  std::string names;
  for (const Preset& p : presets()) names += fmt::format("\n{:>34}: {}", p.name, p.help);
  o.checkpoint = "baracuda-train.safetensors", o.svg = "baracuda-train.svg", o.checkpoint_every = 100, o.sample = 600;
  line->preset_option = app.add_option("--preset", line->preset, "settings to start from" + names)->capture_default_str();
  app.add_option("--data", o.data, "UTF-8 text to train on; data/emma.txt by default, with --resume the text of that run");
  app.add_option("--resume", o.resume, "continue the run of this checkpoint, bit for bit");
  line->checkpoint_option = app.add_option("--checkpoint", o.checkpoint, "where the run is saved, '' for nowhere; with --resume the same file by default")->capture_default_str();
  app.add_option("--checkpoint-every", o.checkpoint_every, "steps between saves; 0: only at the end")->capture_default_str();
  app.add_option("--svg", o.svg, "where the loss curve is drawn; '' for nowhere")->capture_default_str();
  app.add_option("--sample", o.sample, "bytes of text to generate at the end")->capture_default_str();
  app.add_option("--temperature", o.temperature, "of the sample; 0 takes the likeliest byte")->capture_default_str();
  app.add_option("--prompt", o.prompt, "what the sample continues; a newline by default");
  app.add_option("--threads", o.threads, "0: all processors; the results are the same for any number")->capture_default_str();
  app.add_option("--stop-after", o.stop_after, "save and stop after this step, as Ctrl-C does; 0: run to the end")->capture_default_str();
  app.add_option("--save-init", o.save_init, "write the first weights, in f32");
  app.add_option("--save-gradients", o.save_gradients, "write the gradients of the first step");
  add_device(app, o.device);
  app.add_flag("--time-kernels", o.time_kernels, "from the second step on wait for each run of a plan, and report where the time went");
  for_each_field<Settings>([&](const auto& f) {
    app.add_option_function<std::string>(
           option_of(f.name), [line, field = f.name](const std::string& value) { line->settings.emplace_back(field, value); }, std::string(f.help))
        ->group("Settings (over the preset's)");
  });
  return [line] {
    bool interrupted = false;
    Status status = resolve(*line);
    if (status.ok()) status = train(line->options, interrupted);
    return !status.ok() ? fail("train", status) : interrupted ? kInterrupted : kDone;
  };
}

}  // namespace baracuda::cli
