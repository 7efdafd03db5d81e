#include "baracuda/ops/gemm/gemm.hpp"
#include <cmath>
#include "baracuda/ops/gemm/gemm_rows.hpp"

namespace baracuda {

Status Gemm::validate(const Descriptor& d) {
  BARACUDA_TRY(expect_shape(name, "batch", d.batch));
  if (d.batch.rank > kMaxRank - 2) return invalid(name, text("batch ", d.batch, " has ", d.batch.rank, " axes, at most ", kMaxRank - 2, " are allowed"));
  for (auto [field, extent] : {std::pair{"m", d.m}, {"n", d.n}, {"k", d.k}})
    if (extent < 0) return invalid(name, text(field, " is ", extent, ", it must not be negative"));
  for (const Shape& s : {gemm_matrix(d.batch, d.m, d.k), gemm_matrix(d.batch, d.k, d.n), gemm_matrix(d.batch, d.m, d.n)})
    if (!s.valid()) return invalid(name, text("a tensor of shape ", s, " has more elements than 63 bits can count"));
  if (!valid_enum(d.bias)) return invalid(name, text("bias ", int(d.bias), " is not a kind of bias"));
  if (!valid_enum(d.epilogue)) return invalid(name, text("epilogue ", int(d.epilogue), " is not an epilogue"));
  if (!std::isfinite(d.alpha)) return invalid(name, text("alpha is ", d.alpha, ", it must be finite"));
  if (!std::isfinite(d.beta)) return invalid(name, text("beta is ", d.beta, ", it must be finite"));
  if (const DType out = d.out_dtype(); out != d.dtype && !(out == DType::f32 && (d.dtype == DType::f16 || d.dtype == DType::bf16)))
    return invalid(name, text("out is ", out, ", with dtype ", d.dtype, " it must be ", d.dtype,
                              d.dtype == DType::f16 || d.dtype == DType::bf16 ? " or f32" : ""));
  return {};
}
Status Gemm::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "a", a.a, d.dtype, d.trans_a ? gemm_matrix(d.batch, d.k, d.m) : gemm_matrix(d.batch, d.m, d.k)));
  BARACUDA_TRY(expect(name, "b", a.b, d.dtype, d.trans_b ? gemm_matrix(d.batch, d.n, d.k) : gemm_matrix(d.batch, d.k, d.n)));
  BARACUDA_TRY(expect(name, "c", a.c, d.out_dtype(), gemm_matrix(d.batch, d.m, d.n)));
  if (d.bias == GemmBias::none) return a.bias.absent() ? Status() : invalid(name, "bias is given, but the descriptor says bias=none");
  if (a.bias.absent()) return invalid(name, "bias is missing, the descriptor says bias=row");
  return expect(name, "bias", a.bias, d.dtype, {d.n});
}

GemmProblem gemm_problem(const GemmDescriptor& d, const Gemm::Args& args) {
  const int r = d.batch.rank;
  const Strides &a = args.a.strides, &b = args.b.strides, &c = args.c.strides;
  GemmProblem p{d.m, d.n, gemm_reads_product(d) ? d.k : 0, {}, {}, args.c.as<char>(), c[r], c[r + 1], nullptr, 0, 0};
  p.a = {args.a.as<const char>(), a[r + d.trans_a], a[r + !d.trans_a]};
  p.b = {args.b.as<const char>(), b[r + !d.trans_b], b[r + d.trans_b]};
  // A stride that is never taken may be anything: the one that serves best.
  if (d.m == 1) p.a.outer = d.k, p.c_row = d.n;
  if (d.n == 1) p.b.outer = d.k, p.c_col = 1;
  if (d.k == 1) p.a.k = 1, p.b.k = 1;
  if (d.bias == GemmBias::row) p.bias = args.bias.as<const char>(), p.bias_col = args.bias.strides[0];
  return p;
}
GemmProblem gemm_at(GemmProblem p, const GemmDescriptor& d, const Gemm::Args& args, int64_t index) {
  int64_t a = 0, b = 0, c = 0;
  for (int i = d.batch.rank - 1; i >= 0; --i) {
    const int64_t at = index % d.batch[i];
    index /= d.batch[i];
    a += at * args.a.strides[i], b += at * args.b.strides[i], c += at * args.c.strides[i];
  }
  const int64_t size = int64_t(byte_size(d.dtype));
  p.a.p += a * size, p.b.p += b * size, p.c += c * int64_t(byte_size(d.out_dtype()));
  return p;
}
GemmFinishRun gemm_finish(const GemmDescriptor& d) {
  const bool wide = d.out_dtype() != d.dtype;
  return BARACUDA_ISA_PICK(gemm_kernels).finish[wide][int(d.epilogue)][d.dtype];
}
GemmFinish gemm_finish_block(const GemmProblem& p, const GemmDescriptor& d, const void* sums, int64_t sums_row, int64_t i0, int64_t j0,
                             int64_t rows, int64_t cols) {
  GemmFinish f{sums, sums_row, p.c + (i0 * p.c_row + j0 * p.c_col) * int64_t(byte_size(d.out_dtype())), p.c_row, p.c_col,
               nullptr, p.bias_row, p.bias_col, d.alpha, d.beta, rows, cols};
  if (p.bias) f.bias = p.bias + (i0 * p.bias_row + j0 * p.bias_col) * int64_t(byte_size(d.dtype));
  return f;
}
Status gemm_without_product(const Launch<Gemm>& l) {
  const GemmDescriptor& d = l.desc;
  if (d.beta == 1 && gemm_plain(d)) return {};
  const GemmProblem whole = gemm_problem(d, l.args);
  const GemmFinishRun finish = gemm_finish(d);
  const int64_t batch = d.batch.numel(), rows = std::max<int64_t>(1, 4096 / std::max<int64_t>(d.n, 1)), blocks = (d.m + rows - 1) / rows;
  parallel_for(batch * blocks, 1, l.threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const GemmProblem p = gemm_at(whole, d, l.args, i / blocks);
      const int64_t i0 = i % blocks * rows;
      finish(gemm_finish_block(p, d, nullptr, 0, i0, 0, std::min(rows, d.m - i0), d.n));
    }
  });
  return {};
}

std::span<const Kernel<Gemm>> Gemm::kernels() {
  static const Kernel<Gemm> list[] = {gemm_onednn_row(), gemm_blocked_row()};
  return list;
}

}  // namespace baracuda
