#include "baracuda/ops/norm/group_norm.hpp"
#include "baracuda/host/past.hpp"
#include "baracuda/ops/norm/group_norm_cpu.hpp"
#include "baracuda/ops/norm/layer_norm_cpu.hpp"
#include "baracuda/ops/norm/norm_detail.hpp"

namespace baracuda {
namespace {

using namespace norm_detail;

int64_t channels_of(const GroupNormDescriptor& d) { return d.shape[1]; }
int64_t samples_of(const GroupNormDescriptor& d) { return d.shape[0]; }
int64_t span_of(const GroupNormDescriptor& d) { return d.shape.product(2, d.shape.rank); }

Status validate_common(std::string_view op, const GroupNormDescriptor& d) {
  BARACUDA_TRY(expect_shape(op, "shape", d.shape, 2));
  if (d.groups < 1 || channels_of(d) % d.groups != 0)
    return invalid(op, text("groups ", d.groups, " must be positive and divide the ", channels_of(d), " channels of ", d.shape));
  Shape statistics = {samples_of(d), d.groups};  // where there are no elements, groups may be any number
  if (!statistics.valid()) return invalid(op, text("groups ", d.groups, " of ", samples_of(d), " samples are more than int64 counts"));
  return validate_numbers(op, d);
}
Status expect_x(std::string_view op, std::string_view arg, const TensorView& v, const GroupNormDescriptor& d) {
  return expect(op, arg, v, d.dtype, d.shape);
}
Status expect_vector(std::string_view op, std::string_view arg, const TensorView& v, const GroupNormDescriptor& d) {
  return v.absent() ? Status() : expect(op, arg, v, weight_dtype(d), {channels_of(d)});
}
Status expect_statistic(std::string_view op, std::string_view arg, const TensorView& v, const GroupNormDescriptor& d) {
  return norm_detail::expect_statistic(op, arg, v, d.dtype, {samples_of(d), d.groups});
}

// A tensor as [N, groups] rows, and how the elements of a row lie.
struct Groups {
  TensorView rows;
  RowLay lay;
  bool dense;
  Groups(const GroupNormDescriptor& d, const TensorView& v) : rows(v) {
    const int64_t each = channels_of(d) / d.groups;
    rows.shape = {samples_of(d), d.groups}, rows.strides = {v.strides[0], v.strides[1] * each};
    Shape inside = {each};
    Strides steps = {v.strides[1]};
    for (int i = 2; i < d.shape.rank; ++i) inside.push_back(d.shape[i]), steps.push_back(v.strides[i]);
    const Strided<1> walk = walk_of<1>(inside, {&steps});
    lay.rank = walk.rank;
    std::copy_n(walk.extent, walk.rank, lay.extent), std::copy_n(walk.stride[0], walk.rank, lay.stride);
    dense = lay.rank == 1 && (lay.extent[0] == 1 || lay.stride[0] == 1);
  }
  const RowLay* strided() const { return dense ? nullptr : &lay; }
};
// Whether `out` is written past the caches: it is large, not what is read, and its channels begin at multiples of 64 bytes.
bool past(const GroupNormDescriptor& d, const Groups& out, std::initializer_list<const void*> read) {
  const TensorView& v = out.rows;
  const int64_t unit = 64 / int64_t(byte_size(v.dtype));
  return out.dense && d.shape.numel() >= kPastCaches / int64_t(byte_size(v.dtype)) && reinterpret_cast<uintptr_t>(v.data) % 64 == 0 &&
         span_of(d) % unit == 0 && v.strides[0] % unit == 0 && v.strides[1] % unit == 0 &&
         std::find(read.begin(), read.end(), v.data) == read.end();
}

struct Vectors { void *weight, *bias; };
Vectors carve_vectors(const GroupNormDescriptor& d, Carver& c, bool bias) {
  const auto take = [&](std::string_view what) { return c.take_bytes(what, channels_of(d), byte_size(accumulator(d.dtype))); };
  Vectors v{take("weight"), nullptr};
  if (bias) v.bias = take("bias");
  return v;
}
void carve_forward(const GroupNormDescriptor& d, const void*, Carver& c) { carve_vectors(d, c, true); }

// Rows that a worker takes at a time.
int64_t grain(int64_t n) { return n < kPiece ? kPiece / n : 1; }

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
  const auto kernel = BARACUDA_ISA_PICK(layer_norm_kernels).forward[d.dtype];
  const bool past_y = past(d, y, {a.x.data});
  parallel_for(walk.rows, grain(n), l.threads, [&](int64_t begin, int64_t end, int) {
    walk.runs(begin, end, [&](const int64_t (&o)[4], int64_t first, int64_t rows) {
      kernel({at(a.x, o[0]), v.weight, v.bias, at(a.y, o[1]), at(a.mean, o[2]), at(a.rstd, o[3]), walk.pitch(0), walk.pitch(1), walk.pitch(2),
              walk.pitch(3), rows, n, d.eps, past_y, first, span_of(d), d.groups, x.strided(), y.strided()});
    });
  });
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
    const auto kernel = BARACUDA_ISA_PICK(group_norm_kernels).backward[d.dtype];
    const bool past_dx = past(d, dx, {a.dy.data, a.x.data});
    parallel_for(walk.rows, grain(n), l.threads, [&](int64_t begin, int64_t end, int) {
      walk.runs(begin, end, [&](const int64_t (&o)[5], int64_t first, int64_t rows) {
        kernel({at(a.dy, o[0]), at(a.x, o[1]), v.weight, at(a.mean, o[2]), at(a.rstd, o[3]), at(a.dx, o[4]), partial.dweight, partial.dbias,
                walk.pitch(0), walk.pitch(1), walk.pitch(2), walk.pitch(3), walk.pitch(4), rows, n, d.eps, past_dx, first, span_of(d), d.groups,
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
Status GroupNorm::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_x(name, "x", a.x, d));
  BARACUDA_TRY(expect_vector(name, "weight", a.weight, d));
  BARACUDA_TRY(expect_vector(name, "bias", a.bias, d));
  BARACUDA_TRY(expect_x(name, "y", a.y, d));
  BARACUDA_TRY(expect_statistic(name, "mean", a.mean, d));
  return expect_statistic(name, "rstd", a.rstd, d);
}
std::span<const Kernel<GroupNorm>> GroupNorm::kernels() {
  static constexpr Kernel<GroupNorm> list[] = {{.name = "group_norm.cpu.group",
                                                .launch = launch_all<GroupNorm>(Floating{}, run_forward),
                                                .guarantee = guarantee,
                                                .carve = carve_forward}};
  return list;
}

Status GroupNormBackward::validate(const Descriptor& d) { return validate_common(name, d); }
Status GroupNormBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_x(name, "dy", a.dy, d));
  BARACUDA_TRY(expect_x(name, "x", a.x, d));
  BARACUDA_TRY(expect_vector(name, "weight", a.weight, d));
  BARACUDA_TRY(expect_statistic(name, "mean", a.mean, d));
  BARACUDA_TRY(expect_statistic(name, "rstd", a.rstd, d));
  BARACUDA_TRY(expect_both_or_none(name, a.mean, a.rstd));
  BARACUDA_TRY(expect_x(name, "dx", a.dx, d));
  BARACUDA_TRY(expect_vector(name, "dweight", a.dweight, d));
  return expect_vector(name, "dbias", a.dbias, d);
}
std::span<const Kernel<GroupNormBackward>> GroupNormBackward::kernels() {
  static constexpr Kernel<GroupNormBackward> list[] = {{.name = "group_norm_backward.cpu.group",
                                                        .launch = launch_all<GroupNormBackward>(Floating{}, run_backward),
                                                        .guarantee = guarantee,
                                                        .carve = carve_backward}};
  return list;
}

}  // namespace baracuda
