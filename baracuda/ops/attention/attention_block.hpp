#pragma once
// Blocks of rows on their way into the matrix tile, for the instruction-set units of the family.
//
// `Operand<T>` says how products of element type T are made: with the pairs of the bf16 instruction, or in the type of
// sums. Two forms of a block of rows [row][element] appear:
//   rows     as A, one row of the matrix each: where it lies if its type is right, else converted
//   columns  as A or B where the row number is what the product sums over: where it lies, converted, or, for pairs,
//            two rows interleaved element by element
#include <utility>
#include "baracuda/host/word_pairs.hpp"
#include "baracuda/math/element.hpp"
#include "baracuda/ops/attention/attention_cpu.hpp"
#include "baracuda/ops/attention/attention_rows.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

template <class T> struct Operand {
#if defined(__AVX512BF16__)
  static constexpr bool pairs = std::is_same_v<T, bf16>;
#else
  static constexpr bool pairs = false;
#endif
  using Sum = Acc<T>;
  using Packed = std::conditional_t<pairs, T, Sum>;
  static constexpr bool in_place = std::is_same_v<T, Packed>;
  static constexpr int group = pairs ? 2 : 1;
  static constexpr int terms = kIsHalf<T> ? 4 : 6;  // of the exponential
  static constexpr double up = pairs ? 0.5 : 0;     // see weight()
};
// exp_weight(t) of u = t + Operand::up. For pairs t is split where u has its integer part, so that one instruction takes the fraction and the
// exponent needs none: 2^(f - 1/2) for 0 <= f < 1, the polynomial of exp_weight<4> about its middle, 1 for t = 0.
template <class T> BARACUDA_HD PackOf<T> weight(PackOf<T> u) {
#if defined(__AVX512BF16__)
  using V = PackOf<T>;
  if constexpr (Operand<T>::pairs) {
    const V f = V::of(decltype(V::v)(_mm512_reduce_ps(__m512(u.v), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)));
    const V y = poly(f, 0x1.6a0a28p-1, 0x1.f5c81p-2, 0x1.5dbc14p-3, 0x1.2cb02cp-5, 0x1.3ac75ep-7);
    return V::of(decltype(V::v)(_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(__m512(u.v), _mm512_set1_ps(-125.5), _CMP_NLT_UQ), __m512(y.v), __m512(u.v))));
  }
#endif
  return exp_weight<Operand<T>::terms>(u);
}

// Scratch, handed out in order.
struct Bump {
  char* p;
  template <class T> T* take(int64_t count) {
    T* r = reinterpret_cast<T*>(p);
    p += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
    return r;
  }
};
BARACUDA_HD int64_t even(int64_t n) { return (n + 1) & ~int64_t(1); }
template <class T> inline void zero(T* p, int64_t n) { __builtin_memset(p, 0, size_t(n) * sizeof(T)); }

// A block of rows as the operand of a product.
template <class P> struct Block {
  const P* p;
  int64_t row;  // elements from row to row; for interleaved pairs from two rows to the next two
};

template <class T, class P> void convert_row(const T* x, P* y, int64_t n) {
  constexpr int N = kLanes<Acc<T>>;
  int64_t i = 0;
  for (; i + N <= n; i += N) store<P, N>(y + i, load<N>(x + i));
  for (; i < n; ++i) store<P, 1>(y + i, load<1>(x + i));
}

#if defined(__AVX512BF16__)
// Lanes of a and of b as bf16, side by side.
BARACUDA_HD __m512i interleave(Pack<float, 16> a, Pack<float, 16> b) {
  const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(__m512(b.v), __m512(a.v));
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18,
                                         2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, both);
}
#endif
// Two rows (b null: zeros) element by element.
inline void interleave_rows(const bf16* a, const bf16* b, bf16* out, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512BF16__)
  for (; i + 32 <= n; i += 32) {
    __m512i low, high;
    interleave_words(_mm512_loadu_si512(a + i), b ? _mm512_loadu_si512(b + i) : _mm512_setzero_si512(), low, high);
    _mm512_storeu_si512(out + 2 * i, low);
    _mm512_storeu_si512(out + 2 * i + 32, high);
  }
#endif
  for (; i < n; ++i) out[2 * i] = a[i], out[2 * i + 1] = b ? b[i] : bf16{0};
}

// Rows as A. Scratch of n sdpa_padded(d) elements; the memory past an odd d is zero for pairs.
template <class T, class P = typename Operand<T>::Packed> Block<P> stage_rows(const T* x, int64_t row, int64_t n, int64_t d, P* scratch) {
  if constexpr (Operand<T>::in_place)
    if (!Operand<T>::pairs || d % 2 == 0) return {x, row};
  const int64_t pitch = sdpa_padded(d);
  for (int64_t i = 0; i < n; ++i) {
    convert_row(x + i * row, scratch + i * pitch, d);
    if (Operand<T>::pairs && d % 2) scratch[i * pitch + d] = P{};
  }
  return {scratch, pitch};
}
// Rows that a product sums over. Scratch as above, for an even n.
template <class T, class P = typename Operand<T>::Packed> Block<P> stage_columns(const T* x, int64_t row, int64_t n, int64_t d, P* scratch) {
  if constexpr (Operand<T>::pairs) {
    const int64_t pitch = 2 * sdpa_padded(d);
    for (int64_t i = 0; i < n; i += 2) interleave_rows(x + i * row, i + 1 < n ? x + (i + 1) * row : nullptr, scratch + i / 2 * pitch, d);
    return {scratch, pitch};
  } else return stage_rows<T, P>(x, row, n, d, scratch);
}
// The same with the rows that `hidden` names as zeros: what a query gets whose hidden keys hold NaN.
template <class T, class P, class Hidden> Block<P> stage_visible(const T* x, int64_t row, int64_t n, int64_t d, P* scratch, Hidden hidden) {
  constexpr int group = Operand<T>::group;
  const int64_t pitch = group * sdpa_padded(d);
  for (int64_t i = 0; i < n + n % group; ++i)
    for (int64_t e = 0; e < d; ++e) {
      P value{};
      if (i < n && !hidden(i)) store<P, 1>(&value, load<1>(x + i * row + e));
      scratch[i / group * pitch + e * group + i % group] = value;
    }
  return {scratch, pitch};
}

// Block as A with the matrix row along the block's rows (`first` skipped), or, `across`, along its elements.
template <class P> TileA rows_of(const TileKernel& t, Block<P> b, int64_t first) {
  return {b.p + first * b.row, b.row, t.k_group, t.mr * b.row};
}
template <class P> TileA across(const TileKernel& t, Block<P> b, int64_t first) {
  return {b.p + first / t.k_group * b.row, t.k_group, b.row, t.mr * t.k_group};
}
template <class P> TileB columns_of(const TileKernel& t, Block<P> b, int64_t first) {
  return {b.p + first / t.k_group * b.row, b.row, t.nr * t.k_group};
}

// Whether any element is NaN or infinite: only then can a weight of zero do harm.
template <class T> bool any_nonfinite(const T* x, int64_t row, int64_t n, int64_t d) {
  using V = PackOf<T>;
  constexpr int N = V::kWidth;
  V even = 0, odd = 0;  // sums of x - x: 0 for finite values, NaN else
  for (int64_t i = 0; i < n; ++i) {
    const T* r = x + i * row;
    int64_t e = 0;
    for (; e + 2 * N <= d; e += 2 * N) {
      const V a = load<N>(r + e), b = load<N>(r + e + N);
      even += a - a, odd += b - b;
    }
    for (; e < d; e += N) {
      const V a = d - e < N ? load_tail<N>(r + e, int(d - e)) : load<N>(r + e);
      even += a - a;
    }
  }
  return any(mask_not(even + odd == V(0)));
}

// N x N lanes: log2 N rounds of exchanges between rows `step` apart.
template <int step, class V, int... I> BARACUDA_HD void exchange(V& a, V& b, std::integer_sequence<int, I...>) {
  constexpr int N = V::kWidth;
  const auto low = __builtin_shufflevector(a.v, b.v, (I & step ? N + I - step : I)...);
  b.v = __builtin_shufflevector(a.v, b.v, (I & step ? N + I : I + step)...);
  a.v = low;
}
template <int step = 1, class V> BARACUDA_HD void transpose(V* rows) {
  constexpr int N = V::kWidth;
  if constexpr (step < N) {
    for (int i = 0; i < N; ++i)
      if (!(i & step)) exchange<step>(rows[i], rows[i + step], std::make_integer_sequence<int, N>{});
    transpose<2 * step>(rows);
  }
}
// Columns [0, lanes) of x [elements][pitch] times `factor`, lane by lane, as rows: column i goes to to(i), rounded. By squares in registers.
template <class T, class To> BARACUDA_HD void write_turned(const Acc<T>* x, int64_t pitch, int64_t elements, int lanes, PackOf<T> factor, To to) {
  using V = PackOf<T>;
  constexpr int N = V::kWidth;
  for (int64_t e = 0; e < elements; e += N) {
    const int width = int(least(N, elements - e));
    V square[N];
    for (int i = 0; i < N; ++i) square[i] = i < width ? load<N>(x + (e + i) * pitch) * factor : V(0);
    transpose(square);
    if (width == N) for (int i = 0; i < lanes; ++i) store<T, N>(to(i) + e, square[i]);
    else for (int i = 0; i < lanes; ++i) store_tail<T, N>(to(i) + e, square[i], width);
  }
}

}  // namespace attention
}  // namespace baracuda
