// Sums, moments and products of floats.
#include "baracuda/ops/reduce/reduce_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace reduce_kinds;

template <class T, class K> struct SumLoop {
  using E = T;
  using A = typename K::A;
  using V = Pack<A, 1>;
  static constexpr bool kIndex = false;
  static constexpr int kLanes = reduce_cuda_lanes(sizeof(T), false), kRounds = K::kTidy > 0 ? 1 : 4;
  static constexpr int kStates = K::kStates;
  static constexpr double kStart[2] = {K::kStart[0], K::kStart[kStates - 1]};
  struct Lane { V s[kStates]; };
  __device__ static V number(E e) { return convert<A>(value(e)); }
  template <class Tile> __device__ static ReduceState chunk(const Tile& t) {
    constexpr int L = Tile::kLanes;
    constexpr double start0 = kStart[0], start1 = kStart[1];
    Lane lane[L];
    double shift = 0;
#pragma unroll
    for (int k = 0; k < L; ++k) {
      lane[k].s[0] = V(start0);
      if constexpr (kStates == 2) lane[k].s[1] = V(start1);
    }
    for (int b = 0; b == 0 || b < t.m; b += Tile::kBlock) {
      E v[Tile::kRounds][L];
      t.load(b, v);
      if constexpr (K::kHead)
        if (b == 0) {
          A head[L];
#pragma unroll
          for (int k = 0; k < L; ++k) head[k] = t.index(0, 0, k) < t.m ? number(v[0][k]).v : A(-0.0);
          shift = double(origin<T>(t.fold(head, [](A a, A c) { return a + c; }), t.m));
        }
      const Given<V> given(V::of(A(shift)), t.p.magnitude);
      t.each(b, [&](int r, int k, int) {
        K::step(lane[k].s, number(v[r][k]), given);
        if constexpr (K::kTidy > 0)
          K::tidy(lane[k].s);
      });
    }
    if constexpr (K::kTidy > 0) {
#pragma unroll
      for (int k = 0; k < L; ++k) K::settle(lane[k].s);
    }
    const Lane all = t.fold(lane, [](Lane a, Lane c) {
      a.s[0] = K::template Fold<0>::of(a.s[0], c.s[0]);
      if constexpr (kStates == 2) a.s[1] = K::template Fold<1>::of(a.s[1], c.s[1]);
      return a;
    });
    A total[kStates];
#pragma unroll
    for (int k = 0; k < kStates; ++k) total[k] = all.s[k].v;
    ReduceState out;
    K::finish(total, t.m, shift, [&](int i) { return double(value(t.at(i)).v); }, out);
    return out;
  }
};
template <template <class> class K> constexpr ByDType<ReduceLaunch> loops() {
  return device::floating<ReduceLaunch>(launch_loop<SumLoop<f16, K<f16>>>, launch_loop<SumLoop<bf16, K<bf16>>>, launch_loop<SumLoop<float, K<float>>>,
                                        launch_loop<SumLoop<double, K<double>>>);
}
constexpr ReduceCudaTable make() {
  ReduceCudaTable t;
  t.of[int(ReduceLoop::sum)] = t.of[int(ReduceLoop::magnitudes)] = loops<Sum>();
  t.of[int(ReduceLoop::numbers)] = loops<Numbers>();
  t.of[int(ReduceLoop::squares)] = loops<Squares>();
  t.of[int(ReduceLoop::moments)] = loops<Moments>();
  t.of[int(ReduceLoop::product)] = loops<Product>();
  return t;
}
constexpr ReduceCudaTable kTable = make();

struct ByLoop {};
struct Fill { ReduceCuda p; ReduceState s; };
__global__ void __launch_bounds__(256) fill_kernel(const __grid_constant__ Fill f) {
  for (int64_t o = int64_t(blockIdx.x) * 256 + threadIdx.x; o < f.p.rows; o += int64_t(gridDim.x) * 256) finish_row(f.p, o, f.s);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const ReduceCudaTable reduce_cuda_sums = kTable;
bool reduce_cuda_parts(const ReduceCuda& given) {
  ReduceCuda p = given;
  const int size = bit_size(p.dtype) / 8;
  const bool whole = !is_floating(p.dtype) || p.loop == ReduceLoop::nonzero;
  p.team = team_of(p, reduce_cuda_lanes(size, whole));
  return p.chunks > 1 && (p.columns || !in_block(p));
}
int reduce_cuda_join(const ReduceCuda& p, void* stream) { return launch_join<ByLoop>(p, stream); }
int reduce_cuda_fill(const ReduceCuda& p, const ReduceState& s, void* stream) {
  return device::launch(fill_kernel, device::blocks_for(p.rows, 256), dim3(256), 0, stream, Fill{p, s});
}

}  // namespace baracuda
