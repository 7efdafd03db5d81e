#include <cstring>
#include "baracuda/host/row_sum.hpp"
#include "baracuda/ops/norm/layer_norm_detail.hpp"
#include "baracuda/ops/norm/standardized_detail.hpp"

namespace baracuda {
namespace {

using namespace norm_detail;
using namespace layer_norm_detail;

Status validate_common(std::string_view op, const LayerNormDescriptor& d) {
  BARACUDA_TRY(expect_shape(op, "shape", d.shape, 1));
  if (d.axes < 1 || d.axes > d.shape.rank) return invalid(op, text("axes ", d.axes, " must be in [1, ", d.shape.rank, "], the rank of ", d.shape));
  return validate_numbers(op, d);
}
Status expect_rows(std::string_view op, std::string_view arg, const TensorView& v, const LayerNormDescriptor& d) {
  BARACUDA_TRY(expect(op, arg, v, d.dtype, d.shape));
  int64_t step = 1;
  for (int i = d.shape.rank - 1; v.numel() > 0 && i >= d.shape.rank - d.axes; --i) {
    if (d.shape[i] > 1 && v.strides[i] != step)
      return {Code::unsupported, text(op, ": ", arg, " has stride ", v.strides[i], " along axis ", i, ", the normalised axes must be dense (stride ", step, ")")};
    step *= d.shape[i];
  }
  return {};
}
Status expect_weight(std::string_view op, std::string_view arg, const TensorView& v, const LayerNormDescriptor& d) {
  if (v.absent()) return {};
  BARACUDA_TRY(expect(op, arg, v, weight_dtype(d), inner(d)));
  if (!v.contiguous()) return {Code::unsupported, text(op, ": ", arg, " has strides ", v.strides, ", it must be dense")};
  return {};
}
Status expect_statistic(std::string_view op, std::string_view arg, const TensorView& v, const LayerNormDescriptor& d) {
  return norm_detail::expect_statistic(op, arg, v, d.dtype, outer(d));
}

void* carve_weight(const LayerNormDescriptor& d, Carver& c) { return c.take_bytes("weight", length(d), byte_size(accumulator(d.dtype))); }
void* carve_bias(const LayerNormDescriptor& d, Carver& c) { return c.take_bytes("bias", length(d), byte_size(accumulator(d.dtype))); }

// --- rows in pieces
bool in_pieces(const LayerNormDescriptor& d, bool backward) { return norm_detail::in_pieces(rows_of(d), length(d), backward); }
struct Pieces {
  PieceBuffer weight, other, dweight;  // other: the bias, or its gradient
  ChunkSums* sums;                     // of every chunk of every row
  LayerNormKnown* known;
  int64_t chunks;
  Pieces(const LayerNormDescriptor& d, Carver& c)
      : weight("weight of pieces", d.dtype, c), other("bias of pieces", d.dtype, c), dweight("dweight of pieces", d.dtype, c), chunks(sum_chunks(length(d))) {
    sums = c.take<ChunkSums>("sums of chunks", chunks * rows_of(d)), known = c.take<LayerNormKnown>("sums of rows", rows_of(d));
  }
  ChunkSums* of(int64_t row, int64_t first) const { return sums + row * chunks + first / kSumChunk; }
};
template <int K> void find_statistics(const LayerNormDescriptor& d, const Pieces& pieces, const TensorView& x, const RowWalk<K>& walk, int x_at, int threads) {
  const LayerNormKernels& kernels = BARACUDA_ISA_PICK_BF16(layer_norm_kernels);
  each_piece(length(d), threads, [&](int64_t first, int64_t m, int) {
    each_row(walk, [&](int64_t row, const int64_t (&o)[K]) { kernels.moments[d.dtype]({at(x, o[x_at] + first), nullptr, nullptr, m, nullptr, pieces.of(row, first)}); });
  });
  each_row(walk, [&](int64_t row, const int64_t (&o)[K]) {
    pieces.known[row].found = kernels.join_moments[d.dtype](at(x, o[x_at]), length(d), d.eps, pieces.of(row, 0));
  });
}
Status run_forward_in_pieces(const Launch<LayerNorm>& l) {
  const LayerNormDescriptor& d = l.desc;
  const LayerNorm::Args& a = l.args;
  const LayerNormKernels& kernels = BARACUDA_ISA_PICK_BF16(layer_norm_kernels);
  Carver c = l.carver();
  const Pieces pieces(d, c);
  const RowWalk<4> walk(outer(d), {&a.x, &a.y, &a.mean, &a.rstd});
  find_statistics(d, pieces, a.x, walk, 0, l.threads);
  const bool past = past_caches(a.y, a.x.data);
  each_piece(length(d), l.threads, [&](int64_t first, int64_t m, int worker) {
    const void* weight = taken_vector(d.dtype, piece_of(flat(d, a.weight), first, m), 1, pieces.weight.of(worker), m, 1);
    const void* bias = taken_vector(d.dtype, piece_of(flat(d, a.bias), first, m), -0.0, pieces.other.of(worker), m, 1);
    each_row(walk, [&](int64_t row, const int64_t (&o)[4]) {
      kernels.forward[d.dtype]({.x = at(a.x, o[0] + first), .weight = weight, .bias = bias, .y = at(a.y, o[1] + first), .mean = first ? nullptr : at(a.mean, o[2]),
                                .rstd = first ? nullptr : at(a.rstd, o[3]), .rows = 1, .n = m, .eps = d.eps, .past = past, .known = &pieces.known[row].found});
    });
  });
  return {};
}
Status run_backward_in_pieces(const Launch<LayerNormBackward>& l) {
  const LayerNormDescriptor& d = l.desc;
  const LayerNormBackward::Args& a = l.args;
  const LayerNormKernels& kernels = BARACUDA_ISA_PICK_BF16(layer_norm_kernels);
  const int64_t n = length(d);
  Carver c = l.carver();
  const Pieces pieces(d, c);
  const RowWalk<5> walk(outer(d), {&a.dy, &a.x, &a.mean, &a.rstd, &a.dx});
  const auto saved = [&](const TensorView& v, int64_t o) { return d.dtype == DType::f64 ? v.as<double>()[o] : double(v.as<float>()[o]); };
  if (a.rstd.absent()) find_statistics(d, pieces, a.x, walk, 1, l.threads);
  else each_row(walk, [&](int64_t row, const int64_t (&o)[5]) { pieces.known[row].found = {saved(a.mean, o[2]), 0, saved(a.rstd, o[3])}; });
  const auto weight_of = [&](int64_t first, int64_t m, int worker) {
    return taken_vector(d.dtype, piece_of(flat(d, a.weight), first, m), 1, pieces.weight.of(worker), m, 1);
  };
  each_piece(n, l.threads, [&](int64_t first, int64_t m, int worker) {
    const void* weight = weight_of(first, m, worker);
    each_row(walk, [&](int64_t row, const int64_t (&o)[5]) {
      kernels.gradient[d.dtype]({at(a.x, o[1] + first), at(a.dy, o[0] + first), weight, m, &pieces.known[row].found, pieces.of(row, first)});
    });
  });
  for (int64_t row = 0; row < walk.rows; ++row) pieces.known[row].sums = kernels.join_gradient(pieces.of(row, 0), pieces.chunks), pieces.known[row].length = n;
  const bool past = a.dx.data != a.dy.data && past_caches(a.dx, a.x.data);
  each_piece(n, l.threads, [&](int64_t first, int64_t m, int worker) {
    const void* weight = weight_of(first, m, worker);
    void *dweight = pieces.dweight.zeroed(a.dweight, worker), *dbias = pieces.other.zeroed(a.dbias, worker);
    each_row(walk, [&](int64_t row, const int64_t (&o)[5]) {
      kernels.backward[d.dtype]({.dy = at(a.dy, o[0] + first), .x = at(a.x, o[1] + first), .weight = weight, .dx = at(a.dx, o[4] + first), .dweight = dweight,
                                 .dbias = dbias, .rows = 1, .n = m, .eps = d.eps, .past = past, .known = &pieces.known[row]});
    });
    pieces.dweight.fold_into(flat(d, a.dweight), d.dtype, first, m, worker);
    pieces.other.fold_into(flat(d, a.dbias), d.dtype, first, m, worker);
  });
  return {};
}

// --- whole rows
void carve_forward(const LayerNormDescriptor& d, const void*, Carver& c) {
  if (in_pieces(d, false)) Pieces(d, c);
  else carve_weight(d, c), carve_bias(d, c);
}
constexpr int64_t kLeastBeside = 1088;  // shorter rows are summed several at once
Status run_forward(const Launch<LayerNorm>& l) {
  const LayerNormDescriptor& d = l.desc;
  const LayerNorm::Args& a = l.args;
  const int64_t n = length(d);
  if (d.shape.numel() == 0) {  // rows without elements still have statistics: the mean of nothing is NaN
    if (n == 0) fill_nan(a.mean), fill_nan(a.rstd);
    return {};
  }
  if (in_pieces(d, false)) return run_forward_in_pieces(l);
  Carver c = l.carver();
  void *weight = carve_weight(d, c), *bias = carve_bias(d, c);
  const bool beside = BARACUDA_ISA_PICK_BF16(layer_norm_kernels).beside && d.dtype != DType::f64 && n >= kLeastBeside && n <= kSumChunk && n % kSumLanes == 0;
  const bool dealt = beside && lies_dealt(d.dtype);
  prepare_vector(d.dtype, flat(d, a.weight), 1, weight, n, l.threads, NormWeight::plain, dealt);
  prepare_vector(d.dtype, flat(d, a.bias), -0.0, bias, n, l.threads, NormWeight::plain, dealt);
  const RowWalk<4> walk(outer(d), {&a.x, &a.y, &a.mean, &a.rstd});
  standardize_rows(a, d.dtype, d.eps, {weight, bias}, walk, {.n = n, .beside = beside}, past_caches(a.y, a.x.data), l.threads);
  return {};
}

struct Partials { char *dweight, *dbias; };
Partials carve_partials(const LayerNormDescriptor& d, Carver& c) {
  const int64_t n = length(d), count = block_count(rows_of(d), n) * n;
  const auto take = [&](std::string_view what) { return static_cast<char*>(c.take_bytes(what, count, byte_size(accumulator(d.dtype)))); };
  Partials p;
  p.dweight = take("dweight partial sums"), p.dbias = take("dbias partial sums");
  return p;
}
void carve_backward(const LayerNormDescriptor& d, const void*, Carver& c) {
  if (in_pieces(d, true)) Pieces(d, c);
  else carve_weight(d, c), carve_partials(d, c);
}

Status run_backward(const Launch<LayerNormBackward>& l) {
  const LayerNormDescriptor& d = l.desc;
  const LayerNormBackward::Args& a = l.args;
  if (in_pieces(d, true)) return run_backward_in_pieces(l);
  Carver c = l.carver();
  void* weight = carve_weight(d, c);
  const Partials partial = carve_partials(d, c);
  const int64_t n = length(d), rows = rows_of(d), block = block_rows(rows, n), blocks = block_count(rows, n);
  const int64_t row_bytes = n * int64_t(byte_size(accumulator(d.dtype)));
  if (blocks) {
    prepare_vector(d.dtype, flat(d, a.weight), 1, weight, n, l.threads);
    const RowWalk<5> walk(outer(d), {&a.dy, &a.x, &a.mean, &a.rstd, &a.dx});
    const auto kernel = BARACUDA_ISA_PICK_BF16(layer_norm_kernels).backward[d.dtype];
    const bool past = a.dx.data != a.dy.data && past_caches(a.dx, a.x.data);
    parallel_for(walk.rows, block, l.threads, [&](int64_t begin, int64_t end, int) {
      char *dweight = a.dweight.absent() ? nullptr : partial.dweight + begin / block * row_bytes;
      char *dbias = a.dbias.absent() ? nullptr : partial.dbias + begin / block * row_bytes;
      if (dweight) std::memset(dweight, 0, size_t(row_bytes));
      if (dbias) std::memset(dbias, 0, size_t(row_bytes));
      walk.runs(begin, end, [&](const int64_t (&o)[5], int64_t, int64_t count) {
        kernel({at(a.dy, o[0]), at(a.x, o[1]), weight, at(a.mean, o[2]), at(a.rstd, o[3]), at(a.dx, o[4]), dweight, dbias, walk.pitch(0),
                walk.pitch(1), walk.pitch(2), walk.pitch(3), walk.pitch(4), count, n, d.eps, past});
      });
    });
  }
  if (!a.dweight.absent()) fold_rows(accumulator(d.dtype), partial.dweight, blocks, n, flat(d, a.dweight), l.threads);
  if (!a.dbias.absent()) fold_rows(accumulator(d.dtype), partial.dbias, blocks, n, flat(d, a.dbias), l.threads);
  return {};
}

}  // namespace

Status LayerNorm::validate(const Descriptor& d) { return validate_common(name, d); }
Status LayerNorm::check(const Descriptor& d, const Args& a) { return check_forward<Descriptor>(name, d, a, expect_rows, expect_weight, expect_statistic); }
std::span<const Kernel<LayerNorm>> LayerNorm::kernels() {
  static constexpr Kernel<LayerNorm> list[] = {{.name = "layer_norm.cpu.row",
                                                .launch = launch_all<LayerNorm>(Floating{}, run_forward),
                                                .guarantee = guarantee,
                                                .carve = carve_forward}};
  return list;
}

Status LayerNormBackward::validate(const Descriptor& d) { return validate_common(name, d); }
Status LayerNormBackward::check(const Descriptor& d, const Args& a) { return check_backward<Descriptor>(name, d, a, expect_rows, expect_weight, expect_statistic); }
std::span<const Kernel<LayerNormBackward>> LayerNormBackward::kernels() {
  static constexpr Kernel<LayerNormBackward> list[] = {{.name = "layer_norm_backward.cpu.row",
                                                        .launch = launch_all<LayerNormBackward>(Floating{}, run_backward),
                                                        .guarantee = guarantee,
                                                        .carve = carve_backward}};
  return list;
}

}  // namespace baracuda
