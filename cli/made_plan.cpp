#include "cli/made_plan.hpp"
#include <cstring>
#include "baracuda/math/half.hpp"

namespace baracuda::cli {

std::vector<ArgValue> MadePlan::args() const {
  std::vector<ArgValue> list;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!views[i].empty()) list.push_back({arguments[i].info.name, views[i], {}});
  return list;
}
Result<MadePlan> make_plan(const Stream& stream, const OpInfo& op, std::span<const KeyValue> settings, const PlanPreference& preference, const Shape& open) {
  MadePlan made;
  BARACUDA_TRY_ASSIGN(plan, op.select(stream, settings, preference));
  BARACUDA_TRY_ASSIGN(arguments, plan->arguments());
  made.plan = plan, made.arguments = arguments;
  made.tensors.resize(arguments.size()), made.views.resize(arguments.size());
  // Gradients whose outputs are all optional would compute nothing: they get every tensor that they take.
  bool everything = true;
  for (const Argument& a : arguments) everything = everything && !(written(a.info.role) && a.presence == Argument::Presence::required);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    const bool made_here = a.presence == Argument::Presence::required || (everything && a.presence == Argument::Presence::optional);
    for (size_t k = 0; a.tensor() && made_here && k < a.count; ++k) {
      BARACUDA_TRY_ASSIGN(t, io::HostTensor::make(a.dtype.value_or(DType::f32), a.shape.value_or(open)));
      made.views[i].push_back(t.view());
      made.tensors[i].push_back(std::move(t));
    }
  }
  return made;
}

double next_value(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return double(int64_t((z ^ (z >> 31)) >> 56) - 128) / 128;
}
bool is_real(DType t) { return t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::f64; }
void write_value(const TensorView& v, int64_t i, double x) {
  if (v.dtype == DType::f64) v.as<double>()[i] = x;
  else if (v.dtype == DType::f32) v.as<float>()[i] = float(x);
  else if (v.dtype == DType::f16) v.as<f16>()[i] = from_double<f16>(x);
  else if (v.dtype == DType::bf16) v.as<bf16>()[i] = from_double<bf16>(x);
  else {
    const uint64_t one[2] = {x >= 0, 0};
    std::memcpy(v.as<char>() + i * int64_t(byte_size(v.dtype)), one, byte_size(v.dtype));  // little-endian
  }
}

}  // namespace baracuda::cli
