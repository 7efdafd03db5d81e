#pragma once
// What the three descriptors of the family have in common, for its rows on any device.
#include <array>
#include "baracuda/ops/elementwise/elementwise.hpp"
#include "baracuda/ops/elementwise/elementwise_cpu.hpp"

namespace baracuda::elementwise_detail {

const ElementwiseEntry& entry(UnaryKind);
const ElementwiseEntry& entry(BinaryKind);
const ElementwiseEntry& entry(TernaryKind);
const ElementwiseEntry& entry(UnaryKind, DType);
const ElementwiseEntry& entry(BinaryKind, DType);
const ElementwiseEntry& entry(TernaryKind, DType);
bool half(DType);
bool takes(const ElementwiseEntry&, DType);
bool has_gradient(const ElementwiseEntry&, DType);
DType result_of(const ElementwiseEntry&, DType);

// What the three descriptors have in common.
struct Problem {
  const ElementwiseEntry* e;
  std::string_view kind;
  DType dtype;
  int operands;
  Shape operand[3], shape;      // shape: broadcast
  DType operand_dtype[3], result;
  double parameters[3];
};
std::optional<double> parameter(const UnaryDescriptor&, int);
std::optional<double> parameter(const BinaryDescriptor&, int);
std::optional<double> parameter(const TernaryDescriptor&, int);
// Of valid descriptors.
Problem problem(const UnaryDescriptor&);
Problem problem(const BinaryDescriptor&);
Problem problem(const TernaryDescriptor&);
// Which operands were broadcast, so that their gradients are sums.
bool is_sum(const Problem&, int operand);
// What the gradients that are wanted read, as bits.
int reads(const Problem&, const TensorView* const* out);

template <class D> std::string refuse_forward(const D& d, const PlanPreference&) {
  return baracuda::takes(d.kind, d.dtype) ? std::string() : text("kind ", enum_name(d.kind), " does not take ", d.dtype);
}
template <class D> std::string refuse_backward(const D& d, const PlanPreference&) {
  if (baracuda::has_gradient(d.kind, d.dtype)) return {};
  return text("kind ", enum_name(d.kind), " has no gradient", entry(d.kind).backward[0] || entry(d.kind, DType::c64).backward[0] ? text(" in ", d.dtype) : std::string());
}

using View = const TensorView*;
inline std::array<View, 1> inputs(const Unary::Args& a) { return {&a.x}; }
inline std::array<View, 2> inputs(const Binary::Args& a) { return {&a.a, &a.b}; }
inline std::array<View, 3> inputs(const Ternary::Args& a) { return {&a.a, &a.b, &a.c}; }
inline std::array<View, 1> inputs(const UnaryBackward::Args& a) { return {&a.x}; }
inline std::array<View, 2> inputs(const BinaryBackward::Args& a) { return {&a.a, &a.b}; }
inline std::array<View, 3> inputs(const TernaryBackward::Args& a) { return {&a.a, &a.b, &a.c}; }
inline std::array<View, 1> gradients(const UnaryBackward::Args& a) { return {&a.dx}; }
inline std::array<View, 2> gradients(const BinaryBackward::Args& a) { return {&a.da, &a.db}; }
inline std::array<View, 3> gradients(const TernaryBackward::Args& a) { return {&a.da, &a.db, &a.dc}; }
template <class Args> TensorView saved_y(const Args& a) {
  if constexpr (requires { a.y; }) return a.y;
  else return {};
}

// For the dtypes that any kind is `in`.
template <class Op> ByDType<Launcher<Op>> launch_where(bool (*in)(const ElementwiseEntry&, DType), Launcher<Op> launch) {
  ByDType<Launcher<Op>> table;
  using Kind = decltype(typename Op::Descriptor{}.kind);
  for (size_t k = 0; k < enum_names(Kind{}).size(); ++k)
    for (size_t t = 0; t < kDTypes; ++t)
      if (in(entry(Kind(k), DType(t)), DType(t))) table[DType(t)] = launch;
  return table;
}

}  // namespace baracuda::elementwise_detail
