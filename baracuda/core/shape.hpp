#pragma once
// Shape: up to eight int64 extents. Strides: as many steps, in elements; 0 broadcasts, negative flips.
#include <cstdint>
#include <initializer_list>
#include <string>

namespace baracuda {

inline constexpr int kMaxRank = 8;

// A list of at most kMaxRank numbers. A longer list keeps rank = kMaxRank + 1, which every validation refuses.
struct Dims {
  int rank = 0;
  int64_t dim[kMaxRank] = {};
  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<int64_t> list) {
    for (int64_t d : list) push_back(d);
  }
  constexpr void push_back(int64_t d) {
    if (rank < kMaxRank) dim[rank] = d;
    if (rank <= kMaxRank) ++rank;
  }
  constexpr int64_t operator[](int i) const { return dim[i]; }
  constexpr int64_t& operator[](int i) { return dim[i]; }
  constexpr bool rank_ok() const { return rank >= 0 && rank <= kMaxRank; }
  friend constexpr bool operator==(const Dims& a, const Dims& b) {
    if (a.rank != b.rank) return false;
    for (int i = 0; i < a.rank && i < kMaxRank; ++i)
      if (a.dim[i] != b.dim[i]) return false;
    return true;
  }
};
std::string to_string(const Dims& d);  // "[2, 3]"

struct Strides : Dims { using Dims::Dims; };

struct Shape : Dims {
  using Dims::Dims;
  // Number of elements; -1 where an extent is negative, the rank is out of range or the product exceeds int64.
  constexpr int64_t numel() const {
    if (!rank_ok()) return -1;
    int64_t n = 1;
    bool empty = false;
    for (int i = 0; i < rank; ++i) {
      if (dim[i] < 0) return -1;
      empty |= dim[i] == 0;
    }
    if (empty) return 0;
    for (int i = 0; i < rank; ++i)
      if (__builtin_mul_overflow(n, dim[i], &n)) return -1;
    return n;
  }
  constexpr bool valid() const { return numel() >= 0; }
  // Product of the extents in [first, last); meaningful for valid shapes.
  constexpr int64_t product(int first, int last) const {
    int64_t n = 1;
    for (int i = first; i < last; ++i) n *= dim[i];
    return n;
  }
  // The last extent and the product of the others: how row-wise ops see a tensor. Rank 0 is one row of one element.
  constexpr int64_t last() const { return rank ? dim[rank - 1] : 1; }
  constexpr int64_t rows() const { return product(0, rank - 1); }
  // Row-major strides without gaps.
  constexpr Strides contiguous() const {
    Strides s;
    s.rank = rank;
    int64_t step = 1;
    for (int i = rank_ok() ? rank - 1 : -1; i >= 0; --i) {
      s.dim[i] = step;
      step *= dim[i] > 0 ? dim[i] : 1;
    }
    return s;
  }
};

}  // namespace baracuda
