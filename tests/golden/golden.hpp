#pragma once
// Replays calls of PyTorch operators with plans and compares the results with what PyTorch gave.
//
// A sample is judged element by element. With T(want) the bound of Replay::judge, a value must be within T of PyTorch's,
// or within T of a double reference that the adapter supplies (plain loops; its gradients are central differences), for
// PyTorch's own value is rounded too. In f32 PyTorch must also be near the reference, so that a wrong reference shows.
// Where the terms of a sum exceed the accumulator's range, any value that is not finite is right.
#include <gtest/gtest.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include "baracuda/io/safetensors.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda::golden {

using Json = nlohmann::ordered_json;  // gradients are numbered in the order of the arguments
using Values = std::vector<double>;

Values values_of(const TensorView& v);  // in row-major order of the shape; of a complex element its real and its imaginary part
double number(const Json& j);           // also true, false and {"float": "inf"}

// A tensor of a sample in memory of its own, with exactly the strides that the operator was given, and guard bytes.
class Held {
 public:
  Held(DType dtype, const Shape& shape, const Strides& strides);
  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }
  const Shape& shape() const { return view_.shape; }
  DType dtype() const { return view_.dtype; }
  void set(const Values& values);
  Values values() const { return values_of(view_); }
  bool guards_intact() const;
  int gradient = -1;  // which gradient of the sample is this tensor's; -1: none

 private:
  std::vector<uint8_t> memory_;
  TensorView view_;
};

// --- views, as a caller makes them
TensorView unsqueezed(TensorView v, int axis);                 // another axis of extent 1 before `axis`
TensorView expanded(const TensorView& v, const Shape& shape);  // broadcast by zero strides; absent when that is no broadcast
TensorView part(TensorView v, int axis, int64_t first, int64_t count);
TensorView reshaped(const TensorView& dense, const Shape& shape);
Shape with(Shape shape, std::initializer_list<int64_t> more);
Shape without_last(Shape shape, int axes);

// Outputs in double with, per element, the size of what was summed: the condition of its rounding errors.
struct Numbers { Values y, scale; };
using Inputs = std::vector<Values>;  // values of the differentiable inputs

struct Judgement {
  double ulps = 1;              // roundings of the result to its dtype, in half ulps
  double terms = 0;             // longest sum
  double inner = 0;             // roundings to the dtype on the way, relative to the condition
  bool exact = false;           // bits as PyTorch's
  bool singular = false;        // differences step relative to the input, which must not cross 0
};

class Samples;

// One call: its arguments in, the results out.
class Replay {
 public:
  Replay(const Samples& samples, const Json& sample);
  // Arguments after the input count from 0. Null when the argument is absent or None; a tensor argument that is a number
  // becomes a tensor of rank 0 in the dtype of the others.
  const Held* input() { return held(&sample_["input"]); }
  const Held* tensor(size_t position, std::string_view keyword) { return held(argument(position, keyword)); }
  const Json* argument(size_t position, std::string_view keyword) const;
  template <class T> T value(size_t position, std::string_view keyword, T otherwise) const {
    const Json* j = argument(position, keyword);
    return j ? j->get<T>() : otherwise;
  }
  // A number as a tensor of rank 0 and this dtype, which lives as long as the call.
  const Held& number_tensor(DType dtype, double value) {
    numbers_.push_back(std::make_unique<Held>(dtype, Shape{}, Strides{}));
    numbers_.back()->set({value});
    return *numbers_.back();
  }
  bool refused_by_torch() const { return sample_.contains("error"); }
  // Whether the input (position < 0) or an argument is given as a number.
  bool is_number(int position, std::string_view keyword) const {
    if (position < 0) return sample_["input"].is_number();
    const Json* j = argument(size_t(position), keyword);
    return j && j->is_number();
  }
  bool has_gradients() const { return sample_.contains("grad_out") && sample_["grad_out"].size() > 0; }
  const Held& dy(size_t k = 0) { return *grad_out_.at(k); }
  DType out_dtype(size_t k = 0) const { return want_.at(k)->dtype(); }
  const Held& wanted(size_t k = 0) const { return *want_.at(k); }

  Judgement judge;
  std::function<Numbers(const Inputs&)> reference;  // of output 0
  std::map<size_t, Values> references;              // of further outputs
  // Of every gradient, y and scale; where differences cannot tell (pow of negative numbers). Otherwise differences do.
  std::function<std::vector<Numbers>(const Inputs&)> derivatives;
  const Values& numbers(const Held& t, const Inputs& inputs) const;
  // At least this condition for the elements of a gradient.
  void condition(const Held& of, Values scale) { conditions_[of.gradient] = std::move(scale); }

  void output(size_t k, Values got) { got_[k] = std::move(got); }
  void output(size_t k, const testing::Tensor& got);
  void output(size_t k, const Held& got);
  void gradient(const Held& of, Values got);
  void gradient(const Held& of, const testing::Tensor& got);
  // The sample is not ours to replay; `reason` stands in the table of the test.
  Status decline(std::string_view reason) { declined_ = reason; return {Code::unsupported, "declined"}; }
  std::string_view declined() const { return declined_; }

  // Compares everything; failures are reported under `name`.
  struct Count { int64_t elements = 0, by_reference = 0; double worst = 0; };
  Count finish(const std::string& name);

 private:
  const Held* held(const Json* value);
  struct Reference { Numbers y; std::vector<Values> dx, scale, noise; };
  Reference differentiate() const;
  void compare(const std::string& name, const Held& want, const Values& got, const Values* reference, const Values& scale, const Values* noise,
               Count& count);

  const Samples& samples_;
  const Json& sample_;
  std::map<const Json*, std::unique_ptr<Held>> held_;
  std::vector<std::unique_ptr<Held>> numbers_;
  std::vector<std::pair<const Held*, std::vector<uint8_t>>> before_;  // inputs as loaded
  mutable std::map<const Held*, Values> fixed_;  // values of inputs that have no gradient
  std::vector<const Held*> inputs_;  // the differentiable ones, by gradient
  std::vector<std::unique_ptr<Held>> want_, grad_out_, grad_in_;
  std::map<size_t, Values> got_;
  std::map<int, Values> got_gradient_, conditions_;
  std::string_view declined_;
};

// A file of samples: NAME.json under the folder of the fixtures, and its tensors from NAME.safetensors where there is one.
class Samples {
 public:
  // No samples where there is no such file.
  explicit Samples(const std::string& name);
  const Json& ops() const { return json_["ops"]; }
  std::unique_ptr<Held> load(const Json& tensor) const;

 private:
  Json json_;
  std::optional<io::SafetensorsFile> file_;
};

// Replays the calls of one operator; `op` is its name in the fixtures.
using Adapter = Status (*)(Replay&, std::string_view op);
struct Entry { std::string_view op; Adapter adapter; };
// Samples of an operator that its adapter declines, by number; JAX's with the operator's name, "lax.NAME".
struct Declined {
  std::string_view op;
  std::set<int> samples;
  std::string_view reason;
};
// What FAMILY_adapter.cpp defines, as FAMILY_family(), for the operators of FAMILY.ops.
struct Family {
  std::span<const Entry> adapters;
  std::span<const Declined> declined = {}, declined_errors = {};
};

// Why samples are not replayed.
inline constexpr std::string_view kDropout = "dropout_p is not 0: attention has no dropout";
inline constexpr std::string_view kProbabilities = "targets are class probabilities: cross_entropy takes class indices";
inline constexpr std::string_view kSmoothedWeights = "class weights with label smoothing: weights of cross_entropy are per token";
inline constexpr std::string_view kNegativeEps = "eps is negative: norms refuse it, for the root may be of a negative number";
inline constexpr std::string_view kMaxNorm = "max_norm changes the weight, scale_grad_by_freq and sparse change the gradient: embedding has none of them";
inline constexpr std::string_view kNoTensor = "no operand is a tensor: such a call cannot be written, arguments are TensorViews";
inline constexpr std::string_view kNumber = "a number where PyTorch wants a tensor: here both are TensorViews";
inline constexpr std::string_view kMixed = "operands of several dtypes: a plan's operands have one, promotion is a cast";
inline constexpr std::string_view kNoAxes = "normalized_shape is empty: norms have no such argument, they normalise the last axis or a number of the last ones";
inline constexpr std::string_view kNoChannels = "x has one axis and none of channels, which batch_norm has";
inline constexpr std::string_view kRunning = "statistics of earlier batches: group_norm normalises by those of its input";
inline constexpr std::string_view kOneElement = "rows of one element, whose x - mean is 0: PyTorch's gradient of the weight is a rounding error";
inline constexpr std::string_view kDType = "the dtype of the result is not one that the operator's plan gives";

}  // namespace baracuda::golden
