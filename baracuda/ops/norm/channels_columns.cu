// Sums of BatchNorm where channels lie next to one another: a block has 128 bytes of channels of 4096 rows, a thread 16 bytes of every 64th row, eight
// rows at a time around a mean of their own. The order depends on the channel's length alone. The floor is reading x (and dy).
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/norm/channels_cuda.hpp"
#include "baracuda/ops/norm/norm_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using device_rows::Chunk, device_rows::kChunk;

constexpr int kThreads = 512, kAcross = 8, kGroups = kThreads / kAcross, kWarps = kThreads / 32, kTurn = 8, kTurns = kListChunk / kGroups / kTurn;
// Either three sums, or the moments of `a` elements.
template <class A, bool kGradient> struct Part {
  A a = 0, b = 0, c = 0;
  __device__ __forceinline__ friend Part operator+(const Part& x, const Part& y) {
    if constexpr (kGradient) return {x.a + y.a, x.b + y.b, x.c + y.c};
    else {
      if (!(x.a > 0) || !(y.a > 0)) return x.a > 0 ? x : y;
      const auto s = MomentsOf<A>{x.a, x.b, x.c} + MomentsOf<A>{y.a, y.b, y.c};
      return {s.count, s.mean, s.squares};
    }
  }
};
template <class A, bool kGradient> __device__ __forceinline__ Part<A, kGradient> moved(const Part<A, kGradient>& p, int w) {
  return {__shfl_xor_sync(0xffffffffu, p.a, w), __shfl_xor_sync(0xffffffffu, p.b, w), __shfl_xor_sync(0xffffffffu, p.c, w)};
}
template <class T, bool kGradient> __global__ void __launch_bounds__(kThreads) column_sums_kernel(const __grid_constant__ ColumnSumsCuda p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  using S = Part<A, kGradient>;
  constexpr int N = kChunk<T>, W = kAcross * N;
  __shared__ A shared[kWarps * W][3];
  const int q = int(threadIdx.x) % kAcross, group = int(threadIdx.x) / kAcross, lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int64_t chunks = (p.n + kListChunk - 1) / kListChunk, tiles = p.channels / W + (p.channels % W != 0), chunk = blockIdx.x / tiles;
  const int64_t channel = (blockIdx.x - chunk * tiles) * W + q * N, begin = chunk * kListChunk, left = p.n - begin;
  const int m = channel >= p.channels ? 0 : left < kListChunk ? int(left) : kListChunk;
  const T* const x = static_cast<const T*>(p.x) + begin * p.x_step + channel;
  const T* const dy = kGradient ? static_cast<const T*>(p.dy) + begin * p.dy_step + channel : nullptr;
  using Piece = Chunk<T, N>;
  V point[N], scale[N];  // what is taken off, the first element or the mean
  if (m > 0) {
    const Piece first = *reinterpret_cast<const Piece*>(x);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if constexpr (kGradient) {
        const ListKept<A> k = static_cast<const ListKept<A>*>(p.kept)[channel + j];
        point[j] = V::of(k.shift), scale[j] = V::of(k.scale);
      } else
        point[j] = value(first.lane[j]);
    }
  }
  S all[N];
#pragma unroll 1
  for (int turn = 0; turn < kTurns; ++turn) {
    const int first = turn * kTurn * kGroups + group, count = first >= m ? 0 : (m - first + kGroups - 1) / kGroups < kTurn ? (m - first + kGroups - 1) / kGroups : kTurn;
    if (count == 0) break;
    Piece xs[kTurn], dys[kGradient ? kTurn : 1];
#pragma unroll
    for (int r = 0; r < kTurn; ++r)
      if (r < count) {
        xs[r] = *reinterpret_cast<const Piece*>(x + int64_t(first + r * kGroups) * p.x_step);
        if constexpr (kGradient) dys[r] = *reinterpret_cast<const Piece*>(dy + int64_t(first + r * kGroups) * p.dy_step);
      }
#pragma unroll
    for (int j = 0; j < N; ++j) {
      S s;
      if constexpr (kGradient) {
#pragma unroll
        for (int r = 0; r < kTurn; ++r)
          if (r < count) {
            const V h = (value(xs[r].lane[j]) - point[j]) * scale[j], e = value(dys[r].lane[j]);
            s.a = s.a + e.v, s.b = fma(e, h, V::of(s.b)).v, s.c = s.c + h.v;
          }
      } else {
#pragma unroll
        for (int r = 0; r < kTurn; ++r)
          if (r < count) s.b = s.b + (value(xs[r].lane[j]) - point[j]).v;
        s.a = A(count), s.b = quotient(s.b, s.a);
#pragma unroll
        for (int r = 0; r < kTurn; ++r)
          if (r < count) {
            const V d = (value(xs[r].lane[j]) - point[j]) - V::of(s.b);
            s.c = fma(d, d, V::of(s.c)).v;
          }
      }
      all[j] = all[j] + s;
    }
  }
#pragma unroll
  for (int j = 0; j < N; ++j) {
    S s = all[j];
#pragma unroll
    for (int w = kAcross; w < 32; w *= 2) {
      const S other = moved(s, w);
      s = lane & w ? other + s : s + other;
    }
    if (lane < kAcross) {
      A(&to)[3] = shared[warp * W + lane * N + j];
      to[0] = s.a, to[1] = s.b, to[2] = s.c;
    }
  }
  __syncthreads();
  const int64_t own = (blockIdx.x - chunk * tiles) * W + threadIdx.x;
  if (int(threadIdx.x) >= W || own >= p.channels) return;
  S s;
  for (int w = 0; w < kWarps; ++w) {
    const A(&from)[3] = shared[w * W + threadIdx.x];
    s = s + S{from[0], from[1], from[2]};
  }
  A(&to)[3] = static_cast<A(*)[3]>(p.sums)[own * chunks + chunk];
  if constexpr (kGradient) to[0] = s.a, to[1] = s.b, to[2] = s.c;
  else to[0] = value(static_cast<const T*>(p.x)[begin * p.x_step + own]).v, to[1] = s.b, to[2] = s.c;
}
template <class T> int sums(const ColumnSumsCuda& p, void* stream) {
  constexpr int W = kAcross * kChunk<T>;
  const int64_t blocks = device::ceil_div(p.channels, W) * list_chunks(p.n);
  return device::launch(p.dy ? column_sums_kernel<T, true> : column_sums_kernel<T, false>, unsigned(blocks), dim3(kThreads), 0, stream, p);
}
constexpr auto kSums = device::floating<int (*)(const ColumnSumsCuda&, void*)>(sums<f16>, sums<bf16>, sums<float>, nullptr);

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<int (*)(const ColumnSumsCuda&, void* stream)> channel_column_sums_cuda = kSums;

}  // namespace baracuda
