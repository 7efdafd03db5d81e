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
#include <span>
#include <vector>
#include "baracuda/core/select.hpp"
#include "baracuda/host/thread_team.hpp"

namespace baracuda {

template <class Op> class Plan {
 public:
  using Descriptor = typename Op::Descriptor;
  using Args = typename Op::Args;
  static_assert(fields_complete<Descriptor>(), "Descriptor::fields() must list every member of the descriptor");

  static Result<Plan> select(const Stream& stream, const Descriptor& desc, const PlanPreference& preference = {}) {
    static select_detail::Cache& cache = select_detail::make_cache(kCalls);
    const select_detail::Request r = select_detail::request(stream, &desc, desc.dtype, preference);
    Result<select_detail::Choice> choice = select_detail::select(cache, stream, r);
    if (!choice.ok()) return choice.status();
    return Plan(r, *std::move(choice));
  }
  // What select would do, row by row: the same walk without the cache, every row asked.
  static Result<std::vector<RowVerdict>> explain(const Stream& stream, const Descriptor& desc, const PlanPreference& preference = {}) {
    BARACUDA_TRY(Op::validate(desc));
    std::vector<RowVerdict> verdicts;
    (void)select_detail::walk(kCalls, stream, select_detail::request(stream, &desc, desc.dtype, preference), verdicts, false);
    return verdicts;
  }
  static std::span<const Kernel<Op>> rows(DeviceKind device) {
    const CudaRows r = select_detail::rows_on<Op>(device);
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
    if (stream.device != device_) return wrong_stream(Op::name, device_, stream.device);
    BARACUDA_TRY(can_implement(args));
    BARACUDA_TRY(check_workspace(Op::name, kernel_->name, workspace, workspace_));
    return launch_({stream, workspace, desc_, args, threads_, state_.get()});
  }

 private:
  static constexpr select_detail::OpCalls kCalls = select_detail::op_calls<Op>();

  Plan(const select_detail::Request& r, select_detail::Choice&& c)
      : desc_(*static_cast<const Descriptor*>(r.desc)), kernel_(static_cast<const Kernel<Op>*>(c.row)), launch_(kernel_->launch[r.dtype]),
        state_(std::move(c.state)), workspace_(c.workspace), device_(r.device), arch_(r.arch), threads_(r.threads) {}

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
