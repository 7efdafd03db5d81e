#include "golden.hpp"
#include <cmath>
#include <fstream>

namespace baracuda::golden {
namespace {

constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xa5;

DType dtype_named(const std::string& torch) {
  static const std::map<std::string, DType> names = {
      {"float32", DType::f32}, {"float64", DType::f64}, {"float16", DType::f16}, {"bfloat16", DType::bf16}, {"int64", DType::i64},
      {"int32", DType::i32},   {"int16", DType::i16},   {"int8", DType::i8},     {"uint8", DType::u8},      {"bool", DType::boolean},
      {"uint16", DType::u16},  {"uint32", DType::u32},  {"uint64", DType::u64},  {"complex64", DType::c64}, {"complex128", DType::c128}};
  return names.at(torch);
}
template <class D> D dims(const Json& list) {
  D d;
  for (const Json& e : list) d.push_back(e.get<int64_t>());
  return d;
}
// Calls f(offset) for every element in row-major order.
template <class F> void for_each_offset(const TensorView& v, F f) {
  for (int64_t i = 0, n = v.numel(); i < n; ++i) {
    int64_t offset = 0, rest = i;
    for (int a = v.shape.rank - 1; a >= 0; --a) offset += rest % v.shape[a] * v.strides[a], rest /= v.shape[a];
    f(offset);
  }
}
}  // namespace

double number(const Json& j) {
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_object()) return std::stod(j.at("float").get<std::string>());
  return j.get<double>();
}

namespace {
// The numbers of an element: two for a complex dtype.
int numbers_of(DType t) { return t == DType::c64 || t == DType::c128 ? 2 : 1; }
DType number_dtype(DType t) { return t == DType::c64 ? DType::f32 : t == DType::c128 ? DType::f64 : t; }
}  // namespace

Values values_of(const TensorView& v) {
  Values values;
  const DType t = number_dtype(v.dtype);
  for_each_offset(v, [&](int64_t o) {
    for (int c = 0; c < numbers_of(v.dtype); ++c)
      values.push_back(testing::read_element(t, v.as<char>() + o * int64_t(byte_size(v.dtype)) + c * int64_t(byte_size(t))));
  });
  return values;
}

Held::Held(DType dtype, const Shape& shape, const Strides& strides) : view_{nullptr, dtype, {}, shape, strides} {
  if (!shape.rank_ok()) return;  // an error sample of more axes than a view has: nothing to hold
  const Extent e = extent(view_);
  const size_t size = byte_size(dtype);
  memory_.assign(2 * kGuard + size_t(e.high - e.low + 1) * size + 16, kGuardByte);
  uint8_t* base = memory_.data() + kGuard;
  base += (16 - uintptr_t(base) % 16) % 16;
  view_.data = base - e.low * int64_t(size);
  for_each_offset(view_, [&](int64_t o) { std::memset(view_.as<char>() + o * int64_t(size), 0xff, size); });
}
void Held::set(const Values& values) {
  size_t i = 0;
  const DType t = number_dtype(dtype());
  for_each_offset(view_, [&](int64_t o) {
    for (int c = 0; c < numbers_of(dtype()); ++c)
      testing::write_element(t, view_.as<char>() + o * int64_t(byte_size(dtype())) + c * int64_t(byte_size(t)), values.at(i++));
  });
}
bool Held::guards_intact() const {
  std::vector<bool> element(memory_.size());
  const size_t size = byte_size(view_.dtype);
  for_each_offset(view_, [&](int64_t o) {
    const size_t at = size_t(view_.as<uint8_t>() + o * int64_t(size) - memory_.data());
    for (size_t b = 0; b < size; ++b) element[at + b] = true;
  });
  for (size_t i = 0; i < memory_.size(); ++i)
    if (!element[i] && memory_[i] != kGuardByte) return false;
  return true;
}

TensorView unsqueezed(TensorView v, int axis) {
  Shape shape;
  Strides strides;
  for (int i = 0; i <= v.shape.rank; ++i) {
    if (i == axis) shape.push_back(1), strides.push_back(0);
    if (i < v.shape.rank) shape.push_back(v.shape[i]), strides.push_back(v.strides[i]);
  }
  v.shape = shape, v.strides = strides;
  return v;
}
TensorView expanded(const TensorView& v, const Shape& shape) {
  TensorView e = v;
  e.shape = shape, e.strides.rank = shape.rank;
  const int missing = shape.rank - v.shape.rank;
  if (missing < 0) return {};
  for (int i = 0; i < shape.rank; ++i) {
    const int64_t from = i < missing ? 1 : v.shape[i - missing];
    if (from != shape[i] && from != 1) return {};
    e.strides[i] = from == shape[i] && i >= missing ? v.strides[i - missing] : 0;
  }
  return e;
}
TensorView part(TensorView v, int axis, int64_t first, int64_t count) {
  if (v.numel() > 0) v.data = v.as<char>() + first * v.strides[axis] * int64_t(byte_size(v.dtype));
  v.shape[axis] = count;
  return v;
}
TensorView reshaped(const TensorView& v, const Shape& shape) {
  if (!v.contiguous() || v.numel() != shape.numel()) throw std::logic_error("golden: only dense tensors are given another shape");
  return TensorView::dense(v.data, v.dtype, shape);
}
Shape with(Shape shape, std::initializer_list<int64_t> more) {
  for (int64_t n : more) shape.push_back(n);
  return shape;
}
Shape without_last(Shape shape, int axes) {
  for (; axes > 0 && shape.rank > 0; --axes) shape[--shape.rank] = 0;
  return shape;
}

Samples::Samples(const std::string& name) {
  const std::string stem = std::string(BARACUDA_GOLDEN_FOLDER) + "/" + name;
  std::ifstream in(stem + ".json");
  json_ = in ? Json::parse(in) : Json{{"ops", Json::object()}};
  if (auto file = io::SafetensorsFile::open(stem + ".safetensors"); file.ok()) file_ = std::move(file).value();
}
std::unique_ptr<Held> Samples::load(const Json& j) const {
  if (j.contains("tensor")) {  // an error sample: values stand in the text, and large tensors have none
    const Json& t = j["tensor"];
    auto held = std::make_unique<Held>(dtype_named(t["dtype"]), dims<Shape>(t["shape"]), dims<Strides>(t["strides"]));
    Values values(size_t(std::max<int64_t>(held->shape().numel(), 0)) * size_t(numbers_of(held->dtype())), 0.0);
    if (t.contains("values") && t["values"].is_array())
      for (size_t i = 0; i < values.size(); ++i) values[i] = number(t["values"].at(i));
    held->set(values);
    return held;
  }
  const std::string key = j.at("t");
  const io::SafetensorsEntry* entry = file_ ? file_->header().find(key) : nullptr;
  if (!entry) throw std::runtime_error("golden: no tensor " + key);
  std::vector<uint8_t> bytes(entry->bytes + 1);
  const TensorView dense = TensorView::dense(bytes.data(), entry->dtype, entry->shape);
  file_->read(key, dense).value();
  const Strides strides = dims<Strides>(j.at("strides"));
  const bool complex = j.contains("complex");  // in the file a last axis of two
  auto held = std::make_unique<Held>(complex ? dtype_named(j["complex"]) : entry->dtype, complex ? without_last(entry->shape, 1) : entry->shape, strides);
  bytes.pop_back();
  testing::put_bytes(*held, bytes);
  return held;
}

Replay::Replay(const Samples& samples, const Json& sample) : samples_(samples), sample_(sample) {
  // Gradients follow the differentiable tensors in order of appearance.
  std::function<void(const Json&)> walk = [&](const Json& j) {
    if (j.is_object() && (j.contains("t") || j.contains("tensor"))) {
      auto held = samples.load(j);
      if (j.value("grad", false)) held->gradient = int(inputs_.size()), inputs_.push_back(held.get());
      held_[&j] = std::move(held);
    } else if (j.is_structured()) {
      for (const Json& e : j) walk(e);
    }
  };
  walk(sample["input"]), walk(sample["args"]), walk(sample["kwargs"]);
  auto load = [&](const char* key, auto& to) {
    if (sample.contains(key))
      for (const Json& t : sample[key]) to.push_back(t.is_null() ? nullptr : samples.load(t));
  };
  load("out", want_), load("grad_out", grad_out_), load("grad_in", grad_in_);
  for (auto& [key, held] : held_) before_.emplace_back(held.get(), testing::bytes_of(*held));
}
const Json* Replay::argument(size_t position, std::string_view keyword) const {
  const Json& args = sample_["args"].at("list");
  const Json* found = position < args.size() ? &args[position] : nullptr;
  if (auto it = sample_["kwargs"].find(keyword); it != sample_["kwargs"].end()) found = &*it;
  return found && !found->is_null() ? found : nullptr;
}
const Held* Replay::held(const Json* j) {
  if (!j || j->is_null()) return nullptr;
  if (auto it = held_.find(j); it != held_.end()) return it->second.get();
  if (!j->is_number() && !j->is_boolean()) return nullptr;
  for (auto& [key, other] : held_) {
    const DType dtype = other->dtype();
    auto scalar = std::make_unique<Held>(dtype, Shape{}, Strides{});
    scalar->set({number(*j)});
    return (held_[j] = std::move(scalar)).get();
  }
  return nullptr;
}
const Values& Replay::numbers(const Held& t, const Inputs& inputs) const {
  if (t.gradient >= 0) return inputs.at(size_t(t.gradient));
  auto [it, first] = fixed_.try_emplace(&t);
  if (first) it->second = t.values();
  return it->second;
}
void Replay::output(size_t k, const testing::Tensor& got) {
  EXPECT_TRUE(got.guards_intact()) << "written outside an output";
  output(k, got.values());
}
void Replay::output(size_t k, const Held& got) {
  EXPECT_TRUE(got.guards_intact()) << "written outside an output";
  output(k, got.values());
}
void Replay::gradient(const Held& of, Values got) {
  if (of.gradient >= 0) got_gradient_[of.gradient] = std::move(got);
}
void Replay::gradient(const Held& of, const testing::Tensor& got) {
  EXPECT_TRUE(got.guards_intact()) << "written outside a gradient";
  gradient(of, got.values());
}

// Central differences of order four of sum(dy y), element by element of the inputs.
Replay::Reference Replay::differentiate() const {
  Inputs x;
  for (const Held* h : inputs_) x.push_back(h->values());
  Reference r{reference(x), {}, {}, {}};
  if (!has_gradients()) return r;
  if (derivatives) {
    for (Numbers& n : derivatives(x)) r.noise.emplace_back(n.y.size()), r.dx.push_back(std::move(n.y)), r.scale.push_back(std::move(n.scale));
    return r;
  }
  const Values dy = grad_out_.at(0)->values();
  double size = 0;
  for (size_t j = 0; j < dy.size(); ++j) size += std::isfinite(dy[j] * r.y.y[j]) ? std::fabs(dy[j] * r.y.y[j]) : 0;
  for (size_t k = 0; k < x.size(); ++k) {
    Values dx(x[k].size()), scale(x[k].size()), noise(x[k].size());
    for (size_t i = 0; i < x[k].size(); ++i) {
      const double at = x[k][i], h = 1e-4 * (judge.singular && at != 0 ? std::fabs(at) : std::max(1.0, std::fabs(at)));
      Values y[4];
      const double steps[4] = {h, -h, 2 * h, -2 * h};
      for (int s = 0; s < 4; ++s) x[k][i] = at + steps[s], y[s] = reference(x).y;
      x[k][i] = at;
      for (size_t j = 0; j < dy.size(); ++j) {
        if (y[0][j] == y[1][j] && y[2][j] == y[3][j]) continue;  // nothing depends on it; spares inf - inf
        const double d = dy[j] * (8 * (y[0][j] - y[1][j]) - (y[2][j] - y[3][j])) / (12 * h);
        dx[i] += d, scale[i] += std::fabs(d);
      }
      noise[i] = 1e-15 * size / h;
    }
    r.dx.push_back(std::move(dx)), r.scale.push_back(std::move(scale)), r.noise.push_back(std::move(noise));
  }
  return r;
}

void Replay::compare(const std::string& name, const Held& want, const Values& got, const Values* reference, const Values& scale,
                     const Values* noise, Count& count) {
  const Values torch = want.values();
  ASSERT_EQ(got.size(), torch.size()) << name;
  if (reference) ASSERT_EQ(reference->size(), torch.size()) << name << ": the reference has another size";
  const DType t = number_dtype(want.dtype());
  testing::Tolerance tolerance{t, judge.ulps, judge.terms, 0};
  int reported = 0;
  for (size_t i = 0; i < torch.size() && reported < 3; ++i) {
    ++count.elements;
    tolerance.condition = i < scale.size() && std::isfinite(scale[i]) ? scale[i] : 0;
    const double extra = judge.inner * testing::unit_roundoff(t) * tolerance.condition + (noise ? (*noise)[i] : 0);
    auto near = [&](double a, double b, double factor) {
      if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
      if (std::isinf(a) || std::isinf(b)) return testing::rounded(t, a) == testing::rounded(t, b);
      return judge.exact ? a == b : std::fabs(a - b) <= factor * (tolerance.bound(b) + extra);
    };
    const bool as_torch = near(got[i], torch[i], 1);
    const bool beyond = i < scale.size() && !std::isfinite(testing::rounded(accumulator(t), scale[i])) && !std::isfinite(got[i]);
    const bool as_reference = beyond || (!judge.exact && reference && near(got[i], (*reference)[i], 1));
    count.by_reference += !as_torch && as_reference;
    if (as_torch || as_reference) {
      const double error = std::min(std::fabs(got[i] - torch[i]), reference ? std::fabs(got[i] - (*reference)[i]) : INFINITY);
      if (std::isfinite(error) && error > 0) count.worst = std::max(count.worst, error / (tolerance.bound(torch[i]) + extra));
      if (t != DType::f32 || beyond || !reference || near(torch[i], (*reference)[i], 8)) continue;
    }
    ++reported;
    ADD_FAILURE() << name << "[" << i << "]: got " << got[i] << ", PyTorch has " << torch[i] << ", the double reference "
                  << (reference ? (*reference)[i] : NAN) << ", the bound is " << tolerance.bound(torch[i]) + extra
                  << (as_torch || as_reference ? " (PyTorch is far from the reference)" : "");
  }
}

Replay::Count Replay::finish(const std::string& name) {
  Count count;
  for (auto& [held, bytes] : before_) {
    EXPECT_TRUE(held->guards_intact()) << name << ": written around an input";
    EXPECT_TRUE(testing::bytes_of(*held) == bytes) << name << ": an input was changed";
  }
  Reference r;
  if (reference) r = differentiate();
  for (size_t k = 0; k < want_.size(); ++k) {
    const auto got = got_.find(k);
    if (got == got_.end()) ADD_FAILURE() << name << ": output " << k << " was not computed";
    else {
      const auto further = references.find(k);
      const Values* of = reference && k == 0 ? &r.y.y : further != references.end() ? &further->second : nullptr;
      compare(text(name, " out ", k), *want_[k], got->second, of, k == 0 ? r.y.scale : Values{}, nullptr, count);
    }
  }
  if (!has_gradients()) return count;
  for (size_t k = 0; k < grad_in_.size(); ++k) {
    const auto got = got_gradient_.find(int(k));
    if (!grad_in_[k]) continue;
    if (got == got_gradient_.end()) { ADD_FAILURE() << name << ": gradient " << k << " was not computed"; continue; }
    Values scale = reference ? r.scale[k] : Values{};
    if (auto more = conditions_.find(int(k)); more != conditions_.end())
      for (size_t i = 0; i < more->second.size(); ++i) i < scale.size() ? void(scale[i] = std::max(scale[i], more->second[i])) : scale.push_back(more->second[i]);
    compare(text(name, " gradient ", k), *grad_in_[k], got->second, reference ? &r.dx[k] : nullptr, scale, reference ? &r.noise[k] : nullptr, count);
  }
  return count;
}

}  // namespace baracuda::golden
