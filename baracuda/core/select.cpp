#include "baracuda/core/select.hpp"
#include <mutex>
#include <unordered_map>
#include "baracuda/host/thread_team.hpp"

namespace baracuda::select_detail {
namespace {

// Why the row is not taken, before anything is prepared; "" takes it.
std::string refusal(const OpCalls& op, const Request& r, const void* row, const RowFacts& facts) {
  const PlanPreference& p = r.preference;
  if (!facts.served.has(r.dtype)) return text("no ", name(r.dtype), "; it serves ", to_string(facts.served));
  if (facts.min_arch > r.arch) return text("needs compute capability ", facts.min_arch, ", the device has ", r.arch);
  if (p.require_backend != Backend::count && p.require_backend != facts.backend)
    return text("the preference requires backend ", name(p.require_backend));
  if (!p.require_kernel.empty() && p.require_kernel != facts.name) return text("the preference requires kernel ", p.require_kernel);
  const PrecisionGuarantee g = op.guarantee(row, r.desc);
  if (!g.deterministic && !p.allow_nondeterministic) return "not deterministic, and the preference does not allow that";
  if (!g.batch_invariant && p.require_batch_invariant) return "not batch invariant, and the preference requires that";
  if (g.tf32 && p.math != MathMode::allow_tf32) return "rounds to TF32, and the preference does not allow that";
  return op.refuse(row, r.desc, p);
}

}  // namespace

Request request(const Stream& stream, const void* desc, DType dtype, const PlanPreference& preference) {
  return {desc, dtype, preference, stream.device, stream.arch, stream.device.kind == DeviceKind::cpu ? threads() : 0};
}

Result<Choice> walk(const OpCalls& op, const Stream& stream, const Request& r, std::vector<RowVerdict>& verdicts, bool stop) {
  BARACUDA_TRY(op.validate(r.desc));
  Choice chosen;
  const CudaRows list = op.rows(r.device.kind);
  for (int pass = 0; pass < 2; ++pass)
    for (size_t i = 0; i < list.count; ++i) {
      const void* row = static_cast<const char*>(list.kernels) + i * op.row_bytes;
      const RowFacts facts = op.facts(row);
      const bool preferred = facts.backend == r.preference.prefer_backend;
      if (preferred != (pass == 0)) continue;
      std::string why = refusal(op, r, row, facts);
      Choice choice{row, {}, 0};
      if (why.empty()) {
        Result<PlanState> made = op.prepare(row, stream, r.desc, r.preference);
        if (made.ok()) choice.state = *made;
        else why = made.status().message();
      }
      if (why.empty()) {
        Carver c(r.threads);
        choice.workspace = op.carve(row, r.desc, choice.state.get(), c);
        if (choice.workspace > r.preference.max_workspace)
          why = text("needs ", choice.workspace, " bytes of workspace, the preference allows ", r.preference.max_workspace);
      }
      const bool accepted = why.empty();
      if (accepted && chosen.row) why = text("accepts, but stands behind ", op.facts(chosen.row).name);
      if (accepted && !chosen.row) chosen = std::move(choice);
      verdicts.push_back({facts.name, accepted, std::move(why)});
      if (chosen.row && stop) return chosen;
    }
  if (chosen.row) return chosen;
  std::string reasons;
  for (const RowVerdict& v : verdicts) reasons += text("\n  ", v.kernel, ": ", v.reason);
  return Status(Code::unsupported, text(op.op, ": no ", name(r.device.kind), " kernel accepts ", op.describe(r.desc),
                                        list.count ? "" : "; there is none for this device", reasons));
}

class Cache {
 public:
  explicit Cache(const OpCalls& op) : op_(op), choices_(0, Hash{&op}, Same{&op}) {}
  std::optional<Choice> find(const Request& r) {
    std::lock_guard lock(mutex_);
    const auto it = choices_.find(r);
    return it == choices_.end() ? std::nullopt : std::optional<Choice>(it->second.choice);
  }
  void insert(Request r, const Choice& choice) {
    Kept kept{op_.keep(r.desc), choice};
    r.desc = kept.desc.get();
    std::lock_guard lock(mutex_);
    if (choices_.size() >= kMost) choices_.clear();
    choices_.emplace(r, std::move(kept));
  }
  const OpCalls& op() const { return op_; }

 private:
  static constexpr size_t kMost = 1024;
  struct Hash {
    const OpCalls* op;
    size_t operator()(const Request& r) const {
      size_t h = op->hash(r.desc);
      hash_mix(h, uint64_t(r.device.kind) << 32 | uint32_t(r.device.index));
      hash_mix(h, uint64_t(r.arch) << 32 | uint32_t(r.threads));
      hash_mix(h, r.preference.max_workspace);
      hash_mix(h, uint64_t(r.preference.prefer_backend) << 8 | uint64_t(r.preference.require_backend));
      return h;
    }
  };
  struct Same {
    const OpCalls* op;
    bool operator()(const Request& a, const Request& b) const {
      return op->same(a.desc, b.desc) && a.preference == b.preference && a.device == b.device && a.arch == b.arch && a.threads == b.threads;
    }
  };
  struct Kept { std::shared_ptr<const void> desc; Choice choice; };  // desc: what the key points to

  const OpCalls& op_;
  std::mutex mutex_;
  std::unordered_map<Request, Kept, Hash, Same> choices_;
};

Cache& make_cache(const OpCalls& op) { return *new Cache(op); }

Result<Choice> select(Cache& cache, const Stream& stream, const Request& r) {
  // require_kernel may point to memory that dies, so such choices are not kept.
  const bool kept = r.preference.require_kernel.empty();
  if (kept)
    if (auto choice = cache.find(r)) return *std::move(choice);
  std::vector<RowVerdict> verdicts;
  Result<Choice> choice = walk(cache.op(), stream, r, verdicts, true);
  if (kept && choice.ok()) cache.insert(r, *choice);
  return choice;
}

}  // namespace baracuda::select_detail
