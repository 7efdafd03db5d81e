#include "baracuda/ops/gemm/gemm.hpp"
#include <algorithm>
#include <cmath>
#include "baracuda/host/amx.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/gemm/gemm_tuning.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kTypes[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
const std::vector<std::string_view> kRows = on_cuda() ? std::vector<std::string_view>{"gemm.cuda.tile", "gemm.cuda.cublaslt", "gemm.cuda.wgmma"}
                                                      : std::vector<std::string_view>{"gemm.cpu.blocked", "gemm.cpu.onednn"};
const PlanPreference kOwn{.require_kernel = kRows[0]};
#define CPU_ONLY(why) if (on_cuda()) GTEST_SKIP() << why

Shape matrix(Shape batch, int64_t rows, int64_t cols) { return batch.push_back(rows), batch.push_back(cols), batch; }
// The tensors of a descriptor, drawn from a seed.
struct Data {
  GemmDescriptor d;
  Tensor a, b, c, bias;
  Data(const GemmDescriptor& desc, Layout la = Layout::dense, Layout lb = Layout::dense, Layout lc = Layout::dense, uint64_t seed = 1)
      : d(desc),
        a(Tensor::normal(d.dtype, d.trans_a ? matrix(d.batch, d.k, d.m) : matrix(d.batch, d.m, d.k), seed, 0, 1, la)),
        b(Tensor::normal(d.dtype, d.trans_b ? matrix(d.batch, d.n, d.k) : matrix(d.batch, d.k, d.n), seed + 1, 0, 1, lb)),
        c(Tensor::normal(d.out_dtype(), matrix(d.batch, d.m, d.n), seed + 2, 0, 1, lc)) {
    if (d.bias == GemmBias::row) bias = Tensor::normal(d.dtype, {d.n}, seed + 3);
  }
  Gemm::Args args() const { return {a, b, c, bias}; }
};
struct Recipe {
  GemmDescriptor d;
  Layout a = Layout::dense, b = Layout::dense, c = Layout::dense;
};
double act(GemmEpilogue e, double x) {
  switch (e) {
    case GemmEpilogue::none: return x;
    case GemmEpilogue::relu: return x > 0 ? x : 0;
    case GemmEpilogue::gelu: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case GemmEpilogue::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case GemmEpilogue::silu: return x / (1 + std::exp(-x));
  }
  return NAN;
}
// Runs the plan and judges `samples` elements of c (all, where there are fewer) by plain loops in double.
void check_values(const Recipe& recipe, const PlanPreference& preference, int64_t samples = 3000) {
  const GemmDescriptor& d = recipe.d;
  Data data(d, recipe.a, recipe.b, recipe.c);
  SCOPED_TRACE(text(preference.require_kernel, " ", describe(d)));
  const std::vector<double> a = data.a.values(), b = data.b.values(), old = data.c.values();
  if (d.beta == 0) data.c.poison();
  ASSERT_OK(run_plan<Gemm>(d, data.args(), preference));
  EXPECT_TRUE(data.c.guards_intact());
  const int64_t count = data.c.numel(), step = std::max<int64_t>(1, count / samples) | 1;
  Source source(5);
  for (int64_t i = count > samples ? int64_t(source.next() % uint64_t(step)) : 0; i < count; i += count > samples ? step : 1) {
    const int64_t column = i % d.n, row = i / d.n % d.m, batch = i / (d.n * d.m);
    double sum = 0, scale = 0;
    for (int64_t k = 0; k < d.k && d.alpha != 0; ++k) {
      const double x = a[size_t(batch * d.m * d.k + (d.trans_a ? k * d.m + row : row * d.k + k))];
      const double y = b[size_t(batch * d.k * d.n + (d.trans_b ? column * d.k + k : k * d.n + column))];
      sum += x * y, scale += std::fabs(x * y);
    }
    double want = d.alpha * sum, condition = std::fabs(d.alpha) * scale;
    if (d.beta != 0) want += d.beta * old[size_t(i)], condition += std::fabs(d.beta * old[size_t(i)]);
    if (d.bias == GemmBias::row) want += data.bias.at(column), condition += std::fabs(data.bias.at(column));
    const double y = act(d.epilogue, want);
    const Tolerance t{.dtype = d.out_dtype(), .ulps = 1, .terms = double(d.k), .condition = 2 * condition};
    ASSERT_LE(std::fabs(data.c.at(i) - y), t.bound(y)) << "batch " << batch << " row " << row << " column " << column << " got " << data.c.at(i) << " want " << y;
  }
}
bool serves(std::string_view row, const GemmDescriptor& d) {
  return GemmPlan::select(test_stream(), d, {.require_kernel = row}).ok();
}
void check_everywhere(const Recipe& recipe) {
  for (std::string_view row : kRows)
    if (serves(row, recipe.d)) check_values(recipe, {.require_kernel = row});
}
std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (Isa i : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16})
    if (limit_isa(i); isa() == i) list.push_back(i);
  limit_isa(Isa::avx512bf16);
  return list;
}
struct WithIsa {
  explicit WithIsa(Isa i) { limit_isa(i), limit_amx(false); }  // AMX is what all else runs with where there is any
  ~WithIsa() { limit_isa(Isa::avx512bf16), limit_amx(true); }
};

TEST(Gemm, ShapesDtypesAndTransposes) {
  for (DType t : kTypes)
    for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1}, {1, 33, 5}, {7, 1, 64}, {65, 63, 66}, {31, 100, 17}, {3, 2, 1}, {50, 5, 129}})
      for (int trans = 0; trans < 4; ++trans)
        check_everywhere({{.dtype = t, .m = m, .n = n, .k = k, .trans_a = bool(trans & 1), .trans_b = bool(trans & 2)}});
}
// More tiles than multiprocessors, so that blocks go on from one to the next.
TEST(Gemm, ManyTiles) {
  if (!on_cuda()) GTEST_SKIP() << "tiles of CUDA";
  for (DType t : {DType::f16, DType::bf16})
    for (int trans = 0; trans < 4; ++trans)
      for (bool wide : {false, true})
        check_everywhere({{.dtype = t, .out = wide ? std::optional(DType::f32) : std::nullopt, .m = 2056, .n = 2312, .k = 200, .trans_a = bool(trans & 1),
                           .trans_b = bool(trans & 2), .beta = wide ? 1. : 0.}});
}
TEST(Gemm, LayoutsOfEveryOperand) {
  const Layout layouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};
  for (DType t : {DType::bf16, DType::f32})
    for (Layout l : layouts)
      for (int which = 0; which < 3; ++which)
        for (double beta : {0.0, 1.0}) {
          const Layout dense = Layout::dense;
          check_everywhere({{.dtype = t, .m = 37, .n = 70, .k = 41, .beta = beta}, which == 0 ? l : dense, which == 1 ? l : dense, which == 2 ? l : dense});
        }
}
TEST(Gemm, EpiloguesBiasAlphaBetaAndOutput) {
  for (DType t : kTypes)
    for (GemmEpilogue e : {GemmEpilogue::none, GemmEpilogue::relu, GemmEpilogue::gelu, GemmEpilogue::gelu_tanh, GemmEpilogue::silu})
      for (GemmBias bias : {GemmBias::none, GemmBias::row})
        for (auto [alpha, beta] : {std::pair{1.0, 0.0}, {1.0, 1.0}, {0.125, -0.5}})
          for (bool wide : {false, true})
            if (!wide || t == DType::f16 || t == DType::bf16)
              check_everywhere({{.dtype = t, .out = wide ? std::optional(DType::f32) : std::nullopt, .m = 19, .n = 53, .k = 24, .alpha = alpha,
                                     .beta = beta, .bias = bias, .epilogue = e}});
}
TEST(Gemm, BiasIsAddedBeforeTheRounding) {  // extents that a library serves otherwise than odd ones; views that are aligned and not
  for (DType t : kTypes)
    for (auto [m, n, k] : {std::array<int64_t, 3>{64, 64, 64}, {128, 256, 512}, {8, 512, 1024}, {384, 8, 64}, {40, 72, 2048}})
      for (Layout l : {Layout::dense, Layout::padded}) check_everywhere({{.dtype = t, .m = m, .n = n, .k = k, .trans_b = m < n, .bias = GemmBias::row}, Layout::dense, Layout::dense, l});
}
TEST(Gemm, EveryInstructionSet) {
  CPU_ONLY("instruction sets of the CPU");
  for (Isa i : isas()) {
    WithIsa limit(i);
    for (DType t : kTypes) {
      check_values({{.dtype = t, .m = 33, .n = 67, .k = 45, .bias = GemmBias::row, .epilogue = GemmEpilogue::silu}}, kOwn);
      check_values({{.dtype = t, .m = 200, .n = 131, .k = 801, .trans_a = true, .beta = 1}}, kOwn);
    }
  }
}
TEST(Gemm, ColumnMajorOutput) {
  for (DType t : kTypes) {
    check_everywhere({{.dtype = t, .m = 40, .n = 90, .k = 30, .bias = GemmBias::row}, Layout::dense, Layout::dense, Layout::transposed});
    check_everywhere({{.dtype = t, .m = 150, .n = 120, .k = 500, .beta = 1}, Layout::transposed, Layout::dense, Layout::transposed});
  }
}
TEST(Gemm, NarrowOutputs) {
  for (DType t : kTypes)
    for (int64_t n : {1, 3, 8}) check_everywhere({{.dtype = t, .m = 500, .n = n, .k = 70, .beta = n == 3 ? 1.0 : 0.0, .bias = GemmBias::row}});
}
// Dense operands of a large product, filled cheaply; c as any tensor.
std::vector<char> cheap(DType t, int64_t count, uint64_t seed) {
  Source source(seed);
  std::vector<char> pool(1021 * byte_size(t)), v(size_t(count) * byte_size(t));
  for (size_t i = 0; i < 1021; ++i) write_element(t, &pool[i * byte_size(t)], source.normal());
  for (size_t i = 0; i < v.size(); i += pool.size()) std::memcpy(&v[i], pool.data(), std::min(pool.size(), v.size() - i));
  return v;
}
void check_large(const GemmDescriptor& d, Layout layout, std::string_view row) {
  SCOPED_TRACE(text(row, " ", describe(d)));
  const std::vector<char> a = cheap(d.dtype, d.m * d.k, 1), b = cheap(d.dtype, d.k * d.n, 2);
  const Tensor bias = d.bias == GemmBias::row ? Tensor::normal(d.dtype, {d.n}, 3) : Tensor();
  Tensor c(d.out_dtype(), {d.m, d.n}, layout);
  if (d.beta == 0) c.poison();
  else for (int64_t i = 0; i < c.numel(); ++i) c.set(i, i % 7);
  const auto dense = [&](const std::vector<char>& v, bool t, int64_t rows, int64_t cols) {
    return TensorView::dense(const_cast<char*>(v.data()), d.dtype, t ? Shape{cols, rows} : Shape{rows, cols});
  };
  ASSERT_OK(run_plan<Gemm>(d, {dense(a, d.trans_a, d.m, d.k), dense(b, d.trans_b, d.k, d.n), c, bias}, {.require_kernel = row}));
  EXPECT_TRUE(c.guards_intact());
  const size_t size = byte_size(d.dtype);
  Source source(4);
  for (int sample = 0; sample < 400; ++sample) {
    // The corners first, then anywhere.
    const int64_t i = sample < 4 ? (sample & 1 ? d.m - 1 : 0) : int64_t(source.next() % uint64_t(d.m));
    const int64_t j = sample < 4 ? (sample & 2 ? d.n - 1 : 0) : int64_t(source.next() % uint64_t(d.n));
    double sum = 0, scale = 0;
    for (int64_t k = 0; k < d.k; ++k) {
      const double x = read_element(d.dtype, &a[size_t(d.trans_a ? k * d.m + i : i * d.k + k) * size]);
      const double y = read_element(d.dtype, &b[size_t(d.trans_b ? j * d.k + k : k * d.n + j) * size]);
      sum += x * y, scale += std::fabs(x * y);
    }
    const double old = d.beta == 0 ? 0 : double((i * d.n + j) % 7), add = d.bias == GemmBias::row ? bias.at(j) : 0;
    const double want = act(d.epilogue, d.alpha * sum + d.beta * old + add);
    const Tolerance t{.dtype = d.out_dtype(), .ulps = 1, .terms = double(d.k), .condition = 2 * (scale + std::fabs(d.beta * old) + std::fabs(add))};
    ASSERT_LE(std::fabs(c.at(i * d.n + j) - want), t.bound(want)) << i << " " << j << " got " << c.at(i * d.n + j) << " want " << want;
  }
}
// Shapes chosen so that each way of cutting is taken; gemm_blocking says which.
TEST(Gemm, LargeProductsTakeEveryPath) {
  const Layout dense = Layout::dense;
  struct Case { GemmDescriptor d; Layout c; bool shared, split, full; };
  const Case cases[] = {
      {{.dtype = DType::f32, .m = 200, .n = 1100, .k = 400}, dense, true, false, false},
      {{.dtype = DType::f32, .m = 130, .n = 1100, .k = 4000}, dense, true, true, false},                              // partial sums in c
      {{.dtype = DType::f32, .m = 100, .n = 600, .k = 4000, .alpha = 0.5}, Layout::every_other, true, true, false},  // ... copied in and out
      {{.dtype = DType::f32, .m = 100, .n = 600, .k = 4000, .beta = 1}, dense, true, false, false},
      {{.dtype = DType::bf16, .m = 100, .n = 300, .k = 17000, .bias = GemmBias::row}, dense, true, true, true},  // in an m x n scratch
      {{.dtype = DType::f64, .m = 130, .n = 300, .k = 5000, .beta = 2}, dense, true, true, true},
      {{.dtype = DType::bf16, .out = DType::f32, .m = 768, .n = 192, .k = 1111, .trans_a = true, .beta = 1}, dense, true, false, false},
      {{.dtype = DType::f16, .m = 300, .n = 200, .k = 900, .trans_b = true, .epilogue = GemmEpilogue::gelu}, dense, true, false, false},
      {{.dtype = DType::bf16, .m = 60, .n = 1000, .k = 2000, .trans_b = true}, dense, false, false, false},
  };
  for (const Case& c : cases) {
    const TileKernel& t = gemm_tiles().of[c.d.dtype];
    const GemmBlocking g = gemm_blocking(t, c.d.m, c.d.n, c.d.k, 1, c.d.out_dtype() == accumulator(c.d.dtype) && c.d.beta == 0);
    if (!on_cuda()) EXPECT_EQ(g.shared_b, c.shared) << describe(c.d);
    if (!on_cuda() && isa() == Isa::avx512bf16) {
      EXPECT_EQ(g.ks < c.d.k, c.split) << describe(c.d);
      EXPECT_EQ(g.full_sums, c.full) << describe(c.d);
    }
    for (std::string_view row : kRows)
      if (serves(row, c.d)) check_large(c.d, c.c, row);
  }
}
TEST(Gemm, Batches) {
  for (DType t : kTypes) {
    check_everywhere({{.dtype = t, .m = 9, .n = 20, .k = 33, .batch = {3, 2}}});
    check_everywhere({{.dtype = t, .m = 9, .n = 20, .k = 33, .batch = {5}, .trans_a = true, .trans_b = true, .beta = 0.5}, Layout::outer_reversed});
    check_everywhere({{.dtype = t, .m = 9, .n = 20, .k = 33, .batch = {0, 4}}});
  }
  check_everywhere({{.dtype = DType::f32, .m = 100, .n = 200, .k = 300, .batch = {2}}});  // packed together, batch by batch
}
TEST(Gemm, BroadcastBatch) {  // one b for all of the batch, one a for each second axis
  const GemmDescriptor d{.dtype = DType::f32, .m = 17, .n = 29, .k = 23, .batch = {2, 3}};
  const Tensor a = Tensor::normal(d.dtype, {2, 17, 23}, 1), b = Tensor::normal(d.dtype, {23, 29}, 2);
  TensorView wide_a = a, wide_b = b;
  wide_a.shape = {2, 3, 17, 23}, wide_a.strides = {17 * 23, 0, 23, 1};
  wide_b.shape = {2, 3, 23, 29}, wide_b.strides = {0, 0, 29, 1};
  for (std::string_view row : kRows) {
    if (!serves(row, d)) continue;
    Tensor c(d.dtype, {2, 3, 17, 29});
    ASSERT_OK(run_plan<Gemm>(d, {wide_a, wide_b, c, {}}, {.require_kernel = row}));
    Data dense(d);
    for (int64_t i = 0; i < dense.a.numel(); ++i) dense.a.set(i, a.at(i / (3 * 17 * 23) * 17 * 23 + i % (17 * 23)));
    for (int64_t i = 0; i < dense.b.numel(); ++i) dense.b.set(i, b.at(i % (23 * 29)));
    ASSERT_OK(run_plan<Gemm>(d, dense.args(), {.require_kernel = row}));
    EXPECT_TRUE(c.same_bits(dense.c)) << row;
  }
}
TEST(Gemm, case_gemm_beta0_nan) {  // c is write-only when beta is 0
  for (std::string_view row : kRows)
    for (DType t : kTypes)
      for (int64_t n : {1, 63, 64, 65})
        for (Layout layout : {Layout::dense, Layout::every_other}) {
          const GemmDescriptor d{.dtype = t, .m = n, .n = n, .k = 64};
          if (!serves(row, d)) continue;
          const Tensor a(t, {n, 64}, std::vector<double>(size_t(n * 64), 1)), b(t, {64, n}, std::vector<double>(size_t(n * 64), 1));
          Tensor c(t, {n, n}, std::vector<double>(size_t(n * n), NAN), layout);
          ASSERT_OK(run_plan<Gemm>(d, {a, b, c, {}}, {.require_kernel = row}));
          for (double y : c.values()) ASSERT_EQ(y, 64) << row << " " << name(t) << " " << n;
        }
}
TEST(Gemm, case_gemm_alpha0) {  // a and b are not read when alpha is 0
  for (std::string_view row : kRows)
    for (DType t : kTypes)
      for (double beta : {0.0, 1.0, 2.0}) {
        const GemmDescriptor d{.dtype = t, .m = 20, .n = 70, .k = 40, .alpha = 0, .beta = beta};
        if (!serves(row, d)) continue;
        const Tensor a(t, {20, 40}, std::vector<double>(800, NAN)), b(t, {40, 70}, std::vector<double>(2800, NAN));
        Tensor c(t, {20, 70}, std::vector<double>(1400, beta == 0 ? NAN : 1.0));
        ASSERT_OK(run_plan<Gemm>(d, {a, b, c, {}}, {.require_kernel = row}));
        for (double y : c.values()) ASSERT_EQ(y, beta) << row << " " << name(t);
      }
}
TEST(Gemm, EmptyExtents) {
  for (DType t : kTypes) {
    check_everywhere({{.dtype = t, .m = 5, .n = 7, .k = 0}});
    check_everywhere({{.dtype = t, .m = 5, .n = 7, .k = 0, .beta = -1.5, .bias = GemmBias::row, .epilogue = GemmEpilogue::gelu}});
    check_everywhere({{.dtype = t, .m = 0, .n = 7, .k = 3}});
    check_everywhere({{.dtype = t, .m = 5, .n = 0, .k = 3, .bias = GemmBias::row}});
    check_everywhere({{.dtype = t, .m = 0, .n = 0, .k = 0}});
  }
  const GemmDescriptor d{.m = 1, .n = 2, .k = 0, .beta = 1};
  Tensor a(DType::f32, {1, 0}), b(DType::f32, {0, 2}), c(DType::f32, {1, 2}, {-0.0, NAN});
  ASSERT_OK(run_plan<Gemm>(d, {a, b, c, {}}));
  EXPECT_TRUE(std::signbit(c.at(0)) && std::isnan(c.at(1)));  // beta c, nothing added
}
TEST(Gemm, SpecialValues) {
  for (std::string_view row : kRows)
    for (DType t : kTypes) {
      GemmDescriptor d{.dtype = t, .m = 3, .n = 40, .k = 20, .epilogue = GemmEpilogue::relu};
      if (!serves(row, d)) continue;
      Data data(d);
      data.a.set(5, NAN), data.b.set(7, INFINITY), data.b.set(40 + 9, NAN);
      const std::vector<double> a = data.a.values(), b = data.b.values();
      ASSERT_OK(run_plan<Gemm>(d, data.args(), {.require_kernel = row}));
      for (int64_t i = 0; i < 120; ++i) {
        double want = 0;
        for (int64_t k = 0; k < 20; ++k) want += a[size_t(i / 40 * 20 + k)] * b[size_t(k * 40 + i % 40)];
        if (std::isnan(want)) EXPECT_TRUE(std::isnan(data.c.at(i))) << row << " " << name(t) << " " << i;
        else if (std::isinf(want)) EXPECT_EQ(data.c.at(i), want > 0 ? want : 0) << row << " " << name(t) << " " << i;
        else EXPECT_TRUE(std::isfinite(data.c.at(i))) << row << " " << name(t) << " " << i;
      }
    }
}
TEST(Gemm, HalvesAccumulateInFloat) {  // an f16 or bf16 sum would stall at 2048 or 256
  for (DType t : {DType::f16, DType::bf16}) {
    const GemmDescriptor d{.dtype = t, .m = 2, .n = 33, .k = 4096};
    const Tensor a(t, {2, 4096}, std::vector<double>(8192, 1)), b(t, {4096, 33}, std::vector<double>(4096 * 33, 1));
    Tensor c(t, {2, 33});
    ASSERT_OK(run_plan<Gemm>(d, {a, b, c, {}}));
    for (double y : c.values()) ASSERT_EQ(y, 4096);
  }
}

// The promise of batch_invariant and more: bits depend on the row of op(a), the column of op(b) and c alone.
TEST(Gemm, BitsDoNotDependOnTheRest) {
  for (DType t : kTypes)
    for (auto [beta, trans_b] : {std::pair{0.0, false}, {1.0, false}, {0.0, true}}) {
      const GemmDescriptor d{.dtype = t, .m = 300, .n = 200, .k = 1000, .trans_b = trans_b, .beta = beta, .bias = GemmBias::row, .epilogue = GemmEpilogue::silu};
      const Data data(d);
      Tensor whole(t, {300, 200}, data.c.values());
      ASSERT_OK(run_plan<Gemm>(d, {data.a, data.b, whole, data.bias}, kOwn));
      for (auto [rows, first] : {std::pair<int64_t, int64_t>{1, 0}, {1, 299}, {4, 50}, {7, 100}, {96, 3}, {128, 150}})
        for (auto [cols, left] : {std::pair<int64_t, int64_t>{200, 0}, {1, 199}, {5, 90}, {64, 17}}) {
          GemmDescriptor part = d;
          part.m = rows, part.n = cols;
          auto cut = [](TensorView v, int64_t r0, int64_t r, int64_t c0, int64_t c) {
            v.data = v.as<char>() + (r0 * v.strides[0] + c0 * v.strides[1]) * int64_t(byte_size(v.dtype));
            v.shape = {r, c};
            return v;
          };
          TensorView bias = data.bias;
          bias.data = bias.as<char>() + left * int64_t(byte_size(t)), bias.shape = {cols};
          Tensor c(t, {rows, cols}), column_major(t, {rows, cols}, Layout::transposed);
          for (int64_t i = 0; i < rows * cols; ++i)
            for (Tensor* y : {&c, &column_major}) y->set(i, data.c.at((first + i / cols) * 200 + left + i % cols));
          const TensorView a = cut(data.a, first, rows, 0, 1000), b = trans_b ? cut(data.b, left, cols, 0, 1000) : cut(data.b, 0, 1000, left, cols);
          ASSERT_OK(run_plan<Gemm>(part, {a, b, c, bias}, kOwn));
          ASSERT_OK(run_plan<Gemm>(part, {a, b, column_major, bias}, kOwn));
          for (int64_t i = 0; i < rows * cols; ++i) {
            ASSERT_EQ(c.at(i), whole.at((first + i / cols) * 200 + left + i % cols)) << name(t) << " " << rows << "x" << cols << " at " << i;
            ASSERT_EQ(column_major.at(i), c.at(i)) << name(t) << " column-major " << rows << "x" << cols << " at " << i;
          }
        }
    }
}
TEST(Gemm, PlanClaimsBatchInvarianceOnlyForTheOwnRow) {
  for (std::string_view row : kRows)
    if (auto plan = GemmPlan::select(test_stream(), {.m = 4, .n = 4, .k = 4}, {.require_kernel = row}); plan.ok()) {
      EXPECT_TRUE(plan->precision_guarantee().deterministic);
      EXPECT_EQ(plan->precision_guarantee().batch_invariant, row == kRows[0]);
    }
  EXPECT_EQ(GemmPlan::select(test_stream(), {.m = 4, .n = 4, .k = 4}, {.require_batch_invariant = true}).value().kernel_name(), kRows[0]);
}
TEST(Gemm, SameBitsWithAvx2AndAvx512) {
  CPU_ONLY("instruction sets of the CPU");
  if (std::ranges::count(isas(), Isa::avx2) + std::ranges::count(isas(), Isa::avx512) < 2) GTEST_SKIP() << "needs AVX-512, and the AVX2 loops in the build";
  for (DType t : {DType::f16, DType::f32, DType::f64}) {
    Data data({.dtype = t, .m = 130, .n = 70, .k = 900, .bias = GemmBias::row, .epilogue = GemmEpilogue::gelu_tanh});
    Tensor narrow(t, {130, 70});
    ASSERT_OK(run_plan<Gemm>(data.d, data.args(), kOwn));
    WithIsa limit(Isa::avx2);
    ASSERT_OK(run_plan<Gemm>(data.d, {data.a, data.b, narrow, data.bias}, kOwn));
    EXPECT_TRUE(narrow.same_bits(data.c)) << name(t);
  }
}
TEST(Gemm, RepeatsAndThreadsGiveTheSameBits) {
  for (std::string_view row : kRows)
    for (DType t : kTypes)
      for (GemmDescriptor d : {GemmDescriptor{.dtype = t, .m = 150, .n = 300, .k = 500, .beta = 1}, GemmDescriptor{.dtype = t, .m = 10, .n = 600, .k = 200, .trans_b = true},
                               GemmDescriptor{.dtype = t, .m = 30, .n = 40, .k = 70, .batch = {9}, .epilogue = GemmEpilogue::gelu}})
        if (serves(row, d)) check_repeat_bits<Gemm>(d, Data(d).args(), {.require_kernel = row}, 1);
}
// Blocks of every size side by side on more workers than processors: libraries keep scratch that threads might share.
TEST(Gemm, ManyBlocksAtOnceGiveTheSameBits) {
  CPU_ONLY("threads of the CPU");
  const GemmDescriptor d{.m = 600, .n = 1100, .k = 1100};
  const std::vector<char> a = cheap(d.dtype, d.m * d.k, 1), b = cheap(d.dtype, d.k * d.n, 2);
  std::vector<float> first(size_t(d.m * d.n)), again(first.size());
  const TensorView va = TensorView::dense(const_cast<char*>(a.data()), d.dtype, {d.m, d.k}), vb = TensorView::dense(const_cast<char*>(b.data()), d.dtype, {d.k, d.n});
  for (std::string_view row : kRows) {
    if (!serves(row, d)) continue;
    set_threads(1);
    ASSERT_OK(run_plan<Gemm>(d, {va, vb, TensorView::dense(first.data(), {d.m, d.n}), {}}, {.require_kernel = row}));
    set_threads(8);
    for (int repeat = 0; repeat < 6; ++repeat) {
      ASSERT_OK(run_plan<Gemm>(d, {va, vb, TensorView::dense(again.data(), {d.m, d.n}), {}}, {.require_kernel = row}));
      EXPECT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(float)), 0) << row << " repeat " << repeat;
    }
    set_threads(0);
  }
}
TEST(Gemm, Contract) {
  CPU_ONLY("refusals of the CPU rows");
  for (std::string_view row : kRows)
    for (DType t : kTypes) {
      const GemmDescriptor d{.dtype = t, .m = 100, .n = 90, .k = 80, .beta = 0.5, .bias = GemmBias::row};
      if (serves(row, d)) check_contract<Gemm>(d, Data(d).args(), {}, {.require_kernel = row});
    }
}
TEST(Gemm, Refusals) {
  CPU_ONLY("refusals of the CPU rows");
  struct Case { GemmDescriptor d; Code code; std::initializer_list<std::string_view> words; };
  for (const Case& c : {
           Case{{.m = -1, .n = 2, .k = 3}, Code::invalid_problem, {"gemm", "m is -1"}},
           Case{{.m = 1, .n = 2, .k = -3}, Code::invalid_problem, {"gemm", "k is -3"}},
           Case{{.m = 1, .n = 2, .k = 3, .batch = {2, -1}}, Code::invalid_problem, {"gemm", "batch", "[2, -1]"}},
           Case{{.m = 1, .n = 2, .k = 3, .batch = {1, 1, 1, 1, 1, 1, 1}}, Code::invalid_problem, {"gemm", "7 axes", "6"}},
           Case{{.m = int64_t(1) << 40, .n = 2, .k = int64_t(1) << 40}, Code::invalid_problem, {"gemm", "63 bits"}},
           Case{{.m = 1, .n = 2, .k = 3, .alpha = NAN}, Code::invalid_problem, {"gemm", "alpha", "finite"}},
           Case{{.m = 1, .n = 2, .k = 3, .beta = INFINITY}, Code::invalid_problem, {"gemm", "beta", "finite"}},
           Case{{.m = 1, .n = 2, .k = 3, .bias = GemmBias(7)}, Code::invalid_problem, {"gemm", "bias 7"}},
           Case{{.m = 1, .n = 2, .k = 3, .epilogue = GemmEpilogue(9)}, Code::invalid_problem, {"gemm", "epilogue 9"}},
           Case{{.dtype = DType::f32, .out = DType::f64, .m = 1, .n = 2, .k = 3}, Code::invalid_problem, {"gemm", "out is f64", "f32"}},
           Case{{.dtype = DType::bf16, .out = DType::f16, .m = 1, .n = 2, .k = 3}, Code::invalid_problem, {"gemm", "out is f16", "bf16 or f32"}},
           Case{{.dtype = DType::i32, .m = 1, .n = 2, .k = 3}, Code::unsupported, {"gemm.cpu.blocked", "no i32", "f16 bf16 f32 f64"}},
       })
    expect_refused(GemmPlan::select(Stream::cpu(), c.d).status(), c.code, c.words);
  const GemmDescriptor d{.m = 3, .n = 4, .k = 5};
  const Data data(d);
  const Tensor bias = Tensor::normal(DType::f32, {4}, 1);
  expect_refused(run_plan<Gemm>(d, {data.a, data.b, data.c, bias}), Code::invalid_problem, {"gemm", "bias is given"});
  GemmDescriptor biased = d;
  biased.bias = GemmBias::row;
  expect_refused(run_plan<Gemm>(biased, data.args()), Code::invalid_problem, {"gemm", "bias is missing"});
  expect_refused(GemmPlan::select(Stream::cpu(), d, {.max_workspace = 0}).status(), Code::unsupported, {"gemm.cpu.blocked", "bytes of workspace"});
}
TEST(Gemm, ExplainNamesTheReasonOfEveryRow) {
  CPU_ONLY("names of the CPU rows");
  const auto rows = GemmPlan::explain(Stream::cpu(), {.dtype = DType::f64, .m = 8, .n = 8, .k = 8}).value();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].kernel, "gemm.cpu.onednn");
  EXPECT_NE(rows[0].reason.find("no f64"), std::string::npos);
  EXPECT_EQ(rows[1].kernel, "gemm.cpu.blocked");
  EXPECT_TRUE(rows[1].accepted);
  if (isa() >= Isa::avx2) {
    const auto f32 = GemmPlan::explain(Stream::cpu(), {.m = 8, .n = 8, .k = 8}).value();
    EXPECT_FALSE(f32[0].accepted);
    EXPECT_FALSE(f32[0].reason.empty());
    EXPECT_EQ(GemmPlan::select(Stream::cpu(), {.m = 8, .n = 8, .k = 8}).value().kernel_name(), "gemm.cpu.blocked");
  }
  if (serves(kRows[1], {.m = 8, .n = 8, .k = 8}))
    EXPECT_EQ(GemmPlan::select(Stream::cpu(), {.m = 8, .n = 8, .k = 8}, {.prefer_backend = Backend::onednn}).value().kernel_name(), kRows[1]);
}

}  // namespace
}  // namespace baracuda
