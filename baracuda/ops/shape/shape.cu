// triangle, pieces of a whole, and blocks whose place is data: elements are read and written once; the floor is memory bandwidth.
#include "baracuda/device/teams.cuh"
#include "baracuda/ops/shape/shape_cuda.hpp"
#include "baracuda/ops/shape/shape_words.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace shape_device;
using device_map::Vector;
using device_teams::Teams;

constexpr int kThreads = device_teams::kThreads, kEach = 2;

struct TriangleRows { TriangleCuda t; Teams teams; };
template <class T, int V> __global__ void __launch_bounds__(kThreads) triangle_kernel(const __grid_constant__ TriangleRows q) {
  const TriangleCuda& t = q.t;
  struct Row { const T* x; T* y; int64_t begin, end; };  // the columns that are kept
  device_teams::for_rows<kEach>(q.teams, [&](int64_t row) {
    int64_t at[2];
    t.rows.offsets(row, at);
    // The diagonal may be as far away as numbers go.
    const int64_t r = row % t.matrix_rows, far = t.columns + 1, d = t.diagonal > far ? far : t.diagonal < -r - 1 ? -r - 1 : t.diagonal, edge = r + d + t.lower;
    const int64_t cut = edge < 0 ? 0 : edge > t.columns ? t.columns : edge;
    return Row{t.x ? static_cast<const T*>(t.x) + at[0] : nullptr, static_cast<T*>(t.y) + at[1], t.lower ? 0 : cut, t.lower ? cut : t.columns};
  }, [&](const Row& row, int64_t first) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int64_t u = first + (int64_t(k) << q.teams.log), c = u * V;
      if (u >= q.teams.units) break;
      if (V == 1) {
        if (c < row.begin || c >= row.end) row.y[c * t.y_step] = T{};
        else if (row.x) row.y[c * t.y_step] = row.x[c * t.x_step];
        continue;
      }
      const bool all = c >= row.begin && c + V <= row.end;
      if (all && !row.x) continue;
      Vector<T, V> e{};
      if (all) e = *reinterpret_cast<const Vector<T, V>*>(row.x + c);
      else if (c + V > row.begin && c < row.end) {
        e = *reinterpret_cast<const Vector<T, V>*>((row.x ? row.x : row.y) + c);
#pragma unroll
        for (int j = 0; j < V; ++j)
          if (c + j < row.begin || c + j >= row.end) e.lane[j] = T{};
      }
      *reinterpret_cast<Vector<T, V>*>(row.y + c) = e;
    }
  });
}
template <int kLog> int triangle(const TriangleCuda& t, void* stream) {
  using T = typename BitsOf<kLog>::Type;
  constexpr int V = 16 / int(sizeof(T));
  bool whole = t.x_step == 1 && t.y_step == 1 && t.columns % V == 0 && (uintptr_t(t.x) | uintptr_t(t.y)) % 16 == 0;
  for (int a = 0; a < t.rows.rank; ++a) whole = whole && t.rows.stride[0][a] % V == 0 && t.rows.stride[1][a] % V == 0;
  const TriangleRows q{t, Teams::of(t.rows.units, t.columns / (whole ? V : 1), kEach)};
  return device::launch(whole ? triangle_kernel<T, V> : triangle_kernel<T, 1>, q.teams.grid(kEach), kThreads, 0, stream, q);
}

struct Pieces { PiecesCuda p; device::Divisor by; bool narrow; };
__global__ void __launch_bounds__(kThreads) pieces_kernel(const __grid_constant__ Pieces q) {
  const PiecesCuda& p = q.p;
  const int64_t width = p.start[p.count], all = p.rows * width;
  for (int64_t u = int64_t(blockIdx.x) * kThreads + threadIdx.x; u < all; u += int64_t(gridDim.x) * kThreads) {
    const int64_t row = q.narrow ? int64_t(q.by.quotient(uint32_t(u))) : u / width, c = u - row * width;
    int k = 0;
#pragma unroll
    for (int w = kMostPieces / 2; w; w /= 2)
      if (k + w < p.count && p.start[k + w] <= c) k += w;
    uint4* const piece = static_cast<uint4*>(p.piece[k]) + row * (p.start[k + 1] - p.start[k]) + (c - p.start[k]);
    uint4* const whole = static_cast<uint4*>(p.whole) + row * p.pitch + p.column[k] + (c - p.start[k]);
    *(p.join ? whole : piece) = *(p.join ? piece : whole);
  }
}

template <class T> __global__ void __launch_bounds__(kThreads) block_move_kernel(const __grid_constant__ BlockMove m) {
  int64_t x_at = 0, y_at = 0;
  for (int a = 0; a < m.rank; ++a) {
    const int64_t given = m.i64 ? static_cast<const int64_t*>(m.start)[a * m.start_stride] : int64_t(static_cast<const int32_t*>(m.start)[a * m.start_stride]);
    const int64_t first = m.negative && given < 0 ? given + m.extent[a] : given, start = first < 0 ? 0 : first > m.most[a] ? m.most[a] : first;
    x_at += start * m.x_stride[a], y_at += start * m.y_stride[a];
  }
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < m.walk.units; i += int64_t(gridDim.x) * kThreads) {
    int64_t at[2];
    m.walk.offsets(i, at);
    static_cast<T*>(m.y)[y_at + at[1]] = m.x ? static_cast<const T*>(m.x)[x_at + at[0]] : T{};
  }
}
template <int kLog> int block_move(const BlockMove& m, void* stream) {
  return m.walk.units == 0 ? 0 : device::launch(block_move_kernel<typename BitsOf<kLog>::Type>, device::blocks_for(m.walk.units, kThreads), kThreads, 0, stream, m);
}

}  // namespace
}  // namespace BARACUDA_ISA

int shape_pieces_cuda(const PiecesCuda& p, void* stream) {
  const int64_t width = p.start[p.count], all = p.rows * width;
  if (all == 0) return 0;
  const bool narrow = all < int64_t(1) << 31;
  return device::launch(pieces_kernel, device::blocks_for(all, kThreads), kThreads, 0, stream, Pieces{p, device::Divisor::of(uint32_t(narrow ? width : 1)), narrow});
}
int (*const shape_triangle_cuda[5])(const TriangleCuda&, void*) = {triangle<0>, triangle<1>, triangle<2>, triangle<3>, triangle<4>};
int (*const shape_block_move_cuda[5])(const BlockMove&, void*) = {block_move<0>, block_move<1>, block_move<2>, block_move<3>, block_move<4>};

}  // namespace baracuda
