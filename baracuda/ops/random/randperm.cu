// randperm: the elements of all rows sorted by row, then by 64 random bits, of equals by index.
#include "baracuda/ops/random/random_math.hpp"
#include "baracuda/ops/random/random_sort.cuh"
#include "baracuda/ops/random/token_penalty_cuda.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kBlock = 256;

struct Drawn {
  uint64_t seed, offset;
  __device__ uint64_t operator()(uint32_t element) const {
    const uint64_t word = 2 * (offset + element);
    const PhiloxBlock<1> b = philox_blocks<1>(word / 4, seed);
    return word & 2 ? random::both(b.word[2], b.word[3]) : random::both(b.word[0], b.word[1]);
  }
};
template <class T> __global__ void __launch_bounds__(kBlock) indices_kernel(const __grid_constant__ RandpermCuda p) {
  const uint32_t* order = p.s.order();
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < p.walk.units; i += int64_t(gridDim.x) * kBlock) {
    int64_t at[1];
    p.walk.offsets(i, at);
    static_cast<T*>(p.y)[at[0]] = T(order[i] % uint32_t(p.n));
  }
}
template <class T> int randperm(const RandpermCuda& p, void* stream) {
  RandpermCuda q = p;
  if (const int e = random_sort::sort_rows(q.s, p.rows, p.n, Drawn{p.seed, p.offset}, stream)) return e;
  return device::launch(indices_kernel<T>, device::blocks_for(p.walk.units, kBlock), kBlock, 0, stream, q);
}

}  // namespace
}  // namespace BARACUDA_ISA

int (*const randperm_cuda[4])(const RandpermCuda&, void*) = {randperm<uint8_t>, randperm<uint16_t>, randperm<uint32_t>, randperm<uint64_t>};

}  // namespace baracuda
