#pragma once
// Matrix products by cuBLASLt, in its terms: column-major, d = alpha op(a) op(b) + beta d (+ bias over the rows of d). The library
// is looked for when it is first needed; without it everything else of the CUDA half works. Only schemes whose bits repeat are
// asked for: one pass over k, or partial sums that are kept in the workspace and added in order.
#include "baracuda/core/device.hpp"
#include "baracuda/core/dtype.hpp"

namespace baracuda::cublaslt {

struct Product {
  DType in, out;                    // f16, bf16 to itself or f32, f32, f64; sums in f32, f64 for f64
  bool tf32, bias;                  // bias: m values of `in` (f16, bf16 or f32, and out is the same)
  int64_t m, n, k;
  bool trans_a, trans_b;            // a is [k, m], b is [n, k]
  int64_t lda, ldb, ldd;
  int64_t batch, stride_a, stride_b, stride_d;
  int alignment;                    // bytes that divide every address and pitch; 16 at most
};
// Which of the library's kernels, and how; plain data.
struct Algorithm {
  uint64_t data[8];
  uint64_t workspace;
};
struct Operands { const void *a, *b; void* d; const void* bias; };

// Why there is no library on this machine; empty where there is.
std::string missing();
// The library's first choice. No memory of the device is touched.
Result<Algorithm> choose(const Stream& stream, const Product& p, uint64_t most_workspace);
Status multiply(const Stream& stream, const Product& p, const Algorithm& how, double alpha, double beta, const Operands& o, void* workspace);

}  // namespace baracuda::cublaslt
