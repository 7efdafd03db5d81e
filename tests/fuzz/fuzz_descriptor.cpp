// Descriptors of every op from text: set, explained, selected, and run where they are small. Nothing may crash, nothing may
// allocate as much as a descriptor says, and every refusal has a text.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include "problem.hpp"

using namespace baracuda;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

struct Tally { int64_t selected = 0, ran = 0; };
std::map<std::string_view, Tally> tally;
void print_tally() {
  std::fprintf(stderr, "plans selected and run, by op:");
  for (const auto& [op, t] : tally) std::fprintf(stderr, " %.*s %lld/%lld", int(op.size()), op.data(), static_cast<long long>(t.ran), static_cast<long long>(t.selected));
  std::fprintf(stderr, "\n");
}
void require(bool fact, const char* what, const Status& s) {
  if (fact) return;
  std::fprintf(stderr, "%s: %s\n", what, s.to_string().c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  for (const OpInfo& op : registry()) tally[op.name] = {};
  std::atexit(print_tally);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const fuzz::Problem p = fuzz::parse_problem(text);
  if (!p.op) return 0;
  const Stream stream = Stream::cpu();
  set_threads(p.threads);
  const auto explained = p.op->explain(stream, p.settings, p.preference);
  const auto plan = p.op->select(stream, p.settings, p.preference);
  for (const Status& s : {explained.status(), plan.status()})
    require(s.ok() || (!s.message().empty() && (s.code() == Code::invalid_problem || s.code() == Code::unsupported)), "a refusal without a reason", s);
  if (explained.ok()) {
    bool accepts = false;
    for (const RowVerdict& v : explained->rows) accepts = accepts || v.accepted, require(v.accepted || !v.reason.empty(), "a row refuses without a reason", plan.status());
    require(accepts == plan.ok(), "explain and select differ", plan.status());
  }
  if (!plan.ok()) return 0;
  Tally& t = tally[p.op->name];
  ++t.selected;
  uint64_t sum = 0;
  for (const WorkspaceItem& item : (*plan)->workspace_items()) sum += item.bytes;
  require(sum <= (*plan)->workspace_size(), "the items of a workspace exceed it", plan.status());
  t.ran += fuzz::run_plan(**plan, stream, p.seed);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  fuzz::Random random(seed);
  if (random.one_in(4)) return LLVMFuzzerMutate(data, size, max_size);
  const std::string text = fuzz::mutate_problem({reinterpret_cast<const char*>(data), size}, random);
  const size_t n = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), n);
  return n;
}
