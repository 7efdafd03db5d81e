// y = act(gate) up; dgate = dy up act'(gate), dup = dy act(gate). Three and five streams of sizeof(T) bytes per element: the
// floor is memory bandwidth. One map of device/map.cuh each.
#include "baracuda/device/map.cuh"
#include "baracuda/ops/gated/gated_cuda.hpp"
#include "baracuda/ops/gated/gated_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace gated;

template <class A> struct Forward {
  static constexpr int in = 2, out = 1;
  BARACUDA_HD static constexpr bool needs(int) { return true; }
  template <class V> BARACUDA_HD void operator()(const V* x, V* y) const { y[0] = gate(A::act(x[0]), x[1]); }
};
template <class A> struct Backward {
  static constexpr int in = 3, out = 2;
  BARACUDA_HD static constexpr bool needs(int) { return true; }
  template <class V> BARACUDA_HD void operator()(const V* x, V* dx) const {
    gate_gradient(x[0], x[2], A::act(x[1]), A::slope(x[1]), dx[0], dx[1]);
  }
};
template <class F, class T> int launch(const GatedMap& g, void* stream) {
  constexpr int K = F::in + F::out;
  device::Operand operand[K];
  for (int k = 0; k < K; ++k) operand[k] = g.operand[k];
  device_map::Map<F> m{{}, device::walk<K>(g.shape, operand, F::in, device_map::kVector<T, T>), {}, {}};
  for (int k = 0; k < F::in; ++k) m.x[k] = operand[k].data;
  for (int k = 0; k < F::out; ++k) m.y[k] = const_cast<void*>(operand[F::in + k].data);
  return device_map::map<F, T, T>(m, stream);
}
template <class F> constexpr ByDType<GatedLaunch> by_dtype() {
  return device::floating<GatedLaunch>(launch<F, f16>, launch<F, bf16>, launch<F, float>, launch<F, double>);
}
template <class... A> constexpr GatedCudaKernels kernels(Acts<A...>) { return {{by_dtype<Forward<A>>()...}, {by_dtype<Backward<A>>()...}}; }
}  // namespace
}  // namespace BARACUDA_ISA

extern const GatedCudaKernels gated_cuda_kernels = kernels(gated::GatedActs{});

}  // namespace baracuda
