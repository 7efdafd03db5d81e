// y = act(gate) up / scale in 8 bits: 2 sizeof(T) + 1 bytes per element; the floor is memory bandwidth. A given scale: a map; where all is flat a thread
// has two units of eight on their way. The scale of each row: a team of threads (device/row_team.cuh) holds the row's values, so that it is read once;
// rows that no team holds, or that have no whole chunks, are read twice.
#include "baracuda/device/async_lines.cuh"
#include "baracuda/device/map.cuh"
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/gated/gated_quantize_cuda.hpp"
#include "baracuda/ops/gated/gated_quantize_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace gated {

// A value on its way to a code.
struct Coded {
  Pack<brief, 1> v;
  static __device__ __forceinline__ Coded of(float x) { return {Pack<brief, 1>::of(x)}; }
};
// Two codes, that of `low` in the low byte.
__device__ __forceinline__ uint32_t two_codes(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  const auto code = [](float x) { return uint32_t(from_float<f8_e4m3fn>(saturated<f8_e4m3fn>(Pack<float, 1>::of(x)).v).bits); };
  return code(low) | code(high) << 8;
#endif
}

}  // namespace gated
namespace device_map {
template <> struct Lane<gated::Coded> {
  using A = gated::Coded;
  static __device__ __forceinline__ A zero() { return {0}; }
  template <class E> static __device__ __forceinline__ A of(E e) { return {Lane<Pack<brief, 1>>::of(e)}; }
  template <class E> static __device__ __forceinline__ E as(A a) { return {uint8_t(gated::two_codes(a.v.v, 0))}; }
};
}  // namespace device_map

namespace {
using namespace gated;
using device_map::Lane;
using device_map::Vector;
using row_team::Packed;

template <class A> __device__ __forceinline__ float made_of(const A& a, float g, float u) {
  using V = Pack<brief, 1>;
  return gate(a.act(V::of(g)), a.up(V::of(u))).v;
}
// N codes side by side.
template <int N, class F> __device__ __forceinline__ Vector<f8_e4m3fn, N> codes_of(F v) {
  device_map::Words<f8_e4m3fn, N> w;
#pragma unroll
  for (int j = 0; j < N; j += 4) w.word[j / 4] = two_codes(v(j), v(j + 1)) | two_codes(v(j + 2), v(j + 3)) << 16;
  return __builtin_bit_cast(Vector<f8_e4m3fn, N>, w);
}

// --- a given scale
template <class A> struct Quantized {
  static constexpr int in = 2, out = 1;
  A a;
  const float* scale;
  BARACUDA_HD static constexpr bool needs(int) { return true; }
  __device__ __forceinline__ void operator()(const Coded* x, Coded* y) const { y[0] = Coded::of(made_of(a, x[0].v.v, x[1].v.v) * factor_of(*scale)); }
};
template <class A> struct Flat {
  const void *gate, *up;
  void* y;
  const float* scale;
  int64_t n;
  A a;
};
constexpr int kFlatBlock = 256, kTurns = 2;
template <class A, class T> __global__ void __launch_bounds__(kFlatBlock) flat_kernel(const __grid_constant__ Flat<A> f) {
  constexpr int N = row_team::kChunk<T>;
  const int64_t units = f.n / N;
  const T *const gate = static_cast<const T*>(f.gate), *const up = static_cast<const T*>(f.up);
  f8_e4m3fn* const y = static_cast<f8_e4m3fn*>(f.y);
  const float factor = factor_of(*f.scale);
  for (int64_t i = int64_t(blockIdx.x) * (kTurns * kFlatBlock) + threadIdx.x; i < units; i += int64_t(gridDim.x) * (kTurns * kFlatBlock)) {
    Packed<T> g[kTurns], u[kTurns];
#pragma unroll
    for (int k = 0; k < kTurns; ++k)
      if (i + k * kFlatBlock < units) g[k] = Packed<T>::load(gate + (i + k * kFlatBlock) * N), u[k] = Packed<T>::load(up + (i + k * kFlatBlock) * N);
#pragma unroll
    for (int k = 0; k < kTurns; ++k)
      if (i + k * kFlatBlock < units)
        *reinterpret_cast<Vector<f8_e4m3fn, N>*>(y + (i + k * kFlatBlock) * N) = codes_of<N>([&](int j) { return made_of(f.a, g[k][j].v, u[k][j].v) * factor; });
  }
  if (blockIdx.x == 0 && int64_t(threadIdx.x) < f.n - units * N) {
    const int64_t i = units * N + threadIdx.x;
    y[i].bits = uint8_t(two_codes(made_of(f.a, value(gate[i]).v, value(up[i]).v) * factor, 0));
  }
}
template <class A, class T> int given(const GatedQuantizeCuda& g, void* stream) {
  device::Operand all[3] = {g.operand[0], g.operand[1], g.operand[2]};
  const A a = made<A>(g.alpha, g.limit);
  const auto walk = device::walk<3>(g.shape, all, 2, row_team::kChunk<T>);
  if (walk.flat) {
    if (walk.threads() == 0) return 0;
    const Flat<A> f{all[0].data, all[1].data, const_cast<void*>(all[2].data), g.scale, walk.units * walk.lanes + walk.rest, a};
    return device::launch(flat_kernel<A, T>, device::blocks_for(walk.threads(), kTurns * kFlatBlock), kFlatBlock, 0, stream, f);
  }
  return device_map::map<Quantized<A>, T, f8_e4m3fn, Coded>({a, g.scale}, g.shape, g.operand, stream);
}

// --- rows
template <class A> struct Rows { GatedQuantizeRowsCuda p; A a; };
__device__ __forceinline__ float larger_finite(float most, float v) { return fabsf(v) < float(kInf) ? fmaxf(most, fabsf(v)) : most; }
struct Larger { __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); } };
// Rows of whole chunks. A thread's chunks of gate and up lie in shared memory, where its values take their place until codes are made of them; then the next
// row's come. Nobody else has them, so that no barrier stands between.
template <class A, class T> __global__ void __launch_bounds__(row_team::kMostTeam, 2) held_kernel(const __grid_constant__ Rows<A> r) {
  constexpr int N = row_team::kChunk<T>;
  using Values = Vector<float, N>;
  extern __shared__ uint4 slots[];
  __shared__ float shared[2][64];
  const GatedQuantizeRowsCuda& p = r.p;
  const row_team::Team t(p.team);
  const int n = int(p.n), across = t.size * N, block = int(blockDim.x);
  const int64_t rows = p.rows.units, step = t.row_step();
  uint4* const own = slots + threadIdx.x;  // chunk c: gate at 2 c, up at 2 c + 1, a block apart
  struct Row { const T *gate, *up; f8_e4m3fn* y; float* scale; };
  const auto row_at = [&](int64_t first) {
    int64_t at[4];
    p.rows.offsets(first + t.slot < rows ? first + t.slot : first, at);
    return Row{static_cast<const T*>(p.gate) + at[0], static_cast<const T*>(p.up) + at[1], static_cast<f8_e4m3fn*>(p.y) + at[2], p.scale + at[3]};
  };
  const auto fetch = [&](const Row& row, int i, uint4* slot) { device_lines::copy_line(slot, row.gate + i), device_lines::copy_line(slot + block, row.up + i); };
  int64_t first = t.first_row();
  bool other = false;  // memory of this row's largest
  Row row{}, next{};
  if (first < rows) {
    next = row_at(first);
    uint4* slot = own;
    for (int i = t.thread * N; i < n; i += across, slot += 2 * block) fetch(next, i, slot);
    device_lines::commit_lines();
  }
  for (; first < rows; first += step, other = !other) {
    row = next;
    const bool live = first + t.slot < rows, more = first + step < rows;
    float most = 0;
    device_lines::wait_for_lines<0>();
    uint4* slot = own;
#pragma unroll 1
    for (int i = t.thread * N; i < n; i += across, slot += 2 * block) {
      const Packed<T> g = Packed<T>::load(slot), u = Packed<T>::load(slot + block);
      Values v;
#pragma unroll
      for (int j = 0; j < N; ++j) v.lane[j] = made_of(r.a, g[j].v, u[j].v);
      float largest = most;
#pragma unroll
      for (int j = 0; j < N; ++j) largest = fmaxf(largest, fabsf(v.lane[j]));
      if (largest < float(kInf)) most = largest;
      else
#pragma unroll
        for (int j = 0; j < N; ++j) most = larger_finite(most, v.lane[j]);
#pragma unroll
      for (int j = 0; j < N; j += 4) slot[j / 4 * block] = make_uint4(__float_as_uint(v.lane[j]), __float_as_uint(v.lane[j + 1]), __float_as_uint(v.lane[j + 2]), __float_as_uint(v.lane[j + 3]));
    }
    if (more) next = row_at(first + step);
    const float scale = row_scale(t.over(most, 0.0f, shared[other], Larger{})), factor = factor_of(scale);
    if (live && t.thread == 0) *row.scale = scale;
    slot = own;
#pragma unroll 2
    for (int i = t.thread * N; i < n; i += across, slot += 2 * block) {
      Values v;
#pragma unroll
      for (int j = 0; j < N; j += 4) {
        const uint4 q = slot[j / 4 * block];
        v.lane[j] = __uint_as_float(q.x), v.lane[j + 1] = __uint_as_float(q.y), v.lane[j + 2] = __uint_as_float(q.z), v.lane[j + 3] = __uint_as_float(q.w);
      }
      if (live) *reinterpret_cast<Vector<f8_e4m3fn, N>*>(row.y + i) = codes_of<N>([&](int j) { return v.lane[j] * factor; });
      if (more) fetch(next, i, slot);
    }
    device_lines::commit_lines();
  }
}
template <class A, class T> __global__ void __launch_bounds__(row_team::kMostTeam) any_kernel(const __grid_constant__ Rows<A> r) {
  __shared__ float shared[2][64];
  const GatedQuantizeRowsCuda& p = r.p;
  const row_team::Team t(p.team);
  bool other = false;
  for (int64_t first = t.first_row(); first < p.rows.units; first += t.row_step(), other = !other) {
    const bool live = first + t.slot < p.rows.units;
    int64_t at[4];
    p.rows.offsets(live ? first + t.slot : first, at);
    const T *const gate = static_cast<const T*>(p.gate) + at[0], *const up = static_cast<const T*>(p.up) + at[1];
    const auto each = [&](auto f) {
#pragma unroll 4
      for (int64_t i = t.thread; i < p.n; i += t.size) f(i, made_of(r.a, value(gate[i * p.step[0]]).v, value(up[i * p.step[1]]).v));
    };
    float most = 0;
    each([&](int64_t, float v) { most = larger_finite(most, v); });
    const float scale = row_scale(t.over(most, 0.0f, shared[other], Larger{})), factor = factor_of(scale);
    if (!live) continue;
    if (t.thread == 0) p.scale[at[3]] = scale;
    f8_e4m3fn* const y = static_cast<f8_e4m3fn*>(p.y) + at[2];
    each([&](int64_t i, float v) { y[i * p.step[2]].bits = uint8_t(two_codes(v * factor, 0)); });
  }
}
// Chunks of a thread, where a team has so many threads, for a few rows and for many; threads of a multiprocessor's blocks, one after the other where
// they do not fit.
constexpr int kChunks = 4, kManyChunks = 8, kManyRows = 1024, kThreads = 8192;
// Bytes of shared memory that a block may have for its row.
bool fits(size_t bytes) {
  int device = 0, given = 0;
  return bytes <= row_team::kMostAhead || (cudaGetDevice(&device) == cudaSuccess && cudaDeviceGetAttribute(&given, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
                                           bytes <= size_t(given) - 8 * 1024);
}
template <class A, class T> int dynamic(const GatedQuantizeRowsCuda& p, void* stream) {
  constexpr int N = row_team::kChunk<T>;
  Rows<A> r{p, made<A>(p.alpha, p.limit)};
  const auto shape_of = [&](int each) {
    const auto shape = row_team::TeamShape::of(std::min<int64_t>(p.n, row_team::kMostTeam * each), each);
    r.p.team = shape.team;
    return shape;
  };
  const auto shape = shape_of((p.rows.units < kManyRows ? kChunks : kManyChunks) * N);
  const size_t bytes = row_team::ahead_bytes(2, int(std::min<int64_t>(device::ceil_div(p.n, int64_t(shape.team) * N), 1 << 16)), shape.block);
  bool whole = fits(bytes);
  const void* const data[] = {p.gate, p.up, p.y};
  for (int k = 0; k < 3; ++k) whole = whole && p.step[k] == 1 && row_team::whole_chunks<T>(p.rows, k, data[k], p.n);
  if (whole) return row_team::launch(held_kernel<A, T>, shape, p.rows.units, bytes, stream, r, kThreads);
  const auto any = shape_of(8);
  return device::launch(any_kernel<A, T>, device::blocks_for(p.rows.units, any.slots()), unsigned(any.block), 0, stream, r);
}
template <class... A> constexpr GatedQuantizeCudaKernels kernels(Acts<A...>) {
  using Given = int (*)(const GatedQuantizeCuda&, void*);
  using Dynamic = int (*)(const GatedQuantizeRowsCuda&, void*);
  return {{device::floating<Given>(given<A, f16>, given<A, bf16>, given<A, float>, nullptr)...},
          {device::floating<Dynamic>(dynamic<A, f16>, dynamic<A, bf16>, dynamic<A, float>, nullptr)...}};
}

}  // namespace
}  // namespace baracuda::inline BARACUDA_ISA

namespace baracuda {
extern const GatedQuantizeCudaKernels gated_quantize_cuda_kernels = kernels(gated::GatedActs{});
}  // namespace baracuda
