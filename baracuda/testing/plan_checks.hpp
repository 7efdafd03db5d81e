#pragma once
// What every plan owes, whatever it computes. The tensors of a case are named by the op's own argument list, so the
// checks need no code per op.
#include <gtest/gtest.h>
#include <cstring>
#include <functional>
#include <map>
#include "baracuda/testing/on_device.hpp"
#include "baracuda/testing/tolerance.hpp"

namespace baracuda::testing {

// Workspace with guards, poisoned.
class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(uint64_t bytes);
  Workspace get() { return {bytes_ ? memory_.data() + start_ : nullptr, bytes_}; }
  bool guards_intact() const;

 private:
  void close() const;
  std::vector<uint8_t> memory_;
  uint64_t bytes_;
  size_t start_ = 0;
};

// Selects for the device under test and runs once in a guarded, poisoned workspace of exactly the size that the plan asks for.
template <class Op>
Status run_plan(const typename Op::Descriptor& desc, const typename Op::Args& args, const PlanPreference& preference = {}) {
  const Stream stream = test_stream();
  auto plan = Plan<Op>::select(stream, desc, preference);
  if (!plan.ok()) return plan.status();
  GuardedWorkspace workspace(plan->workspace_size());
  const Status s = run_on(*plan, stream, workspace.get(), args);
  if (!workspace.guards_intact()) ADD_FAILURE() << Op::name << " wrote outside its workspace; " << describe(desc);
  return s;
}
#define EXPECT_OK(expr)                                                \
  do {                                                                 \
    const ::baracuda::Status status_ = (expr);                         \
    EXPECT_TRUE(status_.ok()) << #expr << ": " << status_.to_string(); \
  } while (0)
#define ASSERT_OK(expr)                                                \
  do {                                                                 \
    const ::baracuda::Status status_ = (expr);                         \
    ASSERT_TRUE(status_.ok()) << #expr << ": " << status_.to_string(); \
  } while (0)
// The refusal has this code and its text contains every fragment.
inline void expect_refused(const Status& s, Code code, std::initializer_list<std::string_view> fragments) {
  EXPECT_EQ(name(s.code()), name(code)) << s.to_string();
  for (auto f : fragments) EXPECT_NE(s.message().find(f), std::string::npos) << "'" << f << "' is missing in: " << s.message();
}

// Calls f(name, member pointer, role) for every TensorView among the arguments.
template <class Op, class F> void for_each_tensor(F f) {
  using Args = typename Op::Args;
  std::apply([&](const auto&... each) {
    ([&]<class T>(const ArgField<Args, T>& a) { if constexpr (std::is_same_v<T, TensorView>) f(a.name, a.member, a.role); }(each), ...);
  }, Args::args());
}
// The elements in row-major order, whatever the strides.
std::vector<uint8_t> bytes_of(const TensorView& v);
void put_bytes(const TensorView& v, const std::vector<uint8_t>& bytes);

// A plan and the arguments of a case, without the type of the op, so that the checks are compiled once.
struct Given { std::string_view name; Role role; TensorView* view; };
struct PlanAtWork {
  std::string_view op, kernel;
  uint64_t workspace;
  std::vector<WorkspaceItem> items;
  bool deterministic;
  std::function<Status(const Workspace*)> run;  // with the arguments as they are then; null: only can_implement
};
template <class Op> Result<PlanAtWork> at_work(const Stream& stream, const typename Op::Descriptor& desc, const typename Op::Args& args, const PlanPreference& preference) {
  BARACUDA_TRY_ASSIGN(plan, Plan<Op>::select(stream, desc, preference));
  return PlanAtWork{Op::name, plan.kernel_name(), plan.workspace_size(), plan.workspace_items(), plan.precision_guarantee().deterministic,
                    [plan, stream, &args](const Workspace* w) { return w ? run_on(plan, stream, *w, args) : plan.can_implement(args); }};
}
// The tensors that are present.
template <class Op> std::vector<Given> given(typename Op::Args& args) {
  std::vector<Given> list;
  for_each_tensor<Op>([&](std::string_view n, auto member, Role role) { if (!(args.*member).absent()) list.push_back({n, role, &(args.*member)}); });
  return list;
}
void check_repeat_bits(const std::function<Result<PlanAtWork>()>& select, const std::string& descriptor, std::span<const Given> tensors, int repeats);
void check_contract(const PlanAtWork& plan, std::span<const Given> tensors, std::span<const std::string_view> flexible);

// Runs the case again and again, with 1, 2, 3 and 8 threads, outputs poisoned before each run and inputs restored,
// and compares the bits of everything written whenever the plan's guarantee says deterministic. Inputs must be
// unchanged by every run. Library rows included: prefer each backend in turn by `preference`.
template <class Op>
void check_repeat_bits(const typename Op::Descriptor& desc, typename Op::Args args, const PlanPreference& preference = {}, int repeats = 3) {
  check_repeat_bits([&] { return at_work<Op>(test_stream(), desc, args, preference); }, describe(desc), given<Op>(args), repeats);
}

// The refusals that every op owes for a valid case: a workspace one byte short and one misaligned, each required
// tensor missing, each tensor misaligned, of another dtype, of another shape, on another device, and each output with
// a zero stride. Nothing may be written by a refused run. `flexible` names arguments whose dtype or shape is free.
template <class Op>
void check_contract(const typename Op::Descriptor& desc, typename Op::Args args, std::vector<std::string_view> flexible = {},
                    const PlanPreference& preference = {}) {
  const auto plan = at_work<Op>(Stream::cpu(), desc, args, preference);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  check_contract(*plan, given<Op>(args), flexible);
}

// Directional derivative in double. `loss` evaluates sum(dy * f(x)) in f64 for the current values of x; `dx` is what
// the backward plan gave for it. Steps along random directions with central differences of order four.
void check_directional(const std::function<double()>& loss, Tensor& x, const Tensor& dx, uint64_t seed, double relative = 1e-7, double step = 1e-3);

}  // namespace baracuda::testing
