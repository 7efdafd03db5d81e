// dx_i = the product of all elements but x_i, without a division: reads x, writes dx; about 18 operations in f64 an element. Element i
// is in lane i % 64: what stands before it and behind it in its lane, times the other lanes, which a tree of products tells.
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/reduce/reduce_product_math.hpp"
#include "baracuda/ops/reduce/reduce_tree_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

struct Lanes {
  alignas(64) double m[kSumLanes];
  alignas(64) int64_t e[kSumLanes];
};
// Of every lane: the product of the other lanes, times factor 2^exponent. Level k of the tree has 64 / 2^k nodes.
void other_lanes(Lanes& lanes, double factor, int64_t exponent) {
  Lanes level[6];
  level[0] = lanes;
  for (int k = 1, w = kSumLanes / 2; k < 6; ++k, w /= 2)
    for (int l = 0; l < w; ++l)
      level[k].m[l] = level[k - 1].m[l] * level[k - 1].m[l + w], level[k].e[l] = level[k - 1].e[l] + level[k - 1].e[l + w];
  lanes.m[0] = factor, lanes.e[0] = exponent;
  for (int k = 5, w = 1; k >= 0; --k, w *= 2)  // a node's others: its parent's others and its sibling
    for (int l = w - 1; l >= 0; --l) {
      const double m = lanes.m[l];
      const int64_t e = lanes.e[l];
      lanes.m[l] = m * level[k].m[l + w], lanes.e[l] = e + level[k].e[l + w];
      lanes.m[l + w] = m * level[k].m[l], lanes.e[l + w] = e + level[k].e[l];
    }
}

// Mantissas of f32 and halves are split every four factors, those of f64 at each: within 2^-960 ... 2^960 all the time.
template <class T> void others(const ReduceOthers& p) {
  constexpr bool kTiny = sizeof(T) == 8;
  constexpr int N = kLanes<double>, packs = kSumLanes / N, kGroup = kTiny ? 1 : 4, kSide = packs < 4 ? packs : N == 1 ? 1 : 4;
  using V = Pack<double, N>;
  using Bits = typename V::Bits;
  const T* const x = static_cast<const T*>(p.x);
  T* const dx = static_cast<T*>(p.dx);
  const int full = p.m / kSumLanes, rest = p.m % kSumLanes, rows = full + (rest != 0);
  alignas(64) T tail[kSumLanes];
  if (rest) {
    const T one = from_double<T>(1);
    for (int l = 0; l < kSumLanes; ++l) tail[l] = one;
    __builtin_memcpy(tail, x + int64_t(full) * kSumLanes, size_t(rest) * sizeof(T));
  }
  auto row = [&](int r) { return r < full ? x + int64_t(r) * kSumLanes : tail; };
  alignas(64) double before[kSumChunk];                // mantissas
  alignas(64) int64_t before_e[kSumChunk / kGroup];    // exponents of groups
  Lanes lanes;
  for (int k0 = 0; k0 < packs; k0 += kSide) {
    V m[kSide];
    Bits e[kSide];
    for (int k = 0; k < kSide; ++k) m[k] = 1, e[k] = bits(V(0));
    for (int r = 0; r < rows; ++r) {
      const T* const from = row(r) + k0 * N;
      if (r % kGroup == 0) {
        REDUCE_UNROLL
        for (int k = 0; k < kSide; ++k) {
          e[k] += product::split<kTiny>(m[k]);
          __builtin_memcpy(before_e + r / kGroup * kSumLanes + (k0 + k) * N, &e[k], sizeof e[k]);
        }
      }
      REDUCE_UNROLL
      for (int k = 0; k < kSide; ++k) {
        V v = lanes_of<double, N>(from + k * N);
        store<double, N>(before + r * kSumLanes + (k0 + k) * N, m[k]);
        if constexpr (kTiny) e[k] += product::split<true>(v);
        m[k] = m[k] * v;
      }
    }
    for (int k = 0; k < kSide; ++k) {
      e[k] += product::split<kTiny>(m[k]);
      store<double, N>(lanes.m + (k0 + k) * N, m[k]);
      __builtin_memcpy(lanes.e + (k0 + k) * N, &e[k], sizeof e[k]);
    }
  }
  auto factor = Pack<double, 1>::of(p.factor);
  const int64_t exponent = p.exponent + product::split<true>(factor);
  other_lanes(lanes, factor.v, exponent);
  for (int k0 = 0; k0 < packs; k0 += kSide) {
    V m[kSide], first[kSide], second[kSide];
    Bits e[kSide];
    bool gone[kSide] = {};  // all are below what rounds to more than 0: processors take long over numbers that are not normal
    for (int k = 0; k < kSide; ++k) {
      m[k] = load<N>(lanes.m + (k0 + k) * N);
      __builtin_memcpy(&e[k], lanes.e + (k0 + k) * N, sizeof e[k]);
    }
    for (int r = rows - 1; r >= 0; --r) {
      const T* const from = row(r) + k0 * N;
      T* const to = (r < full ? dx + int64_t(r) * kSumLanes : tail) + k0 * N;
      if (r % kGroup == kGroup - 1 || r == rows - 1) {
        REDUCE_UNROLL
        for (int k = 0; k < kSide; ++k) {
          e[k] += product::split<kTiny>(m[k]);
          Bits all;
          __builtin_memcpy(&all, before_e + r / kGroup * kSumLanes + (k0 + k) * N, sizeof all);
          all += e[k];
          const Bits none = bits(V(0)), least = none - 2044, most = none + 2044;
          all = all < least ? least : all > most ? most : all;
          first[k] = pow2<V>(all >> 1), second[k] = pow2<V>(all - (all >> 1));
          gone[k] = baracuda::all(all == least);
        }
      }
      REDUCE_UNROLL
      for (int k = 0; k < kSide; ++k) {
        V v = lanes_of<double, N>(from + k * N);
        const V whole = V(load<N>(before + r * kSumLanes + (k0 + k) * N)) * m[k];
        const V d = gone[k] ? where(abs(whole) < V(kInf), whole * V(0), whole) : whole * first[k] * second[k];
        store<T, N>(to + k * N, convert<Acc<T>>(d));
        if constexpr (kTiny) e[k] += product::split<true>(v);
        m[k] = m[k] * v;
      }
    }
  }
  if (rest) __builtin_memcpy(dx + int64_t(full) * kSumLanes, tail, size_t(rest) * sizeof(T));
}

}  // namespace
extern constexpr ReduceOthersTable reduce_others_table = {by_dtype<void (*)(const ReduceOthers&)>(Floating{}, []<class T>() { return &others<T>; })};
}  // namespace baracuda
