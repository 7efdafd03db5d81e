// Rows of logits to losses and gradients: m and sum exp(x - m) in one pass (a thread keeps a running maximum and rescales its sum
// when it grows: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018), then
// g ((1 + 2 z lse) exp(x - m) / sum - eps / n - (1 - eps) onehot). Reads x twice, the second time from the caches, and writes dx:
// the floor is memory bandwidth. A team of threads takes a row (device/rows.cuh). The denominator of a mean is counted on the
// device, and the sum over tokens is a tree that depends on their number alone.
#include "baracuda/ops/loss/loss_device.cuh"
#include "baracuda/ops/loss/loss_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace device_rows;
using namespace loss_device;
using Double = Pack<double, 1>;

// f(i) over tokens, for all threads of a block: the tokens of block b of gridDim.x.
template <class F> __device__ __forceinline__ double sum_of_part(int64_t tokens, double* shared, F f) {
  constexpr int kTogether = 8;
  const int64_t part = (tokens + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * part, end = begin + part < tokens ? begin + part : tokens;
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kTogether * 1024) {
    double v[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) v[k] = i + k * 1024 < end ? f(i + k * 1024) : 0;
#pragma unroll
    for (int k = 0; k < kTogether; ++k) sum = sum + v[k];
  }
  return team_sum(sum, shared);
}
__device__ __forceinline__ double inverse(double denominator) { return denominator == 0 ? 0 : 1 / denominator; }
template <class A> __global__ void __launch_bounds__(1024) denominator_kernel(const __grid_constant__ LossCudaTokens t) {
  __shared__ double shared[32];
  const double sum = sum_of_part(t.tokens, shared, [&](int64_t i) { return target_of(t, i) == kIgnored ? 0. : t.over_weights ? read<A>(t.weights, i, 1) : 1.; });
  if (threadIdx.x == 0) t.factor[gridDim.x == 1 ? 0 : 1 + blockIdx.x] = gridDim.x == 1 ? inverse(sum) : sum;
}
template <class A> __global__ void __launch_bounds__(1024) sum_kernel(const __grid_constant__ LossCudaSum p) {
  __shared__ double shared[32];
  if (p.t.per_token) {
    for (int64_t i = int64_t(blockIdx.x) * 1024 + threadIdx.x; i < p.t.tokens; i += int64_t(gridDim.x) * 1024)
      static_cast<A*>(p.out.data)[p.out.at(i)] = A(p.per_token[i]);
    return;
  }
  const double sum = sum_of_part(p.t.tokens, shared, [&](int64_t i) { return p.per_token[i]; });
  if (threadIdx.x) return;
  if (gridDim.x == 1) static_cast<A*>(p.out.data)[p.out.at(0)] = A(sum * factor_of(p.t));
  else p.t.factor[1 + blockIdx.x] = sum;
}
// Sums of parts to the factor, or to the result.
template <class A> __global__ void __launch_bounds__(kLossParts) join_kernel(const __grid_constant__ LossCudaSum p) {
  __shared__ double shared[32];
  const double sum = team_sum(threadIdx.x < p.parts ? p.t.factor[1 + threadIdx.x] : 0, shared);
  if (threadIdx.x) return;
  if (p.per_token) static_cast<A*>(p.out.data)[p.out.at(0)] = A(sum * factor_of(p.t));
  else *p.t.factor = inverse(sum);
}

__global__ void __launch_bounds__(kLossLeaf) leaf_kernel(const __grid_constant__ LossCudaRows p) {
  __shared__ double shared[32];
  for (int64_t leaf = blockIdx.x; leaf * kLossLeaf < p.t.tokens; leaf += gridDim.x) {
    const int64_t i = leaf * kLossLeaf + threadIdx.x;
    const bool there = i < p.t.tokens;
    put_leaf(p.leaves + 3 * leaf, there ? p.loss[i] : 0, there ? p.z_part[i] : 0, there && target_of(p.t, i) != kIgnored, shared);
  }
}
template <class A> __global__ void __launch_bounds__(1024) total_kernel(const __grid_constant__ LossCudaTotal p) {
  __shared__ double shared[32];
  double sums[3] = {};
  for (int64_t leaf = threadIdx.x; leaf * kLossLeaf < p.t.tokens; leaf += 1024)
#pragma unroll
    for (int k = 0; k < 3; ++k) sums[k] = sums[k] + p.leaves[3 * leaf + k];
#pragma unroll
  for (int k = 0; k < 3; ++k) sums[k] = team_sum(sums[k], shared);
  if (threadIdx.x) return;
  const double factor = p.t.mean && p.counted ? inverse(sums[2]) : factor_of(p.t);
  static_cast<A*>(p.loss.data)[p.loss.at(0)] = A(sums[0] * factor);
  if (p.z_part.data) static_cast<A*>(p.z_part.data)[p.z_part.at(0)] = A(sums[1] * factor);
}

constexpr int kKeepThreads = 1024, kKeepTogether = 8;
__global__ void __launch_bounds__(kKeepThreads) keep_kernel(const __grid_constant__ LossCudaKeep p) {
  __shared__ int counts[2][32];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  int64_t before = 0;
  for (int64_t base = 0; base < p.t.tokens; base += kKeepThreads * kKeepTogether) {
    int64_t target[kKeepTogether];
#pragma unroll
    for (int k = 0; k < kKeepTogether; ++k) {
      const int64_t i = base + k * kKeepThreads + threadIdx.x;
      target[k] = i < p.t.tokens ? target_of(p.t, i) : kIgnored;
    }
#pragma unroll
    for (int k = 0; k < kKeepTogether; ++k) {
      const int64_t i = base + k * kKeepThreads + threadIdx.x;
      const unsigned kept = __ballot_sync(0xffffffffu, target[k] >= 0);
      if (lane == 0) counts[k % 2][warp] = __popc(kept);
      __syncthreads();
      int up_to = counts[k % 2][lane];
#pragma unroll
      for (int w = 1; w < 32; w *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, up_to, w);
        if (lane >= w) up_to += other;
      }
      const int of_warp = __shfl_sync(0xffffffffu, up_to, warp) - __popc(kept), of_all = __shfl_sync(0xffffffffu, up_to, 31);
      const int64_t at = before + of_warp + __popc(kept & ((1u << lane) - 1));
      if (target[k] >= 0) {
        p.of[at] = i;
        if (p.target) p.target[at] = int(target[k]);
      } else if (i < p.t.tokens) p.loss[i] = p.z_part[i] = target[k] == kInvalid ? double(kNaN) : 0;
      before += of_all;
    }
  }
  if (threadIdx.x == 0) *p.count = before;
}
int keep(const LossCudaKeep& p, void* stream) { return device::launch(keep_kernel, 1, kKeepThreads, 0, stream, p); }

template <bool kShaped, class T> __device__ __forceinline__ Acc<T> row_value(const LossCudaRows& p, T v, int64_t j) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  V x = value(v);
  if constexpr (kShaped) {
    if (p.bias) x = x + V::of(static_cast<const A*>(p.bias)[j]);
    if (p.softcap > 0 && !p.capped) x = loss::cap(x, V(p.softcap));
  }
  return x.v;
}
// f(i, count, chunk) for a thread's chunks of a row, `count` lanes of which are there, known to the compiler where all are. N are
// loaded before the first is used, and loaded() is called in between. kBack: from the end, which the caches have kept.
template <int N, bool kBack, class T, class L, class F>
__device__ __forceinline__ void for_chunks(const T* x, int64_t n, bool aligned, L loaded, F f) {
  constexpr int K = kChunk<T>;
  const int64_t step = int64_t(blockDim.x) * K, steps = (n + N * step - 1) / (N * step), mine = int64_t(threadIdx.x) * K;
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t base = (kBack ? steps - 1 - s : s) * (N * step);
    Chunk<T, K> c[N];
    if (aligned && base + N * step <= n) {
#pragma unroll
      for (int k = 0; k < N; ++k) c[k] = *reinterpret_cast<const Chunk<T, K>*>(x + base + mine + k * step);
      loaded();
#pragma unroll
      for (int k = 0; k < N; ++k) f(base + mine + k * step, std::integral_constant<int, K>{}, c[k]);
      continue;
    }
#pragma unroll
    for (int k = 0; k < N; ++k) c[k] = load_chunk(x + base + mine + k * step, n - base - mine - k * step, aligned);
    loaded();
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const int64_t i = base + mine + k * step;
      f(i, n - i >= K ? K : n > i ? int(n - i) : 0, c[k]);
    }
  }
}
// The larger of a team's values; NaN wins.
template <class A> __device__ A team_max(A m, double* shared) {
  using V = Pack<A, 1>;
#pragma unroll
  for (int w = 16; w; w /= 2) m = max_nan(V::of(m), V::of(__shfl_xor_sync(0xffffffffu, m, w))).v;
  const int warps = int(blockDim.x) / 32;
  if (warps == 1) return m;
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = double(m);
  __syncthreads();
  for (int w = 0; w < warps; ++w) m = max_nan(V::of(m), V::of(A(shared[w]))).v;
  return m;
}

// kShaped: there is a bias or a cap.
template <bool kShaped, class T, class U> __global__ void __launch_bounds__(1024) rows_kernel(const __grid_constant__ LossCudaRows p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  using C = Chunk<T, kChunk<T>>;
  constexpr int kAhead = kShaped || sizeof(A) == 8 || kIsF16<T> ? 1 : 2;  // as many as 64 registers hold
  __shared__ double shared[32];
  const int64_t n = p.columns;
  const RowsLeft rows(p.kept, p.first, p.rows);
  for (int64_t r = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; r < rows.all; r += int64_t(gridDim.x) * blockDim.y) {
    const bool there = r < rows.some;
    const int64_t token = there ? token_of(p.kept, p.first + r) : 0, target = there ? target_of(p.t, token) : kIgnored;
    const T* x = static_cast<const T*>(p.x) + r * p.x_pitch;
    U* dx = p.dx ? static_cast<U*>(p.dx) + r * p.dx_pitch : nullptr;
    const bool ax = aligned16(x);
    if (target < 0) {
      if (dx)
        for (int64_t j = threadIdx.x; j < n; j += blockDim.x) dx[j] = U{};
      if (there && threadIdx.x == 0 && p.loss) {
        const double none = target == kInvalid ? double(kNaN) : 0;
        p.loss[token] = p.z_part[token] = none;
        if (p.lse_out.data) static_cast<A*>(p.lse_out.data)[p.lse_out.at(token)] = A(none);
      }
      continue;
    }
    A m;
    double exps = 1, lse;
    // Read before dx, which may be the same memory, is written.
    const int64_t hit = target - p.first_column;
    const bool here = hit >= 0 && hit < n;
    const A at_target = here ? row_value<kShaped>(p, x[hit], hit) : A(0);
    if (p.lse_in.data) {
      lse = read<A>(p.lse_in, token, 0);
      m = A(lse);
    } else {
      A mine = A(-kInf), sum = 0;  // NaN is not larger than anything; it shows in the sum
      for_chunks<kAhead, false>(x, n, ax, [] {}, [&](int64_t i, auto count, const C& c) {
        A v[kChunk<T>], most = mine;
#pragma unroll
        for (int j = 0; j < kChunk<T>; ++j) {
          v[j] = j < count ? row_value<kShaped>(p, c.lane[j], i + j) : A(-kInf);
          most = v[j] > most ? v[j] : most;
        }
        if (most != mine) {
          sum = sum * (mine == A(-kInf) ? A(0) : exp(V::of(mine) - V::of(most)).v);
          mine = most;
        }
        const V base = V::of(mine == A(-kInf) ? A(0) : mine);
#pragma unroll
        for (int j = 0; j < kChunk<T>; ++j) sum = sum + term(v[j] - base.v);
      });
      m = team_max(mine, shared);
      const double down = mine == A(-kInf) ? 0 : double(exp(V::of(mine) - V::of(m)).v) * kTermDown<A>;
      exps = team_sum(double(sum) * down, shared);
      if (m == A(-kInf)) exps = kNaN;  // no class has a probability
      double total = 0;
      if (p.smoothing > 0) {
        for_chunks<kAhead, false>(x, n, ax, [] {}, [&](int64_t i, auto count, const C& c) {
          A s = 0;
#pragma unroll
          for (int j = 0; j < kChunk<T>; ++j)
            if (j < count) s = s + (row_value<kShaped>(p, c.lane[j], i + j) - m);
          total = total + double(s);
        });
        total = team_sum(total, shared);
      }
      const Double log_sum = log(Double(exps));
      lse = (Double(double(m)) + log_sum).v;
      if (threadIdx.x == 0 && p.loss) {
        const double z = loss::z_part(Double(lse), p.z).v, w = read<A>(p.t.weights, token, 1);
        p.loss[token] = w * (loss::cross_entropy(log_sum, Double(double(at_target)) - Double(double(m)), Double(total), double(n), p.smoothing).v + z);
        p.z_part[token] = w * z;
      }
      if (threadIdx.x == 0 && p.lse_out.data) static_cast<A*>(p.lse_out.data)[p.lse_out.at(token)] = A(lse);
    }
    if (!dx) continue;
    const auto team_waits = [] { blockDim.x > 32 ? __syncthreads() : __syncwarp(); };
    team_waits();  // at_target was read by all
    const double upstream = read<A>(p.t.dloss, p.t.per_token ? token : 0, 1);
    const double g = read<A>(p.t.weights, token, 1) * (upstream * p.t.scale) * factor_of(p.t);
    const loss::RowGradient k = loss::row_gradient(g, exps, lse, double(p.t.classes), p.smoothing, p.z);
    const RowSlope<U, A> slope(k.per_exp, k.uniform);
    const V cap = p.softcap, base = V::of(m);
    using Out = Chunk<U, kChunk<T>>;
    const bool adx = uintptr_t(dx) % sizeof(Out) == 0;
    // dx may be the second half of x's row, which goes from the end too: a step writes what all have read.
    const auto loaded = [&] { if constexpr (sizeof(U) < sizeof(T)) team_waits(); };
    for_chunks<kAhead, true>(x, n, ax, loaded, [&](int64_t i, auto count, const C& c) {
      Out out;
#pragma unroll
      for (int j = 0; j < kChunk<T>; ++j) {
        const V v = V::of(j < count ? row_value<kShaped>(p, c.lane[j], i + j) : A(0));
        V d = V::of(slope((v - base).v));
        if constexpr (kShaped)
          if (p.softcap > 0) d = d * loss::cap_slope(v, cap);
        out.lane[j] = element<U>(convert<Acc<U>>(d));
      }
      if (adx && count == kChunk<T>) *reinterpret_cast<Out*>(dx + i) = out;
      else
#pragma unroll
        for (int j = 0; j < kChunk<T>; ++j)
          if (j < count) dx[i + j] = out.lane[j];
    });
    if (!here || hit / kChunk<T> % blockDim.x != threadIdx.x) continue;  // the thread that wrote there
    Double d = Double(k.per_exp) * Double(double(exp(V::of(at_target) - base).v)) - Double(k.uniform) - Double(k.hit);
    if (p.softcap > 0) d = d * loss::cap_slope(Double(double(at_target)), Double(p.softcap));
    dx[hit] = from_double<U>(d.v);
  }
}

// Blocks that share the tokens of a sum; by their number alone.
unsigned parts_of(int64_t tokens) { return tokens <= 16384 ? 1 : device::ceil_div(tokens, 8192) < kLossParts ? unsigned(device::ceil_div(tokens, 8192)) : kLossParts; }
template <class A> int join(const LossCudaSum& p, unsigned parts, void* stream) {
  LossCudaSum j = p;
  j.parts = int(parts);
  return device::launch(join_kernel<A>, 1, kLossParts, 0, stream, j);
}
template <class A> int denominator(const LossCudaTokens& t, void* stream) {
  if (!t.mean) return 0;
  const unsigned parts = t.tokens <= 4096 ? 1 : t.tokens < 1024 * kLossParts ? device::blocks_for(t.tokens, 1024) : kLossParts;
  const int e = device::launch(denominator_kernel<A>, parts, 1024, 0, stream, t);
  return e || parts == 1 ? e : join<A>({t, nullptr, {}, 0}, parts, stream);
}
// Threads of a row: some 16 chunks each, so that what a row costs beside its elements is shared by several rows of a multiprocessor;
// long rows get all of one, and so few are under way that the caches hold them until the second pass.
int threads_of(int64_t n, int chunk) {
  const int64_t chunks = device::ceil_div(n, chunk);
  if (chunks <= 64) return 32;
  int team = 64;
  while (team < 1024 && int64_t(team) * 16 < chunks) team *= 2;
  return team;
}
int leaves(const LossCudaRows& p, void* stream) { return p.leaves ? device::launch(leaf_kernel, device::blocks_for(p.t.tokens, kLossLeaf), kLossLeaf, 0, stream, p) : 0; }
template <class T, class U> int rows(const LossCudaRows& p, void* stream) {
  if (p.rows == 0) return 0;
  if constexpr (sizeof(T) < 8 && std::is_same_v<T, U>)
    if (const int e = loss_short_rows[kDTypeOf<T>](p, stream); e != kLossNotHeld) return e ? e : leaves(p, stream);
  if constexpr (sizeof(T) < 8) {
    const auto held = std::is_same_v<T, U> ? loss_held_kernels.rows[kDTypeOf<T>] : loss_held_kernels.rows_to_bf16;
    if (const int e = held(p, stream); e != kLossNotHeld) return e;
  }
  const dim3 block = block_of(threads_of(p.columns, kChunk<T>));
  const auto kernel = p.bias || p.softcap > 0 ? rows_kernel<true, T, U> : rows_kernel<false, T, U>;
  const int e = device::launch(kernel, device::blocks_for(p.rows, block.y), block, 0, stream, p);
  return e ? e : leaves(p, stream);
}
template <class A> int total(const LossCudaTotal& p, void* stream) { return device::launch(total_kernel<A>, 1, 1024, 0, stream, p); }
template <class A> int sum(const LossCudaSum& p, void* stream) {
  const unsigned parts = p.t.per_token ? device::blocks_for(p.t.tokens, 1024) : parts_of(p.t.tokens);
  const int e = device::launch(sum_kernel<A>, parts, 1024, 0, stream, p);
  return e || p.t.per_token || parts == 1 ? e : join<A>(p, parts, stream);
}
template <class E> constexpr ByDType<E> accumulators(E of_f32, E of_f64) {
  ByDType<E> table;
  table[DType::f32] = of_f32, table[DType::f64] = of_f64;
  return table;
}
constexpr LossCudaKernels kKernels = {
    accumulators<int (*)(const LossCudaTokens&, void*)>(denominator<float>, denominator<double>),
    device::floating<int (*)(const LossCudaRows&, void*)>(rows<f16, f16>, rows<bf16, bf16>, rows<float, float>, rows<double, double>),
    rows<float, bf16>,
    accumulators<int (*)(const LossCudaSum&, void*)>(sum<float>, sum<double>), accumulators<int (*)(const LossCudaTotal&, void*)>(total<float>, total<double>), keep};

}  // namespace
}  // namespace BARACUDA_ISA

extern const LossCudaKernels loss_cuda_kernels = kKernels;

}  // namespace baracuda
