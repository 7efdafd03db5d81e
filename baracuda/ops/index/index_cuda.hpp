#pragma once
// What the kernel file of the family exports to its rows.
#include "baracuda/device/walk.hpp"

namespace baracuda {

inline constexpr int kIndexApart = 4;
template <int K> struct GatherCuda {
  device::Walk<2 + K> walk;       // y, x without the indexed axes, keys; vectors only where keys are the same along the last axis
  const void *x, *key[K];         // keys from `keys` on are null
  void* y;
  int64_t extent[K], add[K];      // of each key: places, what a step adds to the place in x
  int keys;
  bool i64, negative, clip;
  bool apart;                     // a unit is kIndexApart elements that have indices of their own
  uint64_t none[2];               // the bits of an element that no index names
};
struct OneHotCuda {
  device::Walk<3> walk;           // y, indices, the class; vectors only along the classes
  const void* indices;
  void* y;
  int64_t classes;
  bool i64, negative, clip;
  uint64_t one;                   // the bits of 1
};
struct IndexCudaKernels {         // by the logarithm of the element's bytes
  int (*gather[5])(const GatherCuda<1>&, void* stream);
  int (*gather_many[5])(const GatherCuda<kMaxRank>&, void* stream);
  int (*one_hot[4])(const OneHotCuda&, void* stream);
};
extern const IndexCudaKernels index_cuda_kernels;

}  // namespace baracuda
