#pragma once
// The kinds that take c64 and c128, by unit: a name here and a functor in complex_math.hpp or complex_exponential_math.hpp make
// one. The descriptor's dtype is c64 or c128, except that `complex` and `polar` make them of f32 and f64.
#include "baracuda/ops/elementwise/elementwise_cpu.hpp"

namespace baracuda {

#define BARACUDA_COMPLEX_ARITHMETIC(X)                                                                                 \
  X(neg) X(abs) X(square) X(sqrt) X(reciprocal) X(sgn) X(real) X(imag) X(conj) X(angle) X(logical_not) X(isnan)        \
  X(isinf) X(isfinite) X(isreal)
#define BARACUDA_COMPLEX_FUNCTION(X) X(exp) X(log) X(sin) X(cos) X(tan) X(sinh) X(cosh) X(tanh)
#define BARACUDA_COMPLEX_INVERSE(X) X(asin) X(acos) X(atan) X(asinh) X(acosh) X(atanh)
#define BARACUDA_COMPLEX_EXPONENTIAL(X)                                                                                \
  X(exp2) X(expm1) X(log2) X(log10) X(log1p) X(sigmoid) X(rsqrt) X(cube) X(scale) X(affine)
#define BARACUDA_COMPLEX_BINARY(X) X(add) X(sub) X(mul) X(div) X(pow) X(eq) X(ne) X(complex) X(polar)
#define BARACUDA_COMPLEX_LINEAR(X) X(scale_add) X(lerp) X(logical_and) X(logical_or) X(logical_xor)
#define BARACUDA_COMPLEX_TERNARY(X) X(lerp) X(addcmul) X(addcdiv)

#define BARACUDA_ONE(k) +1
inline constexpr int kComplexArithmetic = 0 BARACUDA_COMPLEX_ARITHMETIC(BARACUDA_ONE), kComplexFunction = 0 BARACUDA_COMPLEX_FUNCTION(BARACUDA_ONE);
inline constexpr int kComplexInverse = 0 BARACUDA_COMPLEX_INVERSE(BARACUDA_ONE), kComplexBinary = 0 BARACUDA_COMPLEX_BINARY(BARACUDA_ONE);
inline constexpr int kComplexExponential = 0 BARACUDA_COMPLEX_EXPONENTIAL(BARACUDA_ONE), kComplexLinear = 0 BARACUDA_COMPLEX_LINEAR(BARACUDA_ONE);
inline constexpr int kComplexTernary = 0 BARACUDA_COMPLEX_TERNARY(BARACUDA_ONE);
#undef BARACUDA_ONE
BARACUDA_ISA_TABLE(ElementwiseTable<kComplexArithmetic>, complex_arithmetic_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kComplexFunction>, complex_function_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kComplexInverse>, complex_inverse_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kComplexExponential>, complex_exponential_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kComplexBinary>, complex_binary_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kComplexLinear>, complex_linear_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kComplexTernary>, complex_ternary_kernels)

// What a kind does with complex operands, or makes of real ones; an empty entry for a kind that does neither.
const ElementwiseEntry& complex_entry(UnaryKind);
const ElementwiseEntry& complex_entry(BinaryKind);
const ElementwiseEntry& complex_entry(TernaryKind);
// Its place in the lists BARACUDA_COMPLEX_ARITHMETIC, _FUNCTION, _INVERSE, _EXPONENTIAL one after another; _BINARY, _LINEAR; or _TERNARY.
// -1 where there is none.
int complex_place(UnaryKind);
int complex_place(BinaryKind);
int complex_place(TernaryKind);

}  // namespace baracuda
