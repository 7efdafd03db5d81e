// What AnyPlan::arguments() says is what the plan takes: for every op of the registry, over descriptors made at random.
#include <gtest/gtest.h>
#include <map>
#include "baracuda/core/registry.hpp"
#include "tests/fuzz/problem.hpp"

namespace baracuda {
namespace {

constexpr int64_t kMost = 1 << 16;  // elements
using Presence = Argument::Presence;

// Memory for the arguments that `wanted` picks, zeroed; views() as a caller passes them.
class Given {
 public:
  bool add(const Argument& a) {
    const Shape shape = a.shape.value_or(Shape{2, 3});
    const DType dtype = a.dtype.value_or(DType::f32);
    if (shape.numel() > kMost) return false;
    memory_.emplace_back(size_t(shape.numel()) * 16 + 16);
    views_.push_back(TensorView::dense(memory_.back().data(), dtype, shape));
    names_.push_back(a.info.name);
    return true;
  }
  std::vector<ArgValue> values() const {
    std::vector<ArgValue> list;
    for (size_t i = 0; i < views_.size(); ++i) list.push_back({names_[i], {&views_[i], 1}});
    return list;
  }

 private:
  std::vector<std::vector<char>> memory_;
  std::vector<TensorView> views_;
  std::vector<std::string_view> names_;
};
// Says what it takes, takes what it says; whether it was small enough to try.
bool try_plan(const AnyPlan& plan) {
  const auto arguments = plan.arguments();
  if (arguments.status().code() == Code::out_of_memory) return false;  // larger than the address space
  EXPECT_TRUE(arguments.ok()) << arguments.status().to_string() << "\n" << plan.descriptor();
  if (!arguments.ok()) return false;
  Given required;
  for (const Argument& a : *arguments) {
    EXPECT_EQ(a.tensor(), a.info.type == "tensor" || a.info.type == "tensors") << a.info.name;
    if (!optional(a.info.role) && a.tensor()) EXPECT_EQ(a.presence, Presence::required) << a.info.name;
    if (written(a.info.role) && a.info.type == "tensor" && a.presence != Presence::unused)
      EXPECT_TRUE(a.dtype && a.shape) << a.info.name << " is written, and cannot be allocated: " << plan.descriptor();
    if (a.presence == Presence::required && a.tensor() && !required.add(a)) return false;
  }
  const Status s = plan.can_implement(required.values());
  EXPECT_TRUE(s.ok()) << s.to_string() << "\n" << plan.descriptor();
  ScratchArena arena;
  if (!s.ok() || plan.workspace_size() > (64 << 20)) return false;
  const auto workspace = arena.get(plan.workspace_size());
  const Status ran = plan.run(Stream::cpu(), *workspace, required.values());
  EXPECT_TRUE(ran.ok() || ran.code() == Code::invalid_problem) << ran.to_string();  // values may be refused, shapes not
  return true;
}

TEST(Arguments, EveryOpTakesWhatItSays) {
  std::map<std::string_view, int> tried;
  for (const OpInfo& op : registry()) {
    fuzz::Random random(1);
    std::string text(op.name);
    for (int i = 0; i < 5000 && tried[op.name] < 25; ++i) {
      const fuzz::Problem p = fuzz::parse_problem(text);
      if (p.op == &op)
        if (const auto plan = op.select(Stream::cpu(), p.settings, {}); plan.ok()) tried[op.name] += try_plan(**plan);
      text = fuzz::mutate_problem(i % 8 ? text : std::string(op.name), random);
    }
    EXPECT_GT(tried[op.name], 0) << "no plan of " << op.name << " was found to try";
  }
}

std::string describe(std::string_view op, std::vector<KeyValue> settings) {
  const OpInfo* info = find_op(op);
  if (!info) return "no such op";
  const auto plan = info->select(Stream::cpu(), settings, {});
  if (!plan.ok()) return plan.status().to_string();
  const auto arguments = (*plan)->arguments();
  if (!arguments.ok()) return arguments.status().to_string();
  std::string out;
  for (const Argument& a : *arguments) {
    if (!a.tensor() || a.presence == Presence::unused) continue;
    out += text(out.empty() ? "" : "; ", a.info.name, a.presence == Presence::optional ? "? " : " ");
    out += a.dtype ? std::string(name(*a.dtype)) : "any";
    out += a.shape ? to_string(*a.shape) : " any";
  }
  return out;
}
TEST(Arguments, Examples) {
  EXPECT_EQ(describe("gated", {{"shape", "2,3"}, {"dtype", "bf16"}}), "gate bf16[2, 3]; up bf16[2, 3]; y bf16[2, 3]");
  if (find_op("rms_norm")) {
    EXPECT_EQ(describe("rms_norm", {{"shape", "4,8"}, {"dtype", "f16"}}),
              "x f16[4, 8]; weight f16[8]; residual? f16[4, 8]; y f16[4, 8]; residual_out? f16[4, 8]; rstd? f32[4]");
    EXPECT_EQ(describe("rms_norm", {{"shape", "4,8"}, {"weight", "none"}}), "x f32[4, 8]; residual? f32[4, 8]; y f32[4, 8]; residual_out? f32[4, 8]; rstd? f32[4]");
  }
  if (find_op("unary_backward"))
    EXPECT_EQ(describe("unary_backward", {{"shape", "5"}, {"kind", "tanh"}}), "dy f32[5]; y f32[5]; dx f32[5]");
  if (find_op("rope"))
    EXPECT_EQ(describe("rope", {{"shape", "1,2,3,4"}}), "x f32[1, 2, 3, 4]; positions? i64[3]; y f32[1, 2, 3, 4]");
  if (find_op("cross_entropy")) {
    EXPECT_EQ(describe("cross_entropy", {{"tokens", "3"}, {"classes", "7"}, {"dtype", "bf16"}, {"grad_logits", "true"}}),
              "logits bf16[3, 7]; target i64[3]; weights? f32[3]; dloss? f32[]; loss f32[]; z_part? f32[]; lse? f32[3]; dlogits bf16[3, 7]");
    EXPECT_EQ(describe("cross_entropy", {{"tokens", "1"}, {"classes", "7"}, {"reduction", "none"}}).find("loss f32[1]") != std::string::npos, true);
  }
  if (find_op("flash_sdpa"))
    EXPECT_EQ(describe("flash_sdpa", {{"heads", "2"}, {"head_dim", "8"}, {"alibi", "true"}}),
              "q f32[1, 2, 1, 8]; k f32[1, 2, 1, 8]; v f32[1, 2, 1, 8]; y f32[1, 2, 1, 8]; lse? f32[1, 2, 1]; alibi_slopes f32[2]");
  if (find_op("adamw"))
    EXPECT_EQ(describe("adamw", {{"dtype", "bf16"}, {"grad_dtype", "bf16"}}),
              "params bf16 any; grads bf16 any; m f32 any; v f32 any; masters? f32 any; step_tensor? i64[]; lr_tensor? f32[]; grad_scale? f32[]; found_inf? f32[]; v_max? f32 any");
}
// Where only some kinds of a family are absent, an argument may be needed, allowed or of no use.
TEST(Arguments, TellsWhetherAnArgumentIsOfUse) {
  const OpInfo* op = find_op("gated_backward");
  ASSERT_NE(op, nullptr);
  const KeyValue settings[] = {{"shape", "2"}};
  const auto arguments = op->select(Stream::cpu(), std::span(settings), {}).value()->arguments().value();
  ASSERT_EQ(arguments.size(), 5u);
  EXPECT_EQ(arguments[0].presence, Presence::required);
  EXPECT_EQ(arguments[3].presence, Presence::optional);
}

}  // namespace
}  // namespace baracuda
