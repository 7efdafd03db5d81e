#pragma once
// What the instruction-set units of the family export: scans of lanes (rows or columns), the way of a tile of elements into
// L1 and back.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

// The order of every scan: chunks of kScanSteps elements in order, kScanLanes chunks to a block.
inline constexpr int kScanSteps = 64, kScanLanes = 16, kScanBlock = kScanSteps * kScanLanes;
inline constexpr int kScanStrip = 64;  // most lanes of one call with columns = true
inline constexpr int kScanKinds = 5;
struct alignas(8) ScanState { char bytes[24]; };  // what a lane carries from block to block, opaque outside the units

// Lanes of n elements. Pointers are to lane 0's first element in scan order (steps are negative for a reverse scan).
struct ScanLanes {
  const void* x;
  void* y;
  int64_t* indices;                        // null: not wanted
  int64_t x_step, y_step, indices_step;    // along the axis, in elements
  int64_t x_pitch, y_pitch, indices_pitch; // from lane to lane
  int64_t lanes, n;
  int64_t begin, end;                      // chunks to scan; begin is the first of a block
  DType x_dtype, y_dtype;
  int x_size, y_size;                      // bytes of an element
  int64_t empty;                           // identity of an extremum of integers
  bool columns;                            // lanes side by side, chunk after chunk; else lane after lane
  bool exclusive, reverse, first;
  bool past;                               // y is larger than the caches: write past them
  const ScanState* carry;                  // per lane, before `begin`; null: nothing came before
  ScanState* total;                        // per lane: the total of the chunks, and nothing else is written; null: scan
};
// carries[b * lanes + lane] holds the totals of blocks and gets what came before each; running goes on from segment to
// segment and begins as nothing when `start`.
struct ScanCarries {
  ScanState *carries, *running;
  int64_t blocks, lanes;
  bool start, first;
};
struct ScanKernels {
  ByDType<void (*)(const ScanLanes&)> scan[kScanKinds];
  ByDType<void (*)(const ScanCarries&)> carries[kScanKinds];
};
BARACUDA_ISA_TABLE(ScanKernels, scan_kernels)

// Gradients of cumprod, of the extrema and of logcumsumexp. Lanes run against the scan: pointers are to the element that it
// takes last. Blocks are independent once their carries are there.
struct ScanGradLanes {
  const void *dy, *a, *b;                          // a: x, or indices (i64); b: y, for logcumsumexp
  void* dx;
  int64_t dy_step, a_step, b_step, dx_step;        // along the axis, in elements
  int64_t dy_pitch, a_pitch, b_pitch, dx_pitch;    // from lane to lane
  int64_t lanes, n;
  int64_t begin, end;                              // blocks
  DType dtype;
  int size;                                        // bytes of an element
  bool columns, exclusive;
  bool falling;                                    // positions along the axis fall from step to step
  ScanState* state;                                // of block b of lane l at l * all blocks + b; null: lanes are one block long
  bool totals;                                     // only fill `state`
  bool past;                                       // write dx past the caches
};
struct ScanGradKernels {
  ByDType<void (*)(const ScanGradLanes&)> grad[kScanKinds];
  ByDType<void (*)(ScanState* state, int64_t blocks)> carries[kScanKinds];  // of one lane: totals become what came before
};
BARACUDA_ISA_TABLE(ScanGradKernels, scan_grad_kernels)

// A tile is kScanSteps rows of kScanLanes elements in the computing type: float for f16, bf16 and f32, double for f64, 64-bit
// integers for the others (the same bits for i64 and u64). Dense lanes may be more: one tile behind the other.
struct ScanTile {
  void* tile;
  char* const* lane;   // the first element of each lane, kScanLanes pointers; those beyond `lanes` repeat a valid one
  const int* count;    // elements of each lane; the tile's further steps are `fill`
  int lanes, steps;
  int64_t step;        // along the axis, in elements
  bool dense;          // lane l is lane 0 + l elements, and every count is `steps`
  int64_t ahead;       // bytes from here to what is needed next
  double fill;
  bool past;           // write past the caches
};
struct ScanStage {
  ByDType<void (*)(const ScanTile&)> in, out;
  ByDType<double (*)(const void*, int64_t)> at;  // one element, floats only
};
BARACUDA_ISA_TABLE(ScanStage, scan_stage)

}  // namespace baracuda
