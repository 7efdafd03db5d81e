// Bytes over time against a copy of as many bytes: both axes of a square and of a tall tensor, one long row, odd sizes.
#include "baracuda/ops/scan/linear_recurrence.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

std::string words(const ScanDescriptor& d, std::string_view more = {}) {
  return text(enum_name(d.kind), "/axis", d.axis, d.reverse ? "/reverse" : "", more.empty() ? "" : "/", more);
}
// Factors of 2 and 1/2, as many of each: products of others leave the normal numbers, and subnormal ones take the processor a hundred cycles each.
void set_factors(const Buffer& x) {
  constexpr int kPool = 1024;
  const TensorView& v = x.view();
  const size_t size = byte_size(v.dtype);
  char* const to = v.as<char>();
  Source source(11);
  for (int i = 0; i < kPool / 2; ++i) {
    const double factor = source.next() & 1 ? 2 : 0.5;
    write_element(v.dtype, to + size_t(i) * size, factor), write_element(v.dtype, to + size_t(kPool / 2 + i) * size, 1 / factor);
  }
  for (uint64_t done = kPool * size; done < x.bytes(); done *= 2) std::memcpy(to + done, to, std::min<uint64_t>(done, x.bytes() - done));
}
void forward(benchmark::State& state, const ScanDescriptor& d, bool indices) {
  Buffer x(d.dtype, d.shape), y(Scan::y_dtype(d), d.shape), i(DType::i64, indices ? d.shape : Shape{1});
  if (d.kind == ScanKind::cumprod) set_factors(x);
  Scan::Args a{x, y, {}};
  if (indices) a.indices = i;
  bench_plan<Scan>(state, d, a, x.bytes() + y.bytes() + (indices ? i.bytes() : 0));
}
void backward(benchmark::State& state, const ScanDescriptor& d) {
  Buffer dy(d.dtype, d.shape), x(d.dtype, d.shape), y(d.dtype, d.shape), dx(d.dtype, d.shape);
  if (d.kind == ScanKind::cumprod) set_factors(x);
  const auto r = ScanBackward::reads(d.kind);
  Buffer indices(DType::i64, r.indices ? d.shape : Shape{1});
  if (r.y || r.indices) {  // what the forward gives
    auto plan = ScanPlan::select(Stream::cpu(), d);
    ScratchArena arena;
    auto workspace = arena.get(plan->workspace_size());
    if (Status s = plan->run(Stream::cpu(), *workspace, {x, y, r.indices ? indices.view() : TensorView{}}); !s.ok())
      return state.SkipWithError(s.to_string().c_str());
  }
  bench_plan<ScanBackward>(state, d, {dy, r.x ? x.view() : TensorView{}, r.y ? y.view() : TensorView{}, r.indices ? indices.view() : TensorView{}, dx},
                           (2 + r.x + r.y) * x.bytes() + (r.indices ? indices.bytes() : 0));
}
void recurrence(benchmark::State& state, const LinearRecurrenceDescriptor& d) {
  Buffer a(d.dtype, d.shape, 0.3), x(d.dtype, d.shape), y(d.dtype, d.shape);
  bench_plan<LinearRecurrence>(state, d, {a, x, y}, 3 * x.bytes());
}
void recurrence_backward(benchmark::State& state, const LinearRecurrenceDescriptor& d) {
  Buffer a(d.dtype, d.shape, 0.3), dy(d.dtype, d.shape), y(d.dtype, d.shape), dx(d.dtype, d.shape), da(d.dtype, d.shape);
  bench_plan<LinearRecurrenceBackward>(state, d, {dy, a, y, dx, da}, 5 * dy.bytes());
}
const bool registered = [] {
  for (DType t : {DType::f32, DType::bf16})
    for (auto [shape, axis] : {std::pair<Shape, int>{{4096, 4096}, 1}, {{4096, 4096}, 0}, {{1, 1 << 24}, 1}}) {
      const LinearRecurrenceDescriptor d{t, shape, axis};
      bench<LinearRecurrence>(t, shape, text("axis", axis), [=](benchmark::State& s) { recurrence(s, d); });
      bench<LinearRecurrenceBackward>(t, shape, text("axis", axis), [=](benchmark::State& s) { recurrence_backward(s, d); });
    }
  for (DType t : {DType::f32, DType::bf16})
    for (ScanKind kind : {ScanKind::cumsum, ScanKind::cumprod, ScanKind::cummax, ScanKind::logcumsumexp})
      for (auto [shape, axis] : {std::pair<Shape, int>{{4096, 4096}, 1}, {{4096, 4096}, 0}, {{262144, 64}, 1}, {{262144, 64}, 0},
                                 {{1, 1 << 24}, 1}, {{4097, 4099}, 1}, {{4097, 4099}, 0}}) {
        const ScanDescriptor d{kind, t, shape, axis};
        bench<Scan>(t, shape, words(d), [=](benchmark::State& s) { forward(s, d, false); });
        if (shape[0] < 262144) bench<ScanBackward>(t, shape, words(d), [=](benchmark::State& s) { backward(s, d); });
        if (kind == ScanKind::cummax) bench<Scan>(t, shape, words(d, "indices"), [=](benchmark::State& s) { forward(s, d, true); });
      }
  for (DType t : {DType::f64, DType::i32, DType::i64, DType::u8}) {
    const ScanDescriptor d{ScanKind::cumsum, t, {4096, 4096}, 1};
    bench<Scan>(t, d.shape, words(d), [=](benchmark::State& s) { forward(s, d, false); });
  }
  const ScanDescriptor back{ScanKind::cumsum, DType::f32, {4096, 4096}, 1, true}, few{ScanKind::cumsum, DType::f32, {1 << 22, 3}, 1};
  bench<Scan>(back.dtype, back.shape, words(back), [=](benchmark::State& s) { forward(s, back, false); });
  bench<Scan>(few.dtype, few.shape, words(few), [=](benchmark::State& s) { forward(s, few, false); });
  return true;
}();
}  // namespace
