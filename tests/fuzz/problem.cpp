#include "problem.hpp"
#include <charconv>

namespace baracuda::fuzz {
namespace {

template <class T> T number(std::string_view s) {
  T v{};
  std::from_chars(s.data(), s.data() + s.size(), v);
  return v;
}
std::vector<std::string_view> lines(std::string_view text) {
  std::vector<std::string_view> list;
  while (!text.empty() && list.size() < 64) {
    const size_t end = std::min(text.find('\n'), text.size());
    list.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return list;
}

constexpr std::string_view kCounts[] = {"0", "1", "2", "3", "4", "5", "7", "8", "9", "15", "16", "17", "31", "32", "33", "64", "65", "127", "128", "256"};
constexpr std::string_view kHuge[] = {"-1",         "-2",         "257",        "1000",       "65536",       "2147483647", "2147483648",
                                      "4294967296", "1000000007", "9223372036854775807", "-9223372036854775808", "4611686018427387904"};
constexpr std::string_view kFloats[] = {"0", "-0.0", "1", "-1", "0.5", "2", "1e-6", "1e-300", "1e300", "inf", "-inf", "nan", "0.1", "50", "1e-45", "10000"};

std::string dims(Random& r) {
  std::string s;
  for (uint64_t i = 0, rank = r.one_in(8) ? r.below(10) : r.below(5); i < rank; ++i)
    s += (i ? "," : "") + std::string(r.one_in(60) ? r.pick(kHuge) : r.pick(kCounts));
  return s;
}
std::string value(const FieldInfo& f, Random& r) {
  if (r.one_in(64)) return std::string(r.pick(kFloats));  // of another type, mostly
  if (r.one_in(12)) return "none";
  if (f.type == "bool") return r.one_in(2) ? "true" : "false";
  if (f.type == "dtype") return std::string(r.one_in(12) ? name(DType(r.below(kDTypes))) : name(DType(int(DType::f16) + int(r.below(4)))));
  if (f.type == "ints") return dims(r);
  if (f.type == "enum" && !f.values.empty()) return std::string(f.values[r.below(f.values.size())]);
  if (f.type == "float") return std::string(r.pick(kFloats));
  return std::string(r.one_in(20) ? r.pick(kHuge) : r.pick(kCounts));
}
std::string another_line(const OpInfo& op, Random& r) {
  if (r.one_in(6)) {
    const auto rows = op.rows();
    switch (r.below(6)) {
      case 0: return text("@threads=", 1 + r.below(4));
      case 1: return text("@max_workspace=", r.below(uint64_t(1) << r.below(30)));
      case 2: return text("@backend=", r.below(size_t(Backend::count)));
      case 3: return rows.empty() ? "@nondeterministic" : text("@kernel=", rows[r.below(rows.size())].name);
      case 4: return "@batch_invariant";
      default: return text("@seed=", r.next() % 1000000);
    }
  }
  const auto fields = op.fields();
  const FieldInfo& f = fields[r.below(fields.size())];
  return text(f.name, "=", value(f, r));
}

}  // namespace

Problem parse_problem(std::string_view text) {
  Problem p;
  bool first = true;
  for (std::string_view line : lines(text)) {
    if (first) { p.op = find_op(line), first = false; continue; }
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    const std::string_view key = line.substr(0, equals), value = equals == line.npos ? std::string_view() : line.substr(equals + 1);
    if (key == "@seed") p.seed = number<uint64_t>(value);
    else if (key == "@threads") p.threads = 1 + int(number<unsigned>(value) % 4);
    else if (key == "@max_workspace") p.preference.max_workspace = number<uint64_t>(value);
    else if (key == "@backend") p.preference.require_backend = Backend(number<unsigned>(value) % unsigned(Backend::count));
    else if (key == "@kernel") p.preference.require_kernel = value;
    else if (key == "@batch_invariant") p.preference.require_batch_invariant = true;
    else if (key == "@nondeterministic") p.preference.allow_nondeterministic = true;
    else p.settings.push_back({key, value});
  }
  return p;
}

std::string mutate_problem(std::string_view input, Random& r) {
  std::vector<std::string> list;
  for (std::string_view l : lines(input)) list.emplace_back(l);
  const auto ops = registry();
  const OpInfo* op = list.empty() ? nullptr : find_op(list[0]);
  if (!op || r.one_in(40)) op = &ops[r.below(ops.size())], list.assign(1, std::string(op->name));
  for (uint64_t n = 1 + r.below(3); n > 0; --n) {
    const std::string line = another_line(*op, r);
    const std::string key = line.substr(0, line.find('='));
    size_t at = list.size();
    for (size_t i = 1; i < list.size(); ++i)
      if (list[i].substr(0, list[i].find('=')) == key) at = i;
    if (at < list.size() && r.one_in(8)) list.erase(list.begin() + long(at));
    else if (at < list.size()) list[at] = line;
    else if (list.size() < 40) list.push_back(line);
  }
  std::string out;
  for (const std::string& l : list) out += l + "\n";
  return out;
}

}  // namespace baracuda::fuzz
