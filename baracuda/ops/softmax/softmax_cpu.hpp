#pragma once
// What the instruction-set units of the family export: the passes over a block, which softmax.cpp puts together.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/host/row_sum.hpp"

namespace baracuda {

// Up to `count` lines (parallels of the axis) of m <= kSumChunk elements. A is the computing type, float or double. Element r of line c
// is buffer[c * ld + r] when lines lie as rows, buffer[r * ld + c] as columns. Rows are padded to a multiple of kSoftmaxPad;
// columns are kSoftmaxTile bytes wide, whatever count is.
inline constexpr int kSoftmaxTile = 128, kSoftmaxPad = 16;
struct SoftmaxBlock {
  const void* in;              // of the pass: x, dy or y; in and out step by `step` along the axis and `pitch` between lines
  const void* second;          // of a stream: y, where in is dy
  void* out;
  int64_t step, pitch;
  void* buffer[2];             // A: x and then exp(x - base); backward: dy, y
  int64_t ld;
  void *max, *sum;             // A [count]
  bool* near;                  // [count], of rows of halves in a stream: no element is 60 below the maximum
  int count, m;
  bool negate;                 // softmin
  bool safe;                   // of short rows: safe_softmax
  double scale;                // of x and dx; forward: adjust applies it
  double sign;                 // of dx: scale, negative for softmin
  const void* mask;            // bytes, or null; they step like in
  int64_t mask_step, mask_pitch;
  bool past;                   // out is too large for the caches
  const void* next;            // what will be loaded after this block, to be fetched ahead
  int64_t next_line, next_step;  // its bytes from line to line and from element to element
};
// max and sum are [chunks][pitch], `count` lines of each are used.
struct SoftmaxJoin {
  void *max, *sum;
  int64_t count, chunks, pitch;
  bool safe;
};
enum class SoftmaxLay : uint8_t { rows, columns, count };
enum class SoftmaxFinish : uint8_t { value, log_value, slope, log_slope, log_slope_of_halves, count };
using SoftmaxPass = void (*)(const SoftmaxBlock&);
struct SoftmaxKernels {
  struct {
    ByDType<ByDType<SoftmaxPass>> load;     // [dtype of in][A]: buffer[0] = in or -in, max
    ByDType<SoftmaxPass> adjust[2];         // [A]: buffer[0] scaled, -inf where the mask is 0, and its max; [1] buffer[0] is 0 there
    ByDType<SoftmaxPass> exp_sum[2];        // [A]: sum of exp; [1] keeps exp in the buffer
    ByDType<SoftmaxPass> exp_sum_of_halves[2];  // [dtype of out], of A in f32: likewise
    ByDType<SoftmaxPass> sum[2];            // [A]: sum of buffer[0] * buffer[1]; [1] of buffer[0]
    ByDType<ByDType<SoftmaxPass>> finish[int(SoftmaxFinish::count)];  // [A][dtype of out]
    ByDType<SoftmaxPass> again[2];          // [dtype of in and out, which lie alike]: load, exp and finish without a buffer, of rows; [1] the logarithm
  } lay[int(SoftmaxLay::count)];
  // [logarithm][dtype of in and out, which lie alike, steps of 1]: rows of at most kSumLanes elements from memory to memory; null: no registers
  ByDType<SoftmaxPass> short_rows[2];
  // [A]: what the finish needs, for every chunk: value the two parts of the factor in sum and max, log_value
  // the logarithm in sum and the maximum in max.
  ByDType<void (*)(const SoftmaxJoin&)> join, join_log;
  ByDType<void (*)(const SoftmaxJoin&)> join_sums;  // [A]: the sum of all chunks, in every chunk's place
};
BARACUDA_ISA_TABLE_BF16(SoftmaxKernels, softmax_kernels)

// Blocks of one chunk of an axis, where all tensors have one dtype, computed in f32, and the same strides: the stages of blocks that
// follow each other run in one loop, so that memory is read and written while exp is computed. Rows are dense; columns are
// kSoftmaxStream wide and dense across, and the buffers are as wide. A stage may be absent.
inline constexpr int kSoftmaxStream = 32;
using SoftmaxStep = void (*)(const SoftmaxBlock* const (&blocks)[3]);
struct SoftmaxStreams {
  // [lay][logarithm][dtype]: finishes blocks[0], takes the exps and sums of blocks[1] and the maxima of blocks[2]. Of columns, the buffer[0] of
  // blocks[0] is that of blocks[2], too; of rows that of blocks[1]. There is no softmax of rows of f32, whose exps would take the first-level cache.
  ByDType<SoftmaxStep> forward[int(SoftmaxLay::count)][2];
  // [lay][logarithm][dtype]: finishes blocks[0], sums blocks[1]; both have the buffers.
  ByDType<SoftmaxStep> backward[int(SoftmaxLay::count)][2];
};
BARACUDA_ISA_TABLE_BF16(SoftmaxStreams, softmax_streams)

}  // namespace baracuda
