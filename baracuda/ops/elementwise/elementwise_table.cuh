#pragma once
// Expands a functor into its entry for CUDA: a kernel of device/map.cuh per dtype and direction, and one of device/map_sum.cuh
// for gradients of broadcast operands.
#pragma nv_diag_suppress 186  // comparisons of unsigned numbers with zero: one text serves all dtypes
#define __builtin_ctzll(x) (63 - __builtin_clzll((x) & (0 - (x))))  // which devices lack
#include "baracuda/device/map_sum.cuh"
#include "baracuda/ops/elementwise/complex_streams_math.hpp"
#include "baracuda/ops/elementwise/elementwise_brief.hpp"
#include "baracuda/ops/elementwise/elementwise_cuda.hpp"
#include "baracuda/ops/elementwise/integer_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace device_map {

// A complex number as it is stored, and bits that only move.
template <class C> struct alignas(2 * sizeof(C)) Parts { C re, im; };
template <class U> struct Moved { U v; };

template <class T> struct Lane<Int<T>> {
  static __device__ __forceinline__ Int<T> zero() { return Int<T>::of(T(0)); }
  static __device__ __forceinline__ Int<T> of(T e) { return Int<T>::of(e); }
  template <class E> static __device__ __forceinline__ E as(Int<T> a) { return a.v; }
};
template <class C> struct Lane<Complex<Pack<C, 1>>> {
  using V = Pack<C, 1>;
  using A = Complex<V>;
  static __device__ __forceinline__ A zero() { return {V(0), V(0)}; }
  static __device__ __forceinline__ A of(Parts<C> e) { return {V::of(e.re), V::of(e.im)}; }
  static __device__ __forceinline__ A of(C e) { return {V::of(e), V(0)}; }
  static __device__ __forceinline__ A of(bool e) { return {e ? 1. : 0., V(0)}; }
  template <class E> static __device__ __forceinline__ E as(A a) {
    if constexpr (std::is_same_v<E, C>) return a.re.v;
    else return {a.re.v, a.im.v};
  }
};
template <class U> struct Lane<Moved<U>> {
  static __device__ __forceinline__ Moved<U> zero() { return {}; }
  static __device__ __forceinline__ Moved<U> of(U e) { return {e}; }
  template <class E> static __device__ __forceinline__ E as(Moved<U> a) { return a.v; }
};
template <class C> struct Total<Complex<Pack<C, 1>>> {
  double sum[2] = {};
  __device__ __forceinline__ void add(Complex<Pack<C, 1>> v) { sum[0] = sum[0] + double(v.re.v), sum[1] = sum[1] + double(v.im.v); }
  template <class E> __device__ __forceinline__ E as() const {
    if constexpr (std::is_same_v<E, C>) return C(sum[0]);
    else return {C(sum[0]), C(sum[1])};
  }
};

}  // namespace device_map

namespace {

template <class F, bool long_, bool wide = false> struct Built : F { static constexpr bool rolled = long_, wide_sum = wide; };
// Of the next stored value, whatever it is that is computed in.
template <class Op, class T> struct Next : Op {
  static constexpr int in = 2, out = 1;
  static constexpr bool needs(int) { return true; }
  using M = device_map::Moved<T>;
  __device__ __forceinline__ void operator()(const M* x, M* y) const { y[0] = {Op::next(x[0].v, x[1].v)}; }
};

template <class F> F built(const double* parameters) {
  F f;
  f.alpha = parameters[0], f.beta = parameters[1];
  if constexpr (requires { f.gamma; }) f.gamma = parameters[2];
  return f;
}
template <class F, class T, class O, class A> constexpr ElementwiseLaunch map_launch() {
  return [](const ElementwiseMap& m, void* stream) { return device_map::map<F, T, O, A>(built<F>(m.parameters), m.shape, m.operand, stream); };
}
template <class F, class T, class O, class A> constexpr ElementwiseSumLaunch sum_launch() {
  return {[](const ElementwiseSum& s, void* stream) { return device_map::map_sum<F, T, O, A>(built<F>(s.parameters), s.sum, stream); },
          device_map::sum_lanes<F, T, O>(), device_map::kParts<A>};
}
// Kinds that give a signed and an unsigned integer of one size the same bits: one kernel serves both.
template <class Op> inline constexpr bool kSignless = false;
#define BARACUDA_SIGNLESS(k) template <> inline constexpr bool kSignless<elementwise::Unary<UnaryKind::k>> = true;
BARACUDA_SIGNLESS(neg) BARACUDA_SIGNLESS(square) BARACUDA_SIGNLESS(cube) BARACUDA_SIGNLESS(floor) BARACUDA_SIGNLESS(ceil) BARACUDA_SIGNLESS(round) BARACUDA_SIGNLESS(trunc)
BARACUDA_SIGNLESS(real) BARACUDA_SIGNLESS(conj) BARACUDA_SIGNLESS(logical_not) BARACUDA_SIGNLESS(isnan) BARACUDA_SIGNLESS(isinf) BARACUDA_SIGNLESS(isfinite)
BARACUDA_SIGNLESS(isposinf) BARACUDA_SIGNLESS(isneginf) BARACUDA_SIGNLESS(isreal) BARACUDA_SIGNLESS(bitwise_not) BARACUDA_SIGNLESS(population_count) BARACUDA_SIGNLESS(clz)
BARACUDA_SIGNLESS(ctz)
#undef BARACUDA_SIGNLESS
#define BARACUDA_SIGNLESS(k) template <> inline constexpr bool kSignless<elementwise::Binary<BinaryKind::k>> = true;
BARACUDA_SIGNLESS(add) BARACUDA_SIGNLESS(sub) BARACUDA_SIGNLESS(mul) BARACUDA_SIGNLESS(eq) BARACUDA_SIGNLESS(ne) BARACUDA_SIGNLESS(logical_and) BARACUDA_SIGNLESS(logical_or)
BARACUDA_SIGNLESS(logical_xor) BARACUDA_SIGNLESS(bitwise_and) BARACUDA_SIGNLESS(bitwise_or) BARACUDA_SIGNLESS(bitwise_xor)
#undef BARACUDA_SIGNLESS
template <class Op, class T> struct Served { using Type = T; };
template <class Op, class T> requires(kSignless<Op> && !std::is_same_v<T, bool>) struct Served<Op, T> { using Type = std::make_unsigned_t<T>; };
template <class Op> inline constexpr bool kSummedOften = false;
template <> inline constexpr bool kSummedOften<elementwise::Binary<BinaryKind::add>> = true;
template <> inline constexpr bool kSummedOften<elementwise::Binary<BinaryKind::mul>> = true;
// long_: the formula has many operations. The kinds with brief halves are those that matter: their code in f32 stands once for each lane.
template <class Op, bool long_ = false> constexpr ElementwiseCudaEntry entry() {
  using namespace elementwise;
  constexpr bool roll = long_ && !Op::predicate && !(requires { requires Op::piecewise; });
  using F = Built<Forward<Op>, roll>;
  ElementwiseCudaEntry e;
  e.brief_halves = kBriefHalves<Op>;
  auto fill = [&]<class... T>(TypeList<T...>, auto loop) { ((e.forward[kDTypeOf<T>] = loop(TypeList<T>{})), ...); };
  auto integers = []<class T>(TypeList<T>) {
    using S = typename Served<Op, T>::Type;
    return map_launch<F, S, std::conditional_t<Op::predicate, bool, S>, Int<S>>();
  };
  if constexpr (requires(f16 x) { Op::next(x, x); }) fill(Floating{}, []<class T>(TypeList<T>) { return map_launch<Next<Op, T>, T, T, device_map::Moved<T>>(); });
  else if constexpr (kBriefHalves<Op>)
    fill(Floating{}, []<class T>(TypeList<T>) { return map_launch<Built<Forward<Op>, roll && sizeof(T) == 8>, T, T, device_map::Short<T>>(); });
  else if constexpr ((Op::types & kFloats) != 0)
    fill(Floating{}, []<class T>(TypeList<T>) { return map_launch<F, T, std::conditional_t<Op::predicate, bool, T>, Pack<Acc<T>, 1>>(); });
  if constexpr ((Op::types & kIntegers) != 0) fill(Integers{}, integers);
  if constexpr ((Op::types & kBool) != 0) fill(TypeList<bool>{}, integers);
  if constexpr (kDifferentiable<Op, Pack<float, 1>>) {
    using B = Built<Backward<Op>, roll, kSummedOften<Op>>;
    auto gradients = [&]<class... T>(TypeList<T...>) {
      if constexpr (kBriefHalves<Op>) ((e.backward[kDTypeOf<T>] = map_launch<Built<Backward<Op>, roll && sizeof(T) == 8>, T, T, device_map::Short<T>>()), ...);
      else ((e.backward[kDTypeOf<T>] = map_launch<B, T, T, Pack<Acc<T>, 1>>()), ...);
      if constexpr (Op::inputs > 1) ((e.sum[kDTypeOf<T>] = sum_launch<B, T, T, Pack<Acc<T>, 1>>()), ...);
    };
    gradients(Floating{});
  }
  return e;
}

template <class F, class T> struct ComplexStreams : F {
  static constexpr bool rolled = !F::predicate;
  template <int k> using Stored =
      std::conditional_t<(k < F::in) ? F::reads_complex(k) : F::writes_complex, device_map::Parts<T>, std::conditional_t<(k >= F::in) && F::predicate, bool, T>>;
};
template <class Op> constexpr ElementwiseCudaEntry complex_kind() {
  ElementwiseCudaEntry e;
  auto fill = [&]<class T>(TypeList<T>, DType t) {
    using A = Complex<Pack<T, 1>>;
    using F = ComplexStreams<ComplexForward<Op, T>, T>;
    e.forward[t] = map_launch<F, T, typename F::template Stored<F::in>, A>();
    if constexpr (!Op::predicate) {
      using B = ComplexStreams<ComplexBackward<Op, T>, T>;
      using O = typename B::template Stored<B::in>;
      e.backward[t] = map_launch<B, T, O, A>();
      if constexpr (Op::inputs > 1) e.sum[t] = sum_launch<B, T, O, A>();
    }
  };
  constexpr bool operands = ComplexShape<Op, double>::operands;
  fill(TypeList<float>{}, operands ? DType::c64 : DType::f32);
  fill(TypeList<double>{}, operands ? DType::c128 : DType::f64);
  return e;
}

}  // namespace
}  // namespace baracuda
