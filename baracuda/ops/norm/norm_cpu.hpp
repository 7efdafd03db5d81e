#pragma once
// What the instruction-set units of the family export.
#include "baracuda/core/dtype.hpp"
#include "baracuda/core/shape.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

// How the elements of a row lie that are not dense: axes in order, strides in elements. rank is at least 1.
struct RowLay {
  int rank;
  int64_t extent[kMaxRank], stride[kMaxRank];
};

// A row that several workers share is done a piece at a time: what is summed first, then what is written. A whole number of chunks.
constexpr int64_t kRowPiece = 16384;
// What is summed over a chunk, or over a row.
struct ChunkSums { double a, b, c; };

// Of a row of n elements of which p.n are written: rstd, and the sum that its gradient takes.
struct RmsNormKnown {
  double rstd, dot;
  int64_t n;
};
// Vectors beside rows that kernels take dealt (norm_lines.hpp), which they are in their instruction set's own way.
constexpr bool lies_dealt(DType rows) { return rows == DType::bf16; }
// A run of rows of n elements, one pitch per tensor; null pointers where an argument is absent. Weights and rstd are in
// the accumulator type A (float, double for f64).
struct RmsNormRows {
  const void *x, *residual;
  void *y, *residual_out, *rstd;
  const void* weight;
  int64_t x_pitch, residual_pitch, y_pitch, residual_out_pitch, rstd_pitch;
  int64_t rows, n;
  double eps;
  bool cast_first;
  bool past;  // write y (dx) past the caches
  const RmsNormKnown* known = nullptr;  // null: summed here, rows are whole
};
struct RmsNormBackwardRows {
  const void *dy, *x, *dresidual_out, *rstd;
  void *dx, *dweight;  // dweight: n sums in A, added to
  const void* weight;
  int64_t dy_pitch, x_pitch, dresidual_out_pitch, rstd_pitch, dx_pitch;
  int64_t rows, n;
  double eps;
  bool cast_first;
  bool past;  // write y (dx) past the caches
  const RmsNormKnown* known = nullptr;
};
// out[i * out_stride] = sum over k < count, in order and in f64, of partial[k * n + i], for begin <= i < end.
struct NormFold {
  const void* partial;
  int64_t count, n, begin, end;
  void* out;
  int64_t out_stride;
  bool dealt;  // partial
};
// out[i] = weight[i * stride], or 1 more, for i < n.
struct NormSpread {
  const void* weight;
  int64_t stride, n;
  bool one_plus;
  void* out;
  bool dealt;  // out
};
struct NormKernels {
  ByDType<void (*)(const RmsNormRows&)> forward;
  ByDType<void (*)(const RmsNormBackwardRows&)> backward;
  // Of a piece of one row: the sum of h^2, where h = x + residual is kept as forward keeps it, and that of dy w x rstd.
  ByDType<double (*)(const RmsNormRows&)> squares;
  ByDType<double (*)(const RmsNormBackwardRows&)> dot;
  ByDType<double (*)(double squares, const void* h, int64_t n, double eps)> inverse_rms;
  // By the dtype of out. Partial sums are f64 for f64 norms, whose weights may be f32, and f32 for the others.
  ByDType<void (*)(const NormFold&)> fold_f32, fold_f64;
  // By the dtype of the weight, to f32 and f64.
  ByDType<void (*)(const NormSpread&)> spread_f32, spread_f64;
};
BARACUDA_ISA_TABLE_BF16(NormKernels, norm_kernels)

}  // namespace baracuda
