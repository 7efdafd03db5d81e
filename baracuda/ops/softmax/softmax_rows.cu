// Dense rows of softmax in registers (device/row_team.cuh): max, sum of exp, factor. Reads x and writes y once (backward: dy, y and dx):
// the floor is memory bandwidth. f32 takes exp_up; halves the processor's exp2, whose error of 2^-22 their rounding hides.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/softmax/softmax_cuda.hpp"
#include "baracuda/ops/softmax/softmax_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace row_team;
using V = Pack<float, 1>;

constexpr int kEach = 32;  // elements of a thread
template <class T> constexpr int kChunks = kEach / kChunk<T>;

__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// exp(d) for d <= 0, times kScale.
template <class T> struct Exp {
  static constexpr double kScale = kIsHalf<T> ? 1 : 1 / kDown<V>;
  __device__ static V of(V d) {
    if constexpr (kIsHalf<T>) return V::of(exp2_of((d * V(0x1.715476p0)).v));
    else return exp_up(d);
  }
};
template <class T> __global__ void __launch_bounds__(kMostTeam, 1) forward_kernel(const __grid_constant__ SoftmaxCuda p) {
  constexpr int N = kChunk<T>;
  __shared__ float shared[2][32];
  const Team t(p.team);
  const int64_t n = p.n, step = int64_t(gridDim.x) * t.slots;
  for (int64_t first = int64_t(blockIdx.x) * t.slots; first < p.lines.units; first += step) {
    const bool live = first + t.slot < p.lines.units;
    int64_t at[4];
    p.lines.offsets(live ? first + t.slot : first, at);
    const T* const x = static_cast<const T*>(p.in) + at[0];
    T* const y = static_cast<T*>(p.out) + at[3];
    const int64_t m = live ? n : 0;
    Held<T, kChunks<T>> raw;
    raw.load(x, m, t, aligned16(x));
    const V factor = p.negate ? -p.scale : p.scale;
    V v[kChunks<T>][N];
    V top = -kInf;
#pragma unroll
    for (int c = 0; c < kChunks<T>; ++c) {
      const int64_t i = (int64_t(c) * t.size + t.thread) * N;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        v[c][j] = i + j < m ? value(raw.chunk[c].lane[j]) * factor : V(-kInf);
        top = larger(v[c][j], top);
      }
    }
    top = V::of(t.over(top.v, shared[0], [](float a, float b) { return larger(V::of(a), V::of(b)).v; }));
    const V base = softmax::base(top);
    V sum = 0;
#pragma unroll
    for (int c = 0; c < kChunks<T>; ++c)
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const V e = Exp<T>::of(v[c][j] - base);
        if (!p.log) v[c][j] = e;
        sum = sum + e;
      }
    sum = V::of(t.over(sum.v, shared[1], [](float a, float b) { return a + b; }));
    V first_factor = 0, second_factor = 1, log_sum = 0;
    if (p.log) log_sum = where(top == -kInf, V(kNaN), log(sum * V(1 / Exp<T>::kScale)));
    else if constexpr (kIsHalf<T>) first_factor = where(top == -kInf, p.safe ? where(is_nan(sum), sum, V(0)) : V(kNaN), V(1) / sum);
    else softmax::factor(top, softmax::weight(top, base), sum, p.safe, first_factor, second_factor);
    const bool aligned = aligned16(y);
    each_chunk<T, kChunks<T>>(m, t, [&](int c, int64_t i) {
      store_chunk(y + i, chunk_of<T>([&](int j) {
                    if (p.log) return softmax::log_value(v[c][j], top, log_sum);
                    if constexpr (kIsHalf<T>) return v[c][j] * first_factor;
                    else return softmax::value(v[c][j], first_factor, second_factor);
                  }), m - i, aligned);
    });
  }
}
template <class T> __global__ void __launch_bounds__(kMostTeam, 1) backward_kernel(const __grid_constant__ SoftmaxCuda p) {
  constexpr int N = kChunk<T>;
  __shared__ float shared[32];
  const Team t(p.team);
  const int64_t n = p.n, step = int64_t(gridDim.x) * t.slots;
  for (int64_t first = int64_t(blockIdx.x) * t.slots; first < p.lines.units; first += step) {
    const bool live = first + t.slot < p.lines.units;
    int64_t at[4];
    p.lines.offsets(live ? first + t.slot : first, at);
    const T *const dy = static_cast<const T*>(p.in) + at[0], *const y = static_cast<const T*>(p.second) + at[1];
    T* const dx = static_cast<T*>(p.out) + at[3];
    const int64_t m = live ? n : 0;
    Held<T, kChunks<T>> dys, ys;
    dys.load(dy, m, t, aligned16(dy)), ys.load(y, m, t, aligned16(y));
    V sum = -0.0;
    each_chunk<T, kChunks<T>>(m, t, [&](int c, int64_t i) {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const V e = value(dys.chunk[c].lane[j]), added = p.log ? sum + e : fma(e, value(ys.chunk[c].lane[j]), sum);
        if (i + j < m) sum = added;
      }
    });
    const V dot = V::of(t.over(sum.v, shared, [](float a, float b) { return a + b; })), sign = p.sign;
    const bool aligned = aligned16(dx);
    each_chunk<T, kChunks<T>>(m, t, [&](int c, int64_t i) {
      store_chunk(dx + i, chunk_of<T>([&](int j) {
                    const V e = value(dys.chunk[c].lane[j]), v = value(ys.chunk[c].lane[j]);
                    if (!p.log) return softmax::slope(e, v, dot, sign);
                    if constexpr (kIsHalf<T>) return sign * fma(-V::of(exp2_of((v * V(0x1.715476p0)).v)), dot, e);
                    else return softmax::log_slope(e, v, dot, sign);
                  }), m - i, aligned);
    });
  }
}
template <class T, bool kBackward> int rows(const SoftmaxCuda& given, void* stream) {
  SoftmaxCuda p = given;
  p.team = team_for(p.n, kEach);
  const int block = block_for(p.team);
  return device::launch(kBackward ? backward_kernel<T> : forward_kernel<T>, device::blocks_for(p.lines.units, block / p.team), dim3(unsigned(block)), 0, stream, p);
}
template <bool kBackward> constexpr ByDType<SoftmaxLaunch> by_dtype_of() {
  return device::floating<SoftmaxLaunch>(rows<f16, kBackward>, rows<bf16, kBackward>, rows<float, kBackward>, nullptr);
}
constexpr SoftmaxRowsCuda kRows = {by_dtype_of<false>(), by_dtype_of<true>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SoftmaxRowsCuda softmax_rows_cuda = kRows;
bool softmax_cuda_row(const SoftmaxCuda& p) { return !p.columns && p.stage == SoftmaxStage::whole && team_for(p.n, kEach) <= kMostTeam; }

}  // namespace baracuda
