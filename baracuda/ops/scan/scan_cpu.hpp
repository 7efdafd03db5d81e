#pragma once
// What the instruction-set units of the family export: scans of lanes (rows or columns) and their gradients, and the way of
// elements from memory into L1 in the computing type and back.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

// The order of every scan: blocks of kScanBlock elements of the axis, joined in order; a block is scanned from its beginning.
inline constexpr int kScanBlock = 1024;
inline constexpr int kScanChunk = 512;    // elements of a row that go through L1 at a time
inline constexpr int kScanStrip = 256;    // most lanes of one call with columns = true
inline constexpr int kScanDirectStrip = 1024;  // of ScanDirect
inline constexpr int kScanProducts = 64;  // elements to a saved product of cumprod's gradient
inline constexpr int kScanKinds = 5;
struct alignas(8) ScanState { char bytes[24]; };  // what a lane carries from block to block, opaque outside the units

struct ScanPort {            // a tensor: lane 0's first element in the order of the scan (steps are negative for a reverse one)
  char* at = nullptr;        // null: not there
  int64_t step = 0, pitch = 0;  // along the axis and from lane to lane, in elements
  DType dtype = DType::f32;
  int size = 4;              // bytes of an element
};
struct ScanLanes {
  ScanPort in[3], out;       // in: x; or dy, then x or indices, then y
  ScanPort out2;             // indices of the extrema; the gradient of a recurrence's a beside that of x
  int64_t lanes, n;
  int64_t begin, end;        // blocks to scan
  int64_t empty;             // identity of an extremum of integers
  bool columns;              // lanes side by side; else lane after lane
  bool exclusive;
  bool falling;              // positions along the axis fall in the order of the scan
  bool first;                // ties
  bool past;                 // the output is larger than the caches: write past them
  const ScanState* carry;    // per lane, before `begin`; null: nothing came before
  ScanState* total;          // of each block b and lane, at (b - begin) * total_pitch + lane: its total, and nothing else is written; null: scan
  double* products;          // cumprod's gradient: of every kScanProducts elements, per lane, then of what lies behind them
  int64_t products_pitch;    // from piece to piece
  int64_t total_pitch = 0;
  int64_t ahead = 0;         // elements along the axis to what is read next but one, 0: the next ones (ScanDirect alone)
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
  ByDType<void (*)(const ScanLanes&)> products;  // of the blocks [begin, end)
};
BARACUDA_ISA_TABLE(ScanKernels, scan_kernels)
BARACUDA_ISA_TABLE(ScanKernels, scan_grad_kernels)  // lanes run against the scan
BARACUDA_ISA_TABLE(ScanKernels, linear_recurrence_kernels)  // forward; the gradient of x, and of a, against the scan

// Sums, products and extrema of floats, the bits of scan_kernels, where nothing is asked for but y, in[0] and out are of the scan's own dtype, and
// either lanes lie side by side (columns, pitches of 1) or their elements do (steps of 1, or -1, in both).
struct ScanDirect { ByDType<void (*)(const ScanLanes&)> scan[4]; };
BARACUDA_ISA_TABLE_BF16(ScanDirect, scan_direct)

// Elements in the computing type: float for f16, bf16 and f32, double for f64, 64-bit integers for the others (the same bits
// for i64 and u64).
struct ScanStage {
  ByDType<void (*)(const void* x, int64_t step, void* to, int64_t n, int64_t ahead)> in;  // ahead: bytes to what is needed next, 0: unknown
  ByDType<void (*)(const void* from, void* y, int64_t step, int64_t n, bool past)> out;
};
BARACUDA_ISA_TABLE(ScanStage, scan_stage)

}  // namespace baracuda
