#include <sys/mman.h>
#include <limits>
#include "baracuda/host/amx.hpp"
#include "baracuda/ops/attention/attention_oracle.hpp"

namespace baracuda {
namespace {

using namespace testing;

TEST(Attention, ValuesForEveryDtype) {
  for (DType t : kDTypesHere)
    for (bool causal : {false, true}) {
      SdpaDescriptor d = shape(t, 2, 4, 2, 70, 150, 32);
      d.causal = causal;
      check_sdpa(Sdpa(d));
    }
}
TEST(Attention, Sizes) {  // one, odd, one block and its neighbours, several blocks
  struct { int64_t sq, sk, d, dv; } cases[] = {{1, 1, 1, 1},   {1, 300, 16, 16}, {3, 5, 7, 9},      {32, 128, 8, 8},  {33, 129, 8, 24},
                                               {127, 127, 5, 5}, {129, 257, 33, 17}, {300, 31, 64, 64}, {65, 400, 40, 40}};
  for (DType t : {DType::f32, DType::bf16})
    for (const auto& c : cases)
      for (bool causal : {false, true}) {
        SdpaDescriptor d = shape(t, 1, 2, 1, c.sq, c.sk, c.d, c.dv);
        d.causal = causal;
        check_sdpa(Sdpa(d, 7));
      }
}
TEST(Attention, Empty) {
  for (DType t : kDTypesHere) {
    for (const SdpaDescriptor& d : {shape(t, 0, 2, 2, 4, 4, 8), shape(t, 2, 2, 1, 0, 4, 8), shape(t, 2, 2, 1, 4, 0, 8)}) {
      Sdpa c(d);
      check_sdpa(c);
      for (const Tensor* x : {&c.dk, &c.dv, &c.y, &c.dq})
        for (int64_t i = 0; i < x->numel(); ++i) EXPECT_EQ(x->at(i), 0);
      for (int64_t i = 0; i < c.lse.numel(); ++i) EXPECT_EQ(c.lse.at(i), -INFINITY);
    }
  }
}
TEST(Attention, case_dv_other_head_dim) {
  struct { int64_t d, dv; } dims[] = {{128, 96}, {192, 128}, {40, 40}, {80, 80}, {96, 96}, {160, 160}, {224, 224}, {256, 256}, {31, 63}};
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (const auto& e : dims) check_sdpa(Sdpa(shape(t, 1, 2, 2, 37, 45, e.d, e.dv), 3));
}
TEST(Attention, Layouts) {
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (Layout layout : {Layout::padded, Layout::outer_reversed}) {
      SdpaDescriptor d = shape(t, 2, 4, 2, 40, 140, 24);
      d.causal = true;
      check_sdpa(Sdpa(d, 11, 1, layout));
    }
}
// [B, S, H, D] memory as a view [B, H, S, D].
TensorView heads_last(const Tensor& t, int64_t b, int64_t h, int64_t s, int64_t d) {
  TensorView v = t;
  v.shape = {b, h, s, d}, v.strides = {s * h * d, d, h * d, 1};
  return v;
}
TEST(Attention, case_dout_noncontiguous) {  // dy [B, H, S, D] while y is [B, S, H, D]; dy a slice of a wider buffer
  for (DType t : {DType::f32, DType::bf16}) {
    SdpaDescriptor d = shape(t, 2, 4, 2, 50, 50, 32);
    d.causal = true;
    Sdpa want(d, 5);
    ASSERT_OK(want.forward());
    ASSERT_OK(want.backward());
    Tensor q(t, {2, 50, 4, 32}), k(t, {2, 50, 2, 32}), v(t, {2, 50, 2, 32}), y(t, {2, 50, 4, 32}), dq(t, {2, 50, 4, 32}), dk(t, {2, 50, 2, 32}),
        dv(t, {2, 50, 2, 32}), wide(t, {2, 4, 50, 100});
    auto same = [](const TensorView& a, const TensorView& b) { return bytes_of(a) == bytes_of(b); };
    const TensorView qv = heads_last(q, 2, 4, 50, 32), kv = heads_last(k, 2, 2, 50, 32), vv = heads_last(v, 2, 2, 50, 32), yv = heads_last(y, 2, 4, 50, 32),
                     dqv = heads_last(dq, 2, 4, 50, 32), dkv = heads_last(dk, 2, 2, 50, 32), dvv = heads_last(dv, 2, 2, 50, 32);
    put_bytes(qv, bytes_of(want.q)), put_bytes(kv, bytes_of(want.k)), put_bytes(vv, bytes_of(want.v));
    TensorView dy = wide;
    dy.shape[3] = 32;
    put_bytes(dy, bytes_of(want.dy));
    Tensor lse(accumulator(t), {2, 4, 50});
    ASSERT_OK(run_plan<FlashSdpa>(d, {qv, kv, vv, yv, lse, {}, {}, {}, {}}));
    EXPECT_TRUE(same(yv, want.y) && same(lse, want.lse));
    ASSERT_OK(run_plan<FlashSdpaBackward>(d, {dy, qv, kv, vv, yv, lse, dqv, dkv, dvv, {}, {}, {}, {}, {}}));
    EXPECT_TRUE(same(dqv, want.dq) && same(dkv, want.dk) && same(dvv, want.dv));
  }
}
TEST(Attention, ExpandedKeys) {  // a zero stride over heads is allowed for inputs
  const SdpaDescriptor d = shape(DType::f32, 1, 3, 3, 20, 20, 16);
  Sdpa c(d, 2), shared(shape(DType::f32, 1, 3, 1, 20, 20, 16), 2);
  TensorView k = shared.k, v = shared.v;
  k.shape = {1, 3, 20, 16}, k.strides = {0, 0, 16, 1}, v.shape = k.shape, v.strides = k.strides;
  ASSERT_OK(shared.forward());
  ASSERT_OK(run_plan<FlashSdpa>(d, {shared.q, k, v, c.y, c.lse, {}, {}, {}, {}}));
  EXPECT_TRUE(c.y.same_bits(shared.y));
}

// --- the cases by name
void fill(Tensor& t, const std::vector<double>& values) {
  for (int64_t i = 0; i < t.numel(); ++i) t.set(i, values[size_t(i) % values.size()]);
}
TEST(Attention, case_causal_bottom_right) {
  for (DType t : kDTypesHere) {
    SdpaDescriptor d = shape(t, 1, 1, 1, 2, 5, 32);
    d.causal = true;
    Sdpa c(d);
    fill(c.q, {0});
    for (int64_t i = 0; i < 5 * 32; ++i) c.v.set(i, double(i / 32 + 1));
    ASSERT_OK(c.forward());
    for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(c.y.at(i), i < 32 ? 2.5 : 3.0);
    EXPECT_NEAR(c.lse.at(0), std::log(4.0), 1e-6);
    EXPECT_NEAR(c.lse.at(1), std::log(5.0), 1e-6);
    c.d.align = CausalAlign::top_left;
    ASSERT_OK(c.forward());
    for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(c.y.at(i), i < 32 ? 1.0 : 1.5);
    check_sdpa(c);
  }
}
TEST(Attention, case_fully_masked_row) {
  for (DType t : kDTypesHere) {
    SdpaDescriptor d = shape(t, 1, 2, 1, 4, 2, 16);
    d.window_left = d.window_right = 0;
    Sdpa c(d);
    check_sdpa(c);
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t e = 0; e < 16; ++e) {
          const int64_t at = (h * 4 + i) * 16 + e;
          EXPECT_EQ(c.y.at(at), i < 2 ? 0.0 : c.v.at((i - 2) * 16 + e));
          EXPECT_NEAR(c.dq.at(at), 0, i < 2 ? 0 : 1e-2);
          if (i < 2) EXPECT_EQ(c.lse.at(h * 4 + i), -INFINITY);
        }
  }
}
TEST(Attention, case_neg_lse_partial_tile) {
  for (DType t : {DType::bf16, DType::f32})
    for (int64_t s : {704, 192}) {
      Sdpa c(shape(t, 1, 1, 1, s, s, 64), 4);
      fill(c.q, {-12.5}), fill(c.k, {1});
      ASSERT_OK(c.forward());
      ASSERT_OK(c.backward());
      std::vector<double> mean(64, 0), v_mean(64, 0);
      double size = 0;
      for (int64_t i = 0; i < s * 64; ++i) mean[size_t(i % 64)] += c.dy.at(i) / double(s), v_mean[size_t(i % 64)] += c.v.at(i) / double(s), size = std::max(size, std::fabs(c.dy.at(i)));
      const double close = (t == DType::bf16 ? 0x1p-7 : 0x1p-18);
      for (int64_t i = 0; i < s; ++i) EXPECT_NEAR(c.lse.at(i), -100 + std::log(double(s)), 2e-5);
      for (int64_t i = 0; i < s * 64; ++i) {
        ASSERT_NEAR(c.y.at(i), v_mean[size_t(i % 64)], close * 2);
        ASSERT_NEAR(c.dv.at(i), mean[size_t(i % 64)], close * 2);
        ASSERT_NEAR(c.dq.at(i), 0, close * size * 8);  // the dk of equal keys cancel up to rounding
        ASSERT_TRUE(std::isfinite(c.dk.at(i)));
      }
    }
}
TEST(Attention, case_gqa_head_map) {
  for (DType t : kDTypesHere) {
    Sdpa c(shape(t, 1, 6, 2, 1, 2, 16), 9);
    fill(c.q, {0}), fill(c.dy, {1});
    for (int64_t i = 0; i < c.v.numel(); ++i) c.v.set(i, i < 2 * 16 ? 1 : 5);
    ASSERT_OK(c.forward());
    ASSERT_OK(c.backward());
    for (int64_t i = 0; i < c.dv.numel(); ++i) EXPECT_EQ(c.dv.at(i), 1.5);
    for (int64_t i = 0; i < c.y.numel(); ++i) EXPECT_EQ(c.y.at(i), i / 16 < 3 ? 1 : 5);
    check_sdpa(Sdpa(shape(t, 2, 6, 2, 40, 50, 16), 9));
  }
}
TEST(Attention, case_gqa_memory) {  // no expansion: well under one copy of k and v per query head, and itemised
  const SdpaDescriptor d = shape(DType::bf16, 24, 16, 2, 256, 12288, 256);
  auto plan = FlashSdpaBackwardPlan::select(Stream::cpu(), d);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  const uint64_t kv = uint64_t(24) * 2 * 12288 * 256 * 4, dq = uint64_t(24) * 16 * 256 * 256 * 4;
  uint64_t sum = 0;
  for (const WorkspaceItem& item : plan->workspace_items()) sum += item.bytes;
  EXPECT_LE(sum, plan->workspace_size());
  EXPECT_LE(plan->workspace_size(), 2 * kv + 8 * dq + uint64_t(threads()) * (16 << 20));
}
TEST(Attention, case_attn_f64_narrowed) {
  for (bool causal : {false, true}) {
    SdpaDescriptor d = shape(DType::f64, 1, 2, 2, 65, 65, 32);
    d.causal = causal;
    Sdpa c(d, 17);
    const SdpaTruth t = sdpa_truth(c);
    ASSERT_OK(c.forward());
    ASSERT_OK(c.backward());
    auto error = [](const Tensor& got, const std::vector<double>& want) {
      double most = 0, size = 0;
      for (size_t i = 0; i < want.size(); ++i) most = std::max(most, std::fabs(got.at(int64_t(i)) - want[i])), size = std::max(size, std::fabs(want[i]));
      return most / size;
    };
    EXPECT_LT(error(c.y, t.y), 1e-13);
    EXPECT_LT(error(c.lse, t.lse), 1e-13);
    EXPECT_LT(error(c.dq, t.dq), 1e-13);
    EXPECT_LT(error(c.dk, t.dk), 1e-13);
    EXPECT_LT(error(c.dv, t.dv), 1e-13);
  }
}
// Errors over a whole tensor average out what the bounds per element must allow: in f32 a few roundings, in halves little
// more than the rounding of the result (the bf16 gradients also carry that of p, ds and y); in f64 the oracle's own count.
TEST(Attention, RootMeanSquareError) {
  struct { DType dtype; double y, lse, gradient; } limits[] = {
      {DType::f32, 4, 4, 8}, {DType::f64, 12, 12, 24}, {DType::f16, 1, 64, 2}, {DType::bf16, 1, 64, 2}};
  for (const auto& limit : limits) {
    SdpaDescriptor d = shape(limit.dtype, 1, 2, 1, 256, 256, 64);
    d.causal = true;
    Sdpa c(d, 19);
    const SdpaTruth t = sdpa_truth(c);
    ASSERT_OK(c.forward());
    ASSERT_OK(c.backward());
    auto roundings = [](const Tensor& got, const std::vector<double>& want) {
      double error = 0, size = 0;
      for (size_t i = 0; i < want.size(); ++i) error += (got.at(int64_t(i)) - want[i]) * (got.at(int64_t(i)) - want[i]), size += want[i] * want[i];
      return std::sqrt(error / size) / unit_roundoff(got.dtype());
    };
    EXPECT_LT(roundings(c.y, t.y), limit.y) << name(limit.dtype);
    EXPECT_LT(roundings(c.lse, t.lse), limit.lse) << name(limit.dtype);
    EXPECT_LT(roundings(c.dq, t.dq), limit.gradient) << name(limit.dtype);
    EXPECT_LT(roundings(c.dk, t.dk), limit.gradient) << name(limit.dtype);
    EXPECT_LT(roundings(c.dv, t.dv), limit.gradient) << name(limit.dtype);
  }
}
TEST(Attention, case_lse_definition) {  // two halves of the keys merge by their lse
  for (DType t : {DType::f32, DType::f64}) {
    Sdpa full(shape(t, 1, 2, 2, 10, 16, 8), 13), half(shape(t, 1, 2, 2, 10, 8, 8), 13);
    ASSERT_OK(full.forward());
    std::vector<double> y(size_t(full.y.numel()), 0);
    for (int64_t part = 0; part < 2; ++part) {
      TensorView k = full.k, v = full.v;
      k.shape[2] = v.shape[2] = 8;
      k.data = static_cast<char*>(k.data) + part * 64 * int64_t(byte_size(t)), v.data = static_cast<char*>(v.data) + part * 64 * int64_t(byte_size(t));
      ASSERT_OK(run_plan<FlashSdpa>(half.d, {full.q, k, v, half.y, half.lse, {}, {}, {}, {}}));
      for (int64_t i = 0; i < half.y.numel(); ++i) y[size_t(i)] += std::exp(half.lse.at(i / 8) - full.lse.at(i / 8)) * half.y.at(i);
    }
    EXPECT_CLOSE(full.y, y, {.ulps = 8, .terms = 64, .condition = 4});
  }
}
TEST(Attention, InfiniteAndNanScores) {
  Sdpa c(shape(DType::f32, 1, 1, 1, 3, 40, 4), 6);
  for (int64_t e = 0; e < 4; ++e) c.q.set(e, NAN), c.q.set(4 + e, 1e30);
  ASSERT_OK(c.forward());
  for (int64_t e = 0; e < 4; ++e) EXPECT_TRUE(std::isnan(c.y.at(e)) && std::isfinite(c.y.at(4 + e)) && std::isfinite(c.y.at(8 + e)));
  EXPECT_TRUE(std::isnan(c.lse.at(0)));
  const uint32_t payload = 0x7fc00001;  // a NaN of another payload stays NaN through the exponential
  float odd;
  std::memcpy(&odd, &payload, 4);
  for (int64_t e = 0; e < 4; ++e) c.q.view().as<float>()[e] = odd;
  ASSERT_OK(c.forward());
  EXPECT_TRUE(std::isnan(c.y.at(0)));
}

// Scores that grow with the key, past what weights by an early score can hold: results are right, and such a row shows in no other.
TEST(Attention, GrowingScores) {
  for (DType t : kDTypesHere)
    for (int64_t w : {24, 128})
      for (double step : {0.5, 4.0, -4.0}) {  // below 0: ALiBi, whose slope the scores of older keys outweigh
        SdpaDescriptor d = shape(t, 1, 1, 1, 140, 420, w);
        d.causal = true, d.scale = 1, d.alibi = step < 0;
        Sdpa grown(d, 27, 0.3), plain(d, 27, 0.3);
        for (Sdpa* c : {&grown, &plain}) {
          for (int64_t j = 0; j < 420; ++j) c->k.set(j * w, step * double(j));
          for (int64_t i = 0; i < 140; ++i) c->q.set(i * w, c == &grown && i % 3 ? i % 3 : 0);
        }
        ASSERT_OK(grown.forward());
        ASSERT_OK(plain.forward());
        const SdpaTruth truth = sdpa_truth(grown);
        Tolerance tolerance{.dtype = t, .ulps = 1, .terms = double(truth.terms)};
        EXPECT_CLOSE(grown.y, truth.y, tolerance, &truth.y_scale);
        tolerance.dtype = accumulator(t);
        EXPECT_CLOSE(grown.lse, truth.lse, tolerance, &truth.lse_scale);
        for (int64_t i = 0; i < 140; i += 3) {
          for (int64_t e = 0; e < w; ++e) EXPECT_EQ(grown.y.at(i * w + e), plain.y.at(i * w + e)) << name(t) << " " << i;
          EXPECT_EQ(grown.lse.at(i), plain.lse.at(i)) << name(t) << " " << i;
        }
        Sdpa dirty(d, 27, 0.3);
        for (int64_t i = 0; i < 420; ++i) dirty.k.set(i * w, grown.k.at(i * w));
        for (int64_t i = 0; i < 140; ++i) dirty.q.set(i * w, grown.q.at(i * w));
        dirty.v.set(400 * w + 5, NAN);  // queries from 120 on see key 400
        ASSERT_OK(dirty.forward());
        for (int64_t i = 0; i < 140 * w; ++i) {
          if (i / w >= 120 && i % w == 5) EXPECT_TRUE(std::isnan(dirty.y.at(i)));
          else EXPECT_EQ(dirty.y.at(i), grown.y.at(i)) << name(t) << " " << i;
        }
      }
}

// --- guarantees
TEST(Attention, GradientsByDirections) {
  SdpaDescriptor d = shape(DType::f64, 1, 4, 2, 9, 12, 6, 5);
  d.causal = true, d.softcap = 3, d.alibi = true, d.bias_shape = {1, 4, 1, 12};
  Sdpa c(d, 31);
  ASSERT_OK(c.forward());
  ASSERT_OK(c.backward());
  Tensor y(DType::f64, c.y.shape());
  auto loss = [&] {
    FlashSdpa::Args a = c.forward_args();
    a.y = y, a.lse = {};
    EXPECT_OK(run_plan<FlashSdpa>(d, a));
    double sum = 0;
    for (int64_t i = 0; i < y.numel(); ++i) sum += y.at(i) * c.dy.at(i);
    return sum;
  };
  check_directional(loss, c.q, c.dq, 1);
  check_directional(loss, c.k, c.dk, 2);
  check_directional(loss, c.v, c.dv, 3);
  check_directional(loss, c.bias, c.dbias, 4);
}
TEST(Attention, Contract) {
  for (DType t : kDTypesHere) {
    SdpaDescriptor d = shape(t, 2, 4, 2, 140, 160, 16);
    d.causal = true;
    Sdpa c(d, 3);
    check_repeat_bits<FlashSdpa>(d, c.forward_args());
    check_repeat_bits<FlashSdpaBackward>(d, c.backward_args());
    if (t != DType::bf16) continue;
    check_contract<FlashSdpa>(d, c.forward_args());
    check_contract<FlashSdpaBackward>(d, c.backward_args());
  }
}
TEST(Attention, case_dq_determinism) {
  SdpaDescriptor d = shape(DType::bf16, 2, 4, 2, 200, 200, 128);  // smaller than the case: 32 runs
  d.causal = true;
  Sdpa c(d, 3);
  ASSERT_OK(c.forward());
  check_repeat_bits<FlashSdpaBackward>(d, c.backward_args(), {}, 8);
}
TEST(Attention, case_dq_determinism_local) {
  for (int64_t width : {32, 256})
    for (bool capped : {true, false}) {
      SdpaDescriptor d = shape(DType::bf16, 1, 4, 1, 150, 150, width);
      d.window_left = 64, d.window_right = 0, d.softcap = capped ? 30 : 0, d.alibi = !capped;
      Sdpa c(d, 3);
      ASSERT_OK(c.forward());
      check_repeat_bits<FlashSdpaBackward>(d, c.backward_args(), {}, 2);
    }
}
TEST(Attention, FlopsCountVisiblePairs) {
  const int64_t far = std::numeric_limits<int64_t>::max();
  for (const bool causal : {false, true})
    for (const CausalAlign align : {CausalAlign::bottom_right, CausalAlign::top_left})
      for (const int64_t left : {int64_t(-1), int64_t(0), int64_t(2), far})
        for (const int64_t right : {int64_t(-1), int64_t(0), int64_t(3), far}) {
          const SdpaDescriptor d{.batch = 2, .heads = 3, .q_len = 5, .k_len = 9, .head_dim = 4, .head_dim_v = 6, .causal = causal, .align = align,
                                 .window_left = left, .window_right = right};
          int64_t pairs = 0;
          for (int64_t i = 0; i < 5; ++i)
            for (int64_t j = 0; j < 9; ++j) {
              const int64_t p = align == CausalAlign::top_left ? i : i + 4;
              pairs += !((causal && j > p) || (left >= 0 && p - j > left) || (right >= 0 && j - p > right));
            }
          EXPECT_EQ(FlashSdpa::flops(d), double(2 * 3 * pairs * 2 * (4 + 6))) << describe(d);
          EXPECT_EQ(FlashSdpaBackward::flops(d), double(2 * 3 * pairs * (6 * 4 + 4 * 6))) << describe(d);
        }
  EXPECT_EQ(FlashSdpa::flops({.heads = 2, .q_len = 3, .k_len = 3, .varlen = true}), 0);
}
TEST(Attention, KeyPartsAddUp) {  // long keys and few heads: dq comes from several parts
  for (DType t : {DType::f32, DType::bf16}) {
    SdpaDescriptor d = shape(t, 1, 2, 1, 60, 2300, 16);
    d.causal = true;
    Sdpa c(d, 5);
    check_sdpa(c);
    check_repeat_bits<FlashSdpaBackward>(d, c.backward_args(), {}, 1);
  }
}
TEST(Attention, case_grid_65536) {  // many items or heads, short sequences: the last equals a small run
  for (bool batch : {true, false}) {
    const SdpaDescriptor d = shape(DType::f32, batch ? 65536 : 1, batch ? 1 : 65536, 0, 10, 10, 2), one = shape(DType::f32, 1, 1, 1, 10, 10, 2);
    Sdpa c(d, 5), s(one, 5);
    ASSERT_OK(c.forward());
    ASSERT_OK(c.backward());
    const int64_t at = 65535 * 20;
    for (auto [from, to] : {std::pair{&c.q, &s.q}, {&c.k, &s.k}, {&c.v, &s.v}, {&c.dy, &s.dy}})
      for (int64_t i = 0; i < 20; ++i) to->set(i, from->at(at + i));
    ASSERT_OK(s.forward());
    ASSERT_OK(s.backward());
    for (int64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(c.y.at(at + i), s.y.at(i));
      EXPECT_EQ(c.dq.at(at + i), s.dq.at(i));
      EXPECT_EQ(c.dk.at(at + i), s.dk.at(i));
    }
  }
}
TEST(Attention, case_attn_2g_offset) {  // rows 2^30 elements apart, so that offsets pass 2^31; only their pages exist
  if (on_cuda()) GTEST_SKIP() << "a copy of the 6 GiB between the rows; the cases of tools/gpu_bench.py have such rows";
  constexpr int64_t far = int64_t(1) << 30, rows = 4, width = 16;
  const SdpaDescriptor d{.dtype = DType::bf16, .batch = 1, .heads = 1, .q_len = 4, .k_len = 4, .head_dim = width, .causal = true, .varlen = true,
                         .total_q = rows, .total_k = rows};
  Sdpa want(d, 3);
  want.lengths({0, 4}, {0, 4});
  ASSERT_OK(want.forward());
  ASSERT_OK(want.backward());
  const size_t bytes = size_t((rows - 1) * far + 8 * width) * 2;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  int64_t next = 0;
  auto view = [&](const Tensor* from) {  // 8 tensors side by side
    TensorView v{static_cast<bf16*>(memory) + width * next++, DType::bf16, {}, {rows, 1, width}, {far, width, 1}};
    if (from) put_bytes(v, bytes_of(*from));
    return v;
  };
  const TensorView q = view(&want.q), k = view(&want.k), v = view(&want.v), dy = view(&want.dy), y = view(nullptr), dq = view(nullptr),
                   dk = view(nullptr), dv = view(nullptr);
  Tensor lse(DType::f32, {1, 4});
  EXPECT_OK(run_plan<FlashSdpa>(d, {q, k, v, y, lse, {}, {}, want.cu_q, want.cu_k}));
  EXPECT_OK(run_plan<FlashSdpaBackward>(d, {dy, q, k, v, y, lse, dq, dk, dv, {}, {}, {}, want.cu_q, want.cu_k}));
  EXPECT_TRUE(bytes_of(y) == bytes_of(want.y) && bytes_of(dq) == bytes_of(want.dq) && bytes_of(dk) == bytes_of(want.dk) && bytes_of(dv) == bytes_of(want.dv));
  munmap(memory, bytes);
}
TEST(Attention, case_d256_shared_memory) {
  SdpaDescriptor d = shape(DType::bf16, 1, 1, 1, 256, 256, 256);
  d.causal = true;
  check_sdpa(Sdpa(d, 4));
}
TEST(Attention, case_ptxas_race) {  // partial blocks read nothing that was not written: any scratch gives the same bits (on CUDA run_on brings its own)
  for (DType t : kDTypesHere) {
    SdpaDescriptor d = shape(t, 1, 2, 1, 67, 131, 19);
    d.causal = true;
    Sdpa c(d, 4);
    const Stream stream = test_stream();
    auto forward = FlashSdpaPlan::select(stream, d);
    auto backward = FlashSdpaBackwardPlan::select(stream, d);
    ASSERT_TRUE(forward.ok() && backward.ok());
    ScratchArena arena;
    std::vector<uint8_t> first;
    for (int fill : {0, 0xff, 0x3f}) {
      const Workspace w = arena.get(std::max(forward->workspace_size(), backward->workspace_size())).value();
      std::memset(w.data, fill, w.bytes);
      ASSERT_OK(run_on(*forward, stream, w, c.forward_args()));
      std::memset(w.data, fill, w.bytes);
      ASSERT_OK(run_on(*backward, stream, w, c.backward_args()));
      std::vector<uint8_t> all;
      for (const Tensor* x : {&c.y, &c.lse, &c.dq, &c.dk, &c.dv})
        for (uint8_t b : x->element_bytes()) all.push_back(b);
      if (first.empty()) first = all;
      EXPECT_TRUE(all == first) << name(t) << " " << fill;
    }
  }
}
TEST(Attention, EveryInstructionSet) {
  if (on_cuda()) GTEST_SKIP() << "of the CPU";
  const Isa best = isa();
  limit_amx(false);
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512, best}) {
    limit_isa(set);
    for (DType t : kDTypesHere)
      for (bool variant : {false, true}) {
        SdpaDescriptor d = shape(t, 1, 2, 1, 45, 140, 20);
        d.causal = true, d.softcap = variant ? 2 : 0, d.alibi = variant;
        check_sdpa(Sdpa(d, 12));
      }
  }
  limit_isa(best), limit_amx(true);
}

}  // namespace
}  // namespace baracuda
