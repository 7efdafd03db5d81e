// sizeof(T) bytes read per element (twice that for products); the floor is memory bandwidth.
#include "baracuda/host/lane_sum.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

template <class T, SumOf of, class V> BARACUDA_HD V step(V acc, const T* x, const T* y) {
  const V v = load<V::kWidth>(x);
  if constexpr (of == SumOf::values) return acc + v;
  else if constexpr (of == SumOf::squares) return fma(v, v, acc);
  else return fma(v, V(load<V::kWidth>(y)), acc);
}
template <class T, SumOf of> struct Row {
  const T *x, *y;
  template <class V> BARACUDA_HD V operator()(V acc, int64_t i) const {
    return step<T, of>(acc, x + i, of == SumOf::products ? y + i : y);
  }
};
template <class T, SumOf of> void row(const void* x, const void* y, int64_t n, void* sum) {
  *static_cast<Acc<T>*>(sum) = tree_sum<Acc<T>>(n, Row<T, of>{static_cast<const T*>(x), static_cast<const T*>(y)});
}
template <class T, SumOf of> void chunk(const void* x, const void* y, int64_t begin, int m, void* sum) {
  *static_cast<Acc<T>*>(sum) = chunk_sum<Acc<T>>(begin, m, Row<T, of>{static_cast<const T*>(x), static_cast<const T*>(y)});
}

// The lanes of a tile of columns stay in the second-level cache; eight rows (l, l + 64, ...) per visit keep that traffic
// below memory's, and a page of each row per visit keeps address translation cheap: with a quarter of the width, 4096 x
// 4096 floats take 1.4 and 16384 x 1024 twice the time.
template <class T, SumOf of> struct Columns {
  using A = Acc<T>;
  static constexpr int N = kLanes<A>, kTile = 4096 / int(sizeof(A));  // 256 KiB of lanes, on the stack

  template <int W, int rows> BARACUDA_HD static void visit(A* lane, const T* x, int64_t dx, const T* y, int64_t dy) {
    Pack<A, W> acc = load<W>(lane);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
      acc = step<T, of>(acc, x + r * dx * kSumLanes, of == SumOf::products ? y + r * dy * kSumLanes : y);
    store<A, W>(lane, acc);
  }
  template <int rows> static void visit_row(A* lane, const T* x, int64_t dx, const T* y, int64_t dy, int width) {
    int j = 0;
    for (; j + N <= width; j += N) visit<N, rows>(lane + j, x + j, dx, of == SumOf::products ? y + j : y, dy);
    if constexpr (N > 1)
      for (; j < width; ++j) visit<1, rows>(lane + j, x + j, dx, of == SumOf::products ? y + j : y, dy);
  }
  static void run(const void* vx, int64_t dx, const void* vy, int64_t dy, int m, int64_t columns, void* sums) {
    alignas(64) A lane[kSumLanes][kTile];
    const int used = m < kSumLanes ? m : kSumLanes;  // the other lanes are -0, which changes nothing
    for (int64_t c = 0; c < columns; c += kTile) {
      const int width = columns - c < kTile ? int(columns - c) : kTile;
      const T *x = static_cast<const T*>(vx) + c, *y = of == SumOf::products ? static_cast<const T*>(vy) + c : nullptr;
      for (int l = 0; l < used; ++l)
        for (int j = 0; j < width; ++j) lane[l][j] = A(-0.0);
      for (int base = 0; base < m; base += 8 * kSumLanes)
        for (int l = 0; l < kSumLanes && base + l < m; ++l) {
          int r = base + l;
          const T *px = x + r * dx, *py = of == SumOf::products ? y + r * dy : nullptr;
          if (r + 7 * kSumLanes < m) visit_row<8>(lane[l], px, dx, py, dy, width);
          else
            for (; r < m; r += kSumLanes, px += dx * kSumLanes, py += of == SumOf::products ? dy * kSumLanes : 0)
              visit_row<1>(lane[l], px, dx, py, dy, width);
        }
      for (int w = kSumLanes / 2; w; w /= 2)
        for (int l = 0; l < w && l + w < used; ++l)
          for (int j = 0; j < width; ++j) lane[l][j] += lane[l + w][j];
      for (int j = 0; j < width; ++j) static_cast<A*>(sums)[c + j] = lane[0][j];
    }
  }
};

template <class T, SumOf of> constexpr SumKernels kernels() { return {row<T, of>, chunk<T, of>, Columns<T, of>::run}; }
#define BARACUDA_SUMS(T) {kernels<T, SumOf::values>(), kernels<T, SumOf::squares>(), kernels<T, SumOf::products>()}

}  // namespace

extern const SumTable sum_table = {{BARACUDA_SUMS(f16), BARACUDA_SUMS(bf16), BARACUDA_SUMS(float), BARACUDA_SUMS(double)}};
#undef BARACUDA_SUMS

}  // namespace baracuda
