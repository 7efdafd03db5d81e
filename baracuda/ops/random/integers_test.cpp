#include "baracuda/ops/random/integers.hpp"
#include <algorithm>
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr uint64_t kSeed = 0x123456789abcdef, kOffset = (uint64_t(3) << 40) + 5;

std::vector<uint64_t> words_of(DType t, int64_t n, uint64_t seed, uint64_t offset) {  // raw ones, which random_test holds to the cipher by way of uniforms
  Tensor y(t, {n});
  EXPECT_OK(run_plan<RandomBits>({t, {n}}, {y, seed, offset}));
  std::vector<uint64_t> w;
  for (int64_t i = 0; i < n; ++i) w.push_back(t == DType::u64 ? y.view().as<uint64_t>()[i] : y.view().as<uint32_t>()[i]);
  return w;
}
// Philox as the paper writes it, with the attempt as third word of the counter.
uint32_t reference_word(uint64_t number, uint32_t attempt, uint64_t seed) {
  uint32_t c[4] = {uint32_t(number / 4), uint32_t(number / 4 >> 32), attempt, 0}, k[2] = {uint32_t(seed), uint32_t(seed >> 32)};
  for (int r = 0; r < 10; ++r) {
    const uint64_t p0 = uint64_t(0xD2511F53) * c[0], p1 = uint64_t(0xCD9E8D57) * c[2];
    const uint32_t next[4] = {uint32_t(p1 >> 32) ^ c[1] ^ k[0], uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k[1], uint32_t(p0)};
    std::copy(next, next + 4, c);
    k[0] += 0x9E3779B9, k[1] += 0xBB67AE85;
  }
  return c[number % 4];
}
TEST(RandomIntegers, BitsAreTheWords) {
  const std::vector<uint64_t> w = words_of(DType::u32, 2000, kSeed, 2 * kOffset), both = words_of(DType::u64, 1000, kSeed, kOffset);
  for (size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(w[i], reference_word(2 * kOffset + i, 0, kSeed));
    ASSERT_EQ(both[i], w[2 * i + 1] << 32 | w[2 * i]);
  }
  for (DType t : {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64})
    for (Layout layout : {Layout::dense, Layout::transposed, Layout::every_other}) {
      Tensor y(t, {20, 50}, layout);
      ASSERT_OK(run_plan<RandomBits>({t, {20, 50}}, {y, kSeed, t == DType::i64 || t == DType::u64 ? kOffset : 2 * kOffset}));
      EXPECT_TRUE(y.guards_intact());
      const auto bytes = y.element_bytes();
      for (size_t i = 0; i < 1000; ++i) {
        uint64_t got = 0;
        const size_t size = byte_size(t);
        std::memcpy(&got, &bytes[i * size], size);
        ASSERT_EQ(got, (size == 8 ? both[i] : w[i]) & (~uint64_t(0) >> (64 - 8 * size))) << name(t);
      }
    }
}
TEST(RandomIntegers, RandintReachesEveryInteger) {  // of 64 bits, with a sign or without
  const int64_t n = 2000;
  const std::vector<uint64_t> w = words_of(DType::u64, n, kSeed, kOffset);
  const __int128 whole = __int128(1) << 64;
  Tensor u(DType::u64, {n}), i(DType::i64, {n}), top(DType::u64, {n});
  ASSERT_OK(run_plan<Randint>({DType::u64, {n}, 0, whole}, {u, kSeed, kOffset}));
  ASSERT_OK(run_plan<Randint>({DType::i64, {n}, INT64_MIN, uint64_t(1) << 63}, {i, kSeed, kOffset}));
  ASSERT_OK(run_plan<Randint>({DType::u64, {n}, ~uint64_t(0) - 2, whole}, {top, kSeed, kOffset}));
  int64_t of[3] = {};
  for (int64_t k = 0; k < n; ++k) {
    ASSERT_EQ(u.view().as<uint64_t>()[k], w[size_t(k)]);
    ASSERT_EQ(uint64_t(i.view().as<int64_t>()[k]), w[size_t(k)] + (uint64_t(1) << 63));
    const uint64_t v = top.view().as<uint64_t>()[k];
    ASSERT_GE(v, ~uint64_t(0) - 2);
    ++of[v - (~uint64_t(0) - 2)];
  }
  for (int64_t c : of) EXPECT_NEAR(double(c), double(n) / 3, 5 * std::sqrt(double(n) * 2 / 9));
  RandintDescriptor d;
  for (const char* high : {"18446744073709551616", "18446744073709551615", "-9223372036854775808", "7"}) {
    ASSERT_OK(set_field(d, "high", high));
    EXPECT_NE(describe(d).find(text("high=", high)), std::string::npos) << describe(d);
  }
  for (const char* high : {"18446744073709551617", "-9223372036854775809", "1.5", "", "-"})
    expect_refused(set_field(d, "high", high), Code::invalid_problem, {"high", high});
  const Stream s = Stream::cpu();
  expect_refused(RandintPlan::select(s, {DType::i64, {2}, 0, whole}).status(), Code::invalid_problem, {"18446744073709551616", "9223372036854775807"});
  expect_refused(RandintPlan::select(s, {DType::u64, {2}, -1, 5}).status(), Code::invalid_problem, {"low -1", "u64", "18446744073709551615"});
}
TEST(RandomIntegers, RandintIsTheProductsHighHalf) {
  const struct { int64_t low, high; } ranges[] = {{0, 2}, {-3, 4}, {0, 1}, {-128, 128}, {5, 3000000005}, {0, int64_t(1) << 32}, {0, (int64_t(3) << 30)},
                                                  {-5, (int64_t(1) << 32) - 4}, {0, int64_t(3) << 61}, {INT64_MIN, INT64_MAX}, {INT64_MAX - 1, INT64_MAX}};
  int64_t again = 0;
  for (const auto& r : ranges) {
    const int64_t n = 3000;
    Tensor y(DType::i64, {n});
    ASSERT_OK(run_plan<Randint>({DType::i64, {n}, r.low, r.high}, {y, kSeed, kOffset}));
    const unsigned __int128 range = (unsigned __int128)(uint64_t(r.high) - uint64_t(r.low));
    const int bits = range <= (unsigned __int128)1 << 32 ? 32 : 64;
    const unsigned __int128 all = (unsigned __int128)1 << bits;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t e = kOffset + uint64_t(i);
      unsigned __int128 m = 0;
      for (uint32_t attempt = 0;; ++attempt, ++again) {
        const uint64_t w = bits == 32 ? reference_word(e, attempt, kSeed) : uint64_t(reference_word(2 * e + 1, attempt, kSeed)) << 32 | reference_word(2 * e, attempt, kSeed);
        m = w * range;
        if (m % all >= all % range) break;
      }
      ASSERT_EQ(y.view().as<int64_t>()[i], int64_t(uint64_t(r.low) + uint64_t(m / all))) << r.low << " " << r.high << " " << i;
    }
  }
  EXPECT_GT(again, 1000);  // the ranges just above powers of two do need it
  for (DType t : {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64}) {
    Tensor y(t, {30, 40}, Layout::transposed), whole(DType::i64, {1200});
    ASSERT_OK(run_plan<Randint>({t, {30, 40}, 0, 101}, {y, 9, 7}));
    ASSERT_OK(run_plan<Randint>({DType::i64, {1200}, 0, 101}, {whole, 9, 7}));
    for (int64_t i = 0; i < 1200; ++i) ASSERT_EQ(y.at(i), whole.at(i)) << name(t);
    EXPECT_TRUE(y.guards_intact());
  }
}
// Pearson's statistic over n cells, in standard deviations from its mean.
double chi_square(const std::vector<double>& counts, const std::vector<double>& expected) {
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) sum += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
  const double degrees = double(counts.size()) - 1;
  return (sum - degrees) / std::sqrt(2 * degrees);
}
TEST(RandomIntegers, RandintIsEven) {
  for (int64_t range : {7, 100, 1000})
    for (uint64_t seed : {uint64_t(0), uint64_t(5), uint64_t(1) << 63}) {
      const int64_t n = 400000;
      Tensor y(DType::i32, {n});
      ASSERT_OK(run_plan<Randint>({DType::i32, {n}, 0, range}, {y, seed, 0}));
      std::vector<double> counts(static_cast<size_t>(range));
      for (double v : y.values()) ++counts[size_t(v)];
      EXPECT_LT(std::fabs(chi_square(counts, std::vector<double>(counts.size(), double(n) / double(range)))), 4) << range;
    }
}
TEST(RandomIntegers, PermutationsSortTheirKeys) {
  for (int64_t n : {1, 2, 7, 300, 4096, 4097, 30000})
    for (DType t : {DType::i32, DType::i64, DType::u16})
      for (Layout layout : {Layout::dense, Layout::reversed}) {
        const int64_t rows = n > 1000 ? 2 : 5;
        Tensor y(t, {rows, n}, layout);
        ASSERT_OK(run_plan<Randperm>({t, {rows, n}}, {y, kSeed, kOffset}));
        EXPECT_TRUE(y.guards_intact());
        const std::vector<uint64_t> keys = words_of(DType::u64, rows * n, kSeed, kOffset);
        for (int64_t r = 0; r < rows; ++r) {
          std::vector<int64_t> order(static_cast<size_t>(n));
          for (int64_t i = 0; i < n; ++i) order[size_t(i)] = i;
          std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return keys[size_t(r * n + a)] < keys[size_t(r * n + b)]; });
          for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y.at(r * n + i), order[size_t(i)]) << n << " " << r << " " << i;
        }
      }
  // All 24 orders of four, alike often.
  const int64_t rows = 48000;
  Tensor y(DType::i8, {rows, 4});
  ASSERT_OK(run_plan<Randperm>({DType::i8, {rows, 4}}, {y, 11, 0}));
  std::map<std::vector<double>, double> seen;
  for (int64_t r = 0; r < rows; ++r) ++seen[{y.at(4 * r), y.at(4 * r + 1), y.at(4 * r + 2), y.at(4 * r + 3)}];
  ASSERT_EQ(seen.size(), 24u);
  std::vector<double> counts;
  for (const auto& [order, count] : seen) counts.push_back(count);
  EXPECT_LT(std::fabs(chi_square(counts, std::vector<double>(24, double(rows) / 24))), 4);
}
TEST(RandomIntegers, SplitsThreadsInstructionSetsAndRefusals) {
  const int64_t n = 20011;
  Tensor whole(DType::i32, {n}), wide(DType::i64, {n}), order(DType::i64, {3, n});
  ASSERT_OK(run_plan<Randint>({DType::i32, {n}, -9, 1000}, {whole, 9, 7}));
  Tensor piece(DType::i32, {999});
  ASSERT_OK(run_plan<Randint>({DType::i32, {999}, -9, 1000}, {piece, 9, 7 + 1234}));
  for (int64_t i = 0; i < 999; ++i) ASSERT_EQ(piece.at(i), whole.at(1234 + i));
  check_repeat_bits<Randint>({DType::i32, {n}, -9, 1000}, {whole, 9, 7}, {}, 1);
  check_repeat_bits<Randint>({DType::i64, {n}, 0, int64_t(1) << 40}, {wide, 9, 7}, {}, 1);
  check_repeat_bits<RandomBits>({DType::i64, {n}}, {wide, 9, 7}, {}, 1);
  check_contract<Randint>({DType::i32, {n}, -9, 1000}, {whole, 9, 7});
  check_contract<RandomBits>({DType::i32, {n}}, {whole, 9, 7});
  check_repeat_bits<Randperm>({DType::i64, {3, n}}, {order, 9, 7}, {}, 1);
  for (Isa set : {Isa::portable, Isa::avx2}) {
    limit_isa(set);
    Tensor y(DType::i64, {3, n});
    EXPECT_OK(run_plan<Randperm>({DType::i64, {3, n}}, {y, 9, 7}));
    limit_isa(Isa::avx512bf16);
    EXPECT_TRUE(y.same_bits(order)) << name(set);
  }
  Tensor none(DType::i64, {0, 5}), empty(DType::i64, {4, 0});
  ASSERT_OK(run_plan<Randperm>({DType::i64, {0, 5}}, {none, 1, 0}));
  ASSERT_OK(run_plan<Randperm>({DType::i64, {4, 0}}, {empty, 1, 0}));
  check_contract<Randperm>({DType::i64, {3, n}}, {order, 9, 7});
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  expect_refused(RandintPlan::select(s, {DType::i64, {2}, 3, 3}).status(), bad, {"randint", "low 3", "high 3"});
  expect_refused(RandintPlan::select(s, {DType::i8, {2}, -129, 3}).status(), bad, {"low -129", "i8", "-128"});
  expect_refused(RandintPlan::select(s, {DType::u8, {2}, 0, 257}).status(), bad, {"high 257", "255"});
  expect_refused(RandintPlan::select(s, {DType::bf16, {2}, 0, 258}).status(), bad, {"bf16", "256"});
  expect_refused(RandintPlan::select(s, {DType::boolean, {2}}).status(), Code::unsupported, {"no bool"});
  expect_refused(RandpermPlan::select(s, {DType::i8, {129}}).status(), bad, {"randperm", "i8", "128"});
  expect_refused(RandpermPlan::select(s, {DType::i64, {}}).status(), bad, {"rank 0"});
}

}  // namespace
}  // namespace baracuda
