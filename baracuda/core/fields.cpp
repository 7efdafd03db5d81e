#include "baracuda/core/fields.hpp"
#include <charconv>

namespace baracuda {
namespace {

Status not_a(std::string_view field, std::string_view text_, std::string_view what) {
  return {Code::invalid_problem, text(field, ": '", text_, "' is not ", what)};
}
template <class T> Status parse_number(std::string_view field, std::string_view t, T& v, std::string_view what) {
  T value{};
  const auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), value);
  if (error == std::errc::result_out_of_range) return not_a(field, t, "in the range of the field");
  if (error != std::errc() || end != t.data() + t.size()) return not_a(field, t, what);
  v = value;
  return {};
}

}  // namespace

Status parse_value(std::string_view field, std::string_view t, bool& v) {
  if (t == "true" || t == "1") v = true;
  else if (t == "false" || t == "0") v = false;
  else return not_a(field, t, "true or false");
  return {};
}
Status parse_value(std::string_view field, std::string_view t, int& v) { return parse_number(field, t, v, "an integer"); }
Status parse_value(std::string_view field, std::string_view t, int64_t& v) { return parse_number(field, t, v, "an integer"); }
Status parse_value(std::string_view field, std::string_view t, double& v) { return parse_number(field, t, v, "a number"); }
Status parse_value(std::string_view field, std::string_view t, DType& v) {
  for (size_t i = 0; i < kDTypes; ++i)
    if (kDTypeFacts[i].name == t) {
      v = DType(i);
      return {};
    }
  return not_a(field, t, text("a dtype; they are ", to_string(DTypeSet{(1u << kDTypes) - 1})));
}
Status parse_value(std::string_view field, std::string_view t, Dims& v) {
  std::string_view rest = t;
  if (rest.size() >= 2 && rest.front() == '[' && rest.back() == ']') rest = rest.substr(1, rest.size() - 2);
  Dims d;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    if (comma == rest.size() - 1) return not_a(field, t, "a list of integers such as 2,3");
    std::string_view item = rest.substr(0, comma);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    int64_t n;
    if (!parse_number(field, item, n, "").ok()) return not_a(field, t, "a list of integers such as 2,3");
    d.push_back(n);
    rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
  }
  if (!d.rank_ok()) return not_a(field, t, text("a list of at most ", kMaxRank, " integers"));
  v = d;
  return {};
}
int match_name(std::string_view t, std::span<const std::string_view> names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == t) return int(i);
  return -1;
}
Status no_such_name(std::string_view field, std::string_view t, std::span<const std::string_view> names) {
  std::string list;
  for (auto n : names) list += text(list.empty() ? "" : ", ", n);
  return not_a(field, t, text("one of ", list));
}

void append_field(std::string& out, std::string_view name, const std::string& value) {
  out += text(out.empty() ? "" : " ", name, "=", value);
}
Status no_such_field(std::string_view key, std::span<const std::string_view> names) {
  std::string known;
  for (auto n : names) known += text(known.empty() ? "" : " ", n);
  return {Code::invalid_problem, text("no field '", key, "'; the fields are ", known)};
}

}  // namespace baracuda
