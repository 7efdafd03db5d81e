#include "baracuda/ops/gated/gated.hpp"
#include <cmath>
#include <vector>
#include "baracuda/host/gathers.hpp"
#include "baracuda/host/half_table.hpp"
#include "baracuda/host/past.hpp"
#include "baracuda/host/strided.hpp"
#include "baracuda/math/half.hpp"
#include "baracuda/ops/gated/gated_cpu.hpp"

namespace baracuda {
namespace {

PrecisionGuarantee guarantee(const GatedDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}
constexpr int64_t kPastPiece = 256 << 10;  // bytes: a piece waits for its last lines to leave, and its streams begin anew

template <int kIn, int kOut, class Table>
void run_pieces(const GatedDescriptor& d, const TensorView* const (&in)[kIn], const TensorView* const (&out)[kOut], const Table& kernels,
                const void* table, int threads) {
  const Strides* strides[kIn + kOut];
  for (int k = 0; k < kIn; ++k) strides[k] = &in[k]->strides;
  for (int k = 0; k < kOut; ++k) strides[kIn + k] = out[k]->absent() ? &in[0]->strides : &out[k]->strides;
  const auto walk = walk_of<kIn + kOut>(d.shape, strides);
  const int64_t size = int64_t(byte_size(d.dtype));
  const auto kernel = kernels[d.dtype];
  bool past = true;
  for (const TensorView* y : out)
    for (const TensorView* x : in) past = past && (y->absent() || past_caches(*y, x->data));
  for_each_piece(walk, threads, [&](const int64_t (&at)[kIn + kOut], int64_t, int64_t n) {
    GatedPiece p{};
    p.n = n, p.past = past, p.table = table, p.alpha = d.alpha_or_default(), p.limit = d.limit_or_default();
    for (int k = 0; k < kIn; ++k) p.in[k] = in[k]->template as<char>() + at[k] * size, p.in_stride[k] = walk.inner_stride(k);
    for (int k = 0; k < kOut; ++k)
      if (!out[k]->absent()) p.out[k] = out[k]->template as<char>() + at[kIn + k] * size, p.out_stride[k] = walk.inner_stride(kIn + k);
    kernel(p);
  }, past ? kPastPiece / size : kPiece);
}
Status run_forward(const Launch<Gated>& l) {
  const GatedKernels& k = BARACUDA_ISA_PICK(gated_kernels);
  run_pieces<2, 1>(l.desc, {&l.args.gate, &l.args.up}, {&l.args.y}, l.state ? BARACUDA_ISA_PICK_BF16(gated_table_kernels).by[has_fast_gathers()].forward : k.forward[int(l.desc.kind)], l.state, l.threads);
  return {};
}
Status run_backward(const Launch<GatedBackward>& l) {
  const GatedKernels& k = BARACUDA_ISA_PICK(gated_kernels);
  run_pieces<3, 2>(l.desc, {&l.args.dy, &l.args.gate, &l.args.up}, {&l.args.dgate, &l.args.dup},
                   l.state ? BARACUDA_ISA_PICK_BF16(gated_table_kernels).by[has_fast_gathers()].backward : k.backward[int(l.desc.kind)], l.state, l.threads);
  return {};
}

// What a plan of a large half tensor keeps: act of all halves, or act and slope, by the loops of f32.
template <bool kGradient> Result<PlanState> prepare(const Stream&, const GatedDescriptor& d, const PlanPreference&) {
  if ((d.dtype != DType::f16 && d.dtype != DType::bf16) || d.kind == GatedKind::reglu || d.kind == GatedKind::swiglu_clamped || d.shape.numel() < kTableFrom) return PlanState();
  using E = std::conditional_t<kGradient, ActSlope, float>;
  return PlanState(half_table<E>({kGradient ? kGatedBackwardState : kGatedState, uint64_t(d.kind), uint64_t(d.dtype)}, [&](E* table) {
    std::vector<float> x(kHalves), ones(kHalves, 1), act(kHalves), slope(kHalves);
    for (size_t i = 0; i < x.size(); ++i) x[i] = d.dtype == DType::f16 ? to_float(f16{uint16_t(i)}) : to_float(bf16{uint16_t(i)});
    GatedPiece p{};
    p.n = kHalves;
    for (int64_t& s : p.in_stride) s = 1;
    for (int64_t& s : p.out_stride) s = 1;
    const GatedKernels& kernels = BARACUDA_ISA_PICK(gated_kernels);
    if constexpr (!kGradient) {
      p.in[0] = x.data(), p.in[1] = ones.data(), p.out[0] = table;
      kernels.forward[int(d.kind)][DType::f32](p);
    } else {
      p.in[0] = p.in[2] = ones.data(), p.in[1] = x.data(), p.out[0] = slope.data(), p.out[1] = act.data();
      kernels.backward[int(d.kind)][DType::f32](p);
      for (size_t i = 0; i < x.size(); ++i) table[i] = {act[i], slope[i]};
    }
  }));
}

}  // namespace

Status validate_gated(std::string_view op, const GatedDescriptor& d) {
  if (!valid_enum(d.kind)) return invalid(op, text("kind ", int(d.kind), " is not a kind"));
  if (d.kind != GatedKind::swiglu_clamped && (d.alpha || d.limit)) return invalid(op, text("kind ", enum_name(d.kind), " takes no ", d.alpha ? "alpha" : "limit"));
  if (d.alpha && !std::isfinite(*d.alpha)) return invalid(op, text("alpha is ", *d.alpha, ", it must be finite"));
  if (d.limit && !(*d.limit > 0)) return invalid(op, text("limit is ", *d.limit, ", it must be > 0"));
  return expect_shape(op, "shape", d.shape);
}
Status Gated::validate(const Descriptor& d) { return validate_gated(name, d); }
Status Gated::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "gate", a.gate, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "up", a.up, d.dtype, d.shape));
  return expect(name, "y", a.y, d.dtype, d.shape);
}
std::span<const Kernel<Gated>> Gated::kernels() {
  static constexpr Kernel<Gated> list[] = {
      {.name = "gated.cpu.map", .launch = launch_all<Gated>(Floating{}, run_forward), .guarantee = guarantee, .prepare = prepare<false>}};
  return list;
}

Status GatedBackward::validate(const Descriptor& d) { return validate_gated(name, d); }
Status GatedBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "dy", a.dy, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "gate", a.gate, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "up", a.up, d.dtype, d.shape));
  if (!a.dgate.absent()) BARACUDA_TRY(expect(name, "dgate", a.dgate, d.dtype, d.shape));
  if (!a.dup.absent()) BARACUDA_TRY(expect(name, "dup", a.dup, d.dtype, d.shape));
  return {};
}
std::span<const Kernel<GatedBackward>> GatedBackward::kernels() {
  static constexpr Kernel<GatedBackward> list[] = {
      {.name = "gated_backward.cpu.map", .launch = launch_all<GatedBackward>(Floating{}, run_backward), .guarantee = guarantee, .prepare = prepare<true>}};
  return list;
}

}  // namespace baracuda
