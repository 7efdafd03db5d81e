#include "baracuda/ops/embedding/embedding.hpp"
#include <algorithm>
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
int64_t read_index(const TensorView& indices, int64_t at) {
  return indices.dtype == DType::i64 ? indices.as<int64_t>()[at] : indices.as<int32_t>()[at];
}

void fill_nan(DType t, char* row, int64_t n) {
  const uint16_t half = t == DType::f16 ? 0x7e00 : 0x7fc0;
  const float single = __builtin_nanf("");
  const double twice = __builtin_nan("");
  const size_t size = byte_size(t);
  const void* nan = size == 2 ? static_cast<const void*>(&half) : size == 4 ? static_cast<const void*>(&single) : &twice;
  for (int64_t i = 0; i < n; ++i) std::memcpy(row + i * int64_t(size), nan, size);
}
constexpr int64_t kAheadOfRow = 4096;  // bytes
int64_t rows_ahead(int64_t row) { return std::clamp<int64_t>(kFetchAhead / row, 1, 64); }
Status run_forward(const Launch<Embedding>& l) {
  const EmbeddingDescriptor& d = l.desc;
  const TensorView &weight = l.args.weight, &indices = l.args.indices, &y = l.args.y;
  if (y.numel() == 0) return {};
  const RowWalk<2> walk(d.indices, {&indices, &y});
  const int64_t size = int64_t(byte_size(d.dtype)), row = d.width * size, weight_pitch = weight.strides[0] * size;
  const char* table = weight.as<char>();
  const bool past = past_caches(y, nullptr);
  const int64_t ahead = rows_ahead(row), fetched = std::min(row, kAheadOfRow);
  const MoveKernels& move = BARACUDA_ISA_PICK(move_kernels);
  parallel_for(walk.rows, d.width < kPiece ? kPiece / d.width : 1, l.threads, [&](int64_t begin, int64_t end, int) {
    walk.runs(begin, end, [&](const int64_t (&o)[2], int64_t, int64_t n) {
      auto row_of = [&](int64_t i) -> const char* {  // null for an index out of range
        const int64_t v = read_index(indices, o[0] + i * walk.pitch(0));
        return v >= 0 && v < d.vocabulary ? table + v * weight_pitch : nullptr;
      };
      for (int64_t i = 0; i < n; ++i) {
        const char *from = row_of(i), *next = i + ahead < n ? row_of(i + ahead) : nullptr;
        char* to = y.as<char>() + (o[1] + i * walk.pitch(1)) * size;
        if (!from) fill_nan(d.dtype, to, d.width);
        else if (!past) {
          for (int64_t b = 0; next && b < fetched; b += 64) __builtin_prefetch(next + b, 0, 2);
          std::memcpy(to, from, size_t(row));
        } else if (next) move.copy_past_fetching(to, from, row, next);
        else move.copy_past(to, from, row);
      }
    });
    if (past) past_fence();
  });
  return {};
}

// --- backward. Occurrences are sorted by counting: after it, those of v are at[first[v]] up to at[first[v + 1]], in the
// order of the indices, whatever number of parts counted them: those of a part lie behind those of the parts before. A row with
// many of them is split by columns among the threads, the others go block by block; a block is long, as nothing is fetched for its
// first rows.
constexpr int64_t kHot = 512, kHotColumns = 64, kRowBlocks = 64, kPartIndices = 16384;
struct Sorted { int64_t *counts, *first, *at, *hot, parts; };
Sorted carve_sorted(const EmbeddingBackwardDescriptor& d, Carver& c) {
  const int64_t n = d.indices.numel(), parts = std::clamp<int64_t>(n / std::max(kPartIndices, d.vocabulary), 1, c.threads());
  return {c.take<int64_t>("counts", parts * d.vocabulary), c.take<int64_t>("first of each row", d.vocabulary + 1), c.take<int64_t>("sorted rows", n),
          c.take<int64_t>("rows with many indices", n / kHot), parts};
}
void carve_backward(const EmbeddingBackwardDescriptor& d, const void*, Carver& c) { carve_sorted(d, c); }

Status run_backward(const Launch<EmbeddingBackward>& l) {
  const EmbeddingBackwardDescriptor& d = l.desc;
  const TensorView &dy = l.args.dy, &indices = l.args.indices, &dweight = l.args.dweight;
  const int64_t n = d.indices.numel();
  if (d.vocabulary == 0 || d.width == 0) return {};
  Carver c = l.carver();
  const Sorted s = carve_sorted(d, c);
  const RowWalk<2> walk(d.indices, {&indices, &dy});
  auto each = [&](auto f) {  // f(counts of the part, index, row)
    parallel_for(s.parts, 1, l.threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t p = begin; p < end; ++p)
        walk.runs(n / s.parts * p, p + 1 < s.parts ? n / s.parts * (p + 1) : n, [&](const int64_t (&o)[2], int64_t, int64_t run) {
          for (int64_t i = 0; i < run; ++i) {
            const int64_t v = read_index(indices, o[0] + i * walk.pitch(0));
            if (v >= 0 && v < d.vocabulary && v != d.padding_idx) f(s.counts + p * d.vocabulary, v, o[1] + i * walk.pitch(1));
          }
        });
    });
  };
  std::memset(s.counts, 0, size_t(s.parts * d.vocabulary) * sizeof(int64_t));
  each([](int64_t* counts, int64_t v, int64_t) { ++counts[v]; });
  int64_t hot = 0, total = 0;
  for (int64_t v = 0; v < d.vocabulary; ++v) {
    s.first[v] = total;
    for (int64_t p = 0; p < s.parts; ++p) total += std::exchange(s.counts[p * d.vocabulary + v], total);
    if (total - s.first[v] > kHot) s.hot[hot++] = v;
  }
  s.first[d.vocabulary] = total;
  each([&](int64_t* starts, int64_t v, int64_t row) { s.at[starts[v]++] = row; });

  const EmbeddingKernels& kernels = BARACUDA_ISA_PICK(embedding_kernels);
  const bool past = !d.accumulate && past_caches(dweight, nullptr);
  const MoveKernels& move = BARACUDA_ISA_PICK(move_kernels);
  const auto sum = (dweight.dtype == d.dtype ? kernels.same : kernels.f32)[d.dtype];
  const int64_t size = int64_t(byte_size(dweight.dtype)), pitch = dweight.strides[0] * size;
  const int64_t row_bytes = d.width * size, dy_size = int64_t(byte_size(d.dtype)), ahead = rows_ahead(row_bytes);
  const bool copied = past && dweight.dtype == d.dtype;  // a row that one index names
  parallel_for(d.vocabulary, std::clamp<int64_t>(d.vocabulary / kRowBlocks, 64, 512), l.threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t v = begin; v < end; ++v) {
      char* out = dweight.as<char>() + v * pitch;
      const int64_t count = s.first[v + 1] - s.first[v];
      const int64_t *at = s.at + s.first[v], known = s.first[d.vocabulary] - s.first[v];
      if (count == 0 && !d.accumulate)
        if (past) move.zero_past(out, row_bytes);
        else std::memset(out, 0, size_t(row_bytes));
      else if (count == 1 && copied && known > ahead)
        move.copy_past_fetching(out, dy.as<char>() + at[0] * dy_size, row_bytes, dy.as<char>() + at[ahead] * dy_size);
      else if (count > 0 && count <= kHot) sum({dy.data, at, count, known, out, 0, d.width, d.accumulate, past});
    }
    if (past) past_fence();
  });
  const int64_t pieces = (d.width + kHotColumns - 1) / kHotColumns;
  parallel_for(hot * pieces, 1, l.threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t v = s.hot[i / pieces], column = i % pieces * kHotColumns;
      sum({dy.data, s.at + s.first[v], s.first[v + 1] - s.first[v], s.first[d.vocabulary] - s.first[v], dweight.as<char>() + v * pitch, column,
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
