#pragma once
// What the instruction-set units of the family share: rows by packs and by chunks, and the statistics of a row. All that is summed
// over a chunk of kSumChunk elements is summed while the first-level cache holds it, so that a row comes from memory once for its sums
// and once for what is written. A chunk that does not lie dense is taken there in the accumulator type first.
#include "baracuda/host/lane_sum.hpp"
#include "baracuda/ops/norm/norm_cpu.hpp"
#include "baracuda/ops/norm/norm_lines.hpp"
#include "baracuda/ops/norm/norm_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

// f(first element, elements) over the chunks of a row.
template <class F> BARACUDA_HD void each_chunk(int64_t n, F f) {
  for (int64_t i = 0; i < n; i += kSumChunk) f(i, int(n - i < kSumChunk ? n - i : kSumChunk));
}
// f(place in the chunk, elements, channel) for the pieces of a chunk that begins at `first`, channels having `span` elements each.
template <class F> BARACUDA_HD void each_channel(int64_t first, int m, int64_t span, F f) {
  for (int64_t i = 0; i < m;) {
    const int64_t c = (first + i) / span, end = (c + 1) * span - first, count = (end < m ? end : m) - i;
    f(i, count, c);
    i += count;
  }
}
// While a row is written another is fetched: writing leaves the memory's way in idle. It comes `ahead` rows later, 0 for none: the next one, of
// short rows one that is kFetchedAhead bytes of all `streams` away, beyond those that are done `at_once`. Longer rows would push each other out: there,
// and where sums read pieces of a row (kNear), it is kNearBytes further on in the row.
constexpr int64_t kFetched = 65536, kFetchedAhead = 8192, kNearBytes = 4096;
template <class T> BARACUDA_HD void fetch_near(const T* x) { __builtin_prefetch(reinterpret_cast<const char*>(x) + kNearBytes, 0, 2); }
template <class T> int64_t rows_ahead(int64_t n, int64_t at_once = 1, int64_t streams = 1) {
  const int64_t bytes = n * int64_t(sizeof(T)), rows = bytes > 0 ? kFetchedAhead / (streams * bytes) : 0;
  return bytes > kFetched ? 0 : rows > at_once ? rows : at_once;
}
template <class T> BARACUDA_HD const T* row_to_fetch(const T* x, int64_t pitch, int64_t ahead, int64_t left) {
  return 0 < ahead && ahead < left ? x + ahead * pitch : x + kNearBytes / int64_t(sizeof(T));
}

// f(offset in memory, place in the row, elements) for the runs along the innermost axis of `lay` that make up `m` elements from
// `first` on.
template <class F> BARACUDA_HD void each_run(const RowLay& lay, int64_t first, int64_t m, F f) {
  const int last = lay.rank - 1;
  for (int64_t done = 0; done < m;) {
    const int64_t at = (first + done) % lay.extent[last], left = lay.extent[last] - at, count = left < m - done ? left : m - done;
    int64_t row = (first + done) / lay.extent[last], offset = at * lay.stride[last];
    for (int i = last - 1; i >= 0; --i) offset += row % lay.extent[i] * lay.stride[i], row /= lay.extent[i];
    f(offset, done, count);
    done += count;
  }
}
// The elements of a row in the accumulator type, a chunk at a time; what is given is valid until another chunk is asked for. `lay` is
// null where the row is dense.
template <class T> struct Chunks {
  using A = Acc<T>;
  const T* x;
  const RowLay* lay;
  A* buffer;  // kSumChunk
  int64_t held_first = -1, held = 0;

  // Where they lie dense, else null.
  const T* dense(int64_t first, int m) const {
    if (!lay) return x + first;
    const int last = lay->rank - 1;
    if (lay->stride[last] != 1 || first % lay->extent[last] + m > lay->extent[last]) return nullptr;
    const T* run = nullptr;
    each_run(*lay, first, m, [&](int64_t offset, int64_t, int64_t) { run = x + offset; });
    return run;
  }
  const A* operator()(int64_t first, int m) {
    if constexpr (std::is_same_v<T, A>)
      if (const T* run = dense(first, m)) return run;
    if (held_first == first && held == m) return buffer;
    held_first = first, held = m;
    if (!lay) take(x + first, 0, m);
    else {
      const int64_t step = lay->stride[lay->rank - 1];
      each_run(*lay, first, m, [&](int64_t offset, int64_t done, int64_t count) {
        if (step == 1) take(x + offset, done, count);
        else
          for (int64_t k = 0; k < count; ++k) buffer[done + k] = load<1>(x + offset + k * step).v;
      });
    }
    return buffer;
  }
  void take(const T* from, int64_t done, int64_t count) {
    each_pack<kLanes<A>>(count, [&](int64_t i, int lanes) __attribute__((always_inline)) {
      put<kLanes<A>>(buffer + done + i, get<kLanes<A>>(from + i, lanes), lanes);
    });
  }
};
template <class T> void scatter(const T* from, T* y, const RowLay& lay, int64_t first, int m) {
  const int64_t step = lay.stride[lay.rank - 1];
  each_run(lay, first, m, [&](int64_t offset, int64_t done, int64_t count) {
    for (int64_t k = 0; k < count; ++k) y[offset + k * step] = from[done + k];
  });
}

// K sums over a chunk in one pass, each in the order of chunk_sum(). step(acc, i) adds what begins at element i to K packs of any width.
template <class A, int K, class Step> BARACUDA_HD void chunk_sums(int m, double (&sums)[K], const Step& step) {
  constexpr int N = kLanes<A>, packs = kSumLanes / N;
  using V = Pack<A, N>;
  alignas(64) A lane[K][kSumLanes];
  auto by_element = [&](int l, int i) __attribute__((always_inline)) {
    Pack<A, 1> one[K];
    for (int j = 0; j < K; ++j) one[j] = Pack<A, 1>::of(lane[j][l]);
    step(one, i);
    for (int j = 0; j < K; ++j) lane[j][l] = one[j].v;
  };
  if constexpr (N == 1) {
    for (auto& sum : lane)
      for (A& l : sum) l = A(-0.0);
    for (int i = 0; i < m; ++i) by_element(i % kSumLanes, i);
    for (int j = 0; j < K; ++j) {
      for (int w = kSumLanes / 2; w; w /= 2)
        for (int l = 0; l < w; ++l) lane[j][l] += lane[j][l + w];
      sums[j] = double(lane[j][0]);
    }
  } else {
    V acc[packs][K];
#pragma GCC unroll 64
    for (int k = 0; k < packs; ++k)
#pragma GCC unroll 8
      for (int j = 0; j < K; ++j) acc[k][j] = -0.0;
    const int whole = m / kSumLanes * kSumLanes;
    for (int i = 0; i < whole; i += kSumLanes)
#pragma GCC unroll 64
      for (int k = 0; k < packs; ++k) step(acc[k], i + k * N);
    if (whole < m) {
      for (int k = 0; k < packs; ++k)
        for (int j = 0; j < K; ++j) store<A, N>(lane[j] + k * N, acc[k][j]);
      int l = 0;
      for (; l + N <= m - whole; l += N) {
        V some[K];
        for (int j = 0; j < K; ++j) some[j] = load<N>(lane[j] + l);
        step(some, whole + l);
        for (int j = 0; j < K; ++j) store<A, N>(lane[j] + l, some[j]);
      }
      for (; l < m - whole; ++l) by_element(l, whole + l);
      for (int k = 0; k < packs; ++k)
        for (int j = 0; j < K; ++j) acc[k][j] = load<N>(lane[j] + k * N);
    }
#pragma GCC unroll 8
    for (int j = 0; j < K; ++j) {
      V sum[packs];
#pragma GCC unroll 64
      for (int k = 0; k < packs; ++k) sum[k] = acc[k][j];
      sums[j] = double(fold_lanes(sum));
    }
  }
}
// Of a chunk; the mean as a distance from its rounded value, `shift`.
template <bool kNear = false, class T> Moments chunk_moments(const T* x, int m, Acc<T>& shift) {
  using A = Acc<T>;
  shift = A(double(chunk_sum<A>(0, m, [&](auto acc, int64_t i) __attribute__((always_inline)) {
    if constexpr (kNear) fetch_near(x + i);
    return acc + load<decltype(acc)::kWidth>(x + i);
  })) / m);
  const double point = double(shift);
  double sums[2];
  chunk_sums<A>(m, sums, [&](auto& acc, int i) __attribute__((always_inline)) {
    using V = std::remove_reference_t<decltype(acc[0])>;
    const V d = load<V::kWidth>(x + i) - V(point);
    acc[0] = acc[0] + d, acc[1] = fma(d, d, acc[1]);
  });
  return moments_of(sums[0], sums[1], m);
}
template <class T> Moments chunk_moments(Chunks<T>& x, int64_t first, int m, Acc<T>& shift) {
  const T* run = x.dense(first, m);
  return run ? chunk_moments(run, m, shift) : chunk_moments(x(first, m), m, shift);
}
// A variance that left the range of its type: f32 in f64, f64 times a power of two that brings the largest to about 1.
template <class T> Statistics statistics_out_of_range(int64_t n, double eps, Chunks<T>& chunks) {
  auto sum = [&](auto term) {
    double s = 0;
    each_chunk(n, [&](int64_t first, int m) {
      const Acc<T>* x = chunks(first, m);
      for (int i = 0; i < m; ++i) s = term(s, double(x[i]));
    });
    return s;
  };
  double scale = 1;
  if constexpr (sizeof(T) == 8) scale = sum([](double s, double x) { return __builtin_fabs(x) > s ? __builtin_fabs(x) : s; }) > 1 ? 0x1p-600 : 0x1p600;
  const double mean = sum([&](double s, double x) { return s + x * scale; }) / double(n);
  const double squares = sum([&](double s, double x) { return s + (x * scale - mean) * (x * scale - mean); });
  const Acc<T> shift = Acc<T>(mean / scale);
  const double variance = squares / double(n);
  return {double(shift), mean / scale - double(shift), scale / __builtin_sqrt(variance + eps * scale * scale), variance / scale / scale};
}
// From the moments of all n elements, whose mean is counted from `point`.
template <class T> Statistics statistics_of(const Moments& all, double point, int64_t n, double eps, Chunks<T>& chunks) {
  using A = Acc<T>;
  return variance_in_range<A>(all.squares, double(n), eps) ? statistics_of<A>(all, point, double(n), eps) : statistics_out_of_range(n, eps, chunks);
}
template <class T> Statistics statistics(int64_t n, double eps, Chunks<T>& chunks) {
  using A = Acc<T>;
  if (n <= kSumChunk) {
    A shift;
    const Moments one = chunk_moments(chunks, 0, int(n), shift);
    return statistics_of(one, double(shift), n, eps, chunks);
  }
  double point = 0;
  const Moments all = sum_pairs<Moments>(sum_chunks(n), [&](int64_t c) __attribute__((always_inline)) {
    const int64_t first = c * kSumChunk, left = n - first;
    const int m = int(left < kSumChunk ? left : kSumChunk);
    A shift;
    Moments part = chunk_moments(chunks, first, m, shift);
    if (c == 0) point = double(shift);
    part.mean += double(shift) - point;
    return part;
  });
  return statistics_of(all, point, n, eps, chunks);
}

template <bool kWeighted, bool kNear = false, class T> GradientSums chunk_gradient_sums(const T* x, const T* dy, const Acc<T>* w, int m, double shift, double scale) {
  double sums[3];
  chunk_sums<Acc<T>>(m, sums, [&](auto& acc, int i) __attribute__((always_inline)) {
    using V = std::remove_reference_t<decltype(acc[0])>;
    if constexpr (kNear) fetch_near(x + i), fetch_near(dy + i);
    const V h = (load<V::kWidth>(x + i) - V(shift)) * V(scale);
    V e = load<V::kWidth>(dy + i);
    if constexpr (kWeighted) e = e * load<V::kWidth>(w + i);
    acc[0] = acc[0] + e, acc[1] = fma(e, h, acc[1]), acc[2] = acc[2] + h;
  });
  return {sums[0], sums[1], sums[2]};
}
template <bool kWeighted, class T>
GradientSums chunk_gradient_sums(Chunks<T>& x, int64_t first, Chunks<T>& dy, int64_t e_first, const Acc<T>* w, int m, double shift, double scale) {
  const T *run = x.dense(first, m), *e_run = dy.dense(e_first, m);
  return run && e_run ? chunk_gradient_sums<kWeighted>(run, e_run, w, m, shift, scale) : chunk_gradient_sums<kWeighted>(x(first, m), dy(e_first, m), w, m, shift, scale);
}
// Over `n` elements from `first` on; w, where the sums are weighted, begins at `first`.
template <bool kWeighted, class T>
GradientSums gradient_sums(Chunks<T>& x, Chunks<T>& dy, const Acc<T>* w, int64_t first, int64_t n, double shift, double scale) {
  if (n <= kSumChunk) return chunk_gradient_sums<kWeighted>(x, first, dy, first, w, int(n), shift, scale);
  return sum_pairs<GradientSums>(sum_chunks(n), [&](int64_t c) __attribute__((always_inline)) {
    const int64_t at = c * kSumChunk, left = n - at;
    const int m = int(left < kSumChunk ? left : kSumChunk);
    return chunk_gradient_sums<kWeighted>(x, first + at, dy, first + at, kWeighted ? w + at : nullptr, m, shift, scale);
  });
}

// Chunks that workers sum apart, of `chunk` elements each but the last.
inline ChunkSums chunk_sums_of(const Moments& part, double shift) { return {shift, part.mean, part.squares}; }
inline ChunkSums chunk_sums_of(const GradientSums& g) { return {g.e, g.eh, g.h}; }
template <class T> Statistics joined_statistics(const ChunkSums* sums, int64_t chunks, int64_t chunk, int64_t n, double eps, Chunks<T>& x) {
  const double point = sums[0].a;
  const Moments all = sum_pairs<Moments>(chunks, [&](int64_t k) {
    const int64_t left = n - k * chunk;
    return Moments{double(left < chunk ? left : chunk), sums[k].b + (sums[k].a - point), sums[k].c};
  });
  return statistics_of(all, point, n, eps, x);
}
inline GradientSums joined_gradient(const ChunkSums* sums, int64_t chunks) {
  return sum_pairs<GradientSums>(chunks, [&](int64_t k) { return GradientSums{sums[k].a, sums[k].b, sums[k].c}; });
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
