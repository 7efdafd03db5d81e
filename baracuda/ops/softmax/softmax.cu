// Lines of softmax that are no short dense rows: max, sum of exp, factor, in the tree of device/lines.cuh, so with the CPU's bits. Down
// columns elements stay in registers up to 2048; longer lines are worked off by chunks of 4096 in three launches and read twice ("Online
// normalizer calculation for softmax", Milakov and Gimelshein, 2018). What has a mask, a scale, two dtypes, f64 or steps in its rows
// reads its elements again for each pass.
#include "baracuda/device/half.cuh"
#include "baracuda/device/lines.cuh"
#include "baracuda/ops/softmax/softmax_cuda.hpp"
#include "baracuda/ops/softmax/softmax_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace device_lines;

// Threads of a block of the kernel for Q elements a thread, 0: it reads them again.
template <bool kColumns, int Q> constexpr int kThreads = kColumns ? 512 : 128;

template <class U, class A> __device__ __forceinline__ void put(U* p, Pack<A, 1> v) {
  if constexpr (std::is_same_v<Acc<U>, A>) *p = element<U>(v);
  else *p = from_double<U>(double(v.v));
}
// f(q, i) for the elements of this thread: element i is number q, a constant; without a number of elements (Q = 0), its lane's.
template <int Y, int Q, class F> __device__ __forceinline__ void each(int m, int y, F f) {
  if constexpr (Q == 0) {
    for (int first = y; first < m; first += kLineLanes)
#pragma unroll
      for (int k = 0; k < kLineLanes / Y; ++k)
        if (first + k * Y < m) f(k, first + k * Y);
  } else {
#pragma unroll
    for (int q = 0; q < Q; ++q) {
      if (q % 8 == 0 && q * Y >= m) break;
      f(q, y + q * Y);
    }
  }
}

struct Place {
  int64_t line, chunk;
  int m;  // elements of the chunk; 0 where there is no line
  bool live;
};
template <bool kColumns> __device__ __forceinline__ int64_t groups_of(const SoftmaxCuda& p) {
  const int64_t chunks = p.stage == SoftmaxStage::whole ? 1 : line_chunks(p.n), w = Seat<kColumns>::lines();
  return kColumns ? (p.lines.units + w - 1) / w * chunks : (p.lines.units * chunks + w - 1) / w;
}
template <bool kColumns> __device__ __forceinline__ Place place_of(const SoftmaxCuda& p, int64_t group) {
  using S = Seat<kColumns>;
  const int64_t chunks = line_chunks(p.n), w = S::lines();
  Place a;
  if (p.stage == SoftmaxStage::whole) a.line = group * w + S::line(), a.chunk = 0;
  else if (kColumns) a.line = group / chunks * w + S::line(), a.chunk = group % chunks;
  else a.line = (group * w + S::line()) / chunks, a.chunk = (group * w + S::line()) % chunks;
  a.live = a.line < p.lines.units;
  if (!a.live) a.line = 0;
  const int64_t left = p.n - a.chunk * kLineChunk;
  a.m = !a.live ? 0 : left < kLineChunk ? int(left) : kLineChunk;
  return a;
}
template <bool kColumns, int Y> inline constexpr bool kShared = kColumns || Y == 64;

template <class T, class U, bool kColumns, int Y, int Q> __global__ void __launch_bounds__(kThreads<kColumns, Q>, 1) forward_kernel(const __grid_constant__ SoftmaxCuda p) {
  using A = Acc<U>;
  using V = Pack<A, 1>;
  constexpr int L = kOwnLanes<Y, Q>, kBuffer = kShared<kColumns, Y> ? kThreads<kColumns, Q> : 1;
  constexpr bool kDense = !kColumns && Q > 0;
  __shared__ A top_shared[kBuffer], sum_shared[kBuffer];
  const int y = Seat<kColumns>::y();
  const int64_t step = kDense ? 1 : p.step[0], out_step = kDense ? 1 : p.step[3];
  for (int64_t g = blockIdx.x; g < groups_of<kColumns>(p); g += gridDim.x) {
    const Place at = place_of<kColumns>(p, g);
    int64_t offset[4];
    p.lines.offsets(at.line, offset);
    const int64_t first = at.chunk * kLineChunk;
    const T* const x = static_cast<const T*>(p.in) + offset[0] + first * step;
    const bool* const mask = Q == 0 && p.mask ? static_cast<const bool*>(p.mask) + offset[2] + first * p.step[2] : nullptr;
    U* const out = static_cast<U*>(p.out) + offset[3] + first * out_step;
    const auto get = [&](int i) {
      V v = V::of(A(value(x[i * step]).v));
      if (p.negate) v = -v;
      if constexpr (Q == 0) v = mask && !mask[i * p.step[2]] ? V(-kInf) : v * V(p.scale);
      return v;
    };
    V held[Q > 0 ? Q : 1];
    A top[1] = {A(-kInf)}, lane[L];
    each<Y, Q>(at.m, y, [&](int q, int i) {
      const V v = Q == 0 || i < at.m ? get(i) : V(-kInf);
      if constexpr (Q > 0) held[q] = v;
      top[0] = larger(v, V::of(top[0])).v;
    });
    const auto number = [&](int q, int i) {
      if constexpr (Q > 0) return held[q];
      else return get(i);
    };
    if constexpr (kShared<kColumns, Y>) __syncthreads();  // the line before may still be read
    const A most = fold_lanes<kColumns, Y, 1>(top, Larger{}, top_shared);
    const V base = softmax::base(V::of(most));
#pragma unroll
    for (int k = 0; k < L; ++k) lane[k] = A(-0.0);
    if (!(p.log && p.stage == SoftmaxStage::finish))
      each<Y, Q>(at.m, y, [&](int q, int i) {  // what fills a chunk up is too small to change a bit
        const V e = exp_up(number(q, i) - base);
        if constexpr (Q > 0) held[q] = p.log ? held[q] : e;
        lane[q % L] = lane[q % L] + e.v;
      });
    V first_factor, second_factor, line_top, log_sum;
    if (p.stage == SoftmaxStage::finish) {
      const int64_t k = at.line * line_chunks(p.n) + at.chunk;
      first_factor = log_sum = V::of(static_cast<const A*>(p.sum)[k]), second_factor = line_top = V::of(static_cast<const A*>(p.max)[k]);
    } else {
      const A sum = fold_lanes<kColumns, Y, L>(lane, Plus{}, sum_shared);
      if (p.stage == SoftmaxStage::chunks) {
        const int64_t k = at.line * line_chunks(p.n) + at.chunk;
        if (y == 0 && at.live) static_cast<A*>(p.max)[k] = most, static_cast<A*>(p.sum)[k] = sum;
        continue;
      }
      const V all = V::of(sum);
      line_top = V::of(most);
      log_sum = softmax::log_sum(line_top, all);
      softmax::factor(line_top, softmax::weight(V::of(most), base), all, p.safe, first_factor, second_factor);
    }
    each<Y, Q>(at.m, y, [&](int q, int i) {
      if (i >= at.m) return;
      const V v = number(q, i);
      put<U>(out + i * out_step, p.log ? softmax::log_value(v, line_top, log_sum)
                                       : softmax::value(Q > 0 ? v : exp_up(v - base), first_factor, second_factor));
    });
  }
}

template <class T, class U, bool kColumns, int Y, int Q> __global__ void __launch_bounds__(kThreads<kColumns, Q>, 1) backward_kernel(const __grid_constant__ SoftmaxCuda p) {
  using A = Acc<U>;
  using V = Pack<A, 1>;
  constexpr int L = kOwnLanes<Y, Q>, kBuffer = kShared<kColumns, Y> ? kThreads<kColumns, Q> : 1;
  constexpr bool kDense = !kColumns && Q > 0;
  __shared__ A sum_shared[kBuffer];
  const int y = Seat<kColumns>::y();
  const int64_t dy_step = kDense ? 1 : p.step[0], y_step = kDense ? 1 : p.step[1], dx_step = kDense ? 1 : p.step[3];
  for (int64_t g = blockIdx.x; g < groups_of<kColumns>(p); g += gridDim.x) {
    const Place at = place_of<kColumns>(p, g);
    int64_t offset[4];
    p.lines.offsets(at.line, offset);
    const int64_t first = at.chunk * kLineChunk;
    const U *const dys = static_cast<const U*>(p.in) + offset[0] + first * dy_step, *const ys = static_cast<const U*>(p.second) + offset[1] + first * y_step;
    const bool* const mask = Q == 0 && p.mask ? static_cast<const bool*>(p.mask) + offset[2] + first * p.step[2] : nullptr;
    T* const dx = static_cast<T*>(p.out) + offset[3] + first * dx_step;
    const auto get_dy = [&](int i) { return mask && !mask[i * p.step[2]] ? V(0) : value(dys[i * dy_step]); };
    const auto get_y = [&](int i) { return value(ys[i * y_step]); };
    V held_dy[Q > 0 ? Q : 1], held_y[Q > 0 ? Q : 1];
    if constexpr (Q > 0)
      each<Y, Q>(at.m, y, [&](int q, int i) {
        const bool in = i < at.m;
        held_dy[q] = in ? get_dy(i) : V(-0.0), held_y[q] = in ? get_y(i) : V(1);
      });
    const auto dy_at = [&](int q, int i) {
      if constexpr (Q > 0) return held_dy[q];
      else return get_dy(i);
    };
    const auto y_at = [&](int q, int i) {
      if constexpr (Q > 0) return held_y[q];
      else return get_y(i);
    };
    A total;
    if (p.stage == SoftmaxStage::finish) total = static_cast<const A*>(p.sum)[at.line * line_chunks(p.n)];
    else {
      A lane[L];
#pragma unroll
      for (int k = 0; k < L; ++k) lane[k] = A(-0.0);
      each<Y, Q>(at.m, y, [&](int q, int i) {
        const V l = V::of(lane[q % L]), dy = dy_at(q, i);
        lane[q % L] = (p.log ? l + dy : fma(dy, y_at(q, i), l)).v;
      });
      if constexpr (kShared<kColumns, Y>) __syncthreads();
      total = fold_lanes<kColumns, Y, L>(lane, Plus{}, sum_shared);
      if (p.stage == SoftmaxStage::chunks) {
        if (y == 0 && at.live) static_cast<A*>(p.sum)[at.line * line_chunks(p.n) + at.chunk] = total;
        continue;
      }
    }
    const V dot = V::of(total), sign = p.sign;
    each<Y, Q>(at.m, y, [&](int q, int i) {
      if (i >= at.m) return;
      const V dy = dy_at(q, i), v = y_at(q, i);
      put<T>(dx + i * dx_step, p.log ? softmax::log_slope(dy, v, dot, sign) : softmax::slope(dy, v, dot, sign));
    });
  }
}

template <class A> __global__ void __launch_bounds__(kMostTeam, 1) join_kernel(const __grid_constant__ SoftmaxJoinCuda p) {
  using V = Pack<A, 1>;
  __shared__ A shared[32], tops[32];
  const int team = int(blockDim.x), t = int(threadIdx.x);
  for (int64_t first = int64_t(blockIdx.x) * blockDim.y; first < p.lines; first += int64_t(gridDim.x) * blockDim.y) {
    const bool live = first + threadIdx.y < p.lines;
    const int64_t line = live ? first + threadIdx.y : first;
    A *const max = static_cast<A*>(p.max) + line * p.chunks, *const sum = static_cast<A*>(p.sum) + line * p.chunks;
    __syncthreads();
    if (p.backward) {
      const A all = pairs_in_memory(sum, p.chunks, Plus{}, shared);
      if (live && t == 0) sum[0] = all;
      continue;
    }
    A top = A(-kInf);
    for (int64_t c = t; c < p.chunks; c += team) top = Larger{}(max[c], top);
    if (team > 1) {
#pragma unroll
      for (int w = 16; w; w /= 2) top = Larger{}(top, __shfl_xor_sync(0xffffffffu, top, w));
      if (t % 32 == 0) tops[t / 32] = top;
      __syncthreads();
      for (int w = 0; w < team / 32; ++w) top = Larger{}(tops[w], top);
    }
    const V base = softmax::base(V::of(top));
    if (live)
      for (int64_t c = t; c < p.chunks; c += team) sum[c] = (V::of(sum[c]) * (softmax::weight(V::of(max[c]), base) * V(kDown<V>))).v;
    __syncthreads();
    const V all = V::of(pairs_in_memory(sum, p.chunks, Plus{}, shared)), log_sum = softmax::log_sum(V::of(top), all);
    if (live)
      for (int64_t c = t; c < p.chunks; c += team) {
        V a = log_sum, b = V::of(top);
        if (!p.log) softmax::factor(V::of(top), softmax::weight(V::of(max[c]), base), all, p.safe, a, b);
        sum[c] = a.v, max[c] = b.v;
      }
  }
}

// The kernels for lines of n elements: <Y, Q> is the smallest that holds them.
template <bool kBackward, class T, class U, bool kColumns, int Y, int Q> int launch_lines(const SoftmaxCuda& p, void* stream) {
  const bool whole = p.stage == SoftmaxStage::whole;
  const int64_t chunks = line_chunks(p.n);
  dim3 block;
  if (kColumns) block = dim3(8, Y);
  else block = dim3(Y, 128 / Y);
  const unsigned w = kColumns ? block.x : block.y;
  const int64_t c = whole ? 1 : chunks, groups = kColumns ? device::ceil_div(p.lines.units, w) * c : device::ceil_div(p.lines.units * c, w);
  if constexpr (kBackward) return device::launch(backward_kernel<T, U, kColumns, Y, Q>, device::blocks_for(groups, 1), block, 0, stream, p);
  else return device::launch(forward_kernel<T, U, kColumns, Y, Q>, device::blocks_for(groups, 1), block, 0, stream, p);
}
template <bool kBackward, class T, class U> int lines(const SoftmaxCuda& p, void* stream) {
  if (p.lines.units == 0 || p.n == 0) return 0;
  if constexpr (std::is_same_v<T, U> && sizeof(T) < 8) {
    const int64_t m = p.n < kLineChunk ? p.n : kLineChunk;
    if (softmax_cuda_plain(p)) {
      if (softmax_cuda_row(p, sizeof(T))) return kBackward ? softmax_rows_cuda.backward[kDTypeOf<T>](p, stream) : softmax_rows_cuda.forward[kDTypeOf<T>](p, stream);
      if (p.scale == 1 && p.columns && m <= 2048) return launch_lines<kBackward, T, U, true, 64, 32>(p, stream);
      if (p.scale == 1 && !p.columns) return launch_lines<kBackward, T, U, false, 64, 64>(p, stream);
    }
  }
  return p.columns ? launch_lines<kBackward, T, U, true, 64, 0>(p, stream) : launch_lines<kBackward, T, U, false, 32, 0>(p, stream);
}
template <class A> int join(const SoftmaxJoinCuda& p, void* stream) {
  const dim3 block = pairs_block(p.chunks);
  return device::launch(join_kernel<A>, device::blocks_for(p.lines, block.y), block, 0, stream, p);
}

template <bool kBackward> constexpr ByDType<ByDType<SoftmaxLaunch>> by_both() {
  constexpr SoftmaxLaunch none = nullptr;
  return device::floating<ByDType<SoftmaxLaunch>>(
      device::floating<SoftmaxLaunch>(lines<kBackward, f16, f16>, none, lines<kBackward, f16, float>, lines<kBackward, f16, double>),
      device::floating<SoftmaxLaunch>(none, lines<kBackward, bf16, bf16>, lines<kBackward, bf16, float>, lines<kBackward, bf16, double>),
      device::floating<SoftmaxLaunch>(none, none, lines<kBackward, float, float>, lines<kBackward, float, double>),
      device::floating<SoftmaxLaunch>(none, none, none, lines<kBackward, double, double>));
}
constexpr ByDType<int (*)(const SoftmaxJoinCuda&, void*)> joins() {
  ByDType<int (*)(const SoftmaxJoinCuda&, void*)> t;
  t[DType::f32] = join<float>, t[DType::f64] = join<double>;
  return t;
}
constexpr SoftmaxCudaKernels kKernels = {by_both<false>(), by_both<true>(), joins()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SoftmaxCudaKernels softmax_cuda_kernels = kKernels;
bool softmax_cuda_row(const SoftmaxCuda& p, int size) { return !p.columns && p.stage == SoftmaxStage::whole && softmax_cuda_blocks_of_row(p.n, size) == 1; }
bool softmax_cuda_plain(const SoftmaxCuda& p) {
  return !p.mask && (p.columns || p.n == 1 || (p.step[0] == 1 && (!p.second || p.step[1] == 1) && p.step[3] == 1));
}
bool softmax_cuda_whole(const SoftmaxCuda& p, int size) {
  if (line_chunks(p.n) == 1) return true;
  return size && softmax_cuda_plain(p) && softmax_cuda_row(p, size);
}

}  // namespace baracuda
