#pragma once
// The plans of a program that runs on one stream: chosen before the first step, run with one shared workspace, and
// listed for the report of what ran, what it promises and, where asked for, how long it took.
#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>
#include "baracuda/core/plan.hpp"
#include "baracuda/core/transfer.hpp"
#include "baracuda/host/timing.hpp"

namespace baracuda::cli {

class Plans {
 public:
  explicit Plans(const Stream& stream) : scratch_(stream.device), stream_(stream) {}
  const Stream& stream() const { return stream_; }

  template <class Op> Status select(std::optional<Plan<Op>>& plan, const typename Op::Descriptor& desc) {
    Result<Plan<Op>> chosen = Plan<Op>::select(stream_, desc);
    if (!chosen.ok()) return chosen.status();
    plan = *std::move(chosen);
    bytes_ = std::max(bytes_, plan->workspace_size());
    entry_of_[&plan] = note(std::string(Op::name), std::string(plan->kernel_name()), std::string(name(plan->descriptor().dtype)), to_string(plan->precision_guarantee()),
         plan->precision_guarantee().deterministic);
    return {};
  }
  // After the last select.
  Status allocate() {
    BARACUDA_TRY_ASSIGN(workspace, scratch_.get(bytes_));
    workspace_ = workspace;
    return {};
  }
  uint64_t workspace_bytes() const { return bytes_; }
  template <class Op> Status run(const std::optional<Plan<Op>>& plan, const typename Op::Args& args) {
    if (!timed_) return plan->run(stream_, workspace_, args);
    Status s;
    entries_[entry_of_.at(&plan)].seconds += seconds([&] {
      s = plan->run(stream_, workspace_, args);
      if (s.ok()) s = wait(stream_);
    });
    return s;
  }
  // From now on, each run is waited for and its time added to its entry.
  void time() { timed_ = true; }

  // Plans of one op that chose the same kernel are one entry.
  struct Entry { std::string op, kernel, dtype, guarantee; int count; bool deterministic; double seconds; };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  size_t note(std::string op, std::string kernel, std::string dtype, std::string guarantee, bool deterministic) {
    for (Entry& e : entries_)
      if (e.op == op && e.kernel == kernel && e.dtype == dtype && e.guarantee == guarantee) return ++e.count, size_t(&e - entries_.data());
    entries_.push_back({std::move(op), std::move(kernel), std::move(dtype), std::move(guarantee), 1, deterministic, 0});
    return entries_.size() - 1;
  }
  ScratchArena scratch_;
  Stream stream_;
  Workspace workspace_;
  uint64_t bytes_ = 0;
  std::vector<Entry> entries_;
  std::unordered_map<const void*, size_t> entry_of_;  // of a plan's place
  bool timed_ = false;
};

}  // namespace baracuda::cli
