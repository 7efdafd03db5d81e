// Rows of logits to losses and gradients: m and sum exp(x - m) in one pass (a thread keeps a running maximum and rescales its sum
// when it grows: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018), then
// g ((1 + 2 z lse) exp(x - m) / sum - eps / n - (1 - eps) onehot). Reads x twice, the second time from the caches, and writes dx:
// the floor is memory bandwidth. A team of threads takes a row (device/rows.cuh). The denominator of a mean is counted on the
// device, and the sum over tokens is a tree that depends on their number alone.
#include "baracuda/device/rows.cuh"
#include "baracuda/ops/loss/loss_cuda.hpp"
#include "baracuda/ops/loss/loss_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace device_rows;
using Double = Pack<double, 1>;

constexpr int64_t kIgnored = -1, kInvalid = -2;
__device__ int64_t target_of(const LossCudaTokens& t, int64_t token) {
  const int64_t at = t.target.at(token);
  const int64_t v = t.target_i32 ? int64_t(static_cast<const int32_t*>(t.target.data)[at]) : static_cast<const int64_t*>(t.target.data)[at];
  if (v == t.ignore_index) return kIgnored;
  if (v >= 0 && v < t.classes) return v;
  return t.invalid_is_zero ? kIgnored : kInvalid;
}
template <class A> __device__ double read(const DeviceVector& v, int64_t i, double absent) {
  return v.data ? double(static_cast<const A*>(v.data)[v.at(i)]) : absent;
}

template <class A> __global__ void __launch_bounds__(1024) denominator_kernel(const __grid_constant__ LossCudaTokens t) {
  __shared__ double shared[32];
  double sum = 0;
  if (t.mean)
    for (int64_t i = threadIdx.x; i < t.tokens; i += 1024)
      if (target_of(t, i) != kIgnored) sum = sum + (t.over_weights ? read<A>(t.weights, i, 1) : 1);
  sum = team_sum(sum, shared);
  if (threadIdx.x == 0) *t.factor = !t.mean ? 1 : sum == 0 ? 0 : 1 / sum;
}

template <class A> __device__ __forceinline__ A row_value(const LossCudaRows& p, A v, int64_t j) {
  using V = Pack<A, 1>;
  V x = V::of(v);
  if (p.bias) x = x + V::of(static_cast<const A*>(p.bias)[j]);
  if (p.softcap > 0) x = loss::cap(x, V(p.softcap));
  return x.v;
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

template <class T, class U> __global__ void __launch_bounds__(1024) rows_kernel(const __grid_constant__ LossCudaRows p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  __shared__ double shared[32];
  const int64_t n = p.t.classes, start = int64_t(threadIdx.x) * kChunk<T>, step = int64_t(blockDim.x) * kChunk<T>;
  for (int64_t r = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; r < p.rows; r += int64_t(gridDim.x) * blockDim.y) {
    const int64_t token = p.first + r, target = target_of(p.t, token);
    const T* x = static_cast<const T*>(p.x) + r * p.x_pitch;
    U* dx = p.dx ? static_cast<U*>(p.dx) + r * p.dx_pitch : nullptr;
    const bool ax = aligned16(x);
    if (target < 0) {
      if (dx)
        for (int64_t j = threadIdx.x; j < n; j += blockDim.x) dx[j] = U{};
      if (threadIdx.x == 0 && p.loss) {
        const double none = target == kInvalid ? double(kNaN) : 0;
        p.loss[token] = p.z_part[token] = none;
        if (p.lse_out.data) static_cast<A*>(p.lse_out.data)[p.lse_out.at(token)] = A(none);
      }
      continue;
    }
    A m;
    double exps = 1, lse;
    // Read before dx, which may be the same memory, is written.
    const A at_target = row_value<A>(p, load<1>(x + target).v, target);
    if (p.lse_in.data) {
      lse = read<A>(p.lse_in, token, 0);
      m = A(lse);
    } else {
      A mine = A(-kInf), sum = 0;
      for (int64_t i = start; i < n; i += step) {
        const auto c = load_chunk(x + i, n - i, ax);
        A v[kChunk<T>], most = mine;
#pragma unroll
        for (int j = 0; j < kChunk<T>; ++j) {
          v[j] = i + j < n ? row_value<A>(p, load<1>(&c.lane[j]).v, i + j) : A(-kInf);
          most = max_nan(V::of(most), V::of(v[j])).v;
        }
        if (most != mine) {  // the first values, larger ones, NaN
          sum = mine == A(-kInf) ? A(0) : (V::of(sum) * exp(V::of(mine) - V::of(most))).v;
          mine = most;
        }
        if (mine == A(-kInf)) continue;
#pragma unroll
        for (int j = 0; j < kChunk<T>; ++j)
          if (i + j < n) sum = sum + exp(V::of(v[j]) - V::of(mine)).v;
      }
      m = team_max(mine, shared);
      const double part = mine == A(-kInf) ? 0 : double(sum) * (exp(Double(double(mine)) - Double(double(m)))).v;
      exps = team_sum(part, shared);
      if (m == A(-kInf)) exps = kNaN;  // no class has a probability
      double total = 0;
      if (p.smoothing > 0) {
        for (int64_t i = start; i < n; i += step) {
          const auto c = load_chunk(x + i, n - i, ax);
          A s = 0;
#pragma unroll
          for (int j = 0; j < kChunk<T>; ++j)
            if (i + j < n) s = s + (row_value<A>(p, load<1>(&c.lane[j]).v, i + j) - m);
          total = total + double(s);
        }
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
    __syncwarp();
    if (blockDim.x > 32) __syncthreads();  // at_target was read by all
    const double upstream = read<A>(p.t.dloss, p.t.per_token ? token : 0, 1);
    const double g = read<A>(p.t.weights, token, 1) * (upstream * p.t.scale) * *p.t.factor;
    const loss::RowGradient k = loss::row_gradient(g, exps, lse, double(n), p.smoothing, p.z);
    const V factor = k.per_exp, uniform = -k.uniform, cap = p.softcap;
    const bool adx = aligned16(dx) && sizeof(T) == sizeof(U);
    for (int64_t i = start; i < n; i += step) {
      const auto c = load_chunk(x + i, n - i, ax);
      Chunk<U, kChunk<T>> out;
#pragma unroll
      for (int j = 0; j < kChunk<T>; ++j) {
        if (i + j >= n) continue;
        const V v = V::of(row_value<A>(p, load<1>(&c.lane[j]).v, i + j));
        if (i + j == target) {
          Double d = Double(k.per_exp) * Double(double(exp(v - V::of(m)).v)) - Double(k.uniform) - Double(k.hit);
          if (p.softcap > 0) d = d * loss::cap_slope(Double(double(v.v)), Double(p.softcap));
          out.lane[j] = from_double<U>(d.v);
          continue;
        }
        V d = fma(factor, exp(v - V::of(m)), uniform);
        if (p.softcap > 0) d = d * loss::cap_slope(v, cap);
        store<U, 1>(&out.lane[j], convert<Acc<U>>(d));
      }
      if (adx && n - i >= kChunk<T>) *reinterpret_cast<Chunk<U, kChunk<T>>*>(dx + i) = out;
      else
        for (int j = 0; j < kChunk<T> && i + j < n; ++j) dx[i + j] = out.lane[j];
    }
  }
}

template <class A> __global__ void __launch_bounds__(1024) sum_kernel(const __grid_constant__ LossCudaSum p) {
  __shared__ double shared[32];
  if (p.t.per_token) {
    for (int64_t i = int64_t(blockIdx.x) * 1024 + threadIdx.x; i < p.t.tokens; i += int64_t(gridDim.x) * 1024)
      static_cast<A*>(p.out.data)[p.out.at(i)] = A(p.per_token[i]);
    return;
  }
  double sum = 0;
  for (int64_t i = threadIdx.x; i < p.t.tokens; i += 1024) sum = sum + p.per_token[i];
  sum = team_sum(sum, shared);
  if (threadIdx.x == 0) static_cast<A*>(p.out.data)[p.out.at(0)] = A(sum * *p.t.factor);
}

template <class A> int denominator(const LossCudaTokens& t, void* stream) { return device::launch(denominator_kernel<A>, 1, 1024, 0, stream, t); }
template <class T, class U> int rows(const LossCudaRows& p, void* stream) {
  if (p.rows == 0) return 0;
  const dim3 block = block_of(team_size(p.t.classes, kChunk<T>));
  return device::launch(rows_kernel<T, U>, device::blocks_for(p.rows, block.y), block, 0, stream, p);
}
template <class A> int sum(const LossCudaSum& p, void* stream) {
  return device::launch(sum_kernel<A>, p.t.per_token ? device::blocks_for(p.t.tokens, 1024) : 1, 1024, 0, stream, p);
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
    accumulators<int (*)(const LossCudaSum&, void*)>(sum<float>, sum<double>)};

}  // namespace
}  // namespace BARACUDA_ISA

extern const LossCudaKernels loss_cuda_kernels = kKernels;

}  // namespace baracuda
