#pragma once
// What the instruction-set units of the family export.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

// A position is 64 a + 16 b + c: the sines of 64 a f are computed when a changes, those of 16 b f and c f are looked up, and
// they are multiplied as complex numbers in f64; the last product is in f32 for halves. So a position has one table row, however
// it is reached.
inline constexpr int kRopeDigits = 16 + 4;  // c = 0 .. 15, then 16 b = 0 .. 48
inline constexpr int64_t kRopeAhead = 8192;  // bytes: rows are fetched so far ahead
struct RopeFrequencies {
  const double *high, *low;  // f_i = high + low, i < half
  int64_t half;
  double* digits;            // [kRopeDigits + 16][2][half]: cosines, then sines; at last those of c f turned back
  float* rounded;            // [32][2][half]: of c f, on and back
};
// Rows of the table, A (float, double for f64): [count][2][half], cosines, then sines.
struct RopeTable {
  RopeFrequencies f;
  const int64_t* positions;
  int64_t count;
  bool inverse;
  double* coarse;  // scratch [5][2][half]
  void* table;
};
struct RopeRows {
  const void* x;
  void* y;
  int64_t x_pitch, y_pitch, table_pitch, rows;
  const void* table;
  int64_t half, n;
  bool past;  // write y past the caches; the caller ends its block with past_fence()
  const void* far;  // the rows of x that come kRopeAhead bytes later or more, beyond these; null for none
  int64_t x_other, y_other;  // where the rows of further heads at the same positions lie, in elements
  int heads;                 // that go together: the processor fetches ahead in as many streams
  const RopeTable* make;  // null, or what the turns of each row are made from as it goes by, instead of a table
  int64_t outer = 1, x_outer = 0, y_outer = 0, table_outer = 0;  // so many times the rows, and from each time to the next
};
struct PositionKernels {
  void (*fill_digits)(const RopeFrequencies&);
  ByDType<void (*)(const RopeTable&)> table;  // by the dtype of x
  ByDType<void (*)(const RopeRows&)> half_split, interleaved;
};
BARACUDA_ISA_TABLE_BF16(PositionKernels, position_kernels)

}  // namespace baracuda
