#pragma once
// Expands a functor into its entry, for the instruction-set units. sizeof(T) bytes per stream and element; the floor is
// memory bandwidth for f32, f64 and integers.
#include "baracuda/ops/elementwise/elementwise_cpu.hpp"
#include "baracuda/ops/elementwise/functor_math.hpp"
#include "baracuda/ops/elementwise/integer_math.hpp"
#include "baracuda/ops/elementwise/map_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

// Integers and bools, element by element; the compiler vectorises where the operation allows it.
template <class F, class T, class O> void map_integers(const double* parameters, const void* const* in, void* const* out, int64_t n) {
  const F f = with_parameters<F>(parameters);
  const T* x[F::in];
  for (int k = 0; k < F::in; ++k) x[k] = static_cast<const T*>(in[k]);
  O* const y = static_cast<O*>(out[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    Int<T> v[F::in];
    for (int k = 0; k < F::in; ++k) v[k] = Int<T>::of(x[k][i]);
    if constexpr (std::is_same_v<O, T> && !F::predicate) y[i] = f.value(v).v;
    else y[i] = f.value(v);
  }
}
template <class Op, class T> void map_stored(const double*, const void* const* in, void* const* out, int64_t n) {
  const T *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]);
  T* const y = static_cast<T*>(out[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = Op::next(a[i], b[i]);
}

template <class Op, bool looked_up = false> constexpr ElementwiseEntry entry() {
  using namespace elementwise;
  using F = Forward<Op>;
  ElementwiseEntry e{{}, {}, {Op::reads, Op::reads_b, Op::reads_c}, Op::parameters, Op::rule, {Op::defaults[0], Op::defaults[1], Op::defaults[2]}, Op::predicate, requires { Op::sloped; }, looked_up && !Op::piecewise};
  auto fill = [&]<class... T>(TypeList<T...>, auto loop) { ((e.forward[kDTypeOf<T>] = loop.template operator()<T>()), ...); };
  auto integers = []<class T>() -> MapRun { return &map_integers<F, T, std::conditional_t<Op::predicate, bool, T>>; };
  if constexpr (requires(f16 x) { Op::next(x, x); }) fill(Floating{}, []<class T>() -> MapRun { return &map_stored<Op, T>; });
  else if constexpr ((Op::types & kFloats) != 0)
    fill(TypeList<float, double>{}, []<class T>() -> MapRun { return &map_dense<F, T, std::conditional_t<Op::predicate, bool, T>>; });
  if constexpr ((Op::types & kIntegers) != 0) fill(Integers{}, integers);
  if constexpr ((Op::types & kBool) != 0) fill(TypeList<bool>{}, integers);
  if constexpr (kDifferentiable<Op, PackOf<float>>)
    e.backward[0] = &map_dense<Backward<Op>, float, float>, e.backward[1] = &map_dense<Backward<Op>, double, double>;
  return e;
}
template <int N> constexpr ElementwiseTable<N> table(const ElementwiseEntry (&entries)[N]) {
  ElementwiseTable<N> t{};
  for (int i = 0; i < N; ++i) t.kind[i] = entries[i];
  return t;
}

}  // namespace
}  // namespace baracuda
