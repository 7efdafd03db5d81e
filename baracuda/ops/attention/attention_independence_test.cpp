// What an output depends on and what it does not: hidden keys and queries, other rows, other items of the batch.
#include "baracuda/ops/attention/attention_oracle.hpp"

namespace baracuda {
namespace {

using namespace testing;

TEST(Attention, case_masked_nan_leak) {
  for (DType t : kDTypesHere) {
    SdpaDescriptor d = shape(t, 1, 1, 1, 2, 2, 8);
    d.causal = true;
    Sdpa c(d);
    for (int64_t e = 8; e < 16; ++e) c.k.set(e, NAN), c.v.set(e, NAN);
    ASSERT_OK(c.forward());
    ASSERT_OK(c.backward());
    for (int64_t e = 0; e < 8; ++e) {
      EXPECT_EQ(c.y.at(e), c.v.at(e));
      EXPECT_TRUE(std::isnan(c.y.at(8 + e)));
      EXPECT_NEAR(c.dq.at(e), 0, 1e-2);
      EXPECT_TRUE(std::isnan(c.dq.at(8 + e)));
    }
    EXPECT_TRUE(std::isfinite(c.lse.at(0)));
  }
}
// Rows of halves that lie at multiples of 16 bytes and rows that do not go other ways on CUDA.
std::vector<std::pair<DType, int64_t>> dtypes_and_widths() {
  std::vector<std::pair<DType, int64_t>> all;
  for (DType t : kDTypesHere)
    for (int64_t w : {20, 24}) all.push_back({t, w});
  return all;
}
// Whatever hidden keys, and queries that do not see a key, hold: every bit of what depends on neither stays.
void check_hidden_values(DType t, int64_t w, int64_t queries, int64_t keys, int64_t bad_query, int64_t bad_key, double softcap) {
  const int64_t shift = keys - queries;  // a query sees so many keys beyond its own
  SdpaDescriptor d = shape(t, 1, 2, 1, queries, keys, w);
  d.causal = true, d.softcap = softcap;
  Sdpa clean(d, 21), dirty(d, 21);
  for (int64_t e = 0; e < w; ++e) {
    dirty.k.set(bad_key * w + e, NAN), dirty.v.set(bad_key * w + e, e % 2 ? INFINITY : NAN);
    dirty.q.set(bad_query * w + e, NAN), dirty.dy.set(bad_query * w + e, NAN);
  }
  for (Sdpa* c : {&clean, &dirty}) {
    ASSERT_OK(c->forward());
    ASSERT_OK(c->backward());
  }
  for (int64_t i = 0; i < 2 * queries * w; ++i) {
    const int64_t head = i / (queries * w), query = i / w % queries;
    if (query + shift >= bad_key) EXPECT_TRUE(std::isnan(dirty.y.at(i)) && std::isnan(dirty.dq.at(i)));
    else if (head == 0 && query == bad_query) EXPECT_TRUE(std::isnan(dirty.y.at(i)));
    else EXPECT_TRUE(dirty.y.at(i) == clean.y.at(i) && dirty.dq.at(i) == clean.dq.at(i)) << head << " " << query;
  }
  for (int64_t i = 0; i < keys * w; ++i)  // keys that neither that query of head 0 nor a query that saw NaN sees: none before ... after it
    if (i / w <= bad_query + shift || i / w == bad_key) EXPECT_TRUE(std::isnan(dirty.dk.at(i))) << i / w;
}
TEST(Attention, HiddenValuesNeverMatter) {
  for (double softcap : {0.0, 2.0}) {
    for (auto [t, w] : dtypes_and_widths()) check_hidden_values(t, w, 150, 170, 60, 100, softcap);
    if (!on_cuda()) check_hidden_values(DType::bf16, 64, 192, 192, 20, 40, softcap);  // whole tiles of AMX beside the one with such values
  }
}
TEST(Attention, HiddenQueriesNeverMatter) {  // a NaN query spoils the gradients of the keys that it sees, and no other
  for (auto [t, w] : dtypes_and_widths())
    for (const char* scores : {"plain", "softcap", "alibi"}) {
      SdpaDescriptor d = shape(t, 1, 1, 1, 150, 150, w);
      d.causal = true, d.softcap = *scores == 's' ? 8 : 0, d.alibi = *scores == 'a';
      Sdpa clean(d, 22), dirty(d, 22);
      for (int64_t e = 0; e < w; ++e) dirty.q.set(60 * w + e, NAN), dirty.dy.set(60 * w + e, INFINITY);
      for (Sdpa* c : {&clean, &dirty}) {
        ASSERT_OK(c->forward());
        ASSERT_OK(c->backward());
      }
      for (int64_t i = 0; i < 150 * w; ++i) {
        if (i / w <= 60) EXPECT_TRUE(std::isnan(dirty.dk.at(i)) && !std::isfinite(dirty.dv.at(i))) << name(t) << " " << scores << " " << i / w;
        else EXPECT_TRUE(dirty.dk.at(i) == clean.dk.at(i) && dirty.dv.at(i) == clean.dv.at(i)) << name(t) << " " << scores << " " << i / w;
        if (i / w != 60) EXPECT_EQ(dirty.dq.at(i), clean.dq.at(i));
      }
    }
}
TEST(Attention, OneValueThatIsNotFinite) {  // in v it shows in its column, in dy in its column of dv
  for (auto [t, w] : dtypes_and_widths())
    for (double bad : {double(NAN), double(INFINITY)}) {
      SdpaDescriptor d = shape(t, 1, 1, 1, 150, 150, w);
      d.causal = true;
      Sdpa clean(d, 23), value(d, 23), gradient(d, 23);
      value.v.set(70 * w + 3, bad), gradient.dy.set(90 * w + 5, bad);
      for (Sdpa* c : {&clean, &value, &gradient}) {
        ASSERT_OK(c->forward());
        ASSERT_OK(c->backward());
      }
      for (int64_t i = 0; i < 150 * w; ++i) {
        const bool in_y = i / w >= 70 && i % w == 3, in_dv = i / w <= 90 && i % w == 5;
        if (in_y) EXPECT_FALSE(std::isfinite(value.y.at(i))) << name(t) << " " << i;
        else EXPECT_EQ(value.y.at(i), clean.y.at(i)) << name(t) << " " << i;
        if (in_dv) EXPECT_FALSE(std::isfinite(gradient.dv.at(i))) << name(t) << " " << i;
        else EXPECT_EQ(gradient.dv.at(i), clean.dv.at(i)) << name(t) << " " << i;
        if (i / w <= 90) EXPECT_FALSE(std::isfinite(gradient.dk.at(i)));
        else EXPECT_EQ(gradient.dk.at(i), clean.dk.at(i)) << name(t) << " " << i;
      }
    }
}

// Item b of a tensor whose first axis is the batch.
TensorView item(const TensorView& v, int64_t b) {
  TensorView one = v;
  one.data = static_cast<char*>(v.data) + b * v.strides[0] * int64_t(byte_size(v.dtype)), one.shape[0] = 1;
  return one;
}
// Every item of a batch of `d`'s shape has the bits that it has alone.
void check_slices(const SdpaDescriptor& d) {
  SdpaDescriptor one = d;
  one.batch = 1;
  Sdpa c(d, 8), s(one, 8);
  Source source(5);
  for (Tensor* x : {&c.q, &c.k, &c.v, &c.dy})  // outliers
    for (int i = 0; i < 50; ++i) x->set(int64_t(source.next() % uint64_t(x->numel())), 30 * source.normal());
  ASSERT_OK(c.forward());
  ASSERT_OK(c.backward());
  for (int64_t b = 0; b < d.batch; ++b) {
    const TensorView q = item(c.q, b), k = item(c.k, b), v = item(c.v, b);
    ASSERT_OK(run_plan<FlashSdpa>(one, {q, k, v, s.y, s.lse, {}, {}, {}, {}}));
    EXPECT_TRUE(bytes_of(s.y) == bytes_of(item(c.y, b)) && bytes_of(s.lse) == bytes_of(item(c.lse, b)));
    ASSERT_OK(run_plan<FlashSdpaBackward>(one, {item(c.dy, b), q, k, v, s.y, s.lse, s.dq, s.dk, s.dv, {}, {}, {}, {}, {}}));
    EXPECT_TRUE(bytes_of(s.dq) == bytes_of(item(c.dq, b)) && bytes_of(s.dk) == bytes_of(item(c.dk, b)) && bytes_of(s.dv) == bytes_of(item(c.dv, b)));
  }
}
TEST(Attention, case_bwd_batch_equals_slices) {
  for (DType t : kDTypesHere) {
    SdpaDescriptor d = shape(t, 3, 4, 2, 300, 300, t == DType::bf16 ? 256 : 32);
    d.causal = true;
    check_slices(d);
  }
}
// Long sequences, whose heads begin one behind the other where there are several, and a window whose thread blocks stay.
TEST(Attention, LongSequencesOfABatchEqualSlices) {
  if (!on_cuda()) GTEST_SKIP() << "of the GPU's order of blocks; too long for the CPU";
  for (int64_t width : {64, 192, 256}) {
    SdpaDescriptor d = shape(DType::bf16, 3, 1, 1, 8256, 8256, width);
    d.causal = true;
    check_slices(d);
  }
  SdpaDescriptor d = shape(DType::bf16, 3, 1, 1, 5000, 5000, 64);
  d.causal = true, d.window_left = 700;
  check_slices(d);
}
// A query's bits depend neither on the other queries nor on the heads around it.
TEST(Attention, RowsAreIndependent) {
  struct Case {
    DType dtype;
    int64_t q_len, k_len, width, window;
  };
  std::vector<Case> cases;
  for (DType t : kDTypesHere) {
    cases.push_back({t, 45, 200, 16, -1});
    if (!on_cuda()) cases.push_back({t, 45, 200, 16, 37});  // there tiles of keys begin where the window does
  }
  if (!on_cuda())  // whole tiles of AMX, one after the other and between parts that are none
    for (auto [q, k, window] : {std::tuple{320, 320, -1}, {300, 380, -1}, {330, 352, 90}}) cases.push_back({DType::bf16, q, k, 64, window});
  if (!on_cuda()) cases.push_back({DType::bf16, 600, 600, 64, -1}), cases.push_back({DType::f32, 600, 600, 16, -1});  // on one thread blocks of the most rows
  const int before = threads();
  for (auto [t, q_len, k_len, width, window] : cases) {
    set_threads(q_len == 600 ? 1 : before);
    SdpaDescriptor d = shape(t, 1, 4, 2, q_len, k_len, width);
    d.causal = true, d.window_left = window;
    Sdpa c(d, 8);
    ASSERT_OK(c.forward());
    SdpaDescriptor one = d;
    one.q_len = 1, one.causal = false;
    const auto plan = FlashSdpaPlan::select(test_stream(), d, {});
    ASSERT_OK(plan.status());
    const std::string_view same_row = plan->kernel_name();
    for (int64_t i : {int64_t(0), int64_t(17), q_len / 2, q_len - 1}) {
      one.k_len = i + k_len - q_len + 1;
      TensorView q = c.q, k = c.k, v = c.v;
      q.shape[2] = 1, q.data = static_cast<char*>(q.data) + i * width * int64_t(byte_size(t));
      k.shape[2] = v.shape[2] = one.k_len;
      Tensor y(t, {1, 4, 1, width}), lse(accumulator(t), {1, 4, 1});
      ASSERT_OK(run_plan<FlashSdpa>(one, {q, k, v, y, lse, {}, {}, {}, {}}, {.require_kernel = same_row}));
      for (int64_t h = 0; h < 4; ++h) {
        EXPECT_EQ(lse.at(h), c.lse.at(h * q_len + i)) << name(t) << " " << i;
        for (int64_t e = 0; e < width; ++e) EXPECT_EQ(y.at(h * width + e), c.y.at((h * q_len + i) * width + e)) << name(t) << " " << i;
      }
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace baracuda
