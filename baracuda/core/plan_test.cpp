// Selection: order, preference, refusals, cache, explanation; on an op of its own.
#include <gtest/gtest.h>
#include <atomic>
#include <thread>
#include "baracuda/core/registry.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using testing::expect_refused;

std::atomic<int> prepared = 0;

struct Pick {
  static constexpr std::string_view name = "pick", category = "test", summary = "an op for the tests of selection";
  struct Descriptor {
    DType dtype = DType::f32;
    int64_t n = 0;
    static constexpr auto fields() { return std::tuple(field("dtype", &Descriptor::dtype), field("n", &Descriptor::n)); }
  };
  struct Args {
    TensorView x;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::inout)); }
  };
  static Status validate(const Descriptor& d) { return d.n < 0 ? invalid(name, text("n is ", d.n, ", it must not be negative")) : Status(); }
  static Status check(const Descriptor& d, const Args& a) { return expect(name, "x", a.x, d.dtype, {d.n}); }
  template <int kMark> static Status mark(const Launch<Pick>& l) {
    for (int64_t i = 0; i < l.desc.n; ++i) l.args.x.as<float>()[i] = kMark;
    return {};
  }
  static std::span<const Kernel<Pick>> kernels() {
    static constexpr auto plain = [](const Descriptor&) { return PrecisionGuarantee{.batch_invariant = true}; };
    static constexpr Kernel<Pick> list[] = {
        {.name = "pick.cpu.racy", .launch = launch_all<Pick>(TypeList<float>{}, mark<1>),
         .guarantee = [](const Descriptor&) { return PrecisionGuarantee{.deterministic = false}; }},
        {.name = "pick.cpu.library", .backend = Backend::onednn, .launch = launch_all<Pick>(TypeList<float>{}, mark<2>),
         .guarantee = [](const Descriptor&) { return PrecisionGuarantee{}; },
         .refuse = [](const Descriptor& d, const PlanPreference&) { return d.n > 10 ? text("n is ", d.n, ", at most 10 is served") : std::string(); },
         .prepare = [](const Stream&, const Descriptor&, const PlanPreference&) -> Result<PlanState> { ++prepared; return PlanState(std::make_shared<int>(5)); }},
        {.name = "pick.cpu.scratch", .launch = launch_all<Pick>(TypeList<float>{}, mark<3>), .guarantee = plain,
         .carve = [](const Descriptor& d, const void*, Carver& c) { c.take<float>("all", d.n); },
         .check = [](const Descriptor&, const Args& a) { return a.x.contiguous() ? Status() : Status(Code::unsupported, "pick.cpu.scratch takes an x without gaps"); }},
        {.name = "pick.cpu.plain", .launch = launch_all<Pick>(TypeList<float, double>{}, mark<4>), .guarantee = plain}};
    return list;
  }
};
using PickPlan = Plan<Pick>;
std::string_view chosen(const Pick::Descriptor& d, const PlanPreference& p = {}) {
  const auto plan = PickPlan::select(Stream::cpu(), d, p);
  return plan.ok() ? plan->kernel_name() : std::string_view("none");
}

TEST(Select, FirstDeterministicRowThatAccepts) {
  EXPECT_EQ(chosen({.n = 5}), "pick.cpu.library");
  EXPECT_EQ(chosen({.n = 50}), "pick.cpu.scratch");
  EXPECT_EQ(chosen({.dtype = DType::f64, .n = 5}), "pick.cpu.plain");
}
TEST(Select, Preference) {
  EXPECT_EQ(chosen({.n = 5}, {.allow_nondeterministic = true}), "pick.cpu.racy");
  EXPECT_EQ(chosen({.n = 5}, {.require_batch_invariant = true}), "pick.cpu.scratch");
  EXPECT_EQ(chosen({.n = 5}, {.prefer_backend = Backend::baracuda}), "pick.cpu.scratch");
  EXPECT_EQ(chosen({.n = 50}, {.prefer_backend = Backend::onednn}), "pick.cpu.scratch");
  EXPECT_EQ(chosen({.n = 50}, {.max_workspace = 255}), "pick.cpu.plain");
  EXPECT_EQ(chosen({.n = 50}, {.require_kernel = "pick.cpu.plain"}), "pick.cpu.plain");
  EXPECT_EQ(chosen({.n = 5}, {.require_backend = Backend::cudnn}), "none");
}
TEST(Select, RefusalListsEveryCandidate) {
  const auto plan = PickPlan::select(Stream::cpu(), {.n = 50}, {.require_backend = Backend::onednn});
  expect_refused(plan.status(), Code::unsupported,
                 {"pick", "n=50", "pick.cpu.racy: the preference requires backend onednn", "pick.cpu.library: n is 50, at most 10 is served",
                  "pick.cpu.scratch", "pick.cpu.plain"});
  expect_refused(PickPlan::select(Stream::cpu(), {.dtype = DType::i8, .n = 5}).status(), Code::unsupported, {"no i8; it serves f32 f64"});
  expect_refused(PickPlan::select(Stream::cpu(), {.n = -3}).status(), Code::invalid_problem, {"n is -3"});
  Stream gpu{{DeviceKind::cuda, 0}, 90, nullptr};
  expect_refused(PickPlan::select(gpu, {.n = 5}).status(), Code::unsupported, {"pick", "cuda", "none for this device"});
}
TEST(Select, RepeatsComeFromTheCache) {
  const int before = prepared;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(chosen({.n = 7}), "pick.cpu.library");
  EXPECT_EQ(prepared, before + 1);
  EXPECT_EQ(chosen({.n = 8}), "pick.cpu.library");
  EXPECT_EQ(prepared, before + 2);
}
TEST(Select, FromManyThreads) {
  std::vector<std::thread> team;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t)
    team.emplace_back([&] {
      for (int64_t n = 0; n < 300; ++n) wrong += chosen({.n = n}) != (n > 10 ? "pick.cpu.scratch" : "pick.cpu.library");
    });
  for (auto& t : team) t.join();
  EXPECT_EQ(wrong, 0);
}
TEST(Plan, TellsWhatItIs) {
  const auto plan = PickPlan::select(Stream::cpu(), {.n = 50}).value();
  EXPECT_EQ(plan.workspace_size(), 256u);
  ASSERT_EQ(plan.workspace_items().size(), 1u);
  EXPECT_EQ(plan.workspace_items()[0].name, "all");
  EXPECT_EQ(plan.workspace_items()[0].bytes, 200u);
  const KernelSku sku = plan.sku();
  EXPECT_EQ(to_string(sku), "test.pick f32 strided on cpu: pick.cpu.scratch (baracuda)");
  EXPECT_EQ(hash(sku), hash(PickPlan::select(Stream::cpu(), {.n = 51}).value().sku()));
  EXPECT_NE(hash(sku), hash(PickPlan::select(Stream::cpu(), {.n = 5}).value().sku()));
  EXPECT_EQ(*static_cast<const int*>(PickPlan::select(Stream::cpu(), {.n = 5}).value().state()), 5);
}
TEST(Plan, RunsTheRowThatItNamed) {
  std::vector<float> x(50);
  ScratchArena arena;
  const auto plan = PickPlan::select(Stream::cpu(), {.n = 50}).value();
  ASSERT_OK(plan.run(Stream::cpu(), arena.get(plan.workspace_size()).value(), {TensorView::dense(x.data(), {50})}));
  EXPECT_EQ(x[49], 3);
  Stream gpu{{DeviceKind::cuda, 1}, 90, nullptr};
  expect_refused(plan.run(gpu, {}, {TensorView::dense(x.data(), {50})}), Code::invalid_problem, {"plan is for cpu", "cuda:1"});
}
TEST(Plan, RowsMayAskMoreOfArgumentsThanTheirOp) {
  std::vector<float> memory(100);
  TensorView x = TensorView::dense(memory.data(), {50});
  x.strides[0] = 2;
  ScratchArena arena;
  for (const char* kernel : {"pick.cpu.scratch", "pick.cpu.plain"}) {
    const auto plan = PickPlan::select(Stream::cpu(), {.n = 50}, {.require_kernel = kernel}).value();
    const Status asked = plan.can_implement({x}), ran = plan.run(Stream::cpu(), arena.get(plan.workspace_size()).value(), {x});
    if (plan.kernel_name() == "pick.cpu.plain") {
      EXPECT_OK(asked);
      EXPECT_OK(ran);
    } else {
      for (const Status& s : {asked, ran}) expect_refused(s, Code::unsupported, {"pick.cpu.scratch takes an x without gaps"});
      EXPECT_EQ(memory[0], 0);
    }
  }
}
TEST(Plan, Contract) {
  auto x = testing::Tensor::normal(DType::f32, {50}, 1);
  testing::check_contract<Pick>({.n = 50}, {x});
}
TEST(Explain, AsksEveryRow) {
  const auto rows = PickPlan::explain(Stream::cpu(), {.n = 5}).value();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].reason, "not deterministic, and the preference does not allow that");
  EXPECT_TRUE(rows[1].accepted && rows[1].reason.empty());
  EXPECT_EQ(rows[2].reason, "accepts, but stands behind pick.cpu.library");
}
TEST(Registry, EveryOpTellsItsFieldsArgumentsAndRows) {
  std::vector<std::string_view> names;
  for (const OpInfo& op : registry()) {
    EXPECT_EQ(std::count(names.begin(), names.end(), op.name), 0) << op.name << " is listed twice";
    names.push_back(op.name);
    EXPECT_FALSE(op.summary.empty()) << op.name;
    EXPECT_FALSE(op.fields().empty()) << op.name;
    EXPECT_FALSE(op.args().empty()) << op.name;
    EXPECT_EQ(find_op(op.name), &op);
    const auto rows = op.rows();
    EXPECT_FALSE(rows.empty()) << op.name << " has no kernel";
    for (const RowInfo& r : rows) {
      EXPECT_NE(r.dtypes.mask, 0u) << r.name;
      EXPECT_EQ(r.name.substr(0, r.name.find('.')), op.name) << "a row is named family.device.strategy";
      if (r.device == DeviceKind::cpu) EXPECT_TRUE(r.guarantee.deterministic) << r.name;
    }
  }
  EXPECT_EQ(find_op("no such op"), nullptr);
}
TEST(Registry, ExplainsFromText) {
  const OpInfo* op = find_op("gated");
  ASSERT_NE(op, nullptr);
  const KeyValue good[] = {{"shape", "4,8"}, {"dtype", "bf16"}};
  const auto e = op->explain(Stream::cpu(), std::span(good), {});
  ASSERT_TRUE(e.ok()) << e.status().to_string();
  EXPECT_EQ(e->descriptor, "kind=swiglu dtype=bf16 shape=[4, 8] alpha=none limit=none");
  EXPECT_NE(e->sku.find("gated.cpu.map"), std::string::npos);
  const KeyValue bad[] = {{"shape", "4,8"}, {"kind", "swish"}};
  expect_refused(op->explain(Stream::cpu(), std::span(bad), {}).status(), Code::invalid_problem, {"gated: kind", "swish", "swiglu"});
}

TEST(Registry, RunsByName) {
  const OpInfo* op = find_op("gated");
  ASSERT_NE(op, nullptr);
  const KeyValue settings[] = {{"shape", "3"}, {"kind", "reglu"}};
  const auto plan = op->select(Stream::cpu(), std::span(settings), {});
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ((*plan)->descriptor(), "kind=reglu dtype=f32 shape=[3] alpha=none limit=none");
  float gate[3] = {-1, 2, 3}, up[3] = {1, 10, 100}, y[3] = {};
  const TensorView g = TensorView::dense(gate, {3}), u = TensorView::dense(up, {3}), out = TensorView::dense(y, {3});
  const ArgValue good[] = {{"gate", {&g, 1}}, {"up", {&u, 1}}, {"y", {&out, 1}}};
  ASSERT_OK((*plan)->run(Stream::cpu(), Workspace::none(), good));
  EXPECT_EQ(y[2], 300);
  const ArgValue missing[] = {{"gate", {&g, 1}}, {"y", {&out, 1}}};
  expect_refused((*plan)->run(Stream::cpu(), Workspace::none(), missing), Code::invalid_problem, {"gated: up is missing"});
  const ArgValue wrong[] = {{"gaet", {&g, 1}}};
  expect_refused((*plan)->can_implement(wrong), Code::invalid_problem, {"no argument 'gaet'", "gate up y"});
  const ArgValue twice[] = {{"gate", {}}};
  expect_refused((*plan)->can_implement(twice), Code::invalid_problem, {"gate is one tensor, got 0"});
}

}  // namespace
}  // namespace baracuda
