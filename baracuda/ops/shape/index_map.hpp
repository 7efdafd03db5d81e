#pragma once
// Ops that take each element of y from one element of x, or fill it, by a rule per axis: pad, flip, roll, repeat. The
// rule of an axis is an AxisMap, from an index of y to one of x, affine in stretches. gather() moves elements by a map
// per axis; sum_back() is its adjoint: dx[i] is the sum of dy over the indices that i was taken to, in their row-major
// order, added in f64 and rounded once; of one term that one, bit for bit.
#include "baracuda/ops/copy/copy_elements.hpp"

namespace baracuda {

enum class MapKind : uint8_t {
  affine,      // start + step o, step 1 or -1, always inside x
  periodic,    // base + (start + o) mod period
  repeated,    // o / step
  spread,      // (o - start) / step where that is an index of x, else filled
  reflect,     // o - start, mirrored at the first and the last element
  symmetric,   // ... mirrored at their outer edges
  replicate,   // ... cut to the first and the last element
};
struct AxisMap {
  MapKind kind = MapKind::affine;
  int64_t n = 1, m = 1;  // extents of x and y
  int64_t start = 0, step = 1, base = 0, period = 1;

  static AxisMap same(int64_t n) { return {MapKind::affine, n, n, 0, 1, 0, 1}; }
  bool identity() const { return kind == MapKind::affine && start == 0 && step == 1 && n == m; }
  // The longest known stretch from o on: indices o + k, k < length, take from + k step. from < 0: they are filled.
  struct Run { int64_t from, step, length; };
  Run run(int64_t o) const;
  // An index of y that no run before takes x's indices >= i from; runs that start later may only take larger ones when
  // ascending() holds.
  int64_t first(int64_t i) const;
  bool ascending() const { return kind == MapKind::repeated || kind == MapKind::spread; }
  // The indices of y that take i, ascending: at most three progressions.
  struct Progression { int64_t first, step, count; };
  int indices_of(int64_t i, Progression (&out)[3]) const;
  // Indices i of x from begin to end that only i + shift takes; others may be such, too.
  struct Singles { int64_t begin, end, shift; };
  Singles singles() const;
};
struct IndexMap {
  int rank = 0;
  AxisMap axis[kMaxRank];
  static IndexMap same(const Shape& x);
  Shape y_shape() const;
};

// y[o] = x[map(o)], or fill. y overlaps nothing.
void gather(const IndexMap& map, const TensorView& x, const TensorView& y, Bytes16 fill, int threads);
// dx[i] = the sum of dy[o] over all o with map(o) = i; dtypes f16 bf16 f32 f64.
void sum_back(const IndexMap& map, const TensorView& dy, const TensorView& dx, int threads);

}  // namespace baracuda
