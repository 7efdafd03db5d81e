#pragma once
// Rows of scans with one input whose elements are neighbours: a line, or a tile of it, is copied to shared memory while the one before is finished, and a
// tile posts its total before the block finishes the one that it has, so that who waits for it seldom waits. The floor is memory bandwidth.
// Memory comes and goes in aligned pieces of 16 bytes wherever a line begins: s elements off, the threads shift them into place. The order of the sums is
// rows_kernel's.
#include "baracuda/device/async_lines.cuh"
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

// Pieces of a tile in the order of the scan. A line that goes down through memory has its pieces' elements the other way round.
template <class E, bool kWhole> struct Pieces {
  static constexpr int V = 16 / int(sizeof(E));
  E* edge;  // of piece 0: its beginning, or its end where the line goes down
  int s;    // of piece 0, elements that are not the tile's
  Pieces() = default;
  __device__ Pieces(E* first, bool up) : edge(up ? first : first + 1), s(0) {
    if constexpr (!kWhole) {
      const int off = row_team::misplaced(edge);
      s = up ? off : off ? V - off : 0;
      edge += up ? -s : s;
    }
  }
  __device__ __forceinline__ E* piece(int j, bool up) const { return up ? edge + j * V : edge - (j + 1) * V; }
  __device__ __forceinline__ E* element(int i, bool up) const { return up ? edge + (s + i) : edge - (s + i) - 1; }
};
template <class E> __device__ __forceinline__ uint4 in_order(uint4 w, bool up) {
  if (up) return w;
  if constexpr (sizeof(E) == 8) return make_uint4(w.z, w.w, w.x, w.y);
  else if constexpr (sizeof(E) == 4) return make_uint4(w.w, w.z, w.y, w.x);
  else return make_uint4(__byte_perm(w.w, 0, 0x1032), __byte_perm(w.z, 0, 0x1032), __byte_perm(w.y, 0, 0x1032), __byte_perm(w.x, 0, 0x1032));
}
// 16 of the 32 bytes of a and b, from element `by` on.
template <class E> __device__ __forceinline__ uint4 shifted_pieces(uint4 a, uint4 b, int by) {
  uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  row_team::shift_words<int(sizeof(E))>(w, by * int(sizeof(E)));
  return make_uint4(w[0], w[1], w[2], w[3]);
}

// What a thread sees of its warp's segment of 32 C pieces in shared memory, and one more where lines begin anywhere.
template <class Op, int C, bool kWhole> struct PipedIo {
  using E = typename Op::E;
  using O = typename Op::Out;
  static constexpr int V = Op::kEach, N = C * V, kLines = 32 * C + (kWhole ? 0 : 1), kAtOnce = kWhole ? Op::kAtOnce : 1;
  static_assert(sizeof(E) == sizeof(O) && C % 2 == 0);
  const ScanCuda& p;
  uint4* buffer;
  int first, lane;  // the segment's first element in the tile
  int s, m, tile;   // of x; elements of the tile, 0 for one that is not there; its number
  Pieces<O, kWhole> y;
  mutable uint4 carried, head, tail;

  __device__ static int place(int chunk) { return chunk ^ (chunk / 8 & 7); }
  __device__ int64_t own() const { return int64_t(tile) * p.tile + first + lane * N; }
  __device__ bool x_up() const { return p.step[0] > 0; }
  __device__ bool y_up() const { return p.step[3] > 0; }
  __device__ void fetch(const Pieces<const E, kWhole>& x) const {
#pragma unroll (kWhole ? C : 3)
    for (int c = 0; c < C + !kWhole; ++c) {
      const int k = c * 32 + lane, i = first + k * V - x.s;
      if (i >= m || (c == C && (lane > 0 || x.s == 0))) break;
      if constexpr (kWhole) device_lines::copy_line(buffer + place(k), x.piece(first / V + k, x_up()));
      else {  // what lies behind the tile, or above a line's beginning where it goes down, is not read
        int bytes = 16;
        if (x_up()) bytes = m - i < V ? (m - i) * int(sizeof(E)) : 16;
        else if (i < 0 && tile == 0) bytes = (V + i) * int(sizeof(E));
        copy_part(buffer + place(k), x.piece(first / V + k, x_up()), bytes);
      }
    }
  }
  __device__ void view(int, int c, E (&to)[V]) const {
    uint4 w;
    if constexpr (kWhole) w = in_order<E>(buffer[place(lane * C + c)], x_up());
    else {
      if (c == 0) carried = in_order<E>(buffer[place(lane * C)], x_up());
      const uint4 next = in_order<E>(buffer[place(lane * C + c + 1)], x_up());
      w = shifted_pieces<E>(carried, next, s), carried = next;
    }
    const auto l = __builtin_bit_cast(Chunk<E, V>, w);
#pragma unroll
    for (int k = 0; k < V; ++k) to[k] = l.lane[k];
  }
  template <int W = 0> __device__ void put(int c, const O (&out)[V]) const {
    Chunk<O, V> l;
#pragma unroll
    for (int k = 0; k < V; ++k) l.lane[k] = out[k];
    const uint4 w = __builtin_bit_cast(uint4, l);
    if constexpr (kWhole) buffer[place(lane * C + c)] = w;
    else {  // a piece has the end of the chunk before; the first one waits for another thread's
      if (c == 0) head = w;
      else buffer[place(lane * C + c)] = y.s ? shifted_pieces<O>(tail, w, V - y.s) : w;
      tail = w;
    }
  }
  __device__ void put_places(int, int64_t, int64_t) const {}
  template <class, int W = 0> __device__ void flush() const {
    if constexpr (!kWhole) {
      uint4 before;
      before.x = __shfl_up_sync(0xffffffffu, tail.x, 1), before.y = __shfl_up_sync(0xffffffffu, tail.y, 1);
      before.z = __shfl_up_sync(0xffffffffu, tail.z, 1), before.w = __shfl_up_sync(0xffffffffu, tail.w, 1);
      __syncwarp();  // neighbours have seen the first piece
      buffer[place(lane * C)] = y.s ? shifted_pieces<O>(before, head, V - y.s) : head;
      if (y.s && (lane == 0 || lane == 31)) {  // ends of the segment that share a piece with others
        const auto l = __builtin_bit_cast(Chunk<O, V>, lane ? tail : head);
        const int i = lane ? first + 32 * N - V : first;
#pragma unroll
        for (int k = 0; k < V; ++k)
          if ((lane ? k >= V - y.s : k < V - y.s) && i + k < m) *y.element(i + k, y_up()) = l.lane[k];
      }
    }
    __syncwarp();
#pragma unroll (kWhole ? C : 2)
    for (int c = 0; c < C; ++c) {
      const int k = c * 32 + lane, i = first + k * V - y.s;
      if (i >= m) break;
      if (!kWhole && k == 0 && y.s) continue;
      const uint4 w = buffer[place(k)];
      if (kWhole || m - i >= V) *reinterpret_cast<uint4*>(y.piece(first / V + k, y_up())) = in_order<O>(w, y_up());
      else {
        const auto l = __builtin_bit_cast(Chunk<O, V>, w);
#pragma unroll
        for (int e = 0; e < V; ++e)
          if (i + e < m) *y.element(i + e, y_up()) = l.lane[e];
      }
    }
    __syncwarp();
  }
};

constexpr int kPipedWarps = kMostTeam / 32, kUnevenBlocks = 2;
template <class Op, bool kWhole> size_t piped_bytes(int block) {
  const size_t bytes = size_t(2 * block / 32) * sizeof(uint4) * PipedIo<Op, Op::kRounds, kWhole>::kLines, most = 48 * 1024;
  return bytes > most - 1024 && bytes <= most ? most + 16 : bytes;  // with what the kernel itself has more than is there unasked: the launch asks
}

template <class Op, bool kWhole> __global__ void __launch_bounds__(kMostTeam, kWhole ? Op::kBlocks : kUnevenBlocks) piped_kernel(const __grid_constant__ ScanCuda p) {
  using State = typename Op::State;
  using E = typename Op::E;
  using O = typename Op::Out;
  using Io = PipedIo<Op, Op::kRounds, kWhole>;
  extern __shared__ uint4 dynamic[];
  __shared__ State entries[2][kPipedWarps], chain;
  __shared__ uint32_t next_ticket[2];
  const Op op{p};
  const auto join = [&](const State& a, const State& b) { return op.join(a, b); };
  const int team = p.team, tid = int(threadIdx.x), lane = tid % 32, warp = tid % team / 32, warps = team / 32, slot = tid / team, slots = int(blockDim.x) / team;
  const bool chained = p.tiles > 1;
  const int64_t all = chained ? p.lines.units * p.tiles : (p.lines.units + slots - 1) / slots;
  struct Turn {
    uint32_t line;  // where tiles are chained
    int m, s, tile;
    Pieces<O, kWhole> y;
    State mine, total;  // before the thread's elements in the tile; of the tile
  } now, next;
  const auto io_of = [&](const Turn& t, int parity) {
    return Io{p, dynamic + (parity * int(blockDim.x) / 32 + tid / 32) * Io::kLines, warp * 32 * Io::N, lane, t.s, t.m, t.tile, t.y};
  };
  const auto fetch = [&](int64_t turn, int parity, Turn& t) {
    const int64_t line = chained ? int64_t(uint32_t(turn) / uint32_t(p.tiles)) : turn * slots + slot;
    const bool live = line < p.lines.units;
    t.line = uint32_t(line), t.tile = chained ? int(uint32_t(turn) - t.line * uint32_t(p.tiles)) : 0;
    int64_t at[5];
    p.lines.offsets(live ? line : 0, at);
    const int64_t begin = t.tile * p.tile, left = p.n - begin;
    t.m = !live ? 0 : left < p.tile ? int(left) : int(p.tile);
    const Pieces<const E, kWhole> x{static_cast<const E*>(p.in[0]) + at[0] + (p.step[0] > 0 ? begin : -begin), p.step[0] > 0};
    t.y = {static_cast<O*>(p.out) + at[3] + (p.step[3] > 0 ? begin : -begin), p.step[3] > 0};
    t.s = x.s;
    io_of(t, parity).fetch(x);
    device_lines::commit_lines();
  };
  int64_t turn = blockIdx.x, then = turn + gridDim.x;
  // The totals of what was fetched. Then it is time for another ticket: one that is kept from its block by a tile before makes those behind it wait.
  const auto total = [&](Turn& t, int parity) {
    device_lines::wait_for_lines<0>();
    __syncwarp();
    uint32_t ticket = 0;
    if (chained && tid == 32) ticket = atomicAdd(reinterpret_cast<uint32_t*>(p.totals), 1u);
    State upto, before;
    const Io io = io_of(t, parity);
    scan_lanes(total_of(op, io), 32, op.identity(), join, upto, t.mine);
    if (warps == 1 && !chained) return;
    if (lane == 31) entries[parity][tid / 32] = io.first < t.m ? upto : op.identity();
    if (tid == 32) next_ticket[parity] = ticket;
    __syncthreads();
    scan_lanes(lane < warps ? entries[parity][slot * warps + lane] : op.identity(), 32, op.identity(), join, upto, before);
    t.mine = op.join(of_lane(before, warp), t.mine);
    if (!chained) return;
    then = next_ticket[parity];
    t.total = of_lane(upto, 31);
    post_total(p, t.line, t.tile, t.total);
  };
  if (chained) {
    if (tid == 0) next_ticket[1] = atomicAdd(reinterpret_cast<uint32_t*>(p.totals), 1u);
    __syncthreads();
    turn = next_ticket[1];
  }
  if (turn >= all) return;
  fetch(turn, 0, now);
  total(now, 0);
  for (int parity = 0;; parity ^= 1) {
    const bool more = then < all;
    if (more) fetch(then, parity ^ 1, next);
    if (!chained) then += gridDim.x;
    State before = now.mine;
    if (chained) {
      if (tid < 32) {
        const State s = before_tile(p, op, now.line, now.tile, now.total);
        if (lane == 0) chain = s;
      }
      __syncthreads();
      before = op.join(chain, before);
    }
    finish(op, io_of(now, parity), before, 1);
    if (!more) return;
    total(next, parity ^ 1);
    now = next;
  }
}
template <class Op> int launch_piped(const ScanCuda& given, void* stream) {
  ScanCuda p = given;
  // As many warps as a line, or a tile of it, has segments.
  const int64_t longest = p.tiles > 1 ? p.tile : p.n;
  p.team = int(device::ceil_div(longest, int64_t(32) * Op::kRounds * Op::kEach)) * 32;
  if (p.tiles > 1 && p.team < 64) p.team = 64;  // whose second warp takes tickets
  const int slots = p.tiles > 1 ? 1 : kMostTeam / p.team, block = p.team * slots;
  const int64_t turns = p.tiles > 1 ? p.lines.units * p.tiles : device::ceil_div(p.lines.units, slots), most = int64_t(132) * (p.whole ? Op::kBlocks : kUnevenBlocks) * kMostTeam / block;
  const unsigned blocks = unsigned(turns < most ? turns : most);
  return p.whole ? device::launch(piped_kernel<Op, true>, blocks, dim3(unsigned(block)), piped_bytes<Op, true>(block), stream, p)
                 : device::launch(piped_kernel<Op, false>, blocks, dim3(unsigned(block)), piped_bytes<Op, false>(block), stream, p);
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
