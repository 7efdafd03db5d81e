#pragma once
// The product of gemm_tile.hpp for few rows of A, with the same bits: C[i][j] (+)= sum over k of A[i][k] B[k][j], one chain
// over ascending k. B is read once, where it lies, and is not packed: for few rows packing costs more than the product.
//
//   const FewKernel& f = gemm_few().of[DType::bf16];
//   if (m <= f.rows && f.reads(b.outer, b.k_stride)) f.run({m, a, b, c, c_row, accumulate});
//
// a: packed by TileKernel::pack_a of the same set, or in place as told there; one panel, so m is at most TileKernel::mr.
// b: as for TileKernel::pack_b, with outer == 1 (columns side by side) or k_stride == 1 (each column dense).
// The portable set has no such kernel: rows is 0.
#include "baracuda/host/gemm_tile.hpp"

namespace baracuda {

struct FewParams {
  int64_t m;
  TileA a;
  PackSource b;
  void* c;         // accumulator's type, unit column stride
  int64_t c_row;
  bool accumulate;
};
struct FewKernel {
  int rows = 0;
  void (*run)(const FewParams&) = nullptr;
  constexpr bool reads(int64_t outer, int64_t k_stride) const { return run && (outer == 1 || k_stride == 1); }
};
struct GemmFew {
  ByDType<FewKernel> of;  // f16, bf16, f32, f64
};
BARACUDA_ISA_TABLE_BF16(GemmFew, gemm_few_table)
const GemmFew& gemm_few();

}  // namespace baracuda
