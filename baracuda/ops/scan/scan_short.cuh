#pragma once
// Whole rows of at most 32 pieces of 16 bytes, a piece a thread, several rows at a time. The floor is memory bandwidth.
#include "baracuda/ops/scan/scan_piped.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kShortThreads = 256, kShortRows = 4;
template <class Op> __global__ void __launch_bounds__(kShortThreads) short_kernel(const __grid_constant__ ScanCuda p) {
  using E = typename Op::E;
  using State = typename Op::State;
  constexpr int V = Op::kEach;
  const Op op{p};
  const auto join = [&](const State& a, const State& b) { return op.join(a, b); };
  const int team = p.team, thread = int(threadIdx.x) & (team - 1), slots = kShortThreads / team, i = thread * V;
  const bool x_up = p.step[0] > 0, y_up = p.step[3] > 0;
  const int64_t line = int64_t(blockIdx.x) * kShortRows * slots + int(threadIdx.x) / team;
  uint4 x[kShortRows];
  E* to[kShortRows];
#pragma unroll
  for (int r = 0; r < kShortRows; ++r) {
    to[r] = nullptr;
    if (line + r * slots >= p.lines.units || i >= p.n) continue;
    int64_t at[5];
    p.lines.offsets(line + r * slots, at);
    x[r] = *reinterpret_cast<const uint4*>(static_cast<const E*>(p.in[0]) + at[0] + (x_up ? i : -i - (V - 1)));
    to[r] = static_cast<E*>(p.out) + at[3] + (y_up ? i : -i - (V - 1));
  }
#pragma unroll
  for (int r = 0; r < kShortRows; ++r) {
    const typename Op::template Piece<V> piece = __builtin_bit_cast(typename Op::template Piece<V>, in_order<E>(x[r], x_up));
    State upto[V], all, before;
#pragma unroll
    for (int k = 0; k < V; ++k) upto[k] = k ? op.join(upto[k - 1], op.own(piece, k, 0)) : op.own(piece, 0, 0);
    scan_lanes(upto[V - 1], team, op.identity(), join, all, before);
#pragma unroll
    for (int k = V - 1; k >= 0; --k) upto[k] = p.exclusive ? k ? op.join(before, upto[k - 1]) : before : op.join(before, upto[k]);
    if (p.exclusive && i == 0) upto[0] = op.empty();
    Chunk<typename Op::Word, 16 / int(sizeof(typename Op::Word))> out;
#pragma unroll
    for (int k = 0; k < V; k += Op::kWordEach) out.lane[k / Op::kWordEach] = op.rounded([&](int e) { return upto[k + e]; });
    if (to[r]) *reinterpret_cast<uint4*>(to[r]) = in_order<E>(__builtin_bit_cast(uint4, out), y_up);
  }
}
template <class Op> int launch_short(const ScanCuda& given, void* stream) {
  ScanCuda p = given;
  p.team = team_for(device::ceil_div(p.n, Op::kEach));
  return device::launch(short_kernel<Op>, device::blocks_for(p.lines.units, int64_t(kShortThreads / p.team) * kShortRows), dim3(kShortThreads), 0, stream, p);
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
