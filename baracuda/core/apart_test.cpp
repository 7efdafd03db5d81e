// Which views share memory, against a count of every byte; which arguments are refused for it.
#include <gtest/gtest.h>
#include <algorithm>
#include <set>
#include "baracuda/core/kernel.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using testing::expect_refused;

std::set<uintptr_t> bytes_of(const TensorView& v) {
  std::set<uintptr_t> all;
  for (int64_t i = 0; i < v.shape.numel(); ++i) {
    int64_t at = 0, r = i;
    for (int a = v.shape.rank - 1; a >= 0; --a) at += r % v.shape[a] * v.strides[a], r /= v.shape[a];
    for (size_t k = 0; k < byte_size(v.dtype); ++k) all.insert(uintptr_t(v.data) + uintptr_t(at * int64_t(byte_size(v.dtype))) + k);
  }
  return all;
}
TensorView any_view(testing::Source& r) {
  constexpr DType types[] = {DType::i8, DType::bf16, DType::f32, DType::f64, DType::c128};
  const auto below = [&](uint64_t n) { return int64_t(r.next() % n); };
  TensorView v{reinterpret_cast<void*>(uintptr_t(1 << 20) + uintptr_t(below(96))), types[below(5)], {}, {}, {}};
  for (int64_t rank = below(5); rank > 0; --rank) v.shape.push_back(below(12) ? 1 + below(5) : 0), v.strides.push_back(below(2) ? below(9) - 4 : below(61) - 30);
  return v;
}
TEST(ShareMemory, AgreesWithEveryByte) {
  testing::Source r(1);
  int shared = 0;
  for (int i = 0; i < 5000; ++i) {
    const TensorView a = any_view(r), b = any_view(r);
    const auto p = bytes_of(a), q = bytes_of(b);
    const bool want = std::any_of(p.begin(), p.end(), [&](uintptr_t at) { return q.count(at); });
    ASSERT_EQ(share_memory(a, b), want) << name(a.dtype) << to_string(a.shape) << to_string(a.strides) << " and " << name(b.dtype) << to_string(b.shape) << to_string(b.strides)
                                        << " at " << (uintptr_t(b.data) - uintptr_t(a.data));
    shared += want;
  }
  EXPECT_GT(shared, 800);
  EXPECT_LT(shared, 4200);
}
TEST(ShareMemory, LargeViews) {
  static char memory[2048];
  const auto at = [&](int64_t offset, DType t, const Shape& s, const Strides& strides) { return TensorView{memory + offset, t, {}, s, strides}; };
  // Heads of one packed tensor of 2^40 tokens; columns of a matrix with 2^33 of them; odd and even elements.
  const Shape heads{1 << 20, 1 << 20, 16, 64};
  const Strides packed{int64_t(3) << 30, 3 << 10, 64, 1};
  EXPECT_FALSE(share_memory(at(0, DType::i8, heads, packed), at(1024, DType::i8, heads, packed)));
  EXPECT_TRUE(share_memory(at(0, DType::i8, heads, packed), at(1023, DType::i8, heads, packed)));
  const Shape tall{int64_t(1) << 33, 4};
  EXPECT_FALSE(share_memory(at(0, DType::f32, tall, {8, 1}), at(16, DType::f32, tall, {8, 1})));
  EXPECT_TRUE(share_memory(at(0, DType::f32, tall, {8, 1}), at(12, DType::f32, tall, {8, 1})));
  EXPECT_FALSE(share_memory(at(0, DType::f32, {int64_t(1) << 40}, {2}), at(4, DType::f32, {int64_t(1) << 38}, {4})));
  EXPECT_TRUE(share_memory(at(0, DType::f32, {int64_t(1) << 40}, {2}), at(8, DType::f32, {int64_t(1) << 38}, {4})));
  EXPECT_FALSE(share_memory(at(0, DType::f32, {4}, {-1}), at(4, DType::f32, {4}, {1})));
  // No address space has such memory; nothing may overflow.
  const Shape wide{1 << 15, 1 << 15, 1 << 15, 1 << 15};
  const Strides far{INT64_MAX, INT64_MIN, INT64_MAX, INT64_MAX};
  EXPECT_TRUE(share_memory(at(0, DType::f64, wide, far), at(8, DType::f64, wide, far)));
}

struct List {
  std::vector<TensorView> views;
  ArgTensors as(std::string_view name, bool written) const { return {name, views.data(), views.size(), written, true}; }
};
Status apart(std::initializer_list<ArgTensors> all, InPlace in_place = nullptr) { return check_apart("op", std::span(all.begin(), all.size()), in_place, nullptr); }

TEST(CheckApart, ManyTensors) {
  std::vector<float> memory(1 << 16);
  for (int64_t n : {int64_t(3), int64_t(12), int64_t(400), int64_t(1500)}) {
    List x, y;  // taking turns in memory
    for (int64_t i = 0; i < n; ++i) {
      x.views.push_back(TensorView::dense(&memory[size_t(40 * i)], {4, 5}));
      y.views.push_back(TensorView::dense(&memory[size_t(40 * ((i + 7) % n) + 20)], {20}));
    }
    EXPECT_OK(apart({x.as("x", false), y.as("y", true)}));
    EXPECT_OK(apart({x.as("x", true), y.as("y", true)}));
    const auto kept = x.views;
    x.views[1].data = x.views[1].as<float>() + 1;  // its last element is the first of a y
    expect_refused(apart({x.as("x", false), y.as("y", true)}), Code::invalid_problem, {"op: y[", "overlaps x[1]", "begins 76 bytes behind"});
    x.views = kept;
    y.views[2].data = y.views[0].data;
    EXPECT_OK(apart({x.as("x", true), y.as("y", false)}));  // only read
    expect_refused(apart({x.as("x", false), y.as("y", true)}), Code::invalid_problem, {"op: y[2] overlaps y[0]", "both are written"});
    y.views[2] = {};
    EXPECT_OK(apart({x.as("x", false), y.as("y", true)}));
    // Rows of one matrix, two columns each: their ranges meet, their elements do not.
    for (int64_t i = 0; i < n; ++i) {
      x.views[size_t(i)] = {&memory[size_t(2 * i)], DType::f32, {}, {3, 2}, {8000, 1}};
      y.views[size_t(i)] = {&memory[size_t(2 * i + 4000)], DType::f32, {}, {3, 2}, {8000, 1}};
    }
    EXPECT_OK(apart({x.as("x", true), y.as("y", true)}));
    y.views.back().data = y.views.back().as<float>() - 1;
    expect_refused(apart({x.as("x", false), y.as("y", true)}), Code::invalid_problem, {"y[", "overlaps y["});
  }
}
TEST(CheckApart, InPlace) {
  float memory[64];
  const TensorView x = TensorView::dense(memory, {4, 6}), same{memory, DType::i32, {}, {4, 6}, {6, 1}}, turned{memory, DType::f32, {}, {4, 6}, {1, 4}};
  const auto check = [&](const TensorView& y, InPlace in_place) { return apart({{"x", &x, 1, false, false}, {"y", &y, 1, true, false}}, in_place); };
  const InPlace allowed = [](const void*, std::string_view out, std::string_view in) { return out == "y" && in == "x"; };
  EXPECT_OK(check(same, allowed));
  expect_refused(check(same, nullptr), Code::invalid_problem, {"op: y overlaps x", "in place"});
  expect_refused(check(turned, allowed), Code::invalid_problem, {"y overlaps x", "0 bytes", "[1, 4] is not [6, 1]"});
  expect_refused(check(TensorView::dense(memory, {2, 12}), allowed), Code::invalid_problem, {"y overlaps x", "shape"});
  expect_refused(check(TensorView::dense(reinterpret_cast<double*>(memory), {4, 6}), allowed), Code::invalid_problem, {"y overlaps x"});
  EXPECT_OK(check(TensorView::dense(memory, {4, 0}), allowed));
  const TensorView one{memory, DType::f32, {}, {1, 1}, {7, 9}}, other{memory, DType::f32, {}, {1, 1}, {1, 1}};
  EXPECT_OK(apart({{"x", &one, 1, false, false}, {"y", &other, 1, true, false}}, allowed));  // strides that lead nowhere
}

}  // namespace
}  // namespace baracuda
