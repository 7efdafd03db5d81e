#include "baracuda/ops/elementwise/complex_kinds.hpp"

namespace baracuda {
namespace {

constexpr ElementwiseEntry kNone{};
// Where each kind stands in the list of its table; -1: not there.
template <class Kind, size_t N> constexpr auto places(const Kind (&list)[N]) {
  std::array<int8_t, enum_names(Kind{}).size()> at{};
  at.fill(-1);
  for (size_t i = 0; i < N; ++i) at[size_t(list[i])] = int8_t(i);
  return at;
}
#define BARACUDA_UNARY(k) UnaryKind::k,
#define BARACUDA_BINARY(k) BinaryKind::k,
constexpr UnaryKind kUnaryList[] = {BARACUDA_COMPLEX_ARITHMETIC(BARACUDA_UNARY) BARACUDA_COMPLEX_FUNCTION(BARACUDA_UNARY) BARACUDA_COMPLEX_INVERSE(BARACUDA_UNARY)
                                    BARACUDA_COMPLEX_EXPONENTIAL(BARACUDA_UNARY)};
constexpr BinaryKind kBinaryList[] = {BARACUDA_COMPLEX_BINARY(BARACUDA_BINARY) BARACUDA_COMPLEX_LINEAR(BARACUDA_BINARY)};
#define BARACUDA_TERNARY(k) TernaryKind::k,
constexpr TernaryKind kTernaryList[] = {BARACUDA_COMPLEX_TERNARY(BARACUDA_TERNARY)};
#undef BARACUDA_TERNARY
#undef BARACUDA_UNARY
#undef BARACUDA_BINARY
constexpr auto kUnaryPlace = places(kUnaryList);
constexpr auto kBinaryPlace = places(kBinaryList);
constexpr auto kTernaryPlace = places(kTernaryList);

}  // namespace

int complex_place(UnaryKind k) { return kUnaryPlace[size_t(k)]; }
int complex_place(BinaryKind k) { return kBinaryPlace[size_t(k)]; }
int complex_place(TernaryKind k) { return kTernaryPlace[size_t(k)]; }
const ElementwiseEntry& complex_entry(UnaryKind k) {
  int i = complex_place(k);
  if (i < 0) return kNone;
  if (i < kComplexArithmetic) return BARACUDA_ISA_PICK(complex_arithmetic_kernels).kind[i];
  if ((i -= kComplexArithmetic) < kComplexFunction) return BARACUDA_ISA_PICK(complex_function_kernels).kind[i];
  if ((i -= kComplexFunction) < kComplexInverse) return BARACUDA_ISA_PICK(complex_inverse_kernels).kind[i];
  return BARACUDA_ISA_PICK(complex_exponential_kernels).kind[i - kComplexInverse];
}
const ElementwiseEntry& complex_entry(BinaryKind k) {
  const int i = complex_place(k);
  if (i < 0) return kNone;
  return i < kComplexBinary ? BARACUDA_ISA_PICK(complex_binary_kernels).kind[i] : BARACUDA_ISA_PICK(complex_linear_kernels).kind[i - kComplexBinary];
}
const ElementwiseEntry& complex_entry(TernaryKind k) {  // `where` moves values as they are
  if (k == TernaryKind::where) return BARACUDA_ISA_PICK(where_complex);
  const int i = complex_place(k);
  return i < 0 ? kNone : BARACUDA_ISA_PICK(complex_ternary_kernels).kind[i];
}

}  // namespace baracuda
