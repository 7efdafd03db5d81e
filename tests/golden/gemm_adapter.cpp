#include <algorithm>
#include <cmath>
#include "baracuda/ops/copy/copy.hpp"
#include "baracuda/ops/elementwise/elementwise.hpp"
#include "baracuda/ops/gemm/gemm.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

struct Options {
  double alpha = 1, beta = 0;
  bool trans_a = false, trans_b = false;
  TensorView bias = {};
};
// c = alpha op(a) op(b) + beta c + bias; a and b are [.., rows, columns] and their batch axes broadcast to those of c.
Status product(const TensorView& a, const TensorView& b, const TensorView& c, const Options& o = {}) {
  const int ra = a.shape.rank, rb = b.shape.rank, rc = c.shape.rank;
  GemmDescriptor d{.dtype = a.dtype, .m = c.shape[rc - 2], .n = c.shape[rc - 1], .k = a.shape[o.trans_a ? ra - 2 : ra - 1], .batch = without_last(c.shape, 2),
                   .trans_a = o.trans_a, .trans_b = o.trans_b, .alpha = o.alpha, .beta = o.beta,
                   .bias = o.bias.absent() ? GemmBias::none : GemmBias::row};
  if (c.dtype != a.dtype) d.out = c.dtype;
  const TensorView full_a = expanded(a, with(d.batch, {a.shape[ra - 2], a.shape[ra - 1]})), full_b = expanded(b, with(d.batch, {b.shape[rb - 2], b.shape[rb - 1]}));
  return run_plan<Gemm>(d, {.a = full_a, .b = full_b, .c = c, .bias = o.bias});
}
// Gradient of a term that was broadcast to dy's shape and multiplied by factor.
Status summed(const TensorView& dy, double factor, const TensorView& dx) {
  const BinaryDescriptor d{.kind = BinaryKind::scale_add, .dtype = dy.dtype, .a = dx.shape, .b = dy.shape, .alpha = factor};
  return run_plan<BinaryBackward>(d, {.dy = dy, .da = dx});
}
// What a broadcast gradient is summed from keeps the accumulator's type.
DType partial_dtype(DType t, const Shape& part, const Shape& full) { return part == full || t == DType::f64 ? t : DType::f32; }

// alpha a @ b + beta c0 for a, b with matrices on the last two axes; c0 may be absent. The views are of held tensors.
Status matrices(Replay& r, const Held* a, const Held* b, TensorView av, TensorView bv, double alpha = 1, const Held* c0 = nullptr, double beta = 1,
                bool transposed_b = false, bool bias_row = false, TensorView cv = {}) {
  if (c0 && cv.absent()) cv = *c0;
  const Shape batch_a = without_last(av.shape, 2), batch_b = without_last(bv.shape, 2);
  BARACUDA_TRY_ASSIGN(batch, broadcast_shape(Gemm::name, batch_a, batch_b));
  const int64_t m = av.shape[av.shape.rank - 2], k = av.shape[av.shape.rank - 1], n = bv.shape[bv.shape.rank - (transposed_b ? 2 : 1)];
  const DType t = av.dtype;
  Tensor c(t, with(batch, {m, n}));
  Options o{.alpha = alpha, .trans_b = transposed_b};
  if (c0 && bias_row) o.bias = *c0;
  else if (c0) {
    o.beta = beta;
    BARACUDA_TRY(run_plan<Copy>({t, c.shape()}, {.x = expanded(cv, c.shape()), .y = c}));
  }
  BARACUDA_TRY(product(av, bv, c, o));
  r.output(0, c);
  r.judge = {.ulps = 1, .terms = double(std::max({k, batch.numel() * m, batch.numel() * n}))};
  auto places = [](const Shape& of, const Shape& full) {
    std::vector<int64_t> numbers(size_t(std::max<int64_t>(of.numel(), 1)));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int64_t(i);
    return values_of(expanded(TensorView::dense(numbers.data(), of), full));
  };
  const Values pa = places(batch_a, batch), pb = places(batch_b, batch), pc = c0 ? places(cv.shape, c.shape()) : Values{};
  r.reference = [&r, a, b, c0, alpha, beta = bias_row ? 1 : beta, m, n, k, pa, pb, pc, transposed_b](const Inputs& in) {
    const Values &x = r.numbers(*a, in), &w = r.numbers(*b, in);
    Numbers out;
    for (size_t g = 0; g < pa.size(); ++g)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0, size = 0;
          for (int64_t e = 0; e < k; ++e) {
            const double term = alpha * x[size_t((int64_t(pa[g]) * m + i) * k + e)] *
                                w[size_t(transposed_b ? (int64_t(pb[g]) * n + j) * k + e : (int64_t(pb[g]) * k + e) * n + j)];
            sum += term, size += std::fabs(term);
          }
          if (c0) {
            const double term = beta * r.numbers(*c0, in)[size_t(pc[out.y.size()])];
            sum += term, size += std::fabs(term);
          }
          out.y.push_back(sum), out.scale.push_back(size);
        }
    return out;
  };
  if (!r.has_gradients()) return {};
  const Held& given = r.dy();
  const TensorView dc = reshaped(given, c.shape());
  Tensor da(partial_dtype(t, batch_a, batch), with(batch, {m, k}));
  BARACUDA_TRY(product(dc, bv, da, {.alpha = alpha, .trans_b = !transposed_b}));
  Tensor db(partial_dtype(t, batch_b, batch), transposed_b ? with(batch, {n, k}) : with(batch, {k, n}));
  if (transposed_b) BARACUDA_TRY(product(dc, av, db, {.alpha = alpha, .trans_a = true}));
  else BARACUDA_TRY(product(av, dc, db, {.alpha = alpha, .trans_a = true}));
  auto put = [&](const Held* of, const Tensor& full, const Shape& shape) -> Status {
    if (full.shape() == shape) return r.gradient(*of, full), Status();
    Tensor dx(full.dtype(), shape);
    BARACUDA_TRY(summed(full, 1, dx));
    return r.gradient(*of, dx), Status();
  };
  BARACUDA_TRY(put(a, da, av.shape));
  BARACUDA_TRY(put(b, db, bv.shape));
  if (c0 && c0->gradient >= 0) {
    Tensor dc0(t, cv.shape);
    BARACUDA_TRY(summed(dc, bias_row ? 1 : beta, dc0));
    r.gradient(*c0, dc0);
  }
  return {};
}

TensorView row(const TensorView& v) { return v.shape.rank == 1 ? unsqueezed(v, 0) : v; }
TensorView column(const TensorView& v) { return v.shape.rank == 1 ? unsqueezed(v, 1) : v; }

// matmul and its kin: vectors become matrices of one row or one column.
Status matmul(Replay& r, std::string_view op) {
  const Held *a = r.input(), *b = r.tensor(0, op == "bmm" || op == "mm" ? "mat2" : op == "mv" ? "vec" : "other");
  if (op == "__rmatmul__") std::swap(a, b);
  return matrices(r, a, b, row(*a), column(*b));
}
Status outer(Replay& r, std::string_view) {
  const Held *a = r.input(), *b = r.tensor(0, "vec2");
  return matrices(r, a, b, column(*a), row(*b));
}
// beta input + alpha a @ b.
Status add_product(Replay& r, std::string_view op) {
  const Held *c0 = r.input(), *a = r.tensor(0, op == "addmv" ? "mat" : op == "addr" ? "vec1" : op == "baddbmm" ? "batch1" : "mat1"),
             *b = r.tensor(1, op == "addmv" ? "vec" : op == "addr" ? "vec2" : op == "baddbmm" ? "batch2" : "mat2");
  const double alpha = r.value(3, "alpha", 1.0), beta = r.value(2, "beta", 1.0);
  if (op == "addmv") return matrices(r, a, b, *a, column(*b), alpha, c0, beta, false, false, column(*c0));
  if (op == "addr") return matrices(r, a, b, column(*a), row(*b), alpha, c0, beta);
  const bool bias_row = beta == 1 && c0->shape().rank == 1 && c0->shape()[0] == b->shape().last();
  return matrices(r, a, b, *a, *b, alpha, c0, beta, false, bias_row);
}
Status linear(Replay& r, std::string_view) {
  const Held *x = r.input(), *weight = r.tensor(0, "weight"), *bias = r.tensor(1, "bias");
  const TensorView rows = reshaped(*x, {x->shape().rows(), x->shape().last()});
  return matrices(r, x, weight, rows, row(*weight), 1, bias, 1, true, bias != nullptr);
}

// The view's axes in another order.
TensorView ordered(const TensorView& v, const std::vector<int>& axes) {
  TensorView y = v;
  for (size_t i = 0; i < axes.size(); ++i) y.shape[int(i)] = v.shape[axes[i]], y.strides[int(i)] = v.strides[axes[i]];
  return y;
}
// Axes [contracted of a, of b], [batch of a, of b]; the result has the batch axes, a's others, b's others.
Status dot_general(Replay& r, std::string_view) {
  const Json& axes = *r.argument(9, "dimension_numbers");
  const Held* operands[2] = {r.input(), r.tensor(0, "")};
  TensorView views[2];
  std::vector<Tensor> dense;
  int64_t batch = 1, free[2] = {1, 1}, k = 1;
  for (size_t side : {size_t(0), size_t(1)}) {
    const TensorView& v = *operands[side];
    const auto contracted = axes[0][side].get<std::vector<int>>(), shared = axes[1][side].get<std::vector<int>>();
    std::vector<int> order = shared, others;
    for (int i = 0; i < v.shape.rank; ++i)
      if (std::count(contracted.begin(), contracted.end(), i) + std::count(shared.begin(), shared.end(), i) == 0) others.push_back(i);
    order.insert(order.end(), side ? contracted.begin() : others.begin(), side ? contracted.end() : others.end());
    order.insert(order.end(), side ? others.begin() : contracted.begin(), side ? others.end() : contracted.end());
    batch = k = 1;
    for (int i : shared) batch *= v.shape[i];
    for (int i : contracted) k *= v.shape[i];
    for (int i : others) free[side] *= v.shape[i];
    views[side] = ordered(v, order);
    dense.emplace_back(v.dtype, views[side].shape);
    BARACUDA_TRY(run_plan<Copy>({v.dtype, views[side].shape}, {.x = views[side], .y = dense.back()}));
  }
  const int64_t m = free[0], n = free[1];
  Tensor c(r.out_dtype(), {batch, m, n});
  BARACUDA_TRY(product(reshaped(dense[0], {batch, m, k}), reshaped(dense[1], {batch, k, n}), c));
  r.output(0, c);
  r.judge = {.ulps = 1, .terms = double(k)};
  const Values a = values_of(views[0]), b = values_of(views[1]);
  r.reference = [=](const Inputs&) {
    Numbers sums;
    for (int64_t at = 0; at < batch * m * n; ++at) {
      double sum = 0, scale = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double term = a[size_t(at / n * k + i)] * b[size_t((at / (m * n) * k + i) * n + at % n)];
        sum += term, scale += std::fabs(term);
      }
      sums.y.push_back(sum), sums.scale.push_back(scale);
    }
    return sums;
  };
  return {};
}

}  // namespace

Family gemm_family() {
  static const Entry entries[] = {{"mm", matmul},          {"bmm", matmul},        {"matmul", matmul},  {"__rmatmul__", matmul}, {"mv", matmul},
                                  {"dot", matmul},         {"vdot", matmul},       {"outer", outer},    {"addmm", add_product},
                                  {"addmm.decomposed", add_product}, {"baddbmm", add_product}, {"addmv", add_product}, {"addr", add_product},
                                  {"nn.functional.linear", linear}, {"lax.dot_general", dot_general}};
  return {.adapters = entries};
}

}  // namespace baracuda::golden
