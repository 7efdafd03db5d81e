// Rows of few classes: a block copies several to shared memory, as they lie where they lie close together; part of a warp finds the maximum and the sum of one,
// a thread for each does what is done once a row, and the parts of warps write the gradients, which are copied back. x is read once and dx written once: the floor
// is memory bandwidth. How many lanes take a row, and the order of its sum, depend on its length alone.
#include "baracuda/device/async_lines.cuh"
#include "baracuda/device/launch.hpp"
#include "baracuda/ops/loss/loss_device.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace loss_device;
using device_rows::kChunk;

constexpr int kThreads = 256, kMostRows = 256, kMostClasses = 768;  // of an H200: 1000 in bf16 take 416 us so, 387 by loss_held.cu, 513 326 and 469
constexpr int64_t kBytes = 36 * 1024;  // of rows: five blocks on a multiprocessor

struct Short {
  LossCudaRows rows;
  int each, lanes;       // rows of a block; lanes of a row
  bool dense_x, dense_dx;  // rows one behind the other, from 16 bytes on
};
struct Facts { float most, sum, total; int target; };
template <class T> struct Slope { RowSlope<T, float> of; float most, hit; };

template <int kPer, class T> __device__ __forceinline__ void unpacked(const T* p, float (&v)[kPer]) {
  if constexpr (kPer == 1) v[0] = value(*p).v;
  else if constexpr (sizeof(T) == 4) {
    const float2 two = *reinterpret_cast<const float2*>(p);
    v[0] = two.x, v[1] = two.y;
  } else {
    const uint32_t two = *reinterpret_cast<const uint32_t*>(p);
    v[0] = value(T{uint16_t(two)}).v, v[1] = value(T{uint16_t(two >> 16)}).v;
  }
}
template <int kPer, class T> __device__ __forceinline__ void packed(T* p, const float (&v)[kPer]) {
  if constexpr (kPer == 1) *p = element<T>(Pack<float, 1>::of(v[0]));
  else if constexpr (sizeof(T) == 4) *reinterpret_cast<float2*>(p) = make_float2(v[0], v[1]);
  else *reinterpret_cast<uint32_t*>(p) = uint32_t(narrowed<T>(v[0]).bits) | uint32_t(narrowed<T>(v[1]).bits) << 16;
}

// kPer: elements that lie together in every row, 2 where their number is even.
template <class T, int kPer> __global__ void __launch_bounds__(kThreads) short_kernel(const __grid_constant__ Short h) {
  extern __shared__ uint4 memory[];
  __shared__ Facts facts[kMostRows];
  __shared__ Slope<T> slopes[kMostRows];
  const LossCudaRows& p = h.rows;
  const RowsLeft rows(p.kept, p.first, p.rows);
  const int n = int(p.t.classes), thread = int(threadIdx.x);
  const int64_t first = int64_t(blockIdx.x) * h.each, left = rows.all - first;
  if (left <= 0) return;
  const int here = left < h.each ? int(left) : h.each, count = here * n;
  T* const held = reinterpret_cast<T*>(memory);
  constexpr int K = kChunk<T>;
  const T* const x = static_cast<const T*>(p.x) + first * p.x_pitch;
  if (h.dense_x) {
    for (int i = thread; i < count / K; i += kThreads) device_lines::copy_line(held + i * K, x + i * K);
    if (thread < count % K) held[count / K * K + thread] = x[count / K * K + thread];
  } else
    for (int row = thread / 32; row < here; row += kThreads / 32)
      for (int j = thread % 32; j < n; j += 32) held[row * n + j] = x[row * p.x_pitch + j];
  device_lines::commit_lines();
  const int64_t r = first + thread;
  const int64_t token = r < rows.some ? token_of(p.kept, p.first + r) : 0, target = thread < here && r < rows.some ? target_of(p.t, token) : kIgnored;
  if (thread < here) facts[thread].target = int(target);
  device_lines::wait_for_lines<0>();
  __syncthreads();

  const int lane = thread % h.lanes, step = h.lanes * kPer, together = kThreads / h.lanes;
  for (int begin = 0; begin < here; begin += together) {  // whole warps
    const int row = begin + thread / h.lanes;
    const bool counts = row < here && facts[row].target >= 0;
    const T* const at = held + row * n;
    float most = -INFINITY, sum[kPer] = {}, total = 0;
    if (counts)
#pragma unroll 4
      for (int j = lane * kPer; j < n; j += step) {
        float v[kPer];
        unpacked<kPer>(at + j, v);
#pragma unroll
        for (int i = 0; i < kPer; ++i) most = fmaxf(most, v[i]);
      }
    for (int w = h.lanes / 2; w; w /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, w));
    const float base = most == -INFINITY ? 0 : most;
    if (counts)
#pragma unroll 4
      for (int j = lane * kPer; j < n; j += step) {
        float v[kPer];
        unpacked<kPer>(at + j, v);
#pragma unroll
        for (int i = 0; i < kPer; ++i) sum[i] = sum[i] + term(v[i] - base);
        if (p.smoothing > 0)
#pragma unroll
          for (int i = 0; i < kPer; ++i) total = total + (v[i] - base);
      }
    float all = kPer == 1 ? sum[0] : sum[0] + sum[kPer - 1];
    for (int w = h.lanes / 2; w; w /= 2) all = all + __shfl_xor_sync(0xffffffffu, all, w);
    if (p.smoothing > 0)
      for (int w = h.lanes / 2; w; w /= 2) total = total + __shfl_xor_sync(0xffffffffu, total, w);
    if (counts && lane == 0) facts[row].most = most, facts[row].sum = all, facts[row].total = total;
  }
  __syncthreads();

  if (thread < here && r < rows.some) {
    const double none = target == kInvalid ? double(kNaN) : 0;
    RowLoss made{none, none, none};
    if (target >= 0) {
      const Facts f = facts[thread];
      const float at_target = value(held[thread * n + int(target)]).v;
      const double exps = f.most == -INFINITY ? double(kNaN) : double(f.sum);  // no class has a probability
      const double total = double(f.total) + (f.most == -INFINITY ? double(n) * double(INFINITY) : 0);
      if (p.loss) made = loss_of(p.t, token, exps, f.most, at_target, total, p.smoothing, p.z);
      if (p.dx) {
        const loss::RowGradient k = gradient_of(p.t, upstream(p.t, token), exps, f.most, p.smoothing, p.z);
        slopes[thread] = {RowSlope<T, float>(k.per_exp, k.uniform), f.most, float(at_target_of(k, at_target, f.most))};
      }
    }
    if (p.loss) p.loss[token] = made.loss, p.z_part[token] = made.z;
    if (p.lse_out.data) static_cast<float*>(p.lse_out.data)[p.lse_out.at(token)] = float(made.lse);
  }
  if (!p.dx) return;
  __syncthreads();
  for (int row = thread / h.lanes; row < here; row += kThreads / h.lanes) {
    const int target_here = facts[row].target;
    T* const at = held + row * n;
    const Slope<T> s = slopes[row];
    if (target_here < 0) {
      for (int j = lane; j < n; j += h.lanes) at[j] = T{};
      continue;
    }
#pragma unroll 4
    for (int j = lane * kPer; j < n; j += step) {
      float v[kPer];
      unpacked<kPer>(at + j, v);
#pragma unroll
      for (int i = 0; i < kPer; ++i) v[i] = j + i == target_here ? s.hit : s.of(v[i] - s.most);
      packed<kPer>(at + j, v);
    }
  }
  __syncthreads();
  T* const dx = static_cast<T*>(p.dx) + first * p.dx_pitch;
  if (h.dense_dx) {
    for (int i = thread; i < count / K; i += kThreads) reinterpret_cast<uint4*>(dx)[i] = memory[i];
    if (thread < count % K) dx[count / K * K + thread] = held[count / K * K + thread];
  } else
    for (int row = thread / 32; row < here; row += kThreads / 32)
      for (int j = thread % 32; j < n; j += 32) dx[row * p.dx_pitch + j] = held[row * n + j];
}

template <class T> int short_rows(const LossCudaRows& p, void* stream) {
  const int64_t n = p.t.classes;
  if (p.rows == 0) return 0;
  if (n > kMostClasses || p.lse_in.data || p.bias || p.softcap > 0) return kLossNotHeld;
  constexpr int K = kChunk<T>;
  const auto dense = [&](const void* at, int64_t pitch) { return pitch == n && uintptr_t(at) % 16 == 0; };
  Short h{p, 0, n <= 128 ? 4 : n <= 256 ? 8 : n <= 512 ? 16 : 32, dense(p.x, p.x_pitch), dense(p.dx, p.dx_pitch)};
  const int64_t fit = kBytes / (n * int64_t(sizeof(T))), together = kThreads / h.lanes;
  h.each = int(fit >= kMostRows ? kMostRows : fit >= together ? fit / together * together : fit >= K ? fit / K * K : K);
  const auto kernel = n % 2 == 0 ? short_kernel<T, 2> : short_kernel<T, 1>;
  return device::launch(kernel, device::blocks_for(p.rows, h.each), kThreads, size_t(h.each) * size_t(n) * sizeof(T), stream, h);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<int (*)(const LossCudaRows&, void* stream)> loss_short_rows = [] {
  ByDType<int (*)(const LossCudaRows&, void* stream)> table;
  table[DType::f16] = short_rows<f16>, table[DType::bf16] = short_rows<bf16>, table[DType::f32] = short_rows<float>;
  return table;
}();

}  // namespace baracuda
