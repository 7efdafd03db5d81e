// A row of logits to its loss and, in place or elsewhere, its gradient: max and sum exp(x - m), chunk by chunk, then
// g ((1 + 2 z lse) exp(x - m) / sum - eps / n - (1 - eps) onehot). Two exp and about 25 flops per element; a row of up to
// some 10^5 classes stays in the second-level cache between the two, so memory sees it once. One thread per row.
// Sums: element i is in chunk i / 1024 and lane i % 64; lanes add in order in the accumulator's type and are folded in
// halves, chunks are added in f64, scaled to the largest maximum. So the bits depend neither on the vector width nor on anything outside the row.
#include "baracuda/math/element.hpp"
#include "baracuda/ops/loss/loss_cpu.hpp"
#include "baracuda/ops/loss/loss_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kRowLanes = 64;
using Double = Pack<double, 1>;

// Lanes 0 .. count - 1 of x, `other` elsewhere.
template <class V> BARACUDA_HD V first_lanes(V x, int count, V other) {
  if constexpr (V::kWidth == 1) return count > 0 ? x : other;
  else {
    V index;
    for (int i = 0; i < V::kWidth; ++i) index.set_lane(i, typename V::Scalar(i));
    return where(index < V(count), x, other);
  }
}

// Where a pass reads the logits: as they are, or with bias and cap applied on the way.
template <class T> struct Plain {
  using Value = PackOf<T>;
  const T* x;
  template <int N> BARACUDA_HD Pack<Acc<T>, N> at(int64_t j) const { return load<N>(x + j); }
  BARACUDA_HD Value tail(int64_t j, int count) const { return load_tail<Value::kWidth>(x + j, count); }
};
template <class T> struct Shaped {
  using Value = PackOf<T>;
  const T* x;
  const Acc<T>* bias;
  double softcap;
  template <class V> BARACUDA_HD V capped(V v) const { return softcap > 0 ? loss::cap(v, V(softcap)) : v; }
  template <int N> BARACUDA_HD Pack<Acc<T>, N> at(int64_t j) const {
    const auto v = load<N>(x + j);
    return capped(bias ? v + load<N>(bias + j) : v);
  }
  BARACUDA_HD Value tail(int64_t j, int count) const {
    const Value v = load_tail<Value::kWidth>(x + j, count);
    return capped(bias ? v + load_tail<Value::kWidth>(bias + j, count) : v);
  }
};

template <class T> void store_shaped(const Shaped<T>& from, Acc<T>* to, int64_t n) {
  using A = Acc<T>;
  constexpr int N = PackOf<T>::kWidth;
  int64_t j = 0;
  for (; j + N <= n; j += N) store<A, N>(to + j, from.template at<N>(j));
  if (j < n) store_tail<A, N>(to + j, from.tail(j, int(n - j)), int(n - j));
}
// f(k, v, count) for the vectors of [begin, end): k is the vector's place among the 64 lanes, count its valid lanes.
template <class Source, class F> BARACUDA_HD void for_lanes(const Source& s, int64_t begin, int64_t end, F f) {
  constexpr int N = Source::Value::kWidth;
  int64_t j = begin;
  for (; j + kRowLanes <= end; j += kRowLanes)
    for (int k = 0; k < kRowLanes / N; ++k) f(k, s.template at<N>(j + k * N), N);
  for (int k = 0; j < end; ++k, j += N) f(k, s.tail(j, end - j < N ? int(end - j) : N), end - j < N ? int(end - j) : N);
}
// Lane l with lane l + 32, then l + 16, ... l + 1: whole vectors first, then halves of one.
template <class V, class F> BARACUDA_HD typename V::Scalar fold_lanes(V v, F join) {
  if constexpr (V::kWidth == 1) return v.v;
  else return fold_lanes(join(v.half(0), v.half(1)), join);
}
template <class V, class F> BARACUDA_HD typename V::Scalar fold(V (&acc)[kRowLanes / V::kWidth], F join) {
  for (int w = kRowLanes / V::kWidth / 2; w; w /= 2)
    for (int k = 0; k < w; ++k) acc[k] = join(acc[k], acc[k + w]);
  return fold_lanes(acc[0], join);
}

template <class Source> typename Source::Value::Scalar max_of(const Source& s, int64_t begin, int64_t end) {
  using V = typename Source::Value;
  V m[kRowLanes / V::kWidth];
  for (V& e : m) e = V(-kInf);
  for_lanes(s, begin, end, [&](int k, V v, int count) { m[k] = max_nan(m[k], count == V::kWidth ? v : first_lanes(v, count, V(-kInf))); });
  return fold(m, [](auto a, auto b) { return max_nan(a, b); });
}
// A chunk by its own maximum, which is in the first-level cache then.
template <bool kPlainSum, class Source> LossPart chunk_sums(const Source& s, int64_t begin, int64_t end) {
  using V = typename Source::Value;
  const auto top = max_of(s, begin, end);
  if (top == -kInf) return {-kInf, 0, -kInf};
  V e[kRowLanes / V::kWidth], d[kRowLanes / V::kWidth];
  for (int k = 0; k < kRowLanes / V::kWidth; ++k) e[k] = d[k] = V(0);
  for_lanes(s, begin, end, [&](int k, V v, int count) {
    const V t = v - V(top), x = exp_up(t);
    e[k] += count == V::kWidth ? x : first_lanes(x, count, V(0));
    if constexpr (kPlainSum) d[k] += count == V::kWidth ? t : first_lanes(t, count, V(0));
  });
  const auto add = [](auto a, auto b) { return a + b; };
  return {double(top), double(fold(e, add)) * kDown<V>, kPlainSum ? double(fold(d, add)) : 0};
}
// The maximum m, sum exp(x - m) and, where asked for, sum (x - m), from the parts in their order.
struct RowSums {
  double m = -kInf, exps = 0, plain = 0;
  void add(const LossPart& part, int64_t count) {
    const double before = m;
    m = part.top > before || part.top != part.top ? part.top : before;
    if (part.top == -kInf) return void(plain = -kInf);  // adds nothing, and all -inf is NaN below
    const auto scaled = [&](double sum, double from) { return from == m ? sum : sum == 0 ? 0 : sum * exp(Double(from - m)).v; };
    exps = scaled(exps, before) + scaled(part.exps, part.top);
    plain += part.plain + double(count) * part.top;  // sum x, until all are there
  }
  void end(int64_t n) {
    if (m == -kInf) exps = __builtin_nan("");
    plain -= double(n) * m;
  }
};
template <class F> RowSums row_sums(int64_t n, F part) {
  RowSums r;
  for (int64_t c = 0; c < n; c += kLossChunk) {
    const int64_t end = c + kLossChunk < n ? c + kLossChunk : n;
    r.add(part(c, end), end - c);
  }
  r.end(n);
  return r;
}
void set_loss(LossRow& p, const RowSums& sums, Double at_target) {
  const Double log_sum = log(Double(sums.exps)), target = at_target - Double(sums.m);
  p.lse = (Double(sums.m) + log_sum).v;
  p.z_part = loss::z_part(Double(p.lse), p.z).v;
  p.loss = loss::cross_entropy(log_sum, target, Double(sums.plain), double(p.n), p.smoothing).v + p.z_part;
}
void join(LossRow& p, const LossPart* parts, double at_target) {
  set_loss(p, row_sums(p.n, [&](int64_t c, int64_t) { return parts[c / kLossChunk]; }), at_target);
}
template <bool kCap, class U, class Source>
void row_gradient(const Source& s, const LossRow& p, typename Source::Value m, const loss::RowGradient& g) {
  using V = typename Source::Value;
  constexpr int N = V::kWidth;
  using Scalar = Pack<typename V::Scalar, 1>;
  U* dx = static_cast<U*>(p.dx);
  const Scalar at_target = s.template at<1>(p.target);  // before dx, which may be the same memory, is written
  const V factor = g.per_exp, uniform = -g.uniform, c = p.softcap;
  const auto element = [&](V v) {
    const V d = fma(factor, exp(v - m), uniform);
    if constexpr (kCap) return d * loss::cap_slope(v, c);
    else return d;
  };
  int64_t j = 0;
  for (; j + N <= p.n; j += N) store<U, N>(dx + j, element(s.template at<N>(j)));
  if (j < p.n) store_tail<U, N>(dx + j, element(s.tail(j, int(p.n - j))), int(p.n - j));
  const Double e = convert<double>(exp(at_target - Scalar::of(m.lane(0))));
  Double d = Double(g.per_exp) * e - Double(g.uniform) - Double(g.hit);
  if constexpr (kCap) d = d * loss::cap_slope(convert<double>(at_target), Double(p.softcap));
  dx[p.target] = from_double<U>(d.v);
}

template <class U, class Source> void row_of(const Source& s, LossRow& p) {
  using V = typename Source::Value;
  double m = p.lse, exps = 1;
  if (!p.lse_known) {
    const RowSums sums = row_sums(p.n, [&](int64_t c, int64_t end) { return p.smoothing > 0 ? chunk_sums<true>(s, c, end) : chunk_sums<false>(s, c, end); });
    m = sums.m, exps = sums.exps;
    set_loss(p, sums, convert<double>(s.template at<1>(p.target)));
  }
  if (!p.dx) return;
  const loss::RowGradient g = loss::row_gradient(p.g, exps, p.lse, double(p.n), p.smoothing, p.z);
  if (p.softcap > 0) row_gradient<true, U>(s, p, V(m), g);
  else row_gradient<false, U>(s, p, V(m), g);
}
template <class T, class U> void row(LossRow& p) {
  using A = Acc<T>;
  const T* x = static_cast<const T*>(p.x);
  if (!p.bias && !(p.softcap > 0)) return row_of<U>(Plain<T>{x}, p);
  const Shaped<T> shaped{x, static_cast<const A*>(p.bias), p.softcap};
  if (!p.scratch) return row_of<U>(shaped, p);
  A* to = static_cast<A*>(p.scratch);
  store_shaped(shaped, to, p.n);
  row_of<U>(Plain<A>{to}, p);
}
template <class A> void chunk(const LossChunk& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    A* const x = static_cast<A*>(c.x) + r * c.pitch;
    if (c.bias || c.softcap > 0) store_shaped(Shaped<A>{x, static_cast<const A*>(c.bias), c.softcap}, x, c.n);
    c.parts[r * c.parts_pitch] = c.plain ? chunk_sums<true>(Plain<A>{x}, 0, c.n) : chunk_sums<false>(Plain<A>{x}, 0, c.n);
  }
}

// Columns in blocks whose sums stay in the first-level cache.
template <class T> void add_columns(const void* x, int64_t pitch, int64_t rows, int64_t n, double* sums) {
  constexpr int64_t kBlock = 1024;
  constexpr int N = PackOf<T>::kWidth;
  for (int64_t b = 0; b < n; b += kBlock) {
    const int64_t end = b + kBlock < n ? b + kBlock : n;
    for (int64_t i = 0; i < rows; ++i) {
      const T* r = static_cast<const T*>(x) + i * pitch;
      int64_t j = b;
      for (; j + N <= end; j += N) store<double, N>(sums + j, load<N>(sums + j) + convert<double>(load<N>(r + j)));
      for (; j < end; ++j) sums[j] += double(load<1>(r + j).v);
    }
  }
}
template <class T> void to_acc(const void* x, void* acc, int64_t n) {
  constexpr int N = PackOf<T>::kWidth;
  const T* from = static_cast<const T*>(x);
  Acc<T>* to = static_cast<Acc<T>*>(acc);
  int64_t j = 0;
  for (; j + N <= n; j += N) store<Acc<T>, N>(to + j, load<N>(from + j));
  if (j < n) store_tail<Acc<T>, N>(to + j, load_tail<N>(from + j, int(n - j)), int(n - j));
}
template <class T> void from_acc(const void* acc, void* x, int64_t n, bool add) {
  constexpr int N = PackOf<T>::kWidth;
  const Acc<T>* from = static_cast<const Acc<T>*>(acc);
  T* to = static_cast<T*>(x);
  for (int64_t j = 0; j < n; j += N) {
    const int count = n - j < N ? int(n - j) : N;
    auto v = load_tail<N>(from + j, count);
    if (add) v += load_tail<N>(to + j, count);
    store_tail<T, N>(to + j, v, count);
  }
}
template <class T> void sums_to(const double* sums, void* x, int64_t n, bool add) {
  T* to = static_cast<T*>(x);
  for (int64_t j = 0; j < n; ++j) {
    const double v = sums[j] + (add ? double(load<1>(to + j).v) : 0.0);
    to[j] = from_double<T>(v);
  }
}
template <class T> void scale_run(void* x, int64_t n, double s) {
  constexpr int N = PackOf<T>::kWidth;
  T* to = static_cast<T*>(x);
  int64_t j = 0;
  for (; j + N <= n; j += N) store<T, N>(to + j, load<N>(to + j) * PackOf<T>(s));
  if (j < n) store_tail<T, N>(to + j, load_tail<N>(to + j, int(n - j)) * PackOf<T>(s), int(n - j));
}

}  // namespace
extern constexpr LossKernels loss_kernels = {
    by_dtype<void (*)(LossRow&)>(Floating{}, []<class T>() { return &row<T, T>; }),
    &row<float, bf16>,
    by_dtype<void (*)(const LossChunk&)>(TypeList<float, double>{}, []<class T>() { return &chunk<T>; }),
    &join,
    by_dtype<void (*)(const void*, int64_t, int64_t, int64_t, double*)>(Floating{}, []<class T>() { return &add_columns<T>; }),
    by_dtype<void (*)(const void*, void*, int64_t)>(Floating{}, []<class T>() { return &to_acc<T>; }),
    by_dtype<void (*)(const void*, void*, int64_t, bool)>(Floating{}, []<class T>() { return &from_acc<T>; }),
    by_dtype<void (*)(const double*, void*, int64_t, bool)>(Floating{}, []<class T>() { return &sums_to<T>; }),
    by_dtype<void (*)(void*, int64_t, double)>(Floating{}, []<class T>() { return &scale_run<T>; })};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
