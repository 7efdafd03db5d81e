// Philox words to numbers: a thread makes blocks of four words, each four elements (two of f64), the same numbers as on
// the CPU. sizeof(T) bytes written per element: the floor is memory bandwidth for f32, arithmetic (ten rounds, and a log, a root,
// a sine and a cosine per pair of normals) comes near it.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/random/random_cuda.hpp"
#include "baracuda/ops/random/random_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using random::Draw;

constexpr int kBlock = 256;

template <Draw kDraw> __device__ __forceinline__ void values(const RandomCuda& p, const PhiloxBlock<1>& b, float* v) {
#pragma unroll
  for (int k = 0; k < 4; k += 2) {
    if constexpr (kDraw == Draw::normal) {
      const auto z = random::normal_pair<1>(b.word[k], b.word[k + 1]);
      v[k] = fma(z.cosine, Pack<float, 1>(p.factor), Pack<float, 1>(p.base)).v, v[k + 1] = fma(z.sine, Pack<float, 1>(p.factor), Pack<float, 1>(p.base)).v;
    } else
      for (int j = k; j < k + 2; ++j)
        v[j] = random::drawn<kDraw>(p, kDraw == Draw::uniform ? random::unit<1>(b.word[j]) : random::open_unit<1>(b.word[j])).v;
  }
}
template <Draw kDraw> __device__ __forceinline__ void values(const RandomCuda& p, const PhiloxBlock<1>& b, double* v) {
  using V = Pack<double, 1>;
  const uint64_t w[2] = {uint64_t(b.word[1]) << 32 | b.word[0], uint64_t(b.word[3]) << 32 | b.word[2]};
  if constexpr (kDraw == Draw::normal) {
    const auto z = random::normal_pair(w[0], w[1]);
    v[0] = fma(z.cosine, V(p.factor), V(p.base)).v, v[1] = fma(z.sine, V(p.factor), V(p.base)).v;
  } else
    for (int j = 0; j < 2; ++j) v[j] = random::drawn<kDraw>(p, random::unit_f64(w[j], kDraw != Draw::uniform)).v;
}
// Elements of a block of words, and of a thread: 16 bytes, of f32 32 where the round keys, the same for all blocks, count.
template <class T> inline constexpr int kOfBlock = sizeof(T) == 8 ? 2 : 4;
template <Draw kDraw, class T> inline constexpr int kOfThread = 16 / int(sizeof(T)) * (sizeof(T) == 4 && (kDraw == Draw::uniform || kDraw == Draw::normal) ? 2 : 1);

template <Draw kDraw, class T> __global__ void __launch_bounds__(kBlock) draw_kernel(const __grid_constant__ RandomCuda p) {
  constexpr int E = kOfThread<kDraw, T>, B = kOfBlock<T>, L = 16 / int(sizeof(T));
  const int skip = int(p.offset % E);
  const int64_t n = p.walk.units, stretches = (skip + n + E - 1) / E;
  T* const y = static_cast<T*>(p.y);
  const bool whole = p.walk.rank == 1 && p.walk.stride[0][0] == 1 && skip == 0 && uintptr_t(y) % 16 == 0;
  for (int64_t k = int64_t(blockIdx.x) * kBlock + threadIdx.x; k < stretches; k += int64_t(gridDim.x) * kBlock) {
    // Elements are numbered mod 2^64, and their blocks start over with them.
    const uint64_t block = (p.offset - uint64_t(skip) + uint64_t(k) * E) / B;
    Acc<T> v[E];
#pragma unroll
    for (int b = 0; b < E / B; ++b) values<kDraw>(p, philox_blocks<1>(block + uint64_t(b), p.seed), v + b * B);
    const int64_t first = k * E - skip;
    if (whole && first + E <= n) {
#pragma unroll
      for (int l = 0; l < E; l += L)
        if constexpr (sizeof(T) == 8) *reinterpret_cast<double2*>(y + first + l) = make_double2(v[l], v[l + 1]);
        else {
          const auto line = row_team::Packed<T>::rounded([&](int j) { return Pack<float, 1>::of(v[l + j]); });  // as a uint4 the compiler stores it in parts
          asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(y + first + l), "r"(line.word[0]), "r"(line.word[1]), "r"(line.word[2]), "r"(line.word[3]) : "memory");
        }
      continue;
    }
#pragma unroll
    for (int j = 0; j < E; ++j) {
      if (first + j < 0 || first + j >= n) continue;
      int64_t at[1];
      p.walk.offsets(first + j, at);
      y[at[0]] = element<T>(Pack<Acc<T>, 1>::of(v[j]));
    }
  }
}
template <Draw kDraw, class T> int draw(const RandomCuda& p, void* stream) {
  return device::launch(draw_kernel<kDraw, T>, device::blocks_for(p.walk.units / kOfThread<kDraw, T> + 2, kBlock), kBlock, 0, stream, p);
}
template <Draw kDraw> constexpr ByDType<RandomCudaFn> draws() {
  return device::floating<RandomCudaFn>(draw<kDraw, f16>, draw<kDraw, bf16>, draw<kDraw, float>, draw<kDraw, double>);
}
constexpr RandomCudaKernels kKernels = {draws<Draw::uniform>(), draws<Draw::normal>(), draws<Draw::exponential>(), draws<Draw::gumbel>(),
                                        draws<Draw::laplace>(), draws<Draw::cauchy>(), draws<Draw::logistic>(), draws<Draw::truncated_normal>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const RandomCudaKernels random_cuda_kernels = kKernels;

}  // namespace baracuda
