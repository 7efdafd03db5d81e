#include "cli/train/model.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <numeric>
#include "cli/train/data.hpp"
#include "cli/train/generate.hpp"
#include "cli/train/optimizer.hpp"

namespace {
std::atomic<int64_t> allocations = 0;
}
// Not inlined: the compiler would take free() for the wrong partner of new.
[[gnu::noinline]] void* operator new(size_t n) {
  ++allocations;
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t n, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(n ? n : 1);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace baracuda::cli {
namespace {

Settings small(DType dtype) {
  Settings s;
  s.layers = 2, s.width = 32, s.heads = 4, s.kv_heads = 2, s.hidden = 48, s.context = 40, s.batch = 2, s.dtype = dtype, s.tied = false;
  return s;
}

struct Trained {
  explicit Trained(const Settings& settings) : s(settings), model(s, plans), optimizer(s, plans, model) {
    Status status = model.select();
    if (status.ok()) status = optimizer.select();
    if (status.ok()) status = model.allocate();
    if (status.ok()) status = optimizer.allocate();
    if (status.ok()) status = optimizer.initialise();
    if (status.ok()) status = plans.allocate();
    status.value();
    tokens.resize(size_t(s.tokens()));
    targets.resize(size_t(s.tokens()));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = int64_t(mix(3, i) % 256), targets[i] = int64_t(mix(4, i) % 256);
  }
  float step(int64_t n) {
    float loss = 0;
    EXPECT_TRUE(model.forward(tokens, targets).ok());
    EXPECT_TRUE(model.backward().ok());
    EXPECT_TRUE(optimizer.step(n).ok());
    EXPECT_TRUE(model.loss(loss).ok());
    return loss;
  }
  Settings s;
  Plans plans{Stream::cpu()};
  Model model;
  Optimizer optimizer;
  std::vector<int64_t> tokens, targets;
};

TEST(Model, a_step_allocates_nothing) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Trained t(small(dtype));
    t.step(1);  // threads start with the first use
    const int64_t before = allocations;
    t.step(2);
    EXPECT_EQ(allocations - before, 0) << name(dtype);
  }
}

TEST(Model, learns_a_fixed_batch) {
  Settings s = small(DType::f32);
  s.steps = 200;
  Trained t(s);
  const float first = t.step(1);
  float last = first;
  for (int64_t n = 2; n <= 100; ++n) last = t.step(n);
  EXPECT_NEAR(first, std::log(256.f), 0.3f);
  EXPECT_LT(last, 1.f);
}

// The loss of a sequence read token by token through the cache equals that of the whole sequence at once.
TEST(Generator, reads_what_the_model_reads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Trained t(small(dtype));
    for (int64_t n = 1; n <= 20; ++n) t.step(n);
    Plans plans(Stream::cpu());
    Generator generator(t.s, plans, t.model.weights);
    ASSERT_TRUE(generator.select().ok());
    ASSERT_TRUE(generator.allocate().ok());
    ASSERT_TRUE(plans.allocate().ok());
    double sum = 0;
    for (int64_t b = 0; b < t.s.batch; ++b)
      for (int64_t i = 0; i < t.s.context; ++i) {
        const size_t at = size_t(b * t.s.context + i);
        ASSERT_TRUE(generator.read(t.tokens[at], i).ok());
        const std::span<const float> logits = generator.logits();
        double total = 0;
        for (int64_t c = 0; c < t.s.vocabulary; ++c) total += std::exp(double(logits[size_t(c)]));
        sum += std::log(total) - double(logits[size_t(t.targets[at])]);
      }
    float loss = 0;
    ASSERT_TRUE(t.model.evaluate(t.tokens, t.targets).ok());
    ASSERT_TRUE(t.model.loss(loss).ok());
    const double epsilon = dtype == DType::f32 ? 0x1p-23 : 0x1p-8;
    EXPECT_NEAR(sum / double(t.s.tokens()), double(loss), 16 * epsilon * double(loss));  // some 16 roundings deep
  }
}

TEST(Generator, continues_past_the_context) {
  Trained t(small(DType::f32));
  Plans plans(Stream::cpu());
  Generator generator(t.s, plans, t.model.weights);
  ASSERT_TRUE(generator.select().ok());
  ASSERT_TRUE(generator.allocate().ok());
  ASSERT_TRUE(plans.allocate().ok());
  std::string text, again, longer, greedy;
  ASSERT_TRUE(generator.generate("ab", 100, 1, 5, text).ok());
  ASSERT_TRUE(generator.generate("ab", 100, 1, 5, again).ok());
  EXPECT_EQ(text.size(), 100u);
  EXPECT_EQ(text, again);
  ASSERT_TRUE(generator.generate("ab", 100, 1, 6, again).ok());
  EXPECT_NE(text, again);
  ASSERT_TRUE(generator.generate(std::string(95, 'x'), 10, 0, 5, longer).ok());
  EXPECT_EQ(longer.size(), 10u);
  EXPECT_EQ(generator.generate("", 10, 0, 5, longer).code(), Code::invalid_problem);
}

TEST(Draw, follows_the_softmax) {
  const float logits[] = {0, std::log(2.f), -INFINITY, std::log(5.f)};  // shares 1/8, 2/8, 0, 5/8
  EXPECT_EQ(draw(logits, 1, 0), 0);
  EXPECT_EQ(draw(logits, 1, 0.1249), 0);
  EXPECT_EQ(draw(logits, 1, 0.1251), 1);
  EXPECT_EQ(draw(logits, 1, 0.3749), 1);
  EXPECT_EQ(draw(logits, 1, 0.3751), 3);
  EXPECT_EQ(draw(logits, 1, std::nextafter(1.0, 0.0)), 3);
  for (const double u : {0.0, 0.5, 0.999}) EXPECT_EQ(draw(logits, 0, u), 3);
  EXPECT_EQ(draw(logits, 1e-3, 0.5), 3);
  const float nan[] = {NAN, NAN};
  EXPECT_EQ(draw(nan, 1, 0.5), 0);
}

TEST(Printable, keeps_text_and_hides_the_rest) {
  EXPECT_EQ(printable("a\tb\r\n\x1b[0m\x7f"), "a?b?\n?[0m?");
  EXPECT_EQ(printable("caf\xC3\xA9"), "caf\xC3\xA9");
  EXPECT_EQ(printable("caf\xC3"), "caf?");
}

}  // namespace
}  // namespace baracuda::cli
