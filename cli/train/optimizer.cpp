#include "cli/train/optimizer.hpp"

#include <cmath>
#include "baracuda/ops/random/random.hpp"

namespace baracuda::cli {

Optimizer::Optimizer(const Settings& s, Plans& plans, Model& model)
    : s_(s), plans_(plans), model_(model), m_(s, plans.stream().device, DType::f32, DType::f32), v_(s, plans.stream().device, DType::f32, DType::f32), scalars_(plans.stream().device) {
  if (s.dtype != DType::f32) masters_.emplace(s, plans.stream().device, DType::f32, std::nullopt);
  scalars_.add(norm_, DType::f32, {});
  scalars_.add(scale_, DType::f32, {});
}

Status Optimizer::select() {
  BARACUDA_TRY(plans_.select(matrices_step_, {.dtype = s_.dtype, .grad_dtype = DType::f32}));
  BARACUDA_TRY(plans_.select(vectors_step_, {.dtype = DType::f32, .grad_dtype = DType::f32}));
  if (s_.clip == 0) return {};
  BARACUDA_TRY(plans_.select(global_norm_, {.dtype = DType::f32}));
  return plans_.select(clip_, {.dtype = DType::f32, .max_norm = s_.clip});
}

Status Optimizer::allocate() {
  BARACUDA_TRY(m_.allocate());
  BARACUDA_TRY(v_.allocate());
  if (masters_) BARACUDA_TRY(masters_->allocate());
  BARACUDA_TRY(scalars_.allocate());
  matrices_ = {model_.weights.matrices(), model_.gradients.matrices(), m_.matrices(), v_.matrices(), {}};
  if (masters_) matrices_.masters = masters_->matrices();
  vectors_ = {model_.weights.vectors(), model_.gradients.vectors(), m_.vectors(), v_.vectors(), {}};
  all_gradients_ = matrices_.gradients;
  all_gradients_.insert(all_gradients_.end(), vectors_.gradients.begin(), vectors_.gradients.end());
  return {};
}

Status Optimizer::initialise() {
  const Parameters& full = masters_ ? *masters_ : model_.weights;
  uint64_t offset = 0;
  const auto normal = [&](const TensorView& y, double std) -> Status {
    std::optional<RandomNormalPlan> plan;
    BARACUDA_TRY(plans_.select(plan, {.dtype = DType::f32, .shape = y.shape, .std = std}));
    BARACUDA_TRY(plans_.allocate());
    BARACUDA_TRY(plans_.run(plan, {.y = y, .seed = uint64_t(s_.seed), .offset = offset}));
    offset += uint64_t(y.numel());
    return {};
  };
  const auto fill = [&](const TensorView& y, double value) -> Status {
    std::optional<FillPlan> plan;
    BARACUDA_TRY(plans_.select(plan, {.dtype = y.dtype, .shape = y.shape}));
    return plans_.run(plan, {.y = y, .value = value});
  };
  BARACUDA_TRY(normal(full.embedding, 0.02));
  const double to_stream = 1 / std::sqrt(2.0 * double(s_.layers));
  for (const LayerParameters& l : full.layers) {
    BARACUDA_TRY(normal(l.qkv, 1 / std::sqrt(double(s_.width))));
    BARACUDA_TRY(normal(l.out, to_stream / std::sqrt(double(s_.width))));
    BARACUDA_TRY(normal(l.gate_up, 1 / std::sqrt(double(s_.width))));
    BARACUDA_TRY(normal(l.down, to_stream / std::sqrt(double(s_.hidden))));
  }
  if (!s_.tied) BARACUDA_TRY(normal(full.head, 0.02));
  for (const TensorView& t : vectors_.weights) BARACUDA_TRY(fill(t, 1));
  for (const Group* g : {&matrices_, &vectors_})
    for (const std::vector<TensorView>* moments : {&g->m, &g->v})
      for (const TensorView& t : *moments) BARACUDA_TRY(fill(t, 0));
  for (size_t i = 0; i < matrices_.masters.size(); ++i) {
    std::optional<CastPlan> plan;
    BARACUDA_TRY(plans_.select(plan, {.dtype = DType::f32, .to = s_.dtype, .shape = matrices_.masters[i].shape}));
    BARACUDA_TRY(plans_.run(plan, {matrices_.masters[i], matrices_.weights[i]}));
  }
  return {};
}

Status Optimizer::step(int64_t step) {
  if (s_.clip > 0) {
    BARACUDA_TRY(plans_.run(global_norm_, {.x = all_gradients_, .norm = norm_}));
    BARACUDA_TRY(plans_.run(clip_, {norm_, scale_}));
  }
  const TensorView scale = s_.clip > 0 ? scale_ : TensorView{};
  const double lr = learning_rate(s_, step);
  const auto run = [&](const std::optional<AdamWPlan>& plan, const Group& g, double weight_decay) {
    return plans_.run(plan, {.params = g.weights, .grads = g.gradients, .m = g.m, .v = g.v, .masters = g.masters, .step = step, .lr = lr,
                             .beta1 = s_.beta1, .beta2 = s_.beta2, .eps = s_.adam_eps, .weight_decay = weight_decay, .grad_scale = scale});
  };
  BARACUDA_TRY(run(matrices_step_, matrices_, s_.weight_decay));
  return run(vectors_step_, vectors_, 0);
}

std::vector<io::NamedTensor> Optimizer::state() const {
  std::vector<io::NamedTensor> all = model_.weights.named("");
  const auto add = [&](const Parameters& p, const char* prefix) {
    for (io::NamedTensor& t : p.named(prefix)) all.push_back(std::move(t));
  };
  if (masters_) add(*masters_, "master.");
  add(m_, "adam.m.");
  add(v_, "adam.v.");
  return all;
}

std::vector<io::NamedTensor> Optimizer::full_weights() const {
  std::vector<io::NamedTensor> all;
  if (masters_) all = masters_->named("");
  for (io::NamedTensor& t : model_.weights.named(""))
    if (t.tensor.dtype == DType::f32) all.push_back(std::move(t));
  return all;
}

}  // namespace baracuda::cli
