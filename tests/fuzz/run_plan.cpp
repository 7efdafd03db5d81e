// Arguments for any plan, as AnyPlan::arguments() tells them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sanitizer/asan_interface.h>
#include "problem.hpp"

namespace baracuda::fuzz {
namespace {

constexpr int64_t kMostElements = 4096;
constexpr uint64_t kMostWorkspace = 16 << 20;

// Memory between guard bytes. AddressSanitizer sees instrumented code touch them; its end sees what other code wrote.
class Memory {
 public:
  explicit Memory(uint64_t bytes, uint64_t alignment = 16) : bytes_(bytes), guard_(std::max<uint64_t>(alignment, kGuard)) {
    void* p = nullptr;
    if (posix_memalign(&p, std::max<uint64_t>(alignment, 64), bytes + guard_ + kGuard) != 0) std::abort();
    base_ = static_cast<char*>(p);
    std::memset(base_, 0xa5, bytes + guard_ + kGuard);
    std::memset(data(), 0xff, bytes);
    ASAN_POISON_MEMORY_REGION(base_, guard_);
    ASAN_POISON_MEMORY_REGION(data() + bytes, kGuard);
  }
  ~Memory() {
    ASAN_UNPOISON_MEMORY_REGION(base_, bytes_ + guard_ + kGuard);
    for (uint64_t i = 0; i < guard_ + kGuard; ++i)
      if (static_cast<unsigned char>(base_[i < guard_ ? i : bytes_ + i]) != 0xa5) {
        std::fprintf(stderr, "byte %lld of a tensor of %llu bytes was written\n", static_cast<long long>(i) - static_cast<long long>(guard_) + (i < guard_ ? 0 : static_cast<long long>(bytes_)),
                     static_cast<unsigned long long>(bytes_));
        std::abort();
      }
    std::free(base_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* data() const { return base_ + guard_; }
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint64_t kGuard = 128;
  char* base_ = nullptr;
  uint64_t bytes_, guard_;
};

enum class Values { small, wild };
void fill(Memory& m, DType t, Values values, Random& r) {
  const size_t size = byte_size(t);
  int64_t rising = 0;
  const bool rises = r.one_in(2);
  for (uint64_t i = 0; size && i + size <= m.bytes(); i += size) {
    uint64_t bits = r.next();
    if (t == DType::boolean) bits &= 1;  // any other byte is no bool
    else if (!is_floating(t) && values == Values::small) bits = uint64_t(rises ? rising += int64_t(r.below(3)) * (i > 0) : int64_t(r.below(12)) - 2);
    else if (values == Values::small && t == DType::f32) { const float f = float(int64_t(bits) >> 32) * 0x1p-30f; std::memcpy(&bits, &f, sizeof f); }
    else if (values == Values::small && t == DType::f64) { const double f = double(int64_t(bits)) * 0x1p-62; std::memcpy(&bits, &f, sizeof f); }
    else if (values == Values::small && t == DType::bf16) bits = (bits & 0x803f) | 0x3f80;
    else if (values == Values::small && t == DType::f16) bits &= 0xbfff;
    const uint64_t both[2] = {bits, bits};  // of the 16-byte types
    std::memcpy(m.data() + i, both, size);
  }
}

// One tensor argument and its memory.
struct Found {
  ArgInfo info;
  bool given = false, padded = false;
  int count = 1;  // of a multi-tensor argument
  DType dtype = DType::f32;
  Shape shape;
  std::vector<TensorView> views;
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<std::vector<char>> start;
};
bool allocate_views(Found& f, Random& r) {
  f.views.clear(), f.memory.clear();
  const int64_t n = f.shape.numel();
  if (n < 0 || n > kMostElements || byte_size(f.dtype) == 0) return false;
  for (int i = 0; i < f.count; ++i) {
    Strides s = f.shape.contiguous();
    int64_t elements = n;
    if (f.padded && f.shape.rank > 1 && n > 0) {
      int64_t step = f.shape[f.shape.rank - 1] + 1 + int64_t(r.below(3));
      for (int a = f.shape.rank - 2; a >= 0; --a) s[a] = step, step *= f.shape[a];
      elements = step;
    }
    f.memory.push_back(std::make_unique<Memory>(uint64_t(elements) * byte_size(f.dtype)));
    f.views.push_back({f.memory.back()->data(), f.dtype, {}, f.shape, s});
  }
  return true;
}

}  // namespace

bool run_plan(const OpInfo& op, const AnyPlan& plan, const Stream& stream, uint64_t seed) {
  Random r(seed);
  if (plan.workspace_size() > kMostWorkspace) return false;
  const auto arguments = plan.arguments();
  if (!arguments.ok()) return false;
  std::vector<Found> found;
  const bool padded = r.one_in(3), generous = r.one_in(2);
  const Shape any{1 + int64_t(r.below(4)), int64_t(r.below(40))};
  for (const Argument& a : *arguments) {
    if (!a.tensor() || a.presence == Argument::Presence::unused) continue;
    Found f{a.info};
    f.given = a.presence == Argument::Presence::required || (generous && r.one_in(2));
    f.padded = padded && r.one_in(2);
    f.dtype = a.dtype.value_or(DType::f32), f.shape = a.shape.value_or(any);
    if (f.given && !allocate_views(f, r)) return false;
    found.push_back(std::move(f));
  }
  std::vector<ArgValue> args;
  auto gather = [&] {
    args.clear();
    for (Found& f : found)
      if (f.given) args.push_back({f.info.name, f.views, {}});
    return plan.can_implement(args);
  };
  Status status = gather();
  // Not every op takes such strides, nor every optional argument without another.
  for (Found& f : found)
    if (f.padded && f.given && !status.ok()) f.padded = false, (void)allocate_views(f, r), status = gather();
  for (Found& f : found)
    if (f.given && optional(f.info.role) && !status.ok()) f.given = false, status = gather();
  if (!status.ok()) return false;
  for (Found& f : found) {
    if (!f.given) continue;
    const Values values = r.one_in(4) ? Values::wild : Values::small;
    for (auto& m : f.memory) {
      if (f.info.role != Role::out && f.info.role != Role::optional_out) fill(*m, f.dtype, values, r);
      f.start.emplace_back(m->data(), m->data() + m->bytes());
    }
  }
  std::vector<std::vector<char>> first;
  for (int time = 0; time < 2; ++time) {
    Memory workspace(plan.workspace_size(), kWorkspaceAlignment);
    std::memset(workspace.data(), time ? 0x7f : 0xff, workspace.bytes());
    for (Found& f : found)
      for (size_t i = 0; i < f.start.size(); ++i) std::copy(f.start[i].begin(), f.start[i].end(), f.memory[i]->data());
    status = plan.run(stream, {plan.workspace_size() ? workspace.data() : nullptr, plan.workspace_size()}, args);
    if (!status.ok() && status.message().empty()) std::abort();
    size_t k = 0;
    for (Found& f : found)
      for (size_t i = 0; i < f.start.size(); ++i, ++k) {
        std::vector<char> now(f.memory[i]->data(), f.memory[i]->data() + f.start[i].size());
        if (!written(f.info.role) && now != f.start[i]) {
          std::fprintf(stderr, "%.*s changed its input %.*s; %s\n", int(op.name.size()), op.name.data(), int(f.info.name.size()), f.info.name.data(),
                       plan.descriptor().c_str());
          std::abort();
        }
        if (time == 0) first.push_back(std::move(now));
        else if (status.ok() && plan.sku().guarantee.deterministic && now != first[k]) {
          std::fprintf(stderr, "%.*s gave other bits for %.*s the second time; %s\n", int(op.name.size()), op.name.data(), int(f.info.name.size()),
                       f.info.name.data(), plan.descriptor().c_str());
          std::abort();
        }
      }
  }
  return status.ok();
}

}  // namespace baracuda::fuzz
