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
  device::Walk<1> row;      // along the reduced axes; units of 16 bytes where `vector`
  device::Walk<4> kept;     // x, y, second, third; the last axis is that of the columns
  const void* x;
  void *y, *second;         // second: mean (value), values (index), the largest (both)
  const double* shift;      // of every row, or null
  double* found;
  ReducePart* parts;        // [rows][chunks], for rows of more than a block's chunks
  int64_t n, chunks, rows;
  double power, correction;
  ReduceLoop loop;
  ReduceKind kind;          // plain_kind()
  ReduceResult result;
  DType dtype, y_dtype;
  int size, y_size;         // bytes of an element of x and of y: kernels have no table of dtypes
  bool floating, counts;    // x; y is a count, or whether one is 0 or n
  uint8_t order;            // reduce_math::Order
  bool vector, columns, magnitude;
  bool only_infinite;       // rows whose shift is not inf are not looked at
  int team = 1;             // threads of a chunk in rows; set at the launch
};
// Elements that a thread of a row loads at once; whole: integers and counts.
constexpr int reduce_cuda_lanes(int bytes, bool whole) { return whole && bytes < 4 ? 4 : 16 / bytes; }
using ReduceLaunch = int (*)(const ReduceCuda&, void* stream);
struct ReduceCudaTable { ByDType<ReduceLaunch> of[int(ReduceLoop::count)]; };
extern const ReduceCudaTable reduce_cuda_sums, reduce_cuda_order, reduce_cuda_exps, reduce_cuda_integers;
extern const ByDType<ReduceLaunch> reduce_cuda_others;  // all of it: reduce_others::Total of every row in `found`
// The rows whose chunks a launch leaves in `parts`.
bool reduce_cuda_parts(const ReduceCuda& p);
int reduce_cuda_join(const ReduceCuda& p, void* stream);
// Rows without elements: the state of nothing, to all of them.
int reduce_cuda_fill(const ReduceCuda& p, const ReduceState& s, void* stream);

}  // namespace baracuda
