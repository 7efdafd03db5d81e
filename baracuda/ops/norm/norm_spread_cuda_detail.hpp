#pragma once
// How LayerNorm and RmsNorm have rows done that all blocks of a device hold together.
#include <memory>
#include "baracuda/device/launch.hpp"
#include "baracuda/ops/norm/norm_long_cuda_detail.hpp"
#include "baracuda/ops/norm/norm_spread_cuda.hpp"

namespace baracuda::norm_spread {
using norm_long::Arguments, norm_long::Problem;

inline int size(const Problem& p) { return int(byte_size(p.dtype)); }
inline std::string refuse(const Problem& p, int blocks_of_row) {
  return blocks_of_row != 1 && p.n > 0 && p.n % (16 / size(p)) == 0 ? "" : "for rows of whole pieces of 16 bytes that no block holds";
}
// The state of a plan: blocks that the device holds at once.
inline int64_t blocks_of(const void* state) { return *static_cast<const int64_t*>(state); }
inline Result<PlanState> prepare(const Stream& stream, const Problem& p, bool backward) {
  BARACUDA_TRY(device::only_sm90a(stream));
  const int64_t count = int64_t(device::facts(stream.device.index).multiprocessors) * spread::kBlocks;
  if (p.rows() > 0 && norm_spread_fits(p.rows(), p.n, size(p), count, backward)) return PlanState(std::make_shared<const int64_t>(count));
  return Status(Code::unsupported, "for rows that the blocks of the device hold together");
}
struct Scratch : norm_long::Scratch { void* posts; };
inline Scratch carve(const Problem& p, const void* state, Carver& c, bool backward, bool dweight, bool dbias) {
  Scratch s{};
  static_cast<norm_long::Scratch&>(s) = norm_long::carve(p, c, false, false);
  s.posts = c.take_bytes("posts of pieces", p.rows() * spread::pieces_of(p.n, backward ? 2 : 1, size(p)) * kNormPostWords, 8);
  const int64_t parts = backward ? std::max(p.segments(), norm_spread_parts(p.rows(), p.n, size(p), blocks_of(state))) : 0;
  const auto take = [&](std::string_view what) { return c.take_bytes(what, parts * p.n, sizeof(float)); };
  if (dweight) s.dweight = take("dweight partial sums");
  if (dbias) s.dbias = take("dbias partial sums");
  return s;
}
inline NormSpreadCuda problem_of(const Problem& p, const void* state, const Scratch& s, const Arguments& a) {
  return {norm_long::write_of(p, s, a), channels_detail::walk_found(p.outer, a.mean, a.rstd), a.mean.data, a.rstd.data, p.eps, p.rms, s.posts, blocks_of(state)};
}
// Rows that are not whole pieces go the way of long ones, and so does a backward that has not all statistics.
inline int forward(const Problem& p, const void* state, const Scratch& s, const Arguments& a, void* stream) {
  const int e = norm_spread_cuda.forward[p.dtype](problem_of(p, state, s, a), stream);
  return e == kNormNotSpread ? norm_long::forward(p, s, a, stream) : e;
}
inline int backward(const Problem& p, const void* state, const Scratch& s, const Arguments& a, void* stream) {
  const bool saved = !a.rstd.absent() && (p.rms || !a.mean.absent());
  const int e = saved ? norm_spread_cuda.backward[p.dtype](problem_of(p, state, s, a), stream) : kNormNotSpread;
  if (e) return e == kNormNotSpread ? norm_long::backward(p, s, a, stream) : e;
  return norm_long::fold(p, s, a, norm_spread_parts(p.rows(), p.n, size(p), blocks_of(state)), stream);
}

}  // namespace baracuda::norm_spread
