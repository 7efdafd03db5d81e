#pragma once
// Prefix scans along one axis, and their gradients.
//   y_i = x_0 op ... op x_i   (exclusive: without x_i; the first is the identity)
// in scan order, which `reverse` turns to begin at the end of the axis. op: +, *, max, min, log(exp a + exp b).
//
// Shapes: x, y and indices have `shape`, rank 0 to 8; any strides, zero and negative ones for inputs too. Empty shapes are
// served. Dtypes: floats f16 bf16 f32 f64 for every kind; integers and bool for all but logcumsumexp. cumsum and cumprod of
// integers and bool give i64 (u64 for u64) and wrap; every other y has the dtype of x.
// Identity (the first of an exclusive scan): 0, 1, -inf or the dtype's least, inf or its greatest, -inf.
// Ties and NaN: NaN wins and stays. indices are positions along the axis (i64) of the element that y_i is; among equal ones,
// which NaNs are too, the last in scan order, or the first with ties = first; -1 where an exclusive scan is still empty.
// In place: y may be x where the strides and the dtype are equal.
// Numerics: cumsum in f64 for f32 and f64, in f32 for halves; cumprod in f64; logcumsumexp in f32 (f64 for f64), carries in
// f64; cummax and cummin are exact. The order is a tree of the axis' length alone (groups of 8 or 16 by
// Sklansky's network, groups of a block of 1024 in order, blocks in order), the same for rows and columns and
// any number of threads. Workspace: only where there are fewer lanes than 1024 per thread; carries of blocks.
// CUDA has orders of its own, one for rows and one for columns, and other workspace: see scan.md.
// Guarantee: deterministic, batch invariant, same bits for any instruction set.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

enum class ScanKind : uint8_t { cumsum, cumprod, cummax, cummin, logcumsumexp };
constexpr std::array<std::string_view, 5> enum_names(ScanKind) { return {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"}; }
enum class ScanTies : uint8_t { last, first };
constexpr std::array<std::string_view, 2> enum_names(ScanTies) { return {"last", "first"}; }

struct ScanDescriptor {
  ScanKind kind = ScanKind::cumsum;
  DType dtype = DType::f32;
  Shape shape;
  int axis = -1;
  bool reverse = false;
  bool exclusive = false;
  ScanTies ties = ScanTies::last;
  static constexpr auto fields() {
    using D = ScanDescriptor;
    return std::tuple(field("kind", &D::kind, "what is accumulated"), field("dtype", &D::dtype, "of x"), field("shape", &D::shape, "of x and y"),
                      field("axis", &D::axis, "the axis that is scanned; negative counts from the end"),
                      field("reverse", &D::reverse, "from the end of the axis to its beginning"),
                      field("exclusive", &D::exclusive, "y_i leaves x_i out"),
                      field("ties", &D::ties, "which of equal elements cummax and cummin point to, in scan order"));
  }
};

struct Scan {
  static constexpr std::string_view name = "scan", category = "scan", summary = "running sum, product, maximum, minimum, log-sum-exp along an axis";
  using Descriptor = ScanDescriptor;
  struct Args {
    TensorView x, y, indices;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out),
                        arg("indices", &Args::indices, Role::optional_out, "of cummax and cummin, i64"));
    }
  };
  // i64 for sums and products of bool and integers (u64 for u64), else dtype.
  static DType y_dtype(const Descriptor&);
  static DType aux_dtype(const Descriptor& d) { return y_dtype(d); }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor& d, std::string_view out, std::string_view in) { return out == "y" && in == "x" && y_dtype(d) == d.dtype; }
  static std::span<const Kernel<Scan>> kernels();
};
using ScanPlan = Plan<Scan>;

// dx_j = the sum over i of dy_i times the derivative of y_i by x_j, each kind by one recurrence of O(n):
//   cumsum        the scan of dy from the other end
//   cumprod       P_j R_j, R_j = dy_j + x_(j+1) R_(j+1), P_j the product before j: x is never divided by, so zeros are exact; in
//                 f64, so that products beyond f32 on the way do no harm. A factor that has overflowed counts as 0 beside a factor 0.
//                 x of f64 has no range to spare: P_j, R_j and the products of neighbours that they are made of must stay in f64
//                 themselves, else dx_j is 0 or infinite even where P_j R_j is neither
//   cummax, cummin  dy_i goes to the element that y_i is, by the indices of the forward (whatever its tie rule was)
//   logcumsumexp  the sum over i of dy_i exp(x_j - y_i); x_j = -inf gets 0; where y_i is +inf, dy_i goes to the last +inf up to i
// reads() says which tensors of the forward a kind reads; the others may be given and are not looked at. Floats only; shapes,
// strides, workspace (for cumprod 8 bytes more per 64 elements) and guarantee as above; ties is not looked at. Sums are kept
// in f64 (cumsum of halves in f32; logcumsumexp adds 64 elements in f32 for other than f64).
// In place: dx may be dy, x or y where the strides are equal and the scan is not exclusive.
struct ScanBackward {
  static constexpr std::string_view name = "scan_backward", category = "scan", summary = "gradient of scan";
  using Descriptor = ScanDescriptor;
  struct Args {
    TensorView dy, x, y, indices, dx;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("x", &Args::x, Role::optional_in, "read by cumprod and logcumsumexp"),
                        arg("y", &Args::y, Role::optional_in, "of the forward; read by logcumsumexp"),
                        arg("indices", &Args::indices, Role::optional_in, "of the forward; read by cummax and cummin"), arg("dx", &Args::dx, Role::out));
    }
  };
  struct Reads { bool x, y, indices; };
  static constexpr Reads reads(ScanKind k) {
    return {k == ScanKind::cumprod || k == ScanKind::logcumsumexp, k == ScanKind::logcumsumexp, k == ScanKind::cummax || k == ScanKind::cummin};
  }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor& d, std::string_view out, std::string_view in) { return out == "dx" && in != "indices" && !d.exclusive; }
  static std::span<const Kernel<ScanBackward>> kernels();
};
using ScanBackwardPlan = Plan<ScanBackward>;

}  // namespace baracuda
