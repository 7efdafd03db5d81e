#pragma once
// Plans under test on another device: $BARACUDA_TEST_DEVICE is cpu (default) or cuda. Test tensors live in host memory; for
// CUDA each run copies what the arguments reach to the device, between guards, runs, and copies it back, so that a test is
// written once. Arguments that share memory share it on the device too.
//
// $BARACUDA_TEST_CAPTURE=1: each run is captured in a graph besides and replayed; allocation nodes fail.
#include <functional>
#include <memory>
#include "baracuda/core/registry.hpp"

namespace baracuda::testing {

Stream test_stream();
inline bool on_cuda() { return test_stream().device.kind == DeviceKind::cuda; }

class Mirror {
 public:
  explicit Mirror(const Stream& stream);
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  void add(const TensorView& host);
  void add(std::span<const TensorView> host) { for (const TensorView& v : host) add(v); }
  template <class T> void add(const T&) {}
  Status upload();      // after the last add
  TensorView on_device(const TensorView& host) const;
  std::span<const TensorView> on_device(std::span<const TensorView> host);
  template <class T> const T& on_device(const T& value) const { return value; }
  Status download();    // waits; invalid_problem when a guard was written
  Status reset();       // the device's memory as upload() left it
  Workspace workspace() const { return workspace_; }
  Status add_workspace(const Workspace& host);  // as many bytes as aligned

 private:
  struct Range { char *low, *high; void* device = nullptr; };
  Status fill(Range& r);
  Stream stream_;
  std::vector<Range> ranges_;
  std::vector<std::unique_ptr<std::vector<TensorView>>> lists_;
  void* workspace_memory_ = nullptr;
  uint64_t workspace_lead_ = 0;
  Workspace workspace_;
};
// Replays what run queues, from a graph; fails where something in it is no kernel, copy or fill. `between`: after the capture.
Status capture_and_replay(const Stream& stream, const std::function<Status()>& run, const std::function<Status()>& between = {});
bool capture_wanted();

// Makes the workspace, runs, again from a graph where that is wanted, and downloads; after upload().
Status run_mirrored(Mirror& mirror, const Stream& stream, const Workspace& workspace, const std::function<Status()>& run);

// plan.run with host tensors on the plan's device. CUDA: with a workspace of the same size and alignment, guarded and poisoned.
template <class Op> Result<typename Op::Args> upload(Mirror& mirror, const typename Op::Args& args) {
  std::apply([&](const auto&... each) { (mirror.add(args.*each.member), ...); }, Op::Args::args());
  BARACUDA_TRY(mirror.upload());
  typename Op::Args there = args;
  std::apply([&](const auto&... each) { ((there.*each.member = mirror.on_device(args.*each.member)), ...); }, Op::Args::args());
  return there;
}
template <class Op> Status run_on(const Plan<Op>& plan, const Stream& stream, Workspace workspace, const typename Op::Args& args) {
  if (stream.device.kind == DeviceKind::cpu) return plan.run(stream, workspace, args);
  Mirror mirror(stream);
  BARACUDA_TRY_ASSIGN(there, upload<Op>(mirror, args));
  return run_mirrored(mirror, stream, workspace, [&] { return plan.run(stream, mirror.workspace(), there); });
}
// On CUDA: captures a run, changes the host's tensors, and replays it on what is in them then.
template <class Op> Status replay_after(const Plan<Op>& plan, const Stream& stream, Workspace workspace, const typename Op::Args& args, const std::function<void()>& change) {
  Mirror mirror(stream);
  BARACUDA_TRY_ASSIGN(there, upload<Op>(mirror, args));
  BARACUDA_TRY(mirror.add_workspace(workspace));
  BARACUDA_TRY(capture_and_replay(stream, [&] { return plan.run(stream, mirror.workspace(), there); }, [&] { return change(), mirror.reset(); }));
  return mirror.download();
}
Status run_on(const AnyPlan& plan, const Stream& stream, Workspace workspace, std::span<const ArgValue> args);

}  // namespace baracuda::testing
