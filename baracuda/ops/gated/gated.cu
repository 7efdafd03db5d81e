// y = act(gate) up; dgate = dy up act'(gate), dup = dy act(gate). Three and five streams of sizeof(T) bytes per element: the
// floor is memory bandwidth. One map of device/map.cuh each.
#include "baracuda/device/map.cuh"
#include "baracuda/ops/elementwise/elementwise_brief.hpp"
#include "baracuda/ops/gated/gated_cuda.hpp"
#include "baracuda/ops/gated/gated_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace gated;

template <class A> struct Forward {
  static constexpr int in = 2, out = 1;
  A a;
  BARACUDA_HD static constexpr bool needs(int) { return true; }
  template <class V> BARACUDA_HD void operator()(const V* x, V* y) const { y[0] = gate(a.act(x[0]), a.up(x[1])); }
};
template <class A> struct Backward {
  static constexpr int in = 3, out = 2;
  A a;
  BARACUDA_HD static constexpr bool needs(int) { return true; }
  template <class V> BARACUDA_HD void operator()(const V* x, V* dx) const {
    gate_gradient(x[0], a.up(x[2]), a.act(x[1]), a.slope(x[1]), dx[0], dx[1]);
    dx[1] = a.up_gradient(dx[1], x[2]);
  }
};
template <template <class> class F, class A, class T> int launch(const GatedMap& g, void* stream) {
  using Fn = F<A>;
  return device_map::map<Fn, T, T, device_map::Short<T>>(Fn{made<A>(g.alpha, g.limit)}, g.shape, g.operand, stream);
}
template <template <class> class F, class A> constexpr ByDType<GatedLaunch> by_dtype() {
  return device::floating<GatedLaunch>(launch<F, A, f16>, launch<F, A, bf16>, launch<F, A, float>, launch<F, A, double>);
}
template <class... A> constexpr GatedCudaKernels kernels(Acts<A...>) { return {{by_dtype<Forward, A>()...}, {by_dtype<Backward, A>()...}}; }
}  // namespace
}  // namespace BARACUDA_ISA

extern const GatedCudaKernels gated_cuda_kernels = kernels(gated::GatedActs{});

}  // namespace baracuda
