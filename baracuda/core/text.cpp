#include "baracuda/core/text.hpp"
#include <charconv>

namespace baracuda {

std::string number(double v) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return std::string(buffer, end);
}
std::string to_string(const Dims& d) {
  if (!d.rank_ok()) return text("[rank ", d.rank, ", at most ", kMaxRank, "]");
  std::string s = "[";
  for (int i = 0; i < d.rank; ++i) s += text(i ? ", " : "", d.dim[i]);
  return s + "]";
}
std::string to_string(DTypeSet set) {
  std::string s;
  for (size_t t = 0; t < kDTypes; ++t)
    if (set.has(DType(t))) s += text(s.empty() ? "" : " ", DType(t));
  return s.empty() ? "none" : s;
}

}  // namespace baracuda
