#include "baracuda/ops/index/index.hpp"
#include <algorithm>
#include <cmath>
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType kSizes[] = {DType::boolean, DType::bf16, DType::f32, DType::i64, DType::c128};  // 1, 2, 4, 8 and 16 bytes
// On CUDA a run does not look at the indices first.
OutOfRange careful() { return on_cuda() ? OutOfRange::fill : OutOfRange::refuse; }
constexpr Layout kLayouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};

// The oracle: for each element of the walk, in row-major order, the element of x that it names, or -1.
std::vector<int64_t> coordinates(int64_t i, const Shape& s) {
  std::vector<int64_t> c(size_t(s.rank));
  for (int a = s.rank; a-- > 0; i /= s[a]) c[size_t(a)] = i % s[a];
  return c;
}
int64_t ordinal(const std::vector<int64_t>& c, const Shape& s) {
  int64_t o = 0;
  for (int a = 0; a < s.rank; ++a) o = o * s[a] + c[size_t(a)];
  return o;
}
bool settle(int64_t& i, int64_t n, OutOfRange rule, bool negative) {
  if (negative && i < 0) i += n;
  if (rule == OutOfRange::clip && n > 0) i = i < 0 ? 0 : i >= n ? n - 1 : i;
  return i >= 0 && i < n;
}
std::vector<int64_t> places(const GatherDescriptor& d, const std::vector<double>& indices) {
  std::vector<int64_t> all;
  for (int64_t o = 0; o < d.indices.numel(); ++o) {
    auto c = coordinates(o, d.indices);
    const int axis = int(d.axis < 0 ? d.axis + d.shape.rank : d.axis);
    int64_t i = int64_t(indices[size_t(o)]);
    const bool in = settle(i, d.shape[axis], d.out_of_range, d.negative);
    c[size_t(axis)] = i;
    all.push_back(in ? ordinal(c, d.shape) : -1);
  }
  return all;
}
// lists[k] broadcast to d.indices already.
std::vector<int64_t> places(const IndexDescriptor& d, const std::vector<std::vector<double>>& lists, Shape& walk) {
  std::vector<int> axes;
  for (int k = 0; k < d.axes.rank; ++k) axes.push_back(int(d.axes[k] < 0 ? d.axes[k] + d.shape.rank : d.axes[k]));
  const bool together = axes.back() - axes.front() + 1 == int(axes.size());
  std::vector<int> of;  // axis of x, or -1 - axis of the indices
  auto put = [&] { for (int i = 0; i < d.indices.rank; ++i) of.push_back(-1 - i); };
  if (!together) put();
  for (int a = 0; a < d.shape.rank; ++a) {
    if (together && a == axes[0]) put();
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) of.push_back(a);
  }
  walk = {};
  for (int o : of) walk.push_back(o < 0 ? d.indices[-1 - o] : d.shape[o]);
  std::vector<int64_t> all;
  for (int64_t o = 0; o < walk.numel(); ++o) {
    const auto c = coordinates(o, walk);
    std::vector<int64_t> in_x(static_cast<size_t>(d.shape.rank)), in_list(static_cast<size_t>(d.indices.rank));
    for (size_t i = 0; i < of.size(); ++i) (of[i] < 0 ? in_list[size_t(-1 - of[i])] : in_x[size_t(of[i])]) = c[i];
    bool in = true;
    for (size_t k = 0; k < axes.size(); ++k) {
      int64_t i = int64_t(lists[k][size_t(ordinal(in_list, d.indices))]);
      in = settle(i, d.shape[axes[k]], d.out_of_range, d.negative) && in;
      in_x[size_t(axes[k])] = i;
    }
    all.push_back(in ? ordinal(in_x, d.shape) : -1);
  }
  return all;
}
std::vector<uint8_t> random_bytes(DType t, int64_t n, uint64_t seed) {
  Source r(seed);
  std::vector<uint8_t> b(size_t(n) * byte_size(t));
  for (uint8_t& e : b) e = uint8_t(r.next() >> 32) & (t == DType::boolean ? 1 : 0xff);
  return b;
}
Tensor random_indices(DType t, const Shape& shape, uint64_t seed, int64_t low, int64_t high, Layout layout = Layout::dense) {
  const std::vector<double> v = Tensor::integers(t, shape, seed, low, high).values();
  return Tensor(t, shape, v, layout);
}
void expect_moved(const Tensor& x, const Tensor& y, const std::vector<uint8_t>& x_bytes, const std::vector<int64_t>& at, const std::string& what) {
  const size_t size = byte_size(x.dtype());
  const auto got = bytes_of(y);
  for (size_t o = 0; o < at.size(); ++o)
    if (at[o] >= 0) ASSERT_TRUE(std::equal(&x_bytes[size_t(at[o]) * size], &x_bytes[size_t(at[o]) * size] + size, &got[o * size])) << what << " y[" << o << "]";
}

struct Along { Shape shape; int64_t axis; Shape indices; };
const Along kAlong[] = {{{7}, 0, {5}}, {{3, 5}, 1, {3, 9}}, {{3, 5}, 0, {2, 4}}, {{4, 3, 6}, -2, {4, 11, 5}}, {{2, 40, 3}, 1, {2, 300, 3}}, {{5, 2}, 0, {0, 2}}, {{1, 300}, 0, {6, 300}}};

TEST(Index, GatherTakesOneIndexPerElement) {
  for (const Along& a : kAlong)
    for (DType t : kSizes)
      for (DType it : {DType::i32, DType::i64})
        for (Layout xl : kLayouts)
          for (Layout yl : kLayouts) {
            if (xl != Layout::dense && yl != Layout::dense && xl != yl) continue;
            if (on_cuda() && xl != yl && t != DType::f32) continue;  // each run there moves all tensors
            const GatherDescriptor d{.dtype = t, .shape = a.shape, .axis = a.axis, .indices = a.indices, .index_dtype = it,
                                      .out_of_range = careful(), .negative = it == DType::i32};
            const int64_t n = a.shape[int(a.axis < 0 ? a.axis + a.shape.rank : a.axis)];
            const Tensor indices = random_indices(it, a.indices, 3, d.negative ? -n : 0, n, xl);
            Tensor x(t, a.shape, xl), y(t, a.indices, yl);
            const auto bytes = random_bytes(t, x.numel(), 5);
            put_bytes(x, bytes);
            y.poison();
            ASSERT_OK(run_plan<Gather>(d, {x, indices, y}));
            EXPECT_TRUE(y.guards_intact());
            expect_moved(x, y, bytes, places(d, indices.values()), describe(d));
          }
}
struct Slices { Shape shape; Dims axes; Shape indices; std::vector<Shape> lists; };
const Slices kSlices[] = {{{7}, {0}, {4}, {{4}}},
                          {{3, 5, 40}, {1}, {6}, {{6}}},
                          {{3, 5, 4}, {-1}, {2, 3}, {{2, 3}}},
                          {{9, 4}, {0}, {}, {{}}},
                          {{3, 5, 4}, {0, 1}, {6}, {{6}, {1}}},
                          {{3, 5, 4}, {0, 2}, {2, 6}, {{2, 1}, {6}}},
                          {{2, 3, 4, 5}, {1, 2, 3}, {7, 2}, {{7, 2}, {2}, {7, 1}}},
                          {{2, 3, 4, 5}, {1, 3}, {3}, {{3}, {3}}},
                          {{2, 3}, {0}, {0}, {{0}}}};
struct Lists {
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;
  std::vector<std::vector<double>> values;  // broadcast
  Lists(const Slices& s, DType t, uint64_t seed, int64_t below = 0, int64_t above = 0) {
    for (int k = 0; k < s.axes.rank; ++k) {
      const int64_t n = s.shape[int(s.axes[k] < 0 ? s.axes[k] + s.shape.rank : s.axes[k])];
      tensors.push_back(random_indices(t, s.lists[size_t(k)], seed + uint64_t(k), -below, n + above));
      std::vector<double> wide;
      for (int64_t o = 0; o < s.indices.numel(); ++o) {
        const auto c = coordinates(o, s.indices);
        const Shape& own = s.lists[size_t(k)];
        int64_t at = 0;
        for (int i = 0; i < own.rank; ++i) at = at * own[i] + (own[i] == 1 ? 0 : c[size_t(s.indices.rank - own.rank + i)]);
        wide.push_back(tensors.back().at(at));
      }
      values.push_back(wide);
    }
    for (const Tensor& x : tensors) views.push_back(x.view());
  }
};
TEST(Index, IndexTakesSlices) {
  for (const Slices& s : kSlices)
    for (DType t : kSizes)
      for (DType it : {DType::i32, DType::i64})
        for (Layout layout : kLayouts) {
          const IndexDescriptor d{.dtype = t, .shape = s.shape, .axes = s.axes, .indices = s.indices, .index_dtype = it, .out_of_range = careful()};
          const Lists lists(s, it, 9);
          Shape walk;
          const auto at = places(d, lists.values, walk);
          ASSERT_TRUE(d.y_shape() == walk) << describe(d) << to_string(walk);
          Tensor x(t, s.shape, layout), y(t, walk, layout);
          const auto bytes = random_bytes(t, x.numel(), 5);
          put_bytes(x, bytes);
          y.poison();
          ASSERT_OK(run_plan<Index>(d, {x, lists.views, y}));
          EXPECT_TRUE(y.guards_intact());
          expect_moved(x, y, bytes, at, describe(d));
        }
}
TEST(Index, WhatIndicesOutsideGive) {
  const struct { DType t; double none; } kinds[] = {{DType::f16, NAN}, {DType::bf16, NAN}, {DType::f32, NAN}, {DType::f64, NAN}, {DType::i8, -128},
                                                     {DType::u8, 255}, {DType::i32, -0x1p31}, {DType::u16, 65535}, {DType::boolean, 1}, {DType::i64, -0x1p63}};
  for (const auto& k : kinds) {
    const Tensor x(k.t, {4}, {0, 1, 0, 1}), indices(DType::i64, {6}, {-1, 3, 4, -4, -5, 1000});
    Tensor y(k.t, {6});
    GatherDescriptor d{.dtype = k.t, .shape = {4}, .indices = {6}};
    auto same = [&](std::vector<double> want) {
      for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(y.at(int64_t(i)) == want[i] || (std::isnan(want[i]) && std::isnan(y.at(int64_t(i))))) << name(k.t) << " " << i;
    };
    d.out_of_range = OutOfRange::fill;
    ASSERT_OK(run_plan<Gather>(d, {x, indices, y}));
    same({k.none, 1, k.none, k.none, k.none, k.none});
    d.negative = true;
    ASSERT_OK(run_plan<Gather>(d, {x, indices, y}));
    same({1, 1, k.none, 0, k.none, k.none});
    d.out_of_range = OutOfRange::clip;
    ASSERT_OK(run_plan<Gather>(d, {x, indices, y}));
    same({1, 1, 1, 0, 0, 1});
    d.out_of_range = OutOfRange::refuse, y.poison();
    if (on_cuda()) {
      expect_refused(run_plan<Gather>(d, {x, indices, y}), Code::unsupported, {"gather.cuda.map", "out_of_range refuse", "fill and clip"});
      continue;
    }
    const auto before = y.element_bytes();
    expect_refused(run_plan<Gather>(d, {x, indices, y}), Code::invalid_problem, {"gather", "indices[2] is 4", "axis 0 of x", "extent 4"});
    EXPECT_EQ(y.element_bytes(), before);
  }
  // An empty axis has no index, whatever the rule.
  const Tensor none(DType::f32, {0}), zero(DType::i64, {2}, {0, 5});
  Tensor y(DType::f32, {2});
  for (OutOfRange rule : {OutOfRange::fill, OutOfRange::clip}) {
    ASSERT_OK(run_plan<Gather>({.shape = {0}, .indices = {2}, .out_of_range = rule}, {none, zero, y}));
    EXPECT_TRUE(std::isnan(y.at(0)) && std::isnan(y.at(1)));
  }
  if (on_cuda()) return;
  expect_refused(run_plan<Gather>({.shape = {0}, .indices = {2}}, {none, zero, y}), Code::invalid_problem, {"indices[0] is 0", "extent 0"});
  // Of several lists, the one at fault and the first place in row-major order, in the argument's own axes.
  const Tensor x = Tensor::normal(DType::f32, {3, 4}, 1), a(DType::i64, {2, 1}, {0, 1}), b(DType::i64, {3}, {0, 4, -9});
  const std::vector<TensorView> lists = {a, b};
  Tensor z(DType::f32, {2, 3});
  expect_refused(run_plan<Index>({.shape = {3, 4}, .axes = {0, 1}, .indices = {2, 3}}, {x, lists, z}), Code::invalid_problem,
                 {"index: indices[1][1] is 4", "axis 1 of x has extent 4"});
}

// --- scatter against plain loops
struct Combined { std::vector<double> y, scale; };
Combined combine(ScatterKind reduce, bool self, double alpha, bool integer, const std::vector<double>& x, const std::vector<double>& src, const std::vector<int64_t>& at) {
  Combined c{x, x};
  for (double& s : c.scale) s = std::fabs(s);
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<double> terms;
    for (size_t o = 0; o < at.size(); ++o)
      if (at[o] == int64_t(i)) terms.push_back(src[o]);
    if (terms.empty()) continue;
    if (reduce == ScatterKind::replace) { c.y[i] = terms.back(); continue; }
    if (reduce == ScatterKind::add) for (double& v : terms) v *= alpha;
    if (self) terms.insert(terms.begin(), x[i]);
    double sum = 0, most = terms[0], size = 0;
    for (double v : terms) {
      sum += v, size += std::fabs(v);
      if (!std::isnan(most) && (std::isnan(v) || (reduce == ScatterKind::amax ? v > most : v < most))) most = v;
    }
    c.scale[i] = size;
    if (reduce == ScatterKind::add) c.y[i] = sum;
    else if (reduce == ScatterKind::mean) c.y[i] = integer ? std::floor(sum / double(terms.size())) : sum / double(terms.size());
    else c.y[i] = most;
  }
  return c;
}
constexpr ScatterKind kKinds[] = {ScatterKind::replace, ScatterKind::add, ScatterKind::mean, ScatterKind::amax, ScatterKind::amin};
constexpr DType kNumbers[] = {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64};
ScatterDescriptor scatter_of(const GatherDescriptor& g, ScatterKind reduce, bool self, double alpha) {
  return {.dtype = g.dtype, .shape = g.shape, .axis = g.axis, .indices = g.indices, .reduce = reduce, .include_self = self, .alpha = alpha,
          .index_dtype = g.index_dtype, .out_of_range = g.out_of_range, .negative = g.negative};
}
Tensor values_for(DType t, const Shape& s, uint64_t seed, Layout layout = Layout::dense) {
  if (is_floating(t)) return Tensor::normal(t, s, seed, 0, 1, layout);
  return Tensor(t, s, Tensor::integers(t, s, seed, kDTypeFacts[size_t(t)].is_signed ? -4 : 0, 5).values(), layout);
}
TEST(Index, ScatterCombinesInOrder) {
  for (const Along& a : kAlong)
    for (ScatterKind reduce : kKinds)
      for (DType t : kNumbers)
        for (bool self : {true, false})
          for (Layout layout : {Layout::dense, Layout::transposed, Layout::reversed, Layout::every_other}) {
            if (on_cuda() && (layout != Layout::dense ? t != DType::f32 : t == DType::u16 || t == DType::u32)) continue;
            const int64_t n = a.shape[int(a.axis < 0 ? a.axis + a.shape.rank : a.axis)];
            const GatherDescriptor g{.dtype = t, .shape = a.shape, .axis = a.axis, .indices = a.indices, .out_of_range = self ? OutOfRange::fill : OutOfRange::clip};
            const double alpha = reduce == ScatterKind::add ? (is_floating(t) ? -0.5 : 3) : 1;
            const ScatterDescriptor d = scatter_of(g, reduce, self, alpha);
            const Tensor indices = random_indices(DType::i64, a.indices, 3, -1, n + 1, layout), x = values_for(t, a.shape, 1, layout), src = values_for(t, a.indices, 2, layout);
            Tensor y(t, a.shape, layout), in_place = x;
            y.poison();
            ASSERT_OK(run_plan<Scatter>(d, {x, indices, src, y}));
            ASSERT_OK(run_plan<Scatter>(d, {in_place, indices, src, in_place}));
            EXPECT_TRUE(y.guards_intact() && in_place.same_bits(y));
            const Combined want = combine(reduce, self, alpha, !is_floating(t), x.values(), src.values(), places(g, indices.values()));
            const bool sums = is_floating(t) && (reduce == ScatterKind::add || reduce == ScatterKind::mean);
            if (!sums) ASSERT_EQ(y.values(), want.y) << describe(d);
            else ASSERT_TRUE(compare(y, want.y, {.dtype = t, .terms = double(src.numel())}, &want.scale)) << describe(d);
          }
  // bool: "or"; integers keep their low bits; NaN stays.
  const Tensor at(DType::i64, {3}, {0, 0, 1});
  Tensor b(DType::boolean, {3}, {0, 1, 0}), u(DType::u8, {3}, {250, 1, 2}), f(DType::f16, {3}, {1, NAN, 2});
  ASSERT_OK(run_plan<Scatter>({.dtype = DType::boolean, .shape = {3}, .indices = {3}, .reduce = ScatterKind::add, .out_of_range = careful()}, {b, at, Tensor(DType::boolean, {3}, {0, 1, 0}), b}));
  EXPECT_EQ(b.values(), (std::vector<double>{1, 1, 0}));
  ASSERT_OK(run_plan<Scatter>({.dtype = DType::u8, .shape = {3}, .indices = {3}, .reduce = ScatterKind::add, .out_of_range = careful()}, {u, at, Tensor(DType::u8, {3}, {5, 5, 5}), u}));
  EXPECT_EQ(u.values(), (std::vector<double>{4, 6, 2}));
  for (ScatterKind reduce : {ScatterKind::amax, ScatterKind::amin}) {
    Tensor y(DType::f16, {3});
    ASSERT_OK(run_plan<Scatter>({.dtype = DType::f16, .shape = {3}, .indices = {3}, .reduce = reduce, .out_of_range = careful()}, {f, at, Tensor(DType::f16, {3}, {NAN, 5, 5}), y}));
    EXPECT_TRUE(std::isnan(y.at(0)) && std::isnan(y.at(1)) && y.at(2) == 2);
  }
}
TEST(Index, IndexPutCombinesSlices) {
  for (const Slices& s : kSlices)
    for (ScatterKind reduce : kKinds)
      for (DType t : {DType::i16, DType::bf16, DType::f32, DType::f64})
        for (bool self : {true, false})
          for (Layout layout : kLayouts) {
            if (on_cuda() && layout != Layout::dense && t != DType::f32) continue;
            const Lists lists(s, DType::i32, 9, 1, 1);
            const IndexDescriptor g{.dtype = t, .shape = s.shape, .axes = s.axes, .indices = s.indices, .index_dtype = DType::i32, .out_of_range = OutOfRange::fill, .negative = true};
            const IndexPutDescriptor d{.dtype = t, .shape = s.shape, .axes = s.axes, .indices = s.indices, .reduce = reduce, .include_self = self,
                                       .index_dtype = DType::i32, .out_of_range = OutOfRange::fill, .negative = true};
            Shape walk;
            const auto at = places(g, lists.values, walk);
            ASSERT_TRUE(d.src_shape() == walk);
            const Tensor x = values_for(t, s.shape, 1, layout), src = values_for(t, walk, 2, layout);
            Tensor y(t, s.shape, layout);
            ASSERT_OK(run_plan<IndexPut>(d, {x, lists.views, src, y}));
            EXPECT_TRUE(y.guards_intact());
            const Combined want = combine(reduce, self, 1, !is_floating(t), x.values(), src.values(), at);
            const bool sums = is_floating(t) && (reduce == ScatterKind::add || reduce == ScatterKind::mean);
            if (!sums) ASSERT_EQ(y.values(), want.y) << describe(d);
            else ASSERT_TRUE(compare(y, want.y, {.dtype = t, .terms = double(src.numel())}, &want.scale)) << describe(d);
          }
}

// --- gradients
TEST(Index, GradientsOfReadsAreSums) {
  for (DType t : kFloats)
    for (Layout layout : kLayouts) {
      for (const Along& a : kAlong) {
        const int64_t n = a.shape[int(a.axis < 0 ? a.axis + a.shape.rank : a.axis)];
        const GatherDescriptor d{.dtype = t, .shape = a.shape, .axis = a.axis, .indices = a.indices, .out_of_range = OutOfRange::fill};
        const Tensor indices = random_indices(DType::i64, a.indices, 3, -1, n + 1, layout), dy = Tensor::normal(t, a.indices, 2, 0, 1, layout);
        Tensor dx(t, a.shape, layout);
        dx.poison();
        ASSERT_OK(run_plan<GatherBackward>(d, {dy, indices, dx}));
        EXPECT_TRUE(dx.guards_intact());
        const Combined want = combine(ScatterKind::add, true, 1, false, std::vector<double>(size_t(dx.numel())), dy.values(), places(d, indices.values()));
        ASSERT_TRUE(compare(dx, want.y, {.dtype = t, .terms = double(dy.numel())}, &want.scale)) << describe(d);
      }
      for (const Slices& s : kSlices) {
        const Lists lists(s, DType::i64, 9);
        const IndexDescriptor d{.dtype = t, .shape = s.shape, .axes = s.axes, .indices = s.indices, .out_of_range = careful()};
        Shape walk;
        const auto at = places(d, lists.values, walk);
        const Tensor dy = Tensor::normal(t, walk, 2, 0, 1, layout);
        Tensor dx(t, s.shape, layout);
        dx.poison();
        ASSERT_OK(run_plan<IndexBackward>(d, {dy, lists.views, dx}));
        EXPECT_TRUE(dx.guards_intact());
        const Combined want = combine(ScatterKind::add, true, 1, false, std::vector<double>(size_t(dx.numel())), dy.values(), at);
        ASSERT_TRUE(compare(dx, want.y, {.dtype = t, .terms = double(dy.numel())}, &want.scale)) << describe(d);
      }
    }
}
// What each element of x and src gets of the dy above it, from the definition.
struct Shares { std::vector<double> dx, dsrc; };
Shares shares(ScatterKind reduce, bool self, double alpha, const std::vector<double>& dy, const std::vector<double>& x, const std::vector<double>& src,
              const std::vector<double>& y, const std::vector<int64_t>& at) {
  Shares s{dy, std::vector<double>(src.size())};
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<size_t> hits;
    for (size_t o = 0; o < at.size(); ++o)
      if (at[o] == int64_t(i)) hits.push_back(o);
    if (hits.empty()) continue;
    double count = 0;
    auto wins = [&](double v) { return v == y[i] || (std::isnan(v) && std::isnan(y[i])); };
    for (size_t o : hits) count += reduce == ScatterKind::mean || wins(src[o]);
    if (self) count += reduce == ScatterKind::mean || wins(x[i]);
    switch (reduce) {
      case ScatterKind::replace: s.dx[i] = 0, s.dsrc[hits.back()] = dy[i]; break;
      case ScatterKind::add:
        if (!self) s.dx[i] = 0;
        for (size_t o : hits) s.dsrc[o] = alpha * dy[i];
        break;
      case ScatterKind::mean:
        s.dx[i] = self ? dy[i] / count : 0;
        for (size_t o : hits) s.dsrc[o] = dy[i] / count;
        break;
      default:
        s.dx[i] = self && wins(x[i]) ? dy[i] / count : 0;
        for (size_t o : hits) s.dsrc[o] = wins(src[o]) ? dy[i] / count : 0;
    }
  }
  return s;
}
TEST(Index, GradientsOfWritesAreShares) {
  for (DType t : kFloats)
    for (ScatterKind reduce : kKinds)
      for (bool self : {true, false})
        for (Layout layout : kLayouts) {
          for (const Along& a : kAlong) {
            const int64_t n = a.shape[int(a.axis < 0 ? a.axis + a.shape.rank : a.axis)];
            const GatherDescriptor g{.dtype = t, .shape = a.shape, .axis = a.axis, .indices = a.indices, .out_of_range = OutOfRange::fill};
            const ScatterDescriptor d = scatter_of(g, reduce, self, reduce == ScatterKind::add ? -0.5 : 1);
            // Small integers tie often; one is NaN.
            const Tensor indices = random_indices(DType::i64, a.indices, 3, -1, n + 1, layout), dy = Tensor::normal(t, a.shape, 2, 0, 1, layout);
            Tensor x(t, a.shape, Tensor::integers(t, a.shape, 5, -2, 3).values(), layout), src(t, a.indices, Tensor::integers(t, a.indices, 6, -2, 3).values(), layout);
            if (src.numel() > 0) src.set(0, NAN);
            Tensor y(t, a.shape), dx(t, a.shape, layout), dsrc(t, a.indices, layout), alone(t, a.indices, layout);
            ASSERT_OK(run_plan<Scatter>(d, {x, indices, src, y}));
            dx.poison(), dsrc.poison();
            ASSERT_OK(run_plan<ScatterBackward>(d, {dy, indices, x, src, y, dx, dsrc}));
            ASSERT_OK(run_plan<ScatterBackward>(d, {dy, indices, x, src, y, {}, alone}));
            EXPECT_TRUE(dx.guards_intact() && dsrc.guards_intact() && alone.same_bits(dsrc));
            const Shares want = shares(reduce, self, d.alpha, dy.values(), x.values(), src.values(), y.values(), places(g, indices.values()));
            ASSERT_TRUE(compare(dx, want.dx, {.dtype = t})) << describe(d);
            ASSERT_TRUE(compare(dsrc, want.dsrc, {.dtype = t})) << describe(d);
          }
          for (const Slices& s : kSlices) {
            const Lists lists(s, DType::i64, 9);
            const IndexDescriptor g{.dtype = t, .shape = s.shape, .axes = s.axes, .indices = s.indices};
            const IndexPutDescriptor d{.dtype = t, .shape = s.shape, .axes = s.axes, .indices = s.indices, .reduce = reduce, .include_self = self, .out_of_range = careful()};
            Shape walk;
            const auto at = places(g, lists.values, walk);
            const Tensor dy = Tensor::normal(t, s.shape, 2, 0, 1, layout), x(t, s.shape, Tensor::integers(t, s.shape, 5, -2, 3).values(), layout),
                         src(t, walk, Tensor::integers(t, walk, 6, -2, 3).values(), layout);
            Tensor y(t, s.shape), dx(t, s.shape, layout), dsrc(t, walk, layout);
            ASSERT_OK(run_plan<IndexPut>(d, {x, lists.views, src, y}));
            ASSERT_OK(run_plan<IndexPutBackward>(d, {dy, lists.views, x, src, y, dx, dsrc}));
            const Shares want = shares(reduce, self, 1, dy.values(), x.values(), src.values(), y.values(), at);
            ASSERT_TRUE(compare(dx, want.dx, {.dtype = t})) << describe(d);
            ASSERT_TRUE(compare(dsrc, want.dsrc, {.dtype = t})) << describe(d);
          }
        }
}
// What the shares say is the slope: differences in double, where nothing ties.
TEST(Index, GradientsAreSlopes) {
  for (ScatterKind reduce : kKinds)
    for (bool self : {true, false}) {
      const ScatterDescriptor d{.dtype = DType::f64, .shape = {4, 5}, .axis = 1, .indices = {4, 9}, .reduce = reduce, .include_self = self, .alpha = reduce == ScatterKind::add ? 1.5 : 1, .out_of_range = careful()};
      const Tensor indices = random_indices(DType::i64, {4, 9}, 3, 0, 5), dy = Tensor::normal(DType::f64, {4, 5}, 2);
      Tensor x = Tensor::normal(DType::f64, {4, 5}, 5), src = Tensor::normal(DType::f64, {4, 9}, 6), y(DType::f64, {4, 5}), dx(DType::f64, {4, 5}), dsrc(DType::f64, {4, 9});
      ASSERT_OK(run_plan<Scatter>(d, {x, indices, src, y}));
      ASSERT_OK(run_plan<ScatterBackward>(d, {dy, indices, x, src, y, dx, dsrc}));
      auto loss = [&] {
        Tensor now(DType::f64, {4, 5});
        EXPECT_OK(run_plan<Scatter>(d, {x, indices, src, now}));
        double sum = 0;
        for (int64_t i = 0; i < now.numel(); ++i) sum += dy.at(i) * now.at(i);
        return sum;
      };
      check_directional(loss, x, dx, 1, 1e-7, 1e-5);
      check_directional(loss, src, dsrc, 2, 1e-7, 1e-5);
    }
}
// Indices without a stride along an axis: torch's index_add. One column and many indices: threads share out the places.
TEST(Index, ExpandedIndicesAndLongColumns) {
  const int64_t n = 40000;
  for (DType t : {DType::bf16, DType::f32}) {
    const Tensor list = random_indices(DType::i64, {7}, 3, 0, 5), src = Tensor::normal(t, {7, 300}, 2), x = Tensor::normal(t, {5, 300}, 1);
    TensorView wide = list.view();
    wide.shape = {7, 300}, wide.strides = {1, 0};
    const Tensor full = [&] {
      std::vector<double> v;
      for (int64_t i = 0; i < 2100; ++i) v.push_back(list.at(i / 300));
      return Tensor(DType::i64, {7, 300}, v);
    }();
    Tensor a(t, {5, 300}), b(t, {5, 300});
    const ScatterDescriptor d{.dtype = t, .shape = {5, 300}, .indices = {7, 300}, .reduce = ScatterKind::add, .out_of_range = careful()};
    ASSERT_OK(run_plan<Scatter>(d, {x, wide, src, a}));
    ASSERT_OK(run_plan<Scatter>(d, {x, full, src, b}));
    EXPECT_TRUE(a.same_bits(b));
    for (ScatterKind reduce : kKinds) {
      const ScatterDescriptor line{.dtype = t, .shape = {97}, .indices = {n}, .reduce = reduce, .out_of_range = careful()};
      const Tensor at = random_indices(DType::i64, {n}, 4, 0, 97), from = Tensor::normal(t, {n}, 5), start = Tensor::normal(t, {97}, 6), g = Tensor::normal(t, {97}, 7);
      Tensor y(t, {97}), dx(t, {97}), dsrc(t, {n});
      check_repeat_bits<Scatter>(line, {start, at, from, y}, {}, 1);
      check_repeat_bits<ScatterBackward>(line, {g, at, start, from, y, dx, dsrc}, {}, 1);
      const Combined want = combine(reduce, true, 1, false, start.values(), from.values(), places(GatherDescriptor{.shape = {97}, .indices = {n}}, at.values()));
      EXPECT_CLOSE(y, want.y, {.dtype = t, .terms = double(n)}, &want.scale);
    }
    Tensor dx(t, {97});
    check_repeat_bits<GatherBackward>({.dtype = t, .shape = {97}, .indices = {n}, .out_of_range = careful()}, {Tensor::normal(t, {n}, 5), random_indices(DType::i64, {n}, 4, 0, 97), dx}, {}, 1);
  }
}
// Many slices at two indices, with fewer columns than threads: ranges of the first key, among indices that are none.
TEST(Index, SlicesSharedOutByRanges) {
  const int64_t n = 17000;
  for (int64_t width : {1, 2, 16})
    for (ScatterKind reduce : {ScatterKind::replace, ScatterKind::add})
      for (DType t : {DType::bf16, DType::f32}) {
        const IndexDescriptor g{.dtype = t, .shape = {3, 4, width}, .axes = {0, 1}, .indices = {n}, .out_of_range = OutOfRange::fill, .negative = true};
        const Tensor a = random_indices(DType::i64, {n}, 5, -4, 4), b = random_indices(DType::i64, {n}, 6, -5, 5);
        const std::vector<TensorView> lists = {a, b};
        Shape walk;
        const auto at = places(g, {a.values(), b.values()}, walk);
        const Tensor x = Tensor::normal(t, g.shape, 1), src = Tensor::normal(t, walk, 2);
        Tensor y(t, g.shape), dx(t, g.shape);
        check_repeat_bits<IndexPut>({.dtype = t, .shape = g.shape, .axes = g.axes, .indices = g.indices, .reduce = reduce, .out_of_range = g.out_of_range, .negative = true},
                                    {x, lists, src, y}, {}, 1);
        const Combined want = combine(reduce, true, 1, false, x.values(), src.values(), at);
        EXPECT_CLOSE(y, want.y, {.dtype = t, .terms = double(n)}, &want.scale);
        if (reduce != ScatterKind::add) continue;
        check_repeat_bits<IndexBackward>(g, {src, lists, dx}, {}, 1);
        const Combined slope = combine(reduce, true, 1, false, std::vector<double>(size_t(g.shape.numel())), src.values(), at);
        EXPECT_CLOSE(dx, slope.y, {.dtype = t, .terms = double(n)}, &slope.scale);
      }
}
TEST(Index, PastTheCaches) {
  if (on_cuda()) GTEST_SKIP() << "stores past the caches are the CPU's";
  for (DType t : {DType::bf16, DType::f32}) {
    const int64_t width = 192, rows = kPastCaches / int64_t(byte_size(t)) / width + 1;
    const Shape shape{rows, width};
    const Large x(t, shape), past(t, shape), plain(t, shape, 1);
    const Tensor across = random_indices(DType::i32, {rows}, 1, -1, rows);
    const std::vector<TensorView> lists = {across};
    const IndexDescriptor slices{.dtype = t, .shape = shape, .indices = {rows}, .index_dtype = DType::i32, .out_of_range = OutOfRange::fill};
    ASSERT_OK(run_plan<Index>(slices, {x, lists, past}));
    ASSERT_OK(run_plan<Index>(slices, {x, lists, plain}));
    EXPECT_TRUE(past.same_bits(plain));
    const Tensor along = random_indices(DType::i32, {1000}, 2, -1, width);
    std::vector<int32_t> all(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = int32_t(along.at(int64_t(i % 1000)));
    const TensorView indices = TensorView::dense(all.data(), DType::i32, shape);
    const GatherDescriptor one{.dtype = t, .shape = shape, .axis = 1, .indices = shape, .index_dtype = DType::i32, .out_of_range = OutOfRange::fill};
    ASSERT_OK(run_plan<Gather>(one, {x, indices, past}));
    ASSERT_OK(run_plan<Gather>(one, {x, indices, plain}));
    EXPECT_TRUE(past.same_bits(plain));
    const auto element = [t](const Large& v, int64_t i) { return read_element(t, v.view().as<char>() + i * int64_t(byte_size(t))); };
    for (int64_t i = 0; i < shape.numel(); i += 4099) {
      const int32_t at = all[size_t(i)];
      const double got = element(past, i);
      if (at < 0) EXPECT_TRUE(std::isnan(got)) << i;
      else ASSERT_EQ(got, element(x, i / width * width + at)) << i;
    }
  }
}
TEST(Index, RankZero) {  // one place, along axis 0
  const Tensor x(DType::f32, {}, {3.5}), at(DType::i64, {}, {0}), beyond(DType::i64, {}, {1}), src(DType::f32, {}, {2});
  Tensor y(DType::f32, {}), dx(DType::f32, {}), dsrc(DType::f32, {});
  for (int64_t axis : {0, -1}) {
    ASSERT_OK(run_plan<Gather>({.shape = {}, .axis = axis, .indices = {}, .out_of_range = careful()}, {x, at, y}));
    EXPECT_EQ(y.at(0), 3.5);
    ASSERT_OK(run_plan<GatherBackward>({.shape = {}, .axis = axis, .indices = {}, .out_of_range = careful()}, {src, at, dx}));
    EXPECT_EQ(dx.at(0), 2);
    for (ScatterKind reduce : kKinds) {
      const ScatterDescriptor d{.shape = {}, .axis = axis, .indices = {}, .reduce = reduce, .out_of_range = careful()};
      ASSERT_OK(run_plan<Scatter>(d, {x, at, src, y}));
      EXPECT_EQ(y.at(0), reduce == ScatterKind::add ? 5.5 : reduce == ScatterKind::mean ? 2.75 : reduce == ScatterKind::amax ? 3.5 : 2);
      ASSERT_OK(run_plan<ScatterBackward>(d, {src, at, x, src, y, dx, dsrc}));
      EXPECT_EQ(dx.at(0) + (reduce == ScatterKind::add ? 0 : dsrc.at(0)), 2);
    }
  }
  if (!on_cuda()) expect_refused(run_plan<Gather>({.shape = {}, .indices = {}}, {x, beyond, y}), Code::invalid_problem, {"gather", "is 1", "extent 1"});
  ASSERT_OK(run_plan<Gather>({.shape = {}, .indices = {}, .out_of_range = OutOfRange::clip}, {x, beyond, y}));
  EXPECT_EQ(y.at(0), 3.5);
  expect_refused(GatherPlan::select(Stream::cpu(), {.shape = {}, .axis = 1, .indices = {}}).status(), Code::invalid_problem, {"axis 1"});
  expect_refused(GatherPlan::select(Stream::cpu(), {.shape = {}, .indices = {1}}).status(), Code::invalid_problem, {"rank 1"});
}
TEST(Index, OneHot) {
  for (DType t : {DType::boolean, DType::i8, DType::bf16, DType::f32, DType::i64})
    for (Layout layout : kLayouts)
      for (int64_t classes : {1, 5, 700})
        for (int64_t axis : {0, 1, 2, -1, -2})
          for (OutOfRange rule : {careful(), OutOfRange::fill, OutOfRange::clip})
            for (bool negative : {false, true}) {
              OneHotDescriptor d{.dtype = t, .shape = {3, 4}, .classes = classes, .axis = axis, .index_dtype = layout == Layout::dense ? DType::i32 : DType::i64,
                                 .out_of_range = rule, .negative = negative};
              const bool any = rule != OutOfRange::refuse;
              const Tensor at = random_indices(d.index_dtype, {3, 4}, 7, negative || any ? -classes - any : 0, classes + any);
              Tensor y(t, d.y_shape(), layout);
              y.poison();
              ASSERT_OK(run_plan<OneHot>(d, {at, y}));
              EXPECT_TRUE(y.guards_intact());
              const int a = int(axis < 0 ? axis + 3 : axis);
              for (int64_t i = 0; i < y.numel(); ++i) {
                auto c = coordinates(i, d.y_shape());
                const int64_t k = c[size_t(a)];
                c.erase(c.begin() + a);
                int64_t want = int64_t(at.at(ordinal(c, d.shape)));
                ASSERT_EQ(y.at(i), settle(want, classes, rule, negative) && want == k) << describe(d) << " " << i;
              }
            }
  const Tensor at(DType::i64, {2}, {4, 5}), one(DType::i64, {}, {2});
  Tensor y(DType::f32, {2, 5}), none(DType::f32, {2, 0}), scalar(DType::f32, {3});
  if (!on_cuda())
    expect_refused(run_plan<OneHot>({.dtype = DType::f32, .shape = {2}, .classes = 5}, {at, y}), Code::invalid_problem, {"one_hot", "indices[1] is 5", "axis 1", "extent 5"});
  expect_refused(OneHotPlan::select(Stream::cpu(), {.shape = {2}, .classes = -1}).status(), Code::invalid_problem, {"classes is -1"});
  expect_refused(OneHotPlan::select(Stream::cpu(), {.shape = {2}, .classes = 2, .axis = 2}).status(), Code::invalid_problem, {"axis 2"});
  expect_refused(OneHotPlan::select(Stream::cpu(), {.shape = {2}, .classes = 2, .index_dtype = DType::u8}).status(), Code::invalid_problem, {"index_dtype u8"});
  ASSERT_OK(run_plan<OneHot>({.dtype = DType::f32, .shape = {2}, .classes = 0, .out_of_range = OutOfRange::clip}, {at, none}));
  ASSERT_OK(run_plan<OneHot>({.dtype = DType::f32, .shape = {}, .classes = 3, .out_of_range = careful()}, {one, scalar}));
  EXPECT_EQ(scalar.values(), (std::vector<double>{0, 0, 1}));
  const Tensor many = random_indices(DType::i64, {3000}, 3, 0, 40);
  Tensor wide(DType::f32, {3000, 40});
  const OneHotDescriptor d{.dtype = DType::f32, .shape = {3000}, .classes = 40, .out_of_range = careful()};
  check_contract<OneHot>(d, {many, wide});
  check_repeat_bits<OneHot>(d, {many, wide}, {}, 1);
}
TEST(Index, case_embedding_determinism) {  // half of many indices are one
  const Shape rows{3000, 30};
  std::vector<double> v = Tensor::integers(DType::i64, {20000}, 3, 0, 3000).values();
  for (size_t i = 0; i < v.size(); i += 2) v[i] = 17;
  const Tensor list(DType::i64, {20000}, v), dy = Tensor::normal(DType::f16, {20000, 30}, 2);
  const std::vector<TensorView> lists = {list};
  Tensor dx(DType::f16, rows);
  check_repeat_bits<IndexBackward>({.dtype = DType::f16, .shape = rows, .indices = {20000}, .out_of_range = careful()}, {dy, lists, dx}, {}, 2);
  std::vector<double> want(size_t(rows.numel())), scale(want.size());
  for (int64_t i = 0; i < dy.numel(); ++i) {
    const size_t at = size_t(v[size_t(i / 30)]) * 30 + size_t(i % 30);
    want[at] += dy.at(i), scale[at] += std::fabs(dy.at(i));
  }
  EXPECT_CLOSE(dx, want, {.dtype = DType::f16, .terms = 20000}, &scale);
}
TEST(Index, ContractAndRefusals) {
  if (on_cuda()) GTEST_SKIP() << "refusals of CPU rows";
  const Shape shape{6, 40}, small{4, 40};
  const Tensor x = Tensor::normal(DType::f32, shape, 1), src = Tensor::normal(DType::f32, small, 2), indices = random_indices(DType::i64, small, 3, 0, 6);
  Tensor y(DType::f32, shape), g(DType::f32, small), dx(DType::f32, shape), dsrc(DType::f32, small), half(DType::bf16, shape);
  const Tensor hs = Tensor::normal(DType::bf16, small, 2), list = random_indices(DType::i64, {3}, 3, 0, 6);
  const std::vector<TensorView> lists = {list};
  Tensor slices(DType::f32, {3, 40});
  check_contract<Gather>({.shape = shape, .indices = small}, {x, indices, g});
  check_contract<GatherBackward>({.dtype = DType::bf16, .shape = shape, .indices = small}, {hs, indices, half});
  check_contract<Index>({.shape = shape, .indices = {3}}, {x, lists, slices});
  check_contract<IndexBackward>({.shape = shape, .indices = {3}}, {slices, lists, dx});
  check_contract<Scatter>({.shape = shape, .indices = small, .reduce = ScatterKind::mean}, {x, indices, src, y});
  check_contract<ScatterBackward>({.shape = shape, .indices = small, .reduce = ScatterKind::amax}, {x, indices, x, src, y, dx, dsrc});
  check_contract<IndexPut>({.shape = shape, .indices = {3}}, {x, lists, slices, y});
  Tensor dslices(DType::f32, {3, 40});
  check_contract<IndexPutBackward>({.shape = shape, .indices = {3}, .reduce = ScatterKind::amin}, {x, lists, x, slices, y, dx, dslices});
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  expect_refused(GatherPlan::select(s, {.shape = shape, .axis = 2, .indices = small}).status(), bad, {"gather", "axis 2", "rank 2"});
  expect_refused(GatherPlan::select(s, {.shape = shape, .indices = {4}}).status(), bad, {"indices [4]", "rank 1"});
  expect_refused(GatherPlan::select(s, {.shape = shape, .indices = {4, 41}}).status(), bad, {"[4, 41]", "40", "axis 1"});
  expect_refused(GatherPlan::select(s, {.shape = shape, .indices = small, .index_dtype = DType::u8}).status(), bad, {"index_dtype u8"});
  expect_refused(IndexPlan::select(s, {.shape = shape, .axes = {1, 0}, .indices = {3}}).status(), bad, {"index", "axes [1, 0]", "ascend"});
  expect_refused(IndexPlan::select(s, {.shape = shape, .axes = {}, .indices = {3}}).status(), bad, {"axes []"});
  expect_refused(IndexPlan::select(s, {.shape = {1, 1, 1, 1, 1}, .indices = {1, 1, 1, 1, 1}}).status(), bad, {"slices", "rank 9"});
  expect_refused(run_plan<Index>({.shape = shape, .axes = {0, 1}, .indices = {3}}, {x, lists, Tensor(DType::f32, {3})}), bad, {"indices has 1 tensors for 2 axes"});
  expect_refused(run_plan<Index>({.shape = shape, .indices = {4}}, {x, lists, Tensor(DType::f32, {4, 40})}), bad, {"indices[0]", "broadcast"});
  expect_refused(ScatterPlan::select(s, {.dtype = DType::boolean, .shape = shape, .indices = small, .reduce = ScatterKind::mean}).status(), Code::unsupported, {"no mean of bool"});
  expect_refused(ScatterPlan::select(s, {.dtype = DType::c64, .shape = shape, .indices = small, .reduce = ScatterKind::add}).status(), Code::unsupported, {"no add of c64"});
  expect_refused(ScatterPlan::select(s, {.dtype = DType::i32, .shape = shape, .indices = small, .reduce = ScatterKind::add, .alpha = 0.5}).status(), bad, {"alpha 0.5", "i32"});
  expect_refused(ScatterPlan::select(s, {.shape = shape, .indices = small, .alpha = NAN}).status(), bad, {"alpha", "finite"});
  expect_refused(run_plan<ScatterBackward>({.shape = shape, .indices = small, .reduce = ScatterKind::amax}, {x, indices, {}, src, y, dx, dsrc}), bad, {"x is missing", "amax"});
  expect_refused(run_plan<Gather>({.shape = shape, .indices = shape}, {x, Tensor(DType::i64, shape), x}), bad, {"y overlaps"});
}

}  // namespace
}  // namespace baracuda
