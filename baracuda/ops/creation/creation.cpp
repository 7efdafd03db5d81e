#include "baracuda/ops/creation/creation.hpp"
#include <cmath>
#include "baracuda/ops/copy/copy_elements.hpp"
#include "baracuda/ops/creation/creation_math.hpp"
#include "baracuda/ops/elementwise/map.hpp"

namespace baracuda {
namespace {

// y[i] = value(i as T), i in row-major order; value<T>(i) gives the element.
template <class T, class F> void make(const TensorView& y, int threads, F value) {
  MapWalk walk;
  const MapOperand out = MapOperand::of(y);
  walk.init(y.shape, {}, {&out, 1}, false);
  parallel_for(walk.size(), kPiece, threads, [&](int64_t begin, int64_t end, int) {
    alignas(64) T block[kMapBlock];
    for (int64_t i = begin, n; i < end; i += n) {
      n = walk.stretch(i, end - i < kMapBlock ? end - i : kMapBlock);
      T* at = static_cast<T*>(walk.fetch(0, i, n, block, false));
      for (int64_t k = 0; k < n; ++k) at[k] = value(i + k);
      walk.put(0, i, n, at);
    }
  });
}
template <class F> void with_type(DType t, F f) {
  visit_dtype(Castable{}, t, 0, [&]<class T>() {
    f.template operator()<T>();
    return 0;
  });
}
Status run_arange(const Launch<Arange>& l) {
  const creation::ArangeAt f(l.desc);
  with_type(l.desc.dtype, [&]<class T>() { make<T>(l.args.y, l.threads, [&](int64_t i) { return f.at<T>(i); }); });
  return {};
}
Status run_linspace(const Launch<Linspace>& l) {
  const creation::LinspaceAt f(l.desc);
  with_type(l.desc.dtype, [&]<class T>() { make<T>(l.args.y, l.threads, [&](int64_t i) { return f.at<T>(i); }); });
  return {};
}
Status run_eye(const Launch<Eye>& l) {
  const creation::EyeAt f(l.desc, bits_of(l.desc.dtype, 1).a);
  with_element(l.desc.dtype, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>) make<T>(l.args.y, l.threads, [&](int64_t i) { return f.at<T>(i); });
  });
  return {};
}
Status run_triangle_indices(const Launch<TriangleIndices>& l) {
  const creation::Triangle t(l.desc);
  const TensorView& y = l.args.y;
  auto fill = [&]<class T>(T* at) {
    parallel_for(y.shape[1], kPiece, l.threads, [&](int64_t begin, int64_t end, int) {
      int64_t row = t.row_of(begin);
      for (int64_t i = begin; i < end; ++row) {
        const __int128 before = t.places_before(row), n = t.places_before(row + 1) - before;
        const int64_t skip = int64_t(i - before), first = t.first_column(row);
        for (int64_t j = skip; j < int64_t(n) && i < end; ++i, ++j) at[i * y.strides[1]] = T(row), at[y.strides[0] + i * y.strides[1]] = T(first + j);
      }
    });
  };
  l.desc.dtype == DType::i64 ? fill(y.as<int64_t>()) : fill(y.as<int32_t>());
  return {};
}
template <class D> Status validate_base(std::string_view op, const D& d, int min_rank) {
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  return expect_shape(op, "shape", d.shape, min_rank);
}

}  // namespace

Status Arange::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_base(name, d, 1));
  if (d.axis < -d.shape.rank || d.axis >= d.shape.rank) return invalid(name, text("axis ", d.axis, " is not an axis of shape ", d.shape));
  if (!std::isfinite(d.start) || !std::isfinite(d.step)) return invalid(name, text("start ", d.start, " and step ", d.step, " must be finite"));
  if (is_floating(d.dtype)) return {};
  if (std::trunc(d.start) != d.start || std::trunc(d.step) != d.step || std::fabs(d.start) >= 0x1p63 || std::fabs(d.step) >= 0x1p63)
    return invalid(name, text("start ", d.start, " and step ", d.step, " must be integers of 64 bits for ", d.dtype));
  return {};
}
Status Arange::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<Arange>> Arange::kernels() {
  static constexpr Kernel<Arange> list[] = {{.name = "arange.cpu.loop", .launch = launch_all<Arange>(Castable{}, run_arange), .guarantee = exact<Arange>}};
  return list;
}
Result<int64_t> arange_size(double start, double end, double step) {
  const double n = std::ceil((end - start) / step);
  if (!std::isfinite(start) || !std::isfinite(end) || !std::isfinite(step)) return invalid(Arange::name, text("start ", start, ", end ", end, " and step ", step, " must be finite"));
  if (step == 0) return invalid(Arange::name, "step is 0");
  if (start != end && (end > start) != (step > 0)) return invalid(Arange::name, text("step ", step, " does not lead from start ", start, " to end ", end));
  if (n >= 0x1p63) return invalid(Arange::name, text("start ", start, ", end ", end, " and step ", step, " give more than 2^63 - 1 values"));
  return int64_t(n);
}

Status Linspace::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_base(name, d, 1));
  if (d.shape.rank != 1) return invalid(name, text("shape ", d.shape, " has rank ", d.shape.rank, ", expected 1"));
  if (!std::isfinite(d.start) || !std::isfinite(d.end)) return invalid(name, text("start ", d.start, " and end ", d.end, " must be finite"));
  if (d.geometric && (d.start == 0 || d.end == 0 || std::signbit(d.start) != std::signbit(d.end)))
    return invalid(name, text("geometric from start ", d.start, " to end ", d.end, ": they must not be 0 and have one sign"));
  if (d.geometric && d.base) return invalid(name, text("geometric takes no base, it is ", *d.base));
  if (d.base && !(*d.base > 0 && std::isfinite(*d.base))) return invalid(name, text("base ", *d.base, " is not finite and > 0"));
  return {};
}
Status Linspace::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<Linspace>> Linspace::kernels() {
  static constexpr Kernel<Linspace> list[] = {{.name = "linspace.cpu.loop", .launch = launch_all<Linspace>(Castable{}, run_linspace), .guarantee = exact<Linspace>}};
  return list;
}

Status Eye::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_base(name, d, 2));
  if (!valid_enum(d.kind)) return invalid(name, text("kind ", int(d.kind), " is not a kind"));
  return {};
}
Status Eye::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<Eye>> Eye::kernels() {
  static constexpr Kernel<Eye> list[] = {{.name = "eye.cpu.loop", .launch = launch_all<Eye>(Castable{}, run_eye), .guarantee = exact<Eye>}};
  return list;
}

Shape TriangleIndicesDescriptor::y_shape() const { return {2, int64_t(creation::Triangle(*this).places_before(rows))}; }
Status TriangleIndices::validate(const Descriptor& d) {
  if (d.dtype != DType::i32 && d.dtype != DType::i64) return invalid(name, text("dtype ", d.dtype, " must be i32 or i64"));
  if (!valid_enum(d.kind)) return invalid(name, text("kind ", int(d.kind), " is not a kind"));
  if (d.rows < 0 || d.columns < 0) return invalid(name, text("rows ", d.rows, " and columns ", d.columns, " must be >= 0"));
  if (d.dtype == DType::i32 && (d.rows - 1 > INT32_MAX || d.columns - 1 > INT32_MAX))
    return invalid(name, text("i32 does not hold the indices of ", d.rows, " rows and ", d.columns, " columns"));
  const __int128 places = creation::Triangle(d).places_before(d.rows);
  if (places > INT64_MAX / 32) return invalid(name, text("the places of ", d.rows, " rows and ", d.columns, " columns are too many"));
  return {};
}
Status TriangleIndices::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.y_shape()); }
std::span<const Kernel<TriangleIndices>> TriangleIndices::kernels() {
  static constexpr Kernel<TriangleIndices> list[] = {{.name = "triangle_indices.cpu.rows",
                                                      .launch = launch_all<TriangleIndices>(TypeList<int32_t, int64_t>{}, run_triangle_indices),
                                                      .guarantee = exact<TriangleIndices>}};
  return list;
}

}  // namespace baracuda
