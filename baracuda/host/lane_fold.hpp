#pragma once
// As many folds of a register's lanes at once as it has lanes, which share their operations. F::of(a, b) joins lanes.
#include <utility>
#include "baracuda/math/pack.hpp"

namespace baracuda::inline BARACUDA_ISA {

// Every second group of W lanes, of a and then of b.
template <int W, int From, class T, int N, int... L> BARACUDA_HD Pack<T, N> groups_of(Pack<T, N> a, Pack<T, N> b, std::integer_sequence<int, L...>) {
  return Pack<T, N>::of(__builtin_shufflevector(a.v, b.v, (L / W * 2 * W + L % W + From)...));
}
// Lane r of the result is what register r's lanes come to, l and l + W joined, then W / 2 ... 1.
template <class F, class T, int N, int W = N / 2> BARACUDA_HD Pack<T, N> fold_registers(Pack<T, N>* row) {
  constexpr auto lanes = std::make_integer_sequence<int, N>{};
#pragma GCC unroll 16
  for (int k = 0; k < W; ++k) row[k] = F::of(groups_of<W, 0>(row[2 * k], row[2 * k + 1], lanes), groups_of<W, W>(row[2 * k], row[2 * k + 1], lanes));
  if constexpr (W == 1) return row[0];
  else return fold_registers<F, T, N, W / 2>(row);
}

}  // namespace baracuda
