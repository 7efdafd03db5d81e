#include "baracuda/ops/elementwise/elementwise_problem.hpp"
#include "baracuda/ops/elementwise/complex_kinds.hpp"
#include "baracuda/ops/elementwise/functor_math.hpp"

namespace baracuda::elementwise_detail {

const ElementwiseEntry& entry(UnaryKind k) {
  int i = int(k);
  if (i < kUnaryArithmetic) return BARACUDA_ISA_PICK(unary_arithmetic_kernels).kind[i];
  if ((i -= kUnaryArithmetic) < kUnaryFunction) return BARACUDA_ISA_PICK(unary_function_kernels).kind[i];
  if ((i -= kUnaryFunction) < kUnaryActivation) return BARACUDA_ISA_PICK(unary_activation_kernels).kind[i];
  if ((i -= kUnaryActivation) < kUnarySpecial) return BARACUDA_ISA_PICK(unary_special_kernels).kind[i];
  return BARACUDA_ISA_PICK(unary_logic_kernels).kind[i - kUnarySpecial];
}
const ElementwiseEntry& entry(BinaryKind k) {
  int i = int(k);
  if (i < kBinaryArithmetic) return BARACUDA_ISA_PICK(binary_arithmetic_kernels).kind[i];
  if ((i -= kBinaryArithmetic) < kBinaryFunction) return BARACUDA_ISA_PICK(binary_function_kernels).kind[i];
  if ((i -= kBinaryFunction) < kBinaryLogic) return BARACUDA_ISA_PICK(binary_logic_kernels).kind[i];
  return complex_entry(k);
}
const ElementwiseEntry& entry(TernaryKind k) { return BARACUDA_ISA_PICK(ternary_kernels).kind[int(k)]; }
const ElementwiseEntry& entry(UnaryKind k, DType t) { return is_complex(t) ? complex_entry(k) : entry(k); }
const ElementwiseEntry& entry(BinaryKind k, DType t) { return is_complex(t) ? complex_entry(k) : entry(k); }
const ElementwiseEntry& entry(TernaryKind k, DType t) { return is_complex(t) ? complex_entry(k) : entry(k); }

bool half(DType t) { return t == DType::f16 || t == DType::bf16; }
bool takes(const ElementwiseEntry& e, DType t) { return e.forward[t] || (half(t) && e.forward[DType::f32] && !e.counterpart); }
bool has_gradient(const ElementwiseEntry& e, DType t) { return e.backward[0] && (half(t) || t == DType::f32 || t == DType::f64 || is_complex(t)) && takes(e, t); }
DType result_of(const ElementwiseEntry& e, DType t) {
  return e.predicate ? DType::boolean : e.counterpart && counterpart(t) != DType::count ? counterpart(t) : t;
}

std::optional<double> parameter(const UnaryDescriptor& d, int k) { return k == 0 ? d.alpha : k == 1 ? d.beta : d.gamma; }
std::optional<double> parameter(const BinaryDescriptor& d, int k) { return k == 0 ? d.alpha : k == 1 ? d.beta : d.gamma; }
std::optional<double> parameter(const TernaryDescriptor& d, int k) { return k == 0 ? d.alpha : std::nullopt; }
namespace {
double largest(DType t) {
  return t == DType::f16 ? 65504 : t == DType::bf16 ? 0x1.fep127 : t == DType::f32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
}
template <class D> Problem make_problem(const D& d) {
  Problem p{&entry(d.kind, d.dtype), enum_name(d.kind), d.dtype, 1, {}, {}, {d.dtype, d.dtype, d.dtype}, {}, {}};
  p.result = result_of(*p.e, d.dtype);
  for (int k = 0; k < 3; ++k) p.parameters[k] = parameter(d, k).value_or(p.e->defaults[k]);
  if constexpr (std::is_same_v<D, UnaryDescriptor>) {
    p.operand[0] = p.shape = d.shape;
    if (d.kind == UnaryKind::nan_to_num)  // absent: the largest finite number of the dtype
      p.parameters[1] = d.beta.value_or(largest(d.dtype)), p.parameters[2] = d.gamma.value_or(-largest(d.dtype));
  } else if constexpr (std::is_same_v<D, BinaryDescriptor>) {
    p.operands = 2, p.operand[0] = d.a, p.operand[1] = d.b, p.shape = *broadcast_shape("", d.a, d.b);
  } else {
    p.operands = 3, p.operand[0] = d.a, p.operand[1] = d.b, p.operand[2] = d.c, p.shape = *broadcast_shape("", d.a, d.b, d.c);
    if (d.kind == TernaryKind::where) p.operand_dtype[0] = DType::boolean;
  }
  return p;
}
}  // namespace
Problem problem(const UnaryDescriptor& d) { return make_problem(d); }
Problem problem(const BinaryDescriptor& d) { return make_problem(d); }
Problem problem(const TernaryDescriptor& d) { return make_problem(d); }

bool is_sum(const Problem& p, int k) { return p.operand[k].numel() != p.shape.numel(); }
int reads(const Problem& p, const TensorView* const* out) {
  int bits = 0;
  for (int k = 0; k < p.operands; ++k) if (!out[k]->absent()) bits |= p.e->reads[k];
  return bits;
}

}  // namespace baracuda::elementwise_detail
