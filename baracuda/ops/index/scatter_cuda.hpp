#pragma once
// What the kernel file of the writes at indices exports to its rows. The walk of the indices falls apart into positions, along which places differ, and
// columns, along which they do not. Positions are sorted stably by place; then each element of y takes its own, in order.
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
  CombineCuda combine;
  bool self;
};
struct ScatterCudaKernels {
  int (*sort)(const PlacesCuda&, void* stream);
  ByDType<int (*)(const ScatterCuda&, void* stream)> combine;
  int (*replace[5])(const ScatterCuda&, void* stream);  // by the logarithm of the element's bytes
};
extern const ScatterCudaKernels scatter_cuda_kernels;

}  // namespace baracuda
