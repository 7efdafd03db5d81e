#pragma once
// What the instruction-set units of the family export. A reduction is cut into chunks of at most kSumChunk elements of one
// row; a kernel turns chunks into states, which baseline code joins (reduce_detail.hpp).
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/host/row_sum.hpp"
#include "baracuda/ops/reduce/reduce_state.hpp"

namespace baracuda {

// Row r is x + r pitch, m elements with stride 1, shift[r], state[r].
struct ReduceRows {
  const void* x;
  int64_t pitch, rows;
  int m;
  const double* shift;
  ReduceState* state;
  bool magnitude;  // of |x|
  double power;
};
// Column j is the elements x[offset[i] + j], i < m.
struct ReduceColumns {
  const void* x;
  const int64_t* offset;
  int m, width;
  const double* shift;
  ReduceState* state;
  bool magnitude;
  void* lanes;  // lane_bytes * reduce_pitch(width) bytes
};
constexpr int reduce_pitch(int64_t width) { return int((width + 15) / 16 * 16); }

struct ReduceKernel {
  void (*rows)(const ReduceRows&) = nullptr;
  void (*columns)(const ReduceColumns&) = nullptr;  // null: columns are gathered into rows
  int lane_bytes = 0;                               // scratch of a column
  int most_columns = 1024;                          // of one call
};
// The floating loops in three units, to share their compile time; integers, bool and nonzero in a fourth.
struct ReduceTable { ByDType<ReduceKernel> of[int(ReduceLoop::count)]; };
BARACUDA_ISA_TABLE(ReduceTable, reduce_order_table)    // max min largest least minmax argmax argmin equal equal_magnitude
BARACUDA_ISA_TABLE(ReduceTable, reduce_sum_table)      // sum magnitudes numbers squares moments product
BARACUDA_ISA_TABLE(ReduceTable, reduce_exps_table)     // exps powers
BARACUDA_ISA_TABLE(ReduceTable, reduce_integer_table)

// y[i] = what state[i] of exps stands for, as reduce_math::value() has it, i < count.
struct ReduceLogTable { void (*of)(const ReduceState* state, double* y, int64_t count); };
BARACUDA_ISA_TABLE(ReduceLogTable, reduce_log_table)

// --- backward
struct ReduceMap {
  const void* x;
  void* dx;
  const void *p, *q, *g;
  int64_t rows, n, x_pitch, dx_pitch, c_pitch;
  int c_step;  // 0: one number for the row of the map; 1: one an element
  bool past;   // dx is written past the caches
};
struct ReduceMapTable { ByDType<void (*)(const ReduceMap&)> of[int(ReduceMapKind::count)]; };
BARACUDA_ISA_TABLE_BF16(ReduceMapTable, reduce_map_table)

// dx[i] = factor 2^exponent times the product of the other elements, i < m <= kSumChunk; dx may be x.
struct ReduceOthers {
  const void* x;
  void* dx;
  int m;
  double factor;
  int64_t exponent;
};
struct ReduceOthersTable { ByDType<void (*)(const ReduceOthers&)> of; };
BARACUDA_ISA_TABLE(ReduceOthersTable, reduce_others_table)

}  // namespace baracuda
