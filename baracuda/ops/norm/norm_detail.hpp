#pragma once
// What the ops of the family share: checks, weights in the accumulator type, and the blocks of rows whose parts of a weight's gradient
// are summed apart.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include "baracuda/host/past.hpp"
#include "baracuda/host/row_walk.hpp"
#include "baracuda/math/half.hpp"
#include "baracuda/ops/norm/norm.hpp"
#include "baracuda/ops/norm/norm_cpu.hpp"

namespace baracuda::norm_detail {

inline void* at(const TensorView& v, int64_t offset) { return v.absent() ? nullptr : v.as<char>() + offset * int64_t(byte_size(v.dtype)); }

template <class D> DType weight_dtype(const D& d) { return d.weight_dtype.value_or(d.dtype); }
template <class D> Status validate_numbers(std::string_view op, const D& d) {
  if (!std::isfinite(d.eps) || d.eps < 0) return invalid(op, text("eps ", d.eps, " must be finite and not negative"));
  const DType w = weight_dtype(d);
  if (w != d.dtype && w != DType::f32) return invalid(op, text("weight_dtype ", w, " must be f32 or the dtype ", d.dtype));
  return {};
}
template <class D> PrecisionGuarantee guarantee(const D& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}
template <class D> PrecisionGuarantee guarantee_of_batch(const D& d) {
  PrecisionGuarantee g = guarantee(d);
  g.batch_invariant = false;
  return g;
}
inline Status expect_statistic(std::string_view op, std::string_view arg, const TensorView& v, DType dtype, const Shape& shape) {
  return v.absent() ? Status() : expect(op, arg, v, accumulator(dtype), shape);
}
inline Status expect_both_or_none(std::string_view op, const TensorView& mean, const TensorView& rstd) {
  if (mean.absent() == rstd.absent()) return {};
  return invalid(op, text(mean.absent() ? "mean" : "rstd", " is missing: mean and rstd are given together"));
}
// The statistics of rows without elements.
inline void fill_nan(const TensorView& v) {
  if (v.absent()) return;
  const RowWalk<1> walk(v.shape, {&v});
  walk.runs(0, walk.rows, [&](const int64_t (&o)[1], int64_t, int64_t rows) {
    for (int64_t i = 0; i < rows; ++i)
      if (v.dtype == DType::f64) v.as<double>()[o[0] + i * walk.pitch(0)] = std::numeric_limits<double>::quiet_NaN();
      else v.as<float>()[o[0] + i * walk.pitch(0)] = std::numeric_limits<float>::quiet_NaN();
  });
}

// A vector in the accumulator type of `dtype`, as the kernels take it: v, or 1 + v, or `none` where it is absent.
inline void prepare_vector(DType dtype, const TensorView& v, double none, void* out, int64_t n, int threads, NormWeight mode = NormWeight::plain, bool dealt = false) {
  const NormKernels& kernels = BARACUDA_ISA_PICK_BF16(norm_kernels);
  const int64_t size = int64_t(byte_size(accumulator(dtype)));
  if (!v.absent()) {
    const auto spread = (dtype == DType::f64 ? kernels.spread_f64 : kernels.spread_f32)[v.dtype];
    parallel_for(n, kPiece, threads, [&](int64_t begin, int64_t end, int) {
      spread({at(v, begin * v.strides[0]), v.strides[0], end - begin, mode == NormWeight::one_plus, static_cast<char*>(out) + begin * size, dealt});
    });
  } else if (dtype == DType::f64) std::fill_n(static_cast<double*>(out), n, none);
  else std::fill_n(static_cast<float*>(out), n, float(none));
}
// The same, where it lies if that will do, else in `out`.
inline const void* taken_vector(DType dtype, const TensorView& v, double none, void* out, int64_t n, int threads, NormWeight mode = NormWeight::plain, bool dealt = false) {
  if (!dealt && !v.absent() && mode == NormWeight::plain && v.dtype == accumulator(dtype) && (v.strides[0] == 1 || n == 1)) return v.data;
  prepare_vector(dtype, v, none, out, n, threads, mode, dealt);
  return out;
}
// out, a vector of n, is the sum of `count` rows of partial sums of type `partials`, in order, in f64.
inline void fold_rows(DType partials, const void* partial, int64_t count, int64_t n, const TensorView& out, int threads, bool dealt = false) {
  const NormKernels& kernels = BARACUDA_ISA_PICK_BF16(norm_kernels);
  const auto fold = (partials == DType::f64 ? kernels.fold_f64 : kernels.fold_f32)[out.dtype];
  parallel_for(n, 256, threads, [&](int64_t begin, int64_t end, int) { fold({partial, count, n, begin, end, out.data, out.strides[0], dealt}); });
}

// Blocks depend on the shape alone and keep the partial sums at what the caches hold, about a quarter of a million numbers.
constexpr int64_t kPartials = int64_t(1) << 18, kLeastRows = 16;
inline int64_t block_rows(int64_t rows, int64_t n) {
  const int64_t blocks = std::max<int64_t>(1, kPartials / std::max<int64_t>(n, 1));
  return std::max(kLeastRows, (rows + blocks - 1) / blocks);
}
inline int64_t block_count(int64_t rows, int64_t n) {
  const int64_t block = block_rows(rows, n);
  return n > 0 ? (rows + block - 1) / block : 0;
}

// --- rows so long and so few that threads share each: a piece at a time, also of weights and their gradients, which no buffer of a whole row
// holds then. One block of rows, so that the bits are those of rows one by one. The second look at a row finds it in the second-level cache only
// where it is one worker's: that is better where there are several rows for each.
inline bool in_pieces(int64_t rows, int64_t n, bool backward) { return rows > 0 && rows <= kLeastRows && n > (rows == 1 || backward ? 4 : 16) * kRowPiece; }
inline TensorView piece_of(const TensorView& vector, int64_t first, int64_t m) {
  TensorView v = vector;
  if (!v.absent()) v.shape = {m}, v.data = at(v, first * v.strides[0]);
  return v;
}
template <int K, class F> void each_row(const RowWalk<K>& walk, F f) {
  for (int64_t row = 0; row < walk.rows; ++row) {
    int64_t o[K];
    walk.offsets(row, o);
    f(row, o);
  }
}
// f(piece's first element, elements, worker).
template <class F> void each_piece(int64_t n, int threads, F f) {
  parallel_for((n + kRowPiece - 1) / kRowPiece, 1, threads,
               [&](int64_t begin, int64_t end, int worker) {
                 for (int64_t i = begin; i < end; ++i) f(i * kRowPiece, std::min(kRowPiece, n - i * kRowPiece), worker);
               });
}
// A worker's part of a vector in the accumulator type, for a piece.
struct PieceBuffer {
  char* begin;
  int64_t bytes;
  PieceBuffer(std::string_view what, DType dtype, Carver& c) : bytes(kRowPiece * int64_t(byte_size(accumulator(dtype)))) {
    begin = static_cast<char*>(c.take_bytes(what, kRowPiece * c.threads(), byte_size(accumulator(dtype))));
  }
  char* of(int worker) const { return begin + worker * bytes; }
  // Zeros, to which rows add; then the gradient of a weight.
  void* zeroed(const TensorView& wanted, int worker) const { return wanted.absent() ? nullptr : std::memset(of(worker), 0, size_t(bytes)); }
  void fold_into(const TensorView& out, DType dtype, int64_t first, int64_t m, int worker, bool dealt = false) const {
    if (!out.absent()) fold_rows(accumulator(dtype), of(worker), 1, m, piece_of(out, first, m), 1, dealt);
  }
};

// --- ops whose x is [N, C, any further axes]
template <class D> int64_t samples_of(const D& d) { return d.shape[0]; }
template <class D> int64_t channels_of(const D& d) { return d.shape[1]; }
template <class D> int64_t span_of(const D& d) { return d.shape.product(2, d.shape.rank); }
template <class D> Status expect_x(std::string_view op, std::string_view arg, const TensorView& v, const D& d) {
  return expect(op, arg, v, d.dtype, d.shape);
}
template <class D> Status expect_vector(std::string_view op, std::string_view arg, const TensorView& v, const D& d) {
  return v.absent() ? Status() : expect(op, arg, v, weight_dtype(d), {channels_of(d)});
}
struct Vectors { void *weight, *bias; };
template <class D> Vectors carve_vectors(const D& d, Carver& c, bool bias) {
  const auto take = [&](std::string_view what) { return c.take_bytes(what, channels_of(d), byte_size(accumulator(d.dtype))); };
  Vectors v{take("weight"), nullptr};
  if (bias) v.bias = take("bias");
  return v;
}
// How elements with these strides lie.
inline RowLay lay_of(const Shape& shape, const Strides& strides) {
  const Strided<1> walk = walk_of<1>(shape, {&strides});
  RowLay lay;
  lay.rank = walk.rank;
  std::copy_n(walk.extent, walk.rank, lay.extent), std::copy_n(walk.stride[0], walk.rank, lay.stride);
  return lay;
}
inline const RowLay* unless_dense(const RowLay& lay) { return lay.rank == 1 && (lay.extent[0] == 1 || lay.stride[0] == 1) ? nullptr : &lay; }
// Whether `out`, where the elements of a channel lie dense, is written past the caches.
template <class D> bool past_channels(const D& d, const TensorView& out, const void* read, const void* also_read = nullptr) {
  TensorView v = out;
  v.shape = {samples_of(d), channels_of(d), span_of(d)}, v.strides = {out.strides[0], out.strides[1], 1};
  return out.data != also_read && past_caches(v, read);
}
// Rows of n elements that a worker takes at a time.
inline int64_t grain(int64_t n) { return n < kPiece ? kPiece / n : 1; }
// The same where the first and the last rows of a block go alone, the others beside one another: blocks are long where there are many of them.
inline int64_t long_grain(int64_t rows, int64_t n, int threads) {
  constexpr int64_t kLeast = 32, kBlocks = 8;  // rows of a block, blocks of a thread
  return std::max(grain(n), std::min(std::max(8 * kPiece / n, kLeast), rows / (kBlocks * std::max(threads, 1))));
}

}  // namespace baracuda::norm_detail
