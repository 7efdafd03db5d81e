#include "baracuda/ops/copy/copy.hpp"
#include <algorithm>
#include <atomic>
#include "baracuda/host/past.hpp"
#include "baracuda/ops/copy/copy_elements.hpp"
#include "baracuda/ops/elementwise/map.hpp"

namespace baracuda {
namespace {

constexpr int64_t kPastPiece = 256 << 10;  // bytes: a piece waits for its last lines to leave, and its streams begin anew
Status run_cast(const Launch<Cast>& l) {
  const MapOperand x = MapOperand::of(l.args.x), y = MapOperand::of(l.args.y);
  const CastKernels& kernels = BARACUDA_ISA_PICK(cast_kernels);
  if (const MapRun past = l.desc.saturate ? nullptr : kernels.past[l.desc.dtype][l.desc.to]) {
    MapWalk walk;
    walk.init(l.desc.shape, {&x, 1}, {&y, 1});
    if (walk.dense[0] && walk.past(1, 1)) {
      parallel_for(walk.size(), kPastPiece / y.bytes, l.threads, [&](int64_t begin, int64_t end, int) {
        const void* from = walk.data[0] + begin * x.bytes;
        void* to = walk.data[1] + begin * y.bytes;
        past(nullptr, &from, &to, end - begin);
        past_fence();
      });
      return {};
    }
  }
  run_map(l.desc.shape, {&x, 1}, {&y, 1}, (l.desc.saturate ? kernels.saturated : kernels.from)[l.desc.dtype][l.desc.to], nullptr, l.threads);
  return {};
}

using Scalable = decltype(join(TypeList<f16, bf16, float>{}, Float8{}));
constexpr int64_t kScaledStep = 512;  // f32 elements in L1 between the two casts
Status run_cast_scaled(const Launch<CastScaled>& l) {
  const auto& [x, scale, y, amax] = l.args;
  const CastKernels& k = BARACUDA_ISA_PICK(cast_kernels);
  const MapRun widen = k.from[x.dtype][DType::f32], narrow = (l.desc.saturate && y.dtype != DType::f32 ? k.saturated : k.from)[DType::f32][y.dtype];
  const MapOperand in = MapOperand::of(x), out = MapOperand::of(y);
  const float factor = *scale.as<float>();
  std::atomic<uint32_t> most = 0;  // the largest of all is the same whoever comes first
  if (y.numel() > 0) {
    MapWalk walk;
    walk.init(l.desc.shape, {&in, 1}, {&out, 1});
    const int64_t step = walk.direct() ? kScaledStep : kMapBlock;
    parallel_for(walk.size(), kPiece, l.threads, [&](int64_t begin, int64_t end, int) {
      alignas(64) float stage[kScaledStep];
      alignas(64) char blocks[2][kMapBlock * 4];
      uint32_t largest = 0;
      for (int64_t i = begin, n; i < end; i += n) {
        n = walk.stretch(i, std::min(step, end - i));
        const void* from = walk.fetch(0, i, n, blocks[0], true);
        void *wide = stage, *to = walk.fetch(1, i, n, blocks[1], false);
        widen(nullptr, &from, &wide, n);
        largest = std::max(largest, k.scale(stage, factor, n));
        const void* scaled = stage;
        narrow(nullptr, &scaled, &to, n);
        walk.put(1, i, n, to);
      }
      for (uint32_t seen = most.load(); seen < largest && !most.compare_exchange_weak(seen, largest);) {}
    });
  }
  if (!amax.absent()) *amax.as<float>() = most > 0x7f800000 ? __builtin_nanf("") : __builtin_bit_cast(float, most.load());
  return {};
}

Status run_copy(const Launch<Copy>& l) {
  copy_elements(l.args.x, l.args.y, l.threads);
  return {};
}
Status run_fill(const Launch<Fill>& l) {
  fill_elements(l.args.y, l.args.value, l.threads);
  return {};
}

PrecisionGuarantee guarantee_scaled(const CastScaledDescriptor&) {
  return {.math_precision = DType::f32, .accumulator = DType::f32};  // amax is of all rows
}

}  // namespace

Status Cast::validate(const Descriptor& d) {
  if (!valid(d.dtype) || !valid(d.to)) return invalid(name, "invalid dtype");
  if (d.saturate && !dtypes(Saturable{}).has(d.to))
    return invalid(name, text("saturate is for casts to ", to_string(dtypes(Saturable{})), ", to is ", d.to));
  return expect_shape(name, "shape", d.shape);
}
Status Cast::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  return expect(name, "y", a.y, d.to, d.shape);
}
std::span<const Kernel<Cast>> Cast::kernels() {
  static constexpr Kernel<Cast> list[] = {{.name = "cast.cpu.map",
                                           .launch = launch_all<Cast>(CastableOrFloat8{}, run_cast),
                                           .guarantee = exact<Cast>,
                                           .refuse = [](const CastDescriptor& d, const PlanPreference&) {
                                             return dtypes(CastableOrFloat8{}).has(d.to) ? std::string() : text("no cast to ", d.to);
                                           }}};
  return list;
}

Status CastScaled::validate(const Descriptor& d) {
  if (!valid(d.dtype) || !valid(d.to)) return invalid(name, "invalid dtype");
  return expect_shape(name, "shape", d.shape);
}
Status CastScaled::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  BARACUDA_TRY(expect_elements(name, "scale", a.scale, DType::f32, {}));
  BARACUDA_TRY(expect(name, "y", a.y, d.to, d.shape));
  return a.amax.absent() ? Status() : expect_elements(name, "amax", a.amax, DType::f32, {});
}
std::span<const Kernel<CastScaled>> CastScaled::kernels() {
  static constexpr Kernel<CastScaled> list[] = {{.name = "cast_scaled.cpu.map",
                                                 .launch = launch_all<CastScaled>(Scalable{}, run_cast_scaled),
                                                 .guarantee = guarantee_scaled,
                                                 .refuse = [](const CastScaledDescriptor& d, const PlanPreference&) {
                                                   return dtypes(Scalable{}).has(d.to) ? std::string() : text("no cast to ", d.to);
                                                 }}};
  return list;
}

Status Copy::validate(const Descriptor& d) {
  if (!valid(d.dtype)) return invalid(name, "invalid dtype");
  return expect_shape(name, "shape", d.shape);
}
Status Copy::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  return expect(name, "y", a.y, d.dtype, d.shape);
}
std::span<const Kernel<Copy>> Copy::kernels() {
  static constexpr Kernel<Copy> list[] = {{.name = "copy.cpu.strided", .launch = launch_whole_bytes<Copy>(run_copy), .guarantee = exact<Copy>}};
  return list;
}

Status Fill::validate(const Descriptor& d) {
  if (!valid(d.dtype)) return invalid(name, "invalid dtype");
  return expect_shape(name, "shape", d.shape);
}
Status Fill::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<Fill>> Fill::kernels() {
  static constexpr Kernel<Fill> list[] = {{.name = "fill.cpu.map", .launch = launch_all<Fill>(CastableOrFloat8{}, run_fill), .guarantee = exact<Fill>}};
  return list;
}

}  // namespace baracuda
