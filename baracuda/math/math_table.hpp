#pragma once
// For tests and benchmarks: every function of vmath and brief over arrays, and the conversions of element.hpp, as each
// instruction set computes them.
#include <cstdint>

#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

#define BARACUDA_MATH_UNARY(X)                                                                                   \
  X(exp) X(expm1) X(exp2) X(log) X(log1p) X(log2) X(log10) X(tanh) X(sigmoid) X(erf) X(sin) X(cos) X(sqrt)       \
  X(round_even) X(trunc) X(floor) X(ceil) X(abs)
#define BARACUDA_MATH_BRIEF(X) X(exp) X(expm1) X(exp2) X(log) X(log1p) X(log2) X(log10) X(tanh) X(sigmoid) X(erf) X(sinh) X(cosh) X(exp_for_half) X(exp_or_zero)

namespace baracuda {

template <class T> struct MathFunctions {
  using Unary = void (*)(const T* x, T* y, int64_t n);
  using Binary = void (*)(const T* a, const T* b, T* y, int64_t n);
#define BARACUDA_MEMBER(name) Unary name;
  BARACUDA_MATH_UNARY(BARACUDA_MEMBER)
  Binary pow, max_nan, min_nan, copysign;
};
struct MathTable {
  MathFunctions<float> f32;
  MathFunctions<double> f64;
  struct OfBrief {
    using Unary = MathFunctions<float>::Unary;
    BARACUDA_MATH_BRIEF(BARACUDA_MEMBER)
  } brief;
#undef BARACUDA_MEMBER
  void (*widen_f16)(const f16* x, float* y, int64_t n);
  void (*widen_bf16)(const bf16* x, float* y, int64_t n);
  void (*narrow_f16)(const float* x, f16* y, int64_t n);
  void (*narrow_bf16)(const float* x, bf16* y, int64_t n);
  void (*gelu)(const float* x, float* y, int64_t n);  // value_types_math.hpp
  // S = dy[k] + carry[k] S from the end, for `lanes` rows side by side: element k of row r at k lanes + r.
  void (*scan)(const float* dy, const float* carry, float* s, int64_t n, int64_t rows);
  int lanes;
};
BARACUDA_ISA_TABLE(MathTable, math_table)

}  // namespace baracuda
