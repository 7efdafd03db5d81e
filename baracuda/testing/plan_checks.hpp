#pragma once
// What every plan owes, whatever it computes. The tensors of a case are named by the op's own argument list, so the
// checks need no code per op.
#include <gtest/gtest.h>
#include <cstring>
#include <map>
#include "baracuda/testing/on_device.hpp"
#include "baracuda/testing/tolerance.hpp"

namespace baracuda::testing {

// Workspace with guards, poisoned.
class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(uint64_t bytes) : memory_(bytes + 3 * kWorkspaceAlignment, 0xff), bytes_(bytes) {
    const uintptr_t p = uintptr_t(memory_.data()) + kWorkspaceAlignment;
    start_ = p + (kWorkspaceAlignment - p % kWorkspaceAlignment) % kWorkspaceAlignment - uintptr_t(memory_.data());
    for (size_t i = 0; i < memory_.size(); ++i)
      if (i < start_ || i >= start_ + bytes_) memory_[i] = 0xa5;
    close();
  }
  Workspace get() { return {bytes_ ? memory_.data() + start_ : nullptr, bytes_}; }
  bool guards_intact() const {
    open_memory(memory_.data(), memory_.size());
    bool intact = true;
    for (size_t i = 0; i < memory_.size(); ++i) intact = intact && ((i >= start_ && i < start_ + bytes_) || memory_[i] == 0xa5);
    close();
    return intact;
  }

 private:
  void close() const {
    close_memory(memory_.data(), start_);
    close_memory(memory_.data() + start_ + bytes_, memory_.size() - start_ - bytes_);
  }
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
inline std::vector<uint8_t> bytes_of(const TensorView& v) {
  const size_t size = byte_size(v.dtype);
  std::vector<uint8_t> out(size_t(std::max<int64_t>(v.shape.numel(), 0)) * size);
  for (int64_t i = 0, n = int64_t(out.size() / size); i < n; ++i) {
    int64_t offset = 0, r = i;
    for (int a = v.shape.rank - 1; a >= 0; --a) offset += r % v.shape[a] * v.strides[a], r /= v.shape[a];
    std::memcpy(&out[size_t(i) * size], static_cast<char*>(v.data) + offset * int64_t(size), size);
  }
  return out;
}
inline void put_bytes(const TensorView& v, const std::vector<uint8_t>& bytes) {
  const size_t size = byte_size(v.dtype);
  for (int64_t i = 0, n = int64_t(bytes.size() / size); i < n; ++i) {
    int64_t offset = 0, r = i;
    for (int a = v.shape.rank - 1; a >= 0; --a) offset += r % v.shape[a] * v.strides[a], r /= v.shape[a];
    std::memcpy(static_cast<char*>(v.data) + offset * int64_t(size), &bytes[size_t(i) * size], size);
  }
}

// Runs the case again and again, with 1, 2, 3 and 8 threads, outputs poisoned before each run and inputs restored,
// and compares the bits of everything written whenever the plan's guarantee says deterministic. Inputs must be
// unchanged by every run. Library rows included: prefer each backend in turn by `preference`.
template <class Op>
void check_repeat_bits(const typename Op::Descriptor& desc, const typename Op::Args& args, const PlanPreference& preference = {}, int repeats = 3) {
  std::map<std::string_view, std::vector<uint8_t>> start, first;
  for_each_tensor<Op>([&](std::string_view n, auto member, Role) { if (!(args.*member).absent()) start[n] = bytes_of(args.*member); });
  const int before = threads();
  const Stream stream = test_stream();
  for (int team : on_cuda() ? std::vector<int>{before} : std::vector<int>{1, 2, 3, 8})
    for (int r = 0; r < repeats; ++r) {
      set_threads(team);
      for_each_tensor<Op>([&](std::string_view n, auto member, Role role) {
        const TensorView& v = args.*member;
        if (v.absent()) return;
        put_bytes(v, role == Role::out || role == Role::optional_out ? std::vector<uint8_t>(start[n].size(), 0xff) : start[n]);
      });
      auto plan = Plan<Op>::select(stream, desc, preference);
      ASSERT_TRUE(plan.ok()) << plan.status().to_string();
      GuardedWorkspace workspace(plan->workspace_size());
      ASSERT_OK(run_on(*plan, stream, workspace.get(), args));
      EXPECT_TRUE(workspace.guards_intact()) << Op::name << " wrote outside its workspace with " << team << " threads";
      for_each_tensor<Op>([&](std::string_view n, auto member, Role role) {
        const TensorView& v = args.*member;
        if (v.absent()) return;
        const auto now = bytes_of(v);
        if (!written(role)) EXPECT_EQ(now, start[n]) << Op::name << " changed its input " << n;
        else if (!first.count(n)) first[n] = now;
        else if (plan->precision_guarantee().deterministic)
          EXPECT_TRUE(now == first[n]) << Op::name << " " << n << ": other bits in repeat " << r << " with " << team << " threads by "
                                       << plan->kernel_name() << "; " << describe(desc);
      });
    }
  set_threads(before);
}

// The refusals that every op owes for a valid case: a workspace one byte short and one misaligned, each required
// tensor missing, each tensor misaligned, of another dtype, of another shape, on another device, and each output with
// a zero stride. Nothing may be written by a refused run. `flexible` names arguments whose dtype or shape is free.
template <class Op>
void check_contract(const typename Op::Descriptor& desc, const typename Op::Args& args, std::vector<std::string_view> flexible = {},
                    const PlanPreference& preference = {}) {
  auto plan = Plan<Op>::select(Stream::cpu(), desc, preference);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  GuardedWorkspace workspace(plan->workspace_size());
  std::map<std::string_view, std::vector<uint8_t>> start;
  for_each_tensor<Op>([&](std::string_view n, auto member, Role) { if (!(args.*member).absent()) start[n] = bytes_of(args.*member); });
  EXPECT_OK(plan->can_implement(args));
  auto refused = [&](const typename Op::Args& a, Workspace w, Code code, std::initializer_list<std::string_view> fragments) {
    expect_refused(plan->run(Stream::cpu(), w, a), code, fragments);
    for_each_tensor<Op>([&](std::string_view n, auto member, Role) {
      if (!(args.*member).absent()) EXPECT_TRUE(bytes_of(args.*member) == start[n]) << "a refused run of " << Op::name << " wrote to " << n;
    });
  };
  if (const uint64_t need = plan->workspace_size()) {
    Workspace w = workspace.get();
    refused(args, {w.data, need - 1}, Code::workspace_too_small, {Op::name, std::to_string(need), std::to_string(need - 1)});
    refused(args, {nullptr, need}, Code::workspace_too_small, {Op::name});
    refused(args, {static_cast<char*>(w.data) + 64, need}, Code::misaligned_operand, {Op::name, "workspace"});
    uint64_t sum = 0;
    for (const WorkspaceItem& item : plan->workspace_items()) sum += item.bytes;
    EXPECT_LE(sum, need);
    EXPECT_GT(sum, 0u);
  } else {
    EXPECT_TRUE(plan->workspace_items().empty());
  }
  for_each_tensor<Op>([&](std::string_view n, auto member, Role role) {
    const TensorView& v = args.*member;
    if (v.absent()) return;
    const bool free = std::find(flexible.begin(), flexible.end(), n) != flexible.end();
    typename Op::Args a = args;
    if (!optional(role)) {
      a.*member = TensorView{};
      refused(a, workspace.get(), Code::invalid_problem, {Op::name, n, "missing"});
    }
    a = args;
    (a.*member).device = {DeviceKind::cuda, 0};
    refused(a, workspace.get(), Code::invalid_problem, {Op::name, n, "cuda"});
    if (byte_size(v.dtype) > 1 && v.numel() > 0) {
      a = args;
      (a.*member).data = static_cast<char*>(v.data) + 1;
      refused(a, workspace.get(), Code::misaligned_operand, {Op::name, n});
    }
    if (v.numel() > 0 && v.shape.rank > 0) {  // a null view of rank 0 is an absent argument
      a = args;
      (a.*member).data = nullptr;
      refused(a, workspace.get(), Code::invalid_problem, {Op::name, n, "memory"});
    }
    a = args;
    (a.*member).strides.rank = v.shape.rank + 1;
    refused(a, workspace.get(), Code::invalid_problem, {Op::name, n, "strides"});
    if (!free) {
      a = args;
      (a.*member).dtype = v.dtype == DType::i16 ? DType::i8 : DType::i16;  // read as such it stays inside the memory or is refused
      refused(a, workspace.get(), Code::invalid_problem, {Op::name, n, "dtype"});
      a = args;
      Shape longer = v.shape;
      longer.rank > 0 ? void(++longer[longer.rank - 1]) : longer.push_back(2);
      (a.*member).shape = longer, (a.*member).strides = longer.contiguous();
      refused(a, workspace.get(), Code::invalid_problem, {Op::name, n, "shape"});
    }
    if (written(role))
      for (int i = 0; i < v.shape.rank; ++i)
        if (v.shape[i] > 1) {
          a = args;
          (a.*member).strides[i] = 0;
          refused(a, workspace.get(), Code::invalid_problem, {Op::name, n, "stride"});
        }
  });
}

// Directional derivative in double. `loss` evaluates sum(dy * f(x)) in f64 for the current values of x; `dx` is what
// the backward plan gave for it. Steps along random directions with central differences of order four.
void check_directional(const std::function<double()>& loss, Tensor& x, const Tensor& dx, uint64_t seed, double relative = 1e-7, double step = 1e-3);

}  // namespace baracuda::testing
