#include "baracuda/ops/shape/shape.hpp"
#include <algorithm>
#include <numeric>
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType kSizes[] = {DType::boolean, DType::bf16, DType::f32, DType::i64, DType::c128};  // 1, 2, 4, 8 and 16 bytes
constexpr Layout kLayouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};

// The oracle of an op of moves: per axis, the index of x that each index of y takes, -1 where y is filled.
using Axis = std::vector<int64_t>;
struct Source {
  Shape x;
  std::vector<Axis> axes;
  Shape y() const {
    Shape s;
    for (const Axis& a : axes) s.push_back(int64_t(a.size()));
    return s;
  }
  int64_t at(int64_t o) const {  // row-major numbers
    int64_t i = 0, step = 1;
    bool filled = false;
    for (size_t a = axes.size(); a-- > 0;) {
      const int64_t n = int64_t(axes[a].size()), k = axes[a][size_t(o % n)];
      o /= n, filled = filled || k < 0, i += k * step, step *= x[int(a)];
    }
    return filled ? -1 : i;
  }
};
Axis counted(int64_t n) {
  Axis a(static_cast<size_t>(n));
  std::iota(a.begin(), a.end(), 0);
  return a;
}
Source identity(const Shape& x) {
  Source s{x, {}};
  for (int i = 0; i < x.rank; ++i) s.axes.push_back(counted(x[i]));
  return s;
}
std::vector<uint8_t> random_bytes(DType t, int64_t n, uint64_t seed) {
  testing::Source r(seed);
  std::vector<uint8_t> b(size_t(n) * byte_size(t));
  for (uint8_t& e : b) e = uint8_t(r.next() >> 32) & (t == DType::boolean ? 1 : 0xff);
  return b;
}
// y's bytes are x's, or `fill`.
template <class Op, class D>
void check_moves(D d, const Source& s, std::vector<uint8_t> fill = std::vector<uint8_t>(16), double value = 0) {
  for (DType t : kSizes) {
    d.dtype = t;
    if (value != 0) fill.assign(16, 0), write_element(t == DType::c128 ? DType::f64 : t, fill.data(), value);
    if (value != 0 && t == DType::c128) continue;
    for (Layout xl : kLayouts)
      for (Layout yl : kLayouts) {
        if (xl != Layout::dense && yl != Layout::dense && xl != yl) continue;
        Tensor x(t, d.shape, xl), y(t, s.y(), yl);
        const size_t size = byte_size(t);
        const auto bytes = random_bytes(t, x.numel(), 5);
        put_bytes(x, bytes);
        y.poison();
        if constexpr (requires(typename Op::Args a) { a.value; }) ASSERT_OK(run_plan<Op>(d, {x, y, value}));
        else ASSERT_OK(run_plan<Op>(d, {x, y}));
        EXPECT_TRUE(y.guards_intact());
        const auto got = bytes_of(y);
        for (int64_t o = 0; o < y.numel(); ++o) {
          const int64_t i = s.at(o);
          const uint8_t* want = i < 0 ? fill.data() : &bytes[size_t(i) * size];
          ASSERT_TRUE(std::equal(want, want + size, &got[size_t(o) * size]))
              << Op::name << " " << describe(d) << " y[" << o << "], layouts " << int(xl) << " " << int(yl);
        }
      }
  }
}
// dx[i] is the sum of dy over the indices that took i.
template <class Op, class D> void check_sums(D d, const Source& s) {
  for (DType t : kFloats)
    for (Layout dyl : kLayouts)
      for (Layout dxl : kLayouts) {
        if (dyl != Layout::dense && dxl != Layout::dense && dxl != dyl) continue;
        d.dtype = t;
        const Tensor dy = Tensor::normal(t, s.y(), 3, 0, 1, dyl);
        Tensor dx(t, d.shape, dxl);
        dx.poison();
        ASSERT_OK(run_plan<Op>(d, {dy, dx}));
        EXPECT_TRUE(dx.guards_intact());
        std::vector<double> want(static_cast<size_t>(dx.numel())), scale(want.size());
        for (int64_t o = 0; o < dy.numel(); ++o)
          if (const int64_t i = s.at(o); i >= 0) want[size_t(i)] += dy.at(o), scale[size_t(i)] += std::fabs(dy.at(o));
        const auto comparison = compare(dx, want, {.dtype = t, .terms = double(dy.numel())}, &scale);
        ASSERT_TRUE(comparison) << Op::name << " " << describe(d) << ": " << comparison.message;
      }
}

// Written as lists are made, not by formulas of indices.
Axis padded(int64_t n, PadMode mode, int64_t lo, int64_t hi, int64_t interior) {
  Axis a = counted(n);
  if (mode == PadMode::constant) {
    Axis wide;
    for (int64_t i = 0; i < n; ++i) {
      wide.push_back(i);
      if (i + 1 < n) wide.insert(wide.end(), size_t(interior), -1);
    }
    a = wide;
  }
  auto crop = [&] {
    if (lo < 0) a.erase(a.begin(), a.begin() - lo);
    if (hi < 0) a.erase(a.end() + hi, a.end());
  };
  if (mode == PadMode::circular) crop(), n = int64_t(a.size());
  const Axis core = a;
  Axis front, back;
  for (int64_t k = 0; k < lo; ++k)
    front.insert(front.begin(), mode == PadMode::constant ? -1 : mode == PadMode::reflect ? core[size_t(k + 1)] : mode == PadMode::symmetric ? core[size_t(k)]
                                : mode == PadMode::replicate ? core.front() : core[size_t(((n - 1 - k) % n + n) % n)]);
  for (int64_t k = 0; k < hi; ++k)
    back.push_back(mode == PadMode::constant ? -1 : mode == PadMode::reflect ? core[size_t(n - 2 - k)] : mode == PadMode::symmetric ? core[size_t(n - 1 - k)]
                   : mode == PadMode::replicate ? core.back() : core[size_t(k % n)]);
  a.insert(a.begin(), front.begin(), front.end());
  a.insert(a.end(), back.begin(), back.end());
  if (mode != PadMode::circular) crop();
  return a;
}
Source source_of(const PadDescriptor& d) {
  Source s{d.shape, {}};
  for (int i = 0; i < d.shape.rank; ++i)
    s.axes.push_back(padded(d.shape[i], d.mode, d.lo.rank ? d.lo[i] : 0, d.hi.rank ? d.hi[i] : 0, d.interior.rank ? d.interior[i] : 0));
  return s;
}
TEST(Shape, Pad) {
  const PadDescriptor cases[] = {
      {DType::f32, {5, 7}, PadMode::constant, {1, 2}, {3, 0}, {}},       {DType::f32, {5, 7}, PadMode::constant, {-1, 2}, {3, -4}, {}},
      {DType::f32, {3, 4}, PadMode::constant, {1, -1}, {0, 2}, {2, 1}},  {DType::f32, {0, 3}, PadMode::constant, {1, 0}, {2, 0}, {}},
      {DType::f32, {2, 3, 4}, PadMode::constant, {}, {}, {}},            {DType::f32, {2, 3}, PadMode::constant, {-5, 0}, {3, 0}, {}},
      {DType::f32, {2, 3, 40}, PadMode::constant, {0, 1, 0}, {1, 1, 0}, {}},
      {DType::f32, {4, 5}, PadMode::reflect, {3, 4}, {2, 1}, {}},        {DType::f32, {2, 4, 5}, PadMode::reflect, {0, -1, 2}, {0, 3, -2}, {}},
      {DType::f32, {6}, PadMode::reflect, {-7}, {5}, {}},                {DType::f32, {4, 5}, PadMode::replicate, {3, 6}, {2, 9}, {}},
      {DType::f32, {4, 5}, PadMode::replicate, {-2, -1}, {5, -1}, {}},   {DType::f32, {1, 1}, PadMode::replicate, {2, 0}, {2, 3}, {}},
      {DType::f32, {4, 5}, PadMode::circular, {4, 2}, {1, 5}, {}},       {DType::f32, {5, 4}, PadMode::circular, {-2, 0}, {4, -1}, {}},
      {DType::f32, {4, 5}, PadMode::symmetric, {4, 2}, {1, 5}, {}},      {DType::f32, {3, 2, 2, 3}, PadMode::symmetric, {0, 1, 2, 0}, {1, 0, 1, 0}, {}},
      {DType::f64, {7, 6, 40}, PadMode::reflect, {2, 0, 3}, {1, 3, 2}, {}}, {DType::f32, {9, 64}, PadMode::symmetric, {3, 9}, {2, 1}, {}},
      {DType::f32, {9, 64}, PadMode::replicate, {1, 5}, {0, 7}, {}},       {DType::f32, {9, 64}, PadMode::circular, {1, 5}, {0, 7}, {}},
      {DType::f32, {2, 2100}, PadMode::reflect, {1, 1500}, {0, 2099}, {}}, {DType::f32, {2, 1100}, PadMode::constant, {0, -3}, {1, 5}, {0, 3}}};
  for (const PadDescriptor& d : cases) {
    const Source s = source_of(d);
    ASSERT_TRUE(d.y_shape() == s.y()) << describe(d);
    check_moves<Pad>(d, s);
    if (d.mode == PadMode::constant) check_moves<Pad>(d, s, {}, 1);
    check_sums<PadBackward>(d, s);
  }
  // The value is cast.
  Tensor y(DType::i8, {3}), x(DType::i8, {1}, {7});
  ASSERT_OK(run_plan<Pad>({DType::i8, {1}, PadMode::constant, {1}, {1}, {}}, {x, y, -2.9}));
  EXPECT_EQ(y.values(), (std::vector<double>{-2, 7, -2}));
}
TEST(Shape, FlipAndRoll) {
  for (const Dims& axes : {Dims{}, Dims{0}, Dims{-1}, Dims{1, -3}, Dims{2, 0, 1}}) {
    const Shape x{3, 5, 37};
    Source s = identity(x);
    for (int k = 0; k < axes.rank; ++k) {
      Axis& a = s.axes[size_t(axes[k] < 0 ? axes[k] + 3 : axes[k])];
      std::reverse(a.begin(), a.end());
    }
    check_moves<Flip>(FlipDescriptor{DType::f32, x, axes}, s);
  }
  check_moves<Flip>(FlipDescriptor{DType::f32, {3, 0}, {0}}, identity({3, 0}));
  const struct { Dims shifts, axes; } rolls[] = {{{2}, {0}}, {{-8}, {-1}}, {{1, 100}, {0, 2}}, {{3, -3}, {1, 1}}, {{INT64_MIN}, {2}}, {{INT64_MAX, 1}, {1, 1}}};
  for (const auto& r : rolls) {
    const Shape x{3, 5, 37};
    Source s = identity(x);
    for (int k = 0; k < r.axes.rank; ++k) {
      Axis& a = s.axes[size_t(r.axes[k] < 0 ? r.axes[k] + 3 : r.axes[k])];
      const int64_t n = int64_t(a.size()), back = (n - r.shifts[k] % n) % n;
      std::rotate(a.begin(), a.begin() + back, a.end());
    }
    check_moves<Roll>(RollDescriptor{DType::f32, x, r.shifts, r.axes}, s);
  }
  for (Layout layout : kLayouts)  // as one row
    for (int64_t shift : {int64_t(0), int64_t(5), int64_t(-1), int64_t(1000003)}) {
      const Shape shape{7, 101};
      const Tensor x = Tensor::normal(DType::f32, shape, 1, 0, 1, layout);
      Tensor y(DType::f32, shape, layout);
      ASSERT_OK(run_plan<Roll>({DType::f32, shape, {shift}, {}}, {x, y}));
      EXPECT_TRUE(y.guards_intact());
      for (int64_t i = 0; i < 707; ++i) ASSERT_EQ(y.at(((i + shift) % 707 + 707) % 707), x.at(i)) << int(layout) << " " << shift;
    }
}
TEST(Shape, Repeat) {
  const struct { Shape x; Dims repeats; } cases[] = {{{3, 5}, {2, 3}}, {{5}, {4}}, {{3, 1}, {1, 40}}, {{1, 300}, {50, 1}}, {{2, 3}, {2, 0}},
                                                     {{3}, {2, 1, 2}}, {{}, {3}}, {{2, 2, 2}, {3, 1, 2}}, {{0, 2}, {2, 2}}, {{2, 1030}, {2, 3}}};
  for (const auto& c : cases) {
    RepeatDescriptor d{DType::f32, c.x, c.repeats};
    Shape x;  // with the leading ones
    for (int i = 0; i < c.repeats.rank; ++i) x.push_back(i < c.repeats.rank - c.x.rank ? 1 : c.x[i - (c.repeats.rank - c.x.rank)]);
    Source s{x, {}};
    for (int i = 0; i < x.rank; ++i) {
      Axis a;
      for (int64_t k = 0; k < c.repeats[i]; ++k)
        for (int64_t j = 0; j < x[i]; ++j) a.push_back(j);
      s.axes.push_back(a);
    }
    ASSERT_TRUE(d.y_shape() == s.y()) << describe(d);
    check_moves<Repeat>(d, s);
    check_sums<RepeatBackward>(d, s);
  }
  for (const auto& [shape, times, axis] : {std::tuple<Shape, int64_t, int64_t>{{3, 5}, 2, 0}, {{3, 5}, 3, -1}, {{4}, 0, 0}, {{2, 3, 4}, 1, 1}, {{1500}, 2, 0}, {{2, 600, 3}, 4, 1}}) {
    RepeatInterleaveDescriptor d{DType::f32, shape, times, axis};
    Source s = identity(shape);
    Axis& a = s.axes[size_t(axis < 0 ? axis + shape.rank : axis)];
    Axis each;
    for (int64_t i : a) each.insert(each.end(), size_t(times), i);
    a = each;
    ASSERT_TRUE(d.y_shape() == s.y());
    check_moves<RepeatInterleave>(d, s);
    check_sums<RepeatInterleaveBackward>(d, s);
  }
}
TEST(Shape, SumsOfManyRepeatsKeepTheirPrecision) {  // expand's gradient: 2^20 + 1 terms, in f64 until the end
  for (DType t : kFloats) {
    const int64_t n = (1 << 20) + 1;
    const Tensor dy(t, {n}, std::vector<double>(size_t(n), 1.0 / 256));
    Tensor dx(t, {1});
    ASSERT_OK(run_plan<RepeatBackward>({t, {1}, {n}}, {dy, dx}));
    EXPECT_EQ(dx.at(0), rounded(t, double(n) / 256)) << name(t);
  }
}
TEST(Shape, EmptyGradientsOfAnyExtentAreNotWalked) {
  const int64_t huge = int64_t(1) << 40;
  Tensor dx(DType::f32, {2, 3});
  ASSERT_OK(run_plan<RepeatBackward>({DType::f32, {2, 3}, {huge, 1, 0, 1}}, {Tensor(DType::f32, {huge, 1, 0, 3}), dx}));
  for (double v : dx.values()) EXPECT_EQ(v, 0);
}
TEST(Shape, Permute) {
  const Shape shape{3, 34, 2, 37};
  Dims axes{0, 1, 2, 3};
  do {
    for (DType t : kSizes)
      for (Layout layout : {Layout::dense, Layout::transposed, Layout::reversed}) {
        const PermuteDescriptor d{t, shape, axes};
        Tensor x(t, shape, layout), y(t, d.y_shape());
        put_bytes(x, random_bytes(t, x.numel(), 2));
        y.poison();
        ASSERT_OK(run_plan<Permute>(d, {x, y}));
        EXPECT_TRUE(y.guards_intact());
        const auto in = bytes_of(x), out = bytes_of(y);
        const size_t size = byte_size(t);
        int64_t o = 0, k[4];
        const Shape ys = d.y_shape();
        for (k[0] = 0; k[0] < ys[0]; ++k[0])
          for (k[1] = 0; k[1] < ys[1]; ++k[1])
            for (k[2] = 0; k[2] < ys[2]; ++k[2])
              for (k[3] = 0; k[3] < ys[3]; ++k[3], ++o) {
                int64_t at[4];
                for (int i = 0; i < 4; ++i) at[axes[i]] = k[i];
                const int64_t i = ((at[0] * 34 + at[1]) * 2 + at[2]) * 37 + at[3];
                ASSERT_EQ(std::memcmp(&in[size_t(i) * size], &out[size_t(o) * size], size), 0) << to_string(axes) << " " << o;
              }
      }
  } while (std::next_permutation(axes.dim, axes.dim + 4));
  Tensor x = Tensor::normal(DType::f32, {3, 4}, 1), y(DType::f32, {4, 3}), back(DType::f32, {3, 4});
  ASSERT_OK(run_plan<Permute>({DType::f32, {3, 4}, {-1, 0}}, {x, y}));
  ASSERT_OK(run_plan<Permute>({DType::f32, {4, 3}, {1, 0}}, {y, back}));
  EXPECT_TRUE(back.same_bits(x));
}
TEST(Shape, ConcatAndSplit) {
  for (int64_t axis : {int64_t(0), int64_t(1), int64_t(-1)})
    for (DType t : kSizes)
      for (Layout layout : {Layout::dense, Layout::transposed, Layout::every_other, Layout::outer_reversed}) {
        const int at = int(axis < 0 ? axis + 3 : axis);
        const int64_t extents[] = {3, 0, 1, 40};
        std::vector<Tensor> pieces, back;
        Shape whole{2, 3, 5};
        whole[at] = 44;
        for (int k = 0; k < 4; ++k) {
          Shape p = whole;
          p[at] = extents[k];
          pieces.emplace_back(t, p, k % 2 ? layout : Layout::dense), back.emplace_back(t, p, layout);
          put_bytes(pieces.back(), random_bytes(t, pieces.back().numel(), uint64_t(k)));
        }
        Tensor y(t, whole, layout);
        y.poison();
        std::vector<TensorView> in(pieces.begin(), pieces.end()), out(back.begin(), back.end());
        const ConcatDescriptor d{t, whole, axis};
        ASSERT_OK(run_plan<Concat>(d, {in, y}));
        EXPECT_TRUE(y.guards_intact());
        // Row-major number of the outer part, index along the axis, number of the inner part.
        int64_t inner = 1;
        for (int i = at + 1; i < 3; ++i) inner *= whole[i];
        const auto got = bytes_of(y);
        const size_t size = byte_size(t);
        for (int64_t o = 0; o < y.numel(); ++o) {
          int64_t index = o / inner % whole[at], k = 0;
          while (index >= extents[k]) index -= extents[k], ++k;
          const int64_t i = (o / inner / whole[at] * extents[k] + index) * inner + o % inner;
          ASSERT_EQ(std::memcmp(&got[size_t(o) * size], &bytes_of(pieces[size_t(k)])[size_t(i) * size], size), 0) << describe(d) << " " << o;
        }
        out[0].data = nullptr;  // not wanted
        ASSERT_OK(run_plan<Split>(d, {y, out}));
        for (size_t k = 1; k < 4; ++k) EXPECT_TRUE(back[k].same_bits(pieces[k])) << k;
      }
  // One tensor twice, and a broadcast one.
  const Tensor x(DType::f32, {2}, {1, 2});
  TensorView wide = x.view();
  wide.shape = {1}, wide.strides = {0};
  const TensorView in[] = {x, wide, x};
  Tensor y(DType::f32, {5});
  ASSERT_OK(run_plan<Concat>({DType::f32, {5}, 0}, {in, y}));
  EXPECT_EQ(y.values(), (std::vector<double>{1, 2, 1, 1, 2}));
}
TEST(Shape, Slices) {
  const struct { Shape x; Dims start, size, step; } cases[] = {{{7, 9}, {1, 2}, {3, 4}, {2, 1}}, {{7, 9}, {}, {7, 3}, {1, 4}}, {{7, 9}, {7, 0}, {0, 9}, {}},
                                                               {{5}, {4}, {1}, {100}}, {{2, 3, 4}, {}, {2, 3, 4}, {}}, {{}, {}, {}, {}}};
  for (const auto& c : cases) {
    const SliceDescriptor d{DType::f32, c.x, c.start, c.size, c.step};
    Source s{c.x, {}};
    for (int i = 0; i < c.x.rank; ++i) {
      Axis a;
      for (int64_t k = 0; k < c.size[i]; ++k) a.push_back((c.start.rank ? c.start[i] : 0) + k * (c.step.rank ? c.step[i] : 1));
      s.axes.push_back(a);
    }
    check_moves<Slice>(d, s);
    check_sums<SliceBackward>(d, s);
    const Tensor x = Tensor::normal(DType::bf16, c.x, 1), update = Tensor::normal(DType::bf16, s.y(), 2);
    Tensor y(DType::bf16, c.x), in_place(DType::bf16, c.x, x.values()), dx(DType::bf16, c.x), du(DType::bf16, s.y());
    auto e = d;
    e.dtype = DType::bf16;
    ASSERT_OK(run_plan<UpdateSlice>(e, {x, update, y}));
    ASSERT_OK(run_plan<UpdateSlice>(e, {in_place, update, in_place}));
    EXPECT_TRUE(in_place.same_bits(y));
    ASSERT_OK(run_plan<UpdateSliceBackward>(e, {x, dx, du}));
    std::vector<double> want = x.values(), want_dx = x.values();
    for (int64_t o = 0; o < update.numel(); ++o) {
      EXPECT_EQ(du.at(o), x.at(s.at(o)));
      want[size_t(s.at(o))] = update.at(o), want_dx[size_t(s.at(o))] = 0;
    }
    EXPECT_EQ(y.values(), want);
    EXPECT_EQ(dx.values(), want_dx);
    Tensor g(DType::bf16, c.x, x.values()), du2(DType::bf16, s.y());
    ASSERT_OK(run_plan<UpdateSliceBackward>(e, {g, g, du2}));
    EXPECT_TRUE(g.same_bits(dx) && du2.same_bits(du));
    ASSERT_OK(run_plan<UpdateSliceBackward>(e, {x, {}, du}));
  }
}
TEST(Shape, TrianglesAndDiagonals) {
  for (const Shape& shape : {Shape{4, 4}, Shape{2, 3, 5}, Shape{6, 2}, Shape{0, 3}, Shape{2, 2, 1, 3}})
    for (int64_t k : {int64_t(0), int64_t(1), int64_t(-1), int64_t(-2), int64_t(9), int64_t(-9), INT64_MAX, INT64_MIN + 1})
      for (DType t : {DType::f32, DType::i8, DType::c128}) {
        const int64_t rows = shape[shape.rank - 2], columns = shape[shape.rank - 1];
        for (Layout layout : kLayouts)
          for (TriangleKind kind : {TriangleKind::lower, TriangleKind::upper}) {
            Tensor x(t, shape, layout), y(t, shape, layout);
            const auto bytes = random_bytes(t, x.numel(), 4);
            put_bytes(x, bytes);
            const TriangleDescriptor d{t, shape, kind, k};
            ASSERT_OK(run_plan<Triangle>(d, {x, y}));
            ASSERT_OK(run_plan<Triangle>(d, {x, x}));
            EXPECT_TRUE(y.guards_intact());
            auto want = bytes;
            for (int64_t o = 0; o < x.numel(); ++o) {
              const __int128 off = __int128(o % columns) - o / columns % rows;
              if (kind == TriangleKind::lower ? off > k : off < k) std::fill_n(want.begin() + o * int64_t(byte_size(t)), byte_size(t), uint8_t(0));
            }
            ASSERT_TRUE(bytes_of(y) == want && bytes_of(x) == want) << describe(d);
          }
        for (const auto& [a, b] : {std::pair<int64_t, int64_t>{-2, -1}, {0, 1}, {1, 0}, {-1, 0}}) {
          if (b == 0 && a == -1 && shape.rank == 1) continue;
          const DiagonalDescriptor d{t, shape, k, a, b};
          Tensor x(t, shape), y(t, d.y_shape()), back(t, shape);
          put_bytes(x, random_bytes(t, x.numel(), 4));
          ASSERT_OK(run_plan<Diagonal>(d, {x, y}));
          ASSERT_OK(run_plan<DiagonalEmbed>(d, {y, back}));
          const int i0 = int(a < 0 ? a + shape.rank : a), i1 = int(b < 0 ? b + shape.rank : b);
          const auto in = bytes_of(x), embedded = bytes_of(back), out = bytes_of(y);
          std::map<std::vector<int64_t>, std::vector<uint8_t>> on;  // other axes, then position
          for (int64_t o = 0; o < x.numel(); ++o) {
            int64_t c[kMaxRank], r = o;
            for (int i = shape.rank - 1; i >= 0; --i) c[i] = r % shape[i], r /= shape[i];
            const std::vector<uint8_t> e(in.begin() + o * int64_t(byte_size(t)), in.begin() + (o + 1) * int64_t(byte_size(t)));
            const bool here = __int128(c[i1]) - c[i0] == k;
            const std::vector<uint8_t> want = here ? e : std::vector<uint8_t>(e.size());
            ASSERT_TRUE(std::equal(want.begin(), want.end(), embedded.begin() + o * int64_t(byte_size(t)))) << describe(d) << " " << o;
            if (!here) continue;
            std::vector<int64_t> key;
            for (int i = 0; i < shape.rank; ++i) if (i != i0 && i != i1) key.push_back(c[i]);
            key.push_back(std::min(c[i0], c[i1]));
            on[key] = e;
          }
          std::vector<uint8_t> want;
          for (const auto& [key, e] : on) want.insert(want.end(), e.begin(), e.end());
          ASSERT_TRUE(out == want) << describe(d);
        }
      }
}
// More pieces than a launch takes, of whole words, some of them empty; joined and taken apart again.
TEST(Shape, ManyPieces) {
  for (DType t : {DType::i8, DType::bf16, DType::f32, DType::c128})
    for (int64_t axis : {0, 1}) {
      const int64_t word = 16 / int64_t(byte_size(t));
      std::vector<Tensor> pieces, back;
      Shape whole = axis ? Shape{3, 0, 2} : Shape{0, 2, word};
      for (int64_t k = 0; k < 150; ++k) {
        Shape p = whole;
        p[int(axis)] = axis ? k % 7 * word : k % 7;
        pieces.emplace_back(t, p), back.emplace_back(t, p);
        put_bytes(pieces.back(), random_bytes(t, pieces.back().numel(), uint64_t(k)));
      }
      for (const Tensor& p : pieces) whole[int(axis)] += p.shape()[int(axis)];
      Tensor y(t, whole);
      const std::vector<TensorView> in(pieces.begin(), pieces.end()), out(back.begin(), back.end());
      ASSERT_OK(run_plan<Concat>({t, whole, axis}, {in, y}));
      const auto bytes = bytes_of(y);
      size_t at = 0;
      for (int64_t row = 0; row < (axis ? whole[0] : 1); ++row)
        for (const Tensor& p : pieces) {
          const auto piece = bytes_of(p);
          const size_t n = piece.size() / size_t(axis ? whole[0] : 1);
          ASSERT_TRUE(std::equal(bytes.begin() + std::ptrdiff_t(at), bytes.begin() + std::ptrdiff_t(at + n), piece.begin() + std::ptrdiff_t(size_t(row) * n)));
          at += n;
        }
      ASSERT_OK(run_plan<Split>({t, whole, axis}, {y, out}));
      for (size_t k = 0; k < pieces.size(); ++k) ASSERT_TRUE(bytes_of(back[k]) == bytes_of(pieces[k])) << k;
    }
}
TEST(Shape, ThreadsAndRepeats) {
  const Tensor x = Tensor::normal(DType::f32, {40, 1500}, 1);
  Tensor y(DType::f32, {43, 1700}), dx(DType::f32, {40, 1500}), flat(DType::f32, {40, 1500}), twice(DType::f32, {80, 4500});
  const PadDescriptor pad{DType::f32, {40, 1500}, PadMode::reflect, {1, 100}, {2, 100}, {}};
  check_repeat_bits<Pad>(pad, {x, y, 0}, {}, 1);
  check_repeat_bits<PadBackward>(pad, {y, dx}, {}, 1);
  check_repeat_bits<Roll>({DType::f32, {40, 1500}, {777}, {}}, {x, flat}, {}, 1);
  check_repeat_bits<Repeat>({DType::f32, {40, 1500}, {2, 3}}, {x, twice}, {}, 1);
  check_repeat_bits<RepeatBackward>({DType::f32, {40, 1500}, {2, 3}}, {twice, dx}, {}, 1);
  check_repeat_bits<Triangle>({DType::f32, {40, 1500}, TriangleKind::upper, 3}, {x, flat}, {}, 1);
}
TEST(Shape, ContractAndRefusals) {
  const DType t = DType::f32;
  Tensor x = Tensor::normal(t, {3, 4}, 1), y(t, {3, 4}), wide(t, {5, 4}), turned(t, {4, 3}), part(t, {2, 4}), diagonal(t, {3});
  check_contract<Permute>({t, {3, 4}, {1, 0}}, {x, turned});
  check_contract<Pad>({t, {3, 4}, PadMode::reflect, {1, 0}, {1, 0}, {}}, {x, wide, 0});
  check_contract<PadBackward>({t, {3, 4}, PadMode::reflect, {1, 0}, {1, 0}, {}}, {wide, y});
  check_contract<Flip>({t, {3, 4}, {0}}, {x, y});
  check_contract<Roll>({t, {3, 4}, {1}, {0}}, {x, y});
  check_contract<Slice>({t, {3, 4}, {1, 0}, {2, 4}, {}}, {x, part});
  check_contract<SliceBackward>({t, {3, 4}, {1, 0}, {2, 4}, {}}, {part, y});
  check_contract<UpdateSlice>({t, {3, 4}, {1, 0}, {2, 4}, {}}, {x, part, y});
  check_contract<UpdateSliceBackward>({t, {3, 4}, {1, 0}, {2, 4}, {}}, {x, y, part});
  check_contract<Triangle>({t, {3, 4}, TriangleKind::lower, 0}, {x, y});
  check_contract<Diagonal>({t, {3, 4}}, {x, diagonal});
  check_contract<DiagonalEmbed>({t, {3, 4}}, {diagonal, y});
  Tensor doubled(t, {6, 4});
  check_contract<Repeat>({t, {3, 4}, {2, 1}}, {x, doubled});
  check_contract<RepeatBackward>({t, {3, 4}, {2, 1}}, {doubled, y});
  check_contract<RepeatInterleave>({t, {3, 4}, 2, 0}, {x, doubled});
  check_contract<RepeatInterleaveBackward>({t, {3, 4}, 2, 0}, {doubled, y});
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  expect_refused(PermutePlan::select(s, {t, {3, 4}, {0, 0}}).status(), bad, {"permute", "axes", "twice"});
  expect_refused(PermutePlan::select(s, {t, {3, 4}, {0}}).status(), bad, {"axes", "1 numbers for 2"});
  expect_refused(PermutePlan::select(s, {t, {3, 4}, {0, 2}}).status(), bad, {"axes[1]", "2", "rank 2"});
  expect_refused(FlipPlan::select(s, {t, {3, 4}, {1, -1}}).status(), bad, {"twice"});
  expect_refused(RollPlan::select(s, {t, {3, 4}, {}, {}}).status(), bad, {"roll", "shifts"});
  expect_refused(RollPlan::select(s, {t, {3, 4}, {1, 2}, {0}}).status(), bad, {"shifts [1, 2]"});
  expect_refused(RollPlan::select(s, {t, {}, {0}, {0}}).status(), bad, {"axes[0]", "rank 0"});
  expect_refused(PadPlan::select(s, {t, {3, 4}, PadMode::constant, {-2, 0}, {-2, 0}, {}}).status(), bad, {"axis 0", "negative extent"});
  expect_refused(PadPlan::select(s, {t, {3, 4}, PadMode::constant, {INT64_MAX, 0}, {1, 0}, {}}).status(), bad, {"axis 0"});
  expect_refused(PadPlan::select(s, {t, {3, 4}, PadMode::reflect, {3, 0}, {0, 0}, {}}).status(), bad, {"lo 3", "at most 2", "reflect"});
  expect_refused(PadPlan::select(s, {t, {3, 4}, PadMode::circular, {0, 5}, {0, 0}, {}}).status(), bad, {"lo 5", "at most 4"});
  expect_refused(PadPlan::select(s, {t, {3, 4}, PadMode::circular, {-3, 0}, {3, 0}, {}}).status(), bad, {"leave nothing"});
  expect_refused(PadPlan::select(s, {t, {0, 4}, PadMode::replicate, {1, 0}, {0, 0}, {}}).status(), bad, {"axis 0 is empty"});
  expect_refused(PadPlan::select(s, {t, {3, 4}, PadMode::reflect, {1, 0}, {0, 0}, {1, 0}}).status(), bad, {"interior[0]"});
  expect_refused(PadPlan::select(s, {t, {3, 4}, PadMode::constant, {}, {}, {-1, 0}}).status(), bad, {"interior[0] is -1"});
  expect_refused(PadPlan::select(s, {t, {3, 4}, PadMode::constant, {1}, {}, {}}).status(), bad, {"lo [1]", "2 axes"});
  expect_refused(PadBackwardPlan::select(s, {DType::i32, {3}, PadMode::constant, {1}, {0}, {}}).status(), Code::unsupported, {"no i32"});
  expect_refused(RepeatPlan::select(s, {t, {3, 4}, {2}}).status(), bad, {"repeats [2]"});
  expect_refused(RepeatPlan::select(s, {t, {3, 4}, {1, -1}}).status(), bad, {"repeats[1]", "-1"});
  expect_refused(RepeatPlan::select(s, {t, {3, 4}, {INT64_MAX, 1}}).status(), bad, {"axis 0"});
  expect_refused(RepeatInterleavePlan::select(s, {t, {3, 4}, -1, 0}).status(), bad, {"repeats is -1"});
  expect_refused(RepeatInterleavePlan::select(s, {t, {3, 4}, 1, 2}).status(), bad, {"axis 2"});
  expect_refused(SlicePlan::select(s, {t, {3, 4}, {2, 0}, {2, 4}, {}}).status(), bad, {"start 2", "size 2", "extent 3"});
  expect_refused(SlicePlan::select(s, {t, {3, 4}, {}, {2, 2}, {0, 1}}).status(), bad, {"step[0]"});
  expect_refused(SlicePlan::select(s, {t, {3, 4}, {}, {2, INT64_MAX}, {1, INT64_MAX}}).status(), bad, {"extent 4"});
  expect_refused(TrianglePlan::select(s, {t, {3}, TriangleKind::lower, 0}).status(), bad, {"rank 1", "at least 2"});
  expect_refused(DiagonalPlan::select(s, {t, {3, 4}, 0, 1, -1}).status(), bad, {"same axis"});
  expect_refused(DiagonalPlan::select(s, {t, {3, 4}, 0, 2, 0}).status(), bad, {"axis1 2"});
  expect_refused(FlipPlan::select(s, {t, {int64_t(1) << 60}, {0}}).status(), bad, {"flip", "2^56 bytes"});
  expect_refused(ConcatPlan::select(s, {t, {}, 0}).status(), bad, {"concat", "rank 0"});
  // Lists.
  const Tensor half(DType::f16, {3, 4});
  const TensorView two[] = {x, x}, odd[] = {x, turned}, other[] = {x, half};
  expect_refused(run_plan<Concat>({t, {7, 4}, 0}, {two, Tensor(t, {7, 4})}), bad, {"x has 2 tensors with 6", "expected 7"});
  expect_refused(run_plan<Concat>({t, {7, 4}, 0}, {odd, Tensor(t, {7, 4})}), bad, {"x[1]", "[4, 3]"});
  expect_refused(run_plan<Concat>({t, {6, 4}, 0}, {other, doubled}), bad, {"x[1]", "f16"});
  expect_refused(run_plan<Concat>({t, {6, 4}, 0}, {{}, doubled}), bad, {"x has 0 tensors"});
  expect_refused(run_plan<Split>({t, {9, 4}, 0}, {Tensor(t, {9, 4}), two}), bad, {"y has 2 tensors"});
  // No memory is both read and written.
  expect_refused(run_plan<Flip>({t, {3, 4}, {0}}, {x, x}), bad, {"y overlaps x", "in place"});
  expect_refused(run_plan<Slice>({t, {3, 4}, {}, {2, 4}, {}}, {x, TensorView::dense(x.view().data, t, {2, 4})}), bad, {"y overlaps"});
  expect_refused(run_plan<Pad>({DType::c64, {1}, PadMode::constant, {1}, {0}, {}}, {Tensor(DType::c64, {1}), Tensor(DType::c64, {2}), 2.0}), bad, {"value 2", "c64"});
}

}  // namespace
}  // namespace baracuda
