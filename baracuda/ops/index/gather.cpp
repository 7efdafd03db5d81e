// gather and index: y[o] = x at the place that the indices name. Reads the indices and an element of x, writes one of y; rows
// whose index is one and that are dense are copied whole.
#include <cstring>
#include "baracuda/host/move.hpp"
#include "baracuda/host/past.hpp"
#include "baracuda/ops/index/index_places.hpp"

namespace baracuda {
namespace {

using namespace index_detail;

constexpr size_t kPastRow = 128;  // bytes

template <class D> void gather(const D& d, const IndexPlaces& p, IndexLists indices, const TensorView& x, const TensorView& y, int threads) {
  IndexWalk w = walk_of_indices(d, p, indices);
  w.add_source(y.strides);
  add_target(w, p, x.strides);
  const Bytes16 bits = missing(d.dtype);
  const bool past = past_caches(y, nullptr);
  const auto copy_past = BARACUDA_ISA_PICK(move_kernels).copy_past;
  with_element(d.dtype, [&]<class T>(T none) {
    std::memcpy(&none, &bits, sizeof none);
    const T* from = x.as<T>();
    T* to = y.as<T>();
    w.run(false, threads, [&](const IndexBlock& b) {
      T* row = to + b.source[0];
      const int64_t step = b.source_step[0], x_step = b.target_step[0];
      fetch_next(b, from);
      if (!b.at[0] && !b.outside && step == 1 && b.target_step[0] == 1) {
        const size_t bytes = size_t(b.count) * sizeof(T);
        if (past && bytes >= kPastRow && uintptr_t(row) % 64 == 0) copy_past(row, from + b.target[0], int64_t(bytes));
        else std::memcpy(row, from + b.target[0], bytes);
      } else if (!b.at[0])
        for (int64_t j = 0; j < b.count; ++j) row[j * step] = b.outside ? none : from[b.target[0] + j * x_step];
      else {
        const int64_t* const at = b.at[0];
        const T* const first = from + b.target[0];
        const int64_t n = b.count;
        if (past && step == 1 && uintptr_t(row) % 64 == 0) {
          alignas(64) T stage[kIndexBlock];
          for (int64_t j = 0; j < n; ++j) stage[j] = at[j] == kOutside ? none : first[j * x_step + at[j]];
          copy_past(row, stage, n * int64_t(sizeof(T)));
        } else
          for (int64_t j = 0; j < n; ++j) row[j * step] = at[j] == kOutside ? none : first[j * x_step + at[j]];
      }
    });
  });
}
template <class Op> Status run_gather(const Launch<Op>& l) {
  const IndexPlaces p = places_of(l.desc);
  const IndexLists indices = lists(l.args.indices);
  BARACUDA_TRY(look_at_indices(Op::name, l.desc, p, indices, l.threads));
  gather(l.desc, p, indices, l.args.x, l.args.y, l.threads);
  return {};
}
template <class Op> Status check_gather(const typename Op::Descriptor& d, const typename Op::Args& a) {
  BARACUDA_TRY((check_pair<Op>(d.dtype, "x", a.x, d.shape, "y", a.y, places_of(d).walk)));
  return check_lists(Op::name, d, a.indices, a.y.device);
}

}  // namespace

Bytes16 index_detail::missing(DType t) {
  Bytes16 b{};
  auto same = [&](auto bits) { std::memcpy(&b, &bits, sizeof bits); };
  const int bits = bit_size(t);
  switch (t) {
    case DType::boolean: same(uint8_t(1)); break;
    case DType::f16: same(uint16_t(0x7e00)); break;
    case DType::bf16: same(uint16_t(0x7fc0)); break;
    case DType::f8_e4m3fn: case DType::f8_e5m2: same(uint8_t(0x7f)); break;
    case DType::f32: case DType::c64: same(__builtin_nanf("")); break;
    case DType::f64: case DType::c128: same(__builtin_nan("")); break;
    default: same(kDTypeFacts[size_t(t)].is_signed ? uint64_t(1) << (bits - 1) : ~uint64_t(0));
  }
  if (t == DType::c64) b.a |= b.a << 32;
  if (t == DType::c128) b.b = b.a;
  return b;
}

Shape IndexDescriptor::y_shape() const { return index_detail::places_of(*this).walk; }

Status Gather::validate(const Descriptor& d) { return validate_indices(name, d); }
Status Gather::check(const Descriptor& d, const Args& a) { return check_gather<Gather>(d, a); }
std::span<const Kernel<Gather>> Gather::kernels() {
  static constexpr Kernel<Gather> list[] = {{.name = "gather.cpu.walk", .launch = launch_whole_bytes<Gather>(run_gather<Gather>), .guarantee = exact<Gather>}};
  return list;
}
Status Index::validate(const Descriptor& d) { return validate_indices(name, d); }
Status Index::check(const Descriptor& d, const Args& a) { return check_gather<Index>(d, a); }
std::span<const Kernel<Index>> Index::kernels() {
  static constexpr Kernel<Index> list[] = {{.name = "index.cpu.walk", .launch = launch_whole_bytes<Index>(run_gather<Index>), .guarantee = exact<Index>}};
  return list;
}

}  // namespace baracuda
