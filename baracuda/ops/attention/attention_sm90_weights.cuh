#pragma once
// Weights of the forward on Hopper (attention_sm90.cuh): rounds of the online softmax over a tile's scores, in the layout of a product's sums.
#include "baracuda/ops/attention/attention_mma.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

// One round of the online softmax: scores x become weights, m is the largest score so far times `unit`, l the sum of weights, and sums of
// weighted rows shrink. False: all by 1.
template <int kSums> __device__ __forceinline__ bool soften(float (&x)[kSums][4], float (&m)[2], float (&l)[2], float (&shrink)[2], float unit) {
  using V = Pack<float, 1>;
  bool rescale = false;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float even = float(-kInf), odd = float(-kInf);
#pragma unroll
    for (int j = 0; j < kSums; ++j) even = fmaxf(even, x[j][2 * i]), odd = fmaxf(odd, x[j][2 * i + 1]);  // NaN does not count
    float top = fmaxf(even, odd);
    top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
    top = fmaxf(m[i], fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2)) * unit);
    const float safe = top == float(-kInf) ? 0 : top;
    shrink[i] = m[i] == float(-kInf) ? 1 : exp_weight<4>(V::of(m[i] - safe)).v;  // nothing to shrink yet: 1
    rescale = rescale || shrink[i] != 1;
    m[i] = top;
    V a = V(0), b = V(0);
#pragma unroll
    for (int j = 0; j < kSums; ++j) {
      const V u = exp_weight<4>(fma(V::of(x[j][2 * i]), V::of(unit), V::of(-safe))), w = exp_weight<4>(fma(V::of(x[j][2 * i + 1]), V::of(unit), V::of(-safe)));
      x[j][2 * i] = u.v, x[j][2 * i + 1] = w.v;
      a = a + u, b = b + w;
    }
    l[i] = fma(V::of(l[i]), V::of(shrink[i]), a + b).v;
  }
  return __any_sync(kAllLanes, rescale);
}

// 2^t by products, a relative error of 2^-13.7, for weights that are rounded to bf16, of scores that the instruction's tanh makes. Infinite from 2^127.5 on, 0
// below 2^-126.5. |t| is at most 2^24; kHidden: or t is -inf.
template <bool kHidden> __device__ __forceinline__ Pack<float, 1> exp_by_products(Pack<float, 1> t) {
  using V = Pack<float, 1>;
  constexpr float kShifter = 0x1.8p23f;  // whole numbers lie in the last bits
  float part, near = t.v;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(part) : "f"(t.v), "f"(1 / 255.f), "f"(127 / 255.f));  // of [-127, 128]; 0 for NaN, which the polynomial keeps
  if constexpr (kHidden) asm("max.NaN.f32 %0, %1, %2;" : "=f"(near) : "f"(t.v), "f"(-1024.f));
  const V whole = fma(V::of(part), V(255), V(kShifter - 127));
  const V scale = V::of(__uint_as_float((__float_as_uint(whole.v) << 23) + 0x3f800000u));
  return poly(V::of(near) - (whole - V(kShifter)), 0x1.fff692p-1, 0x1.62f31ap-1, 0x1.f0de1ap-3, 0x1.c3f76p-5) * scale;
}
template <bool kHidden> __device__ __forceinline__ Pack<float, 1> weight_of(Pack<float, 1> t, bool by_products) { return by_products ? exp_by_products<kHidden>(t) : exp_weight<4>(t); }

// The same for scores that need no largest one first: m is that of the row's first tile with a key that it sees (all rows of the warp have one: settled),
// and follows when a tile's weights have outgrown kRoom by it. A weight that is infinite stays so, for the second pass.
constexpr float kRoom = 0x1p14f;
// kBased: scores are shape(x) times `unit` plus the lane's `base`. kSettled: that is known, and no score is hidden. kShared: the special unit, which has a
// softcap's tanh to make, too, leaves the odd keys of every other eight to products.
template <bool kBased, bool kSettled, bool kShared, int kSums, class Shape>
__device__ __forceinline__ bool soften_lazily(float (&x)[kSums][4], float (&m)[2], float (&l)[2], float (&shrink)[2], float unit, bool& settled, const float (&base)[2], Shape shape) {
  using V = Pack<float, 1>;
  const auto whole = [&](float top, int i) { return kBased ? fma(V::of(top), V::of(unit), V::of(base[i])).v : top * unit; };
  if (!kSettled && !settled) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float top = float(-kInf);
#pragma unroll
      for (int j = 0; j < kSums; ++j) top = fmaxf(top, fmaxf(x[j][2 * i], x[j][2 * i + 1]));  // NaN does not count
      top = whole(top, i);
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
      if (m[i] == float(-kInf)) m[i] = top;
    }
    settled = __all_sync(kAllLanes, m[0] != float(-kInf) && m[1] != float(-kInf));
  }
  V sum[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float safe = !kSettled && m[i] == float(-kInf) ? 0 : kBased ? m[i] - base[i] : m[i];
    V a = V(0), b = V(0);
#pragma unroll
    for (int j = 0; j < kSums; ++j) {
      const V u = exp_weight<4>(fma(shape(V::of(x[j][2 * i])), V::of(unit), V::of(-safe))), w = weight_of<!kSettled>(fma(shape(V::of(x[j][2 * i + 1])), V::of(unit), V::of(-safe)), kShared && j % 2 != 0);
      x[j][2 * i] = u.v, x[j][2 * i + 1] = w.v;
      a = a + u, b = b + w;
    }
    sum[i] = a + b;
  }
  const bool outgrown = !__all_sync(kAllLanes, sum[0].v <= kRoom && sum[1].v <= kRoom);
  shrink[0] = shrink[1] = 1;
  if (outgrown) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float most_of = sum[i].v;
      most_of = fmaxf(most_of, __shfl_xor_sync(kAllLanes, most_of, 1));
      most_of = fmaxf(most_of, __shfl_xor_sync(kAllLanes, most_of, 2));
      if (!(most_of > kRoom) || most_of == float(kInf)) continue;
      const float grown = m[i] + fminf(float(int(__float_as_uint(most_of) >> 23) - 127), 125);
      shrink[i] = exp_weight<4>(V::of(fmaxf(m[i] - grown, -126))).v;  // m + 125 is rounded, and what is just below 2^-126 would be 0
      m[i] = grown;
#pragma unroll
      for (int j = 0; j < kSums; ++j) x[j][2 * i] *= shrink[i], x[j][2 * i + 1] *= shrink[i];
      sum[i] = sum[i] * V::of(shrink[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) l[i] = fma(V::of(l[i]), V::of(shrink[i]), sum[i]).v;
  return outgrown;
}

// Of the second pass, before soften_lazily(): where it would find an infinite weight in line i, m becomes the largest score so far. What y shrinks by.
template <bool kShared, int kSums> __device__ __forceinline__ float catch_up(const float (&x)[kSums][4], int i, float& m, float& l, float unit, float base) {
  using V = Pack<float, 1>;
  V a = V(0), b = V(0);
  float top = float(-kInf);
#pragma unroll
  for (int j = 0; j < kSums; ++j) {
    a = a + exp_weight<4>(fma(V::of(x[j][2 * i]), V::of(unit), V::of(base - m))), b = b + weight_of<true>(fma(V::of(x[j][2 * i + 1]), V::of(unit), V::of(base - m)), kShared && j % 2 != 0);
    top = fmaxf(top, fmaxf(x[j][2 * i], x[j][2 * i + 1]));
  }
  const uint32_t over = __ballot_sync(kAllLanes, (a + b).v == float(kInf));
  top = fma(V::of(top), V::of(unit), V::of(base)).v;
  top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
  top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
  if (m == float(-kInf) || !(over >> (threadIdx.x % 32 & ~3) & 15)) return 1;
  const float shrink = exp_weight<4>(V::of(m - top)).v;
  m = top, l *= shrink;
  return shrink;
}

}  // namespace attention
}  // namespace baracuda
