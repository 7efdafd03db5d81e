#pragma once
// Logarithms of sums of exponentials of f32 and halves as an op of the kernels of ScanFast. A state is a sum of exponentials in f64, whose range holds those of
// logarithms up to kLimit; beyond, a negative number stands for the logarithm itself. Within a thread all is over one power of two, in f32: one exponential
// and one logarithm an element, by the processor's short functions. What does not fit goes element by element.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr double kMostLog = 600;
// The logarithm of a state, and a state of a logarithm. The least bit of a negative number is the logarithm's sign.
__device__ inline double log_of_state(double s) {
  if (__double2hiint(s) >= 0) return baracuda::log(Pack<double, 1>::of(s)).v;
  const uint64_t bits = __builtin_bit_cast(uint64_t, s), sign = bits << 63;
  return __builtin_bit_cast(double, (bits & (~uint64_t(0) >> 1 & ~uint64_t(1))) | sign);
}
__device__ inline double state_of_log(double l) {
  if (l == -kInf) return 0;
  if (l != l || l == kInf || fabs(l) <= kMostLog) return scan::LogSum<float>::exp1(l);
  const uint64_t bits = __builtin_bit_cast(uint64_t, l);
  return __builtin_bit_cast(double, (bits & ~uint64_t(1)) | bits >> 63 | uint64_t(1) << 63);
}
__device__ __noinline__ double joined_far(double a, double b) {
  const double x = log_of_state(a), y = log_of_state(b), most = x > y ? x : y, least = x > y ? y : x;
  if (x != x || y != y) return kNaN;
  if (most == kInf || least == -kInf) return most == x ? a : b;
  return state_of_log(most + baracuda::log(Pack<double, 1>::of(1 + scan::LogSum<float>::exp1(least - most))).v);
}
__device__ __noinline__ double state_of_far(float x) { return state_of_log(double(x)); }
__device__ __noinline__ float value_of_far(double s) { return float(log_of_state(s)); }
__device__ __noinline__ double state_of_far(float top, float sum) { return state_of_log(double(top) + baracuda::log(Pack<double, 1>::of(double(sum))).v); }

template <class T> struct Logs {
  using E = T;
  using Out = T;
  using State = double;
  using Word = uint32_t;
  template <int N> struct Piece { T x[N]; };
  static constexpr int kEach = 16 / int(sizeof(T)), kWordEach = 4 / int(sizeof(T)), kStripRows = 16;
  static constexpr bool kThreads = true;
  static constexpr float kLog2E = float(0x1.71547652b82fep0), kLn2 = float(0x1.62e42fefa39efp-1), kLimit = float(kMostLog);
  static constexpr int kNear = 90;  // octaves that sums of f32 may lie below the largest exponential
  const ScanCuda& p;
  __device__ static State identity() { return 0; }
  __device__ static float nothing() { return -float(kInf); }
  __device__ static T none() { return element<T>(Pack<float, 1>(-kInf)); }
  __device__ static State join(State a, State b) { return (__double2hiint(a) | __double2hiint(b)) < 0 ? joined_far(a, b) : a + b; }
  __device__ static float of_word(Word w, int k) {
    if constexpr (kIsHalf<T>) asm volatile("" : "+r"(w));  // unpacked anew each time: all at once they would not fit in registers
    return row_team::Packed<T, kWordEach>{w}[k].v;
  }
  template <class F> __device__ static Word rounded(F v) {
    return row_team::Packed<T, kWordEach>::rounded([&](int k) { return Pack<float, 1>::of(v(k)); }).word[0];
  }
  __device__ static float power_of_two(float x) { return BARACUDA_INSTRUCTION(x, "ex2.approx.ftz.f32 %0, %1;", "f"(x)); }
  __device__ static float octaves(float x) { return BARACUDA_INSTRUCTION(x, "lg2.approx.ftz.f32 %0, %1;", "f"(x)); }
  template <int N, class Get> __device__ static float largest(Get get) {  // or NaN
    float top = get(0);
#pragma unroll
    for (int k = 1; k < N; ++k) asm("max.NaN.f32 %0, %1, %2;" : "=f"(top) : "f"(top), "f"(get(k)));
    return top;
  }
  __device__ static float power(float top) { return rintf(fmaxf(top, -1000.0f) * kLog2E); }
  // 2^-over e^x, and the logarithm of a sum over 2^-over: of arguments that are not far from 0, or of any.
  template <bool kFar> __device__ static float exp_over(float x, float over) {
    if constexpr (!kFar) return power_of_two(__fmaf_rn(x, kLog2E, -over));
    const float whole = rintf(fmaxf(x, -1000.0f) * kLog2E), down = whole - over;
    return x == -float(kInf) || down < -126 ? 0 : power_of_two(__fmaf_rn(x, kLog2E, -whole)) * __int_as_float((127 + int(down)) << 23);
  }
  template <bool kFar> __device__ static float log_over(float sum, float over) {
    if constexpr (!kFar) return __fmaf_rn(octaves(sum), kLn2, over * kLn2);
    const int bits = __float_as_int(sum), octave = (bits >> 23) - 127;
    return sum == 0 ? -float(kInf) : __fmaf_rn(octaves(__int_as_float(bits - octave * (1 << 23))), kLn2, (float(octave) + over) * kLn2);
  }
  template <int N, class Get> __device__ State total(Get get) const {
    const float top = largest<N>(get);
    if (!(fabsf(top) <= kLimit)) {
      if (top == -float(kInf)) return 0;
      if (!(top < float(kInf))) return top;
      float sum = 0;
#pragma unroll
      for (int k = 0; k < N; ++k) sum += power_of_two((get(k) - top) * kLog2E);
      return state_of_far(top, sum);
    }
    const float over = power(top);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) sum += power_of_two(__fmaf_rn(get(k), kLog2E, -over));
    const double s = double(sum);
    return __hiloint2double(__double2hiint(s) + int(over) * (1 << 20), __double2loint(s));
  }
  template <int N, class Get, class Put> __device__ void scan(State s, Get get, Put put) const {
    const float top = largest<N>(get), first = get(0);
    const int high = __double2hiint(s), octave = (high >> 20) - 1022, own = int(power(top));  // s is less than 2^octave
    const bool nothing = s == 0, beside = !nothing && octave >= own - kNear;                   // what comes before is as large as f32 can add to
    const bool alone = top == -float(kInf) ? nothing : fabsf(top) <= kLimit && first >= top - 60;
    if (high >= 0 && high < 2000 << 20 && top <= kLimit && (beside || (alone && (nothing || !p.exclusive)))) {
      const int over = !nothing && octave > own ? octave : own, down = octave - over;
      const float power = float(over);
      float sum = nothing || down < -200 ? 0 : float(__hiloint2double((high & 0xfffff) | (1022 + down) << 20, __double2loint(s)));
      const auto go = [&]<bool kFar>() {
#pragma unroll
        for (int k = 0; k < N; ++k) {
          const float then = sum + exp_over<kFar>(get(k), power);
          put(k, log_over<kFar>(p.exclusive ? sum : then, power)), sum = then;
        }
      };
      if (kIsHalf<T> || sum + (p.exclusive && !nothing ? 0 : exp_over<false>(first, power)) >= 0x1p-4f) go.template operator()<false>();
      else if constexpr (!kIsHalf<T>) go.template operator()<true>();  // short functions of large arguments would show in f32
    } else {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const State then = joined_far(s, state_of_far(get(k)));
        put(k, value_of_far(p.exclusive ? s : then)), s = then;
      }
    }
  }
};

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
