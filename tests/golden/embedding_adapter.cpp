#include "baracuda/ops/embedding/embedding.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

Status embedding(Replay& r, std::string_view) {
  const Held *weight = r.input(), *indices = r.tensor(0, "input");
  if (r.argument(2, "max_norm") || r.value(4, "scale_grad_by_freq", false) || r.value(5, "sparse", false)) return r.decline(kMaxNorm);
  const Shape& table = weight->shape();
  const EmbeddingDescriptor d{.dtype = weight->dtype(), .vocabulary = table.rank ? table[0] : 1, .width = table.last(), .indices = indices->shape(),
                              .index_dtype = indices->dtype()};
  Tensor y(d.dtype, with(d.indices, {d.width}));
  BARACUDA_TRY(run_plan<Embedding>(d, {.indices = *indices, .weight = *weight, .y = y}));
  r.output(0, y);
  r.judge = {.ulps = 1, .terms = double(indices->shape().numel())};
  r.reference = [&r, weight, indices, width = d.width](const Inputs& in) {
    const Values &w = r.numbers(*weight, in), &index = r.numbers(*indices, in);
    Numbers n;
    for (double i : index)
      for (int64_t j = 0; j < width; ++j) n.y.push_back(w[size_t(int64_t(i) * width + j)]);
    return n;
  };
  if (!r.has_gradients()) return {};
  EmbeddingBackwardDescriptor b{.dtype = d.dtype, .vocabulary = d.vocabulary, .width = d.width, .indices = d.indices, .index_dtype = d.index_dtype};
  if (r.argument(1, "padding_idx")) {
    b.padding_idx = r.value<int64_t>(1, "padding_idx", 0);
    if (*b.padding_idx < 0) *b.padding_idx += d.vocabulary;
    r.reference = nullptr;  // that row's gradient is 0 by decree, not by differentiation
  }
  Tensor dweight(d.dtype, {d.vocabulary, d.width});
  BARACUDA_TRY(run_plan<EmbeddingBackward>(b, {.dy = r.dy(), .indices = *indices, .dweight = dweight}));
  r.gradient(*weight, dweight);
  return {};
}

}  // namespace

Family embedding_family() {
  static const Entry entries[] = {{"nn.functional.embedding", embedding}};
  return {.adapters = entries};
}

}  // namespace baracuda::golden
