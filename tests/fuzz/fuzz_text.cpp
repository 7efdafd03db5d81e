// Any bytes as a training text, and any text as settings. What is accepted has no NUL, is the same when read again (but for
// a second byte order mark, or a carriage return that now stands before a newline), and every window of it lies inside.
#include <cstdio>
#include <cstdlib>
#include <string>
#include "baracuda/io/file.hpp"
#include "cli/train/data.hpp"
#include "cli/train/settings.hpp"

using namespace baracuda;

namespace {
void require(bool fact, const char* what) {
  if (fact) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}
void read_text(std::span<const std::byte> file, int64_t context, uint64_t seed) {
  const auto text = io::decode_text(file);
  if (!text.ok()) return require(!text.status().message().empty(), "a text is refused without a reason");
  require(!text->empty() && text->size() <= file.size(), "a text grew or vanished");
  const std::string_view view(reinterpret_cast<const char*>(text->data()), text->size());
  require(view.find('\0') == view.npos, "a NUL is left");
  const auto again = io::decode_text(std::as_bytes(std::span(*text)));
  if (!view.starts_with("\xef\xbb\xbf") && view.find("\r\n") == view.npos) require(again.ok() && *again == *text, "a text changed when read again");

  const auto windows = cli::Windows::over(*text, context, seed);
  if (!windows.ok()) return require(int64_t(text->size()) <= context, "a text is refused though a window fits");
  std::vector<int64_t> input(static_cast<size_t>(2 * context)), target(input.size());
  for (int64_t step : {int64_t(1), int64_t(2), windows->per_epoch(), int64_t(1) << 40}) {
    const int64_t start = windows->start(2 * step);
    require(start >= 0 && start + context < int64_t(text->size()), "a window ends outside the text");
    windows->fill(step, 2, input, target);
    for (size_t i = 0; i + 1 < size_t(context); ++i) require(input[i + 1] == target[i], "the target is not the next token");
  }
}
void read_settings(std::string_view text) {
  cli::Settings s;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size()), equals = text.find('=');
    if (equals < end) {
      const Status status = set_field(s, text.substr(0, equals), text.substr(equals + 1, end - equals - 1));
      require(status.ok() || !status.message().empty(), "a setting is refused without a reason");
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const Status status = cli::validate(s);
  require(status.ok() || !status.message().empty(), "settings are refused without a reason");
  if (!status.ok()) return;
  require(cli::parameters(s) > 0, "settings without parameters are accepted");
  for (int64_t step : {int64_t(1), s.steps / 2 + 1, s.steps}) {
    const double lr = cli::learning_rate(s, step);
    require(lr >= 0 && lr <= s.lr, "a learning rate is above the highest");
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const int64_t context = 1 + data[0] % 64;
  read_text(std::as_bytes(std::span(data + 2, size - 2)), context, data[1]);
  read_settings({reinterpret_cast<const char*>(data) + 2, size - 2});
  return 0;
}
