#include "baracuda/core/near_name.hpp"
#include <algorithm>
#include <vector>

namespace baracuda {
namespace {

// Optimal string alignment, row by row.
size_t changes(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last, std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::string_view near_name(std::string_view text, std::span<const std::string_view> names) {
  std::string_view found;
  size_t least = (text.size() + 2) / 3 + 1;
  for (std::string_view n : names)
    if (const size_t c = text.size() > 64 ? least : changes(text, n); c < least) found = n, least = c;
  return found;
}
std::string did_you_mean(std::string_view text, std::span<const std::string_view> names) {
  const std::string_view found = near_name(text, names);
  return found.empty() ? std::string() : "; did you mean " + std::string(found) + "?";
}

}  // namespace baracuda
