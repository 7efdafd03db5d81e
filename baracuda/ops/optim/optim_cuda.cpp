#include "baracuda/ops/optim/optim_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/optim/optim_detail.hpp"

namespace baracuda {
namespace {
using namespace optim_detail;

int64_t chunks(int64_t n, int64_t each) { return (n + each - 1) / each; }
// Calls add(t) for each tensor of the list and queue() whenever a launch is full, and at the end.
template <class L, class Add, class Queue> int in_launches(L& l, int most, Tensors list, int64_t each, Add add, Queue queue) {
  for (size_t t = 0; t < list.size(); ++t) {
    const int64_t more = chunks(count(list[t]), each);
    if (more == 0) continue;
    if (l.tensors == most) {
      if (const int e = queue()) return e;
      l.tensors = 0;
    }
    add(t, l.tensors);
    l.first[l.tensors + 1] = l.first[l.tensors] + more, ++l.tensors;
  }
  return queue();
}

AdamCudaStep* carve_step(Carver& c) { return c.take<AdamCudaStep>("constants of the step", 1); }
Status run_adamw(const Launch<AdamW>& l) {
  const AdamW::Args& a = l.args;
  BARACUDA_TRY(expect_on(AdamW::name, "params", a.params, l.stream));
  Carver c = l.carver();
  AdamCudaStep* step = carve_step(c);
  const AdamCudaConstants constants{settings(l.desc, a), a.step, a.lr, a.step_tensor.as<int64_t>(), a.lr_tensor.as<float>(), a.grad_scale.as<float>(),
                                    a.found_inf.as<float>(), step};
  const auto kernel = optim_cuda_kernels.adam[l.desc.dtype][l.desc.grad_dtype];
  AdamCudaList list{};
  list.step = step;
  return device::queue(l.stream, "adamw.cuda.list", [&] {
    if (const int e = optim_cuda_kernels.constants(constants, l.stream.handle)) return e;
    return in_launches(list, kAdamTensors, a.params, kAdamChunk, [&](size_t t, int to) {
      list.piece[to] = {a.params[t].data, a.grads[t].data, a.m[t].data, a.v[t].data, a.masters.empty() ? nullptr : a.masters[t].data,
                        a.v_max.empty() ? nullptr : a.v_max[t].data, count(a.params[t]), false};
    }, [&] { return kernel(list, l.stream.handle); });
  });
}

SquareSums* carve_partial(Carver& c) { return c.take<SquareSums>("partial sums", kNormBlocks); }
Status run_norm(const Launch<GlobalNorm>& l) {
  const GlobalNorm::Args& a = l.args;
  BARACUDA_TRY(expect_on(GlobalNorm::name, "x", a.x, l.stream));
  Carver c = l.carver();
  NormCudaList list{};
  list.partial = carve_partial(c), list.begins = true;
  return device::queue(l.stream, "global_norm.cuda.list", [&] {
    const int e = in_launches(list, kNormTensors, a.x, kNormChunk, [&](size_t t, int to) { list.x[to] = a.x[t].data, list.n[to] = count(a.x[t]); },
                              [&] {
                                const int error = optim_cuda_kernels.squares[l.desc.dtype](list, l.stream.handle);
                                list.begins = false;
                                return error;
                              });
    return e ? e : optim_cuda_kernels.norm({list.partial, a.norm.data, a.found_inf.as<float>(), a.norm.dtype == DType::f64}, l.stream.handle);
  });
}
Status run_clip(const Launch<ClipScale>& l) {
  return device::queue(l.stream, "clip_scale.cuda.scalar", [&] {
    return optim_cuda_kernels.clip({l.args.norm.data, l.args.scale.data, l.desc.max_norm, l.desc.dtype == DType::f64}, l.stream.handle);
  });
}

}  // namespace

template <> std::span<const Kernel<AdamW>> cuda_kernels<AdamW>() {
  static constexpr Kernel<AdamW> list[] = {
      {.name = "adamw.cuda.list", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<AdamW>(Floating{}, run_adamw),
       .guarantee = [](const AdamWDescriptor& d) {
         return PrecisionGuarantee{.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true, .same_on_cpu_and_cuda = true};
       },
       .refuse = [](const AdamWDescriptor& d, const PlanPreference&) {
         if (optim_cuda_kernels.adam[d.dtype][d.grad_dtype]) return std::string();
         return text("no ", d.grad_dtype, " gradients for ", d.dtype, " params");
       },
       .carve = [](const AdamWDescriptor&, const void*, Carver& c) { carve_step(c); }}};
  return list;
}
template <> std::span<const Kernel<GlobalNorm>> cuda_kernels<GlobalNorm>() {
  static constexpr Kernel<GlobalNorm> list[] = {
      {.name = "global_norm.cuda.list", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<GlobalNorm>(Floating{}, run_norm),
       .guarantee = [](const GlobalNormDescriptor&) { return PrecisionGuarantee{.math_precision = DType::f64, .accumulator = DType::f64}; },
       .carve = [](const GlobalNormDescriptor&, const void*, Carver& c) { carve_partial(c); }}};
  return list;
}
template <> std::span<const Kernel<ClipScale>> cuda_kernels<ClipScale>() {
  static constexpr Kernel<ClipScale> list[] = {
      {.name = "clip_scale.cuda.scalar", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<ClipScale>(TypeList<float, double>{}, run_clip),
       .guarantee = [](const ClipScaleDescriptor&) {
         return PrecisionGuarantee{.math_precision = DType::f64, .accumulator = DType::f64, .batch_invariant = true, .same_on_cpu_and_cuda = true};
       }}};
  return list;
}

}  // namespace baracuda
