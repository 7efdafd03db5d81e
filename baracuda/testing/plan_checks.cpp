#include "baracuda/testing/plan_checks.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include "baracuda/testing/effort.hpp"

namespace baracuda::testing {
namespace {

constexpr uint8_t kGuardByte = 0xa5;

// Calls f(memory of the element, its place in row-major order).
template <class F> void each_element(const TensorView& v, F f) {
  const int64_t size = int64_t(byte_size(v.dtype)), n = std::max<int64_t>(v.shape.numel(), 0);
  for (int64_t i = 0; i < n; ++i) {
    int64_t offset = 0, r = i;
    for (int a = v.shape.rank - 1; a >= 0; --a) offset += r % v.shape[a] * v.strides[a], r /= v.shape[a];
    f(static_cast<char*>(v.data) + offset * size, size_t(i * size));
  }
}

using Bytes = std::map<std::string_view, std::vector<uint8_t>>;
Bytes all_bytes(std::span<const Given> tensors) {
  Bytes bytes;
  for (const Given& t : tensors) bytes[t.name] = bytes_of(*t.view);
  return bytes;
}

}  // namespace

GuardedWorkspace::GuardedWorkspace(uint64_t bytes) : memory_(bytes + 3 * kWorkspaceAlignment, kGuardByte), bytes_(bytes) {
  const uintptr_t p = uintptr_t(memory_.data()) + kWorkspaceAlignment;
  start_ = p + (kWorkspaceAlignment - p % kWorkspaceAlignment) % kWorkspaceAlignment - uintptr_t(memory_.data());
  std::memset(memory_.data() + start_, 0xff, bytes_);
  close();
}
bool GuardedWorkspace::guards_intact() const {
  open_memory(memory_.data(), memory_.size());
  const auto guard = [](uint8_t b) { return b == kGuardByte; };
  const bool intact = std::all_of(memory_.begin(), memory_.begin() + int64_t(start_), guard) &&
                      std::all_of(memory_.begin() + int64_t(start_ + bytes_), memory_.end(), guard);
  close();
  return intact;
}
void GuardedWorkspace::close() const {
  close_memory(memory_.data(), start_);
  close_memory(memory_.data() + start_ + bytes_, memory_.size() - start_ - bytes_);
}

std::vector<uint8_t> bytes_of(const TensorView& v) {
  const size_t size = byte_size(v.dtype);
  std::vector<uint8_t> out(size_t(std::max<int64_t>(v.shape.numel(), 0)) * size);
  if (out.empty()) return out;
  if (v.contiguous()) std::memcpy(out.data(), v.data, out.size());
  else each_element(v, [&](const char* p, size_t at) { std::memcpy(&out[at], p, size); });
  return out;
}
void put_bytes(const TensorView& v, const std::vector<uint8_t>& bytes) {
  if (bytes.empty()) return;
  if (v.contiguous()) std::memcpy(v.data, bytes.data(), bytes.size());
  else each_element(v, [&, size = byte_size(v.dtype)](char* p, size_t at) { std::memcpy(p, &bytes[at], size); });
}

bool memory_is_watched() {
#ifdef BARACUDA_MEMORY_IS_WATCHED
  return true;
#else
  return false;
#endif
}
std::vector<int> teams() {
  if (on_cuda()) return {threads()};
  return memory_is_watched() ? std::vector{1, 3} : std::vector{1, 2, 3, 8};
}

void check_repeat_bits(const std::function<Result<PlanAtWork>()>& select, const std::string& descriptor, std::span<const Given> tensors, int repeats) {
  const Bytes start = all_bytes(tensors);
  Bytes first;
  const int before = threads();
  for (int team : teams())
    for (int r = 0; r < testing::repeats(repeats); ++r) {
      set_threads(team);
      for (const Given& t : tensors)
        put_bytes(*t.view, t.role == Role::out || t.role == Role::optional_out ? std::vector<uint8_t>(start.at(t.name).size(), 0xff) : start.at(t.name));
      const auto plan = select();
      ASSERT_TRUE(plan.ok()) << plan.status().to_string();
      GuardedWorkspace workspace(plan->workspace);
      const Workspace w = workspace.get();
      ASSERT_OK(plan->run(&w));
      EXPECT_TRUE(workspace.guards_intact()) << plan->op << " wrote outside its workspace with " << team << " threads";
      for (const Given& t : tensors) {
        const auto now = bytes_of(*t.view);
        if (!written(t.role)) EXPECT_EQ(now, start.at(t.name)) << plan->op << " changed its input " << t.name;
        else if (!first.count(t.name)) first[t.name] = now;
        else if (plan->deterministic)
          EXPECT_TRUE(now == first[t.name]) << plan->op << " " << t.name << ": other bits in repeat " << r << " with " << team << " threads by "
                                            << plan->kernel << "; " << descriptor;
      }
    }
  set_threads(before);
}

void check_contract(const PlanAtWork& plan, std::span<const Given> tensors, std::span<const std::string_view> flexible) {
  GuardedWorkspace workspace(plan.workspace);
  const Bytes start = all_bytes(tensors);
  std::vector<TensorView> views;
  for (const Given& t : tensors) views.push_back(*t.view);
  EXPECT_OK(plan.run(nullptr));
  const auto refused = [&](Workspace w, Code code, std::initializer_list<std::string_view> fragments) {
    expect_refused(plan.run(&w), code, fragments);
    for (size_t i = 0; i < views.size(); ++i)
      EXPECT_TRUE(bytes_of(views[i]) == start.at(tensors[i].name)) << "a refused run of " << plan.op << " wrote to " << tensors[i].name;
  };
  if (const uint64_t need = plan.workspace) {
    const Workspace w = workspace.get();
    refused({w.data, need - 1}, Code::workspace_too_small, {plan.op, std::to_string(need), std::to_string(need - 1)});
    refused({nullptr, need}, Code::workspace_too_small, {plan.op});
    refused({static_cast<char*>(w.data) + 64, need}, Code::misaligned_operand, {plan.op, "workspace"});
    uint64_t sum = 0;
    for (const WorkspaceItem& item : plan.items) sum += item.bytes;
    EXPECT_LE(sum, need);
    EXPECT_GT(sum, 0u);
  } else {
    EXPECT_TRUE(plan.items.empty());
  }
  for (const Given& t : tensors) {
    const TensorView v = *t.view;
    // Refused with the view changed so; in words that name the argument.
    const auto changed = [&](const auto& change, std::string_view word, Code code = Code::invalid_problem) {
      change(*t.view);
      refused(workspace.get(), code, {plan.op, t.name, word});
      *t.view = v;
    };
    if (!optional(t.role)) changed([](TensorView& x) { x = {}; }, "missing");
    changed([](TensorView& x) { x.device = {DeviceKind::cuda, 0}; }, "cuda");
    if (byte_size(v.dtype) > 1 && v.numel() > 0)
      changed([](TensorView& x) { x.data = static_cast<char*>(x.data) + 1; }, "", Code::misaligned_operand);
    if (v.numel() > 0 && v.shape.rank > 0)  // a null view of rank 0 is an absent argument
      changed([](TensorView& x) { x.data = nullptr; }, "memory");
    changed([](TensorView& x) { x.strides.rank = x.shape.rank + 1; }, "strides");
    if (std::find(flexible.begin(), flexible.end(), t.name) == flexible.end()) {
      changed([](TensorView& x) { x.dtype = x.dtype == DType::i16 ? DType::i8 : DType::i16; }, "dtype");  // read as such it stays inside the memory or is refused
      changed([](TensorView& x) {
        x.shape.rank > 0 ? void(++x.shape[x.shape.rank - 1]) : x.shape.push_back(2);
        x.strides = x.shape.contiguous();
      }, "shape");
    }
    if (written(t.role))
      for (int i = 0; i < v.shape.rank; ++i)
        if (v.shape[i] > 1) changed([i](TensorView& x) { x.strides[i] = 0; }, "stride");
  }
}

void check_directional(const std::function<double()>& loss, Tensor& x, const Tensor& dx, uint64_t seed, double relative, double step) {
  ASSERT_EQ(x.dtype(), DType::f64);
  ASSERT_EQ(x.numel(), dx.numel());
  const std::vector<double> at = x.values();
  Source source(seed);
  for (int trial = 0; trial < repeats(3); ++trial) {
    std::vector<double> v(at.size());
    double norm = 0;
    for (double& e : v) e = source.normal(), norm += e * e;
    norm = std::sqrt(norm);
    double want = 0, scale = 0;
    for (size_t i = 0; i < v.size(); ++i) {
      v[i] /= norm;
      want += v[i] * dx.at(int64_t(i));
      scale += std::fabs(v[i] * dx.at(int64_t(i)));
    }
    auto moved = [&](double h) {
      for (size_t i = 0; i < v.size(); ++i) x.set(int64_t(i), at[i] + h * v[i]);
      return loss();
    };
    const double got = (8 * (moved(step) - moved(-step)) - (moved(2 * step) - moved(-2 * step))) / (12 * step);
    for (size_t i = 0; i < v.size(); ++i) x.set(int64_t(i), at[i]);
    EXPECT_NEAR(got, want, relative * (scale + 1)) << "directional derivative, trial " << trial;
    EXPECT_TRUE(scale > 0 || at.empty()) << "the gradient is zero everywhere: this check would see nothing";
  }
}

}  // namespace baracuda::testing
