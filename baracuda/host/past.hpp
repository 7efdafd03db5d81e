#pragma once
// Results larger than the caches are written past them (store_past of math/element.hpp): a store that goes through the caches
// reads its line from memory first, half as much traffic again for a kernel that reads one tensor and writes one. The bits are
// the same.
#include "baracuda/core/tensor.hpp"

namespace baracuda {

inline constexpr int64_t kPastCaches = int64_t(24) << 20;  // bytes; what follows would find little of it in the caches

// y is larger than the caches, rows of its last axis start at multiples of 64 bytes, and it is not `read`, whose lines the
// caches hold already.
inline bool past_caches(const TensorView& y, const void* read) {
  if (y.absent() || y.data == read) return false;
  const int64_t size = int64_t(byte_size(y.dtype));
  if (y.numel() < kPastCaches / size || reinterpret_cast<uintptr_t>(y.data) % 64) return false;
  for (int i = 0; i < y.shape.rank - 1; ++i)
    if (y.shape[i] > 1 && y.strides[i] % (64 / size)) return false;
  return y.shape.rank > 0 && (y.shape[y.shape.rank - 1] == 1 || y.strides[y.shape.rank - 1] == 1);
}

// After the last of a block's copies, before another thread may look.
inline void past_fence() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace baracuda
