// Adam: one kernel makes the constants of a step, so that step, lr, scale and found_inf may lie on the device; then a block takes a chunk of a
// tensor of the list, four elements a thread. Streams as on the CPU: memory bandwidth is the floor. Norm: a fixed number of blocks go through the
// chunks of the list in turn, f64 sums per thread, then the block's tree; a second kernel adds the blocks in a tree.
#include "baracuda/device/half.cuh"
#include "baracuda/device/rows.cuh"
#include "baracuda/ops/optim/optim_cuda.hpp"
#include "baracuda/ops/optim/optim_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace device_rows;

constexpr int kBlock = 256;

__global__ void constants_kernel(const __grid_constant__ AdamCudaConstants p) {
  const bool skip = p.found_inf && *p.found_inf != 0;
  p.out->skip = skip;
  if (skip) return;
  const int64_t step = p.steps ? ++*p.steps : p.step;
  p.out->s = optim::adam_step(p.settings, step, p.lr_tensor ? double(*p.lr_tensor) : p.lr, p.grad_scale ? double(*p.grad_scale) : 1);
}
int constants(const AdamCudaConstants& p, void* stream) { return device::launch(constants_kernel, 1, 1, 0, stream, p); }

// The tensor that a chunk is of.
__device__ __forceinline__ int tensor_of(const int64_t* first, int tensors, int64_t chunk) {
  int low = 0, high = tensors;
  while (high - low > 1) {
    const int mid = (low + high) / 2;
    if (first[mid] <= chunk) low = mid;
    else high = mid;
  }
  return low;
}
template <class T> struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Four { T lane[4]; };
template <bool kWhole, class T> __device__ __forceinline__ Four<T> load_four(const T* p, int64_t count) {
  Four<T> f;
  if constexpr (kWhole) f = *reinterpret_cast<const Four<T>*>(p);
  else
#pragma unroll
    for (int j = 0; j < 4; ++j) f.lane[j] = j < count ? p[j] : T{};
  return f;
}
template <bool kWhole, class T> __device__ __forceinline__ void store_four(T* p, const Four<T>& f, int64_t count) {
  if constexpr (kWhole) *reinterpret_cast<Four<T>*>(p) = f;
  else
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (j < count) p[j] = f.lane[j];
}
template <class T> __device__ __forceinline__ bool whole(const void* p) { return uintptr_t(p) % alignof(Four<T>) == 0; }

// Elements begin ... end - 1 of a tensor; kWhole: in aligned fours, a multiple of four elements.
template <bool kWhole, class P, class G> __device__ __forceinline__ void adam_stretch(const AdamStep& s, const AdamPiece& piece, int64_t begin, int64_t end) {
  using S = Acc<P>;
  using V = Pack<S, 1>;
  P* p = static_cast<P*>(piece.params);
  const G* g = static_cast<const G*>(piece.grads);
  S *m = static_cast<S*>(piece.m), *v = static_cast<S*>(piece.v), *w = static_cast<S*>(piece.masters), *u = static_cast<S*>(piece.v_max);
  for (int64_t i = begin + 4 * threadIdx.x; i < end; i += 4 * kBlock) {
    const int64_t n = end - i;
    Four<P> p4;
    Four<S> w4, u4;
    const Four<G> g4 = load_four<kWhole>(g + i, n);
    Four<S> m4 = load_four<kWhole>(m + i, n), v4 = load_four<kWhole>(v + i, n);
    if (w) w4 = load_four<kWhole>(w + i, n);
    else p4 = load_four<kWhole>(p + i, n);
    if (u) u4 = load_four<kWhole>(u + i, n);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      V pj = w ? V::of(w4.lane[j]) : value(p4.lane[j]), mj = V::of(m4.lane[j]), vj = V::of(v4.lane[j]), uj = u ? V::of(u4.lane[j]) : V(0);
      optim::adam(s, V::of(S(value(g4.lane[j]).v)), pj, mj, vj, u ? &uj : nullptr);
      p4.lane[j] = element<P>(pj);
      m4.lane[j] = mj.v, v4.lane[j] = vj.v, w4.lane[j] = pj.v, u4.lane[j] = uj.v;
    }
    store_four<kWhole>(m + i, m4, n);
    store_four<kWhole>(v + i, v4, n);
    if (w) store_four<kWhole>(w + i, w4, n);
    if (u) store_four<kWhole>(u + i, u4, n);
    store_four<kWhole>(p + i, p4, n);
  }
}
// Four blocks on a multiprocessor keep enough loads under way.
template <class P, class G> __global__ void __launch_bounds__(kBlock, sizeof(P) == 8 ? 1 : 4) adam_kernel(const __grid_constant__ AdamCudaList l) {
  using S = Acc<P>;
  if (l.step->skip) return;
  const AdamStep s = l.step->s;
  const int t = tensor_of(l.first, l.tensors, blockIdx.x);
  const AdamPiece& a = l.piece[t];
  const int64_t begin = (int64_t(blockIdx.x) - l.first[t]) * kAdamChunk, end = begin + kAdamChunk < a.n ? begin + kAdamChunk : a.n;
  const bool aligned = whole<P>(a.params) && whole<G>(a.grads) && whole<S>(a.m) && whole<S>(a.v) && whole<S>(a.masters) && whole<S>(a.v_max);
  const int64_t fours = aligned ? end / 4 * 4 : begin;
  if (aligned) adam_stretch<true, P, G>(s, a, begin, fours);
  adam_stretch<false, P, G>(s, a, fours, end);
}
template <class P, class G> int adam(const AdamCudaList& l, void* stream) {
  const int64_t chunks = l.first[l.tensors];
  return chunks ? device::launch(adam_kernel<P, G>, unsigned(chunks), kBlock, 0, stream, l) : 0;
}

struct Sums { Pack<double, 1> big = 0, mid = 0, small = 0; };
template <class T> __device__ __forceinline__ void add_squares(const Chunk<T, kChunk<T>>& c, Sums& s) {
  using D = Pack<double, 1>;
  if constexpr (std::is_same_v<T, double>) {
#pragma unroll
    for (int j = 0; j < kChunk<T>; ++j) optim::add_square(D::of(c.lane[j]), s.big, s.mid, s.small);
  } else if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int j = 0; j < kChunk<T>; ++j) s.mid = fma(D::of(double(c.lane[j])), D::of(double(c.lane[j])), s.mid);
  } else {
    bool fit = true;
    if constexpr (std::is_same_v<T, bf16>) {
      struct Words { uint32_t word[kChunk<T> / 2]; };
      const Words w = __builtin_bit_cast(Words, c);
      uint32_t pair = 0;
#pragma unroll
      for (int j = 0; j < kChunk<T> / 2; ++j) pair = __vmaxu2(pair, w.word[j] & 0x7fff7fffu);
      const int most = int(pair & 0xffff) > int(pair >> 16) ? int(pair & 0xffff) : int(pair >> 16);
      fit = most >= optim::kLeastMagnitude && most < optim::kMostMagnitude;
    }
    if (fit) {
#pragma unroll
      for (int j = 0; j < kChunk<T>; j += 4)
        s.mid = s.mid + convert<double>(optim::four_squares(value(c.lane[j]), value(c.lane[j + 1]), value(c.lane[j + 2]), value(c.lane[j + 3])));
    } else
#pragma unroll
      for (int j = 0; j < kChunk<T>; ++j) {
        const D d = convert<double>(value(c.lane[j]));
        s.mid = fma(d, d, s.mid);
      }
  }
}
template <class T> __global__ void __launch_bounds__(kBlock) squares_kernel(const __grid_constant__ NormCudaList l) {
  constexpr int kTogether = int(kNormChunk / (kBlock * kChunk<T>)) > 4 ? 4 : int(kNormChunk / (kBlock * kChunk<T>));
  __shared__ double shared[32];
  Sums s;
  for (int64_t chunk = blockIdx.x; chunk < l.first[l.tensors]; chunk += kNormBlocks) {
    const int t = tensor_of(l.first, l.tensors, chunk);
    const T* x = static_cast<const T*>(l.x[t]);
    const int64_t begin = (chunk - l.first[t]) * kNormChunk, end = begin + kNormChunk < l.n[t] ? begin + kNormChunk : l.n[t];
    const auto stretch = [&](auto whole) {
      for (int64_t i = begin + threadIdx.x * kChunk<T>; i < end; i += kTogether * kBlock * kChunk<T>) {
        Chunk<T, kChunk<T>> c[kTogether];
#pragma unroll
        for (int k = 0; k < kTogether; ++k) c[k] = load_chunk<decltype(whole)::value>(x + i + k * kBlock * kChunk<T>, end - i - k * kBlock * kChunk<T>);
#pragma unroll
        for (int k = 0; k < kTogether; ++k) add_squares<T>(c[k], s);  // zeros behind the end
      }
    };
    if (aligned16(x) && end - begin == kNormChunk) stretch(std::true_type{});
    else stretch(std::false_type{});
  }
  const double mid = team_sum(s.mid.v, shared), big = sizeof(T) == 8 ? team_sum(s.big.v, shared) : 0, small = sizeof(T) == 8 ? team_sum(s.small.v, shared) : 0;
  if (threadIdx.x) return;
  SquareSums& out = l.partial[blockIdx.x];
  if (l.begins) out = {big, mid, small};
  else out = {out.big + big, out.mid + mid, out.small + small};
}
template <class T> int squares(const NormCudaList& l, void* stream) { return device::launch(squares_kernel<T>, kNormBlocks, kBlock, 0, stream, l); }

__global__ void __launch_bounds__(1024) norm_kernel(const __grid_constant__ NormCudaResult p) {
  __shared__ double shared[32];
  SquareSums s{};
  for (int b = threadIdx.x; b < kNormBlocks; b += 1024) s.big += p.partial[b].big, s.mid += p.partial[b].mid, s.small += p.partial[b].small;
  s.big = team_sum(s.big, shared), s.mid = team_sum(s.mid, shared), s.small = team_sum(s.small, shared);
  if (threadIdx.x) return;
  if (p.f64) *static_cast<double*>(p.norm) = optim::norm_of(s);
  else *static_cast<float*>(p.norm) = float(optim::norm_of(s));
  if (p.found_inf) *p.found_inf = optim::finite(s) ? 0 : 1;
}
int norm(const NormCudaResult& p, void* stream) { return device::launch(norm_kernel, 1, 1024, 0, stream, p); }

__global__ void clip_kernel(const __grid_constant__ ClipCuda p) {
  if (p.f64) *static_cast<double*>(p.scale) = optim::clip_scale(*static_cast<const double*>(p.norm), p.max_norm);
  else *static_cast<float*>(p.scale) = float(optim::clip_scale(double(*static_cast<const float*>(p.norm)), p.max_norm));
}
int clip(const ClipCuda& p, void* stream) { return device::launch(clip_kernel, 1, 1, 0, stream, p); }

using AdamFn = int (*)(const AdamCudaList&, void*);
template <class P> constexpr ByDType<AdamFn> small_grads() {
  ByDType<AdamFn> of;
  of[DType::f16] = adam<P, f16>, of[DType::bf16] = adam<P, bf16>, of[DType::f32] = adam<P, float>;
  return of;
}
constexpr OptimCudaKernels table() {
  OptimCudaKernels k{constants, {}, device::floating<int (*)(const NormCudaList&, void*)>(squares<f16>, squares<bf16>, squares<float>, squares<double>), norm, clip};
  k.adam[DType::f16] = small_grads<f16>(), k.adam[DType::bf16] = small_grads<bf16>(), k.adam[DType::f32] = small_grads<float>();
  k.adam[DType::f64][DType::f64] = adam<double, double>;
  return k;
}
constexpr OptimCudaKernels kKernels = table();

}  // namespace
}  // namespace BARACUDA_ISA

extern const OptimCudaKernels optim_cuda_kernels = kKernels;

}  // namespace baracuda
