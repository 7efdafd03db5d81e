#pragma once
// The gradient of cummax and cummin for f32 and halves as an op of scan_flow.cuh: r_i = dy_i + (what r_(i-1) was, unless an element pointed to i - 1), dx_i = r_i
// where one points to i, else 0. Sums in f64; places below 2^31.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> struct ExtremeGrads {
  using E = T;
  using Out = T;
  struct State {
    uint32_t low, high, closed;  // of what has not found its element; closed: one was pointed to
    __device__ static State of(double sum, bool closed) { return {uint32_t(__double2loint(sum)), uint32_t(__double2hiint(sum)), closed}; }
    __device__ double sum() const { return __hiloint2double(int(high), int(low)); }
  };
  using Word = uint32_t;
  static constexpr int kInputs = 2, kPlacesOf = 1, kFlowWarps = sizeof(T) == 4 ? 8 : 16, kFlowUnits = sizeof(T) == 4 ? 3 : 1, kWordEach = 4 / int(sizeof(T));
  static constexpr bool kThreads = true;
  const ScanCuda& p;
  __device__ static State identity() { return State::of(-0.0, false); }
  __device__ static T none(int, T) { return T{}; }
  __device__ static State join(State a, State b) { return State::of(b.closed ? b.sum() : b.sum() + a.sum(), a.closed | b.closed); }
  __device__ static float of_word(Word w, int k) { return row_team::Packed<T, kWordEach>{w}[k].v; }
  template <class F> __device__ static Word rounded(F v) {
    return row_team::Packed<T, kWordEach>::rounded([&](int k) { return Pack<float, 1>::of(v(k)); }).word[0];
  }
  template <int N, class Get> __device__ static State total(Get get, uint32_t found) {
    double sum = -0.0;
#pragma unroll
    for (int k = 0; k < N; ++k) sum = found >> k & 1 ? -0.0 : sum + double(get(k));
    return State::of(sum, found);
  }
  template <int N, class Get, class Put> __device__ static void scan(State s, Get get, uint32_t found, Put put) {
    double sum = s.sum();
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const bool here = found >> k & 1;
      sum += double(get(k));
      put(k, here ? float(sum) : 0.0f);
      if (here) sum = -0.0;
    }
  }
};

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
