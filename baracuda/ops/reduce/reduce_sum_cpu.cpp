// Sums, moments and products: sizeof(T) bytes read per element; the floor is memory. Squares, moments and products of f32 and the
// halves are kept in f64: they neither leave the range nor need a second pass.
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/reduce/reduce_product_math.hpp"
#include "baracuda/ops/reduce/reduce_tree_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

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

constexpr ReduceTable make() {
  ReduceTable t;
  t.of[int(ReduceLoop::sum)] = t.of[int(ReduceLoop::magnitudes)] = reduce_kernels<Sum>();
  t.of[int(ReduceLoop::numbers)] = reduce_kernels<Numbers>();
  t.of[int(ReduceLoop::squares)] = reduce_kernels<Squares>();
  t.of[int(ReduceLoop::moments)] = reduce_kernels<Moments>();
  t.of[int(ReduceLoop::product)] = reduce_kernels<Product>();
  return t;
}

}  // namespace
extern constexpr ReduceTable reduce_sum_table = make();
}  // namespace baracuda
