#include "baracuda/ops/creation/creation.hpp"
#include <algorithm>
#include <cmath>
#include "baracuda/host/move.hpp"
#include "baracuda/host/past.hpp"
#include "baracuda/ops/copy/copy_elements.hpp"
#include "baracuda/ops/creation/creation_cpu.hpp"
#include "baracuda/ops/creation/creation_math.hpp"
#include "baracuda/ops/elementwise/map.hpp"

namespace baracuda {
namespace {

constexpr int64_t kBlock = 2048;
// fill(i, at, n) writes n elements from the i-th on, n <= kBlock, in row-major order, to dense memory.
template <class F> void make(const TensorView& y, int threads, F fill) {
  MapWalk walk;
  const MapOperand out = MapOperand::of(y);
  walk.init(y.shape, {}, {&out, 1}, false);
  const auto copy_past = BARACUDA_ISA_PICK(move_kernels).copy_past;
  const bool past = walk.past(0, 0);
  const int64_t most = past || walk.direct() ? kBlock : kMapBlock;
  parallel_for(walk.size(), kPiece, threads, [&](int64_t begin, int64_t end, int) {
    alignas(64) char block[kBlock * 8];
    for (int64_t i = begin, n; i < end; i += n) {
      n = walk.stretch(i, std::min(end - i, most));
      void* const at = past ? block : walk.fetch(0, i, n, block, false);
      fill(i, at, n);
      if (past) copy_past(walk.data[0] + i * walk.bytes[0], at, n * walk.bytes[0]);
      else walk.put(0, i, n, at);
    }
    if (past) past_fence();
  });
}
// The same of values in f64, cast to y's dtype.
template <class F> void make_from_f64(const TensorView& y, int threads, F fill) {
  const MapRun cast = y.dtype == DType::f64 ? nullptr : BARACUDA_ISA_PICK(cast_kernels).from[DType::f64][y.dtype];
  make(y, threads, [=](int64_t i, void* at, int64_t n) {
    alignas(64) double values[kBlock];
    if (!cast) return fill(i, static_cast<double*>(at), n);
    fill(i, values, n);
    const void* const in[] = {values};
    cast(nullptr, in, &at, n);
  });
}
// run(index, first, n): places i + first to i + first + n have this index, or with inner = 1 this one and those that follow it.
template <class R> void index_runs(const creation::ArangeAt& f, int64_t i, int64_t n, R run) {
  for (int64_t done = 0, count; done < n; done += count) {
    const int64_t line = (i + done) / f.inner, index = f.extent ? line % f.extent : line;
    count = f.inner > 1 ? f.inner - (i + done) % f.inner : f.extent ? f.extent - index : n;
    count = std::min(count, n - done);
    run(index, done, count);
  }
}
Status run_arange(const Launch<Arange>& l) {
  const creation::ArangeAt f(l.desc);
  if (is_floating(l.desc.dtype)) {
    make_from_f64(l.args.y, l.threads, [&, ramp = BARACUDA_ISA_PICK(creation_kernels).ramp](int64_t i, double* at, int64_t n) {
      index_runs(f, i, n, [&](int64_t index, int64_t first, int64_t count) {
        ramp(f.start, f.step, index, at + first, f.inner > 1 ? 1 : count);
        if (f.inner > 1) std::fill_n(at + first + 1, count - 1, at[first]);
      });
    });
    return {};
  }
  visit_dtype(join(TypeList<bool>{}, Integers{}), l.desc.dtype, 0, [&]<class T>() {
    make(l.args.y, l.threads, [&](int64_t i, void* at, int64_t n) {
      index_runs(f, i, n, [&](int64_t index, int64_t first, int64_t count) {
        const uint64_t step = f.inner > 1 ? 0 : uint64_t(int64_t(f.step)), from = uint64_t(int64_t(f.start)) + uint64_t(int64_t(f.step)) * uint64_t(index);
        T* const to = static_cast<T*>(at) + first;
        for (int64_t k = 0; k < count; ++k) to[k] = T(int64_t(from + step * uint64_t(k)));
      });
    });
    return 0;
  });
  return {};
}
Status run_linspace(const Launch<Linspace>& l) {
  const creation::LinspaceAt f(l.desc);
  make_from_f64(l.args.y, l.threads, [&, line = BARACUDA_ISA_PICK(creation_kernels).line](int64_t i, double* at, int64_t n) {
    if (!f.geometric && !f.power) return line(f, i, at, n);
    for (int64_t k = 0; k < n; ++k) at[k] = f.value(i + k);
  });
  return {};
}
Status run_eye(const Launch<Eye>& l) {
  const creation::EyeAt f(l.desc, bits_of(l.desc.dtype, 1).a);
  with_element(l.desc.dtype, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>)
      make(l.args.y, l.threads, [&](int64_t i, void* at, int64_t n) {
        for (int64_t done = 0, count; done < n; done += count) {
          const int64_t row = (i + done) / f.columns, column = i + done - row * f.columns;
          count = std::min(f.columns - column, n - done);
          const creation::Columns ones = creation::ones_of(f.kind, row % f.rows, f.diagonal, f.columns);
          const int64_t from = std::clamp(ones.from - column, int64_t(0), count), to = std::clamp(ones.to - column, from, count);
          T* const y = static_cast<T*>(at) + done;
          std::fill(y, y + from, T(0)), std::fill(y + from, y + to, T(f.one)), std::fill(y + to, y + count, T(0));
        }
      });
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
