// The sums against a plain re-statement of their tree (same bits) and against double or long double sums (bound).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "baracuda/host/row_sum.hpp"
#include "baracuda/host/thread_team.hpp"
#include "baracuda/math/half.hpp"

namespace {
using namespace baracuda;

template <class A> bool same(A a, A b) {
  using B = std::conditional_t<sizeof(A) == 4, uint32_t, uint64_t>;
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<B>(a) == std::bit_cast<B>(b);
}
template <class T> double value(T x) {
  if constexpr (sizeof(T) == 2) return double(to_float(x));
  else return double(x);
}

// The definition, index by index: lanes, fold, pairs level by level.
template <class T> Acc<T> by_definition(SumOf of, const std::vector<T>& x, const std::vector<T>& y) {
  using A = Acc<T>;
  const int64_t n = int64_t(x.size());
  std::vector<A> chunks;
  for (int64_t begin = 0; begin < n; begin += 4096) {
    std::vector<A> lane(64, A(-0.0));
    for (int64_t i = begin; i < std::min(n, begin + 4096); ++i) {
      const A u = A(value(x[i])), v = of == SumOf::products ? A(value(y[i])) : u;
      A& l = lane[size_t(i % 64)];
      l = of == SumOf::values ? l + u : std::fma(u, v, l);
    }
    for (int w = 32; w >= 1; w /= 2)
      for (int l = 0; l < w; ++l) lane[size_t(l)] = lane[size_t(l)] + lane[size_t(l + w)];
    chunks.push_back(lane[0]);
  }
  while (chunks.size() > 1) {
    std::vector<A> next;
    for (size_t i = 0; i < chunks.size(); i += 2) next.push_back(i + 1 < chunks.size() ? chunks[i] + chunks[i + 1] : chunks[i]);
    chunks = next;
  }
  return chunks.empty() ? A(0) : chunks[0];
}

template <class T> std::vector<T> random_row(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> x(static_cast<size_t>(n));
  for (auto& e : x) e = from_double<T>(normal(random));
  return x;
}
const std::vector<Isa>& sets() {
  static const std::vector<Isa> all = [] {
    std::vector<Isa> v;
    limit_isa(Isa::avx512bf16);
    for (Isa s : {Isa::portable, Isa::avx2, Isa::avx512})
      if (isa() >= s) v.push_back(s);
    return v;
  }();
  return all;
}
constexpr SumOf kKinds[] = {SumOf::values, SumOf::squares, SumOf::products};

template <class T> struct RowSum : testing::Test {
  void TearDown() override { limit_isa(Isa::avx512bf16), set_threads(0); }
};
using Types = testing::Types<f16, bf16, float, double>;
TYPED_TEST_SUITE(RowSum, Types);

TYPED_TEST(RowSum, follows_its_tree_on_every_set_and_thread_count) {
  using T = TypeParam;
  for (int64_t n : {0, 1, 2, 7, 8, 15, 16, 17, 31, 63, 64, 65, 100, 127, 129, 1000, 4095, 4096, 4097, 8192, 8200, 12289, 20480, 28673, 69000}) {
    // One element more in front and behind: an odd address, and a neighbour that would show.
    std::vector<T> x = random_row<T>(n, unsigned(n)), y = random_row<T>(n, unsigned(n) + 1), px(size_t(n) + 2, from_double<T>(NAN)), py = px;
    std::copy(x.begin(), x.end(), px.begin() + 1);
    std::copy(y.begin(), y.end(), py.begin() + 1);
    for (SumOf of : kKinds) {
      const Acc<T> want = by_definition(of, x, y);
      for (Isa set : sets()) {
        limit_isa(set);
        const Acc<T> got = row_sum(of, px.data() + 1, of == SumOf::products ? py.data() + 1 : nullptr, n);
        ASSERT_TRUE(same(got, want)) << name(set) << ' ' << n << ' ' << int(of) << ' ' << got << ' ' << want;
        for (int threads : {1, 2, 3, 8}) {
          set_threads(threads);
          std::vector<Acc<T>> scratch(size_t(sum_chunks(n)) + 1, Acc<T>(77));
          const Acc<T> parallel = row_sum(of, px.data() + 1, of == SumOf::products ? py.data() + 1 : nullptr, n, scratch.data(), threads);
          ASSERT_TRUE(same(parallel, want)) << name(set) << ' ' << n << ' ' << threads;
          ASSERT_EQ(scratch.back(), Acc<T>(77));
        }
      }
    }
  }
}

TYPED_TEST(RowSum, columns_equal_rows_of_the_transpose) {
  using T = TypeParam;
  for (int64_t rows : {0, 1, 3, 63, 64, 65, 511, 512, 513, 1030, 4096, 4097, 9000})
    for (int64_t columns : {1, 2, 15, 33, 260, 600, 1500}) {
      if (rows * columns > 600000) continue;
      const int64_t pitch = columns + 3, size = rows * pitch + 1;
      const std::vector<T> x = random_row<T>(size, unsigned(rows)), y = random_row<T>(size, unsigned(rows + columns));
      for (SumOf of : kKinds) {
        std::vector<Acc<T>> want;
        for (int64_t c = 0; c < columns; ++c) {
          std::vector<T> row, other;
          for (int64_t r = 0; r < rows; ++r) row.push_back(x[size_t(r * pitch + c)]), other.push_back(y[size_t(r * pitch + c)]);
          want.push_back(row_sum(of, row.data(), other.data(), rows));
        }
        for (Isa set : sets()) {
          if (set == Isa::portable && rows * columns > 100000) continue;
          limit_isa(set);
          for (int threads : {1, 3}) {
            set_threads(threads);
            std::vector<Acc<T>> got(size_t(columns) + 1, Acc<T>(55)), scratch(size_t(column_sum_scratch(rows, columns)) + 1, Acc<T>(77));
            column_sums(of, x.data(), pitch, of == SumOf::products ? y.data() : nullptr, of == SumOf::products ? pitch : 0, rows, columns,
                        got.data(), scratch.data(), threads);
            for (int64_t c = 0; c < columns; ++c)
              ASSERT_TRUE(same(got[size_t(c)], want[size_t(c)])) << name(set) << ' ' << rows << 'x' << columns << ' ' << c;
            ASSERT_EQ(got.back(), Acc<T>(55));
            ASSERT_EQ(scratch.back(), Acc<T>(77));
          }
        }
        limit_isa(Isa::avx512bf16);
      }
    }
}

TYPED_TEST(RowSum, columns_with_negative_pitch_and_pitch_zero) {
  using T = TypeParam;
  const int64_t rows = 700, columns = 37;
  const std::vector<T> x = random_row<T>(rows * columns, 4);
  std::vector<Acc<T>> up(columns), want(columns), zero(columns);
  column_sums<T>(SumOf::values, x.data() + (rows - 1) * columns, -columns, nullptr, 0, rows, columns, up.data(), nullptr, 2);
  column_sums<T>(SumOf::values, x.data(), 0, nullptr, 0, 512, columns, zero.data(), nullptr, 2);
  std::vector<T> flipped(x.size());
  for (int64_t r = 0; r < rows; ++r) std::copy_n(x.begin() + r * columns, columns, flipped.begin() + (rows - 1 - r) * columns);
  column_sums<T>(SumOf::values, flipped.data(), columns, nullptr, 0, rows, columns, want.data(), nullptr, 2);
  for (int64_t c = 0; c < columns; ++c) {
    EXPECT_TRUE(same(up[size_t(c)], want[size_t(c)]));
    EXPECT_TRUE(same(zero[size_t(c)], by_definition(SumOf::values, std::vector<T>(512, x[size_t(c)]), {})));
  }
}

TYPED_TEST(RowSum, error_is_within_the_stated_bound) {
  using T = TypeParam;
  const double u = sizeof(Acc<T>) == 8 ? 0x1p-53 : 0x1p-24;
  for (int64_t n : {5, 64, 1000, 4096, 100000, 1000000}) {
    const auto x = random_row<T>(n, 21), y = random_row<T>(n, 22);
    for (SumOf of : kKinds) {
      long double want = 0, magnitude = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const long double a = value(x[i]), term = of == SumOf::values ? a : of == SumOf::squares ? a * a : a * (long double)value(y[i]);
        want += term, magnitude += std::fabs(term);
      }
      const double steps = std::min<double>(double(n) / 64 + 7, 71) + std::max(0.0, std::log2(double(n) / 4096) + 1);
      const double error = std::fabs(double(row_sum(of, x.data(), y.data(), n) - want));
      EXPECT_LE(error, steps * u * double(magnitude)) << n << ' ' << int(of);
    }
  }
}

TYPED_TEST(RowSum, special_values) {
  using T = TypeParam;
  using A = Acc<T>;
  const auto sum = [](std::initializer_list<double> values, int64_t zeros) {
    std::vector<T> x(size_t(zeros), from_double<T>(0.0));
    for (double v : values) x.push_back(from_double<T>(v));
    return row_sum<T>(SumOf::values, x.data(), nullptr, int64_t(x.size()));
  };
  EXPECT_TRUE(std::isnan(sum({1, NAN, 2}, 100)));
  EXPECT_EQ(sum({1, INFINITY}, 5000), A(INFINITY));
  EXPECT_TRUE(std::isnan(sum({INFINITY, -INFINITY}, 63)));
  EXPECT_EQ(sum({}, 0), A(0));
  EXPECT_FALSE(std::signbit(row_sum<T>(SumOf::values, static_cast<const T*>(nullptr), nullptr, 0)));
  EXPECT_TRUE(std::signbit(sum({-0.0, -0.0}, 0)));  // -0 is the identity
  // Small integers are exact whatever the order.
  std::vector<T> ones(3000, from_double<T>(3.0));
  EXPECT_EQ(row_sum<T>(SumOf::values, ones.data(), nullptr, 3000), A(9000));
  EXPECT_EQ(row_sum<T>(SumOf::squares, ones.data(), nullptr, 3000), A(27000));
}

TEST(RowSumScratch, sizes) {
  EXPECT_EQ(sum_chunks(0), 0);
  EXPECT_EQ(sum_chunks(1), 1);
  EXPECT_EQ(sum_chunks(4096), 1);
  EXPECT_EQ(sum_chunks(4097), 2);
  EXPECT_EQ(column_sum_scratch(4096, 10), 0);
  EXPECT_EQ(column_sum_scratch(4097, 10), 20);
}

}  // namespace
