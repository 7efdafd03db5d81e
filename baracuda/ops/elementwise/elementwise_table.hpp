#pragma once
// Expands a functor into its entry, for the instruction-set units. sizeof(T) bytes per stream and element; the floor is
// memory bandwidth for f32 and f64.
#include "baracuda/ops/elementwise/elementwise_cpu.hpp"
#include "baracuda/ops/elementwise/elementwise_math.hpp"
#include "baracuda/ops/elementwise/map_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

template <class Op> constexpr ElementwiseEntry entry() {
  using namespace elementwise;
  ElementwiseEntry e{by_dtype<MapRun>(Floating{}, []<class T>() { return &map_dense<Forward<Op>, T, T>; }),
                     by_dtype<MapRun>(Floating{}, []<class T>() { return &map_dense<Backward<Op>, T, T>; }),
                     {}, Op::reads, Op::reads_b, Op::parameters};
  if constexpr (Op::inputs > 1)
    e.backward_wide = by_dtype<MapRun>(Floating{}, []<class T>() { return &map_dense<Backward<Op>, T, Acc<T>>; });
  return e;
}

}  // namespace
}  // namespace baracuda
