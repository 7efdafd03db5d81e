#include "baracuda/ops/optim/optim.hpp"
#include <algorithm>
#include <cmath>
#include "baracuda/host/past.hpp"
#include "baracuda/host/thread_team.hpp"
#include "baracuda/ops/optim/optim_detail.hpp"
#include "baracuda/ops/optim/optim_math.hpp"

namespace baracuda {
namespace {
using namespace optim_detail;

constexpr int64_t kPieceOfStep = 32768;
constexpr int64_t kNormParts = 256;

DType state_dtype(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

Status expect_list(std::string_view op, std::string_view role, Tensors list, size_t count, DType t, Tensors like) {
  if (list.size() != count) return invalid(op, text(role, " has ", list.size(), " tensors, expected ", count));
  for (size_t i = 0; i < list.size(); ++i) {
    const TensorView& v = list[i];
    const std::string who = text(role, "[", i, "]");
    BARACUDA_TRY(check_argument(op, who, v, Role::in, like.empty() ? list[0].device : like[0].device));
    if (v.dtype != t) return unexpected(op, who, t, {}, text("has dtype ", v.dtype, ", expected ", t));
    if (!v.contiguous()) return invalid(op, text(who, " is not dense: shape ", v.shape, ", strides ", v.strides));
    if (!like.empty() && v.numel() != like[i].numel())
      return invalid(op, text(who, " has shape ", v.shape, ", expected the ", like[i].numel(), " elements of params[", i, "] ", like[i].shape));
  }
  return {};
}
int64_t elements(Tensors list) {
  int64_t n = 0;
  for (const TensorView& v : list) n += count(v);
  return n;
}
// Calls f(tensor, first, count) for the stretches of the concatenated list that [begin, end) covers.
template <class F> void for_stretches(Tensors list, int64_t begin, int64_t end, F f) {
  for (size_t t = 0; t < list.size() && begin < end; ++t) {
    const int64_t n = count(list[t]);
    if (begin < n) f(t, begin, std::min(n, end) - begin);
    begin = std::max<int64_t>(0, begin - n), end -= n;
  }
}

Status run_adamw(const Launch<AdamW>& l) {
  const AdamW::Args& a = l.args;
  BARACUDA_TRY(expect_on(AdamW::name, "params", a.params, l.stream));
  if (!a.found_inf.absent() && *a.found_inf.as<float>() != 0) return {};
  int64_t step = a.step;
  if (!a.step_tensor.absent()) step = ++*a.step_tensor.as<int64_t>();
  const double lr = a.lr_tensor.absent() ? a.lr : double(*a.lr_tensor.as<float>());
  const double scale = a.grad_scale.absent() ? 1 : double(*a.grad_scale.as<float>());
  const AdamStep s = optim::adam_step(settings(l.desc, a), step, lr, scale);
  const auto kernel = BARACUDA_ISA_PICK(optim_kernels).adam[l.desc.dtype][l.desc.grad_dtype];
  const int64_t p_size = int64_t(byte_size(l.desc.dtype)), g_size = int64_t(byte_size(l.desc.grad_dtype)), s_size = int64_t(byte_size(state_dtype(l.desc.dtype)));
  const int64_t total = elements(a.params);
  const bool past = !a.masters.empty() && total * p_size >= kPastCaches;
  parallel_for(total, kPieceOfStep, l.threads, [&](int64_t begin, int64_t end, int) {
    for_stretches(a.params, begin, end, [&](size_t t, int64_t first, int64_t n) {
      char* params = a.params[t].as<char>() + first * p_size;
      kernel(s, {params, a.grads[t].as<char>() + first * g_size, a.m[t].as<char>() + first * s_size,
                 a.v[t].as<char>() + first * s_size, a.masters.empty() ? nullptr : a.masters[t].as<char>() + first * s_size,
                 a.v_max.empty() ? nullptr : a.v_max[t].as<char>() + first * s_size, n,
                 past && reinterpret_cast<uintptr_t>(params) % 64 == 0});
    });
  });
  return {};
}

void carve_norm(const GlobalNormDescriptor&, const void*, Carver& c) { c.take<SquareSums>("partial sums", kNormParts); }
Status run_norm(const Launch<GlobalNorm>& l) {
  const GlobalNorm::Args& a = l.args;
  BARACUDA_TRY(expect_on(GlobalNorm::name, "x", a.x, l.stream));
  Carver c = l.carver();
  SquareSums* partial = c.take<SquareSums>("partial sums", kNormParts);
  const int64_t total = elements(a.x), size = int64_t(byte_size(l.desc.dtype));
  // Parts of the concatenated list, of whole 4096s, so that their number and their bounds depend on the sizes alone.
  const int64_t part = std::max<int64_t>(4096, (total + kNormParts * 4096 - 1) / (kNormParts * 4096) * 4096), parts = (total + part - 1) / part;
  const auto kernel = BARACUDA_ISA_PICK(optim_kernels).squares[l.desc.dtype];
  parallel_for(parts, 1, l.threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      SquareSums s{};
      for_stretches(a.x, p * part, std::min(total, (p + 1) * part),
                    [&](size_t t, int64_t first, int64_t n) { kernel(a.x[t].as<char>() + first * size, n, s); });
      partial[p] = s;
    }
  });
  SquareSums sum{};
  for (int64_t p = 0; p < parts; ++p) sum.big += partial[p].big, sum.mid += partial[p].mid, sum.small += partial[p].small;
  const double norm = optim::norm_of(sum);
  if (a.norm.dtype == DType::f64) *a.norm.as<double>() = norm;
  else *a.norm.as<float>() = float(norm);
  if (!a.found_inf.absent()) *a.found_inf.as<float>() = optim::finite(sum) ? 0 : 1;
  return {};
}

Status run_clip(const Launch<ClipScale>& l) {
  const double norm = l.desc.dtype == DType::f64 ? *l.args.norm.as<double>() : double(*l.args.norm.as<float>());
  const double scale = optim::clip_scale(norm, l.desc.max_norm);
  if (l.desc.dtype == DType::f64) *l.args.scale.as<double>() = scale;
  else *l.args.scale.as<float>() = float(scale);
  return {};
}

}  // namespace

Status optim_detail::expect_on(std::string_view op, std::string_view role, Tensors list, const Stream& stream) {
  if (list.empty() || list[0].device == stream.device) return {};
  return invalid(op, text(role, " is on ", to_string(list[0].device), ", the stream on ", to_string(stream.device)));
}

Status AdamW::validate(const Descriptor& d) {
  if (!valid(d.dtype) || !valid(d.grad_dtype)) return invalid(name, "invalid dtype");
  if (!is_floating(d.grad_dtype)) return invalid(name, text("grad_dtype ", d.grad_dtype, " is not a float"));
  return {};
}
Status AdamW::check(const Descriptor& d, const Args& a) {
  const size_t n = a.params.size();
  const DType state = state_dtype(d.dtype);
  BARACUDA_TRY(expect_list(name, "params", a.params, n, d.dtype, {}));
  BARACUDA_TRY(expect_list(name, "grads", a.grads, n, d.grad_dtype, a.params));
  BARACUDA_TRY(expect_list(name, "m", a.m, n, state, a.params));
  BARACUDA_TRY(expect_list(name, "v", a.v, n, state, a.params));
  if (!a.masters.empty()) {
    if (d.dtype == state) return invalid(name, text("masters are for f16 and bf16 params, not ", d.dtype));
    BARACUDA_TRY(expect_list(name, "masters", a.masters, n, state, a.params));
  }
  if (!a.v_max.empty()) BARACUDA_TRY(expect_list(name, "v_max", a.v_max, n, state, a.params));
  if (a.step_tensor.absent() && a.step < 1) return invalid(name, text("step ", a.step, " is not >= 1"));
  struct { std::string_view name; double value; bool ok; } const scalars[] = {
      {"lr", a.lr, std::isfinite(a.lr)},
      {"beta1", a.beta1, a.beta1 >= 0 && a.beta1 < 1},
      {"beta2", a.beta2, a.beta2 >= 0 && a.beta2 < 1},
      {"eps", a.eps, a.eps >= 0 && std::isfinite(a.eps)},
      {"weight_decay", a.weight_decay, std::isfinite(a.weight_decay)}};
  for (const auto& s : scalars)
    if (!s.ok) return invalid(name, text(s.name, " ", s.value, " is out of range: lr and weight_decay finite, 0 <= beta < 1, eps finite and >= 0"));
  if (!a.step_tensor.absent()) BARACUDA_TRY(expect_elements(name, "step_tensor", a.step_tensor, DType::i64, {}));
  if (!a.lr_tensor.absent()) BARACUDA_TRY(expect_elements(name, "lr_tensor", a.lr_tensor, DType::f32, {}));
  if (!a.grad_scale.absent()) BARACUDA_TRY(expect_elements(name, "grad_scale", a.grad_scale, DType::f32, {}));
  if (!a.found_inf.absent()) BARACUDA_TRY(expect_elements(name, "found_inf", a.found_inf, DType::f32, {}));
  return {};
}
std::span<const Kernel<AdamW>> AdamW::kernels() {
  static constexpr Kernel<AdamW> list[] = {
      {.name = "adamw.cpu.list",
       .launch = launch_all<AdamW>(Floating{}, run_adamw),
       .guarantee = [](const Descriptor& d) {
         return PrecisionGuarantee{.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
       },
       .refuse = [](const Descriptor& d, const PlanPreference&) {
         if (portable::optim_kernels.adam[d.dtype][d.grad_dtype]) return std::string();
         return text("no ", d.grad_dtype, " gradients for ", d.dtype, " params");
       }}};
  return list;
}

Status GlobalNorm::validate(const Descriptor& d) { return valid(d.dtype) ? Status() : invalid(name, "invalid dtype"); }
Status GlobalNorm::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_list(name, "x", a.x, a.x.size(), d.dtype, {}));
  BARACUDA_TRY(expect_elements(name, "norm", a.norm, state_dtype(d.dtype), {}));
  if (!a.found_inf.absent()) BARACUDA_TRY(expect_elements(name, "found_inf", a.found_inf, DType::f32, {}));
  return {};
}
std::span<const Kernel<GlobalNorm>> GlobalNorm::kernels() {
  static constexpr Kernel<GlobalNorm> list[] = {
      {.name = "global_norm.cpu.list",
       .launch = launch_all<GlobalNorm>(Floating{}, run_norm),
       .guarantee = [](const Descriptor&) { return PrecisionGuarantee{.math_precision = DType::f64, .accumulator = DType::f64}; },
       .carve = carve_norm}};
  return list;
}

Status ClipScale::validate(const Descriptor& d) {
  if (!valid(d.dtype)) return invalid(name, "invalid dtype");
  if (!(d.max_norm > 0) || !std::isfinite(d.max_norm)) return invalid(name, text("max_norm ", d.max_norm, " is not finite and > 0"));
  return {};
}
Status ClipScale::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_elements(name, "norm", a.norm, d.dtype, {}));
  return expect_elements(name, "scale", a.scale, d.dtype, {});
}
std::span<const Kernel<ClipScale>> ClipScale::kernels() {
  static constexpr Kernel<ClipScale> list[] = {
      {.name = "clip_scale.cpu.scalar",
       .launch = launch_all<ClipScale>(TypeList<float, double>{}, run_clip),
       .guarantee = [](const Descriptor&) {
         return PrecisionGuarantee{.math_precision = DType::f64, .accumulator = DType::f64, .batch_invariant = true};
       }}};
  return list;
}

}  // namespace baracuda
