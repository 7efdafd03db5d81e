#pragma once
// Matrix products: c = act(alpha op(a) op(b) + beta c + bias), batched.
//
// Shapes: op(a) [batch.., m, k], op(b) [batch.., k, n], c [batch.., m, n], bias [n]. With trans_a, a is [batch.., k, m];
// with trans_b, b is [batch.., n, k]. Any strides for a, b, c and bias: row- and column-major matrices are used where
// they lie, others are copied in blocks; a batch stride of 0 uses one matrix for all of the batch (not for c).
// Dtypes: f16 bf16 f32 f64 for a, b and bias; c has the same or, for halves, f32 (`out`).
//
// As in BLAS, c is not read when beta is 0, and a and b are not read when alpha is 0 or k is 0; then c = act(beta c + bias).
// alpha and beta are rounded to the accumulator's type. c must not overlap a, b or bias.
//
// Numerics: products and sums in f32 (f64 for f64), one rounding to c's dtype at the end. gemm.cpu.blocked adds over k in
// order, in chains of a fixed length whose sums are then added in order: the bits of c[i][j] depend on row i of op(a),
// column j of op(b), c[i][j] and bias[j] only, so the row is batch invariant in m, n and batch, and deterministic for any
// number of threads. f32 and f64 give the same bits with AVX2 and AVX-512. bf16 on processors with AVX512_BF16 treats
// subnormal operands and sums as zero. NaN and infinities act as in the formula.
// The row gemm.cpu.onednn calls its library with one thread on blocks of c that depend on the shape alone: deterministic
// for any number of threads, not batch invariant. It stands first only where it was measured faster, or when the
// preference names it (see gemm_tuning.hpp).
//
//
// CUDA: gemm.cuda.cublaslt (found when first asked for) takes row- and column-major matrices where they lie; f32 is f32, TF32 has
// a row of its own that only `math = allow_tf32` opens. Its bits depend on the shapes, on how the operands lie and on what divides
// their addresses and pitches (16 bytes and more count alike), never on what ran before; not batch invariant. gemm.cuda.tile takes
// any strides and adds over k in one chain in order: batch invariant, and what the other row falls back to.
//
// Workspace: packed blocks of a and b, and sums where c cannot hold them; on CUDA the library's part sums, and m x n sums in f32
// where a bias or an activation is to be applied to halves before the one rounding.
// Blocking after Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008.
#include <optional>
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

enum class GemmEpilogue : uint8_t { none, relu, gelu, gelu_tanh, silu };
constexpr std::array<std::string_view, 5> enum_names(GemmEpilogue) { return {"none", "relu", "gelu", "gelu_tanh", "silu"}; }
enum class GemmBias : uint8_t { none, row };  // row: one vector over n, added to every row of c
constexpr std::array<std::string_view, 2> enum_names(GemmBias) { return {"none", "row"}; }

struct GemmDescriptor {
  DType dtype = DType::f32;
  std::optional<DType> out;
  int64_t m = 0, n = 0, k = 0;
  Shape batch;
  bool trans_a = false, trans_b = false;
  double alpha = 1, beta = 0;
  GemmBias bias = GemmBias::none;
  GemmEpilogue epilogue = GemmEpilogue::none;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &GemmDescriptor::dtype, "of a, b and bias"),
                      field("out", &GemmDescriptor::out, "of c: dtype, or f32 with f16 and bf16; none: dtype"),
                      field("m", &GemmDescriptor::m, "rows of op(a) and c"), field("n", &GemmDescriptor::n, "columns of op(b) and c"),
                      field("k", &GemmDescriptor::k, "columns of op(a), rows of op(b)"),
                      field("batch", &GemmDescriptor::batch, "leading extents of a, b and c"),
                      field("trans_a", &GemmDescriptor::trans_a, "a is [.., k, m]"), field("trans_b", &GemmDescriptor::trans_b, "b is [.., n, k]"),
                      field("alpha", &GemmDescriptor::alpha, "factor of the product"), field("beta", &GemmDescriptor::beta, "factor of c as it was"),
                      field("bias", &GemmDescriptor::bias, "added before the epilogue"),
                      field("epilogue", &GemmDescriptor::epilogue, "activation, last"));
  }
  constexpr DType out_dtype() const { return out ? *out : dtype; }
};

struct Gemm {
  static constexpr std::string_view name = "gemm", category = "gemm", summary = "c = act(alpha op(a) op(b) + beta c + bias)";
  using Descriptor = GemmDescriptor;
  struct Args {
    TensorView a, b, c, bias;
    static constexpr auto args() {
      return std::tuple(arg("a", &Args::a, Role::in), arg("b", &Args::b, Role::in), arg("c", &Args::c, Role::inout, "read only when beta is not 0"),
                        arg("bias", &Args::bias, Role::optional_in, "with bias = row"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Gemm>> kernels();
  static DType aux_dtype(const Descriptor& d) { return d.out_dtype(); }
  static std::string_view layout(const Descriptor& d) { return d.trans_a ? d.trans_b ? "tt" : "tn" : d.trans_b ? "nt" : "nn"; }
  static std::string_view epilogue(const Descriptor& d) { return enum_name(d.epilogue); }
  static double flops(const Descriptor& d) { return 2.0 * double(d.m) * double(d.n) * double(d.k) * double(d.batch.product(0, d.batch.rank)); }
};
using GemmPlan = Plan<Gemm>;

}  // namespace baracuda
