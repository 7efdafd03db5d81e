// A block of values at a time: v = act(gate) up in f32, then codes of it. With the scale of a row a row that kKept values hold is made once, a longer
// one twice, the second time of lines that the caches may have.
#include "baracuda/ops/gated/gated_quantize.hpp"
#include <algorithm>
#include "baracuda/host/past.hpp"
#include "baracuda/host/row_walk.hpp"
#include "baracuda/ops/gated/gated_quantize_cpu.hpp"
#include "baracuda/ops/gated/gated_quantize_math.hpp"

namespace baracuda {
namespace {

constexpr int64_t kBlock = 1024, kKept = 16384;  // f32: in the first cache, and in the second
using Served = TypeList<f16, bf16, float>;

int64_t step_of(const TensorView& v) { return v.shape.last() == 1 ? 1 : v.strides[v.shape.rank - 1]; }
template <class Args> struct Loops {
  const GatedDescriptor& d;
  const Args& a;
  bool past = past_caches(a.y, nullptr);
  const GatedQuantizeKernels& k = BARACUDA_ISA_PICK(gated_quantize_kernels);
  int64_t size = int64_t(byte_size(d.dtype)), gate_step = step_of(a.gate), up_step = step_of(a.up), y_step = step_of(a.y);
  struct Row { const char *gate, *up; char* y; };

  Row row(const int64_t (&at)[4]) const { return {a.gate.template as<char>() + at[0] * size, a.up.template as<char>() + at[1] * size, a.y.template as<char>() + at[2]}; }
  const void* dense(const char* x, int64_t step, int64_t n, char* block) const {
    if (step == 1) return x;
    for (int64_t j = 0; j < n; ++j) std::copy_n(x + j * step * size, size, block + j * size);
    return block;
  }
  void values(const Row& r, int64_t i, int64_t n, float* v) const {
    char blocks[2][kBlock * 4];
    for (int64_t m; n > 0; i += m, v += m, n -= m) {
      m = gate_step == 1 && up_step == 1 ? n : std::min(n, kBlock);
      k.values[int(d.kind)][d.dtype](dense(r.gate + i * gate_step * size, gate_step, m, blocks[0]), dense(r.up + i * up_step * size, up_step, m, blocks[1]), v, m,
                                     d.alpha_or_default(), d.limit_or_default());
    }
  }
  void codes(const Row& r, int64_t i, int64_t n, const float* v, float factor) const {
    if (y_step == 1) return k.codes[d.dtype](v, factor, r.y + i, n, past);
    char block[kBlock];
    for (int64_t m; n > 0; i += m, v += m, n -= m) {
      m = std::min(n, kBlock);
      k.codes[d.dtype](v, factor, block, m, false);
      for (int64_t j = 0; j < m; ++j) r.y[(i + j) * y_step] = block[j];
    }
  }
  // Both of elements [begin, end).
  void make(const Row& r, int64_t begin, int64_t end, float factor) const {
    alignas(64) float v[kBlock];
    for (int64_t i = begin, n; i < end; i += n) {
      n = std::min(kBlock, end - i);
      values(r, i, n, v), codes(r, i, n, v, factor);
    }
  }
  float largest(const Row& r, int64_t n) const {
    alignas(64) float v[kBlock];
    float most = 0;
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      values(r, i, m, v);
      most = std::max(most, k.largest(v, m));
    }
    return most;
  }
};
// f(offsets of gate, up, y and scales in elements, first element, end) for pieces of rows; scales may be absent.
template <class Args, class F> void for_pieces(const GatedDescriptor& d, const Args& a, const TensorView& scales, int64_t piece, int threads, bool past, F f) {
  const RowWalk<4> walk(outer_axes(d.shape), {&a.gate, &a.up, &a.y, &scales});
  const int64_t n = d.shape.last(), pieces = n == 0 ? 1 : (n + piece - 1) / piece;
  parallel_for(walk.rows * pieces, std::max<int64_t>(1, kPiece / std::max<int64_t>(1, std::min(n, piece))), threads, [&](int64_t first, int64_t last, int) {
    for (int64_t u = first; u < last; ++u) {
      int64_t at[4];
      walk.offsets(u / pieces, at);
      f(at, u % pieces * piece, std::min(n, (u % pieces + 1) * piece));
    }
    if (past) past_fence();
  });
}
Status run_given(const Launch<GatedQuantize>& l) {
  const Loops<GatedQuantize::Args> loops{l.desc, l.args};
  const float factor = gated::factor_of(*l.args.scale.as<float>());
  for_pieces(l.desc, l.args, {}, kPiece, l.threads, loops.past, [&](const int64_t (&at)[4], int64_t begin, int64_t end) { loops.make(loops.row(at), begin, end, factor); });
  return {};
}
Status run_dynamic(const Launch<GatedQuantizeDynamic>& l) {
  const Loops<GatedQuantizeDynamic::Args> loops{l.desc, l.args};
  const int64_t n = l.desc.shape.last();
  for_pieces(l.desc, l.args, l.args.scale, std::max<int64_t>(1, n), l.threads, loops.past, [&](const int64_t (&at)[4], int64_t, int64_t) {
    const auto row = loops.row(at);
    float& scale = l.args.scale.as<float>()[at[3]];
    if (n > kKept) {
      scale = gated::row_scale(loops.largest(row, n));
      return loops.make(row, 0, n, gated::factor_of(scale));
    }
    alignas(64) float v[kKept];
    loops.values(row, 0, n, v);
    scale = gated::row_scale(loops.k.largest(v, n));
    loops.codes(row, 0, n, v, gated::factor_of(scale));
  });
  return {};
}
template <class Op> Status check_tensors(const GatedDescriptor& d, const typename Op::Args& a) {
  BARACUDA_TRY(expect(Op::name, "gate", a.gate, d.dtype, d.shape));
  BARACUDA_TRY(expect(Op::name, "up", a.up, d.dtype, d.shape));
  return expect(Op::name, "y", a.y, DType::f8_e4m3fn, d.shape);
}
Status validate_rows(std::string_view op, const GatedDescriptor& d) {
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  BARACUDA_TRY(validate_gated(op, d));
  return expect_shape(op, "shape", d.shape, 1);
}
PrecisionGuarantee guarantee(const GatedDescriptor&) { return {.math_precision = DType::f32, .accumulator = DType::f32, .batch_invariant = true}; }

}  // namespace

Status GatedQuantize::validate(const Descriptor& d) { return validate_rows(name, d); }
Status GatedQuantize::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(check_tensors<GatedQuantize>(d, a));
  return expect_elements(name, "scale", a.scale, DType::f32, {});
}
std::span<const Kernel<GatedQuantize>> GatedQuantize::kernels() {
  static constexpr Kernel<GatedQuantize> list[] = {
      {.name = "gated_quantize.cpu.blocks", .launch = launch_all<GatedQuantize>(Served{}, run_given), .guarantee = guarantee}};
  return list;
}
Status GatedQuantizeDynamic::validate(const Descriptor& d) { return validate_rows(name, d); }
Status GatedQuantizeDynamic::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(check_tensors<GatedQuantizeDynamic>(d, a));
  return expect(name, "scale", a.scale, DType::f32, outer_axes(d.shape));
}
std::span<const Kernel<GatedQuantizeDynamic>> GatedQuantizeDynamic::kernels() {
  static constexpr Kernel<GatedQuantizeDynamic> list[] = {
      {.name = "gated_quantize_dynamic.cpu.blocks", .launch = launch_all<GatedQuantizeDynamic>(Served{}, run_dynamic), .guarantee = guarantee}};
  return list;
}

}  // namespace baracuda
