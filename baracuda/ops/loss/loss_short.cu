// Rows of few classes: a block copies several to shared memory, as they lie where they lie close together, and one to eight threads go through each. Its loss and the
// factors of its gradient are found by a thread for each row. x is read once, rows that do not count not at all, and dx written once: the floor is memory bandwidth.
// How many threads take a row, and the order of its sum, depend on its length alone.
#include "baracuda/device/async_lines.cuh"
#include "baracuda/device/hopper.cuh"
#include "baracuda/device/launch.hpp"
#include "baracuda/ops/loss/loss_device.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace loss_device;
using device_rows::kChunk;

constexpr int kThreads = 64, kBlocks = 16, kMostLanes = 8, kMostClasses = 1024;
constexpr int64_t kBytes = 18 * 1024;  // of the rows of a block, unless there are kMostLanes to each

struct Short {
  LossCudaRows rows;
  int each, log_lanes;     // rows of a block; lanes of a row
  int share, pad;          // pieces of a lane; words of 16 bytes between two rows
  device::Divisor by_row;  // elements
  bool dense_x, dense_dx;  // rows one behind the other, from 16 bytes on
};
// What is known of a row: first of its exps, then of its gradient.
struct Found { float most, sum, total; };
template <class T> union alignas(16) Known {
  Found found;
  RowGradients<T, T> gradients;
};

// kWords neighbours in shared memory.
template <int kWords> struct alignas(4 * kWords) Piece { uint32_t word[kWords]; };
template <int kWords> __device__ __forceinline__ Piece<kWords> read_piece(const Piece<kWords>* at) {
  using V = std::conditional_t<kWords == 4, uint4, std::conditional_t<kWords == 2, uint2, uint32_t>>;
  return __builtin_bit_cast(Piece<kWords>, *reinterpret_cast<const V*>(at));
}
template <class T, int kWords> struct Elements {
  static constexpr int N = kWords * 4 / int(sizeof(T));
  float v[N];
  __device__ __forceinline__ explicit Elements(const Piece<kWords>& p) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (sizeof(T) == 4) v[i] = __uint_as_float(p.word[i]);
      else unpack_two<T>(p.word[i], v[2 * i], v[2 * i + 1]);
    }
  }
  __device__ __forceinline__ Piece<kWords> piece() const {
    Piece<kWords> p;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (sizeof(T) == 4) p.word[i] = __float_as_uint(v[i]);
      else p.word[i] = packed<T>(v[2 * i], v[2 * i + 1]);
    }
    return p;
  }
};

// kWords: of a piece, in which every row begins and ends. kOdd: a row of halves begins and ends anywhere; its last element is no part of a piece.
template <class T, int kWords, bool kOdd> __global__ void __launch_bounds__(kThreads, kBlocks) short_kernel(const __grid_constant__ Short h) {
  using P = Piece<kWords>;
  using E = Elements<T, kWords>;
  constexpr int K = kChunk<T>;
  extern __shared__ uint4 memory[];
  __shared__ Known<T> known[kThreads];
  __shared__ float hits[kThreads];
  __shared__ int targets[kThreads];
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    hopper::barrier_init(uint32_t(__cvta_generic_to_shared(&barrier)), kThreads);
    hopper::barriers_made();
  }
#endif
  const LossCudaRows& p = h.rows;
  const int n = int(p.t.classes), thread = int(threadIdx.x), lanes = 1 << h.log_lanes, lane = thread & (lanes - 1), row = thread >> h.log_lanes;
  const RowsLeft rows(p.kept, p.first, p.rows);
  const int64_t first = int64_t(blockIdx.x) * h.each, left = rows.all - first, r = first + thread;
  if (left <= 0) return;
  const int here = left < h.each ? int(left) : h.each, pitch = n + h.pad * K;
  T* const held = reinterpret_cast<T*>(memory);
  const bool finds = thread < here && r < rows.some;
  const int64_t token = finds ? token_of(p.kept, p.first + r) : 0;
  const int target = finds ? int(target_of(p.t, token)) : int(kIgnored);
  targets[thread] = target;
  __syncthreads();

  const T* const x = static_cast<const T*>(p.x) + first * p.x_pitch;
  T* const dx = static_cast<T*>(p.dx) + first * p.dx_pitch;
  const int whole = here * n / K * K, at_end = whole + thread;  // elements in whole words of dense rows; one behind them
  const auto each_element = [&](auto f) {
    for (int k = thread / 32; k < here; k += kThreads / 32)
#pragma unroll 4
      for (int j = thread % 32; j < n; j += 32) f(k, j);
  };
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const uint32_t there = uint32_t(__cvta_generic_to_shared(memory)), bar = uint32_t(__cvta_generic_to_shared(&barrier));
#else
  // f(word, its row)
  const auto each_word = [&](auto f) {
    for (int i = thread; i < whole / K; i += kThreads) f(i, int(h.by_row.quotient(uint32_t(i * K))));
  };
#endif
  if (!h.dense_x) {
    each_element([&](int k, int j) {
      if (targets[k] >= 0) held[k * pitch + j] = x[k * p.x_pitch + j];
    });
    __syncthreads();
  } else {
    if (at_end < here * n) held[at_end] = x[at_end];
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    // Rows that count one behind the other are one copy.
    const uint32_t which = __ballot_sync(0xffffffffu, target >= 0), on = which >> thread % 32, before = which & ((1u << thread % 32) - 1);
    const auto words_to = [&](int rows) { return (rows * n + K - 1) / K * K; };
    int from = 0, bytes = 0;
    if (target >= 0 && (h.pad || thread % 32 == 0 || !(which >> (thread % 32 - 1) & 1))) {
      const int count = h.pad ? 1 : on == 0xffffffffu ? 32 : __ffs(int(~on)) - 1, to = words_to(thread + count);
      from = thread * n / K * K;
      // Rows of less than a word: its first one may be the last one of rows before, whose copy brings it.
      if (const int brought = before ? words_to(thread / 32 * 32 + 32 - __clz(int(before))) : 0; brought > from) from = brought;
      bytes = ((to < whole ? to : whole) - from) * int(sizeof(T));
    }
    if (bytes > 0) {
      hopper::barrier_expect(bar, uint32_t(bytes));
      hopper::load_bytes(there + uint32_t(from + thread * h.pad * K) * uint32_t(sizeof(T)), x + from, bytes, bar);
    } else hopper::barrier_arrive(bar);
    hopper::barrier_wait(bar, 0);
    if (whole < here * n) __syncthreads();
#else
    each_word([&](int i, int k) {
      if (targets[k] >= 0 || (kWords < 4 && targets[h.by_row.quotient(uint32_t(i * K + K - 1))] >= 0)) device_lines::copy_line(memory + i + k * h.pad, x + i * K);
    });
    device_lines::commit_lines();
    device_lines::wait_for_lines<0>();
    __syncthreads();
#endif
  }

  const bool counts = row < here && targets[row] >= 0;
  const int start = row * pitch, pieces = n / E::N, begin = lane * h.share, end = begin + h.share < pieces ? begin + h.share : pieces;
  const uint32_t shift = kOdd ? uint32_t(start) % 2 * 16 : 0;
  const bool last = kOdd && lane == lanes - 1;
  const float of_last = last && counts ? value(held[start + n - 1]).v : -INFINITY;
  P* const own = reinterpret_cast<P*>(held + (kOdd ? start & ~1 : start));
  const auto each_piece = [&](auto f) {
    if (!counts || begin >= end) return;
    if constexpr (kOdd) {
      uint32_t before = own[begin].word[0];
#pragma unroll 4
      for (int q = begin; q < end; ++q) {
        const uint32_t behind = own[q + 1].word[0];
        f(P{{__funnelshift_r(before, behind, shift)}});
        before = behind;
      }
    } else
#pragma unroll 4
      for (int q = begin; q < end; ++q) f(read_piece(own + q));
  };
  {
    uint32_t largest[2] = {kLeastPart<T>, kLeastPart<T>};
    each_piece([&](const P& piece) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) largest[i % 2] = larger_part<T>(largest[i % 2], piece.word[i]);
    });
    float most = fmaxf(largest_of<T>(larger_part<T>(largest[0], largest[1])), of_last);
    for (int w = lanes / 2; w; w /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, w));
    const RowPowers<T> exps(most == -INFINITY ? 0 : most);
    float sums[4] = {}, total = 0;
    each_piece([&](const P& piece) {
      const E e(piece);
#pragma unroll
      for (int i = 0; i < E::N; ++i) sums[i % 4] = sums[i % 4] + exps(e.v[i]);
    });
    if (last) sums[0] = sums[0] + exps(of_last);
    float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    for (int w = lanes / 2; w; w /= 2) sum = sum + __shfl_xor_sync(0xffffffffu, sum, w);
    if (p.smoothing > 0) {
      each_piece([&](const P& piece) {
        const E e(piece);
#pragma unroll
        for (int i = 0; i < E::N; ++i) total = total + (e.v[i] - exps.base);
      });
      if (last) total = total + (of_last - exps.base);
      for (int w = lanes / 2; w; w /= 2) total = total + __shfl_xor_sync(0xffffffffu, total, w);
    }
    if (lane == 0) known[row].found = {most, sum, total};
  }
  __syncthreads();

  if (finds) {
    const double none = target == kInvalid ? double(kNaN) : 0;
    RowLoss made{none, none, none};
    if (target >= 0) {
      const Found f = known[thread].found;
      const float at_target = value(held[thread * pitch + target]).v;
      const bool empty = f.most == -INFINITY;  // no class has a probability
      const double exps = empty ? double(kNaN) : double(f.sum) * RowPowers<T>(f.most).left(), total = double(f.total) + (empty ? double(n) * double(INFINITY) : 0);
      if (p.loss) made = loss_of(p.t, token, exps, f.most, at_target, total, p.smoothing, p.z);
      if (p.dx) {
        const loss::RowGradient k = gradient_of(p.t, upstream(p.t, token), exps, f.most, p.smoothing, p.z);
        known[thread].gradients = RowGradients<T, T>(k.per_exp, k.uniform, empty ? 0 : f.most), hits[thread] = float(at_target_of(k, at_target, f.most));
      }
    }
    if (p.loss) p.loss[token] = made.loss, p.z_part[token] = made.z;
    if (p.lse_out.data) static_cast<float*>(p.lse_out.data)[p.lse_out.at(token)] = float(made.lse);
  }
  if (!p.dx) return;
  __syncthreads();
  if (row < here) {
    const RowGradients<T, T> gradients = counts ? known[row].gradients : RowGradients<T, T>{};
    const int at = kOdd ? (start & 1) != 0 ? start : start + n - 1 : 0;  // the element that is no part of a word
    P* const words = reinterpret_cast<P*>(held + (kOdd ? (start + 1) & ~1 : start));
    if (counts) {
#pragma unroll 4
      for (int q = begin; q < end; ++q) {
        E e(read_piece(words + q));
#pragma unroll
        for (int i = 0; i < E::N; ++i) e.v[i] = gradients(e.v[i]);
        words[q] = e.piece();
      }
      if (last) held[at] = element<T>(Pack<float, 1>::of(gradients(value(held[at]).v)));
    } else {
      for (int q = begin; q < end; ++q) words[q] = {};
      if (last) held[at] = {};
    }
  }
  __syncthreads();
  if (thread < here && target >= 0) held[thread * pitch + target] = element<T>(Pack<float, 1>::of(hits[thread]));
  __syncthreads();
  if (!h.dense_dx) {
    each_element([&](int k, int j) { dx[k * p.dx_pitch + j] = held[k * pitch + j]; });
    return;
  }
  if (at_end < here * n) dx[at_end] = held[at_end];
#pragma unroll 4
  for (int i = thread; i < whole / K; i += kThreads) __stcs(reinterpret_cast<uint4*>(dx) + i, memory[i + (h.pad ? int(h.by_row.quotient(uint32_t(i * K))) * h.pad : 0)]);
}

// Pieces of a lane, and words of 16 bytes between two rows, so that the lanes of a warp read from banks of their own, or nearly so.
template <class T, int kWords, bool kOdd> void share_out(Short& h, int n) {
  constexpr int kPiece = kWords * 4 / int(sizeof(T)), kPieces = 32 / kWords;  // elements; of a wavefront
  const int pieces = n / kPiece, lanes = 1 << h.log_lanes, least = (pieces + lanes - 1) / lanes;
  int best = INT32_MAX;
  for (int pad = 0; pad < (kWords == 4 ? 8 : 1); ++pad)
    for (int share = least; share <= least + (lanes > 1 ? least / 8 : 0); ++share) {
      int there[kPieces] = {}, most = 0;
      for (int t = 0; t < kPieces; ++t) {
        int& bank = there[((t / lanes) * (n + pad * kChunk<T>) / kPiece + t % lanes * share) % kPieces];
        most = ++bank > most ? bank : most;
      }
      if (const int cost = share * (8 + most) + pad; cost < best) best = cost, h.share = share, h.pad = pad;
    }
}
template <class T, int kWords, bool kOdd = false> int run(Short h, void* stream) {
  share_out<T, kWords, kOdd>(h, int(h.rows.t.classes));
  const size_t bytes = (size_t(h.each) * size_t(h.rows.t.classes + h.pad * kChunk<T>) * sizeof(T) + 31) / 16 * 16;  // a piece more is read
  return device::launch(short_kernel<T, kWords, kOdd>, device::blocks_for(h.rows.rows, h.each), kThreads, bytes, stream, h);
}
template <class T> int short_rows(const LossCudaRows& p, void* stream) {
  const int64_t n = p.t.classes;
  if (p.rows == 0) return 0;
  if (n > kMostClasses || p.lse_in.data || p.bias || p.softcap > 0) return kLossNotHeld;
  const auto dense = [&](const void* at, int64_t pitch) { return pitch == n && uintptr_t(at) % 16 == 0; };
  Short h{p, 0, 0, 0, 0, device::Divisor::of(uint32_t(n)), dense(p.x, p.x_pitch), dense(p.dx, p.dx_pitch)};
  while (1 << h.log_lanes < kMostLanes && int64_t(kThreads >> h.log_lanes) * n * int64_t(sizeof(T)) > kBytes) ++h.log_lanes;
  h.each = kThreads >> h.log_lanes;
  const int64_t bytes = n * int64_t(sizeof(T));
  if (bytes % 16 == 0) return run<T, 4>(h, stream);
  if (bytes % 8 == 0) return run<T, 2>(h, stream);
  if constexpr (sizeof(T) == 2)
    if (n % 2) return run<T, 1, true>(h, stream);
  return run<T, 1>(h, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<int (*)(const LossCudaRows&, void* stream)> loss_short_rows = [] {
  ByDType<int (*)(const LossCudaRows&, void* stream)> table;
  table[DType::f16] = short_rows<f16>, table[DType::bf16] = short_rows<bf16>, table[DType::f32] = short_rows<float>;
  return table;
}();

}  // namespace baracuda
