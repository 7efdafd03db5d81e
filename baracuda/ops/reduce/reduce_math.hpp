#pragma once
// How the states of two parts of a row become one, what a row's state stands for, and the numbers that its gradient is made of; host and
// device.
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/reduce/reduce.hpp"
#include "baracuda/ops/reduce/reduce_product_math.hpp"
#include "baracuda/ops/reduce/reduce_state.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace reduce_math {

using D = Pack<double, 1>;
enum class Order : uint8_t { floating, with_sign, without };  // how states of integers compare: as i64 or as u64
constexpr Order order_of(DType t) { return is_floating(t) ? Order::floating : t == DType::u64 ? Order::without : Order::with_sign; }

// a 2^b, rounded once, for |a| = 0, infinite, NaN or within 2^-900 ... 2^900.
BARACUDA_HD double scaled(double a, double b) { return b == 0 ? a : scale(D::of(a), int64_t(b < -2044 ? -2044 : b > 2044 ? 2044 : b)).v; }
BARACUDA_HD bool finite(double a) { return abs(D::of(a)).v < kInf; }

BARACUDA_HD bool better(Order t, bool max, const ReduceState& a, const ReduceState& b) {  // a before b; NaN is best
  if (t == Order::floating) return b.a == b.a && (a.a != a.a || (max ? a.a > b.a : a.a < b.a));
  if (t == Order::without) return max ? uint64_t(a.i) > uint64_t(b.i) : uint64_t(a.i) < uint64_t(b.i);
  return max ? a.i > b.i : a.i < b.i;
}
// l = l and r joined, states of n_left and n_right elements. power: of ReduceLoop::powers.
BARACUDA_HD void join(ReduceLoop loop, Order t, double power, ReduceState& l, double n_left, const ReduceState& r, double n_right) {
  const bool floating = t == Order::floating;
  switch (loop) {
    case ReduceLoop::nonzero: l.i += r.i; return;
    case ReduceLoop::equal: case ReduceLoop::equal_magnitude: case ReduceLoop::magnitudes: l.a += r.a; return;
    case ReduceLoop::numbers: l.a += r.a, l.b += r.b; return;
    case ReduceLoop::sum: floating ? void(l.a += r.a) : void(l.i = int64_t(uint64_t(l.i) + uint64_t(r.i))); return;
    case ReduceLoop::product: {
      if (!floating) return void(l.i = int64_t(uint64_t(l.i) * uint64_t(r.i)));
      D m = D::of(l.a * r.a);
      l.b += r.b + double(product::split<true>(m)), l.a = m.v;
      return;
    }
    case ReduceLoop::squares: {
      const double b = l.a == 0 ? r.b : r.a == 0 ? l.b : l.b > r.b ? l.b : r.b;
      l.a = scaled(l.a, 2 * (l.b - b)) + scaled(r.a, 2 * (r.b - b)), l.b = b;
      return;
    }
    case ReduceLoop::moments: {
      const double n = n_left + n_right, d = r.a - l.a;
      l.a += d * (n_right / n);
      l.b += r.b + d * d * (n_left / n * n_right);
      return;
    }
    case ReduceLoop::exps: {
      const double top = better(t, true, r, l) ? r.a : l.a, origin = finite(top) || top != top ? top : 0;
      l.b = l.b * exp(D::of(l.a - origin)).v + r.b * exp(D::of(r.a - origin)).v, l.a = top;
      return;
    }
    case ReduceLoop::powers: {
      const double a = better(t, power > 0, r, l) ? r.a : l.a;
      l.b = a > 0 && finite(a) ? l.b * pow(D::of(l.a / a), D(power)).v + r.b * pow(D::of(r.a / a), D(power)).v : 1, l.a = a;
      return;
    }
    case ReduceLoop::minmax: {
      ReduceState left, right;  // the smallest in first place; bits are moved as integers
      left.i = l.at, right.i = r.at;
      if (better(t, true, r, l)) l.i = r.i;
      if (better(t, false, right, left)) l.at = r.at;
      return;
    }
    default:  // extrema; of equals the left one stays
      if (better(t, loop == ReduceLoop::max || loop == ReduceLoop::largest || loop == ReduceLoop::argmax, r, l)) l = r;
  }
}
// The number that a state stands for, for floating y. kind: plain_kind().
BARACUDA_HD double value(ReduceKind kind, double n, double correction, double power, const ReduceState& r) {
  switch (kind) {
    case ReduceKind::mean: return r.a / n;
    case ReduceKind::nanmean: return r.a / r.b;
    case ReduceKind::prod: return scaled(r.a, r.b);
    case ReduceKind::norm2: return scaled(sqrt(D::of(r.a)).v, r.b);
    case ReduceKind::norm_p: return r.a * pow(D::of(r.b), D(1 / power)).v;
    case ReduceKind::norm0: return double(r.i);
    case ReduceKind::logsumexp: return finite(r.a) ? r.a + log(D::of(r.b)).v : r.a;
    case ReduceKind::var: case ReduceKind::std: {
      const double free = n - correction, var = free > 0 ? r.b / free + (r.a - r.a) : kNaN;
      return kind == ReduceKind::std ? sqrt(D::of(var)).v : var;
    }
    default: return r.a;
  }
}
BARACUDA_HD int64_t whole(ReduceKind kind, int64_t n, const ReduceState& s) { return kind == ReduceKind::any ? s.i > 0 : kind == ReduceKind::all ? s.i == n : s.i; }

// What the numbers of a row depend on besides the row; kind: plain_kind().
struct RowOf { ReduceKind kind; bool one_of_ties; double n, correction, power; };
template <class A> struct RowNumbers { A p, q, g; };
// found: what a loop over x gave: how many elements equal y, how many are NaN, or the mean.
template <class A> BARACUDA_HD RowNumbers<A> numbers_of(const RowOf& row, double dy, double y, double found) {
  const double n = row.n, free = n - row.correction;
  switch (row.kind) {
    case ReduceKind::mean: return {0, 0, A(dy / n)};
    case ReduceKind::nanmean: return {0, 0, A(dy / (n - found))};
    case ReduceKind::norm0: return {0, 0, 0};
    case ReduceKind::max: case ReduceKind::min: case ReduceKind::norm_inf: case ReduceKind::norm_neg_inf:
      return {A(y), 0, row.one_of_ties ? A(0) : A(dy / found)};
    case ReduceKind::norm2: return {A(y == 0 ? 1 : y), 0, A(y == 0 ? 0 : dy)};
    case ReduceKind::norm_p: return {A(y == 0 ? 1 : y), A(y == 0 ? 0 : row.power - 1), A(y == 0 ? 0 : dy)};
    case ReduceKind::logsumexp: return {A(y == -kInf ? double(kInf) : y), 0, A(y == -kInf ? 0 : y == kInf ? dy / found : dy)};
    case ReduceKind::var: case ReduceKind::std:
      return {A(found), A(found - double(A(found))), A(!(free > 0) ? double(kNaN) : row.kind == ReduceKind::var ? dy * 2 / free : y == 0 ? 0 : dy / free / y)};
    default: return {0, 0, A(dy)};
  }
}

}  // namespace reduce_math
}  // namespace baracuda
