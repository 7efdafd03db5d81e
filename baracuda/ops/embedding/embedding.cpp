#include "baracuda/ops/embedding/embedding.hpp"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include "baracuda/host/move.hpp"
#include "baracuda/host/past.hpp"
#include "baracuda/host/row_walk.hpp"
#include "baracuda/ops/embedding/embedding_cpu.hpp"

namespace baracuda {
namespace {

template <class D> Status validate_common(std::string_view op, const D& d) {
  BARACUDA_TRY(expect_shape(op, "indices", d.indices));
  if (d.indices.rank == kMaxRank) return invalid(op, text("indices ", d.indices, " has rank 8, at most 7 is allowed"));
  if (d.vocabulary < 0) return invalid(op, text("vocabulary ", d.vocabulary, " must not be negative"));
  if (d.width < 0) return invalid(op, text("width ", d.width, " must not be negative"));
  if (!Shape{d.vocabulary, d.width}.valid()) return invalid(op, text("vocabulary ", d.vocabulary, " times width ", d.width, " exceeds 2^63 - 1 elements"));
  if (d.index_dtype != DType::i32 && d.index_dtype != DType::i64) return invalid(op, text("index_dtype ", d.index_dtype, " must be i32 or i64"));
  Shape rows = d.indices;
  rows.push_back(d.width);
  return expect_shape(op, "indices and width", rows);
}
template <class D> Shape row_shape(const D& d) {
  Shape s = d.indices;
  s.push_back(d.width);
  return s;
}
Status expect_rows(std::string_view op, std::string_view arg, const TensorView& v, DType t, const Shape& shape) {
  BARACUDA_TRY(expect(op, arg, v, t, shape));
  return expect_dense_rows(op, arg, v);
}
PrecisionGuarantee copies(const EmbeddingDescriptor& d) {
  return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true};
}
PrecisionGuarantee sums(const EmbeddingBackwardDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype)};
}
void fill_nan(DType t, char* row, int64_t n) {
  const uint16_t half = t == DType::f16 ? 0x7e00 : 0x7fc0;
  const float single = __builtin_nanf("");
  const double twice = __builtin_nan("");
  const size_t size = byte_size(t);
  const void* nan = size == 2 ? static_cast<const void*>(&half) : size == 4 ? static_cast<const void*>(&single) : &twice;
  for (int64_t i = 0; i < n; ++i) std::memcpy(row + i * int64_t(size), nan, size);
}
constexpr int64_t kAheadOfRow = 4096, kPastPiece = 256 << 10;  // bytes; a piece waits for its last lines to leave
int64_t rows_ahead(int64_t row) { return std::clamp<int64_t>(kFetchAhead / row, 1, 64); }
// Rows of y for the indices of a run. What the loop reads lies in registers: the compiler must take it for changed by each write else.
template <class I> void copy_rows(const Launch<Embedding>& l, const I* index, int64_t index_step, char* y, int64_t y_step, int64_t n, bool past, const MoveKernels& move) {
  const DType dtype = l.desc.dtype;
  const int64_t width = l.desc.width, vocabulary = l.desc.vocabulary, size = int64_t(byte_size(dtype)), row = width * size;
  const int64_t pitch = l.args.weight.strides[0] * size, ahead = rows_ahead(row), fetched = std::min(row, kAheadOfRow);
  const char* table = l.args.weight.as<char>();
  const auto copy = move.copy_past;
  const auto copy_fetching = move.copy_past_fetching;
  auto row_of = [=](int64_t i) -> const char* {  // null for an index out of range
    const int64_t v = index[i * index_step];
    return v >= 0 && v < vocabulary ? table + v * pitch : nullptr;
  };
  const bool side_by_side = past && row >= kSideBySideFrom;
  for (int64_t i = 0; i < n; ++i, y += y_step) {
    if (side_by_side && i + kSideBySide <= n) {
      const void *from[kSideBySide], *next[kSideBySide];
      void* to[kSideBySide];
      bool all = true;
      for (int k = 0; k < kSideBySide; ++k) {
        to[k] = y + k * y_step;
        from[k] = row_of(i + k), next[k] = row_of(std::min(i + k + kSideBySide, n - 1));
        all = all && from[k];
      }
      if (all) {
        move.copy_rows_past(to, from, row, next);
        i += kSideBySide - 1, y += (kSideBySide - 1) * y_step;
        continue;
      }
    }
    const char *from = row_of(i), *next = i + ahead < n ? row_of(i + ahead) : nullptr;
    if (!from) fill_nan(dtype, y, width);
    else if (!past) {
      for (int64_t b = 0; next && b < fetched; b += 64) __builtin_prefetch(next + b, 0, 2);
      std::memcpy(y, from, size_t(row));
    } else if (next) copy_fetching(y, from, row, next);
    else copy(y, from, row);
  }
}
Status run_forward(const Launch<Embedding>& l) {
  const EmbeddingDescriptor& d = l.desc;
  const TensorView &indices = l.args.indices, &y = l.args.y;
  if (y.numel() == 0) return {};
  const RowWalk<2> walk(d.indices, {&indices, &y});
  const int64_t size = int64_t(byte_size(d.dtype));
  const bool past = past_caches(y, nullptr);
  const MoveKernels& move = BARACUDA_ISA_PICK(move_kernels);
  const int64_t row = d.width * size, rows = std::max<int64_t>((past ? kPastPiece : kPiece * size) / row, 1);
  parallel_for(walk.rows, rows > kSideBySide ? rows / kSideBySide * kSideBySide : rows, l.threads, [&](int64_t begin, int64_t end, int) {
    walk.runs(begin, end, [&](const int64_t (&o)[2], int64_t, int64_t n) {
      char* to = y.as<char>() + o[1] * size;
      if (indices.dtype == DType::i64) copy_rows(l, indices.as<const int64_t>() + o[0], walk.pitch(0), to, walk.pitch(1) * size, n, past, move);
      else copy_rows(l, indices.as<const int32_t>() + o[0], walk.pitch(0), to, walk.pitch(1) * size, n, past, move);
    });
    if (past) past_fence();
  });
  return {};
}

// --- backward. Occurrences are sorted by row in two steps, each of which keeps their order: into buckets of neighbouring rows, where each part of
// the indices has a piece of each bucket for its own; then bucket by bucket by counting, which the first-level cache holds, and at once added up. The
// result is the same whatever number of parts there was. A row with many occurrences is split by columns among the threads.
constexpr int64_t kHot = 512, kHotColumns = 64, kBuckets = 64, kThreadBuckets = 4, kLeastRows = 64, kPartIndices = 16384;
struct Occurrence { int64_t v, at; };
struct Sorted {
  int64_t parts, rows, buckets, pitch;  // rows of a bucket: a power of two; pitch: buckets and the line that keeps parts apart
  int64_t *starts, *piece_starts, *ends, *at, *hot;  // of a bucket; of a part's piece of it; of a row, from its bucket's start on
  Occurrence* bucketed;
  int64_t bucket_of(int64_t v) const { return v >> __builtin_ctzll(uint64_t(rows)); }
};
Sorted carve_sorted(const EmbeddingBackwardDescriptor& d, Carver& c) {
  const int64_t n = d.indices.numel();
  Sorted s{std::clamp<int64_t>(n / kPartIndices, 1, c.threads()), kLeastRows};
  const int64_t most = std::max<int64_t>(kBuckets, kThreadBuckets * c.threads());
  while (s.rows < (d.vocabulary + most - 1) / most) s.rows *= 2;
  s.buckets = (d.vocabulary + s.rows - 1) / s.rows;
  s.pitch = (s.buckets + 31) / 16 * 16;
  s.starts = c.take<int64_t>("starts of buckets", s.buckets + 1);
  s.piece_starts = c.take<int64_t>("starts of their pieces", s.parts * s.pitch);
  s.ends = c.take<int64_t>("end of each row", d.vocabulary);
  s.bucketed = c.take<Occurrence>("indices by buckets", n);
  s.at = c.take<int64_t>("sorted rows", n);
  s.hot = c.take<int64_t>("rows with many indices", n / kHot);
  return s;
}
void carve_backward(const EmbeddingBackwardDescriptor& d, const void*, Carver& c) { carve_sorted(d, c); }

template <class I> void fill_buckets(const EmbeddingBackwardDescriptor& d, const TensorView& indices, const TensorView& dy, const Sorted& s, int threads) {
  const int64_t n = d.indices.numel();
  const RowWalk<2> walk(d.indices, {&indices, &dy});
  auto each = [&](auto f) {  // f(starts of the part's pieces, bucket, row of the table, place in dy)
    parallel_for(s.parts, 1, threads, [&](int64_t begin, int64_t end, int) {
      // What the loop reads lies in registers: the compiler must take it for changed by each write else.
      const int64_t vocabulary = d.vocabulary, padding = d.padding_idx.value_or(-1), step = walk.pitch(0), dy_step = walk.pitch(1);
      const int shift = __builtin_ctzll(uint64_t(s.rows));
      for (int64_t p = begin; p < end; ++p) {
        int64_t* const starts = s.piece_starts + p * s.pitch;
        walk.runs(n / s.parts * p, p + 1 < s.parts ? n / s.parts * (p + 1) : n, [&](const int64_t (&o)[2], int64_t, int64_t run) {
          const I* index = indices.as<I>() + o[0];
          for (int64_t i = 0, at = o[1]; i < run; ++i, index += step, at += dy_step)
            if (const int64_t v = *index; v >= 0 && v < vocabulary && v != padding) f(starts, v >> shift, v, at);
        });
      }
    });
  };
  std::memset(s.piece_starts, 0, size_t(s.parts * s.pitch) * sizeof(int64_t));
  each([](int64_t* counts, int64_t bucket, int64_t, int64_t) { ++counts[bucket]; });
  int64_t total = 0;
  for (int64_t k = 0; k < s.buckets; ++k) {
    s.starts[k] = total;
    for (int64_t p = 0; p < s.parts; ++p) total += std::exchange(s.piece_starts[p * s.pitch + k], total);
  }
  s.starts[s.buckets] = total;
  each([to = s.bucketed](int64_t* starts, int64_t bucket, int64_t v, int64_t at) { to[starts[bucket]++] = {v, at}; });
}
// Leaves the occurrences of the bucket's rows one behind the other in `at`; hot(v) for a row with many.
template <class F> void sort_bucket(const Sorted& s, int64_t first, int64_t rows, F hot) {
  const int64_t k = s.bucket_of(first);
  const Occurrence *from = s.bucketed + s.starts[k], *end = s.bucketed + s.starts[k + 1];
  int64_t *ends = s.ends + first, *at = s.at + s.starts[k];
  std::memset(ends, 0, size_t(rows) * sizeof(int64_t));
  for (const Occurrence* o = from; o < end; ++o) ++ends[o->v - first];
  for (int64_t v = 0, total = 0; v < rows; ++v) {
    if (ends[v] > kHot) hot(first + v);
    total += std::exchange(ends[v], total);
  }
  for (const Occurrence* o = from; o < end; ++o) at[ends[o->v - first]++] = o->at;
}

Status run_backward(const Launch<EmbeddingBackward>& l) {
  const EmbeddingBackwardDescriptor& d = l.desc;
  const TensorView &dy = l.args.dy, &indices = l.args.indices, &dweight = l.args.dweight;
  if (d.vocabulary == 0 || d.width == 0) return {};
  Carver c = l.carver();
  const Sorted s = carve_sorted(d, c);
  if (d.index_dtype == DType::i64) fill_buckets<int64_t>(d, indices, dy, s, l.threads);
  else fill_buckets<int32_t>(d, indices, dy, s, l.threads);

  const EmbeddingKernels& kernels = BARACUDA_ISA_PICK(embedding_kernels);
  const MoveKernels& move = BARACUDA_ISA_PICK(move_kernels);
  const bool same = dweight.dtype == d.dtype, past = !d.accumulate && past_caches(dweight, nullptr);
  const int64_t pitch = dweight.strides[0] * int64_t(byte_size(dweight.dtype));
  const auto sum_block = (same ? kernels.same_block : kernels.f32_block)[d.dtype];
  std::atomic<int64_t> hot = 0;
  parallel_for(d.vocabulary, s.rows, l.threads, [&](int64_t begin, int64_t end, int) {
    sort_bucket(s, begin, end - begin, [&](int64_t v) { s.hot[hot.fetch_add(1, std::memory_order_relaxed)] = v; });
    sum_block({dy.data, s.at + s.starts[s.bucket_of(begin)], s.ends + begin, end - begin, kHot, d.width, dweight.as<char>() + begin * pitch, pitch,
               d.accumulate, past, &move});
    if (past) past_fence();
  });
  const auto sum = (same ? kernels.same : kernels.f32)[d.dtype];
  const int64_t pieces = (d.width + kHotColumns - 1) / kHotColumns;
  parallel_for(hot * pieces, 1, l.threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t v = s.hot[i / pieces], column = i % pieces * kHotColumns, k = s.bucket_of(v), first = v % s.rows ? s.ends[v - 1] : 0;
      sum({dy.data, s.at + s.starts[k] + first, s.ends[v] - first, s.starts[k + 1] - s.starts[k] - first, dweight.as<char>() + v * pitch, column,
           std::min(column + kHotColumns, d.width), d.accumulate, false});
    }
  });
  return {};
}

}  // namespace

Status Embedding::validate(const Descriptor& d) { return validate_common(name, d); }
Status Embedding::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "indices", a.indices, d.index_dtype, d.indices));
  BARACUDA_TRY(expect_rows(name, "weight", a.weight, d.dtype, {d.vocabulary, d.width}));
  return expect_rows(name, "y", a.y, d.dtype, row_shape(d));
}
std::span<const Kernel<Embedding>> Embedding::kernels() {
  static constexpr Kernel<Embedding> list[] = {
      {.name = "embedding.cpu.copy", .launch = launch_all<Embedding>(Floating{}, run_forward), .guarantee = copies}};
  return list;
}

Status EmbeddingBackward::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_common(name, d));
  const DType g = d.grad_dtype.value_or(d.dtype);
  if (g != d.dtype && g != DType::f32) return invalid(name, text("grad_dtype ", g, " must be f32 or the dtype ", d.dtype));
  if (d.padding_idx && (*d.padding_idx < 0 || *d.padding_idx >= d.vocabulary))
    return invalid(name, text("padding_idx ", *d.padding_idx, " must be in [0, ", d.vocabulary, ")"));
  return {};
}
Status EmbeddingBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_rows(name, "dy", a.dy, d.dtype, row_shape(d)));
  BARACUDA_TRY(expect(name, "indices", a.indices, d.index_dtype, d.indices));
  return expect_rows(name, "dweight", a.dweight, d.grad_dtype.value_or(d.dtype), {d.vocabulary, d.width});
}
std::span<const Kernel<EmbeddingBackward>> EmbeddingBackward::kernels() {
  static constexpr Kernel<EmbeddingBackward> list[] = {{.name = "embedding_backward.cpu.sorted",
                                                        .launch = launch_all<EmbeddingBackward>(Floating{}, run_backward),
                                                        .guarantee = sums,
                                                        .carve = carve_backward}};
  return list;
}

}  // namespace baracuda
