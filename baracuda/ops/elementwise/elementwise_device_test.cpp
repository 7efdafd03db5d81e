// The family on another device beside the CPU: every kind in every dtype, on random bits, gives the same bits where the guarantee says so,
// else, of halves, the same within their last place.
#include "baracuda/ops/elementwise/elementwise.hpp"
#include <gtest/gtest.h>
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr int64_t kElements = 1 << 12;  // and a few, so that there is a rest behind the vectors
// Random bits, every other element near 1; places 0.. are the special ones.
struct Data {
  Data(DType t, int64_t n, uint64_t seed) : shape{n}, memory(size_t(n) * byte_size(t)), dtype(t) {
    Source source(seed);
    for (uint8_t& b : memory) b = uint8_t(source.next() >> 20);
    const DType part = is_complex(t) ? counterpart(t) : t;
    const size_t size = byte_size(part);
    for (size_t i = 0; i * size < memory.size(); ++i) {
      uint8_t* at = memory.data() + i * size;
      if (t == DType::boolean) *at &= 1;
      else if (is_floating(t)) {
        constexpr double special[] = {0, -0.0, 1, -1, 0.5, HUGE_VAL, -HUGE_VAL, __builtin_nan(""), 1e-40, -2, 3, 1e30, 88, -104, 1e-5, 0.75};
        if (i < std::size(special)) write_element(part, at, special[(i * (seed + 1)) % std::size(special)]);
        else if (i % 2) write_element(part, at, 2 * source.normal());
      } else if (i % 2) write_element(t, at, double(int64_t(source.next() % 7)));
    }
  }
  TensorView view() { return TensorView::dense(memory.data(), dtype, shape); }
  Shape shape;
  std::vector<uint8_t> memory;
  DType dtype;
};
// The same bits, or a NaN on both sides.
void expect_same(const Data& a, const Data& b, const std::string& what) {
  const DType part = is_complex(a.dtype) ? counterpart(a.dtype) : a.dtype;
  const size_t size = byte_size(part);
  int bad = 0;
  for (size_t i = 0; i < a.memory.size(); i += size) {
    if (!std::memcmp(&a.memory[i], &b.memory[i], size)) continue;
    const double u = read_element(part, &a.memory[i]), v = read_element(part, &b.memory[i]);
    if (is_floating(part) && u != u && v != v) continue;
    if (++bad == 1) ADD_FAILURE() << what << ": number " << i / size << " is " << v << " there, " << u << " on the CPU";
  }
  EXPECT_EQ(bad, 0) << what;
}
// Of kinds that are computed briefly: within a place of the last digit, few off by one; of gradients within the error of the
// slope besides, which is a part of `scale` (dy, or nothing).
void expect_close(const Data& a, const Data& b, const Data* scale, const std::string& what) {
  int bad = 0, off = 0;
  const size_t size = byte_size(a.dtype), n = a.memory.size() / size;
  for (size_t i = 0; i < n; ++i) {
    const double u = read_element(a.dtype, &a.memory[i * size]), v = read_element(b.dtype, &b.memory[i * size]);
    if (u == v || (u != u && v != v)) continue;
    const double least = smallest_subnormal(a.dtype), place = std::max(least, 2 * unit_roundoff(a.dtype) * std::max(std::fabs(u), std::fabs(v)));
    const double more = scale ? 0x1p-15 * std::fabs(read_element(a.dtype, &scale->memory[i * size])) : 0;
    ++off;
    if (!(std::fabs(u - v) <= 1.01 * place + more) && ++bad == 1) ADD_FAILURE() << what << ": number " << i << " is " << v << " there, " << u << " on the CPU";
  }
  EXPECT_EQ(bad, 0) << what;
  EXPECT_LE(off, int(n / (scale ? 20 : 50))) << what;
  ::testing::Test::RecordProperty("off_" + what, off);
}
template <class Op> bool claims_same_bits(const typename Op::Descriptor& d) {
  const auto plan = Plan<Op>::select(test_stream(), d);
  return !plan.ok() || plan->precision_guarantee().same_on_cpu_and_cuda;
}
template <class Op> void run_both(const typename Op::Descriptor& d, const typename Op::Args& here, const typename Op::Args& there) {
  const auto cpu = Plan<Op>::select(Stream::cpu(), d);
  ASSERT_TRUE(cpu.ok()) << cpu.status().to_string();
  GuardedWorkspace workspace(cpu->workspace_size());
  ASSERT_OK(cpu->run(Stream::cpu(), workspace.get(), here));
  ASSERT_OK(run_plan<Op>(d, there));
}
#define SKIP_ON_THE_CPU() \
  if (!on_cuda()) GTEST_SKIP() << "compares another device with the CPU; BARACUDA_TEST_DEVICE is cpu"

TEST(OnDevice, UnaryGivesTheCpusBits) {
  SKIP_ON_THE_CPU();
  const int64_t n = kElements + 3;
  for (int i = 0; i < kUnaryKinds; ++i)
    for (size_t j = 0; j < kDTypes; ++j) {
      const UnaryKind k = UnaryKind(i);
      const DType t = DType(j);
      if (!takes(k, t)) continue;
      const std::string what = text(enum_name(k), " ", t);
      const DType r = result_dtype(k, t);
      Data x(t, n, uint64_t(i)), y(r, n, 1), y2(r, n, 2);
      run_both<Unary>({k, t, x.shape}, {x.view(), y.view()}, {x.view(), y2.view()});
      const bool same = claims_same_bits<Unary>({k, t, x.shape});
      EXPECT_TRUE(same || t == DType::f16 || t == DType::bf16 || is_complex(t)) << what;
      if (same || is_complex(t)) expect_same(y, y2, what);
      else expect_close(y, y2, nullptr, what);
      if (!has_gradient(k, t)) continue;
      Data dy(r, n, 3), dx(t, n, 4), dx2(t, n, 5);
      run_both<UnaryBackward>({k, t, x.shape}, {dy.view(), x.view(), y.view(), dx.view()}, {dy.view(), x.view(), y.view(), dx2.view()});
      if (same || is_complex(t)) expect_same(dx, dx2, what + " backward");
      else expect_close(dx, dx2, &dy, what + " backward");
    }
}
TEST(OnDevice, BinaryGivesTheCpusBits) {
  SKIP_ON_THE_CPU();
  const int64_t n = kElements + 1;
  for (int i = 0; i < kBinaryKinds; ++i)
    for (size_t j = 0; j < kDTypes; ++j) {
      const BinaryKind k = BinaryKind(i);
      const DType t = DType(j);
      if (!takes(k, t)) continue;
      const std::string what = text(enum_name(k), " ", t);
      const DType r = result_dtype(k, t);
      Data a(t, n, uint64_t(i)), b(t, n, uint64_t(i) + 7), y(r, n, 1), y2(r, n, 2);
      run_both<Binary>({k, t, a.shape, b.shape}, {a.view(), b.view(), y.view()}, {a.view(), b.view(), y2.view()});
      expect_same(y, y2, what);
      if (!has_gradient(k, t)) continue;
      Data dy(r, n, 3), da(t, n, 4), da2(t, n, 5), db(t, n, 6), db2(t, n, 7);
      run_both<BinaryBackward>({k, t, a.shape, b.shape}, {dy.view(), a.view(), b.view(), y.view(), da.view(), db.view()}, {dy.view(), a.view(), b.view(), y.view(), da2.view(), db2.view()});
      expect_same(da, da2, what + " da"), expect_same(db, db2, what + " db");
    }
}
TEST(OnDevice, TernaryGivesTheCpusBits) {
  SKIP_ON_THE_CPU();
  const int64_t n = kElements + 5;
  for (int i = 0; i < kTernaryKinds; ++i)
    for (size_t j = 0; j < kDTypes; ++j) {
      const TernaryKind k = TernaryKind(i);
      const DType t = DType(j);
      if (!takes(k, t)) continue;
      const std::string what = text(enum_name(k), " ", t);
      const bool where = k == TernaryKind::where;
      Data a(where ? DType::boolean : t, n, 11), b(t, n, 12), c(t, n, 13), y(t, n, 1), y2(t, n, 2);
      run_both<Ternary>({k, t, {n}, {n}, {n}}, {a.view(), b.view(), c.view(), y.view()}, {a.view(), b.view(), c.view(), y2.view()});
      expect_same(y, y2, what);
      if (!has_gradient(k, t)) continue;
      Data dy(t, n, 3), da(t, n, 4), db(t, n, 5), dc(t, n, 6), da2(t, n, 7), db2(t, n, 8), dc2(t, n, 9);
      run_both<TernaryBackward>({k, t, {n}, {n}, {n}}, {dy.view(), a.view(), b.view(), c.view(), where ? TensorView{} : da.view(), db.view(), dc.view()},
                                {dy.view(), a.view(), b.view(), c.view(), where ? TensorView{} : da2.view(), db2.view(), dc2.view()});
      if (!where) expect_same(da, da2, what + " da");
      expect_same(db, db2, what + " db"), expect_same(dc, dc2, what + " dc");
    }
}
// The same sums whatever the strides and the alignment: the cut depends on the shapes alone.
TEST(OnDevice, SumsDoNotDependOnStrides) {
  SKIP_ON_THE_CPU();
  for (DType t : {DType::bf16, DType::f32, DType::f64})
    for (const Shape& small : {Shape{64}, Shape{96, 1}, Shape{1}, Shape{1, 64}}) {
      const BinaryDescriptor d{BinaryKind::mul, t, {96, 64}, small};
      Tensor first;
      for (Layout layout : {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::every_other}) {
        const Tensor dy = Tensor::normal(t, {96, 64}, 1, 0, 1, layout), a = Tensor::normal(t, {96, 64}, 2, 0, 1, layout), b = Tensor::normal(t, small, 3);
        Tensor db(t, small);
        ASSERT_OK(run_plan<BinaryBackward>(d, {.dy = dy, .a = a, .b = b, .db = db}));
        if (layout == Layout::dense) first = db;
        EXPECT_TRUE(db.same_bits(first)) << name(t) << " " << to_string(small);
      }
    }
}
// What one of many rows gives does not depend on the others.
TEST(OnDevice, SumsOfRowsStandAlone) {
  SKIP_ON_THE_CPU();
  const int64_t rows = 300, n = 5000;
  for (DType t : {DType::bf16, DType::f32}) {
    const Tensor dy = Tensor::normal(t, {rows, n}, 1), a = Tensor::normal(t, {rows, n}, 2), b = Tensor::normal(t, {rows, 1}, 3);
    Tensor all(t, {rows, 1}), one(t, {1, 1});
    ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::mul, t, {rows, n}, {rows, 1}}, {.dy = dy, .a = a, .b = b, .db = all}));
    for (int64_t r : {int64_t(0), int64_t(17), rows - 1}) {
      const auto row = [&](const Tensor& v, int64_t width) {
        TensorView w = v.view();
        w.data = static_cast<char*>(w.data) + size_t(r * width) * byte_size(t), w.shape = {1, width}, w.strides = w.shape.contiguous();
        return w;
      };
      ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::mul, t, {1, n}, {1, 1}}, {.dy = row(dy, n), .a = row(a, n), .b = row(b, 1), .db = one}));
      EXPECT_EQ(one.at(0), all.at(r)) << name(t) << " row " << r;
    }
  }
}

}  // namespace
}  // namespace baracuda
