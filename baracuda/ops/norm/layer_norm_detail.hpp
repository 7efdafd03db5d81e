#pragma once
// How LayerNorm sees its shape: rows over the outer axes, n elements of the inner ones.
#include "baracuda/ops/norm/layer_norm.hpp"

namespace baracuda::layer_norm_detail {

inline Shape outer(const LayerNormDescriptor& d) {
  Shape s;
  for (int i = 0; i < d.shape.rank - d.axes; ++i) s.push_back(d.shape[i]);
  return s;
}
inline Shape inner(const LayerNormDescriptor& d) {
  Shape s;
  for (int i = d.shape.rank - d.axes; i < d.shape.rank; ++i) s.push_back(d.shape[i]);
  return s;
}
inline int64_t length(const LayerNormDescriptor& d) { return inner(d).numel(); }
inline int64_t rows_of(const LayerNormDescriptor& d) { return outer(d).numel(); }
// Weights and their gradients are vectors of all the normalised axes.
inline TensorView flat(const LayerNormDescriptor& d, const TensorView& v) { return v.absent() ? v : TensorView::dense(v.data, v.dtype, {length(d)}); }

}  // namespace baracuda::layer_norm_detail
