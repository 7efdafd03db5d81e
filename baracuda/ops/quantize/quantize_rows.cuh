#pragma once
// Dense rows with one scale each: what is known of a row's scale, and units of N neighbours.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/quantize/quantize_values.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace quantize {
using device_map::Vector;

template <class T> using V = Pack<Acc<T>, 1>;
// What is unused of it is not made.
template <class V> struct Scaled {
  V s;
  Codes<V> c;
  Stepper<V> steps;  // to be rounded
  Divider<V> over;
  __device__ __forceinline__ Scaled(const double* parameters, V s, V zero_point) : s(s), c(parameters, zero_point), steps(s, c.lo, c.hi), over(s) {}
  // The code of a number, in the last byte. A sum of integers that f32 holds.
  __device__ __forceinline__ uint32_t code(V x) const { return uint32_t(bits(steps.raised(x) + c.z)); }
};
// N neighbours as they are loaded and stored: whole words, for where lanes are taken apart behind a load the next load waits for it.
template <class E, int N> struct alignas(sizeof(E) * N) UnitWords { uint32_t word[sizeof(E) * N / 4]; };
template <class E, int N> using Unit = std::conditional_t<sizeof(E) * N % 4 == 0, UnitWords<E, N>, Vector<E, N>>;
// kWhole: every unit of every row is one aligned access.
template <bool kWhole, int N, class E> __device__ __forceinline__ Unit<E, N> load_unit(const E* p, int64_t count) {
  if constexpr (kWhole) return *reinterpret_cast<const Unit<E, N>*>(p);
  else {
    Vector<E, N> e;
#pragma unroll
    for (int j = 0; j < N; ++j) e.lane[j] = j < count ? p[j] : E{};
    return __builtin_bit_cast(Unit<E, N>, e);
  }
}
template <bool kWhole, int N, class E> __device__ __forceinline__ void store_unit(E* p, const Unit<E, N>& u, int64_t count) {
  if constexpr (kWhole) *reinterpret_cast<Unit<E, N>*>(p) = u;
  else {
    const Vector<E, N> e = __builtin_bit_cast(Vector<E, N>, u);
#pragma unroll
    for (int j = 0; j < N; ++j)
      if (j < count) p[j] = e.lane[j];
  }
}
// N results of f(j): numbers of T, two halves by one instruction, or words whose last byte is a code.
template <class Out, int N, class F> __device__ __forceinline__ Unit<Out, N> unit_of(F f) {
  if constexpr (kIsHalf<Out>) return __builtin_bit_cast(Unit<Out, N>, row_team::Packed<Out, N>::rounded(f));
  else if constexpr (std::is_integral_v<Out> && N % 4 == 0) {
    Unit<Out, N> y;
#pragma unroll
    for (int j = 0; j < N; j += 4) y.word[j / 4] = __byte_perm(__byte_perm(f(j), f(j + 1), 0x0040), __byte_perm(f(j + 2), f(j + 3), 0x0040), 0x5410);
    return y;
  } else {
    Vector<Out, N> y;
#pragma unroll
    for (int j = 0; j < N; ++j)
      if constexpr (std::is_integral_v<Out>) y.lane[j] = Out(f(j));
      else y.lane[j] = element<Out>(f(j));
    return __builtin_bit_cast(Unit<Out, N>, y);
  }
}

// Codes become numbers in f32 by one operation: put behind the exponent of 2^23, the least of them as 0.
template <class C, class E> inline constexpr C kBias = sizeof(E) == 1 && std::is_same_v<C, float> ? C(std::is_signed_v<E> ? 8388608 + 128 : 8388608) : C(0);
// The lanes of a unit as numbers, codes kBias above what they are.
template <class C, int N> struct Lanes {
  Pack<C, 1> v[N];
  template <class E> static __device__ __forceinline__ Lanes of(const Unit<E, N>& u) {
    Lanes l;
    if constexpr (kBias<C, E> != 0) {
#pragma unroll
      for (int j = 0; j < N; ++j)
        l.v[j] = Pack<C, 1>::of(__uint_as_float(__byte_perm(std::is_signed_v<E> ? u.word[j / 4] ^ 0x80808080u : u.word[j / 4], 0x4b000000u, 0x7440u + unsigned(j % 4))));
    } else if constexpr (kIsHalf<E> && N % 2 == 0) {
      const auto p = __builtin_bit_cast(row_team::Packed<E, N>, u);
#pragma unroll
      for (int j = 0; j < N; ++j) l.v[j] = p[j];
    } else {
      const Vector<E, N> e = __builtin_bit_cast(Vector<E, N>, u);
#pragma unroll
      for (int j = 0; j < N; ++j) l.v[j] = number<C>(e.lane[j]);
    }
    return l;
  }
  // NaN counts as 0 where there is to be a code. Seldom there is one: a sum of products with 0 tells.
  __device__ __forceinline__ void without_nan() {
    Pack<C, 1> sum = 0;
#pragma unroll
    for (int j = 0; j < N; ++j) sum = fma(v[j], Pack<C, 1>(0), sum);
    if (sum.v == sum.v) return;
#pragma unroll
    for (int j = 0; j < N; ++j) v[j] = where(v[j] == v[j], v[j], Pack<C, 1>(0));
  }
};
// The largest finite magnitude of units U of N elements; whether something in them is not finite.
template <class T, int N, class U, int P> __device__ __forceinline__ float most_of(const U (&e)[P], bool& strange) {
  float most;
  if constexpr (sizeof(T) == 2) {  // magnitudes are ordered as their bits are
    uint32_t bits = 0;
#pragma unroll
    for (int k = 0; k < P; ++k)
#pragma unroll
      for (uint32_t word : e[k].word) bits = __vmaxu2(bits, word & 0x7fff7fffu);
    bits = max(bits & 0xffff, bits >> 16);
    most = widened(T{uint16_t(bits)});
  } else {
    most = 0;
#pragma unroll
    for (int k = 0; k < P; ++k)
#pragma unroll
      for (uint32_t word : e[k].word) asm("max.NaN.f32 %0, %0, %1;" : "+f"(most) : "f"(fabsf(__uint_as_float(word))));
  }
  strange = !(most < float(kInf));
  if (strange) {
    most = 0;
#pragma unroll
    for (int k = 0; k < P; ++k) {
      const auto x = Lanes<float, N>::template of<T>(e[k]);
#pragma unroll
      for (int j = 0; j < N; ++j) most = fabsf(x.v[j].v) < float(kInf) ? fmaxf(most, fabsf(x.v[j].v)) : most;
    }
  }
  return most;
}
// Where row i of each operand begins.
template <int K> __device__ __forceinline__ void row_offsets(const device::Walk<K>& w, int64_t i, int64_t (&at)[K]) {
  if (w.rank > 1) {
    w.offsets(i, at);
    return;
  }
#pragma unroll
  for (int k = 0; k < K; ++k) at[k] = i * w.stride[k][0];
}

}  // namespace quantize
}  // namespace baracuda
