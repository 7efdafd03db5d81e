#pragma once
// Products of halves by Hopper's tensor cores, for rows and other families: what may be known on the device alone is how much of it there is.
#include "baracuda/core/device.hpp"
#include "baracuda/core/dtype.hpp"

namespace baracuda {

// A matrix of `outer` x k, rows of op(a) or columns of op(b): dense along k, or along outer (across). Pitch and address are multiples of 16 bytes.
struct GemmSm90Side { const void* p; int64_t pitch; bool across; };
// c[i][j] = sum a[i][k] b[k][j] (+ c[i][j]). Rows of c are dense.
struct GemmSm90 {
  int64_t m, n, k;
  GemmSm90Side a, b;
  void* c;
  int64_t c_pitch;
  bool wide;  // c is f32, else of the dtype
  bool add;   // c is f32
  // `first` rows or terms were before these, of *count in all. kRows: those of a are rows [0, count - first); behind them c may get anything, but with
  // rows_of_c stays as it is.
  // kTerms: the sum has count - first terms, and replaces c where all that are left are among them, unless add; nothing is done where none is
  // left, but for the first of all. Between the count and the next multiple of 64 both operands are finite, and one is 0.
  enum Of { kAll, kRows, kTerms } of;
  const int64_t* count;
  int64_t first;
  const int64_t* rows_of_c;  // row i is row rows_of_c[first + i] of c; null: i
};
inline constexpr int kGemmSm90Refused = -1;  // the copy engine cannot read these operands
// By the dtype of a and b; f16 and bf16.
extern const ByDType<int (*)(const GemmSm90&, void* stream)> gemm_sm90;
// Two products of bf16 in one launch, which does not wait between them: the first one has the longer sums. b lies across in both, a in the first alone; c of the
// second is f32.
int gemm_sm90_both(const GemmSm90& first, const GemmSm90& second, void* stream);

}  // namespace baracuda
