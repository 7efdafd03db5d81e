#include "baracuda/ops/norm/norm.hpp"
#include <cstring>
#include "baracuda/ops/norm/norm_detail.hpp"

namespace baracuda {
namespace {

using namespace norm_detail;

Status validate_common(std::string_view op, const RmsNormDescriptor& d) {
  BARACUDA_TRY(expect_shape(op, "shape", d.shape, 1));
  if (!valid_enum(d.weight)) return invalid(op, text("weight ", int(d.weight), " is not a weight mode"));
  if (!valid_enum(d.cast)) return invalid(op, text("cast ", int(d.cast), " is not a cast order"));
  return validate_numbers(op, d);
}
Shape weight_shape(const RmsNormDescriptor& d) { return {d.shape.last()}; }

Status expect_rows(std::string_view op, std::string_view arg, const TensorView& v, const RmsNormDescriptor& d) {
  if (v.absent()) return {};
  BARACUDA_TRY(expect(op, arg, v, d.dtype, d.shape));
  return expect_dense_rows(op, arg, v);
}
Status check_weight(std::string_view op, const TensorView& weight, const RmsNormDescriptor& d) {
  if (weight.absent() != (d.weight == NormWeight::none))
    return invalid(op, text("weight is ", weight.absent() ? "missing" : "given", ", the descriptor says weight = ", enum_name(d.weight)));
  return weight.absent() ? Status() : expect(op, "weight", weight, weight_dtype(d), weight_shape(d));
}
Status check_rstd(std::string_view op, const TensorView& rstd, const RmsNormDescriptor& d) {
  return expect_statistic(op, "rstd", rstd, d.dtype, outer_axes(d.shape));
}

void* carve_weight(const RmsNormDescriptor& d, Carver& c) {
  return c.take_bytes("weight", d.shape.last(), byte_size(accumulator(d.dtype)));
}

// --- forward
void carve_forward(const RmsNormDescriptor& d, const void*, Carver& c) { carve_weight(d, c); }
Status run_forward(const Launch<RmsNorm>& l) {
  const RmsNormDescriptor& d = l.desc;
  const RmsNorm::Args& a = l.args;
  const int64_t n = d.shape.last();
  if (d.shape.numel() == 0) {  // rows without elements still have an rstd: the mean of nothing is NaN
    if (n == 0) fill_nan(a.rstd);
    return {};
  }
  Carver c = l.carver();
  void* weight = carve_weight(d, c);
  prepare_weight(d.dtype, a.weight, d.weight, weight, d.shape.last(), l.threads);
  const RowWalk<5> walk(outer_axes(d.shape), {&a.x, &a.residual, &a.y, &a.residual_out, &a.rstd});
  const auto kernel = BARACUDA_ISA_PICK_BF16(norm_kernels).forward[d.dtype];
  const bool past = a.y.data != a.x.data && (a.residual.absent() || !a.residual_out.absent()) && past_caches(a.y, a.residual.data);
  parallel_for(walk.rows, grain(n), l.threads, [&](int64_t begin, int64_t end, int) {
    walk.runs(begin, end, [&](const int64_t (&o)[5], int64_t, int64_t rows) {
      kernel({at(a.x, o[0]), at(a.residual, o[1]), at(a.y, o[2]), at(a.residual_out, o[3]), at(a.rstd, o[4]), weight, walk.pitch(0),
              walk.pitch(1), walk.pitch(2), walk.pitch(3), walk.pitch(4), rows, n, d.eps, d.cast == NormCast::before_weight, past});
    });
  });
  return {};
}

// --- backward: a block of rows sums its part of dweight in the accumulator type.
int64_t block_count(const RmsNormDescriptor& d) { return d.shape.numel() ? norm_detail::block_count(d.shape.rows(), d.shape.last()) : 0; }
void* carve_partials(const RmsNormDescriptor& d, Carver& c) {
  return c.take_bytes("dweight partial sums", d.weight == NormWeight::none ? 0 : block_count(d) * d.shape.last(), byte_size(accumulator(d.dtype)));
}
void carve_backward(const RmsNormDescriptor& d, const void*, Carver& c) { carve_weight(d, c), carve_partials(d, c); }

Status run_backward(const Launch<RmsNormBackward>& l) {
  const RmsNormDescriptor& d = l.desc;
  const RmsNormBackward::Args& a = l.args;
  const NormKernels& kernels = BARACUDA_ISA_PICK_BF16(norm_kernels);
  Carver c = l.carver();
  void* weight = carve_weight(d, c);
  const bool wanted = !a.dweight.absent();
  char* partial = wanted ? static_cast<char*>(carve_partials(d, c)) : nullptr;
  const int64_t n = d.shape.last(), block = block_rows(d.shape.rows(), n), blocks = block_count(d);
  const int64_t row_bytes = n * int64_t(byte_size(accumulator(d.dtype)));
  if (blocks) {
    prepare_weight(d.dtype, a.weight, d.weight, weight, d.shape.last(), l.threads);
    const bool past = a.dx.data != a.dy.data && a.dx.data != a.dresidual_out.data && past_caches(a.dx, a.x.data);
    const RowWalk<5> walk(outer_axes(d.shape), {&a.dy, &a.x, &a.dresidual_out, &a.rstd, &a.dx});
    parallel_for(walk.rows, block, l.threads, [&](int64_t begin, int64_t end, int) {
      void* dweight = wanted ? partial + begin / block * row_bytes : nullptr;
      if (wanted) std::memset(dweight, 0, size_t(row_bytes));
      walk.runs(begin, end, [&](const int64_t (&o)[5], int64_t, int64_t rows) {
        kernels.backward[d.dtype]({at(a.dy, o[0]), at(a.x, o[1]), at(a.dresidual_out, o[2]), at(a.rstd, o[3]), at(a.dx, o[4]), dweight, weight,
                                   walk.pitch(0), walk.pitch(1), walk.pitch(2), walk.pitch(3), walk.pitch(4), rows, n, d.eps,
                                   d.cast == NormCast::before_weight, past});
      });
    });
  }
  if (wanted) fold_rows(accumulator(d.dtype), partial, blocks, n, a.dweight, l.threads);
  return {};
}

}  // namespace

Status RmsNorm::validate(const Descriptor& d) { return validate_common(name, d); }
Status RmsNorm::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_rows(name, "x", a.x, d));
  BARACUDA_TRY(check_weight(name, a.weight, d));
  BARACUDA_TRY(expect_rows(name, "residual", a.residual, d));
  BARACUDA_TRY(expect_rows(name, "y", a.y, d));
  BARACUDA_TRY(expect_rows(name, "residual_out", a.residual_out, d));
  if (a.residual.absent() && !a.residual_out.absent()) return invalid(name, "residual_out is given, but no residual");
  return check_rstd(name, a.rstd, d);
}
std::span<const Kernel<RmsNorm>> RmsNorm::kernels() {
  static constexpr Kernel<RmsNorm> list[] = {{.name = "rms_norm.cpu.row",
                                              .launch = launch_all<RmsNorm>(Floating{}, run_forward),
                                              .guarantee = guarantee,
                                              .carve = carve_forward}};
  return list;
}

Status RmsNormBackward::validate(const Descriptor& d) { return validate_common(name, d); }
Status RmsNormBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_rows(name, "dy", a.dy, d));
  BARACUDA_TRY(expect_rows(name, "x", a.x, d));
  BARACUDA_TRY(check_weight(name, a.weight, d));
  BARACUDA_TRY(check_rstd(name, a.rstd, d));
  BARACUDA_TRY(expect_rows(name, "dresidual_out", a.dresidual_out, d));
  BARACUDA_TRY(expect_rows(name, "dx", a.dx, d));
  if (a.dweight.absent()) return {};
  if (d.weight == NormWeight::none) return invalid(name, "dweight is given, the descriptor says weight = none");
  return expect(name, "dweight", a.dweight, weight_dtype(d), weight_shape(d));
}
std::span<const Kernel<RmsNormBackward>> RmsNormBackward::kernels() {
  static constexpr Kernel<RmsNormBackward> list[] = {{.name = "rms_norm_backward.cpu.row",
                                                      .launch = launch_all<RmsNormBackward>(Floating{}, run_backward),
                                                      .guarantee = guarantee,
                                                      .carve = carve_backward}};
  return list;
}

}  // namespace baracuda
