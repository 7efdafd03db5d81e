#include "baracuda/ops/gated/gated.hpp"
#include "baracuda/host/past.hpp"
#include "baracuda/host/strided.hpp"
#include "baracuda/ops/gated/gated_cpu.hpp"

namespace baracuda {
namespace {

Status validate_common(std::string_view op, const GatedDescriptor& d) {
  if (!valid_enum(d.kind)) return invalid(op, text("kind ", int(d.kind), " is not a kind"));
  return expect_shape(op, "shape", d.shape);
}
PrecisionGuarantee guarantee(const GatedDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}
template <int kIn, int kOut, class Table>
void run_pieces(const GatedDescriptor& d, const TensorView* const (&in)[kIn], const TensorView* const (&out)[kOut], Table table, int threads) {
  const Strides* strides[kIn + kOut];
  for (int k = 0; k < kIn; ++k) strides[k] = &in[k]->strides;
  for (int k = 0; k < kOut; ++k) strides[kIn + k] = out[k]->absent() ? &in[0]->strides : &out[k]->strides;
  const auto walk = walk_of<kIn + kOut>(d.shape, strides);
  const int64_t size = int64_t(byte_size(d.dtype));
  const auto kernel = table[d.dtype];
  bool past = true;
  for (const TensorView* y : out)
    for (const TensorView* x : in) past = past && (y->absent() || past_caches(*y, x->data));
  for_each_piece(walk, threads, [&](const int64_t (&at)[kIn + kOut], int64_t, int64_t n) {
    GatedPiece p{};
    p.n = n, p.past = past;
    for (int k = 0; k < kIn; ++k) p.in[k] = in[k]->template as<char>() + at[k] * size, p.in_stride[k] = walk.inner_stride(k);
    for (int k = 0; k < kOut; ++k)
      if (!out[k]->absent()) p.out[k] = out[k]->template as<char>() + at[kIn + k] * size, p.out_stride[k] = walk.inner_stride(kIn + k);
    kernel(p);
  });
}
Status run_forward(const Launch<Gated>& l) {
  run_pieces<2, 1>(l.desc, {&l.args.gate, &l.args.up}, {&l.args.y}, BARACUDA_ISA_PICK(gated_kernels).forward[int(l.desc.kind)], l.threads);
  return {};
}
Status run_backward(const Launch<GatedBackward>& l) {
  run_pieces<3, 2>(l.desc, {&l.args.dy, &l.args.gate, &l.args.up}, {&l.args.dgate, &l.args.dup},
                   BARACUDA_ISA_PICK(gated_kernels).backward[int(l.desc.kind)], l.threads);
  return {};
}

}  // namespace

Status Gated::validate(const Descriptor& d) { return validate_common(name, d); }
Status Gated::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "gate", a.gate, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "up", a.up, d.dtype, d.shape));
  return expect(name, "y", a.y, d.dtype, d.shape);
}
std::span<const Kernel<Gated>> Gated::kernels() {
  static constexpr Kernel<Gated> list[] = {
      {.name = "gated.cpu.map", .launch = launch_all<Gated>(Floating{}, run_forward), .guarantee = guarantee}};
  return list;
}

Status GatedBackward::validate(const Descriptor& d) { return validate_common(name, d); }
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
      {.name = "gated_backward.cpu.map", .launch = launch_all<GatedBackward>(Floating{}, run_backward), .guarantee = guarantee}};
  return list;
}

}  // namespace baracuda
