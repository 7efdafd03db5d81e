// y of BatchNorm and GroupNorm, and dx: element by element, with what each list keeps. Reads x (dy, or both), writes y: the floor is memory
// bandwidth.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/norm/channels_cuda.hpp"
#include "baracuda/ops/norm/norm_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using device_rows::Chunk, device_rows::kChunk;

constexpr int kThreads = 256;
template <class T> __device__ __forceinline__ Pack<Acc<T>, 1> number(const ChannelVector& v, int64_t c, double none) {
  using V = Pack<Acc<T>, 1>;
  if (!v.data) return none;
  if (v.f32) return V::of(static_cast<const float*>(v.data)[c * v.stride]);
  return value(static_cast<const T*>(v.data)[c * v.stride]);
}
// i / d and what is left over.
__device__ __forceinline__ int64_t divided(int64_t i, const device::Divisor& by, int64_t d, bool narrow, int64_t& rest) {
  const int64_t q = narrow ? int64_t(by.quotient(uint32_t(i))) : i / d;
  rest = i - q * d;
  return q;
}
// What an element of a channel is made with.
template <class T> struct Maker {
  using V = Pack<Acc<T>, 1>;
  V shift, rest, scale, weight, bias, mean_g, minus_dot;
  __device__ __forceinline__ Maker(const ChannelWriteCuda& p, ChannelWrite what, int64_t sample, int64_t channel, bool narrow) {
    int64_t list = channel, unused;
    if (p.each) list = sample * (p.channels / p.each) + divided(channel, p.by_each, p.each, narrow, unused);
    const ListKept<Acc<T>> k = static_cast<const ListKept<Acc<T>>*>(p.kept)[list];
    shift = V::of(k.shift), rest = V::of(k.rest), scale = V::of(k.scale), weight = number<T>(p.weight, channel, 1);
    if (what == ChannelWrite::forward) bias = number<T>(p.bias, channel, -0.0);
    if (what == ChannelWrite::backward) mean_g = V::of(k.mean_g), minus_dot = V::of(k.minus_dot);
  }
  template <ChannelWrite what> __device__ __forceinline__ V made(V x, V dy) const {
    if constexpr (what == ChannelWrite::forward) return standardized(x, shift, rest, scale, weight, bias);
    else if constexpr (what == ChannelWrite::backward) return input_gradient(dy, weight, normalized(x, shift, rest, scale), mean_g, minus_dot, scale);
    else return dy * weight * scale;
  }
};
template <class T, ChannelWrite what, int L> __global__ void __launch_bounds__(kThreads) write_kernel(const __grid_constant__ ChannelWriteCuda p) {
  using V = Pack<Acc<T>, 1>;
  constexpr bool kX = what != ChannelWrite::scaled, kDy = what != ChannelWrite::forward;
  const bool narrow = p.walk.units * L < int64_t(1) << 31;
  for (int64_t u = int64_t(blockIdx.x) * kThreads + threadIdx.x; u < p.walk.units; u += int64_t(gridDim.x) * kThreads) {
    int64_t at[3], sample, channel, rest;
    p.walk.offsets(u, at);
    Chunk<T, L> x{}, dy{}, y;
    if constexpr (kX) x = *reinterpret_cast<const Chunk<T, L>*>(static_cast<const T*>(p.x) + at[0]);
    if constexpr (kDy) dy = *reinterpret_cast<const Chunk<T, L>*>(static_cast<const T*>(p.dy) + at[1]);
    if (p.last) divided(u * L, p.by_channels, p.channels, narrow, channel), sample = divided(u * L, p.by_sample, p.channels * p.span, narrow, rest);
    else sample = divided(divided(u * L, p.by_span, p.span, narrow, rest), p.by_channels, p.channels, narrow, channel);
    const auto one = [&](const Maker<T>& m, int j) {
      const V v = kX ? value(x.lane[j]) : V(0), e = kDy ? value(dy.lane[j]) : V(0);
      y.lane[j] = element<T>(m.template made<what>(v, e));
    };
    if (L > 1 && p.last) {
#pragma unroll
      for (int j = 0; j < L; ++j) one(Maker<T>(p, what, sample, channel + j, narrow), j);
    } else {
      const Maker<T> m(p, what, sample, channel, narrow);
#pragma unroll
      for (int j = 0; j < L; ++j) one(m, j);
    }
    *reinterpret_cast<Chunk<T, L>*>(static_cast<T*>(p.y) + at[2]) = y;
  }
}
template <class T, ChannelWrite what> int launch_write(const ChannelWriteCuda& p, void* stream) {
  const auto kernel = p.walk.lanes > 1 ? write_kernel<T, what, kChunk<T>> : write_kernel<T, what, 1>;
  return device::launch(kernel, device::blocks_for(p.walk.units, kThreads), dim3(kThreads), 0, stream, p);
}
template <class T> int write(const ChannelWriteCuda& p, ChannelWrite what, void* stream) {
  if (p.walk.units == 0) return 0;
  return what == ChannelWrite::forward ? launch_write<T, ChannelWrite::forward>(p, stream)
         : what == ChannelWrite::backward ? launch_write<T, ChannelWrite::backward>(p, stream) : launch_write<T, ChannelWrite::scaled>(p, stream);
}
constexpr auto kWrite = device::floating<int (*)(const ChannelWriteCuda&, ChannelWrite, void*)>(write<f16>, write<bf16>, write<float>, write<double>);

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<int (*)(const ChannelWriteCuda&, ChannelWrite, void* stream)> channel_write_cuda = kWrite;

}  // namespace baracuda
