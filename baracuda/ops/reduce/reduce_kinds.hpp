#pragma once
// What the loops do with an element, for any V: SIMD pack, CUDA thread.
//
// A kind of sum says in which type it computes (A), how many numbers a lane keeps (kStates, with kStart), and how it goes on:
//   step(s, x, given)        takes one element
//   kTidy, tidy(s)           after so many elements of a lane, and before lanes are folded; must not change bits. 0: never
//   settle(s)                with kTidy: before lanes are folded
//   Fold<i>                  how state i of two lanes becomes one
//   finish(s, m, shift, get, out)   the state of the chunk; get(i): element i as a double
//   pad(shift)               an element that changes nothing
// kHead: the shift is the mean of the first 64 elements.
#include <type_traits>
#include "baracuda/host/row_sum.hpp"
#include "baracuda/math/element.hpp"
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/reduce/reduce_product_math.hpp"
#include "baracuda/ops/reduce/reduce_state.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace reduce_kinds {

struct Plus { template <class V> BARACUDA_HD static V of(V a, V b) { return a + b; } };
struct Times { template <class V> BARACUDA_HD static V of(V a, V b) { return a * b; } };
struct Larger { template <class V> BARACUDA_HD static V of(V a, V b) { return max_nan(a, b); } };
struct Smaller { template <class V> BARACUDA_HD static V of(V a, V b) { return min_nan(a, b); } };

// What every element meets: the shift of its row, and the bits of it that count (all, or all but the sign).
template <class V> struct Given {
  V shift;
  typename V::Bits keep;
  BARACUDA_HD Given(V s, bool magnitude) : shift(s), keep(magnitude ? bits(V(0)) | ~V::kSign : ~bits(V(0))) {}
  BARACUDA_HD V kept(V x) const { return V::from_bits(bits(x) & keep); }
};

// The mean of the first elements, in T: an origin from which the spread of the data is not lost. sum / count <= 64 elements.
template <class T, class A> BARACUDA_HD A origin(A sum, int m) { return A(to_double(from_double<T>(sum / (m < kSumLanes ? m : kSumLanes)))); }

// --- sums, moments and products. Squares, moments and products of f32 and the halves are kept in f64: they neither leave the range nor need
// a second pass.
template <class T> struct Sum {  // of x or |x|
  using A = Acc<T>;
  static constexpr int kStates = 1, kTidy = 0;
  static constexpr bool kHead = false;
  static constexpr double kStart[] = {-0.0};
  template <int> using Fold = Plus;
  BARACUDA_HD static double pad(double) { return -0.0; }
  template <class V> BARACUDA_HD static void step(V* s, V x, const Given<V>& given) { s[0] = s[0] + given.kept(x); }
  template <class Get> BARACUDA_HD static void finish(const A* s, int, double, Get, ReduceState& out) { out.a = s[0], out.b = 0; }
};

template <class T> struct Numbers {
  using A = Acc<T>;
  static constexpr int kStates = 2, kTidy = 0;
  static constexpr bool kHead = false;
  static constexpr double kStart[] = {-0.0, 0};
  template <int> using Fold = Plus;
  BARACUDA_HD static double pad(double) { return kNaN; }
  template <class V> BARACUDA_HD static void step(V* s, V x, const Given<V>&) {
    s[0] = s[0] + where(is_nan(x), V(-0.0), x), s[1] = s[1] + where(is_nan(x), V(0), V(1));
  }
  template <class Get> BARACUDA_HD static void finish(const A* s, int, double, Get, ReduceState& out) { out.a = s[1] == 0 ? 0 : s[0], out.b = s[1]; }
};

template <class T> struct Squares {
  using A = double;
  static constexpr int kStates = 1, kTidy = 0;
  static constexpr bool kHead = false;
  static constexpr double kStart[] = {0};
  template <int> using Fold = Plus;
  BARACUDA_HD static double pad(double) { return 0; }
  template <class V> BARACUDA_HD static void step(V* s, V x, const Given<V>&) { s[0] = fma(x, x, s[0]); }
  template <class Get> BARACUDA_HD static void finish(const A* s, int m, double, Get get, ReduceState& out) {
    out.a = s[0], out.b = 0;
    if constexpr (sizeof(T) == 8)  // out of range, or so small that terms were lost: once more, scaled
      if (!(s[0] >= 0x1p-900 && s[0] < 0x1p1000)) rescue(m, get, out);
  }
  template <class Get> BARACUDA_HD static void rescue(int m, Get get, ReduceState& out) {
    double most = 0, sum = 0;
    for (int i = 0; i < m; ++i) {
      const double v = get(i) < 0 ? -get(i) : get(i);
      most = v > most || v != v ? v : most;
      if (most != most) break;
    }
    if (!(most > 0 && most < kInf)) return (void)(out.a = most);
    const int e = most < 0x1p-500 ? -600 : most > 0x1p400 ? 600 : 0;  // scaled squares of `most` are in range
    const double scale = e < 0 ? 0x1p600 : e > 0 ? 0x1p-600 : 1;
    for (int i = 0; i < m; ++i) sum = __builtin_fma(get(i) * scale, get(i) * scale, sum);
    out.a = sum, out.b = e;
  }
};

// Distances from an origin among the data: what the subtraction of mean^2 may lose is then at most m / 64 roundings.
template <class T> struct Moments {
  using A = double;
  static constexpr int kStates = 2, kTidy = 0;
  static constexpr bool kHead = true;
  static constexpr double kStart[] = {-0.0, -0.0};
  template <int> using Fold = Plus;
  BARACUDA_HD static double pad(double shift) { return shift; }
  template <class V> BARACUDA_HD static void step(V* s, V x, const Given<V>& given) {
    const V d = x - given.shift;
    s[0] = s[0] + d, s[1] = fma(d, d, s[1]);
  }
  template <class Get> BARACUDA_HD static void finish(const A* s, int m, double shift, Get, ReduceState& out) {
    const double mean = s[0] / m, rest = __builtin_fma(-mean, s[0], s[1]);
    out.a = shift + mean, out.b = rest < 0 ? 0 : rest;
  }
};

// A lane's mantissa stays within 2^-300 ... 2^300 after every tidy, and four factors of f32 more cannot leave the range; a factor of f64
// is split where it must be.
template <class T> struct Product {
  using A = double;
  static constexpr int kStates = 2, kTidy = sizeof(T) == 8 ? 1 : 4;
  static constexpr bool kHead = false;
  static constexpr double kStart[] = {1, 0};
  template <int i> using Fold = std::conditional_t<i == 0, Times, Plus>;
  BARACUDA_HD static double pad(double) { return 1; }
  template <class V> BARACUDA_HD static void part(V& m, V& e) { e = e + from_int<V>(product::split<sizeof(T) == 8>(m)); }
  template <class V> BARACUDA_HD static void step(V* s, V x, const Given<V>&) {
    if constexpr (sizeof(T) == 8)
      if (any(product::outside(x, 0x1p-300, 0x1p300))) part(x, s[1]);
    s[0] = s[0] * x;
  }
  template <class V> BARACUDA_HD static void tidy(V* s) {
    if (any(product::outside(s[0], 0x1p-300, 0x1p300))) part(s[0], s[1]);
  }
  template <class V> BARACUDA_HD static void settle(V* s) {  // 64 of them are multiplied next
    if (any(product::outside(s[0], 0x1p-15, 0x1p15))) part(s[0], s[1]);
  }
  template <class Get> BARACUDA_HD static void finish(const A* s, int, double, Get, ReduceState& out) {
    auto m = Pack<double, 1>::of(s[0]), e = Pack<double, 1>::of(s[1]);
    part(m, e);
    out.a = m.v, out.b = e.v;
  }
};

// --- extrema, where they are, and how many elements equal one. Nothing is rounded, so the order is free. Of 0 and -0 the result is 0.
template <bool kMax> using Better = std::conditional_t<kMax, Larger, Smaller>;
template <bool kMax> inline constexpr double kWorst = kMax ? -kInf : kInf;

// step(s, x, row, given) takes the element of that number.
template <class T, bool kMax> struct Extremum {  // of x or |x|
  static constexpr int kStates = 1;
  static constexpr double kStart[] = {kWorst<kMax>};
  template <int> using Fold = Better<kMax>;
  template <class V> BARACUDA_HD static void step(V* s, V x, V, const Given<V>& given) { s[0] = Fold<0>::of(given.kept(x), s[0]); }
  BARACUDA_HD static void finish(const Acc<T>* s, ReduceState& out) { out.a = s[0] + 0.0, out.b = 0; }
};
template <class T> struct Extremes {
  static constexpr int kStates = 2;
  static constexpr double kStart[] = {-kInf, kInf};
  template <int i> using Fold = Better<i == 0>;
  template <class V> BARACUDA_HD static void step(V* s, V x, V, const Given<V>&) { s[0] = Larger::of(x, s[0]), s[1] = Smaller::of(x, s[1]); }
  BARACUDA_HD static void finish(const Acc<T>* s, ReduceState& out) { out.a = s[0] + 0.0, out.b = s[1] + 0.0; }
};
template <class T, bool kMax> struct Where {  // down columns, in order; along rows the extremum is looked for once it is known
  static constexpr int kStates = 2;
  static constexpr double kStart[] = {kWorst<kMax>, 0};
  template <class V> BARACUDA_HD static void step(V* s, V x, V row, const Given<V>&) {
    const auto better = ((kMax ? x > s[0] : x < s[0]) | is_nan(x)) & mask_not(is_nan(s[0]));
    s[0] = where(better, x, s[0]), s[1] = where(better, row, s[1]);
  }
  BARACUDA_HD static void finish(const Acc<T>* s, ReduceState& out) { out.a = s[0], out.at = int64_t(s[1]); }
};
template <class T> struct Equal {
  static constexpr int kStates = 1;
  static constexpr double kStart[] = {0};
  template <int> using Fold = Plus;
  template <class V> BARACUDA_HD static void step(V* s, V x, V, const Given<V>& given) {
    const V v = given.kept(x);
    s[0] = s[0] + where((v == given.shift) | (is_nan(v) & is_nan(given.shift)), V(1), V(0));
  }
  BARACUDA_HD static void finish(const Acc<T>* s, ReduceState& out) { out.a = s[0], out.b = 0; }
};

// --- sums of exponentials: blocks of 512 elements against the largest so far.
template <class V> BARACUDA_HD V base_of(V top) { return where(abs(top) < kInf, top, V(0)); }

// --- integers, bool, and the count of elements that are not zero in any dtype. Integer sums and products wrap modulo 2^64, so every order
// gives the same bits.
template <class T> struct Stored { using Type = T; };
template <> struct Stored<bool> { using Type = uint8_t; };  // any byte may lie there
template <> struct Stored<f16> { using Type = uint16_t; };
template <> struct Stored<bf16> { using Type = uint16_t; };
template <> struct Stored<float> { using Type = uint32_t; };
template <> struct Stored<double> { using Type = uint64_t; };
template <class T> using StoredOf = typename Stored<T>::Type;

// The state of a row or column: an accumulator and how an element enters it.
template <class T> struct Summed {
  using S = uint64_t;
  static constexpr S kStart = 0;
  BARACUDA_HD static S value(StoredOf<T> x) { if constexpr (std::is_same_v<T, bool>) return x != 0; else return S(int64_t(x)); }
  BARACUDA_HD static S step(S s, StoredOf<T> x) { return s + value(x); }
};
template <class T> struct Multiplied : Summed<T> {
  static constexpr uint64_t kStart = 1;
  BARACUDA_HD static uint64_t step(uint64_t s, StoredOf<T> x) { return s * Summed<T>::value(x); }
};
template <class T> struct Counted {
  using S = uint64_t;
  static constexpr S kStart = 0;
  BARACUDA_HD static S step(S s, StoredOf<T> x) {
    constexpr bool floating = is_floating(kDTypeOf<T>);  // the sign of a zero is not a value
    return s + (floating ? StoredOf<T>(x << 1) != 0 : x != 0);
  }
};
template <class T, bool kMax> struct Best {
  using S = StoredOf<T>;
  static constexpr bool kBool = std::is_same_v<T, bool>, kSigned = std::is_signed_v<S>;
  static constexpr S kLeast = kSigned ? S(uint64_t(1) << (8 * sizeof(S) - 1)) : S(0);
  static constexpr S kStart = kMax ? kLeast : kBool ? S(1) : S(~kLeast);
  BARACUDA_HD static S value(S x) { return kBool ? S(x != 0) : x; }
  BARACUDA_HD static bool better(S x, S s) { return kMax ? x > s : x < s; }
  BARACUDA_HD static S step(S s, S x) { return better(value(x), s) ? value(x) : s; }
};
template <class T> using Largest = Best<T, true>;
template <class T> using Smallest = Best<T, false>;

}  // namespace reduce_kinds
}  // namespace baracuda
