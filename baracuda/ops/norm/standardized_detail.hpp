#pragma once
// What the launchers of LayerNorm, GroupNorm and BatchNorm share: checks of their arguments, and rows of LayerNorm's kernel.
#include "baracuda/ops/norm/layer_norm_cpu.hpp"
#include "baracuda/ops/norm/norm_detail.hpp"
#include "baracuda/ops/norm/standardized.hpp"

namespace baracuda::norm_detail {

// Whether an argument, if it is there, is what the descriptor says: x and its like, weight and its like, statistics.
template <class D> using Expect = Status (*)(std::string_view op, std::string_view arg, const TensorView&, const D&);

template <class D, class Args>
Status check_forward(std::string_view op, const D& d, const Args& a, Expect<D> expect_x, Expect<D> expect_vector, Expect<D> expect_statistic) {
  BARACUDA_TRY(expect_x(op, "x", a.x, d));
  BARACUDA_TRY(expect_vector(op, "weight", a.weight, d));
  BARACUDA_TRY(expect_vector(op, "bias", a.bias, d));
  BARACUDA_TRY(expect_x(op, "y", a.y, d));
  BARACUDA_TRY(expect_statistic(op, "mean", a.mean, d));
  return expect_statistic(op, "rstd", a.rstd, d);
}
template <class D>
Status check_backward(std::string_view op, const D& d, const StandardizedBackwardArgs& a, Expect<D> expect_x, Expect<D> expect_vector, Expect<D> expect_statistic) {
  BARACUDA_TRY(expect_x(op, "dy", a.dy, d));
  BARACUDA_TRY(expect_x(op, "x", a.x, d));
  BARACUDA_TRY(expect_vector(op, "weight", a.weight, d));
  BARACUDA_TRY(expect_statistic(op, "mean", a.mean, d));
  BARACUDA_TRY(expect_statistic(op, "rstd", a.rstd, d));
  BARACUDA_TRY(expect_both_or_none(op, a.mean, a.rstd));
  BARACUDA_TRY(expect_x(op, "dx", a.dx, d));
  BARACUDA_TRY(expect_vector(op, "dweight", a.dweight, d));
  return expect_vector(op, "dbias", a.dbias, d);
}

// How the elements of a row of n share weight and bias, and how they lie: null where they are dense.
struct RowsOf {
  int64_t n, span = 1, groups = 1;
  const RowLay *x_lay = nullptr, *y_lay = nullptr;
  bool beside = false;
};
inline void standardize_rows(const StandardizedArgs& a, DType dtype, double eps, const Vectors& v, const RowWalk<4>& walk, const RowsOf& of, bool past, int threads) {
  const auto kernel = BARACUDA_ISA_PICK_BF16(layer_norm_kernels).forward[dtype];
  parallel_for(walk.rows, of.beside ? long_grain(walk.rows, of.n, threads) : grain(of.n), threads, [&](int64_t begin, int64_t end, int) {
    walk.runs(begin, end, [&](const int64_t (&o)[4], int64_t first, int64_t rows) {
      kernel({at(a.x, o[0]), v.weight, v.bias, at(a.y, o[1]), at(a.mean, o[2]), at(a.rstd, o[3]), walk.pitch(0), walk.pitch(1), walk.pitch(2),
              walk.pitch(3), rows, of.n, eps, past, first, of.span, of.groups, of.x_lay, of.y_lay, nullptr, of.beside});
    });
  });
}

}  // namespace baracuda::norm_detail
