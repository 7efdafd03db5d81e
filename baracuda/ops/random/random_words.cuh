#pragma once
// What kernels that take words of Philox by the element share.
#include "baracuda/device/map.cuh"
#include "baracuda/ops/random/random_math.hpp"
#include "baracuda/ops/random/random_words_cuda.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

constexpr int kBlock = 256;

// Elements of a thread: whole blocks of words.
template <class T, int kPer> inline constexpr int kElements = 16 / int(sizeof(T)) > 4 / kPer ? 16 / int(sizeof(T)) : 4 / kPer;
// The words of element first + i of the stream and those behind, from a multiple of the block on; elements are numbered mod 2^64.
template <int E, int kPer> __device__ __forceinline__ void make_words(const WordsCuda& p, uint64_t element, uint32_t (&w)[E * kPer]) {
#pragma unroll
  for (int b = 0; b < E * kPer / 4; ++b) {
    const PhiloxBlock<1> block = philox_blocks<1>((element * kPer / 4 + uint64_t(b)) & (~uint64_t(0) / 4), p.seed);
#pragma unroll
    for (int j = 0; j < 4; ++j) w[4 * b + j] = block.word[j];
  }
}
// Calls f(first, words) for each stretch of E elements; stretches begin at multiples of E in the stream: first may be negative, and elements
// outside [0, n) are none. kPer words each.
template <int E, int kPer, class F> __device__ __forceinline__ void for_words(const WordsCuda& p, F f) {
  const int skip = int(p.offset % E);
  const int64_t stretches = (skip + p.n + E - 1) / E;
  for (int64_t k = int64_t(blockIdx.x) * kBlock + threadIdx.x; k < stretches; k += int64_t(gridDim.x) * kBlock) {
    uint32_t w[E * kPer];
    make_words<E, kPer>(p, p.offset - uint64_t(skip) + uint64_t(k) * E, w);
    f(k * E - skip, w);
  }
}
unsigned blocks(const WordsCuda& p, int each) { return device::blocks_for(p.n / each + 2, kBlock); }
// Whether stretches may be read and written whole: dense, and aligned where a stretch begins.
template <class T, int E, class W> __device__ __forceinline__ bool whole(const WordsCuda& p, const W& walk, int operand, const void* data) {
  constexpr int kAlign = E * int(sizeof(T)) < 16 ? E * int(sizeof(T)) : 16;
  return walk.rank == 1 && walk.stride[operand][0] == 1 && p.offset % E == 0 && uintptr_t(data) % kAlign == 0;
}
template <class T, int E> struct alignas(E * sizeof(T) < 16 ? E * sizeof(T) : 16) Stretch { T lane[E]; };
template <class T, int E> __device__ __forceinline__ void put(T* y, const Stretch<T, E>& s) {
  if constexpr (sizeof s % 16 == 0) {  // as it stands the compiler stores parts of it
    struct Lines { uint4 line[sizeof s / 16]; };
    *reinterpret_cast<Lines*>(y) = __builtin_bit_cast(Lines, s);
  } else *reinterpret_cast<Stretch<T, E>*>(y) = s;
}

}  // namespace
}  // namespace baracuda
