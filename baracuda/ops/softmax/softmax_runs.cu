// Dense short rows of softmax that follow on one another (device/row_runs.cuh): max, sum of exp, factor. Reads x and writes y once (backward: dy, y and dx):
// the floor is memory bandwidth.
#include "baracuda/device/row_runs.cuh"
#include "baracuda/ops/softmax/softmax_short.cuh"
#include "baracuda/ops/softmax/softmax_words_cuda.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace row_runs;
using namespace softmax_short;

constexpr int kBlocks = 4, kBackwardBlocks = 3;  // of a multiprocessor, whose registers they share
constexpr int kEach = 21;  // elements of a lane, at most
struct RunsCuda {
  SoftmaxCuda p;
  RunShape shape;
  ShortRows rows;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Of a warp in a pass over rows: the lane's row, its elements from its first one on, and how many of them all lanes have.
struct Seat {
  int row, first, mine, all;
  __device__ __forceinline__ Seat(const RunShape& s, int n, int pass, int count, int lane) {
    const int own = lane / s.lanes, place = lane - own * s.lanes, together = 32 / s.lanes;
    row = pass + own, first = place * s.each;
    const int left = row < count ? n - first : 0;
    mine = left < s.each ? left : s.each;
    all = count - pass < together ? 0 : n - (s.lanes - 1) * s.each;
  }
};
// f(k, there) for elements k < each of at most E, in groups of four behind the first.
template <int E, class F> __device__ __forceinline__ void each_element(const Seat& s, int each, F f) {
  f(0, s.mine > 0);
#pragma unroll
  for (int k = 1; k < E; k += 4) {
    if (k >= each) break;
    if (k + 4 <= s.all) {
#pragma unroll
      for (int j = 0; j < 4; ++j) f(k + j, true);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) f(k + j, k + j < s.mine);
    }
  }
}
template <class F> __device__ __forceinline__ V over_lanes(V v, int lanes, F join) {
  for (int w = lanes / 2; w; w /= 2) v = join(v, V::of(__shfl_xor_sync(0xffffffffu, v.v, w)));
  return v;
}
#endif
template <class T, bool kFlow> __global__ void __launch_bounds__(kWarps * 32, kFlow ? kBlocks : kBlocks - 1) forward_kernel(const __grid_constant__ RunsCuda c) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 slots[];
  __shared__ uint64_t full[kWarps * 4];
  const SoftmaxCuda& p = c.p;
  const int n = int(p.n), each = c.shape.each;
  const V scale = p.negate ? -p.scale : p.scale;
  const Several<T, 4, 0, -1, 3, kFlow> of{p.lines, c.rows, c.shape};
  Runs<T, 32, Several<T, 4, 0, -1, 3, kFlow>> runs(of, c.shape.runs, c.shape.slots, c.shape.pitch, slots, full);
  for (; runs.more(); runs.leave()) {
    runs.arrive();
    const int count = of.count(runs.run);
    for (int pass = 0; pass < count; pass += 32 / c.shape.lanes) {
      const Seat s(c.shape, n, pass, count, runs.thread);
      T* const own = runs.at(0) + s.row * n + s.first;
      V v[kEach], top = -kInf, sum = 0;
      each_element<kEach>(s, each, [&](int k, bool there) {
        v[k] = -kInf;
        if (there) v[k] = value(own[k]) * scale;
        top = greater(v[k], top);
      });
      top = over_lanes(top, c.shape.lanes, [](V a, V b) { return greater(a, b); });
      const Exp<T> exp(top);
      if (p.log) each_element<kEach>(s, each, [&](int k, bool) { sum = sum + exp(v[k]); });
      else each_element<kEach>(s, each, [&](int k, bool) { v[k] = exp(v[k]), sum = sum + v[k]; });
      sum = over_lanes(sum, c.shape.lanes, [](V a, V b) { return a + b; });
      const auto line = Line<T>::of(top, sum, p.log, p.safe);
      const auto put = [&](bool log) {
        each_element<kEach>(s, each, [&](int k, bool there) {
          if (there) own[k] = element<T>(line.made(v[k], log));
        });
      };
      if (p.log) put(true);
      else put(false);
    }
  }
  runs.end();
#endif
}
template <class T, bool kFlow> __global__ void __launch_bounds__(kWarps * 32, kFlow ? kBackwardBlocks : kBackwardBlocks - 1) backward_kernel(const __grid_constant__ RunsCuda c) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 slots[];
  __shared__ uint64_t full[kWarps * 4];
  const SoftmaxCuda& p = c.p;
  const int n = int(p.n), each = c.shape.each;
  const V sign = p.sign;
  const Several<T, 4, 0, 1, 3, kFlow> of{p.lines, c.rows, c.shape};
  Runs<T, 32, Several<T, 4, 0, 1, 3, kFlow>> runs(of, c.shape.runs, c.shape.slots, c.shape.pitch, slots, full);
  for (; runs.more(); runs.leave()) {
    runs.arrive();
    const int count = of.count(runs.run);
    for (int pass = 0; pass < count; pass += 32 / c.shape.lanes) {
      const Seat s(c.shape, n, pass, count, runs.thread);
      const int from = s.row * n + s.first;
      T* const dy = runs.at(0) + from;
      const T* const y = runs.at(1) + from;
      V a[kEach], b[kEach], sum = -0.0;
      each_element<kEach>(s, each, [&](int k, bool there) {
        a[k] = -0.0, b[k] = 1;
        if (there) a[k] = value(dy[k]), b[k] = value(y[k]);
        sum = p.log ? sum + a[k] : fma(a[k], b[k], sum);
      });
      sum = over_lanes(sum, c.shape.lanes, [](V a, V b) { return a + b; });
      const auto put = [&](bool log) {
        each_element<kEach>(s, each, [&](int k, bool there) {
          if (there) dy[k] = element<T>(slope_of<T>(log, a[k], b[k], sum, sign));
        });
      };
      if (p.log) put(true);
      else put(false);
    }
  }
  runs.end();
#endif
}
template <class T, bool kBackward> int rows(const SoftmaxCuda& p, void* stream) {
  constexpr int K = kBackward ? 2 : 1;
  RunsCuda c{p, RunShape::of(p.n, sizeof(T), p.lines.units, kEach), {}};
  const int blocks = c.shape.fill(K, kBackward || kIsHalf<T> ? 3 : 2, kBackward ? kBackwardBlocks : kBlocks);  // more of f32 at once is slower
  c.rows = ShortRows::of(p.lines, c.shape, p.n, sizeof(T), p.in, p.second, p.out, 0, kBackward ? 1 : -1, 3);
  const bool flow = c.rows.flow;
  return launch(kBackward ? flow ? backward_kernel<T, true> : backward_kernel<T, false> : flow ? forward_kernel<T, true> : forward_kernel<T, false>, c.shape, K, blocks, stream, c);
}
template <bool kBackward> constexpr ByDType<SoftmaxLaunch> by_dtype_of() {
  return device::floating<SoftmaxLaunch>(rows<f16, kBackward>, rows<bf16, kBackward>, rows<float, kBackward>, nullptr);
}
constexpr SoftmaxRowsCuda kRuns = {by_dtype_of<false>(), by_dtype_of<true>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SoftmaxRowsCuda softmax_runs_cuda = kRuns;
bool softmax_cuda_by_runs(const SoftmaxCuda& p, int size) {
  return p.n * size % 16 && row_runs::each_of(p.n, 32) <= kEach && p.lines.units < int64_t(1) << 31;
}

}  // namespace baracuda
