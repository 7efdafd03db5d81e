// Products of rows, from which the gradient of a product takes an element out.
#include "baracuda/ops/reduce/reduce_engine.cuh"
#include "baracuda/ops/reduce/reduce_others_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using reduce_others::Total;

template <class T> struct OthersLoop {
  using E = T;
  using A = double;
  using OwnStates = void;
  static constexpr bool kIndex = false, kHead = false, kChecks = false, kPasses = false, kTidyEach = sizeof(T) == 8, kRows = true, kColumns = true;
  static constexpr int kUnroll = 4, kResident = 2, kShortResident = 4;
  static __device__ Total total(ReduceState s) { return {s.a, s.at}; }
  static __device__ ReduceState state(Total t) {
    ReduceState s;
    s.a = t.m, s.at = t.code;
    return s;
  }
  static __device__ ReduceState join_states(ReduceState a, ReduceState b) { return state(reduce_others::joined(total(a), total(b))); }
  static __device__ void end(const ReduceCuda& p, int64_t o, ReduceState s) { static_cast<Total*>(static_cast<void*>(p.found))[o] = total(s); }
  template <int N> struct Lanes {
    struct Lane {
      double m;
      int64_t code;  // of a Total; before settle() the exponent is apart
      static __device__ Lane chosen(bool yes, const Lane& a, const Lane& b) { return {yes ? a.m : b.m, yes ? a.code : b.code}; }
    };
    Lane lane[N];
    int exponent[N];
    __device__ void begin(const ReduceCuda&, double) {
#pragma unroll
      for (int k = 0; k < N; ++k) lane[k] = {1, 0}, exponent[k] = 0;
    }
    __device__ void step(int k, E e, int) {
      double x = double(value(e).v);
      if (!reduce_others::plain(x)) lane[k].code = reduce_others::counted(int(lane[k].code), reduce_others::unit_of(x)), x = reduce_others::sign_of(x);
      if constexpr (sizeof(T) == 8) exponent[k] += int(reduce_others::split(x));
      lane[k].m = lane[k].m * x;
    }
    __device__ void tidy() {
#pragma unroll
      for (int k = 0; k < N; ++k) exponent[k] += int(reduce_others::split(lane[k].m));
    }
    __device__ void settle() {
      tidy();
#pragma unroll
      for (int k = 0; k < N; ++k) lane[k].code += int64_t(exponent[k]) * 64;
    }
    static __device__ Lane join(const Lane& a, const Lane& b) {
      const Total t = reduce_others::joined({a.m, a.code}, {b.m, b.code});
      return {t.m, t.code};
    }
    template <class S, class At> static __device__ void finish(const ReduceCuda&, const S& all, int, double, At, ReduceState& out) { out = state({all.m, all.code}); }
  };
};
constexpr ByDType<ReduceLaunch> kTable =
    device::floating<ReduceLaunch>(launch_loop<OthersLoop<f16>>, launch_loop<OthersLoop<bf16>>, launch_loop<OthersLoop<float>>, launch_loop<OthersLoop<double>>);

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<ReduceLaunch> reduce_cuda_others = kTable;

}  // namespace baracuda
