// Halves whose act, or act and slope, come from a table: one load to find and one to place each.
#include "baracuda/math/look_up_twice.hpp"
#include "baracuda/ops/gated/gated_map.hpp"
#include "baracuda/ops/gated/gated_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using Halves = TypeList<f16, bf16>;

template <bool kGather, class T> void forward_by_table(const GatedPiece& p) {
  gated::map_piece<T, 2, 1>(p, [table = static_cast<const float*>(p.table)](auto& in, int64_t j, auto& x, auto& y) {
    const auto act = look_up_dealt<kGather, T, kLanes<float>>(table, in[0] + j);
    y[0][0] = gated::gate(act.low, x[0][1]), y[1][0] = gated::gate(act.high, x[1][1]);
  });
}
template <bool kGather, class T> void backward_by_table(const GatedPiece& p) {
  gated::map_piece<T, 3, 2>(p, [table = static_cast<const ActSlope*>(p.table)](auto& in, int64_t j, auto& x, auto& y) {
    Twice<Pack<float, kLanes<float>>> act, slope;
    look_up_dealt<kGather, T, kLanes<float>>(table, in[1] + j, act, slope);
    gated::gate_gradient(x[0][0], x[0][2], act.low, slope.low, y[0][0], y[0][1]);
    gated::gate_gradient(x[1][0], x[1][2], act.high, slope.high, y[1][0], y[1][1]);
  });
}
template <bool kGather> constexpr GatedTableLoops make() {
  return {by_dtype<void (*)(const GatedPiece&)>(Halves{}, []<class T>() { return &forward_by_table<kGather, T>; }),
          by_dtype<void (*)(const GatedPiece&)>(Halves{}, []<class T>() { return &backward_by_table<kGather, T>; })};
}

}  // namespace
extern constexpr GatedTableKernels gated_table_kernels = {{make<false>(), make<true>()}};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
