#pragma once
// What the instruction-set units of the family export: the loops of every kind, and what a kind reads and takes, as data.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/elementwise/elementwise_kinds.hpp"
#include "baracuda/ops/elementwise/map_run.hpp"

namespace baracuda {

struct ElementwiseEntry {
  ByDType<MapRun> forward;  // x... -> y. f16 and bf16 without a loop go through the one of f32
  MapRun backward[2];       // dy x... y -> dx..., in f32 and f64 (c64 and c128); null: no gradient
  int reads[3];             // by the gradient of each operand, as bits: 1 first operand, 2 second, 4 third, 8 y
  int parameters, rule;     // how many of alpha, beta, gamma; what alpha must be (Rule)
  double defaults[3];
  bool predicate;           // y is bool
  bool sloped;              // dx = dy slope(x)
  bool looked_up = false;   // results for halves are worth a table
  bool counterpart = false; // y is real where the operands are complex, and complex where they are real
};
template <int N> struct ElementwiseTable { ElementwiseEntry kind[N]; };
#define BARACUDA_ONE(k) +1
inline constexpr int kUnaryArithmetic = 0 BARACUDA_UNARY_ARITHMETIC(BARACUDA_ONE), kUnaryFunction = 0 BARACUDA_UNARY_FUNCTION(BARACUDA_ONE);
inline constexpr int kUnaryActivation = 0 BARACUDA_UNARY_ACTIVATION(BARACUDA_ONE), kUnarySpecial = 0 BARACUDA_UNARY_SPECIAL(BARACUDA_ONE);
inline constexpr int kUnaryLogic = 0 BARACUDA_UNARY_LOGIC(BARACUDA_ONE);
inline constexpr int kBinaryArithmetic = 0 BARACUDA_BINARY_ARITHMETIC(BARACUDA_ONE), kBinaryFunction = 0 BARACUDA_BINARY_FUNCTION(BARACUDA_ONE);
inline constexpr int kBinaryLogic = 0 BARACUDA_BINARY_LOGIC(BARACUDA_ONE);
#undef BARACUDA_ONE
BARACUDA_ISA_TABLE(ElementwiseTable<kUnaryArithmetic>, unary_arithmetic_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kUnaryFunction>, unary_function_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kUnaryActivation>, unary_activation_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kUnarySpecial>, unary_special_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kUnaryLogic>, unary_logic_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kBinaryArithmetic>, binary_arithmetic_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kBinaryFunction>, binary_function_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kBinaryLogic>, binary_logic_kernels)
BARACUDA_ISA_TABLE(ElementwiseTable<kTernaryKinds>, ternary_kernels)
BARACUDA_ISA_TABLE(ElementwiseEntry, where_complex)

struct HalfKernels {  // 0: f16, 1: bf16
  void (*widen[2])(const void* half, float* to, int64_t n);
  void (*narrow[2])(const float* from, void* half, int64_t n, bool past);  // past the caches: `half` begins at a line
};
BARACUDA_ISA_TABLE(HalfKernels, half_kernels)
struct HalfTableLoops {
  void (*look_up)(const void* table, const void* half, void* to, int64_t n, bool past);  // a table of halves, and one more
  void (*look_up_times[2])(const void* table, const void* dy, const void* half, void* to, int64_t n, bool past);  // dy times that of a table of f32
};
struct HalfTableKernels { HalfTableLoops by[2]; };  // 1: by gathers (host/gathers.hpp)
BARACUDA_ISA_TABLE_BF16(HalfTableKernels, half_table_kernels)

}  // namespace baracuda
