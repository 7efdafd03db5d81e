#include "baracuda/host/gemm_few.hpp"
#include "baracuda/host/amx.hpp"
#include <algorithm>
#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include <vector>
#include "baracuda/core/text.hpp"
#include "baracuda/testing/tensor.hpp"
#include "baracuda/testing/tolerance.hpp"

namespace baracuda {
namespace {

using testing::read_element, testing::rounded, testing::Source, testing::unit_roundoff, testing::write_element;

// An instruction set, and whether products of bf16 may use AMX beside it.
struct Set {
  Isa isa;
  bool amx = false;
  void use() const { limit_isa(isa), limit_amx(amx); }
  static void use_all() { limit_isa(Isa::avx512bf16), limit_amx(true); }
};
std::string_view name(const Set& s) { return s.amx ? "amx" : name(s.isa); }
const std::vector<Set>& sets() {
  static const std::vector<Set> all = [] {
    std::vector<Set> list;
    for (Isa i : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16})
      if (limit_isa(i); isa() == i) list.push_back({i});
    if (Set::use_all(); has_amx()) list.push_back({Isa::avx512bf16, true});
    return list;
  }();
  return all;
}
bool has(Isa i) { return std::ranges::count(sets(), i, &Set::isa) > 0; }
const TileKernel& kernel(const Set& set, DType t) {
  set.use();
  const TileKernel& k = gemm_tiles().of[t];
  Set::use_all();
  return k;
}

// Memory with a guard behind it, 64-byte aligned.
class Memory {
 public:
  explicit Memory(int64_t bytes) : bytes_(size_t(bytes)), data_(bytes_ + 192, 0xa5) {}
  char* get() { return reinterpret_cast<char*>((uintptr_t(data_.data()) + 63) / 64 * 64); }
  bool intact() {
    const uint8_t* end = reinterpret_cast<uint8_t*>(get()) + bytes_;
    for (int i = 0; i < 64; ++i) if (end[i] != 0xa5) return false;
    return true;
  }

 private:
  size_t bytes_;
  std::vector<uint8_t> data_;
};
// A matrix [outer, k] in memory with the strides of a layout.
struct Matrix {
  enum Layout { k_dense, outer_dense, strided, reversed };
  DType t;
  int64_t outer_n, k_n, outer, k, base = 0;
  std::vector<char> data;
  Matrix(DType type, int64_t rows, int64_t depth, Layout l, uint64_t seed, bool integers = false) : t(type), outer_n(rows), k_n(depth) {
    outer = l == k_dense ? depth + 3 : l == outer_dense ? 1 : l == strided ? 2 * depth + 1 : -(depth + 1);
    k = l == k_dense ? 1 : l == outer_dense ? rows + 5 : l == strided ? 2 : 1;
    if (l == reversed) base = (rows - 1) * (depth + 1);
    data.resize(size_t((rows + 5) * (2 * depth + 5) + 8) * byte_size(t), char(0xff));
    Source s(seed);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < depth; ++j) {
        const double v = s.normal();
        write_element(t, at_address(i, j), integers ? double(int(v * 3)) : v);
      }
  }
  char* at_address(int64_t i, int64_t j) { return data.data() + (base + i * outer + j * k) * int64_t(byte_size(t)); }
  double at(int64_t i, int64_t j) { return read_element(t, at_address(i, j)); }
  std::vector<double> packed_values(DType packed) {
    std::vector<double> v;
    for (int64_t i = 0; i < outer_n; ++i)
      for (int64_t j = 0; j < k_n; ++j) v.push_back(rounded(packed, at(i, j)));
    return v;
  }
  PackSource source() { return {at_address(0, 0), outer, k, outer_n, k_n}; }
};

std::vector<double> product(const TileKernel& t, Matrix& a, Matrix& b, bool acc_source, bool accumulate, DType acc) {
  const int64_t m = a.outer_n, n = b.outer_n, k = a.k_n;
  Memory packed_a(t.a_bytes(m, k)), packed_b(t.b_bytes(n, k)), c((m * (n + 1)) * int64_t(byte_size(acc)));
  const TileA ta = acc_source ? t.pack_a_acc(a.source(), packed_a.get()) : t.pack_a(a.source(), packed_a.get());
  const TileB tb = acc_source ? t.pack_b_acc(b.source(), packed_b.get()) : t.pack_b(b.source(), packed_b.get());
  for (int64_t i = 0; i < m * (n + 1); ++i) write_element(acc, c.get() + i * int64_t(byte_size(acc)), accumulate ? 0.5 : NAN);
  t.tile({m, n, t.groups(k), ta, tb, c.get(), n + 1, accumulate});
  EXPECT_TRUE(packed_a.intact() && packed_b.intact() && c.intact());
  std::vector<double> y;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) y.push_back(read_element(acc, c.get() + (i * (n + 1) + j) * int64_t(byte_size(acc))));
    const double gap = read_element(acc, c.get() + (i * (n + 1) + n) * int64_t(byte_size(acc)));
    EXPECT_TRUE(accumulate ? gap == 0.5 : std::isnan(gap)) << "wrote past column n of row " << i;
  }
  return y;
}
void check(const Set& i, DType t, int64_t m, int64_t n, int64_t k, Matrix::Layout la, Matrix::Layout lb, bool acc_source, bool accumulate) {
  SCOPED_TRACE(text(name(i), " ", name(t), " ", m, "x", n, "x", k, " layouts ", int(la), int(lb), acc_source ? " acc" : "", accumulate ? " +=" : ""));
  const TileKernel& kern = kernel(i, t);
  const DType acc = accumulator(t), source = acc_source ? acc : t;
  Matrix a(source, m, k, la, 1), b(source, n, k, lb, 2);
  const std::vector<double> got = product(kern, a, b, acc_source, accumulate, acc);
  const std::vector<double> xs = a.packed_values(kern.packed), ys = b.packed_values(kern.packed);
  for (int64_t r = 0; r < m; ++r)
    for (int64_t c = 0; c < n; ++c) {
      double want = accumulate ? 0.5 : 0, scale = 0.5;
      for (int64_t j = 0; j < k; ++j) {
        const double x = xs[size_t(r * k + j)], y = ys[size_t(c * k + j)];
        want += x * y, scale += std::fabs(x * y);
      }
      const double bound = unit_roundoff(acc) * (4 + 4 * std::sqrt(double(k))) * scale;
      if (!(std::fabs(got[size_t(r * n + c)] - want) <= bound)) FAIL() << r << " " << c << " got " << got[size_t(r * n + c)] << " want " << want;
    }
}
constexpr DType kTypes[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

TEST(GemmTile, ProductsOfEveryEdge) {
  for (const Set& i : sets())
    for (DType t : kTypes) {
      const TileKernel& kern = kernel(i, t);
      for (int64_t m : {1, kern.mr - 1, kern.mr, kern.mr + 1, 3 * kern.mr + 2})
        for (int64_t n : {1, kern.nr / 2, kern.nr / 2 + 1, kern.nr, kern.nr + 1, 2 * kern.nr + 3})
          for (int64_t k : {0, 1, 2, 3, 16, 35})
            check(i, t, m, n, k, Matrix::Layout(m % 4), Matrix::Layout(n % 4), (m + k) % 2, n % 2);
    }
}
TEST(GemmTile, LongSums) {  // longer than what is made right at a time
  for (const Set& i : sets())
    for (int64_t k : {512, 544, 1111})
      for (auto [m, n] : {std::pair<int64_t, int64_t>{5, 64}, {40, 20}})
        for (auto a : {Matrix::k_dense, Matrix::outer_dense}) check(i, DType::bf16, m, n, k, a, Matrix::k_dense, false, true);
}
TEST(GemmTile, EveryLayout) {
  for (const Set& i : sets())
    for (DType t : kTypes)
      for (auto a : {Matrix::k_dense, Matrix::outer_dense, Matrix::strided, Matrix::reversed})
        for (auto b : {Matrix::k_dense, Matrix::outer_dense, Matrix::strided, Matrix::reversed})
          for (bool acc : {false, true}) check(i, t, 2 * kernel(i, t).mr * 9 + 1, 37, 35, a, b, acc, false);
}
TEST(GemmTile, OperandsInPlace) {
  for (const Set& i : sets())
    for (DType t : {DType::f32, DType::f64, DType::bf16}) {
      const TileKernel& kern = kernel(i, t);
      if (kern.packed != t) continue;
      const DType acc = accumulator(t);
      const int64_t m = 19, n = 41, k = 66;
      Matrix a(t, m, k, Matrix::k_dense, 1), b(t, n, k, Matrix::outer_dense, 2);
      const std::vector<double> want = product(kern, a, b, false, false, acc);
      Memory packed_b(kern.b_bytes(n, k));
      TileB tb = kern.pack_b(b.source(), packed_b.get());
      if (kern.k_group == 1) tb = {b.at_address(0, 0), b.k, kern.nr};
      std::vector<char> c(size_t(m * n) * byte_size(acc));
      kern.tile({m, n, kern.groups(k), {a.at_address(0, 0), a.outer, kern.k_group, kern.mr * a.outer}, tb, c.data(), n, false});
      for (int64_t j = 0; j < m * n; ++j) ASSERT_EQ(read_element(acc, &c[size_t(j) * byte_size(acc)]), want[size_t(j)]) << name(i) << " " << name(t);
    }
}
// Pairs of k of A's rows side by side: the same bits as rows with dense k. And zeros in front of a sum, in steps of 32, and behind
// it leave it as it is: attention counts on both.
TEST(GemmTile, PairsInPlaceAndZerosAround) {
  for (const Set& i : sets()) {
    const TileKernel& kern = kernel(i, DType::bf16);
    if (kern.k_group != 2) continue;
    const int64_t m = 37, n = 41, k = 74, front = 32, all = 128;
    Matrix a(DType::bf16, m, k, Matrix::k_dense, 1), b(DType::bf16, n, k, Matrix::k_dense, 2);
    const std::vector<double> want = product(kern, a, b, false, true, DType::f32);
    Matrix wide_a(DType::bf16, m, all, Matrix::k_dense, 1), wide_b(DType::bf16, n, all, Matrix::k_dense, 2);
    std::vector<uint16_t> pairs(size_t(all * m));
    for (int64_t l = 0; l < all; ++l) {
      const bool inside = l >= front && l < front + k;
      for (int64_t r = 0; r < m; ++r) {
        write_element(DType::bf16, wide_a.at_address(r, l), inside ? a.at(r, l - front) : 0);
        std::memcpy(&pairs[size_t(l / 2 * 2 * m + r * 2 + l % 2)], wide_a.at_address(r, l), 2);
      }
      for (int64_t c = 0; inside && c < n; ++c) std::memcpy(wide_b.at_address(c, l), b.at_address(c, l - front), 2);
    }
    EXPECT_EQ(product(kern, wide_a, wide_b, false, true, DType::f32), want) << name(i);
    Memory packed_b(kern.b_bytes(n, all));
    std::vector<float> c(size_t(m * n), 0.5f);
    kern.tile({m, n, all / 2, {pairs.data(), 2, 2 * m, 2 * kern.mr}, kern.pack_b(wide_b.source(), packed_b.get()), c.data(), n, true});
    for (size_t j = 0; j < c.size(); ++j) ASSERT_EQ(c[j], want[j]) << name(i) << " at " << j;
  }
}
// Row i and column j decide about the bits of c[i][j], nothing else does.
TEST(GemmTile, BitsDoNotDependOnTheBlockAround) {
  for (const Set& i : sets())
    for (DType t : kTypes) {
      const TileKernel& kern = kernel(i, t);
      const DType acc = accumulator(t);
      Matrix a(t, 37, 51, Matrix::k_dense, 1), b(t, 75, 51, Matrix::k_dense, 2);
      const std::vector<double> whole = product(kern, a, b, false, true, acc);
      for (auto [row, col] : {std::pair<int64_t, int64_t>{0, 0}, {36, 74}, {9, 33}, {5, 31}, {8, 16}}) {
        Matrix one_a = a, one_b = b;
        one_a.base += row * a.outer, one_a.outer_n = 1;
        one_b.base += col * b.outer, one_b.outer_n = 1;
        EXPECT_EQ(product(kern, one_a, one_b, false, true, acc)[0], whole[size_t(row * 75 + col)]) << name(i) << " " << name(t);
      }
    }
}
// gemm_few.hpp promises the bits of the tile; B lies in memory of exactly its size, so that a sanitizer sees any read past it.
TEST(GemmFew, SameBitsAsTheTile) {
  for (const Set& i : sets())
    for (DType t : kTypes) {
      i.use();
      const FewKernel& few = gemm_few().of[t];
      Set::use_all();
      if (i.isa == Isa::portable) { EXPECT_EQ(few.rows, 0); continue; }
      const TileKernel& kern = kernel(i, t);
      const DType acc = accumulator(t);
      const int64_t size = int64_t(byte_size(t)), wide = int64_t(byte_size(acc));
      EXPECT_LE(few.rows, kern.mr);
      for (int64_t m = 1; m <= few.rows; ++m)
        for (auto [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {37, 35}, {64, 64}, {5, 3}, {33, 130}, {1100, 7}, {70, 1100}})
          for (bool k_dense : {true, false})
            for (bool accumulate : {true, false}) {
              SCOPED_TRACE(text(name(i), " ", name(t), " ", m, "x", n, "x", k, k_dense ? " columns" : " rows", accumulate ? " +=" : ""));
              Matrix a(t, m, k, Matrix::Layout(m % 4), 1), b(t, n, k, Matrix::k_dense, 2);
              const std::vector<double> want = product(kern, a, b, false, accumulate, acc);
              std::vector<char> exact(size_t(n * k * size));
              for (int64_t j = 0; j < n; ++j)
                for (int64_t l = 0; l < k; ++l) std::memcpy(&exact[size_t((k_dense ? j * k + l : l * n + j) * size)], b.at_address(j, l), size_t(size));
              Memory packed_a(kern.a_bytes(m, k));
              std::vector<char> c(size_t(m * n * wide));
              for (int64_t j = 0; j < m * n; ++j) write_element(acc, &c[size_t(j * wide)], accumulate ? 0.5 : NAN);
              const PackSource source = k_dense ? PackSource{exact.data(), k, 1, n, k} : PackSource{exact.data(), 1, n, n, k};
              ASSERT_TRUE(few.reads(source.outer, source.k_stride));
              few.run({m, kern.pack_a(a.source(), packed_a.get()), source, c.data(), n, accumulate});
              for (int64_t j = 0; j < m * n; ++j) ASSERT_EQ(read_element(acc, &c[size_t(j * wide)]), want[size_t(j)]) << "at " << j;
            }
    }
}
TEST(GemmTile, SameBitsWithAvx2AndAvx512) {
  if (!has(Isa::avx2) || !has(Isa::avx512)) GTEST_SKIP() << "needs AVX-512, and the AVX2 loops in the build";
  for (DType t : {DType::f16, DType::f32, DType::f64}) {
    Matrix a(t, 37, 51, Matrix::k_dense, 1), b(t, 75, 51, Matrix::outer_dense, 2);
    EXPECT_EQ(product(kernel({Isa::avx2}, t), a, b, false, false, accumulator(t)), product(kernel({Isa::avx512}, t), a, b, false, false, accumulator(t)));
  }
}
TEST(GemmTile, SmallIntegersAreExact) {
  for (const Set& i : sets())
    for (DType t : kTypes) {
      Matrix a(t, 20, 33, Matrix::strided, 1, true), b(t, 40, 33, Matrix::k_dense, 2, true);
      const std::vector<double> got = product(kernel(i, t), a, b, false, false, accumulator(t));
      for (int64_t r = 0; r < 20; ++r)
        for (int64_t c = 0; c < 40; ++c) {
          double want = 0;
          for (int64_t k = 0; k < 33; ++k) want += a.at(r, k) * b.at(c, k);
          ASSERT_EQ(got[size_t(r * 40 + c)], want);
        }
    }
}
TEST(GemmTile, NanAndInfinityStayInTheirRowAndColumn) {
  for (const Set& i : sets())
    for (DType t : kTypes) {
      Matrix a(t, 17, 7, Matrix::k_dense, 1), b(t, 35, 7, Matrix::k_dense, 2);
      write_element(t, a.at_address(3, 6), NAN);
      write_element(t, b.at_address(34, 6), INFINITY);
      const std::vector<double> got = product(kernel(i, t), a, b, false, false, accumulator(t));
      for (int64_t r = 0; r < 17; ++r)
        for (int64_t c = 0; c < 35; ++c) {
          const double y = got[size_t(r * 35 + c)];
          if (r == 3) ASSERT_TRUE(std::isnan(y));
          else if (c == 34) ASSERT_TRUE(std::isinf(y));
          else ASSERT_TRUE(std::isfinite(y));
        }
    }
}

}  // namespace
}  // namespace baracuda
