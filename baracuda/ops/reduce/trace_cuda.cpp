// trace by the row of the sum; its gradient as zeros with a diagonal written over them.
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/copy/copy_cuda.hpp"
#include "baracuda/ops/reduce/trace_detail.hpp"

namespace baracuda {
template <> std::span<const Kernel<Reduce>> cuda_kernels<Reduce>();
namespace {
using device::Operand;

const Kernel<Reduce>& sum() { return cuda_kernels<Reduce>().front(); }
PrecisionGuarantee guarantee(const TraceDescriptor& d) { return sum().guarantee(trace_sum(d)); }
void carve(const TraceDescriptor& d, const void*, Carver& c) { sum().carve(trace_sum(d), nullptr, c); }
Status run(const Launch<Trace>& l) {
  const ReduceDescriptor d = trace_sum(l.desc);
  return sum().launch[d.dtype]({l.stream, l.workspace, d, {trace_diagonal(l.desc, l.args.x), l.args.y, {}}, l.threads, nullptr});
}
PrecisionGuarantee guarantee_backward(const TraceDescriptor& d) {
  PrecisionGuarantee g = reduce_guarantee({.dtype = d.dtype});
  g.same_on_cpu_and_cuda = true;
  return g;
}
Status run_backward(const Launch<TraceBackward>& l) {
  const TensorView& dx = l.args.dx;
  const TensorView diagonal = trace_diagonal(l.desc, dx);
  Operand dy = Operand::of(l.args.dy);
  dy.strides.push_back(0);
  return device::queue(l.stream, "trace_backward.cuda.diagonal", [&] {
    const int e = fill_on_device(l.desc.shape, Operand::of(dx), 0, 0, l.stream.handle);
    return e ? e : cast_floats_cuda[l.args.dy.dtype][dx.dtype](diagonal.shape, dy, Operand::of(diagonal), l.stream.handle);
  });
}

}  // namespace

template <> std::span<const Kernel<Trace>> cuda_kernels<Trace>() {
  static constexpr Kernel<Trace> list[] = {{.name = "trace.cuda.tree", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Trace>(kReduceDTypes, run),
                                            .guarantee = guarantee, .carve = carve}};
  return list;
}
template <> std::span<const Kernel<TraceBackward>> cuda_kernels<TraceBackward>() {
  static constexpr Kernel<TraceBackward> list[] = {{.name = "trace_backward.cuda.diagonal", .device = DeviceKind::cuda, .min_arch = 80,
                                                    .launch = launch_all<TraceBackward>(Floating{}, run_backward), .guarantee = guarantee_backward}};
  return list;
}

}  // namespace baracuda
