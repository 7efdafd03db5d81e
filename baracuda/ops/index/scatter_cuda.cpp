#include "baracuda/ops/index/scatter_cuda.hpp"
#include <bit>
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/copy/copy_cuda.hpp"
#include "baracuda/ops/index/index_places.hpp"

namespace baracuda {
namespace {
using device::Operand;
using namespace index_detail;

// At most so many positions and places, whatever the strides of the indices.
template <class D> int64_t most_positions(const D& d) { return d.indices.numel(); }
template <class D> int64_t most_places(const D& d) {
  if constexpr (kAlongAxis<D>) return d.shape.numel();
  else {
    int64_t n = 1;
    for (int k = 0; k < d.axes.rank; ++k) n *= d.shape[axis_at(d.axes[k], d.shape.rank)];
    return d.shape.numel() ? n : 0;
  }
}
// last_only: a word for each place, and no sort.
template <class D> device::SortedRows carve(const D& d, Carver& c, bool last_only) {
  if (!last_only) return device::carve_sorted(c, most_positions(d), most_places(d));
  device::SortedRows s{};
  s.first = c.take<uint32_t>("last of each place", most_places(d));
  return s;
}
template <class D> std::string refuse(const D& d, const PlanPreference&) {
  if (d.out_of_range == OutOfRange::refuse) return "out_of_range refuse needs a look at the indices, for which a run on CUDA does not wait; fill and clip do not";
  if (most_positions(d) > device::kMostSorted || most_places(d) > device::kMostSorted)
    return text("sorts 32-bit numbers: at most ", device::kMostSorted, " indices and places");
  if constexpr (requires { d.reduce; }) return refuse_reduce(d);
  return {};
}

// The walk of the indices: positions are the axes of the indices, and those along which they differ. A column has all of x's places along the
// others. A place is the ordinal of an element of x among the axes whose elements are places of their own.
struct Positions {
  IndexPlaces places;
  int along[kMaxRank], count = 0;
  bool of_place[kMaxRank] = {};
  int64_t weight[kMaxRank] = {};
  Shape shape;
  PlacesCuda p{};

  template <class D> Positions(const D& d, IndexLists indices, const void* any, Carver& c, bool last_only = false) : places(places_of(d)) {
    p.s = carve(d, c, last_only);
    Strides key[kMaxRank];
    for (int k = 0; k < places.keys; ++k) key[k] = key_strides(places, indices[size_t(k)]);
    for (int i = 0; i < places.walk.rank; ++i) {
      bool position = places.of[i] < 0 || places.walk[i] != d.shape[places.of[i]];
      for (int k = 0; k < places.keys; ++k) position = position || key[k][i] != 0;
      if (!position) continue;
      along[count++] = i;
      if (places.of[i] >= 0) of_place[places.of[i]] = true;
    }
    for (int k = 0; k < places.keys && d.shape.rank; ++k) of_place[places.key_axis[k]] = true;
    int64_t all = 1;
    for (int a = d.shape.rank - 1; a >= 0; --a)
      if (of_place[a]) weight[a] = all, all *= d.shape[a];
    Operand operands[1 + kMaxRank] = {{any, 1, {}}};
    for (int j = 0; j < count; ++j) {
      const int i = along[j];
      shape.push_back(places.walk[i]);
      operands[0].strides.push_back(places.of[i] < 0 ? 0 : weight[places.of[i]]);
    }
    for (int k = 0; k < places.keys; ++k) {
      const TensorView& list = indices[size_t(k)];
      operands[1 + k] = {list.data, int(byte_size(d.index_dtype)), {}};
      for (int j = 0; j < count; ++j) operands[1 + k].strides.push_back(key[k][along[j]]);
      p.key[k] = list.data, p.extent[k] = key_extent(d, places, k), p.add[k] = d.shape.rank ? weight[places.key_axis[k]] : 0;
    }
    p.s.n = shape.numel(), p.s.rows = all;
    p.s.parts = p.s.each ? int((p.s.n + p.s.each - 1) / p.s.each) : 0;
    p.positions = device::walk<1 + kMaxRank>(shape, operands, -1, 1);
    p.keys = places.keys, p.i64 = d.index_dtype == DType::i64, p.negative = d.negative, p.clip = d.out_of_range == OutOfRange::clip;
  }
  // A tensor of the walk's shape, over the positions and, an element of x after the other, its columns. Nothing of one that is not there.
  Operand over_positions(const TensorView& src) const {
    Operand o = Operand::of(src);
    if (!o.data) return o;
    o.strides = {};
    for (int j = 0; j < count; ++j) o.strides.push_back(src.strides[along[j]]);
    return o;
  }
  Operand columns(const TensorView& src, const Shape& x) const {
    if (src.absent()) return {};
    Operand o{src.data, int(byte_size(src.dtype)), {}};
    for (int a = 0; a < x.rank; ++a) {
      int64_t step = 0;
      for (int i = 0; i < places.walk.rank; ++i)
        if (places.of[i] == a && !of_place[a]) step = src.strides[i];
      o.strides.push_back(step);
    }
    return o;
  }
  Operand ordinals(const void* any, const Shape& x) const {
    Operand o{any, 1, {}};
    for (int a = 0; a < x.rank; ++a) o.strides.push_back(weight[a]);
    return o;
  }
};
template <class D> Status combine(const Stream& stream, std::string_view kernel, const D& d, IndexLists indices, const TensorView& x, const TensorView& src,
                                  const TensorView& y, ScatterKind reduce, bool self, double alpha, Carver c) {
  if (y.numel() == 0) return {};
  const bool last_only = reduce == ScatterKind::replace;
  const Positions at(d, indices, y.data, c, last_only);
  ScatterCuda q{};
  q.s = at.p.s;
  const Operand sources[] = {at.over_positions(src)};
  q.positions = device::walk<1>(at.shape, sources, -1, 1);
  const Operand elements[] = {Operand::of(y), Operand::of(x), at.ordinals(y.data, d.shape), at.columns(src, d.shape)};
  q.walk = device::walk<4>(d.shape, elements, 0, 1);
  q.bytes = int(byte_size(d.dtype));
  int unit = q.bytes;
  if (last_only && unit < 16) {  // columns that lie side by side, in units of 16 bytes
    const device::Walk<4> w = device::walk<4>(d.shape, elements, 0, 16 / unit);
    bool whole = w.lanes > 1 && w.rest == 0 && !w.spread[0] && !w.spread[1] && w.spread[2] && !w.spread[3];
    for (int a = 0; a < q.positions.rank; ++a) whole = whole && q.positions.stride[0][a] % w.lanes == 0;
    if (whole) q.walk = w, unit = 16;
  }
  q.x = x.data, q.src = src.data, q.y = y.data, q.alpha = alpha, q.self = self;
  q.combine = reduce == ScatterKind::mean ? CombineCuda::mean : reduce == ScatterKind::amax ? CombineCuda::amax : reduce == ScatterKind::amin ? CombineCuda::amin : CombineCuda::add;
  return device::queue(stream, kernel, [&] {
    if (const int e = (last_only ? scatter_cuda_kernels.last : scatter_cuda_kernels.sort)(at.p, stream.handle)) return e;
    if (last_only) return scatter_cuda_kernels.replace[std::countr_zero(unsigned(unit))](q, stream.handle);
    return scatter_cuda_kernels.combine[d.dtype](q, stream.handle);
  });
}
template <class Op> Status run_backward(const Launch<Op>& l) {
  const auto& d = l.desc;
  const auto& a = l.args;
  Carver c = l.carver();
  const Positions at(d, lists(a.indices), a.dy.data, c);
  const Operand sources[] = {at.over_positions(a.dsrc), at.over_positions(a.src)};
  const Operand elements[] = {Operand::of(a.dx), Operand::of(a.dy), Operand::of(a.x), Operand::of(a.y), at.ordinals(a.dy.data, d.shape), at.columns(a.dsrc, d.shape), at.columns(a.src, d.shape)};
  ScatterBackwardCuda q{};
  q.s = at.p.s;
  q.positions = device::walk<2>(at.shape, sources, -1, 1), q.walk = device::walk<7>(d.shape, elements, 1, 1);
  q.dy = a.dy.data, q.x = a.x.data, q.src = a.src.data, q.y = a.y.data, q.dx = a.dx.data, q.dsrc = a.dsrc.data;
  q.replace = d.reduce == ScatterKind::replace, q.add = d.reduce == ScatterKind::add, q.extremum = d.reduce == ScatterKind::amax || d.reduce == ScatterKind::amin;
  q.alpha = d.alpha, q.self = d.include_self;
  return device::queue(l.stream, Op::name, [&] {
    if (!a.dsrc.absent())  // what falls nowhere has none
      if (const int e = fill_on_device(a.dsrc.shape, Operand::of(a.dsrc), 0, 0, l.stream.handle)) return e;
    if (d.shape.numel() == 0) return 0;
    if (const int e = scatter_cuda_kernels.sort(at.p, l.stream.handle)) return e;
    return scatter_cuda_kernels.backward[d.dtype](q, l.stream.handle);
  });
}
template <class Op> Status run_scatter(const Launch<Op>& l) {
  const auto& a = l.args;
  return combine(l.stream, Op::name, l.desc, lists(a.indices), a.x, a.src, a.y, l.desc.reduce, l.desc.include_self, l.desc.reduce == ScatterKind::add ? l.desc.alpha : 1, l.carver());
}
template <class Op> Status run_gradient(const Launch<Op>& l) {
  return combine(l.stream, Op::name, l.desc, lists(l.args.indices), {}, l.args.dy, l.args.dx, ScatterKind::add, true, 1, l.carver());
}
template <class D> PrecisionGuarantee guarantee(const D& d) {
  bool sums = true;
  if constexpr (requires { d.reduce; }) sums = d.reduce == ScatterKind::add || d.reduce == ScatterKind::mean;
  const DType t = sums ? accumulator(d.dtype) : d.dtype;
  return {.math_precision = t, .accumulator = t, .batch_invariant = true};
}
template <class Op> constexpr Kernel<Op> row(std::string_view name, ByDType<Launcher<Op>> launch) {
  using D = typename Op::Descriptor;
  return {.name = name, .device = DeviceKind::cuda, .min_arch = 80, .launch = launch, .guarantee = guarantee<D>, .refuse = refuse<D>,
          .carve = [](const D& d, const void*, Carver& c) {
            bool last_only = false;
            if constexpr (std::is_same_v<Op, Scatter> || std::is_same_v<Op, IndexPut>) last_only = d.reduce == ScatterKind::replace;
            (void)carve(d, c, last_only);
          }};
}

}  // namespace

template <> std::span<const Kernel<Scatter>> cuda_kernels<Scatter>() {
  static constexpr Kernel<Scatter> list[] = {row<Scatter>("scatter.cuda.sorted", launch_whole_bytes<Scatter>(run_scatter<Scatter>))};
  return list;
}
template <> std::span<const Kernel<IndexPut>> cuda_kernels<IndexPut>() {
  static constexpr Kernel<IndexPut> list[] = {row<IndexPut>("index_put.cuda.sorted", launch_whole_bytes<IndexPut>(run_scatter<IndexPut>))};
  return list;
}
template <> std::span<const Kernel<ScatterBackward>> cuda_kernels<ScatterBackward>() {
  static constexpr Kernel<ScatterBackward> list[] = {row<ScatterBackward>("scatter_backward.cuda.sorted", launch_all<ScatterBackward>(Floating{}, run_backward<ScatterBackward>))};
  return list;
}
template <> std::span<const Kernel<IndexPutBackward>> cuda_kernels<IndexPutBackward>() {
  static constexpr Kernel<IndexPutBackward> list[] = {row<IndexPutBackward>("index_put_backward.cuda.sorted", launch_all<IndexPutBackward>(Floating{}, run_backward<IndexPutBackward>))};
  return list;
}
template <> std::span<const Kernel<GatherBackward>> cuda_kernels<GatherBackward>() {
  static constexpr Kernel<GatherBackward> list[] = {row<GatherBackward>("gather_backward.cuda.sorted", launch_all<GatherBackward>(Floating{}, run_gradient<GatherBackward>))};
  return list;
}
template <> std::span<const Kernel<IndexBackward>> cuda_kernels<IndexBackward>() {
  static constexpr Kernel<IndexBackward> list[] = {row<IndexBackward>("index_backward.cuda.sorted", launch_all<IndexBackward>(Floating{}, run_gradient<IndexBackward>))};
  return list;
}

}  // namespace baracuda
