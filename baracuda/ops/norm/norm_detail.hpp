#pragma once
// What the ops of the family share: weights in the accumulator type, and the blocks of rows whose parts of a weight's gradient
// are summed apart.
#include <algorithm>
#include "baracuda/host/row_walk.hpp"
#include "baracuda/math/half.hpp"
#include "baracuda/ops/norm/norm.hpp"

namespace baracuda::norm_detail {

inline void* at(const TensorView& v, int64_t offset) { return v.absent() ? nullptr : v.as<char>() + offset * int64_t(byte_size(v.dtype)); }

// w' in the accumulator type A of `dtype`: w, 1 + w, or 1 where there is none.
template <class T, class A> void spread_weight(const TensorView& weight, NormWeight mode, A* out, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const A w = mode == NormWeight::none ? A(1) : A(to_double(weight.as<T>()[i * weight.strides[0]]));
    out[i] = mode == NormWeight::one_plus ? 1 + w : w;
  }
}
inline void prepare_weight(DType dtype, const TensorView& weight, NormWeight mode, void* out, int64_t n, int threads) {
  parallel_for(n, 1 << 14, threads, [&](int64_t begin, int64_t end, int) {
    visit_dtype(Floating{}, mode == NormWeight::none ? DType::f32 : weight.dtype, 0, [&]<class T>() {
      if (dtype == DType::f64) spread_weight<T>(weight, mode, static_cast<double*>(out), begin, end);
      else spread_weight<T>(weight, mode, static_cast<float*>(out), begin, end);
      return 0;
    });
  });
}

// Blocks depend on the shape alone and keep the partial sums at about a million numbers.
constexpr int64_t kPartials = int64_t(1) << 20, kLeastRows = 16;
inline int64_t block_rows(int64_t rows, int64_t n) {
  const int64_t blocks = std::max<int64_t>(1, kPartials / std::max<int64_t>(n, 1));
  return std::max(kLeastRows, (rows + blocks - 1) / blocks);
}
inline int64_t block_count(int64_t rows, int64_t n) {
  const int64_t block = block_rows(rows, n);
  return n > 0 ? (rows + block - 1) / block : 0;
}

}  // namespace baracuda::norm_detail
