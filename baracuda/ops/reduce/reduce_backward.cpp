#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include "baracuda/math/half.hpp"
#include "baracuda/host/move.hpp"
#include "baracuda/host/past.hpp"
#include "baracuda/ops/reduce/reduce_backward_detail.hpp"
#include "baracuda/ops/reduce/reduce_math.hpp"

namespace baracuda {
namespace {

constexpr int64_t kStaged = 1024, kMostRun = 256, kSide = 32;  // kSide: columns of a product side by side
// x of a slice stays in the caches between the pass that finds its rows' numbers and the one that writes dx.
constexpr int64_t kRowSlice = 512 << 10, kColumnSlice = 8 << 20;


// The gradient over `shape`, or over a slice of it: every operand's strides are over all axes, 0 where a row has one element of it.
struct Operand {
  char* data = nullptr;
  DType dtype = DType::f32;
  Strides strides;
};
Operand operand(const TensorView& v) { return {v.as<char>(), v.dtype, v.strides}; }
struct Problem {
  const ReduceDescriptor& d;
  unsigned mask;
  Shape shape;
  Operand dy, x, y, mean, dx;  // absent ones do not move
  bool past;                   // dx is larger than the caches
};
Problem slice(Problem p, int axis, int64_t first, int64_t count) {
  p.shape[axis] = count;
  for (Operand* o : {&p.dy, &p.x, &p.y, &p.mean, &p.dx})
    if (o->data) o->data += first * o->strides[axis] * int64_t(byte_size(o->dtype));
  return p;
}

struct Scratch {
  char *p, *q, *g;
  double* shift;  // y, or the index of the element that gets dy
  ReduceScratch loop;
};
Scratch carve_all(const ReduceDescriptor& d, Carver& c) {
  const unsigned mask = mask_of(d);
  const ReduceKind k = plain_kind(d);
  const int64_t rows = d.shape.numel() ? row_count(d.shape, mask) : 0;
  const uint64_t size = byte_size(accumulator(d.dtype));
  const ReduceMapKind map = map_of(d);
  Scratch s{};
  s.g = static_cast<char*>(c.take_bytes("factors", rows, size));
  if (reads_x(map) && map != ReduceMapKind::numbers && map != ReduceMapKind::sign) s.p = static_cast<char*>(c.take_bytes("numbers of rows", rows, size));
  if (has_mean(k) || map == ReduceMapKind::power) s.q = static_cast<char*>(c.take_bytes("second numbers of rows", rows, size));
  if (may_loop(k)) {
    s.shift = c.take<double>("extrema", rows);
    if (rows) s.loop = ReduceScratch::carve(loop_for(d), d.dtype, d.shape, mask, c);
  }
  return s;
}

// `count` numbers of a run of rows.
void read_run(const Operand& v, int64_t at, int64_t step, int64_t count, double* out) {
  visit_dtype(Floating{}, v.dtype, 0, [&]<class T>() {
    const T* const p = reinterpret_cast<const T*>(v.data) + at;
    for (int64_t i = 0; i < count; ++i) out[i] = to_double(p[i * step]);
    return 0;
  });
}
double read(const Operand& v, int64_t at) {
  double out;
  read_run(v, at, 0, 1, &out);
  return out;
}

// g, p and q of the rows [first, first + count), from their dy and y and what the loop found: counts of extrema, or means.
struct Numbers {
  const Problem& problem;
  const ReduceWalk& walk;  // dy, y, mean (ties: dx)
  const Scratch& s;
  bool needs_y;

  void set(int64_t first, int64_t count, const ReduceState* states) const {
    double dy[kMostRun], y[kMostRun], found[kMostRun];
    for (int64_t i = 0, run; i < count; i += run) {
      int64_t at[4];
      walk.at(first + i, at);
      run = std::min({kMostRun, count - i, walk.kept.inner - (first + i) % walk.kept.inner});
      read_run(problem.dy, at[1], walk.kept.inner_stride(1), run, dy);
      if (needs_y) read_run(problem.y, at[2], walk.kept.inner_stride(2), run, y);
      else std::fill_n(y, run, 0.0);
      if (states)
        for (int64_t k = 0; k < run; ++k) found[k] = states[i + k].a;
      else if (problem.mean.data && has_mean(problem.d.kind)) read_run(problem.mean, at[3], walk.kept.inner_stride(3), run, found);
      else std::fill_n(found, run, 1.0);
      if (problem.d.dtype == DType::f64) put<double>(first + i, run, dy, y, found);
      else put<float>(first + i, run, dy, y, found);
    }
  }
  template <class A> void put(int64_t o, int64_t count, const double* dys, const double* ys, const double* found) const {
    const ReduceDescriptor& d = problem.d;
    A *const g = reinterpret_cast<A*>(s.g) + o, *const p = reinterpret_cast<A*>(s.p) + o, *const q = reinterpret_cast<A*>(s.q) + o;
    const reduce_math::RowOf row{plain_kind(d), one_of_ties(d), double(walk.n), d.correction, d.p};
    for (int64_t i = 0; i < count; ++i) {
      const auto v = reduce_math::numbers_of<A>(row, dys[i], ys[i], found[i]);
      g[i] = v.g;
      if (s.p) p[i] = v.p;
      if (s.q) q[i] = v.q;
    }
  }
};

// dx over the whole shape, in its own memory order.
void map(const Problem& problem, const ReduceWalk& rows, const Scratch& s, int threads) {
  const ReduceDescriptor& d = problem.d;
  const Operand &dx = problem.dx, &x = problem.x;
  const Shape& shape = problem.shape;
  const auto kernel = BARACUDA_ISA_PICK_BF16(reduce_map_table).of[int(map_of(d))][d.dtype];
  const bool reads = reads_x(map_of(d));
  int64_t number_stride[kMaxRank] = {}, number_step = 1;
  for (int k = rows.kept_rank - 1; k >= 0; --k) number_stride[rows.order[k]] = number_step, number_step *= shape[rows.order[k]];
  int order[kMaxRank];
  for (int i = 0; i < shape.rank; ++i) {  // by falling stride
    int k = i;
    for (; k > 0 && std::abs(dx.strides[order[k - 1]]) < std::abs(dx.strides[i]); --k) order[k] = order[k - 1];
    order[k] = i;
  }
  Shape ordered;
  Strides of[3];
  for (int i = 0; i < shape.rank; ++i) {
    const int axis = order[i];
    ordered.push_back(shape[axis]);
    of[0].push_back(dx.strides[axis]), of[1].push_back(reads ? x.strides[axis] : 0), of[2].push_back(number_stride[axis]);
  }
  const Strided<3> w = walk_of<3>(ordered, {&of[0], &of[1], &of[2]});
  const int64_t size = int64_t(byte_size(d.dtype)), wide = int64_t(byte_size(accumulator(d.dtype)));
  const int last = w.rank - 1;
  const int64_t inner = w.inner, planes = w.rank > 1 ? w.rows / w.extent[last - 1] : 1, height = w.rank > 1 ? w.extent[last - 1] : 1;
  const int64_t row_block = std::clamp<int64_t>(kPiece / inner, 1, height), column_block = std::min(inner, kPiece);
  const int64_t row_blocks = (height + row_block - 1) / row_block, column_blocks = (inner + column_block - 1) / column_block;
  const int64_t dx_step = w.inner_stride(0), x_step = w.inner_stride(1), c_step = w.inner_stride(2);
  const bool direct = (inner == 1 || dx_step == 1) && (!reads || inner == 1 || x_step == 1) && (inner == 1 || c_step == 0 || c_step == 1);
  auto number = [&](char* c, int64_t at) { return c ? c + at * wide : nullptr; };
  parallel_for(planes * row_blocks * column_blocks, 1, threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t r = u / column_blocks % row_blocks * row_block, j = u % column_blocks * column_block, plane = u / column_blocks / row_blocks;
      const int64_t height_here = std::min(row_block, height - r), n = std::min(column_block, inner - j);
      int64_t at[3], pitch[3];
      w.offsets(plane * height + r, at);
      for (int k = 0; k < 3; ++k) at[k] += j * w.inner_stride(k), pitch[k] = w.rank > 1 ? w.stride[k][last - 1] : 0;
      const char* const from = reads ? x.data + at[1] * size : nullptr;
      char* const to = dx.data + at[0] * size;
      if (direct) {
        kernel({from, to, number(s.p, at[2]), number(s.q, at[2]), number(s.g, at[2]), height_here, n, pitch[1], pitch[0], pitch[2], inner == 1 ? 0 : int(c_step), problem.past});
        continue;
      }
      alignas(64) char stage[5][kStaged * 8];  // x, dx, p, q, g side by side
      for (int64_t k = 0; k < height_here; ++k)
        for (int64_t i = 0; i < n; i += kStaged) {
          const int64_t m = std::min(kStaged, n - i);
          auto gather = [&](const char* p, int64_t step, int64_t bytes, char* out) {
            for (int64_t e = 0; e < m; ++e) std::copy_n(p + e * step * bytes, bytes, out + e * bytes);
          };
          if (reads) gather(from + (k * pitch[1] + i * x_step) * size, x_step, size, stage[0]);
          char* const numbers[] = {s.p, s.q, s.g};
          for (int a = 0; a < 3; ++a)
            if (numbers[a]) gather(numbers[a] + (at[2] + k * pitch[2] + i * c_step) * wide, c_step, wide, stage[2 + a]);
          kernel({reads ? stage[0] : nullptr, stage[1], s.p ? stage[2] : nullptr, s.q ? stage[3] : nullptr, stage[4], 1, m, 0, 0, 0, 1, false});
          for (int64_t e = 0; e < m; ++e) std::copy_n(stage[1] + e * size, size, to + (k * pitch[0] + (i + e) * dx_step) * size);
        }
    }
  });
}

int64_t row_offset(const Strided<1>& row, int64_t i) {
  int64_t at[1];
  row.offsets(i / row.inner, at);
  return at[0] + i % row.inner * row.inner_stride(0);
}
Strided<1> reduced_walk(const Shape& shape, unsigned mask, const Strides& strides) {
  Shape s;
  Strides t;
  for (int i = 0; i < shape.rank; ++i)
    if (mask >> i & 1) s.push_back(shape[i]), t.push_back(strides[i]);
  return walk_of<1>(s, {&t});
}

// x, backwards along the reduced axes: its first extremum is the last one of x.
Operand reversed(Operand x, const Shape& shape, unsigned mask) {
  for (int i = 0; i < shape.rank; ++i)
    if (mask >> i & 1) x.data += (shape[i] - 1) * x.strides[i] * int64_t(byte_size(x.dtype)), x.strides[i] = -x.strides[i];
  return x;
}

// Numbers of the rows, then dx. Scratch of rows from row 0 on; scratch of the loop for one worker where threads is 1.
void run_slice(const Problem& problem, const Scratch& s, int threads) {
  const ReduceDescriptor& d = problem.d;
  const bool last = one_of_ties(d) && d.ties == ReduceTies::last, needs_y = reduce_saved(d.kind, d.ties).y;
  const Operand x = !problem.x.data || !reduce_saved(d.kind).x ? problem.dx : last ? reversed(problem.x, problem.shape, problem.mask) : problem.x;
  const ReduceWalk walk(problem.shape, problem.mask, x.strides, {&problem.dy.strides, &problem.y.strides, one_of_ties(d) ? &problem.dx.strides : &problem.mean.strides});
  const Numbers numbers{problem, walk, s, needs_y};
  const auto each_run = [&](auto f) {  // f(first row, rows, offsets) of neighbours
    parallel_for(walk.outputs, 1024, threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin, run; o < end; o += run) {
        int64_t at[4];
        walk.at(o, at);
        run = std::min({kMostRun, end - o, walk.kept.inner - o % walk.kept.inner});
        f(o, run, at);
      }
    });
  };
  const int64_t y_step = walk.kept.inner_stride(2);
  const ReduceKind kind = plain_kind(d);
  std::atomic<bool> counts = kind == ReduceKind::nanmean || (is_extremum(kind) && !one_of_ties(d));
  if (kind == ReduceKind::logsumexp)  // the infinite share: only then are they counted
    each_run([&](int64_t, int64_t run, const int64_t (&at)[4]) {
      double y[kMostRun];
      read_run(problem.y, at[2], y_step, run, y);
      if (std::find(y, y + run, INFINITY) != y + run) counts = true;
    });
  if (counts)
    each_run([&](int64_t o, int64_t run, const int64_t (&at)[4]) {
      if (kind == ReduceKind::nanmean) std::fill_n(s.shift + o, run, NAN);
      else read_run(problem.y, at[2], y_step, run, s.shift + o);
    });
  if (counts || one_of_ties(d) || (has_mean(kind) && !problem.mean.data)) {
    TensorView all;
    all.data = x.data, all.dtype = x.dtype, all.shape = problem.shape, all.strides = x.strides;
    reduce_run({walk, loop_for(d), all, s.shift, s.loop, threads}, [&](int64_t first, int64_t count, ReduceState* states) {
      numbers.set(first, count, states);
      if (one_of_ties(d))
        for (int64_t i = 0; i < count; ++i) s.shift[first + i] = double(last ? walk.n - 1 - states[i].at : states[i].at);
    });
  } else {
    parallel_for(walk.outputs, 1024, threads, [&](int64_t begin, int64_t end, int) { numbers.set(begin, end - begin, nullptr); });
  }
  map(problem, walk, s, threads);
  if (!one_of_ties(d)) return;
  const Strided<1> row = reduced_walk(problem.shape, problem.mask, problem.dx.strides);
  const int64_t dy_step = walk.kept.inner_stride(1), dx_step = walk.kept.inner_stride(3);
  each_run([&](int64_t o, int64_t run, const int64_t (&at)[4]) {
    double dy[kMostRun];
    read_run(problem.dy, at[1], dy_step, run, dy);
    visit_dtype(Floating{}, d.dtype, 0, [&]<class T>() {
      for (int64_t k = 0; k < run; ++k) reinterpret_cast<T*>(problem.dx.data)[at[3] + k * dx_step + row_offset(row, int64_t(s.shift[o + k]))] = from_double<T>(dy[k]);
      return 0;
    });
  });
}

// Where x is read twice: a kept axis and how much of it is a slice that the caches hold; axis -1: no.
struct Slices { int axis; int64_t extent; };
Slices slices_of(const Problem& p) {
  const int64_t size = int64_t(byte_size(p.d.dtype)), bytes = p.shape.numel() * size;
  Slices best{-1, 0};
  if (bytes <= kRowSlice) return best;
  for (int i = 0; i < p.shape.rank; ++i) {
    if ((p.mask >> i & 1) || p.shape[i] == 1) continue;
    bool outer = true;  // no reduced axis has a larger stride
    for (int k = 0; k < p.shape.rank; ++k) outer = outer && (!(p.mask >> k & 1) || p.shape[k] == 1 || std::abs(p.x.strides[k]) <= std::abs(p.x.strides[i]));
    const int64_t one = bytes / p.shape[i], least = outer ? 1 : 256 / size;
    if (one * least > kColumnSlice) continue;
    const int64_t fit = std::min(p.shape[i], std::max((outer ? kRowSlice : kColumnSlice) / one / least, int64_t(1)) * least);
    if (best.axis < 0 || std::abs(p.x.strides[i]) > std::abs(p.x.strides[best.axis])) best = {i, fit};
  }
  return best;
}

// --- products
struct ProductScratch {
  ReduceState *chunk, *outside;  // of every chunk: its product, and that of all other elements of its row times dy
  char* side;                    // kSide columns of a chunk, per worker
};
int64_t side_pitch(int64_t n) { return std::min<int64_t>(n, kSumChunk) + 64; }
ProductScratch carve_product(const ReduceDescriptor& d, Carver& c) {
  const unsigned mask = mask_of(d);
  const int64_t rows = d.shape.numel() ? row_count(d.shape, mask) : 0, n = row_length(d.shape, mask), chunks = rows ? sum_chunks(n) : 0;
  ProductScratch s;
  s.chunk = c.take<ReduceState>("products of chunks", chunks > 1 ? rows * chunks : 0);
  s.outside = c.take<ReduceState>("products around chunks", rows * chunks);
  s.side = static_cast<char*>(c.take_bytes("columns side by side", rows > 1 ? c.threads() * kSide * side_pitch(n) : 0, byte_size(d.dtype)));
  return s;
}
void split(double v, ReduceState& s) {  // s times v; the mantissa in a is normal again
  s.a *= v;
  if (s.a == 0 || !std::isfinite(s.a)) return;
  int e;
  s.a = std::frexp(s.a, &e), s.b += e;
}
void scatter_row(const Strided<1>& row, const char* from, int64_t size, int64_t begin, int m, char* dx) {
  for (int i = 0; i < m; ++i) std::memcpy(dx + row_offset(row, begin + i) * size, from + i * size, size_t(size));
}
void run_product(const Problem& p, const ProductScratch& s, int threads) {
  const DType t = p.d.dtype;
  const int64_t size = int64_t(byte_size(t));
  const ReduceWalk walk(p.shape, p.mask, p.x.strides, {&p.dy.strides, &p.dx.strides, &p.dx.strides});
  const Strided<1> dx_row = reduced_walk(p.shape, p.mask, p.dx.strides);
  const int64_t n = walk.n, chunks = sum_chunks(n), inner = walk.kept.inner;
  const auto others = BARACUDA_ISA_PICK(reduce_others_table).of[t];
  const auto product = reduce_kernel_of(ReduceLoop::product, t).rows;
  const bool dx_dense = n == 1 || (dx_row.rank == 1 && dx_row.inner_stride(0) == 1);
  auto length = [&](int64_t c) { return int(std::min<int64_t>(kSumChunk, n - c * kSumChunk)); };
  // f(output, chunk, offsets) over all of them.
  auto each = [&](int64_t grain, auto f) {
    parallel_for(walk.outputs * chunks, std::max<int64_t>(1, grain / std::min<int64_t>(n, kSumChunk)), threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t u = begin; u < end; ++u) {
        int64_t at[4];
        walk.at(u / chunks, at);
        f(u / chunks, u % chunks, at);
      }
    });
  };
  // f(rows of a pitch, how many, first output, chunk, offsets) over columns that lie next to one another, turned around.
  const bool side = !walk.dense && walk.row.rank == 1 && dx_row.rank == 1 && inner >= 8 && walk.kept.inner_stride(0) == 1 && walk.kept.inner_stride(2) == 1;
  const auto transpose = BARACUDA_ISA_PICK(move_kernels).transpose[size == 8 ? 3 : size == 4 ? 2 : 1];
  const int64_t pitch = side_pitch(n);
  auto each_side = [&](auto f) {
    const int64_t blocks = (inner + kSide - 1) / kSide, x_step = walk.row.inner_stride(0);
    parallel_for(walk.kept.rows * blocks * chunks, 1, threads, [&](int64_t begin, int64_t end, int worker) {
      char* const stage = s.side + worker * kSide * pitch * size;
      for (int64_t u = begin; u < end; ++u) {
        const int64_t c = u % chunks, j = u / chunks % blocks * kSide, width = std::min(kSide, inner - j), o = u / chunks / blocks * inner + j;
        int64_t at[4];
        walk.at(o, at);
        transpose(p.x.data + (at[0] + c * kSumChunk * x_step) * size, stage, width, length(c), x_step, pitch, false);
        f(stage, width, o, c, at);
      }
    });
  };
  if (chunks > 1 && side)
    each_side([&](char* stage, int64_t width, int64_t o, int64_t c, const int64_t (&)[4]) {
      ReduceState found[kSide];
      product({stage, pitch, width, length(c), nullptr, found, false, 2});
      for (int64_t k = 0; k < width; ++k) s.chunk[(o + k) * chunks + c] = found[k];
    });
  else if (chunks > 1)
    each(16384, [&](int64_t o, int64_t c, const int64_t (&at)[4]) {
      alignas(64) char stage[kSumChunk * 8];
      const char* from = p.x.data + (at[0] + c * kSumChunk) * size;
      if (!walk.dense) gather_row(walk.row, p.x.data + at[0] * size, size, c * kSumChunk, length(c), stage), from = stage;
      product({from, 0, 1, length(c), nullptr, s.chunk + o * chunks + c, false, 2});
    });
  parallel_for(walk.outputs, 1024, threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t o = begin; o < end; ++o) {
      int64_t at[4];
      walk.at(o, at);
      ReduceState before, behind;
      before.a = 1, before.b = 0, behind.a = 1, behind.b = 0;
      split(read(p.dy, at[1]), behind);
      ReduceState *const out = s.outside + o * chunks, *const chunk = s.chunk + o * chunks;
      for (int64_t c = 0; c < chunks; ++c) {
        out[c] = before;
        if (c + 1 < chunks) split(chunk[c].a, before), before.b += chunk[c].b;
      }
      for (int64_t c = chunks - 1; c >= 0; --c) {
        split(behind.a, out[c]), out[c].b += behind.b;
        if (c > 0) split(chunk[c].a, behind), behind.b += chunk[c].b;
      }
    }
  });
  auto run = [&](const void* x, void* dx, int64_t o, int64_t c) {
    const ReduceState& around = s.outside[o * chunks + c];
    others({x, dx, length(c), around.a, int64_t(around.b)});
  };
  if (side)
    return each_side([&](char* stage, int64_t width, int64_t o, int64_t c, const int64_t (&at)[4]) {
      const int64_t dx_step = dx_row.inner_stride(0);
      for (int64_t k = 0; k < width; ++k) run(stage + k * pitch * size, stage + k * pitch * size, o + k, c);
      transpose(stage, p.dx.data + (at[2] + c * kSumChunk * dx_step) * size, length(c), width, pitch, dx_step, false);
    });
  each(16384, [&](int64_t o, int64_t c, const int64_t (&at)[4]) {
    alignas(64) char stage[kSumChunk * 8];
    const char* from = p.x.data + (at[0] + c * kSumChunk) * size;
    char* to = p.dx.data + (at[2] + c * kSumChunk) * size;
    if (!walk.dense) gather_row(walk.row, p.x.data + at[0] * size, size, c * kSumChunk, length(c), stage), from = stage;
    run(from, dx_dense ? to : stage, o, c);
    if (!dx_dense) scatter_row(dx_row, stage, size, c * kSumChunk, length(c), p.dx.data + at[2] * size);
  });
}

void carve(const ReduceDescriptor& d, const void*, Carver& c) {
  if (d.kind == ReduceKind::prod) (void)carve_product(d, c);
  else (void)carve_all(d, c);
}
Status run(const Launch<ReduceBackward>& l) {
  const ReduceDescriptor& d = l.desc;
  const ReduceBackward::Args& a = l.args;
  if (d.shape.numel() == 0) return {};
  const unsigned mask = mask_of(d);
  auto over = [&](const TensorView& v) { return Operand{v.as<char>(), v.dtype, over_shape(d.shape, mask, v)}; };
  Problem p{d, mask, d.shape, over(a.dy), operand(a.x), over(a.y), over(a.mean), operand(a.dx), false};
  p.past = d.shape.numel() * int64_t(byte_size(d.dtype)) >= kPastCaches;
  Carver c = l.carver();
  if (d.kind == ReduceKind::prod) return run_product(p, carve_product(d, c), l.threads), Status();
  const Scratch s = carve_all(d, c);
  const ReduceKind kind = plain_kind(d);
  const bool twice = (is_extremum(kind) && !one_of_ties(d)) || kind == ReduceKind::nanmean || (has_mean(kind) && a.mean.absent());
  const Slices slices = twice ? slices_of(p) : Slices{-1, 0};
  if (slices.axis < 0 || slices.extent == d.shape[slices.axis]) return run_slice(p, s, l.threads), Status();
  const int64_t extent = d.shape[slices.axis], outputs = row_count(d.shape, mask), rows = outputs / extent * slices.extent;
  const int64_t chunks = sum_chunks(row_length(d.shape, mask)), wide = int64_t(byte_size(accumulator(d.dtype)));
  const ReduceKernel& kernel = reduce_kernel_of(loop_for(d), d.dtype);
  parallel_for((extent + slices.extent - 1) / slices.extent, 1, l.threads, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t u = begin; u < end; ++u) {
      Scratch part = s;
      for (char** of : {&part.p, &part.q, &part.g})
        if (*of) *of += u * rows * wide;
      part.shift += u * rows;
      part.loop.partial += chunks > 1 ? chunks * u * rows : 0;
      if (part.loop.lanes) part.loop.lanes += worker * reduce_tile(kernel, outputs) * kernel.lane_bytes;
      run_slice(slice(p, slices.axis, u * slices.extent, std::min(slices.extent, extent - u * slices.extent)), part, 1);
    }
  });
  return {};
}
std::string refuse(const ReduceDescriptor& d, const PlanPreference&) {
  const bool counts = d.kind == ReduceKind::any || d.kind == ReduceKind::all || d.kind == ReduceKind::count_nonzero;
  return counts ? text("kind ", enum_name(d.kind), " has no gradient") : std::string();
}

}  // namespace

Status ReduceBackward::validate(const Descriptor& d) { return validate_reduce(name, d); }
Status ReduceBackward::check(const Descriptor& d, const Args& a) {
  const ReduceSaved saved = reduce_saved(d.kind, d.ties);
  BARACUDA_TRY(expect(name, "dy", a.dy, y_dtype(d), dy_shape(d)));
  if (saved.x && a.x.absent()) return invalid(name, text("x is missing: the gradient of ", enum_name(d.kind), " reads it"));
  if (saved.y && a.y.absent()) return invalid(name, text("y is missing: the gradient of ", enum_name(d.kind), " reads it"));
  if (!a.x.absent()) BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  if (!a.y.absent()) BARACUDA_TRY(expect(name, "y", a.y, y_dtype(d), dy_shape(d)));
  if (!a.mean.absent()) {
    if (!has_mean(d.kind)) return invalid(name, text("mean is given, but kind ", enum_name(d.kind), " has none; only var and std do"));
    BARACUDA_TRY(expect(name, "mean", a.mean, accumulator(d.dtype), dy_shape(d)));
  }
  return expect(name, "dx", a.dx, d.dtype, d.shape);
}
std::span<const Kernel<ReduceBackward>> ReduceBackward::kernels() {
  static constexpr Kernel<ReduceBackward> list[] = {{.name = "reduce_backward.cpu.map",
                                                     .launch = launch_all<ReduceBackward>(Floating{}, run),
                                                     .guarantee = reduce_guarantee,
                                                     .refuse = refuse,
                                                     .carve = carve}};
  return list;
}

}  // namespace baracuda
