// Products of rows, from which the gradient of a product takes an element out.
#include "baracuda/ops/reduce/reduce_engine.cuh"
#include "baracuda/ops/reduce/reduce_others_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using reduce_others::Total;

template <class T> struct OthersLoop {
  using E = T;
  static constexpr bool kIndex = false;
  using OwnStates = void;
  static constexpr int kLanes = reduce_cuda_lanes(sizeof(T), false), kRounds = 2, kGroup = sizeof(T) == 8 ? 1 : 4;  // factors between two splits
  static __device__ Total total(ReduceState s) { return {s.a, s.at}; }
  static __device__ ReduceState state(Total t) {
    ReduceState s;
    s.a = t.m, s.at = t.code;
    return s;
  }
  static __device__ ReduceState join(ReduceState a, ReduceState b) { return state(reduce_others::joined(total(a), total(b))); }
  static __device__ void finish(const ReduceCuda& p, int64_t o, ReduceState s) { static_cast<Total*>(static_cast<void*>(p.found))[o] = total(s); }
  template <class Tile> __device__ static ReduceState chunk(const Tile& t) {
    constexpr int L = Tile::kLanes;
    double m = 1;
    int64_t e = 0;
    int counts = 0;
    for (int b = 0; b < t.m; b += Tile::kBlock) {
      E v[Tile::kRounds][L];
      t.load(b, v);
      t.each(b, [&](int r, int k, int) {
        double x = double(value(v[r][k]).v);
        if (k % kGroup == 0) e += reduce_others::split(m);
        if (!reduce_others::plain(x)) counts = reduce_others::counted(counts, reduce_others::unit_of(x)), x = reduce_others::sign_of(x);
        if constexpr (kGroup == 1) e += reduce_others::split(x);
        m = m * x;
      });
    }
    e += reduce_others::split(m);
    Total lane[L];
#pragma unroll
    for (int k = 0; k < L; ++k) lane[k] = k ? Total{1, 0} : Total{m, e * 64 + counts};
    return state(t.fold(lane, [](Total a, Total c) { return reduce_others::joined(a, c); }));
  }
};
template <class T> int run(const ReduceCuda& p, void* stream) {
  const int e = launch_loop<OthersLoop<T>>(p, stream);
  return !e && reduce_cuda_parts(p) ? launch_join<OthersLoop<T>>(p, stream) : e;
}
constexpr ByDType<ReduceLaunch> kTable = device::floating<ReduceLaunch>(run<f16>, run<bf16>, run<float>, run<double>);

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<ReduceLaunch> reduce_cuda_others = kTable;

}  // namespace baracuda
