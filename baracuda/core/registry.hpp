#pragma once
// The list of ops, as data: what `baracuda ops`, `baracuda explain`, the generated tables and the bindings read. It is
// made from the ops themselves (fields, arguments, kernel rows), never written by hand.
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>
#include "baracuda/core/plan.hpp"

namespace baracuda {

struct FieldInfo {
  std::string_view name, type, help;
  std::string default_value;
  std::vector<std::string_view> values;  // of an enum; of a `kind` those that a kernel of the CPU takes with some dtype
  bool optional;                         // "none" is a value
};
struct ArgInfo {
  std::string_view name;
  Role role;
  std::string_view help, type;  // type: tensor, tensors, int or float
  std::string default_value;    // of a number
};
struct RowInfo {
  std::string_view name;
  DeviceKind device;
  Backend backend;
  int min_arch;
  DTypeSet dtypes;
  PrecisionGuarantee guarantee;  // for the op's default descriptor with dtype f32, or the row's first where it lacks f32
};
struct KeyValue { std::string_view key, value; };
struct Explanation {
  std::string descriptor;          // every field, defaults included
  std::vector<RowVerdict> rows;    // in list order
  // Of the chosen row; empty when all refused.
  std::string sku, guarantee;
  uint64_t workspace_bytes = 0;
  std::vector<WorkspaceItem> workspace;
};
// An argument by name, for callers that know an op only at run time: a tensor, the tensors of a multi-tensor argument, or a
// number. Absent optional arguments are left out.
struct ArgValue {
  std::string_view name;
  std::span<const TensorView> tensors = {};
  std::variant<std::monostate, int64_t, uint64_t, double> number = {};
};
// What one plan takes for an argument.
struct Argument {
  ArgInfo info;
  // required: it must be given. unused: it must not be given, or is not looked at. optional: it may be, perhaps only
  // along with other optional ones. Under this plan's descriptor, so an optional argument of the op may be any of the three.
  enum class Presence : uint8_t { required, optional, unused } presence = Presence::unused;
  // Nothing where the descriptor leaves it open (the tensors of an optimiser's list); the preferred one where there is a
  // choice (positions may be i32 or i64).
  std::optional<DType> dtype;
  std::optional<Shape> shape;
  // Tensors of a list that the plan asks for, each as dtype and shape say; 1 where it takes any number.
  size_t count = 1;
  bool tensor() const { return info.role != Role::value; }
};
constexpr std::string_view name(Argument::Presence p) {
  constexpr std::string_view names[] = {"required", "optional", "unused"};
  return names[int(p)];
}
// A plan of any op.
class AnyPlan {
 public:
  virtual ~AnyPlan() = default;
  virtual Device device() const = 0;
  virtual std::vector<ArgInfo> args() const = 0;
  // Every argument, in order, as can_implement() takes it: found out by asking can_implement(), with no memory behind it.
  Result<std::vector<Argument>> arguments() const;
  virtual std::string descriptor() const = 0;
  virtual KernelSku sku() const = 0;
  virtual double flops() const = 0;  // additions and multiplications of one run; 0 where the op does not tell
  virtual uint64_t workspace_size() const = 0;
  virtual std::vector<WorkspaceItem> workspace_items() const = 0;
  virtual Status can_implement(std::span<const ArgValue> args) const = 0;
  virtual Status run(const Stream& stream, Workspace workspace, std::span<const ArgValue> args) const = 0;
};

namespace registry_detail {

Status set_number(std::string_view op, std::string_view arg, const ArgValue& v, int64_t& to);
Status set_number(std::string_view op, std::string_view arg, const ArgValue& v, uint64_t& to);
Status set_number(std::string_view op, std::string_view arg, const ArgValue& v, double& to);
Status set_tensor(std::string_view op, std::string_view arg, const ArgValue& v, TensorView& to);
Status no_such_arg(std::string_view op, std::string_view given, std::span<const std::string_view> names);
Result<Explanation> explanation(std::string descriptor, std::vector<RowVerdict> rows, const Result<std::shared_ptr<const AnyPlan>>& chosen);

template <class T> Status set_arg(std::string_view op, std::string_view arg, const ArgValue& v, T& to) {
  if constexpr (std::is_same_v<T, TensorView>) return set_tensor(op, arg, v, to);
  else if constexpr (std::is_arithmetic_v<T>) return set_number(op, arg, v, to);
  else return to = v.tensors, Status();
}
template <class Args> Status set_args(std::string_view op, std::span<const ArgValue> values, Args& args) {
  return std::apply([&](const auto&... f) {
    Status status;
    for (const ArgValue& v : values) {
      const bool found = ((f.name == v.name && (status = set_arg(op, f.name, v, args.*f.member), true)) || ...);
      if (!found) return no_such_arg(op, v.name, std::array{f.name...});
      if (!status.ok()) return status;
    }
    return status;
  }, Args::args());
}
template <class Args> std::vector<ArgInfo> arg_infos() {
  std::vector<ArgInfo> list;
  const Args defaults{};
  auto add = [&]<class T>(const ArgField<Args, T>& f) {
    ArgInfo info{f.name, f.role, f.help, {}, {}};
    if constexpr (std::is_same_v<T, TensorView>) info.type = "tensor";
    else if constexpr (std::is_arithmetic_v<T>) info.type = std::is_integral_v<T> ? "int" : "float", info.default_value = field_text(defaults.*f.member);
    else info.type = "tensors";
    list.push_back(std::move(info));
  };
  std::apply([&](const auto&... f) { (add(f), ...); }, Args::args());
  return list;
}
template <class Op> class AnyPlanOf final : public AnyPlan {
 public:
  explicit AnyPlanOf(Plan<Op> plan) : plan_(std::move(plan)) {}
  Device device() const override { return plan_.device(); }
  std::vector<ArgInfo> args() const override { return arg_infos<typename Op::Args>(); }
  std::string descriptor() const override { return describe(plan_.descriptor()); }
  KernelSku sku() const override { return plan_.sku(); }
  double flops() const override {
    if constexpr (requires { Op::flops(plan_.descriptor()); }) return Op::flops(plan_.descriptor());
    else return 0;
  }
  uint64_t workspace_size() const override { return plan_.workspace_size(); }
  std::vector<WorkspaceItem> workspace_items() const override { return plan_.workspace_items(); }
  Status can_implement(std::span<const ArgValue> values) const override {
    typename Op::Args args{};
    BARACUDA_TRY(set_args(Op::name, values, args));
    return plan_.can_implement(args);
  }
  Status run(const Stream& stream, Workspace workspace, std::span<const ArgValue> values) const override {
    typename Op::Args args{};
    BARACUDA_TRY(set_args(Op::name, values, args));
    return plan_.run(stream, workspace, args);
  }

 private:
  Plan<Op> plan_;
};
// Whether a kernel of the CPU takes this descriptor with some dtype.
template <class Op> bool offered(typename Op::Descriptor d) {
  for (const Kernel<Op>& row : Op::kernels())
    for (size_t t = 0; t < kDTypes; ++t)
      if (d.dtype = DType(t); row.launch.entry[t] && (!row.refuse || row.refuse(d, {}).empty())) return true;
  return false;
}
template <class D> std::vector<FieldInfo> field_infos(bool (*offered)(D)) {
  std::vector<FieldInfo> list;
  const D defaults{};
  for_each_field<D>([&]<class T>(const Field<D, T>& f) {
    FieldInfo info{f.name, field_type<T>(), f.help, field_text(defaults.*f.member), {}, false};
    const auto add_values = [&]<class E>(E) {
      for (size_t i = 0; i < enum_names(E{}).size(); ++i) {
        D d{};
        d.*f.member = E(i);
        if (f.name != "kind" || offered(d)) info.values.push_back(enum_name(E(i)));
      }
    };
    if constexpr (NamedEnum<T>) add_values(T{});
    if constexpr (requires { typename T::value_type; requires std::is_same_v<T, std::optional<typename T::value_type>>; }) {
      info.optional = true;
      if constexpr (NamedEnum<typename T::value_type>) add_values(typename T::value_type{});
    }
    list.push_back(std::move(info));
  });
  return list;
}
template <class D> Status set_fields(std::string_view op, std::span<const KeyValue> settings, D& d) {
  for (const KeyValue& s : settings)
    if (Status status = set_field(d, s.key, s.value); !status.ok()) return invalid(op, status.message());
  return {};
}
template <class Op> Result<std::shared_ptr<const AnyPlan>> select_any(const Stream& stream, const typename Op::Descriptor& d, const PlanPreference& preference) {
  BARACUDA_TRY_ASSIGN(plan, Plan<Op>::select(stream, d, preference));
  return std::shared_ptr<const AnyPlan>(static_cast<const AnyPlan*>(new AnyPlanOf<Op>(plan)));
}

}  // namespace registry_detail

struct OpInfo {
  std::string_view name, category, summary;
  std::vector<FieldInfo> (*fields)();
  std::vector<ArgInfo> (*args)();
  std::vector<RowInfo> (*rows)();
  Result<Explanation> (*explain)(const Stream&, std::span<const KeyValue>, const PlanPreference&);
  Result<std::shared_ptr<const AnyPlan>> (*select)(const Stream&, std::span<const KeyValue>, const PlanPreference&);
};

// prefer_backend, require_backend, require_kernel (whose text must outlive select), allow_nondeterministic,
// require_batch_invariant, allow_tf32, max_workspace.
Status set_preference(PlanPreference& p, std::string_view key, std::string_view value);

// Every op, by category and name as listed in ops/registry.cpp.
std::span<const OpInfo> registry();
const OpInfo* find_op(std::string_view name);
// The first op, gradients last, that has a `kind` of that name; null for none.
const OpInfo* op_of_kind(std::string_view kind);
// "no op 'NAME'", and the op whose kind it is, or that was probably meant.
std::string no_op(std::string_view name);

// The fields that follow from the tensors given, by name, whatever the op: `dtype` is that of x, else of the first tensor of
// floats, else of the first, but none whose dtype another field tells; `shape` is that of x, else of the first; a list of integers with the name of an argument is
// its shape; NAME_dtype is the dtype of the argument NAME (of indices, target and grads for index_, target_ and grad_dtype).
std::vector<std::pair<std::string_view, std::string>> infer_fields(const OpInfo& op, std::span<const ArgValue> tensors);

template <class Op> constexpr OpInfo op_info() {
  using D = typename Op::Descriptor;
  return {Op::name, Op::category, Op::summary,
          [] {
            static const std::vector<FieldInfo> list = registry_detail::field_infos<D>(registry_detail::offered<Op>);
            return list;
          },
          registry_detail::arg_infos<typename Op::Args>,
          [] {
            std::vector<RowInfo> list;
            for (DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda})
              for (const Kernel<Op>& k : Plan<Op>::rows(device)) {
                D d{};
                for (size_t t = kDTypes; t-- > 0;)
                  if (k.launch.entry[t]) d.dtype = DType(t);
                if (k.launch[DType::f32]) d.dtype = DType::f32;
                list.push_back({k.name, k.device, k.backend, k.min_arch, served(k), k.guarantee(d)});
              }
            return list;
          },
          [](const Stream& stream, std::span<const KeyValue> settings, const PlanPreference& preference) -> Result<Explanation> {
            D d{};
            BARACUDA_TRY(registry_detail::set_fields(Op::name, settings, d));
            BARACUDA_TRY_ASSIGN(rows, Plan<Op>::explain(stream, d, preference));
            return registry_detail::explanation(describe(d), std::move(rows), registry_detail::select_any<Op>(stream, d, preference));
          },
          [](const Stream& stream, std::span<const KeyValue> settings, const PlanPreference& preference) -> Result<std::shared_ptr<const AnyPlan>> {
            D d{};
            BARACUDA_TRY(registry_detail::set_fields(Op::name, settings, d));
            return registry_detail::select_any<Op>(stream, d, preference);
          }};
}

}  // namespace baracuda
