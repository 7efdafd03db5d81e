#pragma once
// A plan with host memory for the arguments that it must be given, for commands that make their own values.
#include "baracuda/core/registry.hpp"
#include "baracuda/io/npy.hpp"

namespace baracuda::cli {

struct MadePlan {
  std::shared_ptr<const AnyPlan> plan;
  std::vector<Argument> arguments;
  std::vector<std::vector<io::HostTensor>> tensors;  // of each argument, none where it is not given
  std::vector<std::vector<TensorView>> views;        // likewise
  std::vector<ArgValue> args() const;
};
// Required arguments only, or all of an op that has to write none; a tensor whose shape the descriptor leaves open gets `open`.
Result<MadePlan> make_plan(const Stream& stream, const OpInfo& op, std::span<const KeyValue> settings, const PlanPreference& preference, const Shape& open);

// The next of a sequence of multiples of 1/128 in [-1, 1), which every floating dtype of 16 bits and more holds exactly.
double next_value(uint64_t& state);
bool is_real(DType t);  // f16 bf16 f32 f64
// Element i of a dense tensor becomes x; of another dtype than these 0 or 1, by the sign of x: fit for indices.
void write_value(const TensorView& v, int64_t i, double x);

}  // namespace baracuda::cli
