#pragma once
// What the kernel rows of gemm share: the problem as pointers and strides, and the rows themselves.
#include "baracuda/ops/gemm/gemm.hpp"
#include "baracuda/ops/gemm/gemm_cpu.hpp"

namespace baracuda {

// One operand of the product as the tile sees it: `outer` runs over rows of op(a) or columns of op(b).
struct GemmSide { const char* p; int64_t outer, k; };

// c[i][j] = act(alpha sum a[i][k] b[k][j] + beta c[i][j] + bias[i][j]); strides in elements.
struct GemmProblem {
  int64_t m, n, k;  // k is 0 when alpha is: a and b are not read
  GemmSide a, b;
  char* c;
  int64_t c_row, c_col;
  const char* bias;
  int64_t bias_row, bias_col;

  // The same product as c^T = op(b)^T op(a)^T.
  GemmProblem swapped() const { return {n, m, k, b, a, c, c_col, c_row, bias, bias_col, bias_row}; }
};
// The shape of an operand.
inline Shape gemm_matrix(Shape batch, int64_t rows, int64_t columns) { return batch.push_back(rows), batch.push_back(columns), batch; }
// Without the batch offset; at() adds it.
GemmProblem gemm_problem(const GemmDescriptor& d, const Gemm::Args& args);
GemmProblem gemm_at(GemmProblem p, const GemmDescriptor& d, const Gemm::Args& args, int64_t batch_index);

inline bool gemm_reads_product(const GemmDescriptor& d) { return d.alpha != 0 && d.k > 0; }
inline DType gemm_accumulator(const GemmDescriptor& d) { return accumulator(d.dtype); }
inline bool gemm_plain(const GemmDescriptor& d) { return d.bias == GemmBias::none && d.epilogue == GemmEpilogue::none; }
GemmFinishRun gemm_finish(const GemmDescriptor& d);
// sums (rows x cols at i0, j0; null: none) to c.
GemmFinish gemm_finish_block(const GemmProblem& p, const GemmDescriptor& d, const void* sums, int64_t sums_row, int64_t i0, int64_t j0,
                             int64_t rows, int64_t cols);
// act(beta c + bias) for every element: what is left of the problem without a product.
Status gemm_without_product(const Launch<Gemm>& l);

Kernel<Gemm> gemm_blocked_row();
Kernel<Gemm> gemm_onednn_row();

}  // namespace baracuda
