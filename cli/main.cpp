// The command line tool. Each subcommand lives in its own file and has one line here.
#include <algorithm>
#include <csignal>
#include <new>
#include "baracuda/core/near_name.hpp"
#include "cli/command.hpp"

namespace {

using namespace baracuda::cli;

constexpr struct { const char* name; const char* help; Setup setup; } kCommands[] = {
    {"ops", "List the ops of this build: kernels, dtypes, guarantees", ops_command},
    {"explain", "Show which kernel a descriptor gets, its workspace and guarantee, and why not the others", explain_command},
    {"run", "Run one op on tensors from .npy and .safetensors files", run_command},
    {"verify", "Compare an op with its own f64 kernel, in units in the last place", verify_command},
    {"bench", "Time one op beside a copy of as many bytes: table, JSON, picture", bench_command},
    {"doctor", "Check this machine and this build", doctor_command},
#if defined(BARACUDA_TRAIN)
    {"train", "Train a Llama-style language model on a text, on plans alone", train_command},
#endif
};

// The first word, where it names no command, as one line.
bool known_command(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return true;
  std::vector<std::string_view> names;
  std::string list;
  for (const auto& command : kCommands) {
    if (argv[1] == std::string_view(command.name)) return true;
    names.push_back(command.name), list += std::string(list.empty() ? "" : ", ") + command.name;
  }
  fprintf(stderr, "baracuda: no command '%s'%s (they are %s)\n", argv[1], baracuda::did_you_mean(argv[1], names).c_str(), list.c_str());
  return false;
}
// A parse error as one line.
int usage_error(const CLI::ParseError& e) {
  std::string what = e.what();
  std::replace(what.begin(), what.end(), '\n', ' ');
  fprintf(stderr, "baracuda: %s (--help lists the options)\n", what.c_str());
  return kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that went away and a file-size limit then come back as errors of write(), with their reason.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  setvbuf(stdout, nullptr, _IOLBF, 0);  // a reader behind a pipe sees each step when it is done
  CLI::App app("baracuda: plans for machine-learning primitives", "baracuda");
  app.require_subcommand(1);
  if (!known_command(argc, argv)) return kUsage;
  std::function<int()> chosen;
  for (const auto& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    sub->callback([&chosen, run = command.setup(*sub)] { chosen = run; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return e.get_exit_code() == 0 ? app.exit(e) : usage_error(e);
  }
  try {
    return chosen();
  } catch (const std::bad_alloc&) {
    fprintf(stderr, "baracuda: out of memory\n");
  } catch (const std::exception& e) {
    fprintf(stderr, "baracuda: %s\n", e.what());
  }
  return kFailed;
}
