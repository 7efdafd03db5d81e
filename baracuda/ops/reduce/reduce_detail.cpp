#include "baracuda/ops/reduce/reduce_detail.hpp"
#include <algorithm>
#include <cstring>
#include "baracuda/ops/reduce/reduce_math.hpp"

namespace baracuda {
namespace {

constexpr int64_t kNarrowRow = 16, kLeastColumns = 8, kStage = 32768, kMostRun = 256, kLaneBudget = 560 << 10;
constexpr int kMostTile = 1024;

template <class B> void gather(const Strided<1>& row, const char* base, int64_t begin, int m, void* to) {
  const B* const x = reinterpret_cast<const B*>(base);
  B* const out = static_cast<B*>(to);
  const int64_t step = row.inner_stride(0);
  for (int done = 0; done < m;) {
    const int64_t at = begin + done, first = at % row.inner, count = std::min<int64_t>(row.inner - first, m - done);
    int64_t o[1];
    row.offsets(at / row.inner, o);
    const B* const from = x + (o[0] + first * step);
    if (step == 1) std::memcpy(out + done, from, size_t(count) * sizeof(B));
    else if (step == 0) std::fill_n(out + done, count, *from);
    else
      for (int64_t i = 0; i < count; ++i) out[done + i] = from[i * step];
    done += int(count);
  }
}
template <class B> void gather_columns(const ReduceWalk& w, const char* base, int64_t first, int width, void* to) {
  int64_t at[kMostTile];
  for (int j = 0; j < width; ++j) {
    int64_t o[4];
    w.at(first + j, o);
    at[j] = o[0];
  }
  const B* const x = reinterpret_cast<const B*>(base);
  for (int64_t i = 0; i < w.n; ++i) {
    int64_t o[1];
    w.row.offsets(i / w.row.inner, o);
    o[0] += i % w.row.inner * w.row.inner_stride(0);
    for (int j = 0; j < width; ++j) static_cast<B*>(to)[i * width + j] = x[at[j] + o[0]];
  }
}
// f.operator()<B>() for the unsigned type B of that size.
template <class F> void by_size(int64_t size, F f) {
  if (size == 1) f.template operator()<uint8_t>();
  else if (size == 2) f.template operator()<uint16_t>();
  else if (size == 4) f.template operator()<uint32_t>();
  else f.template operator()<uint64_t>();
}

}  // namespace

Status reduce_axes(std::string_view op, const Shape& shape, const Dims& axes, unsigned& mask) {
  mask = 0;
  if (!axes.rank_ok()) return invalid(op, text("axes has ", axes.rank, " entries, at most ", kMaxRank, " are allowed"));
  for (int i = 0; i < axes.rank; ++i) {
    const int64_t a = axes[i] < 0 ? axes[i] + shape.rank : axes[i];
    if (a < 0 || a >= shape.rank)
      return invalid(op, text("axes ", axes, ": ", axes[i], " is not an axis of shape ", shape, ", whose rank is ", shape.rank));
    if (mask >> a & 1) return invalid(op, text("axes ", axes, " names axis ", a, " twice"));
    mask |= 1u << a;
  }
  if (axes.rank == 0) mask = (1u << shape.rank) - 1;
  return {};
}
Shape reduced_shape(const Shape& shape, unsigned mask, bool keepdim) {
  Shape s;
  for (int i = 0; i < shape.rank; ++i)
    if (!(mask >> i & 1)) s.push_back(shape[i]);
    else if (keepdim) s.push_back(1);
  return s;
}
int64_t row_length(const Shape& shape, unsigned mask) { return reduced_shape(shape, ~mask, false).numel(); }
int64_t row_count(const Shape& shape, unsigned mask) { return reduced_shape(shape, mask, false).numel(); }
Strides over_shape(const Shape& shape, unsigned mask, const TensorView& v) {
  Strides s;
  const bool keepdim = v.shape.rank == shape.rank;
  for (int i = 0, k = 0; i < shape.rank; ++i) {
    const bool reduced = mask >> i & 1;
    s.push_back(v.absent() || reduced ? 0 : v.strides[k]);
    k += keepdim || !reduced;
  }
  return s;
}

const ReduceKernel& reduce_kernel_of(ReduceLoop loop, DType t) {
  const ReduceTable& table = !is_floating(t) || loop == ReduceLoop::nonzero ? BARACUDA_ISA_PICK(reduce_integer_table)
                             : loop >= ReduceLoop::max ? BARACUDA_ISA_PICK(reduce_order_table)
                             : loop == ReduceLoop::exps || loop == ReduceLoop::powers ? BARACUDA_ISA_PICK(reduce_exps_table)
                             : BARACUDA_ISA_PICK(reduce_sum_table);
  return table.of[int(loop)][t];
}
// Columns at once: their lanes stay in the second-level cache.
int64_t reduce_tile(const ReduceKernel& k, int64_t outputs) {
  int64_t tile = k.most_columns;
  while (tile * k.lane_bytes > kLaneBudget) tile /= 2;
  return std::min(tile, (std::max<int64_t>(outputs, 1) + 15) / 16 * 16);
}

void join_states(const ReduceRun& run, ReduceState& l, int64_t n_left, const ReduceState& r, int64_t n_right) {
  reduce_math::join(run.loop, reduce_math::order_of(run.x.dtype), run.power, l, double(n_left), r, double(n_right));
}

ReduceScratch ReduceScratch::carve(ReduceLoop loop, DType t, const Shape& shape, unsigned mask, Carver& c) {
  const int64_t outputs = row_count(shape, mask), n = row_length(shape, mask), chunks = sum_chunks(n);
  if (outputs == 0 || n == 0) return {};
  const ReduceKernel& k = reduce_kernel_of(loop, t);
  ReduceScratch s;
  s.partial = c.take<ReduceState>("chunks", chunks > 1 ? chunks * outputs : 0);
  s.lanes = c.take<char>("lanes", outputs > 1 ? c.threads() * reduce_tile(k, outputs) * k.lane_bytes : 0);
  return s;
}

ReduceWalk::ReduceWalk(const Shape& shape, unsigned mask, const Strides& x, const Strides* const (&others)[3]) {
  Shape reduced, kept_shape;
  Strides reduced_x, kept_strides[4];
  int unit = -1;
  for (int i = 0; i < shape.rank; ++i)
    if (mask >> i & 1) reduced.push_back(shape[i]), reduced_x.push_back(x[i]);
    else if (x[i] == 1 && shape[i] > 1) unit = i;
  row = walk_of<1>(reduced, {&reduced_x});
  n = reduced.numel();
  dense = n == 1 || (row.rank == 1 && row.inner_stride(0) == 1);
  const bool columns = unit >= 0 && shape[unit] >= kLeastColumns && (!dense || n == 1);
  for (int i = 0; i < shape.rank; ++i)
    if (!(mask >> i & 1) && !(columns && i == unit)) order[kept_rank++] = i;
  if (columns) order[kept_rank++] = unit;
  for (int k = 0; k < kept_rank; ++k) {
    kept_shape.push_back(shape[order[k]]);
    kept_strides[0].push_back(x[order[k]]);
    for (int j = 0; j < 3; ++j) kept_strides[j + 1].push_back((*others[j])[order[k]]);
  }
  kept = walk_of<4>(kept_shape, {&kept_strides[0], &kept_strides[1], &kept_strides[2], &kept_strides[3]});
  outputs = kept_shape.numel();
  mode = columns && kept.inner_stride(0) == 1 ? Mode::columns
         : n <= kNarrowRow && outputs >= kLeastColumns ? Mode::narrow : dense ? Mode::rows : Mode::gather;
}

void gather_row(const Strided<1>& row, const char* x, int64_t size, int64_t begin, int m, void* out) {
  by_size(size, [&]<class B>() { gather<B>(row, x, begin, m, out); });
}

void reduce_chunks(const ReduceRun& run, ReduceDone done, void* self) {
  const ReduceWalk& w = run.walk;
  const DType t = run.x.dtype;
  const ReduceKernel& kernel = reduce_kernel_of(run.loop, t);
  const int64_t chunks = sum_chunks(w.n), outputs = w.outputs, size = int64_t(byte_size(t)), tile = reduce_tile(kernel, outputs);
  const char* const x = run.x.as<char>();
  const bool magnitude = of_magnitudes(run.loop), dense = w.dense;
  const auto mode = kernel.columns ? w.mode : dense ? ReduceWalk::Mode::rows : ReduceWalk::Mode::gather;
  const bool arg = run.loop == ReduceLoop::argmax || run.loop == ReduceLoop::argmin;
  auto shift_of = [&](int64_t o) { return run.shift ? run.shift + o : nullptr; };
  auto length = [&](int64_t c) { return int(std::min<int64_t>(kSumChunk, w.n - c * kSumChunk)); };
  // States of chunk c of the outputs from o on: done with them where that is all, else kept.
  auto finish = [&](int64_t c, int64_t o, int64_t count, ReduceState* s) {
    if (arg)
      for (int64_t i = 0; i < count; ++i) s[i].at += c * kSumChunk;
    if (chunks == 1) done(self, o, count, s);
    else std::copy(s, s + count, run.scratch.partial + c * outputs + o);
  };
  if (mode == ReduceWalk::Mode::columns) {
    const int64_t team = run.threads <= 0 ? threads() : std::min(run.threads, threads()), inner = w.kept.inner;
    const int64_t share = std::max<int64_t>(128, (inner / (chunks * w.kept.rows >= 4 * team ? 1 : team) + 63) / 64 * 64);
    const int64_t step = std::min(tile, share), tiles = (inner + step - 1) / step;
    parallel_for(chunks * w.kept.rows * tiles, 1, run.threads, [&](int64_t begin, int64_t end, int worker) {
      int64_t offset[kSumChunk];
      ReduceState s[kMostTile];
      for (int64_t u = begin, last = -1; u < end; ++u) {
        const int64_t c = u / (w.kept.rows * tiles), outer = u / tiles % w.kept.rows, j = u % tiles * step, count = std::min(step, inner - j);
        const int m = length(c);
        for (int i = 0; i < m && c != last; ++i) {
          int64_t at[1];
          w.row.offsets((c * kSumChunk + i) / w.row.inner, at);
          offset[i] = at[0] + (c * kSumChunk + i) % w.row.inner * w.row.inner_stride(0);
        }
        last = c;
        int64_t at[4];
        w.kept.offsets(outer, at);
        const int64_t o = outer * inner + j;
        kernel.columns({x + (at[0] + j) * size, offset, m, int(count), shift_of(o), s, magnitude, run.scratch.lanes + worker * tile * kernel.lane_bytes});
        finish(c, o, count, s);
      }
    });
  } else if (mode == ReduceWalk::Mode::narrow) {
    const int64_t width = std::max<int64_t>(1, std::min({tile, kStage / (w.n * size), int64_t(512)}));
    parallel_for((outputs + width - 1) / width, 8, run.threads, [&](int64_t begin, int64_t end, int worker) {
      alignas(64) char stage[kStage];
      int64_t offset[kNarrowRow];
      ReduceState s[kMostTile];
      for (int64_t u = begin; u < end; ++u) {
        const int64_t o = u * width, count = std::min(width, outputs - o);
        by_size(size, [&]<class B>() { gather_columns<B>(w, x, o, int(count), stage); });
        for (int64_t i = 0; i < w.n; ++i) offset[i] = i * count;
        kernel.columns({stage, offset, int(w.n), int(count), shift_of(o), s, magnitude, run.scratch.lanes + worker * tile * kernel.lane_bytes});
        finish(0, o, count, s);
      }
    });
  } else {
    const int64_t grain = std::max<int64_t>(1, 32768 / std::min<int64_t>(w.n, kSumChunk));
    parallel_for(outputs * chunks, grain, run.threads, [&](int64_t begin, int64_t end, int) {
      alignas(64) char stage[kStage];
      ReduceState s[kMostRun];
      for (int64_t u = begin; u < end;) {
        const int64_t c = u % chunks, o = u / chunks;
        int64_t at[4], count = 1;
        w.at(o, at);
        const char* from = x + (at[0] + (dense ? c * kSumChunk : 0)) * size;
        if (!dense) gather_row(w.row, from, size, c * kSumChunk, length(c), stage), from = stage;
        else if (chunks == 1) count = std::min({kMostRun, w.kept.inner - o % w.kept.inner, end - u});
        kernel.rows({from, w.kept.inner_stride(0), count, length(c), shift_of(o), s, magnitude, run.power});
        finish(c, o, count, s);
        u += count;
      }
    });
  }
  if (chunks == 1) return;
  parallel_for(outputs, kMostRun, run.threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t half = 1; half < chunks; half *= 2)
      for (int64_t c = 0; c + half < chunks; c += 2 * half) {
        const int64_t n_left = half * kSumChunk, n_right = std::min(n_left, w.n - (c + half) * kSumChunk);
        ReduceState *left = run.scratch.partial + c * outputs, *right = left + half * outputs;
        for (int64_t o = begin; o < end; ++o) join_states(run, left[o], n_left, right[o], n_right);
      }
    done(self, begin, end - begin, run.scratch.partial + begin);
  });
}

}  // namespace baracuda
