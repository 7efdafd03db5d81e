#pragma once
// Plan<Op>: the one plan class of the library.
//
//   auto plan = RmsNormPlan::select(Stream::cpu(), {.dtype = DType::f32, .shape = {4, 512}});   // Result<RmsNormPlan>
//   Status s = plan->run(stream, workspace, {.x = x, .weight = w, .y = y});
//
// select validates the descriptor, takes the first row of the op's list that accepts, and prepares it. run checks the
// arguments and launches: it never allocates and, on CUDA, never waits. Plans are immutable values: copy them, and run
// one from many threads and streams at once, each run with its own workspace.
//
// An op is a struct with
//   name, category, summary            std::string_view
//   Descriptor, Args                   aggregates with fields() / args()
//   validate(Descriptor) -> Status     everything that can be known before there is data
//   check(Descriptor, Args) -> Status  shapes and dtypes of the arguments; presence, device and alignment come before, that
//                                      nothing written overlaps anything after
//   kernels() -> span<const Kernel<Op>>    CPU rows, best first; the CUDA half brings its own list
// and optionally aux_dtype, layout, epilogue of a Descriptor, for the sku, flops, for benchmarks, and
//   in_place(Descriptor, out, in) -> bool    whether the argument `out` may be the argument `in`; without it nothing is in place
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>
#include "baracuda/core/cuda_half.hpp"
#include "baracuda/core/kernel.hpp"
#include "baracuda/host/thread_team.hpp"

namespace baracuda {

template <class Op> class Plan {
 public:
  using Descriptor = typename Op::Descriptor;
  using Args = typename Op::Args;
  static_assert(fields_complete<Descriptor>(), "Descriptor::fields() must list every member of the descriptor");

  static Result<Plan> select(const Stream& stream, const Descriptor& desc, const PlanPreference& preference = {}) {
    const Key key{desc, preference, stream.device, stream.arch, stream.device.kind == DeviceKind::cpu ? baracuda::threads() : 0};
    if (auto cached = Cache::instance().find(key)) return *cached;
    std::vector<RowVerdict> verdicts;
    Result<Plan> plan = walk(stream, key, &verdicts, true);
    if (plan.ok()) Cache::instance().insert(key, *plan);
    return plan;
  }
  // What select would do, row by row: the same walk without the cache, every row asked.
  static Result<std::vector<RowVerdict>> explain(const Stream& stream, const Descriptor& desc, const PlanPreference& preference = {}) {
    const Key key{desc, preference, stream.device, stream.arch, stream.device.kind == DeviceKind::cpu ? baracuda::threads() : 0};
    BARACUDA_TRY(Op::validate(desc));
    std::vector<RowVerdict> verdicts;
    (void)walk(stream, key, &verdicts, false);
    return verdicts;
  }
  static std::span<const Kernel<Op>> rows(DeviceKind device) {
    if (device == DeviceKind::cpu) return Op::kernels();
    const CudaRows r = cuda_rows(Op::name);
    return {static_cast<const Kernel<Op>*>(r.kernels), r.count};
  }

  const Descriptor& descriptor() const { return desc_; }
  std::string_view kernel_name() const { return kernel_->name; }
  Backend backend() const { return kernel_->backend; }
  Device device() const { return device_; }
  PrecisionGuarantee precision_guarantee() const { return kernel_->guarantee(desc_); }
  uint64_t workspace_size() const { return workspace_; }
  std::vector<WorkspaceItem> workspace_items() const {
    std::vector<WorkspaceItem> items;
    Carver c(threads_, &items);
    if (kernel_->carve) kernel_->carve(desc_, state_.get(), c);
    return items;
  }
  KernelSku sku() const {
    KernelSku s{Op::category, Op::name, kernel_->name, desc_.dtype, desc_.dtype};
    if constexpr (requires { Op::aux_dtype(desc_); }) s.aux_dtype = Op::aux_dtype(desc_);
    if constexpr (requires { Op::layout(desc_); }) s.layout = Op::layout(desc_);
    if constexpr (requires { Op::epilogue(desc_); }) s.epilogue = Op::epilogue(desc_);
    s.backend = kernel_->backend, s.device = device_.kind, s.arch = arch_, s.guarantee = precision_guarantee();
    return s;
  }
  // What the row prepared, for queries of the op (for example the chunk that a loss chose).
  const void* state() const { return state_.get(); }

  // Whether run would accept these arguments; workspace apart.
  Status can_implement(const Args& args) const {
    Status s;
    std::apply([&](const auto&... each) { (void)((s = check_one(each, args), s.ok()) && ...); }, Args::args());
    if (!s.ok()) return s;
    BARACUDA_TRY(Op::check(desc_, args));
    if (kernel_->check) BARACUDA_TRY(kernel_->check(desc_, args));
    return check_apart(args);
  }
  Status run(const Stream& stream, Workspace workspace, const Args& args) const {
    if (stream.device != device_)
      return invalid(Op::name, text("the plan is for ", to_string(device_), ", the stream is on ", to_string(stream.device)));
    BARACUDA_TRY(can_implement(args));
    BARACUDA_TRY(check_workspace(Op::name, kernel_->name, workspace, workspace_));
    return launch_({stream, workspace, desc_, args, threads_, state_.get()});
  }

 private:
  struct Key {
    Descriptor desc;
    PlanPreference preference;
    Device device;
    int arch, threads;
    friend bool operator==(const Key& a, const Key& b) {
      return same_fields(a.desc, b.desc) && a.preference == b.preference && a.device == b.device && a.arch == b.arch && a.threads == b.threads;
    }
  };
  struct KeyHash {
    size_t operator()(const Key& k) const {
      size_t h = hash_fields(k.desc);
      hash_mix(h, uint64_t(k.device.kind) << 32 | uint32_t(k.device.index));
      hash_mix(h, uint64_t(k.arch) << 32 | uint32_t(k.threads));
      hash_mix(h, k.preference.max_workspace);
      hash_mix(h, uint64_t(k.preference.prefer_backend) << 8 | uint64_t(k.preference.require_backend));
      hash_mix(h, std::hash<std::string_view>{}(k.preference.require_kernel));
      return h;
    }
  };
  // Bounded: a process that sees ever new shapes starts over instead of growing. require_kernel may point to memory
  // that dies, so such plans are not kept.
  class Cache {
   public:
    static Cache& instance() { static Cache* cache = new Cache; return *cache; }  // outlives static destructors
    std::optional<Plan> find(const Key& k) {
      if (!k.preference.require_kernel.empty()) return {};
      std::lock_guard lock(mutex_);
      auto it = plans_.find(k);
      return it == plans_.end() ? std::nullopt : std::optional<Plan>(it->second);
    }
    void insert(const Key& k, const Plan& p) {
      if (!k.preference.require_kernel.empty()) return;
      std::lock_guard lock(mutex_);
      if (plans_.size() >= kMost) plans_.clear();
      plans_.emplace(k, p);
    }
   private:
    static constexpr size_t kMost = 1024;
    std::mutex mutex_;
    std::unordered_map<Key, Plan, KeyHash> plans_;
  };

  Plan(const Key& k, const Kernel<Op>* kernel, PlanState state, uint64_t workspace)
      : desc_(k.desc), kernel_(kernel), launch_(kernel->launch[k.desc.dtype]), state_(std::move(state)), workspace_(workspace),
        device_(k.device), arch_(k.arch), threads_(k.threads) {}

  static std::string refusal(const Key& k, const Kernel<Op>& row) {
    const PlanPreference& p = k.preference;
    if (!row.launch[k.desc.dtype]) return text("no ", name(k.desc.dtype), "; it serves ", to_string(served(row)));
    if (row.min_arch > k.arch) return text("needs compute capability ", row.min_arch, ", the device has ", k.arch);
    if (p.require_backend != Backend::count && p.require_backend != row.backend)
      return text("the preference requires backend ", name(p.require_backend));
    if (!p.require_kernel.empty() && p.require_kernel != row.name) return text("the preference requires kernel ", p.require_kernel);
    const PrecisionGuarantee g = row.guarantee(k.desc);
    if (!g.deterministic && !p.allow_nondeterministic) return "not deterministic, and the preference does not allow that";
    if (!g.batch_invariant && p.require_batch_invariant) return "not batch invariant, and the preference requires that";
    if (g.tf32 && p.math != MathMode::allow_tf32) return "rounds to TF32, and the preference does not allow that";
    return row.refuse ? row.refuse(k.desc, p) : std::string();
  }
  static Result<Plan> walk(const Stream& stream, const Key& k, std::vector<RowVerdict>* verdicts, bool stop_at_first) {
    BARACUDA_TRY(Op::validate(k.desc));
    std::optional<Plan> chosen;
    const auto list = rows(stream.device.kind);
    for (int pass = 0; pass < 2; ++pass)
      for (const Kernel<Op>& row : list) {
        const bool preferred = row.backend == k.preference.prefer_backend;
        if (preferred != (pass == 0)) continue;
        std::string why = refusal(k, row);
        PlanState state;
        if (why.empty() && row.prepare) {
          Result<PlanState> made = row.prepare(stream, k.desc, k.preference);
          if (made.ok()) state = *made;
          else why = made.status().message();
        }
        uint64_t bytes = 0;
        if (why.empty() && row.carve) {
          Carver c(k.threads);
          row.carve(k.desc, state.get(), c);
          bytes = c.size();
          if (bytes > k.preference.max_workspace)
            why = text("needs ", bytes, " bytes of workspace, the preference allows ", k.preference.max_workspace);
        }
        const bool accepted = why.empty();
        if (accepted && chosen) why = text("accepts, but stands behind ", chosen->kernel_->name);
        if (accepted && !chosen) chosen = Plan(k, &row, std::move(state), bytes);
        verdicts->push_back({row.name, accepted, std::move(why)});
        if (chosen && stop_at_first) return *std::move(chosen);
      }
    if (chosen) return *std::move(chosen);
    std::string reasons;
    for (const RowVerdict& v : *verdicts) reasons += text("\n  ", v.kernel, ": ", v.reason);
    return Status(Code::unsupported, text(Op::name, ": no ", name(stream.device.kind), " kernel accepts ", describe(k.desc),
                                          list.empty() ? "; there is none for this device" : "", reasons));
  }
  template <class T> Status check_one(const ArgField<Args, T>& f, const Args& args) const {
    if constexpr (std::is_same_v<T, TensorView>) return check_argument(Op::name, f.name, args.*f.member, f.role, device_);
    else return {};
  }
  Status check_apart(const Args& args) const {
    ArgTensors all[std::tuple_size_v<decltype(Args::args())>];
    size_t n = 0;
    const auto add = [&]<class T>(const ArgField<Args, T>& f) {
      const T& arg = args.*f.member;
      if constexpr (std::is_same_v<T, TensorView>) { if (!arg.absent()) all[n++] = {f.name, &arg, 1, written(f.role), false}; }
      else if constexpr (!std::is_arithmetic_v<T>) all[n++] = {f.name, arg.data(), arg.size(), written(f.role), true};
    };
    std::apply([&](const auto&... each) { (add(each), ...); }, Args::args());
    InPlace in_place = nullptr;
    if constexpr (requires(std::string_view name) { Op::in_place(desc_, name, name); })
      in_place = [](const void* d, std::string_view out, std::string_view in) { return Op::in_place(*static_cast<const Descriptor*>(d), out, in); };
    return baracuda::check_apart(Op::name, {all, n}, in_place, &desc_);
  }

  Descriptor desc_;
  const Kernel<Op>* kernel_;
  Launcher<Op> launch_;
  PlanState state_;
  uint64_t workspace_;
  Device device_;
  int arch_, threads_;
};

}  // namespace baracuda
