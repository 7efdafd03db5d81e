#pragma once
// The list of ops, as data: what `baracuda ops`, `baracuda explain`, the generated tables and the bindings read. It is
// made from the ops themselves (fields, arguments, kernel rows), never written by hand.
#include <span>
#include <string>
#include <vector>
#include "baracuda/core/plan.hpp"

namespace baracuda {

struct FieldInfo { std::string_view name, type, help; std::string default_value; std::vector<std::string_view> values; };
struct ArgInfo { std::string_view name; Role role; std::string_view help; };
struct RowInfo {
  std::string_view name;
  DeviceKind device;
  Backend backend;
  int min_arch;
  DTypeSet dtypes;
  PrecisionGuarantee guarantee;  // for the op's default descriptor with the row's first dtype
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
struct OpInfo {
  std::string_view name, category, summary;
  std::vector<FieldInfo> (*fields)();
  std::vector<ArgInfo> (*args)();
  std::vector<RowInfo> (*rows)();
  Result<Explanation> (*explain)(const Stream&, std::span<const KeyValue>, const PlanPreference&);
};

// Every op, by category and name as listed in ops/registry.cpp.
std::span<const OpInfo> registry();
const OpInfo* find_op(std::string_view name);

template <class Op> constexpr OpInfo op_info() {
  using D = typename Op::Descriptor;
  return {Op::name, Op::category, Op::summary,
          [] {
            std::vector<FieldInfo> list;
            const D defaults{};
            for_each_field<D>([&]<class T>(const Field<D, T>& f) {
              FieldInfo info{f.name, field_type<T>(), f.help, field_text(defaults.*f.member), {}};
              if constexpr (NamedEnum<T>) for (auto n : enum_names(T{})) info.values.push_back(n);
              list.push_back(std::move(info));
            });
            return list;
          },
          [] {
            std::vector<ArgInfo> list;
            std::apply([&](const auto&... f) { (list.push_back({f.name, f.role, f.help}), ...); }, Op::Args::args());
            return list;
          },
          [] {
            std::vector<RowInfo> list;
            for (DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda})
              for (const Kernel<Op>& k : Plan<Op>::rows(device)) {
                D d{};
                for (size_t t = kDTypes; t-- > 0;)
                  if (k.launch.entry[t]) d.dtype = DType(t);
                list.push_back({k.name, k.device, k.backend, k.min_arch, served(k), k.guarantee(d)});
              }
            return list;
          },
          [](const Stream& stream, std::span<const KeyValue> settings, const PlanPreference& preference) -> Result<Explanation> {
            D d{};
            for (const KeyValue& s : settings) {
              if (Status status = set_field(d, s.key, s.value); !status.ok()) return invalid(Op::name, status.message());
            }
            BARACUDA_TRY_ASSIGN(rows, Plan<Op>::explain(stream, d, preference));
            Explanation e{describe(d), rows, {}, {}, 0, {}};
            if (auto plan = Plan<Op>::select(stream, d, preference); plan.ok()) {
              e.sku = to_string(plan->sku());
              e.guarantee = to_string(plan->precision_guarantee());
              e.workspace_bytes = plan->workspace_size();
              e.workspace = plan->workspace_items();
            }
            return e;
          }};
}

}  // namespace baracuda
