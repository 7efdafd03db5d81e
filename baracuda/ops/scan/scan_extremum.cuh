#pragma once
// Extrema of f32 and halves as ops of the kernels of ScanFast: elements as f32, with their places below 2^31 or without. An element is compared as x or -x,
// without the signs of zeros and NaN, so that a maximum that gives NaN and equal bits decide everything.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <bool kPlaces> struct ExtremeOf { float v; };
template <> struct alignas(8) ExtremeOf<true> {
  float v;
  int at;  // -1: nothing
};
template <class T, bool kPlaces_> struct Extremes {
  using E = T;
  using Out = T;
  using State = ExtremeOf<kPlaces_>;
  using Word = uint32_t;
  template <int N> struct Piece { T x[N]; };
  static constexpr int kEach = 16 / int(sizeof(T)), kWordEach = 4 / int(sizeof(T)), kStripRows = 16;
  static constexpr bool kPlaces = kPlaces_, kTwice = true;
  const ScanCuda& p;
  __device__ static State made(float v, int64_t i) {
    if constexpr (kPlaces) return {v, int(i)};
    else return {v};
  }
  __device__ static bool is_nothing(State s) {
    if constexpr (kPlaces) return s.at < 0;
    else return false;
  }
  __device__ State identity() const { return made(p.max ? -kInf : kInf, -1); }
  __device__ State empty() const { return identity(); }
  __device__ T none() const { return element<T>(Pack<float, 1>(p.max ? -kInf : kInf)); }
  __device__ float compared(State s) const { return __fmaf_rn(s.v, p.max ? 1.0f : -1.0f, 0.0f); }
  __device__ State took(State a, State b) const {  // b is an element; predicates, where the compiler would branch
    const float x = compared(a), y = compared(b);
    State s = a;
    if constexpr (kPlaces)
      asm("{ .reg .pred p, q; .reg .f32 most; max.NaN.f32 most, %2, %3; setp.ne.b32 q, most, %2; setp.eq.or.s32 q, %4, 0, q; setp.lt.or.s32 q, %1, 0, q;\n"
          "setp.eq.and.b32 p, most, %3, q; selp.f32 %0, %5, %0, p; selp.s32 %1, %6, %1, p; }"
          : "+f"(s.v), "+r"(s.at) : "f"(x), "f"(y), "r"(int(p.first)), "f"(b.v), "r"(b.at));
    else
      asm("{ .reg .pred p, q; .reg .f32 most; max.NaN.f32 most, %1, %2; setp.ne.b32 q, most, %1; setp.eq.or.s32 q, %3, 0, q;\n"
          "setp.eq.and.b32 p, most, %2, q; selp.f32 %0, %4, %0, p; }"
          : "+f"(s.v) : "f"(x), "f"(y), "r"(int(p.first)), "f"(b.v));
    return s;
  }
  __device__ State took(State s, float v, int i) const { return took(s, made(v, i)); }
  __device__ State join(State a, State b) const { return is_nothing(b) ? a : took(a, b); }
  __device__ static float of_word(Word w, int k) { return row_team::Packed<T, kWordEach>{w}[k].v; }
  template <class F> __device__ static Word rounded(F v) {
    return row_team::Packed<T, kWordEach>::rounded([&](int k) { return Pack<float, 1>::of(v(k).v); }).word[0];
  }
  template <int N> __device__ State own(const Piece<N>& piece, int k, int64_t i) const { return made(value(piece.x[k]).v, i); }
};

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
