#pragma once
// The kinds of elementwise ops: a name here and a functor in the _math.hpp of its group make one. A group is one unit per
// instruction set.
#include <array>
#include <cstdint>
#include <string_view>

namespace baracuda {

#define BARACUDA_UNARY_ARITHMETIC(X)                                                                                   \
  X(neg) X(abs) X(square) X(cube) X(sqrt) X(rsqrt) X(reciprocal) X(scale) X(affine) X(sign) X(step) X(floor) X(ceil)   \
  X(round) X(trunc) X(frac) X(relu) X(clamp) X(nan_to_num) X(deg2rad) X(rad2deg)                                       \
  X(sgn) X(real) X(imag) X(conj) X(angle)
#define BARACUDA_UNARY_FUNCTION(X)                                                                                     \
  X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sigmoid) X(logit) X(erf) X(erfc) X(cbrt) X(pow_scalar)    \
  X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh)
#define BARACUDA_UNARY_ACTIVATION(X)                                                                                   \
  X(gelu) X(gelu_tanh) X(quick_gelu) X(silu) X(mish) X(softplus) X(log_sigmoid) X(elu) X(selu) X(celu) X(leaky_relu)   \
  X(relu6) X(relu_squared) X(hardtanh) X(hardsigmoid) X(hardswish) X(hardshrink) X(softshrink) X(softsign)             \
  X(tanhshrink) X(tanh_softcap) X(threshold) X(squareplus) X(sparse_plus) X(sparse_sigmoid)
#define BARACUDA_UNARY_SPECIAL(X)                                                                                      \
  X(sinc) X(lgamma) X(digamma) X(erfinv) X(ndtr) X(ndtri) X(log_ndtr) X(i0) X(i0e) X(i1) X(i1e) X(entr) X(log1mexp)
#define BARACUDA_UNARY_LOGIC(X)                                                                                        \
  X(logical_not) X(isnan) X(isinf) X(isfinite) X(isposinf) X(isneginf) X(signbit) X(bitwise_not) X(population_count)   \
  X(clz) X(ctz) X(isreal)
#define BARACUDA_UNARY_KINDS(X)                                                                                        \
  BARACUDA_UNARY_ARITHMETIC(X) BARACUDA_UNARY_FUNCTION(X) BARACUDA_UNARY_ACTIVATION(X) BARACUDA_UNARY_SPECIAL(X)       \
  BARACUDA_UNARY_LOGIC(X)

#define BARACUDA_BINARY_ARITHMETIC(X)                                                                                  \
  X(add) X(sub) X(mul) X(div) X(maximum) X(minimum) X(scale_add) X(lerp) X(fmax) X(fmin) X(clamp_min) X(clamp_max)     \
  X(div_trunc) X(floor_divide) X(fmod) X(remainder) X(prelu) X(copysign) X(heaviside)
#define BARACUDA_BINARY_FUNCTION(X)                                                                                    \
  X(pow) X(atan2) X(hypot) X(logaddexp) X(logaddexp2) X(xlogy) X(xlog1py) X(ldexp) X(nextafter)
#define BARACUDA_BINARY_LOGIC(X)                                                                                       \
  X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(isclose) X(logical_and) X(logical_or) X(logical_xor) X(bitwise_and)            \
  X(bitwise_or) X(bitwise_xor) X(bitwise_left_shift) X(bitwise_right_shift)                  \
  X(shift_right_logical) X(mulhi) X(gcd) X(lcm)
#define BARACUDA_BINARY_MAKE_COMPLEX(X) X(complex) X(polar)
#define BARACUDA_BINARY_KINDS(X)                                                                                       \
  BARACUDA_BINARY_ARITHMETIC(X) BARACUDA_BINARY_FUNCTION(X) BARACUDA_BINARY_LOGIC(X) BARACUDA_BINARY_MAKE_COMPLEX(X)

#define BARACUDA_TERNARY_KINDS(X) X(where) X(clamp) X(lerp) X(addcmul) X(addcdiv) X(fma)

#define BARACUDA_KIND(k) k,
#define BARACUDA_KIND_NAME(k) #k,
enum class UnaryKind : uint8_t { BARACUDA_UNARY_KINDS(BARACUDA_KIND) };
enum class BinaryKind : uint8_t { BARACUDA_BINARY_KINDS(BARACUDA_KIND) };
enum class TernaryKind : uint8_t { BARACUDA_TERNARY_KINDS(BARACUDA_KIND) };
namespace elementwise_detail {
inline constexpr std::array kUnaryNames = std::to_array<std::string_view>({BARACUDA_UNARY_KINDS(BARACUDA_KIND_NAME)});
inline constexpr std::array kBinaryNames = std::to_array<std::string_view>({BARACUDA_BINARY_KINDS(BARACUDA_KIND_NAME)});
inline constexpr std::array kTernaryNames = std::to_array<std::string_view>({BARACUDA_TERNARY_KINDS(BARACUDA_KIND_NAME)});
}  // namespace elementwise_detail
#undef BARACUDA_KIND
#undef BARACUDA_KIND_NAME
inline constexpr int kUnaryKinds = int(elementwise_detail::kUnaryNames.size());
inline constexpr int kBinaryKinds = int(elementwise_detail::kBinaryNames.size());
inline constexpr int kTernaryKinds = int(elementwise_detail::kTernaryNames.size());
constexpr auto enum_names(UnaryKind) { return elementwise_detail::kUnaryNames; }
constexpr auto enum_names(BinaryKind) { return elementwise_detail::kBinaryNames; }
constexpr auto enum_names(TernaryKind) { return elementwise_detail::kTernaryNames; }

}  // namespace baracuda
