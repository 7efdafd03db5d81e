// Four-bit codes. dequantize: a thread has eight elements, four bytes of codes, and looks their values up in shared memory, where 16 words lie in 16
// banks. quantize: a thread has four such units of a block, joins its magnitudes by shuffles, so that it reads its block once, and finds codes by products
// with 1 / scale; where only a quotient tells, it divides. Values and codes are moved once: the floor is memory bandwidth. f64, blocks that are no
// 8 2^k elements long, and strides divide, an element at a time.
#include <algorithm>
#include <array>
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
      if constexpr (high_first(format)) codes[e] = (codes[e] >> 4 & 0x0f0f0f0fu) | (codes[e] & 0x0f0f0f0fu) << 4;
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
constexpr int kCellWords = 256;  // in shared memory: any byte is one's place
struct Quantize { QuantizePackedCuda p; Teams teams; uint32_t cell[kPlacedCells]; };
// The code of an e2m1 by v, about x / s; false where only the quotient tells: within 2^-12 of a cut.
template <PackedFormat format> __device__ __forceinline__ bool code_by(float v, const uint32_t* cell, uint32_t& code) {
  const float a = fabsf(v), place = fminf(fmaxf((a - kFirst) * kCells, 0), 31);
  const uint32_t word = cell[__float_as_uint(__fadd_rz(place, 8388608.0f)) & 31];
  const float apart = a - __uint_as_float(word);
  code = (word & 15) + (apart > 0 ? 1 : 0) + (__float_as_uint(v) >> 31 << 3);
  return !(fabsf(apart) < 0x1p-12f);
}
template <class T, PackedFormat format> inline constexpr bool kRounds = format == PackedFormat::int4 && sizeof(T) == 2;
template <class T, PackedFormat format> inline constexpr bool kPlaces = format == PackedFormat::nf4 || (format == PackedFormat::int4 && sizeof(T) == 4);
template <class T, PackedFormat format> inline constexpr bool kDoubts = kSlack<T, format> > 0;
// Codes of a unit by products with r, about 1 / s. What is not finite has any code.
template <class T, PackedFormat format> struct Encoder {
  using Lanes = quantize::Lanes<float, kUnit>;
  float r;
  __device__ __forceinline__ Encoder(float s, float most) : r(1 / s) {
    if constexpr (kRounds<T, format>) r = rounding_factor(r, s, most);
    if constexpr (format == PackedFormat::nf4) r *= kPlacedEach;
    r = most > 0 ? r : 0;
  }
  static __device__ __forceinline__ constexpr int shift(int j) { return 4 * (high_first(format) ? j ^ 1 : j); }
  // false: only a quotient tells one of them.
  __device__ __forceinline__ bool operator()(const Lanes& x, const uint32_t* cell, double s, uint32_t& codes) const {
    codes = 0;
    if constexpr (kRounds<T, format>) {
#pragma unroll
      for (int j = 0; j < kUnit; ++j) codes += __float_as_uint(__fmaf_rn(x.v[j].v, r, 48.0f) + (kRoundWord - 40)) << shift(j);
      codes -= __builtin_bit_cast(uint32_t, kRoundWord) * 0x11111111u;
      return true;
    } else if constexpr (kPlaces<T, format>) {
      uint32_t z[kUnit], least = 0xffffffffu;
#pragma unroll
      for (int j = 0; j < kUnit; ++j) {
        z[j] = __float_as_uint(__fmaf_rn(x.v[j].v, r, kPlacedFrom<T, format>));
        if constexpr (format == PackedFormat::nf4) z[j] += cell[__byte_perm(z[j], 0, 0x4442)];
      }
#pragma unroll
      for (int j = 0; j < kUnit / 2; ++j) {
        codes += __byte_perm(z[j], z[j + 4], 0x7632) << shift(j);
        if constexpr (kDoubts<T, format>) least = __vminu2(least, __byte_perm(z[j], z[j + 4], 0x5410));
      }
      if constexpr (format == PackedFormat::int4) codes -= (kPlacedWord >> 16) * 0x10001u * 0x1111u;
      return !kDoubts<T, format> || ((least & 0xffff) > 2 * kSlack<T, format> && least >> 16 > 2 * kSlack<T, format>);
    } else {
#pragma unroll
      for (int j = 0; j < kUnit; ++j) {
        uint32_t code;
        if (!code_by<format>(x.v[j].v * r, cell, code)) code = uint32_t(code_of(format, double(x.v[j].v), s));
        codes |= code << shift(j);
      }
      return true;
    }
  }
};
// A thread has P units of a block, a team's size apart; the team is a part of a warp.
template <class T, PackedFormat format, int P> __global__ void __launch_bounds__(kThreads) quantize_kernel(const __grid_constant__ Quantize q) {
  using Encode = Encoder<T, format>;
  __shared__ uint32_t cell[kCellWords];
  const QuantizePackedCuda& p = q.p;
  if constexpr (format != PackedFormat::int4) {
    cell[threadIdx.x] = threadIdx.x < kPlacedCells ? q.cell[threadIdx.x] : 0;
    __syncthreads();
  }
  const double global = p.global_scale ? double(*p.global_scale) : 1;
  const int log = __ffs(int(p.size / (kUnit * P))) - 1, slots = kThreads >> q.teams.log;
  const int64_t lane = threadIdx.x & ((1u << q.teams.log) - 1);
  for (int64_t first = int64_t(blockIdx.x) * slots; first < q.teams.rows; first += int64_t(gridDim.x) * slots) {  // whole warps go through the shuffles
    const int64_t row = first + (threadIdx.x >> q.teams.log);
    int64_t at[4];
    quantize::row_offsets(p.rows, row < q.teams.rows ? row : 0, at);
    for (int64_t begin = int64_t(blockIdx.y) << q.teams.log; begin < q.teams.units; begin += int64_t(gridDim.y) << q.teams.log) {
      const int64_t slot = begin + lane, block = slot >> log;
      const int of_team = int(slot) & ((1 << log) - 1);
      const bool there = row < q.teams.rows && slot < q.teams.units;
      const int64_t unit = (block * P << log) + of_team;
      const T* const x = static_cast<const T*>(p.values) + at[0] + unit * kUnit;
      quantize::Unit<T, kUnit> e[P];
#pragma unroll
      for (int k = 0; k < P; ++k) {
        e[k] = {};
        if (there) e[k] = quantize::load_unit<true, kUnit>(x + (k << log) * kUnit, kUnit);
      }
      bool strange;
      float most = quantize::most_of<T, kUnit>(e, strange);
      for (int w = 1; w < 1 << log; w *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, w));
      if (!there) continue;
      const double s = keep_scale<format>(p, most, global, at[2] + block * p.scale_step, of_team == 0);
      const Encode encode(float(s), most);
      const bool plain = !strange && (most == 0 || (s > 0x1p-100 && s < 0x1p100));  // 1 / s is one, too
      uint32_t* const to = reinterpret_cast<uint32_t*>(const_cast<uint8_t*>(p.codes) + at[1] + unit * (kUnit / 2));
      unsigned doubts = plain ? 0 : (1u << P) - 1;
#pragma unroll
      for (int k = 0; k < P; ++k) {
        uint32_t codes;
        if (!encode(quantize::Lanes<float, kUnit>::template of<T>(e[k]), cell, s, codes)) doubts |= 1u << k;
        to[k << log] = codes;
      }
      for (; doubts; doubts &= doubts - 1) {
        const int k = (__ffs(int(doubts)) - 1) << log;
        uint32_t codes = 0;
#pragma unroll 1
        for (int j = 0; j < kUnit; ++j) codes |= uint32_t(code_of(format, to_double(x[k * kUnit + j]), s)) << Encode::shift(j);
        to[k] = codes;
      }
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
      codes[j * p.code_step] = uint8_t(high_first(format) ? a << 4 | b : b << 4 | a);
    }
  }
}
template <class T, PackedFormat format, int P> int quantize_units(const QuantizePackedCuda& p, int64_t team, void* stream) {
  static const auto cells = [] {
    std::array<uint32_t, kPlacedCells> c{};
    for (int i = 0; i < kPlacedCells; ++i) {
      if constexpr (format == PackedFormat::nf4) c[size_t(i)] = placed_cell(i) + kSlack<T, format>;
      else if constexpr (format != PackedFormat::int4) c[size_t(i)] = cell_of<format>(i);
    }
    return c;
  }();
  Quantize q{p, Teams::of(p.rows.units, p.blocks * team, 1), {}};
  std::copy(cells.begin(), cells.end(), q.cell);
  return device::launch(quantize_kernel<T, format, P>, q.teams.grid(1), kThreads, 0, stream, q);
}
template <class T, PackedFormat format> int quantize_format(const QuantizePackedCuda& p, void* stream) {
  if constexpr (sizeof(T) < 8)
    if (const int64_t units = p.size / kUnit; p.whole && (units & (units - 1)) == 0) {
      constexpr int kParts = format == PackedFormat::nvfp4 ? 2 : 4;
      if (units >= kParts && units <= 32 * kParts) return quantize_units<T, format, kParts>(p, units / kParts, stream);
      if constexpr (format == PackedFormat::nf4 || format == PackedFormat::int4)
        if (units < kParts) return quantize_units<T, format, 1>(p, units, stream);
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
