// categorical and sampling_filter. A kernel looks at the rows: the largest element, and where the cuts are (categorical_rows.cuh). Then all elements of all
// rows are raced: a race's part goes to a block, a warp finds the winner of its parts. Of races without replacement all are sorted. A race costs two
// logarithms in f64 per element that may be drawn; a filter reads x once more and writes y.
#include "baracuda/ops/random/categorical_rows.cuh"
#include "baracuda/ops/random/random_math.hpp"
#include "baracuda/ops/random/random_sort.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using namespace categorical_rows;
using Winner = CategoricalWinner;
constexpr int kBlock = 256;
using One = Pack<double, 1>;

__device__ __forceinline__ Weights weights_of(const CategoricalCuda& p, const CategoricalRow& c) { return {p.probabilities, c.most, p.temperature}; }
// Elements begin ... end of the row in a race whose first number is `number`: f(i, value) for those that are kept. Two have a block of random words.
template <class T, class F> __device__ __forceinline__ void race(const CategoricalCuda& p, int64_t row, uint64_t number, int64_t begin, int64_t end, F f) {
  const CategoricalRow c = p.row[row];
  const Weights w = weights_of(p, c);
  int64_t at[2];
  p.rows.offsets(row, at);
  const Row<T> r{static_cast<const T*>(p.x) + at[0], p.x_step, p.n};
  const int64_t skip = int64_t((number + uint64_t(begin)) % 2);
  for (int64_t i = begin - skip + 2 * int64_t(threadIdx.x); i < end; i += 2 * kBlock) {
    bool in[2];
    Acc<T> x[2] = {};
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      in[k] = i + k >= begin && i + k < end;
      if (in[k]) x[k] = r.number(i + k), in[k] = kept<T>(c, w, p.min_p, x[k], i + k);
    }
    if (!in[0] && !in[1]) continue;
    // Elements are numbered mod 2^64, and their blocks start over with them.
    const PhiloxBlock<1> b = philox_blocks<1>((number + uint64_t(i)) / 2 & (~uint64_t(0) / 2), p.seed);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if (!in[k]) continue;
      const One u = random::unit_f64(random::both(b.word[2 * k], b.word[2 * k + 1]), true);
      const One drawn = p.probabilities ? random::number<random::Draw::exponential>(0, 1, 0, u) : random::number<random::Draw::gumbel>(0, 1, 0, u);
      f(i + k, w.raced(w.score(double(x[k])), drawn.v));
    }
  }
}
__device__ __forceinline__ Winner better(Winner a, Winner b) { return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a; }
__device__ __forceinline__ Winner best_of_lanes(Winner a) {
#pragma unroll
  for (int w = 16; w; w /= 2) a = better(a, device_lines::across(a, w));
  return a;
}
__device__ __forceinline__ void put(const CategoricalCuda& p, int64_t row, int64_t sample, int64_t index) {
  int64_t at[2];
  p.rows.offsets(row, at);
  static_cast<int64_t*>(p.y)[at[1] + sample * p.y_step] = p.row[row].fault ? -1 : index;
}
template <class T> __global__ void __launch_bounds__(kBlock) race_kernel(const __grid_constant__ CategoricalCuda p) {
  __shared__ Winner shared[kBlock / 32];
  for (int64_t g = blockIdx.x; g < p.row_count * p.samples * p.parts; g += gridDim.x) {
    const int64_t part = g % p.parts, race_of = g / p.parts, row = race_of / p.samples, begin = part * p.part, end = begin + p.part < p.n ? begin + p.part : p.n;
    Winner best{-kInf, INT64_MAX};
    if (!p.row[row].fault)
      race<T>(p, row, p.offset + uint64_t(race_of) * uint64_t(p.n), begin, end, [&](int64_t i, double v) { best = better(best, {v, i}); });
    best = best_of_lanes(best);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 1; w < kBlock / 32; ++w) best = better(best, shared[w]);
      if (p.parts > 1) p.winners[g] = best;
      else put(p, row, race_of % p.samples, best.index);
    }
    __syncthreads();
  }
}
__global__ void __launch_bounds__(kBlock) winners_kernel(const __grid_constant__ CategoricalCuda p) {
  const int lane = int(threadIdx.x) % 32;
  for (int64_t g = (int64_t(blockIdx.x) * kBlock + threadIdx.x) / 32; g < p.row_count * p.samples; g += int64_t(gridDim.x) * kBlock / 32) {
    Winner best{-kInf, INT64_MAX};
    for (int64_t k = lane; k < p.parts; k += 32) best = better(best, p.winners[g * p.parts + k]);
    best = best_of_lanes(best);
    if (lane == 0) put(p, g / p.samples, g % p.samples, best.index);
  }
}
// Without replacement: the keys of a race, the best first; of those that are not in it the last.
template <class T> __global__ void __launch_bounds__(kBlock) keys_kernel(const __grid_constant__ CategoricalCuda p) {
  for (int64_t g = blockIdx.x; g < p.row_count * p.parts; g += gridDim.x) {
    const int64_t part = g % p.parts, row = g / p.parts, begin = part * p.part, end = begin + p.part < p.n ? begin + p.part : p.n;
    uint64_t* const to = p.keys + row * p.n;
    for (int64_t i = begin + threadIdx.x; i < end; i += kBlock) to[i] = ~uint64_t(0);
    __syncthreads();
    if (!p.row[row].fault) race<T>(p, row, p.offset + uint64_t(row) * uint64_t(p.n), begin, end, [&](int64_t i, double v) { to[i] = ~ordered(v); });
  }
}
__global__ void __launch_bounds__(kBlock) places_kernel(const __grid_constant__ CategoricalCuda p) {
  const uint32_t* const order = p.s.order();
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < p.row_count * p.samples; i += int64_t(gridDim.x) * kBlock) {
    const int64_t row = i / p.samples, sample = i % p.samples;
    put(p, row, sample, int64_t(order[row * p.n + sample]) - row * p.n);
  }
}
struct Keys {
  const uint64_t* key;
  __device__ uint64_t operator()(uint32_t element) const { return key[element]; }
};
template <class T> int look(const CategoricalCuda& p, void* stream) {
  const bool cut = p.top_k > 0 || p.top_p < 1;
  return device::launch(cut ? rows_kernel<T, true> : rows_kernel<T, false>, device::blocks_for(p.row_count, 1), kThreads, 0, stream, p);
}
template <class T> int categorical_of(const CategoricalCuda& p, void* stream) {
  if (const int e = look<T>(p, stream)) return e;
  if (!p.keys) {
    const int e = device::launch(race_kernel<T>, device::blocks_for(p.row_count * p.samples * p.parts, 1), kBlock, 0, stream, p);
    return e || p.parts == 1 ? e : device::launch(winners_kernel, device::blocks_for(p.row_count * p.samples, kBlock / 32), kBlock, 0, stream, p);
  }
  CategoricalCuda q = p;
  int e = device::launch(keys_kernel<T>, device::blocks_for(p.row_count * p.parts, 1), kBlock, 0, stream, p);
  if (!e) e = random_sort::sort_rows(q.s, p.row_count, p.n, Keys{p.keys}, stream);
  return e ? e : device::launch(places_kernel, device::blocks_for(p.row_count * p.samples, kBlock), kBlock, 0, stream, q);
}

constexpr int kFilterEach = 4;
template <class T> __global__ void __launch_bounds__(kBlock) filter_kernel(const __grid_constant__ CategoricalCuda p) {
  constexpr int64_t kPart = kBlock * kFilterEach;
  const int64_t parts = (p.n + kPart - 1) / kPart;
  for (int64_t g = blockIdx.x; g < p.row_count * parts; g += gridDim.x) {
    const int64_t row = g / parts, begin = g % parts * kPart + threadIdx.x;
    int64_t at[2];
    p.rows.offsets(row, at);
    const CategoricalRow c = p.row[row];
    const Weights w = weights_of(p, c);
    const Units total = Units(c.total[1]) << 64 | c.total[0];
    const Row<T> r{static_cast<const T*>(p.x) + at[0], p.x_step, p.n};
    T* const y = static_cast<T*>(p.y) + at[1];
    T x[kFilterEach];
#pragma unroll
    for (int k = 0; k < kFilterEach; ++k)
      if (begin + k * kBlock < p.n) x[k] = r.x[(begin + k * kBlock) * r.step];
#pragma unroll
    for (int k = 0; k < kFilterEach; ++k) {
      const int64_t i = begin + k * kBlock;
      if (i >= p.n) continue;
      const Acc<T> v = value(x[k]).v;
      T out = from_double<T>(c.fault ? kNaN : w.never());
      if (!c.fault && kept<T>(c, w, p.min_p, v, i)) out = p.probabilities ? from_double<T>(w.share(double(v), total)) : x[k];
      y[i * p.y_step] = out;
    }
  }
}
template <class T> int filter(const CategoricalCuda& p, void* stream) {
  if (const int e = look<T>(p, stream)) return e;
  return device::launch(filter_kernel<T>, device::blocks_for(p.row_count * device::ceil_div(p.n, kBlock * kFilterEach), 1), kBlock, 0, stream, p);
}

using Fn = int (*)(const CategoricalCuda&, void*);
constexpr CategoricalCudaKernels kKernels = {device::floating<Fn>(categorical_of<f16>, categorical_of<bf16>, categorical_of<float>, categorical_of<double>),
                                             device::floating<Fn>(filter<f16>, filter<bf16>, filter<float>, filter<double>)};

}  // namespace
}  // namespace BARACUDA_ISA

extern const CategoricalCudaKernels categorical_cuda = kKernels;

}  // namespace baracuda
