#include <gtest/gtest.h>
#include <dlpack/dlpack.h>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>
#include "baracuda/core/bitcast.hpp"
#include "baracuda/core/cuda_half.hpp"
#include "baracuda/core/dlpack.hpp"
#include "baracuda/core/kernel.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using testing::expect_refused;

TEST(DType, FactsAgreeWithTheTypes) {
  auto check = []<class T>() {
    EXPECT_EQ(byte_size(kDTypeOf<T>), sizeof(T)) << name(kDTypeOf<T>);
    EXPECT_EQ(is_floating(kDTypeOf<T>), (std::is_floating_point_v<T> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>));
  };
  [&]<class... T>(TypeList<T...>) { (check.template operator()<T>(), ...); }(
      TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>{});
  EXPECT_EQ(accumulator(DType::bf16), DType::f32);
  EXPECT_EQ(accumulator(DType::i8), DType::i64);
  EXPECT_EQ(name(DType::count), "invalid dtype");
  EXPECT_EQ(to_string(dtypes(Floating{})), "f16 bf16 f32 f64");
}

TEST(Shape, CountsWithoutOverflow) {
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{2, 3, 4}).numel(), 24);
  EXPECT_EQ((Shape{2, 0, int64_t(1) << 62}).numel(), 0);
  EXPECT_EQ((Shape{int64_t(1) << 32, int64_t(1) << 31}).numel(), -1);
  EXPECT_EQ((Shape{2, -1}).numel(), -1);
  EXPECT_EQ((Shape{0, -1}).numel(), -1);
  EXPECT_EQ((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}).numel(), -1);
  EXPECT_EQ((Shape{2, 3, 4}).contiguous(), (Strides{12, 4, 1}));
  EXPECT_EQ((Shape{2, 3, 4}).rows(), 6);
  EXPECT_EQ(Shape{}.rows(), 1);
  EXPECT_EQ((Shape{5}).last(), 5);
}

TEST(TensorView, FromSpanStaysInside) {
  std::vector<float> memory(12);
  EXPECT_TRUE(TensorView::from_span(std::span(memory), {3, 4}).ok());
  expect_refused(TensorView::from_span(std::span(memory), {4, 4}).status(), Code::buffer_too_small, {"[4, 4]", "64", "48"});
  EXPECT_EQ(TensorView::from_span(std::span(memory), {4, 4}).status().needed(), 64u);
  EXPECT_EQ(TensorView::from_span(std::span(memory), {4, 4}).status().got(), 48u);
  // Overlapping windows are inside, however many rows they make.
  EXPECT_TRUE(TensorView::from_span(std::span(memory), {9, 4}, Strides{1, 1}).ok());
  expect_refused(TensorView::from_span(std::span(memory), {10, 4}, Strides{1, 1}).status(), Code::buffer_too_small, {"52"});
  expect_refused(TensorView::from_span(std::span(memory), {3, 4}, Strides{4, -1}).status(), Code::invalid_problem, {"3 elements before"});
  EXPECT_TRUE(TensorView::from_span(std::span(memory), {3, 4}, Strides{4, -1}, 3).ok());
  expect_refused(TensorView::from_span(std::span(memory), {2, 2}, Strides{1}).status(), Code::invalid_problem, {"1 strides for rank 2"});
  // A stride whose reach leaves 64 bits.
  expect_refused(TensorView::from_span(std::span(memory), {5, 2}, Strides{std::numeric_limits<int64_t>::max(), 1}).status(),
                 Code::buffer_too_small, {});
  expect_refused(TensorView::over(reinterpret_cast<char*>(memory.data()) + 1, 40, DType::f32, {2}).status(), Code::misaligned_operand, {"4 bytes"});
  EXPECT_TRUE(TensorView::from_span(std::span<float>(), {0, 4}).ok());
}
TEST(TensorView, Bitcast) {
  std::vector<float> m(24, 1);
  const TensorView x = TensorView::dense(m.data(), {4, 6});
  const auto same = bitcast(x, DType::i32), bytes = bitcast(x, DType::u8), wide = bitcast(x, DType::c64), axis = bitcast_axis(x, DType::f16);
  ASSERT_TRUE(same.ok() && bytes.ok() && wide.ok() && axis.ok());
  EXPECT_TRUE(same->dtype == DType::i32 && same->shape == x.shape && same->strides == x.strides && same->data == x.data);
  EXPECT_TRUE(bytes->shape == (Shape{4, 24}) && bytes->strides == (Strides{24, 1}));
  EXPECT_TRUE(wide->shape == (Shape{4, 3}) && wide->strides == (Strides{3, 1}) && wide->dtype == DType::c64);
  EXPECT_TRUE(axis->shape == (Shape{4, 6, 2}) && axis->strides == (Strides{12, 2, 1}));
  const auto back = bitcast_axis(*axis, DType::f32);
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(back->shape == x.shape && back->strides == x.strides);
  // Flipped and transposed: axes that stay may have any stride.
  TensorView turned = x;
  turned.data = m.data() + 18, turned.strides = {-6, 1};
  ASSERT_TRUE(bitcast(turned, DType::u16).ok());
  EXPECT_TRUE(bitcast(turned, DType::u16)->strides == (Strides{-12, 1}));
  turned.shape = {6, 4}, turned.strides = {1, 6}, turned.data = m.data();
  EXPECT_TRUE(bitcast_axis(turned, DType::u8)->strides == (Strides{4, 24, 1}));
  expect_refused(bitcast(turned, DType::u8).status(), Code::invalid_problem, {"bitcast", "f32 [6, 4]", "u8", "stride 6"});
  turned.shape = {3, 4}, turned.strides = {7, 1};
  expect_refused(bitcast(turned, DType::f64).status(), Code::invalid_problem, {"stride 7 of axis 0", "multiple of 2"});
  expect_refused(bitcast(TensorView::dense(m.data() + 1, {4}), DType::f64).status(), Code::invalid_problem, {"aligned to 8"});
  expect_refused(bitcast(TensorView::dense(m.data(), {5}), DType::f64).status(), Code::invalid_problem, {"multiple of 2"});
  expect_refused(bitcast(TensorView::dense(m.data(), Shape{}), DType::f64).status(), Code::invalid_problem, {"no axis"});
  expect_refused(bitcast(x, DType::i4).status(), Code::unsupported, {"i4 is packed"});
  expect_refused(bitcast(x, DType::count).status(), Code::invalid_problem, {"invalid dtype"});
  expect_refused(bitcast(TensorView::dense(m.data(), DType::u8, {4}), DType::boolean).status(), Code::invalid_problem, {"0 or 1"});
  expect_refused(bitcast_axis(x, DType::f64).status(), Code::invalid_problem, {"extent 2 and stride 1"});
  expect_refused(bitcast_axis(TensorView::dense(m.data(), {1, 1, 1, 1, 1, 1, 1, 1}), DType::u8).status(), Code::invalid_problem, {"8 axes"});
  EXPECT_TRUE(bitcast(TensorView::dense(static_cast<float*>(nullptr), {0, 6}), DType::f64).ok());
  EXPECT_TRUE(bitcast_axis(TensorView::dense(m.data(), Shape{}), DType::u8)->shape == Shape{4});
}
TEST(DTypes, Float8NamesAndCodes) {
  for (const auto& [t, code] : {std::pair{DType::f8_e4m3fn, 10}, {DType::f8_e4m3fnuz, 11}, {DType::f8_e5m2, 12}, {DType::f8_e5m2fnuz, 13}}) {
    DType parsed = DType::count;
    EXPECT_OK(parse_value("dtype", name(t), parsed));
    EXPECT_EQ(parsed, t);
    EXPECT_TRUE(is_float8(t) && is_floating(t) && byte_size(t) == 1 && accumulator(t) == DType::f32);
    const auto d = dlpack_dtype(t);
    ASSERT_TRUE(d.has_value());
    EXPECT_TRUE(d->code == code && d->bits == 8 && d->lanes == 1) << name(t);
    float memory = 0;
    int64_t shape[] = {2};
    EXPECT_EQ(from_dlpack({&memory, {kDLCPU, 0}, 1, *d, shape, nullptr, 0})->dtype, t);
  }
  EXPECT_FALSE(is_float8(DType::u8));
}
TEST(TensorView, ExtentAndContiguity) {
  std::vector<double> m(12);
  const auto v = TensorView::from_span(std::span(m), {3, 4}, Strides{4, -1}, 3).value();
  EXPECT_EQ(extent(v).low, -3);
  EXPECT_EQ(extent(v).high, 8);
  EXPECT_FALSE(v.contiguous());
  EXPECT_TRUE(TensorView::dense(m.data(), {3, 1, 4}).contiguous());
  EXPECT_TRUE((TensorView{m.data(), DType::f64, {}, {0, 5, 0}, {7, 7, 7}}).contiguous());
  int64_t pitch = 0;
  EXPECT_TRUE(as_rows(TensorView::dense(m.data(), {3, 1, 4}), pitch));
  EXPECT_EQ(pitch, 4);
  EXPECT_FALSE(as_rows(v, pitch));
  TensorView slice = TensorView::dense(m.data(), {3, 2});
  slice.strides = {4, 1};
  EXPECT_TRUE(as_rows(slice, pitch));
  EXPECT_EQ(pitch, 4);
}

TEST(Dlpack, RoundTripsEveryDtype) {
  std::vector<double> memory(12);
  for (DType t : {DType::boolean, DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64, DType::f16,
                  DType::bf16, DType::f32, DType::f64, DType::c64}) {
    TensorView v = TensorView::dense(static_cast<void*>(memory.data()), t, {2, 3});
    v.strides = {1, 2};
    DLTensor d;
    ASSERT_TRUE(to_dlpack(v, d).ok()) << name(t);
    const auto back = from_dlpack(d);
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_EQ(back->dtype, t);
    EXPECT_EQ(back->shape, v.shape);
    EXPECT_EQ(back->strides, v.strides);
    EXPECT_EQ(back->data, v.data);
  }
}
TEST(Dlpack, case_dlpack_negative_stride) {  // numpy's a[:, ::-1]: the pointer is at the last column
  std::vector<double> a(12);
  for (size_t i = 0; i < 12; ++i) a[i] = double(i);
  int64_t shape[] = {3, 4}, strides[] = {4, -1};
  DLTensor d{a.data() + 3, {kDLCPU, 0}, 2, {kDLFloat, 64, 1}, shape, strides, 0};
  const auto v = from_dlpack(d);
  ASSERT_TRUE(v.ok());
  EXPECT_EQ(testing::read_element(DType::f64, v->as<double>() + 3 * v->strides[1]), 0);
}
TEST(Dlpack, RefusesWhatItCannotHold) {
  int64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  float x = 0;
  DLTensor d{&x, {kDLCPU, 0}, 9, {kDLFloat, 32, 1}, shape, nullptr, 0};
  expect_refused(from_dlpack(d).status(), Code::invalid_problem, {"rank 9"});
  d.ndim = 1;
  d.dtype.lanes = 4;
  expect_refused(from_dlpack(d).status(), Code::unsupported, {"4 lanes"});
  d.dtype = {kDLFloat, 24, 1};
  expect_refused(from_dlpack(d).status(), Code::unsupported, {"24 bits"});
  d.dtype = {kDLFloat, 32, 1};
  d.device = {kDLMetal, 0};
  expect_refused(from_dlpack(d).status(), Code::unsupported, {"device type"});
  shape[0] = -2;
  d.device = {kDLCPU, 0};
  expect_refused(from_dlpack(d).status(), Code::invalid_problem, {"[-2]"});
}

TEST(Carver, SizeAndGrantAgree) {
  auto carve = [](Carver& c) {
    float* a = c.take<float>("a", 3);
    return std::pair(a, c.take<double>("b", 100));
  };
  std::vector<WorkspaceItem> items;
  Carver count(2, &items);
  carve(count);
  EXPECT_EQ(count.size(), 256u + 1024u);
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[1].bytes, 800u);
  ScratchArena arena;
  const Workspace w = arena.get(count.size()).value();
  Carver grant(w, 2);
  const auto [a, b] = carve(grant);
  EXPECT_EQ(static_cast<void*>(a), w.data);
  EXPECT_EQ(reinterpret_cast<char*>(b), static_cast<char*>(w.data) + 256);
  EXPECT_EQ(grant.size(), count.size());
}
TEST(Carver, OverflowIsTooLargeForAnyWorkspace) {
  Carver c(1);
  c.take<double>("huge", int64_t(1) << 62);
  EXPECT_EQ(c.size(), UINT64_MAX);
  Carver negative(1);
  negative.take<char>("negative", -5);
  EXPECT_EQ(negative.size(), UINT64_MAX);
}
TEST(ScratchArena, KeepsTheLargestAndReportsFailure) {
  ScratchArena arena;
  const Workspace big = arena.get(1000).value();
  EXPECT_EQ(uintptr_t(big.data) % kWorkspaceAlignment, 0u);
  EXPECT_EQ(arena.get(10).value().data, big.data);
  expect_refused(ScratchArena().get(UINT64_MAX - 8).status(), Code::out_of_memory, {"bytes on cpu"});
}

TEST(Status, CarriesNumbersAndThrowsOnRequest) {
  const Status s(Code::workspace_too_small, "w", 10, 4);
  EXPECT_EQ(s.needed(), 10u);
  EXPECT_EQ(s.got(), 4u);
  EXPECT_THROW(s.value(), std::runtime_error);
  EXPECT_NO_THROW(Status().value());
  EXPECT_EQ(Result<int>(3).value(), 3);
  EXPECT_THROW((void)Result<int>(s).value(), std::runtime_error);
  for (int c = 0; c <= int(Code::backend_failure); ++c) EXPECT_NE(name(Code(c)), "unknown code");
}

// Each refusal of parsing names the field and what it takes.
enum class Mode : uint8_t { slow, fast };
constexpr std::array<std::string_view, 2> enum_names(Mode) { return {"slow", "fast"}; }
struct Settings {
  DType dtype = DType::f32;
  Shape shape;
  double eps = 1e-6;
  Mode mode = Mode::slow;
  bool flag = false;
  std::optional<double> scale;
  int64_t count = 0;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &Settings::dtype), field("shape", &Settings::shape), field("eps", &Settings::eps),
                      field("mode", &Settings::mode), field("flag", &Settings::flag), field("scale", &Settings::scale),
                      field("count", &Settings::count));
  }
};
static_assert(fields_complete<Settings>());
struct Forgotten {
  int a = 0, b = 0;
  static constexpr auto fields() { return std::tuple(field("a", &Forgotten::a)); }
};
static_assert(!fields_complete<Forgotten>());

TEST(Fields, PrintsParsesComparesHashes) {
  Settings s;
  EXPECT_EQ(describe(s), "dtype=f32 shape=[] eps=1e-06 mode=slow flag=false scale=none count=0");
  const std::pair<const char*, const char*> sets[] = {{"dtype", "bf16"}, {"shape", "[2, 3]"}, {"eps", "0.5"}, {"mode", "fast"},
                                                      {"flag", "true"},  {"scale", "2.5"},    {"count", "-7"}};
  for (auto [key, value] : sets) {
    Settings t = s;
    ASSERT_TRUE(set_field(t, key, value).ok()) << key;
    EXPECT_FALSE(same_fields(s, t)) << key;
    EXPECT_NE(hash_fields(s), hash_fields(t)) << key;
    s = t;
  }
  EXPECT_EQ(describe(s), "dtype=bf16 shape=[2, 3] eps=0.5 mode=fast flag=true scale=2.5 count=-7");
  Settings same = s;
  EXPECT_EQ(hash_fields(s), hash_fields(same));
}
TEST(Fields, Refuses) {
  Settings s;
  expect_refused(set_field(s, "sahpe", "1"), Code::invalid_problem, {"sahpe", "dtype shape eps mode flag scale count"});
  expect_refused(set_field(s, "dtype", "float"), Code::invalid_problem, {"dtype", "float", "bf16"});
  expect_refused(set_field(s, "shape", "2,,3"), Code::invalid_problem, {"shape", "2,,3"});
  expect_refused(set_field(s, "shape", "2,"), Code::invalid_problem, {"shape"});
  expect_refused(set_field(s, "shape", "1,1,1,1,1,1,1,1,1"), Code::invalid_problem, {"at most 8"});
  expect_refused(set_field(s, "shape", "99999999999999999999"), Code::invalid_problem, {"shape"});
  expect_refused(set_field(s, "eps", "small"), Code::invalid_problem, {"eps", "a number"});
  expect_refused(set_field(s, "mode", "slower"), Code::invalid_problem, {"slow, fast"});
  expect_refused(set_field(s, "flag", "yes"), Code::invalid_problem, {"true or false"});
  expect_refused(set_field(s, "count", "1.5"), Code::invalid_problem, {"an integer"});
  expect_refused(set_field(s, "count", "99999999999999999999"), Code::invalid_problem, {"range"});
}

TEST(CudaHalf, MissingHalfSaysWhatWasLookedFor) {
  const auto half = load_cuda_half("/nowhere/libbaracuda_cuda.so");
  expect_refused(half.status(), Code::unsupported, {"/nowhere/libbaracuda_cuda.so"});
}
TEST(CudaHalf, WrongBuildIdIsRefusedWithBoth) {
  const auto half = load_cuda_half(BARACUDA_FAKE_CUDA_HALF);
  expect_refused(half.status(), Code::unsupported, {"another build", build_id(), "one build"});
}
TEST(CudaHalf, ALibraryThatIsNoHalf) {
  const auto half = load_cuda_half("libm.so.6");
  expect_refused(half.status(), Code::unsupported, {"libm.so.6", "baracuda_cuda_half"});
}

}  // namespace
}  // namespace baracuda
