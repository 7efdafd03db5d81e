#pragma once
// Rows of sums of a product to memory on Hopper, where all of them are there.
#include "baracuda/device/hopper.cuh"
#include "baracuda/ops/attention/attention_mma.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
using namespace hopper;

// word * 0 added to `zeros`, halves: NaN from where a half of any word was not finite.
template <class T> __device__ __forceinline__ void add_nothing(uint32_t& zeros, uint32_t word) {
  if constexpr (kIsF16<T>) asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(zeros) : "r"(word), "r"(0));
  else asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(zeros) : "r"(word), "r"(0));
}
// write_rows() of a warp whose 16 rows and columns are all there, in chunks of 16 bytes: to `out`, whose rows are `row` elements apart. Whether all is finite.
template <class Tile, class T, int kColumns>
__device__ __forceinline__ bool write_whole_rows(const float (&sum)[1][kColumns / 8][4], const float (&factor)[2], uint32_t tile, int first, T* out, int64_t row) {
  const int lane = int(anew(threadIdx.x)) % 32;  // addresses are made here, not kept
  const uint32_t to = Tile::at(tile, first + lane / 4, 0) + lane % 4 * 4;  // its chunk is the row's number in 8, and chunk j of the row lies where j differs from it
  uint32_t zeros = 0;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t word = pair<T>(sum[0][j][2 * i] * factor[i], sum[0][j][2 * i + 1] * factor[i]);
      store_shared((to ^ uint32_t(j % 8 << 4)) + Tile::at(0, 8 * i, j / 8 * 8), word);
      add_nothing<T>(zeros, word);
    }
  publish();  // before the rows are stored, which it would wait for
  __syncwarp();
  constexpr int kChunks = kColumns / 8, kTurns = kColumns / 16, kAtOnce = kTurns % 4 == 0 ? 4 : 2, kStep = 32 / kChunks;
  constexpr bool kEven = kChunks * kStep == 32;  // a lane's rows are kStep apart
  const int r0 = first + lane / kChunks, c0 = lane % kChunks;
  const uint32_t from = Tile::at(tile, r0, c0);
  T* const there = out + r0 * row + 8 * c0;
#pragma unroll
  for (int k = 0; k < kTurns; k += kAtOnce) {
    uint4 value[kAtOnce];
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
      const int i = lane + 32 * (k + e), further = kStep * (k + e);
      value[e] = load_shared(kEven ? (from ^ uint32_t(further % 8 << 4)) + further * 128 : Tile::at(tile, first + i / kChunks, i % kChunks));
    }
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
      const int i = lane + 32 * (k + e);
      *reinterpret_cast<uint4*>(kEven ? there + kStep * (k + e) * row : out + (first + i / kChunks) * row + 8 * (i % kChunks)) = value[e];
    }
  }
  return (zeros & 0x7fff7fff) == 0;
}
#endif

}  // namespace attention
}  // namespace baracuda
