// Bytes over time against a copy of as many bytes: the indices, what is read and what is written once each.
#include "baracuda/ops/index/index.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

// Indices without order below n.
void scramble(const TensorView& indices, int64_t n) {
  Source r(3);
  for (int64_t i = 0; i < indices.numel(); ++i) indices.as<int64_t>()[i] = int64_t(r.next() >> 16) % n;
}
struct Columns { Shape shape, indices; int64_t axis; };
void along(benchmark::State& state, DType t, const Columns& c, int which) {
  Buffer x(t, c.shape), indices(DType::i64, c.indices), part(t, c.indices), y(t, c.shape);
  scramble(indices, c.shape[int(c.axis)]);
  const uint64_t bytes = indices.bytes() + 2 * part.bytes(), more = 2 * x.bytes();  // a scatter reads and writes x as well
  const GatherDescriptor g{.dtype = t, .shape = c.shape, .axis = c.axis, .indices = c.indices, .out_of_range = which == 1 ? OutOfRange::refuse : OutOfRange::fill};
  if (which < 2) bench_plan<Gather>(state, g, {x, indices, part}, bytes);
  else if (which == 2) bench_plan<GatherBackward>(state, g, {part, indices, y}, bytes);
  else bench_plan<Scatter>(state, {.dtype = t, .shape = c.shape, .axis = c.axis, .indices = c.indices, .reduce = ScatterKind::add, .out_of_range = OutOfRange::fill},
                           {x, indices, part, y}, indices.bytes() + part.bytes() + more);
}
void slices(benchmark::State& state, DType t, int64_t rows, int64_t width, int64_t picked, bool backward) {
  Buffer x(t, {rows, width}), indices(DType::i64, {picked}), y(t, {picked, width});
  scramble(indices, rows);
  const TensorView lists[] = {indices};
  const IndexDescriptor d{.dtype = t, .shape = {rows, width}, .indices = {picked}};
  if (backward) bench_plan<IndexBackward>(state, d, {y, lists, x}, y.bytes() + x.bytes());
  else bench_plan<Index>(state, d, {x, lists, y}, 2 * y.bytes());
}
const bool registered = [] {
  for (DType t : {DType::f32, DType::bf16}) {
    for (const Columns& c : {Columns{{4096, 4096}, {4096, 4096}, 1}, {{4096, 4096}, {4096, 4096}, 0}, {{1 << 20}, {1 << 24}, 0}}) {
      const std::string axis = text("axis", c.axis);
      bench<Gather>(t, c.shape, axis, [=](benchmark::State& s) { along(s, t, c, 0); });
      bench<Gather>(t, c.shape, axis + "/refuse", [=](benchmark::State& s) { along(s, t, c, 1); });
      bench<GatherBackward>(t, c.shape, axis, [=](benchmark::State& s) { along(s, t, c, 2); });
      bench<Scatter>(t, c.shape, axis + "/add", [=](benchmark::State& s) { along(s, t, c, 3); });
    }
    for (int64_t width : {64, 1024, 4096}) {
      const int64_t rows = (1 << 24) / width;
      bench<Index>(t, {rows, width}, "rows", [=](benchmark::State& s) { slices(s, t, rows, width, rows, false); });
      bench<IndexBackward>(t, {rows, width}, "rows", [=](benchmark::State& s) { slices(s, t, rows, width, rows, true); });
    }
  }
  return true;
}();
}  // namespace
