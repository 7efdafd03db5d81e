// Four-bit codes. A thread has eight elements, four bytes of codes; dequantize looks its values up in shared memory, where 16 words lie in 16
// banks; quantize joins the magnitudes of a block by shuffles, so that it reads its block once, and finds codes by products with 1 / scale; near a cut
// between two codes it divides. Values and codes are moved once: the floor is memory bandwidth. f64, blocks that are no 8 2^k
// elements long, and strides divide, an element at a time.
#include "baracuda/device/half.cuh"
#include "baracuda/device/map.cuh"
#include "baracuda/device/teams.cuh"
#include "baracuda/ops/quantize/quantize_cuda.hpp"
#include "baracuda/ops/quantize/quantize_packed_math.hpp"
#include "baracuda/ops/quantize/quantize_rows.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace quantize_packed;
using device_map::Vector;
using device_teams::Teams;

constexpr int kUnit = 8, kThreads = device_teams::kThreads;

template <class F> int with_format(PackedFormat format, F f) {
  switch (format) {
    case PackedFormat::nf4: return f.template operator()<PackedFormat::nf4>();
    case PackedFormat::int4: return f.template operator()<PackedFormat::int4>();
    case PackedFormat::mxfp4: return f.template operator()<PackedFormat::mxfp4>();
    default: return f.template operator()<PackedFormat::nvfp4>();
  }
}

// --- dequantize
constexpr int kEach = 4;  // units of a thread at once
template <class T> inline constexpr int kStored = sizeof(T) == 2 ? 8 : 4;  // values of a unit, 16 bytes but of f64
template <PackedFormat format> __device__ __forceinline__ float scale_of(const void* scale, int64_t at) {
  if constexpr (format == PackedFormat::mxfp4) return power_of(static_cast<const uint8_t*>(scale)[at]);
  else if constexpr (format == PackedFormat::nvfp4) return to_float(static_cast<const f8_e4m3fn*>(scale)[at]);
  else return static_cast<const float*>(scale)[at];
}
struct Dequantize { QuantizePackedCuda p; Teams teams; device::Divisor by_block; };
// The values of the codes of a word, the first of which stand in the low bits.
template <PackedFormat format, int N> __device__ __forceinline__ void values_of(uint32_t codes, const float* table, int32_t zero, float (&v)[N]) {
  if constexpr (format == PackedFormat::int4) {
    if (zero > -(1 << 22) && zero < 1 << 22) {  // behind the exponent of 2^23: f32 holds these sums
      const float less = 8388608.0f + float(zero);
#pragma unroll
      for (int j = 0; j < N; ++j) v[j] = __uint_as_float((codes >> (4 * j) & 15) | 0x4b000000u) - less;
      return;
    }
  }
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const int code = codes >> (4 * j) & 15;
    v[j] = format == PackedFormat::int4 ? code_value(format, code, zero) : table[code];
  }
}
// A unit of a row is kStored elements, and less than 2^31 units are a row, or two.
template <class T, PackedFormat format, bool kWhole> __global__ void __launch_bounds__(kThreads) dequantize_kernel(const __grid_constant__ Dequantize q) {
  constexpr int N = kWhole ? kStored<T> : 2;
  __shared__ float table[16];
  const QuantizePackedCuda& p = q.p;
#pragma unroll
  for (int k = 0; k < 16; ++k)  // k is known: a look-up would have a stack
    if (int(threadIdx.x) == k) table[k] = code_value(format, k, 0);
  __syncthreads();
  const float global = p.global_scale ? *p.global_scale : 1;
  struct Row { const uint8_t* codes; T* y; int64_t scale, zero; };
  device_teams::for_rows<kEach>(q.teams, [&](int64_t row) {
    int64_t at[4];
    p.rows.offsets(row, at);
    return Row{p.codes + at[1], static_cast<T*>(const_cast<void*>(p.values)) + at[0], at[2], at[3]};
  }, [&](const Row& row, int64_t from) {
    using I = std::conditional_t<kWhole, uint32_t, int64_t>;
    const I first = I(from), units = I(q.teams.units);
    uint32_t codes[kEach];
    float s[kEach];
    int32_t z[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const I u = first + (I(e) << q.teams.log);
      if (u >= units) break;
      codes[e] = !kWhole ? row.codes[int64_t(u) * p.code_step] : N == 8 ? reinterpret_cast<const uint32_t*>(row.codes)[u] : reinterpret_cast<const uint16_t*>(row.codes)[u];
      const int64_t block = kWhole ? int64_t(q.by_block.quotient(uint32_t(u))) : int64_t(u) / (p.size / N);
      s[e] = scale_of<format>(p.scale, row.scale + block * p.scale_step);
      z[e] = format == PackedFormat::int4 && p.zero_point ? p.zero_point[row.zero + block * p.zero_step] : kIntZero;
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const I u = first + (I(e) << q.teams.log);
      if (u >= units) break;
      if (p.high_first) codes[e] = (codes[e] >> 4 & 0x0f0f0f0fu) | (codes[e] & 0x0f0f0f0fu) << 4;
      float v[N];
      values_of<format>(codes[e], table, z[e], v);
      const auto y = quantize::unit_of<T, N>([&](int j) { return Pack<Acc<T>, 1>::of(Acc<T>(v[j] * s[e] * global)); });
      if constexpr (kWhole) {
        quantize::store_unit<true, N>(row.y + int64_t(u) * N, y, N);
      } else {
        const auto two = __builtin_bit_cast(Vector<T, 2>, y);
        row.y[2 * int64_t(u) * p.value_step] = two.lane[0], row.y[(2 * int64_t(u) + 1) * p.value_step] = two.lane[1];
      }
    }
  });
}
template <class T, PackedFormat format> int dequantize_format(const QuantizePackedCuda& p, void* stream) {
  const bool whole = p.whole && p.size * p.blocks / kStored<T> <= INT32_MAX;
  const int each = whole ? kStored<T> : 2;
  const Dequantize q{p, Teams::of(p.rows.units, p.size * p.blocks / each, kEach), device::Divisor::of(whole ? uint32_t(p.size / each) : 1)};
  return device::launch(whole ? dequantize_kernel<T, format, true> : dequantize_kernel<T, format, false>, q.teams.grid(kEach), kThreads, 0, stream, q);
}
template <class T> int launch_dequantize(const QuantizePackedCuda& p, void* stream) {
  return with_format(p.format, [&]<PackedFormat format>() { return dequantize_format<T, format>(p, stream); });
}

// --- quantize
__device__ __forceinline__ double magnitude(double v) {  // 0 where it is not finite
  const double a = v < 0 ? -v : v;
  return a < kInf ? a : 0;
}
template <PackedFormat format, class M> __device__ __forceinline__ double keep_scale(const QuantizePackedCuda& p, M most, double global, int64_t at, bool keep) {
  void* const scale = const_cast<void*>(p.scale);
  const auto kept = [&]<class S>(const BlockScale<S>& s) {
    if (keep) static_cast<S*>(scale)[at] = s.stored;
    return s.value;
  };
  if constexpr (format == PackedFormat::mxfp4) return kept(power_scale(most));
  else if constexpr (format == PackedFormat::nvfp4) return kept(e4m3_scale(most, global));
  else return kept(float_scale(format, most));
}
struct Quantize { QuantizePackedCuda p; Teams teams; uint32_t cell[32]; };
// The code of x by v, about x / s; false where only the quotient tells: within 2^-12 of a cut.
template <PackedFormat format> __device__ __forceinline__ bool code_by(float v, const uint32_t* cell, uint32_t& code) {
  constexpr float near = 0x1p-12f;
  if constexpr (format == PackedFormat::int4) {
    constexpr float magic = 0x1.8p23f;
    const float raised = fminf(fmaxf(v, -8), 7) + magic, apart = v - (raised - magic);
    code = (__float_as_uint(raised) + kIntZero) & 15;
    return !(fabsf(fabsf(apart) - 0.5f) < near);
  } else {
    const float a = format == PackedFormat::nf4 ? v : fabsf(v);
    const float place = fminf(fmaxf((a - kFirst<format>) * kCells<format>, 0), 31);
    const uint32_t word = cell[__float_as_uint(__fadd_rz(place, 8388608.0f)) & 31];
    const float apart = a - __uint_as_float(word);
    code = (word & 15) + (apart > 0 ? 1 : 0) + (format == PackedFormat::nf4 ? 0 : __float_as_uint(v) >> 31 << 3);
    return !(fabsf(apart) < near);
  }
}
// A thread has units of blocks of elements; `team` threads, a part of a warp, have a block at a time.
template <class T, PackedFormat format> __global__ void __launch_bounds__(kThreads) quantize_kernel(const __grid_constant__ Quantize q) {
  using Lanes = quantize::Lanes<float, kUnit>;
  __shared__ uint32_t cell[32];
  const QuantizePackedCuda& p = q.p;
  if (threadIdx.x < 32) cell[threadIdx.x] = q.cell[threadIdx.x];
  __syncthreads();
  const double global = p.global_scale ? double(*p.global_scale) : 1;
  const int team = int(p.size / kUnit), log = 31 - __clz(team), slots = kThreads >> q.teams.log;
  const int64_t lane = threadIdx.x & ((1u << q.teams.log) - 1);
  for (int64_t first = int64_t(blockIdx.x) * slots; first < q.teams.rows; first += int64_t(gridDim.x) * slots) {  // whole warps go through the shuffles
    const int64_t row = first + (threadIdx.x >> q.teams.log);
    int64_t at[4];
    quantize::row_offsets(p.rows, row < q.teams.rows ? row : 0, at);
    for (int64_t begin = int64_t(blockIdx.y) << q.teams.log; begin < q.teams.units; begin += int64_t(gridDim.y) << q.teams.log) {
      const int64_t u = begin + lane;
      const bool there = row < q.teams.rows && u < q.teams.units;
      quantize::Unit<T, kUnit> e{};
      if (there) e = quantize::load_unit<true, kUnit>(static_cast<const T*>(p.values) + at[0] + u * kUnit, kUnit);
      Lanes x = Lanes::template of<T>(e);
      float most = 0;
#pragma unroll
      for (int j = 0; j < kUnit; ++j) most = fmaxf(most, fabsf(x.v[j].v));
      if (most == float(kInf)) {
        most = 0;
#pragma unroll
        for (int j = 0; j < kUnit; ++j) most = fabsf(x.v[j].v) < float(kInf) ? fmaxf(most, fabsf(x.v[j].v)) : most;
      }
      for (int w = 1; w < team; w *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, w));
      if (!there) continue;
      const double s = keep_scale<format>(p, most, global, at[2] + (u >> log) * p.scale_step, (u & (team - 1)) == 0);
      x.without_nan();
      const float of_scale = float(s), r = 1 / of_scale;
      const bool plain = of_scale > 0x1p-100f && of_scale < 0x1p100f;  // r is one, too
      uint32_t codes = 0;
#pragma unroll
      for (int j = 0; j < kUnit; ++j) {
        uint32_t code;
        if (!(code_by<format>(x.v[j].v * r, cell, code) && plain)) code = uint32_t(code_of(format, double(x.v[j].v), s));
        codes |= code << (4 * j);
      }
      if (p.high_first) codes = (codes >> 4 & 0x0f0f0f0fu) | (codes & 0x0f0f0f0fu) << 4;
      *reinterpret_cast<uint32_t*>(const_cast<uint8_t*>(p.codes) + at[1] + u * (kUnit / 2)) = codes;
    }
  }
}
template <class T, PackedFormat format> __global__ void __launch_bounds__(kThreads) quantize_blocks_kernel(const __grid_constant__ QuantizePackedCuda p) {
  const double global = p.global_scale ? double(*p.global_scale) : 1;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < p.rows.units * p.blocks; i += int64_t(gridDim.x) * kThreads) {
    const int64_t row = i / p.blocks, block = i - row * p.blocks;
    int64_t at[4];
    p.rows.offsets(row, at);
    const T* x = static_cast<const T*>(p.values) + at[0] + block * p.size * p.value_step;
    uint8_t* codes = const_cast<uint8_t*>(p.codes) + at[1] + block * (p.size / 2) * p.code_step;
    double most = 0;
    for (int64_t j = 0; j < p.size; ++j) {
      const double a = magnitude(to_double(x[j * p.value_step]));
      most = a > most ? a : most;
    }
    const double s = keep_scale<format>(p, most, global, at[2] + block * p.scale_step, true);
#pragma unroll 1
    for (int64_t j = 0; j < p.size / 2; ++j) {
      const int a = code_of(format, to_double(x[2 * j * p.value_step]), s), b = code_of(format, to_double(x[(2 * j + 1) * p.value_step]), s);
      codes[j * p.code_step] = uint8_t(p.high_first ? a << 4 | b : b << 4 | a);
    }
  }
}
template <class T, PackedFormat format> int quantize_format(const QuantizePackedCuda& p, void* stream) {
  const int64_t team = p.size / kUnit;
  if constexpr (sizeof(T) < 8)
    if (p.whole && team <= 32 && (team & (team - 1)) == 0) {
      Quantize q{p, Teams::of(p.rows.units, p.blocks * team, 1), {}};
      if constexpr (format != PackedFormat::int4)
        for (int i = 0; i < 32; ++i) q.cell[i] = cell_of<format>(i);
      return device::launch(quantize_kernel<T, format>, q.teams.grid(kEach), kThreads, 0, stream, q);
    }
  return device::launch(quantize_blocks_kernel<T, format>, device::blocks_for(p.rows.units * p.blocks, kThreads), kThreads, 0, stream, p);
}
template <class T> int launch_quantize(const QuantizePackedCuda& p, void* stream) {
  return with_format(p.format, [&]<PackedFormat format>() { return quantize_format<T, format>(p, stream); });
}

using PackedLaunch = int (*)(const QuantizePackedCuda&, void*);
}  // namespace
}  // namespace BARACUDA_ISA

extern const QuantizePackedCudaKernels quantize_packed_cuda_kernels = {device::floating<PackedLaunch>(launch_quantize<f16>, launch_quantize<bf16>, launch_quantize<float>, launch_quantize<double>),
                                                                       device::floating<PackedLaunch>(launch_dequantize<f16>, launch_dequantize<bf16>, launch_dequantize<float>, launch_dequantize<double>)};

}  // namespace baracuda
