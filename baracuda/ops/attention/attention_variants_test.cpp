// Windows, softcap, ALiBi, bias, sequences of different lengths, decoding, refusals.
#include "baracuda/ops/attention/attention_oracle.hpp"

namespace baracuda {
namespace {

using namespace testing;

TEST(AttentionWindow, case_window_inclusive) {
  for (DType t : kDTypesHere) {
    Sdpa c({.dtype = t, .q_len = 6, .k_len = 6, .head_dim = 4, .window_left = 2, .window_right = 0});
    for (int64_t i = 0; i < 24; ++i) c.q.set(i, 0), c.v.set(i, double(i / 4 + 1));
    ASSERT_OK(c.forward());
    const double want[] = {1, 1.5, 2, 3, 4, 5};
    for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(c.y.at(i), want[i / 4]);
    check_sdpa(c);
  }
}
TEST(AttentionWindow, Values) {
  for (DType t : {DType::f32, DType::bf16})
    for (auto [left, right] : {std::pair<int64_t, int64_t>{0, 0}, {5, 0}, {40, 3}, {-1, 20}, {130, -1}, {INT64_MAX, 0}, {3, INT64_MAX}})
      for (auto [sq, sk] : {std::pair<int64_t, int64_t>{150, 150}, {40, 300}, {200, 90}}) {
        SdpaDescriptor d{.dtype = t, .heads = 2, .kv_heads = 1, .q_len = sq, .k_len = sk, .head_dim = 8, .window_left = left, .window_right = right};
        check_sdpa(Sdpa(d, 41));
        d.align = CausalAlign::top_left, d.causal = true;
        check_sdpa(Sdpa(d, 42));
      }
}
TEST(AttentionWindow, case_window_equals_causal) {  // the same mask gives the same bits
  for (DType t : {DType::f16, DType::bf16, DType::f32}) {
    SdpaDescriptor d{.dtype = t, .q_len = 1000, .k_len = 1000, .head_dim = 32, .causal = true};
    Sdpa want(d, 2);
    ASSERT_OK(want.forward());
    ASSERT_OK(want.backward());
    for (int64_t left : {999, -1, 5000}) {
      d.causal = false, d.window_left = left, d.window_right = 0;
      Sdpa c(d, 2);
      ASSERT_OK(c.forward());
      ASSERT_OK(c.backward());
      EXPECT_TRUE(c.y.same_bits(want.y) && c.lse.same_bits(want.lse) && c.dq.same_bits(want.dq) && c.dk.same_bits(want.dk) && c.dv.same_bits(want.dv));
    }
  }
}
TEST(AttentionSoftcap, case_softcap_formula) {
  for (DType t : kDTypesHere) {  // one key: lse is the capped score; its slope shows in dq of a second key's weight
    Sdpa c({.dtype = t, .q_len = 1, .k_len = 1, .head_dim = 1, .scale = 1, .softcap = 2});
    c.q.set(0, 3), c.k.set(0, 1);
    ASSERT_OK(c.forward());
    EXPECT_NEAR(c.lse.at(0), 1.8102965, 2e-6);
    // Two keys of which the other has score 0: ds = p (1 - p) (v0 - v1), dq = ds * 0.1807066 * k0.
    Sdpa two({.dtype = t, .q_len = 1, .k_len = 2, .head_dim = 1, .scale = 1, .softcap = 2});
    two.q.set(0, 3), two.k.set(0, 1), two.k.set(1, 0), two.v.set(0, 1), two.v.set(1, 0), two.dy.set(0, 1);
    check_sdpa(two);
    const double p = 1 / (1 + std::exp(-1.8102965));
    EXPECT_NEAR(two.dq.at(0), p * (1 - p) * 0.1807066, t == DType::bf16 || t == DType::f16 ? 1e-3 : 1e-6);
  }
}
TEST(AttentionSoftcap, case_softcap_hang) {  // a slice of the heads of B 2, S 1024, H 32, D 128
  SdpaDescriptor d{.dtype = DType::bf16, .heads = 2, .q_len = 1024, .k_len = 1024, .head_dim = 128, .causal = true, .softcap = 10};
  Sdpa c(d, 2);
  ASSERT_OK(c.forward());
  ASSERT_OK(c.backward());
  for (const Tensor* x : {&c.dq, &c.dk, &c.dv})
    for (int64_t i = 0; i < x->numel(); ++i) ASSERT_TRUE(std::isfinite(x->at(i)));
}
TEST(AttentionSoftcap, Values) {
  for (DType t : kDTypesHere)
    for (double cap : {0.5, 30.0}) {
      SdpaDescriptor d{.dtype = t, .heads = 2, .kv_heads = 1, .q_len = 50, .k_len = 140, .head_dim = 16, .causal = true, .softcap = cap};
      check_sdpa(Sdpa(d, 4, 1.5));
    }
}
TEST(AttentionSoftcap, QueryThatIsNaN) {  // shows in the gradients of all that it sees, whichever query of a tile it is
  for (DType t : {DType::f16, DType::bf16})
    for (int64_t w : {64, 128})
      for (int64_t row : {8, 9, 24, 130, 139}) {
        Sdpa c({.dtype = t, .q_len = 300, .k_len = 300, .head_dim = w, .softcap = 20}, 6);
        c.q.set(row * w + 1, NAN);
        ASSERT_OK(c.forward());
        ASSERT_OK(c.backward());
        for (int64_t i = 0; i < c.dv.numel(); ++i) ASSERT_TRUE(std::isnan(c.dv.at(i)) && std::isnan(c.dk.at(i))) << name(t) << " " << w << " " << row << " " << i;
        for (int64_t i = 0; i < c.dq.numel(); ++i) ASSERT_EQ(std::isnan(c.dq.at(i)), i / w == row) << name(t) << " " << w << " " << row << " " << i;
      }
}
TEST(AttentionSoftcap, LargeScoresInOtherRows) {  // a score's tanh follows from the score alone
  for (DType t : {DType::f16, DType::bf16})
    for (int64_t w : {64, 128})
      for (int64_t rows : {300, 700}) {
        SdpaDescriptor d{.dtype = t, .q_len = rows, .k_len = rows, .head_dim = w, .causal = true, .softcap = 2};
        Sdpa small(d, 9, 0.5), large(d, 9, 0.5);
        for (int64_t i = 3; i < rows; i += 5)
          for (int64_t e = 0; e < w; ++e) large.q.set(i * w + e, 40 * small.q.at(i * w + e));
        ASSERT_OK(small.forward());
        check_sdpa(large);
        for (int64_t i = 0; i < rows * w; ++i)
          if (i / w % 5 != 3) ASSERT_EQ(large.y.at(i), small.y.at(i)) << name(t) << " " << i;
      }
}
// A score is right to 2^-10 of the cap, and so is a weight to as much of itself.
void check_far_apart(DType t, int64_t width, double cap, bool causal) {
  SCOPED_TRACE(text(name(t), " ", width, " ", cap, " ", causal));
  Sdpa c({.dtype = t, .heads = on_cuda() ? 6 : 1, .q_len = 300, .k_len = 300, .head_dim = width, .scale = 1, .causal = causal, .softcap = cap}, 12, 4);
  const SdpaTruth truth = sdpa_truth(c);
  ASSERT_OK(c.forward());
  for (int64_t i = 0; i < c.lse.numel(); ++i) ASSERT_NEAR(c.lse.at(i), truth.lse[size_t(i)], cap * 0x1p-10) << i;
  for (int64_t i = 0; i < c.y.numel(); ++i) ASSERT_NEAR(c.y.at(i), truth.y[size_t(i)], (2 * std::expm1(cap * 0x1p-10) + 0x1p-7) * truth.y_scale[size_t(i)]) << i;
}
TEST(AttentionSoftcap, WeightsFarApart) {  // from weights that are 0 to some that pass what a float holds, alone or summed, beside the first keys' score
  for (DType t : {DType::f16, DType::bf16})
    for (int64_t width : {64, 128})
      for (double cap : {120.0, 150.0, 300.0})
        for (bool causal : {true, false}) check_far_apart(t, width, cap, causal);
}
TEST(AttentionScale, NegativeAndZero) {
  for (DType t : {DType::f32, DType::bf16})
    for (double scale : {-0.3, 0.0, 2.0}) check_sdpa(Sdpa({.dtype = t, .q_len = 30, .k_len = 140, .head_dim = 8, .scale = scale}, 4));
}
// Scores rise by 64 to 1000 from some 128 keys to others: by as much as rows scale them, so that weights beside the first tile's largest one reach the largest
// float, pass it alone and pass it summed; values are small, so that their sums are finite there.
TEST(AttentionScale, ScoresFarApart) {
  constexpr double kFactors[] = {1.3125, 1.3203125, 1.328125, 1.3359375, 1.34375, 1.375, 4, 16};
  constexpr int kLevels[][5] = {{4, 3, 2, 1, 0}, {1, 4, 2, 3, 0}};
  for (DType t : {DType::f16, DType::bf16})
    for (SdpaDescriptor d : {SdpaDescriptor{.q_len = 300, .k_len = 512, .head_dim = 64}, {.q_len = 300, .k_len = 520, .head_dim = 64, .causal = true}, {.q_len = 700, .k_len = 520, .head_dim = 64},
                             {.q_len = 700, .k_len = 700, .head_dim = 64, .causal = true}, {.q_len = 300, .k_len = 520, .head_dim = 96}, {.q_len = 300, .k_len = 520, .head_dim = 128},
                             {.q_len = 300, .k_len = 520, .head_dim = 128, .causal = true}, {.q_len = 300, .k_len = 520, .head_dim = 192}, {.q_len = 300, .k_len = 700, .head_dim = 192}, {.q_len = 300, .k_len = 520, .head_dim = 256, .causal = true},
                             {.q_len = 300, .k_len = 520, .head_dim = 64, .causal = true, .alibi = true}, {.q_len = 300, .k_len = 520, .head_dim = 128, .causal = true, .alibi = true}})
      for (const auto& levels : kLevels) {
        d.dtype = t, d.scale = 1;
        Sdpa c(d, 61, 0.25);
        for (int64_t i = 0; i < d.q_len; ++i) c.q.set(i * d.head_dim, kFactors[i % 8]);
        for (int64_t j = 0; j < d.k_len; ++j) c.k.set(j * d.head_dim, 8 + 64 * levels[std::min<int64_t>(j / 128, 4)]);
        for (int64_t i = 0; i < c.v.numel(); ++i) c.v.set(i, c.v.at(i) / 64);
        SCOPED_TRACE(describe(d));
        const SdpaTruth truth = sdpa_truth(c);
        ASSERT_OK(c.forward());
        EXPECT_CLOSE(c.y, truth.y, (Tolerance{.dtype = t, .ulps = 1, .terms = double(truth.terms)}), &truth.y_scale);
        EXPECT_CLOSE(c.lse, truth.lse, (Tolerance{.dtype = accumulator(t), .ulps = 1, .terms = double(truth.terms)}), &truth.lse_scale);
      }
}
TEST(AttentionAlibi, case_softcap_alibi_order) {
  for (DType t : kDTypesHere) {
    SdpaDescriptor d{.dtype = t, .q_len = 1, .k_len = 2, .head_dim = 1, .scale = 1, .softcap = 2, .bias_shape = {1, 1, 1, 2}};
    Sdpa c(d);
    c.q.set(0, 1), c.k.set(0, 3), c.k.set(1, 1), c.v.set(0, 1), c.v.set(1, 0), c.dy.set(0, 1), c.bias.set(0, -0.5), c.bias.set(1, 0);
    ASSERT_OK(c.forward());
    ASSERT_OK(c.backward());
    const double close = t == DType::f32 || t == DType::f64 ? 5e-7 : t == DType::f16 ? 1e-3 : 8e-3;
    EXPECT_NEAR(c.lse.at(0), 1.8289285, 2e-6);
    EXPECT_NEAR(c.y.at(0), 0.5953344, close);
    EXPECT_NEAR(c.dq.at(0), -0.0588613, close);
    EXPECT_NEAR(c.dk.at(0), 0.0435343, close);
    EXPECT_NEAR(c.dk.at(1), -0.1894642, close);
    // The same by ALiBi: slope 0.5 and distance 1 for the first key.
    d.bias_shape = {}, d.alibi = true;
    Sdpa a(d);
    a.slopes = Tensor(DType::f32, {1}, {0.5});
    for (auto [from, to] : {std::pair{&c.q, &a.q}, {&c.k, &a.k}, {&c.v, &a.v}, {&c.dy, &a.dy}})
      for (int64_t i = 0; i < to->numel(); ++i) to->set(i, from->at(i));
    ASSERT_OK(a.forward());
    EXPECT_NEAR(a.lse.at(0), 1.8289285, 2e-6);
  }
}
TEST(AttentionAlibi, case_alibi_slopes_batch) {
  for (DType t : {DType::bf16, DType::f32}) {
    SdpaDescriptor d{.dtype = t, .batch = 2, .heads = 4, .kv_heads = 2, .q_len = 40, .k_len = 150, .head_dim = 16, .causal = true, .alibi = true};
    Sdpa c(d, 4);
    check_sdpa(c);
    SdpaDescriptor one = d;
    one.batch = 1;
    for (int64_t b = 0; b < 2; ++b) {  // each item alone, its slopes as [4] and as [1, 4]
      auto item = [&](const TensorView& v) {
        TensorView i = v;
        i.data = static_cast<char*>(v.data) + b * v.strides[0] * int64_t(byte_size(v.dtype)), i.shape[0] = 1;
        return i;
      };
      TensorView slopes = item(c.slopes), flat = slopes;
      flat.shape = {4}, flat.strides = {1};
      for (const TensorView& s : {slopes, flat}) {
        Tensor y(t, {1, 4, 40, 16}), lse(DType::f32, {1, 4, 40});
        ASSERT_OK(run_plan<FlashSdpa>(one, {item(c.q), item(c.k), item(c.v), y, lse, {}, s, {}, {}}));
        EXPECT_TRUE(bytes_of(y) == bytes_of(item(c.y)) && bytes_of(lse) == bytes_of(item(c.lse)));
      }
    }
    // A stride-0 expansion of [4] to [2, 4] equals [4].
    Tensor four = Tensor::uniform(DType::f32, {4}, 3, 0, 1), y(t, c.y.shape());
    TensorView expanded = four;
    expanded.shape = {2, 4}, expanded.strides = {0, 1};
    ASSERT_OK(run_plan<FlashSdpa>(d, {c.q, c.k, c.v, y, c.lse, {}, four, {}, {}}));
    ASSERT_OK(run_plan<FlashSdpa>(d, {c.q, c.k, c.v, c.y, c.lse, {}, expanded, {}, {}}));
    EXPECT_TRUE(y.same_bits(c.y));
  }
}
TEST(AttentionBias, ValuesAndGradientsForEveryBroadcast) {
  for (DType t : {DType::f32, DType::bf16})
    for (int axes = 0; axes < 16; ++axes)
      for (bool wide : {false, true}) {
        if (wide && t == DType::f32) continue;
        SdpaDescriptor d{.dtype = t, .batch = 2, .heads = 4, .kv_heads = 2, .q_len = 35, .k_len = 140, .head_dim = 8, .causal = axes % 2 == 0};
        d.bias_shape = {axes & 1 ? 2 : 1, axes & 2 ? 4 : 1, axes & 4 ? 35 : 1, axes & 8 ? 140 : 1};
        if (wide) d.bias_dtype = DType::f32;
        check_sdpa(Sdpa(d, 50));
      }
}
TEST(AttentionBias, SeveralBlocks) {
  SdpaDescriptor d{.dtype = DType::f32, .batch = 1, .heads = 2, .q_len = 200, .k_len = 300, .head_dim = 8, .softcap = 3};
  d.bias_shape = {1, 1, 200, 300};
  check_sdpa(Sdpa(d, 51, 1, Layout::padded));
  Sdpa c(d, 51);
  check_repeat_bits<FlashSdpa>(d, c.forward_args(), {}, 1);
  check_repeat_bits<FlashSdpaBackward>(d, c.backward_args(), {}, 1);
}
TEST(AttentionBias, MinusInfinityHides) {  // like the mask: NaN in a hidden key stays there
  for (DType t : kDTypesHere) {
    SdpaDescriptor d{.dtype = t, .heads = 2, .kv_heads = 1, .q_len = 40, .k_len = 140, .head_dim = 8};
    d.bias_shape = {1, 1, 40, 140};
    Sdpa c(d, 52);
    for (int64_t i = 0; i < 40; ++i)
      for (int64_t j = 0; j < 140; ++j)
        if ((i + j) % 3 == 0 || i == 7) c.bias.set(i * 140 + j, -INFINITY);
    check_sdpa(c);
    for (int64_t e = 0; e < 8; ++e) {
      EXPECT_EQ(c.y.at(7 * 8 + e), 0);
      EXPECT_EQ(c.dq.at(7 * 8 + e), 0);
    }
    const std::vector<double> y = c.y.values(), dq = c.dq.values();
    for (int64_t e = 0; e < 8; ++e) c.k.set(20 * 8 + e, NAN), c.v.set(20 * 8 + e, NAN);
    ASSERT_OK(c.forward());
    ASSERT_OK(c.backward());
    for (int64_t i = 0; i < c.y.numel(); ++i) {
      const int64_t query = i / 8 % 40;
      if ((query + 20) % 3 == 0 || query == 7) EXPECT_TRUE(c.y.at(i) == y[size_t(i)] && c.dq.at(i) == dq[size_t(i)]) << name(t) << " " << query;
      else EXPECT_TRUE(std::isnan(c.y.at(i)) && std::isnan(c.dq.at(i)));
    }
  }
}
TEST(AttentionVarlen, Values) {
  for (DType t : kDTypesHere)
    for (DType lengths : {DType::i32, DType::i64})
      for (bool causal : {false, true}) {
        SdpaDescriptor d{.dtype = t, .batch = 4, .heads = 4, .kv_heads = 2, .q_len = 60, .k_len = 150, .head_dim = 16, .causal = causal, .varlen = true,
                         .total_q = 100, .total_k = 230};
        d.alibi = causal;
        Sdpa c(d, 60);
        c.lengths({0, 40, 40, 41, 100}, {0, 20, 60, 60, 210}, lengths);  // no queries, no keys, rows of no sequence at the end
        c.d.total_q = 100;
        const SdpaTruth want = sdpa_truth(c);
        ASSERT_OK(c.forward());
        ASSERT_OK(c.backward());
        const Tolerance tolerance{.dtype = t, .terms = double(want.terms)};
        auto strip = [](const Tensor& x, int64_t rows) {  // rows that belong to sequences
          Shape s = x.shape();
          s[0] = rows;
          std::vector<double> v = x.values();
          v.resize(size_t(s.numel()));
          return Tensor(x.dtype(), s, v);
        };
        auto cut = [](std::vector<double> v, int64_t n) { return v.resize(size_t(n)), v; };
        const int64_t kn = 210 * 2 * 16;
        EXPECT_CLOSE(c.y, want.y, tolerance, &want.y_scale);
        EXPECT_CLOSE(c.dq, want.dq, tolerance, &want.dq_scale);
        EXPECT_CLOSE(strip(c.dk, 210), cut(want.dk, kn), tolerance, &want.dk_scale);
        EXPECT_CLOSE(strip(c.dv, 210), cut(want.dv, kn), tolerance, &want.dv_scale);
        for (int64_t i = kn; i < c.dk.numel(); ++i) ASSERT_TRUE(std::isnan(c.dk.at(i)) && std::isnan(c.dv.at(i)));  // poison, not written
      }
}
TEST(AttentionVarlen, case_varlen_zero_q) {
  for (int64_t width : {64, 128, 256}) {
    SdpaDescriptor d{.dtype = DType::bf16, .batch = 3, .heads = 4, .kv_heads = 1, .q_len = 150, .k_len = 100, .head_dim = width, .causal = true,
                     .varlen = true, .total_q = 300, .total_k = 300};
    Sdpa c(d, 61);
    c.lengths({0, 150, 150, 300}, {0, 100, 200, 300});
    ASSERT_OK(c.forward());
    ASSERT_OK(c.backward());
    for (int64_t i = 100 * width; i < 200 * width; ++i) ASSERT_TRUE(c.dk.at(i) == 0 && c.dv.at(i) == 0);
    // The others equal runs of their own.
    SdpaDescriptor one{.dtype = DType::bf16, .batch = 1, .heads = 4, .kv_heads = 1, .q_len = 150, .k_len = 100, .head_dim = width, .causal = true};
    for (int64_t b : {0, 2}) {
      auto part = [&](const TensorView& v, int64_t row) {  // [total, heads, width] rows as [1, heads, rows, width]
        return TensorView{static_cast<char*>(v.data) + row * v.strides[0] * 2, v.dtype, {}, {1, v.shape[1], v.shape[1] == 4 ? 150 : 100, width},
                          {0, v.strides[1], v.strides[0], 1}};
      };
      const int64_t q0 = b ? 150 : 0, k0 = b ? 200 : 0;
      Sdpa s(one);
      const TensorView q = part(c.q, q0), k = part(c.k, k0), v = part(c.v, k0), dy = part(c.dy, q0);
      ASSERT_OK(run_plan<FlashSdpa>(one, {q, k, v, s.y, s.lse, {}, {}, {}, {}}));
      EXPECT_TRUE(bytes_of(s.y) == bytes_of(part(c.y, q0)));
      ASSERT_OK(run_plan<FlashSdpaBackward>(one, {dy, q, k, v, s.y, s.lse, s.dq, s.dk, s.dv, {}, {}, {}, {}, {}}));
      EXPECT_TRUE(bytes_of(s.dq) == bytes_of(part(c.dq, q0)) && bytes_of(s.dk) == bytes_of(part(c.dk, k0)) && bytes_of(s.dv) == bytes_of(part(c.dv, k0)));
    }
  }
}
TEST(AttentionVarlen, SeveralTiles) {
  for (auto [width, left, right] : {std::tuple<int64_t, int64_t, int64_t>{64, -1, 0}, {128, 90, 40}, {96, 300, -1}, {192, -1, 30}, {256, -1, 0}}) {
    SdpaDescriptor d{.dtype = DType::bf16, .batch = 5, .heads = 2, .kv_heads = 1, .q_len = 400, .k_len = 420, .head_dim = width, .window_left = left, .window_right = right,
                     .varlen = true, .total_q = 863, .total_k = 871};
    Sdpa c(d, 64);
    c.lengths({0, 400, 400, 401, 640, 863}, {0, 300, 330, 331, 571, 871});
    check_sdpa(c);
    check_repeat_bits<FlashSdpaBackward>(d, c.backward_args(), {}, 3);
  }
}
TEST(AttentionVarlen, ManySequences) {  // more blocks of queries than a device has at work: the bits of runs of their own
  for (int64_t width : {64, 128}) {
    std::vector<int64_t> from = {0};
    for (int i = 0; i < 3; ++i)
      for (int64_t n : {700, 0, 130, 1, 300, 64, 0, 513, 128, 90}) from.push_back(from.back() + n);
    SdpaDescriptor d{.dtype = DType::bf16, .batch = 30, .heads = 4, .kv_heads = 2, .q_len = 700, .k_len = 700, .head_dim = width, .causal = true,
                     .varlen = true, .total_q = from.back(), .total_k = from.back()};
    Sdpa c(d, 65);
    c.lengths(from, from);
    ASSERT_OK(c.forward());
    for (size_t b = 0; b < 30; ++b) {
      const int64_t first = from[b], n = from[b + 1] - first;
      if (n < 128) continue;  // other kernels serve so few queries
      auto part = [&](const TensorView& v) {  // [total, heads, width] as [1, heads, n, width]
        return TensorView{static_cast<char*>(v.data) + first * v.strides[0] * 2, v.dtype, {}, {1, v.shape[1], n, width}, {0, v.strides[1], v.strides[0], 1}};
      };
      SdpaDescriptor one{.dtype = DType::bf16, .batch = 1, .heads = 4, .kv_heads = 2, .q_len = n, .k_len = n, .head_dim = width, .causal = true};
      Sdpa s(one);
      ASSERT_OK(run_plan<FlashSdpa>(one, {part(c.q), part(c.k), part(c.v), s.y, s.lse, {}, {}, {}, {}}));
      EXPECT_TRUE(bytes_of(s.y) == bytes_of(part(c.y))) << "sequence " << b;
    }
  }
}
TEST(AttentionVarlen, SlopesPerSequence) {
  SdpaDescriptor d{.dtype = DType::f32, .batch = 2, .heads = 4, .q_len = 30, .k_len = 30, .head_dim = 8, .causal = true, .alibi = true, .varlen = true,
                   .total_q = 50, .total_k = 50};
  Sdpa c(d, 62);
  c.lengths({0, 20, 50}, {0, 20, 50});
  check_sdpa(c);
  check_repeat_bits<FlashSdpaBackward>(d, c.backward_args(), {}, 1);
}
TEST(AttentionVarlen, LongKeysInParts) {
  SdpaDescriptor d{.dtype = DType::f32, .batch = 2, .heads = 2, .kv_heads = 1, .q_len = 40, .k_len = 2100, .head_dim = 8, .causal = true, .varlen = true,
                   .total_q = 70, .total_k = 2600};
  Sdpa c(d, 63);
  c.lengths({0, 30, 70}, {0, 500, 2600});
  check_sdpa(c);
}
TEST(AttentionVarlen, RefusesLengths) {
  if (on_cuda()) GTEST_SKIP() << "the lengths are on the device: kernels cut them to the tensors";
  SdpaDescriptor d{.dtype = DType::f32, .batch = 2, .heads = 1, .q_len = 30, .k_len = 30, .head_dim = 8, .varlen = true, .total_q = 50, .total_k = 50};
  struct { std::vector<int64_t> q, k; std::string_view text; } cases[] = {
      {{1, 20, 50}, {0, 20, 50}, "cu_seqlens_q[0] is 1"},      {{0, 20, 10}, {0, 20, 50}, "cu_seqlens_q[2] is 10"},
      {{0, 20, 51}, {0, 20, 50}, "cu_seqlens_q[2] is 51"},     {{0, 20, 50}, {0, 40, 50}, "sequence 0 has 40 rows, k_len allows 30"},
      {{0, 20, 50}, {0, -1, 20}, "cu_seqlens_k[1] is -1"}};
  for (const auto& e : cases) {
    Sdpa c(d);
    c.lengths(e.q, e.k);
    expect_refused(c.forward(), Code::invalid_problem, {"flash_sdpa", e.text});
    expect_refused(c.backward(), Code::invalid_problem, {"flash_sdpa_backward", e.text});
  }
}
TEST(AttentionVarlen, CutsLengthsOnCuda) {  // wrong lengths reach no memory outside the tensors: guards stand
  if (!on_cuda()) GTEST_SKIP() << "refused on the CPU";
  SdpaDescriptor d{.dtype = DType::f32, .batch = 3, .heads = 1, .q_len = 30, .k_len = 30, .head_dim = 8, .varlen = true, .total_q = 50, .total_k = 50};
  for (const auto& [q, k] : {std::pair<std::vector<int64_t>, std::vector<int64_t>>{{-5, 20, 10, 90}, {0, 20, 50, 500}}, {{0, 70, 60, 20}, {40, -100, 90, 95}}}) {
    Sdpa c(d);
    c.lengths(q, k, DType::i64);
    EXPECT_OK(c.forward());
    EXPECT_OK(c.backward());
  }
}
TEST(AttentionDecode, OneQuery) {
  for (DType t : kDTypesHere)
    for (auto [h, hk] : {std::pair<int64_t, int64_t>{8, 8}, {8, 2}, {40, 1}, {6, 2}})
      for (int64_t sk : {1, 127, 500}) {
        Sdpa c({.dtype = t, .batch = 2, .heads = h, .kv_heads = hk, .q_len = 1, .k_len = sk, .head_dim = 32, .causal = true}, 70);
        check_sdpa(c);
      }
  SdpaDescriptor few{.dtype = DType::f32, .heads = 8, .kv_heads = 2, .q_len = 5, .k_len = 100, .head_dim = 16, .causal = true, .window_left = 30, .alibi = true};
  check_sdpa(Sdpa(few, 71));
}

TEST(AttentionDecode, LongCache) {  // keys in parts on CUDA
  for (DType t : kDTypesHere) {
    SdpaDescriptor d{.dtype = t, .batch = 2, .heads = 6, .kv_heads = 2, .q_len = 3, .k_len = 2500, .head_dim = 24, .head_dim_v = 40, .causal = true};
    check_sdpa(Sdpa(d, 72));
    d.window_left = 150, d.softcap = 5, d.alibi = true;
    check_sdpa(Sdpa(d, 73));
    d = {.dtype = t, .batch = 3, .heads = 2, .q_len = 2, .k_len = 3000, .head_dim = 16, .causal = true, .varlen = true, .total_q = 4, .total_k = 5200};
    Sdpa c(d, 74);
    c.lengths({0, 2, 2, 4}, {0, 2200, 2200, 5200});
    check_sdpa(c);
  }
}

TEST(AttentionDecode, RowsAndWidths) {  // query rows of a key head within one tile, in several, in several blocks
  for (DType t : {DType::f16, DType::bf16}) {
    SdpaDescriptor shapes[] = {{.heads = 8, .kv_heads = 1, .k_len = 700, .head_dim = 128},
                               {.batch = 2, .heads = 16, .kv_heads = 2, .q_len = 3, .k_len = 900, .head_dim = 128, .causal = true},
                               {.heads = 16, .kv_heads = 2, .q_len = 9, .k_len = 1500, .head_dim = 64, .causal = true, .window_left = 300},
                               {.heads = 4, .kv_heads = 2, .q_len = 5, .k_len = 600, .head_dim = 256, .head_dim_v = 200, .causal = true},
                               {.heads = 8, .kv_heads = 2, .q_len = 7, .k_len = 500, .head_dim = 200, .head_dim_v = 256, .align = CausalAlign::top_left, .window_right = 90},
                               {.heads = 6, .kv_heads = 1, .q_len = 6, .k_len = 400, .head_dim = 96, .causal = true, .softcap = 3, .alibi = true},
                               {.heads = 3, .kv_heads = 3, .q_len = 31, .k_len = 333, .head_dim = 81, .head_dim_v = 83, .causal = true},
                               {.heads = 2, .kv_heads = 2, .q_len = 2, .k_len = 150, .head_dim = 192, .softcap = 5, .bias_shape = {1, 2, 1, 150}},
                               {.heads = 2, .kv_heads = 1, .q_len = 4, .k_len = 130, .head_dim = 32, .scale = -0.5}};
    int seed = 75;
    for (SdpaDescriptor& d : shapes) {
      d.dtype = t, ++seed;
      for (const auto& row : FlashSdpaPlan::rows(test_stream().device.kind)) {
        Sdpa c(d, seed);
        c.preference.require_kernel = row.name;
        if (!FlashSdpaPlan::select(test_stream(), d, c.preference).ok()) continue;
        SCOPED_TRACE(row.name);
        check_sdpa(c);
      }
    }
  }
}
TEST(AttentionDecode, AnyNumberOfHeads) {  // parts of the keys are joined with the same bits, however many heads there are
  for (DType t : {DType::f16, DType::bf16})
    for (int64_t w : {64, 128, 72, 192, 256}) {
      const SdpaDescriptor one{.dtype = t, .q_len = 2, .k_len = 1900, .head_dim = w, .causal = true};
      SdpaDescriptor many = one;
      many.heads = 40, many.kv_heads = 40;
      Sdpa a(one, 76), b(many, 76);
      for (int64_t i = 0; i < 2 * w; ++i) b.q.set(i, a.q.at(i));
      for (int64_t i = 0; i < 1900 * w; ++i) b.k.set(i, a.k.at(i)), b.v.set(i, a.v.at(i));
      ASSERT_OK(a.forward());
      ASSERT_OK(b.forward());
      for (int64_t i = 0; i < 2 * w; ++i) EXPECT_EQ(a.y.at(i), b.y.at(i)) << name(t) << " " << w;
      for (int64_t i = 0; i < 2; ++i) EXPECT_EQ(a.lse.at(i), b.lse.at(i)) << name(t) << " " << w;
    }
}
TEST(AttentionDecode, HiddenValuesNeverMatter) {  // the last keys are seen by the last queries alone
  for (DType t : kDTypesHere)
    for (int64_t heads : {1, 9}) {
      SdpaDescriptor d{.dtype = t, .heads = heads, .kv_heads = 1, .q_len = 5, .k_len = 300, .head_dim = 24, .causal = true};
      Sdpa clean(d, 85), dirty(d, 85);
      for (int64_t e = 0; e < 24; ++e) dirty.k.set(298 * 24 + e, NAN), dirty.v.set(298 * 24 + e, e % 2 ? INFINITY : NAN);  // key 298: of queries 3 and 4
      ASSERT_OK(clean.forward());
      ASSERT_OK(dirty.forward());
      for (int64_t i = 0; i < heads * 5 * 24; ++i) {
        if (i / 24 % 5 >= 3) EXPECT_TRUE(std::isnan(dirty.y.at(i)));
        else EXPECT_EQ(dirty.y.at(i), clean.y.at(i)) << name(t) << " " << i;
      }
      Sdpa value(d, 85);
      value.v.set(297 * 24 + 7, INFINITY);
      ASSERT_OK(value.forward());
      for (int64_t i = 0; i < heads * 5 * 24; ++i) {
        if (i / 24 % 5 >= 2 && i % 24 == 7) EXPECT_FALSE(std::isfinite(value.y.at(i)));
        else EXPECT_EQ(value.y.at(i), clean.y.at(i)) << name(t) << " " << i;
      }
    }
}

// Every row of the device, not only the first that accepts.
TEST(AttentionRows, EachOne) {
  std::vector<SdpaDescriptor> shapes;
  for (DType t : kDTypesHere) {
    shapes.push_back({.dtype = t, .heads = 2, .q_len = 300, .k_len = 300, .head_dim = 64, .causal = true});
    shapes.push_back({.dtype = t, .heads = 4, .kv_heads = 2, .q_len = 150, .k_len = 410, .head_dim = 128, .head_dim_v = 72});
    shapes.push_back({.dtype = t, .batch = 2, .q_len = 260, .k_len = 200, .head_dim = 40, .window_left = 70, .window_right = 9});
    shapes.push_back({.dtype = t, .q_len = 140, .k_len = 140, .head_dim = 200, .causal = true});
    shapes.push_back({.dtype = t, .heads = 2, .q_len = 330, .k_len = 500, .head_dim = 88, .head_dim_v = 96, .causal = true});
    shapes.push_back({.dtype = t, .heads = 2, .q_len = 333, .k_len = 290, .head_dim = 192, .head_dim_v = 136, .align = CausalAlign::top_left, .window_right = 4});
  }
  for (DType t : {DType::f16, DType::bf16}) {
    shapes.push_back({.dtype = t, .heads = 3, .q_len = 300, .k_len = 333, .head_dim = 64, .causal = true, .softcap = 4});
    shapes.push_back({.dtype = t, .batch = 2, .heads = 2, .kv_heads = 1, .q_len = 290, .k_len = 270, .head_dim = 128, .causal = true, .window_left = 150, .softcap = 0.7, .alibi = true});
    shapes.push_back({.dtype = t, .heads = 4, .q_len = 150, .k_len = 310, .head_dim = 96, .head_dim_v = 80, .alibi = true});
    shapes.push_back({.dtype = t, .heads = 2, .q_len = 200, .k_len = 200, .head_dim = 256, .causal = true, .softcap = 30});
    shapes.push_back({.dtype = t, .heads = 2, .q_len = 140, .k_len = 190, .head_dim = 160, .scale = -0.2, .causal = true, .alibi = true});
    shapes.push_back({.dtype = t, .heads = 2, .kv_heads = 1, .q_len = 270, .k_len = 200, .head_dim = 192, .head_dim_v = 176, .window_left = 90, .window_right = 60, .softcap = 3, .alibi = true});
    shapes.push_back({.dtype = t, .heads = 2, .q_len = 260, .k_len = 390, .head_dim = 64, .window_right = 80, .alibi = true});
    shapes.push_back({.dtype = t, .heads = 2, .q_len = 700, .k_len = 750, .head_dim = 64, .causal = true, .softcap = 5, .alibi = true});
    shapes.push_back({.dtype = t, .heads = 2, .q_len = 660, .k_len = 700, .head_dim = 48, .scale = 1e-3, .causal = true, .window_left = 300, .alibi = true});
    shapes.push_back({.dtype = t, .heads = 2, .q_len = 300, .k_len = 300, .head_dim = 128, .causal = true, .alibi = true});
    shapes.push_back({.dtype = t, .q_len = 210, .k_len = 330, .head_dim = 248, .softcap = 1, .alibi = true});
    shapes.push_back({.dtype = t, .heads = 2, .q_len = 530, .k_len = 700, .head_dim = 64, .head_dim_v = 48, .causal = true, .alibi = true});
    shapes.push_back({.dtype = t, .heads = 4, .kv_heads = 2, .q_len = 400, .k_len = 300, .head_dim = 56, .softcap = 2, .alibi = true});
  }
  const DeviceKind device = test_stream().device.kind;
  for (const SdpaDescriptor& d : shapes) {
    for (const auto& row : FlashSdpaPlan::rows(device)) {
      Sdpa c(d, 81);
      c.preference.require_kernel = row.name;
      if (!FlashSdpaPlan::select(test_stream(), d, c.preference).ok()) continue;
      SCOPED_TRACE(row.name);
      check_sdpa(c);
    }
    for (const auto& row : FlashSdpaBackwardPlan::rows(device)) {
      Sdpa c(d, 82);
      c.backward_preference.require_kernel = row.name;
      if (!FlashSdpaBackwardPlan::select(test_stream(), d, c.backward_preference).ok()) continue;
      SCOPED_TRACE(row.name);
      check_sdpa(c);
      check_repeat_bits<FlashSdpaBackward>(d, c.backward_args(), c.backward_preference, 1);
    }
  }
}
TEST(AttentionRows, BlocksThatEndWithinATile) {  // Hopper at up to 64 columns, more than 640 keys: blocks of 128 rows for up to 640 queries, of 192 beyond, whose warpgroups see tiles of their own
  for (DType t : {DType::f16, DType::bf16}) {
    for (SdpaDescriptor d : {SdpaDescriptor{.q_len = 640, .k_len = 640, .head_dim = 64, .causal = true}, {.q_len = 641, .k_len = 641, .head_dim = 64, .causal = true},
                             {.q_len = 833, .k_len = 833, .head_dim = 64, .causal = true, .window_left = 200}, {.q_len = 700, .k_len = 700, .head_dim = 40, .window_left = 30, .window_right = 0},
                             {.q_len = 1000, .k_len = 300, .head_dim = 64, .causal = true}, {.q_len = 1000, .k_len = 300, .head_dim = 64, .causal = true, .align = CausalAlign::top_left, .window_left = 90},
                             {.q_len = 650, .k_len = 900, .head_dim = 64}}) {
      d.dtype = t;
      check_sdpa(Sdpa(d, 77));
    }
    Sdpa c({.dtype = t, .batch = 5, .q_len = 700, .k_len = 700, .head_dim = 64, .causal = true, .varlen = true, .total_q = 900, .total_k = 900}, 78);
    c.lengths({0, 0, 3, 703, 703, 900}, {0, 0, 3, 703, 703, 900});
    check_sdpa(c);
    Sdpa few({.dtype = t, .q_len = 600, .k_len = 700, .head_dim = 64, .causal = true, .align = CausalAlign::top_left}, 79);
    SdpaDescriptor d = few.d;
    d.q_len = 700;
    Sdpa many(d, 79);
    for (int64_t i = 0; i < 600 * 64; ++i) many.q.set(i, few.q.at(i));
    for (int64_t i = 0; i < 700 * 64; ++i) many.k.set(i, few.k.at(i)), many.v.set(i, few.v.at(i));
    ASSERT_OK(few.forward());
    ASSERT_OK(many.forward());
    for (int64_t i = 0; i < 600 * 64; ++i) EXPECT_EQ(many.y.at(i), few.y.at(i)) << name(t) << " " << i;
    for (int64_t i = 0; i < 600; ++i) EXPECT_EQ(many.lse.at(i), few.lse.at(i)) << name(t) << " " << i;
  }
}
TEST(AttentionRows, FewKeysAloneAndInABatch) {  // Hopper at up to 64 columns, softcap of bf16 with any number of keys, too: tiles of 64 keys, blocks of 256 rows where there are many, else of 128, with the same bits; more than 128 columns: halves of a block's queries in turn
  for (DType t : {DType::f16, DType::bf16})
    for (SdpaDescriptor d : {SdpaDescriptor{.q_len = 250, .k_len = 250, .head_dim = 64, .causal = true}, {.q_len = 130, .k_len = 490, .head_dim = 64, .causal = true, .window_left = 70},
                             {.q_len = 270, .k_len = 240, .head_dim = 40}, {.q_len = 300, .k_len = 256, .head_dim = 64, .causal = true, .align = CausalAlign::top_left},
                             {.q_len = 260, .k_len = 700, .head_dim = 64, .causal = true, .softcap = 3}, {.q_len = 140, .k_len = 200, .head_dim = 40, .softcap = 0.5},
                             {.q_len = 260, .k_len = 240, .head_dim = 192, .causal = true}, {.q_len = 200, .k_len = 700, .head_dim = 176}, {.q_len = 300, .k_len = 300, .head_dim = 256, .causal = true}}) {
      d.dtype = t;
      Sdpa one(d, 84);
      check_sdpa(one);
      const int64_t batch = on_cuda() ? 150 : 3;
      d.batch = batch;
      Sdpa all(d, 85);
      const int64_t n = one.q.numel(), m = one.k.numel(), rows = one.lse.numel();
      for (int64_t i = 0; i < n; ++i) all.q.set((batch - 1) * n + i, one.q.at(i));
      for (int64_t i = 0; i < m; ++i) all.k.set((batch - 1) * m + i, one.k.at(i)), all.v.set((batch - 1) * m + i, one.v.at(i));
      ASSERT_OK(one.forward());
      ASSERT_OK(all.forward());
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(all.y.at((batch - 1) * n + i), one.y.at(i)) << describe(d) << " " << i;
      for (int64_t i = 0; i < rows; ++i) ASSERT_EQ(all.lse.at((batch - 1) * rows + i), one.lse.at(i)) << describe(d) << " " << i;
    }
}
TEST(AttentionRows, LargeAndSmallGradientsOfHalves) {  // score gradients beyond the range of f16, results within it
  for (const auto& row : FlashSdpaBackwardPlan::rows(test_stream().device.kind))
    for (DType t : {DType::f16, DType::bf16})
      for (double size : {5000.0, 2e-3}) {
        if (row.backend != Backend::baracuda) continue;  // a library does not promise it
        Sdpa c({.dtype = t, .heads = 2, .q_len = 170, .k_len = 170, .head_dim = 64, .causal = true}, 83);
        c.dy = Tensor::normal(t, c.dy.shape(), 84, 0, size);
        c.backward_preference.require_kernel = row.name;
        SCOPED_TRACE(row.name);
        check_sdpa(c);
      }
}

TEST(AttentionErrors, Descriptors) {
  const SdpaDescriptor ok{.heads = 4, .q_len = 8, .k_len = 8, .head_dim = 16};
  auto with = [&](auto change) {
    SdpaDescriptor d = ok;
    change(d);
    return d;
  };
  struct { SdpaDescriptor d; Code code; std::vector<std::string_view> text; } cases[] = {
      {with([](auto& d) { d.batch = -1; }), Code::invalid_problem, {"batch is -1"}},
      {with([](auto& d) { d.heads = 0; }), Code::invalid_problem, {"heads is 0"}},
      {with([](auto& d) { d.kv_heads = 3; }), Code::invalid_problem, {"heads 4", "kv_heads 3"}},
      {with([](auto& d) { d.head_dim = 0; }), Code::invalid_problem, {"head_dim is 0"}},
      {with([](auto& d) { d.head_dim = 257; }), Code::invalid_problem, {"head_dim 257", "256"}},
      {with([](auto& d) { d.head_dim_v = 300; }), Code::invalid_problem, {"head_dim_v 300", "256"}},
      {with([](auto& d) { d.scale = INFINITY; }), Code::invalid_problem, {"scale", "inf"}},
      {with([](auto& d) { d.softcap = -1; }), Code::invalid_problem, {"softcap -1"}},
      {with([](auto& d) { d.softcap = NAN; }), Code::invalid_problem, {"softcap nan"}},
      {with([](auto& d) { d.window_left = -128; }), Code::invalid_problem, {"window_left -128", "-1"}},  // case window-negative-meaning
      {with([](auto& d) { d.window_right = -2; }), Code::invalid_problem, {"window_right -2", "-1"}},
      {with([](auto& d) { d.align = CausalAlign(7); }), Code::invalid_problem, {"align 7"}},
      {with([](auto& d) { d.total_q = 3; }), Code::invalid_problem, {"varlen"}},
      {with([](auto& d) { d.bias_shape = {1, 4, 8, 9}; }), Code::invalid_problem, {"bias_shape [1, 4, 8, 9]", "[1, 4, 8, 8]"}},
      {with([](auto& d) { d.bias_shape = {8, 8}; }), Code::invalid_problem, {"bias_shape [8, 8]"}},
      {with([](auto& d) { d.bias_shape = {1, 1, 1, 8}, d.varlen = true; }), Code::invalid_problem, {"bias", "varlen"}},
      {with([](auto& d) { d.bias_shape = {1, 1, 1, 8}, d.bias_dtype = DType::f64; }), Code::invalid_problem, {"bias_dtype f64"}},
      {with([](auto& d) { d.q_len = int64_t(1) << 60; }), Code::invalid_problem, {"q [1, 4, ", "2^48"}},
      {with([](auto& d) { d.batch = 0, d.k_len = INT64_MAX; }), Code::invalid_problem, {"k [1, 4, ", "2^48"}},
      {with([](auto& d) { d.varlen = true, d.total_k = int64_t(1) << 50; }), Code::invalid_problem, {"k [", "2^48"}},
      {with([](auto& d) { d.dtype = DType::i32; }), Code::unsupported, {"no i32", "f16 bf16 f32 f64"}}};
  for (const auto& e : cases)
    for (const Status& s : {FlashSdpaPlan::select(Stream::cpu(), e.d).status(), FlashSdpaBackwardPlan::select(Stream::cpu(), e.d).status()}) {
      EXPECT_EQ(name(s.code()), name(e.code)) << describe(e.d) << s.to_string();
      for (auto f : e.text) EXPECT_NE(s.message().find(f), std::string::npos) << "'" << f << "' is missing in: " << s.message();
    }
}
TEST(AttentionErrors, case_window_negative_meaning) {
  expect_refused(FlashSdpaPlan::select(Stream::cpu(), {.window_left = -128}).status(), Code::invalid_problem, {"window_left -128", "only -1"});
}
TEST(AttentionErrors, Arguments) {
  Sdpa c({.heads = 4, .q_len = 8, .k_len = 8, .head_dim = 16, .alibi = true, .bias_shape = {1, 1, 8, 8}});
  auto refused = [&](auto change, Code code, std::initializer_list<std::string_view> text) {
    FlashSdpa::Args a = c.forward_args();
    change(a);
    expect_refused(run_plan<FlashSdpa>(c.d, a), code, text);
  };
  const Tensor strided(DType::f32, {1, 4, 8, 16}, Layout::every_other), slopes(DType::f32, {3}), wide(DType::f64, {4}), cu(DType::i32, {2});
  refused([&](auto& a) { a.q = strided; }, Code::unsupported, {"q has stride 2", "dense"});
  refused([&](auto& a) { a.y = strided; }, Code::unsupported, {"y has stride 2", "dense"});
  refused([&](auto& a) { a.bias = {}; }, Code::invalid_problem, {"bias is missing"});
  refused([&](auto& a) { a.alibi_slopes = {}; }, Code::invalid_problem, {"alibi_slopes is missing"});
  refused([&](auto& a) { a.alibi_slopes = slopes; }, Code::invalid_problem, {"alibi_slopes has shape [3]", "[4]"});
  refused([&](auto& a) { a.alibi_slopes = wide; }, Code::invalid_problem, {"alibi_slopes has dtype f64"});
  refused([&](auto& a) { a.cu_seqlens_q = cu; }, Code::invalid_problem, {"cu_seqlens_q is given"});
  c.d.alibi = false, c.d.bias_shape = {};
  refused([&](auto&) {}, Code::invalid_problem, {"bias is given"});
  refused([&](auto& a) { a.bias = {}; }, Code::invalid_problem, {"alibi_slopes is given"});
  FlashSdpaBackward::Args b = c.backward_args();
  b.bias = b.alibi_slopes = {};
  expect_refused(run_plan<FlashSdpaBackward>(c.d, b), Code::invalid_problem, {"dbias is given"});
}

}  // namespace
}  // namespace baracuda
