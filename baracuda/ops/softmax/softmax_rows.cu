// Dense rows of softmax in registers (device/row_team.cuh): max, sum of exp, factor. Reads x and writes y once (backward: dy, y and dx):
// the floor is memory bandwidth.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/softmax/softmax_cuda.hpp"
#include "baracuda/ops/softmax/softmax_short.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace row_team;
using namespace softmax_short;

constexpr int kChunks = 4;  // of a thread; of rows in f32 that kMostTeam threads do not hold so, twice as many
// Of a multiprocessor, whose registers they share; kLarge: teams of more than 32, with fewer registers each where rows are not whole.
template <class T, int C, bool kWhole, bool kLarge> constexpr int kForwardThreads =
    kWhole ? (C > 4 || kIsHalf<T> ? kMostTeam : 1024) : C > 4 ? 640 : !kLarge ? 576 : kIsHalf<T> ? 864 : 768;

template <class T, int C, bool kWhole, bool kLarge> __global__ void __launch_bounds__(kForwardThreads<T, C, kWhole, kLarge>, 1) forward_kernel(const __grid_constant__ SoftmaxCuda p) {
  constexpr int N = kChunk<T>;
  extern __shared__ uint4 slots[];
  __shared__ uint4 edges[kEdges<T, C, kWhole>];
  __shared__ float shared[2][64];
  Team t(p.team);
  int n = int(p.n);
  const int64_t rows = p.lines.units, step = t.row_step();
  const V scale = p.negate ? -p.scale : p.scale;
  Ahead<T, 1, C, kWhole> ahead(slots, t);
  const auto fetch = [&](int64_t first) {
    int64_t at[4];
    p.lines.offsets(first + t.slot < rows ? first + t.slot : first, at);
    ahead.fetch({static_cast<const T*>(p.in) + at[0]}, n, t);
  };
  int64_t first = t.first_row();
  if (first < rows) fetch(first);
  for (; first < rows; first += step) {
    if constexpr (!kWhole && C > 4) t.forget_places(n);
    const bool live = first + t.slot < rows;
    Held<T, C> held[1];
    ahead.take(held, n, t);
    if (first + step < rows) fetch(first + step);
    // f32 in its own words; halves, where registers allow, apart: exp is not made twice.
    constexpr bool kApart = kIsHalf<T> && kWhole;
    V v[kApart ? C : 1][N], top = -kInf, sum = 0;
    const auto at_scale = [&](int c, int j) { return held[0].chunk[c][j] * scale; };
    each_chunk<T, C>(n, t, [&](int c, int i) {
      each_lane<kWhole, N>(i, n, [&](int j) {
        const V x = at_scale(c, j);
        if constexpr (kApart) v[c][j] = x;
        top = greater(x, top);
      });
    });
    const auto number = [&](int c, int j) {
      if constexpr (kApart) return v[c][j];
      else return at_scale(c, j);
    };
    top = V::of(t.over(top.v, float(-kInf), shared[0], [](float a, float b) { return greater(V::of(a), V::of(b)).v; }));
    const Exp<T> exp(top);
    each_chunk<T, C>(n, t, [&](int c, int i) {
      each_lane<kWhole, N>(i, n, [&](int j) {
        const V e = exp(number(c, j));
        if (!p.log) {
          if constexpr (kApart) v[c][j] = e;
          if constexpr (!kIsHalf<T>) held[0].chunk[c].word[j] = __builtin_bit_cast(uint32_t, e.v);
        }
        sum = sum + e;
      });
    });
    sum = V::of(t.over(sum.v, 0.f, shared[1], [](float a, float b) { return a + b; }));
    const auto line = Line<T>::of(top, sum, p.log, p.safe);
    int64_t at[4];
    p.lines.offsets(live ? first + t.slot : first, at);
    put_row<T, C, kWhole>(static_cast<T*>(p.out) + at[3], live ? n : 0, t, edges, [&](int c, int) {
      return Packed<T>::rounded([&](int j) {
        if (kApart || p.log) return line.made(number(c, j), p.log);
        return line.made(kIsHalf<T> ? exp(number(c, j)) : V(held[0].chunk[c][j]), false);
      });
    });
  }
  t.leave();
}
template <class T, int C, bool kWhole> constexpr int kBackwardThreads = kWhole ? kMostTeam : 864;
template <class T, int C, bool kWhole> __global__ void __launch_bounds__(kBackwardThreads<T, C, kWhole>, 1) backward_kernel(const __grid_constant__ SoftmaxCuda p) {
  constexpr int N = kChunk<T>;
  extern __shared__ uint4 slots[];
  __shared__ uint4 edges[kEdges<T, C, kWhole>];
  __shared__ float shared[2][64];
  Team t(p.team);
  int n = int(p.n);
  const int64_t rows = p.lines.units, step = t.row_step();
  const auto row_of = [&](int64_t first, const T* (&row)[2]) {
    int64_t at[4];
    p.lines.offsets(first + t.slot < rows ? first + t.slot : first, at);
    row[0] = static_cast<const T*>(p.in) + at[0], row[1] = static_cast<const T*>(p.second) + at[1];
  };
  Queue<T, 2, C, kWhole> queue(slots, t, p.two);
  int64_t first = t.first_row();
  bool other = false;  // buffer of this row's sum
  queue.begin(first, rows, n, t, row_of);
  for (; first < rows; first += step, other = !other) {
    if constexpr (!kWhole) t.forget_places(n);
    const bool live = first + t.slot < rows;
    Held<T, C> held[2];
    if constexpr (kWhole) {
      queue.now.take(held, n, t);
      queue.advance(first, rows, n, t, row_of);
    } else {
      queue.arrive(t);
    }
    const auto chunk = [&](int k, int c, int i) {
      if constexpr (kWhole) return held[k].chunk[c];
      else return queue.now.taken(k, c, i, n, t);
    };
    V sum = -0.0;
    each_chunk<T, C>(n, t, [&](int c, int i) {
      const Packed<T> dy = chunk(0, c, i), y = chunk(1, c, i);
      each_lane<kWhole, N>(i, n, [&](int j) { sum = p.log ? sum + dy[j] : fma(dy[j], y[j], sum); });
    });
    if constexpr (!kWhole) t.forget_places(n);
    const V dot = V::of(t.over(sum.v, 0.f, shared[other], [](float a, float b) { return a + b; })), sign = p.sign;
    int64_t at[4];
    p.lines.offsets(live ? first + t.slot : first, at);
    put_row<T, C, kWhole>(static_cast<T*>(p.out) + at[3], live ? n : 0, t, edges, [&](int c, int i) {
      const Packed<T> dy = chunk(0, c, i), y = chunk(1, c, i);
      return Packed<T>::rounded([&](int j) { return slope_of<T>(p.log, dy[j], y[j], dot, sign); });
    });
    if constexpr (!kWhole) t.forget_places(n);
    if constexpr (!kWhole) queue.advance(first, rows, n, t, row_of);
  }
  t.leave();
}
template <class T, bool kBackward> int rows(const SoftmaxCuda& given, void* stream) {
  return with_chunks<T, kChunks>(given.n, [&](auto chunks) {
    constexpr int C = decltype(chunks)::value;
    SoftmaxCuda p = given;
    const TeamShape shape = TeamShape::of(p.n, C * kChunk<T>);
    p.team = shape.team;
    constexpr int kTensors = kBackward ? 2 : 1;
    const bool whole = ahead_bytes(kTensors, C, shape.block) <= kMostAhead && whole_chunks<T>(p.lines, 0, p.in, p.n) && whole_chunks<T>(p.lines, 1, p.second, p.n) && whole_chunks<T>(p.lines, 3, p.out, p.n);
    constexpr bool kSplit = C <= 4;  // longer rows have large teams
    const bool large = kSplit && !whole && shape.team > 32;
    const auto kernel = kBackward ? (whole ? backward_kernel<T, C, true> : backward_kernel<T, C, false>)
                        : whole   ? forward_kernel<T, C, true, false> : large ? forward_kernel<T, C, false, kSplit> : forward_kernel<T, C, false, false>;
    const int threads = kBackward ? (whole ? kBackwardThreads<T, C, true> : kBackwardThreads<T, C, false>)
                        : whole   ? (shape.block < 256 ? kMostTeam : kForwardThreads<T, C, true, false>)
                                  : (large ? kForwardThreads<T, C, false, kSplit> : kForwardThreads<T, C, false, false>);
    size_t bytes = staging(kTensors, C, shape, whole);
    if (kBackward && !whole) {
      const Turns turns = turns_of(kTensors, C, shape, threads);
      p.two = turns.two, bytes = turns.bytes;
    }
    return launch(kernel, shape, p.lines.units, bytes, stream, p, threads);
  });
}
template <bool kBackward> constexpr ByDType<SoftmaxLaunch> by_dtype_of() {
  return device::floating<SoftmaxLaunch>(rows<f16, kBackward>, rows<bf16, kBackward>, rows<float, kBackward>, nullptr);
}
constexpr SoftmaxRowsCuda kRows = {by_dtype_of<false>(), by_dtype_of<true>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SoftmaxRowsCuda softmax_rows_cuda = kRows;
int softmax_cuda_blocks_of_row(int64_t n, int size) { return n == 0 || size == 8 ? 0 : row_team::shape_for(n, kChunks, size).cluster; }

}  // namespace baracuda
