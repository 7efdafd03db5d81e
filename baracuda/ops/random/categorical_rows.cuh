#pragma once
// A row of logits or probabilities, cut down to the likeliest: a block a row. The keys of its elements sort as they do (categorical_math.hpp); digit by
// digit from the highest on, counts of the elements, or sums of their weights, tell in which bin the cut lies (a radix select), and then among the
// equals of one key, in the order of their index. Counts and sums are whole numbers, so that atomics on them give the same in any order, and
// the CPU's sums. A pass over the row per digit of 11 bits: from the second on, few elements are counted.
#include "baracuda/device/half.cuh"
#include "baracuda/device/launch.cuh"
#include "baracuda/device/lines.cuh"
#include "baracuda/ops/random/categorical_cuda.hpp"
#include "baracuda/ops/random/categorical_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace categorical_rows {

using namespace categorical;
inline constexpr int kThreads = 512, kWarps = kThreads / 32, kDigitBits = 11, kBins = 1 << kDigitBits, kOwn = kBins / kThreads;

template <class T> using KeyOf = decltype(ordered(Acc<T>()));
template <class T> inline constexpr int kKeyBits = 8 * int(sizeof(KeyOf<T>));
// Bits of a key that differ between numbers of T; the others are those of its rounding.
template <class T> inline constexpr int kLevels = ((sizeof(T) == 8 ? 64 : sizeof(T) == 4 ? 32 : kIsF16<T> ? 19 : 16) + kDigitBits - 1) / kDigitBits;
// The number of a key, as `ordered` had it.
__device__ __forceinline__ double number_of(uint64_t k) { return __builtin_bit_cast(double, k >> 63 ? k & ~(uint64_t(1) << 63) : ~k); }
__device__ __forceinline__ double number_of(uint32_t k) { return double(__builtin_bit_cast(float, k >> 31 ? k & 0x7fffffffu : ~k)); }

struct Sum {
  uint64_t count, low, high;
  __device__ Units units() const { return Units(high) << 64 | low; }
  static __device__ Sum of(uint64_t count, Units u) { return {count, uint64_t(u), uint64_t(u >> 64)}; }
  friend __device__ Sum operator+(Sum a, Sum b) { return of(a.count + b.count, a.units() + b.units()); }
};
struct Bins { uint32_t count[kBins], sum[3][kBins]; };
struct Shared {
  Bins bins;
  Sum warp[kWarps];
  Sum before, own;  // of the bin that was found: those of higher digits, its own
  int digit;
  double most[kWarps];
  int64_t last;
};
template <class S> __device__ __forceinline__ S from_above(S a, int w) { return device_lines::moved(a, [w](auto v) { return __shfl_up_sync(0xffffffffu, v, w); }); }
// The sum over the block, for all its threads.
__device__ __forceinline__ Sum block_sum(Sum s, Shared& m) {
#pragma unroll
  for (int w = 16; w; w /= 2) s = s + device_lines::across(s, w);
  __syncthreads();
  if (threadIdx.x % 32 == 0) m.warp[threadIdx.x / 32] = s;
  __syncthreads();
  s = m.warp[0];
  for (int w = 1; w < kWarps; ++w) s = s + m.warp[w];
  return s;
}
// 96 bits by three atomics on words, with the carries that each of them tells.
__device__ __forceinline__ void add(Bins& b, int d, uint64_t v) {
  const uint32_t low = uint32_t(v), was = atomicAdd(&b.sum[0][d], low);
  uint64_t rest = (v >> 32) + (uint32_t(was + low) < low);
  if (rest == 0) return;
  const uint32_t middle = uint32_t(rest), had = atomicAdd(&b.sum[1][d], middle);
  const uint32_t carry = uint32_t(rest >> 32) + (uint32_t(had + middle) < middle);
  if (carry) atomicAdd(&b.sum[2][d], carry);
}

template <class T> struct Row {
  using Key = KeyOf<T>;
  const T* x;
  int64_t step, n;
  __device__ Acc<T> number(int64_t i) const { return value(x[i * step]).v; }
  // f(number, i) for all elements of the row, by all threads of the block; kAhead of them are read at once.
  template <int kAhead, class F> __device__ __forceinline__ void each(F f) const {
    int64_t i = threadIdx.x;
    for (; i + (kAhead - 1) * kThreads < n; i += kAhead * kThreads) {
      T e[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) e[k] = x[(i + k * kThreads) * step];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) f(value(e[k]).v, i + k * kThreads);
    }
    for (; i < n; i += kThreads) f(number(i), i);
  }
};

// The bin, from the highest digit on, with which crosses(sum up to and with it, of all) comes true.
template <class F> __device__ __forceinline__ void find(Shared& m, bool sums, F crosses) {
  Sum own[kOwn], all{};
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    const int d = kBins - 1 - (int(threadIdx.x) * kOwn + k);
    own[k] = {m.bins.count[d], 0, 0};
    if (sums) own[k].low = uint64_t(m.bins.sum[1][d]) << 32 | m.bins.sum[0][d], own[k].high = m.bins.sum[2][d];
    all = all + own[k];
  }
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  Sum upto = all;
#pragma unroll
  for (int w = 1; w < 32; w *= 2) {
    const Sum left = from_above(upto, w);
    if (lane >= w) upto = upto + left;
  }
  const Sum left = from_above(upto, 1);
  if (lane == 31) m.warp[warp] = upto;
  __syncthreads();
  Sum before{}, total{};
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) before = total;
    total = total + m.warp[w];
  }
  if (lane) before = before + left;
  if (!crosses(before, total) && crosses(before + all, total))
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      if (!crosses(before, total) && crosses(before + own[k], total)) m.before = before, m.own = own[k], m.digit = kBins - 1 - (int(threadIdx.x) * kOwn + k);
      before = before + own[k];
    }
  __syncthreads();
}
// The key with which crosses(sum, of all) comes true, of keys from `least` on; crosses is false for nothing and true for all. before, own, all: sums above
// the key, of it, and of all.
template <class T, bool kSums, class F> __device__ KeyOf<T> select(const Row<T>& r, const Weights& w, KeyOf<T> least, Shared& m, Sum& before, Sum& own, Sum& all, F crosses) {
  using Key = KeyOf<T>;
  Key prefix = 0;
  before = {};
#pragma unroll 1
  for (int level = 0; level < kLevels<T>; ++level) {
    for (int d = threadIdx.x; d < kBins; d += kThreads) {
      m.bins.count[d] = 0;
      if (kSums)
        for (auto& s : m.bins.sum) s[d] = 0;
    }
    __syncthreads();
    const Key decided = level ? ~Key(0) << (kKeyBits<T> - kDigitBits * level) : 0;
    r.template each<kSums ? 2 : 8>([&](Acc<T> v, int64_t) {
      const Key key = ordered(v);
      if (((key ^ prefix) & decided) || key < least) return;
      const int d = int(Key(key << (kDigitBits * level)) >> (kKeyBits<T> - kDigitBits));
      atomicAdd(&m.bins.count[d], 1u);
      if constexpr (kSums) add(m.bins, d, units(w.weight(double(v))));
    });
    __syncthreads();
    find(m, kSums, [&](const Sum& s, const Sum& here) {
      if (level == 0) all = here;
      return crosses(before + s, all);
    });
    const int shift = kKeyBits<T> - kDigitBits * (level + 1);
    prefix |= shift >= 0 ? Key(m.digit) << shift : Key(m.digit) >> -shift;
    before = before + m.before, own = m.own;
  }
  // The bits behind the number's own: of negative ones they are set.
  constexpr int kRest = kKeyBits<T> - kDigitBits * kLevels<T>;
  if (kRest > 0 && !(prefix >> (kKeyBits<T> - 1))) prefix |= (Key(1) << (kRest > 0 ? kRest : 0)) - 1;
  return prefix;
}
// The index of the k-th element, from 1 on, that has the key. Warps have stretches of the row.
template <class T> __device__ int64_t place_of(const Row<T>& r, KeyOf<T> key, int64_t k, Shared& m) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int64_t each = (r.n + kThreads - 1) / kThreads * 32, begin = warp * each, end = begin + each < r.n ? begin + each : r.n;
  uint64_t count = 0;
#pragma unroll 8
  for (int64_t i = begin + lane; i < end; i += 32) count += ordered(r.number(i)) == key;
#pragma unroll
  for (int w = 16; w; w /= 2) count += __shfl_xor_sync(0xffffffffu, count, w);
  __syncthreads();
  if (lane == 0) m.warp[warp].count = count;
  __syncthreads();
  int64_t before = 0;
  for (int w = 0; w < warp; ++w) before += int64_t(m.warp[w].count);
  if (before < k && k <= before + int64_t(count))
    for (int64_t first = begin; first < end; first += 32) {
      const bool equal = first + lane < end && ordered(r.number(first + lane)) == key;
      const uint32_t votes = __ballot_sync(0xffffffffu, equal);
      if (equal && before + __popc(votes & ((2u << lane) - 1)) == k) m.last = first + lane;
      before += __popc(votes);
      if (before >= k) break;
    }
  __syncthreads();
  return m.last;
}
template <class T> __device__ __forceinline__ bool kept(const CategoricalRow& c, const Weights& w, double min_p, Acc<T> v, int64_t i) {
  const KeyOf<T> key = ordered(v), least = KeyOf<T>(c.least);
  return (key > least || (key == least && i <= c.last)) && w.may_be_drawn(double(v)) && (min_p <= 0 || w.weight(double(v)) >= min_p);
}

template <class T, bool kCut> __global__ void __launch_bounds__(kThreads) rows_kernel(const __grid_constant__ CategoricalCuda p) {
  using Key = KeyOf<T>;
  __shared__ Shared m;
  for (int64_t row = blockIdx.x; row < p.row_count; row += gridDim.x) {
    int64_t at[2];
    p.rows.offsets(row, at);
    const Row<T> r{static_cast<const T*>(p.x) + at[0], p.x_step, p.n};
    Weights w{p.probabilities, -kInf, p.temperature};
    uint64_t choices = 0, wrong = 0;
    double most = -kInf;
    r.template each<8>([&](Acc<T> v, int64_t) {
      const double x = double(v);
      wrong += !w.valid(x), choices += w.may_be_drawn(x), most = x > most ? x : most;
    });
#pragma unroll
    for (int k = 16; k; k /= 2) {
      const double other = __shfl_xor_sync(0xffffffffu, most, k);
      most = other > most ? other : most;
    }
    if (threadIdx.x % 32 == 0) m.most[threadIdx.x / 32] = most;
    const Sum found = block_sum({choices, wrong, 0}, m);
    for (int k = 0; k < kWarps; ++k) most = m.most[k] > most ? m.most[k] : most;
    w.most = most;
    CategoricalRow out{most, 0, p.n, {0, 0}, found.low > 0 || found.count < uint64_t(p.need)};
    if (!out.fault) {
      if constexpr (kCut) {
        Sum before{}, own{}, all{};
        Key key = 0;
        uint64_t taken = 0;
        if (p.top_k > 0) {
          const uint64_t k = uint64_t(p.top_k);
          key = select<T, false>(r, w, Key(0), m, before, own, all, [k](const Sum& s, const Sum&) { return s.count >= k; });
          taken = k - before.count;
        }
        if (p.top_p < 1) {
          const Units left = p.top_k > 0 ? Units(own.count - taken) * units(w.weight(number_of(key))) : 0;  // of equals that top_k does not take
          key = select<T, true>(r, w, key, m, before, own, all, [&](const Sum& s, const Sum& every) { return !wanted(s.units(), every.units() - left, p.top_p); });
          const Units total = all.units() - left;
          const uint64_t each = units(w.weight(number_of(key)));
          uint64_t low = 1, high = own.count;
          while (low < high) {
            const uint64_t mid = (low + high) / 2;
            if (wanted(before.units() + Units(mid) * each, total, p.top_p)) low = mid + 1;
            else high = mid;
          }
          taken = low;
        }
        if (p.top_k > 0 || p.top_p < 1) {
          out.least = key;
          if (taken < own.count) out.last = place_of(r, key, int64_t(taken), m);
        }
      }
      if (p.shares) {
        Units total = 0;
        r.template each<2>([&](Acc<T> v, int64_t i) {
          if (kept<T>(out, w, p.min_p, v, i)) total += units(w.weight(double(v)));
        });
        const Sum s = block_sum(Sum::of(0, total), m);
        out.total[0] = s.low, out.total[1] = s.high;
      }
    }
    if (threadIdx.x == 0) p.row[row] = out;
    __syncthreads();
  }
}

}  // namespace categorical_rows
}  // namespace baracuda
