// scatter and index_put: y = x, then the elements of src one after another at their places. Reads x, the indices and src, writes y;
// the places are wherever the indices say.
#include <cstring>
#include "baracuda/ops/index/scatter.hpp"

namespace baracuda {
namespace {

using namespace index_detail;

bool same_tensor(const TensorView& x, const TensorView& y) { return x.data == y.data; }

struct Scratch {
  float* sums = nullptr;
  int64_t* counts = nullptr;
};
template <class D> Scratch carve_scratch(const D& d, Carver& c) {
  Scratch s;
  if (halves(d.dtype) && (d.reduce == ScatterKind::add || d.reduce == ScatterKind::mean)) s.sums = c.take<float>("sums", d.shape.numel());
  if (d.reduce == ScatterKind::mean) s.counts = c.take<int64_t>("counts", d.shape.numel());
  return s;
}

template <class D> void replace(const D& d, const IndexPlaces& p, IndexLists indices, const TensorView& src, const TensorView& y, int threads) {
  IndexWalk w = walk_of_indices(d, p, indices);
  w.add_source(src.strides);
  add_target(w, p, y.strides);
  with_element(d.dtype, [&]<class T>(T) {
    const T* from = src.as<T>();
    T* to = y.as<T>();
    w.run(true, threads, [&](const IndexBlock& b) {
      if (!b.at[0] && !b.outside && b.source_step[0] == 1 && b.target_step[0] == 1)
        std::memcpy(to + b.target[0], from + b.source[0], size_t(b.count) * sizeof(T));
      else each_inside(b, [&](int64_t j, auto target) { to[target(0)] = from[b.source[0] + j * b.source_step[0]]; });
    });
  });
}
template <class D> void extrema(const D& d, const IndexPlaces& p, IndexLists indices, const TensorView& src, const TensorView& y, int threads) {
  const bool largest = d.reduce == ScatterKind::amax;
  visit_dtype(Castable{}, d.dtype, 0, [&]<class T>() {
    const Stored<T>* from = src.as<Stored<T>>();
    Stored<T>* to = y.as<Stored<T>>();
    if (!d.include_self)  // so that x cannot win
      at_hits(d, p, indices, src, y.strides, threads, [&](int64_t at, int64_t, int64_t) { to[at] = indexing::beaten<T>(largest); });
    at_hits(d, p, indices, src, y.strides, threads, [&](int64_t at, int64_t s, int64_t) {
      if (indexing::beats<T>(from[s], to[at], largest)) to[at] = from[s];
    });
    return 0;
  });
}
// sums / counts where there is a count; rounded down for integers.
template <class D> void divide(const D& d, const TensorView& sums, const int64_t* counts, const TensorView& y, int threads) {
  const Strides dense = d.shape.contiguous();
  visit_dtype(Castable{}, d.dtype, 0, [&]<class T>() {
    const Sum<T>* from = sums.as<Sum<T>>();
    T* to = y.as<T>();
    for_each_of(d.shape, sums.strides, dense, y.strides, threads, [&](int64_t s, int64_t c, int64_t at) { to[at] = indexing::mean_of<T>(from[s], counts[c]); });
    return 0;
  });
}
template <class D>
void sum(const D& d, const IndexPlaces& p, IndexLists indices, const TensorView& x, const TensorView& src, const TensorView& y, Scratch s, int threads) {
  const TensorView sums = s.sums ? TensorView::dense(s.sums, DType::f32, d.shape) : y;
  if (s.sums) cast_elements(x, sums, threads);
  else if (!same_tensor(x, y)) copy_elements(x, y, threads);
  if (!d.include_self) {
    const size_t size = byte_size(sums.dtype);
    at_hits(d, p, indices, src, sums.strides, threads, [&](int64_t at, int64_t, int64_t) { std::memset(sums.as<char>() + at * int64_t(size), 0, size); });
  }
  add_at_indices(d, p, indices, src, d.reduce == ScatterKind::add ? d.alpha : 1, sums, threads);
  if (d.reduce == ScatterKind::mean) {
    fill_elements(TensorView::dense(s.counts, d.shape), d.include_self, threads);
    at_hits(d, p, indices, src, d.shape.contiguous(), threads, [&](int64_t at, int64_t, int64_t) { ++s.counts[at]; });
    divide(d, sums, s.counts, y, threads);
  } else if (s.sums) cast_elements(sums, y, threads);
}

template <class Op> void carve(const typename Op::Descriptor& d, const void*, Carver& c) { carve_scratch(d, c); }
template <class Op> Status run_scatter(const Launch<Op>& l) {
  const auto& d = l.desc;
  const auto& a = l.args;
  const IndexPlaces p = places_of(d);
  const IndexLists indices = lists(a.indices);
  BARACUDA_TRY(look_at_indices(Op::name, d, p, indices, l.threads));
  Carver c = l.carver();
  const Scratch s = carve_scratch(d, c);
  if (d.reduce == ScatterKind::add || d.reduce == ScatterKind::mean) {
    sum(d, p, indices, a.x, a.src, a.y, s, l.threads);
    return {};
  }
  if (!same_tensor(a.x, a.y)) copy_elements(a.x, a.y, l.threads);
  if (d.reduce == ScatterKind::replace) replace(d, p, indices, a.src, a.y, l.threads);
  else extrema(d, p, indices, a.src, a.y, l.threads);
  return {};
}
template <class Op> std::string refuse(const typename Op::Descriptor& d, const PlanPreference&) { return refuse_reduce(d); }
template <class D> PrecisionGuarantee guarantee(const D& d) {
  const bool sums = d.reduce == ScatterKind::add || d.reduce == ScatterKind::mean;
  const DType t = sums ? accumulator(d.dtype) : d.dtype;
  return {.math_precision = t, .accumulator = t, .batch_invariant = true};
}
template <class Op> Status check_scatter(const typename Op::Descriptor& d, const typename Op::Args& a) {
  BARACUDA_TRY((check_pair<Op>(d.dtype, "x", a.x, d.shape, "y", a.y, d.shape)));
  BARACUDA_TRY(expect(Op::name, "src", a.src, d.dtype, places_of(d).walk));
  return check_lists(Op::name, d, a.indices, a.y.device);
}

// --- gather_backward and index_backward: a sum into zeros
template <class Op> void carve_gradient(const typename Op::Descriptor& d, const void*, Carver& c) {
  if (halves(d.dtype)) c.take<float>("sums", d.shape.numel());
}
template <class Op> Status run_gradient(const Launch<Op>& l) {
  const auto& d = l.desc;
  const IndexPlaces p = places_of(d);
  const IndexLists indices = lists(l.args.indices);
  BARACUDA_TRY(look_at_indices(Op::name, d, p, indices, l.threads));
  Carver c = l.carver();
  const TensorView sums = halves(d.dtype) ? TensorView::dense(c.take<float>("sums", d.shape.numel()), DType::f32, d.shape) : l.args.dx;
  fill_bits(sums, {}, l.threads);
  add_at_indices(d, p, indices, l.args.dy, 1, sums, l.threads);
  if (halves(d.dtype)) cast_elements(sums, l.args.dx, l.threads);
  return {};
}
template <class D> PrecisionGuarantee gradient_guarantee(const D& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}
template <class Op> Status check_gradient(const typename Op::Descriptor& d, const typename Op::Args& a) {
  BARACUDA_TRY((check_pair<Op>(d.dtype, "dy", a.dy, places_of(d).walk, "dx", a.dx, d.shape)));
  return check_lists(Op::name, d, a.indices, a.dx.device);
}

template <class Op> constexpr Kernel<Op> scatter_row(std::string_view name) {
  return {.name = name, .launch = launch_whole_bytes<Op>(run_scatter<Op>), .guarantee = guarantee<typename Op::Descriptor>, .refuse = refuse<Op>, .carve = carve<Op>};
}
template <class Op> constexpr Kernel<Op> gradient_row(std::string_view name) {
  return {.name = name, .launch = launch_all<Op>(Floating{}, run_gradient<Op>), .guarantee = gradient_guarantee<typename Op::Descriptor>, .carve = carve_gradient<Op>};
}

}  // namespace

Shape IndexPutDescriptor::src_shape() const { return index_detail::places_of(*this).walk; }

Status Scatter::validate(const Descriptor& d) { return validate_scatter(name, d); }
Status Scatter::check(const Descriptor& d, const Args& a) { return check_scatter<Scatter>(d, a); }
std::span<const Kernel<Scatter>> Scatter::kernels() {
  static constexpr Kernel<Scatter> list[] = {scatter_row<Scatter>("scatter.cpu.ordered")};
  return list;
}
Status IndexPut::validate(const Descriptor& d) { return validate_scatter(name, d); }
Status IndexPut::check(const Descriptor& d, const Args& a) { return check_scatter<IndexPut>(d, a); }
std::span<const Kernel<IndexPut>> IndexPut::kernels() {
  static constexpr Kernel<IndexPut> list[] = {scatter_row<IndexPut>("index_put.cpu.ordered")};
  return list;
}
Status GatherBackward::validate(const Descriptor& d) { return validate_indices(name, d); }
Status GatherBackward::check(const Descriptor& d, const Args& a) { return check_gradient<GatherBackward>(d, a); }
std::span<const Kernel<GatherBackward>> GatherBackward::kernels() {
  static constexpr Kernel<GatherBackward> list[] = {gradient_row<GatherBackward>("gather_backward.cpu.ordered")};
  return list;
}
Status IndexBackward::validate(const Descriptor& d) { return validate_indices(name, d); }
Status IndexBackward::check(const Descriptor& d, const Args& a) { return check_gradient<IndexBackward>(d, a); }
std::span<const Kernel<IndexBackward>> IndexBackward::kernels() {
  static constexpr Kernel<IndexBackward> list[] = {gradient_row<IndexBackward>("index_backward.cpu.ordered")};
  return list;
}

}  // namespace baracuda
