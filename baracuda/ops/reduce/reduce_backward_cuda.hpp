#pragma once
// What the kernel file of reduce_backward exports to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"
#include "baracuda/ops/reduce/reduce.hpp"
#include "baracuda/ops/reduce/reduce_state.hpp"

namespace baracuda {

struct ReduceRowsCuda {
  device::Walk<5> kept;      // dy, y, mean, dx, x; the last axis is that of the columns
  device::Walk<1> row;       // dx along the reduced axes, for the element that gets dy
  const void *dy, *y, *mean;
  void* dx;
  double *shift, *found;     // what a loop compares x with; what it found, or null; two numbers a row for products
  void *p, *q, *g;           // of the accumulator's type, f64 for products; null: not needed
  int64_t n, rows;
  ReduceKind kind;           // plain_kind()
  bool one_of_ties, last;    // last: found counts from the end
  double correction, power;
  DType dtype, y_dtype;
};
struct ReduceMapCuda {
  device::Walk<3> walk;      // dx, x, the row's numbers
  void* dx;
  const void *x, *p, *q, *g;
};
// Rows that are dense, or lines of 16 bytes across columns.
struct ReduceLinesCuda {
  ReduceRowsCuda rows;
  const void* x;
  int64_t step[2];           // of dx and x down a column
  int64_t units;             // of a row: the lines that it may touch
  int log;                   // of the threads of a row
  bool counts, magnitude;    // a row's `found` is how many of its elements (magnitudes) equal y, or are NaN; see kReduceCountedLines
  bool whole;                // all rows begin and end with a line
  device::Divisor row_lines; // of a short row; set at the launch
};
inline constexpr int kReduceShort = 64;
inline constexpr int kReduceCountedLines = 2048;  // of a row that a kernel counts and maps
struct ReduceBackwardCudaKernels {
  int (*shifts)(const ReduceRowsCuda&, void* stream);
  int (*numbers)(const ReduceRowsCuda&, void* stream);
  int (*scatter)(const ReduceRowsCuda&, void* stream);
  ByDType<int (*)(const ReduceMapCuda&, void* stream)> map[int(ReduceMapKind::count)];
  ByDType<int (*)(const ReduceMapCuda&, void* stream)> others;  // of a product
  // The same in rows, which make their numbers themselves, and in columns.
  ByDType<int (*)(const ReduceLinesCuda&, void* stream)> map_rows[int(ReduceMapKind::count)], map_columns[int(ReduceMapKind::count)], others_rows, others_columns;
};
extern const ReduceBackwardCudaKernels reduce_backward_cuda_kernels;
constexpr int reduce_backward_cuda_lanes(DType t) { return 16 / int(byte_size(t)); }

}  // namespace baracuda
