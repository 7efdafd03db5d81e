// Rows of LayerNorm and RmsNorm too long for registers, after channels.cu found what each row keeps. A thread has 16 bytes of columns
// and goes down the rows of its segment with its parts of dweight and dbias; another kernel adds the segments. Reads x (dy and x), writes
// y (dx): with the pass for the sums one tensor's (two tensors') bytes more than the floor.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/norm/norm_long_cuda.hpp"
#include "baracuda/ops/norm/norm_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace row_team;
using V = Pack<float, 1>;

constexpr int kThreads = 256;
// A thread's columns of a vector, `none` where it is absent.
template <class T> struct Columns {
  V v[kChunk<T>];
  __device__ __forceinline__ Columns(const ChannelVector& from, int i, int n, double none) {
#pragma unroll
    for (int j = 0; j < kChunk<T>; ++j) {
      v[j] = none;
      if (!from.data || i + j >= n) continue;
      if (from.f32) v[j] = V::of(static_cast<const float*>(from.data)[(i + j) * from.stride]);
      else v[j] = value(static_cast<const T*>(from.data)[(i + j) * from.stride]);
    }
  }
};
template <class T> __device__ __forceinline__ V rounded_to(V v) { return Packed<T, 4 / int(sizeof(T))>::rounded([&](int) { return v; })[0]; }

template <class T, bool kBackward, bool kWhole> __global__ void __launch_bounds__(kThreads) long_kernel(const __grid_constant__ NormLongCuda p) {
  constexpr int N = kChunk<T>;
  const Team t(kThreads);
  const int n = int(p.n), i = int(blockIdx.x * kThreads + threadIdx.x) * N;
  const int64_t rows = p.rows.units, each = (rows + p.segments - 1) / p.segments, begin = blockIdx.y * each, end = begin + each < rows ? begin + each : rows;
  const Columns<T> bias(p.bias, i, n, -0.0);
  Columns<T> w(p.weight, i, n, p.one_plus ? 0 : 1);
  if (p.one_plus)
#pragma unroll
    for (int j = 0; j < N; ++j) w.v[j] = V(1) + w.v[j];
  V dw[N], db[N];
#pragma unroll
  for (int j = 0; j < N; ++j) dw[j] = 0, db[j] = 0;
#pragma unroll 2
  for (int64_t r = begin; r < end; ++r) {
    int64_t at[4];
    p.rows.offsets(r, at);
    const ListKept<float> k = static_cast<const ListKept<float>*>(p.kept)[r];
    const V shift = V::of(k.shift), rest = V::of(k.rest), scale = V::of(k.scale), mean_g = V::of(k.mean_g), minus_dot = V::of(k.minus_dot);
    const auto load = [&](const void* from, int64_t offset) {
      const T* const row = static_cast<const T*>(from) + offset;
      if constexpr (kWhole) return i < n ? Packed<T>::load(row + i) : Packed<T>{};
      else return load_shifted(row, i, n, misplaced(row));
    };
    const Packed<T> x = load(p.x, at[0]);
    Packed<T> out, dy{}, dh{};
    if constexpr (kBackward) {
      dy = load(p.dy, at[1]);
      if (p.dh) dh = load(p.dh, at[3]);
      out = Packed<T>::rounded([&](int j) {
        const V e = dy[j], xhat = normalized(x[j], shift, rest, scale);
        dw[j] = fma(e, p.cast_first ? rounded_to<T>(xhat) : xhat, dw[j]), db[j] = db[j] + e;
        const V d = input_gradient(e, w.v[j], xhat, mean_g, minus_dot, scale);
        return p.dh ? d + dh[j] : d;
      });
    } else
      out = Packed<T>::rounded([&](int j) {
        const V v = normalized(x[j], shift, rest, scale);
        return fma(p.cast_first ? rounded_to<T>(v) : v, w.v[j], bias.v[j]);
      });
    T* const y = static_cast<T*>(p.y) + at[2];
    if constexpr (!kWhole) store_shifted(y, i, n, misplaced(y), out, t);
    else if (i < n) out.store(y + i);
  }
  if constexpr (kBackward)
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (i + j >= n) continue;
      if (p.dweight) static_cast<float*>(p.dweight)[blockIdx.y * p.n + i + j] = dw[j].v;
      if (p.dbias) static_cast<float*>(p.dbias)[blockIdx.y * p.n + i + j] = db[j].v;
    }
}
template <class T, bool kBackward> int run(const NormLongCuda& p, void* stream) {
  const void* const data[] = {p.x, p.dy, p.y, p.dh};
  bool whole = true;
  for (int k = 0; k < 4; ++k) whole = whole && whole_chunks<T>(p.rows, k, data[k], p.n);
  const dim3 grid(unsigned(device::ceil_div(p.n, kThreads * kChunk<T>)), unsigned(p.segments));
  return device::launch(whole ? long_kernel<T, kBackward, true> : long_kernel<T, kBackward, false>, grid, dim3(kThreads), 0, stream, p);
}
template <bool kBackward> constexpr auto table() {
  return device::floating<int (*)(const NormLongCuda&, void*)>(run<f16, kBackward>, run<bf16, kBackward>, run<float, kBackward>, nullptr);
}
constexpr NormLongCudaKernels kKernels = {table<false>(), table<true>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const NormLongCudaKernels norm_long_cuda = kKernels;
int64_t norm_long_segments(int64_t rows, int64_t n, int size) {
  const int64_t tiles = device::ceil_div(n, kThreads * (16 / size)), wanted = device::ceil_div(132 * 8, tiles), most = device::ceil_div(rows, 8);
  return wanted < most ? wanted : most;
}

}  // namespace baracuda
