#pragma once
// Matrix products of blocks that fit the caches: C (+)= A B, the inner part of the blocked GEMM and of attention.
// Plain structs and function pointers, compiled once per instruction set (gemm_tile_cpu.cpp); no allocation, no threads.
//
//   C[i][j] = (accumulate ? C[i][j] : 0) + sum over k of A[i][k] B[k][j],   i < m, j < n, any m, n, k >= 0.
//
// How to use it:
//   const TileKernel& t = gemm_tiles().of[DType::bf16];          // baseline code: the best set of this processor
//   TileA a = t.pack_a({q, ldq, 1, m, k}, a_scratch);            // a_scratch: t.a_bytes(m, k), 64-byte aligned
//   TileB b = t.pack_b({key, ldk, 1, n, k}, b_scratch);          // b_scratch: t.b_bytes(n, k), 64-byte aligned
//   t.tile({m, n, t.groups(k), a, b, c, ldc, false});            // c: float (double for f64), unit column stride
// Code that itself is compiled per instruction set takes a `const TileKernel*` from its caller.
//
// Packing. `packed` is the type that the tile multiplies: f32 for f32 and f16, f64 for f64, and for bf16 either bf16
// (AVX512_BF16 processors, in groups of 2 successive k) or f32. PackSource{p, outer, k_stride, outer_n, k_n} reads
// element (o, k) at p[o * outer + k * k_stride], where o is a row of A or a column of B; any strides, the fast ones are
// outer == 1 and k_stride == 1. pack_a and pack_b read the kernel's own dtype; pack_a_acc and pack_b_acc read
// the accumulator's type (float; double for f64) and round to `packed`: for operands that were just computed,
// such as the probabilities of attention.
//
// Without packing. An operand that is already of type `packed` with k_group == 1 may be used where it lies:
//   TileA{p, row, k, mr * row}      any strides; best when k == 1 (rows) or row == 1 (columns)
//   TileB{p, k, nr}                 unit column stride, row stride k: a plain row-major matrix
// For k_group == 2, A may be used where it lies if its k stride is 1 and k is even: TileA{p, row, 2, mr * row}; and where pairs
// of k of its rows lie side by side: TileA{p, 2, k, mr * 2}. With `dense_rows` the former is the faster one, and what pack_a makes.
//
// Numerics. Each C[i][j] is one chain of fused multiply-adds over ascending k that starts at zero, and with
// `accumulate` that sum is added to C at the end (`goes_on`: the chain starts at C); so its bits depend on row i, column j and
// k alone, not on m, n, the position in a panel or the packing. f32 and f64 agree between AVX2 and AVX-512; the portable unit multiplies and adds
// separately. The bf16 instruction adds the odd k of a group first, then the even, and takes subnormal operands and sums as zero.
// AMX, from the first k on, adds the even of 32 k and the odd, then both to the sum; zeros before and behind in such a 32
// change nothing.
// Nothing past row m, column n or group k is read or written; NaN and infinities act as in the formula.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

struct TileA {
  const void* p;
  int64_t row, k;   // elements from one row to the next; from one group of k to the next
  int64_t panel;    // from one panel of mr rows to the next
};
struct TileB {
  const void* p;
  int64_t k;        // elements from one group of k to the next; columns lie side by side
  int64_t panel;    // from one panel of nr columns to the next
};
struct TileParams {
  int64_t m, n, groups;  // groups: ceil(k / k_group)
  TileA a;
  TileB b;
  void* c;
  int64_t c_row;         // elements
  bool accumulate;
};
struct PackSource {
  const void* p;
  int64_t outer, k_stride;  // strides in elements, any sign
  int64_t outer_n, k_n;
};

struct TileKernel {
  DType packed;
  int mr, nr, k_group;
  int element_bytes;
  void (*tile)(const TileParams&);
  TileA (*pack_a)(const PackSource&, void* out);
  TileB (*pack_b)(const PackSource&, void* out);
  TileA (*pack_a_acc)(const PackSource&, void* out);
  TileB (*pack_b_acc)(const PackSource&, void* out);
  bool goes_on = false;
  bool dense_rows = false;
  void (*hold)(bool) = nullptr;                        // see HeldTiles
  void (*tile_held)(const TileParams&) = nullptr;

  constexpr int64_t groups(int64_t k) const { return (k + k_group - 1) / k_group; }
  constexpr int64_t a_bytes(int64_t m, int64_t k) const {  // rows are kept 64 bytes apart from a power of two
    const int64_t rows = (m + mr - 1) / mr * mr;
    return (rows * (groups(k) * k_group * element_bytes + 64) + 63) / 64 * 64;
  }
  constexpr int64_t b_bytes(int64_t n, int64_t k) const {
    return ((n + nr - 1) / nr * nr * groups(k) * k_group * element_bytes + 63) / 64 * 64;
  }
};

// A kernel many of whose products follow one another on this thread: what they share, such as the tiles' extents of AMX, is set up once.
// Inlined, since units of several instruction sets hold some.
class HeldTiles {
 public:
  __attribute__((always_inline)) explicit HeldTiles(const TileKernel& t) : kernel(t), hold_(t.hold) {
    if (hold_) hold_(true), kernel.tile = t.tile_held;
  }
  __attribute__((always_inline)) ~HeldTiles() { if (hold_) hold_(false); }
  HeldTiles(const HeldTiles&) = delete;
  TileKernel kernel;

 private:
  void (*hold_)(bool);
};

struct GemmTiles {
  ByDType<TileKernel> of;  // f16, bf16, f32, f64
};
BARACUDA_ISA_TABLE_BF16(GemmTiles, gemm_tiles_table)
// Follows isa() and has_amx() at each call: baseline code only.
const GemmTiles& gemm_tiles();

}  // namespace baracuda
