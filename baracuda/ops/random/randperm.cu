// randperm: the elements of all rows sorted by row, then by 64 random bits, of equals by index: stable sorts (device/radix_sort.cuh) by the low and
// the high word and by the row, the order of the one before being the start of the next. 16 bytes read and written per element and digit of 8 bits.
#include "baracuda/device/map.cuh"
#include "baracuda/device/radix_sort.cuh"
#include "baracuda/ops/random/random_math.hpp"
#include "baracuda/ops/random/token_penalty_cuda.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kBlock = 256, kWordPasses = 4;

enum class Digits { low, high, row };
template <Digits kDigits> __global__ void __launch_bounds__(device_sort::kThreads) keys_kernel(const __grid_constant__ RandpermCuda p) {
  device_sort::make_keys(p.s, [&](int64_t i, uint32_t& key, uint32_t& value) {
    value = kDigits == Digits::low ? uint32_t(i) : p.s.values[0][i];  // an even number of passes was before
    if constexpr (kDigits == Digits::row) {
      key = value / uint32_t(p.n);
    } else {
      const uint64_t word = 2 * (p.offset + value);
      const PhiloxBlock<1> b = philox_blocks<1>(word / 4, p.seed);
      const bool second = word & 2;
      key = kDigits == Digits::low ? (second ? b.word[2] : b.word[0]) : second ? b.word[3] : b.word[1];
    }
  });
}
template <class T> __global__ void __launch_bounds__(kBlock) indices_kernel(const __grid_constant__ RandpermCuda p) {
  const uint32_t* order = p.s.order();
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < p.walk.units; i += int64_t(gridDim.x) * kBlock) {
    int64_t at[1];
    p.walk.offsets(i, at);
    static_cast<T*>(p.y)[at[0]] = T(order[i] % uint32_t(p.n));
  }
}
template <Digits kDigits> int sort_by(const RandpermCuda& p, int passes, void* stream) {
  RandpermCuda q = p;
  q.s.passes = passes;
  int e = device::launch(keys_kernel<kDigits>, unsigned(q.s.parts), device_sort::kThreads, 0, stream, q);
  for (int k = 0; k < passes && !e; ++k) e = device::launch(device_sort::pass_kernel, unsigned(q.s.parts), device_sort::kThreads, 0, stream, device_sort::Pass{q.s, k});
  return e;
}
template <class T> int randperm(const RandpermCuda& p, void* stream) {
  int by_row = 0;
  while (uint64_t(p.rows - 1) >> (8 * by_row)) ++by_row;
  if (const int e = sort_by<Digits::low>(p, kWordPasses, stream)) return e;
  if (const int e = sort_by<Digits::high>(p, kWordPasses, stream)) return e;
  if (by_row)
    if (const int e = sort_by<Digits::row>(p, by_row, stream)) return e;
  RandpermCuda q = p;
  q.s.passes = by_row;
  return device::launch(indices_kernel<T>, device::blocks_for(p.walk.units, kBlock), kBlock, 0, stream, q);
}

}  // namespace
}  // namespace BARACUDA_ISA

int (*const randperm_cuda[4])(const RandpermCuda&, void*) = {randperm<uint8_t>, randperm<uint16_t>, randperm<uint32_t>, randperm<uint64_t>};

}  // namespace baracuda
