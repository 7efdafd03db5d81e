#pragma once
// What the ops of the family share: checks, weights in the accumulator type, and the blocks of rows whose parts of a weight's gradient
// are summed apart.
#include <algorithm>
#include <cmath>
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

// w' in the accumulator type A of `dtype`: w, 1 + w, or 1 where there is none.
template <class T, class A> void spread_weight(const TensorView& weight, NormWeight mode, A* out, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const A w = mode == NormWeight::none ? A(1) : A(to_double(weight.as<T>()[i * weight.strides[0]]));
    out[i] = mode == NormWeight::one_plus ? 1 + w : w;
  }
}
inline void prepare_weight(DType dtype, const TensorView& weight, NormWeight mode, void* out, int64_t n, int threads) {
  parallel_for(n, 1 << 14, threads, [&](int64_t begin, int64_t end, int) {
    visit_dtype(Floating{}, mode == NormWeight::none ? DType::f32 : weight.dtype, 0, [&]<class T>() {
      if (dtype == DType::f64) spread_weight<T>(weight, mode, static_cast<double*>(out), begin, end);
      else spread_weight<T>(weight, mode, static_cast<float*>(out), begin, end);
      return 0;
    });
  });
}
// A vector as the kernels take it; `none` stands where it is absent.
inline void prepare_vector(DType dtype, const TensorView& v, double none, void* out, int64_t n, int threads) {
  if (!v.absent()) prepare_weight(dtype, v, NormWeight::plain, out, n, threads);
  else if (dtype == DType::f64) std::fill_n(static_cast<double*>(out), n, none);
  else std::fill_n(static_cast<float*>(out), n, float(none));
}
// out, a vector of n, is the sum of `count` rows of partial sums of type `partials`, in order, in f64.
inline void fold_rows(DType partials, const void* partial, int64_t count, int64_t n, const TensorView& out, int threads) {
  const NormKernels& kernels = BARACUDA_ISA_PICK_BF16(norm_kernels);
  const auto fold = (partials == DType::f64 ? kernels.fold_f64 : kernels.fold_f32)[out.dtype];
  parallel_for(n, 256, threads, [&](int64_t begin, int64_t end, int) { fold({partial, count, n, begin, end, out.data, out.strides[0]}); });
}

// Blocks depend on the shape alone and keep the partial sums at about a million numbers.
constexpr int64_t kPartials = int64_t(1) << 20, kLeastRows = 16;
inline int64_t block_rows(int64_t rows, int64_t n) {
  const int64_t blocks = std::max<int64_t>(1, kPartials / std::max<int64_t>(n, 1));
  return std::max(kLeastRows, (rows + blocks - 1) / blocks);
}
inline int64_t block_count(int64_t rows, int64_t n) {
  const int64_t block = block_rows(rows, n);
  return n > 0 ? (rows + block - 1) / block : 0;
}

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

}  // namespace baracuda::norm_detail
