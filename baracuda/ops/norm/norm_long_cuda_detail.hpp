#pragma once
// How LayerNorm and RmsNorm have rows done that neither a block nor a cluster holds: sums of chunks, their join, and a pass that writes.
#include "baracuda/ops/norm/channels_cuda_detail.hpp"
#include "baracuda/ops/norm/norm_cuda.hpp"
#include "baracuda/ops/norm/norm_long_cuda.hpp"

namespace baracuda::norm_long {
using channels_detail::vector_of;

struct Problem {
  DType dtype;
  Shape outer;  // of the rows
  int64_t n;
  double eps;
  bool rms, one_plus, cast_first;
  int64_t rows() const { return outer.numel(); }
  int64_t segments() const { return norm_long_segments(rows(), n, int(byte_size(dtype))); }
};
struct Scratch : channels_detail::Scratch { void *dweight = nullptr, *dbias = nullptr; };
inline Scratch carve(const Problem& p, Carver& c, bool dweight, bool dbias) {
  Scratch s;
  static_cast<channels_detail::Scratch&>(s) = channels_detail::carve(p.dtype, c, p.rows(), p.rows() * list_chunks(p.n));
  const auto take = [&](std::string_view what) { return c.take_bytes(what, p.segments() * p.n, sizeof(float)); };
  if (dweight) s.dweight = take("dweight partial sums");
  if (dbias) s.dbias = take("dbias partial sums");
  return s;
}
// x and dy as [rows, n].
inline device::Walk<2> walk_elements(const Problem& p, const TensorView& x, const TensorView& dy) {
  Shape shape = p.outer;
  shape.push_back(p.n);
  device::Operand operand[] = {device::Operand::of(x), device::Operand::of(dy)};
  for (device::Operand& o : operand) {
    if (!o.data) continue;
    Strides strides;
    for (int a = 0; a < p.outer.rank; ++a) strides.push_back(o.strides[a]);
    strides.push_back(1);
    o.strides = strides;
  }
  const int lanes = 16 / int(byte_size(p.dtype));
  return device::walk<2>(shape, operand, -1, p.n % lanes == 0 ? lanes : 1);
}
struct Arguments { TensorView dy, x, dh, y, weight, bias, mean, rstd, dweight, dbias; };
inline NormLongCuda write_of(const Problem& p, const Scratch& s, const Arguments& a) {
  const device::Operand operand[] = {device::Operand::of(a.x), device::Operand::of(a.dy), device::Operand::of(a.y), device::Operand::of(a.dh)};
  return {device::walk<4>(p.outer, operand, -1, 1), a.x.data, a.dy.data, a.dh.data, s.kept, a.y.data, a.dweight.absent() ? nullptr : s.dweight,
          a.dbias.absent() ? nullptr : s.dbias, vector_of(a.weight), vector_of(a.bias), p.n, p.segments(), p.one_plus, p.cast_first};
}
inline int find(const Problem& p, const Scratch& s, const Arguments& a, bool saved, void* stream) {
  const device::Walk<2> walk = walk_elements(p, a.x, {});
  int e = saved ? 0 : channel_cuda_kernels.sums[p.dtype]({walk, a.x.data, nullptr, p.rows(), p.n, 1, s.kept, s.sums}, stream);
  return e ? e : channel_cuda_kernels.join[p.dtype]({walk, channels_detail::walk_found(p.outer, a.mean, a.rstd), a.x.data, s.sums, s.kept, a.mean.data, a.rstd.data, p.rows(), p.n,
                                                     p.eps, 0, {}, {}, saved ? ListStatistics::saved : ListStatistics::sums, false, p.rms}, stream);
}
inline int forward(const Problem& p, const Scratch& s, const Arguments& a, void* stream) {
  if (p.rows() == 0) return 0;
  const int e = find(p, s, a, false, stream);
  return e ? e : norm_long_cuda.forward[p.dtype](write_of(p, s, a), stream);
}
// dweight and dbias from their parts.
inline int fold(const Problem& p, const Scratch& s, const Arguments& a, int64_t parts, void* stream) {
  int e = 0;
  const auto of = [&](const void* from, const TensorView& out) {
    if (!e && !out.absent()) e = norm_cuda_kernels.fold_f32[out.dtype]({{{from, out.data, out.strides[out.strides.rank - 1]}, {}}, parts, p.n}, stream);
  };
  of(s.dweight, a.dweight), of(s.dbias, a.dbias);
  return e;
}
inline int backward(const Problem& p, const Scratch& s, const Arguments& a, void* stream) {
  int e = 0;
  if (p.rows()) {
    e = find(p, s, a, !a.rstd.absent(), stream);
    if (!e) e = channel_cuda_kernels.sums[p.dtype]({walk_elements(p, a.x, a.dy), a.x.data, a.dy.data, p.rows(), p.n, 1, s.kept, s.sums, vector_of(a.weight), p.one_plus}, stream);
    if (!e) e = channel_cuda_kernels.join_gradient[p.dtype]({s.sums, s.kept, p.rows(), 1, p.n, list_chunks(p.n), 1, {}, {}, {}, nullptr, nullptr, false, p.rms}, stream);
    if (!e) e = norm_long_cuda.backward[p.dtype](write_of(p, s, a), stream);
  }
  return e ? e : fold(p, s, a, p.rows() ? p.segments() : 0, stream);
}

}  // namespace baracuda::norm_long
