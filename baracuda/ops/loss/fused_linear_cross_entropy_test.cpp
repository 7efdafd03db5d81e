// Values: every dtype, option and shape against the double oracle, gradients by differences, the numbers of known cases.
#include <cstring>
#include "baracuda/ops/loss/fused_loss_oracle.hpp"

namespace baracuda {
namespace {

using namespace testing;
using Values = std::vector<double>;

void check_case(const FusedCase& c, Layout layout = Layout::dense) {
  SCOPED_TRACE(describe(c.d));
  FusedOutputs o = fused_outputs(c.d, layout);
  const Values dw = c.d.accumulate && c.d.grad_w ? o.dw.values() : Values(), dbias = c.d.accumulate && c.d.grad_bias ? o.dbias.values() : Values();
  ASSERT_OK(run_fused(c, o));
  expect_fused(c, o, fused_oracle(c), dw, dbias);
  PlanPreference same{};
  if (rounds_logits(c.d))
    for (const PlanPreference& other : {kKept, kFused, kEveryRow, kExactLogits}) {
      if (!FusedLinearCrossEntropyPlan::select(test_stream(), c.d, other).ok()) continue;  // kept, fused: on sm_90, and do not add to a bf16 dw
      same = other;
      for (size_t i = 0; i < dw.size(); ++i) o.dw.set(int64_t(i), dw[i]);
      for (size_t i = 0; i < dbias.size(); ++i) o.dbias.set(int64_t(i), dbias[i]);
      ASSERT_OK(run_fused(c, o, same));
      expect_fused(c, o, fused_oracle(c, DType::f64, DType::f64, other != kExactLogits), dw, dbias);
    }
  FusedDescriptor eval = c.d;  // the loss alone is the same
  eval.grad_x = eval.grad_w = eval.grad_bias = eval.accumulate = false;
  FusedCase e = c;
  e.d = eval;
  const FusedOutputs only = fused_outputs(eval);
  ASSERT_OK(run_fused(e, only, same));
  EXPECT_TRUE(only.loss.same_bits(o.loss) && only.z_part.same_bits(o.z_part));
}

TEST(FusedLinearCrossEntropy, ValuesForEveryDtypeAndOption) {
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (int option = 0; option < 16; ++option) {
      FusedDescriptor d{.dtype = t, .tokens = 45, .hidden = 24, .classes = 131};
      d.reduction = Reduction(option % 3);
      d.label_smoothing = option & 1 ? 0.1 : 0, d.z_loss = option & 2 ? 0.01 : 0, d.softcap = option & 4 ? 4 : 0;
      d.bias = d.grad_bias = option & 8;
      d.grad_x = option != 5, d.grad_w = option != 6;
      d.accumulate = option % 5 == 4;
      d.target_dtype = option & 4 ? DType::i32 : DType::i64;
      d.chunk = option % 4 == 0 ? 0 : option % 4 == 1 ? 16 : option % 4 == 2 ? 7 : 64;
      if (option >= 10 && t != DType::f64) d.dw_dtype = DType::f32;
      if (option >= 13 && (t == DType::f16 || t == DType::bf16)) d.w_dtype = DType::f32;
      d.mean_over = option == 10 ? MeanOver::weights : MeanOver::tokens;
      check_case(fused_case(d, uint64_t(option) * 10 + 1, option % 2 ? 4 : 0, option >= 7, option >= 5));
      if (d.chunk == 0 || !rounds_logits(d)) continue;
      d.chunk = 0;  // in slices too
      check_case(fused_case(d, uint64_t(option) * 10 + 1, option % 2 ? 4 : 0, option >= 7, option >= 5));
    }
}
TEST(FusedLinearCrossEntropy, Shapes) {
  const struct { int64_t t, h, v, chunk; } shapes[] = {{1, 1, 1, 0},  {1, 64, 2, 0},  {2, 3, 257, 0},  {3, 1, 5, 1},    {17, 33, 65, 4},
                                                        {64, 8, 16, 64}, {65, 16, 48, 32}, {130, 5, 31, 128}, {300, 7, 12, 0}, {33, 48, 1000, 16}, {5, 8, 777, 0}};
  for (const auto& s : shapes)
    for (DType t : {DType::f32, DType::bf16})
      for (int ignore : {0, 2}) {
        FusedDescriptor d{.dtype = t, .tokens = s.t, .hidden = s.h, .classes = s.v, .bias = true, .grad_x = true, .grad_w = true, .grad_bias = true};
        d.chunk = s.chunk;
        check_case(fused_case(d, uint64_t(s.t + s.v), ignore));
      }
}
TEST(FusedLinearCrossEntropy, Pitches) {
  for (Layout layout : {Layout::padded, Layout::outer_reversed})
    for (int64_t hidden : {19, 24})  // 24: rows of whole words of 16 bytes
      for (DType t : {DType::f16, DType::bf16, DType::f32}) {
        FusedDescriptor d{.dtype = t, .tokens = 37, .hidden = hidden, .classes = 70, .grad_x = true, .grad_w = true, .chunk = 16};
        for (int ignore : {0, 3}) check_case(fused_case(d, 5, ignore, false, false, layout), layout);
      }
}
// f16 widens w in blocks of 2^20 elements: more than one, and a last shorter one.
TEST(FusedLinearCrossEntropy, ManyBlocksOfWidenedWeights) {
  FusedDescriptor d{.dtype = DType::f16, .tokens = 3, .hidden = 8192, .classes = 300, .grad_x = true, .grad_w = true};
  check_case(fused_case(d, 3, 0));
}
TEST(FusedLinearCrossEntropy, ManyTokensAndWideRows) {
  for (DType t : {DType::bf16, DType::f32})
    for (auto [tokens, hidden, classes] : {std::tuple{65537, 2, 5}, {9, 16384, 40}})
      check_case(fused_case({.dtype = t, .tokens = tokens, .hidden = hidden, .classes = classes, .grad_x = true, .grad_w = true}, 9, 7));
}
TEST(FusedLinearCrossEntropy, InvalidTargets) {
  for (InvalidTarget mode : {InvalidTarget::nan, InvalidTarget::zero})
    for (Reduction r : {Reduction::none, Reduction::mean, Reduction::sum}) {
      FusedDescriptor d{.tokens = 20, .hidden = 6, .classes = 9, .reduction = r, .invalid_target = mode, .grad_x = true, .grad_w = true, .chunk = 8};
      FusedCase c = fused_case(d, 8, 5);
      c.target[3] = 9, c.target[11] = -1, c.target[19] = INT64_MIN;
      check_case(c);
    }
}

TEST(FusedLinearCrossEntropy, case_flce_reduction_none) {
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const DType acc = accumulator(t);
    FusedDescriptor d{.dtype = t, .tokens = 3, .hidden = 3, .classes = 3, .reduction = Reduction::none, .grad_x = true, .grad_w = true};
    FusedCase c{d, Tensor(t, {3, 3}, {1, 2, 3, 1, 0, -1, 5, 5, 5}), Tensor(t, {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}), {}, {},
                Tensor(acc, {3}, {2, 0, 1}), {2, 0, -100}};
    const FusedOutputs o = fused_outputs(d);
    ASSERT_OK(run_fused(c, o));
    const double loss[] = {0.4076060, 0.4076060, 0}, row[] = {0.1800611, 0.4894569, -0.6695181};
    const double u = t == DType::f64 ? 0 : unit_roundoff(t);
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(o.loss.at(i), loss[i], 1e-7);
    for (int j = 0; j < 3; ++j) {
      EXPECT_NEAR(o.dx.at(j), row[j], 1e-7 + 2 * u);
      EXPECT_EQ(o.dx.at(3 + j), 0);
      EXPECT_EQ(o.dx.at(6 + j), 0);
      for (int k = 0; k < 3; ++k) EXPECT_NEAR(o.dw.at(3 * j + k), row[j] * (k + 1), 3e-7 + 6 * u);
    }
  }
}
// 1024 chunks that each add 2^-7 to an element.
TEST(FusedLinearCrossEntropy, case_flce_gradw_bf16_chunks) {
  FusedDescriptor d{.dtype = DType::bf16, .tokens = 1024, .hidden = 1, .classes = 2, .reduction = Reduction::sum, .grad_w = true, .chunk = 1};
  FusedCase c{d, Tensor(DType::bf16, {1024, 1}, Values(1024, 0x1p-6)), Tensor(DType::bf16, {2, 1}, {0, 0}), {}, {}, {}, std::vector<int64_t>(1024, 1)};
  FusedOutputs o = fused_outputs(d);
  ASSERT_OK(run_fused(c, o));
  EXPECT_EQ(o.dw.at(0), 8);
  EXPECT_EQ(o.dw.at(1), -8);
  for (int64_t chunk : {0, 3, 64, 1024}) {
    c.d.chunk = chunk;
    ASSERT_OK(run_fused(c, o));
    EXPECT_EQ(o.dw.at(0), 8) << chunk;
  }
}
TEST(FusedLinearCrossEntropy, case_flce_exactness) {
  const int64_t v = 65536;
  for (DType t : {DType::f32, DType::bf16, DType::f16}) {
    FusedDescriptor d{.dtype = t, .tokens = 4, .hidden = 2, .classes = v, .reduction = Reduction::sum, .bias = true, .grad_x = true, .grad_w = true,
                      .grad_bias = true};
    d.dw_dtype = DType::f32;
    FusedCase c{d, Tensor(t, {4, 2}, Values(8, 1)), Tensor(t, {v, 2}, Values(size_t(2 * v), 0)), Tensor(t, {v}, Values(size_t(v), 0)), {}, {}, {0, 0, 0, 0}};
    const FusedOutputs o = fused_outputs(d);
    ASSERT_OK(run_fused(c, o));
    for (int64_t j = 1; j < v; ++j) {
      ASSERT_EQ(o.dw.at(2 * j), 4.0 / double(v)) << j;
      ASSERT_EQ(o.dbias.at(j), 4.0 / double(v)) << j;
    }
    EXPECT_NEAR(o.dbias.at(0), 4.0 / double(v) - 4, t == DType::bf16 ? 0.01 : 5e-7);
  }
}
TEST(FusedLinearCrossEntropy, case_flce_bias) {
  FusedDescriptor d{.tokens = 1, .hidden = 1, .classes = 3, .bias = true, .grad_bias = true};
  FusedCase c{d, Tensor(DType::f32, {1, 1}, {1}), Tensor(DType::f32, {3, 1}, {1, 0, -1}), Tensor(DType::f32, {3}, {0.5, 0, 0}), {}, {}, {0}};
  const FusedOutputs o = fused_outputs(d);
  ASSERT_OK(run_fused(c, o));
  EXPECT_NEAR(o.loss.at(0), 0.2663679, 1e-7);
  double sum = 0, e[3] = {std::exp(1.5), 1, std::exp(-1.0)};
  for (double v : e) sum += v;
  for (int j = 0; j < 3; ++j) EXPECT_NEAR(o.dbias.at(j), e[j] / sum - (j == 0), 1e-7);
}
TEST(FusedLinearCrossEntropy, case_flce_mixed_dtype) {
  for (DType t : {DType::bf16, DType::f16}) {
    FusedDescriptor d{.dtype = t, .tokens = 4, .hidden = 8, .classes = 5, .grad_x = true, .grad_w = true};
    d.w_dtype = DType::f32;
    EXPECT_EQ(d.weight_gradient(), DType::f32);
    check_case(fused_case(d, 1, 0));
  }
  for (auto [x, w] : {std::pair{DType::f32, DType::bf16}, {DType::f16, DType::bf16}, {DType::f64, DType::f32}, {DType::f32, DType::f64}}) {
    FusedDescriptor d{.dtype = x, .tokens = 4, .hidden = 8, .classes = 5};
    d.w_dtype = w;
    expect_refused(FusedLinearCrossEntropyPlan::select(Stream::cpu(), d).status(), Code::unsupported, {text("no ", x, " x with ", w, " w")});
  }
  FusedDescriptor d{.tokens = 4, .hidden = 8, .classes = 5, .grad_w = true};
  d.dw_dtype = DType::bf16;
  expect_refused(FusedLinearCrossEntropyPlan::select(Stream::cpu(), d).status(), Code::unsupported, {"no bf16 dw with f32 w"});
}
TEST(FusedLinearCrossEntropy, case_ce_all_ignored_fused) {
  for (int64_t tokens : {0, 5})
    for (Reduction r : {Reduction::none, Reduction::mean, Reduction::sum})
      for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64})
        for (bool accumulate : {false, true}) {
          FusedDescriptor d{.dtype = t, .tokens = tokens, .hidden = 4, .classes = 10, .reduction = r, .z_loss = 0.1, .bias = true, .grad_x = true,
                            .grad_w = true, .grad_bias = true, .accumulate = accumulate};
          FusedCase c = fused_case(d, 3, 1);
          for (int64_t i = 0; i < c.x.numel(); ++i) c.x.set(i, NAN);
          const FusedOutputs o = fused_outputs(d);
          const Values dw = o.dw.values(), dbias = o.dbias.values();
          ASSERT_OK(run_fused(c, o));
          for (const Tensor* out : {&o.loss, &o.z_part, &o.dx, &o.dw, &o.dbias}) {
            if (accumulate && (out == &o.dw || out == &o.dbias)) continue;
            for (double e : out->values()) EXPECT_TRUE(e == 0 && !std::signbit(e)) << describe(d);
          }
          if (accumulate) EXPECT_TRUE(o.dw.values() == dw && o.dbias.values() == dbias);
        }
}
// NaN and infinity in ignored rows of x reach nothing, wherever they lie in a chunk.
TEST(FusedLinearCrossEntropy, case_ce_ignored_row_garbage_fused) {
  for (DType t : {DType::f16, DType::bf16, DType::f32}) {
    FusedDescriptor d{.dtype = t, .tokens = 61, .hidden = 16, .classes = 40, .label_smoothing = 0.1, .bias = true, .grad_x = true, .grad_w = true,
                      .grad_bias = true, .chunk = 16};
    FusedCase c = fused_case(d, 7, 3);
    FusedCase clean = c;
    clean.x = Tensor(t, {61, 16}, c.x.values());
    c.x = Tensor(t, {61, 16}, c.x.values());
    for (int64_t i = 0; i < 61; ++i)
      if (c.target[size_t(i)] == -100)
        for (int64_t k = 0; k < 16; ++k) c.x.set(i * 16 + k, k % 3 == 0 ? NAN : k % 3 == 1 ? INFINITY : -INFINITY);
    for (const PlanPreference& row : {PlanPreference{}, kKept, kFused}) {
      if (row == kFused) d.chunk = c.d.chunk = clean.d.chunk = 0;
      if (!FusedLinearCrossEntropyPlan::select(test_stream(), d, row).ok()) continue;
      const FusedOutputs o = fused_outputs(d), want = fused_outputs(d);
      ASSERT_OK(run_fused(c, o, row));
      ASSERT_OK(run_fused(clean, want, row));
      EXPECT_TRUE(o.loss.same_bits(want.loss) && o.dx.same_bits(want.dx) && o.dw.same_bits(want.dw) && o.dbias.same_bits(want.dbias));
      expect_fused(clean, want, fused_oracle(clean));
    }
  }
}
TEST(FusedLinearCrossEntropy, MostlyIgnored) {
  for (DType t : {DType::f32, DType::bf16})
    for (int keep : {0, 1, 2, 15, 16, 17, 40, 64, 65, 100, 128, 129, 199}) {
      FusedDescriptor d{.dtype = t, .tokens = 200, .hidden = 16, .classes = 50, .bias = true, .grad_x = keep % 4 != 1, .grad_w = true, .grad_bias = true,
                        .accumulate = keep % 8 == 0, .chunk = keep % 2 ? 128 : 64};
      if (keep % 3 == 0) d.dw_dtype = DType::f32;
      FusedCase c = fused_case(d, 4, 0);
      for (int64_t i = 0; i < 200; ++i)
        if ((i * 7) % 200 >= keep) c.target[size_t(i)] = -100;
      check_case(c);
      c.d.chunk = 0;  // in slices too
      check_case(c);
    }
}

// d/dx, d/dw, d/dbias of the f64 loss along random directions, over several chunks.
TEST(FusedLinearCrossEntropy, GradientsInDouble) {
  for (int option = 0; option < 8; ++option) {
    FusedDescriptor d{.dtype = DType::f64, .tokens = 21, .hidden = 10, .classes = 33, .reduction = Reduction(option % 3), .bias = true,
                      .grad_x = true, .grad_w = true, .grad_bias = true, .chunk = 8};
    d.label_smoothing = option & 1 ? 0.2 : 0, d.z_loss = option & 2 ? 0.05 : 0, d.softcap = option & 4 ? 2.5 : 0;
    FusedCase c = fused_case(d, uint64_t(option), 4, true, true);
    const FusedOutputs o = fused_outputs(d), scratch = fused_outputs(d);
    ASSERT_OK(run_fused(c, o));
    auto loss = [&] {
      EXPECT_OK(run_fused(c, scratch));
      double s = 0;
      for (int64_t i = 0; i < scratch.loss.numel(); ++i) s += c.dloss.at(i) * scratch.loss.at(i);
      return s;
    };
    check_directional(loss, c.x, o.dx, 31);
    check_directional(loss, c.w, o.dw, 32);
    check_directional(loss, c.bias, o.dbias, 33);
  }
}

double rms(const Tensor& got, const Values& want) {
  double s = 0;
  for (int64_t i = 0; i < got.numel(); ++i) s += (got.at(i) - want[size_t(i)]) * (got.at(i) - want[size_t(i)]);
  return std::sqrt(s / double(std::max<int64_t>(1, got.numel())));
}
// The error against f64 does not grow with the number of chunks. Our products: a library's kernel for another chunk may be another.
TEST(FusedLinearCrossEntropy, ChunksDoNotCostAccuracy) {
  FusedDescriptor d{.tokens = 256, .hidden = 32, .classes = 500, .bias = true, .grad_x = true, .grad_w = true, .grad_bias = true};
  FusedCase c = fused_case(d, 2, 0);
  const FusedWant want = fused_oracle(c);
  double loss = 0, dx = 0, dw = 0, dbias = 0;
  for (int64_t chunks : {1, 2, 4, 8, 16, 32, 64}) {
    c.d.chunk = 256 / chunks;
    const FusedOutputs o = fused_outputs(c.d);
    ASSERT_OK(run_fused(c, o, {.prefer_backend = Backend::baracuda}));
    expect_fused(c, o, want);
    const double e[] = {rms(o.loss, want.loss.loss), rms(o.dx, want.dx), rms(o.dw, want.dw), rms(o.dbias, want.dbias)};
    if (chunks == 1) { loss = e[0], dx = e[1], dw = e[2], dbias = e[3]; continue; }
    EXPECT_LE(e[0], loss + unit_roundoff(DType::f32) * want.loss.loss[0]) << chunks;
    EXPECT_LE(e[1], dx * 1.1) << chunks;
    EXPECT_LE(e[2], dw * 1.1) << chunks;
    EXPECT_LE(e[3], dbias * 1.1) << chunks;
  }
}
// bf16 against the unfused computation that rounds logits and their gradient to bf16 once each and is exact otherwise. Where our
// logits are rounded too, only what is behind them can differ: a tenth.
TEST(FusedLinearCrossEntropy, HalvesAreAtLeastAsGoodAsUnfused) {
  for (DType t : {DType::bf16, DType::f16}) {
    FusedDescriptor d{.dtype = t, .tokens = 128, .hidden = 48, .classes = 400, .grad_x = true, .grad_w = true, .chunk = 32};
    const FusedCase c = fused_case(d, 2, 0);
    const FusedWant exact = fused_oracle(c, DType::f64, DType::f64, false), unfused = fused_oracle(c, t, t, false);
    const auto check = [&](const PlanPreference& preference, const FusedWant& want, double most) {
      const FusedOutputs o = fused_outputs(d);
      FusedCase same = c;
      same.d = d;
      ASSERT_OK(run_fused(same, o, preference));
      expect_fused(same, o, want);
      auto error = [&](const Values& v, const Values& w) {
        double s = 0;
        for (size_t i = 0; i < v.size(); ++i) s += (rounded(t, v[i]) - w[i]) * (rounded(t, v[i]) - w[i]);
        return std::sqrt(s / double(v.size()));
      };
      EXPECT_LE(std::fabs(o.loss.at(0) - want.loss.loss[0]), most * std::fabs(unfused.loss.loss[0] - want.loss.loss[0]));
      EXPECT_LE(rms(o.dx, want.dx), most * error(unfused.dx, want.dx)) << name(t);
      EXPECT_LE(rms(o.dw, want.dw), most * error(unfused.dw, want.dw)) << name(t);
    };
    if (!rounds_logits(d)) {
      check({}, exact, 1);
      continue;
    }
    check(kExactLogits, exact, 1);
    check({}, fused_oracle(c), 1.1);
    d.chunk = 0;
    if (FusedLinearCrossEntropyPlan::select(test_stream(), d, kFused).ok()) check(kFused, fused_oracle(c), 1);
  }
}

}  // namespace
}  // namespace baracuda
