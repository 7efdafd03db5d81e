#pragma once
// How a plan is chosen, without the type of its op: one walk over kernel rows and one cache serve all of them. Plan<Op>
// hands over what they ask of the op as functions over untyped descriptors and rows (OpCalls).
#include <memory>
#include <span>
#include <vector>
#include "baracuda/core/cuda_half.hpp"
#include "baracuda/core/kernel.hpp"

namespace baracuda::select_detail {

struct RowFacts {
  std::string_view name;
  Backend backend;
  int min_arch;
  DTypeSet served;
};
// `desc` is an Op::Descriptor, `row` a Kernel<Op>.
struct OpCalls {
  std::string_view op;
  size_t row_bytes;
  CudaRows (*rows)(DeviceKind);
  Status (*validate)(const void* desc);
  std::string (*describe)(const void* desc);
  bool (*same)(const void* a, const void* b);
  size_t (*hash)(const void* desc);
  std::shared_ptr<const void> (*keep)(const void* desc);
  RowFacts (*facts)(const void* row);
  PrecisionGuarantee (*guarantee)(const void* row, const void* desc);
  std::string (*refuse)(const void* row, const void* desc, const PlanPreference&);
  Result<PlanState> (*prepare)(const void* row, const Stream&, const void* desc, const PlanPreference&);  // nothing where the row prepares nothing
  uint64_t (*carve)(const void* row, const void* desc, const void* state, Carver&);                      // bytes
};
// What was asked for.
struct Request {
  const void* desc;
  DType dtype;
  PlanPreference preference;
  Device device;
  int arch, threads;
};
Request request(const Stream& stream, const void* desc, DType dtype, const PlanPreference& preference);
// What was chosen.
struct Choice {
  const void* row = nullptr;
  PlanState state;
  uint64_t workspace = 0;
};

// Asks the rows in order; with `stop` no further than the first that accepts.
Result<Choice> walk(const OpCalls& op, const Stream& stream, const Request& r, std::vector<RowVerdict>& verdicts, bool stop);

// What an op's select has chosen before. Bounded: a process that sees ever new shapes starts over instead of growing.
class Cache;
Cache& make_cache(const OpCalls& op);  // never destroyed
Result<Choice> select(Cache& cache, const Stream& stream, const Request& r);

// The functions over a descriptor, one set for all ops that share it.
template <class D> bool same(const void* a, const void* b) { return same_fields(*static_cast<const D*>(a), *static_cast<const D*>(b)); }
template <class D> size_t hash(const void* d) { return hash_fields(*static_cast<const D*>(d)); }
template <class D> std::string describe(const void* d) { return baracuda::describe(*static_cast<const D*>(d)); }
template <class D> std::shared_ptr<const void> keep(const void* d) { return std::make_shared<const D>(*static_cast<const D*>(d)); }

template <class Op> const Kernel<Op>& row_of(const void* row) { return *static_cast<const Kernel<Op>*>(row); }
template <class Op> CudaRows rows_on(DeviceKind device) {
  if (device != DeviceKind::cpu) return cuda_rows(Op::name);
  const std::span<const Kernel<Op>> rows = Op::kernels();
  return {Op::name, rows.data(), rows.size()};
}
template <class Op> constexpr OpCalls op_calls() {
  using D = typename Op::Descriptor;
  return {.op = Op::name, .row_bytes = sizeof(Kernel<Op>), .rows = rows_on<Op>,
          .validate = [](const void* d) -> Status { return Op::validate(*static_cast<const D*>(d)); },
          .describe = describe<D>, .same = same<D>, .hash = hash<D>, .keep = keep<D>,
          .facts = [](const void* row) -> RowFacts {
            const Kernel<Op>& k = row_of<Op>(row);
            return {k.name, k.backend, k.min_arch, served(k)};
          },
          .guarantee = [](const void* row, const void* d) { return row_of<Op>(row).guarantee(*static_cast<const D*>(d)); },
          .refuse = [](const void* row, const void* d, const PlanPreference& p) {
            const Kernel<Op>& k = row_of<Op>(row);
            return k.refuse ? k.refuse(*static_cast<const D*>(d), p) : std::string();
          },
          .prepare = [](const void* row, const Stream& stream, const void* d, const PlanPreference& p) -> Result<PlanState> {
            const Kernel<Op>& k = row_of<Op>(row);
            return k.prepare ? k.prepare(stream, *static_cast<const D*>(d), p) : PlanState();
          },
          .carve = [](const void* row, const void* d, const void* state, Carver& c) -> uint64_t {
            const Kernel<Op>& k = row_of<Op>(row);
            if (k.carve) k.carve(*static_cast<const D*>(d), state, c);
            return c.size();
          }};
}

}  // namespace baracuda::select_detail
