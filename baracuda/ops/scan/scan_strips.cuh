#pragma once
// Columns of scans that lie side by side in whole pieces of 16 bytes: a block has a strip of them, 256 or 128 bytes wide, and runs down all of it;
// asynchronous copies bring the next tiles to shared memory. A thread scans some elements of its columns, one word wide, in registers, and joins what lies above.
// The floor is memory bandwidth.
#include "baracuda/device/async_lines.cuh"
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class Op, int kBytes> struct Strip {
  using E = typename Op::E;
  using Word = typename Op::Word;
  static constexpr int kEach = Op::kWordEach, kWide = kBytes / int(sizeof(Word)), kDown = 512 / kWide, kRows = Op::kStripRows, kTile = kDown * kRows, kThreads = kWide * kDown,
                       kPieces = kBytes / 16, kStages = 4, kMemory = kStages * kTile * kBytes;
};
template <class Op, int kBytes> __global__ void __launch_bounds__(Strip<Op, kBytes>::kThreads, 1) strips_kernel(const __grid_constant__ ScanCuda p) {
  using E = typename Op::E;
  using State = typename Op::State;
  using Shape = Strip<Op, kBytes>;
  using Word = typename Shape::Word;
  constexpr int kEach = Shape::kEach, kWide = Shape::kWide, kDown = Shape::kDown, kRows = Shape::kRows, kTile = Shape::kTile, kStages = Shape::kStages, V = 16 / int(sizeof(E)), kPieces = Shape::kPieces;
  extern __shared__ uint4 tiles[];
  __shared__ State totals[2][kDown][kEach][kWide];
  const Op op{p};
  const int tid = int(threadIdx.x), column = tid % kWide, y = tid / kWide, last = p.lines.rank - 1;
  const int64_t wide = p.lines.extent[last], strips = (wide + kWide * kEach - 1) / (kWide * kEach), units = p.lines.units / wide * strips;
  const auto left_of = [&](int64_t unit, int64_t (&at)[5]) {  // columns of the strip
    const int64_t from = unit % strips * (kWide * kEach);
    p.lines.offsets(unit / strips * wide + from, at);
    return int(wide - from < kWide * kEach ? wide - from : kWide * kEach);
  };
  int64_t ahead = blockIdx.x, ahead_row = 0, ahead_at[5];
  int ahead_left = ahead < units ? left_of(ahead, ahead_at) : 0;
  const auto fetch = [&](int stage) {
    if (ahead < units) {
      const E* const x = static_cast<const E*>(p.in[0]) + ahead_at[0] + ahead_row * p.step[0];
#pragma unroll
      for (int k = 0; k < kTile * kPieces / Shape::kThreads; ++k) {
        const int c = k * Shape::kThreads + tid, row = c / kPieces, piece = c % kPieces;
        if (ahead_row + row < p.n && piece * V < ahead_left) device_lines::copy_line(tiles + stage * (kTile * kPieces) + c, x + row * p.step[0] + piece * V);
      }
      ahead_row += kTile;
      if (ahead_row >= p.n) {
        ahead_row = 0, ahead += gridDim.x;
        if (ahead < units) ahead_left = left_of(ahead, ahead_at);
      }
    }
    device_lines::commit_lines();
  };
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) fetch(s);
  int stage = 0, parity = 0;
  for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    int64_t at[5];
    const bool live = column * kEach < left_of(unit, at);
    State carry[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) carry[e] = op.identity();
    for (int64_t row = 0; row < p.n; row += kTile, parity ^= 1) {
      device_lines::wait_for_lines<kStages - 2>();
      __syncthreads();  // what others copied is there, and nobody reads the tile before
      fetch(stage ? stage - 1 : kStages - 1);
      const Word* const x = reinterpret_cast<const Word*>(tiles + stage * (kTile * kPieces)) + y * kRows * kWide + column;
      stage = stage + 1 == kStages ? 0 : stage + 1;
      const int64_t first = row + y * kRows;
      State all[kEach], before[kEach];
      const auto joined = [&] {
#pragma unroll
        for (int e = 0; e < kEach; ++e) totals[parity][y][e][column] = all[e];
        __syncthreads();
#pragma unroll
        for (int e = 0; e < kEach; ++e)
#pragma unroll
          for (int d = 0; d < kDown; ++d) {
            if (d == y) before[e] = carry[e];
            carry[e] = op.join(carry[e], totals[parity][d][e][column]);
          }
      };
      E* const to = static_cast<E*>(p.out) + at[3] + first * p.step[3] + column * kEach;
      [[maybe_unused]] const auto put = [&](int k, const State (&v)[kEach]) {
        *reinterpret_cast<Word*>(to + k * p.step[3]) = Op::rounded([&](int e) { return v[e]; });
        if constexpr (has_places<Op>()) {
          Chunk<int64_t, kEach> places;
#pragma unroll
          for (int e = 0; e < kEach; ++e) places.lane[e] = place_of(p, v[e].at);
          *reinterpret_cast<Chunk<int64_t, kEach>*>(static_cast<int64_t*>(p.indices) + at[4] + (first + k) * p.step[4] + column * kEach) = places;
        }
      };
      if constexpr (by_threads<Op>()) {
        Word words[kRows];
#pragma unroll
        for (int k = 0; k < kRows; ++k) words[k] = x[k * kWide];
        const auto element_of = [&](int k, int e) { return first + k < p.n ? Op::of_word(words[k], e) : op.nothing(); };
#pragma unroll
        for (int e = 0; e < kEach; ++e) all[e] = op.template total<kRows>([&](int k) { return element_of(k, e); });
        joined();
        if (!live) continue;
        float v[kRows][kEach];
#pragma unroll
        for (int e = 0; e < kEach; ++e) op.template scan<kRows>(before[e], [&](int k) { return element_of(k, e); }, [&](int k, float of) { v[k][e] = of; });
#pragma unroll
        for (int k = 0; k < kRows; ++k)
          if (first + k < p.n) *reinterpret_cast<Word*>(to + k * p.step[3]) = Op::rounded([&](int e) { return v[k][e]; });
      } else if constexpr (Op::kTwice) {  // elements are taken again: states of them all would not fit in registers
        Word words[kRows];
#pragma unroll
        for (int k = 0; k < kRows; ++k) words[k] = x[k * kWide];
#pragma unroll
        for (int k = 0; k < kRows; ++k)
#pragma unroll
          for (int e = 0; e < kEach; ++e) {
            const State v = op.made(Op::of_word(words[k], e), first + k);
            all[e] = k ? first + k < p.n ? op.took(all[e], v) : all[e] : first < p.n ? v : op.identity();
          }
        joined();
        if (!live) continue;
#pragma unroll
        for (int k = 0; k < kRows; ++k) {
          if (first + k >= p.n) break;
          State v[kEach];
#pragma unroll
          for (int e = 0; e < kEach; ++e) {
            const State then = op.took(before[e], op.made(Op::of_word(words[k], e), first + k));
            v[e] = p.exclusive ? before[e] : then, before[e] = then;
          }
          put(k, v);
        }
      } else {
        State upto[kRows][kEach];
#pragma unroll
        for (int k = 0; k < kRows; ++k) {
          const Word word = x[k * kWide];
#pragma unroll
          for (int e = 0; e < kEach; ++e) {
            const State v = first + k < p.n ? op.made(op.of_word(word, e), first + k) : op.identity();
            upto[k][e] = k ? op.join(upto[k - 1][e], v) : v;
          }
        }
#pragma unroll
        for (int e = 0; e < kEach; ++e) all[e] = upto[kRows - 1][e];
        joined();
        if (!live) continue;
#pragma unroll
        for (int k = 0; k < kRows; ++k) {
          if (first + k >= p.n) break;
          State v[kEach];
#pragma unroll
          for (int e = 0; e < kEach; ++e) v[e] = p.exclusive ? k ? op.join(before[e], upto[k - 1][e]) : before[e] : op.join(before[e], upto[k][e]);
          if (p.exclusive && k == 0 && first == 0)
#pragma unroll
            for (int e = 0; e < kEach; ++e) v[e] = op.empty();
          put(k, v);
        }
      }
    }
  }
}
template <class Op, int kBytes> int launch_strips_of(const ScanCuda& p, int64_t strips, void* stream) {
  using Shape = Strip<Op, kBytes>;
  return device::launch(strips_kernel<Op, kBytes>, unsigned(std::min<int64_t>(strips, 132)), dim3(Shape::kThreads), size_t(Shape::kMemory), stream, p);
}
// Narrower ones where there are not enough for all multiprocessors.
template <class Op> int launch_strips(const ScanCuda& p, void* stream) {
  const int64_t wide = p.lines.extent[p.lines.rank - 1], lines = p.lines.units / wide, bytes = wide * int64_t(sizeof(typename Op::E));
  const int64_t strips = lines * device::ceil_div(bytes, 256);
  return strips >= 96 ? launch_strips_of<Op, 256>(p, strips, stream) : launch_strips_of<Op, 128>(p, lines * device::ceil_div(bytes, 128), stream);
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
