#include <algorithm>
#include <cmath>
#include <cstdlib>
#include "baracuda/host/past.hpp"
#include "baracuda/host/row_walk.hpp"
#include "baracuda/ops/softmax/softmax_cpu.hpp"
#include "baracuda/ops/softmax/softmax_detail.hpp"

namespace baracuda {
namespace {

using namespace softmax_detail;
bool is_log(const SoftmaxDescriptor& d) { return d.kind == SoftmaxKind::log_softmax; }
bool of_halves(const SoftmaxDescriptor& d) { return byte_size(out_dtype(d)) == 2; }  // all tensors are of one type then

Status validate_common(std::string_view op, const SoftmaxDescriptor& d) {
  if (!valid_enum(d.kind)) return invalid(op, text("kind ", int(d.kind), " is not a kind"));
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  BARACUDA_TRY(expect_shape(op, "shape", d.shape));
  const int rank = std::max(d.shape.rank, 1);
  if (d.axis < -rank || d.axis >= rank)
    return invalid(op, text("axis ", d.axis, " is not in [", -rank, ", ", rank, "), shape is ", d.shape));
  if (!std::isfinite(d.scale)) return invalid(op, text("scale ", d.scale, " is not finite"));
  const DType out = out_dtype(d);
  if (out != d.dtype && (!is_floating(d.dtype) || (out != DType::f32 && out != DType::f64) || byte_size(out) < byte_size(d.dtype)))
    return invalid(op, text("out_dtype ", out, " must be the dtype ", d.dtype, " or a wider one of f32 and f64"));
  return {};
}

// --- memory. A whole line is worked off by one worker while its buffer of 512 KiB holds it; longer ones, and long ones that are
// fewer than the workers, are split into chunks, which then share what they know of themselves. Both give the same bits.
constexpr int64_t kBufferBytes = 512 << 10, kBlock = 4096, kMostLines = kBlock / kSoftmaxPad;
constexpr int64_t kGrain = 64 << 10;  // elements that a worker takes at a time
int64_t padded(int64_t n) { return (n + kSoftmaxPad - 1) / kSoftmaxPad * kSoftmaxPad; }
int64_t whole_line(const SoftmaxDescriptor& d) { return kBufferBytes / int64_t(byte_size(computing(d))); }
int64_t tile(const SoftmaxDescriptor& d) { return kSoftmaxTile / int64_t(byte_size(computing(d))); }

struct Scratch {
  char* buffer[2];              // of every worker, `size` numbers each
  char *max, *sum;              // of every worker, of three blocks of kMostLines each
  bool* near;                   // likewise
  char *chunk_max, *chunk_sum;  // of every line, where lines may be split
  int64_t size;
  Scratch(const SoftmaxDescriptor& d, Carver& c, int buffers) {
    const int64_t n = extent_of(d), lines = n ? d.shape.numel() / n : 0, bytes = int64_t(byte_size(computing(d)));
    const int64_t across = std::max<int64_t>(tile(d), 2 * kSoftmaxStream);
    size = std::max({kBlock, std::min<int64_t>(n, kSumChunk) * across, n <= whole_line(d) ? padded(n) : 0});
    for (int k = 0; k < 2; ++k)
      buffer[k] = k < buffers ? static_cast<char*>(c.take_bytes(k ? "second block" : "block", size * c.threads(), size_t(bytes))) : nullptr;
    max = static_cast<char*>(c.take_bytes("maxima", 3 * kMostLines * c.threads(), size_t(bytes)));
    sum = static_cast<char*>(c.take_bytes("sums", 3 * kMostLines * c.threads(), size_t(bytes)));
    near = static_cast<bool*>(c.take_bytes("rows in a narrow range", 3 * kMostLines * c.threads(), sizeof(bool)));
    const int64_t shared = n > kSumChunk ? sum_chunks(n) * lines : 0;
    chunk_max = static_cast<char*>(c.take_bytes("maxima of chunks", shared, size_t(bytes)));
    chunk_sum = static_cast<char*>(c.take_bytes("sums of chunks", shared, size_t(bytes)));
  }
};
template <int kBuffers> void carve(const SoftmaxDescriptor& d, const void*, Carver& c) { Scratch(d, c, kBuffers); }

// --- the tensors as lines along the axis. The other axes are walked densest last; no line's bits depend on that.
template <int K> struct Lines {
  TensorView view[K];
  Shape outer;
  int64_t step[K], n;
  Lines(const SoftmaxDescriptor& d, const TensorView* const (&tensors)[K]) : n(extent_of(d)) {
    const int axis = axis_of(d);
    int order[kMaxRank], rank = 0;
    for (int i = 0; i < d.shape.rank; ++i)
      if (i != axis) order[rank++] = i;
    const Strides& out = tensors[K - 1]->strides;
    std::stable_sort(order, order + rank, [&](int a, int b) { return std::abs(out[a]) > std::abs(out[b]); });
    for (int i = 0; i < rank; ++i) outer.push_back(d.shape[order[i]]);
    for (int k = 0; k < K; ++k) {
      view[k] = *tensors[k];
      step[k] = d.shape.rank ? view[k].strides[axis] : 1;
      view[k].shape = outer, view[k].strides = {};
      for (int i = 0; i < rank; ++i) view[k].strides.push_back(tensors[k]->strides[order[i]]);
    }
  }
  template <int... I> RowWalk<K> walk(std::integer_sequence<int, I...>) const { return RowWalk<K>(outer, {&view[I]...}); }
};
struct Work {
  int64_t n, chunks, lines;
  SoftmaxLay lay;
  int64_t most;  // lines of a block
  bool split;
};
template <int K> Work arrange(const SoftmaxDescriptor& d, const Lines<K>& lines, const RowWalk<K>& walk, int threads) {
  Work w{lines.n, sum_chunks(lines.n), walk.rows, SoftmaxLay::rows, 1, false};
  bool dense_lines = true, dense_across = false;
  for (int k = 0; k < K; ++k)
    if (lines.view[k].dtype != DType::boolean) dense_lines &= lines.step[k] == 1, dense_across |= walk.pitch(k) == 1;
  // A pack of short lines lies across them.
  if (w.n < 8 || (!dense_lines && dense_across && walk.outer.inner >= 8)) w.lay = SoftmaxLay::columns;
  const bool columns = w.lay == SoftmaxLay::columns;
  w.most = columns ? tile(d) : std::max<int64_t>(1, kBlock / padded(w.n));
  w.split = w.chunks > 1 && (columns || w.n > whole_line(d) || (threads > 1 && w.lines < 2 * threads));
  return w;
}

// Whether softmax_streams serves this: one dtype, the same strides everywhere; columns of one chunk, rows of which the second-level cache has four.
constexpr int64_t kStreamed = 64 << 10;
template <int K> bool streams(const SoftmaxDescriptor& d, const Lines<K>& lines, const RowWalk<K>& walk, const Work& w) {
  if (w.split || w.n > kStreamed || out_dtype(d) != d.dtype || d.dtype == DType::f64) return false;
  for (int k = 0; k < K; ++k)
    if (lines.step[k] != lines.step[0] || walk.pitch(k) != walk.pitch(0)) return false;
  if (w.lay == SoftmaxLay::rows) return lines.step[0] == 1;
  return w.chunks == 1 && walk.pitch(0) == 1 && walk.outer.inner >= kSoftmaxStream;
}
// Pass: load(block) of one chunk up to its sum, join, finish(block). Blocks know their offsets by `at`.
template <int K, class Pass> Status run(const SoftmaxDescriptor& d, const Lines<K>& lines, const Scratch& s, const Pass& pass, int threads) {
  const RowWalk<K> walk = lines.walk(std::make_integer_sequence<int, K>{});
  const Work w = arrange(d, lines, walk, threads);
  const int64_t bytes = int64_t(byte_size(computing(d))), across = w.lay == SoftmaxLay::columns ? tile(d) : 1;
  const TensorView& out = lines.view[K - 1];
  const bool past = d.shape.numel() >= kPastCaches / int64_t(byte_size(out.dtype)) &&
                    std::none_of(lines.view, lines.view + K - 1, [&](auto& v) { return v.data == out.data; });
  const int64_t ld = w.lay == SoftmaxLay::columns ? tile(d) : padded(std::min<int64_t>(w.n, kSumChunk));
  auto block_of = [&](int worker, int64_t chunk, int64_t place, int count) {  // place: the chunk's number in the buffer
    SoftmaxBlock b{};
    for (int k = 0; k < 2; ++k)
      if (s.buffer[k]) b.buffer[k] = s.buffer[k] + (worker * s.size + place * kSumChunk * across) * bytes;
    b.ld = ld, b.count = count, b.m = int(std::min<int64_t>(w.n - chunk * kSumChunk, kSumChunk)), b.negate = d.kind == SoftmaxKind::softmin;
    b.past = past, b.scale = d.scale, b.sign = b.negate ? -d.scale : d.scale;
    return b;
  };
  // Lines i, i + 1 ... of a run of `rows`.
  auto whole_block = [&](const int64_t (&at)[K], int64_t i, int64_t rows, int worker) {
    const int count = int(std::min(w.most, rows - i));
    char *max = s.max + worker * 3 * kMostLines * bytes, *sum = s.sum + worker * 3 * kMostLines * bytes;
    SoftmaxBlock blocks[kBufferBytes / sizeof(float) / kSumChunk];
    for (int64_t c = 0; c < w.chunks; ++c) {
      SoftmaxBlock& b = blocks[c] = block_of(worker, c, c, count);
      b.max = max + c * w.most * bytes, b.sum = sum + c * w.most * bytes;
      if (c + 1 < w.chunks) pass.ahead(b, walk, lines.step, at, i, (c + 1) * kSumChunk);
      else pass.ahead(b, walk, lines.step, at, i + w.most < rows ? i + w.most : i, 0);
      pass.load(b, w.lay, walk, lines.step, at, i, c * kSumChunk);
    }
    pass.join({max, sum, count, w.chunks, w.most});
    for (int64_t c = 0; c < w.chunks; ++c) pass.finish(blocks[c], w.lay, walk, lines.step, at, i, c * kSumChunk);
  };
  if (const SoftmaxPass short_rows = w.n <= kSumLanes && out.dtype == d.dtype ? pass.short_rows(w.lay, walk, lines.step) : nullptr) {
    parallel_for(w.lines, std::max<int64_t>(1, kGrain / w.n), threads, [&](int64_t begin, int64_t end, int worker) {
      walk.runs(begin, end, [&](const int64_t (&at)[K], int64_t, int64_t rows) {
        SoftmaxBlock b = block_of(worker, 0, 0, int(rows));
        b.safe = d.kind == SoftmaxKind::safe_softmax;
        pass.place_all(b, walk, lines.step, at, 0, 0);
        short_rows(b);
      });
    });
    return {};
  }
  if (streams(d, lines, walk, w) && pass.streams(w.lay)) {
    const bool columns = w.lay == SoftmaxLay::columns;
    const int64_t most = columns ? kSoftmaxStream : w.most;
    const int64_t share = (w.lines / (8 * std::max(threads, 1)) + most - 1) / most * most;
    const int64_t least = most * (columns ? 16 : std::max<int64_t>(1, kGrain / (w.n * most)));
    parallel_for(w.lines, std::max(least, share), threads, [&](int64_t begin, int64_t end, int worker) {
      SoftmaxBlock ring[3][kStreamed / kSumChunk];  // blocks of lines, chunk by chunk
      int64_t made = 0;
      auto step = [&](int64_t newest) {
        for (int64_t c = 0; c < w.chunks; ++c) {
          const SoftmaxBlock* blocks[3] = {};
          for (int k = 0; k < Pass::kStages; ++k)
            if (const int64_t i = newest - Pass::kStages + 1 + k; i >= 0 && i < made) blocks[k] = &ring[i % 3][c];
          pass.step(w.lay, blocks);
        }
        if (const int64_t i = newest - Pass::kStages + 2; i >= 0 && i < made) {
          const SoftmaxBlock& b = ring[i % 3][0];
          pass.join({b.max, b.sum, b.count, w.chunks, b.count});
        }
      };
      walk.runs(begin, end, [&](const int64_t (&at)[K], int64_t, int64_t rows) {
        for (int64_t i = 0; i + (columns ? most : 1) <= rows; i += most) {
          for (int64_t c = 0; c < w.chunks; ++c) {
            SoftmaxBlock& b = ring[made % 3][c] = block_of(worker, c, c, int(std::min(most, rows - i)));
            const int64_t results = (worker * 3 + made % 3) * kMostLines + c * b.count;
            b.max = s.max + results * bytes, b.sum = s.sum + results * bytes, b.near = s.near + results;
            if (columns) {
              b.ld = most;
              if (Pass::kStages == 3 && made % 2) b.buffer[0] = static_cast<char*>(b.buffer[0]) + w.n * most * bytes;
            }
            pass.place_all(b, walk, lines.step, at, i, c * kSumChunk);
          }
          step(made++);
        }
      });
      for (int k = 1; k < Pass::kStages; ++k) step(made - 1 + k);
      if (columns)
        walk.runs(begin, end, [&](const int64_t (&at)[K], int64_t, int64_t rows) {
          if (rows % most) whole_block(at, rows / most * most, rows, worker);
        });
    });
    return {};
  }
  if (!w.split) {
    const int64_t grain = w.most * std::max<int64_t>(1, kGrain / (w.n * w.most));
    parallel_for(w.lines, grain, threads, [&](int64_t begin, int64_t end, int worker) {
      walk.runs(begin, end, [&](const int64_t (&at)[K], int64_t, int64_t rows) {
        for (int64_t i = 0; i < rows; i += w.most) whole_block(at, i, rows, worker);
      });
    });
    return {};
  }
  const int64_t units = (w.lines + w.most - 1) / w.most * w.chunks;
  auto each_unit = [&](auto f) {
    const int64_t grain = std::clamp<int64_t>(units / (4 * std::max(threads, 1)), 1, 8);  // a worker goes on with what it has fetched
    parallel_for(units, grain, threads, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t u = begin; u < end; ++u) {
        const int64_t chunk = u % w.chunks, first = u / w.chunks * w.most;
        walk.runs(first, std::min(first + w.most, w.lines), [&](const int64_t (&at)[K], int64_t line, int64_t count) {
          SoftmaxBlock b = block_of(worker, chunk, 0, int(count));
          f(b, at, chunk, (chunk * w.lines + line) * bytes, worker);
        });
      }
    });
  };
  each_unit([&](SoftmaxBlock& b, const int64_t (&at)[K], int64_t chunk, int64_t shared, int) {
    b.max = s.chunk_max + shared, b.sum = s.chunk_sum + shared;
    pass.ahead(b, walk, lines.step, at, 0, (chunk + 1 < w.chunks ? chunk + 1 : chunk) * kSumChunk);
    pass.load(b, w.lay, walk, lines.step, at, 0, chunk * kSumChunk);
  });
  parallel_for(w.lines, 256, threads, [&](int64_t begin, int64_t end, int) {
    pass.join({s.chunk_max + begin * bytes, s.chunk_sum + begin * bytes, end - begin, w.chunks, w.lines});
  });
  each_unit([&](SoftmaxBlock& b, const int64_t (&at)[K], int64_t chunk, int64_t shared, int worker) {
    b.max = s.max + worker * 3 * kMostLines * bytes, b.sum = s.sum + worker * 3 * kMostLines * bytes;
    pass.ahead(b, walk, lines.step, at, 0, (chunk + 1 < w.chunks ? chunk + 1 : chunk) * kSumChunk);
    if (pass.alike(w.lay, walk, lines.step)) {
      b.max = s.chunk_max + shared, b.sum = s.chunk_sum + shared;
      return pass.again(b, walk, lines.step, at, 0, chunk * kSumChunk);
    }
    pass.reload(b, w.lay, walk, lines.step, at, 0, chunk * kSumChunk);
    b.max = s.chunk_max + shared, b.sum = s.chunk_sum + shared;
    pass.finish(b, w.lay, walk, lines.step, at, 0, chunk * kSumChunk);
  });
  return {};
}

// Points a block at tensor k: `lines` lines and `elements` elements beyond the offset of the run.
template <int K> char* place(SoftmaxBlock& b, const TensorView& v, int k, const RowWalk<K>& walk, const int64_t (&step)[K], const int64_t (&at)[K],
                             int64_t lines, int64_t elements) {
  b.step = step[k], b.pitch = walk.pitch(k);
  return v.as<char>() + (at[k] + lines * b.pitch + elements * b.step) * int64_t(byte_size(v.dtype));
}

// The mask is the tensor before the last one, where there is one.
template <int K> void place_mask(SoftmaxBlock& b, const TensorView& mask, const RowWalk<K>& walk, const int64_t (&step)[K], const int64_t (&at)[K],
                                 int64_t lines, int64_t elements) {
  if (mask.absent()) return;
  const int64_t in_step = b.step, in_pitch = b.pitch;
  b.mask = place(b, mask, K - 2, walk, step, at, lines, elements);
  b.mask_step = b.step, b.mask_pitch = b.pitch, b.step = in_step, b.pitch = in_pitch;
}

template <int K> struct Forward {
  const SoftmaxDescriptor& d;
  const Softmax::Args& a;
  const SoftmaxKernels& k;
  DType acc;
  bool plain;  // neither scale nor mask
  using Walk = RowWalk<K>;
  using Ints = int64_t[K];
  static constexpr int kStages = 3;

  bool streams(SoftmaxLay lay) const {
    return plain && d.kind != SoftmaxKind::softmin && BARACUDA_ISA_PICK_BF16(softmax_streams).forward[int(lay)][is_log(d)][d.dtype];
  }
  void place_all(SoftmaxBlock& b, const Walk& walk, const Ints& step, const Ints& at, int64_t lines, int64_t elements) const {
    b.in = place(b, a.x, 0, walk, step, at, lines, elements);
    b.out = place(b, a.y, K - 1, walk, step, at, lines, elements);
  }
  void step(SoftmaxLay lay, const SoftmaxBlock* const (&blocks)[3]) const {
    BARACUDA_ISA_PICK_BF16(softmax_streams).forward[int(lay)][is_log(d)][d.dtype](blocks);
  }
  void ahead(SoftmaxBlock& b, const Walk& walk, const Ints& step, const Ints& at, int64_t lines, int64_t elements) const {
    const int64_t size = int64_t(byte_size(d.dtype));
    b.next = place(b, a.x, 0, walk, step, at, lines, elements);
    b.next_line = b.pitch * size, b.next_step = b.step * size;
  }
  void fetch(SoftmaxBlock& b, SoftmaxLay lay, const Walk& walk, const Ints& step, const Ints& at, int64_t lines, int64_t elements) const {
    b.in = place(b, a.x, 0, walk, step, at, lines, elements);
    k.lay[int(lay)].load[d.dtype][acc](b);
    if (plain) return;
    place_mask(b, a.mask, walk, step, at, lines, elements);
    k.lay[int(lay)].adjust[0][acc](b);
  }
  void load(SoftmaxBlock& b, SoftmaxLay lay, const Walk& walk, const Ints& step, const Ints& at, int64_t lines, int64_t elements) const {
    fetch(b, lay, walk, step, at, lines, elements);
    (of_halves(d) ? k.lay[int(lay)].exp_sum_of_halves[!is_log(d)][d.dtype] : k.lay[int(lay)].exp_sum[!is_log(d)][acc])(b);
  }
  void reload(SoftmaxBlock& b, SoftmaxLay lay, const Walk& walk, const Ints& step, const Ints& at, int64_t lines, int64_t elements) const {
    is_log(d) ? fetch(b, lay, walk, step, at, lines, elements) : load(b, lay, walk, step, at, lines, elements);
  }
  // Rows that need no buffer to be finished when their sum is known.
  bool alike(SoftmaxLay lay, const Walk& walk, const Ints& step) const {
    return plain && lay == SoftmaxLay::rows && a.y.dtype == d.dtype && step[0] == 1 && step[K - 1] == 1 && walk.pitch(0) == walk.pitch(K - 1);
  }
  SoftmaxPass short_rows(SoftmaxLay lay, const Walk& walk, const Ints& step) const { return alike(lay, walk, step) ? k.short_rows[is_log(d)][d.dtype] : nullptr; }
  void again(SoftmaxBlock& b, const Walk& walk, const Ints& step, const Ints& at, int64_t lines, int64_t elements) const {
    b.in = place(b, a.x, 0, walk, step, at, lines, elements);
    b.out = place(b, a.y, K - 1, walk, step, at, lines, elements);
    k.lay[int(SoftmaxLay::rows)].again[is_log(d)][d.dtype](b);
  }
  void join(SoftmaxJoin j) const {
    j.safe = d.kind == SoftmaxKind::safe_softmax;
    (is_log(d) ? k.join_log : k.join)[acc](j);
  }
  void finish(SoftmaxBlock& b, SoftmaxLay lay, const Walk& walk, const Ints& step, const Ints& at, int64_t lines, int64_t elements) const {
    b.out = place(b, a.y, K - 1, walk, step, at, lines, elements);
    k.lay[int(lay)].finish[int(is_log(d) ? SoftmaxFinish::log_value : SoftmaxFinish::value)][acc][a.y.dtype](b);
  }
};
template <int K> struct Backward {
  const SoftmaxDescriptor& d;
  const SoftmaxBackward::Args& a;
  const SoftmaxKernels& k;
  DType acc;
  using Walk = RowWalk<K>;
  using Ints = int64_t[K];
  static constexpr int kStages = 2;

  bool streams(SoftmaxLay) const { return a.mask.absent(); }
  void place_all(SoftmaxBlock& b, const Walk& walk, const Ints& step, const Ints& at, int64_t lines, int64_t elements) const {
    b.in = place(b, a.dy, 0, walk, step, at, lines, elements);
    b.second = place(b, a.y, 1, walk, step, at, lines, elements);
    b.out = place(b, a.dx, K - 1, walk, step, at, lines, elements);
  }
  void step(SoftmaxLay lay, const SoftmaxBlock* const (&blocks)[3]) const {
    BARACUDA_ISA_PICK_BF16(softmax_streams).backward[int(lay)][is_log(d)][d.dtype](blocks);
  }
  void ahead(SoftmaxBlock&, const Walk&, const Ints&, const Ints&, int64_t, int64_t) const {}
  // dy and y in buffers of the computing type, or where they lie if that is what they are.
  void reload(SoftmaxBlock& b, SoftmaxLay lay, const Walk& walk, const Ints& step, const Ints& at, int64_t lines, int64_t elements) const {
    void *first = b.buffer[0], *second = b.buffer[1];
    const bool there = a.mask.absent() && lay == SoftmaxLay::rows && a.dy.dtype == acc && step[0] == 1 && step[1] == 1 && walk.pitch(0) == walk.pitch(1);
    const TensorView* in[] = {&a.dy, &a.y};
    const bool negate = b.negate;
    b.negate = false;
    for (int i = 0; i < 2; ++i) {
      char* from = place(b, *in[i], i, walk, step, at, lines, elements);
      if (there) b.buffer[i] = from, b.ld = b.pitch;
      else {
        b.in = from, b.buffer[0] = i ? second : first;
        k.lay[int(lay)].load[a.dy.dtype][acc](b);
      }
    }
    if (!there) b.buffer[0] = first;
    b.negate = negate;
    if (a.mask.absent()) return;
    place_mask(b, a.mask, walk, step, at, lines, elements);
    k.lay[int(lay)].adjust[1][acc](b);
  }
  void load(SoftmaxBlock& b, SoftmaxLay lay, const Walk& walk, const Ints& step, const Ints& at, int64_t lines, int64_t elements) const {
    reload(b, lay, walk, step, at, lines, elements);
    k.lay[int(lay)].sum[is_log(d)][acc](b);
  }
  bool alike(SoftmaxLay, const Walk&, const Ints&) const { return false; }
  SoftmaxPass short_rows(SoftmaxLay, const Walk&, const Ints&) const { return nullptr; }
  void again(SoftmaxBlock&, const Walk&, const Ints&, const Ints&, int64_t, int64_t) const {}
  void join(const SoftmaxJoin& j) const {
    if (j.chunks > 1) k.join_sums[acc](j);
  }
  void finish(SoftmaxBlock& b, SoftmaxLay lay, const Walk& walk, const Ints& step, const Ints& at, int64_t lines, int64_t elements) const {
    b.out = place(b, a.dx, K - 1, walk, step, at, lines, elements);
    k.lay[int(lay)].finish[int(!is_log(d) ? SoftmaxFinish::slope : of_halves(d) ? SoftmaxFinish::log_slope_of_halves : SoftmaxFinish::log_slope)][acc][d.dtype](b);
  }
};

template <int K, class Pass> Status run_lines(const SoftmaxDescriptor& d, const TensorView* const (&tensors)[K], const Scratch& s, const Pass& pass, int threads) {
  return run<K>(d, Lines<K>(d, tensors), s, pass, threads);
}
Status run_forward(const Launch<Softmax>& l) {
  const Softmax::Args& a = l.args;
  if (l.desc.shape.numel() == 0) return {};
  Carver c = l.carver();
  const Scratch s(l.desc, c, 1);
  const SoftmaxKernels& k = BARACUDA_ISA_PICK_BF16(softmax_kernels);
  const DType acc = computing(l.desc);
  if (a.mask.absent()) return run_lines<2>(l.desc, {&a.x, &a.y}, s, Forward<2>{l.desc, a, k, acc, l.desc.scale == 1}, l.threads);
  return run_lines<3>(l.desc, {&a.x, &a.mask, &a.y}, s, Forward<3>{l.desc, a, k, acc, false}, l.threads);
}
Status run_backward(const Launch<SoftmaxBackward>& l) {
  const SoftmaxBackward::Args& a = l.args;
  if (l.desc.shape.numel() == 0) return {};
  Carver c = l.carver();
  const Scratch s(l.desc, c, 2);
  const SoftmaxKernels& k = BARACUDA_ISA_PICK_BF16(softmax_kernels);
  const DType acc = computing(l.desc);
  if (a.mask.absent()) return run_lines<3>(l.desc, {&a.dy, &a.y, &a.dx}, s, Backward<3>{l.desc, a, k, acc}, l.threads);
  return run_lines<4>(l.desc, {&a.dy, &a.y, &a.mask, &a.dx}, s, Backward<4>{l.desc, a, k, acc}, l.threads);
}

}  // namespace

Status Softmax::validate(const Descriptor& d) { return validate_common(name, d); }
Status Softmax::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  if (!a.mask.absent()) BARACUDA_TRY(expect(name, "mask", a.mask, DType::boolean, d.shape));
  return expect(name, "y", a.y, out_dtype(d), d.shape);
}
std::span<const Kernel<Softmax>> Softmax::kernels() {
  static constexpr Kernel<Softmax> list[] = {
      {.name = "softmax.cpu.block", .launch = launch_all<Softmax>(Floating{}, run_forward), .guarantee = guarantee, .carve = carve<1>}};
  return list;
}

Status SoftmaxBackward::validate(const Descriptor& d) { return validate_common(name, d); }
Status SoftmaxBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "dy", a.dy, out_dtype(d), d.shape));
  BARACUDA_TRY(expect(name, "y", a.y, out_dtype(d), d.shape));
  if (!a.mask.absent()) BARACUDA_TRY(expect(name, "mask", a.mask, DType::boolean, d.shape));
  return expect(name, "dx", a.dx, d.dtype, d.shape);
}
std::span<const Kernel<SoftmaxBackward>> SoftmaxBackward::kernels() {
  static constexpr Kernel<SoftmaxBackward> list[] = {{.name = "softmax_backward.cpu.block",
                                                      .launch = launch_all<SoftmaxBackward>(Floating{}, run_backward),
                                                      .guarantee = guarantee,
                                                      .carve = carve<2>}};
  return list;
}

}  // namespace baracuda
