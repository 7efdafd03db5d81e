// v = act(gate) up into a block that stays in the first caches, and from there to 8 bits: 2 sizeof(T) + 1 bytes per element; arithmetic bounds halves (some
// 20 operations for v and 13 for a code), memory bandwidth f32.
#include "baracuda/ops/gated/gated_map.hpp"
#include "baracuda/ops/gated/gated_quantize_cpu.hpp"
#include "baracuda/ops/gated/gated_quantize_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int N = kLanes<float>;
using V = Pack<brief, N>;
using F = Pack<float, N>;
using Served = TypeList<f16, bf16, float>;

template <class Act, class T> void values(const void* gate, const void* up, float* v, int64_t n, double alpha, double limit) {
  const gated::Briefly<Act> a{gated::made<Act>(alpha, limit)};
  const auto some = [a](const T* g, const T* u, float* to) __attribute__((always_inline)) {
    const auto x = load_dealt<N>(g), w = load_dealt<N>(u);
    const auto of = [a](F x, F w) __attribute__((always_inline)) { return F::of(gated::gate(a.act(V::of(x.v)), a.up(V::of(w.v))).v); };
    store<float, N>(to, of(x.low, w.low)), store<float, N>(to + N, of(x.high, w.high));
  };
  const T *g = static_cast<const T*>(gate), *u = static_cast<const T*>(up);
  int64_t i = 0;
  for (; i + 2 * N <= n; i += 2 * N) {
    gated::fetch_ahead<2 * N>(g + i), gated::fetch_ahead<2 * N>(u + i);
    some(g + i, u + i, v + i);
  }
  if (i == n) return;
  T rest[2][2 * N] = {};
  for (int64_t j = 0; j < n - i; ++j) rest[0][j] = g[i + j], rest[1][j] = u[i + j];
  some(rest[0], rest[1], v + i);
}

float largest(const float* v, int64_t n) {
  n = (n + 2 * N - 1) / (2 * N) * (2 * N);  // what was made of zeros behind the last element is 0
  uint32_t most = 0;  // bits of numbers without sign are in the order of the numbers
  for (int64_t j = 0; j < n; ++j) {
    const uint32_t u = __builtin_bit_cast(uint32_t, v[j]) & 0x7fffffff;
    most = u > most ? u : most;
  }
  if (most >= 0x7f800000) {
    most = 0;
    for (int64_t j = 0; j < n; ++j) {
      const uint32_t u = __builtin_bit_cast(uint32_t, v[j]) & 0x7fffffff;
      most = u > most && u < 0x7f800000 ? u : most;
    }
  }
  return __builtin_bit_cast(float, most);
}

template <bool kApart> BARACUDA_HD void plain_codes(const float* v, F factor, f8_e4m3fn* y) {  // 2 N of them
  F a = load<N>(v) * factor, b = load<N>(v + N) * factor;
  if constexpr (kApart) {
    const auto both = by_turns(a, b, std::make_integer_sequence<int, N>{});
    a = both.low, b = both.high;
  }
  store<f8_e4m3fn, N>(y, saturated<f8_e4m3fn>(a)), store<f8_e4m3fn, N>(y + N, saturated<f8_e4m3fn>(b));
}
#if BARACUDA_VECTOR_BYTES == 64
// A number and a power of two whose last place is that of the code, by the exponent's last four bits: their sum holds the code, above `offset`.
struct Places { __m512 power; __m512i offset; };
BARACUDA_HD Places places() {
  alignas(64) uint32_t power[16] = {}, offset[16] = {};
  for (int e = 121; e <= 135; ++e) power[e & 15] = uint32_t(e + 20) << 23, offset[e & 15] = power[e & 15] - uint32_t(8 * (e - 121));
  return {_mm512_load_ps(power), _mm512_load_si512(offset)};
}
BARACUDA_HD __m512i code(__m512 q, const Places& p) {  // not of NaN
  const __m512 m = _mm512_range_ps(q, _mm512_set1_ps(448), 10);  // the magnitude, at most 448
  const __m512i e = _mm512_srli_epi32(_mm512_castps_si512(_mm512_max_ps(m, _mm512_set1_ps(0x1p-6f))), 23);
  const __m512i c = _mm512_sub_epi32(_mm512_castps_si512(_mm512_add_ps(m, _mm512_permutexvar_ps(e, p.power))), _mm512_permutexvar_epi32(e, p.offset));
  return _mm512_ternarylogic_epi32(_mm512_srli_epi32(_mm512_castps_si512(q), 24), _mm512_set1_epi32(0x80), c, 0xea);
}
#endif
template <class T> void codes(const float* v, float factor, void* to, int64_t n, [[maybe_unused]] bool past) {
  constexpr bool kApart = kStep<T, N> == 2;
  f8_e4m3fn* y = static_cast<f8_e4m3fn*>(to);
  const F by = double(factor);
  int64_t i = 0;
#if BARACUDA_VECTOR_BYTES == 64
  const Places p = places();
  const __m512i lines = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0), pairs = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
  for (; i + 64 <= n; i += 64) {
    __m512 q[4];
    for (int k = 0; k < 4; ++k) q[k] = _mm512_mul_ps(_mm512_load_ps(v + i + 16 * k), __m512(by.v));
    if (__builtin_expect(!_mm512_kortestz(_mm512_cmp_ps_mask(q[0], q[1], _CMP_UNORD_Q), _mm512_cmp_ps_mask(q[2], q[3], _CMP_UNORD_Q)), 0)) {
      plain_codes<kApart>(v + i, by, y + i), plain_codes<kApart>(v + i + 32, by, y + i + 32);
      continue;
    }
    const __m512i a = code(q[0], p), b = code(q[1], p), c = code(q[2], p), d = code(q[3], p);
    __m512i r;
    if constexpr (kApart) r = _mm512_permutexvar_epi64(pairs, _mm512_packus_epi32(_mm512_or_si512(a, _mm512_slli_epi32(b, 8)), _mm512_or_si512(c, _mm512_slli_epi32(d, 8))));
    else r = _mm512_permutexvar_epi32(lines, _mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d)));
    past ? _mm512_stream_si512((__m512i*)(y + i), r) : _mm512_storeu_si512(y + i, r);
  }
#endif
  for (; i + 2 * N <= n; i += 2 * N) plain_codes<kApart>(v + i, by, y + i);
  if (i == n) return;
  f8_e4m3fn rest[2 * N];
  plain_codes<kApart>(v + i, by, rest);
  for (int64_t j = 0; j < n - i; ++j) y[i + j] = rest[j];
}

template <class... Act> constexpr GatedQuantizeKernels make(gated::Acts<Act...>) {
  return {{by_dtype<void (*)(const void*, const void*, float*, int64_t, double, double)>(Served{}, []<class T>() { return &values<Act, T>; })...},
          largest,
          by_dtype<void (*)(const float*, float, void*, int64_t, bool)>(Served{}, []<class T>() { return &codes<T>; })};
}

}  // namespace
extern constexpr GatedQuantizeKernels gated_quantize_kernels = make(gated::GatedActs{});
}  // namespace BARACUDA_ISA
}  // namespace baracuda
