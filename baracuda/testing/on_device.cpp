#include "baracuda/testing/on_device.hpp"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "baracuda/testing/tensor.hpp"

namespace baracuda::testing {
namespace {
constexpr uint64_t kGuard = 512;
constexpr unsigned char kGuardByte = 0xa5;

const CudaHalf& half() {
  const auto h = cuda_half();
  if (!h.ok()) throw std::runtime_error(h.status().message());
  return **h;
}
}  // namespace

Stream test_stream() {
  static const Stream stream = [] {
    const char* device = std::getenv("BARACUDA_TEST_DEVICE");
    if (!device || !*device || !std::strcmp(device, "cpu")) return Stream::cpu();
    if (std::strcmp(device, "cuda")) {
      std::fprintf(stderr, "BARACUDA_TEST_DEVICE is %s; it takes cpu and cuda\n", device);
      std::exit(2);
    }
    auto s = Stream::cuda();
    void* handle = nullptr;
    Status made = s.ok() ? half().make_stream(0, handle) : s.status();
    if (!made.ok()) {
      std::fprintf(stderr, "BARACUDA_TEST_DEVICE=cuda: %s\n", made.to_string().c_str());
      std::exit(2);
    }
    s->handle = handle;
    return *s;
  }();
  return stream;
}
bool capture_wanted() {
  static const bool wanted = [] { const char* c = std::getenv("BARACUDA_TEST_CAPTURE"); return c && *c == '1'; }();
  return wanted;
}

Mirror::Mirror(const Stream& stream) : stream_(stream) {}
Mirror::~Mirror() {
  for (Range& r : ranges_) deallocate(stream_.device, r.device);
  deallocate(stream_.device, workspace_memory_);
}
void Mirror::add(const TensorView& v) {
  if (v.absent() || !v.data) return;
  const Extent e = extent(v);
  const int64_t size = int64_t(byte_size(v.dtype));
  char* data = static_cast<char*>(v.data);
  Range wide = e.high < e.low ? Range{data, data} : Range{data + e.low * size, data + (e.high + 1) * size};
  // What overlaps or touches becomes one range.
  for (size_t i = 0; i < ranges_.size();) {
    if (ranges_[i].low <= wide.high && wide.low <= ranges_[i].high) {
      wide.low = std::min(wide.low, ranges_[i].low), wide.high = std::max(wide.high, ranges_[i].high);
      ranges_.erase(ranges_.begin() + std::ptrdiff_t(i)), i = 0;
    } else ++i;
  }
  ranges_.push_back(wide);
}
// Device memory keeps the host memory's place within 256 bytes, so that alignment is the test's.
static uint64_t lead(const char* low) { return kGuard + uintptr_t(low) % 256; }

Status Mirror::fill(Range& r) {
  const uint64_t bytes = uint64_t(r.high - r.low), before = lead(r.low);
  std::vector<unsigned char> image(before + bytes + kGuard, kGuardByte);
  open_memory(r.low, bytes);  // gaps of the tensor may be closed
  if (bytes) std::memcpy(image.data() + before, r.low, bytes);
  BARACUDA_TRY(half().copy(stream_, r.device, image.data(), image.size()));
  return half().wait(stream_);
}
Status Mirror::upload() {
  for (Range& r : ranges_) {
    const uint64_t all = lead(r.low) + uint64_t(r.high - r.low) + kGuard;
    BARACUDA_TRY_ASSIGN(data, allocate(stream_.device, all));
    r.device = data;
    BARACUDA_TRY(fill(r));
  }
  return {};
}
Status Mirror::reset() {
  BARACUDA_TRY(half().wait(stream_));
  for (Range& r : ranges_) BARACUDA_TRY(fill(r));
  return {};
}
Status Mirror::add_workspace(const Workspace& host) {
  if (!host.data) return {};
  workspace_lead_ = lead(static_cast<const char*>(host.data));
  std::vector<unsigned char> image(workspace_lead_ + host.bytes + kGuard, kGuardByte);
  BARACUDA_TRY_ASSIGN(data, allocate(stream_.device, image.size()));
  workspace_memory_ = data;
  std::memset(image.data() + workspace_lead_, 0xff, host.bytes);
  BARACUDA_TRY(half().copy(stream_, data, image.data(), image.size()));
  workspace_ = {static_cast<char*>(data) + workspace_lead_, host.bytes};
  return half().wait(stream_);
}
TensorView Mirror::on_device(const TensorView& v) const {
  TensorView d = v;
  d.device = stream_.device;
  if (v.absent() || !v.data) return d.absent() ? v : d;
  const char* data = static_cast<const char*>(v.data);
  for (const Range& r : ranges_)
    if (r.low <= data && data <= r.high) d.data = static_cast<char*>(r.device) + lead(r.low) + (data - r.low);
  return d;
}
std::span<const TensorView> Mirror::on_device(std::span<const TensorView> host) {
  auto list = std::make_unique<std::vector<TensorView>>();
  for (const TensorView& v : host) list->push_back(on_device(v));
  lists_.push_back(std::move(list));
  return *lists_.back();
}
Status Mirror::download() {
  BARACUDA_TRY(half().wait(stream_));
  bool intact = true;
  for (const Range& r : ranges_) {
    const uint64_t bytes = uint64_t(r.high - r.low), before = lead(r.low);
    std::vector<unsigned char> image(before + bytes + kGuard);
    BARACUDA_TRY(half().copy(stream_, image.data(), r.device, image.size()));
    BARACUDA_TRY(half().wait(stream_));
    for (size_t i = 0; i < image.size(); ++i)
      intact = intact && ((i >= before && i < before + bytes) || image[i] == kGuardByte);
    if (bytes) std::memcpy(r.low, image.data() + before, bytes);
  }
  if (workspace_memory_) {
    std::vector<unsigned char> image(workspace_lead_ + workspace_.bytes + kGuard);
    BARACUDA_TRY(half().copy(stream_, image.data(), workspace_memory_, image.size()));
    BARACUDA_TRY(half().wait(stream_));
    for (size_t i = 0; i < image.size(); ++i)
      intact = intact && ((i >= workspace_lead_ && i < workspace_lead_ + workspace_.bytes) || image[i] == kGuardByte);
  }
  return intact ? Status() : Status(Code::invalid_problem, "a guard on the device was written");
}

Status capture_and_replay(const Stream& stream, const std::function<Status()>& run, const std::function<Status()>& between) {
  GraphFacts facts;
  void* graph = nullptr;
  auto call = [](void* data) { return (*static_cast<const std::function<Status()>*>(data))(); };
  BARACUDA_TRY(half().capture(stream, call, const_cast<void*>(static_cast<const void*>(&run)), facts, graph));
  Status s;
  if (facts.allocations || facts.others)
    s = Status(Code::invalid_problem, text("a run queued ", facts.allocations, " allocations and ", facts.others, " nodes that are no kernel, copy or fill"));
  if (s.ok() && between) s = between();
  if (s.ok()) s = half().replay(stream, graph);
  if (s.ok()) s = half().wait(stream);
  half().drop_graph(graph);
  return s;
}

Status run_mirrored(Mirror& mirror, const Stream& stream, const Workspace& workspace, const std::function<Status()>& run) {
  BARACUDA_TRY(mirror.add_workspace(workspace));
  Status s = run();
  if (s.ok() && capture_wanted()) {
    BARACUDA_TRY(mirror.reset());
    s = capture_and_replay(stream, run);
  }
  const Status after = mirror.download();  // a refused run writes nothing either
  return s.ok() ? after : s;
}
Status run_on(const AnyPlan& plan, const Stream& stream, Workspace workspace, std::span<const ArgValue> args) {
  if (stream.device.kind == DeviceKind::cpu) return plan.run(stream, workspace, args);
  Mirror mirror(stream);
  for (const ArgValue& a : args) mirror.add(a.tensors);
  BARACUDA_TRY(mirror.upload());
  std::vector<ArgValue> there(args.begin(), args.end());
  for (ArgValue& a : there) a.tensors = mirror.on_device(a.tensors);
  return run_mirrored(mirror, stream, workspace, [&] { return plan.run(stream, mirror.workspace(), there); });
}

}  // namespace baracuda::testing
