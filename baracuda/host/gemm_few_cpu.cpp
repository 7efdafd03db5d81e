// gemm_few.hpp, once per instruction set. Bytes: B once; flops 2 m per element of it.
//
// Columns side by side: rows of B pass over sums that stay in the first cache, a few rows at a time so that a sum is loaded
// and stored once for them. Dense columns: squares of W columns by W groups of k are turned around in registers, 64
// exchanges for 1 KiB with AVX-512, which is 16 bytes a cycle, above what memory gives one core. Both fetch ahead: the next
// rows, the next columns (a square has too many streams for the processor to see).
#include "baracuda/host/gemm_few.hpp"
#include "baracuda/host/gemm_lanes.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {
#if BARACUDA_VECTOR_BYTES

BARACUDA_HD void fetch_ahead(const void* p, int64_t bytes) { __builtin_prefetch(reinterpret_cast<const void*>(uintptr_t(p) + uintptr_t(bytes)), 0, 2); }
template <class K> BARACUDA_HD V<typename K::Group> broadcast(const typename K::Element* a) {
  typename K::Group each;
  __builtin_memcpy(&each, a, sizeof each);
  return each - V<typename K::Group>{};
}
// W groups from `n` neighbours along k, zeros behind them.
template <class K, class X> BARACUDA_HD V<typename K::Group> column_part(const X* x, int64_t n) {
  X y[Lanes<typename K::Group>::W * K::kGroup] = {};
  __builtin_memcpy(y, x, size_t(n) * sizeof(X));
  return column<K>(y);
}
// One group of k for `n` <= W neighbouring columns. `odd`: the second row of a pair, null where k is odd.
template <class K, class X> BARACUDA_HD V<typename K::Group> row_of(const X* even, [[maybe_unused]] const X* odd) {
#if defined(__AVX512BF16__)
  if constexpr (K::kGroup == 2) {
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)even));
    if (!odd) return V<int32_t>(low);
    return V<int32_t>(_mm512_or_si512(low, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)odd)), 16)));
  } else
#endif
  return column<K>(even);
}
template <class K, class X> BARACUDA_HD V<typename K::Group> row_part(const X* even, const X* odd, int64_t n) {
  constexpr int W = Lanes<typename K::Group>::W;
  X x[W] = {}, y[W] = {};
  __builtin_memcpy(x, even, size_t(n) * sizeof(X));
  if (K::kGroup == 2 && odd) __builtin_memcpy(y, odd, size_t(n) * sizeof(X));
  return row_of<K>(x, odd ? y : nullptr);
}

template <class K, class X, int M> struct Few {
  using E = typename K::Element;
  using G = typename K::Group;
  using S = typename K::Sum;
  static constexpr int W = Lanes<S>::W, kG = K::kGroup, kRegisters = kVectorBytes == 64 ? 32 : 16;
  const FewParams& p;
  const E* row[M];  // of A; those past the last repeat it and are not stored
  const X* b = static_cast<const X*>(p.b.p);
  int64_t groups = (p.b.k_n + kG - 1) / kG;

  explicit Few(const FewParams& params) : p(params) {
    for (int i = 0; i < M; ++i) row[i] = static_cast<const E*>(p.a.p) + least(i, p.m - 1) * p.a.row;
  }
  void put(int i, int64_t j, V<S> sum, int64_t lanes) const {
    S* c = static_cast<S*>(p.c) + i * p.c_row + j;
    if (lanes >= W) return store<S>(c, p.accumulate ? load<S>(c) + sum : sum);
    const Mask m = mask<S>(int(lanes));
    store<S>(c, m, p.accumulate ? load<S>(c, m) + sum : sum);
  }

  // --- columns side by side
  static constexpr int kStrip = int(least(1024, 16384 / M / int(sizeof(S)) / W * W));  // sums of 16 KiB
  template <int N> BARACUDA_HD void rows_pass(int64_t g, int64_t j0, int64_t columns, S* sums) const {
    V<G> a[M][N];
    const X *even[N], *odd[N];
    for (int n = 0; n < N; ++n) {
      even[n] = b + (g + n) * kG * p.b.k_stride + j0;
      odd[n] = kG == 2 && (g + n) * kG + 1 < p.b.k_n ? even[n] + p.b.k_stride : nullptr;
      for (int i = 0; i < M; ++i) a[i][n] = broadcast<K>(row[i] + (g + n) * p.a.k);
    }
    const int64_t ahead = N * kG * p.b.k_stride * int64_t(sizeof(X));
    auto step = [&](int64_t j, auto&& take) __attribute__((always_inline)) {
      V<G> x[N];
      for (int n = 0; n < N; ++n) {
        x[n] = take(even[n] + j, kG == 2 && odd[n] ? odd[n] + j : nullptr);
        fetch_ahead(even[n] + j, ahead);
        if (kG == 2) fetch_ahead(even[n] + p.b.k_stride + j, ahead);
      }
      for (int i = 0; i < M; ++i) {
        V<S> s = g ? load<S>(sums + i * kStrip + j) : V<S>{};
        for (int n = 0; n < N; ++n) s = K::fma(a[i][n], x[n], s);
        store<S>(sums + i * kStrip + j, s);
      }
    };
    int64_t j = 0;
    for (; j + W <= columns; j += W) step(j, [](const X* e, const X* o) __attribute__((always_inline)) { return row_of<K>(e, o); });
    if (j < columns) step(j, [&](const X* e, const X* o) __attribute__((always_inline)) { return row_part<K>(e, o, columns - j); });
  }
  void by_rows() const {
    constexpr int kSteps = kRegisters / 2 / M >= 4 ? 4 : kRegisters / 2 / M >= 2 ? 2 : 1;
    alignas(64) S sums[M * kStrip];
    for (int64_t j0 = 0; j0 < p.b.outer_n; j0 += kStrip) {
      const int64_t columns = least(kStrip, p.b.outer_n - j0);
      int64_t g = 0;
      for (; g + kSteps <= groups; g += kSteps) rows_pass<kSteps>(g, j0, columns, sums);
      for (; g < groups; ++g) rows_pass<1>(g, j0, columns, sums);
      for (int i = 0; i < least(M, p.m); ++i)
        for (int64_t j = 0; j < columns; j += W) put(i, j0 + j, groups ? load<S>(sums + i * kStrip + j) : V<S>{}, columns - j);
    }
  }

  // --- dense columns
  template <class Take> BARACUDA_HD void square(V<S> (&sum)[M], int64_t g, int64_t count, Take&& take) const {
    V<G> x[W];
    for (int l = 0; l < W; ++l) x[l] = take(l);
    transpose<G>(x);
    auto add = [&](int k) __attribute__((always_inline)) {
      for (int i = 0; i < M; ++i) sum[i] = K::fma(broadcast<K>(row[i] + (g + k) * p.a.k), x[k], sum[i]);
    };
    if (count == W) {
      for (int k = 0; k < W; ++k) add(k);
    } else {
      alignas(64) G turned[W][W];
      for (int k = 0; k < W; ++k) store<G>(turned[k], x[k]);
      for (int k = 0; k < count; ++k)
        for (int i = 0; i < M; ++i) sum[i] = K::fma(broadcast<K>(row[i] + (g + k) * p.a.k), load<G>(turned[k]), sum[i]);
    }
  }
  void by_columns() const {
    constexpr int kSquares = M * 2 <= kRegisters / 4 ? 2 : 1, kColumns = kSquares * W;  // two: their chains of sums overlap
    const int64_t whole = p.b.k_n / kG;
    for (int64_t j = 0; j < p.b.outer_n; j += kColumns) {
      const int64_t columns = least(kColumns, p.b.outer_n - j);
      int64_t at[kColumns];  // columns past the last repeat it and are not stored
      for (int l = 0; l < kColumns; ++l) at[l] = (j + least(l, columns - 1)) * p.b.outer;
      const bool more = j + kColumns < p.b.outer_n;  // what comes next: further columns, or the first ones over the next chain
      const int64_t ahead = (more ? kColumns * p.b.outer : p.b.k_n - j * p.b.outer) * int64_t(sizeof(X));
      V<S> sum[kSquares][M];
      for (auto& s : sum) for (V<S>& each : s) each = V<S>{};
      int64_t g = 0;
      for (; g + W <= whole; g += W)
        for (int q = 0; q < kSquares; ++q)
          square(sum[q], g, W, [&](int l) __attribute__((always_inline)) {
            const X* x = b + at[q * W + l] + g * kG;
            fetch_ahead(x, ahead);
            return column<K>(x);
          });
      if (g < groups)
        for (int q = 0; q < kSquares; ++q)
          square(sum[q], g, groups - g, [&](int l) __attribute__((always_inline)) { return column_part<K>(b + at[q * W + l] + g * kG, p.b.k_n - g * kG); });
      for (int q = 0; q < kSquares && q * W < columns; ++q)
        for (int i = 0; i < least(M, p.m); ++i) put(i, j + q * W, sum[q][i], columns - q * W);
    }
  }
  static void run(const FewParams& p) {
    const Few f(p);
    if (p.b.outer == 1) f.by_rows();
    else f.by_columns();
  }
};

template <class K, class X> void run(const FewParams& p) {
  if (p.m <= 1) Few<K, X, 1>::run(p);
  else if (p.m == 2) Few<K, X, 2>::run(p);
  else if (p.m <= 4) Few<K, X, 4>::run(p);
  else Few<K, X, kMr>::run(p);
}
constexpr GemmFew make() {
  GemmFew t;
  t.of[DType::f32] = {kMr, run<Single<float>, float>};
  t.of[DType::f64] = {kMr, run<Single<double>, double>};
  t.of[DType::f16] = {kMr, run<Single<float>, f16>};
#if defined(__AVX512BF16__)
  t.of[DType::bf16] = {kMr, run<Bf16Pairs, bf16>};
#else
  t.of[DType::bf16] = {kMr, run<Single<float>, bf16>};
#endif
  return t;
}
#else
constexpr GemmFew make() { return {}; }
#endif

}  // namespace
extern constinit const GemmFew gemm_few_table = make();
}  // namespace baracuda::inline BARACUDA_ISA
