#include "baracuda/ops/random/categorical.hpp"
#include <algorithm>
#include <atomic>
#include <cmath>
#include "baracuda/host/row_walk.hpp"
#include "baracuda/math/half.hpp"
#include "baracuda/ops/elementwise/map.hpp"
#include "baracuda/ops/random/categorical_detail.hpp"
#include "baracuda/ops/random/categorical_math.hpp"
#include "baracuda/ops/random/random_cpu.hpp"

namespace baracuda {
namespace {

constexpr int64_t kNumbers = 512;  // drawn at a time

using categorical::Weights;

bool cut(const CategoricalDescriptor& d) { return d.top_k > 0 || d.top_p < 1 || d.min_p > 0; }
bool listed(const CategoricalDescriptor& d) { return cut(d) || !d.replacement; }
struct Scratch { double* scores; int64_t* order; };
Scratch carve_scratch(const CategoricalDescriptor& d, Carver& c) {
  const int64_t n = d.shape.last(), rows = std::min<int64_t>(c.threads(), d.shape.rows());
  if (d.shape.numel() == 0) return {nullptr, nullptr};
  const int64_t size = Shape{rows, n}.numel();
  return {c.take<double>("scores", size), listed(d) ? c.take<int64_t>("order", size) : nullptr};
}

Weights weights_of(const CategoricalDescriptor& d, double most) { return {d.kind == WeightKind::probabilities, most, d.temperature}; }
// Counts the indices of a row that may be drawn; the place of one that is no weight, or -1.
template <class T> int64_t look(const CategoricalDescriptor& d, const T* x, int64_t step, int64_t& choices) {
  const Weights w = weights_of(d, 0);
  choices = 0;
  for (int64_t i = 0; i < d.shape.last(); ++i) {
    const double v = to_double(x[i * step]);
    if (!w.valid(v)) return i;
    choices += w.may_be_drawn(v);
  }
  return -1;
}
// Every row has `need` indices that may be drawn, and nothing that is no weight.
Status look_at_rows(std::string_view op, const CategoricalDescriptor& d, const TensorView& x, int64_t need, int threads) {
  const int64_t n = d.shape.last(), step = x.strides[d.shape.rank - 1];
  const RowWalk<1> walk(outer_axes(d.shape), {&x});
  std::atomic<int64_t> refused = INT64_MAX;  // the first row at fault
  return visit_dtype(Floating{}, d.dtype, Status(), [&]<class T>() -> Status {
    int64_t at[1], choices;
    parallel_for(walk.rows, std::max<int64_t>(1, kPiece / n), threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t from[1], found;
        walk.offsets(row, from);
        if (look(d, x.as<T>() + from[0], step, found) < 0 && found >= need) continue;
        for (int64_t now = refused; row < now && !refused.compare_exchange_weak(now, row);) {}
      }
    });
    if (refused == INT64_MAX) return {};
    walk.offsets(refused, at);
    const int64_t i = look(d, x.as<T>() + at[0], step, choices);
    if (i < 0) return invalid(op, text("row ", refused.load(), " of x has ", choices, " indices that may be drawn, ", need, " are needed"));
    return invalid(op, text("element ", i, " of row ", refused.load(), " of x is ", to_double(x.as<T>()[at[0] + i * step]), ", which is no ",
                            d.kind == WeightKind::logits ? "logit" : "weight"));
  });
}
// The row's elements, and what they weigh.
template <class T> Weights read(const CategoricalDescriptor& d, const T* x, int64_t step, double* values) {
  double most = -INFINITY;
  for (int64_t i = 0; i < d.shape.last(); ++i) values[i] = to_double(x[i * step]), most = std::max(most, values[i]);
  return weights_of(d, most);
}
// Leaves the likeliest as top_k, top_p and min_p ask for; the others become what is never drawn.
void cut_down(const CategoricalDescriptor& d, const Weights& w, double* values, int64_t* order) {
  const int64_t n = d.shape.last();
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  const auto likelier = [&](int64_t a, int64_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; };
  const auto weight = [&](int64_t place) { return w.weight(values[order[place]]); };
  int64_t kept = d.top_k > 0 ? std::min(d.top_k, n) : n;
  if (d.top_p < 1) {
    std::partial_sort(order, order + kept, order + n, likelier);
    categorical::Units total = 0, sum = 0;
    for (int64_t i = 0; i < kept; ++i) total += categorical::units(weight(i));
    int64_t reached = 0;
    while (reached < kept && categorical::wanted(sum, total, d.top_p)) sum += categorical::units(weight(reached++));
    kept = reached;
  } else if (kept < n) std::nth_element(order, order + kept - 1, order + n, likelier);
  if (d.min_p > 0)
    for (int64_t i = 0; i < kept; ++i)
      if (weight(i) < d.min_p) values[order[i]] = w.never();
  for (int64_t i = kept; i < n; ++i) values[order[i]] = w.never();
}
// Calls f(i, value) for every index that may be drawn, with the numbers from `first` on.
template <class F> void race(const CategoricalDescriptor& d, const Weights& w, const double* scores, uint64_t seed, uint64_t first, F f) {
  const auto& kernels = BARACUDA_ISA_PICK(random_kernels);
  const auto draw = (w.probabilities ? kernels.exponential : kernels.gumbel)[DType::f64];
  double numbers[kNumbers];
  for (int64_t i = 0, n = d.shape.last(); i < n; i += kNumbers) {
    const int64_t m = std::min(kNumbers, n - i);
    draw({seed, first + uint64_t(i), 0, 1, 0, numbers, m});
    for (int64_t j = 0; j < m; ++j) {
      const double s = scores[i + j];
      if (w.may_be_drawn(s)) f(i + j, w.raced(s, numbers[j]));
    }
  }
}
Status run_categorical(const Launch<Categorical>& l) {
  const auto& d = l.desc;
  const TensorView &x = l.args.x, &y = l.args.y;
  if (y.numel() == 0) return {};
  Carver c = l.carver();
  const Scratch scratch = carve_scratch(d, c);
  const int64_t n = d.shape.last(), x_step = x.strides[d.shape.rank - 1], y_step = y.strides[d.shape.rank - 1], need = d.replacement ? 1 : d.samples;
  BARACUDA_TRY(look_at_rows(Categorical::name, d, x, need, l.threads));
  const RowWalk<2> walk(outer_axes(d.shape), {&x, &y});
  visit_dtype(Floating{}, d.dtype, 0, [&]<class T>() {
    parallel_for(walk.rows, std::max<int64_t>(1, kNumbers / n), l.threads, [&](int64_t begin, int64_t end, int worker) {
      double* const scores = scratch.scores + worker * n;
      int64_t* const order = scratch.order ? scratch.order + worker * n : nullptr;
      for (int64_t row = begin; row < end; ++row) {
        int64_t at[2];
        walk.offsets(row, at);
        const Weights w = read(d, x.as<T>() + at[0], x_step, scores);
        if (cut(d)) cut_down(d, w, scores, order);
        for (int64_t i = 0; i < n; ++i) scores[i] = w.score(scores[i]);
        int64_t* const to = y.as<int64_t>() + at[1];
        if (d.replacement)
          for (int64_t s = 0; s < d.samples; ++s) {
            double best = -INFINITY;
            race(d, w, scores, l.args.seed, l.args.offset + (uint64_t(row) * uint64_t(d.samples) + uint64_t(s)) * uint64_t(n), [&](int64_t i, double v) {
              if (v > best) best = v, to[s * y_step] = i;
            });
          }
        else {
          int64_t runners = 0;
          race(d, w, scores, l.args.seed, l.args.offset + uint64_t(row) * uint64_t(n), [&](int64_t i, double v) { scores[i] = v, order[runners++] = i; });
          std::partial_sort(order, order + d.samples, order + runners, [&](int64_t a, int64_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
          for (int64_t s = 0; s < d.samples; ++s) to[s * y_step] = order[s];
        }
      }
    });
    return 0;
  });
  return {};
}

Status validate_cuts(std::string_view op, const CategoricalDescriptor& d) {
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  BARACUDA_TRY(expect_shape(op, "shape", d.shape, 1));
  if (!valid_enum(d.kind)) return invalid(op, text("kind ", int(d.kind), " is not a kind"));
  if (d.shape.last() == 0 && d.shape.rows() > 0) return invalid(op, text("rows of shape ", d.shape, " have nothing to draw from"));
  if (!(d.temperature > 0) || !std::isfinite(d.temperature)) return invalid(op, text("temperature ", d.temperature, " is not finite and > 0"));
  if (d.kind == WeightKind::probabilities && d.temperature != 1) return invalid(op, text("temperature ", d.temperature, ", probabilities take 1"));
  if (d.top_k < 0) return invalid(op, text("top_k is ", d.top_k, ", it must be >= 0"));
  if (!(d.top_p > 0 && d.top_p <= 1)) return invalid(op, text("top_p ", d.top_p, " is not in (0, 1]"));
  if (!(d.min_p >= 0 && d.min_p <= 1)) return invalid(op, text("min_p ", d.min_p, " is not in [0, 1]"));
  return {};
}
Status run_filter(const Launch<SamplingFilter>& l) {
  const CategoricalDescriptor d = as_categorical(l.desc);
  const TensorView &x = l.args.x, &y = l.args.y;
  if (y.numel() == 0) return {};
  BARACUDA_TRY(look_at_rows(SamplingFilter::name, d, x, 1, l.threads));
  Carver c = l.carver();
  const Scratch scratch = carve_scratch(d, c);
  const int64_t n = d.shape.last(), x_step = x.strides[d.shape.rank - 1], y_step = y.strides[d.shape.rank - 1];
  const RowWalk<2> walk(outer_axes(d.shape), {&x, &y});
  visit_dtype(Floating{}, d.dtype, 0, [&]<class T>() {
    parallel_for(walk.rows, std::max<int64_t>(1, kNumbers / n), l.threads, [&](int64_t begin, int64_t end, int worker) {
      double* const values = scratch.scores + worker * n;
      for (int64_t row = begin; row < end; ++row) {
        int64_t at[2];
        walk.offsets(row, at);
        const T* from = x.as<T>() + at[0];
        T* to = y.as<T>() + at[1];
        const Weights w = read(d, from, x_step, values);
        if (cut(d)) cut_down(d, w, values, scratch.order + worker * n);
        categorical::Units total = 0;
        if (w.probabilities)
          for (int64_t i = 0; i < n; ++i) total += categorical::units(w.weight(values[i]));
        for (int64_t i = 0; i < n; ++i)
          to[i * y_step] = !w.may_be_drawn(values[i]) ? from_double<T>(w.never()) : w.probabilities ? from_double<T>(w.share(values[i], total)) : from[i * x_step];
      }
    });
    return 0;
  });
  return {};
}

}  // namespace

CategoricalDescriptor as_categorical(const SamplingFilterDescriptor& d) {
  return {.dtype = d.dtype, .shape = d.shape, .kind = d.kind, .temperature = d.temperature, .top_k = d.top_k, .top_p = d.top_p, .min_p = d.min_p};
}
Shape CategoricalDescriptor::y_shape() const {
  Shape s = shape;
  s[s.rank - 1] = samples;
  return s;
}
Status Categorical::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_cuts(name, d));
  if (d.samples < 1) return invalid(name, text("samples is ", d.samples, ", it must be >= 1"));
  BARACUDA_TRY(expect_shape(name, "shape with samples", d.y_shape()));
  const int64_t n = d.shape.last(), most = d.top_k > 0 ? std::min(d.top_k, n) : n;
  if (!d.replacement && d.samples > most) return invalid(name, text("samples ", d.samples, " without replacement from ", most, " indices"));
  if (!d.replacement && d.samples > 1 && (d.top_p < 1 || d.min_p > 0))
    return invalid(name, text("top_p ", d.top_p, " and min_p ", d.min_p, " may leave fewer than samples ", d.samples, " without replacement"));
  return {};
}
Status Categorical::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  return expect(name, "y", a.y, DType::i64, d.y_shape());
}
std::span<const Kernel<Categorical>> Categorical::kernels() {
  static constexpr Kernel<Categorical> list[] = {{.name = "categorical.cpu.race",
                                                  .launch = launch_all<Categorical>(Floating{}, run_categorical),
                                                  .guarantee = [](const Descriptor&) -> PrecisionGuarantee {
                                                    return {.math_precision = DType::f64, .accumulator = DType::f64, .batch_invariant = true};
                                                  },
                                                  .carve = [](const Descriptor& d, const void*, Carver& c) { carve_scratch(d, c); }}};
  return list;
}

Status SamplingFilter::validate(const Descriptor& d) { return validate_cuts(name, as_categorical(d)); }
Status SamplingFilter::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  return expect(name, "y", a.y, d.dtype, d.shape);
}
std::span<const Kernel<SamplingFilter>> SamplingFilter::kernels() {
  static constexpr Kernel<SamplingFilter> list[] = {{.name = "sampling_filter.cpu.sorted",
                                                     .launch = launch_all<SamplingFilter>(Floating{}, run_filter),
                                                     .guarantee = [](const Descriptor&) -> PrecisionGuarantee {
                                                       return {.math_precision = DType::f64, .accumulator = DType::f64, .batch_invariant = true};
                                                     },
                                                     .carve = [](const Descriptor& d, const void*, Carver& c) { carve_scratch(as_categorical(d), c); }}};
  return list;
}

}  // namespace baracuda
