#pragma once
// Ops that take each element of y from one element of x, or fill it, by a rule per axis: pad, flip, roll, repeat. The
// rule of an axis is an AxisMap, from an index of y to one of x, affine in stretches. gather() moves elements by a map
// per axis; sum_back() is its adjoint: dx[i] is the sum of dy over the indices that i was taken to, in their row-major
// order, added in f64 and rounded once; of one term that one, bit for bit.
#include "baracuda/ops/copy/copy_elements.hpp"
#include "baracuda/ops/shape/axis_map.hpp"

namespace baracuda {

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
