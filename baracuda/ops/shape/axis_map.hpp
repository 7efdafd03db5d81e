#pragma once
// The rule of an axis for ops that take each element of y from one element of x, or fill it: from an index of y to one of x,
// affine in stretches. Host and device; I: the type of indices.
#include <cstdint>
#include "baracuda/math/config.hpp"

namespace baracuda {

enum class MapKind : uint8_t {
  affine,      // start + step o, step 1 or -1, always inside x
  periodic,    // base + (start + o) mod period, start >= 0
  repeated,    // o / step
  spread,      // (o - start) / step where that is an index of x, else filled
  reflect,     // o - start, mirrored at the first and the last element
  symmetric,   // ... mirrored at their outer edges
  replicate,   // ... cut to the first and the last element
};
template <class I> struct AxisMapOf {
  MapKind kind = MapKind::affine;
  I n = 1, m = 1;  // extents of x and y
  I start = 0, step = 1, base = 0, period = 1;

  static AxisMapOf same(I n) { return {MapKind::affine, n, n, 0, 1, 0, 1}; }
  bool identity() const { return kind == MapKind::affine && start == 0 && step == 1 && n == m; }
  // The longest known stretch from o on: indices o + k, k < length, take from + k step. from < 0: they are filled.
  struct Run { I from, step, length; };
  BARACUDA_HD Run run(I o) const {
    const I left = m - o, q = o - start;
    switch (kind) {
      case MapKind::affine: return {start + o * step, step, left};
      case MapKind::periodic: {
        const I i = (start + o) % period;
        return {base + i, 1, least(left, period - i)};
      }
      case MapKind::repeated: {
        const I i = o / step;
        return {i, 0, least(left, step - (o - i * step))};
      }
      case MapKind::spread: {
        if (q < 0) return {-1, 0, least(left, -q)};
        if (n == 0 || q > (n - 1) * step) return {-1, 0, left};
        if (step == 1) return {q, 1, least(left, n - q)};
        const I i = q / step, r = q - i * step;
        return r == 0 ? Run{i, 1, 1} : Run{-1, 0, least(left, step - r)};
      }
      default: break;
    }
    if (q >= 0 && q < n) return {q, 1, least(left, n - q)};
    const I length = q < 0 ? least(left, -q) : left;
    if (kind == MapKind::replicate) return {q < 0 ? 0 : n - 1, 0, length};
    const I edge = kind == MapKind::symmetric;
    return {q < 0 ? -q - edge : 2 * (n - 1) - q + edge, -1, length};
  }
  // An index of y that no run before takes x's indices >= i from; runs that start later may only take larger ones when
  // ascending() holds.
  I first(I i) const;
  bool ascending() const { return kind == MapKind::repeated || kind == MapKind::spread; }
  // The indices of y that take i, ascending: three progressions, some of them of no index.
  struct Progression { I first, step, count; };
  BARACUDA_HD void takers(I i, Progression (&out)[3]) const {
    const auto part = [this](I first, I end) -> Progression {  // of [first, end), what is inside y
      first = first < 0 ? 0 : first, end = least(end, m);
      return {first, 1, first < end ? end - first : 0};
    };
    out[0] = out[1] = out[2] = {0, 1, 0};
    switch (kind) {
      case MapKind::affine: {
        const I o = (i - start) * step;
        if (o >= 0) out[1] = part(o, o + 1);
        return;
      }
      case MapKind::periodic: {
        if (i < base || i >= base + period) return;
        const I r = (i - base - start) % period, first = r < 0 ? r + period : r;
        if (first < m) out[1] = {first, period, (m - first - 1) / period + 1};
        return;
      }
      case MapKind::repeated: out[1] = part(i * step, i * step + step); return;
      case MapKind::spread: out[1] = part(start + i * step, start + i * step + 1); return;
      default: break;
    }
    const I edge = kind == MapKind::symmetric, low = start - i - edge, high = start + 2 * (n - 1) - i + edge;
    if (kind == MapKind::replicate) {
      if (i == 0) out[0] = part(0, start);
    } else if (low < start) out[0] = part(low, low + 1);
    out[1] = part(start + i, start + i + 1);
    if (kind == MapKind::replicate) {
      if (i == n - 1) out[2] = part(start + n, m);
    } else if (high >= start + n) out[2] = part(high, high + 1);
  }
  // The same without those of no index, and their number.
  int indices_of(I i, Progression (&out)[3]) const {
    Progression three[3];
    takers(i, three);
    int count = 0;
    for (const Progression& p : three)
      if (p.count > 0) out[count++] = p;
    return count;
  }
  // Indices i of x from begin to end that only i + shift takes; others may be such, too.
  struct Singles { I begin, end, shift; };
  Singles singles() const;

 private:
  static BARACUDA_HD I least(I a, I b) { return a < b ? a : b; }
};
using AxisMap = AxisMapOf<int64_t>;
template <> int64_t AxisMap::first(int64_t i) const;
template <> AxisMap::Singles AxisMap::singles() const;

}  // namespace baracuda
