#pragma once
// What the kernel files of the family export to their rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

// tiles: all of a line at once, or by tiles that wait for each other. For long columns: the totals of segments, what comes before each of
// them, the segments. products: of every tile, of what cumprod's gradient must know of later ones.
enum class ScanPhase : uint8_t { tiles, totals, segments, products };
struct alignas(16) ScanCudaState { char bytes[32]; };
struct ScanCuda {
  device::Walk<5> lines;     // in[0 ... 2], out, indices; in the order of the scan
  const void* in[3];         // null: not read
  void *out, *indices;       // indices: or a second output
  int64_t step[5], n;        // along the axis, negative where the scan runs against memory
  ScanCudaState* totals;     // a ticket, then [lines][tiles] totals and [lines][groups] of what comes before a group of tiles; or [lines][segments]
  double* products;          // [lines][tiles] of cumprod's gradient
  int64_t tiles, tile;       // of a line; elements
  int64_t empty;             // identity of an extremum of integers
  DType dtype, y_dtype;
  bool exclusive, falling, first, max, columns;
  bool neighbours;           // in rows, elements of in[0] and out stand side by side
  bool whole, whole_places;  // every chunk of inputs and output, of indices, is read and written at once
  ScanPhase stage;
  int team;                  // threads of a line in rows; set at the launch
  int stages;                // scan_flow.cuh: tiles that a block holds
  bool clusters;             // scan_flow.cuh: a line is a cluster of blocks
};
inline constexpr int64_t kScanSegment = 16384, kScanWhole = 65536;  // of columns; those of more than kScanWhole elements go by segments
inline constexpr int kScanGroup = 128;                              // tiles that look at each other's totals
struct ScanLaunch {
  int (*scan)(const ScanCuda&, void* stream) = nullptr;
  int (*carries)(const ScanCuda&, void* stream) = nullptr;  // the totals of segments become what comes before them
  int64_t row_tile = 0, column_tile = 0;                    // elements
  int chunk = 0;                                            // elements that a thread reads at once in a row
  int segment = 0;                                          // those of a warp, if tiles of a line in a row are to be even
};
struct ScanCudaKernels { ByDType<ScanLaunch> of[5]; };       // by kind
extern const ScanCudaKernels scan_cuda_sums, scan_cuda_exps, scan_cuda_order, scan_cuda_gradients;
struct LinearRecurrenceCuda { ByDType<ScanLaunch> forward, gradient, weighted; };  // in: x, a; dy, a; dy, a, y. Of `weighted`, out is dx and indices da, or out is da
extern const LinearRecurrenceCuda linear_recurrence_cuda;
int scan_cuda_spread(const ScanCuda& p, void* stream);       // the products of tiles become those of all behind them

}  // namespace baracuda
