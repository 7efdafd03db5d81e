// dx = f(x, numbers of the row): reads x (not for spread), writes dx; the floor is memory bandwidth, but for powers. The numbers are made of dy and y, and
// where they need a look at x of what a loop of reduce found, or of a count by the kernel that maps. Dense rows: a team of threads has a row and makes its
// numbers; columns: a thread has a line of them and keeps their numbers on the way down; else a unit of 16 bytes, or an element, a thread.
#include "baracuda/device/async_lines.cuh"
#include "baracuda/device/half.cuh"
#include "baracuda/device/launch.cuh"
#include "baracuda/device/lines.cuh"
#include "baracuda/math/element.hpp"
#include "baracuda/ops/reduce/reduce_backward_cuda.hpp"
#include "baracuda/ops/reduce/reduce_map_math.hpp"
#include "baracuda/ops/reduce/reduce_math.hpp"
#include "baracuda/ops/reduce/reduce_others_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace reduce_map;

constexpr int kThreads = 256;
template <class E, int N> struct alignas(sizeof(E) * N) Vector { E lane[N]; };
// 16 bytes at once: as elements they would be moved one by one.
template <class T, int N> __device__ __forceinline__ Vector<T, N> line_at(const T* x) { return __builtin_bit_cast(Vector<T, N>, *reinterpret_cast<const uint4*>(x)); }
template <class T, int N> __device__ __forceinline__ void put_line(T* x, const Vector<T, N>& line) { *reinterpret_cast<uint4*>(x) = __builtin_bit_cast(uint4, line); }

__device__ double read(DType t, const void* p, int64_t at) {
  switch (t) {
    case DType::f16: return to_double(static_cast<const f16*>(p)[at]);
    case DType::bf16: return to_double(static_cast<const bf16*>(p)[at]);
    case DType::f32: return double(static_cast<const float*>(p)[at]);
    default: return static_cast<const double*>(p)[at];
  }
}
template <class A> __device__ reduce_math::RowNumbers<A> numbers(const ReduceRowsCuda& r, double dy, double y, double found) {
  return reduce_math::numbers_of<A>({r.kind, r.one_of_ties, double(r.n), r.correction, r.power}, dy, y, found);
}
template <class A> __device__ void put(const ReduceRowsCuda& r, int64_t o, double dy, double y, double found) {
  const reduce_math::RowNumbers<A> v = numbers<A>(r, dy, y, found);
  static_cast<A*>(r.g)[o] = v.g;
  if (r.p) static_cast<A*>(r.p)[o] = v.p;
  if (r.q) static_cast<A*>(r.q)[o] = v.q;
}
// Of a product: mantissa, exponent and counts with dy among the factors.
__device__ reduce_math::RowNumbers<double> product_numbers(const ReduceRowsCuda& r, int64_t o, double dy) {
  using namespace reduce_others;
  const bool is_plain = plain(dy);
  double m = is_plain ? dy : sign_of(dy);
  const int64_t e = split(m);
  const Total all = joined(reinterpret_cast<const Total*>(r.found)[o], {m, e * 64 + (is_plain ? 0 : unit_of(dy))});
  return {all.m, 0, double(all.code)};
}
__device__ double found_in(const ReduceRowsCuda& r, int64_t o, int64_t at_mean) {
  return r.found ? r.found[o] : r.mean ? read(r.dtype == DType::f64 ? DType::f64 : DType::f32, r.mean, at_mean) : 1;
}
__global__ void __launch_bounds__(kThreads) numbers_kernel(const __grid_constant__ ReduceRowsCuda r) {
  for (int64_t o = int64_t(blockIdx.x) * kThreads + threadIdx.x; o < r.rows; o += int64_t(gridDim.x) * kThreads) {
    int64_t at[5];
    r.kept.offsets(o, at);
    const double dy = read(r.y_dtype, r.dy, at[0]);
    if (r.kind == ReduceKind::prod) {
      const reduce_math::RowNumbers<double> v = product_numbers(r, o, dy);
      static_cast<double*>(r.p)[o] = v.p, static_cast<double*>(r.g)[o] = v.g;
      continue;
    }
    const double y = r.y ? read(r.y_dtype, r.y, at[1]) : 0;
    const double found = found_in(r, o, at[2]);
    r.dtype == DType::f64 ? put<double>(r, o, dy, y, found) : put<float>(r, o, dy, y, found);
  }
}
__global__ void __launch_bounds__(kThreads) shifts_kernel(const __grid_constant__ ReduceRowsCuda r) {
  for (int64_t o = int64_t(blockIdx.x) * kThreads + threadIdx.x; o < r.rows; o += int64_t(gridDim.x) * kThreads) {
    int64_t at[5];
    r.kept.offsets(o, at);
    r.shift[o] = r.kind == ReduceKind::nanmean ? double(kNaN) : read(r.y_dtype, r.y, at[1]);
  }
}
__global__ void __launch_bounds__(kThreads) scatter_kernel(const __grid_constant__ ReduceRowsCuda r) {
  for (int64_t o = int64_t(blockIdx.x) * kThreads + threadIdx.x; o < r.rows; o += int64_t(gridDim.x) * kThreads) {
    int64_t at[5], element[1];
    r.kept.offsets(o, at);
    const int64_t i = int64_t(r.found[o]);
    r.row.offsets(r.last ? r.n - 1 - i : i, element);
    const double dy = read(r.y_dtype, r.dy, at[0]);
    const int64_t to = at[3] + element[0];
    switch (r.dtype) {
      case DType::f16: static_cast<f16*>(r.dx)[to] = from_double<f16>(dy); break;
      case DType::bf16: static_cast<bf16*>(r.dx)[to] = from_double<bf16>(dy); break;
      case DType::f32: static_cast<float*>(r.dx)[to] = float(dy); break;
      default: static_cast<double*>(r.dx)[to] = dy;
    }
  }
}
struct Others {
  template <class V> __device__ static V of(V x, V p, V, V g) { return V::of(reduce_others::without({p.v, int64_t(g.v)}, x.v)); }
};
template <class T, class F> struct Formula {
  using A = std::conditional_t<std::is_same_v<F, Others>, double, Acc<T>>;
  using V = Pack<A, 1>;
  static constexpr bool kX = !std::is_same_v<F, Spread>, kP = kX && !std::is_same_v<F, Sign> && !std::is_same_v<F, Numbers>;
  static constexpr bool kQ = std::is_same_v<F, Distance> || std::is_same_v<F, Power>;
  static __device__ T of(T e, A p, A q, A g) {
    V v = 0;
    if constexpr (kX) v = convert<A>(value(e));
    return element<T>(convert<Acc<T>>(F::of(v, V::of(p), V::of(q), V::of(g))));
  }
};
template <class T, class F> __global__ void __launch_bounds__(kThreads) map_kernel(const __grid_constant__ ReduceMapCuda m) {
  using M = Formula<T, F>;
  using A = typename M::A;
  constexpr int N = 16 / int(sizeof(T));
  constexpr bool kX = M::kX;
  const A *const ps = static_cast<const A*>(m.p), *const qs = static_cast<const A*>(m.q), *const gs = static_cast<const A*>(m.g);
  const int64_t all = m.walk.units + m.walk.rest;
  for (int64_t u = int64_t(blockIdx.x) * kThreads + threadIdx.x; u < all; u += int64_t(gridDim.x) * kThreads) {
    int64_t at[3];
    m.walk.offsets(u, at);
    const T* const x = static_cast<const T*>(m.x) + at[1];
    T* const dx = static_cast<T*>(m.dx) + at[0];
    const auto one = [&](T e, int64_t c) { return M::of(e, M::kP ? ps[c] : A(0), M::kQ ? qs[c] : A(0), gs[c]); };
    if (m.walk.lanes == N && u < m.walk.units) {
      Vector<T, N> in{}, out;
      if constexpr (kX) {
        if (m.walk.spread[1]) {
#pragma unroll
          for (int k = 0; k < N; ++k) in.lane[k] = *x;
        } else in = *reinterpret_cast<const Vector<T, N>*>(x);
      }
      const int step = m.walk.spread[2] ? 0 : 1;
#pragma unroll
      for (int k = 0; k < N; ++k) out.lane[k] = one(in.lane[k], at[2] + k * step);
      *reinterpret_cast<Vector<T, N>*>(dx) = out;
    } else *dx = one(kX ? *x : T{}, at[2]);
  }
}
constexpr int kEach = 4, kHeld = 8;
// A team of 2^log threads a row, which it makes the numbers of. kHolds: rows of which a thread has at most kHeld lines, which it counts before it maps them.
template <class T, class F, bool kHolds> __global__ void __launch_bounds__(kThreads, kHolds ? 2 : 3) rows_kernel(const __grid_constant__ ReduceLinesCuda m) {
  using M = Formula<T, F>;
  using A = typename M::A;
  constexpr int N = 16 / int(sizeof(T)), C = kHolds ? kHeld : kEach;
  using Lane = Vector<T, N>;
  __shared__ int shared[kHolds ? kThreads / 32 : 1];
  const ReduceRowsCuda& r = m.rows;
  const int team = 1 << m.log, lane = int(threadIdx.x) & (team - 1), slots = kThreads >> m.log;
  for (int64_t first = int64_t(blockIdx.x) * slots; first < r.rows; first += int64_t(gridDim.x) * slots) {
    const int64_t wanted = first + (int(threadIdx.x) >> m.log), number = wanted < r.rows ? wanted : first;
    const bool live = wanted < r.rows;
    int64_t at[5];
    r.kept.offsets(number, at);
    T* const dx = static_cast<T*>(r.dx) + at[3];
    const T* const x = static_cast<const T*>(M::kX ? m.x : r.dx) + at[4];
    // Lines lie where dx has them; x is read in lines where it lies alike.
    const int off = m.whole ? 0 : int(reinterpret_cast<uintptr_t>(dx) % 16 / sizeof(T));
    const bool alike = m.whole || off == int(reinterpret_cast<uintptr_t>(x) % 16 / sizeof(T));
    const auto whole = [&](int64_t i) { return m.whole || (i >= 0 && i + N <= r.n); };
    // f(k) for the elements of the line from i on that are there.
    const auto each = [&](int64_t i, auto f) {
      const int begin = i < 0 ? int(-i) : 0, end = i + N <= r.n ? N : int(r.n - i);
#pragma unroll
      for (int k = 0; k < N; ++k)
        if (k >= begin && k < end) f(k);
    };
    uint4 words[C];
    const auto load = [&](int64_t u) {
      if constexpr (M::kX) {
#pragma unroll
        for (int e = 0; e < C; ++e) {
          const int64_t i = (u + (e << m.log)) * N - off;
          if (u + (e << m.log) >= m.units) continue;
          if (alike && whole(i)) words[e] = *reinterpret_cast<const uint4*>(x + i);
          else {
            Lane line{};
            each(i, [&](int k) { line.lane[k] = x[i + k]; });
            words[e] = __builtin_bit_cast(uint4, line);
          }
        }
      }
    };
    int64_t u = lane + (int64_t(blockIdx.y) * C << m.log);
    const int64_t step = int64_t(gridDim.y) * C << m.log;
    load(u);
    const double dy = read(r.y_dtype, r.dy, at[0]), y = r.y ? read(r.y_dtype, r.y, at[1]) : 0;
    reduce_math::RowNumbers<A> known{};
    if constexpr (std::is_same_v<F, Others>) known = product_numbers(r, number, dy);
    else {
      double found = 1;
      if constexpr (kHolds) {
        using V = Pack<A, 1>;
        const V with = V::of(r.kind == ReduceKind::nanmean ? A(kNaN) : A(y));
        int count = 0;
#pragma unroll
        for (int e = 0; e < C; ++e) {
          if (u + (e << m.log) >= m.units) break;
          const Lane line = __builtin_bit_cast(Lane, words[e]);
          each((u + (e << m.log)) * N - off, [&](int k) {
            const V v = convert<A>(value(line.lane[k]));
            count += same(m.magnitude ? abs(v) : v, with);
          });
        }
        for (int w = (team < 32 ? team : 32) / 2; w; w /= 2) count += __shfl_xor_sync(0xffffffffu, count, w);
        if (team > 32) {  // one row a block
          __syncthreads();
          if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = count;
          __syncthreads();
          count = 0;
          for (int w = 0; w < kThreads / 32; ++w) count += shared[w];
        }
        found = count;
      } else found = found_in(r, number, at[2]);
      known = numbers<A>(r, dy, y, found);
    }
    if (!live) continue;
    for (; u < m.units; u += step, load(u)) {
#pragma unroll
      for (int e = 0; e < C; ++e) {
        const int64_t i = (u + (e << m.log)) * N - off;
        if (u + (e << m.log) >= m.units) break;
        Lane line{};
        if constexpr (M::kX) line = __builtin_bit_cast(Lane, words[e]);
#pragma unroll
        for (int k = 0; k < N; ++k) line.lane[k] = M::of(line.lane[k], known.p, known.q, known.g);
        if (whole(i)) put_line(dx + i, line);
        else each(i, [&](int k) { dx[i + k] = line.lane[k]; });
      }
    }
  }
}
// Rows of at most kReduceShort elements in whole lines: a warp has 32 of them. It copies them to shared memory, where a thread counts in one and makes its
// numbers, and maps them line by line as memory has them.
constexpr int kShortThreads = 128;
template <class T, class F> __global__ void __launch_bounds__(kShortThreads, 4) short_kernel(const __grid_constant__ ReduceLinesCuda m) {
  using M = Formula<T, F>;
  using A = typename M::A;
  using V = Pack<A, 1>;
  constexpr int N = 16 / int(sizeof(T));
  constexpr bool kCounts = std::is_same_v<F, Equal> || std::is_same_v<F, EqualMagnitude> || std::is_same_v<F, Numbers> || std::is_same_v<F, Softmax>;
  using Lane = Vector<T, N>;
  extern __shared__ uint4 dynamic[];
  const ReduceRowsCuda& r = m.rows;
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, lines = m.row_lines.divisor, pitch = lines | 1;
  uint4* const held = dynamic + (M::kX ? warp * 32 * pitch : 0);
  for (int64_t first = int64_t(blockIdx.x) * kShortThreads + warp * 32; first < r.rows; first += int64_t(gridDim.x) * kShortThreads) {
    const int count = r.rows - first < 32 ? int(r.rows - first) : 32;
    const int64_t o = first + (lane < count ? lane : 0);
    int64_t at[5];
    r.kept.offsets(o, at);
    __syncwarp();
    if constexpr (M::kX) {
      for (int from = 0; from < count * lines; from += 32) {
        const int t = from + lane, row = int(m.row_lines.quotient(t)), l = t - row * lines;
        const int64_t x = __shfl_sync(0xffffffffu, at[4], row & 31);
        if (t < count * lines) device_lines::copy_line(held + row * pitch + l, static_cast<const T*>(m.x) + x + l * N);
      }
      device_lines::commit_lines();
    }
    const double dy = read(r.y_dtype, r.dy, at[0]), y = r.y ? read(r.y_dtype, r.y, at[1]) : 0;
    double found = 1;
    if constexpr (!std::is_same_v<F, Others>) found = found_in(r, o, at[2]);
    if constexpr (M::kX) {
      device_lines::wait_for_lines<0>();
      __syncwarp();
    }
    reduce_math::RowNumbers<A> known;
    if constexpr (std::is_same_v<F, Others>) known = product_numbers(r, o, dy);
    else {
      if constexpr (kCounts)
        if (m.counts && (!std::is_same_v<F, Softmax> || y == kInf)) {
          const V with = V::of(r.kind == ReduceKind::nanmean ? A(kNaN) : A(y));
          int equal = 0;
          for (int l = 0; l < lines; ++l) {
            const Lane line = __builtin_bit_cast(Lane, held[lane * pitch + l]);
#pragma unroll
            for (int k = 0; k < N; ++k) {
              const V v = convert<A>(value(line.lane[k]));
              equal += same(m.magnitude ? abs(v) : v, with);
            }
          }
          found = equal;
        }
      known = numbers<A>(r, dy, y, found);
    }
    for (int from = 0; from < count * lines; from += 32) {
      const int t = from + lane, row = int(m.row_lines.quotient(t)), l = t - row * lines;
      const int64_t to = __shfl_sync(0xffffffffu, at[3], row & 31);
      const A g = __shfl_sync(0xffffffffu, known.g, row & 31);
      A p = 0, q = 0;
      if constexpr (M::kP) p = __shfl_sync(0xffffffffu, known.p, row & 31);
      if constexpr (M::kQ) q = __shfl_sync(0xffffffffu, known.q, row & 31);
      if (t >= count * lines) continue;
      Lane line{};
      if constexpr (M::kX) line = __builtin_bit_cast(Lane, held[row * pitch + l]);
#pragma unroll
      for (int k = 0; k < N; ++k) line.lane[k] = M::of(line.lane[k], p, q, g);
      put_line(static_cast<T*>(r.dx) + to + l * N, line);
    }
  }
}
constexpr int kWide = 32, kDown = 8, kSlab = 128;
template <class T, class F> __global__ void __launch_bounds__(kWide * kDown, 2) columns_kernel(const __grid_constant__ ReduceLinesCuda m) {
  using M = Formula<T, F>;
  using A = typename M::A;
  constexpr int N = 16 / int(sizeof(T));
  const ReduceRowsCuda& r = m.rows;
  const int64_t inner = r.kept.extent[r.kept.rank - 1], tiles = (inner + kWide * N - 1) / (kWide * N), slabs = (r.n + kSlab - 1) / kSlab, units = r.rows / inner * slabs * tiles;
  for (int64_t u = blockIdx.x; u < units; u += gridDim.x) {
    const int64_t j = (u % tiles * kWide + threadIdx.x) * N, begin = u / tiles % slabs * kSlab, o = u / tiles / slabs * inner + j, left = r.n - begin;
    if (j >= inner) continue;
    int64_t at[5];
    r.kept.offsets(o, at);
    T* const dx = static_cast<T*>(r.dx) + at[3] + begin * m.step[0];
    const T* const x = static_cast<const T*>(M::kX ? m.x : r.dx) + at[4] + begin * m.step[1];
    using Numbers = Vector<A, N>;
    Numbers p{}, q{};
    const Numbers g = *reinterpret_cast<const Numbers*>(static_cast<const A*>(r.g) + o);
    if constexpr (M::kP) p = *reinterpret_cast<const Numbers*>(static_cast<const A*>(r.p) + o);
    if constexpr (M::kQ) q = *reinterpret_cast<const Numbers*>(static_cast<const A*>(r.q) + o);
    const int end = left < kSlab ? int(left) : kSlab;
    for (int i = threadIdx.y; i < end; i += kDown * kEach) {
      Vector<T, N> line[kEach];
      if constexpr (M::kX)
#pragma unroll
        for (int e = 0; e < kEach; ++e)
          if (i + e * kDown < end) line[e] = line_at<T, N>(x + (i + e * kDown) * m.step[1]);
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        if (i + e * kDown >= end) break;
#pragma unroll
        for (int k = 0; k < N; ++k) line[e].lane[k] = M::of(M::kX ? line[e].lane[k] : T{}, p.lane[k], q.lane[k], g.lane[k]);
        put_line(dx + (i + e * kDown) * m.step[0], line[e]);
      }
    }
  }
}
int rows(void (*kernel)(ReduceRowsCuda), const ReduceRowsCuda& r, void* stream) {
  return r.rows ? device::launch(kernel, device::blocks_for(r.rows, kThreads), dim3(kThreads), 0, stream, r) : 0;
}
int shifts(const ReduceRowsCuda& r, void* stream) { return rows(shifts_kernel, r, stream); }
int all_numbers(const ReduceRowsCuda& r, void* stream) { return rows(numbers_kernel, r, stream); }
int scatter(const ReduceRowsCuda& r, void* stream) { return rows(scatter_kernel, r, stream); }
template <class T, class F> int map(const ReduceMapCuda& m, void* stream) {
  return device::launch(map_kernel<T, F>, device::blocks_for(m.walk.threads(), kThreads), dim3(kThreads), 0, stream, m);
}
template <class T, class F> int map_rows(const ReduceLinesCuda& given, void* stream) {
  ReduceLinesCuda m = given;
  if (m.whole && m.rows.n <= kReduceShort) {
    m.row_lines = device::Divisor::of(uint32_t(m.units));
    const size_t shared = Formula<T, F>::kX ? size_t(kShortThreads) * (m.units | 1) * 16 : 0;
    return device::launch(short_kernel<T, F>, device::blocks_for(m.rows.rows, kShortThreads), dim3(kShortThreads), shared, stream, m);
  }
  const int each = m.counts ? kHeld : kEach;
  m.log = 0;
  while (m.log < 8 && (int64_t(each) << m.log) < m.units) ++m.log;
  if (m.counts && m.log > 5) m.log = 8;
  const int64_t parts = m.counts ? 1 : device::ceil_div(m.units, int64_t(kEach) * 4 << m.log);
  const dim3 grid(device::blocks_for(m.rows.rows, kThreads >> m.log), unsigned(parts > 65535 ? 65535 : parts));
  constexpr bool may_count = std::is_same_v<F, Equal> || std::is_same_v<F, EqualMagnitude> || std::is_same_v<F, Numbers>;
  return device::launch(may_count && m.counts ? rows_kernel<T, F, may_count> : rows_kernel<T, F, false>, grid, dim3(kThreads), 0, stream, m);
}
template <class T, class F> int map_columns(const ReduceLinesCuda& m, void* stream) {
  const int64_t inner = m.rows.kept.extent[m.rows.kept.rank - 1], tiles = device::ceil_div(inner, kWide * 16 / int(sizeof(T)));
  return device::launch(columns_kernel<T, F>, device::blocks_for(m.rows.rows / inner * tiles * device::ceil_div(m.rows.n, kSlab), 1), dim3(kWide, kDown), 0, stream, m);
}
using Map = int (*)(const ReduceMapCuda&, void*);
using MapLines = int (*)(const ReduceLinesCuda&, void*);
template <class F> constexpr ByDType<MapLines> in_rows() { return device::floating<MapLines>(map_rows<f16, F>, map_rows<bf16, F>, map_rows<float, F>, map_rows<double, F>); }
template <class F> constexpr ByDType<MapLines> in_columns() {
  return device::floating<MapLines>(map_columns<f16, F>, map_columns<bf16, F>, map_columns<float, F>, map_columns<double, F>);
}
template <class F> constexpr ByDType<Map> maps() { return device::floating<Map>(map<f16, F>, map<bf16, F>, map<float, F>, map<double, F>); }
constexpr ReduceBackwardCudaKernels kKernels = {
    shifts, all_numbers, scatter,
    {maps<Spread>(), maps<Numbers>(), maps<Distance>(), maps<Ratio>(), maps<Sign>(), maps<Power>(), maps<Equal>(), maps<EqualMagnitude>(), maps<Softmax>()},
    maps<Others>(),
    {in_rows<Spread>(), in_rows<Numbers>(), in_rows<Distance>(), in_rows<Ratio>(), in_rows<Sign>(), in_rows<Power>(), in_rows<Equal>(), in_rows<EqualMagnitude>(), in_rows<Softmax>()},
    {in_columns<Spread>(), in_columns<Numbers>(), in_columns<Distance>(), in_columns<Ratio>(), in_columns<Sign>(), in_columns<Power>(), in_columns<Equal>(),
     in_columns<EqualMagnitude>(), in_columns<Softmax>()},
    in_rows<Others>(), in_columns<Others>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const ReduceBackwardCudaKernels reduce_backward_cuda_kernels = kKernels;

}  // namespace baracuda
