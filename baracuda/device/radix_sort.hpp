#pragma once
// A stable sort of n elements by the row that each of them belongs to, as rows' scratch: radix_sort.cuh does it. Keys are rows, values the numbers
// of the elements; elements of no row have the key `rows`. All numbers have 32 bits.
#include "baracuda/core/workspace.hpp"
#include "baracuda/math/config.hpp"

namespace baracuda::device {

inline constexpr int64_t kMostSorted = int64_t(UINT32_MAX) - 1;  // elements, and rows
inline constexpr int kSortPiece = 1024, kSortMostParts = 128, kSortDigits = 256;
// n elements twice over, counts [passes][parts][digits], and first [rows + 1]: where the elements of each row begin among the sorted ones.
struct SortedRows {
  uint32_t *keys[2], *values[2], *counts, *first;
  int64_t n, rows, each;  // each: elements of a part, whole pieces
  int parts, passes;

  BARACUDA_HD const uint32_t* sorted() const { return keys[passes % 2]; }
  BARACUDA_HD const uint32_t* order() const { return values[passes % 2]; }
};
// By `passes` digits, 4 at most; `first` is not carved.
inline SortedRows carve_sort(Carver& c, int64_t n, int passes) {
  SortedRows s{};
  s.n = n, s.passes = passes;
  const int64_t least = int64_t(kSortMostParts) * kSortPiece;
  s.each = (n + least - 1) / least * kSortPiece;
  s.parts = n ? int((n + s.each - 1) / s.each) : 0;
  for (auto& k : s.keys) k = c.take<uint32_t>("rows of elements", n);
  for (auto& v : s.values) v = c.take<uint32_t>("order of elements", n);
  s.counts = c.take<uint32_t>("counts of digits", int64_t(s.parts) * s.passes * kSortDigits);
  return s;
}
inline SortedRows carve_sorted(Carver& c, int64_t n, int64_t rows) {
  int passes = 0;
  while (passes < 4 && uint64_t(rows) >> (8 * passes)) ++passes;
  SortedRows s = carve_sort(c, n, passes);
  s.rows = rows;
  s.first = c.take<uint32_t>("first of each row", rows + 1);
  return s;
}

}  // namespace baracuda::device
