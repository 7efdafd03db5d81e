#pragma once
// A walk over several tensors of one shape, as a kernel takes it: the i-th unit of the walk to an offset in each tensor.
// A unit is a vector of `lanes` neighbours on the last axis where every tensor allows that, else one element, or, where asked for,
// a strip of up to 32 `lanes` elements of that axis, of which a warp takes 32 at a time.
// Host and device; compiled by g++ and nvcc.
#include <algorithm>
#include <cstdint>
#include <span>
#include "baracuda/core/tensor.hpp"
#include "baracuda/math/config.hpp"

namespace baracuda::device {

// Division by a constant for n < 2^31: multiply high, add, shift (Granlund and Montgomery, "Division by invariant integers
// using multiplication", 1994).
struct Divisor {
  uint32_t divisor = 1, multiplier = 1, shift = 0;
  static Divisor of(uint32_t d) {
    Divisor v{d, 1, 0};
    while ((uint64_t(1) << v.shift) < d) ++v.shift;
    v.multiplier = uint32_t(((uint64_t(1) << 32) * ((uint64_t(1) << v.shift) - d)) / d + 1);
    return v;
  }
  BARACUDA_HD uint32_t quotient(uint32_t n) const { return (uint32_t((uint64_t(n) * multiplier) >> 32) + n) >> shift; }
};

template <int K> struct Walk {
  int rank = 1, lanes = 1;
  int64_t strips = 0;              // 0, or the elements of the last axis: units are strips of it
  int64_t step[K] = {};            // between elements of a strip
  bool narrow = true;              // units < 2^31
  bool flat = false;               // units of all tensors lie one behind the other
  int64_t units = 0, rest = 0;     // rest: elements behind the last whole unit; only where rank is 1
  int64_t extent[kMaxRank] = {};   // of the axes, outermost first, in units on the last one
  Divisor by[kMaxRank];
  int64_t stride[K][kMaxRank] = {};  // in elements, per unit on the last axis
  bool spread[K] = {};             // all lanes of a unit are one element (stride 0 on the last axis)

  BARACUDA_HD int64_t threads() const { return strips ? units * 32 : units + rest; }
  // Unit i (an element of the rest where i >= units): offsets of its first element. Returns its place on the last axis.
  BARACUDA_HD int64_t offsets(int64_t i, int64_t (&at)[K]) const {
    if (rank == 1) {
      for (int k = 0; k < K; ++k) at[k] = i < units ? i * stride[k][0] : units * stride[k][0] + (i - units) * (spread[k] ? 0 : 1);
      return i;
    }
    int64_t place = 0;
    for (int k = 0; k < K; ++k) at[k] = 0;
#pragma unroll 1
    for (int a = rank - 1; a >= 0; --a) {  // not unrolled: 64-bit divisions are long
      int64_t q, r;
      if (narrow) q = by[a].quotient(uint32_t(i)), r = int64_t(uint32_t(i) - uint32_t(q) * by[a].divisor);
      else q = i / extent[a], r = i - q * extent[a];
      for (int k = 0; k < K; ++k) at[k] += r * stride[k][a];
      if (a == rank - 1) place = r;
      i = q;
    }
    return place;
  }
};

// A table over the floating dtypes.
template <class E> constexpr ByDType<E> floating(E of_f16, E of_bf16, E of_f32, E of_f64) {
  ByDType<E> table;
  table[DType::f16] = of_f16, table[DType::bf16] = of_bf16, table[DType::f32] = of_f32, table[DType::f64] = of_f64;
  return table;
}

struct Operand {
  const void* data = nullptr;  // null: not there, its offsets mean nothing
  int bytes = 4;
  Strides strides;
  static Operand of(const TensorView& v) { return v.absent() ? Operand{} : Operand{v.data, int(byte_size(v.dtype)), v.strides}; }
};

// Axes in the order of the memory of `order` (an output, usually; -1: as they stand), neighbours that step as one in every tensor merged.
// `lanes`: of a unit, if shapes, strides and alignment allow it. `strips`: of a long last axis that has no vectors.
template <int K> Walk<K> walk(const Shape& shape, const Operand (&x)[K], int order, int lanes, bool strips = false) {
  int axis[kMaxRank], rank = 0;
  for (int a = 0; a < shape.rank; ++a)
    if (shape[a] != 1) axis[rank++] = a;
  const auto step = [&](int a) { return x[order].data ? std::abs(x[order].strides[a]) : 0; };
  if (order >= 0) std::stable_sort(axis, axis + rank, [&](int a, int b) { return step(a) > step(b); });
  Walk<K> w;
  int n = 0;
  for (int i = 0; i < rank; ++i) {
    const int a = axis[i];
    bool merge = n > 0;
    for (int k = 0; k < K && merge; ++k) merge = !x[k].data || w.stride[k][n - 1] == x[k].strides[a] * shape[a];
    const int to = merge ? n - 1 : n++;
    w.extent[to] = (merge ? w.extent[to] : 1) * shape[a];
    for (int k = 0; k < K; ++k) w.stride[k][to] = x[k].data ? x[k].strides[a] : 0;
  }
  if (n == 0) {
    n = 1, w.extent[0] = 1;
    for (int k = 0; k < K; ++k) w.stride[k][0] = x[k].data ? 1 : 0;
  }
  w.rank = n;
  const int last = n - 1;
  bool whole = lanes > 1 && (n == 1 || w.extent[last] % lanes == 0);
  for (int k = 0; k < K; ++k) {
    if (!x[k].data) continue;
    const int64_t s = w.stride[k][last];
    if (s == 0) continue;
    whole = whole && s == 1 && uintptr_t(x[k].data) % uintptr_t(lanes * x[k].bytes) == 0;
    for (int a = 0; a < last; ++a) whole = whole && w.stride[k][a] % lanes == 0;
  }
  if (whole) {
    w.lanes = lanes;
    w.rest = n == 1 ? w.extent[0] % lanes : 0;
    w.extent[last] /= lanes;
    w.flat = n == 1;
    for (int k = 0; k < K; ++k) w.spread[k] = w.stride[k][last] == 0, w.stride[k][last] *= lanes, w.flat = w.flat && !(x[k].data && w.spread[k]);
  } else {
    for (int k = 0; k < K; ++k) w.spread[k] = w.stride[k][last] == 0;
    const int strip = 32 * lanes;
    if (strips && lanes > 1 && w.extent[last] >= strip / 2) {
      w.strips = w.extent[last];
      w.extent[last] = (w.strips + strip - 1) / strip;
      for (int k = 0; k < K; ++k) w.step[k] = w.stride[k][last], w.stride[k][last] *= strip;
    }
  }
  w.units = 1;
  for (int a = 0; a < n; ++a) w.units *= w.extent[a];
  w.narrow = w.units < int64_t(1) << 31;
  if (w.narrow)
    for (int a = 0; a < n; ++a) w.by[a] = Divisor::of(uint32_t(std::max<int64_t>(w.extent[a], 1)));
  return w;
}

}  // namespace baracuda::device
