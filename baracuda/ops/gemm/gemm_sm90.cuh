#pragma once
// Products of halves by wgmma (sm_90a), for units that put something between the sums and c: blocks that stay, one on each multiprocessor, go through
// tiles of 128 x 256 of c; a thread of a warpgroup of its own has the copy engine bring 64 of k at a time, three stages in flight, and runs ahead over
// the end of a tile; two warpgroups multiply, 64 x 256 sums in registers each, and leave c in shared memory, from where the copy engine stores it, or
// adds it to what is there (each element once), while the next tile is multiplied.
// Tiles follow one another in bands of 16 down c, so that the L2 cache holds what a wave of them reads. 2 m n k flops; floor: the matrix rate.
// Each sum is one chain over k in steps of 16, whatever m, n and their neighbours are.
// Two products may share a launch: tiles of the second one fill the blocks that the last tiles of the first one leave.
#include "baracuda/device/async_lines.cuh"
#include "baracuda/device/hopper.cuh"
#include "baracuda/device/launch.cuh"
#include "baracuda/device/launch.hpp"
#include "baracuda/ops/gemm/gemm_sm90.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace gemm_sm90_detail {
using namespace hopper;

constexpr int kM = 128, kMostN = 256, kK = 64, kStages = 3, kBand = 16;
constexpr int kWorkers = 256, kThreads = kWorkers + 128;
constexpr uint32_t kBytesA = kM * kK * 2, kStage = kBytesA + kMostN * kK * 2, kBox = 64 * 128, kStaging = 4 * kBox;  // of c: 64 rows of 128 bytes; of a warpgroup
constexpr size_t kShared = size_t(kStages) * kStage + 2 * kStaging + 1024;

struct Work {
  GemmSm90 g;
  CUtensorMap a, b, c;
  bool boxes;  // of c, by the copy engine
};
// What a kernel knows of a product: whether c is f32, columns of a tile, how a and b lie. n = 0: there is none.
template <bool kWide, int kN, int kAcrossA, int kAcrossB> struct Kind {
  static constexpr bool wide = kWide;
  static constexpr int n = kN, across_a = kAcrossA, across_b = kAcrossB;
};
using None = Kind<false, 0, 0, 0>;
// Nothing between the sums and c. Others know something of a thread's two rows before a tile, have the warpgroup fetch something to kOwn bytes of shared memory
// (a multiple of 16), and change the sums behind it.
struct AsTheyAre {
  struct Rows {};
  static constexpr bool kStores = true;
  static constexpr uint32_t kOwn = 0;
  __device__ __forceinline__ Rows rows(int64_t, int) const { return {}; }
  template <int kN> __device__ __forceinline__ void operator()(float (&)[kN / 8][4], const Rows&, int64_t, int, int, uint32_t) const {}
};
template <class E, int kProducts> struct Works {
  Work work[kProducts];
  E between;
};
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// What there is to do, by the count on the device.
struct Extent {
  int64_t m, k, tiles_m, tiles_n;
  bool add, none;
  int tile_n;
  __device__ Extent(const GemmSm90& g, int tile_n) : m(g.m), k(g.k), add(g.add), none(false), tile_n(tile_n) {
    if (g.of != GemmSm90::kAll) {
      const int64_t left = *g.count - g.first, some = left < 0 ? 0 : left;
      if (g.of == GemmSm90::kRows) m = some < m ? some : m;
      else {
        add = g.add || left > g.k;
        none = some == 0 && (g.first > 0 || add);
        k = some < k ? some : k;
      }
    }
    tiles_m = none ? 0 : (m + kM - 1) / kM, tiles_n = (g.n + tile_n - 1) / tile_n;
  }
  __device__ int64_t tiles() const { return tiles_m * tiles_n; }
  __device__ void place(int64_t t, int& row, int& column) const {
    const int64_t band = t / (kBand * tiles_n), top = band * kBand, height = tiles_m - top < kBand ? tiles_m - top : kBand, in = t - top * tiles_n;
    row = int(top + in % height) * kM, column = int(in / height) * tile_n;
  }
};
__device__ __forceinline__ uint32_t address_of(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void put4(uint32_t at, uint32_t v) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }
__device__ __forceinline__ void put8(uint32_t at, float a, float b) { asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(a), "f"(b) : "memory"); }
__device__ __forceinline__ uint4 get16(uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
  return v;
}
template <class T> __device__ __forceinline__ uint32_t halves(float a, float b) {
  uint32_t both;
  if constexpr (kIsF16<T>) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
  return both;
}
__device__ __forceinline__ float added(uint32_t a, uint32_t b) { return __uint_as_float(a) + __uint_as_float(b); }

// The 64 rows of a warpgroup from its sums to c.
template <class T, bool kWide, int kN> __device__ __forceinline__ void put_boxes(const float (&c)[kN / 8][4], const Work& work, bool add, int row0, int column0, uint32_t staging, int group) {
  constexpr int kColumns = kWide ? 32 : 64, kRound = 4 * kColumns < kN ? 4 * kColumns : kN;
  const int thread = int(anew(threadIdx.x)) % 128, lane = thread % 32, row = thread / 32 * 16 + lane / 4, q = lane % 4;
#pragma unroll
  for (int first = 0; first < kN; first += kRound) {
    if (thread == 0) wait_stores_read();
    named_wait(1 + group, 128);
#pragma unroll
    for (int j = 0; j < kRound / 8; ++j) {
      const float(&v)[4] = c[first / 8 + j];
      const uint32_t box = staging + uint32_t(j / (kColumns / 8)) * kBox + uint32_t(row) * 128;  // row + 8 is the same of 8
      if constexpr (kWide) {
        const uint32_t at = box + uint32_t((j % 4 * 2 + q / 2) ^ (row % 8)) * 16 + uint32_t(q % 2) * 8;
        put8(at, v[0], v[1]), put8(at + 8 * 128, v[2], v[3]);
      } else {
        const uint32_t at = box + uint32_t(j % 8 ^ (row % 8)) * 16 + uint32_t(q) * 4;
        put4(at, halves<T>(v[0], v[1])), put4(at + 8 * 128, halves<T>(v[2], v[3]));
      }
    }
    publish();
    named_wait(1 + group, 128);
    if (thread != 0) continue;
#pragma unroll
    for (int i = 0; i < kRound / kColumns; ++i) {
      const int column = column0 + first + i * kColumns;
      if (column >= work.g.n) break;
      if (kWide && add) add_box(work.c, staging + uint32_t(i) * kBox, column, row0);
      else store_box(work.c, staging + uint32_t(i) * kBox, column, row0);
    }
    commit_stores();
  }
}
// Where the copy engine cannot: the 16 rows of a warp, 64 columns at a time. Chunks of 16 bytes lie where neither writing nor reading meets in a bank.
template <class T, bool kWide, int kN> __device__ __forceinline__ void put_rows(const float (&c)[kN / 8][4], const GemmSm90& g, bool add, int64_t m, int row0, int column0, uint32_t staging) {
  constexpr int kChunks = kWide ? 16 : 8, kRowBytes = kChunks * 16, kPer = 16 * kChunks / 32, kLanes = kWide ? 4 : 8;  // lanes: elements of a chunk
  const int lane = int(anew(threadIdx.x)) % 32, r = lane / 4, q = lane % 4;
  using C = std::conditional_t<kWide, float, T>;
  C* to[kPer];
  bool there[kPer];
#pragma unroll
  for (int s = 0; s < kPer; ++s) {
    const int row = row0 + s * (32 / kChunks) + lane / kChunks;
    there[s] = row < m;
    to[s] = static_cast<C*>(g.c) + (there[s] ? (g.rows_of_c ? g.rows_of_c[g.first + row] : row) * g.c_pitch : 0) + column0 + lane % kChunks * kLanes;
  }
  const bool aligned = uintptr_t(g.c) % 16 == 0 && g.c_pitch % kLanes == 0;
#pragma unroll
  for (int piece = 0; piece < kN / 64; ++piece) {
    const int left = int(g.n) - column0 - piece * 64 - lane % kChunks * kLanes;
    const bool whole = aligned && left >= kLanes;
    uint4 old[kWide ? kPer : 1];
    if constexpr (kWide)
      if (add && whole)
#pragma unroll
        for (int s = 0; s < kPer; ++s)
          if (there[s]) old[s] = *reinterpret_cast<const uint4*>(to[s] + piece * 64);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float(&v)[4] = c[piece * 8 + j];
      if constexpr (kWide) {
        const uint32_t at = staging + uint32_t(r * kRowBytes + ((2 * j + q / 2) ^ (r % 4 * 2)) * 16 + q % 2 * 8);
        put8(at, v[0], v[1]), put8(at + 8 * kRowBytes, v[2], v[3]);
      } else {
        const uint32_t at = staging + uint32_t(r * kRowBytes + (j ^ r) * 16 + q * 4);
        put4(at, halves<T>(v[0], v[1])), put4(at + 8 * kRowBytes, halves<T>(v[2], v[3]));
      }
    }
    __syncwarp();
#pragma unroll
    for (int s = 0; s < kPer; ++s) {
      const int row = s * (32 / kChunks) + lane / kChunks, chunk = lane % kChunks ^ (kWide ? row % 4 * 2 : row % 8);
      uint4 v = get16(staging + uint32_t(row * kRowBytes + chunk * 16));
      if (!there[s] || left <= 0) continue;
      C* const at = to[s] + piece * 64;
      if (whole) {
        if constexpr (kWide)
          if (add) {
            v.x = __float_as_uint(added(v.x, old[s].x)), v.y = __float_as_uint(added(v.y, old[s].y));
            v.z = __float_as_uint(added(v.z, old[s].z)), v.w = __float_as_uint(added(v.w, old[s].w));
          }
        *reinterpret_cast<uint4*>(at) = v;
        continue;
      }
      const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        if (j >= left) break;
        if constexpr (kWide) at[j] = add ? added(words[j], __float_as_uint(at[j])) : __uint_as_float(words[j]);
        else at[j].bits = uint16_t(words[j / 2] >> (j % 2 * 16));
      }
    }
  }
}
// The tiles of a block, of one product after the other. Blocks without a last tile of the first take tiles of the second meanwhile.
struct Turns {
  int64_t first, alone, firsts, alones, idle, tiles, i = -1, tile = 0;
  int product = 0;
  __device__ Turns(int64_t tiles_of_first, int64_t steps_of_first, int64_t tiles_of_second, int64_t steps_of_second) : tiles(tiles_of_second) {
    constexpr int64_t kEnd = 3;  // of a tile, in steps
    const int64_t blocks = gridDim.x, b = blockIdx.x, last = tiles_of_first % blocks;
    firsts = tiles_of_first > b ? (tiles_of_first - b + blocks - 1) / blocks : 0;
    idle = last > 0 ? blocks - last : 0, first = b - last;
    alone = idle > 0 ? (steps_of_first + kEnd) / (steps_of_second + kEnd) : 0;
    if (idle > 0 && alone > tiles / idle) alone = tiles / idle;
    alones = idle > 0 && b >= last ? alone : 0;
  }
  __device__ bool next() {
    ++i;
    product = i >= firsts;
    if (i < firsts) tile = blockIdx.x + i * gridDim.x;
    else if (i < firsts + alones) tile = (i - firsts) * idle + first;
    else tile = alone * idle + blockIdx.x + (i - firsts - alones) * gridDim.x;
    return product == 0 || tile < tiles;
  }
};
#endif

template <class T, class E, class First, class Second> __global__ void __launch_bounds__(kThreads, 1) wgmma_kernel(const __grid_constant__ Works<E, Second::n ? 2 : 1> works) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char memory[];
  __shared__ uint64_t barriers[2 * kStages];
  const uint32_t stages = (address_of(memory) + 1023) / 1024 * 1024, full = address_of(barriers), free = full + 8 * kStages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) barrier_init(full + 8 * i, 1), barrier_init(free + 8 * i, kWorkers / 32);
    barriers_made();
  }
  __syncthreads();
  constexpr bool kTwo = Second::n != 0;
  const Extent extent_of_first(works.work[0].g, First::n), extent_of_second(works.work[kTwo].g, kTwo ? Second::n : First::n);
  const auto steps_of = [](const Extent& e) { return int((e.k + kK - 1) / kK); };
  Turns turns(extent_of_first.tiles(), steps_of(extent_of_first), kTwo ? extent_of_second.tiles() : 0, steps_of(extent_of_second));
  // f(which product, its kind) for a block's tiles
  const auto each_tile = [&](auto f) {
    while (turns.next()) {
      if constexpr (kTwo) {
        if (turns.product) {
          f(std::integral_constant<int, 1>{}, Second{});
          continue;
        }
      }
      f(std::integral_constant<int, 0>{}, First{});
    }
  };
  uint32_t stage = 0, phase = 0;
  const auto next = [&] {
    if (++stage == kStages) stage = 0, phase ^= 1;
  };
  if (int(threadIdx.x) >= kWorkers) {
    give_registers<40>();
    if (int(threadIdx.x) != kWorkers) return;
    each_tile([&](auto which, auto kind) {
      using K = decltype(kind);
      constexpr uint32_t kBytesB = K::n * kK * 2;
      const Work& work = works.work[which];
      const Extent& extent = which ? extent_of_second : extent_of_first;
      const GemmSm90& g = work.g;
      const int steps = steps_of(extent);
      int row, column;
      extent.place(turns.tile, row, column);
      const int rows_ahead = K::wide && extent.add && steps > 0 ? (kM + steps - 1) / steps : 0;  // of c, to the L2 cache
#pragma unroll 1
      for (int s = 0; s < steps; ++s, next()) {
        const uint32_t at = stages + stage * kStage, bar = full + 8 * stage;
        barrier_wait(free + 8 * stage, phase ^ 1);
        barrier_expect(bar, kBytesA + kBytesB);
        if constexpr (K::across_a) load_box(at, work.a, bar, row, s * kK, 0, 0), load_box(at + kBytesA / 2, work.a, bar, row + 64, s * kK, 0, 0);
        else load_box(at, work.a, bar, s * kK, row, 0, 0);
        if constexpr (K::across_b)
#pragma unroll
          for (int i = 0; i < K::n / 64; ++i) load_box(at + kBytesA + uint32_t(i) * (kBytesB * 64 / K::n), work.b, bar, column + 64 * i, s * kK, 0, 0);
        else load_box(at + kBytesA, work.b, bar, s * kK, column, 0, 0);
        for (int i = s * rows_ahead; i < (s + 1) * rows_ahead && i < kM && row + i < extent.m; ++i) {
          const int bytes = (int(g.n) - column < K::n ? int(g.n) - column : K::n) * 4 / 16 * 16;
          const float* const from = static_cast<const float*>(g.c) + int64_t(row + i) * g.c_pitch + column;
          if (bytes > 0 && uintptr_t(from) % 16 == 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
        }
      }
    });
    return;
  }
  take_registers<232>();
  const int warp = __shfl_sync(0xffffffffu, int(threadIdx.x) / 32, 0), lane = int(threadIdx.x) % 32;
  const uint32_t group = uint32_t(warp / 4), staging = stages + kStages * kStage + group * kStaging;
  const uint32_t own = stages + kStages * kStage + 2 * kStaging + group * E::kOwn;
  float sums[(First::n > Second::n ? First::n : Second::n) / 8][4];
  bool stored = false;
  each_tile([&](auto which, auto kind) {
    using K = decltype(kind);
    float(&c)[K::n / 8][4] = reinterpret_cast<float(&)[K::n / 8][4]>(sums);
    const Work& work = works.work[which];
    const Extent& extent = which ? extent_of_second : extent_of_first;
    const int steps = steps_of(extent);
    int row, column;
    extent.place(turns.tile, row, column);
    const typename E::Rows rows = works.between.rows(extent.m, row + warp * 16 + lane / 4);
    if constexpr (E::kOwn > 0) {
      named_wait(1 + int(group), 128);  // of the tile before nothing is read any more
      works.between.fetch(own, extent.m, row + int(group) * 64, column);
    }
    uint32_t before = 0;
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      barrier_wait(full + 8 * stage, phase);
      const uint32_t at = anew(stages + stage * kStage);
      const uint64_t a = operand(at + group * (kBytesA / 2), 8192), b = operand(at + kBytesA, 8192);
      begin_products();
#pragma unroll
      for (int i = 0; i < kK / 16; ++i)
        wgmma<T, K::across_a, K::across_b>(c, further(a, i * (K::across_a ? 2048 : 32)), further(b, i * (K::across_b ? 2048 : 32)), s + i != 0);
      commit_products();
      wait_products<1>();
      if (s > 0 && lane == 0) barrier_arrive(free + 8 * before);
      before = stage;
      next();
    }
    wait_products<0>();
    pin(c);
    if (steps > 0 && lane == 0) barrier_arrive(free + 8 * before);
    if (steps == 0)
#pragma unroll
      for (int j = 0; j < K::n / 8; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) c[j][i] = 0;
    if constexpr (E::kOwn > 0) {
      device_lines::wait_for_lines<0>();
      named_wait(1 + int(group), 128);
    }
    works.between.template operator()<K::n>(c, rows, extent.m, row + warp * 16 + lane / 4, column, own);
    if constexpr (E::kStores) {
      stored = stored || work.boxes;
      if (work.boxes) put_boxes<T, K::wide, K::n>(c, work, extent.add, row + int(group) * 64, column, staging, int(group));
      else {
        if (stored) {  // the copy engine may still read what an earlier tile left there
          if (threadIdx.x % 128 == 0) wait_stores_read();
          named_wait(1 + int(group), 128);
        }
        const int64_t up = (extent.m + kK - 1) / kK * kK, some = up < work.g.m ? up : work.g.m;  // the next product may take these rows for terms
        put_rows<T, K::wide, K::n>(c, work.g, extent.add, work.g.rows_of_c ? extent.m : some, row + warp * 16, column, staging + uint32_t(warp % 4) * (kStaging / 4));
      }
    }
  });
  if (stored && threadIdx.x % 128 == 0) wait_stores_read();
#endif
}

inline bool make_side(CUtensorMap& map, bool is_f16, const GemmSm90Side& s, int64_t outer, int64_t k, int rows) {
  const int64_t extent[4] = {1, 1, s.across ? k : outer, s.across ? outer : k}, stride[4] = {0, 0, s.pitch, 1};
  return make_map(map, is_f16, s.p, extent, stride, s.across ? kK : rows);
}
// False: the copy engine cannot read it. tile_n: columns of a tile; stores: c is written.
inline bool make_work(Work& w, const GemmSm90& g, bool is_f16, int tile_n, bool stores = true) {
  w.g = g;
  if (g.m > INT32_MAX - kM || g.n > INT32_MAX - kMostN || !make_side(w.a, is_f16, g.a, g.m, g.k, kM) || !make_side(w.b, is_f16, g.b, g.n, g.k, tile_n)) return false;
  const int64_t extent[4] = {1, 1, g.m, g.n}, stride[4] = {0, 0, g.c_pitch, 1};
  const CUtensorMapDataType halves = is_f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  w.boxes = stores && !g.rows_of_c && g.n % (g.wide ? 4 : 8) == 0 && make_map(w.c, g.wide ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : halves, g.c, extent, stride, 64);
  return true;
}
inline int64_t tiles_of(const Work& w, int tile_n) { return device::ceil_div(w.g.m, kM) * device::ceil_div(w.g.n, tile_n); }
template <class T, class E, class First, class Second = None> int launch_product(const Works<E, Second::n ? 2 : 1>& w, int64_t most, void* stream) {
  const int64_t tiles = tiles_of(w.work[0], First::n) + (Second::n ? tiles_of(w.work[Second::n ? 1 : 0], Second::n ? Second::n : 1) : 0);
  return device::launch(wgmma_kernel<T, E, First, Second>, unsigned(tiles < most ? tiles : most), kThreads, kShared + 2 * E::kOwn, stream, w);
}
// Multiprocessors of the current device; 0: error.
inline int64_t multiprocessors(int& error) {
  int device = 0;
  error = int(cudaGetDevice(&device));
  return error ? 0 : device::facts(device).multiprocessors;
}

}  // namespace gemm_sm90_detail
}  // namespace baracuda
