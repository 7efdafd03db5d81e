// flop/s of each row over shapes of a transformer's linear layers (n k = 192 ... 768, vocabulary 32000, decoded tokens), small
// squares and products of one or few rows or columns, with 1 and 2 threads. Those of at most 8 rows or columns stand
// beside a copy of as many bytes as the operands and the product have.
#include "baracuda/ops/gemm/gemm.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

struct BenchShape { const char* what; int64_t m, n, k; bool trans_a, trans_b; };
constexpr BenchShape kShapes[] = {
    {"y=xW^T", 2048, 768, 768, false, true},   {"dx=dyW", 2048, 768, 768, false, false},     {"dW=dy^Tx", 768, 768, 2048, true, false},
    {"y=xW^T", 4096, 192, 192, false, true},   {"dW=dy^Tx", 192, 192, 4096, true, false},    {"y=xW^T", 4096, 512, 192, false, true},
    {"logits", 1024, 32000, 512, false, true}, {"dx=dlogitsW", 1024, 512, 32000, false, false}, {"dW=dlogits^Tx", 32000, 512, 1024, true, false},
    {"square", 2048, 2048, 2048, false, false}, {"square", 512, 512, 512, false, false},
    {"square", 128, 128, 128, false, false},   {"square", 64, 64, 64, false, false},
    {"xW^T", 1, 2048, 768, false, true},       {"xW^T", 8, 768, 768, false, true},
    {"xW^T", 1, 4096, 4096, false, true},      {"xW", 1, 4096, 4096, false, false},          {"xW^T", 4, 4096, 4096, false, true},
    {"xW", 4, 4096, 4096, false, false},       {"xW^T", 8, 4096, 4096, false, true},         {"xW", 8, 4096, 4096, false, false},
    {"Ax", 4096, 1, 4096, false, false},       {"A^Tx", 4096, 1, 4096, true, false}};
struct BenchTypes { const char* name; DType in, out; };
constexpr BenchTypes kTypes[] = {{"f32", DType::f32, DType::f32}, {"f64", DType::f64, DType::f64}, {"f16", DType::f16, DType::f16},
                                 {"bf16>f32", DType::bf16, DType::f32}, {"bf16", DType::bf16, DType::bf16}};

void product(benchmark::State& state, const BenchShape& s, const BenchTypes& t, std::string_view row, int team) {
  const GemmDescriptor d{.dtype = t.in, .out = t.out, .m = s.m, .n = s.n, .k = s.k, .trans_a = s.trans_a, .trans_b = s.trans_b};
  Buffer a(t.in, s.trans_a ? Shape{s.k, s.m} : Shape{s.m, s.k}), b(t.in, s.trans_b ? Shape{s.n, s.k} : Shape{s.k, s.n}), c(t.out, {s.m, s.n});
  const double flops = Gemm::flops(d);
  set_threads(team);
  Floor floor{"flop/s", "", 0, {}};
  if (const double bytes = double(a.bytes() + b.bytes() + c.bytes()); std::min(s.m, s.n) <= 8) {
    floor = copy_floor(bytes);
    floor.rate = "flop/s", floor.work *= flops / bytes;  // the flops that could be done in the time of the copy
  }
  bench_plan<Gemm>(state, d, {a, b, c, {}}, flops, floor, {.require_kernel = row});
  set_threads(0);
}
const bool registered = [] {
  for (const BenchShape& s : kShapes)
    for (const BenchTypes& t : kTypes)
      for (int team : {1, 2})
        for (const Kernel<Gemm>& row : Gemm::kernels())
          if (row.launch[t.in])
            bench<Gemm>(t.name, extents({s.m, s.n, s.k}), text(s.what, "/", row.name, "/threads=", team),
                        [=](benchmark::State& state) { product(state, s, t, row.name, team); });
  return true;
}();
}  // namespace
