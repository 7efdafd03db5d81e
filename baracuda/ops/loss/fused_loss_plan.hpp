#pragma once
// What the rows of fused linear cross entropy decide before there is data, on any device: types, chunk, products, scratch.
#include "baracuda/ops/gemm/gemm.hpp"
#include "baracuda/ops/loss/fused_linear_cross_entropy.hpp"
#include "baracuda/ops/loss/fused_product.hpp"

namespace baracuda::fused_loss {

using D = FusedLinearCrossEntropyDescriptor;

// The types that follow from those of x and w.
struct Types {
  DType acc, logits_in, dlogits;  // logits_in: operands of the first product; dlogits: operands of the other two
  explicit Types(const D& d)
      : acc(accumulator(d.dtype)), logits_in(d.weight() == d.dtype ? d.dtype : acc),
        dlogits(d.dtype == DType::bf16 && d.weight() == DType::bf16 ? DType::bf16 : acc) {}
};
inline bool any_gradient(const D& d) { return d.grad_x || d.grad_w || d.grad_bias; }
inline bool dw_is_sum(const D& d) { return d.weight_gradient() == accumulator(d.dtype); }  // dw itself holds the sums
// x as it is, and x widened, as operands of a product.
inline bool uses_x(const D& d) { return Types(d).logits_in == d.dtype || (d.grad_w && Types(d).dlogits == d.dtype); }
inline bool uses_wide_x(const D& d) {
  const Types t(d);
  return t.acc != d.dtype && (t.logits_in == t.acc || (d.grad_w && t.dlogits == t.acc));
}
// dx = dlogits w needs w in the type of dlogits: where it has another, blocks of rows of w are widened one by one.
inline bool widens_w(const D& d) { return d.grad_x && Types(d).dlogits != d.weight(); }
int64_t w_block(const D& d);
inline DType dx_out(const D& d) { return Types(d).dlogits == d.dtype ? d.dtype : Types(d).acc; }

// The products for pieces of so many rows.
struct Products {
  int64_t rows;
  std::optional<GemmPlan> logits, dw_first, dw_more, dx_first, dx_more, dx_last;
};
struct State : FusedLossChunk {
  std::vector<Products> pieces;  // by rows, most first
  int64_t most_rows = 0, pitch = 0;
  DType logits = DType::f32;
  // Where there is no room for sums of dw: chunks give dx and lse, then the logits of a slice of the classes for all tokens give its dw.
  int64_t slice = 0, slice_pitch = 0;
  std::vector<Products> slices;  // by classes
  // Where dw, which is rounded from sums at the end, holds the logits of larger chunks meanwhile: their rows. Only if its rows lie one behind the other.
  int64_t rows_in_dw = 0;
  std::vector<Products> pieces_in_dw;
  bool kept = false;        // CUDA: rows that count are gathered, and products go by their number
  bool fused = false;       // and with slices: logits are not stored, their gradients are, and dx is summed in f32 over the slices
  bool dw_at_once = false;  // one product makes dw, and rounds it
  uint64_t gemm_bytes = 0;
};
// The chunk, where it is not given. CPU: the rule, raised up to so many rows while their logits take at most so many bytes, and halved
// until the preference's workspace is met. CUDA: chunks of one size, as few as these limits and the workspace allow, or slices where
// chunks would have less than least_rows. rounded: logits have the type of their gradient, which takes their place.
// kept: for the rows that count, in chunks. fused: for them all, in slices.
struct ChunkLimits { int64_t rows, logits_bytes; bool rounded = false; int64_t least_rows = 0; bool kept = false, fused = false; };
Result<PlanState> prepare(const Stream& stream, const D& d, const PlanPreference& preference, ChunkLimits limits);

struct Scratch {
  double *loss, *z_part, *dbias, *factor, *total;
  int64_t *kept, *count;
  int* target;               // of rows that are kept
  float* at_target;
  FusedSlope* slopes;
  void *bias, *logits, *x, *wide_x, *dx, *dw, *wide_w, *lse;
  Workspace gemm;
};
Scratch carve(const D& d, const State& s, DeviceKind device, Carver& c);

std::string refuse_types(const D& d);
PrecisionGuarantee guarantee(const D& d);

// Rows whose statistics fit where slices will be.
int64_t statistics_rows(const D& d, const State& s);
// The same in rows of dw that are not written yet, which lie one behind the other: whether the statistics of all rows fit, and how many classes from `first` on are
// a slice whose gradients fit in the rows of dw behind it; 0 where that is fewer than the scratch holds.
bool statistics_fit_dw(const D& d);
struct Slice { int64_t classes, pitch; };
Slice slice_in_dw(const D& d, const State& s, int64_t first);
inline constexpr int64_t kAlignInDw = 256;

inline TensorView matrix(const void* p, DType t, int64_t rows, int64_t n, int64_t pitch, Device device = {}) {
  return {const_cast<void*>(p), t, device, {rows, n}, {pitch, 1}};
}
inline char* row_at(const TensorView& v, int64_t i) { return v.as<char>() + i * v.strides[0] * int64_t(byte_size(v.dtype)); }

}  // namespace baracuda::fused_loss
