// What a C caller may do wrong: every call is refused with words, none crashes, nothing is written.
#include <gtest/gtest.h>
#include <cstring>
#include <string>
#include <thread>
#include <vector>
#include "baracuda.h"
#include "baracuda/core/status.hpp"

namespace {

std::string error() { return baracuda_last_error(nullptr, nullptr, nullptr); }
#define EXPECT_REFUSED(call, words)                      \
  do {                                                   \
    EXPECT_EQ(call, BARACUDA_INVALID_PROBLEM);           \
    EXPECT_NE(error().find(words), std::string::npos) << error(); \
  } while (0)

struct Plan {
  baracuda_plan* p = nullptr;
  Plan(const char* op, std::vector<baracuda_setting> fields) {
    EXPECT_EQ(baracuda_plan_create(op, fields.data(), fields.size(), nullptr, 0, nullptr, &p), BARACUDA_OK) << error();
  }
  ~Plan() { baracuda_plan_destroy(p); }
};
struct Tensor {
  std::vector<float> data;
  std::vector<int64_t> shape, strides;
  DLTensor t{};
  const DLTensor* p = &t;
  Tensor(std::vector<int64_t> s, size_t n) : data(n, 7), shape(std::move(s)) {
    t.data = data.data(), t.shape = shape.data(), t.ndim = int(shape.size()), t.dtype = {kDLFloat, 32, 1}, t.device = {kDLCPU, 0};
  }
  baracuda_arg arg(const char* name) {
    baracuda_arg a{};
    a.name = name, a.tensors = &p, a.count = 1;
    return a;
  }
};

TEST(C, CodesAreThoseOfTheLibrary) {
  using baracuda::Code;
  EXPECT_EQ(int(Code::ok), int(BARACUDA_OK));
  EXPECT_EQ(int(Code::invalid_problem), int(BARACUDA_INVALID_PROBLEM));
  EXPECT_EQ(int(Code::misaligned_operand), int(BARACUDA_MISALIGNED_OPERAND));
  EXPECT_EQ(int(Code::buffer_too_small), int(BARACUDA_BUFFER_TOO_SMALL));
  EXPECT_EQ(int(Code::out_of_memory), int(BARACUDA_OUT_OF_MEMORY));
  EXPECT_EQ(int(Code::backend_failure), int(BARACUDA_BACKEND_FAILURE));
}
TEST(C, NullIsRefused) {
  baracuda_plan* p = nullptr;
  baracuda_argument argument;
  size_t count = 0;
  EXPECT_REFUSED(baracuda_plan_create(nullptr, nullptr, 0, nullptr, 0, nullptr, &p), "op is null");
  EXPECT_REFUSED(baracuda_plan_create("gated", nullptr, 0, nullptr, 0, nullptr, nullptr), "no place for the plan");
  EXPECT_REFUSED(baracuda_plan_create("gated", nullptr, 3, nullptr, 0, nullptr, &p), "3 fields, but the list is null");
  EXPECT_REFUSED(baracuda_plan_create("gated", nullptr, 0, nullptr, 2, nullptr, &p), "2 preferences, but the list is null");
  const baracuda_setting half[] = {{"shape", nullptr}}, other[] = {{nullptr, "1"}};
  EXPECT_REFUSED(baracuda_plan_create("gated", half, 1, nullptr, 0, nullptr, &p), "null value");
  EXPECT_REFUSED(baracuda_plan_create("gated", other, 1, nullptr, 0, nullptr, &p), "null key");
  EXPECT_REFUSED(baracuda_plan_workspace_size(nullptr, nullptr), "plan is null");
  EXPECT_REFUSED(baracuda_plan_argument_count(nullptr, &count), "plan is null");
  EXPECT_REFUSED(baracuda_plan_argument(nullptr, 0, &argument), "plan is null");
  EXPECT_REFUSED(baracuda_plan_can_implement(nullptr, nullptr, 0), "plan is null");
  EXPECT_REFUSED(baracuda_plan_run(nullptr, nullptr, nullptr, 0, nullptr, 0), "plan is null");
  EXPECT_REFUSED(baracuda_stream_create({kDLCPU, 0}, nullptr, nullptr), "no place for the stream");
  EXPECT_REFUSED(baracuda_set_threads(0), "0 threads");
  EXPECT_EQ(baracuda_plan_text(nullptr, BARACUDA_TEXT_SKU), nullptr);
  baracuda_stream_destroy(nullptr);
  const Plan plan("gated", {{"shape", "4"}});
  EXPECT_REFUSED(baracuda_plan_workspace_size(plan.p, nullptr), "no place");
  EXPECT_REFUSED(baracuda_plan_argument_count(plan.p, nullptr), "no place");
  EXPECT_REFUSED(baracuda_plan_argument(plan.p, 0, nullptr), "no place");
  EXPECT_REFUSED(baracuda_plan_run(plan.p, nullptr, nullptr, 0, nullptr, 3), "3 arguments, but the list is null");
  EXPECT_EQ(baracuda_plan_text(plan.p, baracuda_text(99)), nullptr);
  EXPECT_EQ(baracuda_plan_text(plan.p, baracuda_text(-1)), nullptr);
}
TEST(C, PreferencesAreChecked) {
  baracuda_plan* p = nullptr;
  const baracuda_setting fields[] = {{"shape", "4"}};
  for (const auto& [key, value, words] : {std::array{"require_backend", "mkl", "not one of baracuda"}, {"max_workspace", "-1", "negative"},
                                         {"allow_tf32", "maybe", "true or false"}, {"speed", "1", "no preference 'speed'"}}) {
    const baracuda_setting preference{key, value};
    EXPECT_REFUSED(baracuda_plan_create("gated", fields, 1, &preference, 1, nullptr, &p), words);
  }
  const baracuda_setting onednn{"require_backend", "onednn"};
  EXPECT_EQ(baracuda_plan_create("gated", fields, 1, &onednn, 1, nullptr, &p), BARACUDA_UNSUPPORTED);
  EXPECT_NE(error().find("gated.cpu.map"), std::string::npos) << error();
  EXPECT_EQ(p, nullptr);
}
TEST(C, ArgumentsAreChecked) {
  const Plan plan("gated", {{"shape", "2,3"}});
  Tensor gate({2, 3}, 6), up({2, 3}, 6), y({2, 3}, 6);
  const std::vector<baracuda_arg> good{gate.arg("gate"), up.arg("up"), y.arg("y")};
  auto refused = [&](auto change, const char* words) {
    std::vector<baracuda_arg> args = good;
    change(args[0]);
    EXPECT_NE(baracuda_plan_run(plan.p, nullptr, nullptr, 0, args.data(), args.size()), BARACUDA_OK) << words;
    EXPECT_NE(error().find(words), std::string::npos) << error();
    for (float v : y.data) EXPECT_EQ(v, 7);
  };
  refused([](auto& a) { a.name = nullptr; }, "has no name");
  refused([](auto& a) { a.name = "gaet"; }, "no argument 'gaet'");
  refused([](auto& a) { a.tensors = nullptr; }, "list is null");
  refused([](auto& a) { a.count = 0; }, "one tensor, got 0");
  refused([](auto& a) { a.kind = baracuda_kind(17); }, "kind 17");
  refused([](auto& a) { a.kind = BARACUDA_FLOAT; }, "one tensor, got 0");
  const DLTensor* none = nullptr;
  refused([&](auto& a) { a.tensors = &none; }, "tensor is null");
  uint64_t bytes = 23;
  refused([&](auto& a) { a.capacity = &bytes; }, "gate[0]");
  EXPECT_EQ(error().find("needed 0"), std::string::npos);
  const DLTensor kept = gate.t;
  auto tensor = [&](auto change, const char* words) {
    change(gate.t);
    refused([](auto&) {}, words);
    gate.t = kept;
  };
  tensor([](DLTensor& t) { t.ndim = 9; }, "rank 9");
  tensor([](DLTensor& t) { t.ndim = -1; }, "rank -1");
  tensor([](DLTensor& t) { t.shape = nullptr; }, "no shape");
  tensor([](DLTensor& t) { t.data = nullptr; }, "no memory");
  tensor([](DLTensor& t) { t.byte_offset = 2; }, "not aligned");
  tensor([](DLTensor& t) { t.dtype = {99, 32, 1}; }, "no dtype for code 99");
  tensor([](DLTensor& t) { t.dtype = {kDLFloat, 64, 1}; }, "expected f32");
  tensor([](DLTensor& t) { t.device = {kDLMetal, 0}; }, "neither CPU nor CUDA");
  tensor([](DLTensor& t) { t.device = {kDLCUDA, 0}; }, "cuda:0");
  int64_t negative[] = {2, -3}, huge[] = {int64_t(1) << 62, 8};
  tensor([&](DLTensor& t) { t.shape = negative; }, "not a shape");
  tensor([&](DLTensor& t) { t.shape = huge; }, "not a shape");
  int64_t far[] = {int64_t(1) << 61, 1};
  uint64_t all = 24;
  gate.t.strides = far;
  refused([&](auto& a) { a.capacity = &all; }, "gate[0]");
  gate.t = kept;
  int64_t flipped[] = {-3, 1};
  gate.t.strides = flipped, gate.t.byte_offset = 12;
  std::vector<baracuda_arg> args = good;
  args[0].capacity = &all;
  EXPECT_EQ(baracuda_plan_run(plan.p, nullptr, nullptr, 0, args.data(), 3), BARACUDA_OK) << error();
  gate.t.byte_offset = 8;
  EXPECT_REFUSED(baracuda_plan_run(plan.p, nullptr, nullptr, 0, args.data(), 3), "gate[0]");  // row 1 begins before the memory
}
TEST(C, NumbersTakeAnyKindThatFits) {
  const Plan plan("random_uniform", {{"shape", "4"}});
  if (!plan.p) GTEST_SKIP();
  Tensor y({4}, 4);
  baracuda_arg args[2] = {y.arg("y"), {}};
  args[1].name = "seed", args[1].kind = BARACUDA_UINT, args[1].number.u = UINT64_MAX;
  EXPECT_EQ(baracuda_plan_run(plan.p, nullptr, nullptr, 0, args, 2), BARACUDA_OK) << error();
  args[1].kind = BARACUDA_INT, args[1].number.i = -1;
  EXPECT_REFUSED(baracuda_plan_run(plan.p, nullptr, nullptr, 0, args, 2), "seed is -1");
  args[1].kind = BARACUDA_FLOAT, args[1].number.f = 0.5;
  EXPECT_REFUSED(baracuda_plan_run(plan.p, nullptr, nullptr, 0, args, 2), "seed is 0.5");
}
TEST(C, WorkspaceIsChecked) {
  const Plan plan("rms_norm", {{"shape", "2,8"}});
  if (!plan.p) GTEST_SKIP();
  uint64_t bytes = 0, needed = 0, got = 9;
  ASSERT_EQ(baracuda_plan_workspace_size(plan.p, &bytes), BARACUDA_OK);
  ASSERT_GT(bytes, 0u);
  EXPECT_NE(std::string(baracuda_plan_text(plan.p, BARACUDA_TEXT_WORKSPACE)).find(" weight\n"), std::string::npos);
  Tensor x({2, 8}, 16), w({8}, 8), y({2, 8}, 16);
  const baracuda_arg args[] = {x.arg("x"), w.arg("weight"), y.arg("y")};
  EXPECT_EQ(baracuda_plan_run(plan.p, nullptr, nullptr, 0, args, 3), BARACUDA_WORKSPACE_TOO_SMALL);
  baracuda_last_error(nullptr, &needed, &got);
  EXPECT_EQ(needed, bytes);
  EXPECT_EQ(got, 0u);
}
TEST(C, ErrorsBelongToTheirThread) {
  EXPECT_REFUSED(baracuda_set_threads(-5), "-5 threads");
  std::thread([] {
    EXPECT_EQ(error(), "");
    EXPECT_REFUSED(baracuda_set_threads(-6), "-6 threads");
  }).join();
  EXPECT_NE(error().find("-5"), std::string::npos);
}
TEST(C, CudaWithoutItsHalfSaysSo) {
  baracuda_stream* s = nullptr;
  if (baracuda_stream_create({kDLCUDA, 0}, nullptr, &s) == BARACUDA_OK) return baracuda_stream_destroy(s);
  EXPECT_EQ(s, nullptr);
  EXPECT_FALSE(error().empty());
}

}  // namespace
