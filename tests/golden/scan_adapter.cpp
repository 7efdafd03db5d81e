#include <cmath>
#include "baracuda/ops/scan/scan.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

ScanKind kind_of(std::string_view op) {
  if (op.find("logcumsumexp") != op.npos || op.find("cumlogsumexp") != op.npos) return ScanKind::logcumsumexp;
  if (op.find("cumsum") != op.npos) return ScanKind::cumsum;
  if (op.find("cumprod") != op.npos) return ScanKind::cumprod;
  return op.find("cummax") != op.npos ? ScanKind::cummax : ScanKind::cummin;
}
// f(places of the elements of a lane, in the order of the scan) for every lane.
template <class F> void lanes(const ScanDescriptor& d, F f) {
  const int rank = d.shape.rank, axis = d.axis < 0 ? d.axis + std::max(rank, 1) : d.axis;
  const int64_t n = rank ? d.shape[axis] : 1, inner = rank ? d.shape.product(axis + 1, rank) : 1;
  std::vector<size_t> lane(static_cast<size_t>(n));
  for (int64_t l = 0; n && l < d.shape.numel() / n; ++l) {
    for (int64_t i = 0; i < n; ++i) lane[size_t(i)] = size_t(l / inner * inner * n + (d.reverse ? n - 1 - i : i) * inner + l % inner);
    f(lane);
  }
}
double extent(const ScanDescriptor& d) { return d.shape.rank ? double(d.shape[d.axis < 0 ? d.axis + d.shape.rank : d.axis]) : 1; }

Numbers forward(const ScanDescriptor& d, const Values& x) {
  Numbers out{x, x};
  lanes(d, [&](const auto& lane) {
    double y = 0, scale = 0, most = -INFINITY;
    for (size_t i = 0; i < lane.size(); ++i) {
      const double v = x[lane[i]];
      switch (d.kind) {
        case ScanKind::cumsum: y += v, scale += std::fabs(v); break;
        case ScanKind::cumprod: y = i ? y * v : v, scale = std::fabs(y); break;
        case ScanKind::cummax: y = i == 0 || v >= y || std::isnan(v) ? v : y; break;
        case ScanKind::cummin: y = i == 0 || v <= y || std::isnan(v) ? v : y; break;
        case ScanKind::logcumsumexp: {
          double sum = 0;
          most = std::max(most, v);
          for (size_t k = 0; k <= i; ++k) sum += std::isinf(most) ? 0 : std::exp(x[lane[k]] - most);
          y = std::isinf(most) ? most : most + std::log(sum), scale = 1 + std::fabs(y);
        }
      }
      out.y[lane[i]] = y, out.scale[lane[i]] = scale;
    }
  });
  return out;
}
// What dx is the sum of. y comes with a rounding to its dtype.
Values gradient_size(const ScanDescriptor& d, const Values& x, const Values& y, const Values& dy) {
  Values size(x.size(), 0);
  lanes(d, [&](const auto& lane) {
    for (size_t j = 0; j < lane.size(); ++j)
      for (size_t i = j; i < lane.size(); ++i) {
        double slope = 1;
        if (d.kind == ScanKind::cumprod)
          for (size_t k = 0; k <= i; ++k) slope *= k == j ? 1 : x[lane[k]];
        if (d.kind == ScanKind::logcumsumexp)
          slope = x[lane[j]] == -INFINITY ? 0 : std::exp(x[lane[j]] - y[lane[i]]) * (1 + std::fabs(x[lane[j]]) + std::fabs(y[lane[i]]));
        size[lane[j]] += std::fabs(dy[lane[i]] * slope);
      }
  });
  const DType acc = accumulator(d.dtype);
  if (d.kind == ScanKind::logcumsumexp && acc != d.dtype)
    for (double& e : size) e *= 1 + testing::unit_roundoff(d.dtype) / testing::unit_roundoff(acc) / (4 + 4 * std::sqrt(extent(d)));
  return size;
}
// 64-bit sums and products as a narrower integer, which is what JAX gives.
Values wrapped(const Tensor& y, DType to) {
  Values out = y.values();
  const int bits = bit_size(to);
  if (bits == 64) return out;
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t low = y.view().as<uint64_t>()[i] << (64 - bits);
    out[i] = kDTypeFacts[size_t(to)].is_signed ? double(int64_t(low) >> (64 - bits)) : double(low >> (64 - bits));
  }
  return out;
}

constexpr std::string_view kComplex = "complex elements: scans take real ones";
Status scan(Replay& r, std::string_view op) {
  const bool jax = op.starts_with("lax.");
  const Held* x = r.input();
  if (kDTypeFacts[size_t(x->dtype())].complex) return r.decline(kComplex);
  const ScanDescriptor d{.kind = kind_of(op), .dtype = x->dtype(), .shape = x->shape(), .axis = r.value(0, jax ? "axis" : "dim", 0),
                         .reverse = r.value(1, "reverse", false)};
  const bool extremum = d.kind == ScanKind::cummax || d.kind == ScanKind::cummin;
  BARACUDA_TRY(Scan::validate(d));
  Tensor y(Scan::y_dtype(d), d.shape), indices;
  if (extremum) indices = Tensor(DType::i64, d.shape);
  BARACUDA_TRY(run_plan<Scan>(d, {*x, y, indices}));
  if (y.view().dtype == r.out_dtype()) r.output(0, y);
  else r.output(0, wrapped(y, r.out_dtype()));
  if (extremum && !jax) r.output(1, indices);
  r.judge = {.ulps = extremum ? 0.0 : 1.0, .terms = extremum ? 0 : extent(d)};
  if (!is_floating(d.dtype)) {
    r.judge.exact = true;
    return {};
  }
  r.reference = [&r, x, d](const Inputs& in) { return forward(d, r.numbers(*x, in)); };
  if (!r.has_gradients()) return {};
  const auto reads = ScanBackward::reads(d.kind);
  Tensor dx(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<ScanBackward>(d, {r.dy(), reads.x ? x->view() : TensorView{}, reads.y ? y.view() : TensorView{},
                                          reads.indices ? indices.view() : TensorView{}, dx}));
  r.gradient(*x, dx);
  r.condition(*x, gradient_size(d, x->values(), y.values(), r.dy().values()));
  return {};
}

}  // namespace

Family scan_family() {
  static const Entry entries[] = {{"cumsum", scan}, {"cumprod", scan}, {"cummax", scan}, {"cummin", scan}, {"logcumsumexp", scan},
                                  {"lax.cumsum", scan}, {"lax.cumprod", scan}, {"lax.cummax", scan}, {"lax.cummin", scan}, {"lax.cumlogsumexp", scan}};
  static const Declined declined[] = {{"lax.cumsum", {24, 25, 26, 27}, kComplex},
                                      {"lax.cumprod", {24, 25, 26, 27}, kComplex},
                                      {"lax.cummax", {24, 25, 26, 27}, kComplex},
                                      {"lax.cummin", {24, 25, 26, 27}, kComplex}};
  return {.adapters = entries, .declined = declined};
}

}  // namespace baracuda::golden
