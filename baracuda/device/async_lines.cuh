#pragma once
// Copies of 16 bytes from global to shared memory that a thread does not wait for.
#include <cstdint>
#include "baracuda/math/config.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace device_lines {

__device__ __forceinline__ void copy_line(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(uint32_t(__cvta_generic_to_shared(to))), "l"(from) : "memory");
}
__device__ __forceinline__ void commit_lines() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// This thread's copies are there, but for those of the `later` newest groups.
template <int later> __device__ __forceinline__ void wait_for_lines() { asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory"); }

}  // namespace device_lines
}  // namespace baracuda
