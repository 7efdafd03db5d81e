#include "baracuda/ops/shape/dynamic_slice.hpp"
#include <algorithm>
#include <cmath>
#include "baracuda/ops/shape/shape.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

std::vector<int64_t> coordinates(int64_t o, const Shape& s) {
  std::vector<int64_t> c(static_cast<size_t>(s.rank));
  for (int a = s.rank; a-- > 0; o /= s[a]) c[size_t(a)] = o % s[a];
  return c;
}
// The element of the whole, in row-major order, that element o of the slice is.
int64_t place(const DynamicSliceDescriptor& d, const std::vector<double>& start, int64_t o) {
  const auto c = coordinates(o, d.size);
  int64_t at = 0;
  for (int a = 0; a < d.shape.rank; ++a) {
    int64_t first = int64_t(start[size_t(a)]);
    if (d.negative && first < 0) first += d.shape[a];
    if (first > d.shape[a] - d.size[a]) first = d.shape[a] - d.size[a];
    at = at * d.shape[a] + std::max<int64_t>(first, 0) + c[size_t(a)];
  }
  return at;
}
TEST(Shape, DynamicSlices) {
  const struct { Shape x, size; std::vector<double> start; } cases[] = {
      {{7, 9}, {3, 4}, {1, 2}}, {{7, 9}, {3, 4}, {6, -1}}, {{7, 9}, {3, 4}, {-100, 100}}, {{7, 9}, {7, 9}, {3, -3}}, {{7, 9}, {0, 4}, {2, 2}},
      {{5}, {1}, {-1}},         {{2, 3, 4}, {1, 3, 2}, {-2, 1, 1}}, {{}, {}, {}},      {{0, 3}, {0, 2}, {5, 1}}};
  for (const auto& c : cases)
    for (DType t : {DType::boolean, DType::bf16, DType::f32, DType::i64, DType::f64})
      for (DType it : {DType::i32, DType::i64})
        for (bool negative : {true, false})
          for (Layout layout : {Layout::dense, Layout::transposed, Layout::reversed}) {
            const DynamicSliceDescriptor d{t, c.x, c.size, it, negative};
            const Tensor start(it, {c.x.rank}, c.start, layout == Layout::reversed ? Layout::reversed : Layout::dense);
            const Tensor x = t == DType::boolean ? Tensor::integers(t, c.x, 1, 0, 2) : Tensor::integers(t, c.x, 1, -100, 100);
            const Tensor update = t == DType::boolean ? Tensor::integers(t, c.size, 2, 0, 2) : Tensor::integers(t, c.size, 2, -100, 100);
            Tensor y(t, c.size, layout), whole(t, c.x, layout), dx(t, c.x, layout), dupdate(t, c.size, layout);
            ASSERT_OK(run_plan<DynamicSlice>(d, {x, start, y}));
            std::vector<double> cut, put = x.values(), alone(size_t(x.numel()), 0.0), around = x.values();
            for (int64_t o = 0; o < update.numel(); ++o) {
              const size_t at = size_t(place(d, c.start, o));
              cut.push_back(x.at(int64_t(at))), put[at] = update.at(o), alone[at] = update.at(o), around[at] = 0;
            }
            EXPECT_EQ(y.values(), cut) << describe(d);
            ASSERT_OK(run_plan<DynamicUpdateSlice>(d, {x, update, start, whole}));
            EXPECT_EQ(whole.values(), put) << describe(d);
            Tensor same(t, c.x, x.values());
            ASSERT_OK(run_plan<DynamicUpdateSlice>(d, {same, update, start, same}));  // in place
            EXPECT_EQ(same.values(), put);
            ASSERT_OK(run_plan<DynamicSliceBackward>(d, {update, start, dx}));
            EXPECT_EQ(dx.values(), alone);
            ASSERT_OK(run_plan<DynamicUpdateSliceBackward>(d, {x, start, dx, dupdate}));
            EXPECT_EQ(dx.values(), around);
            EXPECT_EQ(dupdate.values(), cut);
            ASSERT_OK(run_plan<DynamicUpdateSliceBackward>(d, {x, start, {}, dupdate}));
            EXPECT_TRUE(y.guards_intact() && whole.guards_intact() && dx.guards_intact() && dupdate.guards_intact());
          }
}
TEST(Shape, DynamicSliceContractAndRefusals) {
  const DType t = DType::f32;
  const Tensor x = Tensor::normal(t, {3, 4}, 1), part = Tensor::normal(t, {2, 4}, 2), start(DType::i64, {2}, {1, 0});
  Tensor y(t, {2, 4}), whole(t, {3, 4}), dupdate(t, {2, 4});
  const DynamicSliceDescriptor d{t, {3, 4}, {2, 4}};
  check_contract<DynamicSlice>(d, {x, start, y});
  check_contract<DynamicSliceBackward>(d, {part, start, whole});
  check_contract<DynamicUpdateSlice>(d, {x, part, start, whole});
  check_contract<DynamicUpdateSliceBackward>(d, {x, start, whole, dupdate});
  check_repeat_bits<DynamicUpdateSlice>(d, {x, part, start, whole}, {}, 1);
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  expect_refused(DynamicSlicePlan::select(s, {t, {3, 4}, {4, 4}}).status(), bad, {"dynamic_slice", "size[0] is 4", "extent 3"});
  expect_refused(DynamicSlicePlan::select(s, {t, {3, 4}, {-1, 4}}).status(), bad, {"size[0] is -1"});
  expect_refused(DynamicSlicePlan::select(s, {t, {3, 4}, {3}}).status(), bad, {"size [3]", "2 axes"});
  expect_refused(DynamicSlicePlan::select(s, {t, {3, 4}, {3, 4}, DType::u8}).status(), bad, {"index_dtype u8"});
  expect_refused(run_plan<DynamicSlice>({t, {3, 4}, {3, 4}}, {x, start, x}), bad, {"y overlaps"});
}
// Gradients of pads copy where one element falls on each, and sum at the margins; a term alone keeps its bits, -0 and NaN too.
TEST(Shape, GradientsOfPadsKeepTheBitsOfOneTerm) {
  const Shape shape{5, 2100};
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (PadMode mode : {PadMode::constant, PadMode::reflect, PadMode::symmetric, PadMode::replicate, PadMode::circular})
      for (const auto& [lo, hi] : {std::pair<Dims, Dims>{{1, 3}, {2, 4}}, {{0, 2000}, {0, 3}}, {{-1, -5}, {2, 1}}, {{3, 0}, {-2, -2098}}, {{0, 7}, {0, 0}}})
        for (Layout layout : {Layout::dense, Layout::reversed}) {
          const PadDescriptor d{t, shape, mode, lo, hi, {}};
          const Shape ys = d.y_shape();
          // Where each element of y comes from, by the pad of a tensor of numbers.
          Tensor numbers(DType::f64, shape), from(DType::f64, ys), dy = Tensor::integers(t, ys, 3, -8, 8), dx(t, shape, layout);
          for (int64_t i = 0; i < numbers.numel(); ++i) numbers.set(i, double(i + 1));
          auto wide = d;
          wide.dtype = DType::f64;
          ASSERT_OK(run_plan<Pad>(wide, {numbers, from, 0}));
          for (int64_t o = 0; o < dy.numel(); o += 3) dy.set(o, -0.0);
          ASSERT_OK(run_plan<PadBackward>(d, {dy, dx}));
          EXPECT_TRUE(dx.guards_intact());
          std::vector<double> sum(size_t(dx.numel()), 0.0);
          std::vector<int> terms(sum.size());
          for (int64_t o = 0; o < dy.numel(); ++o)
            if (from.at(o) > 0) {
              double& s = sum[size_t(from.at(o)) - 1];
              s = terms[size_t(from.at(o)) - 1]++ ? s + dy.at(o) : dy.at(o);
            }
          for (double& s : sum) s = rounded(t, s);
          for (int64_t i = 0; i < dx.numel(); ++i)
            ASSERT_TRUE(dx.at(i) == sum[size_t(i)] && std::signbit(dx.at(i)) == std::signbit(sum[size_t(i)])) << describe(d) << " dx[" << i << "] is " << dx.at(i) << " for " << sum[size_t(i)];
        }
}
// Written past the caches, also where rows do not begin at cache lines: the bits of an output one element off.
TEST(Shape, LargerThanTheCaches) {
  const Shape shape{2200, 3001};
  const Large x(DType::f32, shape);
  const auto same = [&](auto run, const Shape& out) {
    const Large a(DType::f32, out), b(DType::f32, out, 1);
    run(a), run(b);
    EXPECT_TRUE(a.same_bits(b));
  };
  ASSERT_GE(shape.numel() * 4, kPastCaches);
  const PadDescriptor pad{DType::f32, shape, PadMode::reflect, {1, 5}, {2, 3}, {}};
  same([&](const TensorView& y) { EXPECT_OK(run_plan<Pad>(pad, {x, y, 0})); }, pad.y_shape());
  const Large dy(DType::f32, pad.y_shape());
  same([&](const TensorView& dx) { EXPECT_OK(run_plan<PadBackward>(pad, {dy, dx})); }, shape);
  same([&](const TensorView& y) { EXPECT_OK(run_plan<Roll>({DType::f32, shape, {777, 5}, {1, 0}}, {x, y})); }, shape);
  // The gradient of a roll is the roll back, and a pad's gradient of a pad of constants is x.
  const Large rolled(DType::f32, shape), back(DType::f32, shape), wide(DType::f32, {2203, 3009});
  ASSERT_OK(run_plan<Roll>({DType::f32, shape, {777, 5}, {1, 0}}, {x, rolled}));
  ASSERT_OK(run_plan<Roll>({DType::f32, shape, {-777, -5}, {1, 0}}, {rolled, back}));
  EXPECT_TRUE(back.same_bits(x));
  const PadDescriptor constant{DType::f32, shape, PadMode::constant, {1, 5}, {2, 3}, {}};
  ASSERT_OK(run_plan<Pad>(constant, {x, wide, 0}));
  ASSERT_OK(run_plan<PadBackward>(constant, {wide, back}));
  EXPECT_TRUE(back.same_bits(x));
}

}  // namespace
}  // namespace baracuda
