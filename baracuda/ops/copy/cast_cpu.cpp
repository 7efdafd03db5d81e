// y = x in another dtype. sizeof(From) + sizeof(To) bytes per element; the floor is memory bandwidth. Pairs of floats go
// through packs, the others through a loop over elements that the compiler vectorises. 8-bit floats and saturating casts
// take what is not f32 through a block of f32 in L1, rounded to odd on the way in, so that the last rounding is the only one.
#include "baracuda/host/fetch_ahead.hpp"
#include "baracuda/math/twice.hpp"
#include "baracuda/ops/copy/cast_codes_math.hpp"
#include "baracuda/ops/copy/cast_cpu.hpp"
#include "baracuda/ops/copy/cast_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> inline constexpr bool kPacked = kIsNarrow<T> || std::is_same_v<T, float>;
template <class T> inline constexpr bool kExactInFloat = kPacked<T> || (std::is_integral_v<T> && sizeof(T) < 4);
constexpr int64_t kStage = 512;

// N doubles to halves: rounded to To's places as integers. Where one would be subnormal or is NaN, element by element.
template <class To, int N> BARACUDA_HD void round_doubles(const double* x, To* y) {
  using D = Pack<double, N / 2>;
  constexpr int kPlace = kIsF16<To> ? 42 : 45;
  constexpr int64_t kBelow = (int64_t(1) << kPlace) - 1;
  const D a = load<N / 2>(x), b = load<N / 2>(x + N / 2);
  auto odd_case = [](D d) { return ((abs(d) < D(kIsF16<To> ? 0x1p-14 : 0x1p-126)) & (d != D(0))) | (d != d); };
  auto rounded = [](D d) { return D::from_bits((bits(d) + (kBelow >> 1) + (bits(d) >> kPlace & 1)) & ~kBelow); };
  if (!any(odd_case(a) | odd_case(b))) store<To, N>(y, narrow(rounded(a), rounded(b)));
  else for (int i = 0; i < N; ++i) y[i] = cast_element<To>(x[i]);
}
// 8-bit floats to halves, which hold all of them, and by way of bf16 to f32: looked up.
template <class To> using HalfOf = std::conditional_t<kIsF16<To>, f16, bf16>;
template <class From, class To> inline constexpr bool kLookedUp = kIsFloat8<From> && (kIsHalf<To> || std::is_same_v<To, float>);
template <class From, class Half> struct alignas(64) ValuesOf {
  Half of[256];
  constexpr ValuesOf() : of() { for (int c = 0; c < 256; ++c) of[c] = from_float<Half>(to_float(From{uint8_t(c)})); }
};
template <class From, class Half> inline constexpr ValuesOf<From, Half> kValues;
// kPast: y starts at a line.
template <bool kPast, class From, class To> void look_all_up(const From* x, To* y, int64_t n) {
  constexpr const auto& values = kValues<From, HalfOf<To>>;
  int64_t i = 0;
#if BARACUDA_VECTOR_BYTES == 64
  __m512i table[4];  // of the codes without sign
  for (int k = 0; k < 4; ++k) table[k] = _mm512_load_si512(values.of + 32 * k);
  const auto put = [](To* to, __m512i v) __attribute__((always_inline)) { kPast ? _mm512_stream_si512((__m512i*)to, v) : _mm512_storeu_si512(to, v); };
  for (; i + 32 <= n; i += 32) {
    if constexpr (kPast) fetch_ahead<32>(x + i);
    const __m512i code = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i*)(x + i)));
    const __m512i low = _mm512_permutex2var_epi16(table[0], code, table[1]), high = _mm512_permutex2var_epi16(table[2], code, table[3]);
    __m512i r = _mm512_mask_mov_epi16(low, _mm512_test_epi16_mask(code, _mm512_set1_epi16(0x40)), high);
    r = _mm512_ternarylogic_epi32(_mm512_slli_epi16(code, 8), _mm512_set1_epi16(-0x8000), r, 0xea);  // with the sign
    if constexpr (!kFloat8<From>.signed_zero) r = _mm512_mask_mov_epi16(r, _mm512_cmpeq_epi16_mask(code, _mm512_set1_epi16(0x80)), _mm512_set1_epi16(int16_t(values.of[0x80].bits)));
    if constexpr (kIsHalf<To>) put(y + i, r);
    else {
      put(y + i, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(r)), 16));
      put(y + i + 16, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(r, 1)), 16));
    }
  }
#endif
  for (; i < n; ++i)
    if constexpr (kIsHalf<To>) y[i] = values.of[x[i].bits];
    else y[i] = to_float(values.of[x[i].bits]);
}
// bf16 and f32 to 8-bit floats as integers of 16 bits, 32 at a time: f32 is cut to bf16 first, with its last bit set where something was lost, which
// rounds as the number does.
template <class From, class To> inline constexpr bool kByWords = BARACUDA_VECTOR_BYTES == 64 && kIsFloat8<To> && (std::is_same_v<From, bf16> || std::is_same_v<From, float>);
#if BARACUDA_VECTOR_BYTES == 64
BARACUDA_HD __m512i odd_words(const bf16* x) { return _mm512_loadu_si512(x); }
BARACUDA_HD __m512i odd_words(const float* x) {
  const __m512i one = _mm512_set1_epi16(1), even = _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i u = _mm512_loadu_si512(x), v = _mm512_loadu_si512(x + 16);
  return _mm512_or_si512(_mm512_permutex2var_epi16(u, _mm512_or_si512(even, one), v), _mm512_min_epu16(_mm512_permutex2var_epi16(u, even, v), one));
}
template <class To> BARACUDA_HD __m512i float8_words(__m512i x) {
  constexpr Float8Format f = kFloat8<To>;
  constexpr int kOr = 0xea, kDrop = 7 - f.fraction;  // ternary: a & b | c
  const __m512i one = _mm512_set1_epi16(1), least = _mm512_set1_epi16(128 - f.bias);  // the exponent of the smallest normal number
  const __m512i a = _mm512_and_si512(x, _mm512_set1_epi16(0x7fff)), e = _mm512_srli_epi16(a, 7), above = _mm512_subs_epu16(e, least);
  const __m512i significand = _mm512_ternarylogic_epi32(x, _mm512_set1_epi16(0x7f), _mm512_set1_epi16(0x80), kOr);
  const __m512i half = _mm512_add_epi16(_mm512_subs_epu16(least, e), _mm512_set1_epi16(kDrop - 1)), drop = _mm512_add_epi16(half, one);  // places lost
  const __m512i odd = _mm512_and_si512(_mm512_srlv_epi16(significand, drop), one), below = _mm512_sub_epi16(_mm512_sllv_epi16(one, half), one);
  const __m512i rounded = _mm512_srlv_epi16(_mm512_add_epi16(_mm512_add_epi16(significand, odd), below), drop);
  static_assert(f.overflow == f.largest + 1);
  __m512i code = _mm512_min_epu16(_mm512_add_epi16(rounded, _mm512_slli_epi16(above, f.fraction)), _mm512_set1_epi16(f.overflow));
  if constexpr (f.nan != f.overflow) code = _mm512_mask_mov_epi16(code, _mm512_cmpgt_epi16_mask(a, _mm512_set1_epi16(0x7f80)), _mm512_set1_epi16(f.nan));
  const __m512i sign = _mm512_srli_epi16(x, 8), bit = _mm512_set1_epi16(0x80);
  if constexpr (f.signed_zero) return _mm512_ternarylogic_epi32(sign, bit, code, kOr);
  else return _mm512_mask_mov_epi16(code, _mm512_test_epi16_mask(code, _mm512_set1_epi16(0x7f)), _mm512_ternarylogic_epi32(sign, bit, code, kOr));
}
#endif
// kPast: y starts at a line.
template <bool kPast, class From, class To> void convert_by_words(const From* x, To* y, int64_t n) {
  int64_t i = 0;
#if BARACUDA_VECTOR_BYTES == 64
  const __m512i in_order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
  for (; i + 64 <= n; i += 64) {
    if (kPast || n > kStage) fetch_ahead<64 * sizeof(From)>(x + i);
    const __m512i low = float8_words<To>(odd_words(x + i)), r = _mm512_permutexvar_epi64(in_order, _mm512_packus_epi16(low, float8_words<To>(odd_words(x + i + 32))));
    kPast ? _mm512_stream_si512((__m512i*)(y + i), r) : _mm512_storeu_si512(y + i, r);
  }
#endif
  for (; i < n; ++i) y[i] = cast_element<To>(x[i]);
}
template <class From, class To> __attribute__((noinline)) void convert_all(const From* x, To* y, int64_t n) {
  int64_t i = 0;
  if constexpr (kLookedUp<From, To>) return look_all_up<false>(x, y, n);
  if constexpr (kByWords<From, To>) return convert_by_words<false>(x, y, n);
  if constexpr (kPacked<From> && kPacked<To>) {
    constexpr int N = kLanes<float>;
    for (; i + N <= n; i += N) store<To, N>(y + i, load<N>(x + i));
  } else if constexpr (kLanes<float> > 1 && std::is_same_v<From, double> && kIsHalf<To>) {
    constexpr int N = kLanes<float>;
    for (; i + N <= n; i += N) round_doubles<To, N>(x + i, y + i);
  } else if constexpr (kLanes<float> > 1 && kIsHalf<From> && std::is_same_v<To, double>) {
    constexpr int N = kLanes<float>;
    for (; i + N <= n; i += N) {
      const auto d = widen(load<N>(x + i));
      store<double, N / 2>(y + i, d.low), store<double, N / 2>(y + i + N / 2, d.high);
    }
  }
  for (; i < n; ++i) y[i] = cast_element<To>(x[i]);
}
template <class From> __attribute__((noinline)) void to_odd_floats(const From* x, float* y, int64_t n) {
  if constexpr (kExactInFloat<From>) convert_all(x, y, n);
  else for (int64_t i = 0; i < n; ++i) y[i] = to_odd_float(odd_double(x[i]));
}
template <class To> __attribute__((noinline)) void saturate(float* x, int64_t n) {
  constexpr int N = kLanes<float>;
  int64_t i = 0;
  for (; i + N <= n; i += N) store<float, N>(x + i, saturated<To>(load<N>(x + i)));
  for (; i < n; ++i) store<float, 1>(x + i, saturated<To>(load<1>(x + i)));
}
template <class From, class To, bool kSaturate> void cast(const double*, const void* const* in, void* const* out, int64_t n) {
  const From* x = static_cast<const From*>(in[0]);
  To* y = static_cast<To*>(out[0]);
  if constexpr (!kSaturate && (!kIsFloat8<From> || kLookedUp<From, To>) && (!kIsFloat8<To> || std::is_same_v<From, float> || kByWords<From, To>)) convert_all(x, y, n);
  else for (int64_t i = 0, m; i < n; i += m) {
    alignas(64) float stage[kStage];
    m = n - i < kStage ? n - i : kStage;
    to_odd_floats(x + i, stage, m);
    if constexpr (kSaturate) saturate<To>(stage, m);
    convert_all(stage, y + i, m);
  }
}
template <class From, class To> void cast_past(const double*, const void* const* in, void* const* out, int64_t n) {
  const From* x = static_cast<const From*>(in[0]);
  To* y = static_cast<To*>(out[0]);
  if constexpr (kByWords<From, To>) convert_by_words<true>(x, y, n);
  else look_all_up<true>(x, y, n);
}
// --- codes
template <class From> void to_e8m0(const double* how, const void* const* in, void* const* out, int64_t n) {
  const From* x = static_cast<const From*>(in[0]);
  uint8_t* y = static_cast<uint8_t*>(out[0]);
  const PowerRounding rounding = power_rounding(E8m0Rounding(int(how[0])), how[1] != 0);
  for (int64_t i = 0, m; i < n; i += m) {
    alignas(64) float stage[kStage];
    m = n - i < kStage ? n - i : kStage;
    to_odd_floats(x + i, stage, m);
    constexpr int N = kLanes<float>;
    int64_t j = 0;
    if constexpr (N > 1)
      for (; j + N <= m; j += N) {
        const auto codes = __builtin_convertvector(power_code(load<N>(stage + j), rounding), Raw<uint8_t, N>);
        __builtin_memcpy(y + i + j, &codes, sizeof codes);
      }
    for (; j < m; ++j) y[i + j] = uint8_t(power_code(load<1>(stage + j), rounding));
  }
}
template <class To> void from_e8m0(const double*, const void* const* in, void* const* out, int64_t n) {
  const uint8_t* x = static_cast<const uint8_t*>(in[0]);
  To* y = static_cast<To*>(out[0]);
  To table[256];
  for (int k = 0; k < 256; ++k) table[k] = cast_element<To>(power_of(uint8_t(k)));
  for (int64_t i = 0; i < n; ++i) y[i] = table[x[i]];
}
template <CodeFormat format, class From> __attribute__((noinline)) void packed_codes(const From* x, uint8_t* codes, int64_t n) {
  int64_t i = 0;
  if constexpr (format == CodeFormat::e2m1) {
    alignas(64) float stage[kStage];
    to_odd_floats(x, stage, n);
    constexpr int N = kLanes<float>;
    if constexpr (N > 1)
      for (; i + N <= n; i += N) {
        const auto eight = __builtin_convertvector(e2m1_code(load<N>(stage + i)), Raw<uint8_t, N>);
        __builtin_memcpy(codes + i, &eight, sizeof eight);
      }
    for (; i < n; ++i) codes[i] = uint8_t(e2m1_code(load<1>(stage + i)));
  } else
    for (; i < n; ++i) codes[i] = uint8_t(packed_code<format>(x[i]));
}
template <CodeFormat format, class From> void to_packed(const double* apart, const void* const* in, void* const* out, int64_t n) {
  const From* x = static_cast<const From*>(in[0]);
  uint8_t* y = static_cast<uint8_t*>(out[0]);
  for (int64_t i = 0, m; i < n; i += m) {
    From both[kStage];
    uint8_t codes[kStage];
    m = n - i < kStage / 2 ? n - i : kStage / 2;
    if (*apart != 0) {
      const From* second = static_cast<const From*>(in[1]);
      for (int64_t j = 0; j < m; ++j) both[2 * j] = x[i + j], both[2 * j + 1] = second[i + j];
    }
    packed_codes<format>(*apart != 0 ? both : x + 2 * i, codes, 2 * m);
    for (int64_t j = 0; j < m; ++j) y[i + j] = uint8_t(codes[2 * j] | codes[2 * j + 1] << 4);
  }
}
template <CodeFormat format, class To> void from_packed(const double* apart, const void* const* in, void* const* out, int64_t n) {
  const uint8_t* x = static_cast<const uint8_t*>(in[0]);
  To* y = static_cast<To*>(out[0]);
  To table[16];
  for (int k = 0; k < 16; ++k) table[k] = cast_element<To>(packed_value<format>(k));
  To* second = *apart != 0 ? static_cast<To*>(out[1]) : y + 1;
  const int64_t step = *apart != 0 ? 1 : 2;
  for (int64_t i = 0; i < n; ++i) y[step * i] = table[x[i] & 15], second[step * i] = table[x[i] >> 4];
}
template <CodeFormat format, class... T> constexpr void packed_row(CastKernels& t, TypeList<T...>) {
  ((t.to_packed[int(format)][kDTypeOf<T>] = to_packed<format, T>, t.from_packed[int(format)][kDTypeOf<T>] = from_packed<format, T>), ...);
}
template <class... T> constexpr void codes(CastKernels& t, TypeList<T...>) {
  ((t.to_e8m0[kDTypeOf<T>] = to_e8m0<T>, t.from_e8m0[kDTypeOf<T>] = from_e8m0<T>), ...);
  const auto all = TypeList<T..., int8_t, uint8_t>{};
  packed_row<CodeFormat::e2m1>(t, all), packed_row<CodeFormat::int4>(t, all), packed_row<CodeFormat::uint4>(t, all);
}
uint32_t scale(float* x, float factor, int64_t n) {
  uint32_t most = 0;
  for (int64_t i = 0; i < n; ++i) {  // bits of numbers without sign are in the order of the numbers
    const uint32_t u = __builtin_bit_cast(uint32_t, x[i]) & 0x7fffffff;
    most = u > most ? u : most;
    x[i] = x[i] * factor;
  }
  return most;
}
template <class From, bool kSaturate, class... To> constexpr ByDType<MapRun> row(TypeList<To...>) {
  return by_dtype<MapRun>(TypeList<To...>{}, []<class T>() { return &cast<From, T, kSaturate>; });
}
template <class... From> constexpr CastKernels table(TypeList<From...> all) {
  CastKernels t{};
  t.scale = scale;
  codes(t, Floating{});
  [&]<class... Short>(TypeList<Short...>) {
    ((t.past[kDTypeOf<Short>] = by_dtype<MapRun>(TypeList<f16, bf16, float>{}, []<class T>() { return &cast_past<Short, T>; })), ...);
    if constexpr (kByWords<bf16, f8_e4m3fn>) {
      t.past[DType::bf16] = by_dtype<MapRun>(TypeList<Short...>{}, []<class T>() { return &cast_past<bf16, T>; });
      t.past[DType::f32] = by_dtype<MapRun>(TypeList<Short...>{}, []<class T>() { return &cast_past<float, T>; });
    }
  }(Float8{});
  ((t.from[kDTypeOf<From>] = row<From, false>(all), t.saturated[kDTypeOf<From>] = row<From, true>(Saturable{})), ...);
  return t;
}

}  // namespace
extern constexpr CastKernels cast_kernels = table(CastableOrFloat8{});
}  // namespace BARACUDA_ISA
}  // namespace baracuda
