#include "cli/train/data.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace baracuda::cli {
namespace {

TEST(Permute, is_a_bijection_that_moves_things) {
  for (const uint64_t n : {1, 2, 3, 4, 5, 16, 17, 1000, 4097}) {
    std::set<uint64_t> seen;
    uint64_t fixed = 0;
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t p = permute(i, n, 42);
      ASSERT_LT(p, n);
      fixed += p == i;
      seen.insert(p);
    }
    EXPECT_EQ(seen.size(), n);
    if (n >= 16) { EXPECT_LT(fixed, n / 3); }
  }
  EXPECT_NE(permute(5, 1000, 1), permute(5, 1000, 2));
}

// Constants that the independent implementation in tests/reference has to meet, so that both read the same data.
TEST(Windows, order_is_pinned) {
  EXPECT_EQ(mix(0, 0), 0xe220a8397b1dcdafu);  // first output of splitmix64 seeded with 0
  std::vector<uint8_t> text(10000);
  const auto w = Windows::over(text, 100, 7);
  ASSERT_TRUE(w.ok());
  EXPECT_EQ(w->per_epoch(), 99);
}

TEST(Windows, every_epoch_visits_each_window_once_inside_the_text) {
  for (const size_t n : {11u, 12u, 20u, 21u, 30u, 31u, 1000u, 1003u}) {
    std::vector<uint8_t> bytes(n);
    std::iota(bytes.begin(), bytes.end(), uint8_t(0));
    const auto w = Windows::over(bytes, 10, 3);
    ASSERT_TRUE(w.ok()) << n;
    std::set<int64_t> offsets;
    for (int64_t epoch = 0; epoch < 50; ++epoch) {
      std::set<int64_t> starts;
      for (int64_t i = 0; i < w->per_epoch(); ++i) {
        const int64_t s = w->start(epoch * w->per_epoch() + i);
        ASSERT_GE(s, 0);
        ASSERT_LE(s + 11, int64_t(n));
        starts.insert(s);
      }
      ASSERT_EQ(int64_t(starts.size()), w->per_epoch());
      EXPECT_EQ(*starts.rbegin() - *starts.begin(), 10 * (w->per_epoch() - 1));
      offsets.insert(*starts.begin());
    }
    if (n >= 20) { EXPECT_GT(offsets.size(), 5u) << n; }
  }
}

TEST(Windows, fills_inputs_and_shifted_targets) {
  std::vector<uint8_t> bytes(200);
  std::iota(bytes.begin(), bytes.end(), uint8_t(0));
  const auto w = Windows::over(bytes, 8, 5);
  ASSERT_TRUE(w.ok());
  std::vector<int64_t> x(24), y(24);
  w->fill(4, 3, x, y);
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t t = 0; t < 8; ++t) {
      EXPECT_EQ(x[size_t(b * 8 + t)], w->start(9 + b) + t);
      EXPECT_EQ(y[size_t(b * 8 + t)], x[size_t(b * 8 + t)] + 1);
    }
}

TEST(Windows, refuses_a_text_shorter_than_a_sequence) {
  const std::vector<uint8_t> bytes(10);
  const auto w = Windows::over(bytes, 10, 1);
  ASSERT_FALSE(w.ok());
  EXPECT_NE(w.status().message().find("10 training tokens, a sequence takes context + 1 = 11"), std::string::npos);
}

}  // namespace
}  // namespace baracuda::cli
