#pragma once
// The gradient of logcumsumexp for f32 and halves as an op of scan_flow.cuh: dx = exp(x) S, S = the sum of dy exp(-y) over what the scan took from here on. A
// state is a sum in f64 over a power of two whose exponent is a f32, so that no y is out of range. Within a thread all is over one power of two, in f32, by the
// processor's short function. Threads whose y lie far apart, and infinities and NaN, go element by element.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

struct LogGradState {
  uint32_t low, high;  // of the sum; its last bit says that all before is cut off
  float octave;
  __device__ static LogGradState of(double sum, float octave, bool stop = false) {
    return {(uint32_t(__double2loint(sum)) & ~1u) | uint32_t(stop), uint32_t(__double2hiint(sum)), octave};
  }
  __device__ double sum() const { return __hiloint2double(int(high), int(low & ~1u)); }
  __device__ bool stop() const { return low & 1; }
  __device__ bool is_zero() const { return (high & 0x7fffffff) == 0; }
};
// v as octaves, whole ones and the rest; of |v| beyond 2^30 neighbours are so far apart that the rest does not count.
struct Octaves {
  static constexpr float kLog2E = float(0x1.71547652b82fep0);
  float whole, rest;
  __device__ explicit Octaves(float v) : whole(rintf(v * kLog2E)), rest(fabsf(v) <= 0x1p30f ? fmaf(v, kLog2E, -whole) : 0) {}
};
__device__ __forceinline__ double power_of_two(float octaves) {  // whole ones; never 0, which an infinite sum must not meet
  return __hiloint2double((1023 + int(fminf(fmaxf(octaves, -1022.0f), 1023.0f))) << 20, 0);
}
__device__ __forceinline__ float short_power(float x) { return BARACUDA_INSTRUCTION(x, "ex2.approx.ftz.f32 %0, %1;", "f"(x)); }
__device__ __forceinline__ LogGradState joined(LogGradState a, LogGradState b) {
  if (b.stop() || a.is_zero()) return b.low |= a.low & 1, b;
  if (b.is_zero()) return a;
  const float octave = fmaxf(a.octave, b.octave);
  return LogGradState::of(__fma_rn(a.sum(), power_of_two(a.octave - octave), b.sum() * power_of_two(b.octave - octave)), octave, a.stop());
}
// One element, whatever it is: dx, and the state behind it.
constexpr float kInfinite = -0x1p120f;  // octaves of terms whose y is infinite
__device__ __noinline__ LogGradState step_far(LogGradState s, float dy, float x, float y, float& dx) {
  const Octaves of(-y);
  LogGradState term = LogGradState::of(double(dy) * short_power(of.rest), of.whole);
  if (y != y) term = LogGradState::of(kNaN, 0);
  else if (y == -float(kInf)) term = LogGradState::of(0, 0);
  else if (y == float(kInf)) term = LogGradState::of(dy, kInfinite);
  s = joined(s, term);
  const bool infinite = x == float(kInf);
  const Octaves up(infinite ? 0 : x);
  const double at = s.sum() * short_power(up.rest);
  const float octave = infinite && s.octave == kInfinite ? 0 : infinite ? 2000 : s.octave + up.whole, half = rintf(octave * 0.5f);
  dx = x == -float(kInf) ? 0 : float(at * power_of_two(half) * power_of_two(octave - half));
  if (infinite) s = LogGradState::of(0, 0, true);
  return s;
}

template <class T> struct LogGrads {
  using E = T;
  using Out = T;
  using State = LogGradState;
  using Word = uint32_t;
  static constexpr int kInputs = 3, kFlowWarps = 8, kFlowUnits = 3, kWordEach = 4 / int(sizeof(T));
  static constexpr bool kThreads = true;
  static constexpr float kLog2E = Octaves::kLog2E, kApart = 60, kFarthest = 0x1p22f;
  static constexpr int kNear = 90;
  const ScanCuda& p;
  __device__ static State identity() { return {0, 0, 0}; }
  __device__ static T none(int q, T last) { return q == 2 ? last : element<T>(Pack<float, 1>(q == 1 ? -kInf : 0)); }
  __device__ static State join(State a, State b) { return joined(a, b); }
  // scan_lanes() of a warp: sums over one power of two where they are not too far apart.
  __device__ static void lanes(State s, State& upto, State& left) {
    constexpr float kMost = 0x1p24f, kFar = 900;
    const bool usual = !s.stop() && fabsf(s.octave) < kMost;
    const int own = s.is_zero() || !usual ? -int(kMost) : int(s.octave), top = __reduce_max_sync(0xffffffffu, own), least = __reduce_min_sync(0xffffffffu, s.is_zero() ? top : own);
    if (__all_sync(0xffffffffu, usual) && top - least < int(kFar)) {
      const int lane = int(threadIdx.x) % 32;
      double sum = s.is_zero() ? 0 : s.sum() * power_of_two(s.octave - float(top));
#pragma unroll
      for (int w = 1; w < 32; w *= 2) {
        const double other = __shfl_up_sync(0xffffffffu, sum, w);
        if (lane >= w) sum = other + sum;
      }
      const double before = __shfl_up_sync(0xffffffffu, sum, 1);
      upto = State::of(sum, float(top)), left = State::of(lane ? before : 0, float(top));
    } else scan_lanes(s, 32, identity(), joined, upto, left);
  }
  __device__ static float of_word(Word w, int k) {
    if constexpr (kIsHalf<T>) asm volatile("" : "+r"(w));  // unpacked anew each time: all at once they would not fit in registers
    return row_team::Packed<T, kWordEach>{w}[k].v;
  }
  template <class F> __device__ static Word rounded(F v) {
    return row_team::Packed<T, kWordEach>::rounded([&](int k) { return Pack<float, 1>::of(v(k)); }).word[0];
  }
  // Whether the elements may share a power of two, that of the largest exp(-y).
  template <int N, class Get> __device__ static bool together(Get get, float& octave) {
    float most = get(2, 0), least = most, above = get(1, 0);
#pragma unroll
    for (int k = 1; k < N; ++k) {
      const float y = get(2, k);
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(most), "f"(y));
      least = fminf(least, y), above = fmaxf(above, get(1, k));
    }
    octave = rintf(-least * kLog2E);
    return most - least <= kApart && fabsf(least) <= kFarthest && above < most + kApart;
  }
  template <int N, class Get> __device__ State total(Get get) const {
    float octave;
    if (together<N>(get, octave)) {
      float sum = 0;
#pragma unroll
      for (int k = 0; k < N; ++k) sum = __fmaf_rn(get(0, k), short_power(__fmaf_rn(-get(2, k), kLog2E, -octave)), sum);
      return State::of(sum, octave);
    }
    State s = identity();
    float dx;
#pragma unroll
    for (int k = 0; k < N; ++k) s = step_far(s, get(0, k), get(1, k), get(2, k), dx);
    return s;
  }
  template <int N, class Get, class Put> __device__ void scan(State s, Get get, Put put) const {
    float own;
    const float before = s.octave + float(int(s.high >> 20 & 2047) - 1022);  // the sum is less than 2^before
    if (together<N>(get, own) && (s.is_zero() || before >= own - kNear)) {
      const float octave = s.is_zero() ? own : fmaxf(own, before);
      float sum = s.is_zero() ? 0 : float(s.sum() * power_of_two(s.octave - octave));
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float x = get(1, k);
        sum = __fmaf_rn(get(0, k), short_power(__fmaf_rn(-get(2, k), kLog2E, -octave)), sum);
        put(k, x == -float(kInf) ? 0.0f : short_power(__fmaf_rn(x, kLog2E, octave)) * sum);
      }
    } else {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        float dx;
        s = step_far(s, get(0, k), get(1, k), get(2, k), dx), put(k, dx);
      }
    }
  }
};

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
