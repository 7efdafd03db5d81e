#include "baracuda/ops/norm/norm.hpp"
#include "baracuda/ops/norm/norm_detail.hpp"

namespace baracuda {
namespace {

using namespace norm_detail;

Status validate_common(std::string_view op, const RmsNormDescriptor& d) {
  BARACUDA_TRY(expect_shape(op, "shape", d.shape, 1));
  if (!valid_enum(d.weight)) return invalid(op, text("weight ", int(d.weight), " is not a weight mode"));
  if (!valid_enum(d.cast)) return invalid(op, text("cast ", int(d.cast), " is not a cast order"));
  return validate_numbers(op, d);
}
Shape weight_shape(const RmsNormDescriptor& d) { return {d.shape.last()}; }

Status expect_rows(std::string_view op, std::string_view arg, const TensorView& v, const RmsNormDescriptor& d) {
  if (v.absent()) return {};
  BARACUDA_TRY(expect(op, arg, v, d.dtype, d.shape));
  return expect_dense_rows(op, arg, v);
}
Status check_weight(std::string_view op, const TensorView& weight, const RmsNormDescriptor& d) {
  if (weight.absent() != (d.weight == NormWeight::none))
    return invalid(op, text("weight is ", weight.absent() ? "missing" : "given", ", the descriptor says weight = ", enum_name(d.weight)));
  return weight.absent() ? Status() : expect(op, "weight", weight, weight_dtype(d), weight_shape(d));
}
Status check_rstd(std::string_view op, const TensorView& rstd, const RmsNormDescriptor& d) {
  return expect_statistic(op, "rstd", rstd, d.dtype, outer_axes(d.shape));
}

void* carve_weight(const RmsNormDescriptor& d, Carver& c) {
  return c.take_bytes("weight", d.shape.last(), byte_size(accumulator(d.dtype)));
}

// --- rows in pieces
bool in_pieces(const RmsNormDescriptor& d, bool backward) { return norm_detail::in_pieces(d.shape.rows(), d.shape.last(), backward); }
struct Pieces {
  PieceBuffer weight, dweight;
  double* sums;  // of every piece of every row
  RmsNormKnown* known;
  int64_t count;
  Pieces(const RmsNormDescriptor& d, Carver& c)
      : weight("weight of pieces", d.dtype, c), dweight("dweight of pieces", d.dtype, c), count((d.shape.last() + kRowPiece - 1) / kRowPiece) {
    sums = c.take<double>("sums of pieces", count * d.shape.rows()), known = c.take<RmsNormKnown>("sums of rows", d.shape.rows());
  }
  double& sum(int64_t row, int64_t first) const { return sums[row * count + first / kRowPiece]; }
  double total(int64_t row) const {
    double s = 0;
    for (int64_t k = 0; k < count; ++k) s += sums[row * count + k];
    return s;
  }
};
Status run_forward_in_pieces(const Launch<RmsNorm>& l) {
  const RmsNormDescriptor& d = l.desc;
  const RmsNorm::Args& a = l.args;
  const NormKernels& kernels = BARACUDA_ISA_PICK_BF16(norm_kernels);
  const int64_t n = d.shape.last();
  Carver c = l.carver();
  const Pieces pieces(d, c);
  const RowWalk<5> walk(outer_axes(d.shape), {&a.x, &a.residual, &a.y, &a.residual_out, &a.rstd});
  const TensorView &h = a.residual.absent() ? a.x : a.residual_out.absent() ? a.y : a.residual_out;
  const int h_at = a.residual.absent() ? 0 : a.residual_out.absent() ? 2 : 3;
  const bool cast_first = d.cast == NormCast::before_weight, past = a.y.data != h.data && past_caches(a.y, a.residual.data);
  each_piece(n, l.threads, [&](int64_t first, int64_t m, int) {
    each_row(walk, [&](int64_t row, const int64_t (&o)[5]) {
      pieces.sum(row, first) = kernels.squares[d.dtype]({at(a.x, o[0] + first), at(a.residual, o[1] + first), at(a.y, o[2] + first), at(a.residual_out, o[3] + first),
                                                         nullptr, nullptr, 0, 0, 0, 0, 0, 1, m, d.eps, cast_first, false});
    });
  });
  each_row(walk, [&](int64_t row, const int64_t (&o)[5]) {
    const double rstd = kernels.inverse_rms[d.dtype](pieces.total(row), at(h, o[h_at]), n, d.eps);
    pieces.known[row] = {rstd, 0, n};
  });
  each_piece(n, l.threads, [&](int64_t first, int64_t m, int worker) {
    const void* weight = taken_vector(d.dtype, piece_of(a.weight, first, m), 1, pieces.weight.of(worker), m, 1, d.weight, lies_dealt(d.dtype));
    each_row(walk, [&](int64_t row, const int64_t (&o)[5]) {
      kernels.forward[d.dtype]({at(h, o[h_at] + first), nullptr, at(a.y, o[2] + first), nullptr, first ? nullptr : at(a.rstd, o[4]), weight, 0, 0, 0, 0, 0, 1, m,
                                d.eps, cast_first, past, &pieces.known[row]});
    });
  });
  return {};
}
Status run_backward_in_pieces(const Launch<RmsNormBackward>& l) {
  const RmsNormDescriptor& d = l.desc;
  const RmsNormBackward::Args& a = l.args;
  const NormKernels& kernels = BARACUDA_ISA_PICK_BF16(norm_kernels);
  const int64_t n = d.shape.last();
  Carver c = l.carver();
  const Pieces pieces(d, c);
  const RowWalk<5> walk(outer_axes(d.shape), {&a.dy, &a.x, &a.dresidual_out, &a.rstd, &a.dx});
  if (a.rstd.absent())
    each_piece(n, l.threads, [&](int64_t first, int64_t m, int) {
      each_row(walk, [&](int64_t row, const int64_t (&o)[5]) {
        pieces.sum(row, first) = kernels.squares[d.dtype]({.x = at(a.x, o[1] + first), .rows = 1, .n = m});
      });
    });
  each_row(walk, [&](int64_t row, const int64_t (&o)[5]) {
    const auto saved = [&] { return d.dtype == DType::f64 ? a.rstd.as<double>()[o[3]] : double(a.rstd.as<float>()[o[3]]); };
    pieces.known[row] = {a.rstd.absent() ? kernels.inverse_rms[d.dtype](pieces.total(row), at(a.x, o[1]), n, d.eps) : saved(), 0, n};
  });
  const auto rows_of = [&](int64_t row, const int64_t (&o)[5], int64_t first, int64_t m, const void* weight, void* dweight, bool past) -> RmsNormBackwardRows {
    return {at(a.dy, o[0] + first), at(a.x, o[1] + first), at(a.dresidual_out, o[2] + first), nullptr, at(a.dx, o[4] + first), dweight, weight, 0, 0, 0, 0, 0, 1, m,
            d.eps, d.cast == NormCast::before_weight, past, &pieces.known[row]};
  };
  const auto weight_of = [&](int64_t first, int64_t m, int worker) {
    return taken_vector(d.dtype, piece_of(a.weight, first, m), 1, pieces.weight.of(worker), m, 1, d.weight, lies_dealt(d.dtype));
  };
  each_piece(n, l.threads, [&](int64_t first, int64_t m, int worker) {
    const void* weight = weight_of(first, m, worker);
    each_row(walk, [&](int64_t row, const int64_t (&o)[5]) { pieces.sum(row, first) = kernels.dot[d.dtype](rows_of(row, o, first, m, weight, nullptr, false)); });
  });
  for (int64_t row = 0; row < walk.rows; ++row) pieces.known[row].dot = pieces.total(row);
  const bool past = a.dx.data != a.dy.data && a.dx.data != a.dresidual_out.data && past_caches(a.dx, a.x.data);
  each_piece(n, l.threads, [&](int64_t first, int64_t m, int worker) {
    const void* weight = weight_of(first, m, worker);
    void* dweight = pieces.dweight.zeroed(a.dweight, worker);
    each_row(walk, [&](int64_t row, const int64_t (&o)[5]) { kernels.backward[d.dtype](rows_of(row, o, first, m, weight, dweight, past)); });
    pieces.dweight.fold_into(a.dweight, d.dtype, first, m, worker, lies_dealt(d.dtype));
  });
  return {};
}

// --- forward
void carve_forward(const RmsNormDescriptor& d, const void*, Carver& c) {
  if (in_pieces(d, false)) Pieces(d, c);
  else carve_weight(d, c);
}
Status run_forward(const Launch<RmsNorm>& l) {
  const RmsNormDescriptor& d = l.desc;
  const RmsNorm::Args& a = l.args;
  const int64_t n = d.shape.last();
  if (d.shape.numel() == 0) {  // rows without elements still have an rstd: the mean of nothing is NaN
    if (n == 0) fill_nan(a.rstd);
    return {};
  }
  if (in_pieces(d, false)) return run_forward_in_pieces(l);
  Carver c = l.carver();
  const void* weight = taken_vector(d.dtype, a.weight, 1, carve_weight(d, c), n, l.threads, d.weight, lies_dealt(d.dtype));
  const RowWalk<5> walk(outer_axes(d.shape), {&a.x, &a.residual, &a.y, &a.residual_out, &a.rstd});
  const auto kernel = BARACUDA_ISA_PICK_BF16(norm_kernels).forward[d.dtype];
  const bool past = a.y.data != a.x.data && (a.residual.absent() || !a.residual_out.absent()) && past_caches(a.y, a.residual.data);
  parallel_for(walk.rows, long_grain(walk.rows, n, l.threads), l.threads, [&](int64_t begin, int64_t end, int) {
    walk.runs(begin, end, [&](const int64_t (&o)[5], int64_t, int64_t rows) {
      kernel({at(a.x, o[0]), at(a.residual, o[1]), at(a.y, o[2]), at(a.residual_out, o[3]), at(a.rstd, o[4]), weight, walk.pitch(0),
              walk.pitch(1), walk.pitch(2), walk.pitch(3), walk.pitch(4), rows, n, d.eps, d.cast == NormCast::before_weight, past});
    });
  });
  return {};
}

// --- backward: a block of rows sums its part of dweight in the accumulator type.
int64_t block_count(const RmsNormDescriptor& d) { return d.shape.numel() ? norm_detail::block_count(d.shape.rows(), d.shape.last()) : 0; }
void* carve_partials(const RmsNormDescriptor& d, Carver& c) {
  return c.take_bytes("dweight partial sums", d.weight == NormWeight::none ? 0 : block_count(d) * d.shape.last(), byte_size(accumulator(d.dtype)));
}
void carve_backward(const RmsNormDescriptor& d, const void*, Carver& c) {
  if (in_pieces(d, true)) Pieces(d, c);
  else carve_weight(d, c), carve_partials(d, c);
}

Status run_backward(const Launch<RmsNormBackward>& l) {
  const RmsNormDescriptor& d = l.desc;
  const RmsNormBackward::Args& a = l.args;
  const NormKernels& kernels = BARACUDA_ISA_PICK_BF16(norm_kernels);
  if (in_pieces(d, true)) return run_backward_in_pieces(l);
  Carver c = l.carver();
  void* spread = carve_weight(d, c);
  const bool wanted = !a.dweight.absent();
  char* partial = wanted ? static_cast<char*>(carve_partials(d, c)) : nullptr;
  const int64_t n = d.shape.last(), block = block_rows(d.shape.rows(), n), blocks = block_count(d);
  const int64_t row_bytes = n * int64_t(byte_size(accumulator(d.dtype)));
  if (blocks) {
    const void* weight = taken_vector(d.dtype, a.weight, 1, spread, n, l.threads, d.weight, lies_dealt(d.dtype));
    const bool past = a.dx.data != a.dy.data && a.dx.data != a.dresidual_out.data && past_caches(a.dx, a.x.data);
    const RowWalk<5> walk(outer_axes(d.shape), {&a.dy, &a.x, &a.dresidual_out, &a.rstd, &a.dx});
    parallel_for(walk.rows, block, l.threads, [&](int64_t begin, int64_t end, int) {
      void* dweight = wanted ? partial + begin / block * row_bytes : nullptr;
      if (wanted) std::memset(dweight, 0, size_t(row_bytes));
      walk.runs(begin, end, [&](const int64_t (&o)[5], int64_t, int64_t rows) {
        kernels.backward[d.dtype]({at(a.dy, o[0]), at(a.x, o[1]), at(a.dresidual_out, o[2]), at(a.rstd, o[3]), at(a.dx, o[4]), dweight, weight,
                                   walk.pitch(0), walk.pitch(1), walk.pitch(2), walk.pitch(3), walk.pitch(4), rows, n, d.eps,
                                   d.cast == NormCast::before_weight, past});
      });
    });
  }
  if (wanted) fold_rows(accumulator(d.dtype), partial, blocks, n, a.dweight, l.threads, lies_dealt(d.dtype));
  return {};
}

}  // namespace

Status RmsNorm::validate(const Descriptor& d) { return validate_common(name, d); }
Status RmsNorm::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_rows(name, "x", a.x, d));
  BARACUDA_TRY(check_weight(name, a.weight, d));
  BARACUDA_TRY(expect_rows(name, "residual", a.residual, d));
  BARACUDA_TRY(expect_rows(name, "y", a.y, d));
  BARACUDA_TRY(expect_rows(name, "residual_out", a.residual_out, d));
  if (a.residual.absent() && !a.residual_out.absent()) return invalid(name, "residual_out is given, but no residual");
  return check_rstd(name, a.rstd, d);
}
std::span<const Kernel<RmsNorm>> RmsNorm::kernels() {
  static constexpr Kernel<RmsNorm> list[] = {{.name = "rms_norm.cpu.row",
                                              .launch = launch_all<RmsNorm>(Floating{}, run_forward),
                                              .guarantee = guarantee,
                                              .carve = carve_forward}};
  return list;
}

Status RmsNormBackward::validate(const Descriptor& d) { return validate_common(name, d); }
Status RmsNormBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_rows(name, "dy", a.dy, d));
  BARACUDA_TRY(expect_rows(name, "x", a.x, d));
  BARACUDA_TRY(check_weight(name, a.weight, d));
  BARACUDA_TRY(check_rstd(name, a.rstd, d));
  BARACUDA_TRY(expect_rows(name, "dresidual_out", a.dresidual_out, d));
  BARACUDA_TRY(expect_rows(name, "dx", a.dx, d));
  if (a.dweight.absent()) return {};
  if (d.weight == NormWeight::none) return invalid(name, "dweight is given, the descriptor says weight = none");
  return expect(name, "dweight", a.dweight, weight_dtype(d), weight_shape(d));
}
std::span<const Kernel<RmsNormBackward>> RmsNormBackward::kernels() {
  static constexpr Kernel<RmsNormBackward> list[] = {{.name = "rms_norm_backward.cpu.row",
                                                      .launch = launch_all<RmsNormBackward>(Floating{}, run_backward),
                                                      .guarantee = guarantee,
                                                      .carve = carve_backward}};
  return list;
}

}  // namespace baracuda
