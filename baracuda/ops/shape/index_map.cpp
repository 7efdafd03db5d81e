#include "baracuda/ops/shape/index_map.hpp"
#include <algorithm>
#include <cmath>
#include <cstring>
#include "baracuda/host/move.hpp"
#include "baracuda/host/past.hpp"
#include "baracuda/host/strided.hpp"
#include "baracuda/math/half.hpp"

namespace baracuda {
namespace {

int64_t wrap(int64_t i, int64_t n) { return (i % n + n) % n; }
int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }  // b > 0

// Dense stretches of a result that is larger than the caches are written past them. The caller ends its block with past_fence().
struct Copier {
  bool past;
  static constexpr size_t kLeast = 1024;  // bytes; shorter ones are not worth their head and tail
  static constexpr int64_t kStretch = 256 << 10;  // bytes, after which a block waits for its last lines to leave
  Copier(const TensorView& y, const void* read) : past(y.data != read && y.numel() >= kPastCaches / int64_t(byte_size(y.dtype))) {}
  void operator()(void* y, const void* x, size_t bytes) const {
    if (!past || bytes < kLeast) return short_copy(static_cast<char*>(y), static_cast<const char*>(x), bytes);
    const size_t head = (0 - reinterpret_cast<uintptr_t>(y)) % 64;
    std::memcpy(y, x, head);
    BARACUDA_ISA_PICK(move_kernels).copy_past(static_cast<char*>(y) + head, static_cast<const char*>(x) + head, int64_t(bytes - head));
  }
  void fence() const { if (past) past_fence(); }

 private:
  static void short_copy(char* y, const char* x, size_t bytes) {  // a call would take as long as the copy
    if (bytes < 16 || bytes > 256) return void(std::memcpy(y, x, bytes));
    for (size_t i = 0; i + 16 < bytes; i += 16) std::memcpy(y + i, x + i, 16);
    std::memcpy(y + bytes - 16, x + bytes - 16, 16);
  }
};
// Short rows of a dense result that is larger than the caches, one behind the other: they are put together here and leave in whole
// lines, past the caches.
template <class T> struct Assembly {
  static constexpr int64_t kLeaves = 8192, kLongest = Copier::kLeast - 1;  // bytes
  explicit Assembly(T* y) : skip(int64_t(reinterpret_cast<uintptr_t>(y) % 64)), used(skip), to(reinterpret_cast<char*>(y) - skip) {}
  T* place() { return reinterpret_cast<T*>(bytes + used); }
  void add(int64_t more) {
    used += more;
    if (used >= kLeaves) leave();
  }
  void finish() {
    if (used >= 64) leave();
    std::memcpy(to + skip, bytes + skip, size_t(used - skip));
  }

 private:
  void leave() {
    const int64_t lines = used / 64 * 64, head = skip ? 64 : 0;
    if (skip) std::memcpy(to + skip, bytes + skip, size_t(64 - skip));
    BARACUDA_ISA_PICK(move_kernels).copy_past(to + head, bytes + head, lines - head);
    std::memcpy(bytes, bytes + lines, size_t(used - lines));
    to += lines, used -= lines, skip = 0;
  }
  int64_t skip, used;  // bytes of the first line that are others', and bytes so far with them
  char* to;
  alignas(64) char bytes[kLeaves + kLongest + 1];
};
// `count` blocks of `block` elements, x_step and y_step apart; a block is dense on both sides.
template <class T> void move(const Copier& copy, const T* x, int64_t x_step, T* y, int64_t y_step, int64_t count, int64_t block) {
  if (count * block == 1) *y = *x;
  else if (x_step == block && y_step == block) copy(y, x, size_t(count * block) * sizeof(T));
  else if (block > 1) for (int64_t k = 0; k < count; ++k) copy(y + k * y_step, x + k * x_step, size_t(block) * sizeof(T));
  else if (y_step == 1 && x_step == 0) std::fill(y, y + count, *x);
  else if (y_step == 1 && x_step == -1) for (int64_t k = 0; k < count; ++k) y[k] = x[-k];
  else for (int64_t k = 0; k < count; ++k) y[k * y_step] = x[k * x_step];
}
template <class T> void fill(T value, T* y, int64_t y_step, int64_t count, int64_t block) {
  if (count * block == 1) *y = value;
  else if (y_step == block) std::fill(y, y + count * block, value);
  else for (int64_t k = 0; k < count; ++k) std::fill(y + k * y_step, y + k * y_step + block, value);
}

// The outer axes of a gather, stepped in row-major order of y.
struct OuterWalk {
  const IndexMap& map;
  const TensorView &x, &y;
  int rank;
  const int64_t* last = nullptr;  // where the indices of the last of them come from, if known
  int64_t o[kMaxRank] = {}, from[kMaxRank] = {};  // index of y, offset in x (or -1: filled)
  int64_t x_before = 0, y_before = 0;             // of the axes before the last
  bool taken_before = true;
  void set(int a, int64_t i) { o[a] = i, from[a] = last && a == rank - 1 ? last[i] : map.axis[a].run(i).from; }
  void sum_before() {
    x_before = y_before = 0, taken_before = true;
    for (int a = 0; a < rank - 1; ++a) taken_before = taken_before && from[a] >= 0, x_before += from[a] * x.strides[a], y_before += o[a] * y.strides[a];
  }
  void seek(int64_t row) {
    for (int a = rank - 1; a >= 0; --a) set(a, row % map.axis[a].m), row /= map.axis[a].m;
    sum_before();
  }
  void next() {
    for (int a = rank - 1; a >= 0; --a) {
      const bool more = o[a] + 1 < map.axis[a].m;
      set(a, more ? o[a] + 1 : 0);
      if (more && a == rank - 1) return;
      if (more) break;
    }
    sum_before();
  }
  // The rows from here on that step evenly: how many, and by how much.
  int64_t even(int64_t& x_step, int64_t& y_step) const {
    const int a = rank - 1;
    if (a < 0) return x_step = y_step = 0, 1;
    const AxisMap::Run r = map.axis[a].run(o[a]);
    x_step = r.step * x.strides[a], y_step = y.strides[a];
    return r.length;
  }
  void skip(int64_t n) {  // n > 0 along the last axis
    if (rank > 0) o[rank - 1] += n - 1;
    next();
  }
  bool at(int64_t& x_at, int64_t& y_at) const {  // false: the row is filled
    const int a = rank - 1;
    x_at = x_before + (a < 0 ? 0 : from[a] * x.strides[a]), y_at = y_before + (a < 0 ? 0 : o[a] * y.strides[a]);
    return taken_before && (a < 0 || from[a] >= 0);
  }
};
// The runs of a row, found once where they are few.
template <class T> struct RowRuns {
  static constexpr int kRuns = 8;
  enum Kind : uint8_t { one, dense, any };  // an element; bytes that lie alike on both sides
  struct Part { int64_t to, from, x_step, length; bool filled; Kind kind; } part[kRuns];
  int count = 0;
  int64_t y_step = 1, block = 1;
  T value = {};
  void find(const AxisMap& map, int64_t x_step, int64_t step, int64_t elements, T filler) {
    y_step = step, block = elements, value = filler;
    for (int64_t o = 0; o < map.m;) {
      if (count == kRuns) return void(count = 0);
      const AxisMap::Run r = map.run(o);
      const int64_t length = std::min(r.length, map.m - o);
      const Kind kind = length * block == 1 ? one : r.from >= 0 && r.step * x_step == block && y_step == block ? dense : any;
      part[count++] = {o * y_step, r.from * x_step, r.step * x_step, length, r.from < 0, kind};
      o += length;
    }
  }
  void put(const Copier& copy, const T* x, T* y) const {
    for (int k = 0; k < count; ++k)
      if (const Part& p = part[k]; p.kind == one) y[p.to] = p.filled ? value : x[p.from];
      else if (p.kind == dense) copy(y + p.to, x + p.from, size_t(p.length * block) * sizeof(T));
      else put_any(copy, x, y, p);
  }

 private:
  [[gnu::noinline]] void put_any(const Copier& copy, const T* x, T* y, const Part& p) const {
    if (p.filled) fill(value, y + p.to, y_step, p.length, block);
    else move(copy, x + p.from, p.x_step, y + p.to, y_step, p.length, block);
  }
};
template <class T> void gather_as(const IndexMap& map, const TensorView& x, const TensorView& y, T value, int threads) {
  // Trailing axes that stay as they are and are dense on both sides become one block, moved as a whole.
  int rank = map.rank;
  int64_t block = 1;
  while (rank > 0) {
    const int a = rank - 1;
    const bool dense = map.axis[a].m == 1 || (x.strides[a] == block && y.strides[a] == block);
    if (!map.axis[a].identity() || !dense) break;
    block *= map.axis[a].m, --rank;
  }
  AxisMap inner = AxisMap::same(block);
  int64_t x_step = 1, y_step = 1;
  if (rank > 0 && block <= kPiece) {
    inner = map.axis[--rank], x_step = x.strides[rank], y_step = y.strides[rank];
  } else block = 1;  // long enough to be the row
  int64_t rows = 1;
  for (int a = 0; a < rank; ++a) rows *= map.axis[a].m;
  if (rows * inner.m == 0) return;
  constexpr int64_t kLast = 256;
  int64_t last_from[kLast];
  const bool short_last = rank > 0 && map.axis[rank - 1].m <= kLast && map.axis[rank - 1].m < rows;
  for (int64_t i = 0; short_last && i < map.axis[rank - 1].m; ++i) last_from[i] = map.axis[rank - 1].run(i).from;
  const Copier copy(y, x.data);
  const int64_t most = std::max<int64_t>(1, kPiece / block), pieces = (inner.m + most - 1) / most;
  RowRuns<T> known;
  if (pieces == 1) known.find(inner, x_step, y_step, block, value);
  const int64_t row = inner.m * block, row_bytes = row * int64_t(sizeof(T));
  const bool assembled = copy.past && known.count > 0 && row_bytes <= Assembly<T>::kLongest && y.contiguous();
  const int64_t stretch = copy.past ? Copier::kStretch / int64_t(sizeof(T)) : kPiece;
  parallel_for(rows * pieces, std::max<int64_t>(1, stretch / (std::min(most, inner.m) * block)), threads, [&](int64_t begin, int64_t end, int) {
    OuterWalk walk{map, x, y, rank, short_last ? last_from : nullptr};
    walk.seek(begin / pieces);
    int64_t x_at, y_at;
    bool taken = walk.at(x_at, y_at);
    if (known.count > 0) {
      Assembly<T> assembly(y.as<T>() + (assembled ? begin * row : 0));
      for (int64_t i = begin, n; i < end; i += n) {
        int64_t x_next, y_next;
        n = std::min(walk.even(x_next, y_next), end - i), taken = walk.at(x_at, y_at);
        for (int64_t k = 0; k < n; ++k) {
          T* to = assembled ? assembly.place() : y.as<T>() + (y_at + k * y_next);
          if (taken) known.put(copy, x.as<T>() + (x_at + k * x_next), to);
          else fill(value, to, y_step, inner.m, block);
          if (assembled) assembly.add(row_bytes);
        }
        walk.skip(n);
      }
      if (assembled) assembly.finish();
      return copy.fence();
    }
    for (int64_t i = begin, piece = begin % pieces; i < end; ++i, ++piece) {
      if (piece == pieces) piece = 0, walk.next(), taken = walk.at(x_at, y_at);
      const T* from = x.as<T>() + x_at;
      T* to = y.as<T>() + y_at;
      const auto put = [&](int64_t o, const AxisMap::Run& r, int64_t count) {
        if (r.from < 0) fill(value, to + o * y_step, y_step, count, block);
        else move(copy, from + r.from * x_step, r.step * x_step, to + o * y_step, y_step, count, block);
        return count;
      };
      const int64_t last = std::min(inner.m, (piece + 1) * most);
      int64_t o = piece * most;
      while (o < last) {
        const AxisMap::Run r = taken ? inner.run(o) : AxisMap::Run{-1, 0, last - o};
        o += put(o, r, std::min(r.length, last - o));
      }
    }
    copy.fence();
  });
}

// --- the adjoint: a piece of a row of dx at a time. Where one element of dy falls on each of dx, which is all of it but a margin under
// pads, it is copied; else sums are made on the stack. They start at -0, so that the sum of one term has its bits.
constexpr int64_t kColumns = 1024;
// The k of [0, length) for which from + k step lies in [low, high).
void clip(const AxisMap::Run& r, int64_t low, int64_t high, int64_t& begin, int64_t& end) {
  begin = 0, end = r.length;
  if (r.step == 0) {
    if (r.from < low || r.from >= high) end = 0;
    return;
  }
  const int64_t near = r.step > 0 ? low - r.from : r.from - high + 1, far = r.step > 0 ? high - r.from : r.from - low + 1;
  const int64_t step = r.step > 0 ? r.step : -r.step;
  if (near > 0) begin = step == 1 ? near : ceil_div(near, step);
  end = far <= 0 ? 0 : std::min(end, step == 1 ? far : ceil_div(far, step));
}
template <class T> struct RowSum {
  const IndexMap& map;
  const TensorView& dy;
  int64_t i[kMaxRank] = {};  // outer indices of dx, and the indices of dy that take them
  AxisMap::Progression taken[kMaxRank][3] = {};
  int takers[kMaxRank] = {};
  bool known = false;  // taken and takers
  double sum[kColumns];
  RowSum(const IndexMap& m, const TensorView& g) : map(m), dy(g) {}  // an aggregate's sums would be zeroed

  void seek(int64_t row) {
    for (int a = map.rank - 2; a >= 0; --a) i[a] = row % map.axis[a].n, row /= map.axis[a].n;
    known = false;
  }
  void next() {
    known = false;
    for (int a = map.rank - 2; a >= 0; --a) {
      if (++i[a] < map.axis[a].n) return;
      i[a] = 0;
    }
  }
  void look() {
    for (int a = 0; !known && a < map.rank - 1; ++a) takers[a] = map.axis[a].indices_of(i[a], taken[a]);
    known = true;
  }
  // The one row of dy that falls on this one of dx, or null.
  const T* only_row(const AxisMap::Singles* singles) {
    const T* at = dy.as<T>();
    for (int a = 0; a < map.rank - 1; ++a) {
      int64_t index = i[a] + singles[a].shift;
      if (i[a] < singles[a].begin || i[a] >= singles[a].end) {
        look();
        if (takers[a] != 1 || taken[a][0].count != 1) return nullptr;
        index = taken[a][0].first;
      }
      at += index * dy.strides[a];
    }
    return at;
  }

  void add_row(const T* row, int64_t low, int64_t high) {
    const int last = map.rank - 1;
    const AxisMap inner = last < 0 ? AxisMap::same(1) : map.axis[last];
    const int64_t stride = last < 0 ? 1 : dy.strides[last];
    for (int64_t o = inner.first(low); o < inner.m;) {
      const AxisMap::Run r = inner.run(o);
      if (r.from >= high && inner.ascending()) break;
      int64_t k, end;
      if (r.from < 0) end = k = 0;
      else clip(r, low, high, k, end);
      o += r.length;
      if (k >= end) continue;
      const T* from = row + (o - r.length + k) * stride;
      double* to = sum + (r.from + k * r.step - low);  // the first one of the run that lies in the piece
      const int64_t count = end - k;
      if (r.step == 0) {
        double s = *to;
        for (int64_t j = 0; j < count; ++j) s += to_double(from[j * stride]);
        *to = s;
      } else if (r.step == 1 && stride == 1)
        for (int64_t j = 0; j < count; ++j) to[j] += to_double(from[j]);
      else
        for (int64_t j = 0; j < count; ++j) to[j * r.step] += to_double(from[j * stride]);
    }
  }
  void add(int a, const T* at, int64_t low, int64_t high) {
    if (a >= map.rank - 1) return add_row(at, low, high);
    for (int j = 0; j < takers[a]; ++j)
      for (int64_t k = 0; k < taken[a][j].count; ++k) add(a + 1, at + (taken[a][j].first + k * taken[a][j].step) * dy.strides[a], low, high);
  }
  // Elements [low, high) of the row `to` of dx, at most kColumns.
  void make(T* to, int64_t stride, int64_t low, int64_t high, bool empty) {
    if (low >= high) return;
    look();
    std::fill(sum, sum + (high - low), -0.0);
    if (!empty) add(0, dy.as<T>(), low, high);
    bool some = !empty;
    for (int a = 0; a < map.rank - 1; ++a) some = some && takers[a] > 0;
    AxisMap::Progression p[3];
    for (int64_t c = low; c < high; ++c) {
      double s = sum[c - low];
      if (s == 0 && std::signbit(s) && !(some && (map.rank == 0 || map.axis[map.rank - 1].indices_of(c, p) > 0))) s = 0;  // no term at all
      to[c * stride] = from_double<T>(s);
    }
  }
};
template <class T> void sum_back_as(const IndexMap& map, const TensorView& dy, const TensorView& dx, int threads) {
  const int last = map.rank - 1;
  const int64_t columns = last < 0 ? 1 : map.axis[last].n, stride = last < 0 ? 1 : dx.strides[last];
  int64_t rows = 1;
  for (int a = 0; a < last; ++a) rows *= map.axis[a].n;
  if (rows * columns == 0) return;
  const bool empty = dy.numel() == 0;  // its other extents may be so large that a walk along them would not end
  const int64_t pieces = (columns + kColumns - 1) / kColumns, dy_stride = last < 0 ? 1 : dy.strides[last];
  AxisMap::Singles singles[kMaxRank];
  for (int a = 0; a < map.rank; ++a) singles[a] = map.axis[a].singles();
  const AxisMap::Singles inner = last < 0 ? AxisMap::Singles{0, 0, 0} : singles[last];
  const Copier copy(dx, dy.data);
  parallel_for(rows * pieces, std::max<int64_t>(1, 16 * kColumns / columns), threads, [&](int64_t begin, int64_t end, int) {
    RowSum<T> s(map, dy);
    s.seek(begin / pieces);
    for (int64_t u = begin, piece = begin % pieces; u < end; ++u, ++piece) {
      if (piece == pieces) piece = 0, s.next();
      T* to = dx.as<T>();
      for (int a = 0; a < last; ++a) to += s.i[a] * dx.strides[a];
      const int64_t low = piece * kColumns, high = std::min(columns, low + kColumns);
      int64_t first = low, until = low;  // what is copied
      const T* row = empty ? nullptr : s.only_row(singles);
      if (row) first = std::clamp(inner.begin, low, high), until = std::clamp(inner.end, first, high);
      if (first < until) {
        const T* from = row + (first + inner.shift) * dy_stride;
        if (stride == 1 && dy_stride == 1) copy(to + first, from, size_t(until - first) * sizeof(T));
        else for (int64_t c = 0; c < until - first; ++c) to[(first + c) * stride] = from[c * dy_stride];
      }
      s.make(to, stride, low, first, empty);
      s.make(to, stride, until, high, empty);
    }
    copy.fence();
  });
}

}  // namespace

template <> int64_t AxisMap::first(int64_t i) const {
  if (kind == MapKind::repeated) return std::min(m, i * step);
  if (kind == MapKind::spread) return std::clamp<int64_t>(start + i * step, 0, m);
  return 0;
}
template <> AxisMap::Singles AxisMap::singles() const {
  int64_t begin = 0, end = n, shift = start;
  const int64_t hi = m - start - n;
  switch (kind) {
    case MapKind::affine: shift = -start, end = step == 1 ? n : 0; break;
    case MapKind::spread: end = step == 1 ? n : 0; break;
    case MapKind::periodic: {  // index o and o + period take the same
      const int64_t again = m - period, lo = wrap(-start, period);
      begin = base + again - lo, end = base + period - lo, shift = lo - base;
      break;
    }
    case MapKind::repeated: end = step == 1 ? n : 0; break;
    default: {  // the margin is taken twice; under reflect not the outermost element, which is left to the sums with it
      const int64_t more = kind == MapKind::reflect;
      if (start > 0) begin = kind == MapKind::replicate ? 1 : start + more;
      if (hi > 0) end = n - (kind == MapKind::replicate ? 1 : hi + more);
    }
  }
  begin = std::max({begin, int64_t(0), -shift}), end = std::min({end, n, m - shift});
  return {begin, std::max(begin, end), shift};
}
IndexMap IndexMap::same(const Shape& x) {
  IndexMap map;
  map.rank = x.rank;
  for (int a = 0; a < x.rank; ++a) map.axis[a] = AxisMap::same(x[a]);
  return map;
}
Shape IndexMap::y_shape() const {
  Shape s;
  for (int a = 0; a < rank; ++a) s.push_back(axis[a].m);
  return s;
}

void gather(const IndexMap& map, const TensorView& x, const TensorView& y, Bytes16 bits, int threads) {
  if (y.numel() == 0) return;
  bool moved = false;
  for (int a = 0; a < map.rank; ++a) moved = moved || !map.axis[a].identity();
  if (!moved) return copy_elements(x, y, threads);
  with_element(y.dtype, [&]<class T>(T value) {
    std::memcpy(&value, &bits, sizeof value);
    gather_as(map, x, y, value, threads);
  });
}
void sum_back(const IndexMap& map, const TensorView& dy, const TensorView& dx, int threads) {
  visit_dtype(Floating{}, dx.dtype, 0, [&]<class T>() {
    sum_back_as<T>(map, dy, dx, threads);
    return 0;
  });
}

}  // namespace baracuda
