#include "baracuda/ops/shape/select_n.hpp"
#include <cmath>
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr Layout kLayouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};

struct Case {
  SelectNDescriptor d;
  std::vector<Tensor> x;
  Tensor which;
  std::vector<TensorView> views() const { return {x.begin(), x.end()}; }
  size_t chosen(int64_t i) const {
    const double w = which.at(which.numel() == 1 ? 0 : i);
    return size_t(std::min(std::max(w, 0.0), double(x.size() - 1)));
  }
};
Case make(DType t, DType which, const Shape& shape, int cases, uint64_t seed, bool one = false) {
  Case c{{t, which, shape, one ? Shape{} : shape}, {}, Tensor(which, one ? Shape{} : shape, one ? Layout::dense : kLayouts[seed % 6])};
  Source source(seed);
  for (int64_t i = 0; i < c.which.numel(); ++i)
    c.which.set(i, which == DType::boolean ? double(source.next() % 2) : double(source.next() % uint64_t(cases + 4)) - 2);
  for (int k = 0; k < cases; ++k) {
    c.x.emplace_back(t, shape, kLayouts[(seed + uint64_t(k)) % 6]);
    std::vector<uint8_t> bytes(size_t(shape.numel()) * byte_size(t));
    for (uint8_t& b : bytes) b = uint8_t(source.next());
    put_bytes(c.x.back(), bytes);
  }
  return c;
}
void check(const Case& c, Layout layout) {
  const size_t size = byte_size(c.d.dtype);
  const int64_t n = c.d.shape.numel();
  const auto x = c.views();
  Tensor y(c.d.dtype, c.d.shape, layout);
  ASSERT_OK(run_plan<SelectN>(c.d, {c.which, x, y}));
  const auto got = bytes_of(y);
  std::vector<std::vector<uint8_t>> from;
  for (const Tensor& t : c.x) from.push_back(bytes_of(t));
  for (int64_t i = 0; i < n; ++i)
    ASSERT_EQ(std::memcmp(&got[size_t(i) * size], &from[c.chosen(i)][size_t(i) * size], size), 0) << describe(c.d) << " " << i << " of " << c.x.size();
  ASSERT_TRUE(y.guards_intact());
  // Every other gradient is left out.
  std::vector<Tensor> dx;
  std::vector<TensorView> out;
  for (size_t k = 0; k < x.size(); ++k) {
    dx.emplace_back(c.d.dtype, c.d.shape, kLayouts[k % 6]);
    out.push_back(dx.back());
    if (k % 3 == 1) out.back().data = nullptr;
  }
  if (n == 0) return;
  ASSERT_OK(run_plan<SelectNBackward>(c.d, {y, c.which, out}));
  const std::vector<uint8_t> zero(size);
  for (size_t k = 0; k < x.size(); ++k) {
    if (k % 3 == 1) continue;
    const auto g = bytes_of(dx[k]);
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(std::memcmp(&g[size_t(i) * size], c.chosen(i) == k ? &got[size_t(i) * size] : zero.data(), size), 0) << describe(c.d) << " dx[" << k << "] " << i;
    ASSERT_TRUE(dx[k].guards_intact());
  }
}
TEST(SelectN, EveryDTypeShapeAndStride) {
  uint64_t seed = 1;
  for (DType t : {DType::u8, DType::f8_e4m3fn, DType::bf16, DType::f32, DType::i64, DType::c64, DType::c128})
    for (DType which : {DType::boolean, DType::i32, DType::i64})
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{17}, Shape{1030}, Shape{3, 5, 17}, Shape{2, 300}, Shape{70, 5}})
        for (int cases : {1, 2, 3, 6, 7, 20}) {
          if (which == DType::boolean && cases > 2) continue;
          ++seed;
          check(make(t, which, shape, cases, seed), kLayouts[seed % 5]);
          check(make(t, which, shape, cases, seed, true), kLayouts[seed % 5]);
        }
}
TEST(SelectN, WhatIsNotChosenDoesNotShow) {
  const float a[] = {1, NAN, -0.0f, INFINITY}, b[] = {NAN, 2, NAN, NAN}, dy[] = {NAN, 1, -0.0f, INFINITY};
  const int32_t which[] = {0, 1, -7, 0};
  const std::vector<TensorView> x{TensorView::dense(a, {4}), TensorView::dense(b, {4})};
  Tensor y(DType::f32, {4}), da(DType::f32, {4}), db(DType::f32, {4});
  const std::vector<TensorView> dx{da, db};
  ASSERT_OK(run_plan<SelectN>({DType::f32, DType::i32, {4}, {4}}, {TensorView::dense(which, {4}), x, y}));
  EXPECT_EQ(y.values(), (std::vector<double>{1, 2, 0, INFINITY}));
  EXPECT_TRUE(std::signbit(y.at(2)));
  ASSERT_OK(run_plan<SelectNBackward>({DType::f32, DType::i32, {4}, {4}}, {TensorView::dense(dy, {4}), TensorView::dense(which, {4}), dx}));
  EXPECT_TRUE(std::isnan(da.at(0)) && std::signbit(da.at(2)) && da.at(3) == INFINITY && da.at(1) == 0);
  EXPECT_EQ(db.values(), (std::vector<double>{0, 1, 0, 0}));
}
TEST(SelectN, IndicesOfAnySize) {
  const int64_t which[] = {INT64_MIN, -1, 1, INT64_C(1) << 32, (INT64_C(1) << 32) + 1, INT64_MAX};
  const Tensor a(DType::i8, {6}, std::vector<double>(6, 1)), b(DType::i8, {6}, std::vector<double>(6, 2)), c(DType::i8, {6}, std::vector<double>(6, 3));
  const std::vector<TensorView> x{a, b, c};
  Tensor y(DType::i8, {6});
  ASSERT_OK(run_plan<SelectN>({DType::i8, DType::i64, {6}, {6}}, {TensorView::dense(which, {6}), x, y}));
  EXPECT_EQ(y.values(), (std::vector<double>{1, 1, 2, 3, 3, 3}));
}
TEST(SelectN, BroadcastCasesAndOneTensorTwice) {
  const Tensor row = Tensor::normal(DType::f32, {33}, 1);
  TensorView wide = row;
  wide.shape = {40, 33}, wide.strides = {0, 1};
  const Tensor other = Tensor::normal(DType::f32, {40, 33}, 2);
  Case c = make(DType::f32, DType::i32, {40, 33}, 3, 5);
  const std::vector<TensorView> x{wide, other, wide};
  Tensor y(DType::f32, {40, 33});
  ASSERT_OK(run_plan<SelectN>(c.d, {c.which, x, y}));
  for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.at(i), c.chosen(i) == 1 ? other.at(i) : row.at(i % 33));
}
TEST(SelectN, ContractAndBits) {
  const Case c = make(DType::f32, DType::i32, {3, 20000}, 8, 3);
  const auto x = c.views();
  Tensor y(DType::f32, {3, 20000});
  check_repeat_bits<SelectN>(c.d, {c.which, x, y});
  check_contract<SelectN>(c.d, {c.which, x, y});
  const std::vector<TensorView> dx{c.x[0], c.x[1]};
  check_contract<SelectNBackward>(c.d, {y, c.which, dx});
}
TEST(SelectN, Refusals) {
  const Stream s = Stream::cpu();
  expect_refused(SelectNPlan::select(s, {DType::f32, DType::u8, {2}, {2}}).status(), Code::invalid_problem, {"select_n", "which_dtype u8"});
  expect_refused(SelectNPlan::select(s, {DType::f32, DType::i32, {2, 3}, {3}}).status(), Code::invalid_problem, {"which [3]", "[2, 3]"});
  expect_refused(SelectNPlan::select(s, {DType::i4, DType::i32, {2}, {2}}).status(), Code::unsupported, {"no i4"});
  const Case c = make(DType::f32, DType::boolean, {4}, 2, 1);
  Tensor y(DType::f32, {4}), z(DType::f64, {4}), w(DType::f32, {5});
  const SelectNDescriptor& d = c.d;
  auto run = [&](std::vector<TensorView> x, const TensorView& to) { return run_plan<SelectN>(d, {c.which, x, to}); };
  expect_refused(run({}, y), Code::invalid_problem, {"x has 0 tensors", "1 to 2"});
  expect_refused(run({c.x[0], c.x[1], c.x[0]}, y), Code::invalid_problem, {"x has 3 tensors", "2 for bool"});
  expect_refused(run({c.x[0], z}, y), Code::invalid_problem, {"x[1] has dtype f64", "f32"});
  expect_refused(run({c.x[0], w}, y), Code::invalid_problem, {"x[1] has shape [5]", "[4]"});
  expect_refused(run({c.x[0], TensorView{}}, y), Code::invalid_problem, {"x[1] is missing"});
  expect_refused(run({c.x[0], y}, y), Code::invalid_problem, {"y overlaps x[1]"});
  auto back = [&](std::vector<TensorView> dx) { return run_plan<SelectNBackward>(d, {y, c.which, dx}); };
  expect_refused(back({c.x[0], c.x[0]}), Code::invalid_problem, {"dx[", "overlaps"});
  expect_refused(back({y, c.x[0]}), Code::invalid_problem, {"dx[0] overlaps"});
  TensorView flat = c.x[0];
  flat.strides = {0};
  expect_refused(back({flat, c.x[1]}), Code::invalid_problem, {"dx[0]", "stride"});
}

}  // namespace
}  // namespace baracuda
