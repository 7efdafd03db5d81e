// Promises: chunks, workspace, bits, refusals, the scaling backward.
#include "baracuda/ops/gemm/gemm.hpp"
#include "baracuda/ops/loss/fused_loss_oracle.hpp"

namespace baracuda {
namespace {

using namespace testing;

TEST(FusedLinearCrossEntropyChunk, Rule) {
  static_assert(fused_loss_chunk_rule(16384, 4096, 32000) == 2048);
  static_assert(fused_loss_chunk_rule(128, 4096, 1000) == 128);
  static_assert(fused_loss_chunk_rule(16384, 4096, 131072) == 512);
  static_assert(fused_loss_chunk_rule(0, 4096, 1000) == 1);
  static_assert(fused_loss_chunk_rule(1 << 20, 4096, 1000) == 2048);
  static_assert(fused_loss_chunk_rule(INT64_MAX, 1, 1) == 2048);
}
TEST(FusedLinearCrossEntropyChunk, PlanTellsItAndTheWorkspaceFollows) {
  auto plan = [](FusedDescriptor d, uint64_t most = UINT64_MAX) { return FusedLinearCrossEntropyPlan::select(Stream::cpu(), d, {.max_workspace = most}); };
  FusedDescriptor d{.dtype = DType::bf16, .tokens = 16384, .hidden = 4096, .classes = 131072, .grad_x = true, .grad_w = true};
  auto whole = plan(d);
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  EXPECT_EQ(chunk_rows(*whole), 512);
  const struct { int64_t tokens, hidden, classes, rows; } shapes[] = {{16384, 4096, 32000, 2048}, {128, 4096, 1000, 128}, {2048, 512, 32000, 1024},
                                                                      {2048, 512, 50304, 512},    {100, 512, 32000, 128}, {1, 8, 8, 1}};
  for (const auto& s : shapes)
    EXPECT_EQ(chunk_rows(*plan({.tokens = s.tokens, .hidden = s.hidden, .classes = s.classes, .grad_x = true})), s.rows);
  for (int64_t chunk : {1, 100, 4096}) {
    FusedDescriptor own = d;
    own.chunk = chunk;
    EXPECT_EQ(chunk_rows(*plan(own)), chunk);
  }
  auto smaller = plan(d, whole->workspace_size() - 1);
  ASSERT_TRUE(smaller.ok());
  EXPECT_LT(chunk_rows(*smaller), 512);
  EXPECT_LT(smaller->workspace_size(), whole->workspace_size());
  d.chunk = 512;  // a chunk that is given is kept
  expect_refused(plan(d, whole->workspace_size() - 1).status(), Code::unsupported, {"needs", "workspace"});
  d.chunk = 0;
  expect_refused(plan(d, 1 << 20).status(), Code::unsupported, {"fused_linear_cross_entropy.cpu.chunked", "needs", "1048576"});
  d.tokens = 0;
  EXPECT_EQ(chunk_rows(*plan(d)), 1);
  EXPECT_EQ(plan(d)->workspace_size(), 0u);
}
TEST(FusedLinearCrossEntropyChunk, case_flce_memory) {
  FusedDescriptor d{.dtype = DType::bf16, .tokens = 81920, .hidden = 4096, .classes = 128256, .grad_x = true, .grad_w = true};
  auto plan = FusedLinearCrossEntropyPlan::select(Stream::cpu(), d);
  ASSERT_TRUE(plan.ok());
  const uint64_t logits = uint64_t(chunk_rows(*plan)) * 128256 * 4, dw = uint64_t(128256) * 4096 * 4;
  EXPECT_GE(plan->workspace_size(), logits + dw);
  EXPECT_LE(plan->workspace_size(), logits + dw + (uint64_t(256) << 20));
  uint64_t items = 0;
  bool seen = false;
  for (const WorkspaceItem& i : plan->workspace_items()) items += i.bytes, seen |= i.name == "logits" && i.bytes >= logits && i.bytes <= logits + (logits >> 8);
  EXPECT_TRUE(seen);
  EXPECT_LE(items, plan->workspace_size());
  d.dw_dtype = DType::f32;  // no copy of dw then
  auto direct = FusedLinearCrossEntropyPlan::select(Stream::cpu(), d, {.max_workspace = uint64_t(200) << 20});
  ASSERT_TRUE(direct.ok()) << direct.status().to_string();
  EXPECT_LE(direct->workspace_size(), uint64_t(200) << 20);
}
TEST(FusedLinearCrossEntropyChunk, SmallerWorkspaceSameValues) {
  FusedDescriptor d{.tokens = 512, .hidden = 16, .classes = 300, .grad_x = true, .grad_w = true};
  d.chunk = 512;
  const uint64_t all = FusedLinearCrossEntropyPlan::select(Stream::cpu(), d)->workspace_size();
  d.chunk = 0;
  const FusedCase c = fused_case(d, 1, 5);
  const FusedWant want = fused_oracle(c);
  for (uint64_t most : {all, all / 2, all / 4}) {
    const FusedOutputs o = fused_outputs(d);
    const Status s = run_fused(c, o, {.max_workspace = most});
    if (!s.ok()) continue;
    expect_fused(c, o, want);
  }
  EXPECT_TRUE(FusedLinearCrossEntropyPlan::select(Stream::cpu(), d, {.max_workspace = all / 2}).ok());
}
// The loss alone, chunk by chunk of the classes: bit for bit that of whole rows of logits.
TEST(FusedLinearCrossEntropyChunk, StreamedSameBits) {
  const PlanPreference chunked{.require_kernel = "fused_linear_cross_entropy.cpu.chunked"}, streamed{.require_kernel = "fused_linear_cross_entropy.cpu.streamed"};
  if (const auto plan = FusedLinearCrossEntropyPlan::select(test_stream(), {.tokens = 96}, streamed); !plan.ok()) GTEST_SKIP() << plan.status().to_string();
  const struct { int64_t tokens, hidden, classes; } shapes[] = {{130, 40, 2500}, {96, 1, 1024}, {200, 900, 1100}, {4200, 3, 1026}, {257, 33, 77}};
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (const auto& s : shapes)
      for (int option = 0; option < 4; ++option) {
        FusedDescriptor d{.dtype = t, .tokens = s.tokens, .hidden = s.hidden, .classes = s.classes};
        d.reduction = Reduction(option % 3);
        if (option & 1) d.bias = true, d.label_smoothing = 0.1, d.z_loss = 0.01;
        if (option & 2) d.softcap = 4, d.target_dtype = DType::i32;
        FusedCase c = fused_case(d, uint64_t(option), option == 0 ? 0 : 3, option == 1, false, option == 2 ? Layout::padded : Layout::dense);
        if (option == 3) c.target[1] = s.classes;
        if (option == 1)  // whole chunks that are hidden, and a part of one
          for (int64_t j = 0; j < s.classes - 10; ++j)
            if (j / 512 % 3 != 0) c.bias.set(j, -INFINITY);
        SCOPED_TRACE(describe(d));
        ASSERT_EQ(FusedLinearCrossEntropyPlan::select(Stream::cpu(), d)->sku().kernel, streamed.require_kernel);
        const FusedOutputs o = fused_outputs(d), want = fused_outputs(d);
        ASSERT_OK(run_fused(c, o));
        ASSERT_OK(run_fused(c, want, chunked));
        EXPECT_TRUE(o.loss.same_bits(want.loss) && o.z_part.same_bits(want.z_part));
        if (s.tokens * s.classes > 400000 || option % 2 == 0) continue;
        if (option == 3 && s.hidden < 100) expect_fused(c, o, fused_oracle(c));
        const Tensor target = target_tensor(c.target, d.target_dtype);
        check_repeat_bits<FusedLinearCrossEntropy>(d, {c.x, c.w, c.bias, target, c.weights, {}, o.loss, o.z_part, {}, {}, {}}, streamed, 2);
      }
  FusedDescriptor d{.dtype = DType::bf16, .tokens = 200, .hidden = 64, .classes = 900};
  const auto takes = [&](const PlanPreference& p) { return FusedLinearCrossEntropyPlan::select(Stream::cpu(), d, p)->sku().kernel; };
  const uint64_t bytes = FusedLinearCrossEntropyPlan::select(Stream::cpu(), d)->workspace_size();
  EXPECT_EQ(takes({.max_workspace = bytes}), streamed.require_kernel);
  EXPECT_EQ(takes({.max_workspace = bytes - 1}), chunked.require_kernel);
  d.chunk = 128;
  EXPECT_EQ(takes({}), chunked.require_kernel);
}
// Where chunks and sums of dw do not fit: chunks for dx, slices of the classes for dw.
TEST(FusedLinearCrossEntropyChunk, SlicesWhereChunksDoNotFit) {
  if (!on_cuda()) GTEST_SKIP() << "slices are CUDA's";
  for (int option = 0; option < 6; ++option) {
    FusedDescriptor d{.dtype = DType::bf16, .tokens = 300, .hidden = 16, .classes = option == 3 ? 257 : 700, .grad_x = option != 4, .grad_w = true};
    d.reduction = Reduction((option + 1) % 3);
    if (option == 2) d.bias = d.grad_bias = true, d.softcap = 4, d.label_smoothing = 0.1, d.z_loss = 0.01;
    d.accumulate = option == 2 || option == 5;
    d.target_dtype = option & 1 ? DType::i32 : DType::i64;
    FusedCase c = fused_case(d, uint64_t(option), option % 2 ? 3 : 0, option >= 2, option >= 2);
    if (option == 1) c.target[7] = 700, c.target[290] = -1;
    const PlanPreference little{.max_workspace = option == 3 ? 150000u : 200000u};
    auto plan = FusedLinearCrossEntropyPlan::select(test_stream(), d, little);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    bool lse = false, sums = false;
    for (const WorkspaceItem& i : plan->workspace_items()) lse |= i.name == "lse", sums |= i.name == "sums of dw";
    EXPECT_TRUE(lse && !sums) << option << ": " << plan->workspace_size();
    EXPECT_LE(plan->workspace_size(), little.max_workspace);
    const FusedOutputs o = fused_outputs(d);
    const auto dw = d.accumulate ? o.dw.values() : std::vector<double>(), dbias = d.accumulate && d.grad_bias ? o.dbias.values() : std::vector<double>();
    ASSERT_OK(run_fused(c, o, little));
    expect_fused(c, o, fused_oracle(c), dw, dbias);
    const Tensor target = target_tensor(c.target, d.target_dtype);
    check_repeat_bits<FusedLinearCrossEntropy>(d, {c.x, c.w, c.bias, target, c.weights, c.dloss, o.loss, o.z_part, o.dx, o.dw, o.dbias}, little, 2);
  }
}
// A dw that is rounded at the end holds the logits of chunks of 640 rows, where the workspace holds 512; one with a pitch does not.
TEST(FusedLinearCrossEntropyChunk, LogitsInDw) {
  if (!on_cuda()) GTEST_SKIP() << "chunks in dw are CUDA's";
  const FusedDescriptor d{.dtype = DType::bf16, .tokens = 1400, .hidden = 700, .classes = 300, .bias = true, .grad_x = true, .grad_w = true, .grad_bias = true};
  PlanPreference row = kEveryRow;
  for (row.max_workspace = uint64_t(8) << 20; row.max_workspace > 100000; row.max_workspace -= 20000)
    if (const auto plan = FusedLinearCrossEntropyPlan::select(test_stream(), d, row); plan.ok() && chunk_rows(*plan) == 512) break;
  const auto plan = FusedLinearCrossEntropyPlan::select(test_stream(), d, row);
  ASSERT_TRUE(plan.ok() && chunk_rows(*plan) == 512) << row.max_workspace;
  const FusedCase c = fused_case(d, 3, 4);
  const FusedWant want = fused_oracle(c);
  for (Layout layout : {Layout::dense, Layout::padded}) {
    const FusedOutputs o = fused_outputs(d, layout);
    ASSERT_OK(run_fused(c, o, row));
    expect_fused(c, o, want);
  }
}
// Logits that are never stored: as many slices as the workspace, or dw, asks for, and statistics of some of the rows at a time where all do not fit.
TEST(FusedLinearCrossEntropyChunk, FusedSlices) {
  const FusedDescriptor probe{.dtype = DType::bf16, .tokens = 300, .hidden = 16, .classes = 700, .grad_w = true};
  if (const auto plan = FusedLinearCrossEntropyPlan::select(test_stream(), probe, kFused); !plan.ok()) GTEST_SKIP() << plan.status().to_string();
  for (int option = 0; option < 15; ++option) {
    FusedDescriptor d = probe;
    d.classes = option == 3 ? 257 : option == 7 ? 20000 : 1500, d.grad_x = option != 4;
    d.reduction = Reduction((option + 1) % 3);
    if (option == 2 || option == 7 || option >= 9) d.bias = d.grad_bias = true, d.softcap = option == 9 ? 0 : 4, d.label_smoothing = 0.1, d.z_loss = 0.01;
    if (option % 4 == 1) d.dw_dtype = DType::f32, d.accumulate = option > 4;
    if (option == 8) d.hidden = 13;  // the copy engine cannot read it
    if (option == 10) d.tokens = 1;
    if (option == 11) d.tokens = 129;
    if (option >= 12) d.tokens = 40, d.hidden = 256, d.classes = 6000;  // gradients of wider slices lie in rows of dw, but for 13, which adds to it
    d.target_dtype = option & 1 ? DType::i32 : DType::i64;
    FusedCase c = fused_case(d, uint64_t(option), option % 2 ? 3 : 0, option >= 2, option >= 2);
    if (option == 1) c.target[7] = d.classes, c.target[290] = -1;
    PlanPreference row = kFused;
    uint64_t all = 0;
    for (int part : {1, 2, 4}) {
      if (all) row.max_workspace = all / uint64_t(part);
      const auto plan = FusedLinearCrossEntropyPlan::select(test_stream(), d, row);
      if (all && !plan.ok()) continue;
      ASSERT_TRUE(plan.ok()) << plan.status().to_string();
      all = plan->workspace_size() * uint64_t(part);
      EXPECT_LE(plan->workspace_size(), row.max_workspace);
      const FusedOutputs o = fused_outputs(d);
      const auto dw = d.accumulate ? o.dw.values() : std::vector<double>(), dbias = d.accumulate && d.grad_bias ? o.dbias.values() : std::vector<double>();
      ASSERT_OK(run_fused(c, o, row));
      SCOPED_TRACE(::testing::Message() << "option " << option << " part " << part);
      expect_fused(c, o, fused_oracle(c), dw, dbias);
      if (option == 7) continue;
      const Tensor target = target_tensor(c.target, d.target_dtype);
      check_repeat_bits<FusedLinearCrossEntropy>(d, {c.x, c.w, c.bias, target, c.weights, c.dloss, o.loss, o.z_part, o.dx, o.dw, o.dbias}, row, 2);
    }
  }
}

TEST(FusedLinearCrossEntropyContract, RefusalsOfArguments) {
  for (DType t : {DType::f32, DType::bf16}) {
    FusedDescriptor d{.dtype = t, .tokens = 9, .hidden = 12, .classes = 20, .bias = true, .grad_x = true, .grad_w = true, .grad_bias = true};
    const FusedCase c = fused_case(d, 1, 4, true, true);
    const FusedOutputs o = fused_outputs(d);
    const Tensor target = target_tensor(c.target);
    check_contract<FusedLinearCrossEntropy>(d, {c.x, c.w, c.bias, target, c.weights, c.dloss, o.loss, o.z_part, o.dx, o.dw, o.dbias});
    check_contract<FusedLinearCrossEntropyBackward>(d, {c.dloss, o.dx, o.dw, o.dbias});
  }
  FusedDescriptor d{.tokens = 9, .hidden = 12, .classes = 20, .bias = true, .grad_x = true, .grad_w = true, .grad_bias = true};
  FusedCase c = fused_case(d, 1);
  const FusedOutputs o = fused_outputs(d);
  const Tensor target = target_tensor(c.target);
  using Args = FusedLinearCrossEntropy::Args;
  const Args good{c.x, c.w, c.bias, target, {}, {}, o.loss, o.z_part, o.dx, o.dw, o.dbias};
  auto refused = [&](const FusedDescriptor& desc, auto change, std::initializer_list<std::string_view> fragments) {
    Args a = good;
    change(a);
    expect_refused(run_plan<FusedLinearCrossEntropy>(desc, a), Code::invalid_problem, fragments);
  };
  refused(d, [](Args& a) { a.dx = {}; }, {"dx is missing", "grad_x"});
  refused(d, [](Args& a) { a.dw = {}; }, {"dw is missing", "grad_w"});
  refused(d, [](Args& a) { a.dbias = {}; }, {"dbias is missing", "grad_bias"});
  refused(d, [](Args& a) { a.bias = {}; }, {"bias is missing"});
  refused(d, [](Args& a) { a.dx = a.x; }, {"dx overlaps"});
  refused(d, [](Args& a) { a.dw = a.w; }, {"dw overlaps"});
  refused(d, [](Args& a) { a.x.strides[1] = 2; a.x.shape = {9, 12}; }, {"x has stride 2", "dense"});
  FusedDescriptor less = d;
  less.grad_x = false;
  refused(less, [](Args&) {}, {"dx is given", "grad_x"});
}
TEST(FusedLinearCrossEntropyContract, RefusalsOfDescriptors) {
  const auto refused = [](FusedDescriptor d, std::initializer_list<std::string_view> fragments) {
    expect_refused(FusedLinearCrossEntropyPlan::select(Stream::cpu(), d).status(), Code::invalid_problem, fragments);
    expect_refused(FusedLinearCrossEntropyBackwardPlan::select(Stream::cpu(), d).status(), Code::invalid_problem, fragments);
  };
  const FusedDescriptor good{.tokens = 4, .hidden = 3, .classes = 5};
  auto with = [&](auto change) { FusedDescriptor d = good; change(d); return d; };
  refused(with([](auto& d) { d.hidden = 0; }), {"hidden is 0"});
  refused(with([](auto& d) { d.hidden = INT64_MAX; }), {"exceeds"});
  refused(with([](auto& d) { d.tokens = -2; }), {"tokens is -2"});
  refused(with([](auto& d) { d.classes = 0; }), {"classes is 0"});
  refused(with([](auto& d) { d.chunk = -1; }), {"chunk is -1"});
  refused(with([](auto& d) { d.grad_bias = true; }), {"grad_bias without bias"});
  refused(with([](auto& d) { d.target_dtype = DType::u8; }), {"target_dtype is u8"});
  refused(with([](auto& d) { d.softcap = -1; }), {"softcap is -1"});
  refused(with([](auto& d) { d.label_smoothing = -0.1; }), {"label_smoothing"});
  refused(with([](auto& d) { d.z_loss = INFINITY; }), {"z_loss"});
  expect_refused(FusedLinearCrossEntropyPlan::select(Stream::cpu(), with([](auto& d) { d.dtype = DType::i64; })).status(), Code::unsupported, {"no i64"});
}

TEST(FusedLinearCrossEntropyContract, BitsOverRepeatsAndThreads) {
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (bool accumulate : {false, true}) {
      FusedDescriptor d{.dtype = t, .tokens = 150, .hidden = 64, .classes = 900, .label_smoothing = 0.1, .bias = true, .grad_x = true, .grad_w = true,
                        .grad_bias = true, .accumulate = accumulate, .chunk = 64};
      const FusedCase c = fused_case(d, 1, accumulate ? 3 : 0);
      const FusedOutputs o = fused_outputs(d);
      const Tensor target = target_tensor(c.target);
      // dw and dbias are inout: restored by the check before each run.
      check_repeat_bits<FusedLinearCrossEntropy>(d, {c.x, c.w, c.bias, target, {}, {}, o.loss, o.z_part, o.dx, o.dw, o.dbias}, {}, 2);
    }
}
TEST(FusedLinearCrossEntropyContract, EveryMatrixBackend) {
  for (Backend backend : {Backend::onednn, Backend::cublaslt, Backend::baracuda})
    for (DType t : {DType::bf16, DType::f32}) {
      FusedDescriptor d{.dtype = t, .tokens = 70, .hidden = 32, .classes = 200, .grad_x = true, .grad_w = true, .chunk = 32};
      const FusedCase c = fused_case(d, 1, 4);
      const FusedOutputs o = fused_outputs(d);
      ASSERT_OK(run_fused(c, o, {.prefer_backend = backend}));
      expect_fused(c, o, fused_oracle(c));
      const Tensor target = target_tensor(c.target);
      check_repeat_bits<FusedLinearCrossEntropy>(d, {c.x, c.w, {}, target, {}, {}, o.loss, o.z_part, o.dx, o.dw, {}}, {.prefer_backend = backend}, 1);
    }
}
// The count of kept targets stays on the device: a graph follows the targets that it finds.
TEST(FusedLinearCrossEntropyContract, case_capture_no_sync_fused) {
  if (!on_cuda()) GTEST_SKIP() << "graphs of CUDA";
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    FusedDescriptor d{.dtype = t, .tokens = 40, .hidden = 24, .classes = 70, .bias = true, .grad_x = true, .grad_w = true, .grad_bias = true, .chunk = 16};
    FusedCase c = fused_case(d, 3, 5);
    const FusedOutputs o = fused_outputs(d);
    Tensor target = target_tensor(c.target);
    for (const PlanPreference& row : {PlanPreference{}, kKept, kFused}) {
      if (row == kFused) d.chunk = c.d.chunk = 0;
      auto plan = FusedLinearCrossEntropyPlan::select(test_stream(), d, row);
      if (row != PlanPreference{} && !plan.ok()) continue;
      ASSERT_TRUE(plan.ok()) << plan.status().to_string();
      GuardedWorkspace workspace(plan->workspace_size());
      for (size_t i = 0; i < c.target.size(); ++i) target.set(int64_t(i), double(c.target[i] = i % 5 ? int64_t(i) : -100));
      ASSERT_OK(replay_after(*plan, test_stream(), workspace.get(), {c.x, c.w, c.bias, target, {}, {}, o.loss, o.z_part, o.dx, o.dw, o.dbias}, [&] {
        for (size_t i = 0; i < c.target.size(); ++i) target.set(int64_t(i), double(c.target[i] = i % 3 == 0 ? int64_t(i) : -100));
      }));
      expect_fused(c, o, fused_oracle(c));
    }
  }
}
TEST(FusedLinearCrossEntropyContract, Guarantee) {
  FusedDescriptor d{.dtype = DType::bf16, .tokens = 4, .hidden = 8, .classes = 5};
  auto guarantee = [&] { return FusedLinearCrossEntropyPlan::select(Stream::cpu(), d)->precision_guarantee(); };
  EXPECT_EQ(name(guarantee().math_precision), name(DType::f32));
  EXPECT_TRUE(guarantee().deterministic && !guarantee().batch_invariant);
  d.grad_w = true;  // the gradient of the logits is rounded
  EXPECT_EQ(name(guarantee().math_precision), name(DType::bf16));
  EXPECT_EQ(name(guarantee().accumulator), name(DType::f32));
  d.w_dtype = DType::f32;
  EXPECT_EQ(name(guarantee().math_precision), name(DType::f32));
}
TEST(FusedLinearCrossEntropyContract, OutputsAreOverwritten) {  // poison is NaN: nothing of it may remain
  FusedDescriptor d{.dtype = DType::bf16, .tokens = 40, .hidden = 8, .classes = 30, .bias = true, .grad_x = true, .grad_w = true, .grad_bias = true};
  const FusedCase c = fused_case(d, 1, 2);
  FusedOutputs o = fused_outputs(d);
  for (Tensor* t : {&o.loss, &o.z_part, &o.dx, &o.dw, &o.dbias}) t->poison();
  ASSERT_OK(run_fused(c, o));
  expect_fused(c, o, fused_oracle(c));
}

TEST(FusedLinearCrossEntropyBackward, Scales) {
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    FusedDescriptor d{.dtype = t, .tokens = 5, .hidden = 33, .classes = 7, .bias = true, .grad_x = true, .grad_w = true, .grad_bias = true};
    if (t == DType::bf16) d.dw_dtype = DType::f32;
    const FusedOutputs o = fused_outputs(d);
    Tensor dx = Tensor::normal(t, {5, 33}, 1), dw = Tensor::normal(d.weight_gradient(), {7, 33}, 2), dbias = Tensor::normal(d.weight_gradient(), {7}, 3);
    const auto x0 = dx.values(), w0 = dw.values(), b0 = dbias.values();
    const Tensor g(accumulator(t), {1}, {-3}), one(accumulator(t), {1}, {1});
    ASSERT_OK(run_plan<FusedLinearCrossEntropyBackward>(d, {one, dx, dw, dbias}));  // a factor of 1 changes nothing
    EXPECT_TRUE(dx.values() == x0 && dw.values() == w0 && dbias.values() == b0);
    ASSERT_OK(run_plan<FusedLinearCrossEntropyBackward>(d, {g, dx, dw, dbias, 0.25}));
    for (int64_t i = 0; i < dx.numel(); ++i) EXPECT_EQ(dx.at(i), rounded(t, -0.75 * x0[size_t(i)]));
    for (int64_t i = 0; i < dw.numel(); ++i) EXPECT_EQ(dw.at(i), rounded(d.weight_gradient(), -0.75 * w0[size_t(i)]));
    for (int64_t i = 0; i < dbias.numel(); ++i) EXPECT_EQ(dbias.at(i), rounded(d.weight_gradient(), -0.75 * b0[size_t(i)]));
    ASSERT_OK(run_plan<FusedLinearCrossEntropyBackward>(d, {{}, dx, {}, {}, 2}));  // what is not given is not scaled
    for (int64_t i = 0; i < dw.numel(); ++i) EXPECT_EQ(dw.at(i), rounded(d.weight_gradient(), -0.75 * w0[size_t(i)]));
    check_repeat_bits<FusedLinearCrossEntropyBackward>(d, {g, dx, dw, dbias, 0.3}, {}, 1);
  }
}
TEST(FusedLinearCrossEntropyBackward, Refuses) {
  FusedDescriptor none{.tokens = 5, .hidden = 3, .classes = 7, .reduction = Reduction::none, .grad_x = true};
  expect_refused(FusedLinearCrossEntropyBackwardPlan::select(Stream::cpu(), none).status(), Code::invalid_problem, {"reduction is none", "forward"});
  FusedDescriptor d{.tokens = 5, .hidden = 3, .classes = 7, .grad_w = true, .accumulate = true};
  Tensor dw = Tensor::normal(DType::f32, {7, 3}, 1);
  EXPECT_OK(run_plan<FusedLinearCrossEntropyBackward>(d, {{}, {}, dw, {}, 1}));
  expect_refused(run_plan<FusedLinearCrossEntropyBackward>(d, {{}, {}, dw, {}, 2}), Code::invalid_problem, {"accumulate", "forward"});
}

}  // namespace
}  // namespace baracuda
