#pragma once
// The sums of scatter, which are the gradients of gather and index as well.
#include "baracuda/ops/elementwise/map.hpp"
#include "baracuda/ops/index/index_math.hpp"
#include "baracuda/ops/index/index_places.hpp"

namespace baracuda::index_detail {

using indexing::Sum;
// A bool in memory: every byte but 0 is true.
struct Truth {
  uint8_t byte;
  Truth(bool b) : byte(b) {}
  operator bool() const { return byte != 0; }
};
template <class T> using Stored = std::conditional_t<std::is_same_v<T, bool>, Truth, T>;
constexpr bool halves(DType t) { return t == DType::f16 || t == DType::bf16; }
inline void cast_elements(const TensorView& x, const TensorView& y, int threads) {
  const MapOperand from = MapOperand::of(x), to = MapOperand::of(y);
  run_map(x.shape, {&from, 1}, {&to, 1}, BARACUDA_ISA_PICK(cast_kernels).from[x.dtype][y.dtype], nullptr, threads);
}
// sums += alpha src at their places, in order; sums is f32 where dtype is half. False for a dtype that has no sum.
template <class D>
bool add_at_indices(const D& d, const IndexPlaces& p, IndexLists indices, const TensorView& src, double alpha, const TensorView& sums, int threads) {
  IndexWalk w = walk_of_indices(d, p, indices);
  w.add_source(src.strides);
  add_target(w, p, sums.strides);
  return visit_dtype(Castable{}, src.dtype, false, [&]<class T>() {
    const Stored<T>* from = src.as<Stored<T>>();
    Stored<Sum<T>>* to = sums.as<Stored<Sum<T>>>();
    w.run(true, threads, [&](const IndexBlock& b) {
      if (!b.at[0] && !b.outside && b.source_step[0] == 1 && b.target_step[0] == 1) {
        const Stored<T>* row = from + b.source[0];
        Stored<Sum<T>>* sum = to + b.target[0];
        fetch_next(b, to);
        for (int64_t j = 0; j < b.count; ++j) sum[j] = indexing::sum_of<Sum<T>, T>(sum[j], row[j], alpha);
      } else
        each_inside(b, [&](int64_t j, auto target) {
          Stored<Sum<T>>& sum = to[target(0)];
          sum = indexing::sum_of<Sum<T>, T>(sum, from[b.source[0] + j * b.source_step[0]], alpha);
        });
    });
    return true;
  });
}
// f(offsets in elements) for every element of three tensors of one shape.
template <class F> void for_each_of(const Shape& shape, const Strides& a, const Strides& b, const Strides& c, int threads, F f) {
  const Strided<3> w = walk_of<3>(shape, {&a, &b, &c});
  for_each_piece(w, threads, [&](const int64_t (&at)[3], int64_t, int64_t n) {
    const int64_t sa = w.inner_stride(0), sb = w.inner_stride(1), sc = w.inner_stride(2);
    for (int64_t i = 0; i < n; ++i) f(at[0] + i * sa, at[1] + i * sb, at[2] + i * sc);
  });
}
// What one hit more does to the counts of x's shape, dense.
template <class D, class F>
void at_hits(const D& d, const IndexPlaces& p, IndexLists indices, const TensorView& src, const Strides& target, int threads, F f) {
  IndexWalk w = walk_of_indices(d, p, indices);
  w.add_source(src.strides);
  add_target(w, p, target);
  w.run(true, threads, [&](const IndexBlock& b) {
    each_inside(b, [&](int64_t j, auto place) { f(place(0), b.source[0] + j * b.source_step[0], b.position + j * b.position_step); });
  });
}

}  // namespace baracuda::index_detail
