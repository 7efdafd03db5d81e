#include "baracuda/ops/elementwise/elementwise.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;

Status made(Replay& r, std::string_view op) {  // of two real tensors
  const BinaryKind kind = op == "polar" ? BinaryKind::polar : BinaryKind::complex;
  const Held *a = r.input(), *b = r.tensor(0, op == "polar" ? "angle" : "imag");
  if (!a || !b) return r.decline(kNoTensor);
  BARACUDA_TRY_ASSIGN(shape, broadcast_shape(Binary::name, a->shape(), b->shape()));
  const Held y(result_dtype(kind, a->dtype()), shape, shape.contiguous());
  BARACUDA_TRY(run_plan<Binary>({kind, a->dtype(), a->shape(), b->shape()}, {.a = *a, .b = *b, .y = y}));
  r.output(0, y);
  r.judge = {.ulps = 1, .inner = 1, .exact = kind == BinaryKind::complex};
  return {};
}
Status part(Replay& r, std::string_view op) {
  const UnaryKind kind = op == "lax.conj" ? UnaryKind::conj : op == "lax.real" ? UnaryKind::real : UnaryKind::imag;
  const Held* x = r.input();
  const DType result = result_dtype(kind, x->dtype());
  if (result != r.out_dtype()) return r.decline(kDType);  // JAX's conj makes a real operand complex
  const Held y(result, x->shape(), x->shape().contiguous());
  BARACUDA_TRY(run_plan<Unary>({kind, x->dtype(), x->shape()}, {.x = *x, .y = y}));
  r.output(0, y);
  r.judge.exact = true;
  return {};
}

}  // namespace

Family complex_family() {
  static const Entry entries[] = {{"complex", made}, {"polar", made}, {"lax.complex", made}, {"lax.conj", part}, {"lax.real", part}, {"lax.imag", part}};
  static const Declined declined[] = {{"lax.conj", {0, 1, 4}, kDType}};
  static const Declined declined_errors[] = {{"polar", {2}, kNoTensor}};
  return {.adapters = entries, .declined = declined, .declined_errors = declined_errors};
}

}  // namespace baracuda::golden
