// Four-bit codes. A thread has eight elements, four bytes of codes; dequantize looks its values up in shared memory, where 16 words lie in 16
// banks; quantize joins the magnitudes of a block by shuffles, so that it reads its block once, and compares elements with the cuts between codes
// times the scale, without a division. Values and codes are moved once: the floor is memory bandwidth. f64, blocks that are no 8 2^k
// elements long, and strides divide, an element at a time.
#include "baracuda/device/half.cuh"
#include "baracuda/device/map.cuh"
#include "baracuda/device/teams.cuh"
#include "baracuda/ops/quantize/quantize_cuda.hpp"
#include "baracuda/ops/quantize/quantize_packed_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace quantize_packed;
using device_map::Vector;
using device_teams::Teams;

constexpr int kUnit = 8, kThreads = device_teams::kThreads;

// --- dequantize
constexpr int kEach = 4;  // units of a thread at once
__device__ __forceinline__ float scale_of(PackedFormat format, const void* scale, int64_t at) {
  if (format == PackedFormat::mxfp4) return power_of(static_cast<const uint8_t*>(scale)[at]);
  if (format == PackedFormat::nvfp4) return to_float(static_cast<const f8_e4m3fn*>(scale)[at]);
  return static_cast<const float*>(scale)[at];
}
template <class T> __device__ __forceinline__ T narrowed_to(float v) {
  if constexpr (kIsHalf<T>) return narrowed<T>(v);
  else return T(v);
}
struct Dequantize { QuantizePackedCuda p; Teams teams; device::Divisor by_block; bool narrow; };
template <class T, bool kWhole> __global__ void __launch_bounds__(kThreads) dequantize_kernel(const __grid_constant__ Dequantize q) {
  constexpr int N = kWhole ? kUnit : 2;
  __shared__ float table[16];
  const QuantizePackedCuda& p = q.p;
  if (threadIdx.x < 16 && p.format != PackedFormat::int4) table[threadIdx.x] = code_value(p.format, int(threadIdx.x), 0);
  __syncthreads();
  const float global = p.global_scale ? *p.global_scale : 1;
  struct Row { const uint8_t* codes; T* y; int64_t scale, zero; };
  device_teams::for_rows<kEach>(q.teams, [&](int64_t row) {
    int64_t at[4];
    p.rows.offsets(row, at);
    return Row{p.codes + at[1], static_cast<T*>(const_cast<void*>(p.values)) + at[0], at[2], at[3]};
  }, [&](const Row& row, int64_t first) {
    uint32_t codes[kEach];
    float s[kEach];
    int32_t z[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int64_t u = first + (int64_t(e) << q.teams.log);
      if (u >= q.teams.units) break;
      codes[e] = kWhole ? reinterpret_cast<const uint32_t*>(row.codes)[u] : row.codes[u * p.code_step];
      const int64_t block = q.narrow ? int64_t(q.by_block.quotient(uint32_t(u))) : u / (p.size / N);
      s[e] = scale_of(p.format, p.scale, row.scale + block * p.scale_step);
      z[e] = p.zero_point ? p.zero_point[row.zero + block * p.zero_step] : kIntZero;
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int64_t u = first + (int64_t(e) << q.teams.log);
      if (u >= q.teams.units) break;
      Vector<T, N> y;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const int code = codes[e] >> (8 * (j / 2) + ((j % 2 == 0) == p.high_first ? 4 : 0)) & 15;
        const float v = p.format == PackedFormat::int4 ? code_value(PackedFormat::int4, code, z[e]) : table[code];
        y.lane[j] = narrowed_to<T>(v * s[e] * global);
      }
      if constexpr (kWhole) *reinterpret_cast<Vector<T, N>*>(row.y + u * N) = y;
      else row.y[2 * u * p.value_step] = y.lane[0], row.y[(2 * u + 1) * p.value_step] = y.lane[1];
    }
  });
}
template <class T> int dequantize(const QuantizePackedCuda& p, void* stream) {
  const int64_t each = p.whole ? kUnit : 2, units = p.size * p.blocks / each;
  const bool narrow = units < int64_t(1) << 31;
  const Dequantize q{p, Teams::of(p.rows.units, units, kEach), device::Divisor::of(narrow ? uint32_t(p.size / each) : 1), narrow};
  return device::launch(p.whole ? dequantize_kernel<T, true> : dequantize_kernel<T, false>, q.teams.grid(kEach), kThreads, 0, stream, q);
}

// --- quantize
__device__ __forceinline__ double magnitude(double v) {  // 0 where it is not finite
  const double a = v < 0 ? -v : v;
  return a < kInf ? a : 0;
}
__device__ __forceinline__ double keep_scale(const QuantizePackedCuda& p, double most, double global, int64_t at, bool keep) {
  void* const scale = const_cast<void*>(p.scale);
  const auto kept = [&]<class S>(const BlockScale<S>& s) {
    if (keep) static_cast<S*>(scale)[at] = s.stored;
    return s.value;
  };
  return p.format == PackedFormat::mxfp4 ? kept(power_scale(most)) : p.format == PackedFormat::nvfp4 ? kept(e4m3_scale(most, global)) : kept(float_scale(p.format, most));
}
// The code of x / s for the elements x of a block, by comparisons in f32: a cut times s is exact in f64 (27 and 28 bits), so x / s, rounded to f64, lies above a
// cut just where x lies above this product, and that is where x lies above the largest float that is not.
template <PackedFormat format> struct Cuts {
  float at[kCuts<format>];
  __device__ __forceinline__ explicit Cuts(double s) {
#pragma unroll
    for (int k = 0; k < kCuts<format>; ++k) {
      const Cut c = cut_of<format>(k);
      const double t = c.at * s;
      at[k] = __double2float_rd(t);
      if (c.closed && double(at[k]) == t) at[k] = __builtin_bit_cast(float, __builtin_bit_cast(int32_t, at[k]) + (t > 0 ? -1 : 1));  // the next one below
    }
  }
  __device__ __forceinline__ int code(float x) const {
    constexpr bool kMagnitudes = kCuts<format> == 7;
    const uint32_t bits = __builtin_bit_cast(uint32_t, x);
    const float v = kMagnitudes ? __builtin_bit_cast(float, bits & 0x7fffffffu) : x;
    int n = 0;
#pragma unroll
    for (int k = 0; k < kCuts<format>; ++k) n += v > at[k];
    if (kMagnitudes) n += int(bits >> 31) * 8;
    return x == x ? n : zero_code(format);
  }
};
// A thread's unit of a block: `team` threads, a part of a warp, have the block.
template <class T, PackedFormat format> __global__ void __launch_bounds__(kThreads) quantize_kernel(const __grid_constant__ QuantizePackedCuda p) {
  const double global = p.global_scale ? double(*p.global_scale) : 1;
  const int team = int(p.size / kUnit), log = 31 - __clz(team);
  const int64_t per_row = p.blocks << log, all = p.rows.units * per_row;
  for (int64_t start = int64_t(blockIdx.x) * kThreads; start < all; start += int64_t(gridDim.x) * kThreads) {
    const int64_t i = start + threadIdx.x, row = i / per_row, u = i - row * per_row;
    const bool there = i < all;
    int64_t at[4];
    p.rows.offsets(there ? row : 0, at);
    Vector<T, kUnit> e{};
    if (there) e = *reinterpret_cast<const Vector<T, kUnit>*>(static_cast<const T*>(p.values) + at[0] + u * kUnit);
    float x[kUnit], most = 0;
#pragma unroll
    for (int j = 0; j < kUnit; ++j) {
      x[j] = value(e.lane[j]).v;
      const float a = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, x[j]) & 0x7fffffffu);
      most = a > most && a < float(kInf) ? a : most;
    }
    for (int w = 1; w < team; w *= 2) {
      const float a = __shfl_xor_sync(0xffffffffu, most, w);
      most = a > most ? a : most;
    }
    if (!there) continue;
    const double s = keep_scale(p, double(most), global, at[2] + (u >> log) * p.scale_step, (u & (team - 1)) == 0);
    uint32_t codes = 0;
    const auto pack = [&](auto code) {
#pragma unroll
      for (int j = 0; j < kUnit; ++j) codes |= uint32_t(code(j)) << (8 * (j / 2) + ((j % 2 == 0) == p.high_first ? 4 : 0));
    };
    if (s > 0) {
      const Cuts<format> cuts(s);
      pack([&](int j) { return cuts.code(x[j]); });
    } else pack([&](int j) { return code_of(format, double(x[j]), s); });
    *reinterpret_cast<uint32_t*>(const_cast<uint8_t*>(p.codes) + at[1] + u * (kUnit / 2)) = codes;
  }
}
template <class T> __global__ void __launch_bounds__(kThreads) quantize_blocks_kernel(const __grid_constant__ QuantizePackedCuda p) {
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
    const double s = keep_scale(p, most, global, at[2] + block * p.scale_step, true);
#pragma unroll 1
    for (int64_t j = 0; j < p.size / 2; ++j) {
      const int a = code_of(p.format, to_double(x[2 * j * p.value_step]), s), b = code_of(p.format, to_double(x[(2 * j + 1) * p.value_step]), s);
      codes[j * p.code_step] = uint8_t(p.high_first ? a << 4 | b : b << 4 | a);
    }
  }
}
template <class T> int quantize(const QuantizePackedCuda& p, void* stream) {
  const int64_t team = p.size / kUnit;
  auto kernel = quantize_blocks_kernel<T>;
  int64_t threads = p.rows.units * p.blocks;
  if constexpr (sizeof(T) < 8)
    if (p.whole && p.size % kUnit == 0 && team <= 32 && (team & (team - 1)) == 0) {
      kernel = p.format == PackedFormat::nf4 ? quantize_kernel<T, PackedFormat::nf4> : p.format == PackedFormat::int4 ? quantize_kernel<T, PackedFormat::int4>
               : p.format == PackedFormat::mxfp4 ? quantize_kernel<T, PackedFormat::mxfp4> : quantize_kernel<T, PackedFormat::nvfp4>;
      threads *= team;
    }
  return device::launch(kernel, device::blocks_for(threads, kThreads), kThreads, 0, stream, p);
}

using PackedLaunch = int (*)(const QuantizePackedCuda&, void*);
}  // namespace
}  // namespace BARACUDA_ISA

extern const QuantizePackedCudaKernels quantize_packed_cuda_kernels = {device::floating<PackedLaunch>(quantize<f16>, quantize<bf16>, quantize<float>, quantize<double>),
                                                                       device::floating<PackedLaunch>(dequantize<f16>, dequantize<bf16>, dequantize<float>, dequantize<double>)};

}  // namespace baracuda
