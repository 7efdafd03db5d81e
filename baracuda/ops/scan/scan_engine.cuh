#pragma once
// Scans on CUDA: every input is read once, the floor is memory bandwidth. In rows a warp reads and writes whole lines of memory, and turns
// them in shared memory so that a thread has neighbours: it takes them in order, a warp's totals go through Kogge and Stone's network ("A parallel
// algorithm for the efficient solution of a general class of recurrence equations", 1973), those of warps too. A line of more than a tile
// is taken by blocks in the order of a ticket: a tile posts its total, adds up the totals before it in its group of 128, in order, and
// what comes before the group, which the last tile of the group before posts. (Merrill and Garland, "Single-pass parallel prefix scan
// with decoupled look-back", 2016, take what is there; here the order is fixed, and so are the bits.) In columns 16 threads have 8
// elements each of a column, 32 columns side by side, tile after tile with the next one on its way; long columns are cut into
// segments and read twice. All that depends on the length of the line alone.
//
// An op has kIn, E, Out, Piece<N> (N elements), State of 24 bytes at most, and
//   load(io)                             by io's read() of each input, read_found() of places
//   view(io, c, piece)                   chunk c of what is kept
//   identity(), join(earlier, later)
//   own(piece, k, i)                     the state of element i, the k-th of the piece
//   step(state, piece, k, i, place)      takes it, gives the output; place: its index where kIndexed
//   step(state, piece, k, i, behind)     where kProducts: behind is the product of the factor(piece, k) of all elements behind it
//   step(state, piece, k, i, second)     where kTwo: a second output, which goes where indices do, if it is asked for
//   chunk(piece, state), chunk(state, piece, i, out)    where kChunks: the state of a piece, and its outputs, at once; false where it goes by elements
// Input q may be `late` by an element, or by -1: element i is then the one behind, and view_next() shows it.
#include "baracuda/device/half.cuh"
#include "baracuda/device/launch.cuh"
#include "baracuda/device/lines.cuh"
#include "baracuda/ops/scan/scan_cuda.hpp"
#include "baracuda/ops/scan/scan_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using device_lines::moved;
constexpr int kThreads = 256, kMostTeam = 256, kColumns = 32, kDown = 16, kColumnElements = 8;
template <class E, int N> struct alignas(sizeof(E) * N) Chunk { E lane[N]; };
// `bytes` of 16 bytes; the rest become 0.
__device__ __forceinline__ void copy_part(void* to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(uint32_t(__cvta_generic_to_shared(to))), "l"(from), "r"(bytes) : "memory");
}

// Element i of input q. Of a gradient of an exclusive scan some inputs are one element late; the first one is then `none`.
template <class Op> __device__ __forceinline__ typename Op::E element_at(const Op& op, int q, int64_t at, int64_t i) {
  const int64_t from = at + i * op.p.step[q];
  if constexpr (Op::kIntegers) return op.read_one(from);
  else return static_cast<const typename Op::E*>(op.p.in[q])[from];
}
template <class Op> constexpr bool two_outputs() {
  if constexpr (requires { Op::kTwo; }) return Op::kTwo;
  else return false;
}
template <class Op> constexpr bool is_piped() {  // scan_piped.cuh
  if constexpr (requires { Op::kPiped; }) return Op::kPiped;
  else return false;
}
template <class Op> constexpr bool has_places() {  // indices beside y, in the kernels of ScanFast
  if constexpr (requires { Op::kPlaces; }) return Op::kPlaces;
  else return false;
}
// The index of what is element `at`, below 2^31, of the scan; -1 of nothing.
__device__ __forceinline__ int64_t place_of(const ScanCuda& p, int at) { return at < 0 ? -1 : int64_t(uint32_t(p.falling ? int(p.n) - 1 - at : at)); }
template <class Op> constexpr bool by_threads() {  // all elements of a thread at once, in the kernels of ScanFast
  if constexpr (requires { Op::kThreads; }) return Op::kThreads;
  else return false;
}
template <class Op> constexpr bool by_chunks() {
  if constexpr (requires { Op::kChunks; }) return Op::kChunks;
  else return false;
}
template <class Op, class Io> constexpr int chunks_at_once() {  // whose code stands side by side
  if constexpr (requires { Io::kAtOnce; }) return Io::kAtOnce;
  else return by_chunks<Op>() ? 1 : 2;
}
template <class Op> __device__ __forceinline__ bool points_to(const Op& op, int q, int64_t at, int64_t i, bool late) {
  return i - late >= 0 && static_cast<const int64_t*>(op.p.in[q])[at + (i - late) * op.p.step[q]] == (op.p.falling ? op.p.n - 1 - i : i);
}
template <int W, class Op, class O> __device__ __forceinline__ void put_at(const Op& op, int64_t at, int64_t i, O v) {  // of output W
  const int64_t to = at + i * op.p.step[3 + W];
  if constexpr (Op::kIntegers) op.store(to, v);
  else static_cast<O*>(W ? op.p.indices : op.p.out)[to] = v;
}

// What a thread of a row sees: C chunks of V neighbours. With several, a warp has a segment of 32 C chunks: chunk c 32 + lane is read, and by way of
// `buffer`, where chunks lie so that neither way has conflicts, becomes lane C + c. kWhole: a chunk is read and written at once.
template <class Op, int C, bool kWhole> struct RowIo {
  using E = typename Op::E;
  static constexpr int V = Op::kEach, N = C * V;
  using Line = Chunk<E, V>;
  const Op& op;
  const int64_t (&at)[5];
  int64_t first, n;  // the segment's first element, or the thread's where it has one chunk; n: 0 for a line that is not there
  Line* buffer;       // kIn of them; results take the place of the first input, and of the second
  int lane, left;     // lane in the segment; elements from its first one on that are there
  Line kept[C == 1 ? Op::kIn : 1];
  uint32_t kept_found;
  E beyond;           // the element behind the segment, of an input that is late by -1

  __device__ int64_t own() const { return C > 1 ? first + lane * N : first; }
  __device__ int64_t chunk(int c) const { return first + (C > 1 ? (c * 32 + lane) * V : 0); }
  __device__ static int place(int chunk) { return chunk ^ (chunk / 8 & 7); }
  __device__ int64_t element(int k) const { return C > 1 ? first + k * 32 + lane : first + k; }
  // From here on along a tensor, in elements.
  template <class T> __device__ T* along(T* data, int q, bool up) const { return data + at[q] + (up ? chunk(0) : -chunk(0) - (V - 1)); }
  __device__ bool is_there(int c) const { return (C > 1 ? (c * 32 + lane) * V : 0) < left; }
  __device__ void read(int q, int late, E none) {
    Line* const to = buffer + q * kMostTeam * C;
    if (kWhole && (C > 1 || late == 0)) {
      const bool up = op.p.step[q] > 0;
      const E* const x = along(static_cast<const E*>(op.p.in[q]), q, up);
      const int step = up ? 32 * V : -32 * V;
      Line filled;
#pragma unroll
      for (int k = 0; k < V; ++k) filled.lane[k] = none;
      uint4 words[C];  // as arrays of elements they would lie in local memory
#pragma unroll
      for (int c = 0; c < C; ++c) {
        words[c] = __builtin_bit_cast(uint4, filled);
        if (is_there(c)) words[c] = *reinterpret_cast<const uint4*>(x + c * step);
      }
#pragma unroll
      for (int c = 0; c < C; ++c) {
        const Line l = __builtin_bit_cast(Line, words[c]);
        Line turned;
#pragma unroll
        for (int k = 0; k < V; ++k) turned.lane[k] = up ? l.lane[k] : l.lane[V - 1 - k];
        if constexpr (C > 1) to[place(c * 32 + lane)] = turned;
        else kept[q] = turned;
      }
      if (late < 0) beyond = first + 32 * N < n ? element_at(op, q, at[q], first + 32 * N) : none;
    } else {
      constexpr int kMost = two_outputs<Op>() ? 8 : 16, kAtOnce = N < kMost ? N : kMost;
#pragma unroll kAtOnce
      for (int k = 0; k < N; ++k) {
        E e = none;
        if (element(k) < n && element(k) - late >= 0 && element(k) - late < n) e = element_at(op, q, at[q], element(k) - late);
        if constexpr (C > 1) to[place((k * 32 + lane) / V)].lane[(k * 32 + lane) % V] = e;
        else kept[q].lane[k] = e;
      }
    }
  }
  __device__ void view(int q, int c, E (&x)[V]) const {
    if constexpr (C == 1) {
#pragma unroll
      for (int k = 0; k < V; ++k) x[k] = kept[q].lane[k];
    } else {
      const Line l = buffer[q * kMostTeam * C + place(lane * C + c)];
#pragma unroll
      for (int k = 0; k < V; ++k) x[k] = l.lane[k];
    }
  }
  __device__ void view_next(int q, int c, E (&x)[V]) const {
    E own[V];
    view(q, c, own);
    if constexpr (!kWhole || C == 1) {  // read as it is wanted
#pragma unroll
      for (int k = 0; k < V; ++k) x[k] = own[k];
    } else {
#pragma unroll
      for (int k = 0; k + 1 < V; ++k) x[k] = own[k + 1];
      const int behind = lane * C + c + 1;
      x[V - 1] = behind < 32 * C ? buffer[q * kMostTeam * C + place(behind)].lane[0] : beyond;
    }
  }
  // Bit k: whether an element points to the k-th.
  __device__ void read_found(int q, bool late) {
    uint32_t* const to = reinterpret_cast<uint32_t*>(buffer + q * kMostTeam * C);
    const bool up = op.p.step[q] > 0;
    const int64_t* const x = along(static_cast<const int64_t*>(op.p.in[q]), q, up);
#pragma unroll
    for (int c = 0; c < C; ++c) {
      uint32_t bits = 0;
      const int64_t i = chunk(c), own = op.p.falling ? op.p.n - 1 - i : i;
      if constexpr (kWhole) {
        if (is_there(c))
#pragma unroll
          for (int k = 0; k < V; k += 2) {
            const Chunk<int64_t, 2> l = *reinterpret_cast<const Chunk<int64_t, 2>*>(x + (up ? c : -c) * 32 * V + k);
#pragma unroll
            for (int b = 0; b < 2; ++b) {
              const int e = up ? k + b : V - 1 - k - b;
              bits |= uint32_t(l.lane[b] == (op.p.falling ? own - e : own + e)) << e;
            }
          }
      } else {
#pragma unroll
        for (int k = 0; k < V; ++k)
          if (i + k < n) bits |= uint32_t(points_to(op, q, at[q], i + k, late)) << k;
      }
      if constexpr (C > 1) to[c * 32 + lane] = bits;
      else kept_found = bits;
    }
  }
  __device__ uint32_t found(int q, int c) const {
    if constexpr (C == 1) return kept_found;
    else return reinterpret_cast<const uint32_t*>(buffer + q * kMostTeam * C)[lane * C + c];
  }
  // Chunk c of the thread's results of output W; flush() writes them all.
  template <int W = 0, class O> __device__ void put(int c, const O (&out)[V]) const {
    if constexpr (C > 1) {
      Chunk<O, V> l;
#pragma unroll
      for (int k = 0; k < V; ++k) l.lane[k] = out[k];
      reinterpret_cast<Chunk<O, V>*>(buffer + W * kMostTeam * C)[place(lane * C + c)] = l;
    } else if constexpr (kWhole) store_chunk<W>(0, out);
    else {
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (first + k < n) put_at<W>(op, at[3 + W], first + k, out[k]);
    }
  }
  template <class O, int W = 0> __device__ void flush() const {
    if constexpr (C > 1) {
      const auto* const from = reinterpret_cast<const Chunk<O, V>*>(buffer + W * kMostTeam * C);
      __syncwarp();
#pragma unroll
      for (int c = 0; c < C; ++c) {
        if constexpr (kWhole) store_chunk<W>(c, from[place(c * 32 + lane)].lane);
        else {
#pragma unroll
          for (int k = c * V; k < c * V + V; ++k)
            if (element(k) < n) put_at<W>(op, at[3 + W], element(k), from[place((k * 32 + lane) / V)].lane[(k * 32 + lane) % V]);
        }
      }
      __syncwarp();
    }
  }
  template <int W, class O> __device__ void store_chunk(int c, const O (&x)[V]) const {
    if (!is_there(c)) return;
    const bool up = op.p.step[3 + W] > 0;
    Chunk<O, V> l;
#pragma unroll
    for (int k = 0; k < V; ++k) l.lane[k] = up ? x[k] : x[V - 1 - k];
    *reinterpret_cast<Chunk<O, V>*>(along(static_cast<O*>(W ? op.p.indices : op.p.out), 3 + W, up) + (up ? c : -c) * 32 * V) = l;
  }
  __device__ void put_places(int k, int64_t a, int64_t b) const {  // of elements k and k + 1
    const int64_t i = own() + k, step = op.p.step[4];
    int64_t* const to = static_cast<int64_t*>(op.p.indices) + at[4];
    if (kWhole && op.p.whole_places) {
      if (i < n) *reinterpret_cast<Chunk<int64_t, 2>*>(step > 0 ? to + i : to - i - 1) = {{step > 0 ? a : b, step > 0 ? b : a}};
    } else {
      if (i < n) to[i * step] = a;
      if (i + 1 < n) to[(i + 1) * step] = b;
    }
  }
};
// N elements of a column from i on, up to `end`.
template <class Op, int N_> struct ColumnIo {
  using E = typename Op::E;
  static constexpr int V = N_, N = N_;
  const Op& op;
  const int64_t (&at)[5];
  int64_t first, end;
  E kept[Op::kIn][N];
  uint32_t kept_found;
  __device__ int64_t own() const { return first; }
  __device__ void read(int q, int late, E none) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      kept[q][k] = none;
      if (first + k < end && first + k - late >= 0 && (late >= 0 || first + k - late < op.p.n)) kept[q][k] = element_at(op, q, at[q], first + k - late);
    }
  }
  __device__ void view(int q, int, E (&x)[N]) const {
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = kept[q][k];
  }
  __device__ void view_next(int q, int c, E (&x)[N]) const { view(q, c, x); }
  __device__ void read_found(int q, bool late) {
    kept_found = 0;
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (first + k < end) kept_found |= uint32_t(points_to(op, q, at[q], first + k, late)) << k;
  }
  __device__ uint32_t found(int, int) const { return kept_found; }
  template <int W = 0, class O> __device__ void put(int, const O (&out)[N]) const {
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (first + k < end) put_at<W>(op, at[3 + W], first + k, out[k]);
  }
  template <class O, int W = 0> __device__ void flush() const {}
  __device__ void put_places(int k, int64_t a, int64_t b) const {
    int64_t* const to = static_cast<int64_t*>(op.p.indices) + at[4] + (first + k) * op.p.step[4];
    if (first + k < end) to[0] = a;
    if (first + k + 1 < end) to[op.p.step[4]] = b;
  }
};

template <class S> __device__ __forceinline__ S from_lower(S a, int w) { return moved(a, [w](auto v) { return __shfl_up_sync(0xffffffffu, v, w); }); }
template <class S> __device__ __forceinline__ S of_lane(S a, int lane) { return moved(a, [lane](auto v) { return __shfl_sync(0xffffffffu, v, lane); }); }
// The totals of a warp, or of parts of it `width` wide: those up to each lane, and before it.
template <class S, class F> __device__ __forceinline__ void scan_lanes(S own, int width, S identity, F join, S& upto, S& before) {
  const int lane = int(threadIdx.x) & (width - 1);
#pragma unroll
  for (int w = 1; w < 32; w *= 2) {
    if (w >= width) break;
    const S other = from_lower(own, w);
    if (lane >= w) own = join(other, own);
  }
  upto = own;
  const S left = from_lower(own, 1);
  before = lane ? left : identity;
}

// --- what tiles tell each other: words of 16 bytes, twelve of a state and one that says that they are there
template <class S> struct Posted {
  static constexpr int kWords = (int(sizeof(S)) + 11) / 12;
  uint4 word[kWords];
  __device__ bool there() const {
    bool all = true;
#pragma unroll
    for (int w = 0; w < kWords; ++w) all = all && word[w].w;
    return all;
  }
  __device__ void look(const void* from) {
#pragma unroll
    for (int w = 0; w < kWords; ++w)
      asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word[w].x), "=r"(word[w].y), "=r"(word[w].z), "=r"(word[w].w) : "l"(static_cast<const uint4*>(from) + w) : "memory");
  }
  __device__ S state() const {
    uint32_t part[3 * kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) part[3 * w] = word[w].x, part[3 * w + 1] = word[w].y, part[3 * w + 2] = word[w].z;
    S s;
    __builtin_memcpy(&s, part, sizeof(S));
    return s;
  }
};
template <class S> __device__ __forceinline__ void post(void* to, const S& s) {
  uint32_t part[3 * Posted<S>::kWords] = {};
  __builtin_memcpy(part, &s, sizeof(S));
#pragma unroll
  for (int w = 0; w < Posted<S>::kWords; ++w)
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(static_cast<uint4*>(to) + w), "r"(part[3 * w]), "r"(part[3 * w + 1]), "r"(part[3 * w + 2]), "r"(1) : "memory");
}
template <class S> __device__ __forceinline__ S posted(const ScanCudaState* from) {
  Posted<S> p;
  p.look(from);
  return p.state();
}
template <class S> __device__ __forceinline__ void post_total(const ScanCuda& p, int64_t line, int64_t j, const S& total) {
  if (threadIdx.x == 0 && j + 1 < p.tiles) post(p.totals + 1 + line * p.tiles + j, total);
}
// What comes before tile j of a line, for all lanes of a warp; `total`: of the tile, which was posted.
template <class Op> __device__ typename Op::State before_tile(const ScanCuda& p, const Op& op, int64_t line, int64_t j, const typename Op::State& total) {
  using State = typename Op::State;
  constexpr int kEach = kScanGroup / 32;
  const auto join = [&](const State& a, const State& b) { return op.join(a, b); };
  const int lane = int(threadIdx.x) % 32;
  const int64_t groups = (p.tiles + kScanGroup - 1) / kScanGroup, group = j / kScanGroup, first = group * kScanGroup + lane * kEach;
  ScanCudaState *const totals = p.totals + 1 + line * p.tiles, *const starts = p.totals + 1 + p.lines.units * p.tiles + line * groups;
  Posted<State> before[kEach], start;
  bool all;
  do {
    all = true;
    if (group > 0) start.look(starts + group), all = start.there();
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      if (first + k < j) before[k].look(totals + first + k), all = all && before[k].there();
  } while (!all);
  __syncwarp();
  State s = op.identity(), upto, left;
#pragma unroll
  for (int k = 0; k < kEach; ++k)
    if (first + k < j) s = op.join(s, before[k].state());
  scan_lanes(s, 32, op.identity(), join, upto, left);
  s = of_lane(upto, 31);
  if (group > 0) s = op.join(start.state(), s);
  if (lane == 0 && j % kScanGroup == kScanGroup - 1 && j + 1 < p.tiles) post(starts + group + 1, op.join(s, total));
  return s;
}

// The state of all elements of io, and the product of their factors; of what is behind a line's end these are 1.
template <class Op, class Io> __device__ __forceinline__ typename Op::State total_of(const Op& op, const Io& io) {
  constexpr int V = Io::V;
  const int64_t i = io.own();
  typename Op::State s = op.identity();
#pragma unroll (chunks_at_once<Op, Io>())
  for (int c = 0; c < Io::N / V; ++c) {
    typename Op::template Piece<V> piece;
    op.view(io, c, piece);
    if constexpr (by_chunks<Op>()) {
      typename Op::State all;
      if (op.chunk(piece, all)) {
        s = op.join(s, all);
        continue;
      }
    }
#pragma unroll
    for (int k = 0; k < V; ++k) s = (by_chunks<Op>() || c || k) ? op.join(s, op.own(piece, k, i + c * V + k)) : op.own(piece, 0, i);
  }
  return s;
}
// behind: of every chunk, the product of the factors behind it; `after`: of those behind them all. Returns the product of all of io's, and after.
template <class Op, class Io> __device__ __forceinline__ double factors_of(const Op& op, const Io& io, double after, double (&behind)[Io::N / Io::V]) {
  constexpr int V = Io::V;
#pragma unroll
  for (int c = Io::N / V - 1; c >= 0; --c) {
    typename Op::template Piece<V> piece;
    op.view(io, c, piece);
    behind[c] = after;
    double f = op.factor(piece, V - 1);
#pragma unroll
    for (int k = V - 2; k >= 0; --k) f = op.times(f, op.factor(piece, k));
    after = op.times(after, f);
  }
  return after;
}
// Writes the elements of io, behind state s; `after`: the product of all factors behind them.
template <class Op, class Io> __device__ __forceinline__ void finish(const Op& op, const Io& io, typename Op::State s, double after) {
  constexpr int C = Io::N / Io::V, V = Io::V, kUnroll = Op::kProducts ? C : chunks_at_once<Op, Io>();
  const int64_t i = io.own();
  double behind_chunk[C], behind[V];
  if constexpr (Op::kProducts) factors_of(op, io, after, behind_chunk);
#pragma unroll kUnroll
  for (int c = 0; c < C; ++c) {
    typename Op::template Piece<V> piece;
    op.view(io, c, piece);
    typename Op::Out out[V], second[V];
    int64_t places[V];
    if constexpr (Op::kProducts) {
      double f = behind_chunk[c];
#pragma unroll
      for (int k = V - 1; k >= 0; --k) behind[k] = f, f = op.times(f, op.factor(piece, k));
    }
    if constexpr (by_chunks<Op>())
      if (op.chunk(s, piece, i + c * V, out)) {
        io.put(c, out);
        continue;
      }
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const int e = c * V + k;
      if constexpr (Op::kProducts) out[k] = op.step(s, piece, k, i + e, behind[k]);
      else if constexpr (two_outputs<Op>()) out[k] = op.step(s, piece, k, i + e, second[k]);
      else out[k] = op.step(s, piece, k, i + e, places[k]);
      if constexpr (Op::kIndexed) {
        places[k] = places[k] >= 0 && op.p.falling ? op.p.n - 1 - places[k] : places[k];
        if (k % 2 && op.p.indices) io.put_places(e - 1, places[k - 1], places[k]);
      }
    }
    io.put(c, out);
    if constexpr (two_outputs<Op>())
      if (op.p.indices) io.template put<1>(c, second);
  }
  io.template flush<typename Op::Out>();
  if constexpr (two_outputs<Op>())
    if (op.p.indices) io.template flush<typename Op::Out, 1>();
}
// The product of the factors of all lanes behind this one, of `width`; f becomes that from this one on.
template <class Op> __device__ __forceinline__ double behind_lanes(const Op& op, int width, double& f) {
  const int lane = int(threadIdx.x) & (width - 1);
#pragma unroll
  for (int w = 1; w < 32; w *= 2) {
    if (w >= width) break;
    const double other = __shfl_down_sync(0xffffffffu, f, w);
    if (lane + w < width) f = op.times(f, other);
  }
  const double next = __shfl_down_sync(0xffffffffu, f, 1);
  return lane + 1 < width ? next : 1;
}

// Rows: a line has a team; one of more than a tile, blocks one after the other. C = 1: short lines, the team is a part of a warp.
template <class Op, int C, bool kWhole> __global__ void __launch_bounds__(C == 1 ? kThreads : kMostTeam, C == 1 && Op::kBlocks > 2 ? 4 : Op::kBlocks) rows_kernel(const __grid_constant__ ScanCuda p) {
  using State = typename Op::State;
  using Io = RowIo<Op, C, kWhole>;
  constexpr int V = Op::kEach, kWarps = kMostTeam / 32;
  static_assert(sizeof(Chunk<typename Op::E, V>) == 16 && Posted<State>::kWords * 16 <= sizeof(ScanCudaState));
  __shared__ typename Io::Line buffer[C > 1 ? Op::kIn * kMostTeam * C : 1];
  __shared__ State shared[C > 1 ? kWarps : 1], chain;
  __shared__ double shared_products[Op::kProducts && C > 1 ? kWarps : 1];
  __shared__ int64_t ticket;
  const Op op{p};
  const auto join = [&](const State& a, const State& b) { return op.join(a, b); };
  const int team = p.team, thread = int(threadIdx.x) & (team - 1), slot = int(threadIdx.x) / team, slots = int(blockDim.x) / team;
  const int lane = int(threadIdx.x) % 32, warp = thread / 32, warps = team / 32;
  const bool chained = C > 1 && p.tiles > 1;
  const int64_t all = chained ? p.lines.units * p.tiles : (p.lines.units + slots - 1) / slots;
  for (int64_t turn = blockIdx.x;; turn += gridDim.x) {
    if (chained) {
      __syncthreads();
      if (threadIdx.x == 0) ticket = atomicAdd(reinterpret_cast<uint32_t*>(p.totals), 1u);
      __syncthreads();
      turn = ticket;
    }
    if (turn >= all) return;
    const int64_t wanted = chained ? turn / p.tiles : turn * slots + slot, tile = chained ? turn % p.tiles : 0;
    const bool live = wanted < p.lines.units;
    const int64_t line = live ? wanted : 0, begin = tile * p.tile;
    int64_t at[5];
    p.lines.offsets(line, at);
    const int64_t first = begin + (C > 1 ? int64_t(warp) * 32 * C * V : int64_t(thread) * V), n = !live ? 0 : is_piped<Op>() && chained && begin + p.tile < p.n ? begin + p.tile : p.n;
    Io io{op, at, first, n, buffer + (C > 1 ? int(threadIdx.x) / 32 * 32 * C : 0), lane, n - first < (1 << 20) ? int(n - first) : 1 << 20};
    op.load(io);
    __syncwarp();
    State upto, before;
    scan_lanes(total_of(op, io), C == 1 ? team : 32, op.identity(), join, upto, before);
    double behind = 1, product = 1;
    if constexpr (Op::kProducts) {
      double unused[C];
      product = factors_of(op, io, 1, unused), behind = behind_lanes(op, C == 1 ? team : 32, product);
    }
    if (C > 1 && (warps > 1 || chained)) {
      State* const entries = shared + slot * warps;
      double* const products = shared_products + (Op::kProducts ? slot * warps : 0);
      if (lane == 31) entries[warp] = first < n ? upto : op.identity();
      if constexpr (Op::kProducts)
        if (lane == 0) products[warp] = product;
      __syncthreads();
      if (warp == 0) {
        State first;
        scan_lanes(lane < warps ? entries[lane] : op.identity(), 32, op.identity(), join, upto, first);
        if (chained) {
          const State total = of_lane(upto, 31);
          post_total(p, line, tile, total);
          const State s = before_tile(p, op, line, tile, total);
          if (lane == 0) chain = s;
        }
        if (lane < warps) entries[lane] = first;
      }
      if constexpr (Op::kProducts)
        if (warp == warps - 1) {
          double f = lane < warps ? products[lane] : 1, last = behind_lanes(op, 32, f);
          if (chained) last = op.times(p.products[line * p.tiles + tile], last);
          if (lane < warps) products[lane] = last;
        }
      __syncthreads();
      before = op.join(entries[warp], before);
      if (chained) before = op.join(chain, before);
      if constexpr (Op::kProducts) behind = op.times(products[warp], behind);
      if (!chained) __syncthreads();
    }
    __syncwarp();
    finish(op, io, before, behind);
  }
}

// Columns: a block has kColumns lines side by side, and takes them, or a segment of them, tile after tile.
template <class Op> __global__ void __launch_bounds__(kColumns * kDown, 1) columns_kernel(const __grid_constant__ ScanCuda p) {
  using State = typename Op::State;
  constexpr int P = Op::kDownEach, kTile = kDown * P;
  __shared__ State shared[kColumns * kDown];
  __shared__ double shared_products[Op::kProducts ? kColumns * kDown : 1];
  const Op op{p};
  const int y = int(threadIdx.y), x = int(threadIdx.x);
  const bool cut = p.stage == ScanPhase::totals || p.stage == ScanPhase::segments;
  const int64_t segments = cut ? (p.n + kScanSegment - 1) / kScanSegment : 1;
  const int64_t groups = (p.lines.units + kColumns - 1) / kColumns * segments;
  for (int64_t g = blockIdx.x; g < groups; g += gridDim.x) {
    const int64_t wanted = g / segments * kColumns + x, segment = g % segments;
    const bool live = wanted < p.lines.units;
    const int64_t line = live ? wanted : 0, begin = cut ? segment * kScanSegment : 0;
    const int64_t end = cut && begin + kScanSegment < p.n ? begin + kScanSegment : p.n;
    int64_t at[5];
    p.lines.offsets(line, at);
    State carry = op.identity();
    if (p.stage == ScanPhase::segments) carry = posted<State>(p.totals + 1 + line * segments + segment);
    ColumnIo<Op, P> next{op, at, begin + y * P, live ? end : 0};
    op.load(next);
    for (int64_t from = begin; from < end; from += kTile) {
      const ColumnIo<Op, P> now = next;
      next.first += kTile;
      if (from + kTile < end) op.load(next);
      double after = 1;
      __syncthreads();
      shared[y * kColumns + x] = total_of(op, now);
      if constexpr (Op::kProducts) {
        double unused[1];
        shared_products[y * kColumns + x] = factors_of(op, now, 1, unused);
      }
      __syncthreads();
      State total = op.identity(), before = total;
#pragma unroll 4
      for (int w = 0; w < kDown; ++w) {
        if (w == y) before = total;
        total = op.join(total, shared[w * kColumns + x]);
      }
      if constexpr (Op::kProducts) {
        after = p.products[line * p.tiles + from / kTile];
        for (int w = kDown - 1; w > y; --w) after = op.times(after, shared_products[w * kColumns + x]);
      }
      if (p.stage != ScanPhase::totals) finish(op, now, op.join(carry, before), after);
      carry = op.join(carry, total);
    }
    if (p.stage == ScanPhase::totals && live && y == 0) post(p.totals + 1 + line * segments + segment, carry);
  }
}
// A warp a line: the totals of its segments become what comes before each.
template <class Op> __global__ void __launch_bounds__(32, 1) carries_kernel(const __grid_constant__ ScanCuda p) {
  using State = typename Op::State;
  const Op op{p};
  const auto join = [&](const State& a, const State& b) { return op.join(a, b); };
  const int64_t segments = (p.n + kScanSegment - 1) / kScanSegment;
  for (int64_t line = blockIdx.x; line < p.lines.units; line += gridDim.x) {
    State carry = op.identity();
    for (int64_t first = 0; first < segments; first += 32) {
      const int64_t c = first + threadIdx.x;
      ScanCudaState* const to = p.totals + 1 + line * segments + (c < segments ? c : 0);
      State upto, before;
      scan_lanes(c < segments ? posted<State>(to) : op.identity(), 32, op.identity(), join, upto, before);
      if (c < segments) post(to, op.join(carry, before));
      carry = op.join(carry, of_lane(upto, 31));
    }
  }
}

inline int team_for(int64_t chunks) {
  int team = 1;
  while (team < kMostTeam && team < chunks) team *= 2;
  return team;
}
template <class Op> int launch_piped(const ScanCuda& p, void* stream);
template <class Op> int launch_scan(const ScanCuda& given, void* stream) {
  ScanCuda p = given;
  if (!p.columns && p.tiles > 1) {
    const int64_t states = 1 + p.lines.units * (p.tiles + device::ceil_div(p.tiles, kScanGroup));
    if (const cudaError_t e = cudaMemsetAsync(p.totals, 0, size_t(states) * sizeof(ScanCudaState), static_cast<cudaStream_t>(stream))) return int(e);
  }
  if (p.columns) {
    const int64_t segments = p.stage == ScanPhase::tiles ? 1 : device::ceil_div(p.n, kScanSegment);
    return device::launch(columns_kernel<Op>, device::blocks_for(device::ceil_div(p.lines.units, kColumns) * segments, 1), dim3(kColumns, kDown), 0, stream, p);
  }
  const int64_t chunks = device::ceil_div(p.n, Op::kEach);
  const bool one = chunks <= 32;
  p.team = one ? team_for(chunks) : team_for(std::max<int64_t>(32, device::ceil_div(chunks, Op::kRounds)));
  if constexpr (is_piped<Op>())
    if (!one && p.neighbours && (p.tiles == 1 || !p.whole)) return launch_piped<Op>(p, stream);
  const int block = p.team > kThreads ? p.team : kThreads;
  const auto kernel = one ? (p.whole ? rows_kernel<Op, 1, true> : rows_kernel<Op, 1, false>) : p.whole ? rows_kernel<Op, Op::kRounds, true> : rows_kernel<Op, Op::kRounds, false>;
  return device::launch(kernel, device::blocks_for(p.tiles > 1 ? p.lines.units * p.tiles : device::ceil_div(p.lines.units, block / p.team), 1), dim3(unsigned(block)), 0, stream, p);
}
template <class Op> int launch_carries(const ScanCuda& p, void* stream) { return device::launch(carries_kernel<Op>, device::blocks_for(p.lines.units, 1), dim3(32), 0, stream, p); }
template <class Op> constexpr ScanLaunch launches() {
  return {launch_scan<Op>, launch_carries<Op>, int64_t(kMostTeam) * Op::kRounds * Op::kEach, int64_t(kDown) * Op::kDownEach, Op::kEach, is_piped<Op>() ? 32 * Op::kRounds * Op::kEach : 0};
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
