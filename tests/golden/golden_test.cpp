// Replays the samples under this folder: see golden.hpp for how they are judged. Every sample is replayed, or stands in
// the table of declined samples with a reason; every error sample is refused, or stands there too.
#include <gtest/gtest-spi.h>
#include <cmath>
#include <set>
#include "golden.hpp"

namespace baracuda::golden {
namespace {

struct Declined {
  std::string_view op;
  std::set<int> samples;
  std::string_view reason;
};
const Declined kDeclined[] = {
    {"nn.functional.scaled_dot_product_attention", {2, 3, 6, 7}, kDropout},
    {"nn.functional.cross_entropy", {1, 3, 5, 7, 9}, kProbabilities},
    {"nn.functional.rms_norm", {1}, kNegativeEps},
    {"nn.functional.softplus", {0, 1, 2}, kThreshold},
};
const Declined kDeclinedErrors[] = {
    {"nn.functional.rms_norm", {0}, kNoAxes},
    {"rsub", {1}, kNoTensor},
    {"maximum", {2}, kNoTensor},
    {"minimum", {2}, kNoTensor},
    {"max.binary", {2}, kNoTensor},
    {"min.binary", {2}, kNoTensor},
    {"pow", {0}, kNoTensor},
    {"__radd__", {1}, kNoTensor},
    {"__rmul__", {1}, kNoTensor},
    {"__rdiv__", {1}, kNoTensor},
};
std::string_view reason(std::span<const Declined> table, std::string_view op, int sample) {
  for (const Declined& d : table)
    if (d.op == op && d.samples.count(sample)) return d.reason;
  return {};
}

const std::map<std::string_view, Adapter>& adapters() {
  static const std::map<std::string_view, Adapter> all = [] {
    std::map<std::string_view, Adapter> m;
    auto add = [&](std::span<const Entry> entries) {
      for (const Entry& e : entries) m[e.op] = e.adapter;
    };
#ifdef GOLDEN_ATTENTION
    add(attention_adapters());
#endif
#ifdef GOLDEN_NORM
    add(norm_adapters());
#endif
#ifdef GOLDEN_LOSS
    add(loss_adapters());
#endif
#ifdef GOLDEN_EMBEDDING
    add(embedding_adapters());
#endif
#ifdef GOLDEN_GATED
    add(gated_adapters());
#endif
#ifdef GOLDEN_ELEMENTWISE
    add(elementwise_adapters());
#endif
#ifdef GOLDEN_COPY
    add(copy_adapters());
#endif
#ifdef GOLDEN_GEMM
    add(gemm_adapters());
#endif
    return m;
  }();
  return all;
}
// The adapter of an operator; null with a failure, or with a skip where this build leaves the family out.
Adapter adapter_of(const std::string& op) {
  if (auto it = adapters().find(op); it != adapters().end()) return it->second;
  return nullptr;
}

const Samples& samples(const std::string& name) {
  static std::map<std::string, Samples> files;
  auto it = files.find(name);
  return it == files.end() ? files.emplace(name, Samples(name)).first->second : it->second;
}

// What happened, for the line at the end.
struct Totals {
  int replayed = 0, gradients = 0, refused = 0, without_family = 0;
  std::map<std::string_view, int> declined;
  Replay::Count count;
};
std::map<std::string, Totals> totals;
class Report : public ::testing::Environment {
  void TearDown() override {
    for (const auto& [file, t] : totals) {
      int declined = 0;
      for (const auto& [why, n] : t.declined) declined += n;
      std::printf("%s: %d replayed (%d with gradients), %d refused, %d declined, %d without a family in this build", file.c_str(), t.replayed,
                  t.gradients, t.refused, declined, t.without_family);
      if (t.count.elements)
        std::printf("; %lld of %lld elements judged by the double reference, largest error %.3f of its bound", static_cast<long long>(t.count.by_reference),
                    static_cast<long long>(t.count.elements), t.count.worst);
      std::printf("\n");
      for (const auto& [why, n] : t.declined) std::printf("  %2d declined: %.*s\n", n, int(why.size()), why.data());
    }
  }
};
[[maybe_unused]] const auto* const report = ::testing::AddGlobalTestEnvironment(new Report);

struct Case {
  std::string file, op;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.file << " " << c.op; }
};
std::vector<Case> cases(std::initializer_list<const char*> files) {
  std::vector<Case> list;
  for (const char* file : files)
    for (const auto& [op, s] : samples(file).ops().items()) list.push_back({file, op});
  return list;
}
std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.file + "_" + info.param.op;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

class GoldenSamples : public ::testing::TestWithParam<Case> {};
TEST_P(GoldenSamples, replay) {
  const auto& [file, op] = GetParam();
  const Samples& all = samples(file);
  const Json& list = all.ops()[op];
  Totals& total = totals[file];
  const Adapter adapter = adapter_of(op);
#ifndef GOLDEN_EVERYTHING
  if (!adapter) { total.without_family += int(list.size()); GTEST_SKIP() << "the family of " << op << " is not part of this build"; }
#endif
  ASSERT_TRUE(adapter) << "no adapter replays " << op;
  for (int i = 0; i < int(list.size()); ++i) {
    const std::string name = text(file, " ", op, "#", i);
    Replay replay(all, list[size_t(i)]);
    const Status status = adapter(replay, op);
    const std::string_view listed = reason(kDeclined, op, i);
    EXPECT_EQ(replay.declined(), listed) << name << ": what the adapter declines and the table differ";
    if (!replay.declined().empty()) { ++total.declined[replay.declined()]; continue; }
    if (!status.ok()) { ADD_FAILURE() << name << ": " << status.to_string(); continue; }
    const Replay::Count count = replay.finish(name);
    ++total.replayed, total.gradients += replay.has_gradients();
    total.count.elements += count.elements, total.count.by_reference += count.by_reference;
    total.count.worst = std::max(total.count.worst, count.worst);
  }
}
INSTANTIATE_TEST_SUITE_P(golden, GoldenSamples, ::testing::ValuesIn(cases({"opinfo_f32", "opinfo_bf16"})), case_name);

class GoldenErrors : public ::testing::TestWithParam<Case> {};
TEST_P(GoldenErrors, refused) {
  const auto& [file, op] = GetParam();
  const Samples& all = samples(file);
  const Json& list = all.ops()[op];
  Totals& total = totals[file];
  const Adapter adapter = adapter_of(op);
#ifndef GOLDEN_EVERYTHING
  if (!adapter) { total.without_family += int(list.size()); GTEST_SKIP() << "the family of " << op << " is not part of this build"; }
#endif
  ASSERT_TRUE(adapter) << "no adapter replays " << op;
  for (int i = 0; i < int(list.size()); ++i) {
    const std::string name = text(file, " ", op, "#", i);
    Replay replay(all, list[size_t(i)]);
    const Status status = adapter(replay, op);
    EXPECT_EQ(replay.declined(), reason(kDeclinedErrors, op, i)) << name << ": what the adapter declines and the table differ";
    if (!replay.declined().empty()) { ++total.declined[replay.declined()]; continue; }
    EXPECT_FALSE(status.ok()) << name << ": PyTorch raises " << list[size_t(i)]["error"] << ", ours accepts";
    EXPECT_TRUE(status.ok() || status.code() == Code::invalid_problem || status.code() == Code::unsupported) << name << ": " << status.to_string();
    EXPECT_GT(status.message().size(), 10u) << name;
    ++total.refused;
  }
}
INSTANTIATE_TEST_SUITE_P(golden, GoldenErrors, ::testing::ValuesIn(cases({"errors"})), case_name);

// Every entry of the tables stands for a sample.
TEST(Golden, tables_name_samples) {
  for (const Declined& d : kDeclined)
    for (int i : d.samples)
      for (const char* file : {"opinfo_f32", "opinfo_bf16"}) EXPECT_LT(size_t(i), samples(file).ops().value(std::string(d.op), Json::array()).size()) << d.op << "#" << i;
  for (const Declined& d : kDeclinedErrors)
    for (int i : d.samples) EXPECT_LT(size_t(i), samples("errors").ops().value(std::string(d.op), Json::array()).size()) << d.op << "#" << i;
}

// The judge sees a wrong element, a missing result, a changed input, and PyTorch's value where it is right.
TEST(Golden, judge_sees_mistakes) {
  const Samples& all = samples("opinfo_f32");
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
