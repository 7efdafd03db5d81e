#pragma once
// The functors of complex numbers as one shape, as Forward and Backward of functor_math.hpp: every stream is complex; of one that
// is real in memory only the real part is moved.
#include <utility>
#include "baracuda/ops/elementwise/complex_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

template <class C> inline constexpr bool kIsComplex = false;
template <class V> inline constexpr bool kIsComplex<Complex<V>> = true;
template <bool complex, class C> BARACUDA_HD auto either(C x) {
  if constexpr (complex) return x;
  else return x.re;
}
template <class V> BARACUDA_HD Complex<V> as_complex(V x) { return {x, 0}; }
template <class V> BARACUDA_HD Complex<V> as_complex(Complex<V> x) { return x; }

template <class Op, class T> struct ComplexShape {  // which streams are complex
  using V = Pack<T, kLanes<T>>;
  static constexpr bool operands = !requires(Op op, V v) { op.fwd(v, v).re; };
  static constexpr bool result = [] {
    if constexpr (Op::predicate) return false;
    else if constexpr (Op::inputs == 1) return kIsComplex<decltype(std::declval<Op>().fwd(Complex<V>{}))>;
    else return true;
  }();
};
template <class Op, class T> struct ComplexForward : Op {
  static constexpr int in = Op::inputs, out = 1;
  static constexpr bool reads_complex(int) { return ComplexShape<Op, T>::operands; }
  static constexpr bool writes_complex = ComplexShape<Op, T>::result;
  static constexpr bool needs(int) { return true; }
  template <class C> BARACUDA_HD auto value(const C* x) const {
    constexpr bool z = ComplexShape<Op, T>::operands;
    if constexpr (Op::predicate && in == 1) return this->test(x[0]);
    else if constexpr (Op::predicate) return this->test(x[0], x[1]);
    else if constexpr (in == 1) return this->fwd(x[0]);
    else if constexpr (in == 3) return this->fwd(x[0], x[1], x[2]);
    else return this->fwd(either<z>(x[0]), either<z>(x[1]));
  }
  template <class C> BARACUDA_HD void operator()(const C* x, C* y) const { y[0] = as_complex(value(x)); }
};
template <class Op, class T> struct ComplexBackward : Op {
  static constexpr int in = Op::inputs + 2, out = Op::inputs;
  static constexpr bool reads_complex(int k) { return k == 0 || k == in - 1 ? ComplexShape<Op, T>::result : ComplexShape<Op, T>::operands; }
  static constexpr bool writes_complex = ComplexShape<Op, T>::operands;
  static constexpr bool needs(int k) { return elementwise::Backward<Op>::needs(k); }
  template <class C> BARACUDA_HD void operator()(const C* x, C* dx) const {
    constexpr bool z = ComplexShape<Op, T>::operands, r = ComplexShape<Op, T>::result;
    if constexpr (out == 1) dx[0] = this->bwd(either<r>(x[0]), x[1], either<r>(x[2]));
    else if constexpr (out == 3) {
      const auto g = this->bwd(x[0], x[1], x[2], x[3], x[4]);
      dx[0] = g.a, dx[1] = g.b, dx[2] = g.c;
    } else {
      const auto g = this->bwd(either<r>(x[0]), either<z>(x[1]), either<z>(x[2]), either<r>(x[3]));
      dx[0] = as_complex(g.a), dx[1] = as_complex(g.b);
    }
  }
};

}  // namespace
}  // namespace baracuda
