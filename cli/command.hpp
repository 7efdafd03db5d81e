#pragma once
// A subcommand: one file that offers one function of this type, and one line in the list of main.cpp. The function adds
// the command's options to `app` and returns what runs it after parsing; what that returns is the exit code.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <string>
#include "baracuda/core/status.hpp"

namespace baracuda::cli {

using Setup = std::function<int()> (*)(CLI::App& app);

// Exit codes: 0 done, 1 it failed, 2 the command line is wrong, 130 stopped by Ctrl-C or SIGTERM after saving.
inline constexpr int kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130;

// Prints "baracuda COMMAND: message" on stderr, in one line; kFailed.
inline int fail(const char* command, const Status& status) {
  std::string line = status.message();
  for (size_t at = 0; (at = line.find('\n', at)) != line.npos;) line.replace(at, 1, ";");
  fprintf(stderr, "baracuda %s: %s\n", command, line.c_str());
  return kFailed;
}

// For options: a number of at least `least`.
inline CLI::Validator at_least(double least, const char* words) {
  return CLI::Validator([least, words](std::string& text) {
    double v = 0;
    return CLI::detail::lexical_cast(text, v) && v >= least ? std::string() : "'" + text + "' is not " + words;
  }, "NUMBER");
}

std::function<int()> ops_command(CLI::App& app);
std::function<int()> explain_command(CLI::App& app);
std::function<int()> doctor_command(CLI::App& app);
std::function<int()> run_command(CLI::App& app);
std::function<int()> verify_command(CLI::App& app);
std::function<int()> bench_command(CLI::App& app);
std::function<int()> train_command(CLI::App& app);

}  // namespace baracuda::cli
