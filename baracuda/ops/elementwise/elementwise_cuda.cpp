#include "baracuda/ops/elementwise/elementwise_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/elementwise/broadcast_sum_cuda.hpp"
#include "baracuda/ops/elementwise/complex_kinds.hpp"
#include "baracuda/ops/elementwise/elementwise_problem.hpp"
#include "baracuda/ops/elementwise/functor_math.hpp"

namespace baracuda {
namespace {

using namespace elementwise_detail;
using device::Operand;

const ElementwiseCudaEntry& cuda_entry(UnaryKind k, DType t) {
  int i = int(k);
  if (is_complex(t)) {
    i = complex_place(k);
    if (i < kComplexArithmetic) return complex_arithmetic_cuda[i];
    if ((i -= kComplexArithmetic) < kComplexFunction) return complex_function_cuda[i];
    if ((i -= kComplexFunction) < kComplexInverse) return complex_inverse_cuda[i];
    return complex_exponential_cuda[i - kComplexInverse];
  }
  if (i < kUnaryArithmetic) return unary_arithmetic_cuda[i];
  if ((i -= kUnaryArithmetic) < kUnaryFunction) return unary_function_cuda[i];
  if ((i -= kUnaryFunction) < kUnaryActivation) return unary_activation_cuda[i];
  if ((i -= kUnaryActivation) < kUnarySpecial) return unary_special_cuda[i];
  return unary_logic_cuda[i - kUnarySpecial];
}
const ElementwiseCudaEntry& cuda_entry(BinaryKind k, DType t) {
  int i = int(k);
  if (is_complex(t) || i >= kBinaryArithmetic + kBinaryFunction + kBinaryLogic) {
    i = complex_place(k);
    return i < kComplexBinary ? complex_binary_cuda[i] : complex_linear_cuda[i - kComplexBinary];
  }
  if (i < kBinaryArithmetic) return binary_arithmetic_cuda[i];
  if ((i -= kBinaryArithmetic) < kBinaryFunction) return binary_function_cuda[i];
  return binary_logic_cuda[i - kBinaryFunction];
}
const ElementwiseCudaEntry& cuda_entry(TernaryKind k, DType t) { return is_complex(t) && k != TernaryKind::where ? complex_ternary_cuda[complex_place(k)] : ternary_cuda[int(k)]; }

Operand operand(const TensorView& v, const Shape& shape) {
  const MapOperand o = broadcast_operand(v, shape);
  return {o.data, o.bytes, o.strides};
}
template <class D> PrecisionGuarantee guarantee_forward(const D& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true,
          .same_on_cpu_and_cuda = !is_complex(d.dtype)  // beside a NaN some signs are open
              && !(cuda_entry(d.kind, d.dtype).brief_halves && accumulator(d.dtype) != d.dtype)};
}
template <class D> PrecisionGuarantee guarantee_backward(const D& d) {
  PrecisionGuarantee g = guarantee_forward(d);
  const Problem p = problem(d);
  for (int k = 0; k < p.operands; ++k) g.same_on_cpu_and_cuda = g.same_on_cpu_and_cuda && !is_sum(p, k);  // other orders
  return g;
}
template <class Op> Status run_forward(const Launch<Op>& l) {
  const Problem p = problem(l.desc);
  const auto in = inputs(l.args);
  Operand all[4];
  for (int k = 0; k < p.operands; ++k) all[k] = operand(*in[size_t(k)], p.shape);
  all[p.operands] = Operand::of(l.args.y);
  const ElementwiseMap map{p.shape, all, p.parameters};
  return device::queue(l.stream, Op::name, [&] { return cuda_entry(l.desc.kind, p.dtype).forward[p.dtype](map, l.stream.handle); });
}

template <class D> void carve_sums(const D& d, const Problem& p, Carver& c, double* (&partial)[3]) {
  constexpr std::string_view names[] = {"da partial sums", "db partial sums", "dc partial sums"};
  const ElementwiseSumLaunch& sum = cuda_entry(d.kind, p.dtype).sum[p.dtype];
  for (int k = 0; k < p.operands; ++k)
    if (is_sum(p, k) && p.operand_dtype[k] == p.dtype) partial[k] = c.take<double>(names[k], broadcast_partials_cuda(p.shape, p.operand[k], sum.lanes, sum.parts));
}
template <class D> void carve_backward(const D& d, const void*, Carver& c) {
  double* partial[3];
  carve_sums(d, problem(d), c, partial);
}
// dy, operands and y are n of `in`.
template <int n> int queue_sum(const Problem& p, const ElementwiseCudaEntry& e, const Operand* in, int which, const TensorView& target, double* partial, void* stream) {
  const BroadcastSumCuda<n> b(p.shape, in, which, target, partial);
  return e.sum[p.dtype].run({b.sum, p.parameters}, stream);
}
template <class Op> Status run_backward(const Launch<Op>& l) {
  const Problem p = problem(l.desc);
  const auto in = inputs(l.args);
  const auto out = gradients(l.args);
  const int n = p.operands, bits = reads(p, out.data());
  Operand all[8] = {Operand::of(l.args.dy)};  // dy, operands, y, gradients that are no sums
  for (int k = 0; k < n; ++k)
    if (bits >> k & 1) all[1 + k] = operand(*in[size_t(k)], p.shape);
  if (bits & elementwise::kY) all[1 + n] = Operand::of(saved_y(l.args));
  double* partial[3];
  Carver carver = l.carver();
  carve_sums(l.desc, p, carver, partial);
  const ElementwiseCudaEntry& e = cuda_entry(l.desc.kind, p.dtype);
  return device::queue(l.stream, Op::name, [&] {
    for (int k = 0; k < n; ++k) {
      const TensorView& d = *out[size_t(k)];
      if (d.absent()) continue;
      if (!is_sum(p, k)) all[2 + n + k] = operand(d, p.shape);  // axes of extent 1 may be missing
      else if (const int error = (n == 1 ? queue_sum<3> : n == 2 ? queue_sum<4> : queue_sum<5>)(p, e, all, k, d, partial[k], l.stream.handle)) return error;
    }
    return e.backward[p.dtype]({p.shape, all, p.parameters}, l.stream.handle);
  });
}
template <class Op> std::span<const Kernel<Op>> forward_list(std::string_view row) {
  using D = typename Op::Descriptor;
  static const Kernel<Op> list[] = {{.name = row,
                                     .device = DeviceKind::cuda,
                                     .min_arch = 80,
                                     .launch = launch_where<Op>(takes, run_forward<Op>),
                                     .guarantee = guarantee_forward<D>,
                                     .refuse = refuse_forward<D>}};
  return list;
}
template <class Op> std::span<const Kernel<Op>> backward_list(std::string_view row) {
  using D = typename Op::Descriptor;
  static const Kernel<Op> list[] = {{.name = row,
                                     .device = DeviceKind::cuda,
                                     .min_arch = 80,
                                     .launch = launch_where<Op>(has_gradient, run_backward<Op>),
                                     .guarantee = guarantee_backward<D>,
                                     .refuse = refuse_backward<D>,
                                     .carve = carve_backward<D>}};
  return list;
}

}  // namespace

template <> std::span<const Kernel<Unary>> cuda_kernels<Unary>() { return forward_list<Unary>("unary.cuda.map"); }
template <> std::span<const Kernel<Binary>> cuda_kernels<Binary>() { return forward_list<Binary>("binary.cuda.map"); }
template <> std::span<const Kernel<Ternary>> cuda_kernels<Ternary>() { return forward_list<Ternary>("ternary.cuda.map"); }
template <> std::span<const Kernel<UnaryBackward>> cuda_kernels<UnaryBackward>() { return backward_list<UnaryBackward>("unary_backward.cuda.map"); }
template <> std::span<const Kernel<BinaryBackward>> cuda_kernels<BinaryBackward>() { return backward_list<BinaryBackward>("binary_backward.cuda.map"); }
template <> std::span<const Kernel<TernaryBackward>> cuda_kernels<TernaryBackward>() { return backward_list<TernaryBackward>("ternary_backward.cuda.map"); }

}  // namespace baracuda
