// Replays the samples under this folder: see golden.hpp for how they are judged. Every sample is replayed, or stands in
// the table of declined samples with a reason; every error sample is refused, or stands there too.
#include <gtest/gtest-spi.h>
#include <cmath>
#include <set>
#include "golden.hpp"

namespace baracuda::golden {
namespace {

#define GOLDEN_FAMILY(name) Family name##_family();
}  // namespace
#include "golden_families.inc"
namespace {
#undef GOLDEN_FAMILY
#define GOLDEN_FAMILY(name) {#name, name##_family()},
const std::map<std::string, Family>& families() {
  static const std::map<std::string, Family> all = {
#include "golden_families.inc"
  };
  return all;
}
Adapter adapter_of(const Family& family, std::string_view op) {
  for (const Entry& e : family.adapters)
    if (e.op == op) return e.adapter;
  return nullptr;
}
std::string_view reason(std::span<const Declined> table, std::string_view op, int sample) {
  for (const Declined& d : table)
    if (d.op == op && d.samples.count(sample)) return d.reason;
  return {};
}

const Samples* samples(const std::string& name) {
  static std::map<std::string, Samples> files;
  auto it = files.find(name);
  return it == files.end() ? &files.emplace(name, Samples(name)).first->second : &it->second;
}

// What happened, for the lines at the end.
struct Totals {
  std::set<std::string> operators;
  int replayed = 0, gradients = 0, refused = 0, without_kernel = 0;
  std::map<std::string_view, int> declined;
  Replay::Count count;
};
std::map<std::string, Totals> totals;
class Report : public ::testing::Environment {
  void TearDown() override {
    for (const auto& [kind, t] : totals) {
      int declined = 0;
      for (const auto& [why, n] : t.declined) declined += n;
      std::printf("%s: %zu operators, ", kind.c_str(), t.operators.size());
      if (kind == "errors") std::printf("%d refused, %d declined", t.refused, declined);
      else std::printf("%d replayed (%d with gradients), %d declined", t.replayed, t.gradients, declined);
      if (t.count.elements)
        std::printf("; %lld of %lld elements judged by the double reference, largest error %.3f of its bound", static_cast<long long>(t.count.by_reference),
                    static_cast<long long>(t.count.elements), t.count.worst);
      if (t.without_kernel) std::printf("; NOT replayed on this device, for want of a kernel: %d", t.without_kernel);
      std::printf("\n");
      for (const auto& [why, n] : t.declined) std::printf("  %2d declined: %.*s\n", n, int(why.size()), why.data());
    }
  }
};
[[maybe_unused]] const auto* const report = ::testing::AddGlobalTestEnvironment(new Report);

struct Case {
  std::string family, kind, op;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.kind << " " << c.op; }
};
std::vector<Case> cases(std::initializer_list<const char*> kinds) {
  std::vector<Case> list;
  for (const auto& [family, unused] : families())
    for (const char* kind : kinds)
      for (const auto& [op, s] : samples(family + "_" + kind)->ops().items()) list.push_back({family, kind, op});
  return list;
}
std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.kind + "_" + info.param.family + "_" + info.param.op;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}
// Calls f(replay, status, sample, name) for every sample that is not declined.
template <class F> void replay_all(const Case& c, std::span<const Declined> table, F f) {
  const Samples& all = *samples(c.family + "_" + c.kind);
  const Json& list = all.ops()[c.op];
  Totals& total = totals[c.kind];
  const Adapter adapter = adapter_of(families().at(c.family), c.op);
  ASSERT_TRUE(adapter) << "no adapter replays " << c.op;
  total.operators.insert(c.op);
  for (int i = 0; i < int(list.size()); ++i) {
    const std::string name = text(c.kind, " ", c.op, "#", i);
    Replay replay(all, list[size_t(i)]);
    const Status status = adapter(replay, c.op);
    if (!testing::on_cuda()) EXPECT_EQ(replay.declined(), reason(table, c.op, i)) << name << ": what the adapter declines and the table differ";
    if (testing::on_cuda() && status.code() == Code::unsupported && status.message().find(": no cuda kernel accepts") != std::string::npos) ++total.without_kernel;
    else if (!replay.declined().empty()) ++total.declined[replay.declined()];
    else f(total, replay, status, list[size_t(i)], name);
  }
}

class GoldenSamples : public ::testing::TestWithParam<Case> {};
TEST_P(GoldenSamples, replay) {
  replay_all(GetParam(), families().at(GetParam().family).declined, [](Totals& total, Replay& replay, const Status& status, const Json&, const std::string& name) {
    if (!status.ok()) { ADD_FAILURE() << name << ": " << status.to_string(); return; }
    const Replay::Count count = replay.finish(name);
    ++total.replayed, total.gradients += replay.has_gradients();
    total.count.elements += count.elements, total.count.by_reference += count.by_reference;
    total.count.worst = std::max(total.count.worst, count.worst);
  });
}
INSTANTIATE_TEST_SUITE_P(golden, GoldenSamples, ::testing::ValuesIn(cases({"f32", "bf16", "lax"})), case_name);

class GoldenErrors : public ::testing::TestWithParam<Case> {};
TEST_P(GoldenErrors, refused) {
  replay_all(GetParam(), families().at(GetParam().family).declined_errors, [](Totals& total, Replay&, const Status& status, const Json& sample, const std::string& name) {
    EXPECT_FALSE(status.ok()) << name << ": PyTorch raises " << sample["error"] << ", ours accepts";
    EXPECT_TRUE(status.ok() || status.code() == Code::invalid_problem || status.code() == Code::unsupported) << name << ": " << status.to_string();
    EXPECT_GT(status.message().size(), 10u) << name;
    ++total.refused;
  });
}
INSTANTIATE_TEST_SUITE_P(golden, GoldenErrors, ::testing::ValuesIn(cases({"errors"})), case_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenErrors);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenSamples);

// Every entry of the tables stands for a sample.
TEST(Golden, tables_name_samples) {
  auto has = [](const std::string& family, const char* kind, const Declined& d, int i) {
    const Json& ops = samples(family + "_" + kind)->ops();
    return ops.contains(d.op) && size_t(i) < ops.at(std::string(d.op)).size();
  };
  for (const auto& [family, f] : families()) {
    for (const Declined& d : f.declined)
      for (int i : d.samples) {
        if (d.op.starts_with("lax.")) EXPECT_TRUE(has(family, "lax", d, i)) << d.op << "#" << i;
        else for (const char* kind : {"f32", "bf16"}) EXPECT_TRUE(has(family, kind, d, i)) << kind << " " << d.op << "#" << i;
      }
    for (const Declined& d : f.declined_errors)
      for (int i : d.samples) EXPECT_TRUE(has(family, "errors", d, i)) << d.op << "#" << i;
  }
}

// Operators and samples that a build of every family replays, by kind: raised with what is added, never lowered.
TEST(Golden, counts_do_not_fall) {
#if !defined(BARACUDA_GOLDEN_ALL)
  GTEST_SKIP() << "this build has not every family";
#endif
  constexpr struct { const char* kind; size_t operators, samples; } kLeast[] = {{"f32", 290, 1711}, {"bf16", 286, 1682}, {"lax", 93, 1171}, {"errors", 86, 114}};
  for (const auto& least : kLeast) {
    size_t operators = 0, replayed = 0;
    for (const auto& [family, f] : families())
      for (const auto& [op, list] : samples(family + "_" + least.kind)->ops().items()) {
        ++operators;
        for (int i = 0; i < int(list.size()); ++i) replayed += reason(std::string_view(least.kind) == "errors" ? f.declined_errors : f.declined, op, i).empty();
      }
    EXPECT_GE(operators, least.operators) << least.kind;
    EXPECT_GE(replayed, least.samples) << least.kind;
    std::printf("%s: %zu operators, %zu samples\n", least.kind, operators, replayed);
  }
}

// The judge sees a wrong element, a missing result, a changed input, and PyTorch's value where it is right.
TEST(Golden, judge_sees_mistakes) {
  if (!families().count("elementwise")) GTEST_SKIP() << "this build has no elementwise family";
  const Samples& all = *samples("elementwise_f32");
  const Json sample = all.ops()["neg"][0];
  auto failures = [&](auto change) {
    ::testing::TestPartResultArray results;
    ::testing::ScopedFakeTestPartResultReporter reporter(::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    Replay r(all, sample);
    const Held* x = r.input();
    Values y = x->values(), dx = r.dy().values();
    for (double& v : y) v = -v;
    for (double& v : dx) v = -v;
    r.reference = [&r, x](const Inputs& in) {
      Numbers n;
      for (double v : r.numbers(*x, in)) n.y.push_back(-v), n.scale.push_back(0);
      return n;
    };
    change(r, y, dx);
    if (!y.empty()) r.output(0, y);
    if (!dx.empty()) r.gradient(*x, dx);
    r.finish("neg");
    return results.size();
  };
  EXPECT_EQ(failures([](Replay&, Values&, Values&) {}), 0);
  EXPECT_EQ(failures([](Replay&, Values& y, Values&) { y[17] *= 1 + 1e-6; }), 1);
  EXPECT_EQ(failures([](Replay&, Values&, Values& dx) { dx[399] += 1e-6 * std::max(1.0, std::fabs(dx[399])); }), 1);
  EXPECT_EQ(failures([](Replay&, Values& y, Values&) { y.clear(); }), 1);
  EXPECT_EQ(failures([](Replay&, Values&, Values& dx) { dx.clear(); }), 1);
  EXPECT_GT(failures([](Replay& r, Values&, Values&) { *r.input()->view().as<float>() += 1; }), 0);
  EXPECT_GT(failures([](Replay& r, Values&, Values&) { r.reference = [](const Inputs& in) { return Numbers{in[0], Values(in[0].size())}; }; }), 0);
}

}  // namespace
}  // namespace baracuda::golden
