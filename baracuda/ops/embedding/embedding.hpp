#pragma once
// Rows of a table by index, and the gradient of the table.
//   y[i.., :] = weight[indices[i..], :]          dweight[v, :] = sum over i with indices[i] = v of dy[i, :]
//
// Shapes: indices any, rank 0 to 7, i32 or i64; weight and dweight [V, H]; y and dy: the shape of indices, then H.
// Dtypes f16 bf16 f32 f64; dweight is of grad_dtype, which is dtype or f32. Strides: the last axis of weight, y, dy and dweight
// dense, all others any; indices any, also zero.
// Indices outside [0, V), negative ones included: the row of y is NaN and dy is not counted; nothing is read or written
// out of range. padding_idx: that row is read like any other, and gets no gradient.
// dweight is overwritten, rows that no index names with 0; with accumulate it is added to, and those rows are not touched.
// Numerics: the forward copies bits. The backward adds in f32 (f64 for f64) in the order of the indices, 64 at a time,
// then those sums in the same manner, and rounds once, after adding the old value where it accumulates.
// Workspace: forward none; backward 8 (V + 2) + 8 N (+ up to N / 512 rows' numbers) bytes for N indices; on CUDA 16 N + 4 V, and a sum of a
// row for every 32 of them. Work of the backward: N H, plus V H for the zeros where it does not accumulate.
// Guarantee: deterministic, same bits for any thread count, instruction set and device; a row of dweight depends only on its own indices.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

struct EmbeddingDescriptor {
  DType dtype = DType::f32;
  int64_t vocabulary = 0, width = 0;
  Shape indices;
  DType index_dtype = DType::i64;
  static constexpr auto fields() {
    using D = EmbeddingDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of weight and y"), field("vocabulary", &D::vocabulary, "V, rows of weight"),
                      field("width", &D::width, "H, elements of a row"), field("indices", &D::indices, "shape of the indices"),
                      field("index_dtype", &D::index_dtype, "i32 or i64"));
  }
};
struct Embedding {
  static constexpr std::string_view name = "embedding", category = "embedding", summary = "y = weight[indices]";
  using Descriptor = EmbeddingDescriptor;
  struct Args {
    TensorView indices, weight, y;
    static constexpr auto args() {
      return std::tuple(arg("indices", &Args::indices, Role::in), arg("weight", &Args::weight, Role::in), arg("y", &Args::y, Role::out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Embedding>> kernels();
};
using EmbeddingPlan = Plan<Embedding>;

struct EmbeddingBackwardDescriptor {
  DType dtype = DType::f32;
  int64_t vocabulary = 0, width = 0;
  Shape indices;
  DType index_dtype = DType::i64;
  std::optional<DType> grad_dtype;
  std::optional<int64_t> padding_idx;
  bool accumulate = false;
  static constexpr auto fields() {
    using D = EmbeddingBackwardDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of dy"), field("vocabulary", &D::vocabulary, "V, rows of dweight"),
                      field("width", &D::width, "H, elements of a row"), field("indices", &D::indices, "shape of the indices"),
                      field("index_dtype", &D::index_dtype, "i32 or i64"), field("grad_dtype", &D::grad_dtype, "of dweight: dtype (the default) or f32"),
                      field("padding_idx", &D::padding_idx, "row without gradient, in [0, V)"),
                      field("accumulate", &D::accumulate, "add to dweight instead of overwriting it"));
  }
};
struct EmbeddingBackward {
  static constexpr std::string_view name = "embedding_backward", category = "embedding", summary = "gradient of the table, summed in order";
  using Descriptor = EmbeddingBackwardDescriptor;
  struct Args {
    TensorView dy, indices, dweight;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("indices", &Args::indices, Role::in),
                        arg("dweight", &Args::dweight, Role::inout, "overwritten unless accumulate"));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.grad_dtype.value_or(d.dtype); }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<EmbeddingBackward>> kernels();
};
using EmbeddingBackwardPlan = Plan<EmbeddingBackward>;

}  // namespace baracuda
