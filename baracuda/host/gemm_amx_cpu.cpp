// gemm_amx.hpp: products of bf16 by the tiles of AMX.
//
// One instruction multiplies 16 rows of A by 16 columns of B over 16 groups of k (32 of k): 16384 flops in 16 cycles, 16
// times what the vectors do in f32. A block of 32 x 32 sums is four tiles; a step over 16 groups loads two tiles of A and
// two of B, 4 KiB in 64 cycles. B's tiles lie in the panels of pack_b as they are. A tile of A has dense rows: pack_a
// leaves it so; rows side by side are turned around here, 16 x 16 groups in registers, at every call.
//
// The instruction adds the even and the odd k of a step in chains of their own, then both to the sum: zeros behind the last
// k change nothing, so a step that is not whole is filled up with them.
#include "baracuda/host/amx_tiles.hpp"
#include "baracuda/host/gemm_amx.hpp"
#include "baracuda/host/gemm_lanes.hpp"
#include "baracuda/host/word_pairs.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

constexpr BARACUDA_HD int64_t whole(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
BARACUDA_HD V<int32_t> load_first(const void* p, int64_t lanes) {  // any count: none, some, all
  return lanes >= kSide ? load<int32_t>(p) : lanes <= 0 ? V<int32_t>{} : load<int32_t>(p, mask<int32_t>(int(lanes)));
}
BARACUDA_HD void store_first(void* p, V<int32_t> v, int64_t lanes) {
  if (lanes >= kSide) store<int32_t>(p, v);
  else if (lanes > 0) store<int32_t>(p, mask<int32_t>(int(lanes)), v);
}

// --- C (+)= A B. Tiles 0 ... 3: sums; 4, 5: A; 6, 7: B.
class Product {
 public:
  explicit Product(const TileParams& params) : p(params) {}
  void run() {
    // A panel of B stays in the first cache while rows of A pass; those that are made right are so for all columns at once.
    const int64_t end = dense_rows ? p.m / kBlock * kBlock : 0;
    for (int64_t j = 0; j < p.n; j += kBlock)
      for (int64_t i = 0; i < end; i += kBlock) choose(i, j);
    for (int64_t i = end; i < p.m; i += kBlock)
      for (int64_t j = 0; j < p.n; j += kBlock) choose(i, j);
  }

 private:
  static constexpr int64_t kSegment = 256, kPitch = 2 * kSegment + 32;  // groups of A that are made right at a time

  void choose(int64_t i, int64_t j) {
    const bool tall = p.m - i > kSide, wide = p.n - j > kSide;
    tall ? wide ? block<2, 2>(i, j) : block<2, 1>(i, j) : wide ? block<1, 2>(i, j) : block<1, 1>(i, j);
  }
  template <int M, int N> void block(int64_t i, int64_t j) {
    const int64_t rows = least(kBlock, p.m - i), columns = least(kBlock, p.n - j);
    const bool fits = rows == M * kSide && columns == N * kSide;
    float* const at = static_cast<float*>(p.c) + i * p.c_row + j;
    float* const sums = fits ? at : c;
    const int64_t sums_row = fits ? p.c_row : kBlock;
    if (p.accumulate) {
      if (!fits)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t l = 0; l < kBlock; l += kSide) store<int32_t>(c + r * kBlock + l, load_first(at + r * p.c_row + l, columns - l));
      each_tile_of_sums<M, N>([&]<int T>(int r, int l) { tile_load<T>(sums + r * sums_row + l, sums_row * 4); });
    } else each_tile_of_sums<M, N>([&]<int T>(int, int) { tile_zero<T>(); });
    const bf16* const a0 = static_cast<const bf16*>(p.a.p) + i / kBlock * p.a.panel;
    const bf16* const b0 = static_cast<const bf16*>(p.b.p) + j / kBlock * p.b.panel;
    const bool all_columns = columns == N * kSide;
    int64_t g = 0;
    if (dense_rows && rows == M * kSide && all_columns)
      for (const bf16 *from = a0, *pairs = b0; g + kStep <= p.groups; g += kStep, from += 2 * kStep, pairs += kStep * p.b.k)
        tile_step<M, N>(from, 2 * p.a.row, pairs, 2 * p.b.k);
    for (; g < p.groups; g += kStep) {
      const bool filled = filled_row == i && filled_group <= g && g < filled_group + kSegment;
      if (!filled) fill_a(i, a0, rows, g);
      const bf16* const pairs = b0 + g * p.b.k;
      const bf16* const from = a + 2 * (g - filled_group);
      if (g + kStep <= p.groups && all_columns) tile_step<M, N>(from, 2 * kPitch, pairs, 2 * p.b.k);
      else tile_step<M, N>(from, 2 * kPitch, fill_b(pairs, p.groups - g, columns), 2 * kLine);
    }
    each_tile_of_sums<M, N>([&]<int T>(int r, int l) { tile_store<T>(sums + r * sums_row + l, sums_row * 4); });
    if (!fits)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t l = 0; l < kBlock; l += kSide) store_first(at + r * p.c_row + l, load<int32_t>(c + r * kBlock + l), columns - l);
  }
  // Rows of A from group g0 on with dense k and zeros around what there is.
  void fill_a(int64_t i, const bf16* from, int64_t rows, int64_t g0) {
    filled_row = i, filled_group = g0;
    from += g0 * p.a.k;
    const int64_t count = least(kSegment, p.groups - g0);
    for (int64_t g = 0; g < count; g += kStep)
      for (int64_t r = 0; r < whole(rows, kSide); r += kSide) {
        V<int32_t> x[kSide];
        if (p.a.k == 2) {
          for (int l = 0; l < kSide; ++l) x[l] = r + l < rows ? load_first(from + (r + l) * p.a.row + 2 * g, count - g) : V<int32_t>{};
        } else {
          for (int l = 0; l < kStep; ++l) x[l] = g + l < count ? load_first(from + (g + l) * p.a.k + 2 * r, rows - r) : V<int32_t>{};
          transpose<int32_t>(x);
        }
        for (int l = 0; l < kSide; ++l) store<int32_t>(a + (r + l) * kPitch + 2 * g, x[l]);
      }
  }
  const bf16* fill_b(const bf16* from, int64_t groups, int64_t columns) {
    for (int64_t g = 0; g < kStep; ++g)
      for (int64_t l = 0; l < kBlock; l += kSide)
        store<int32_t>(b + 2 * (g * kBlock + l), g < groups ? load_first(from + g * p.b.k + 2 * l, columns - l) : V<int32_t>{});
    return b;
  }

  const TileParams& p;
  const bool dense_rows = p.a.k == 2;  // else rows lie side by side
  int64_t filled_row = -1, filled_group = -1;
  alignas(64) bf16 a[kBlock * kPitch];
  alignas(64) bf16 b[2 * kStep * kBlock];
  alignas(64) float c[kBlock * kBlock];
};
void tile_held(const TileParams& p) { Product(p).run(); }
void tile(const TileParams& p) {
  const TileSession session(whole_tiles());
  tile_held(p);
}
void hold(bool on) {
  on ? begin_tiles(whole_tiles()) : end_tiles();
}

// --- packing of A: rows with dense k, a line apart from powers of two
// `n` <= 32 neighbours as bf16.
BARACUDA_HD __m512i words(const bf16* x, int64_t n) { return n >= 32 ? _mm512_loadu_si512(x) : _mm512_maskz_loadu_epi16((1u << n) - 1, x); }
BARACUDA_HD __m512i words(const float* x, int64_t n) {
  return __m512i(_mm512_cvtne2ps_pbh(__m512(load_first(x + kSide, n - kSide)), __m512(load_first(x, n))));
}
template <class X> TileA pack_a(const PackSource& s, void* out) {
  const int64_t width = whole(s.k_n, 2), pitch = width + kLine / 2;
  const X* const x = static_cast<const X*>(s.p);
  bf16* const y = static_cast<bf16*>(out);
  if (s.outer == 1 && s.k_stride != 1) {
    for (int64_t k = 0; k < s.k_n; k += 2 * kStep)
      for (int64_t i = 0; i < s.outer_n; i += kBlock) {
        const int64_t rows = least(kBlock, s.outer_n - i);
        V<int32_t> r[2][kStep];
        for (int g = 0; g < kStep; ++g) {
          const int64_t even = k + 2 * g;
          const X* const at = x + i + even * s.k_stride;
          __m512i low, high;
          interleave_words(even < s.k_n ? words(at, rows) : __m512i{}, even + 1 < s.k_n ? words(at + s.k_stride, rows) : __m512i{}, low, high);
          r[0][g] = V<int32_t>(low), r[1][g] = V<int32_t>(high);
        }
        for (int h = 0; h < 2 && h * kSide < rows; ++h) {
          transpose<int32_t>(r[h]);
          for (int l = 0; l < least(kSide, rows - h * kSide); ++l) store<int32_t>(y + (i + h * kSide + l) * pitch + k, r[h][l]);
        }
      }
  } else
    for (int64_t i = 0; i < s.outer_n; ++i) {
      bf16* const to = y + i * pitch;
      if (s.k_stride == 1) convert_run(x + i * s.outer, to, s.k_n);
      else for (int64_t k = 0; k < s.k_n; ++k) to[k] = convert_to<bf16>(x[i * s.outer + k * s.k_stride]);
      if (width > s.k_n) to[s.k_n] = bf16{};
    }
  return {out, pitch, 2, kBlock * pitch};
}

// --- gemm_few.hpp
// Dense columns: they are the rows of A's tiles as they lie, the few rows are turned to pairs of k, the sums come out
// turned around. Columns side by side: pairs of their rows are made in registers, sums stay in the first cache.
class Few {
 public:
  explicit Few(const FewParams& params) : p(params) {}
  void by_columns() {
    constexpr int kTiles = 2;
    TileExtents e;
    for (int t = 0; t < kTiles; ++t) e.set(t, kSide, 4 * int(p.m));
    for (int t : {4, 5}) e.set(t, kSide, kLine);
    e.set(6, kStep, 4 * int(p.m));
    const TileSession session(e);
    for (int64_t g0 = 0; g0 == 0 || g0 < groups; g0 += kSegment) {
      const int64_t count = least(kSegment, groups - g0);
      turn_rows(g0, count);
      for (int64_t j = 0; j < p.b.outer_n; j += kTiles * kSide) {
        // What comes next is on its way: further columns, or the first ones over the next k.
        const int64_t ahead = j + kTiles * kSide < p.b.outer_n ? kTiles * kSide * p.b.outer : p.b.k_n - j * p.b.outer;
        each_tile([&]<int T>() {
          if (j + T * kSide >= p.b.outer_n) return;
          if (g0 || p.accumulate) take_sums(j + T * kSide), tile_load<T>(c, kLine);
          else tile_zero<T>();
        });
        for (int64_t g = 0; g < count; g += kStep) {
          tile_load<6>(x + g * kSide, kLine);
          each_tile([&]<int T>() {
            const int64_t columns = p.b.outer_n - j - T * kSide, k = 2 * (g0 + g);
            if (columns <= 0) return;
            const bf16* const from = b + (j + T * kSide) * p.b.outer + k;
            for (int64_t l = 0; l < least(kSide, columns); ++l) fetch(from, l * p.b.outer + ahead);
            if (columns >= kSide && p.b.k_n - k >= 2 * kStep) tile_load<4 + T % 2>(from, 2 * p.b.outer);
            else tile_load<4 + T % 2>(fill(from, columns, p.b.k_n - k), kLine);
            tile_multiply<T, 4 + T % 2, 6>();
          });
        }
        each_tile([&]<int T>() {
          if (j + T * kSide < p.b.outer_n) tile_store<T>(c, kLine), put_sums(j + T * kSide);
        });
      }
    }
  }
  void by_rows() {
    TileExtents e;
    for (int t : {0, 1, 2, 3, 4}) e.set(t, int(p.m), kLine);
    for (int t : {6, 7}) e.set(t, kStep, kLine);
    const TileSession session(e);
    alignas(64) float sums[kSide * kStripRow];
    for (int64_t j0 = 0; j0 < p.b.outer_n; j0 += kStrip) {
      const int64_t columns = least(kStrip, p.b.outer_n - j0);
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < columns; j += kBlock) {
          V<int32_t> low{}, high{};
          if (p.accumulate) low = load_first(to(i, j0 + j), columns - j), high = load_first(to(i, j0 + j + kSide), columns - j - kSide);
          float* const at = sums + i * kStripRow + j;
          store<int32_t>(at, __builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27));
          store<int32_t>(at + kSide, __builtin_shufflevector(low, high, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31));
        }
      for (int64_t k = 0; k < p.b.k_n; k += 2 * kStep) {
        if (p.b.k_n - k >= 2 * kStep) tile_load<4>(a + k, 2 * p.a.row);
        else {
          for (int64_t i = 0; i < p.m; ++i) store<int32_t>(x + i * kSide, load_first(a + i * p.a.row + k, groups - k / 2));
          tile_load<4>(x, kLine);
        }
        int64_t j = 0;
        for (; j + kBlock <= columns; j += 2 * kBlock) {
          pair_rows<0>(k, j0 + j, columns - j, sums + j);
          if (j + kBlock < columns) pair_rows<2>(k, j0 + j + kBlock, columns - j - kBlock, sums + j + kBlock);
        }
        if (j < columns) pair_rows<0>(k, j0 + j, columns - j, sums + j);
      }
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < columns; j += kBlock) {
          const float* const at = sums + i * kStripRow + j;
          const V<int32_t> even = load<int32_t>(at), odd = load<int32_t>(at + kSide);
          store_first(to(i, j0 + j), __builtin_shufflevector(even, odd, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23), columns - j);
          store_first(to(i, j0 + j + kSide), __builtin_shufflevector(even, odd, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31), columns - j - kSide);
        }
    }
  }

 private:
  static constexpr int64_t kSegment = 512;  // groups of the few rows that are turned at a time
  static constexpr int64_t kStrip = 512, kStripRow = kStrip + kBlock;  // sums of 32 KiB

  template <class F> BARACUDA_HD static void each_tile(F f) {
    f.template operator()<0>(), f.template operator()<1>();
  }
  static void fetch(const bf16* p, int64_t ahead) { __builtin_prefetch(reinterpret_cast<const void*>(uintptr_t(p) + uintptr_t(2 * ahead)), 0, 2); }
  float* to(int64_t i, int64_t j) const { return static_cast<float*>(p.c) + i * p.c_row + j; }
  void turn_rows(int64_t g0, int64_t count) {
    for (int64_t g = 0; g < count; g += kStep) {
      V<int32_t> r[kSide];
      for (int i = 0; i < kSide; ++i) r[i] = i < p.m ? load_first(a + i * p.a.row + 2 * (g0 + g), count - g) : V<int32_t>{};
      transpose<int32_t>(r);
      for (int l = 0; l < kStep; ++l) store<int32_t>(x + (g + l) * kSide, r[l]);
    }
  }
  const bf16* fill(const bf16* from, int64_t columns, int64_t depth) {
    for (int64_t l = 0; l < kSide; ++l)
      _mm512_store_si512(edge + l * 2 * kStep, l < columns ? words(from + l * p.b.outer, least(depth, 2 * kStep)) : __m512i{});
    return edge;
  }
  void take_sums(int64_t j) {
    for (int64_t l = 0; l < least(kSide, p.b.outer_n - j); ++l)
      for (int64_t i = 0; i < p.m; ++i) c[l * kSide + i] = *to(i, j + l);
  }
  void put_sums(int64_t j) {
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t l = 0; l < least(kSide, p.b.outer_n - j); ++l) *to(i, j + l) = c[l * kSide + i];
  }
  // One step of k for up to 32 columns, sums in tiles T and T + 1: fours of columns by turns, as pairs are cheapest to make.
  template <int T> BARACUDA_HD void pair_rows(int64_t k, int64_t j, int64_t columns, float* sums) {
    const int64_t ahead = 2 * kStep * p.b.k_stride, left = p.b.k_n - k;
    bf16* const pairs = edge + T * kStep * kBlock;
    for (int g = 0; g < kStep; ++g) {
      const bf16* const even = b + (k + 2 * g) * p.b.k_stride + j;
      const __m512i x = 2 * g < left ? words(even, columns) : __m512i{}, y = 2 * g + 1 < left ? words(even + p.b.k_stride, columns) : __m512i{};
      fetch(even, ahead), fetch(even, ahead + p.b.k_stride);
      _mm512_store_si512(pairs + g * 2 * kBlock, _mm512_unpacklo_epi16(x, y));
      _mm512_store_si512(pairs + g * 2 * kBlock + kBlock, _mm512_unpackhi_epi16(x, y));
    }
    tile_load<T>(sums, 4 * kStripRow), tile_load<T + 1>(sums + kSide, 4 * kStripRow);
    tile_load<6>(pairs, 2 * kLine), tile_multiply<T, 4, 6>();
    tile_load<7>(pairs + kBlock, 2 * kLine), tile_multiply<T + 1, 4, 7>();
    tile_store<T>(sums, 4 * kStripRow), tile_store<T + 1>(sums + kSide, 4 * kStripRow);
  }

  const FewParams& p;
  const bf16* const a = static_cast<const bf16*>(p.a.p);  // pack_a, and rows in place, have dense k
  const bf16* const b = static_cast<const bf16*>(p.b.p);
  const int64_t groups = (p.b.k_n + 1) / 2;
  alignas(64) int32_t x[kSegment * kSide];
  alignas(64) bf16 edge[4 * kStep * kBlock];  // filled tiles of A, or two pairs of tiles of B
  alignas(64) float c[kSide * kSide];
};
void few(const FewParams& p) {
  Few f(p);
  p.b.outer == 1 ? f.by_rows() : f.by_columns();
}

}  // namespace
extern constexpr GemmAmx gemm_amx_table = {kBlock, tile, hold, tile_held, pack_a<bf16>, pack_a<float>, {kSide, few}};
}  // namespace baracuda::inline BARACUDA_ISA
