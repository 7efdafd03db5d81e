// Rows of logits that are held in shared memory: a team of threads copies a row there (cp.async), then finds the maximum, the sum and
// the gradient from it, so that x is read once and dx written once: the floor is memory bandwidth. A thread that has written a part of dx
// copies that part of the next row to the same place; other blocks of the multiprocessor fill the time until it is there. A row too
// long for a block is shared out among the blocks of a cluster (sm_90), which tell one another a maximum and a sum for each warp.
// A warp sums relative to its own maximum, and every warp joins the pairs in order (Milakov and Gimelshein, "Online normalizer calculation
// for softmax", 2018), so that the team meets once a row, twice where a thread needs words that others copied.
//
// A row that does not begin at 16 bytes lies in the words around it, filled up with -inf. Sums take elements K i ... K i + K - 1 from
// words i and i + 1, so that they are joined in the same order wherever the row lies; maxima need no order, and dx is written word by word.
#include <mutex>
#include <vector>
#include "baracuda/device/launch.hpp"
#include "baracuda/ops/loss/loss_device.cuh"
#include "baracuda/ops/loss/loss_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace device_rows;
using namespace loss_device;

constexpr int kThreads = 768, kFewestThreads = 64;  // of a multiprocessor, which has 85 registers for each; of a team of a longer row
constexpr int kMostBlocks = 8;                      // of a row
constexpr int kRowsOfTeam = 4;                      // then its block makes room for another, so that multiprocessors that are served faster take more rows
constexpr int64_t kShortWords = 640;                // of a row that a warp takes
constexpr int64_t kLineWords = 8;                   // 128 bytes
constexpr int64_t kMostWords = 4480;                // of a block's share of a row: 70 KiB, three of which a multiprocessor of sm_90 holds

struct Held {
  LossCudaRows rows;
  int words;   // of a block
  int blocks;  // of a row
  int words_of_rows;  // of all teams; pairs lie behind them
  device::Divisor by_team;
};
struct alignas(16) Word { uint32_t part[4]; };
struct alignas(16) Pair { double total; float sum, most; };
struct Known { double per_exp, uniform, hit; float most; };

__device__ __forceinline__ uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void copy_word(Word* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void commit_words() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_for_words() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// --- clusters: nothing of them is compiled, or reached, below sm_90
__device__ __forceinline__ int cluster_rank() {
  uint32_t r = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
#endif
  return int(r);
}
__device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void store_at(int rank, Pair* to, const Pair& p) {
#if __CUDA_ARCH__ >= 900
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(to)), "r"(rank));
  const int2 total = __builtin_bit_cast(int2, p.total);
  asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(there), "r"(total.x), "r"(total.y), "r"(__float_as_int(p.sum)), "r"(__float_as_int(p.most)) : "memory");
#endif
}
static_assert(offsetof(Pair, sum) == 8 && offsetof(Pair, most) == 12);

// --- elements of a word
template <class T> __device__ __forceinline__ void unpack(const Word& w, float (&v)[kChunk<T>]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) v[i] = __uint_as_float(w.part[i]);
    else unpack_two<T>(w.part[i], v[2 * i], v[2 * i + 1]);
  }
}
// Of two words, what begins `kParts` parts and, if odd, a half further on.
template <class T, int kParts> __device__ __forceinline__ Word shifted(const Word& a, const Word& b, bool odd) {
  const uint32_t v[8] = {a.part[0], a.part[1], a.part[2], a.part[3], b.part[0], b.part[1], b.part[2], b.part[3]};
  Word w;
#pragma unroll
  for (int i = 0; i < 4; ++i) w.part[i] = sizeof(T) == 2 ? __funnelshift_r(v[kParts + i], v[kParts + i + 1], odd ? 16 : 0) : v[kParts + i];
  return w;
}
template <class U, int K, int N> __device__ __forceinline__ void pack(const float (&v)[K], uint32_t (&part)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (sizeof(U) == 4) part[i] = __float_as_uint(v[i]);
    else part[i] = packed<U>(v[2 * i], v[2 * i + 1]);
  }
}
template <class A> __device__ __forceinline__ A warp_sum(A v) {
#pragma unroll
  for (int w = 16; w; w /= 2) v = v + __shfl_xor_sync(0xffffffffu, v, w);
  return v;
}
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int w = 16; w; w /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, w));
  return v;
}

// f(q, word q) for a thread's words q = thread, thread + team, ..., `steps` of them; kTogether are read before the first is used.
template <int kTogether, class G, class F> __device__ __forceinline__ void each_word(int steps, G word_at, F f) {
  const int team = int(blockDim.x);
  int q = int(threadIdx.x);
#pragma unroll 1
  for (; steps >= kTogether; steps -= kTogether) {
    Word w[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) w[k] = word_at(q + k * team);
#pragma unroll
    for (int k = 0; k < kTogether; ++k) f(q + k * team, w[k]);
    q += kTogether * team;
  }
#pragma unroll 1
  for (; steps > 0; --steps, q += team) f(q, word_at(q));
}
__device__ __forceinline__ int steps_of(int words) {
  const int team = int(blockDim.x), left = words - int(threadIdx.x);
  return left > 0 ? (left + team - 1) / team : 0;
}
__device__ __forceinline__ Known known_of(const LossCudaRows& p, double g, double exps, float most) {
  const loss::RowGradient k = gradient_of(p.t, g, exps, most, p.smoothing, p.z);
  return {k.per_exp, k.uniform, k.hit, most};
}
template <class U> __device__ __forceinline__ U at_hit(const Known& k, float x, double slope) {
  return from_double<U>(at_target_of({k.per_exp, k.uniform, k.hit}, x, k.most) * slope);
}
// For finish_kernel.
__device__ __forceinline__ void note(const LossCudaRows& p, int64_t token, double exps, double total, float most, float at_target) {
  p.loss[token] = exps, reinterpret_cast<float2*>(p.z_part)[token] = {most, at_target};
  if (p.smoothing > 0) p.total[token] = total - double(p.t.classes) * double(most);
}

// Whether it is this thread's word.
__device__ __forceinline__ bool of_thread(int q, const device::Divisor& by_team) { return q - int(by_team.quotient(uint32_t(q))) * int(blockDim.x) == int(threadIdx.x); }
// A row as a team sees it.
template <class T, class U, bool kWhole> struct Row {
  static constexpr int K = kChunk<T>, kParts = K * int(sizeof(U)) / 4;
  const T* x;
  U* dx;
  int n, begin;      // begin: the element of the block's first word
  int shift, mine;   // words of the block that have an element
  int low, high;     // words from x + low to x + high may be read: those of neighbours too, where they share one
  bool aligned_dx;

  __device__ __forceinline__ Row(const LossCudaRows& p, int64_t r, int64_t first, int words) : n(int(p.t.classes)) {
    x = static_cast<const T*>(p.x) + r * p.x_pitch;
    dx = p.dx ? static_cast<U*>(p.dx) + r * p.dx_pitch : nullptr;
    shift = kWhole ? 0 : int(uintptr_t(x) % 16 / sizeof(T));
    begin = int(first) * K - shift;
    const int left = (n - begin + K - 1) / K;
    mine = left < 0 ? 0 : left < words ? left : words;
    const bool alone = kWhole || p.x_pitch < n;
    low = alone || r == 0 ? 0 : 1 - K, high = alone || r + 1 >= p.rows ? n : n + K - 1;
    aligned_dx = kWhole || (uintptr_t(dx) - uintptr_t(shift) * sizeof(U)) % (sizeof(U) * K) == 0;
  }
  __device__ __forceinline__ bool inside(int q) const { return kWhole || (begin + q * K >= 0 && begin + q * K + K <= n); }
  // Words q = thread, thread + team, ... and, unless whole, one more than the block's: each thread those that it reads first.
  __device__ __forceinline__ void load(Word* held, int words) const {
#pragma unroll 4
    for (int q = int(threadIdx.x); q < (kWhole ? mine : words + 1); q += int(blockDim.x)) load_word(held, q);
  }
  __device__ __forceinline__ void load_word(Word* held, int q) const {
    const int i = begin + q * K;
    if (kWhole || (i >= low && i + K <= high)) copy_word(held + q, x + i);
    else {
      T* const to = reinterpret_cast<T*>(held + q);
#pragma unroll
      for (int j = 0; j < K; ++j) to[j] = i + j >= 0 && i + j < n ? x[i + j] : from_float<T>(-INFINITY);
    }
  }
  // What lies behind the row in its last word; by the thread that copied it.
  __device__ __forceinline__ void end(Word* held, int words, const device::Divisor& by_team) const {
    const int last = (n - begin) / K;
    if (n < begin || last > words || !of_thread(last, by_team)) return;
    for (int j = n - begin - last * K; j < K; ++j) reinterpret_cast<T*>(held + last)[j] = from_float<T>(-INFINITY);
  }
  __device__ __forceinline__ void store(int q, const uint32_t (&part)[kParts]) const {
    const int i = begin + q * K;
    if (aligned_dx && inside(q)) {
      if constexpr (kParts == 4) __stcs(reinterpret_cast<uint4*>(dx + i), make_uint4(part[0], part[1], part[2], part[3]));
      else __stcs(reinterpret_cast<uint2*>(dx + i), make_uint2(part[0], part[1]));
    } else if constexpr (sizeof(U) == 4) {
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (i + j >= 0 && i + j < n) dx[i + j] = __uint_as_float(part[j]);
    } else
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (i + j >= 0 && i + j < n) dx[i + j].bits = uint16_t(part[j / 2] >> (j % 2 * 16));
  }
};

// kWhole: rows of x and dx consist of whole aligned words. kAlone: there is no dx, and no smoothing: nothing reads a word again behind its exp, and the next row's may come.
template <class T, class U, bool kWhole, bool kAlone> __global__ void __launch_bounds__(kThreads, 1) held_kernel(const __grid_constant__ Held h) {
  constexpr int K = kChunk<T>;
  extern __shared__ Word memory[];
  const LossCudaRows& p = h.rows;
  const int64_t n = p.t.classes;
  const int team = int(blockDim.x), lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, warps = team / 32;
  const int rank = h.blocks > 1 ? cluster_rank() : 0;
  const int64_t first = int64_t(rank) * h.words, step = int64_t(gridDim.x / unsigned(h.blocks)) * blockDim.y;
  const Cap cap(p.softcap);
  Pair* const all_pairs = reinterpret_cast<Pair*>(memory + h.words_of_rows);  // of this row and of the one before, which may still be read
  Word* const held = memory + threadIdx.y * (h.words + 1);
  const auto meet = [&] { warps > 1 ? __syncthreads() : __syncwarp(); };
  const RowsLeft rows(p.kept, p.first, p.rows);
  const auto target_at = [&](int64_t r) { return r < rows.some ? int(target_of(p.t, token_of(p.kept, p.first + r))) : int(kIgnored); };
  if (h.blocks > 1) cluster_arrive();  // this block is there, and can be written to
  bool started = false;
  const int steps = steps_of(kWhole ? Row<T, U, kWhole>(p, 0, first, h.words).mine : h.words);
  int width = 1;  // lanes that join the pairs, again and again over a warp
  while (width < 32 && width < warps * h.blocks) width *= 2;
  int64_t r = int64_t(blockIdx.x / unsigned(h.blocks)) * blockDim.y + threadIdx.y;
  // A lane knows the target of one of 32 rows, and of one of the 32 behind them.
  int of_these = target_at(r + lane * step), of_those = target_at(r + (32 + lane) * step), at_row = 0;
  const auto target_of_row = [&](int i) { return __shfl_sync(0xffffffffu, i < 32 ? of_these : of_those, i % 32); };
  if (target_of_row(0) >= 0) Row<T, U, kWhole>(p, r, first, h.words).load(held, h.words);
  commit_words();
  int parity = 0;
  for (; r < rows.all; r += step) {
    const int target = target_of_row(at_row), next = target_of_row(at_row + 1);
    if (++at_row == 32) at_row = 0, of_these = of_those, of_those = target_at(r + (33 + lane) * step);
    const int64_t token = r < rows.some ? token_of(p.kept, p.first + r) : 0;
    const Row<T, U, kWhole> row(p, r, first, h.words);
    if (target < 0) {
      if (!kAlone && row.dx)
        for (int q = int(threadIdx.x); q < row.mine; q += team) row.store(q, {});  // zeros
    } else {
      // Known early, used late. x[target] is read before dx, which may be the same memory, is written.
      const float at_target = warp == 0 ? value(row.x[target]).v : 0;
      const double g = !kAlone && row.dx ? upstream(p.t, token) : 0;
      wait_for_words();
      if constexpr (!kWhole) row.end(held, h.words, h.by_team), meet();

      Pair own{0, 0, 0};
      const auto sums_of = [&](auto word_at) {
        uint32_t part[2] = {kLeastPart<T>, kLeastPart<T>};
        each_word<kWhole ? 4 : 1>(steps, word_at, [&](int, const Word& c) {
          part[0] = larger_part<T>(part[0], larger_part<T>(c.part[0], c.part[1]));
          part[1] = larger_part<T>(part[1], larger_part<T>(c.part[2], c.part[3]));
        });
        own.most = warp_max(largest_of<T>(larger_part<T>(part[0], part[1])));
        const RowPowers<T> exps(own.most == -INFINITY ? 0 : own.most);
        float sums[4] = {};
        const Row<T, U, kWhole> following(p, kAlone ? r + step : r, first, h.words);
        each_word<kWhole ? 4 : 1>(steps, word_at, [&](int q, const Word& c) {
          float v[K];
          unpack<T>(c, v);
#pragma unroll
          for (int j = 0; j < K; ++j) sums[j % 4] = sums[j % 4] + exps(v[j]);
          if constexpr (kAlone)
            if (next >= 0) following.load_word(held, q);
        });
        own.sum = warp_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
        if constexpr (kIsHalf<T>) own.sum = float(double(own.sum) * exps.left());
        if (!kAlone && p.smoothing > 0 && p.loss) {
          each_word<1>(steps, word_at, [&](int q, const Word& c) {
            const int64_t i = (first + q) * K;
            float v[K], s = 0;
            unpack<T>(c, v);
            int count = 0;
#pragma unroll
            for (int j = 0; j < K; ++j)
              if (i + j < n) s = s + (v[j] - exps.base), ++count;
            own.total = own.total + (double(s) + double(count) * double(exps.base));
          });
          own.total = warp_sum(own.total);
        }
      };
      if constexpr (kWhole) sums_of([&](int q) { return held[q]; });
      else {
        const int bytes = row.shift * int(sizeof(T));
        const auto from = [&](auto parts) { sums_of([&](int q) { return shifted<T, decltype(parts)::value>(held[q], held[q + 1], bytes % 4 != 0); }); };
        switch (bytes / 4) {
          case 0: from(std::integral_constant<int, 0>{}); break;
          case 1: from(std::integral_constant<int, 1>{}); break;
          case 2: from(std::integral_constant<int, 2>{}); break;
          default: from(std::integral_constant<int, 3>{});
        }
      }
      Pair* const pairs = all_pairs + parity * (warps * h.blocks);
      parity ^= 1;
      if (h.blocks > 1) {
        if (!started) cluster_wait();
        started = true;
        if (lane < h.blocks) store_at(lane, pairs + rank * warps + warp, own);
        cluster_arrive();
        cluster_wait();
      } else if (warps > 1) {
        if (lane == 0) pairs[warp] = own;
        __syncthreads();
      } else __syncwarp();
      float most = own.most;
      double exps = double(own.sum), total = own.total;
      if (warps > 1) {  // every warp for itself
        const auto join = [&](auto v, auto f) {
          for (int w = width / 2; w; w /= 2) v = f(v, __shfl_xor_sync(0xffffffffu, v, w));
          return v;
        };
        const auto sum = [](double a, double b) { return a + b; };
        const int count = warps * h.blocks;
        most = -INFINITY;
        for (int i = lane % width; i < count; i += 32) most = fmaxf(most, pairs[i].most);
        most = join(most, [](float a, float b) { return fmaxf(a, b); });
        exps = total = 0;
        for (int i = lane % width; i < count; i += 32) {
          exps = exps + double(pairs[i].sum * term(pairs[i].most - most));
          total = total + pairs[i].total;
        }
        exps = join(exps, sum);
        if (p.smoothing > 0) total = join(total, sum);
      }
      if (most == -INFINITY) exps = kNaN;  // no class has a probability
      if (!kAlone && row.dx) {
        const Known known = known_of(p, g, exps, most);
        const RowGradients<T, U> gradients(known.per_exp, known.uniform, most == -INFINITY ? 0 : most);
        const int at = int((target + row.shift) / K - first);
        const bool hits = at >= 0 && at < row.mine && of_thread(at, h.by_team);  // the thread that writes there
        const float there = hits ? value(reinterpret_cast<const T*>(held + at)[(target + row.shift) % K]).v : 0;
        const Row<T, U, kWhole> following(p, r + step, first, h.words);
        const auto put = [&](auto gradient) {
          each_word<kWhole ? 2 : 1>(steps, [&](int q) { return held[q]; }, [&](int q, const Word& c) {
            if (kWhole || q < row.mine) {
              float v[K];
              unpack<T>(c, v);
#pragma unroll
              for (int j = 0; j < K; ++j) v[j] = gradient(v[j]);
              uint32_t part[Row<T, U, kWhole>::kParts];
              pack<U>(v, part);
              row.store(q, part);
            }
            if (next >= 0) following.load_word(held, q);
          });
        };
        if (p.softcap > 0) put([&](float x) { return gradients(x) * cap.slope(x); });
        else put(gradients);
        if (!kWhole && next >= 0 && of_thread(h.words, h.by_team)) following.load_word(held, h.words);
        if (hits) row.dx[target] = at_hit<U>(known, there, p.softcap > 0 ? double(cap.slope(there)) : 1);
      }
      if (p.loss && rank == 0 && threadIdx.x == 0) note(p, token, exps, total, most, at_target);
    }
    // Each thread's own words are free: others read them before they met.
    if (next >= 0 && (target < 0 || !(kAlone || row.dx))) Row<T, U, kWhole>(p, r + step, first, h.words).load(held, h.words);
    commit_words();
  }
  if (h.blocks > 1 && !started) cluster_wait();
}

// A thread for a row: what held_kernel found to the losses.
constexpr int kFinish = kLossLeaf;
__global__ void __launch_bounds__(kFinish) finish_kernel(const __grid_constant__ LossCudaRows p) {
  __shared__ double shared[32];
  const RowsLeft rows(p.kept, p.first, p.rows);
  for (int64_t leaf = blockIdx.x; leaf * kFinish < rows.some; leaf += gridDim.x) {
    const int64_t r = leaf * kFinish + threadIdx.x;
    const bool there = r < rows.some;
    const int64_t token = there ? token_of(p.kept, p.first + r) : 0, target = there ? target_of(p.t, token) : kIgnored;
    double ce = target == kInvalid ? double(kNaN) : 0, z = ce, lse = ce;
    if (target >= 0) {
      const float2 found = reinterpret_cast<const float2*>(p.z_part)[token];
      const RowLoss made = loss_of(p.t, token, p.loss[token], found.x, found.y, p.smoothing > 0 ? p.total[token] : 0, p.smoothing, p.z);
      ce = made.loss, z = made.z, lse = made.lse;
    }
    if (p.leaves) put_leaf(p.leaves + 3 * leaf, ce, z, target != kIgnored, shared);
    if (!there) continue;
    p.loss[token] = ce, p.z_part[token] = z;
    if (p.lse_out.data) static_cast<float*>(p.lse_out.data)[p.lse_out.at(token)] = float(lse);
  }
}

int finish(const LossCudaRows& p, void* stream) { return device::launch(finish_kernel, device::blocks_for(p.rows, kFinish), kFinish, 0, stream, p); }

// How a row is shared out: by its length and the device alone, so that its bits depend on nothing else.
struct Shares { int words, blocks, threads; };
Shares shares_of(int64_t n, int bytes, const device::DeviceFacts& device) {
  const int64_t words = device::ceil_div(n, 16 / bytes) + 1;  // one more where the row does not begin with a word
  const auto bytes_of = [](int64_t each, int threads) { return (each + 1) * 16 + 2 * kMostBlocks * threads / 32 * int64_t(sizeof(Pair)); };
  Shares s{0, 1, 32};
  if (bytes_of(words, kThreads) > device.shared_bytes_per_block && device.arch >= 90)
    while (s.blocks < kMostBlocks && device::ceil_div(words, s.blocks) > kMostWords) s.blocks *= 2;
  // Shares begin where lines do if the row does: what a warp copies at a time is then no line more.
  const int64_t each = s.blocks == 1 ? words : device::ceil_div(words, s.blocks * kLineWords) * kLineWords;
  if (bytes_of(each, kThreads) > device.shared_bytes_per_block) return s;  // words 0: it does not fit
  s.words = int(each);
  if (each <= kShortWords) return s;
  // The threads of a multiprocessor, shared out among the rows that it holds.
  const int64_t together = device.shared_bytes_per_sm / (bytes_of(each, kThreads / 3) + 1024), threads = kThreads / (together < 1 ? 1 : together) / 32 * 32;
  s.threads = int(threads < kFewestThreads ? kFewestThreads : threads);
  return s;
}
// Blocks that a device holds at once; asked for once per kernel and arrangement.
int resident(const void* kernel, const cudaLaunchConfig_t& how, int blocks, int device, int& error) {
  struct Entry { const void* kernel; size_t shared; unsigned threads; int blocks, device, count; };
  static std::mutex mutex;
  static std::vector<Entry> entries;
  const std::lock_guard lock(mutex);
  const unsigned threads = how.blockDim.x * how.blockDim.y;
  for (const Entry& e : entries)
    if (e.kernel == kernel && e.shared == how.dynamicSmemBytes && e.threads == threads && e.blocks == blocks && e.device == device) return e.count;
  int count = 0;
  cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, device::facts(device).shared_bytes_per_block);
  if (!e && blocks > 1) e = cudaOccupancyMaxActiveClusters(&count, kernel, &how), count *= blocks;
  if (!e && blocks == 1) e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernel, int(threads), how.dynamicSmemBytes), count *= device::facts(device).multiprocessors;
  if (e) return error = int(e), 0;
  count = count < blocks ? blocks : count;
  entries.push_back({kernel, how.dynamicSmemBytes, threads, blocks, device, count});
  return count;
}
template <class T, class U> int held(const LossCudaRows& p, void* stream) {
  if (p.rows == 0) return 0;
  int device = 0;
  if (const cudaError_t e = cudaGetDevice(&device)) return int(e);
  const Shares s = shares_of(p.t.classes, int(sizeof(T)), device::facts(device));
  // Longer rows are loss.cu's, with a gradient and without, so that the loss has the same bits: 2048 rows of 256000 f32 without one take 0.51 ms there on an
  // H200, 0.85 here.
  if (s.words == 0 || (s.words > kMostWords && s.blocks > 1) || p.lse_in.data || (!p.capped && (p.bias || p.softcap > 0))) return kLossNotHeld;
  constexpr int K = kChunk<T>;
  const bool whole = p.t.classes % K == 0 && uintptr_t(p.x) % 16 == 0 && p.x_pitch % K == 0 &&
                     (!p.dx || (uintptr_t(p.dx) % (sizeof(U) * K) == 0 && p.dx_pitch % K == 0));
  auto kernel = whole ? held_kernel<T, U, true, false> : held_kernel<T, U, false, false>;
  if constexpr (std::is_same_v<T, U>)
    if (whole && !p.dx && !(p.smoothing > 0) && s.threads > 32) kernel = held_kernel<T, U, true, true>;
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {unsigned(s.blocks), 1, 1};
  cudaLaunchConfig_t how{};
  how.blockDim = block_of(s.threads);
  const int words_of_rows = (s.words + 1) * int(how.blockDim.y), pairs = s.threads > 32 ? 2 * s.threads / 32 * s.blocks : 0;
  how.dynamicSmemBytes = size_t(words_of_rows) * 16 + size_t(pairs) * sizeof(Pair);
  how.stream = static_cast<cudaStream_t>(stream);
  if (s.blocks > 1) how.attrs = &cluster, how.numAttrs = 1;
  how.gridDim = unsigned(s.blocks);
  int error = 0;
  const int64_t most = resident(reinterpret_cast<const void*>(kernel), how, s.blocks, device, error), wanted = device::ceil_div(p.rows, how.blockDim.y) * s.blocks;
  if (error) return error;
  const int64_t few = device::ceil_div(wanted, kRowsOfTeam) / s.blocks * s.blocks, grid = few < most ? most : few;
  how.gridDim = unsigned(wanted < grid ? wanted : grid);
  const Held h{p, s.words, s.blocks, words_of_rows, device::Divisor::of(uint32_t(s.threads))};
  const cudaError_t e = cudaLaunchKernelEx(&how, kernel, h);
  return e || !p.loss ? int(e) : finish(p, stream);
}
constexpr LossHeldKernels kKernels = [] {
  LossHeldKernels k{{}, held<float, bf16>};
  k.rows[DType::f16] = held<f16, f16>, k.rows[DType::bf16] = held<bf16, bf16>, k.rows[DType::f32] = held<float, float>;
  return k;
}();

}  // namespace
}  // namespace BARACUDA_ISA

extern const LossHeldKernels loss_held_kernels = kKernels;

}  // namespace baracuda
