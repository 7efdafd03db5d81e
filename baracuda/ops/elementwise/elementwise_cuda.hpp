#pragma once
// What the kernel files of the family export to its rows: per kind a launch function for each dtype that it takes.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/sum_shape.hpp"
#include "baracuda/ops/elementwise/elementwise_kinds.hpp"

namespace baracuda {

struct ElementwiseMap {  // operands: x... y, or dy x... y dx...
  const Shape& shape;
  const device::Operand* operand;
  const double* parameters;
};
using ElementwiseLaunch = int (*)(const ElementwiseMap&, void* stream);
struct ElementwiseSum {  // operands: dy x... y
  const device::SumOperands& sum;
  const double* parameters;
};
struct ElementwiseSumLaunch {
  int (*run)(const ElementwiseSum&, void* stream);
  int lanes, parts;  // of device::sum_partials
};
struct ElementwiseCudaEntry {
  ByDType<ElementwiseLaunch> forward, backward;
  ByDType<ElementwiseSumLaunch> sum;  // of a broadcast operand's gradient; null for kinds of one operand
  bool brief_halves = false;           // halves by math/brief.hpp, so not with the CPU's bits
};
// In the order of the lists of elementwise_kinds.hpp.
extern const ElementwiseCudaEntry unary_arithmetic_cuda[], unary_function_cuda[], unary_activation_cuda[], unary_special_cuda[], unary_logic_cuda[];
extern const ElementwiseCudaEntry binary_arithmetic_cuda[], binary_function_cuda[], binary_logic_cuda[], ternary_cuda[];
extern const ElementwiseCudaEntry complex_arithmetic_cuda[], complex_function_cuda[], complex_inverse_cuda[], complex_exponential_cuda[];
extern const ElementwiseCudaEntry complex_binary_cuda[], complex_linear_cuda[], complex_ternary_cuda[];

}  // namespace baracuda
