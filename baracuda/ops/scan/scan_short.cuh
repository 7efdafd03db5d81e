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
  [[maybe_unused]] const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  __shared__ __align__(8) int shared_places[has_places<Op>() ? kShortThreads * V : 1];
  const bool x_up = p.step[0] > 0, y_up = p.step[3] > 0;
  const int64_t line = int64_t(blockIdx.x) * kShortRows * slots + int(threadIdx.x) / team;
  uint4 x[kShortRows];
  E* to[kShortRows];
  [[maybe_unused]] int64_t* places[kShortRows];
#pragma unroll
  for (int r = 0; r < kShortRows; ++r) {
    to[r] = nullptr, places[r] = nullptr;
    if (line + r * slots >= p.lines.units || i >= p.n) continue;
    int64_t at[5];
    p.lines.offsets(line + r * slots, at);
    x[r] = *reinterpret_cast<const uint4*>(static_cast<const E*>(p.in[0]) + at[0] + (x_up ? i : -i - (V - 1)));
    to[r] = static_cast<E*>(p.out) + at[3] + (y_up ? i : -i - (V - 1));
    if constexpr (has_places<Op>()) places[r] = static_cast<int64_t*>(p.indices) + at[4] + (y_up ? i : -i - (V - 1));
  }
#pragma unroll
  for (int r = 0; r < kShortRows; ++r) {
    const typename Op::template Piece<V> piece = __builtin_bit_cast(typename Op::template Piece<V>, in_order<E>(x[r], x_up));
    State all, before;
    Chunk<typename Op::Word, 16 / int(sizeof(typename Op::Word))> out;
    if constexpr (by_threads<Op>()) {
      const auto get = [&](int k) { return i < p.n ? value(piece.x[k]).v : op.nothing(); };
      float v[V];
      scan_lanes(op.template total<V>(get), team, op.identity(), join, all, before);
      op.template scan<V>(before, get, [&](int k, float of) { v[k] = of; });
#pragma unroll
      for (int k = 0; k < V; k += Op::kWordEach) out.lane[k / Op::kWordEach] = op.rounded([&](int e) { return v[k + e]; });
      if (to[r]) *reinterpret_cast<uint4*>(to[r]) = in_order<E>(__builtin_bit_cast(uint4, out), y_up);
    } else {
      State upto[V];
#pragma unroll
      for (int k = 0; k < V; ++k) upto[k] = k ? op.join(upto[k - 1], op.own(piece, k, i + k)) : op.own(piece, 0, i);
      scan_lanes(upto[V - 1], team, op.identity(), join, all, before);
#pragma unroll
      for (int k = V - 1; k >= 0; --k) upto[k] = p.exclusive ? k ? op.join(before, upto[k - 1]) : before : op.join(before, upto[k]);
      if (p.exclusive && i == 0) upto[0] = op.empty();
#pragma unroll
      for (int k = 0; k < V; k += Op::kWordEach) out.lane[k / Op::kWordEach] = op.rounded([&](int e) { return upto[k + e]; });
      if (to[r]) *reinterpret_cast<uint4*>(to[r]) = in_order<E>(__builtin_bit_cast(uint4, out), y_up);
      if constexpr (has_places<Op>()) {  // neighbours write neighbours
        int* const shared = shared_places + warp * 32 * V;
#pragma unroll
        for (int k = 0; k < V; ++k) shared[lane * V + (y_up ? k : V - 1 - k)] = upto[k].at;
        __syncwarp();
#pragma unroll
        for (int j = 0; j < V / 2; ++j) {
          const int pair = j * 32 + lane, of = pair / (V / 2);
          int64_t* const there = reinterpret_cast<int64_t*>(__shfl_sync(0xffffffffu, reinterpret_cast<uint64_t>(places[r]), of));
          const Chunk<int, 2> l = reinterpret_cast<const Chunk<int, 2>*>(shared)[pair];
          if (there) *reinterpret_cast<Chunk<int64_t, 2>*>(there + pair % (V / 2) * 2) = {{place_of(p, l.lane[0]), place_of(p, l.lane[1])}};
        }
        __syncwarp();
      }
    }
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
