#pragma once
// What the instruction-set units of the family export. A reduction is cut into chunks of at most kSumChunk elements of one
// row; a kernel turns chunks into states, which baseline code joins (reduce_detail.hpp).
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/host/row_sum.hpp"

namespace baracuda {

// The loops that the kinds are made of, and the state of m elements that each leaves.
enum class ReduceLoop : uint8_t {
  sum,       // a
  squares,   // a 4^b: b is 0 but where a sum of f64 squares leaves the range
  moments,   // a mean, b sum of squared distances from it
  max, min,  // a
  product,   // a 2^b, |a| in [1, 2), 0, infinite or NaN
  exps,      // a largest, b sum of exp(x - a); where a is infinite, b is 0 or infinite
  argmax, argmin,  // a (integers: i) the extremum, at: the first index that has it
  equal,     // a elements that equal the shift (NaN equals NaN)
  nonzero,   // i elements
  count
};
struct ReduceState {
  union { double a; int64_t i; };
  union { double b; int64_t at; };
};

// Row r is x + r pitch, m elements with stride 1, shift[r], state[r].
struct ReduceRows {
  const void* x;
  int64_t pitch, rows;
  int m;
  const double* shift;
  ReduceState* state;
};
// Column j is the elements x[offset[i] + j], i < m.
struct ReduceColumns {
  const void* x;
  const int64_t* offset;
  int m, width;
  const double* shift;
  ReduceState* state;
  void* lanes;  // lane_bytes * reduce_pitch(width) bytes
};
constexpr int reduce_pitch(int64_t width) { return int((width + 15) / 16 * 16); }

struct ReduceKernel {
  void (*rows)(const ReduceRows&) = nullptr;
  void (*columns)(const ReduceColumns&) = nullptr;
  int lane_bytes = 0;  // scratch of a column
};
// The floating loops in two units, to share their compile time; integers, bool and nonzero in a third.
struct ReduceTable { ByDType<ReduceKernel> of[int(ReduceLoop::count)]; };
BARACUDA_ISA_TABLE(ReduceTable, reduce_order_table)    // max min argmax argmin equal
BARACUDA_ISA_TABLE(ReduceTable, reduce_sum_table)      // sum squares moments product exps
BARACUDA_ISA_TABLE(ReduceTable, reduce_integer_table)

// --- backward: dx = f(x, p, q, g) with numbers per row in the accumulator's type
enum class ReduceMapKind : uint8_t { spread, distance, ratio, equal, softmax, count };
struct ReduceMap {
  const void* x;
  void* dx;
  const void *p, *q, *g;
  int64_t rows, n, x_pitch, dx_pitch, c_pitch;
  int c_step;  // 0: one number for the row of the map; 1: one an element
};
struct ReduceMapTable { ByDType<void (*)(const ReduceMap&)> of[int(ReduceMapKind::count)]; };
BARACUDA_ISA_TABLE(ReduceMapTable, reduce_map_table)

}  // namespace baracuda
