#include "baracuda/ops/norm/group_norm.hpp"
#include "baracuda/ops/norm/group_norm_cpu.hpp"
#include "baracuda/ops/norm/standardized_detail.hpp"

namespace baracuda {
namespace {

using namespace norm_detail;

Status validate_common(std::string_view op, const GroupNormDescriptor& d) {
  BARACUDA_TRY(expect_shape(op, "shape", d.shape, 2));
  if (d.groups < 1 || channels_of(d) % d.groups != 0)
    return invalid(op, text("groups ", d.groups, " must be positive and divide the ", channels_of(d), " channels of ", d.shape));
  Shape statistics = {samples_of(d), d.groups};  // where there are no elements, groups may be any number
  if (!statistics.valid()) return invalid(op, text("groups ", d.groups, " of ", samples_of(d), " samples are more than int64 counts"));
  return validate_numbers(op, d);
}
Status expect_statistic(std::string_view op, std::string_view arg, const TensorView& v, const GroupNormDescriptor& d) {
  return norm_detail::expect_statistic(op, arg, v, d.dtype, {samples_of(d), d.groups});
}

// A tensor as [N, groups] rows, and how the elements of a row lie.
struct Groups {
  TensorView rows;
  RowLay lay;
  Groups(const GroupNormDescriptor& d, const TensorView& v) : rows(v) {
    const int64_t each = channels_of(d) / d.groups;
    rows.shape = {samples_of(d), d.groups}, rows.strides = {v.strides[0], v.strides[1] * each};
    Shape inside = {each};
    Strides steps = {v.strides[1]};
    for (int i = 2; i < d.shape.rank; ++i) inside.push_back(d.shape[i]), steps.push_back(v.strides[i]);
    lay = lay_of(inside, steps);
  }
  const RowLay* strided() const { return unless_dense(lay); }
};

void carve_forward(const GroupNormDescriptor& d, const void*, Carver& c) { carve_vectors(d, c, true); }

Status run_forward(const Launch<GroupNorm>& l) {
  const GroupNormDescriptor& d = l.desc;
  const GroupNorm::Args& a = l.args;
  if (d.shape.numel() == 0) {  // groups without elements still have statistics: the mean of nothing is NaN
    fill_nan(a.mean), fill_nan(a.rstd);
    return {};
  }
  Carver c = l.carver();
  const Vectors v = carve_vectors(d, c, true);
  const int64_t n = channels_of(d) / d.groups * span_of(d);
  prepare_vector(d.dtype, a.weight, 1, v.weight, channels_of(d), l.threads);
  prepare_vector(d.dtype, a.bias, -0.0, v.bias, channels_of(d), l.threads);
  const Groups x(d, a.x), y(d, a.y);
  const RowWalk<4> walk({samples_of(d), d.groups}, {&x.rows, &y.rows, &a.mean, &a.rstd});
  standardize_rows(a, d.dtype, d.eps, v, walk, {n, span_of(d), d.groups, x.strided(), y.strided()}, !y.strided() && past_channels(d, a.y, a.x.data), l.threads);
  return {};
}

struct Partials { double *dweight, *dbias; };
Partials carve_partials(const GroupNormDescriptor& d, Carver& c) {
  const int64_t count = d.shape.numel() ? samples_of(d) * channels_of(d) : 0;
  const auto take = [&](std::string_view what) { return static_cast<double*>(c.take_bytes(what, count, sizeof(double))); };
  Partials p;
  p.dweight = take("dweight of samples"), p.dbias = take("dbias of samples");
  return p;
}
void carve_backward(const GroupNormDescriptor& d, const void*, Carver& c) { carve_vectors(d, c, false), carve_partials(d, c); }

Status run_backward(const Launch<GroupNormBackward>& l) {
  const GroupNormDescriptor& d = l.desc;
  const GroupNormBackward::Args& a = l.args;
  Carver c = l.carver();
  const Vectors v = carve_vectors(d, c, false);
  const Partials partial = carve_partials(d, c);
  if (d.shape.numel() > 0) {
    const int64_t n = channels_of(d) / d.groups * span_of(d);
    prepare_vector(d.dtype, a.weight, 1, v.weight, channels_of(d), l.threads);
    const Groups dy(d, a.dy), x(d, a.x), dx(d, a.dx);
    const RowWalk<5> walk({samples_of(d), d.groups}, {&dy.rows, &x.rows, &a.mean, &a.rstd, &dx.rows});
    const auto kernel = BARACUDA_ISA_PICK_BF16(group_norm_kernels).backward[d.dtype];
    const bool past = !dx.strided() && past_channels(d, a.dx, a.x.data, a.dy.data);
    parallel_for(walk.rows, grain(n), l.threads, [&](int64_t begin, int64_t end, int) {
      walk.runs(begin, end, [&](const int64_t (&o)[5], int64_t first, int64_t rows) {
        kernel({at(a.dy, o[0]), at(a.x, o[1]), v.weight, at(a.mean, o[2]), at(a.rstd, o[3]), at(a.dx, o[4]), partial.dweight, partial.dbias,
                walk.pitch(0), walk.pitch(1), walk.pitch(2), walk.pitch(3), walk.pitch(4), rows, n, d.eps, past, first, span_of(d), d.groups,
                dy.strided(), x.strided(), dx.strided()});
      });
    });
  }
  const int64_t samples = d.shape.numel() ? samples_of(d) : 0;
  if (!a.dweight.absent()) fold_rows(DType::f64, partial.dweight, samples, channels_of(d), a.dweight, l.threads);
  if (!a.dbias.absent()) fold_rows(DType::f64, partial.dbias, samples, channels_of(d), a.dbias, l.threads);
  return {};
}

}  // namespace

Status GroupNorm::validate(const Descriptor& d) { return validate_common(name, d); }
Status GroupNorm::check(const Descriptor& d, const Args& a) { return check_forward<Descriptor>(name, d, a, expect_x, expect_vector, expect_statistic); }
std::span<const Kernel<GroupNorm>> GroupNorm::kernels() {
  static constexpr Kernel<GroupNorm> list[] = {{.name = "group_norm.cpu.group",
                                                .launch = launch_all<GroupNorm>(Floating{}, run_forward),
                                                .guarantee = guarantee,
                                                .carve = carve_forward}};
  return list;
}

Status GroupNormBackward::validate(const Descriptor& d) { return validate_common(name, d); }
Status GroupNormBackward::check(const Descriptor& d, const Args& a) { return check_backward<Descriptor>(name, d, a, expect_x, expect_vector, expect_statistic); }
std::span<const Kernel<GroupNormBackward>> GroupNormBackward::kernels() {
  static constexpr Kernel<GroupNormBackward> list[] = {{.name = "group_norm_backward.cpu.group",
                                                        .launch = launch_all<GroupNormBackward>(Floating{}, run_backward),
                                                        .guarantee = guarantee,
                                                        .carve = carve_backward}};
  return list;
}

}  // namespace baracuda
