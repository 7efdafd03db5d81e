#pragma once
// What the kernel files of the family export to its rows. Tables are by the logarithm of an element's bytes.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/sum_shape.hpp"
#include "baracuda/ops/shape/axis_map.hpp"

namespace baracuda {

struct ShapeAxis {
  AxisMap map;
  int64_t x_stride, y_stride;
};
// y[o] = x[map(o)], or `fill`.
struct GatherAxes {
  int rank;  // at least 1
  ShapeAxis axis[kMaxRank];
  const void* x;
  void* y;
  uint64_t fill[2];
};
extern int (*const shape_gather_cuda[5])(const GatherAxes&, void* stream);
// dx[i] = the sum of dy[o] over all o with map(o) = i; x is dx, y is dy.
struct SumBackAxes {
  int rank;
  ShapeAxis axis[kMaxRank];
  const void* dy;
  void* dx;
};
extern const ByDType<int (*)(const SumBackAxes&, void* stream)> shape_sum_back_cuda;

// Sums over the axes of dy that the repeats are.
struct RepeatTerms {
  device::Walk<2> kept;   // dx, dy
  device::Walk<1> terms;  // dy
  const void* dy;
  void* dx;
};
struct RepeatSumCuda {
  int lanes;
  int (*terms)(const RepeatTerms&, void* stream);
  int (*sum)(const device::SumOperands&, void* stream);
};
extern const ByDType<RepeatSumCuda> repeat_sum_cuda;

// x as one row, rolled: y[o] = x[map(o)], o and map(o) row-major numbers of tensors with any strides.
struct RollFlat {
  device::Walk<1> x, y;
  AxisMap map;
  const void* from;
  void* to;
};
extern int (*const shape_roll_flat_cuda[5])(const RollFlat&, void* stream);

// Several pieces of a whole, or the whole from them: rows of units of 16 bytes.
inline constexpr int kMostPieces = 64;
struct PiecesCuda {
  int count;
  void *piece[kMostPieces], *whole;
  int64_t start[kMostPieces + 1], column[kMostPieces];  // units of a row before each piece among those of this launch, and in the whole
  int64_t rows, pitch;                                  // of the whole, in units
  bool join;
};
int shape_pieces_cuda(const PiecesCuda& p, void* stream);

// Columns below cut = row + diagonal + lower are lower's to keep and upper's to clear.
struct TriangleCuda {
  device::Walk<2> rows;  // of all matrices, x and y
  int64_t matrix_rows, columns, diagonal, x_step, y_step;
  bool lower;
  const void* x;         // null: y has the elements already
  void* y;
};
extern int (*const shape_triangle_cuda[5])(const TriangleCuda&, void* stream);

// A block of elements to another place; places are moved by start[i] times a stride per axis, as dynamic_slice.hpp says of start.
struct BlockMove {
  device::Walk<2> walk;  // of the block: x and y
  const void* x;         // null: zeros
  void* y;
  const void* start;
  bool i64, negative;
  int rank;
  int64_t extent[kMaxRank], most[kMaxRank], start_stride, x_stride[kMaxRank], y_stride[kMaxRank];  // most: that start may be; strides of words
};
extern int (*const shape_block_move_cuda[5])(const BlockMove&, void* stream);

// y = x[which] of up to kSelectCases cases from `first` on; the others are of other launches.
inline constexpr int kSelectCases = 8;
constexpr int select_lanes(int bytes) { return bytes < 2 ? 8 : 16 / bytes; }  // of a unit
enum class WhichType : uint8_t { boolean, i32, i64 };
struct SelectCuda {
  device::Walk<2 + kSelectCases> walk;  // which, y or dy, cases
  const void *which, *x[kSelectCases];
  void* y;
  int64_t first, last;                  // last: number of the last case of all
  int cases;
  WhichType type;
};
// dx[k] = dy where which is case place[k], else 0.
struct SelectBackwardCuda {
  device::Walk<2 + kSelectCases> walk;
  const void *which, *dy;
  void* dx[kSelectCases];
  int64_t place[kSelectCases], last;
  int cases;
  WhichType type;
};
struct SelectCudaKernels {
  int (*select[5])(const SelectCuda&, void* stream);
  int (*backward[5])(const SelectBackwardCuda&, void* stream);
};
extern const SelectCudaKernels select_n_cuda_kernels;

}  // namespace baracuda
