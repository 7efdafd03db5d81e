#pragma once
// The kinds of elementwise ops: a name here and a functor in elementwise_math.hpp make one.
#include <array>
#include <cstdint>
#include <string_view>

namespace baracuda {

#define BARACUDA_UNARY_KINDS(X)                                                                                        \
  X(neg) X(abs) X(exp) X(log) X(sqrt) X(rsqrt) X(tanh) X(sigmoid) X(relu) X(gelu) X(gelu_tanh) X(silu) X(softplus)     \
  X(square) X(reciprocal)                                                                                              \
  X(scale) /* alpha x */
#define BARACUDA_BINARY_KINDS(X)                                                                                       \
  X(add) X(sub) X(mul) X(div) X(maximum) X(minimum) X(pow)                                                             \
  X(scale_add) /* alpha a + beta b */

#define BARACUDA_KIND(k) k,
#define BARACUDA_KIND_NAME(k) #k,
enum class UnaryKind : uint8_t { BARACUDA_UNARY_KINDS(BARACUDA_KIND) };
enum class BinaryKind : uint8_t { BARACUDA_BINARY_KINDS(BARACUDA_KIND) };
namespace elementwise_detail {
inline constexpr std::array kUnaryNames = std::to_array<std::string_view>({BARACUDA_UNARY_KINDS(BARACUDA_KIND_NAME)});
inline constexpr std::array kBinaryNames = std::to_array<std::string_view>({BARACUDA_BINARY_KINDS(BARACUDA_KIND_NAME)});
}  // namespace elementwise_detail
#undef BARACUDA_KIND
#undef BARACUDA_KIND_NAME
inline constexpr int kUnaryKinds = int(elementwise_detail::kUnaryNames.size());
inline constexpr int kBinaryKinds = int(elementwise_detail::kBinaryNames.size());
constexpr auto enum_names(UnaryKind) { return elementwise_detail::kUnaryNames; }
constexpr auto enum_names(BinaryKind) { return elementwise_detail::kBinaryNames; }

}  // namespace baracuda
