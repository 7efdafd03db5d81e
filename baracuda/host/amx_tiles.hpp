#pragma once
// The tiles of AMX, inside the namespace of its instruction set: their extents, how they are moved and multiplied. For units listed with
// AMX. Each has its own copy: everything is inlined.
#include <cstdint>
#include "baracuda/math/half.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

constexpr int kSide = 16, kBlock = 2 * kSide;  // rows and columns of a tile of sums; of a block of four
constexpr int kStep = 16;                      // groups of k that an instruction takes
constexpr int64_t kLine = 64;

// The tiles' extents, as the processor reads them, and the time in which they hold.
struct alignas(64) TileExtents {
  uint8_t palette = 1, start = 0, unused[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
  void set(int tile, int tile_rows, int bytes) { rows[tile] = uint8_t(tile_rows), row_bytes[tile] = uint16_t(bytes); }
};
inline TileExtents whole_tiles() {
  TileExtents e;
  for (int t = 0; t < 8; ++t) e.set(t, kSide, kLine);
  return e;
}
BARACUDA_HD void begin_tiles(const TileExtents& e) { asm volatile("ldtilecfg %0" ::"m"(e)); }
BARACUDA_HD void end_tiles() { asm volatile("tilerelease"); }
struct TileSession {
  explicit TileSession(const TileExtents& e) { begin_tiles(e); }
  ~TileSession() { end_tiles(); }
  TileSession(const TileSession&) = delete;
};
// The compiler's own functions for these do not say that they read memory.
template <int T> BARACUDA_HD void tile_load(const void* p, int64_t row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(row_bytes), "i"(T) : "memory");
}
template <int T> BARACUDA_HD void tile_store(void* p, int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(row_bytes), "i"(T) : "memory");
}
template <int T> BARACUDA_HD void tile_zero() { asm volatile("tilezero %%tmm%c0" ::"i"(T)); }
template <int C, int A, int B> BARACUDA_HD void tile_multiply() { asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B)); }

// Blocks of M x N tiles of sums, which are tiles 0 ... 3; 4 and 5 are of A, 6 and 7 of B.
// One step of k: rows of A with dense k, pairs of k of B's columns side by side; rows of either that many bytes apart.
template <int M, int N> BARACUDA_HD void tile_step(const bf16* a, int64_t a_bytes, const bf16* b, int64_t b_bytes) {
  tile_load<6>(b, b_bytes);
  tile_load<4>(a, a_bytes);
  tile_multiply<0, 4, 6>();
  if constexpr (N > 1) tile_load<7>(b + 2 * kSide, b_bytes), tile_multiply<1, 4, 7>();
  if constexpr (M > 1) tile_load<5>(reinterpret_cast<const char*>(a) + kSide * a_bytes, a_bytes), tile_multiply<2, 5, 6>();
  if constexpr (M > 1 && N > 1) tile_multiply<3, 5, 7>();
}
template <int M, int N, class F> BARACUDA_HD void each_tile_of_sums(F f) {
  f.template operator()<0>(0, 0);
  if constexpr (N > 1) f.template operator()<1>(0, kSide);
  if constexpr (M > 1) f.template operator()<2>(kSide, 0);
  if constexpr (M > 1 && N > 1) f.template operator()<3>(kSide, kSide);
}

}  // namespace
}  // namespace baracuda::inline BARACUDA_ISA
