// Sums, moments, products and sums of exponentials: sizeof(T) bytes read per element; the floor is memory, but for exponentials
// of halves, where arithmetic is slower. Squares, moments and products of f32 and the halves are kept in f64: they neither leave
// the range nor need a second pass.
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/reduce/reduce_tree_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

template <class T> struct Sum {
  using A = Acc<T>;
  static constexpr int kStates = 1;
  static constexpr bool kGrouped = false, kSettle = false;
  static constexpr Shift kShift = Shift::none;
  static constexpr double kStart[] = {-0.0};
  template <int> using Fold = Plus;
  BARACUDA_HD static double pad(double) { return -0.0; }
  template <class V> BARACUDA_HD static void step(V* s, V x, V, int) { s[0] = s[0] + x; }
  template <class Get> BARACUDA_HD static void finish(const A* s, int, double, Get, ReduceState& out) { out.a = s[0], out.b = 0; }
};

template <class T> struct Squares {
  using A = double;
  static constexpr int kStates = 1;
  static constexpr bool kGrouped = false, kSettle = false;
  static constexpr Shift kShift = Shift::none;
  static constexpr double kStart[] = {0};
  template <int> using Fold = Plus;
  BARACUDA_HD static double pad(double) { return 0; }
  template <class V> BARACUDA_HD static void step(V* s, V x, V, int) { s[0] = fma(x, x, s[0]); }
  template <class Get> BARACUDA_HD static void finish(const A* s, int m, double, Get get, ReduceState& out) {
    out.a = s[0], out.b = 0;
    if constexpr (sizeof(T) == 8)  // out of range, or so small that terms were lost: once more, scaled
      if (!(s[0] >= 0x1p-900 && s[0] < 0x1p1000)) rescue(m, get, out);
  }
  template <class Get> static void rescue(int m, Get get, ReduceState& out) {
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
  static constexpr int kStates = 2;
  static constexpr bool kGrouped = false, kSettle = false;
  static constexpr Shift kShift = Shift::head;
  static constexpr double kStart[] = {-0.0, -0.0};
  template <int> using Fold = Plus;
  BARACUDA_HD static double pad(double shift) { return shift; }
  template <class V> BARACUDA_HD static void step(V* s, V x, V shift, int) {
    const V d = x - shift;
    s[0] = s[0] + d, s[1] = fma(d, d, s[1]);
  }
  template <class Get> BARACUDA_HD static void finish(const A* s, int m, double shift, Get, ReduceState& out) {
    const double mean = s[0] / m, rest = __builtin_fma(-mean, s[0], s[1]);
    out.a = shift + mean, out.b = rest < 0 ? 0 : rest;
  }
};

// Mantissa and exponent apart, so that only the product itself can leave the range.
template <class T> struct Product {
  using A = double;
  static constexpr int kStates = 2;
  static constexpr bool kGrouped = true, kSettle = false;
  static constexpr Shift kShift = Shift::none;
  static constexpr double kStart[] = {1, 0};
  template <int i> using Fold = std::conditional_t<i == 0, Times, Plus>;
  BARACUDA_HD static double pad(double) { return 1; }
  template <class V> BARACUDA_HD static void normalise(V& m, V& e) {
    const auto tiny = abs(m) < 0x1p-1022;  // f64 only; the products of the others stay normal
    const V y = sizeof(T) == 8 ? where(tiny, m * 0x1p54, m) : m;
    const auto whole = (y == 0) | mask_not(abs(y) < kInf);
    V n = from_int<V>(((bits(y) >> 52) & 0x7ff) - 1023);
    if constexpr (sizeof(T) == 8) n = n - where(tiny, V(54), V(0));
    e = e + where(whole, V(0), n);
    m = where(whole, m, V::from_bits((bits(y) & ~(int64_t(0x7ff) << 52)) | int64_t(1023) << 52));
  }
  template <class V, class Get> BARACUDA_HD static void group(V* s, int g, Get get) {
    for (int r = 0; r < g; ++r) {
      V x = get(r);
      if constexpr (sizeof(T) == 8) normalise(x, s[1]);
      s[0] = s[0] * x;
      if (r == g - 1 || (sizeof(T) < 8 && r == 3)) normalise(s[0], s[1]);  // four factors of f32 stay in range
    }
  }
  template <class Get> BARACUDA_HD static void finish(const A* s, int, double, Get, ReduceState& out) {
    Pack<double, 1> m = s[0], e = s[1];
    normalise(m, e);
    out.a = m.v, out.b = e.v;
  }
};

template <class V> BARACUDA_HD V finite_or_zero(V m) { return where((abs(m) < kInf) | is_nan(m), m, V(0)); }
template <class T> struct Exps {
  using A = Acc<T>;
  static constexpr int kStates = 2;
  static constexpr bool kGrouped = true, kSettle = true;
  static constexpr Shift kShift = Shift::none;
  static constexpr double kStart[] = {-kInf, 0};
  template <int i> using Fold = std::conditional_t<i == 0, Larger, Plus>;
  BARACUDA_HD static double pad(double) { return -kInf; }
  template <class V, class Get> BARACUDA_HD static void group(V* s, int g, Get get) {
    V top = s[0];
    for (int r = 0; r < g; ++r) top = max_nan(V(get(r)), top);
    const V origin = finite_or_zero(top);
    V sum = s[1] * exp(s[0] - origin);
    for (int r = 0; r < g; ++r) sum = sum + exp(get(r) - origin);
    s[0] = top, s[1] = sum;
  }
  template <class V> BARACUDA_HD static void settle(V* s, V top, V) { s[1] = s[1] * exp(s[0] - finite_or_zero(top)); }
  template <class Get> BARACUDA_HD static void finish(const A* s, int, double, Get, ReduceState& out) { out.a = s[0], out.b = s[1]; }
};

constexpr ReduceTable make() {
  ReduceTable t;
  t.of[int(ReduceLoop::sum)] = reduce_kernels<Sum>();
  t.of[int(ReduceLoop::squares)] = reduce_kernels<Squares>();
  t.of[int(ReduceLoop::moments)] = reduce_kernels<Moments>();
  t.of[int(ReduceLoop::product)] = reduce_kernels<Product>();
  t.of[int(ReduceLoop::exps)] = reduce_kernels<Exps>();
  return t;
}

}  // namespace
extern constexpr ReduceTable reduce_sum_table = make();
}  // namespace baracuda
