#pragma once
// What the kernel file of the writes at indices exports to its rows. The walk of the indices falls apart into positions, along which places differ, and
// columns, along which they do not. Positions are sorted stably by place; then each element of y takes its own, in order. Where one replaces the other
// it is enough to know the last of each place.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/radix_sort.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

struct PlacesCuda {
  device::SortedRows s;
  device::Walk<1 + kMaxRank> positions;  // the place of the axes that are not indexed, keys
  const void* key[kMaxRank];
  int64_t extent[kMaxRank], add[kMaxRank];
  int keys;
  bool i64, negative, clip;
};
enum class CombineCuda : uint8_t { add, mean, amax, amin };
struct ScatterCuda {
  device::SortedRows s;
  device::Walk<4> walk;                  // y, x, the place, the column in src
  device::Walk<1> positions;             // src
  const void *x, *src;                   // x null: zeros
  void* y;
  double alpha;
  int bytes;                             // of an element, for replace
  CombineCuda combine;
  bool self;
};
// Gradients. An element of x shares out its dy to itself and to its positions.
struct ScatterBackwardCuda {
  device::SortedRows s;
  device::Walk<7> walk;                  // dx, dy, x, y, the place, the columns in dsrc and in src
  device::Walk<2> positions;             // dsrc, src
  const void *dy, *x, *src, *y;          // x, src, y: amax and amin
  void *dx, *dsrc;                       // null: not wanted; dsrc is zeros
  double alpha;
  bool replace, add, extremum, self;     // none of the first three: mean
};
struct ScatterCudaKernels {
  int (*sort)(const PlacesCuda&, void* stream);
  int (*last)(const PlacesCuda&, void* stream);         // p.s.first alone: the last position of each place, plus 1
  ByDType<int (*)(const ScatterCuda&, void* stream)> combine;
  int (*replace[5])(const ScatterCuda&, void* stream);  // behind `last`; by the logarithm of the bytes of a unit of the walk
  ByDType<int (*)(const ScatterBackwardCuda&, void* stream)> backward;
};
extern const ScatterCudaKernels scatter_cuda_kernels;

}  // namespace baracuda
