// Four-bit codes. dequantize: a thread has eight elements, four bytes of codes, and looks their values up in shared memory, where 16 words lie in 16
// banks. quantize: a thread has four such units of a block, or two of each of two, joins a block's magnitudes by shuffles, so that it is read once, and finds
// codes by products with 1 / scale; where only a quotient tells, it divides. Values and codes are moved once: the floor is memory bandwidth. f64, blocks that are no
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
template <PackedFormat format> __device__ __forceinline__ double keep_scale(const QuantizePackedCuda& p, double most, double global, int64_t at) {
  const auto kept = [&]<class S>(const BlockScale<S>& s) {
    static_cast<S*>(const_cast<void*>(p.scale))[at] = s.stored;
    return s.value;
  };
  if constexpr (format == PackedFormat::mxfp4) return kept(power_scale(most));
  else if constexpr (format == PackedFormat::nvfp4) return kept(e4m3_scale(most, global));
  else return kept(float_scale(format, most));
}
template <PackedFormat format> inline constexpr bool kE2m1 = format == PackedFormat::mxfp4 || format == PackedFormat::nvfp4;
constexpr int kCellWords = 256;  // in shared memory: any byte is one's place
struct Quantize { QuantizePackedCuda p; Teams teams; uint32_t cell[kPlacedCells]; };
template <class T, PackedFormat format> inline constexpr bool kRounds = format == PackedFormat::int4 && sizeof(T) == 2;
template <class T, PackedFormat format> inline constexpr bool kDoubts = kSlack<T, format> > 0;
// The signs of a unit, each the highest of four bits.
template <class T> __device__ __forceinline__ uint32_t signs_of(const quantize::Unit<T, kUnit>& u) {
  uint32_t even, odd;  // bytes whose highest bits are signs
  if constexpr (sizeof(T) == 2) {
    const uint32_t a = __byte_perm(u.word[0], u.word[1], 0x7351), b = __byte_perm(u.word[2], u.word[3], 0x7351);
    even = __byte_perm(a, b, 0x5410), odd = __byte_perm(a, b, 0x7632);
  } else {
    even = __byte_perm(__byte_perm(u.word[0], u.word[2], 0x0073), __byte_perm(u.word[4], u.word[6], 0x0073), 0x5410);
    odd = __byte_perm(__byte_perm(u.word[1], u.word[3], 0x0073), __byte_perm(u.word[5], u.word[7], 0x0073), 0x5410);
  }
  return (even >> 4 & 0x08080808u) | (odd & 0x80808080u);
}
// Codes of a unit by products with r, about 1 / s. What is not finite has any code.
template <class T, PackedFormat format> struct Encoder {
  using Unit = quantize::Unit<T, kUnit>;
  using Lanes = quantize::Lanes<float, kUnit>;
  static constexpr bool kPairs = format == PackedFormat::mxfp4 && std::is_same_v<T, bf16>;  // exact in bf16, two at a time
  float r, top;
  bool ties;  // nvfp4 of halves: quotients are ties or far from them
  __device__ __forceinline__ Encoder(float s, float most, bool ties) : top(6 * s), ties(ties) {
    if constexpr (format == PackedFormat::mxfp4) r = __uint_as_float(0x7f000000u - __float_as_uint(s));
    else if constexpr (format == PackedFormat::nvfp4) r = __fdividef(1, s);
    else r = 1 / s;
    if constexpr (kRounds<T, format>) r = rounding_factor(r, s, most);
    if constexpr (format == PackedFormat::nf4) r *= kPlacedEach;
    r = most > 0 && s > 0 ? r : 0;
  }
  static __device__ __forceinline__ constexpr int shift(int j) { return 4 * (high_first(format) ? j ^ 1 : j); }
  // `from` and the code of |x|, which is the least of three lines in |x| / s, rounded.
  __device__ __forceinline__ float line_of(float x, float from) const {
    const float a = fminf(fabsf(x), top);
    return fminf(fminf(__fmaf_rn(a, 2 * r, from), __fmaf_rn(a, r, from + 2)), __fmaf_rn(a, r / 2, from + 4));
  }
  __device__ __forceinline__ uint32_t codes_by_pairs(const Unit& u) const {
    const auto twice = [](float v) { return __byte_perm(__float_as_uint(v), 0, 0x3232); };
    const auto line = [](uint32_t a, uint32_t by, uint32_t from) {
      uint32_t y;
      asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(by), "r"(from));
      return y;
    };
    uint32_t z[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {  // from 192 on bf16 is whole numbers
      const uint32_t a = __vminu2(u.word[k] & 0x7fff7fffu, twice(top));
      z[k] = __vminu2(__vminu2(line(a, twice(2 * r), 0x43404340u), line(a, twice(r), 0x43424342u)), line(a, twice(r / 2), 0x43444344u));
    }
    const uint32_t a = __byte_perm(z[0], z[1], 0x6240), b = __byte_perm(z[2], z[3], 0x6240);
    return __byte_perm(a, b, 0x5410) + (__byte_perm(a, b, 0x7632) << 4) - 0x40404040u * 0x11u;
  }
  // Of numbers whose last bits are the codes, above kRoundWord - base.
  template <class F> static __device__ __forceinline__ uint32_t codes_rounded(F word) {
    uint32_t codes = 0;
#pragma unroll
    for (int j = 0; j < kUnit; ++j) codes += __float_as_uint(word(j)) << shift(j);
    return codes - __builtin_bit_cast(uint32_t, kRoundWord) * 0x11111111u;
  }
  // Of words whose high halves are the codes and whose low ones tell whether that is sure.
  template <class F> static __device__ __forceinline__ bool codes_placed(F word, uint32_t& codes) {
    uint32_t z[kUnit], least = 0xffffffffu;
    codes = 0;
#pragma unroll
    for (int j = 0; j < kUnit; ++j) z[j] = word(j);
#pragma unroll
    for (int j = 0; j < kUnit / 2; ++j) {
      codes += __byte_perm(z[j], z[j + 4], 0x7632) << shift(j);
      if constexpr (kDoubts<T, format>) least = __vminu2(least, __byte_perm(z[j], z[j + 4], 0x5410));
    }
    if constexpr (format != PackedFormat::nf4) codes -= (kPlacedWord >> 16) * 0x10001u * 0x1111u;
    return !kDoubts<T, format> || ((least & 0xffff) > 2 * kSlack<T, format> && least >> 16 > 2 * kSlack<T, format>);
  }
  // false: only a quotient tells one of them.
  __device__ __forceinline__ bool operator()(const Unit& u, const uint32_t* cell, uint32_t& codes) const {
    const auto x = Lanes::template of<T>(u);
    bool sure = true;
    if constexpr (kPairs) codes = codes_by_pairs(u);
    else if constexpr (format == PackedFormat::mxfp4) codes = codes_rounded([&](int j) { return line_of(x.v[j].v, kRoundWord); });
    else if constexpr (format == PackedFormat::nvfp4) {
      if (sizeof(T) == 2 && ties) codes = codes_rounded([&](int j) { return line_of(x.v[j].v, kPlacedBase) + (kRoundWord - kPlacedBase); });
      else sure = codes_placed([&](int j) { return __float_as_uint(line_of(x.v[j].v, kPlacedFrom<T, format>)); }, codes);
    } else if constexpr (kRounds<T, format>) codes = codes_rounded([&](int j) { return __fmaf_rn(x.v[j].v, r, 48.0f) + (kRoundWord - 40); });
    else
      sure = codes_placed([&](int j) {
        const uint32_t z = __float_as_uint(__fmaf_rn(x.v[j].v, r, kPlacedFrom<T, format>));
        return format == PackedFormat::nf4 ? z + cell[__byte_perm(z, 0, 0x4442)] : z;
      }, codes);
    if constexpr (kE2m1<format>) codes |= signs_of<T>(u);
    return sure;
  }
};
// A thread has P units of each of G blocks, a team's size apart; what shares a block is a part of a warp.
// Codes of nf4 wait for what is looked up in shared memory: blocks on a multiprocessor, where the registers suffice; 0: as they come.
template <class T, PackedFormat format> constexpr int kLeastBlocks = format == PackedFormat::nf4 && std::is_same_v<T, bf16> ? 6 : 0;
template <class T, PackedFormat format, int P, int G> __global__ void __launch_bounds__(kThreads, kLeastBlocks<T, format>) quantize_kernel(const __grid_constant__ Quantize q) {
  using Encode = Encoder<T, format>;
  __shared__ uint32_t cell[format == PackedFormat::nf4 ? kCellWords : 1];
  const QuantizePackedCuda& p = q.p;
  if constexpr (format == PackedFormat::nf4) {
    cell[threadIdx.x] = threadIdx.x < kPlacedCells ? q.cell[threadIdx.x] : 0;
    __syncthreads();
  }
  const float global = format == PackedFormat::nvfp4 && p.global_scale ? *p.global_scale : 1, by_six = __fdividef(1, 6 * global);
  const bool ties = (__float_as_uint(global) & 0x000fffffu) == 0;  // it has four bits
  const int log = __ffs(int(p.size / (kUnit * P))) - 1, units = int(q.teams.units), step = 1 << q.teams.log;
  const int lane = int(threadIdx.x) & (step - 1), of_block = lane & ((1 << log) - 1);
  const int64_t slots = kThreads >> q.teams.log;
  for (int64_t first = blockIdx.x * slots; first < q.teams.rows; first += gridDim.x * slots) {  // whole warps go through the shuffles
    const int64_t row = first + (threadIdx.x >> q.teams.log);
    int64_t at[4];
    quantize::row_offsets(p.rows, row < q.teams.rows ? row : 0, at);
    const T* const x = static_cast<const T*>(p.values) + at[0] + of_block * kUnit;
    uint32_t* const y = reinterpret_cast<uint32_t*>(const_cast<uint8_t*>(p.codes) + at[1]) + of_block;
    const int end = row < q.teams.rows ? units : 0;
    for (int begin = int(blockIdx.y) * G << q.teams.log; begin < units; begin += int(gridDim.y) * G << q.teams.log) {
      const auto block_of = [&](int g) { return (begin + lane + g * step) >> log; };
      const auto there = [&](int g) { return begin + lane + g * step < end; };
      quantize::Unit<T, kUnit> e[G][P];
#pragma unroll
      for (int g = 0; g < G; ++g)
#pragma unroll
        for (int k = 0; k < P; ++k) {
          e[g][k] = {};
          if (there(g)) e[g][k] = quantize::load_unit<true, kUnit>(x + int64_t(block_of(g)) * p.size + (k << log) * kUnit, kUnit);
        }
      bool strange[G];
      float most[G];
#pragma unroll
      for (int g = 0; g < G; ++g) {
        most[g] = quantize::most_of<T, kUnit>(e[g], strange[g]);
        for (int w = 1; w < 1 << log; w *= 2) most[g] = fmaxf(most[g], __shfl_xor_sync(0xffffffffu, most[g], w));
      }
#pragma unroll
      for (int g = 0; g < G; ++g) {
        if (!there(g)) break;
        const auto kept = [&]<class S>(S stored) {
          if (of_block == 0) static_cast<S*>(const_cast<void*>(p.scale))[at[2] + block_of(g) * p.scale_step] = stored;
          return stored;
        };
        float own;  // the scale without the global one
        if constexpr (format == PackedFormat::mxfp4) own = power_of(kept(power_code(most[g])));
        else if constexpr (format == PackedFormat::nvfp4) own = e4m3_of(kept(f8_e4m3fn{uint8_t(e4m3_code(most[g], global, most[g] * by_six))}).bits);
        else own = kept(float_scale(format, most[g]).stored);
        const float s = own * global;
        const Encode encode(s, most[g], ties);
        const bool plain = !strange[g] && (most[g] == 0 || own == 0 || (s > 0x1p-100f && s < 0x1p100f));  // 1 / s is one, too
        uint32_t* const to = y + int64_t(block_of(g)) * (P << log);
        unsigned doubts = plain ? 0 : (1u << P) - 1;
#pragma unroll
        for (int k = 0; k < P; ++k) {
          uint32_t codes;
          if (!encode(e[g][k], cell, codes)) doubts |= 1u << k;
          to[k << log] = codes;
        }
        for (; doubts; doubts &= doubts - 1) {
          const int k = (__ffs(int(doubts)) - 1) << log;
          const T* const unit = x + int64_t(block_of(g)) * p.size + k * kUnit;
          uint32_t codes = 0;
#pragma unroll 1
          for (int j = 0; j < kUnit; ++j) codes |= uint32_t(code_of(format, to_double(unit[j]), double(own) * double(global))) << Encode::shift(j);
          to[k] = codes;
        }
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
    const double s = keep_scale<format>(p, most, global, at[2] + block * p.scale_step);
#pragma unroll 1
    for (int64_t j = 0; j < p.size / 2; ++j) {
      const int a = code_of(format, to_double(x[2 * j * p.value_step]), s), b = code_of(format, to_double(x[(2 * j + 1) * p.value_step]), s);
      codes[j * p.code_step] = uint8_t(high_first(format) ? a << 4 | b : b << 4 | a);
    }
  }
}
template <class T, PackedFormat format, int P, int G> int quantize_units(const QuantizePackedCuda& p, int64_t team, void* stream) {
  static const auto cells = [] {
    std::array<uint32_t, kPlacedCells> c{};
    if constexpr (format == PackedFormat::nf4)
      for (int i = 0; i < kPlacedCells; ++i) c[size_t(i)] = placed_cell(i) + kSlack<T, format>;
    return c;
  }();
  Quantize q{p, Teams::of(p.rows.units, p.blocks * team, G), {}};
  while ((int64_t(1) << q.teams.log) < team) ++q.teams.log;  // a block's threads are of one team
  std::copy(cells.begin(), cells.end(), q.cell);
  return device::launch(quantize_kernel<T, format, P, G>, q.teams.grid(G), kThreads, 0, stream, q);
}
template <class T, PackedFormat format> int quantize_format(const QuantizePackedCuda& p, void* stream) {
  if constexpr (sizeof(T) < 8)
    if (const int64_t units = p.size / kUnit; p.whole && (units & (units - 1)) == 0 && p.blocks * units < INT32_MAX / 2) {
      constexpr int kParts = format == PackedFormat::nvfp4 || sizeof(T) == 4 ? 2 : 4;
      if (units >= kParts && units <= 32 * kParts) return quantize_units<T, format, kParts, 4 / kParts>(p, units / kParts, stream);
      if constexpr (!kE2m1<format>) {
        if (units < kParts) return quantize_units<T, format, 1, 1>(p, units, stream);
        if constexpr (kParts < 4)
          if (units <= 32 * 4) return quantize_units<T, format, 4, 1>(p, units / 4, stream);
      }
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
