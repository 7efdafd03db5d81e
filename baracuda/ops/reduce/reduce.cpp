#include "baracuda/ops/reduce/reduce.hpp"
#include <algorithm>
#include <cmath>
#include "baracuda/math/element.hpp"
#include "baracuda/math/half.hpp"
#include "baracuda/ops/reduce/reduce_detail.hpp"
#include "baracuda/ops/reduce/reduce_math.hpp"

namespace baracuda {

ReduceKind plain_kind(const ReduceDescriptor& d) {
  if (d.kind != ReduceKind::norm_p) return d.kind;
  if (std::isinf(d.p)) return d.p > 0 ? ReduceKind::norm_inf : ReduceKind::norm_neg_inf;
  return d.p == 0 ? ReduceKind::norm0 : d.p == 1 ? ReduceKind::norm1 : d.p == 2 ? ReduceKind::norm2 : d.kind;
}
ReduceLoop loop_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::max: return ReduceLoop::max;
    case ReduceKind::min: return ReduceLoop::min;
    case ReduceKind::prod: return ReduceLoop::product;
    case ReduceKind::norm2: return ReduceLoop::squares;
    case ReduceKind::logsumexp: return ReduceLoop::exps;
    case ReduceKind::var: case ReduceKind::std: return ReduceLoop::moments;
    case ReduceKind::any: case ReduceKind::all: case ReduceKind::count_nonzero: case ReduceKind::norm0: return ReduceLoop::nonzero;
    case ReduceKind::norm1: return ReduceLoop::magnitudes;
    case ReduceKind::norm_inf: return ReduceLoop::largest;
    case ReduceKind::norm_neg_inf: return ReduceLoop::least;
    case ReduceKind::norm_p: return ReduceLoop::powers;
    case ReduceKind::nansum: case ReduceKind::nanmean: return ReduceLoop::numbers;
    default: return ReduceLoop::sum;
  }
}
bool has_mean(ReduceKind kind) { return kind == ReduceKind::var || kind == ReduceKind::std; }
unsigned mask_of(const ReduceDescriptor& d) {
  unsigned mask = 0;
  (void)reduce_axes(Reduce::name, d.shape, d.axes, mask);
  return mask;
}
PrecisionGuarantee reduce_guarantee(const ReduceDescriptor& d) {
  const ReduceLoop loop = loop_of(plain_kind(d));
  const bool wide = loop == ReduceLoop::squares || loop == ReduceLoop::moments || loop == ReduceLoop::product || loop == ReduceLoop::powers;
  const DType sums = is_floating(d.dtype) && wide ? DType::f64 : accumulator(d.dtype);
  return {.math_precision = sums, .accumulator = sums, .batch_invariant = true};
}

Status validate_reduce(std::string_view op, const ReduceDescriptor& d) {
  BARACUDA_TRY(expect_shape(op, "shape", d.shape));
  if (!valid_enum(d.kind)) return invalid(op, text("kind ", int(d.kind), " is not a kind"));
  if (!valid_enum(d.ties)) return invalid(op, text("ties ", int(d.ties), " is not a rule for ties"));
  unsigned mask;
  BARACUDA_TRY(reduce_axes(op, d.shape, d.axes, mask));
  if (std::isnan(d.p)) return invalid(op, "p must not be NaN");
  if (!std::isfinite(d.correction)) return invalid(op, text("correction ", d.correction, " must be finite"));
  const ReduceKind k = d.kind;
  const bool extremum = k == ReduceKind::max || k == ReduceKind::min, logical = k == ReduceKind::any || k == ReduceKind::all;
  const bool whole = extremum || logical || k == ReduceKind::sum || k == ReduceKind::prod || k == ReduceKind::count_nonzero;
  if (!valid(d.dtype)) return invalid(op, "dtype is invalid");
  if (!is_floating(d.dtype) && !whole) return invalid(op, text("kind ", enum_name(k), " takes floating dtypes, dtype is ", d.dtype, "; cast x first"));
  const ReduceKind plain = plain_kind(d);
  const bool none_of_none = extremum || plain == ReduceKind::norm_inf || plain == ReduceKind::norm_neg_inf || (plain == ReduceKind::norm_p && d.p < 0);
  if (none_of_none && row_length(d.shape, mask) == 0 && row_count(d.shape, mask) > 0)
    return invalid(op, text(enum_name(k), " of shape ", d.shape, " over axes ", d.axes, ": a row without elements has none"));
  if (const DType y = y_dtype(d); d.out_dtype) {
    if (!valid(y)) return invalid(op, "out_dtype is invalid");
    const bool integer = !is_floating(y) && y != DType::boolean && bit_size(y) >= 8;
    const bool fits = logical                                             ? y == DType::boolean || y == DType::u8
                      : k == ReduceKind::count_nonzero                    ? integer
                      : !is_floating(d.dtype)                             ? extremum ? y == d.dtype : integer
                      : is_floating(y) && bit_size(y) >= 16 && !kDTypeFacts[size_t(y)].complex && bit_size(y) <= bit_size(accumulator(d.dtype));
    if (!fits) return invalid(op, text("out_dtype ", y, " does not go with ", enum_name(k), " of ", d.dtype,
                                       is_floating(d.dtype) && is_floating(y) ? ": it must be no wider than the accumulator" : ""));
  }
  return {};
}

Shape dy_shape(const ReduceDescriptor& d) { return reduced_shape(d.shape, mask_of(d), d.keepdim); }
DType y_dtype(const ReduceDescriptor& d) {
  if (d.out_dtype) return *d.out_dtype;
  switch (d.kind) {
    case ReduceKind::any: case ReduceKind::all: return DType::boolean;
    case ReduceKind::count_nonzero: return DType::i64;
    case ReduceKind::sum: case ReduceKind::prod: return is_floating(d.dtype) ? d.dtype : d.dtype == DType::u64 ? DType::u64 : DType::i64;
    default: return d.dtype;
  }
}

ReduceState empty_state(ReduceLoop loop, DType t) {
  ReduceState s;
  const bool floating = is_floating(t) && loop != ReduceLoop::nonzero;
  if (floating) s.a = loop == ReduceLoop::product ? 1 : loop == ReduceLoop::exps ? -INFINITY : loop == ReduceLoop::moments ? NAN : 0;
  else s.i = loop == ReduceLoop::product;
  s.b = 0;
  return s;
}
unsigned mask_of(const ArgReduceDescriptor& d) {
  unsigned mask = (1u << d.shape.rank) - 1;
  if (d.axis) (void)reduce_axes(ArgReduce::name, d.shape, {*d.axis}, mask);
  return mask;
}
ReduceLoop loop_of(const ArgReduceDescriptor& d) { return d.kind == ArgReduceKind::argmax ? ReduceLoop::argmax : ReduceLoop::argmin; }
ReduceDescriptor one_of(const AminmaxDescriptor& d) {
  return {.kind = ReduceKind::max, .dtype = d.dtype, .shape = d.shape, .axes = d.axes, .keepdim = d.keepdim};
}

namespace {

bool logical(ReduceKind k) { return k == ReduceKind::any || k == ReduceKind::all || k == ReduceKind::count_nonzero; }

// The rows' results to y (and mean), wherever they lie.
struct Results {
  const ReduceDescriptor& d;
  const ReduceWalk& walk;
  const Reduce::Args& a;

  void put(int64_t first, int64_t count, const ReduceState* s) const {
    constexpr int64_t kMost = 256;
    const bool floating = is_floating(d.dtype) && !logical(d.kind);
    const ReduceKind kind = plain_kind(d);
    const double n = double(walk.n);
    double value[kMost];
    for (int64_t i = 0, run; i < count; i += run) {  // runs of the innermost kept axis
      int64_t at[4];
      walk.at(first + i, at);
      run = std::min({kMost, count - i, walk.kept.inner - (first + i) % walk.kept.inner});
      const int64_t step = walk.kept.inner_stride(1);
      if (d.kind == ReduceKind::logsumexp) BARACUDA_ISA_PICK(reduce_log_table).of(s + i, value, run);
      else if (floating)
        for (int64_t k = 0; k < run; ++k) value[k] = reduce_math::value(kind, n, d.correction, d.p, s[i + k]);
      visit_dtype(kReduceDTypes, y_dtype(d), 0, [&]<class T>() {
        T* const y = a.y.as<T>() + at[1];
        for (int64_t k = 0; k < run; ++k)
          if constexpr (is_floating(kDTypeOf<T>)) y[k * step] = from_double<T>(value[k]);
          else y[k * step] = floating ? T() : T(reduce_math::whole(d.kind, walk.n, s[i + k]));
        return 0;
      });
      if (!a.mean.absent())
        for (int64_t k = 0; k < run; ++k) put_mean(at[2] + k * walk.kept.inner_stride(2), s[i + k].a);
    }
  }
  void put_mean(int64_t at, double mean) const {
    if (a.mean.dtype == DType::f64) a.mean.as<double>()[at] = mean;
    else a.mean.as<float>()[at] = float(mean);
  }
};

void carve(const ReduceDescriptor& d, const void*, Carver& c) { ReduceScratch::carve(loop_of(plain_kind(d)), d.dtype, d.shape, mask_of(d), c); }
Status run(const Launch<Reduce>& l) {
  const ReduceDescriptor& d = l.desc;
  const unsigned mask = mask_of(d);
  if (row_count(d.shape, mask) == 0) return {};
  const Strides y = over_shape(d.shape, mask, l.args.y), mean = over_shape(d.shape, mask, l.args.mean);
  const ReduceWalk walk(d.shape, mask, l.args.x.strides, {&y, &mean, &mean});
  const Results results{d, walk, l.args};
  const ReduceLoop loop = loop_of(plain_kind(d));
  if (walk.n == 0) {
    const ReduceState s = empty_state(loop, d.dtype);
    for (int64_t o = 0; o < walk.outputs; ++o) results.put(o, 1, &s);
    return {};
  }
  Carver c = l.carver();
  const ReduceScratch scratch = ReduceScratch::carve(loop, d.dtype, d.shape, mask, c);
  reduce_run({walk, loop, l.args.x, nullptr, scratch, l.threads, d.p},
             [&](int64_t first, int64_t count, ReduceState* s) { results.put(first, count, s); });
  return {};
}

// --- indices
template <class F> void each_output(const ReduceWalk& walk, int64_t first, int64_t count, F f) {
  for (int64_t i = 0; i < count; ++i) {
    int64_t at[4];
    walk.at(first + i, at);
    f(i, at);
  }
}
PrecisionGuarantee arg_guarantee(const ArgReduceDescriptor& d) { return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true}; }
void carve_arg(const ArgReduceDescriptor& d, const void*, Carver& c) { ReduceScratch::carve(loop_of(d), d.dtype, d.shape, mask_of(d), c); }
Status run_arg(const Launch<ArgReduce>& l) {
  const ArgReduceDescriptor& d = l.desc;
  const ArgReduce::Args& a = l.args;
  const unsigned mask = mask_of(d);
  if (row_count(d.shape, mask) == 0) return {};
  const Strides indices = over_shape(d.shape, mask, a.indices), values = over_shape(d.shape, mask, a.values);
  const ReduceWalk walk(d.shape, mask, a.x.strides, {&indices, &values, &values});
  Carver c = l.carver();
  const ReduceScratch scratch = ReduceScratch::carve(loop_of(d), d.dtype, d.shape, mask, c);
  const int64_t size = int64_t(byte_size(d.dtype));
  reduce_run({walk, loop_of(d), a.x, nullptr, scratch, l.threads}, [&](int64_t first, int64_t count, ReduceState* s) {
    each_output(walk, first, count, [&](int64_t i, const int64_t (&at)[4]) {
      a.indices.as<int64_t>()[at[1]] = s[i].at;
      if (!a.values.absent()) gather_row(walk.row, a.x.as<char>() + at[0] * size, size, s[i].at, 1, a.values.as<char>() + at[2] * size);
    });
  });
  return {};
}

// --- both extrema
PrecisionGuarantee both_guarantee(const AminmaxDescriptor& d) { return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true}; }
void carve_both(const AminmaxDescriptor& d, const void*, Carver& c) { ReduceScratch::carve(ReduceLoop::minmax, d.dtype, d.shape, mask_of(one_of(d)), c); }
Status run_both(const Launch<Aminmax>& l) {
  const ReduceDescriptor d = one_of(l.desc);
  const Aminmax::Args& a = l.args;
  const unsigned mask = mask_of(d);
  if (row_count(d.shape, mask) == 0) return {};
  const Strides min = over_shape(d.shape, mask, a.min), max = over_shape(d.shape, mask, a.max);
  const ReduceWalk walk(d.shape, mask, a.x.strides, {&min, &max, &max});
  Carver c = l.carver();
  const ReduceScratch scratch = ReduceScratch::carve(ReduceLoop::minmax, d.dtype, d.shape, mask, c);
  reduce_run({walk, ReduceLoop::minmax, a.x, nullptr, scratch, l.threads}, [&](int64_t first, int64_t count, ReduceState* s) {
    visit_dtype(kReduceDTypes, d.dtype, 0, [&]<class T>() {
      each_output(walk, first, count, [&](int64_t i, const int64_t (&at)[4]) {
        if constexpr (is_floating(kDTypeOf<T>)) a.min.as<T>()[at[1]] = from_double<T>(s[i].b), a.max.as<T>()[at[2]] = from_double<T>(s[i].a);
        else a.min.as<T>()[at[1]] = T(s[i].at), a.max.as<T>()[at[2]] = T(s[i].i);
      });
      return 0;
    });
  });
  return {};
}

}  // namespace

Status Reduce::validate(const Descriptor& d) { return validate_reduce(name, d); }
Status Reduce::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "y", a.y, y_dtype(d), dy_shape(d)));
  if (a.mean.absent()) return {};
  if (!has_mean(d.kind)) return invalid(name, text("mean is given, but kind ", enum_name(d.kind), " has none; only var and std do"));
  return expect(name, "mean", a.mean, accumulator(d.dtype), dy_shape(d));
}
std::span<const Kernel<Reduce>> Reduce::kernels() {
  static constexpr Kernel<Reduce> list[] = {
      {.name = "reduce.cpu.tree", .launch = launch_all<Reduce>(kReduceDTypes, run), .guarantee = reduce_guarantee, .carve = carve}};
  return list;
}

Status ArgReduce::validate(const Descriptor& d) {
  BARACUDA_TRY(expect_shape(name, "shape", d.shape));
  if (!valid_enum(d.kind)) return invalid(name, text("kind ", int(d.kind), " is not a kind"));
  unsigned mask = (1u << d.shape.rank) - 1;
  if (d.axis) BARACUDA_TRY(reduce_axes(name, d.shape, {*d.axis}, mask));
  if (row_length(d.shape, mask) == 0 && row_count(d.shape, mask) > 0)
    return invalid(name, text(enum_name(d.kind), " of shape ", d.shape, ": a row without elements has none"));
  return {};
}
Status ArgReduce::check(const Descriptor& d, const Args& a) {
  const Shape shape = reduced_shape(d.shape, mask_of(d), d.keepdim);
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "indices", a.indices, DType::i64, shape));
  return a.values.absent() ? Status() : expect(name, "values", a.values, d.dtype, shape);
}
std::span<const Kernel<ArgReduce>> ArgReduce::kernels() {
  static constexpr Kernel<ArgReduce> list[] = {
      {.name = "arg_reduce.cpu.tree", .launch = launch_all<ArgReduce>(kReduceDTypes, run_arg), .guarantee = arg_guarantee, .carve = carve_arg}};
  return list;
}

Status Aminmax::validate(const Descriptor& d) { return validate_reduce(name, one_of(d)); }
Status Aminmax::check(const Descriptor& d, const Args& a) {
  const Shape shape = dy_shape(one_of(d));
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "min", a.min, d.dtype, shape));
  return expect(name, "max", a.max, d.dtype, shape);
}
std::span<const Kernel<Aminmax>> Aminmax::kernels() {
  static constexpr Kernel<Aminmax> list[] = {
      {.name = "aminmax.cpu.tree", .launch = launch_all<Aminmax>(kReduceDTypes, run_both), .guarantee = both_guarantee, .carve = carve_both}};
  return list;
}

}  // namespace baracuda
