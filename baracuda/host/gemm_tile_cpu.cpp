// Micro-kernel and packing of gemm_tile.hpp, once per instruction set.
//
// The tile keeps mr x nr sums in registers: 8 x 2 vectors with AVX-512 (32 registers), 6 x 2 with AVX2 (16), 4 x 2
// otherwise. A group of k costs 2 loads of B, mr broadcasts of A and 2 mr multiply-adds: 16 independent chains against a
// latency of 4 (6 for the bf16 instruction), and 160 bytes from the caches in 16 cycles. 8 x 32 divides the 64 x 64 tiles
// of attention. Each row of A has a pointer of its own, so A is never transposed: packing copies its rows, or its
// columns, as they lie.
#include "baracuda/host/gemm_tile.hpp"
#include "baracuda/host/gemm_lanes.hpp"
#include "baracuda/host/word_pairs.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

// One mr x nr tile. `mask` holds the lanes of the last vector when Part. Strides in groups of k or elements as in
// TileA and TileB.
template <class K, int MR, int NV, bool Part>
void micro(const TileParams& p, const typename K::Element* a, const typename K::Element* b, typename K::Sum* c, int lanes) {
  using E = typename K::Element;
  using G = typename K::Group;
  using S = typename K::Sum;
  constexpr int W = Lanes<S>::W, kG = K::kGroup;
  const Mask last = mask<S>(Part ? lanes : 0);
  const E* row[MR];
  V<S> sum[MR][NV];
  for (int i = 0; i < MR; ++i) {
    row[i] = a + i * p.a.row;
    __builtin_prefetch(c + i * p.c_row, 1);
    for (int v = 0; v < NV; ++v) sum[i][v] = V<S>{};
  }
  const int64_t step_a = p.a.k, step_b = p.b.k;
  int64_t offset = 0;
  for (int64_t g = 0; g < p.groups; ++g) {
    V<G> bv[NV];
    for (int v = 0; v < NV; ++v) bv[v] = Part && v == NV - 1 ? load<G>(b + v * W * kG, last) : load<G>(b + v * W * kG);
    for (int i = 0; i < MR; ++i) {
      G each;
      __builtin_memcpy(&each, row[i] + offset, sizeof each);
      const V<G> av = each - V<G>{};
      for (int v = 0; v < NV; ++v) sum[i][v] = K::fma(av, bv[v], sum[i][v]);
    }
    offset += step_a;
    b += step_b;
  }
  for (int i = 0; i < MR; ++i)
    for (int v = 0; v < NV; ++v) {
      S* y = c + i * p.c_row + v * W;
      if (Part && v == NV - 1) store<S>(y, last, p.accumulate ? load<S>(y, last) + sum[i][v] : sum[i][v]);
      else store<S>(y, p.accumulate ? load<S>(y) + sum[i][v] : sum[i][v]);
    }
}

template <class K> using Micro = void (*)(const TileParams&, const typename K::Element*, const typename K::Element*, typename K::Sum*, int);
// By rows - 1, and by vectors: NV full, then 1 ... NV with a masked last one.
template <class K, int MR> struct MicroRow {
  static constexpr Micro<K> of[1 + kNv] = {micro<K, MR, kNv, false>, micro<K, MR, 1, true>, micro<K, MR, 2, true>};
};
template <class K> constexpr const Micro<K>* kMicro[8] = {
    MicroRow<K, 1>::of, MicroRow<K, 2>::of, MicroRow<K, 3>::of, MicroRow<K, 4>::of,
    MicroRow<K, kMr >= 5 ? 5 : 4>::of, MicroRow<K, kMr >= 6 ? 6 : 4>::of,
    MicroRow<K, kMr >= 7 ? 7 : 4>::of, MicroRow<K, kMr >= 8 ? 8 : 4>::of};

// A panel of B stays in the first cache while all rows of A pass.
template <class K> void tile(const TileParams& p) {
  using E = typename K::Element;
  using S = typename K::Sum;
  constexpr int W = Lanes<S>::W, nr = kNv * W;
  for (int64_t j = 0; j < p.n; j += nr) {
    const int cols = int(least(nr, p.n - j)), vectors = (cols + W - 1) / W, lanes = cols - (vectors - 1) * W;
    const int kind = cols == nr ? 0 : vectors;
    const E* b = static_cast<const E*>(p.b.p) + j / nr * p.b.panel;
    for (int64_t i = 0; i < p.m; i += kMr) {
      const E* a = static_cast<const E*>(p.a.p) + i / kMr * p.a.panel;
      kMicro<K>[least(kMr, p.m - i) - 1][kind](p, a, b, static_cast<S*>(p.c) + i * p.c_row + j, lanes);
    }
  }
}

// --- packing
template <class X> BARACUDA_HD const X& at(const PackSource& s, int64_t o, int64_t k) {
  return static_cast<const X*>(s.p)[o * s.outer + k * s.k_stride];
}

// One group of k of a panel of A: kMr values, or kMr pairs.
template <class E, int kG> BARACUDA_HD void put_column(E* to, const E* even, [[maybe_unused]] const E* odd) {
  if constexpr (kG == 1) __builtin_memcpy(to, even, kMr * sizeof(E));
#if defined(__AVX512BF16__)
  else {
    static_assert(kMr == 8 && kG == 2 && sizeof(E) == 2);
    const __m128i x = _mm_loadu_si128((const __m128i*)even), y = _mm_loadu_si128((const __m128i*)odd);
    _mm_storeu_si128((__m128i*)to, _mm_unpacklo_epi16(x, y));
    _mm_storeu_si128((__m128i*)(to + kMr), _mm_unpackhi_epi16(x, y));
  }
#endif
}

template <class K, class X> TileA pack_a(const PackSource& s, void* out) {
  using E = typename K::Element;
  constexpr int kG = K::kGroup;
  const int64_t groups = (s.k_n + kG - 1) / kG, width = groups * kG;
  E* y = static_cast<E*>(out);
  if (s.outer == 1 && s.k_stride != 1) {  // columns as they lie: panels of [group][mr][kG], kept apart from a power of two
    const int64_t panel = kMr * width + 64 / int64_t(sizeof(E));
    constexpr int kRun = 16 * kMr;
    E even[kRun], odd[kG > 1 ? kRun : 1];
    for (int64_t i = 0; i < s.outer_n; i += kRun) {
      const int64_t n = least(kRun, s.outer_n - i);
      for (int64_t g = 0; g < groups; ++g) {
        E* to = y + i / kMr * panel + g * kMr * kG;
        const X* x = &at<X>(s, i, g * kG);
        convert_run(x, even, n);
        if constexpr (kG > 1) {
          if (g * kG + 1 < s.k_n) convert_run(x + s.k_stride, odd, n);
          else for (int r = 0; r < n; ++r) odd[r] = E{};
        }
        for (int64_t r = 0; r < n; r += kMr, to += panel) put_column<E, kG>(to, even + r, odd + (kG > 1 ? r : 0));
      }
    }
    return {out, kG, kMr * kG, panel};
  }
  const int64_t pitch = width + 64 / int64_t(sizeof(E));
  for (int64_t i = 0; i < s.outer_n; ++i) {
    E* to = y + i * pitch;
    if (s.k_stride == 1) convert_run(&at<X>(s, i, 0), to, s.k_n);
    else for (int64_t k = 0; k < s.k_n; ++k) to[k] = convert_to<E>(at<X>(s, i, k));
    for (int64_t k = s.k_n; k < width; ++k) to[k] = E{};
  }
  return {out, pitch, kG, kMr * pitch};
}

template <class K, class X> TileB pack_b(const PackSource& s, void* out) {
  using E = typename K::Element;
  using G = typename K::Group;
  constexpr int kG = K::kGroup, W = Lanes<G>::W, nr = kNv * W;
  const int64_t groups = (s.k_n + kG - 1) / kG, width = groups * kG, whole = s.k_n / kG;
  E* y = static_cast<E*>(out);
  const bool rows = s.outer == 1, columns = s.k_stride == 1 && !rows;
  for (int64_t j = 0; j < s.outer_n; j += nr) {
    E* panel = y + j * width;
    const int cols = int(least(nr, s.outer_n - j));
    int64_t g = 0;
    if (cols == nr && rows)
      for (; g < whole; ++g) {
        const X* x = &at<X>(s, j, g * kG);
        E* to = panel + g * nr * kG;
        if constexpr (kG == 1) convert_run(x, to, nr);
#if defined(__AVX512BF16__)
        else if constexpr (std::is_same_v<X, bf16>) {
          __m512i low, high;
          interleave_words(_mm512_loadu_si512(x), _mm512_loadu_si512(x + s.k_stride), low, high);
          _mm512_storeu_si512(to, low);
          _mm512_storeu_si512(to + nr, high);
        }
#endif
        else for (int c = 0; c < nr; ++c) to[2 * c] = convert_to<E>(x[c]), to[2 * c + 1] = convert_to<E>(x[c + s.k_stride]);
      }
    if (cols == nr && columns)
      for (; g + W <= whole; g += W)
        for (int c = 0; c < nr; c += W) {
          V<G> r[W];
          for (int i = 0; i < W; ++i) {  // the next panel is on its way: rows are too many streams for the processor to see
            const X* x = &at<X>(s, j + c + i, g * kG);
            __builtin_prefetch(reinterpret_cast<const void*>(uintptr_t(x) + uintptr_t(nr * s.outer) * sizeof(X)), 0, 2);
            r[i] = column<K>(x);
          }
          transpose<G>(r);
          for (int i = 0; i < W; ++i) store<G>(panel + ((g + i) * nr + c) * kG, r[i]);
        }
    for (; g < groups; ++g)
      for (int c = 0; c < nr; ++c)
        for (int e = 0; e < kG; ++e)
          panel[(g * nr + c) * kG + e] = c < cols && g * kG + e < s.k_n ? convert_to<E>(at<X>(s, j + c, g * kG + e)) : E{};
  }
  return {out, nr * kG, nr * width};
}

template <class K, class X> constexpr TileKernel kernel() {
  using E = typename K::Element;
  using S = typename K::Sum;
  return {kDTypeOf<E>, kMr, kNv * Lanes<S>::W, K::kGroup, int(sizeof(E)), tile<K>, pack_a<K, X>, pack_b<K, X>, pack_a<K, S>, pack_b<K, S>};
}
constexpr GemmTiles make_tiles() {
  GemmTiles t;
  t.of[DType::f32] = kernel<Single<float>, float>();
  t.of[DType::f64] = kernel<Single<double>, double>();
  t.of[DType::f16] = kernel<Single<float>, f16>();
#if defined(__AVX512BF16__)
  t.of[DType::bf16] = kernel<Bf16Pairs, bf16>();
#else
  t.of[DType::bf16] = kernel<Single<float>, bf16>();
#endif
  return t;
}

}  // namespace
extern constinit const GemmTiles gemm_tiles_table = make_tiles();
}  // namespace baracuda::inline BARACUDA_ISA
