#pragma once
// Products x w^T of bf16 by Hopper's tensor cores (gemm_sm90.cuh) with the losses' arithmetic between the sums and c.
#include "baracuda/ops/gemm/gemm_sm90.hpp"
#include "baracuda/ops/loss/loss_cuda.hpp"

namespace baracuda {

inline constexpr int kFusedColumns = 256;  // classes of a tile
struct alignas(8) FusedPart { float most, sum; };                    // the largest logit of a tile's columns; of exp(x - it)
struct alignas(16) FusedSlope { float factor, uniform, most, hit; };  // of a row's gradient: factor exp(x - most) + uniform, and at the target
// The logits of rows that are kept, and of `g.n` classes from first_class on. Row i of x is token kept.of[first + i]. by_row: arrays by i + first.
struct FusedProduct {
  GemmSm90 g;              // c: of logits or gradients, or none
  int64_t first_class;
  const float* bias;       // of the g.n classes, or null
  double softcap;
  const int* target;       // by row
  // Of statistics.
  FusedPart* parts;        // [tile][row]
  float* totals;           // likewise, of x - the largest, which is 0 where that is -inf; null: not wanted
  float* at_target;        // by row
  // Of gradients.
  const FusedSlope* slopes;  // by row
};
// dw of the chunk that is last, which leaves the f32 sums: g.c, of bf16, is what g says of a sum that is kept in `sums`, rounded.
struct FusedLast {
  GemmSm90 g;  // of kTerms
  const float* sums;
  int64_t sums_pitch;
};
// From the parts of all classes to the losses, and to what gradients need.
struct FusedJoin {
  LossCudaRows rows;       // t, first, rows, kept, smoothing, z, softcap, loss, z_part
  int64_t stride;          // of parts
  const FusedPart* parts;
  const float *totals, *at_target;
  FusedSlope* slopes;      // null: the loss alone
};
struct FusedProductKernels {
  int (*logits)(const FusedProduct&, void* stream);      // c = logits with bias and cap
  int (*statistics)(const FusedProduct&, void* stream);  // no c
  int (*gradients)(const FusedProduct&, void* stream);   // c = gradients of logits; in rows up to the next multiple of kKeptRows 0
  int (*join)(const FusedJoin&, void* stream);
  int (*last)(const FusedLast&, void* stream);
};
extern const FusedProductKernels fused_product_kernels;

}  // namespace baracuda
