#pragma once
// What the kernel file of the family exports to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

// whole: the threads of a block hold a line, or can read it again. Longer lines: statistics of every chunk, their join, the finish.
enum class SoftmaxStage : uint8_t { whole, chunks, finish };
struct SoftmaxCuda {
  device::Walk<4> lines;   // forward: x, none, mask, y; backward: dy, y, mask, dx
  const void *in, *second, *mask;
  void* out;
  int64_t step[4], n;      // along the axis
  void *max, *sum;         // [lines][chunks] of the computing type, for the stages chunks and finish
  void* chunk_memory;      // for softmax_long_cuda
  double scale, sign;      // sign: of dx, with scale
  bool negate, log, safe, columns;
  SoftmaxStage stage;
  int team = 1;            // set at the launch of rows
  bool two = false;        // rows ahead: two
};
struct SoftmaxJoinCuda { void *max, *sum; int64_t lines, chunks; bool log, safe, backward; };
using SoftmaxLaunch = int (*)(const SoftmaxCuda&, void* stream);
struct SoftmaxCudaKernels {
  ByDType<ByDType<SoftmaxLaunch>> forward, backward;  // [dtype of x and dx][dtype of y and dy]
  ByDType<int (*)(const SoftmaxJoinCuda&, void* stream)> join;  // by the computing type
};
extern const SoftmaxCudaKernels softmax_cuda_kernels;
bool softmax_cuda_row(const SoftmaxCuda& p, int size);  // a row of these that a block has
// Without a mask, and rows dense.
bool softmax_cuda_plain(const SoftmaxCuda& p);
// Whether lines are finished in the stage `whole`; size: of an element where x and y have one dtype, which is not f64, else 0.
bool softmax_cuda_whole(const SoftmaxCuda& p, int size);

// Rows that a team of threads holds in registers, of one dtype.
struct SoftmaxRowsCuda { ByDType<SoftmaxLaunch> forward, backward; };
extern const SoftmaxRowsCuda softmax_rows_cuda, softmax_columns_cuda, softmax_long_cuda;  // long: of any length
uint64_t softmax_long_bytes(int64_t lines, int64_t n, int64_t columns, int size, bool backward);  // columns: lines side by side, 0 for rows
int softmax_cuda_blocks_of_row(int64_t n, int size);           // 0: registers do not hold them; more than 1: a cluster does
int softmax_cuda_blocks_of_column(int64_t n, bool backward);  // likewise, in shared memory, down columns of one dtype in steps of 1 from line to line

}  // namespace baracuda
