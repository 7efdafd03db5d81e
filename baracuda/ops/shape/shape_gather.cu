// pad, flip, roll, repeat and their like: each element is read and written once; the floor is memory bandwidth. y is written in units of 16 bytes,
// whatever its rows' lengths: a unit that lies in one row and one stretch of its map is one or two loads of 16 bytes, shifted into place
// (a whole unit where x has it aligned) or turned round; any other unit goes element by element.
#include "baracuda/math/half.hpp"
#include "baracuda/ops/shape/shape_cuda.hpp"
#include "baracuda/ops/shape/shape_words.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace shape_device;
using device_map::Vector;

constexpr int kThreads = 256;
template <class T> inline constexpr int kLanes = 16 / int(sizeof(T));

template <class I> struct Axis {
  AxisMapOf<I> map;
  device::Divisor by;  // map.m
  int64_t x_stride, y_stride;
};
template <class I> struct Gather {
  int rank;
  bool narrow;         // elements < 2^31
  Axis<I> axis[kMaxRank];
  const void* x;
  void* y;
  uint64_t fill[2];
  int64_t elements;
};
// 16 bytes from p on, which is aligned to elements; the 32 bytes that hold them from the last multiple of 16 on may be read.
template <class T> __device__ __forceinline__ Vector<T, kLanes<T>> load_shifted(const T* p) {
  const unsigned a = unsigned(uintptr_t(p)) & 15;
  const uint4* q = reinterpret_cast<const uint4*>(uintptr_t(p) - a);
  const uint4 low = q[0], high = q[1];
  uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  if (a & 8)
#pragma unroll
    for (int k = 0; k < 6; ++k) w[k] = w[k + 2];
  if (a & 4)
#pragma unroll
    for (int k = 0; k < 5; ++k) w[k] = w[k + 1];
  if constexpr (sizeof(T) < 4)
#pragma unroll
    for (int k = 0; k < 4; ++k) w[k] = __funnelshift_r(w[k], w[k + 1], (a & 3) * 8);
  struct Words { uint32_t word[4]; };
  return __builtin_bit_cast(Vector<T, kLanes<T>>, Words{{w[0], w[1], w[2], w[3]}});
}
// The unit from p on, of which `begin` elements of a row of `length` lie before.
template <class T> __device__ __forceinline__ Vector<T, kLanes<T>> load_unit_of_row(const T* p, int64_t begin, int64_t length) {
  constexpr int V = kLanes<T>;
  const int64_t before = int64_t(unsigned(uintptr_t(p)) & 15) / int64_t(sizeof(T));
  if (before == 0) return *reinterpret_cast<const Vector<T, V>*>(p);
  if (begin >= before && begin - before + 2 * V <= length) return load_shifted(p);
  Vector<T, V> e;
#pragma unroll
  for (int j = 0; j < V; ++j) e.lane[j] = p[j];
  return e;
}
template <class T, int N> __device__ __forceinline__ Vector<T, N> reversed(const Vector<T, N>& v) {
  Vector<T, N> r;
#pragma unroll
  for (int j = 0; j < N; ++j) r.lane[j] = v.lane[N - 1 - j];
  return r;
}
// Offset in x of the outer axes of a row of y; false: they are filled.
template <class I> __device__ __forceinline__ bool outer_offset(const Gather<I>& g, int64_t row, int64_t& x_at, int64_t& y_at) {
  bool taken = true;
  x_at = y_at = 0;
#pragma unroll 1
  for (int a = g.rank - 2; a >= 0; --a) {
    const Axis<I>& axis = g.axis[a];
    const int64_t q = g.narrow ? int64_t(axis.by.quotient(uint32_t(row))) : row / axis.map.m;
    const I o = I(row - q * axis.map.m), from = axis.map.run(o).from;
    taken = taken && from >= 0;
    x_at += from * axis.x_stride, y_at += o * axis.y_stride;
    row = q;
  }
  return taken;
}
template <class T, class I, bool kUnits> __global__ void __launch_bounds__(kThreads) gather_kernel(const __grid_constant__ Gather<I> g) {
  constexpr int V = kUnits ? kLanes<T> : 1;
  const Axis<I>& inner = g.axis[g.rank - 1];
  const T fill = bits_of<T>(g.fill[0], g.fill[1]);
  const T* const x = static_cast<const T*>(g.x);
  T* const y = static_cast<T*>(g.y);
  const int64_t units = (g.elements + V - 1) / V;
  for (int64_t u = int64_t(blockIdx.x) * kThreads + threadIdx.x; u < units; u += int64_t(gridDim.x) * kThreads) {
    const int64_t first = u * V;
    int64_t row = g.narrow ? int64_t(inner.by.quotient(uint32_t(first))) : first / inner.map.m, x_at, y_at;
    I o = I(first - row * inner.map.m);
    bool taken = outer_offset(g, row, x_at, y_at);
    if constexpr (kUnits) {
      const auto run = inner.map.run(o);
      const int64_t step = run.step * inner.x_stride;
      if (o + V <= inner.map.m && (!taken || run.length >= V) && first + V <= g.elements) {
        Vector<T, V> e;
        const bool backwards = step == -1;
        if (!taken || run.from < 0) {
#pragma unroll
          for (int j = 0; j < V; ++j) e.lane[j] = fill;
        } else {
          const T* p = x + x_at + run.from * inner.x_stride - (backwards ? V - 1 : 0);
          const int64_t low = run.step < 0 ? run.from - (V - 1) : run.from;
          if (step == 1 || backwards) {
            e = load_unit_of_row(p, inner.x_stride > 0 ? low : inner.map.n - V - low, inner.map.n);
            if (backwards) e = reversed(e);
          } else {
#pragma unroll
            for (int j = 0; j < V; ++j) e.lane[j] = p[j * step];
          }
        }
        *reinterpret_cast<Vector<T, V>*>(y + first) = e;
        continue;
      }
    }
#pragma unroll 1
    for (int j = 0; j < V && first + j < g.elements; ++j) {
      if (o == inner.map.m) o = 0, taken = outer_offset(g, ++row, x_at, y_at);
      const I from = inner.map.run(o).from;
      y[kUnits ? first + j : y_at + o * inner.y_stride] = taken && from >= 0 ? x[x_at + from * inner.x_stride] : fill;
      ++o;
    }
  }
}
template <class I> AxisMapOf<I> narrowed_map(const AxisMap& m) { return {m.kind, I(m.n), I(m.m), I(m.start), I(m.step), I(m.base), I(m.period)}; }
// Whether all that is made of its numbers has 32 bits.
bool fits_narrow(const AxisMap& m) {
  constexpr int64_t kNarrow = int64_t(1) << 29;
  bool fits = true;
  for (const int64_t v : {m.n, m.m, m.start, m.step, m.base, m.period}) fits = fits && v < kNarrow && v > -kNarrow;
  return fits;
}
template <class I> void set_axes(Gather<I>& to, const GatherAxes& g) {
  to.rank = g.rank, to.x = g.x, to.y = g.y, to.fill[0] = g.fill[0], to.fill[1] = g.fill[1], to.elements = 1;
  for (int a = 0; a < g.rank; ++a) to.elements *= g.axis[a].map.m;
  to.narrow = to.elements < int64_t(1) << 31;
  for (int a = 0; a < g.rank; ++a) {
    const AxisMap& m = g.axis[a].map;
    to.axis[a] = {narrowed_map<I>(m), device::Divisor::of(uint32_t(to.narrow && m.m > 0 ? m.m : 1)), g.axis[a].x_stride, g.axis[a].y_stride};
  }
}
template <int kLog> int gather(const GatherAxes& g, void* stream) {
  using T = typename BitsOf<kLog>::Type;
  bool narrow = true, dense = uintptr_t(g.y) % 16 == 0;
  int64_t elements = 1;
  for (int a = g.rank - 1; a >= 0; --a) {
    const AxisMap& m = g.axis[a].map;
    narrow = narrow && fits_narrow(m);
    dense = dense && (m.m == 1 || g.axis[a].y_stride == elements);
    elements *= m.m;
  }
  if (elements == 0) return 0;
  if (narrow) {
    Gather<int32_t> n{};
    set_axes(n, g);
    if (dense) return device::launch(gather_kernel<T, int32_t, true>, device::blocks_for(device::ceil_div(elements, kLanes<T>), kThreads), kThreads, 0, stream, n);
    return device::launch(gather_kernel<T, int32_t, false>, device::blocks_for(elements, kThreads), kThreads, 0, stream, n);
  }
  Gather<int64_t> n{};
  set_axes(n, g);
  return device::launch(gather_kernel<T, int64_t, false>, device::blocks_for(elements, kThreads), kThreads, 0, stream, n);
}

// --- the adjoint: where every axis is taken by one index of y alone, a box of dx, its units of 16 bytes are copied; around it an element a thread is summed
template <class I> struct SumBack {
  int rank;
  bool narrow;  // elements < 2^31
  struct {
    AxisMapOf<I> map;
    I count, skip, skipped;  // indices 0, 1, ... below skip, and behind those that are skipped
    device::Divisor by;      // count
    int64_t x_stride, y_stride;
  } axis[kMaxRank];
  const void* dy;
  void* dx;
  int64_t elements;
};
struct Box {
  int rank;
  bool narrow;  // units < 2^31
  struct {
    int64_t count;  // on the last axis in units
    device::Divisor by;
    int64_t x_stride, y_stride;
  } axis[kMaxRank];
  const void* dy;
  void* dx;
  int64_t units, before, length;  // elements of dy's row: before those of the box, all
};
template <class T> __global__ void __launch_bounds__(kThreads) box_kernel(const __grid_constant__ Box b) {
  constexpr int V = kLanes<T>;
  for (int64_t u = int64_t(blockIdx.x) * kThreads + threadIdx.x; u < b.units; u += int64_t(gridDim.x) * kThreads) {
    int64_t rest = u, x_at = 0, y_at = 0, place = 0;
#pragma unroll 1
    for (int a = b.rank - 1; a >= 0; --a) {
      const int64_t q = b.narrow ? int64_t(b.axis[a].by.quotient(uint32_t(rest))) : rest / b.axis[a].count, r = rest - q * b.axis[a].count;
      if (a == b.rank - 1) place = r;
      x_at += r * b.axis[a].x_stride, y_at += r * b.axis[a].y_stride;
      rest = q;
    }
    const T* const p = static_cast<const T*>(b.dy) + y_at;
    *reinterpret_cast<Vector<T, V>*>(static_cast<T*>(b.dx) + x_at) = load_unit_of_row(p, b.before + place * V, b.length);
  }
}
template <class I> __device__ __forceinline__ I index_along(const SumBack<I>& s, int a, int64_t& rest) {
  const auto& axis = s.axis[a];
  const int64_t q = s.narrow ? int64_t(axis.by.quotient(uint32_t(rest))) : rest / axis.count;
  const I i = I(rest - q * axis.count);
  rest = q;
  return i < axis.skip ? i : i + axis.skipped;
}
template <class T, class I> __global__ void __launch_bounds__(kThreads) sum_back_kernel(const __grid_constant__ SumBack<I> s) {
  using Progression = typename AxisMapOf<I>::Progression;
  const T* const dy = static_cast<const T*>(s.dy);
  for (int64_t u = int64_t(blockIdx.x) * kThreads + threadIdx.x; u < s.elements; u += int64_t(gridDim.x) * kThreads) {
    int64_t terms = 1, x_at = 0, first_at = 0, rest = u;
#pragma unroll 1
    for (int a = s.rank - 1; a >= 0; --a) {
      const I i = index_along(s, a, rest);
      Progression p[3];
      s.axis[a].map.takers(i, p);
      terms *= p[0].count + p[1].count + p[2].count, x_at += i * s.axis[a].x_stride;
      first_at += (p[0].count ? p[0].first : p[1].count ? p[1].first : p[2].first) * s.axis[a].y_stride;
    }
    T* const to = static_cast<T*>(s.dx) + x_at;
    if (terms <= 1) {  // its bits
      *to = terms ? dy[first_at] : T{};
      continue;
    }
    double sum = -0.0;
#pragma unroll 1
    for (int64_t t = 0; t < terms; ++t) {  // in dy's row-major order
      int64_t y_at = 0, number = t;
      rest = u;
#pragma unroll 1
      for (int a = s.rank - 1; a >= 0; --a) {
        const I i = index_along(s, a, rest);
        Progression p[3];
        s.axis[a].map.takers(i, p);
        const int64_t count = p[0].count + p[1].count + p[2].count, next = number / count;
        int64_t k = number - next * count;
        const bool second = k >= p[0].count, third = k >= p[0].count + p[1].count;
        k -= third ? p[0].count + p[1].count : second ? p[0].count : 0;
        const int64_t first = third ? p[2].first : second ? p[1].first : p[0].first, step = third ? p[2].step : second ? p[1].step : p[0].step;
        y_at += (first + k * step) * s.axis[a].y_stride;
        number = next;
      }
      sum = sum + to_double(dy[y_at]);
    }
    *to = from_double<T>(sum);
  }
}
// The box in units of dx, by the singles of the axes; false where it is less than half of dx.
template <class T> bool box_of(const SumBackAxes& s, int64_t elements, AxisMap::Singles (&in)[kMaxRank], Box& b) {
  constexpr int V = kLanes<T>;
  const int last = s.rank - 1;
  bool whole = s.axis[last].x_stride == 1 && s.axis[last].y_stride == 1 && uintptr_t(s.dx) % 16 == 0;
  int64_t of_box = 1, x_at = 0, y_at = 0;
  for (int a = 0; a < s.rank; ++a) {
    const ShapeAxis& axis = s.axis[a];
    in[a] = axis.map.singles();
    if (a == last) in[a].begin = device::ceil_div(in[a].begin, V) * V, in[a].end = in[a].end / V * V;
    else whole = whole && (axis.map.n == 1 || axis.x_stride % V == 0);
    const int64_t count = in[a].end - in[a].begin;
    if (!whole || count <= 0) return false;
    b.axis[a] = {a == last ? count / V : count, {}, a == last ? V : axis.x_stride, a == last ? V : axis.y_stride};
    of_box *= count, x_at += in[a].begin * axis.x_stride, y_at += (in[a].begin + in[a].shift) * axis.y_stride;
  }
  b.rank = s.rank, b.units = of_box / V, b.narrow = b.units < int64_t(1) << 31;
  for (int a = 0; a < s.rank; ++a) b.axis[a].by = device::Divisor::of(uint32_t(b.narrow ? b.axis[a].count : 1));
  b.dy = static_cast<const T*>(s.dy) + y_at, b.dx = static_cast<T*>(s.dx) + x_at;
  b.before = in[last].begin + in[last].shift, b.length = s.axis[last].map.m;
  return of_box >= elements / 2;
}
template <class T, class I> int sum_back_as(const SumBackAxes& s, int64_t elements, void* stream) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  AxisMap::Singles in[kMaxRank] = {};
  Box b{};
  const bool box = box_of<Bits>(s, elements, in, b);
  if (box)
    if (const int e = device::launch(box_kernel<Bits>, device::blocks_for(b.units, kThreads), kThreads, 0, stream, b)) return e;
  // Around the box: for each axis what lies beside it there, in the box on the axes before and anywhere on those behind.
  for (int side = 0; side < (box ? s.rank : 1); ++side) {
    SumBack<I> q{};
    q.rank = s.rank, q.dy = s.dy, q.dx = s.dx, q.elements = 1;
    for (int a = 0; a < s.rank; ++a) {
      const ShapeAxis& axis = s.axis[a];
      const int64_t n = axis.map.n, inside = in[a].end - in[a].begin;
      q.axis[a] = {narrowed_map<I>(axis.map), I(n), I(n), 0, {}, axis.x_stride, axis.y_stride};
      if (box && a < side) q.axis[a].count = I(inside), q.axis[a].skip = 0, q.axis[a].skipped = I(in[a].begin);
      if (box && a == side) q.axis[a].count = I(n - inside), q.axis[a].skip = I(in[a].begin), q.axis[a].skipped = I(inside);
      q.elements *= q.axis[a].count;
    }
    if (q.elements == 0) continue;
    q.narrow = q.elements < int64_t(1) << 31;
    for (int a = 0; a < s.rank; ++a) q.axis[a].by = device::Divisor::of(uint32_t(q.narrow ? q.axis[a].count : 1));
    if (const int e = device::launch(sum_back_kernel<T, I>, device::blocks_for(q.elements, kThreads), kThreads, 0, stream, q)) return e;
  }
  return 0;
}
template <class T> int sum_back(const SumBackAxes& s, void* stream) {
  int64_t elements = 1;
  bool narrow = true;
  for (int a = 0; a < s.rank; ++a) elements *= s.axis[a].map.n, narrow = narrow && fits_narrow(s.axis[a].map);
  if (elements == 0) return 0;
  return narrow ? sum_back_as<T, int32_t>(s, elements, stream) : sum_back_as<T, int64_t>(s, elements, stream);
}

// --- rolls of the flat order with strides
template <class T> __global__ void __launch_bounds__(kThreads) roll_flat_kernel(const __grid_constant__ RollFlat r) {
  for (int64_t o = int64_t(blockIdx.x) * kThreads + threadIdx.x; o < r.y.units; o += int64_t(gridDim.x) * kThreads) {
    int64_t from[1], to[1];
    r.x.offsets(r.map.run(o).from, from), r.y.offsets(o, to);
    static_cast<T*>(r.to)[to[0]] = static_cast<const T*>(r.from)[from[0]];
  }
}
template <int kLog> int roll_flat(const RollFlat& r, void* stream) {
  return device::launch(roll_flat_kernel<typename BitsOf<kLog>::Type>, device::blocks_for(r.y.units, kThreads), kThreads, 0, stream, r);
}

using SumBackLaunch = int (*)(const SumBackAxes&, void*);
}  // namespace
}  // namespace BARACUDA_ISA

int (*const shape_gather_cuda[5])(const GatherAxes&, void*) = {gather<0>, gather<1>, gather<2>, gather<3>, gather<4>};
int (*const shape_roll_flat_cuda[5])(const RollFlat&, void*) = {roll_flat<0>, roll_flat<1>, roll_flat<2>, roll_flat<3>, roll_flat<4>};
extern const ByDType<SumBackLaunch> shape_sum_back_cuda = device::floating<SumBackLaunch>(sum_back<f16>, sum_back<bf16>, sum_back<float>, sum_back<double>);

}  // namespace baracuda
