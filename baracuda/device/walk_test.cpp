// The walks that kernels take, on the host: offsets against plain index arithmetic.
#include "baracuda/device/walk.hpp"
#include <gtest/gtest.h>
#include "baracuda/testing/tensor.hpp"

namespace baracuda::device {
namespace {

using testing::Source;

TEST(Divisor, EqualsDivision) {
  Source source(1);
  std::vector<uint32_t> divisors = {1, 2, 3, 5, 6, 7, 10, 63, 64, 65, 641, 65535, 65536, 65537, 0x3fffffff, 0x40000000, 0x7ffffffe, 0x7fffffff};
  for (int i = 0; i < 200; ++i) divisors.push_back(uint32_t(1 + source.next() % 0x7fffffff));
  for (uint32_t d : divisors) {
    const Divisor v = Divisor::of(d);
    std::vector<uint32_t> numbers = {0, 1, d - 1, d, 0x7fffffff, 0x7ffffffe};
    for (uint32_t k = 1; k < 50; ++k)
      for (uint64_t n : {uint64_t(d) * k - 1, uint64_t(d) * k, uint64_t(d) * k + 1}) numbers.push_back(uint32_t(n & 0x7fffffff));
    for (int i = 0; i < 200; ++i) numbers.push_back(uint32_t(source.next() & 0x7fffffff));
    for (uint32_t n : numbers) ASSERT_EQ(v.quotient(n), n / d) << n << " / " << d;
  }
}

// Every element of the shape is met once, at the same place in every operand.
template <int K> void check(const Shape& shape, const Operand (&x)[K], int order, int lanes, int expected_lanes, bool strips = false) {
  const Walk<K> w = walk<K>(shape, x, order, lanes, strips);
  EXPECT_EQ(w.lanes, expected_lanes) << to_string(shape);
  std::vector<std::array<int64_t, K>> want, got;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    std::array<int64_t, K> at{};
    int64_t r = i;
    for (int a = shape.rank - 1; a >= 0; --a) {
      for (int k = 0; k < K; ++k)
        if (x[k].data) at[size_t(k)] += r % shape[a] * x[k].strides[a];
      r /= shape[a];
    }
    want.push_back(at);
  }
  for (int64_t i = 0; i < w.threads(); ++i) {
    int64_t at[K];
    if (w.strips) {
      const int64_t place = w.offsets(i / 32, at) * 32 * lanes;
      for (int64_t j = i % 32; j < 32 * lanes && place + j < w.strips; j += 32) {
        std::array<int64_t, K> element{};
        for (int k = 0; k < K; ++k)
          if (x[k].data) element[size_t(k)] = at[k] + j * w.step[k];
        got.push_back(element);
      }
      continue;
    }
    w.offsets(i, at);
    for (int lane = 0; lane < (i < w.units ? w.lanes : 1); ++lane) {
      std::array<int64_t, K> place{};
      for (int k = 0; k < K; ++k)
        if (x[k].data) place[size_t(k)] = at[k] + (w.spread[k] ? 0 : lane * (w.lanes > 1 ? 1 : 0));
      got.push_back(place);
    }
  }
  if (order >= 0) std::sort(want.begin(), want.end()), std::sort(got.begin(), got.end());
  EXPECT_EQ(want, got) << to_string(shape) << " order " << order;
  for (int64_t i = 0; i < w.units && w.lanes > 1; ++i) {
    int64_t at[K];
    w.offsets(i, at);
    for (int k = 0; k < K; ++k)
      if (x[k].data && !w.spread[k]) { EXPECT_EQ((int64_t(uintptr_t(x[k].data)) + at[k] * x[k].bytes) % (w.lanes * x[k].bytes), 0) << "a vector that is not aligned"; }
  }
}
alignas(64) char memory[64];
Operand at(Strides s, int bytes = 4, int offset = 0) { return {memory + offset, bytes, s}; }

TEST(Walk, DenseTensorsBecomeOneRowOfVectors) {
  const Shape shape{3, 5, 8};
  check<2>(shape, {at(shape.contiguous()), at(shape.contiguous())}, 1, 4, 4);
  const Shape odd{3, 5, 7};  // 105 = 26 vectors and a rest
  check<2>(odd, {at(odd.contiguous()), at(odd.contiguous())}, 1, 4, 4);
  EXPECT_EQ((walk<1>(odd, {at(odd.contiguous())}, 0, 4).rest), 1);
  check<1>({}, {at(Strides{})}, 0, 4, 4);
  check<1>({0, 3}, {at(Strides{3, 1})}, 0, 4, 4);
}
TEST(Walk, MisalignedMemoryAndOddRowsTakeElements) {
  const Shape shape{3, 8};
  check<2>(shape, {at(shape.contiguous(), 4, 4), at(shape.contiguous())}, 1, 4, 1);
  check<2>({3, 7}, {at(Strides{9, 1}), at(Strides{7, 1})}, 1, 4, 1);
  check<2>({3, 8}, {at(Strides{9, 1}), at(Strides{8, 1})}, 1, 4, 1);   // rows start anywhere
  check<2>({3, 8}, {at(Strides{12, 1}), at(Strides{8, 1})}, 1, 4, 4);
}
TEST(Walk, StripsOfLongRows) {
  for (const int64_t n : {64, 65, 127, 128, 129, 300}) {
    check<2>({3, n}, {at(Strides{n + 1, 1}), at(Strides{n + 3, 1})}, 1, 4, 1, true);
    check<3>({2, 3, n}, {at(Strides{0, 1, 0}), at(Strides{-1, 5, -2}), at(Strides{3 * n, n, 1}, 4, 4)}, 2, 4, 1, true);
    EXPECT_EQ((walk<1>({n}, {at(Strides{1}, 4, 4)}, 0, 4, true).strips), n);
  }
  EXPECT_EQ((walk<1>({63}, {at(Strides{1}, 4, 4)}, 0, 4, true).strips), 0);
  EXPECT_EQ((walk<1>({300}, {at(Strides{1})}, 0, 4, true).strips), 0);
  EXPECT_EQ((walk<1>({300}, {at(Strides{2})}, 0, 1, true).strips), 0);
}
TEST(Walk, BroadcastReversedPermuted) {
  check<3>({4, 6, 8}, {at(Strides{0, 0, 1}), at(Strides{0, 1, 0}), at(Strides{48, 8, 1})}, 2, 4, 4);
  check<2>({4, 6, 8}, {at(Strides{48, 8, -1}), at(Strides{48, 8, 1})}, 1, 4, 1);
  check<2>({4, 6, 8}, {at(Strides{-48, 8, 1}), at(Strides{48, 8, 1})}, 1, 4, 4);
  check<2>({4, 6, 8}, {at(Strides{1, 4, 24}), at(Strides{1, 4, 24})}, 1, 4, 4);   // permuted alike: one row
  check<2>({4, 6, 8}, {at(Strides{48, 8, 1}), at(Strides{1, 4, 24})}, 1, 4, 1);
  check<2>({4, 1, 8}, {at(Strides{8, 77, 1}), at(Strides{8, 5, 1})}, 1, 4, 4);    // the stride of one element means nothing
  check<2>({2, 3, 2, 3, 2, 2, 1, 4}, {at(Strides{4, 8, 0, 24, 72, 144, 0, 1}), at(Strides{288, 96, 48, 16, 8, 4, 4, 1})}, 1, 4, 4);
}
TEST(Walk, AbsentOperandsAndRowMajorOrder) {
  const Shape shape{4, 6};
  check<2>(shape, {Operand{}, at(shape.contiguous())}, 1, 4, 4);
  check<2>(shape, {at(Strides{1, 4}), Operand{}}, 1, 4, 1);
  check<1>(shape, {at(Strides{1, 4})}, -1, 1, 1);
}
TEST(Walk, BeyondTwoToTheThirtyOne) {
  // 2^33 elements in rows with a gap: nothing is cut to 32 bits.
  const int64_t rows = int64_t(1) << 18, n = int64_t(1) << 15;
  const Walk<1> w = walk<1>({rows, n}, {at(Strides{n + 8, 1}, 2)}, 0, 1);
  EXPECT_FALSE(w.narrow);
  EXPECT_EQ(w.units, rows * n);
  int64_t offset[1];
  w.offsets(rows * n - 1, offset);
  EXPECT_EQ(offset[0], (rows - 1) * (n + 8) + n - 1);
}
TEST(Walk, RandomShapes) {
  Source source(2);
  for (int trial = 0; trial < 300; ++trial) {
    Shape shape;
    const int rank = int(source.next() % 5);
    for (int a = 0; a < rank; ++a) shape.push_back(1 + int64_t(source.next() % (a + 1 == rank && trial % 3 == 0 ? 200 : 5)));
    Operand x[3];
    for (Operand& o : x) {
      // A random order of the axes, gaps, signs, broadcasts.
      o = at(shape.contiguous(), 4, int(4 * (source.next() % 4)));
      int64_t step = 1;
      for (int a = rank - 1; a >= 0; --a) {
        o.strides[a] = source.next() % 5 == 0 ? 0 : source.next() % 5 == 0 ? -step : step;
        step *= shape[a] + int64_t(source.next() % 2);
      }
    }
    for (const bool strips : {false, true}) check<3>(shape, x, 2, 4, walk<3>(shape, x, 2, 4, strips).lanes, strips);
  }
}

}  // namespace
}  // namespace baracuda::device
