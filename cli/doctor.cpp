// baracuda doctor: what this machine and this build have, and whether the basics work.
#include <fmt/format.h>
#include <sys/sysinfo.h>
#include "baracuda/core/registry.hpp"
#include "baracuda/host/amx.hpp"
#include "baracuda/host/isa.hpp"
#include "cli/command.hpp"
#include "cli/on_device.hpp"

namespace baracuda::cli {
namespace {

// One plan end to end, against a value known in advance: silu(1) * 2.
Status self_test(const Stream& stream) {
  float gate = 1, up = 2, y = 0;
  const TensorView views[] = {TensorView::dense(&gate, {1}), TensorView::dense(&up, {1}), TensorView::dense(&y, {1})};
  const ArgValue args[] = {{"gate", {views, 1}, {}}, {"up", {views + 1, 1}, {}}, {"y", {views + 2, 1}, {}}};
  const std::vector<KeyValue> shape{{"shape", "1"}};
  BARACUDA_TRY_ASSIGN(plan, find_op("gated")->select(stream, shape, {}));
  Call call(stream, *plan);
  BARACUDA_TRY(call.take(args));
  BARACUDA_TRY(call.once());
  if (!(y > 1.4621170f && y < 1.4621174f)) return {Code::backend_failure, text("self-test: silu(1) * 2 gave ", y, " on ", to_string(stream.device), ", expected 1.4621172")};
  return {};
}

}  // namespace

std::function<int()> doctor_command(CLI::App&) {
  return [] {
    fmt::print("baracuda        {} ({})\n", version(), build_id());
    struct sysinfo info {};
    sysinfo(&info);
    fmt::print("processor       {} threads, instruction set {}\n", threads(), has_amx() ? "amx" : name(isa()));
    fmt::print("memory          {:.1f} GiB, {:.1f} GiB free\n", double(info.totalram) * info.mem_unit / (1 << 30), double(info.freeram) * info.mem_unit / (1 << 30));
    size_t rows[2] = {0, 0};
    std::string libraries;
    bool seen[int(Backend::count)] = {};
    for (const OpInfo& op : registry())
      for (const RowInfo& r : op.rows()) {
        ++rows[int(r.device)];
        if (r.backend != Backend::baracuda && !std::exchange(seen[int(r.backend)], true)) libraries += text(libraries.empty() ? "" : ", ", name(r.backend));
      }
    fmt::print("ops             {} with {} CPU and {} CUDA kernels\n", registry().size(), rows[0], rows[1]);
    fmt::print("libraries       {}\n", libraries.empty() ? "none" : libraries);
    const auto half = cuda_half();
    const auto stream = Stream::cuda();
    if (stream.ok()) fmt::print("cuda            device 0, sm_{}; built for {}\n", stream->arch, (*half)->architectures);
    else fmt::print("cuda            not available: {}\n", stream.status().message());
    Status s = self_test(Stream::cpu());
    if (s.ok() && stream.ok()) s = self_test(*stream);
    fmt::print("self-test       {}\n", s.ok() ? "passed" : s.message());
    fflush(stdout);
    return s.ok() ? kDone : fail("doctor", s);
  };
}

}  // namespace baracuda::cli
