#include "baracuda/ops/elementwise/broadcast_sum.hpp"
#include <algorithm>
#include "baracuda/math/half.hpp"
#include "baracuda/ops/elementwise/broadcast_sum_cpu.hpp"

namespace baracuda {
namespace {

constexpr int64_t kMostChunks = 64, kFlush = 256;
constexpr int64_t kTile = 8 * kMapBlock;  // columns added in one go at most: longer parts of rows come faster from memory
constexpr int64_t kShortColumns = 64;     // several shorter rows are added from one block
static_assert(kFlush % kGroupOfHalves == 0);

// A complex number as it is stored and as it is summed.
template <class T> struct Parts { T re, im; };
struct ComplexSum {
  double re = 0, im = 0;
  ComplexSum() = default;
  template <class T> explicit ComplexSum(Parts<T> x) : re(x.re), im(x.im) {}
  ComplexSum& operator+=(ComplexSum x) { return re += x.re, im += x.im, *this; }
};
template <class T> struct Summed { using Value = Acc<T>; using Sum = double; };
template <class T> struct Summed<Parts<T>> { using Value = Parts<T>; using Sum = ComplexSum; };
template <class T> T stored(double sum) { return from_double<T>(sum); }
template <class T> T stored(ComplexSum sum) { return {decltype(T::re)(sum.re), decltype(T::im)(sum.im)}; }

// The axes in the order of the walk, and how its summed index is cut.
struct Arrangement : BroadcastAxes {
  int64_t chunks = 1, chunk = 1;
};
Arrangement arrange(const Shape& shape, const Shape& operand) {
  Arrangement a{broadcast_axes(shape, operand)};
  const int64_t at_least = a.columns ? std::max<int64_t>(1, kPiece / std::min(a.last, kMapBlock)) : kPiece;
  if (a.kept < 4096) a.chunks = std::clamp<int64_t>((a.summed + at_least - 1) / at_least, 1, kMostChunks);
  a.chunk = std::max<int64_t>(1, (a.summed + a.chunks - 1) / a.chunks);
  a.chunks = std::max<int64_t>(1, (a.summed + a.chunk - 1) / a.chunk);
  return a;
}

template <class A, int L> A fold(A (&acc)[L]) {
  for (int w = L / 2; w; w /= 2)
    for (int l = 0; l < w; ++l) acc[l] += acc[l + w];
  return acc[0];
}

struct SumJob {
  const Arrangement& a;
  const MapWalk& walk;    // inputs
  const MapWalk& target;  // one operand, kept elements
  int inputs, which, sign;
  const MapKernel& run;
  const double* parameters;
  double* partial;
};
template <class T> struct Sum : SumJob {
  using W = typename Summed<T>::Value;
  using A = typename Summed<T>::Sum;
  static constexpr bool kReal = std::is_same_v<A, double>, kHalf = sizeof(T) == 2;
  A* partials() const { return reinterpret_cast<A*>(partial); }
  const BroadcastSumKernels& kernels = BARACUDA_ISA_PICK(broadcast_sum_kernels);

  void add_row(A* acc, const W* x, int64_t n) const {
    if constexpr (kReal) kernels.add_row[sizeof(W) == 8](acc, x, n);
    else kernels.add_row[sizeof(W) == 16](reinterpret_cast<double*>(acc), x, 2 * n);
  }
  template <int L> void add_lanes(A (&acc)[L], const W* x, int64_t n, int64_t phase) const {
    if constexpr (!kReal) for (int64_t i = 0; i < n; ++i) acc[(phase + i) % L] += A(x[i]);
    else if constexpr (L == kLanesOfShortSum) kernels.add_short[sizeof(W) == 8](acc, x, n, phase);
    else kernels.add_lanes[kDTypeOf<W>](acc, x, n, phase);
  }
  struct Blocks {
    alignas(64) char in[kMapOperands][kMapBlock * 16];
    alignas(64) W out[3][kMapBlock];
  };
  // ahead: elements of the walk to those that come next, 0 where the processor sees it.
  const W* values(Blocks& b, int64_t i, int64_t n, int64_t ahead = 0) const {
    const void* x[kMapOperands];
    void* y[3] = {b.out[0], b.out[1], b.out[2]};
    if (sign) {
      void* dy = walk.fetch(0, i, n, b.in[0], true);
      if constexpr (!kHalf) return static_cast<const W*>(dy);
      else return run.widen(dy, b.out[0], n), b.out[0];
    }
    for (int k = 0; k < inputs; ++k) x[k] = walk.read(k, i, n, b.in[k]);
    for (int k = 0; k < inputs && ahead; ++k)
      if (walk.dense[k] && (k == 0 || x[k] != x[0]) && i + ahead + n <= walk.size())
        for (int64_t at = 0; at < n * walk.bytes[k]; at += 64) __builtin_prefetch(static_cast<const char*>(x[k]) + ahead * walk.bytes[k] + at, 0, 2);
    run(parameters, x, y, n);
    return b.out[which];
  }
  // Elements [i, i + n) of the first input where they lie dense and are all that is summed; null otherwise.
  const void* in_memory(int64_t i, int64_t n) const { return kReal && sign ? walk.fetch(0, i, n, nullptr, false) : nullptr; }
  void finish(int64_t chunk, int64_t first, A* sums, int64_t n) const {
    if constexpr (kReal)
      if (sign < 0) for (int64_t i = 0; i < n; ++i) sums[i] = 0 - sums[i];
    if (a.chunks > 1) std::copy(sums, sums + n, partials() + chunk * a.kept + first);
    else write(first, sums, n);
  }
  void write(int64_t first, const A* sums, int64_t n) const {
    for (int64_t j = 0; j < n;) {
      T block[kMapBlock];
      const int64_t m = std::min(n - j, kMapBlock);
      T* at = static_cast<T*>(target.fetch(0, first + j, m, block, false));
      for (int64_t i = 0; i < m; ++i) at[i] = stored<T>(sums[j + i]);
      target.put(0, first + j, m, at);
      j += m;
    }
  }
  // Columns [l, l + width) of outer index `outer`, summed indices [begin, end).
  void column_tile(int64_t outer, int64_t l, int64_t width, int64_t chunk) const {
    Blocks b;
    A acc[kTile], total[kTile] = {};
    const int64_t begin = chunk * a.chunk, end = std::min(a.summed, begin + a.chunk);
    for (int64_t flush = begin; flush < end; flush += kFlush) {
      std::fill(acc, acc + width, A{});
      const int64_t stop = std::min(end, flush + kFlush), first = outer * a.summed * a.last + l;
      if (width < kShortColumns || !add_rows_in_memory(acc, first, flush, stop, width)) add_rows(b, acc, first, flush, stop, width);
      for (int64_t j = 0; j < width; ++j) total[j] += acc[j];
    }
    finish(chunk, outer * a.last + l, total, width);
  }
  bool add_rows_in_memory(A* acc, int64_t first, int64_t begin, int64_t end, int64_t width) const {
    if constexpr (kReal) {
      const void* rows[kFlush];
      for (int64_t r = begin; r < end; ++r)
        if (!(rows[r - begin] = in_memory(first + r * a.last, width))) return false;
      kernels.add_rows[kDTypeOf<T>](acc, rows, end - begin, width);
      return true;
    }
    return false;
  }
  void add_rows(Blocks& b, A* acc, int64_t first, int64_t begin, int64_t end, int64_t width) const {
    const int64_t rows_at_once = width == a.last ? std::max<int64_t>(1, kMapBlock / width) : 1;
    [[maybe_unused]] float group[kHalf ? kTile : 1];
    if constexpr (kHalf) std::fill(group, group + width, 0.f);
    for (int64_t r = begin; r < end;) {
      const int64_t rows = std::min(rows_at_once, end - r), n = rows * width, at = first + r * a.last;
      for (int64_t done = 0; done < n;) {  // a block may end where a row of the walk ends
        const int64_t m = walk.stretch(at + done, std::min(kMapBlock, n - done));
        const W* v = values(b, at + done, m, rows_at_once == 1 ? a.last : 0);
        for (int64_t i = 0, column = done % width, row = r + done / width; i < m; column = 0, ++row) {
          const int64_t stretch = std::min(width - column, m - i);
          if constexpr (kHalf) {
            kernels.add_to_group(group + column, v + i, stretch);
            if (column + stretch == width && ((row + 1 - begin) % kGroupOfHalves == 0 || row + 1 == end)) {
              add_row(acc, group, width);
              std::fill(group, group + width, 0.f);
            }
          } else {
            add_row(acc + column, v + i, stretch);
          }
          i += stretch;
        }
        done += m;
      }
      r += rows;
    }
  }
  // One kept element, summed indices of one chunk.
  A row(int64_t k, int64_t chunk) const {
    Blocks b;
    A total{};
    const int64_t begin = chunk * a.chunk, end = std::min(a.summed, begin + a.chunk);
    for (int64_t flush = begin; flush < end; flush += kPiece) {
      A acc[kLanesOfSum] = {};
      const int64_t stop = std::min(end, flush + kPiece);
      for (int64_t r = flush, n; r < stop; r += n) {
        const int64_t at = k * a.summed + r;
        n = walk.stretch(at, stop - r);
        if constexpr (kReal)
          if (const void* dy = in_memory(at, n)) {
            kernels.add_lanes[kDTypeOf<T>](acc, dy, n, r - flush);
            continue;
          }
        n = std::min(n, kMapBlock);
        add_lanes(acc, values(b, at, n), n, r - flush);
      }
      total += fold(acc);
    }
    return total;
  }
  // Short rows, several at once: kept elements [k, k + count), all of their summed indices.
  void short_rows(int64_t k, int64_t count) const {
    Blocks b;
    A sums[kMapBlock] = {};
    const int64_t at = k * a.summed, n = count * a.summed;
    A acc[kLanesOfShortSum] = {};
    for (int64_t done = 0; done < n;) {
      const int64_t m = walk.stretch(at + done, n - done);
      const W* v = values(b, at + done, m);
      for (int64_t i = 0; i < m;) {
        const int64_t r = (done + i) % a.summed, run_length = std::min(a.summed - r, m - i);
        if (r == 0) std::fill(acc, acc + kLanesOfShortSum, A{});
        add_lanes(acc, v + i, run_length, r);
        if (r + run_length == a.summed) sums[(done + i) / a.summed] = fold(acc);
        i += run_length;
      }
      done += m;
    }
    finish(0, k, sums, count);
  }
  void all(int threads) const {
    if (a.columns) {
      const int64_t outers = a.kept / a.last, most = a.kept / kMapBlock * a.chunks / (2 * (threads > 0 ? threads : 1));  // two tiles a thread
      const int64_t wide = std::clamp(most, int64_t(1), kTile / kMapBlock) * kMapBlock, tiles = (a.last + wide - 1) / wide;
      parallel_for(outers * tiles * a.chunks, 1, threads, [&](int64_t begin, int64_t end, int) {
        for (int64_t u = begin; u < end; ++u) {
          const int64_t l = u % tiles * wide, rest = u / tiles;
          column_tile(rest / a.chunks, l, std::min(wide, a.last - l), rest % a.chunks);
        }
      });
    } else if (a.summed > 0 && a.summed <= kMapBlock / 2) {
      const int64_t at_once = kMapBlock / a.summed;
      parallel_for((a.kept + at_once - 1) / at_once, 64, threads, [&](int64_t begin, int64_t end, int) {
        for (int64_t u = begin; u < end; ++u) short_rows(u * at_once, std::min(at_once, a.kept - u * at_once));
      });
    } else {
      const int64_t at_once = a.chunks > 1 ? 1 : std::clamp<int64_t>(kPiece / std::max<int64_t>(a.summed, 1), 1, kMapBlock);
      parallel_for(a.kept * a.chunks, at_once, threads, [&](int64_t begin, int64_t end, int) {
        A sums[kMapBlock];
        for (int64_t u = begin; u < end; ++u) sums[u - begin] = row(u / a.chunks, u % a.chunks);
        finish(begin % a.chunks, begin / a.chunks, sums, end - begin);
      });
    }
    if (a.chunks == 1) return;
    parallel_for(a.kept, 4096, threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t k = begin; k < end; k += kMapBlock) {
        A sums[kMapBlock] = {};
        const int64_t n = std::min(kMapBlock, end - k);
        for (int64_t c = 0; c < a.chunks; ++c)
          for (int64_t i = 0; i < n; ++i) sums[i] += partials()[c * a.kept + k + i];
        write(k, sums, n);
      }
    });
  }
};

}  // namespace

BroadcastAxes broadcast_axes(const Shape& shape, const Shape& operand) {
  BroadcastAxes a;
  const int lead = shape.rank - operand.rank;
  auto is_summed = [&](int i) { return shape[i] != 1 && (i < lead || operand[i - lead] == 1); };
  int tail = shape.rank;
  while (tail > 0 && !is_summed(tail - 1)) --tail;
  for (int i = tail; i < shape.rank; ++i) a.last *= shape[i];
  a.columns = a.last > 1;
  for (int i = 0; i < shape.rank; ++i)
    if (!is_summed(i)) a.kept_axes[a.kept_rank++] = i, a.kept *= shape[i];
    else a.summed *= shape[i];
  for (int i = 0; i < tail; ++i) if (!is_summed(i)) a.order[a.rank++] = i;
  for (int i = 0; i < tail; ++i) if (is_summed(i)) a.order[a.rank++] = i;
  for (int i = tail; i < shape.rank; ++i) a.order[a.rank++] = i;
  return a;
}
MapOperand broadcast_operand(const TensorView& v, const Shape& shape) {
  MapOperand o{v.data, {}, int(byte_size(v.dtype)), v.dtype == DType::boolean};
  for (int i = 0; i < shape.rank; ++i) {
    const int at = i - (shape.rank - v.shape.rank);
    o.strides.push_back(at < 0 || v.shape[at] == 1 ? 0 : v.strides[at]);
  }
  return o;
}
int64_t broadcast_partials(const Shape& shape, const Shape& operand, DType dtype) {
  const Arrangement a = arrange(shape, operand);
  return a.chunks > 1 ? a.chunks * a.kept * (is_complex(dtype) ? 2 : 1) : 0;
}
void sum_broadcast(const Shape& shape, std::span<const MapOperand> in, int which, int sign, const TensorView& target, const MapKernel& run,
                   const double* parameters, double* partial, int threads) {
  const Arrangement a = arrange(shape, target.shape);
  if (a.kept == 0) return;
  Shape ordered, kept;
  Strides kept_strides;
  MapOperand inputs[kMapOperands];
  for (size_t k = 0; k < in.size(); ++k) inputs[k] = {in[k].data, {}, in[k].bytes, in[k].truth};
  for (int i = 0; i < a.rank; ++i) {
    ordered.push_back(shape[a.order[i]]);
    for (size_t k = 0; k < in.size(); ++k) inputs[k].strides.push_back(in[k].strides[a.order[i]]);
  }
  const int lead = shape.rank - target.shape.rank;
  for (int i = 0; i < a.kept_rank; ++i) {
    kept.push_back(shape[a.kept_axes[i]]);
    kept_strides.push_back(a.kept_axes[i] < lead ? 0 : target.strides[a.kept_axes[i] - lead]);
  }
  const MapOperand out{target.data, kept_strides, int(byte_size(target.dtype))};
  MapWalk walk, to;
  walk.init(ordered, {inputs, in.size()}, {}, false);
  to.init(kept, {}, {&out, 1}, false);
  using Run = void (*)(const SumJob&, int);
  constexpr auto run_of = []<class T>() -> Run { return [](const SumJob& job, int threads) { Sum<T>{job}.all(threads); }; };
  static constexpr ByDType<Run> sums = [run_of] {
    ByDType<Run> table = by_dtype<Run>(Floating{}, run_of);
    table[DType::c64] = run_of.operator()<Parts<float>>(), table[DType::c128] = run_of.operator()<Parts<double>>();
    return table;
  }();
  sums[target.dtype]({a, walk, to, int(in.size()), which, sign, run, parameters, partial}, threads);
}

}  // namespace baracuda
