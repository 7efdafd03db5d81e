#pragma once
// What the kernel files of the family export to their rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"
#include "baracuda/ops/reduce/reduce.hpp"
#include "baracuda/ops/reduce/reduce_state.hpp"

namespace baracuda {

// A state of n elements.
struct ReducePart { ReduceState s; double n; };
// What becomes of a row's state. found: a double, the index of an extremum or the state's first number.
enum class ReduceResult : uint8_t { value, index, both, found };
struct ReduceCuda {
  device::Walk<1> row;      // along the reduced axes, by elements
  device::Walk<4> kept;     // x, y, second, third; the last axis is that of the columns
  const void* x;
  void *y, *second;         // second: mean (value), values (index), the largest (both)
  const double* shift;      // of every row, or null
  double* found;
  ReducePart* parts;        // [rows][groups], where a row is more than one
  int64_t n, chunks, rows;
  double power, correction;
  ReduceLoop loop;
  ReduceKind kind;          // plain_kind()
  ReduceResult result;
  DType dtype, y_dtype;
  int size, y_size;         // bytes of an element of x and of y: kernels have no table of dtypes
  bool floating, counts;    // x; y is a count, or whether one is 0 or n
  uint8_t order;            // reduce_math::Order
  uint64_t sign, flip;      // of integers of fewer than 64 bits: the bit that says minus, or 0; of u64: what makes its order that of i64
  bool is_bool, columns, magnitude;
  bool dense;               // rows whose elements are neighbours, or that are walked in whole lines of 16 bytes
  bool lines;               // columns whose neighbours are lines of 16 bytes
  bool walked;              // element_offset() says where a line is
  bool whole_lines;         // all rows begin and end with a line
  bool only_infinite;       // rows whose shift is not inf are not looked at
  // Set at the launch: threads of a chunk; chunks that a block joins, those before a short rest, such groups of a row, of a block.
  int team = 1, together = 1, mains = 1, held = 1;
  int64_t groups = 1;
  device::Divisor row_lines;  // of a short row
};
using ReduceLaunch = int (*)(const ReduceCuda&, void* stream);
struct ReduceCudaTable { ByDType<ReduceLaunch> of[int(ReduceLoop::count)]; };
extern const ReduceCudaTable reduce_cuda_sums, reduce_cuda_order, reduce_cuda_exps, reduce_cuda_integers;
extern const ByDType<ReduceLaunch> reduce_cuda_others;  // all of it: reduce_others::Total of every row in `found`
int reduce_cuda_join(const ReduceCuda& p, void* stream);  // of what a launch leaves in `parts`
// Rows without elements: the state of nothing, to all of them.
int reduce_cuda_fill(const ReduceCuda& p, const ReduceState& s, void* stream);

}  // namespace baracuda
