// Bytes over time against a copy of as many bytes, norms against a read: 16 M parameters in 64 tensors.
#include "baracuda/ops/optim/optim.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

constexpr int kCount = 64;
constexpr Shape kShape{kCount, 512, 512};
struct List {  // one behind the other, as in a model whose parameters were laid out at once
  Buffer buffer;
  std::vector<TensorView> views;
  uint64_t bytes;
  explicit List(DType t, double std = 1) : buffer(t, kShape, std), bytes(buffer.bytes()) {
    for (int i = 0; i < kCount; ++i)
      views.push_back(TensorView::dense(buffer.view().as<char>() + uint64_t(i) * bytes / kCount, t, {512, 512}));
  }
};

void adamw(benchmark::State& state, DType t, bool with_masters) {
  List p(t), g(t, 0.01), m(DType::f32, 0), v(DType::f32, 0);
  std::optional<List> w;
  if (with_masters) w.emplace(DType::f32);
  AdamW::Args a{.params = p.views, .grads = g.views, .m = m.views, .v = v.views};
  uint64_t bytes = p.bytes + g.bytes + 2 * m.bytes + 2 * v.bytes;
  if (w) a.masters = w->views, bytes += 2 * w->bytes;  // params are then written only
  else bytes += p.bytes;
  bench_plan<AdamW>(state, {.dtype = t, .grad_dtype = t}, a, bytes);
}
void global_norm(benchmark::State& state, DType t) {
  List g(t);
  Buffer norm(t == DType::f64 ? DType::f64 : DType::f32, {});
  bench_plan<GlobalNorm>(state, {t}, {.x = g.views, .norm = norm}, double(g.bytes), read_floor(double(g.bytes)));
}
const bool registered = [] {
  bench<AdamW>(DType::f32, kShape, "", [](benchmark::State& s) { adamw(s, DType::f32, false); });
  bench<AdamW>(DType::bf16, kShape, "", [](benchmark::State& s) { adamw(s, DType::bf16, false); });
  bench<AdamW>(DType::bf16, kShape, "masters", [](benchmark::State& s) { adamw(s, DType::bf16, true); });
  for (DType t : {DType::f32, DType::bf16, DType::f64}) bench<GlobalNorm>(t, kShape, "", [=](benchmark::State& s) { global_norm(s, t); });
  return true;
}();
}  // namespace
