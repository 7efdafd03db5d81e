// cuDNN's rows, where there is a device and the library; what they refuse, everywhere.
#include "baracuda/ops/attention/attention_oracle.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr PlanPreference kForward{.require_backend = Backend::cudnn};
constexpr PlanPreference kBackward{.require_backend = Backend::cudnn, .allow_nondeterministic = true};

class AttentionCudnn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!on_cuda()) GTEST_SKIP() << "cuDNN's rows are of the CUDA half";
    const auto plan = FlashSdpaPlan::select(test_stream(), {.dtype = DType::bf16, .q_len = 128, .k_len = 128, .head_dim = 64}, kForward);
    for (const char* absent : {"libcudnn.so.9 was not found", "this build has no cuDNN"})
      if (!plan.ok() && plan.status().message().find(absent) != std::string::npos) GTEST_SKIP() << plan.status().message();
    ASSERT_TRUE(plan.ok()) << plan.status().message();
  }
};
Sdpa by_cudnn(const SdpaDescriptor& d, uint64_t seed, double spread = 1) {
  Sdpa c(d, seed, spread);
  c.preference = kForward, c.backward_preference = kBackward;
  return c;
}
void check_by_cudnn(SdpaDescriptor d, uint64_t seed, std::initializer_list<DType> dtypes = {DType::f16, DType::bf16}) {
  for (DType t : dtypes) {
    d.dtype = t;
    check_sdpa(by_cudnn(d, seed));
  }
}

TEST_F(AttentionCudnn, Formula) {
  check_by_cudnn({.batch = 2, .heads = 2, .q_len = 256, .k_len = 256, .head_dim = 64}, 1);
  check_by_cudnn({.heads = 3, .q_len = 128, .k_len = 384, .head_dim = 128}, 2);
  check_by_cudnn({.heads = 2, .q_len = 150, .k_len = 333, .head_dim = 72}, 3);
}
TEST_F(AttentionCudnn, SmallAndOdd) {
  check_by_cudnn({.q_len = 1, .k_len = 1, .head_dim = 8}, 4);
  check_by_cudnn({.heads = 2, .q_len = 3, .k_len = 5, .head_dim = 16}, 5);
  check_by_cudnn({.heads = 2, .q_len = 1, .k_len = 300, .head_dim = 64, .causal = true}, 6);
  check_by_cudnn({.heads = 2, .q_len = 129, .k_len = 257, .head_dim = 40}, 7);
}
TEST_F(AttentionCudnn, Causal) {
  for (CausalAlign align : {CausalAlign::bottom_right, CausalAlign::top_left})
    for (auto [sq, sk] : {std::pair<int64_t, int64_t>{256, 256}, {100, 300}, {333, 333}})
      check_by_cudnn({.heads = 2, .q_len = sq, .k_len = sk, .head_dim = 64, .causal = true, .align = align}, 8);
  check_by_cudnn({.heads = 2, .q_len = 300, .k_len = 140, .head_dim = 64, .causal = true, .align = CausalAlign::top_left}, 9);
}
TEST_F(AttentionCudnn, SharedHeads) {
  check_by_cudnn({.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 200, .k_len = 200, .head_dim = 64, .causal = true}, 10);
  check_by_cudnn({.heads = 8, .kv_heads = 1, .q_len = 128, .k_len = 256, .head_dim = 128}, 11);
}
TEST_F(AttentionCudnn, OtherWidths) {
  for (auto [d, dv] : {std::pair<int64_t, int64_t>{128, 64}, {64, 128}, {192, 128}, {96, 96}, {160, 160}, {256, 256}})
    check_by_cudnn({.heads = 2, .q_len = 150, .k_len = 200, .head_dim = d, .head_dim_v = dv, .causal = true}, 12, {DType::bf16});
}
TEST_F(AttentionCudnn, Windows) {
  for (CausalAlign align : {CausalAlign::bottom_right, CausalAlign::top_left})
    for (auto [left, right] : {std::pair<int64_t, int64_t>{40, 0}, {0, 0}, {70, 9}, {-1, 20}, {130, -1}, {INT64_MAX, 0}})
      check_by_cudnn({.heads = 2, .q_len = 256, .k_len = 320, .head_dim = 64, .align = align, .window_left = left, .window_right = right}, 13,
                     {align == CausalAlign::top_left ? DType::f16 : DType::bf16});
}
TEST_F(AttentionCudnn, ScaleAndSpread) {
  check_sdpa(by_cudnn({.dtype = DType::bf16, .heads = 2, .q_len = 128, .k_len = 200, .head_dim = 64, .scale = 0.5}, 14));
  check_sdpa(by_cudnn({.dtype = DType::bf16, .heads = 2, .q_len = 128, .k_len = 200, .head_dim = 64, .causal = true}, 15, 3));
}
// [B, S, H, D] memory as a view [B, H, S, D].
TensorView heads_last(const Tensor& t, int64_t b, int64_t h, int64_t s, int64_t d) {
  TensorView v = t;
  v.shape = {b, h, s, d}, v.strides = {s * h * d, d, h * d, 1};
  return v;
}
TEST_F(AttentionCudnn, HeadsLast) {
  SdpaDescriptor d{.dtype = DType::bf16, .batch = 2, .heads = 4, .kv_heads = 2, .q_len = 160, .k_len = 160, .head_dim = 64, .causal = true};
  Sdpa c = by_cudnn(d, 16);
  const SdpaTruth truth = sdpa_truth(c);
  Tensor q(d.dtype, {2, 160, 4, 64}), k(d.dtype, {2, 160, 2, 64}), v(d.dtype, {2, 160, 2, 64}), y(d.dtype, {2, 160, 4, 64}), dy(d.dtype, {2, 160, 4, 64}), dq(d.dtype, {2, 160, 4, 64}),
      dk(d.dtype, {2, 160, 2, 64}), dv(d.dtype, {2, 160, 2, 64});
  const auto many = [](const Tensor& t) { return heads_last(t, 2, 4, 160, 64); };
  const auto few = [](const Tensor& t) { return heads_last(t, 2, 2, 160, 64); };
  put_bytes(many(q), bytes_of(c.q)), put_bytes(few(k), bytes_of(c.k)), put_bytes(few(v), bytes_of(c.v)), put_bytes(many(dy), bytes_of(c.dy));
  ASSERT_OK(run_plan<FlashSdpa>(d, {many(q), few(k), few(v), many(y), c.lse, {}, {}, {}, {}}, c.preference));
  ASSERT_OK(run_plan<FlashSdpaBackward>(d, {many(dy), many(q), few(k), few(v), many(y), c.lse, many(dq), few(dk), few(dv), {}, {}, {}, {}, {}}, c.backward_preference));
  put_bytes(c.y, bytes_of(many(y))), put_bytes(c.dq, bytes_of(many(dq))), put_bytes(c.dk, bytes_of(few(dk))), put_bytes(c.dv, bytes_of(few(dv)));
  const Tolerance tolerance{.dtype = d.dtype, .ulps = 1, .terms = double(truth.terms)};
  EXPECT_CLOSE(c.y, truth.y, tolerance, &truth.y_scale);
  EXPECT_CLOSE(c.dq, truth.dq, tolerance, &truth.dq_scale);
  EXPECT_CLOSE(c.dk, truth.dk, tolerance, &truth.dk_scale);
  EXPECT_CLOSE(c.dv, truth.dv, tolerance, &truth.dv_scale);
}
TEST_F(AttentionCudnn, WithoutLse) {
  const SdpaDescriptor d{.dtype = DType::bf16, .heads = 2, .q_len = 130, .k_len = 130, .head_dim = 64, .causal = true};
  Sdpa c = by_cudnn(d, 17);
  ASSERT_OK(c.forward());
  const Tensor y = Tensor(d.dtype, c.y.shape());
  FlashSdpa::Args a = c.forward_args();
  a.y = y, a.lse = {};
  ASSERT_OK(run_plan<FlashSdpa>(d, a, c.preference));
  EXPECT_TRUE(c.y.same_bits(y));
}
TEST_F(AttentionCudnn, RefusesOtherArrangements) {
  const SdpaDescriptor d{.dtype = DType::bf16, .batch = 2, .heads = 2, .q_len = 128, .k_len = 128, .head_dim = 64};
  Sdpa c = by_cudnn(d, 18);
  const Tensor wide(d.dtype, {2, 2, 128, 80}), apart(d.dtype, {2, 128, 2, 64});
  FlashSdpa::Args a = c.forward_args();
  a.q = wide, a.q.shape[3] = 64;
  expect_refused(run_plan<FlashSdpa>(d, a, c.preference), Code::unsupported, {"flash_sdpa", "without gaps"});
  a = c.forward_args(), a.k = heads_last(apart, 2, 2, 128, 64);
  expect_refused(run_plan<FlashSdpa>(d, a, c.preference), Code::unsupported, {"flash_sdpa", "all as [batch, row, head, element]"});
  FlashSdpaBackward::Args b = c.backward_args();
  b.dv = heads_last(apart, 2, 2, 128, 64);
  expect_refused(run_plan<FlashSdpaBackward>(d, b, c.backward_preference), Code::unsupported, {"flash_sdpa_backward", "all as [batch, row, head, element]"});
}
TEST_F(AttentionCudnn, SameBitsAgain) {
  const SdpaDescriptor d{.dtype = DType::f16, .batch = 2, .heads = 4, .kv_heads = 2, .q_len = 300, .k_len = 300, .head_dim = 64, .causal = true};
  const Sdpa c = by_cudnn(d, 19);
  check_repeat_bits<FlashSdpa>(d, c.forward_args(), c.preference, 20);
}
TEST_F(AttentionCudnn, RefusesProblems) {
  const SdpaDescriptor ok{.dtype = DType::bf16, .heads = 2, .q_len = 128, .k_len = 128, .head_dim = 64};
  const auto with = [&](auto change) {
    SdpaDescriptor d = ok;
    change(d);
    return d;
  };
  struct { SdpaDescriptor d; std::string_view text; } cases[] = {
      {with([](auto& d) { d.dtype = DType::f32; }), "no f32"},
      {with([](auto& d) { d.softcap = 3; }), "without softcap"},
      {with([](auto& d) { d.alibi = true; }), "without softcap, ALiBi"},
      {with([](auto& d) { d.bias_shape = {1, 1, 1, 128}; }), "ALiBi and bias"},
      {with([](auto& d) { d.varlen = true, d.total_q = d.total_k = 128; }), "of one length"},
      {with([](auto& d) { d.head_dim = 60; }), "multiples of 8"},
      {with([](auto& d) { d.k_len = 0; }), "not empty"},
      {with([](auto& d) { d.scale = -0.5; }), "scale above 0"},
      {with([](auto& d) { d.q_len = 129, d.causal = true; }), "as many keys as queries"},
      {with([](auto& d) { d.q_len = 129, d.window_left = 5, d.align = CausalAlign::top_left; }), "as many keys as queries"},
      {with([](auto& d) { d.q_len = 1 << 24; }), "2^24 rows"}};
  for (const auto& e : cases) {
    expect_refused(FlashSdpaPlan::select(test_stream(), e.d, kForward).status(), Code::unsupported, {"flash_sdpa.cuda.cudnn", e.text});
    expect_refused(FlashSdpaBackwardPlan::select(test_stream(), e.d, kBackward).status(), Code::unsupported, {"flash_sdpa_backward.cuda.cudnn", e.text});
  }
  expect_refused(FlashSdpaBackwardPlan::select(test_stream(), ok, kForward).status(), Code::unsupported, {"flash_sdpa_backward.cuda.cudnn: not deterministic"});
}
TEST(AttentionCudnnAsked, NeverUnasked) {
  for (DType t : {DType::f16, DType::bf16}) {
    const SdpaDescriptor d{.dtype = t, .heads = 2, .q_len = 256, .k_len = 256, .head_dim = 64};
    const auto forward = FlashSdpaPlan::select(test_stream(), d, {.allow_nondeterministic = true});
    const auto backward = FlashSdpaBackwardPlan::select(test_stream(), d, {.allow_nondeterministic = true});
    ASSERT_TRUE(forward.ok() && backward.ok());
    EXPECT_EQ(forward->backend(), Backend::baracuda);
    EXPECT_EQ(backward->backend(), Backend::baracuda);
  }
}

}  // namespace
}  // namespace baracuda
