#include "baracuda/ops/index/index_cuda.hpp"
#include <bit>
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/index/index_places.hpp"

namespace baracuda {
namespace {
using device::Operand;
using namespace index_detail;

// A run cannot wait for the indices to look at them.
template <class D> std::string refuse(const D& d, const PlanPreference&) {
  return d.out_of_range == OutOfRange::refuse ? "out_of_range refuse needs a look at the indices, for which a run on CUDA does not wait; fill and clip do not" : "";
}
template <class Op> PrecisionGuarantee same_everywhere(const typename Op::Descriptor& d) {
  return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true, .same_on_cpu_and_cuda = true};
}
int log_bytes(DType t) { return std::countr_zero(byte_size(t)); }
int lanes_of(DType t) { return 16 / int(byte_size(t)); }

template <int K, class D> GatherCuda<K> gather_of(const D& d, const IndexPlaces& places, IndexLists indices, const TensorView& x, const TensorView& y) {
  GatherCuda<K> p{};
  Operand operands[2 + K];
  operands[0] = Operand::of(y);
  operands[1] = {x.data, int(byte_size(d.dtype)), {}};
  for (int i = 0; i < places.walk.rank; ++i) operands[1].strides.push_back(places.of[i] < 0 ? 0 : x.strides[places.of[i]]);
  const int lanes = lanes_of(d.dtype);
  bool whole = true;
  for (int k = 0; k < places.keys; ++k) {
    const TensorView& key = indices[size_t(k)];
    operands[2 + k] = {key.data, int(byte_size(d.index_dtype)), key_strides(places, key)};
    p.key[k] = key.data, p.extent[k] = key_extent(d, places, k), p.add[k] = d.shape.rank ? x.strides[places.key_axis[k]] : 0;
    whole = whole && p.add[k] % lanes == 0;
  }
  p.walk = device::walk<2 + K>(places.walk, operands, 0, whole ? lanes : 1);
  if (p.walk.lanes > 1) {  // neighbours of one place
    bool same = !p.walk.spread[1] && p.walk.rest == 0;
    for (int k = 0; k < places.keys; ++k) same = same && p.walk.spread[2 + k];
    if (!same) p.walk = device::walk<2 + K>(places.walk, operands, 0, 1);
  }
  if (K == 1 && p.walk.lanes == 1) {  // neighbours of places of their own
    const device::Walk<2 + K> four = device::walk<2 + K>(places.walk, operands, 0, kIndexApart);
    p.apart = four.lanes > 1 && four.rest == 0 && !four.spread[0] && !four.spread[2];
    if (p.apart) p.walk = four;
  }
  const Bytes16 none = missing(d.dtype);
  p.x = x.data, p.y = y.data, p.keys = places.keys, p.i64 = d.index_dtype == DType::i64, p.negative = d.negative, p.clip = d.out_of_range == OutOfRange::clip;
  p.none[0] = none.a, p.none[1] = none.b;
  return p;
}
template <class Op> Status run_gather(const Launch<Op>& l) {
  const auto& d = l.desc;
  const IndexPlaces places = places_of(d);
  if (l.args.y.numel() == 0) return {};
  const IndexLists indices = lists(l.args.indices);
  const int size = log_bytes(d.dtype);
  return device::queue(l.stream, Op::name, [&] {
    if (places.keys == 1) return index_cuda_kernels.gather[size](gather_of<1>(d, places, indices, l.args.x, l.args.y), l.stream.handle);
    return index_cuda_kernels.gather_many[size](gather_of<kMaxRank>(d, places, indices, l.args.x, l.args.y), l.stream.handle);
  });
}
Status run_one_hot(const Launch<OneHot>& l) {
  const OneHotDescriptor& d = l.desc;
  const TensorView &indices = l.args.indices, &y = l.args.y;
  if (y.numel() == 0) return {};
  const int axis = class_axis(d);
  Operand operands[3] = {Operand::of(y), {indices.data, int(byte_size(d.index_dtype)), {}}, {y.data, 1, {}}};  // the class: its offset is what counts
  for (int i = 0; i < y.shape.rank; ++i) {
    operands[1].strides.push_back(i == axis ? 0 : indices.strides[i - (i > axis)]);
    operands[2].strides.push_back(i == axis);
  }
  OneHotCuda p{device::walk<3>(y.shape, operands, 0, lanes_of(d.dtype)), indices.data, y.data, d.classes, d.index_dtype == DType::i64, d.negative,
               d.out_of_range == OutOfRange::clip, bits_of(d.dtype, 1).a};
  if (p.walk.lanes > 1 && (!p.walk.spread[1] || p.walk.spread[2] || p.walk.rest)) p.walk = device::walk<3>(y.shape, operands, 0, 1);
  return device::queue(l.stream, "one_hot.cuda.map", [&] { return index_cuda_kernels.one_hot[log_bytes(d.dtype)](p, l.stream.handle); });
}

}  // namespace

template <> std::span<const Kernel<Gather>> cuda_kernels<Gather>() {
  static constexpr Kernel<Gather> list[] = {{.name = "gather.cuda.map", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_whole_bytes<Gather>(run_gather<Gather>),
                                             .guarantee = same_everywhere<Gather>, .refuse = refuse<GatherDescriptor>}};
  return list;
}
template <> std::span<const Kernel<Index>> cuda_kernels<Index>() {
  static constexpr Kernel<Index> list[] = {{.name = "index.cuda.map", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_whole_bytes<Index>(run_gather<Index>),
                                            .guarantee = same_everywhere<Index>, .refuse = refuse<IndexDescriptor>}};
  return list;
}
template <> std::span<const Kernel<OneHot>> cuda_kernels<OneHot>() {
  static constexpr Kernel<OneHot> list[] = {{.name = "one_hot.cuda.map", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<OneHot>(Castable{}, run_one_hot),
                                             .guarantee = same_everywhere<OneHot>, .refuse = refuse<OneHotDescriptor>}};
  return list;
}

}  // namespace baracuda
