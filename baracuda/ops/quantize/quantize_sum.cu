// dscale and dzero_point: sums of terms over what shares a scale (device/map_sum.cuh). Reads dy and x once for each; the floor is memory
// bandwidth.
#include "baracuda/device/map_sum.cuh"
#include "baracuda/ops/quantize/quantize_cuda.hpp"
#include "baracuda/ops/quantize/quantize_values.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace device_map {
template <class C> struct Total<quantize::Number<C>> : Total<Pack<C, 1>> {
  __device__ __forceinline__ void add(quantize::Number<C> n) { Total<Pack<C, 1>>::add(n.v); }
};
}  // namespace device_map
namespace quantize {

template <class T> using V = Pack<Acc<T>, 1>;
template <class T, class X> struct Terms {  // dy, x, scale, zero point to those of dscale and of dzero_point
  static constexpr int in = 4, out = 2;
  template <int k> using Stored = std::conditional_t<k == 0, T, std::conditional_t<k == 1, X, std::conditional_t<k == 3, int32_t, Acc<T>>>>;
  using A = quantize::Number<Acc<T>>;
  double parameters[2];
  V<T> scale, zero_point;
  bool has_scale, has_zero;
  static constexpr bool needs(int) { return true; }
  __device__ __forceinline__ V<T> scale_of(const A* x) const { return has_scale ? x[2].v : scale; }
  __device__ __forceinline__ quantize::Codes<V<T>> codes_of(const A* x) const { return {parameters, has_zero ? x[3].v : zero_point}; }
};
template <class T, bool kFake> struct PlacedTerms : Terms<T, T> {
  using typename Terms<T, T>::A;
  __device__ __forceinline__ void operator()(const A* x, A* y) const {
    const V<T> dy = x[0].v, s = this->scale_of(x);
    const quantize::Codes<V<T>> c = this->codes_of(x);
    const auto p = quantize::place(x[1].v, s, c.lo, c.hi);
    y[0].v = kFake ? quantize::fake_dscale(dy, p) : quantize::quantize_dscale(dy, s, p);
    y[1].v = kFake ? quantize::fake_dzero(dy, s, p) : quantize::quantize_dzero(dy, p);
  }
};
template <class T, class Q> struct DequantizeTerms : Terms<T, Q> {
  static constexpr bool wide_sum = true;  // the others' divisions are too long for that
  using typename Terms<T, Q>::A;
  __device__ __forceinline__ void operator()(const A* x, A* y) const {
    const V<T> dy = x[0].v, s = this->scale_of(x);
    y[0].v = quantize::dequantize_dscale(dy, x[1].v - this->codes_of(x).z, s);
    y[1].v = -quantize::dequantize_dx(dy, s);
  }
};

template <class A> struct Times {
  static constexpr int in = 1, out = 1;
  Pack<A, 1> factor;
  static constexpr bool needs(int) { return true; }
  __device__ __forceinline__ void operator()(const Pack<A, 1>* x, Pack<A, 1>* y) const { y[0] = x[0] * factor; }
};

}  // namespace quantize
namespace {
using namespace quantize;

template <class A> int multiply(const Shape& shape, const device::Operand& v, double factor, void* stream) {
  const device::Operand both[] = {v, v};
  return device_map::map<Times<A>, A>({Pack<A, 1>(factor)}, shape, both, stream);
}
constexpr ByDType<int (*)(const Shape&, const device::Operand&, double, void*)> multiplies() {
  ByDType<int (*)(const Shape&, const device::Operand&, double, void*)> table;
  table[DType::f32] = multiply<float>, table[DType::f64] = multiply<double>;
  return table;
}

template <class F, class T> int sum(const QuantizeSum& q, void* stream) {
  const device::Operand* x = q.sum.x;
  const F f{{{q.parameters[0], q.parameters[1]}, V<T>(q.scale), V<T>(q.zero_point), x[2].data != nullptr, x[3].data != nullptr}};
  return device_map::map_sum<F, T, Acc<T>, quantize::Number<Acc<T>>>(f, q.sum, stream);
}
template <class F, class T> constexpr QuantizeSumLaunch entry() { return {device_map::sum_lanes<F, T, Acc<T>>(), sum<F, T>}; }
template <template <class> class F> constexpr ByDType<QuantizeSumLaunch> by_dtype() {
  return device::floating<QuantizeSumLaunch>(entry<F<f16>, f16>(), entry<F<bf16>, bf16>(), entry<F<float>, float>(), entry<F<double>, double>());
}
template <class T> using QuantizeTerms = PlacedTerms<T, false>;
template <class T> using FakeTerms = PlacedTerms<T, true>;
template <class T> using DequantizeTermsI8 = DequantizeTerms<T, int8_t>;
template <class T> using DequantizeTermsU8 = DequantizeTerms<T, uint8_t>;

}  // namespace
}  // namespace BARACUDA_ISA

extern const QuantizeSumCudaKernels quantize_sum_cuda_kernels = {by_dtype<QuantizeTerms>(), {by_dtype<DequantizeTermsU8>(), by_dtype<DequantizeTermsI8>()}, by_dtype<FakeTerms>(), multiplies()};

}  // namespace baracuda
