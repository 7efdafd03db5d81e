#pragma once
// Row-wise ops: tensors whose last axis is one dense row and whose other axes have any strides. Rows are numbered in
// row-major order of the outer axes; a run is a stretch of rows that every tensor steps through with one pitch.
#include "baracuda/core/kernel.hpp"
#include "baracuda/host/strided.hpp"

namespace baracuda {

inline Shape outer_axes(Shape s) {
  if (s.rank > 0) --s.rank, s.dim[s.rank] = 0;
  return s;
}
// The last axis has stride 1 (or a single element).
inline Status expect_dense_rows(std::string_view op, std::string_view arg, const TensorView& v) {
  const int last = v.shape.rank - 1;
  if (v.absent() || v.numel() == 0 || last < 0 || v.shape[last] == 1 || v.strides[last] == 1) return {};
  return {Code::unsupported, text(op, ": ", arg, " has stride ", v.strides[last], " along its last axis, rows must be dense (stride 1)")};
}

template <int K> struct RowWalk {
  Strided<K> outer;
  int64_t rows = 1;

  // outer_shape: the axes that are walked. An absent view does not move.
  RowWalk(const Shape& outer_shape, const TensorView* const (&views)[K]) {
    const Strides none = [] { Strides s; s.rank = kMaxRank; return s; }();
    const Strides* strides[K];
    for (int k = 0; k < K; ++k) strides[k] = views[k]->absent() ? &none : &views[k]->strides;
    outer = walk_of<K>(outer_shape, strides);
    rows = outer.rows * outer.inner;
  }
  int64_t pitch(int k) const { return outer.inner_stride(k); }
  void offsets(int64_t row, int64_t (&at)[K]) const {
    outer.offsets(row / outer.inner, at);
    for (int k = 0; k < K; ++k) at[k] += row % outer.inner * pitch(k);
  }
  // f(offsets of the first row in elements, first row, rows of the run), in order, for the rows [begin, end).
  template <class F> void runs(int64_t begin, int64_t end, F&& f) const {
    while (begin < end) {
      const int64_t left = outer.inner - begin % outer.inner, n = left < end - begin ? left : end - begin;
      int64_t at[K];
      offsets(begin, at);
      f(at, begin, n);
      begin += n;
    }
  }
};

}  // namespace baracuda
