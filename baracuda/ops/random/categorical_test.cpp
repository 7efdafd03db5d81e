#include "baracuda/ops/random/categorical.hpp"
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include "baracuda/ops/random/random.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr Layout kLayouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};

// The numbers are those of random_gumbel and random_exponential; what is done with them is written out again.
const std::vector<double>& numbers(WeightKind kind, int64_t n, uint64_t seed, uint64_t offset) {
  static std::map<std::tuple<WeightKind, int64_t, uint64_t, uint64_t>, std::vector<double>> drawn;
  std::vector<double>& known = drawn[{kind, n, seed, offset}];
  if (!known.empty()) return known;
  Tensor y(DType::f64, {n});
  if (kind == WeightKind::logits) EXPECT_OK(run_plan<RandomGumbel>({DType::f64, {n}}, {y, seed, offset}));
  else EXPECT_OK(run_plan<RandomExponential>({DType::f64, {n}}, {y, seed, offset}));
  return known = y.values();
}
std::vector<double> probabilities_of(const CategoricalDescriptor& d, const std::vector<double>& x) {
  std::vector<double> p;
  const double most = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double v : x) p.push_back(d.kind == WeightKind::logits ? std::exp((v - most) / d.temperature) : v), sum += p.back();
  for (double& v : p) v /= sum;
  return p;
}
// Which indices stay, by the words of the header.
std::vector<bool> kept_of(const CategoricalDescriptor& d, const std::vector<double>& x) {
  std::vector<double> p = probabilities_of(d, x);
  std::vector<size_t> order;
  for (size_t i = 0; i < x.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
  if (d.top_k > 0) order.resize(std::min(order.size(), size_t(d.top_k)));
  double total = 0, sum = 0;
  for (size_t i : order) total += p[i];
  std::vector<bool> kept(x.size());
  for (size_t i : order) {
    if (d.top_p < 1 && sum >= d.top_p * total) break;
    sum += p[i];
    if (p[i] >= d.min_p * p[order[0]]) kept[i] = true;
  }
  return kept;
}
TEST(Categorical, TheLargestValueWins) {
  const Shape shape{3, 4, 700};
  for (WeightKind kind : {WeightKind::logits, WeightKind::probabilities})
    for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64})
      for (Layout layout : kLayouts)
        for (int variant = 0; variant < 4; ++variant) {
          CategoricalDescriptor d{.dtype = t, .shape = shape, .kind = kind, .samples = 3};
          if (kind == WeightKind::logits) d.temperature = 0.75;
          if (variant == 1) d.top_k = 5;
          if (variant == 2) d.top_p = 0.6, d.min_p = 0.02;
          if (variant == 3) d.replacement = false;
          Tensor x = kind == WeightKind::logits ? Tensor::normal(t, shape, 3, 0, 2, layout) : Tensor::uniform(t, shape, 3, 0, 1, layout);
          x.set(11, kind == WeightKind::logits ? -INFINITY : 0);
          Tensor y(DType::i64, d.y_shape(), layout);
          ASSERT_OK(run_plan<Categorical>(d, {x, y, 5, 99}));
          EXPECT_TRUE(y.guards_intact());
          for (int64_t row = 0; row < 12; ++row) {
            std::vector<double> scores;
            for (int64_t i = 0; i < 700; ++i) scores.push_back(x.at(row * 700 + i));
            const double most = *std::max_element(scores.begin(), scores.end());
            const std::vector<bool> kept = kept_of(d, scores);
            auto value = [&](size_t i, double number) {
              if (!kept[i] || scores[i] == (kind == WeightKind::logits ? -INFINITY : 0)) return -double(INFINITY);
              return kind == WeightKind::logits ? (scores[i] - most) / d.temperature + number : scores[i] / number;
            };
            for (int64_t s = 0; s < 3; ++s) {
              const std::vector<double>& drawn = numbers(kind, 700, 5, 99 + uint64_t((d.replacement ? row * 3 + s : row) * 700));
              std::vector<std::pair<double, int64_t>> race;
              for (size_t i = 0; i < 700; ++i) race.push_back({-value(i, drawn[i]), int64_t(i)});
              std::sort(race.begin(), race.end());
              ASSERT_EQ(y.at(row * 3 + s), double(race[size_t(d.replacement ? 0 : s)].second)) << describe(d) << " row " << row << " sample " << s;
            }
          }
        }
}
TEST(Categorical, FrequenciesAreTheProbabilities) {
  const std::vector<double> p = {0.1, 0, 0.4, 0.05, 0.25, 0.2};
  const int64_t n = 200000;
  std::vector<double> logits;
  for (double v : p) logits.push_back(v > 0 ? std::log(v) + 3 : -INFINITY);
  for (WeightKind kind : {WeightKind::logits, WeightKind::probabilities}) {
    const Tensor x(DType::f64, {6}, kind == WeightKind::logits ? logits : p);
    Tensor y(DType::i64, {n});
    ASSERT_OK(run_plan<Categorical>({.dtype = DType::f64, .shape = {6}, .kind = kind, .samples = n}, {x, y, 8, 0}));
    std::vector<double> counts(6);
    for (double v : y.values()) ++counts[size_t(v)];
    EXPECT_EQ(counts[1], 0);
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(counts[i] / double(n), p[i], 5 * std::sqrt(p[i] * (1 - p[i]) / double(n))) << i;
    // Without replacement: the first as with it, the second by what is left.
    const int64_t rows = 60000;
    TensorView wide = x.view();
    wide.shape = {rows, 6}, wide.strides = {0, 1};
    Tensor pairs(DType::i64, {rows, 2});
    ASSERT_OK(run_plan<Categorical>({.dtype = DType::f64, .shape = {rows, 6}, .kind = kind, .samples = 2, .replacement = false}, {wide, pairs, 8, 0}));
    std::vector<double> both(36);
    for (int64_t r = 0; r < rows; ++r) ++both[size_t(pairs.at(2 * r) * 6 + pairs.at(2 * r + 1))];
    for (size_t i = 0; i < 6; ++i)
      for (size_t j = 0; j < 6; ++j) {
        const double want = i == j || p[i] == 0 ? 0 : p[i] * p[j] / (1 - p[i]);
        EXPECT_NEAR(both[i * 6 + j] / double(rows), want, 5 * std::sqrt(want * (1 - want) / double(rows))) << i << " " << j;
      }
  }
}
TEST(Categorical, CutsKeepWhatTheySay) {
  // Ties at the k-th value: the lower index stays. top_p keeps the one that crosses. An index alone is always drawn.
  const Tensor x(DType::f32, {6}, {1, 3, 2, 3, 2, 0});
  auto drawn = [&](CategoricalDescriptor d) {
    d.shape = {6}, d.samples = 4000;
    Tensor y(DType::i64, {4000});
    EXPECT_OK(run_plan<Categorical>(d, {x, y, 1, 0}));
    std::vector<double> v = y.values();
    std::sort(v.begin(), v.end());
    v.erase(std::unique(v.begin(), v.end()), v.end());
    return v;
  };
  EXPECT_EQ(drawn({.top_k = 3}), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(drawn({.top_k = 1}), (std::vector<double>{1}));
  EXPECT_EQ(drawn({.top_k = 100}), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  // Probabilities: .35 .35 .13 .13 .05 .02 in order.
  EXPECT_EQ(drawn({.top_p = 0.01}), (std::vector<double>{1}));
  EXPECT_EQ(drawn({.top_p = 0.36}), (std::vector<double>{1, 3}));
  EXPECT_EQ(drawn({.top_p = 0.75}), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(drawn({.min_p = 0.3}), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(drawn({.min_p = 1}), (std::vector<double>{1, 3}));
  EXPECT_EQ(drawn({.top_k = 3, .top_p = 0.5}), (std::vector<double>{1, 3}));  // of the three: .42 .42 .16
  EXPECT_EQ(drawn({.temperature = 1e-300}), (std::vector<double>{1, 3}));
}
TEST(Categorical, RowsThreadsAndRefusals) {
  const Shape shape{37, 300};
  const Tensor x = Tensor::normal(DType::f32, shape, 3);
  Tensor y(DType::i64, {37, 2});
  for (bool replacement : {true, false}) {
    const CategoricalDescriptor d{.shape = shape, .samples = 2, .replacement = replacement, .top_k = 50};
    check_contract<Categorical>(d, {x, y, 4, 2});
    check_repeat_bits<Categorical>(d, {x, y, 4, 2}, {}, 1);
  }
  Tensor none(DType::i64, {0, 2}), empty(DType::f32, {0, 300});
  ASSERT_OK(run_plan<Categorical>({.shape = {0, 300}, .samples = 2}, {empty, none, 1, 0}));
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  expect_refused(CategoricalPlan::select(s, {.shape = {}}).status(), bad, {"categorical", "rank 0"});
  expect_refused(CategoricalPlan::select(s, {.shape = {3, 0}}).status(), bad, {"[3, 0]", "nothing"});
  expect_refused(CategoricalPlan::select(s, {.shape = shape, .samples = 0}).status(), bad, {"samples is 0"});
  expect_refused(CategoricalPlan::select(s, {.shape = shape, .samples = 301, .replacement = false}).status(), bad, {"samples 301", "300"});
  expect_refused(CategoricalPlan::select(s, {.shape = shape, .samples = 6, .replacement = false, .top_k = 5}).status(), bad, {"samples 6", "5 indices"});
  expect_refused(CategoricalPlan::select(s, {.shape = shape, .samples = 2, .replacement = false, .top_p = 0.5}).status(), bad, {"top_p 0.5", "replacement"});
  expect_refused(CategoricalPlan::select(s, {.shape = shape, .temperature = 0}).status(), bad, {"temperature 0"});
  expect_refused(CategoricalPlan::select(s, {.shape = shape, .kind = WeightKind::probabilities, .temperature = 2}).status(), bad, {"temperature 2"});
  expect_refused(CategoricalPlan::select(s, {.shape = shape, .top_k = -1}).status(), bad, {"top_k is -1"});
  expect_refused(CategoricalPlan::select(s, {.shape = shape, .top_p = 0}).status(), bad, {"top_p 0"});
  expect_refused(CategoricalPlan::select(s, {.shape = shape, .min_p = NAN}).status(), bad, {"min_p"});
  const struct { WeightKind kind; double value; std::string_view says; } faults[] = {
      {WeightKind::logits, NAN, "logit"}, {WeightKind::logits, INFINITY, "inf"}, {WeightKind::probabilities, NAN, "weight"}, {WeightKind::probabilities, -0.5, "-0.5"}};
  for (const auto& f : faults) {
    Tensor w(DType::f32, {2, 3}, {1, 1, 1, 1, 1, 1}), z(DType::i64, {2, 1});
    w.set(5, f.value), z.poison();
    const auto before = z.element_bytes();
    const Status ran = run_plan<Categorical>({.shape = {2, 3}, .kind = f.kind}, {w, z, 1, 0});
    if (on_cuda()) {  // the row shows it
      EXPECT_OK(ran);
      EXPECT_TRUE(z.at(0) >= 0 && z.at(1) == -1) << f.value;
      continue;
    }
    expect_refused(ran, bad, {"element 2 of row 1", f.says});
    EXPECT_EQ(z.element_bytes(), before);
  }
  const Tensor zeros(DType::f32, {2, 3}, {0, 0, 0, 0, 0, 0}), one(DType::f32, {1, 3}, {0, 2, 0});
  Tensor z(DType::i64, {2, 1}), pair(DType::i64, {1, 2});
  if (on_cuda()) {
    ASSERT_OK(run_plan<Categorical>({.shape = {2, 3}, .kind = WeightKind::probabilities}, {zeros, z, 1, 0}));
    ASSERT_OK(run_plan<Categorical>({.shape = {1, 3}, .kind = WeightKind::probabilities, .samples = 2, .replacement = false}, {one, pair, 1, 0}));
    EXPECT_EQ(z.values(), (std::vector<double>{-1, -1}));
    EXPECT_EQ(pair.values(), (std::vector<double>{-1, -1}));
    return;
  }
  expect_refused(run_plan<Categorical>({.shape = {2, 3}, .kind = WeightKind::probabilities}, {zeros, z, 1, 0}), bad, {"row 0", "0 indices", "1 are needed"});
  expect_refused(run_plan<Categorical>({.shape = {1, 3}, .kind = WeightKind::probabilities, .samples = 2, .replacement = false}, {one, pair, 1, 0}), bad,
                 {"row 0", "1 indices", "2 are needed"});
}

TEST(SamplingFilter, KeepsWhatCategoricalDrawsFrom) {
  const Shape shape{3, 4, 200};
  for (WeightKind kind : {WeightKind::logits, WeightKind::probabilities})
    for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64})
      for (Layout layout : kLayouts)
        for (int variant = 0; variant < 4; ++variant) {
          CategoricalDescriptor d{.dtype = t, .shape = shape, .kind = kind};
          if (kind == WeightKind::logits) d.temperature = 0.75;
          if (variant == 1) d.top_k = 5;
          if (variant == 2) d.top_p = 0.6, d.min_p = 0.02;
          if (variant == 3) d.top_k = 50, d.top_p = 0.9;
          Tensor x = kind == WeightKind::logits ? Tensor::normal(t, shape, 3, 0, 2, layout) : Tensor::uniform(t, shape, 3, 0, 1, layout);
          x.set(11, kind == WeightKind::logits ? -INFINITY : 0);
          Tensor y(t, shape, layout);
          const SamplingFilterDescriptor f{t, shape, kind, d.temperature, d.top_k, d.top_p, d.min_p};
          ASSERT_OK(run_plan<SamplingFilter>(f, {x, y}));
          EXPECT_TRUE(y.guards_intact());
          const std::vector<double> all = x.values();
          std::vector<double> want;
          for (int64_t r = 0; r < 12; ++r) {
            const std::vector<double> row(all.begin() + r * 200, all.begin() + (r + 1) * 200);
            const std::vector<bool> kept = kept_of(d, row);
            double sum = 0;
            for (size_t i = 0; i < 200; ++i) sum += kept[i] ? row[i] : 0;
            for (size_t i = 0; i < 200; ++i) want.push_back(kind == WeightKind::logits ? kept[i] ? row[i] : -INFINITY : kept[i] ? row[i] / sum : 0);
          }
          if (kind == WeightKind::logits) EXPECT_EQ(y.values(), want);
          else EXPECT_CLOSE(y, want, {.dtype = t, .terms = 200});
          ASSERT_OK(run_plan<SamplingFilter>(f, {x, x}));  // in place
          EXPECT_TRUE(x.same_bits(y));
        }
  const Tensor x = Tensor::normal(DType::bf16, {50, 300}, 1), bad(DType::f32, {2, 2}, {0, 1, 2, NAN}), zero(DType::f32, {1, 2}, {0, 0});
  Tensor y(DType::bf16, {50, 300}), f(DType::f32, {2, 2}), one(DType::f32, {1, 2});
  const SamplingFilterDescriptor d{.dtype = DType::bf16, .shape = {50, 300}, .top_k = 7, .top_p = 0.8};
  check_contract<SamplingFilter>(d, {x, y});
  check_repeat_bits<SamplingFilter>(d, {x, y}, {}, 1);
  const Tensor negative(DType::f32, {2}, {-0.0, 2});  // what is not drawn is 0, whatever its sign was
  Tensor shares(DType::f32, {2});
  ASSERT_OK(run_plan<SamplingFilter>({.shape = {2}, .kind = WeightKind::probabilities}, {negative, shares}));
  EXPECT_TRUE(!std::signbit(shares.at(0)) && shares.at(0) == 0 && shares.at(1) == 1);
  expect_refused(SamplingFilterPlan::select(Stream::cpu(), {.shape = {2, 2}, .top_p = 0}).status(), Code::invalid_problem, {"sampling_filter", "top_p 0"});
  if (on_cuda()) {
    ASSERT_OK(run_plan<SamplingFilter>({.shape = {2, 2}}, {bad, f}));
    ASSERT_OK(run_plan<SamplingFilter>({.shape = {1, 2}, .kind = WeightKind::probabilities}, {zero, one}));
    EXPECT_TRUE(f.at(0) == 0 && f.at(1) == 1 && std::isnan(f.at(2)) && std::isnan(f.at(3)) && std::isnan(one.at(0)) && std::isnan(one.at(1)));
    return;
  }
  expect_refused(run_plan<SamplingFilter>({.shape = {2, 2}}, {bad, f}), Code::invalid_problem, {"sampling_filter", "element 1 of row 1", "nan"});
  expect_refused(run_plan<SamplingFilter>({.shape = {1, 2}, .kind = WeightKind::probabilities}, {zero, one}), Code::invalid_problem, {"row 0", "0 indices"});
}

// Long rows, with and without many equal elements at the cuts: exactly those stay that the words of the header say, and on CUDA those of the CPU.
TEST(SamplingFilter, LongRows) {
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (int64_t n : {1, 2, 33, 4097, 20011})
      for (WeightKind kind : {WeightKind::logits, WeightKind::probabilities})
        for (bool ties : {false, true}) {
          const Shape shape{2, n};
          const bool logits = kind == WeightKind::logits;
          Tensor x = ties ? Tensor::integers(t, shape, 5, logits ? -4 : 1, 4) : logits ? Tensor::normal(t, shape, 5, 0, 3) : Tensor::uniform(t, shape, 5, 0, 1);
          if (n > 40) x.set(7, logits ? -INFINITY : 0), x.set(n + 9, -0.0), x.set(n + 20, 0.0);
          for (const auto& [top_k, top_p, min_p] : {std::tuple{int64_t(0), 0.7071067, 0.0}, {n / 3 + 1, 1.0, 0.0}, {int64_t(50), 0.951, 0.01}, {n / 2 + 1, 0.4142135, 0.0}, {int64_t(0), 1.0, 0.1}}) {
            const SamplingFilterDescriptor d{.dtype = t, .shape = shape, .kind = kind, .temperature = logits ? 1.25 : 1, .top_k = top_k, .top_p = top_p, .min_p = min_p};
            SCOPED_TRACE(describe(d));
            Tensor y(t, shape), host(t, shape);
            ASSERT_OK(run_plan<SamplingFilter>(d, {x, y}));
            for (int64_t r = 0; r < 2; ++r) {
              std::vector<double> row;
              for (int64_t i = 0; i < n; ++i) row.push_back(x.at(r * n + i));
              const std::vector<bool> kept = kept_of({.dtype = t, .kind = kind, .temperature = d.temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p}, row);
              for (int64_t i = 0; i < n; ++i) {
                const double v = y.at(r * n + i), never = logits ? -INFINITY : 0;
                ASSERT_EQ(v != never, kept[size_t(i)] && row[size_t(i)] != never) << "row " << r << " element " << i;
              }
            }
            if (!on_cuda()) continue;
            const auto plan = SamplingFilterPlan::select(Stream::cpu(), d);
            ASSERT_TRUE(plan.ok());
            GuardedWorkspace workspace(plan->workspace_size());
            ASSERT_OK(plan->run(Stream::cpu(), workspace.get(), {x, host}));
            EXPECT_TRUE(host.same_bits(y));
          }
        }
}
// Several parts to a race, many samples, and places among ties.
TEST(Categorical, LongRowsAsOnTheCpu) {
  if (!on_cuda()) GTEST_SKIP() << "compares CUDA with the CPU";
  for (DType t : {DType::bf16, DType::f32, DType::f64})
    for (WeightKind kind : {WeightKind::logits, WeightKind::probabilities})
      for (int variant = 0; variant < 5; ++variant) {
        const Shape shape{3, 10001};
        CategoricalDescriptor d{.dtype = t, .shape = shape, .kind = kind, .samples = variant == 4 ? 1 : 9};
        if (variant == 1) d.top_k = 40;
        if (variant == 2) d.top_k = 900, d.top_p = 0.8, d.min_p = 0.001;
        if (variant >= 3) d.replacement = false;
        const Tensor x = kind == WeightKind::logits ? Tensor::normal(t, shape, 3, 0, 2) : Tensor::uniform(t, shape, 3, 0, 1);
        Tensor y(DType::i64, d.y_shape()), host(DType::i64, d.y_shape());
        SCOPED_TRACE(describe(d));
        ASSERT_OK(run_plan<Categorical>(d, {x, y, 11, 3}));
        const auto plan = CategoricalPlan::select(Stream::cpu(), d);
        ASSERT_TRUE(plan.ok());
        GuardedWorkspace workspace(plan->workspace_size());
        ASSERT_OK(plan->run(Stream::cpu(), workspace.get(), {x, host, 11, 3}));
        EXPECT_EQ(y.values(), host.values());
      }
}

}  // namespace
}  // namespace baracuda
