// Gradients of scatter and index_put. But for add, a count per element of x tells how dy is shared out: first it is made by the walk of
// the forward run, then dx and dsrc read it.
#include "baracuda/ops/index/scatter.hpp"

namespace baracuda {
namespace {

using namespace index_detail;
using indexing::equal, indexing::share;

constexpr int64_t kHit = int64_t(1) << 62;  // amax, amin without x: something fell here

template <class D> int64_t* carve_counts(const D& d, Carver& c) { return d.reduce == ScatterKind::add ? nullptr : c.take<int64_t>("counts", d.shape.numel()); }
template <class Op> void carve(const typename Op::Descriptor& d, const void*, Carver& c) { carve_counts(d, c); }
bool extremum(ScatterKind k) { return k == ScatterKind::amax || k == ScatterKind::amin; }
template <class Op> Status run_backward(const Launch<Op>& l) {
  const auto& d = l.desc;
  const auto& a = l.args;
  const IndexPlaces p = places_of(d);
  const IndexLists indices = lists(a.indices);
  BARACUDA_TRY(look_at_indices(Op::name, d, p, indices, l.threads));
  Carver c = l.carver();
  int64_t* const counts = carve_counts(d, c);
  const TensorView &dy = a.dy, &dx = a.dx, &dsrc = a.dsrc;
  const Strides dense = d.shape.contiguous();
  const ScatterKind reduce = d.reduce;
  TensorView any = dsrc;  // the shape of what is walked, where its memory is not read
  if (any.absent()) any.shape = p.walk, any.strides = p.walk.contiguous();
  visit_dtype(Floating{}, d.dtype, 0, [&]<class T>() {
    const T *g = dy.as<T>(), *x = a.x.template as<T>(), *src = a.src.template as<T>(), *y = a.y.template as<T>();
    // replace: the position that stays, or -1. mean: how many. amax, amin: how many are equal to y.
    if (reduce == ScatterKind::replace) {
      fill_elements(TensorView::dense(counts, d.shape), -1, l.threads);
      at_hits(d, p, indices, any, dense, l.threads, [&](int64_t at, int64_t, int64_t position) { counts[at] = position; });
    } else if (reduce == ScatterKind::mean) {
      fill_elements(TensorView::dense(counts, d.shape), d.include_self, l.threads);
      at_hits(d, p, indices, any, dense, l.threads, [&](int64_t at, int64_t, int64_t) { ++counts[at]; });
    } else if (extremum(reduce)) {
      for_each_of(d.shape, a.x.strides, a.y.strides, dense, l.threads, [&](int64_t i, int64_t j, int64_t at) { counts[at] = equal(x[i], y[j]); });
      if (!d.include_self) at_hits(d, p, indices, any, dense, l.threads, [&](int64_t at, int64_t, int64_t) { counts[at] = kHit; });
      IndexWalk w = walk_of_indices(d, p, indices);
      w.add_source(a.src.strides);
      add_target(w, p, dense);
      add_target(w, p, a.y.strides);
      w.run(true, l.threads, [&](const IndexBlock& b) {
        each_inside(b, [&](int64_t j, auto at) { counts[at(0)] += equal(src[b.source[0] + j * b.source_step[0]], y[at(1)]); });
      });
    }
    if (!dx.absent()) {
      T* to = dx.as<T>();
      const bool self = d.include_self || reduce == ScatterKind::replace;
      if (reduce == ScatterKind::add && self) copy_elements(dy, dx, l.threads);
      else if (reduce == ScatterKind::add) {
        copy_elements(dy, dx, l.threads);
        at_hits(d, p, indices, any, dx.strides, l.threads, [&](int64_t at, int64_t, int64_t) { to[at] = T{}; });
      } else if (!extremum(reduce))
        for_each_of(d.shape, dy.strides, dense, dx.strides, l.threads, [&](int64_t from, int64_t at, int64_t i) {
          if (reduce == ScatterKind::replace) to[i] = counts[at] < 0 ? g[from] : T{};
          else to[i] = self ? share(g[from], 1, counts[at]) : counts[at] > 0 ? T{} : g[from];
        });
      else {
        // x takes part where it equals y; four tensors, so dx first holds whether it does.
        for_each_of(d.shape, a.x.strides, a.y.strides, dx.strides, l.threads, [&](int64_t i, int64_t j, int64_t at) { to[at] = from_double<T>(equal(x[i], y[j])); });
        for_each_of(d.shape, dy.strides, dense, dx.strides, l.threads, [&](int64_t from, int64_t at, int64_t i) {
          to[i] = to_double(to[i]) == 0 || (counts[at] & kHit) ? T{} : share(g[from], 1, counts[at]);
        });
      }
    }
    if (dsrc.absent()) return 0;
    IndexWalk w = walk_of_indices(d, p, indices);
    w.add_source(dsrc.strides);
    if (extremum(reduce)) w.add_source(a.src.strides);
    add_target(w, p, dy.strides);
    add_target(w, p, dense);
    if (extremum(reduce)) add_target(w, p, a.y.strides);
    T* to = dsrc.as<T>();
    w.run(false, l.threads, [&](const IndexBlock& b) {
      auto place = [&](int64_t j) -> T& { return to[b.source[0] + j * b.source_step[0]]; };
      each_outside(b, [&](int64_t j) { place(j) = T{}; });
      each_inside(b, [&](int64_t j, auto at) {
        const T from = g[at(0)];
        switch (reduce) {
          case ScatterKind::replace: place(j) = counts[at(1)] == b.position + j * b.position_step ? from : T{}; break;
          case ScatterKind::add: place(j) = share(from, d.alpha, 1); break;
          case ScatterKind::mean: place(j) = share(from, 1, counts[at(1)]); break;
          default: place(j) = equal(src[b.source[1] + j * b.source_step[1]], y[at(2)]) ? share(from, 1, counts[at(1)] & ~kHit) : T{};
        }
      });
    });
    return 0;
  });
  return {};
}
template <class D> PrecisionGuarantee guarantee(const D& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}
template <class Op> Status check_backward(const typename Op::Descriptor& d, const typename Op::Args& a) {
  const Shape walk = places_of(d).walk;
  BARACUDA_TRY(expect(Op::name, "dy", a.dy, d.dtype, d.shape));
  const TensorView* const read[] = {&a.dy, &a.x, &a.src, &a.y};
  if (extremum(d.reduce)) {
    constexpr std::string_view names[] = {"x", "src", "y"};
    for (int k = 0; k < 3; ++k) {
      const Shape& shape = k == 1 ? walk : d.shape;
      if (read[k + 1]->absent()) return unexpected(Op::name, names[k], d.dtype, shape, text("is missing, reduce ", enum_name(d.reduce), " reads it"));
      BARACUDA_TRY(expect(Op::name, names[k], *read[k + 1], d.dtype, shape));
    }
  }
  const struct { std::string_view name; const TensorView& v; const Shape& shape; } outs[] = {{"dx", a.dx, d.shape}, {"dsrc", a.dsrc, walk}};
  for (const auto& o : outs) {
    if (o.v.absent()) continue;
    BARACUDA_TRY(expect(Op::name, o.name, o.v, d.dtype, o.shape));
  }
  return check_lists(Op::name, d, a.indices, a.dy.device);
}

template <class Op> constexpr Kernel<Op> backward_row(std::string_view name) {
  return {.name = name, .launch = launch_all<Op>(Floating{}, run_backward<Op>), .guarantee = guarantee<typename Op::Descriptor>, .carve = carve<Op>};
}

}  // namespace

Status ScatterBackward::validate(const Descriptor& d) { return validate_scatter(name, d); }
Status ScatterBackward::check(const Descriptor& d, const Args& a) { return check_backward<ScatterBackward>(d, a); }
std::span<const Kernel<ScatterBackward>> ScatterBackward::kernels() {
  static constexpr Kernel<ScatterBackward> list[] = {backward_row<ScatterBackward>("scatter_backward.cpu.ordered")};
  return list;
}
Status IndexPutBackward::validate(const Descriptor& d) { return validate_scatter(name, d); }
Status IndexPutBackward::check(const Descriptor& d, const Args& a) { return check_backward<IndexPutBackward>(d, a); }
std::span<const Kernel<IndexPutBackward>> IndexPutBackward::kernels() {
  static constexpr Kernel<IndexPutBackward> list[] = {backward_row<IndexPutBackward>("index_put_backward.cpu.ordered")};
  return list;
}

}  // namespace baracuda
