#include "baracuda/ops/loss/cross_entropy.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/math/dual.hpp"
#include "baracuda/ops/loss/loss_math.hpp"
#include "baracuda/ops/loss/loss_oracle.hpp"

namespace baracuda {
namespace {

using namespace testing;
using Values = std::vector<double>;

constexpr DType kAll[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

struct Outputs { Tensor loss, z_part, lse, dlogits, backward, backward_no_lse; };
Shape loss_shape(const CrossEntropyDescriptor& d) { return d.reduction == Reduction::none ? Shape{d.tokens} : Shape{1}; }
Tensor acc_tensor(const CrossEntropyDescriptor& d, const Values& v) { return v.empty() ? Tensor() : Tensor(accumulator(d.dtype), {int64_t(v.size())}, v); }

// Runs forward with gradient, forward without, and both backwards.
Outputs run_all(CrossEntropyDescriptor d, const Tensor& logits, const Tensor& target, const Values& weights, const Values& dloss, Layout layout = Layout::dense) {
  const DType acc = accumulator(d.dtype);
  Outputs o{Tensor(acc, loss_shape(d)), Tensor(acc, loss_shape(d)), Tensor(acc, {d.tokens}), Tensor(d.dtype, {d.tokens, d.classes}, layout),
            Tensor(d.dtype, {d.tokens, d.classes}, layout), Tensor(d.dtype, {d.tokens, d.classes})};
  const Tensor w = acc_tensor(d, weights), g = acc_tensor(d, dloss);
  const auto before = logits.element_bytes();
  d.grad_logits = false;
  Tensor loss(acc, loss_shape(d)), z(acc, loss_shape(d)), lse(acc, {d.tokens});
  EXPECT_OK(run_plan<CrossEntropy>(d, {logits, target, w, {}, loss, z, lse, {}}));
  d.grad_logits = true;
  EXPECT_OK(run_plan<CrossEntropy>(d, {logits, target, w, g, o.loss, o.z_part, o.lse, o.dlogits}));
  EXPECT_TRUE(loss.same_bits(o.loss) && z.same_bits(o.z_part) && lse.same_bits(o.lse)) << "evaluation and training differ";
  EXPECT_OK(run_plan<CrossEntropyBackward>(d, {logits, target, w, o.lse, g, o.backward}));
  EXPECT_OK(run_plan<CrossEntropyBackward>(d, {logits, target, w, {}, g, o.backward_no_lse}));
  EXPECT_TRUE(o.backward_no_lse.same_bits(o.dlogits));
  EXPECT_EQ(logits.element_bytes(), before) << "logits were changed";
  for (const Tensor* t : {&o.loss, &o.z_part, &o.lse, &o.dlogits, &o.backward}) EXPECT_TRUE(t->guards_intact());
  return o;
}
void check_case(const CrossEntropyDescriptor& d, const Tensor& logits, const std::vector<int64_t>& target, const Values& weights, const Values& dloss,
                Layout layout = Layout::dense) {
  SCOPED_TRACE(describe(d));
  const Outputs o = run_all(d, logits, target_tensor(target, d.target_dtype), weights, dloss, layout);
  auto to_acc = [&](Values v) { for (double& e : v) e = rounded(accumulator(d.dtype), e); return v; };
  const LossWant w = loss_oracle({d.tokens, d.classes, logits.values(), target, to_acc(weights), to_acc(dloss), int(d.reduction), d.ignore_index,
                                  d.label_smoothing, d.z_loss, d.softcap, d.invalid_target == InvalidTarget::zero, d.mean_over == MeanOver::weights});
  EXPECT_CLOSE(o.loss, w.loss, {.ulps = 1, .terms = 1}, &w.loss_scale);
  EXPECT_CLOSE(o.z_part, w.z_part, {.ulps = 1, .terms = 1}, &w.loss_scale);
  Values lse_scale;
  for (double e : w.lse) lse_scale.push_back(1 + std::fabs(e));
  EXPECT_CLOSE(o.lse, w.lse, {.ulps = 1, .terms = 1}, &lse_scale);
  EXPECT_CLOSE(o.dlogits, w.dlogits, {.ulps = 1, .terms = 1}, &w.dlogits_scale);
  EXPECT_CLOSE(o.backward, w.dlogits, {.ulps = 1, .terms = 1}, &w.dlogits_scale);
}

TEST(CrossEntropy, ValuesForEveryDtypeAndOption) {
  Source source(11);
  for (DType t : kAll)
    for (int option = 0; option < 12; ++option) {
      CrossEntropyDescriptor d{.dtype = t, .tokens = 7, .classes = 301};
      d.reduction = Reduction(option % 3);
      d.label_smoothing = option & 1 ? 0.1 : option == 10 ? 1 : 0;
      d.z_loss = option & 2 ? 0.01 : 0;
      d.softcap = option & 4 ? 5 : 0;
      d.target_dtype = option & 8 ? DType::i32 : DType::i64;
      d.mean_over = option == 7 ? MeanOver::weights : MeanOver::tokens;
      d.ignore_index = option == 4 ? 3 : -100;
      Values weights, dloss;
      if (option >= 6) for (int i = 0; i < 7; ++i) weights.push_back(source.uniform() * 2);
      if (option >= 3) for (int i = 0; i < (d.reduction == Reduction::none ? 7 : 1); ++i) dloss.push_back(source.normal());
      const Tensor logits = Tensor::normal(t, {7, 301}, uint64_t(option), 1, 3);
      check_case(d, logits, some_targets(7, 301, uint64_t(option) + 50, 3, d.ignore_index), weights, dloss);
    }
}
TEST(CrossEntropy, ShapesAndPitches) {
  for (int64_t v : {1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 256, 1000, 4095, 4096, 4097, 8200, 50257})
    for (Layout layout : {Layout::dense, Layout::padded, Layout::outer_reversed}) {
      if (v == 50257 && layout != Layout::dense) continue;
      const int64_t rows = v > 5000 ? 2 : 5;
      check_case({.tokens = rows, .classes = v, .label_smoothing = 0.2}, Tensor::normal(DType::f32, {rows, v}, uint64_t(v), 0, 4, layout),
                 some_targets(rows, v, 3, 4), {}, {}, layout);
      check_case({.dtype = DType::bf16, .tokens = rows, .classes = v, .reduction = Reduction::none, .softcap = 3},
                 Tensor::normal(DType::bf16, {rows, v}, uint64_t(v), 0, 4, layout), some_targets(rows, v, 3, 4), {}, {}, layout);
    }
}
// Rows that begin anywhere, from a part of a warp's work to more than a multiprocessor holds.
TEST(CrossEntropy, RowsOfAnyLengthAndPlace) {
  for (DType t : {DType::f16, DType::bf16, DType::f32})
    for (int64_t v : {1, 7, 8, 9, 100, 999, 2048, 4097, 33001, 50257, 131072, 131075, 250007, 400003}) {
      if (v > 60000 && !on_cuda()) continue;  // one more of the same there
      const int64_t rows = v > 60000 ? 2 : 3;
      check_case({.dtype = t, .tokens = rows, .classes = v, .reduction = Reduction::none, .label_smoothing = v % 2 ? 0.1 : 0},
                 Tensor::normal(t, {rows, v}, uint64_t(v), 1, 2), some_targets(rows, v, uint64_t(v), 3), {}, {});
    }
}
// More rows than a block takes, of lengths that lie in memory in all ways, by one thread each to many.
TEST(CrossEntropy, RowsOfFewClasses) {
  const auto check = [](DType t, int64_t rows, int64_t v) {
    check_case({.dtype = t, .tokens = rows, .classes = v, .label_smoothing = v % 2 ? 0.1 : 0, .z_loss = v % 3 ? 0 : 0.01}, Tensor::normal(t, {rows, v}, uint64_t(v), 1, 2),
               some_targets(rows, v, uint64_t(v), rows / 7), {}, {});
  };
  for (DType t : {DType::f16, DType::bf16, DType::f32})
    for (int64_t v : {1, 2, 5, 8, 10, 16, 17, 36, 37, 72, 96, 100, 128, 145, 301, 513, 578, 768, 769, 1000, 1024}) check(t, v < 200 ? 301 : 67, v);
  if (on_cuda()) check(DType::bf16, 22000, 301);
}
// More rows than a device holds at once, of one block and of a cluster each, and more tokens than a leaf of the sum has.
TEST(CrossEntropy, MoreRowsThanADeviceHolds) {
  if (!on_cuda()) GTEST_SKIP() << "rows of a CUDA device";
  for (const auto& [rows, v] : {std::pair<int64_t, int64_t>{2000, 8200}, {120, 131072}}) {
    Values weights;
    for (int64_t i = 0; i < rows; ++i) weights.push_back(0.5 + double(i % 7) / 8);
    check_case({.dtype = DType::bf16, .tokens = rows, .classes = v, .mean_over = v < 10000 ? MeanOver::weights : MeanOver::tokens}, Tensor::normal(DType::bf16, {rows, v}, 5, 1, 2),
               some_targets(rows, v, 3, rows / 7), weights, {});
  }
}
// Halves far from 0: neighbours are 16 and 128 and more apart.
TEST(CrossEntropy, HalvesFarFromZero) {
  for (DType t : {DType::f16, DType::bf16})
    for (int64_t v : {100, 5000}) {
      std::vector<double> at = t == DType::f16 ? Values{60000, -60000, 16384, 3000, 0.001} : Values{3e38, -3e38, 1e20, 70000, 33000, 16384, -16500, 3000, 1e-30};
      Values x;
      for (size_t r = 0; r < at.size(); ++r)
        for (int64_t j = 0; j < v; ++j) x.push_back(at[r] * (1 - double(j % 17) / 256));
      check_case({.dtype = t, .tokens = int64_t(at.size()), .classes = v, .reduction = Reduction::none}, Tensor(t, {int64_t(at.size()), v}, x),
                 std::vector<int64_t>(at.size(), 3), {}, {});
    }
}
TEST(CrossEntropy, BitsOfARowAreThoseOfItsElements) {  // wherever it begins
  for (DType t : {DType::f16, DType::bf16, DType::f32})
    for (int64_t v : {5, 301, 2049, 50257}) {
      const int64_t rows = 9;
      const Values one = Tensor::normal(t, {v}, 5, 0, 3).values();
      Values all;
      for (int64_t r = 0; r < rows; ++r) all.insert(all.end(), one.begin(), one.end());
      const Outputs o = run_all({.dtype = t, .tokens = rows, .classes = v, .reduction = Reduction::none, .label_smoothing = 0.1}, Tensor(t, {rows, v}, all),
                                target_tensor(std::vector<int64_t>(size_t(rows), v / 2)), {}, {});
      for (int64_t r = 1; r < rows; ++r) {
        EXPECT_EQ(o.loss.at(r), o.loss.at(0)) << name(t) << " " << v;
        EXPECT_EQ(o.lse.at(r), o.lse.at(0)) << name(t) << " " << v;
        for (int64_t j = 0; j < v; ++j) ASSERT_TRUE(o.dlogits.at(r * v + j) == o.dlogits.at(j) && o.backward.at(r * v + j) == o.backward.at(j)) << name(t) << " " << v << " " << j;
      }
    }
}
TEST(CrossEntropy, LargeOffsetsDoNotLoseDigits) {  // the loss sees differences of logits only
  Tensor logits = Tensor::integers(DType::f32, {6, 500}, 3, -8, 8);
  const auto target = some_targets(6, 500, 4, 0);
  const CrossEntropyDescriptor d{.tokens = 6, .classes = 500, .reduction = Reduction::none, .label_smoothing = 0.3};
  const Outputs near = run_all(d, logits, target_tensor(target), {}, {});
  for (int64_t i = 0; i < logits.numel(); ++i) logits.set(i, logits.at(i) + 65536);
  const Outputs far = run_all(d, logits, target_tensor(target), {}, {});
  EXPECT_TRUE(near.loss.same_bits(far.loss));
  EXPECT_TRUE(near.dlogits.same_bits(far.dlogits));
}
TEST(CrossEntropy, NoTokens) {
  for (Reduction r : {Reduction::none, Reduction::mean, Reduction::sum}) {
    const Outputs o = run_all({.classes = 5, .reduction = r}, Tensor(DType::f32, {0, 5}), Tensor(DType::i64, {0}), {}, {});
    for (double v : o.loss.values()) EXPECT_EQ(v, 0);
    for (double v : o.z_part.values()) EXPECT_EQ(v, 0);
  }
}

TEST(CrossEntropy, case_ce_all_ignored) {
  for (Reduction r : {Reduction::none, Reduction::mean, Reduction::sum})
    for (double z : {0.0, 0.1}) {
      const Outputs o = run_all({.tokens = 5, .classes = 10, .reduction = r, .z_loss = z}, Tensor::normal(DType::f32, {5, 10}, 1),
                                target_tensor({-100, -100, -100, -100, -100}), {}, {});
      for (const Tensor* t : {&o.loss, &o.z_part, &o.lse, &o.dlogits, &o.backward})
        for (double v : t->values()) EXPECT_TRUE(v == 0 && !std::signbit(v));
    }
}
TEST(CrossEntropy, case_ce_ignored_row_garbage) {
  for (DType t : kAll) {
    const Tensor logits(t, {2, 3}, {1, 2, 3, -INFINITY, NAN, INFINITY});
    const Outputs o = run_all({.dtype = t, .tokens = 2, .classes = 3}, logits, target_tensor({2, -100}), {}, {});
    EXPECT_NEAR(o.loss.at(0), 0.4076060, 1e-7);
    const double want[] = {0.09003057, 0.24472847, -0.33475904, 0, 0, 0};
    for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(o.dlogits.at(i), want[i], 5e-9 + unit_roundoff(t) * std::fabs(want[i]) + 2 * unit_roundoff(accumulator(t)));
    EXPECT_TRUE(o.backward.at(3) == 0 && o.backward.at(4) == 0 && o.backward.at(5) == 0);
  }
}
// The count of kept targets stays on the device: a graph follows the targets that it finds.
TEST(CrossEntropy, case_capture_no_sync) {
  if (!on_cuda()) GTEST_SKIP() << "graphs of CUDA";
  for (DType t : kAll) {
    const CrossEntropyDescriptor d{.dtype = t, .tokens = 8, .classes = 3};
    const Tensor logits(t, {8, 3}, std::vector<double>(24, 1)), loss(accumulator(t), {1}), weights(accumulator(t), {8}, {1, 2, 3, 4, 5, 6, 7, 8});
    Tensor target = target_tensor({0, 1, 2, -100, 0, 1, -100, 2});
    auto plan = CrossEntropyPlan::select(test_stream(), d);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    GuardedWorkspace workspace(plan->workspace_size());
    ASSERT_OK(replay_after(*plan, test_stream(), workspace.get(), {.logits = logits, .target = target, .weights = weights, .loss = loss}, [&] {
      for (int64_t i = 0; i < 5; ++i) target.set(i, -100);
    }));
    EXPECT_NEAR(loss.at(0), std::log(3.0) * (6 + 8) / 2, 1e-5);  // two of eight are left
  }
}
TEST(CrossEntropy, case_ce_bf16_subtract) {
  const Values x = {20, 19.875, 0};
  const Outputs half = run_all({.dtype = DType::bf16, .tokens = 1, .classes = 3}, Tensor(DType::bf16, {1, 3}, x), target_tensor({1}), {}, {});
  const Outputs full = run_all({.dtype = DType::f32, .tokens = 1, .classes = 3}, Tensor(DType::f32, {1, 3}, x), target_tensor({1}), {}, {});
  EXPECT_NEAR(half.loss.at(0), 0.7575990, 1e-7);
  EXPECT_TRUE(half.loss.same_bits(full.loss));
}
TEST(CrossEntropy, case_flce_exactness_of_many_equal_logits) {
  const int64_t v = 65536;
  const Outputs o = run_all({.tokens = 2, .classes = v, .reduction = Reduction::sum}, Tensor(DType::f32, {2, v}, Values(size_t(2 * v), 3.5)),
                            target_tensor({0, v - 1}), {}, {});
  EXPECT_EQ(o.loss.at(0), double(float(2 * std::log(double(v)))));
  for (int64_t j = 1; j < v; ++j) ASSERT_EQ(o.dlogits.at(j), 1.0 / double(v));
  EXPECT_EQ(o.dlogits.at(0), 1.0 / double(v) - 1);
}
TEST(CrossEntropy, case_ce_target_out_of_range) {
  const Tensor logits(DType::f32, {2, 3}, {2.5, 0, 0, 0, 0, 2.5});
  for (int64_t bad : {1000L, 3L, -1L, -99L, INT64_MAX, INT64_MIN, 4294967296L}) {
    const Outputs none = run_all({.tokens = 2, .classes = 3, .reduction = Reduction::none}, logits, target_tensor({0, bad}), {}, {});
    EXPECT_NEAR(none.loss.at(0), 0.1520084, 1e-7);
    EXPECT_TRUE(std::isnan(none.loss.at(1)) && std::isnan(none.lse.at(1)));
    for (int64_t j = 3; j < 6; ++j) EXPECT_EQ(none.dlogits.at(j), 0);
    const Outputs mean = run_all({.tokens = 2, .classes = 3}, logits, target_tensor({0, bad}), {}, {});
    EXPECT_TRUE(std::isnan(mean.loss.at(0)));
    EXPECT_NEAR(mean.dlogits.at(0), (0.8589817 - 1) / 2, 1e-6);  // an invalid target counts
    const Outputs zero = run_all({.tokens = 2, .classes = 3, .invalid_target = InvalidTarget::zero}, logits, target_tensor({0, bad}), {}, {});
    EXPECT_NEAR(zero.loss.at(0), 0.1520084, 1e-7);
    EXPECT_NEAR(zero.dlogits.at(0), 0.8589817 - 1, 1e-6);
    for (int64_t j = 3; j < 6; ++j) EXPECT_EQ(zero.dlogits.at(j), 0);
  }
}
TEST(CrossEntropy, case_ce_smoothing_mass) {
  const Outputs o = run_all({.tokens = 1, .classes = 5, .label_smoothing = 0.1}, Tensor(DType::f32, {1, 5}, {2, 1, 0, -1, 0.5}), target_tensor({0}), {}, {});
  EXPECT_NEAR(o.loss.at(0), 0.7244379, 1.5e-7);
}
TEST(CrossEntropy, case_ce_smoothing_ignored) {
  const Tensor logits(DType::f32, {3, 3}, {1, 2, 3, 3, 1, 0, 0, 0, 0});
  for (bool mean : {true, false}) {
    const Outputs o = run_all({.tokens = 3, .classes = 3, .reduction = mean ? Reduction::mean : Reduction::sum, .label_smoothing = 0.2}, logits,
                              target_tensor({2, -100, 1}), {}, {});
    EXPECT_NEAR(o.loss.at(0), mean ? 0.8531091 : 1.7062183, 2e-7);
  }
}
TEST(CrossEntropy, case_ce_zloss) {
  const Outputs o = run_all({.tokens = 1, .classes = 3, .z_loss = 0.1}, Tensor(DType::f32, {1, 3}, {1, 2, 3}), target_tensor({2}), {}, {});
  EXPECT_NEAR(o.lse.at(0), 3.4076060, 3e-7);
  EXPECT_NEAR(o.loss.at(0), 1.5687838, 2e-7);
  EXPECT_NEAR(o.z_part.at(0), 1.5687838 - 0.4076060, 2e-7);
  EXPECT_CLOSE(o.dlogits, (Values{0.1513883, 0.4115161, 0.1186168}), {.ulps = 4, .condition = 1});
}
TEST(CrossEntropy, case_ce_inplace_logits) {
  CrossEntropyDescriptor d{.tokens = 4, .classes = 37, .softcap = 4, .grad_logits = true};
  Tensor logits = Tensor::normal(DType::f32, {4, 37}, 6);
  const Tensor target = target_tensor({1, 36, -100, 0});
  const Outputs want = run_all(d, logits, target, {}, {});  // leaves logits as they are
  Tensor loss(DType::f32, {1});
  expect_refused(run_plan<CrossEntropy>(d, {logits, target, {}, {}, loss, {}, {}, logits}), Code::invalid_problem, {"dlogits overlaps logits", "in_place"});
  expect_refused(run_plan<CrossEntropyBackward>(d, {logits, target, {}, {}, {}, logits}), Code::invalid_problem, {"dlogits overlaps logits", "in_place"});
  d.in_place = true;
  Tensor back(DType::f32, {4, 37}, logits.values());
  ASSERT_OK(run_plan<CrossEntropyBackward>(d, {back, target, {}, {}, {}, back}));
  EXPECT_TRUE(back.same_bits(want.dlogits));
  ASSERT_OK(run_plan<CrossEntropy>(d, {logits, target, {}, {}, loss, {}, {}, logits}));
  EXPECT_TRUE(logits.same_bits(want.dlogits) && loss.same_bits(want.loss));
}
TEST(CrossEntropy, case_ce_forward_only) {
  const Tensor logits(DType::f32, {4, 3}, {-.1118, .0162, .0956, -.1134, .0088, .1046, -.1737, .1315, .0422, -.0921, .0728, .0194});
  Tensor loss(DType::f32, {1});
  ASSERT_OK(run_plan<CrossEntropy>({.tokens = 4, .classes = 3}, {logits, target_tensor({0, 0, 0, 0}), {}, {}, loss, {}, {}, {}}));
  EXPECT_NEAR(loss.at(0), 1.2258567, 2e-7);
}
TEST(CrossEntropy, case_expanded_target) {
  const Tensor logits = Tensor::normal(DType::f32, {512, 19}, 1), few = Tensor::integers(DType::i64, {8}, 2, 0, 19);
  TensorView wide = few;
  wide.shape = {8, 64}, wide.strides = {1, 0};
  Tensor copy(DType::i64, {512}), loss(DType::f32, {8, 64}), grad(DType::f32, {512, 19}), loss2(DType::f32, {512}), grad2(DType::f32, {512, 19});
  for (int64_t i = 0; i < 512; ++i) copy.set(i, few.at(i / 64));
  const CrossEntropyDescriptor d{.tokens = 512, .classes = 19, .reduction = Reduction::none, .grad_logits = true};
  ASSERT_OK(run_plan<CrossEntropy>(d, {logits, wide, {}, {}, loss, {}, {}, grad}));
  ASSERT_OK(run_plan<CrossEntropy>(d, {logits, copy, {}, {}, loss2, {}, {}, grad2}));
  EXPECT_TRUE(loss.same_bits(loss2) && grad.same_bits(grad2));
}
// Rows whose offsets exceed 2^31 elements, without the memory between them: the pitch says it all.
TEST(CrossEntropy, case_ce_2g_logits) {
  const int64_t v = 64, pitch = (int64_t(1) << 31) + 5;
  void* memory = nullptr;
  auto reserved = allocate({}, uint64_t(pitch + v) * 4);
  if (!reserved.ok()) GTEST_SKIP() << "8 GiB of address space are not there: " << reserved.status().to_string();
  memory = *reserved;
  const Tensor logits = Tensor::normal(DType::f32, {2, v}, 1);
  float* p = static_cast<float*>(memory);
  for (int64_t j = 0; j < v; ++j) p[j] = float(logits.at(j)), p[pitch + j] = float(logits.at(v + j));
  TensorView view = TensorView::dense(p, {2, v});
  view.strides[0] = pitch;
  Tensor loss(DType::f32, {2}), want(DType::f32, {2}), grad(DType::f32, {2, v}), grad_want(DType::f32, {2, v});
  const CrossEntropyDescriptor d{.tokens = 2, .classes = v, .reduction = Reduction::none, .grad_logits = true};
  ASSERT_OK(run_plan<CrossEntropy>(d, {view, target_tensor({3, 5}), {}, {}, loss, {}, {}, grad}));
  ASSERT_OK(run_plan<CrossEntropy>(d, {logits, target_tensor({3, 5}), {}, {}, want, {}, {}, grad_want}));
  EXPECT_TRUE(loss.same_bits(want) && grad.same_bits(grad_want));
  deallocate({}, memory);
}
TEST(CrossEntropy, SpecialLogits) {
  const Tensor logits(DType::f32, {5, 3}, {-INFINITY, 1, 2,  -INFINITY, -INFINITY, -INFINITY,  INFINITY, 0, 0,  NAN, 0, 0,  -INFINITY, 1, 2});
  const Outputs o = run_all({.tokens = 5, .classes = 3, .reduction = Reduction::none}, logits, target_tensor({2, 0, 1, 1, 0}), {}, {});
  EXPECT_NEAR(o.loss.at(0), std::log1p(std::exp(-1.0)), 1e-7);
  EXPECT_EQ(o.dlogits.at(0), 0);
  for (int64_t i : {1, 2, 3}) {
    EXPECT_TRUE(std::isnan(o.loss.at(i)));
    for (int64_t j = 0; j < 3; ++j) EXPECT_TRUE(std::isnan(o.dlogits.at(3 * i + j))) << i << " " << j;
  }
  EXPECT_EQ(o.loss.at(4), INFINITY);
  EXPECT_EQ(o.dlogits.at(12), -1);
  const Outputs smooth = run_all({.tokens = 1, .classes = 3, .label_smoothing = 0.1}, Tensor(DType::f32, {1, 3}, {-INFINITY, 1, 2}), target_tensor({2}), {}, {});
  EXPECT_EQ(smooth.loss.at(0), INFINITY);
}

// Classes without a probability at either end of a long row, as a mask leaves them: sums are taken piece by piece, and pieces that are all -inf add nothing.
TEST(CrossEntropy, LongRunsOfMinusInfinity) {
  constexpr int64_t kClasses = 15000;
  for (auto [first, count] : {std::pair<int64_t, int64_t>{4200, 5000}, {4096, 4096}}) {
    const Tensor seen = Tensor::normal(DType::f32, {1, count}, 3);
    Tensor logits(DType::f32, {2, kClasses});
    double sum = 0;
    for (int64_t j = 0; j < 2 * kClasses; ++j) logits.set(j, -INFINITY);  // all of the second row
    for (int64_t j = 0; j < count; ++j) logits.set(first + j, seen.at(j)), sum += std::exp(seen.at(j));
    const Tensor target = target_tensor({first + 7, 3});
    CrossEntropyDescriptor d{.tokens = 2, .classes = kClasses, .reduction = Reduction::none};
    const Outputs o = run_all(d, logits, target, {}, {});
    EXPECT_NEAR(o.lse.at(0), std::log(sum), 1e-5);
    EXPECT_NEAR(o.loss.at(0), std::log(sum) - seen.at(7), 1e-5);
    for (int64_t j : {int64_t(0), first - 1, first + count, kClasses - 1}) EXPECT_EQ(o.dlogits.at(j), 0) << j;
    EXPECT_NEAR(o.dlogits.at(first), std::exp(seen.at(0)) / sum, 1e-7);
    EXPECT_TRUE(std::isnan(o.loss.at(1)) && std::isnan(o.lse.at(1)) && std::isnan(o.dlogits.at(kClasses)));
    d.label_smoothing = 0.1;
    EXPECT_EQ(run_all(d, logits, target, {}, {}).loss.at(0), INFINITY);
  }
}

// d/dx of the f64 loss along random directions.
TEST(CrossEntropy, GradientInDouble) {
  for (int option = 0; option < 8; ++option) {
    CrossEntropyDescriptor d{.dtype = DType::f64, .tokens = 6, .classes = 70, .reduction = Reduction(option % 3), .grad_logits = true};
    d.label_smoothing = option & 1 ? 0.2 : 0, d.z_loss = option & 2 ? 0.05 : 0, d.softcap = option & 4 ? 2.5 : 0;
    Tensor logits = Tensor::normal(DType::f64, {6, 70}, 5, 0, 2);
    const Tensor target = target_tensor(some_targets(6, 70, 8, 4)), weights = Tensor::uniform(DType::f64, {6}, 3, 0.5, 2);
    const Tensor dloss = Tensor::normal(DType::f64, loss_shape(d), 9);
    Tensor loss(DType::f64, loss_shape(d)), dlogits(DType::f64, {6, 70}), unused(DType::f64, {6, 70});
    ASSERT_OK(run_plan<CrossEntropy>(d, {logits, target, weights, dloss, loss, {}, {}, dlogits}));
    check_directional([&] {
      EXPECT_OK(run_plan<CrossEntropy>(d, {logits, target, weights, {}, loss, {}, {}, unused}));
      double s = 0;
      for (int64_t i = 0; i < loss.numel(); ++i) s += dloss.at(i) * loss.at(i);
      return s;
    }, logits, dlogits, 21);
  }
}
TEST(CrossEntropy, case_softcap_formula_by_dual_numbers) {
  EXPECT_NEAR(loss::cap(Dual(3), Dual(2)).v, 1.8102965, 1e-7);
  for (double x : {3.0, -0.7, 0.0, 11.0, -4.2}) {
    const Dual y = loss::cap(Dual(x, 1), Dual(2));
    EXPECT_NEAR(loss::cap_slope(Dual(y.v), Dual(2)).v, y.d, 1e-13);
  }
  EXPECT_NEAR(loss::cap_slope(Dual(1.8102965), Dual(2)).v, 0.1807066, 1e-7);
}
TEST(CrossEntropy, BackwardScales) {
  const CrossEntropyDescriptor d{.tokens = 3, .classes = 40};
  const Tensor logits = Tensor::normal(DType::f32, {3, 40}, 1), target = target_tensor({4, 5, 6}), two(DType::f32, {1}, {2});
  Tensor plain(DType::f32, {3, 40}), scaled(DType::f32, {3, 40});
  ASSERT_OK(run_plan<CrossEntropyBackward>(d, {logits, target, {}, {}, {}, plain}));
  ASSERT_OK(run_plan<CrossEntropyBackward>(d, {logits, target, {}, {}, two, scaled, -4.0}));
  for (int64_t i = 0; i < plain.numel(); ++i) EXPECT_EQ(scaled.at(i), -8 * plain.at(i));
}
TEST(CrossEntropy, RowsDoNotSeeEachOther) {
  const Tensor all = Tensor::normal(DType::bf16, {9, 5000}, 1);
  const auto target = some_targets(9, 5000, 2, 0);
  const CrossEntropyDescriptor d{.dtype = DType::bf16, .tokens = 9, .classes = 5000, .reduction = Reduction::none};
  EXPECT_TRUE(CrossEntropyPlan::select(Stream::cpu(), d, {.require_batch_invariant = true}).ok());
  CrossEntropyDescriptor mean = d;
  mean.reduction = Reduction::mean;
  expect_refused(CrossEntropyPlan::select(Stream::cpu(), mean, {.require_batch_invariant = true}).status(), Code::unsupported, {"batch invariant"});
  const Outputs many = run_all(d, all, target_tensor(target), {}, {});
  CrossEntropyDescriptor one = d;
  one.tokens = 1;
  for (int64_t i = 0; i < 9; ++i) {
    Tensor row(DType::bf16, {1, 5000});
    for (int64_t j = 0; j < 5000; ++j) row.set(j, all.at(i * 5000 + j));
    const Outputs alone = run_all(one, row, target_tensor({target[size_t(i)]}), {}, {});
    EXPECT_EQ(alone.loss.at(0), many.loss.at(i));
    for (int64_t j = 0; j < 5000; ++j) ASSERT_EQ(alone.dlogits.at(j), many.dlogits.at(i * 5000 + j));
  }
}
TEST(CrossEntropy, ContractAndBits) {
  for (DType t : kAll) {
    const DType acc = accumulator(t);
    const CrossEntropyDescriptor d{.dtype = t, .tokens = 33, .classes = 1500, .label_smoothing = 0.1, .z_loss = 0.01, .grad_logits = true};
    const Tensor logits = Tensor::normal(t, {33, 1500}, 1), target = target_tensor(some_targets(33, 1500, 2, 5));
    const Tensor weights = Tensor::uniform(acc, {33}, 3, 0, 2), dloss(acc, {1}, {0.5});
    Tensor loss(acc, {1}), z(acc, {1}), lse(acc, {33}), dlogits(t, {33, 1500});
    check_repeat_bits<CrossEntropy>(d, {logits, target, weights, dloss, loss, z, lse, dlogits});
    check_repeat_bits<CrossEntropyBackward>(d, {logits, target, weights, lse, dloss, dlogits});
    CrossEntropyDescriptor capped = d;
    capped.softcap = 5;
    check_repeat_bits<CrossEntropy>(capped, {logits, target, weights, dloss, loss, z, lse, dlogits}, {}, 1);
    check_repeat_bits<CrossEntropyBackward>(capped, {logits, target, weights, lse, dloss, dlogits}, {}, 1);
    if (t == DType::bf16) {
      check_contract<CrossEntropy>(d, {logits, target, weights, dloss, loss, z, lse, dlogits});
      check_contract<CrossEntropyBackward>(d, {logits, target, weights, lse, dloss, dlogits});
      check_contract<CrossEntropyBackward>(capped, {logits, target, weights, lse, dloss, dlogits});
    }
  }
}
TEST(CrossEntropy, SameBitsOnEveryInstructionSet) {
  const CrossEntropyDescriptor d{.tokens = 3, .classes = 5003, .label_smoothing = 0.1, .z_loss = 0.01, .softcap = 4};
  const Tensor logits = Tensor::normal(DType::f32, {3, 5003}, 1), target = target_tensor({1, 5002, 7});
  const Isa best = isa();
  limit_isa(Isa::portable);
  const Outputs want = run_all(d, logits, target, {}, {});
  for (Isa set : {Isa::avx2, Isa::avx512}) {
    limit_isa(set);
    const Outputs o = run_all(d, logits, target, {}, {});
    EXPECT_TRUE(o.loss.same_bits(want.loss) && o.lse.same_bits(want.lse) && o.dlogits.same_bits(want.dlogits)) << name(set);
  }
  limit_isa(best);
}
TEST(CrossEntropy, RefusesDescriptorsAndArguments) {
  const auto refused = [](const CrossEntropyDescriptor& d, Code code, std::initializer_list<std::string_view> fragments) {
    expect_refused(CrossEntropyPlan::select(Stream::cpu(), d).status(), code, fragments);
    expect_refused(CrossEntropyBackwardPlan::select(Stream::cpu(), d).status(), code, fragments);
  };
  refused({.tokens = -1, .classes = 3}, Code::invalid_problem, {"tokens is -1"});
  refused({.tokens = 1, .classes = 0}, Code::invalid_problem, {"classes is 0"});
  refused({.tokens = INT64_MAX, .classes = 3}, Code::invalid_problem, {"exceeds"});
  refused({.tokens = 1, .classes = 3, .target_dtype = DType::f32}, Code::invalid_problem, {"target_dtype is f32", "i64 or i32"});
  refused({.tokens = 1, .classes = 3, .reduction = Reduction(3)}, Code::invalid_problem, {"reduction 3"});
  refused({.tokens = 1, .classes = 3, .label_smoothing = 1.5}, Code::invalid_problem, {"label_smoothing is 1.5", "[0, 1]"});
  refused({.tokens = 1, .classes = 3, .label_smoothing = NAN}, Code::invalid_problem, {"label_smoothing"});
  refused({.tokens = 1, .classes = 3, .z_loss = -1}, Code::invalid_problem, {"z_loss is -1"});
  refused({.tokens = 1, .classes = 3, .softcap = INFINITY}, Code::invalid_problem, {"softcap is inf"});
  refused({.tokens = 1, .classes = 3, .invalid_target = InvalidTarget(7)}, Code::invalid_problem, {"invalid_target 7"});
  refused({.tokens = 1, .classes = 3, .mean_over = MeanOver(2)}, Code::invalid_problem, {"mean_over 2"});
  refused({.dtype = DType::i32, .tokens = 1, .classes = 3}, Code::unsupported, {"no i32", "f16 bf16 f32 f64"});

  const CrossEntropyDescriptor d{.tokens = 4, .classes = 6, .grad_logits = true};
  const Tensor logits = Tensor::normal(DType::f32, {4, 6}, 1), target = target_tensor({0, 1, 2, 3}), strided(DType::f32, {4, 6}, Layout::every_other);
  Tensor loss(DType::f32, {1}), dlogits(DType::f32, {4, 6});
  expect_refused(run_plan<CrossEntropy>(d, {logits, target, {}, {}, loss, {}, {}, {}}), Code::invalid_problem, {"dlogits is missing"});
  expect_refused(run_plan<CrossEntropy>(d, {strided, target, {}, {}, loss, {}, {}, dlogits}), Code::invalid_problem, {"logits has stride 2", "dense"});
  CrossEntropyDescriptor no_grad = d;
  no_grad.grad_logits = false;
  expect_refused(run_plan<CrossEntropy>(no_grad, {logits, target, {}, {}, loss, {}, {}, dlogits}), Code::invalid_problem, {"dlogits is given"});
  // Two windows of one wide matrix are fine beside each other, not across each other.
  const Tensor wide = Tensor::normal(DType::f32, {4, 12}, 1);
  TensorView left = wide, right = wide;
  left.shape[1] = right.shape[1] = 6;
  right.data = left.as<float>() + 6;
  EXPECT_OK(run_plan<CrossEntropy>(d, {left, target, {}, {}, loss, {}, {}, right}));
  right.data = left.as<float>() + 5;
  expect_refused(run_plan<CrossEntropy>(d, {left, target, {}, {}, loss, {}, {}, right}), Code::invalid_problem, {"dlogits overlaps logits"});
}

}  // namespace
}  // namespace baracuda
