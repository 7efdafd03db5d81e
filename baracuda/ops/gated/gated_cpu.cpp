// y = act(gate) up; dgate = dy up act'(gate), dup = dy act(gate). Three streams forward, five backward; the floor is
// memory bandwidth for f32 and f64, arithmetic (erf, exp) for halves, whose large tensors go by tables (gated_table_cpu.cpp).
#include "baracuda/ops/gated/gated_map.hpp"
#include "baracuda/ops/gated/gated_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class Act, class T> void forward(const GatedPiece& p) {
  const Act a = gated::made<Act>(p.alpha, p.limit);
  gated::map_piece<T, 2, 1>(p, [a](auto&, int64_t, auto& x, auto& y) {
    for (int r = 0; r < 2; ++r) y[r][0] = gated::gate(a.act(x[r][0]), a.up(x[r][1]));
  });
}
template <class Act, class T> void backward(const GatedPiece& p) {
  const Act a = gated::made<Act>(p.alpha, p.limit);
  gated::map_piece<T, 3, 2>(p, [a](auto&, int64_t, auto& x, auto& y) {
    for (int r = 0; r < 2; ++r) {
      gated::gate_gradient(x[r][0], a.up(x[r][2]), a.act(x[r][1]), a.slope(x[r][1]), y[r][0], y[r][1]);
      y[r][1] = a.up_gradient(y[r][1], x[r][2]);
    }
  });
}
template <class... Act> constexpr GatedKernels make(gated::Acts<Act...>) {
  static_assert(sizeof...(Act) == kGatedKinds);
  return {{by_dtype<void (*)(const GatedPiece&)>(Floating{}, []<class T>() { return &forward<Act, T>; })...},
          {by_dtype<void (*)(const GatedPiece&)>(Floating{}, []<class T>() { return &backward<Act, T>; })...}};
}

}  // namespace
extern constexpr GatedKernels gated_kernels = make(gated::GatedActs{});
}  // namespace BARACUDA_ISA
}  // namespace baracuda
