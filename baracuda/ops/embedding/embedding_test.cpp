#include "baracuda/ops/embedding/embedding.hpp"
#include <sys/mman.h>
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
Shape with_width(Shape s, int64_t width) { s.push_back(width); return s; }

struct Case {
  EmbeddingBackwardDescriptor d;
  Layout layout = Layout::dense;
};
// Indices run from -2 to V + 1, so some are out of range.
void check_values(const Case& c) {
  const EmbeddingBackwardDescriptor& d = c.d;
  SCOPED_TRACE(text(describe(d), " layout ", int(c.layout)));
  const int64_t n = d.indices.numel(), width = d.width, v_count = d.vocabulary;
  const DType t = d.dtype, g = d.grad_dtype.value_or(t);
  const Tensor ids = Tensor::integers(d.index_dtype, d.indices, 1, -2, v_count + 2);
  const Tensor weight = Tensor::normal(t, {v_count, width}, 2, 0, 1, c.layout), dy = Tensor::normal(t, with_width(d.indices, width), 3, 0, 1, c.layout);
  Tensor y(t, with_width(d.indices, width), c.layout);
  ASSERT_OK(run_plan<Embedding>({t, v_count, width, d.indices, d.index_dtype}, {ids, weight, y}));
  for (int64_t i = 0; i < n * width; ++i) {
    const int64_t v = int64_t(ids.at(i / width));
    if (v < 0 || v >= v_count) ASSERT_TRUE(std::isnan(y.at(i)));
    else ASSERT_EQ(y.at(i), weight.at(v * width + i % width));
  }
  EXPECT_TRUE(y.guards_intact());

  Tensor dweight = d.accumulate ? Tensor::normal(g, {v_count, width}, 4, 0, 1, c.layout) : Tensor(g, {v_count, width}, c.layout);
  std::vector<double> want(size_t(v_count * width), 0), scale(size_t(v_count * width), 0);
  if (d.accumulate) want = dweight.values();
  for (size_t i = 0; i < want.size(); ++i) scale[i] = std::fabs(want[i]);
  for (int64_t i = 0; i < n * width; ++i) {
    const int64_t v = int64_t(ids.at(i / width));
    if (v < 0 || v >= v_count || v == d.padding_idx) continue;
    want[size_t(v * width + i % width)] += dy.at(i), scale[size_t(v * width + i % width)] += std::fabs(dy.at(i));
  }
  ASSERT_OK(run_plan<EmbeddingBackward>(d, {dy, ids, dweight}));
  EXPECT_CLOSE(dweight, want, {.ulps = 1, .terms = double(n) / double(v_count + 1)}, &scale);
  EXPECT_TRUE(dweight.guards_intact());
}

TEST(Embedding, ValuesForEveryDtypeAndMode) {
  for (DType t : kDTypesHere)
    for (DType index : {DType::i32, DType::i64})
      for (bool accumulate : {false, true})
        for (bool f32 : {false, true}) {
          EmbeddingBackwardDescriptor d{.dtype = t, .vocabulary = 11, .width = 70, .indices = {5, 9}, .index_dtype = index, .padding_idx = 3, .accumulate = accumulate};
          if (f32) d.grad_dtype = DType::f32;
          check_values({d});
        }
}

TEST(Embedding, SortInParts) {  // enough indices for each thread to count a part of its own
  for (const Shape& indices : {Shape{70001}, Shape{35, 2001}}) {
    const EmbeddingBackwardDescriptor d{.vocabulary = 700, .width = 3, .indices = indices, .padding_idx = 5};
    check_values({d});
    const Tensor ids = Tensor::integers(DType::i64, indices, 1, -2, 702), dy = Tensor::normal(DType::f32, with_width(indices, 3), 2);
    Tensor dweight(DType::f32, {700, 3});
    check_repeat_bits<EmbeddingBackward>(d, {dy, ids, dweight});
  }
}
TEST(Embedding, ShapesAndStrides) {
  for (Layout layout : {Layout::dense, Layout::padded, Layout::outer_reversed})
    for (const Shape& indices : {Shape{}, Shape{1}, Shape{33}, Shape{2, 1, 3, 1, 2, 1, 2}, Shape{300, 2}})
      for (int64_t width : {1, 15, 64, 65, 333}) {
        if (layout == Layout::outer_reversed && indices.rank == 0) continue;  // y has one axis then, and that is the row
        check_values({{.dtype = width == 65 ? DType::bf16 : DType::f32, .vocabulary = 7, .width = width, .indices = indices}, layout});
      }
}
TEST(Embedding, StridedIndices) {
  const Tensor ids = Tensor::integers(DType::i64, {4, 6}, 1, 0, 9), weight = Tensor::normal(DType::f32, {9, 5}, 2);
  TensorView turned = ids;  // transposed, and one column for all
  turned.shape = {6, 4}, turned.strides = {1, 6};
  Tensor y(DType::f32, {6, 4, 5});
  ASSERT_OK(run_plan<Embedding>({DType::f32, 9, 5, {6, 4}}, {turned, weight, y}));
  for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.at(i), weight.at(int64_t(ids.at(i / 5 % 4 * 6 + i / 20)) * 5 + i % 5));
  TensorView one = ids;
  one.shape = {3, 7}, one.strides = {6, 0};
  Tensor rows(DType::f32, {3, 7, 5}), dweight(DType::f32, {9, 5});
  ASSERT_OK(run_plan<Embedding>({DType::f32, 9, 5, {3, 7}}, {one, weight, rows}));
  for (int64_t i = 0; i < rows.numel(); ++i) ASSERT_EQ(rows.at(i), weight.at(int64_t(ids.at(i / 35 * 6)) * 5 + i % 5));
  const Tensor dy(DType::f32, {3, 7, 5}, std::vector<double>(105, 1));
  ASSERT_OK(run_plan<EmbeddingBackward>({.vocabulary = 9, .width = 5, .indices = {3, 7}}, {dy, one, dweight}));
  std::vector<double> want(45, 0);
  for (int b = 0; b < 3; ++b)
    for (int c = 0; c < 5; ++c) want[size_t(ids.at(b * 6)) * 5 + size_t(c)] += 7;
  EXPECT_EQ(dweight.values(), want);
  TensorView wide = dy;  // a gradient that is the same for every index
  wide.strides = {0, 0, 1};
  ASSERT_OK(run_plan<EmbeddingBackward>({.vocabulary = 9, .width = 5, .indices = {3, 7}}, {wide, one, dweight}));
  EXPECT_EQ(dweight.values(), want);
}
TEST(Embedding, Empty) {
  Tensor none(DType::i64, {0}), weight = Tensor::normal(DType::f32, {3, 2}, 1), y(DType::f32, {0, 2}), dweight(DType::f32, {3, 2});
  ASSERT_OK(run_plan<Embedding>({DType::f32, 3, 2, {0}}, {none, weight, y}));
  ASSERT_OK(run_plan<EmbeddingBackward>({.vocabulary = 3, .width = 2, .indices = {0}}, {y, none, dweight}));
  EXPECT_EQ(dweight.values(), std::vector<double>(6, 0));
  ASSERT_OK(run_plan<EmbeddingBackward>({.vocabulary = 3, .width = 2, .indices = {0}, .accumulate = true}, {y, none, weight}));
  EXPECT_TRUE(weight.same_bits(Tensor::normal(DType::f32, {3, 2}, 1)));
  const Tensor ids(DType::i64, {2}, {0, 1});
  Tensor no_rows(DType::f32, {0, 2}), out(DType::f32, {2, 2}), no_width(DType::f32, {3, 0}), out_0(DType::f32, {2, 0});
  ASSERT_OK(run_plan<Embedding>({DType::f32, 0, 2, {2}}, {ids, no_rows, out}));  // nothing is in range
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(out.at(i)));
  ASSERT_OK(run_plan<EmbeddingBackward>({.vocabulary = 0, .width = 2, .indices = {2}}, {out, ids, no_rows}));
  ASSERT_OK(run_plan<Embedding>({DType::f32, 3, 0, {2}}, {ids, no_width, out_0}));
  ASSERT_OK(run_plan<EmbeddingBackward>({.vocabulary = 3, .width = 0, .indices = {2}}, {out_0, ids, no_width}));
}
TEST(Embedding, IndicesOutOfRangeReadAndWriteNothing) {
  for (DType t : kDTypesHere) {
    const Tensor ids(DType::i64, {6}, {-1, 3, -9e18, 9e18, 1, 1e10}), weight = Tensor::normal(t, {3, 9}, 1), dy = Tensor::normal(t, {6, 9}, 2);
    Tensor y(t, {6, 9}), dweight(t, {3, 9});
    ASSERT_OK(run_plan<Embedding>({t, 3, 9, {6}}, {ids, weight, y}));
    ASSERT_OK(run_plan<EmbeddingBackward>({.dtype = t, .vocabulary = 3, .width = 9, .indices = {6}}, {dy, ids, dweight}));
    for (int64_t i = 0; i < 54; ++i)
      if (i / 9 == 4) EXPECT_EQ(y.at(i), weight.at(9 + i % 9));
      else EXPECT_TRUE(std::isnan(y.at(i)));
    for (int64_t i = 0; i < 27; ++i) EXPECT_EQ(dweight.at(i), i / 9 == 1 ? dy.at(36 + i % 9) : 0);
    EXPECT_TRUE(y.guards_intact() && dweight.guards_intact());
  }
}
TEST(Embedding, ForwardCopiesBits) {  // NaN payloads and negative zero included
  Tensor weight(DType::f32, {2, 3}), y(DType::f32, {1, 3});
  const uint32_t bits[] = {0x7fc12345, 0x80000000, 0xff812345};
  std::memcpy(weight.view().as<uint32_t>() + 3, bits, sizeof bits);
  ASSERT_OK(run_plan<Embedding>({DType::f32, 2, 3, {1}}, {Tensor(DType::i64, {1}, {1}), weight, y}));
  EXPECT_EQ(std::memcmp(y.view().data, bits, sizeof bits), 0);
}
TEST(Embedding, case_embedding_padding_long) {
  for (int64_t n : {768, 769, 3000})
    for (bool accumulate : {false, true}) {
      const Tensor ids(DType::i64, {n}, std::vector<double>(size_t(n), 0)), dy(DType::f32, {n, 8}, std::vector<double>(size_t(n) * 8, 1));
      Tensor dweight(DType::f32, {2, 8}, std::vector<double>(16, accumulate ? 5 : NAN));
      ASSERT_OK(run_plan<EmbeddingBackward>({.vocabulary = 2, .width = 8, .indices = {n}, .padding_idx = 0, .accumulate = accumulate}, {dy, ids, dweight}));
      EXPECT_EQ(dweight.values(), std::vector<double>(16, accumulate ? 5 : 0)) << n;
    }
}
TEST(Embedding, case_embedding_int32_index) {  // 2^31 elements and more before the last row; untouched pages take no memory
  constexpr int64_t rows = 32769, width = 65536;
  void* table = mmap(nullptr, size_t(rows * width) * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) GTEST_SKIP() << "no 4 GiB of address space";
  const TensorView weight = TensorView::dense(table, DType::f16, {rows, width});
  const Tensor ids(DType::i32, {2}, {0, 32768}), dy(DType::f16, {2, width}, std::vector<double>(size_t(2 * width), 1));
  ASSERT_OK(run_plan<EmbeddingBackward>(
      {.dtype = DType::f16, .vocabulary = rows, .width = width, .indices = {2}, .index_dtype = DType::i32, .accumulate = true}, {dy, ids, weight}));
  Tensor y(DType::f16, {2, width});
  ASSERT_OK(run_plan<Embedding>({DType::f16, rows, width, {2}, DType::i32}, {ids, weight, y}));
  EXPECT_TRUE(y.same_bits(dy));
  const uint16_t* last = static_cast<uint16_t*>(table) + 32768 * width;
  for (int64_t i = 0; i < width; ++i) ASSERT_EQ(last[i], 0x3c00);
  munmap(table, size_t(rows * width) * 2);
}
TEST(Embedding, case_embedding_determinism) {
  constexpr int64_t n = 163840, vocabulary = 50000, width = 300;
  Tensor ids(DType::i64, {n}), dy(DType::bf16, {n, width}), dweight(DType::f32, {vocabulary, width}), first(DType::f32, {vocabulary, width});
  Source source(5);
  for (int64_t i = 0; i < n; ++i) ids.view().as<int64_t>()[i] = i % 2 ? 17 : int64_t(source.next() % vocabulary);
  for (int64_t i = 0; i < n * width; ++i) {
    const uint64_t r = source.next();
    dy.view().as<uint16_t>()[i] = uint16_t((r & 0x807f) | (0x3e80 + (r >> 20) % 4 * 0x80));
  }
  const EmbeddingBackwardDescriptor d{.dtype = DType::bf16, .vocabulary = vocabulary, .width = width, .indices = {n}, .grad_dtype = DType::f32};
  const int before = threads();
  for (int run = 0; run < 20; ++run) {
    set_threads(run % 4 + 1);
    Tensor& out = run == 0 ? first : dweight;
    std::memset(out.view().data, 0xff, size_t(out.numel()) * 4);
    ASSERT_OK(run_plan<EmbeddingBackward>(d, {dy, ids, out}));
    if (run) ASSERT_EQ(std::memcmp(out.view().data, first.view().data, size_t(out.numel()) * 4), 0) << run;
  }
  set_threads(before);
  for (int64_t c : {0, 17, 299}) {  // the row of half of the indices: 81920 terms and more, in f32
    double want = 0, scale = 0;
    for (int64_t i = 0; i < n; ++i)
      if (ids.at(i) == 17) want += dy.at(i * width + c), scale += std::fabs(dy.at(i * width + c));
    const Tolerance tolerance{.dtype = DType::f32, .terms = 64, .condition = scale};  // sums of 64, then of 64 of those
    EXPECT_NEAR(first.at(17 * width + c), want, tolerance.bound(want));
  }
}
TEST(Embedding, HalfSumsDoNotStall) {
  const Tensor ids(DType::i64, {5000}, std::vector<double>(5000, 1)), dy(DType::f16, {5000, 3}, std::vector<double>(15000, 1));
  Tensor dweight(DType::f16, {2, 3});
  ASSERT_OK(run_plan<EmbeddingBackward>({.dtype = DType::f16, .vocabulary = 2, .width = 3, .indices = {5000}}, {dy, ids, dweight}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(dweight.at(3 + i), 5000);
}
TEST(Embedding, AccumulateAddsOnceAndLeavesTheRest) {
  const Tensor ids(DType::i64, {2}, {2, 2}), dy(DType::bf16, {2, 1}, {0.25, 0.25});
  Tensor dweight(DType::bf16, {3, 1}, {NAN, 7, 64});  // 64 + 0.25 is a tie that rounds back, 64 + 0.5 is exact
  ASSERT_OK(run_plan<EmbeddingBackward>({.dtype = DType::bf16, .vocabulary = 3, .width = 1, .indices = {2}, .accumulate = true}, {dy, ids, dweight}));
  EXPECT_TRUE(std::isnan(dweight.at(0)));
  EXPECT_EQ(dweight.at(1), 7);
  EXPECT_EQ(dweight.at(2), 64.5);
}
TEST(Embedding, GradientByDirections) {
  const EmbeddingBackwardDescriptor d{.dtype = DType::f64, .vocabulary = 6, .width = 4, .indices = {3, 5}};
  Tensor weight = Tensor::normal(DType::f64, {6, 4}, 1), y(DType::f64, {3, 5, 4}), dweight(DType::f64, {6, 4});
  const Tensor ids = Tensor::integers(DType::i64, {3, 5}, 2, 0, 6), dy = Tensor::normal(DType::f64, {3, 5, 4}, 3);
  ASSERT_OK(run_plan<EmbeddingBackward>(d, {dy, ids, dweight}));
  check_directional([&] {
    EXPECT_OK(run_plan<Embedding>({DType::f64, 6, 4, {3, 5}}, {ids, weight, y}));
    double sum = 0;
    for (int64_t i = 0; i < y.numel(); ++i) sum += y.at(i) * dy.at(i);
    return sum;
  }, weight, dweight, 4);
}
TEST(Embedding, ContractAndBits) {
  for (DType t : kDTypesHere)
    for (bool accumulate : {false, true}) {
      const EmbeddingBackwardDescriptor d{.dtype = t, .vocabulary = 90, .width = 130, .indices = {20, 100}, .accumulate = accumulate};
      Tensor ids = Tensor::integers(DType::i64, d.indices, 1, 0, 90);
      for (int64_t i = 0; i < 2000; i += 2) ids.set(i, 5);  // a row that is split among the threads
      const Tensor weight = Tensor::normal(t, {90, 130}, 2), dy = Tensor::normal(t, {20, 100, 130}, 3);
      Tensor y(t, {20, 100, 130}), dweight = Tensor::normal(t, {90, 130}, 4);
      check_repeat_bits<EmbeddingBackward>(d, {dy, ids, dweight});
      if (accumulate) continue;
      check_repeat_bits<Embedding>({t, 90, 130, {20, 100}}, {ids, weight, y});
      if (t != DType::f32) continue;
      const Tensor few = Tensor::integers(DType::i64, {3}, 1, 0, 90), few_dy = Tensor::normal(t, {3, 130}, 3);
      Tensor few_y(t, {3, 130});
      check_contract<Embedding>({t, 90, 130, {3}}, {few, weight, few_y});
      check_contract<EmbeddingBackward>({.dtype = t, .vocabulary = 90, .width = 130, .indices = {3}}, {few_dy, few, dweight});
    }
}
TEST(Embedding, SameBitsOnCpuAndCuda) {  // rows that are split, rows of exactly a group and of 64 groups and more
  if (!on_cuda()) GTEST_SKIP() << "compares CUDA with the CPU";
  for (DType t : kDTypesHere)
    for (int64_t width : {3, 72})
      for (bool f32 : {false, true})
        for (bool accumulate : {false, true}) {
          EmbeddingBackwardDescriptor d{.dtype = t, .vocabulary = 700, .width = width, .indices = {9001}, .padding_idx = 9, .accumulate = accumulate};
          if (f32) d.grad_dtype = DType::f32;
          Tensor ids = Tensor::integers(DType::i64, d.indices, 1, -2, 702);
          for (int64_t i = 0; i < 9001; i += 2) ids.set(i, double(i < 64 * 2 ? 11 : i < 200 ? 12 : i % 3 ? 300 : 299));
          const Tensor dy = Tensor::normal(t, {9001, width}, 2);
          const DType g = d.grad_dtype.value_or(t);
          Tensor here = Tensor::normal(g, {700, width}, 3), there = Tensor::normal(g, {700, width}, 3);
          ASSERT_OK(run_plan<EmbeddingBackward>(d, {dy, ids, there}));
          const auto plan = EmbeddingBackwardPlan::select(Stream::cpu(), d);
          GuardedWorkspace workspace(plan->workspace_size());
          ASSERT_OK(plan->run(Stream::cpu(), workspace.get(), {dy, ids, here}));
          EXPECT_TRUE(here.same_bits(there)) << describe(d);
        }
}
TEST(Embedding, SameBitsOnEveryInstructionSet) {
  if (on_cuda()) GTEST_SKIP() << "instruction sets are the CPU's";
  const Isa best = isa();
  for (DType t : kDTypesHere)
    for (bool f32 : {false, true}) {
      EmbeddingBackwardDescriptor d{.dtype = t, .vocabulary = 5, .width = 213, .indices = {1500}};
      if (f32) d.grad_dtype = DType::f32;
      const Tensor ids = Tensor::integers(DType::i64, d.indices, 1, 0, 5), dy = Tensor::normal(t, {1500, 213}, 2);
      std::vector<uint8_t> first;
      for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
        limit_isa(set);
        Tensor dweight(d.grad_dtype.value_or(t), {5, 213});
        ASSERT_OK(run_plan<EmbeddingBackward>(d, {dy, ids, dweight}));
        if (set == Isa::portable) first = dweight.element_bytes();
        EXPECT_TRUE(dweight.element_bytes() == first) << name(set) << " " << name(t);
      }
    }
  limit_isa(best);
}
TEST(Embedding, RefusesDescriptors) {
  auto refused = [&](const EmbeddingBackwardDescriptor& d, Code code, std::initializer_list<std::string_view> words, bool both = true) {
    expect_refused(EmbeddingBackwardPlan::select(Stream::cpu(), d).status(), code, words);
    if (both) expect_refused(EmbeddingPlan::select(Stream::cpu(), {d.dtype, d.vocabulary, d.width, d.indices, d.index_dtype}).status(), code, words);
  };
  refused({.vocabulary = -1, .width = 2, .indices = {2}}, Code::invalid_problem, {"embedding", "vocabulary -1"});
  refused({.vocabulary = 1, .width = -2, .indices = {2}}, Code::invalid_problem, {"width -2"});
  refused({.vocabulary = int64_t(1) << 40, .width = int64_t(1) << 40, .indices = {2}}, Code::invalid_problem, {"2^63"});
  refused({.vocabulary = 1, .width = int64_t(1) << 40, .indices = {int64_t(1) << 40}}, Code::invalid_problem, {"2^63"});
  refused({.vocabulary = 1, .width = 2, .indices = {-2}}, Code::invalid_problem, {"indices [-2]"});
  refused({.vocabulary = 1, .width = 2, .indices = {1, 1, 1, 1, 1, 1, 1, 1}}, Code::invalid_problem, {"rank 8", "at most 7"});
  refused({.vocabulary = 1, .width = 2, .indices = {2}, .index_dtype = DType::i16}, Code::invalid_problem, {"index_dtype i16"});
  refused({.dtype = DType::i32, .vocabulary = 1, .width = 2, .indices = {2}}, Code::unsupported, {"no i32", "f16 bf16 f32 f64"}, false);
  refused({.dtype = DType::bf16, .vocabulary = 1, .width = 2, .indices = {2}, .grad_dtype = DType::f16}, Code::invalid_problem, {"grad_dtype f16"}, false);
  refused({.vocabulary = 3, .width = 2, .indices = {2}, .padding_idx = 3}, Code::invalid_problem, {"padding_idx 3", "[0, 3)"}, false);
  refused({.vocabulary = 3, .width = 2, .indices = {2}, .padding_idx = -1}, Code::invalid_problem, {"padding_idx -1"}, false);
  const Tensor ids(DType::i64, {2}, {0, 1}), weight = Tensor::normal(DType::f32, {3, 4}, 1, 0, 1, Layout::transposed);
  Tensor y(DType::f32, {2, 4});
  expect_refused(run_plan<Embedding>({DType::f32, 3, 4, {2}}, {ids, weight, y}), Code::unsupported, {"weight has stride 3", "last axis"});
}

TEST(Embedding, RowsSideBySidePastTheCaches) {  // rows with and without a rest beyond their last whole line, some of indices out of range
  if (on_cuda()) GTEST_SKIP() << "stores past the caches are the CPU's";
  for (int64_t width : {257, 320}) {
    const int64_t n = 50003, vocabulary = 5000;
    Large weight(DType::bf16, {vocabulary, width}), y(DType::bf16, {n, 320}), off(DType::bf16, {n, 320}, 1);
    TensorView to = y, off_to = off;
    to.shape = off_to.shape = {n, width};
    std::vector<int64_t> indices(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) indices[size_t(i)] = i % 29 == 7 ? (i % 2 ? -1 : vocabulary) : i * 7919 % vocabulary;
    const TensorView at = TensorView::dense(indices.data(), DType::i64, {n});
    ASSERT_TRUE(past_caches(to, nullptr) && !past_caches(off_to, nullptr));
    ASSERT_OK(run_plan<Embedding>({DType::bf16, vocabulary, width, {n}}, {at, weight, to}));
    ASSERT_OK(run_plan<Embedding>({DType::bf16, vocabulary, width, {n}}, {at, weight, off_to}));
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(std::memcmp(to.as<bf16>() + i * 320, off_to.as<bf16>() + i * 320, size_t(width) * 2), 0) << width << " row " << i;
  }
}
TEST(Embedding, LargerThanTheCaches) {
  if (on_cuda()) GTEST_SKIP() << "stores past the caches are the CPU's";
  for (DType t : {DType::f32, DType::bf16}) {
    const int64_t width = 96, n = t == DType::f32 ? 66000 : 132000;
    Large weight(t, {n, width}), y(t, {n, width}), off(t, {n, width}, 1);
    std::vector<int64_t> indices(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) indices[size_t(i)] = i % 4 ? i * 7 % (2 * n) - 3 : i / 96;  // some out of range, much of the table not named, some of it often
    const TensorView at = TensorView::dense(indices.data(), DType::i64, {n});
    EXPECT_TRUE(past_caches(y, weight.view().data));
    ASSERT_OK(run_plan<Embedding>({t, n, width, {n}}, {at, weight, y}));
    ASSERT_OK(run_plan<Embedding>({t, n, width, {n}}, {at, weight, off}));
    EXPECT_TRUE(y.same_bits(off)) << name(t);
    const EmbeddingBackwardDescriptor d{.dtype = t, .vocabulary = n, .width = width, .indices = {n}};
    ASSERT_OK(run_plan<EmbeddingBackward>(d, {weight, at, y}));
    ASSERT_OK(run_plan<EmbeddingBackward>(d, {weight, at, off}));
    EXPECT_TRUE(y.same_bits(off)) << name(t);
  }
}

}  // namespace
}  // namespace baracuda
