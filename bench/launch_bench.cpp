// launch_bench 'OP FIELD=VALUE... [+ARGUMENT...]'...: what a run costs the host on a GPU, and what all of the runs in one graph cost the device.
// Each word is a plan with its required arguments and the optional ones that are named, over memory of zeros. Prints one line of JSON:
// the start (the half and the device), and of each plan its select, its first run (which loads kernels), a run as callers by name have it
// (AnyPlan), its checks alone, what it queues, and as many bare launches, fills and copies of the CUDA runtime; over batches short
// enough that the queue never fills. Then all plans, one after the other: launched one by one, and replayed from a graph.
// tools/gpu_launch_bench.py runs it beside torch.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include "baracuda/core/registry.hpp"
#include "baracuda/core/transfer.hpp"
#include "baracuda/host/timing.hpp"
#include "bench/bare_launch.hpp"

namespace baracuda::bench {
namespace {

void must(const Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "launch_bench: %s\n", s.to_string().c_str());
  std::exit(1);
}
void must(int error) {
  if (!error) return;
  std::fprintf(stderr, "launch_bench: CUDA error %d\n", error);
  std::exit(1);
}
template <class T> T must(Result<T> r) { return must(r.status()), *std::move(r); }

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const size_t space = std::min(line.find(' '), line.size());
    if (space) words.push_back(line.substr(0, space));
    line.remove_prefix(std::min(space + 1, line.size()));
  }
  return words;
}
void* zeros(const Stream& stream, uint64_t bytes) {
  void* const data = must(allocate(stream.device, bytes));
  const std::vector<char> host(bytes);
  must(copy(stream, data, host.data(), bytes));
  must(wait(stream));
  return data;
}

struct Case {
  std::shared_ptr<const AnyPlan> plan;
  std::vector<std::unique_ptr<std::vector<TensorView>>> views;
  std::vector<ArgValue> args;
  Workspace workspace;
  double select_us = 0, first_us = 0;
  void run(const Stream& stream) const { must(plan->run(stream, workspace, args)); }
};
Case make(const Stream& stream, std::string_view line) {
  const auto words = words_of(line);
  std::vector<KeyValue> settings;
  std::vector<std::string_view> more;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t at = words[i].find('=');
    if (at == words[i].npos) more.push_back(words[i].substr(1));
    else settings.push_back({words[i].substr(0, at), words[i].substr(at + 1)});
  }
  const OpInfo* const op = words.empty() ? nullptr : find_op(words[0]);
  if (!op) must(Status(Code::invalid_problem, no_op(words.empty() ? line : words[0])));
  Case c;
  c.select_us = 1e6 * seconds([&] { c.plan = must(op->select(stream, settings, {})); });
  for (const Argument& a : must(c.plan->arguments())) {
    const bool named = std::find(more.begin(), more.end(), a.info.name) != more.end();
    if (!a.tensor() || (a.presence != Argument::Presence::required && !named)) continue;
    if (!a.dtype || !a.shape) must(Status(Code::invalid_problem, text(words[0], ": the shape of ", a.info.name, " is open")));
    c.views.push_back(std::make_unique<std::vector<TensorView>>());
    for (size_t k = 0; k < a.count; ++k) {
      c.views.back()->push_back(TensorView::dense(zeros(stream, uint64_t(a.shape->numel()) * byte_size(*a.dtype)), *a.dtype, *a.shape));
      c.views.back()->back().device = stream.device;
    }
    c.args.push_back({a.info.name, *c.views.back(), {}});
  }
  c.workspace = {zeros(stream, std::max<uint64_t>(1, c.plan->workspace_size())), c.plan->workspace_size()};
  c.first_us = 1e6 * seconds([&] { c.run(stream), must(wait(stream)); });
  return c;
}

// Nanoseconds of one f() on the host, of the fastest tenth of the batches: what else the machine does only adds.
double host_ns(const Stream& stream, const std::function<void()>& f, int batch = 32, int rounds = 101) {
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) f();
  for (int r = 0; r < rounds; ++r) {
    must(wait(stream));
    times.push_back(seconds([&] { for (int i = 0; i < batch; ++i) f(); }) / batch * 1e9);
  }
  must(wait(stream));
  return quantile(times, 0.1);
}
GraphFacts captured(const Stream& stream, const std::function<void()>& f, void*& graph) {
  GraphFacts facts;
  const auto call = [](void* data) { return (*static_cast<const std::function<void()>*>(data))(), Status(); };
  must((*cuda_half())->capture(stream, call, const_cast<void*>(static_cast<const void*>(&f)), facts, graph));
  return facts;
}

int main(std::span<char*> lines) {
  Stream stream;
  const double load_ms = 1e3 * seconds([] { must(cuda_half().status()); }), open_ms = 1e3 * seconds([&] { stream = must(Stream::cuda()); });
  const CudaHalf& half = **cuda_half();
  must(half.make_stream(0, stream.handle));
  void *const to = zeros(stream, 4), *const from = zeros(stream, 4);
  std::vector<Case> cases;
  for (const char* line : lines) cases.push_back(make(stream, line));
  std::map<std::string, double> bare;
  const auto measure = [&](const char* name, const std::function<int()>& f) { bare[name] = host_ns(stream, [&] { must(f()); }); };
  measure("kernel", [&] { return bare_kernel(stream.handle); });
  measure("kernel_of_struct", [&] { return bare_kernel_of_struct(stream.handle); });
  if (stream.arch >= 90) measure("cluster", [&] { return bare_cluster(stream.handle); });
  measure("fill", [&] { return bare_fill(stream.handle, to); });
  measure("copy", [&] { return bare_copy(stream.handle, to, from); });
  measure("get_device", get_device);
  measure("set_shared_bytes", set_shared_bytes);
  std::printf("{\"load_ms\": %.2f, \"open_ms\": %.2f, \"bare\": {", load_ms, open_ms);
  const char* comma = "";
  for (const auto& [name, ns] : bare) std::printf("%s\"%s\": %.0f", comma, name.c_str(), ns), comma = ", ";
  std::printf("}, \"cases\": [");
  comma = "";
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const double run = host_ns(stream, [&] { c.run(stream); }), checks = host_ns(stream, [&] { must(c.plan->can_implement(c.args)); });
    void* graph = nullptr;
    const GraphFacts facts = captured(stream, [&] { c.run(stream); }, graph);
    half.drop_graph(graph);
    const double least = facts.kernels * bare["kernel"] + facts.fills * bare["fill"] + facts.copies * bare["copy"];
    std::printf("%s{\"case\": \"%s\", \"kernel\": \"%s\", \"select_us\": %.0f, \"first_us\": %.0f, \"run_ns\": %.0f, \"checks_ns\": %.0f, \"bare_ns\": %.0f, \"kernels\": %d, \"fills\": %d, \"copies\": %d}", comma, lines[i],
                std::string(c.plan->sku().kernel).c_str(), c.select_us, c.first_us, run, checks, least, facts.kernels, facts.fills, facts.copies), comma = ", ";
  }
  const auto all = [&] { for (const Case& c : cases) c.run(stream); };
  const double eager = host_ns(stream, all, 1);
  void* graph = nullptr;
  const GraphFacts facts = captured(stream, all, graph);
  std::vector<double> replays;
  constexpr int kReplays = 20;
  for (int r = 0; r < 15; ++r) {
    must(wait(stream));
    replays.push_back(seconds([&] {
      for (int i = 0; i < kReplays; ++i) must(half.replay(stream, graph));
      must(wait(stream));
    }) / kReplays * 1e6);
  }
  half.drop_graph(graph);
  std::printf("], \"all\": {\"plans\": %zu, \"host_us\": %.1f, \"replay_us\": %.1f, \"kernels\": %d, \"fills\": %d, \"copies\": %d}}\n", cases.size(), eager / 1e3, median(replays),
              facts.kernels, facts.fills, facts.copies);
  return 0;
}

}  // namespace
}  // namespace baracuda::bench

int main(int argc, char** argv) { return baracuda::bench::main({argv + 1, size_t(argc - 1)}); }
