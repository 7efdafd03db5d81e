#pragma once
// Blocks of attention on tensor cores (sm_80 and newer): tiles of 16-bit rows in shared memory, mma.sync m16n8k16 with f32 sums.
//
// A tile row is kWidth elements, in chunks of 16 bytes; chunk c of row r lies at c ^ (r % 8), so that the eight rows that an ldmatrix
// reads at one chunk meet eight groups of banks. Fragments: lane = 4 g + t; a sum tile of 16 x 8 has rows g, g + 8 and columns 2t, 2t + 1.
#include "baracuda/device/launch.cuh"
#include "baracuda/device/walk.hpp"
#include "baracuda/ops/attention/attention_exact.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

template <class T> __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kIsF16<T>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void ldmatrix(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void ldmatrix_across(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
// Two sums as a pair of T, the first in the low half.
template <class T> __device__ __forceinline__ uint32_t pair(float low, float high) {
  uint32_t r;
  if constexpr (kIsF16<T>) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ __forceinline__ uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
// 16 bytes, the first `bytes` of them from memory, zeros behind.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_async_word(uint32_t to, const void* from, bool some) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(some ? 4 : 0) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory"); }
__device__ __forceinline__ void store_shared(uint32_t to, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ void store_shared(uint32_t to, uint32_t v) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(v) : "memory"); }
__device__ __forceinline__ void store_floats(uint32_t to, float2 v) { asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(to), "f"(v.x), "f"(v.y) : "memory"); }
__device__ __forceinline__ uint4 load_shared(uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ uint32_t load_shared_word(uint32_t at) {
  uint32_t v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}
// Which halves of a pair are NaN or infinite: 0xffff each.
template <class T> __device__ __forceinline__ uint32_t nonfinite(uint32_t v) {
  constexpr uint32_t e = kIsF16<T> ? 0x7c00 : 0x7f80;
  return ((v & e) == e ? 0xffffu : 0) | ((v >> 16 & e) == e ? 0xffff0000u : 0);
}
template <class T> __device__ __forceinline__ float low_half(uint32_t v) {
  if constexpr (kIsF16<T>) return to_float(__builtin_bit_cast(f16, uint16_t(v)));
  else return __builtin_bit_cast(float, v << 16);
}
template <class T> __device__ __forceinline__ float high_half(uint32_t v) { return low_half<T>(v >> 16); }

// Whether chunks of 16 bytes can be read where they lie.
inline bool in_chunks(const SdpaTensor& t) { return (uintptr_t(t.p) | uintptr_t(2 * t.batch) | uintptr_t(2 * t.head) | uintptr_t(2 * t.row)) % 16 == 0; }

// Rows of up to kWidth elements of T in shared memory, filled by kThreads threads. kBlock: columns lie in blocks of 64, so many rows each.
template <class T, int kWidth, int kThreads, int kBlock = 0> struct MmaTile {
  static constexpr int kChunks = kWidth / 8, kStep = kThreads / kChunks;  // rows between a thread's rows
  static_assert(kThreads % kChunks == 0 && kChunks % 8 == 0);
  __device__ static uint32_t at(uint32_t tile, int row, int chunk) {
    if constexpr (kBlock != 0) return tile + uint32_t((chunk / 8 * kBlock + row) * 128 + ((chunk % 8 ^ (row & 7)) << 4));
    return tile + uint32_t(row * kWidth * 2 + ((chunk ^ (row & 7)) << 4));
  }

  // Queues rows [0, n) by address(r), zeros behind them up to kRows and behind their d elements.
  template <int kRows, class F> __device__ static void copy(uint32_t tile, int n, int d, bool chunks, F address) {
    const int c = int(threadIdx.x) % kChunks, filled = 2 * (d - 8 * c), bytes = filled < 0 ? 0 : filled > 16 ? 16 : filled;
    if (chunks) {
#pragma unroll 2
      for (int r = int(threadIdx.x) / kChunks; r < kRows; r += kStep) {
        const T* from = address(r < n ? r : 0);
        const bool some = r < n && bytes > 0;
        copy_async(at(tile, r, c), some ? from + 8 * c : from, some ? bytes : 0);
      }
    } else {
#pragma unroll 1
      for (int r = int(threadIdx.x) / kChunks; r < kRows; r += kStep) {
        uint32_t word[4] = {};
        if (r < n) {
          const uint16_t* from = reinterpret_cast<const uint16_t*>(address(r));
#pragma unroll
          for (int e = 0; e < 8; ++e)
            if (8 * c + e < d) word[e / 2] |= uint32_t(from[8 * c + e]) << (e % 2 * 16);
        }
        store_shared(at(tile, r, c), uint4{word[0], word[1], word[2], word[3]});
      }
    }
  }
  template <int kRows> __device__ static void copy(uint32_t tile, const T* from, int64_t row, int n, int d, bool chunks) {
    if (chunks && n >= kRows && kStep <= 8) {  // a thread's rows are kStep apart, so that its chunks lie at few places of a row
      const int c = int(threadIdx.x) % kChunks, first = int(threadIdx.x) / kChunks, filled = 2 * (d - 8 * c), bytes = filled < 0 ? 0 : filled > 16 ? 16 : filled;
      const T* at_row = from + first * row + (bytes > 0 ? 8 * c : 0);
      const uint32_t place = at(tile, first, c);
#pragma unroll(kRows / kStep > 8 ? 4 : 8)
      for (int i = 0; i < kRows / kStep; ++i, at_row += kStep * row) copy_async((place ^ (i * kStep % 8 << 4)) + i * kStep * (kBlock != 0 ? 128 : kWidth * 2), at_row, bytes);
    } else copy<kRows>(tile, n, d, chunks, [&](int r) { return from + r * row; });
  }
  // Whether this thread's part of the tile holds a NaN or an infinity.
  template <int kRows> __device__ static bool any_nonfinite(uint32_t tile) {
    uint32_t bad = 0;
#pragma unroll 4
    for (int r = int(threadIdx.x) / kChunks; r < kRows; r += kStep) {
      const uint4 v = load_shared(at(tile, r, int(threadIdx.x) % kChunks));
      bad |= nonfinite<T>(v.x) | nonfinite<T>(v.y) | nonfinite<T>(v.z) | nonfinite<T>(v.w);
    }
    return bad != 0;
  }
  // Zeros in their place.
  __device__ static void clean_chunk(uint32_t place) {
    const uint4 v = load_shared(place);
    store_shared(place, uint4{v.x & ~nonfinite<T>(v.x), v.y & ~nonfinite<T>(v.y), v.z & ~nonfinite<T>(v.z), v.w & ~nonfinite<T>(v.w)});
  }
  template <int kRows> __device__ static void clean(uint32_t tile) {
#pragma unroll 1
    for (int r = int(threadIdx.x) / kChunks; r < kRows; r += kStep) clean_chunk(at(tile, r, int(threadIdx.x) % kChunks));
  }
  // 16 rows from `row` and 16 elements from chunk 2 k, as the left side of a product.
  __device__ static void left(uint32_t (&a)[4], uint32_t tile, int row, int k) {
    const int lane = int(threadIdx.x) % 32;
    ldmatrix(a, at(tile, row + lane % 16, 2 * k + lane / 16));
  }
  // As the right side, rows being its columns: 16 columns of the product; b[0], b[1] the first eight.
  __device__ static void right(uint32_t (&b)[4], uint32_t tile, int row, int k) {
    const int lane = int(threadIdx.x) % 32;
    ldmatrix(b, at(tile, row + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
  }
  // As the right side, rows being what the product sums over: 16 of them, elements from chunk 2 k as 16 columns.
  __device__ static void right_across(uint32_t (&b)[4], uint32_t tile, int row, int k) {
    const int lane = int(threadIdx.x) % 32;
    ldmatrix_across(b, at(tile, row + lane % 16, 2 * k + lane / 16));
  }
};

// sum += rows . tile^T over d elements, for kTiles x 16 rows, whose fragments left(a, m, k) gives, and kKeys rows of `tile`.
template <class Tile, class T, int kWidth, int kTiles, int kKeys, class Left>
__device__ __forceinline__ void scores_of(float (&sum)[kTiles][kKeys / 8][4], Left left, uint32_t tile, int d) {
#pragma unroll
  for (int m = 0; m < kTiles; ++m)
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[m][n][i] = 0;
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) {
    if (16 * k >= d) break;
    uint32_t a[kTiles][4];
#pragma unroll
    for (int m = 0; m < kTiles; ++m) left(a[m], m, k);
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      uint32_t b[4];
      Tile::right(b, tile, 16 * n, k);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) mma<T>(sum[m][2 * n], a[m], b[0], b[1]), mma<T>(sum[m][2 * n + 1], a[m], b[2], b[3]);
    }
  }
}
// The same for rows of `rows` from `row` on.
template <class Tile, class T, int kWidth, int kTiles, int kKeys>
__device__ __forceinline__ void scores(float (&sum)[kTiles][kKeys / 8][4], uint32_t rows, int row, uint32_t tile, int d) {
  scores_of<Tile, T, kWidth, kTiles, kKeys>(sum, [&](uint32_t (&a)[4], int m, int k) { Tile::left(a, rows, row + 16 * m, k); }, tile, d);
}
// sum += weights . tile over kKeys rows from `row` and kColumns columns from chunk `chunk`: weights[m][n] is a sum tile as pairs, rows g and g + 8.
template <class Tile, class T, int kColumns, int kTiles, int kKeys>
__device__ __forceinline__ void weighted(float (&sum)[kTiles][kColumns / 8][4], const uint32_t (&weights)[kTiles][kKeys / 8][2], uint32_t tile, int chunk, int d) {
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
    uint32_t a[kTiles][4];
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
      a[m][0] = weights[m][2 * k][0], a[m][1] = weights[m][2 * k][1], a[m][2] = weights[m][2 * k + 1][0], a[m][3] = weights[m][2 * k + 1][1];
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      if (8 * chunk + 16 * n >= d) break;
      uint32_t b[4];
      Tile::right_across(b, tile, 16 * k, chunk / 2 + n);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) mma<T>(sum[m][2 * n], a[m], b[0], b[1]), mma<T>(sum[m][2 * n + 1], a[m], b[2], b[3]);
    }
  }
}
// What is not finite in `count` rows of memory enters the sums by hand, where it is seen: bit e of seen[i] is the e-th column of the
// lane's line i. (In shared memory zeros stand in its place, since a weight of 0 must not meet it.)
template <class T, int kColumns, int kTiles>
__device__ __forceinline__ void add_nonfinite(float (&sum)[kTiles][kColumns / 8][4], const uint32_t (&seen)[2 * kTiles], const T* from, int64_t row, int count, int column0, int d) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll 1
  for (int j = 0; j < count; ++j) {
    const uint16_t* const value = reinterpret_cast<const uint16_t*>(from + j * row);
    int t = lane % 4;
    asm volatile("" : "+r"(t));  // what follows from it takes no registers outside this rare loop
    bool here[2 * kTiles];
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) here[i] = __shfl_sync(kAllLanes, seen[i], (lane & ~3) | (j % 8 / 2)) >> (j / 8 * 2 + j % 2) & 1;
#pragma unroll
    for (int e = 0; e < kColumns / 4; ++e) {
      const int column = column0 + e / 2 * 8 + 2 * t + e % 2;
      const uint32_t bits = column < d ? value[column] : 0;
      if (!nonfinite<T>(bits)) continue;
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i)
        if (here[i]) sum[i / 2][e / 2][2 * (i % 2) + e % 2] += low_half<T>(bits);
    }
  }
}
// The warp's sums times factor[line] to its rows of a tile.
template <class Tile, class T, int kColumns, int kTiles>
__device__ __forceinline__ void stage_rows(const float (&sum)[kTiles][kColumns / 8][4], const float (&factor)[2 * kTiles], uint32_t tile, int first, int lane) {
  const int g = lane / 4, t = lane % 4;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2 * kTiles; ++i)
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j)
      store_shared(Tile::at(tile, first + 16 * (i / 2) + 8 * (i % 2) + g, j) + 4 * t, pair<T>(sum[i / 2][j][2 * (i % 2)] * factor[i], sum[i / 2][j][2 * (i % 2) + 1] * factor[i]));
}
// Rows [first, n) of the warp's sums times factor[line] to memory, by way of the warp's rows of a tile, 16 bytes a lane. kMended: only where what is there
// is not finite.
template <class Tile, class T, int kColumns, int kTiles, bool kMended = false, class F>
__device__ __forceinline__ void write_rows(const float (&sum)[kTiles][kColumns / 8][4], const float (&factor)[2 * kTiles], uint32_t tile, int first, int n, int chunk, int d,
                                           bool chunks, F address) {
  const int lane = int(threadIdx.x) % 32;
  stage_rows<Tile, T, kColumns, kTiles>(sum, factor, tile, first, lane);
  __syncwarp();
#pragma unroll 1
  for (int i = lane; i < 16 * kTiles * (kColumns / 8); i += 32) {
    const int r = first + i / (kColumns / 8), c = i % (kColumns / 8), left = d - 8 * (chunk + c);
    if (r >= n || left <= 0) continue;
    const uint4 value = load_shared(Tile::at(tile, r, c));
    uint16_t* const to = reinterpret_cast<uint16_t*>(address(r)) + 8 * (chunk + c);
    if (chunks && left >= 8 && !kMended) *reinterpret_cast<uint4*>(to) = value;
    else {
      const uint32_t word[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
      for (int e = 0; e < 8; ++e)
        if (e < left && (!kMended || nonfinite<T>(to[e]))) to[e] = uint16_t(word[e / 2] >> (e % 2 * 16));
    }
  }
}

// tanh(x inward) for scores whose weights are rounded to T: for bf16 the instruction, a relative error of 2^-11; `inward` is in its unit.
template <class T> constexpr double kTanhUnit = kIsF16<T> ? 2 * kExpUnit<Pack<float, 1>> : 1;
template <class T> __device__ __forceinline__ Pack<float, 1> brief_tanh(Pack<float, 1> x, Pack<float, 1> inward) {
  using V = Pack<float, 1>;
  if constexpr (kIsF16<T>) return quick_tanh(x * inward);
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"((x * inward).v));
  return V::of(y);
}

// One round of the online softmax: sums x become weights, as pairs; m and l follow, and sums of weighted rows shrink. False: all by 1.
template <class T, int kTiles, int kStep>
__device__ __forceinline__ bool soften(float (&x)[kTiles][kStep / 8][4], float (&m)[2 * kTiles], float (&l)[2 * kTiles], float (&shrink)[2 * kTiles],
                                       uint32_t (&weights)[kTiles][kStep / 8][2], Pack<float, 1> unit) {
  using V = Pack<float, 1>;
  bool rescale = false;
#pragma unroll
  for (int i = 0; i < 2 * kTiles; ++i) {
    float top = m[i];
#pragma unroll
    for (int e = 0; e < kStep / 4; ++e) top = fmaxf(top, x[i / 2][e / 2][2 * (i % 2) + e % 2]);  // NaN does not count
    top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
    top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
    const V safe = V::of(top == float(-kInf) ? 0 : top);
    shrink[i] = m[i] == float(-kInf) ? 1 : exp_weight<4>((V::of(m[i]) - safe) * unit).v;  // nothing to shrink yet: 1
    rescale = rescale || shrink[i] != 1;
    m[i] = top;
    V sum = V(0);
#pragma unroll
    for (int j = 0; j < kStep / 8; ++j) {
      const V a = exp_weight<4>((V::of(x[i / 2][j][2 * (i % 2)]) - safe) * unit), b = exp_weight<4>((V::of(x[i / 2][j][2 * (i % 2) + 1]) - safe) * unit);
      sum = sum + (a + b);
      weights[i / 2][j][i % 2] = pair<T>(a.v, b.v);
    }
    l[i] = fma(V::of(l[i]), V::of(shrink[i]), sum).v;
  }
  return __any_sync(kAllLanes, rescale);
}
template <int kTiles, int kSums> __device__ __forceinline__ void scale_rows(float (&sum)[kTiles][kSums][4], const float (&factor)[2 * kTiles]) {
#pragma unroll
  for (int i = 0; i < 2 * kTiles; ++i)
#pragma unroll
    for (int j = 0; j < kSums; ++j) sum[i / 2][j][2 * (i % 2)] *= factor[i], sum[i / 2][j][2 * (i % 2) + 1] *= factor[i];
}
// Sums over the lanes of a row.
__device__ __forceinline__ float row_sum(float v) {
  v += __shfl_xor_sync(kAllLanes, v, 1);
  return v + __shfl_xor_sync(kAllLanes, v, 2);
}
// Line i's scores outside columns [begin, end) become -inf; the bits of those that count.
template <int kTiles, int kStep> __device__ __forceinline__ uint32_t hide(float (&x)[kTiles][kStep / 8][4], int i, int begin, int end) {
  begin -= int(threadIdx.x) % 4 * 2, end -= int(threadIdx.x) % 4 * 2;
  uint32_t seen = 0;
#pragma unroll
  for (int e = 0; e < kStep / 4; ++e) {
    float& score = x[i / 2][e / 2][2 * (i % 2) + e % 2];
    const int at = e / 2 * 8 + e % 2;
    if (at < begin || at >= end) score = float(-kInf);
    seen |= uint32_t(score != float(-kInf)) << e;
  }
  return seen;
}

constexpr ByDType<SdpaLaunch> of_halves(SdpaLaunch of_f16, SdpaLaunch of_bf16) {
  ByDType<SdpaLaunch> table;
  table[DType::f16] = of_f16, table[DType::bf16] = of_bf16;
  return table;
}
template <template <class, int> class F> constexpr ByDType<SdpaLaunch> halves_by_width() { return of_halves(by_width<F, f16>, by_width<F, bf16>); }

}  // namespace attention
}  // namespace baracuda
