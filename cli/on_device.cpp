#include "cli/on_device.hpp"
#include "baracuda/core/text.hpp"
#include "baracuda/core/transfer.hpp"
#include "baracuda/host/thread_team.hpp"

namespace baracuda::cli {

CLI::Option* add_device(CLI::App& app, std::string& device) {
  return app.add_option("--device", device, "cpu, cuda or cuda:N")
      ->check(CLI::Validator([](std::string& word) { return parse_device(word).status().message(); }, ""))
      ->default_str("cpu");
}
Result<Stream> stream_on(std::string_view device) {
  BARACUDA_TRY_ASSIGN(d, parse_device(device));
  if (d.kind == DeviceKind::cpu) return Stream::cpu();
  return Stream::cuda(nullptr, d.index);
}
std::string place(const Stream& stream) {
  if (stream.device.kind == DeviceKind::cuda) return text(to_string(stream.device), " (sm_", stream.arch, ")");
  return text(threads(), threads() == 1 ? " thread" : " threads");
}

Copies::~Copies() {
  for (const Pair& p : pairs_) p.host_is_copy ? deallocate({}, p.host) : deallocate(stream_.device, p.device);
}
Result<TensorView> Copies::of(const TensorView& v) {
  if (stream_.device.kind == DeviceKind::cpu || v.absent()) return v;
  const bool on_host = v.device.kind == DeviceKind::cpu;
  TensorView copy = v;
  copy.device = on_host ? stream_.device : Device{};
  const Extent e = extent(v);
  const int64_t size = int64_t(byte_size(v.dtype));
  const uint64_t bytes = uint64_t((e.high - e.low + 1) * size);
  copy.data = nullptr;
  if (bytes == 0) return copy;
  BARACUDA_TRY_ASSIGN(memory, allocate(copy.device, bytes));
  copy.data = static_cast<char*>(memory) - e.low * size;
  void* whole = v.as<char>() + e.low * size;
  pairs_.push_back(on_host ? Pair{whole, memory, bytes, false} : Pair{memory, whole, bytes, true});
  return copy;
}
Status Copies::to_device() const {
  for (const Pair& p : pairs_) BARACUDA_TRY(baracuda::copy(stream_, p.device, p.host, p.bytes));
  return wait(stream_);
}
Status Copies::to_host() const {
  for (const Pair& p : pairs_) BARACUDA_TRY(baracuda::copy(stream_, p.host, p.device, p.bytes));
  return wait(stream_);
}

Status Call::take(std::span<const ArgValue> args) {
  views_.reserve(args.size());  // the arguments point to the lists
  for (const ArgValue& a : args) {
    std::vector<TensorView>& list = views_.emplace_back();
    for (const TensorView& v : a.tensors) {
      BARACUDA_TRY_ASSIGN(there, copies_.of(v));
      list.push_back(there);
    }
    args_.push_back({a.name, list, a.number});
  }
  BARACUDA_TRY_ASSIGN(workspace, scratch_.get(plan_.workspace_size()));
  workspace_ = workspace;
  return {};
}
Status Call::once() const {
  BARACUDA_TRY(copies_.to_device());
  BARACUDA_TRY(run());
  return copies_.to_host();
}

}  // namespace baracuda::cli
