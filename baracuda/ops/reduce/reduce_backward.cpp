#include <algorithm>
#include <cmath>
#include "baracuda/math/half.hpp"
#include "baracuda/ops/reduce/reduce_detail.hpp"

namespace baracuda {
namespace {

constexpr int64_t kStaged = 1024;

bool one_of_ties(const ReduceDescriptor& d) {
  return (d.kind == ReduceKind::max || d.kind == ReduceKind::min) && d.ties != ReduceTies::split;
}
ReduceLoop loop_for(const ReduceDescriptor& d) {  // over x, before the map
  if (one_of_ties(d)) return d.kind == ReduceKind::max ? ReduceLoop::argmax : ReduceLoop::argmin;
  return has_mean(d.kind) ? ReduceLoop::moments : ReduceLoop::equal;
}
bool has_loop(ReduceKind k) { return k == ReduceKind::max || k == ReduceKind::min || k == ReduceKind::logsumexp || has_mean(k); }
ReduceMapKind map_of(const ReduceDescriptor& d) {
  switch (d.kind) {
    case ReduceKind::max: case ReduceKind::min: return one_of_ties(d) ? ReduceMapKind::spread : ReduceMapKind::equal;
    case ReduceKind::norm2: return ReduceMapKind::ratio;
    case ReduceKind::logsumexp: return ReduceMapKind::softmax;
    case ReduceKind::var: case ReduceKind::std: return ReduceMapKind::distance;
    default: return ReduceMapKind::spread;
  }
}

// The product of the elements before a chunk, per chunk: mantissa and exponent apart.
struct Scaled {
  double m = 1;
  int64_t e = 0;
  static double split(double v, int64_t& e) {
    int k = 0;
    if (!std::isfinite(v)) return v;
    const double m = std::frexp(v, &k);
    e += k;
    return m;
  }
  void times(double v) { m = split(m * split(v, e), e); }
  double value() const { return std::ldexp(m, int(std::clamp<int64_t>(e, -5000, 5000))); }
};
Scaled operator*(Scaled a, const Scaled& b) {
  a.times(b.m), a.e += b.e;
  return a;
}

struct Scratch {
  char *p, *q, *g;
  double* shift;      // y, or the index of the element that gets dy
  ReduceScratch loop;
  Scaled* before;     // per worker
};
Scratch carve_all(const ReduceDescriptor& d, Carver& c) {
  const unsigned mask = mask_of(d);
  const int64_t rows = d.shape.numel() ? row_count(d.shape, mask) : 0;
  const uint64_t size = byte_size(accumulator(d.dtype));
  Scratch s{};
  if (d.kind == ReduceKind::prod) {
    s.before = c.take<Scaled>("products before chunks", rows ? c.threads() * sum_chunks(row_length(d.shape, mask)) : 0);
    return s;
  }
  const bool numbers = map_of(d) != ReduceMapKind::spread;
  s.g = static_cast<char*>(c.take_bytes("factors", rows, size));
  if (numbers) s.p = static_cast<char*>(c.take_bytes("numbers of rows", rows, size));
  if (has_mean(d.kind)) s.q = static_cast<char*>(c.take_bytes("low parts of means", rows, size));
  if (has_loop(d.kind)) {
    s.shift = c.take<double>("extrema", rows);
    if (rows) s.loop = ReduceScratch::carve(loop_for(d), d.dtype, d.shape, mask, c);
  }
  return s;
}
void carve(const ReduceDescriptor& d, const void*, Carver& c) { carve_all(d, c); }

double read(const TensorView& v, int64_t at) {
  return visit_dtype(Floating{}, v.dtype, 0.0, [&]<class T>() { return to_double(v.as<T>()[at]); });
}
void put(const ReduceDescriptor& d, char* array, int64_t o, double v) {
  if (d.dtype == DType::f64) reinterpret_cast<double*>(array)[o] = v;
  else reinterpret_cast<float*>(array)[o] = float(v);
}

// g, p and q of a row from its dy and y, the count of its extrema and its mean.
void numbers_of(const ReduceDescriptor& d, const Scratch& s, int64_t o, double dy, double y, double count, double mean, int64_t n) {
  const double free = double(n) - d.correction;
  double g = dy, p = y;
  switch (d.kind) {
    case ReduceKind::mean: g = dy / double(n); break;
    case ReduceKind::max: case ReduceKind::min: g = one_of_ties(d) ? 0 : dy / count; break;
    case ReduceKind::norm2: if (y == 0) g = 0, p = 1; break;
    case ReduceKind::logsumexp:
      if (y == -INFINITY) g = 0, p = INFINITY;
      else if (y == INFINITY) g = dy / count;
      break;
    case ReduceKind::var: g = free > 0 ? dy * 2 / free : NAN, p = mean; break;
    case ReduceKind::std: g = !(free > 0) ? NAN : y == 0 ? 0 : dy / free / y, p = mean; break;
    default: break;
  }
  put(d, s.g, o, g);
  if (s.p) put(d, s.p, o, p);
  if (s.q) put(d, s.q, o, d.dtype == DType::f64 ? 0 : p - double(float(p)));
}

// dx over the whole shape, its own memory order.
void map(const Launch<ReduceBackward>& l, const ReduceWalk& rows, const Scratch& s) {
  const ReduceDescriptor& d = l.desc;
  const TensorView &dx = l.args.dx, &x = l.args.x;
  const auto kernel = BARACUDA_ISA_PICK(reduce_map_table).of[int(map_of(d))][d.dtype];
  const bool reads = map_of(d) != ReduceMapKind::spread;
  int64_t number_stride[kMaxRank] = {}, step = 1;
  for (int k = rows.kept_rank - 1; k >= 0; --k) number_stride[rows.order[k]] = step, step *= d.shape[rows.order[k]];
  int order[kMaxRank];
  for (int i = 0; i < d.shape.rank; ++i) {  // by falling stride
    int k = i;
    for (; k > 0 && std::abs(dx.strides[order[k - 1]]) < std::abs(dx.strides[i]); --k) order[k] = order[k - 1];
    order[k] = i;
  }
  Shape shape;
  Strides of[3];
  for (int i = 0; i < d.shape.rank; ++i) {
    const int axis = order[i];
    shape.push_back(d.shape[axis]);
    of[0].push_back(dx.strides[axis]), of[1].push_back(reads ? x.strides[axis] : 0), of[2].push_back(number_stride[axis]);
  }
  const Strided<3> w = walk_of<3>(shape, {&of[0], &of[1], &of[2]});
  const int64_t size = int64_t(byte_size(d.dtype)), wide = int64_t(byte_size(accumulator(d.dtype)));
  const int last = w.rank - 1;
  const int64_t inner = w.inner, planes = w.rank > 1 ? w.rows / w.extent[last - 1] : 1, height = w.rank > 1 ? w.extent[last - 1] : 1;
  const int64_t row_block = std::clamp<int64_t>(kPiece / inner, 1, height), column_block = std::min(inner, kPiece);
  const int64_t row_blocks = (height + row_block - 1) / row_block, column_blocks = (inner + column_block - 1) / column_block;
  const int64_t dx_step = w.inner_stride(0), x_step = w.inner_stride(1), c_step = w.inner_stride(2);
  const bool direct = (inner == 1 || dx_step == 1) && (!reads || inner == 1 || x_step == 1) && (inner == 1 || c_step == 0 || c_step == 1);
  auto number = [&](char* c, int64_t at) { return c ? c + at * wide : nullptr; };
  parallel_for(planes * row_blocks * column_blocks, 1, l.threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t r = u / column_blocks % row_blocks * row_block, j = u % column_blocks * column_block, plane = u / column_blocks / row_blocks;
      const int64_t height_here = std::min(row_block, height - r), n = std::min(column_block, inner - j);
      int64_t at[3], pitch[3];
      w.offsets(plane * height + r, at);
      for (int k = 0; k < 3; ++k) at[k] += j * w.inner_stride(k), pitch[k] = w.rank > 1 ? w.stride[k][last - 1] : 0;
      const char* const from = reads ? x.as<char>() + at[1] * size : nullptr;
      char* const to = dx.as<char>() + at[0] * size;
      if (direct) {
        kernel({from, to, number(s.p, at[2]), number(s.q, at[2]), number(s.g, at[2]), height_here, n, pitch[1], pitch[0], pitch[2], inner == 1 ? 0 : int(c_step)});
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
          kernel({reads ? stage[0] : nullptr, stage[1], s.p ? stage[2] : nullptr, s.q ? stage[3] : nullptr, stage[4], 1, m, 0, 0, 0, 1});
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

// dx_i = dy (product before i) (product behind i): one walk for the products before chunks, one back through them.
template <class T> void product_row(const Strided<1>& x_row, const char* x, const Strided<1>& dx_row, T* dx, int64_t n, double dy, Scaled* before) {
  T stage[kSumChunk];
  Scaled prefix[kSumChunk], all;
  auto chunk = [&](int64_t c) {
    const int m = int(std::min<int64_t>(kSumChunk, n - c * kSumChunk));
    gather_row(x_row, x, sizeof(T), c * kSumChunk, m, stage);
    return m;
  };
  const int64_t chunks = sum_chunks(n);
  for (int64_t c = 0; c < chunks; ++c) {
    before[c] = all;
    if (c + 1 == chunks) break;
    for (int i = 0, m = chunk(c); i < m; ++i) all.times(to_double(stage[i]));
  }
  Scaled behind;
  behind.times(dy);
  for (int64_t c = chunks - 1; c >= 0; --c) {
    const int m = chunk(c);
    Scaled p = before[c];
    for (int i = 0; i < m; ++i) prefix[i] = p, p.times(to_double(stage[i]));
    for (int i = m - 1; i >= 0; --i) {
      dx[row_offset(dx_row, c * kSumChunk + i)] = from_double<T>((prefix[i] * behind).value());
      behind.times(to_double(stage[i]));
    }
  }
}
void run_product(const Launch<ReduceBackward>& l, unsigned mask) {
  const ReduceDescriptor& d = l.desc;
  const ReduceBackward::Args& a = l.args;
  Carver c = l.carver();
  const Scratch s = carve_all(d, c);
  const Strides dy = over_shape(d.shape, mask, a.dy);
  const ReduceWalk walk(d.shape, mask, a.x.strides, {&dy, &a.dx.strides, &a.dx.strides});
  const Strided<1> dx_row = reduced_walk(d.shape, mask, a.dx.strides);
  parallel_for(walk.outputs, std::max<int64_t>(1, 1024 / walk.n), l.threads, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t o = begin; o < end; ++o) {
      int64_t at[4];
      walk.at(o, at);
      visit_dtype(Floating{}, d.dtype, 0, [&]<class T>() {
        product_row<T>(walk.row, reinterpret_cast<const char*>(a.x.as<T>() + at[0]), dx_row, a.dx.as<T>() + at[2], walk.n, read(a.dy, at[1]),
                       s.before + worker * sum_chunks(walk.n));
        return 0;
      });
    }
  });
}

// x, backwards along the reduced axes: its first extremum is the last one of x.
TensorView reversed(const TensorView& x, unsigned mask) {
  TensorView v = x;
  int64_t start = 0;
  for (int i = 0; i < x.shape.rank; ++i)
    if (mask >> i & 1) start += (x.shape[i] - 1) * x.strides[i], v.strides[i] = -x.strides[i];
  v.data = x.as<char>() + start * int64_t(byte_size(x.dtype));
  return v;
}

Status run(const Launch<ReduceBackward>& l) {
  const ReduceDescriptor& d = l.desc;
  const ReduceBackward::Args& a = l.args;
  const unsigned mask = mask_of(d);
  if (d.shape.numel() == 0) return {};
  if (d.kind == ReduceKind::prod) return run_product(l, mask), Status();
  Carver c = l.carver();
  const Scratch s = carve_all(d, c);
  const bool last = one_of_ties(d) && d.ties == ReduceTies::last;
  const TensorView x = a.x.absent() || !reduce_saved(d.kind).x ? a.dx : last ? reversed(a.x, mask) : a.x;
  const Strides dy = over_shape(d.shape, mask, a.dy), y = over_shape(d.shape, mask, a.y), mean = over_shape(d.shape, mask, a.mean);
  const ReduceWalk walk(d.shape, mask, x.strides, {&dy, &y, one_of_ties(d) ? &a.dx.strides : &mean});
  const bool needs_y = reduce_saved(d.kind, d.ties).y;
  auto each_row = [&](auto f) {
    parallel_for(walk.outputs, 1024, l.threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o) {
        int64_t at[4];
        walk.at(o, at);
        f(o, at);
      }
    });
  };
  auto set = [&](int64_t o, const int64_t (&at)[4], double count, double m) {
    numbers_of(d, s, o, read(a.dy, at[1]), needs_y ? read(a.y, at[2]) : 0, count, m, walk.n);
  };
  bool counts = needs_y && (d.kind == ReduceKind::max || d.kind == ReduceKind::min);
  if (d.kind == ReduceKind::logsumexp)  // the infinite share: only then are they counted
    for (int64_t o = 0; o < walk.outputs && !counts; ++o) {
      int64_t at[4];
      walk.at(o, at);
      counts = read(a.y, at[2]) == INFINITY;
    }
  if (counts) each_row([&](int64_t o, const int64_t (&at)[4]) { s.shift[o] = read(a.y, at[2]); });
  const bool loops = counts || one_of_ties(d) || (has_mean(d.kind) && a.mean.absent());
  if (!loops) each_row([&](int64_t o, const int64_t (&at)[4]) { set(o, at, 1, a.mean.absent() ? 0 : read(a.mean, at[3])); });
  else
    reduce_run({walk, loop_for(d), x, s.shift, s.loop, l.threads}, [&](int64_t first, int64_t count, ReduceState* states) {
      for (int64_t i = 0; i < count; ++i) {
        int64_t at[4];
        walk.at(first + i, at);
        set(first + i, at, states[i].a, states[i].a);
        if (one_of_ties(d)) s.shift[first + i] = double(last ? walk.n - 1 - states[i].at : states[i].at);
      }
    });
  map(l, walk, s);
  if (one_of_ties(d)) {
    const Strided<1> row = reduced_walk(d.shape, mask, a.dx.strides);
    each_row([&](int64_t o, const int64_t (&at)[4]) {
      visit_dtype(Floating{}, d.dtype, 0, [&]<class T>() {
        a.dx.as<T>()[at[3] + row_offset(row, int64_t(s.shift[o]))] = from_double<T>(read(a.dy, at[1]));
        return 0;
      });
    });
  }
  return {};
}

}  // namespace

Status ReduceBackward::validate(const Descriptor& d) { return validate_reduce(name, d, true); }
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
                                                     .carve = carve}};
  return list;
}

}  // namespace baracuda
