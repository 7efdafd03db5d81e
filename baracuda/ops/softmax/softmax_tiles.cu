// Gradients of softmax's dense short rows whose length is no whole number of 16 bytes (device/row_tile.cuh): a warp has several rows, whose sums it makes
// together. Reads dy and y and writes dx once: the floor is memory bandwidth.
#include "baracuda/device/row_tile.cuh"
#include "baracuda/ops/softmax/softmax_short.cuh"
#include "baracuda/ops/softmax/softmax_words_cuda.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace row_team;
using namespace softmax_short;

constexpr RowTiles kTiles[] = {{4, 256, 3, 66}, {4, 256, 3, 260}};  // of halves and of f32
template <class T> constexpr int kDeep = kIsHalf<T> ? 8 : 4;         // rows of a warp

template <class T> __global__ void __launch_bounds__(256, 3) backward_kernel(const __grid_constant__ SoftmaxCuda p) {
  constexpr int N = kWord<T>, C = kTiles[sizeof(T) / 4].each / N, R = kDeep<T>;
  extern __shared__ uint4 slots[];
  __shared__ float shared[2][64];
  TileTeam t(p.team);
  int n = int(p.n);
  const int64_t rows = p.lines.units, step = t.row_step() * R;
  Tile<T, 2, C, R> tile(slots, n, true);
  const auto fetch = [&](int64_t first) {
    tile.fetch(first, rows, n, t, [&](int64_t row, const T* (&of)[2]) {
      int64_t at[4];
      p.lines.offsets(row, at);
      of[0] = static_cast<const T*>(p.in) + at[0], of[1] = static_cast<const T*>(p.second) + at[1];
    });
  };
  int64_t first = t.first_row() * R;
  bool other = false;  // buffer of this row's sum
  if (first < rows) fetch(first);
  for (; first < rows; first += step, other = !other) {
    t.forget_places(n);
    Held<T, C, N> dy[R], y[R];
    tile.arrive();
#pragma unroll
    for (int r = 0; r < R; ++r) tile.take(0, dy[r], n, t, r), tile.take(1, y[r], n, t, r);
    if (first + step < rows) fetch(first + step);
    float dot[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      V sum = -0.0;
      each_word<C, N>(n, t, [&](int c, int i) {
        each_lane<N == 1, N>(i, n, [&](int j) { sum = p.log ? sum + dy[r].chunk[c][j] : fma(dy[r].chunk[c][j], y[r].chunk[c][j], sum); });
      });
      dot[r] = sum.v;
    }
    t.sums(dot, shared[other]);
    const V sign = p.sign;
    tile.put(first, rows, n, t, [&](int64_t row) {
      int64_t at[4];
      p.lines.offsets(row, at);
      return static_cast<T*>(p.out) + at[3];
    }, [&](int r, int c, int) { return Packed<T, N>::rounded([&](int j) { return slope_of<T>(p.log, dy[r].chunk[c][j], y[r].chunk[c][j], V::of(dot[r]), sign); }); });
  }
}
template <class T> int rows(const SoftmaxCuda& given, void* stream) {
  constexpr RowTiles kTile = kTiles[sizeof(T) / 4];
  SoftmaxCuda p = given;
  const int64_t units = device::ceil_div(p.lines.units, kDeep<T>);
  const TeamShape shape = kTile.shape(p.n, units, kSeveralBlock);
  p.team = shape.team;
  return launch(backward_kernel<T>, shape, units, tile_bytes<T>(3, p.n, shape, kDeep<T>), stream, p, kTile.threads * kTile.blocks);
}
constexpr SoftmaxRowsCuda kBackward = {{}, device::floating<SoftmaxLaunch>(rows<f16>, rows<bf16>, rows<float>, nullptr)};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SoftmaxRowsCuda softmax_tiles_cuda = kBackward;
bool softmax_cuda_by_tiles(const SoftmaxCuda& p, int size) {
  const auto run = [&](int k) { return p.lines.stride[k][0] == p.n; };
  const row_team::RowTiles& tile = kTiles[size / 4];
  return p.n <= 32 * tile.each && tile.take(p.n, size, 3) && p.lines.rank == 1 && run(0) && run(1) && run(3);
}

}  // namespace baracuda
