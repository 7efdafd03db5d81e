#include "cli/train/settings.hpp"

#include <cmath>
#include <numbers>

namespace baracuda::cli {
namespace {

constexpr Settings make(void (*change)(Settings&)) {
  Settings s;
  change(s);
  return s;
}

constexpr Preset kPresets[] = {
    {"tiny", "0.8 M parameters, some three minutes on 2 cores", make([](Settings&) {})},
    {"small", "8 M parameters", make([](Settings& s) {
       s.layers = 6, s.width = 320, s.heads = 5, s.kv_heads = 5, s.hidden = 896, s.context = 256, s.batch = 16, s.steps = 2000, s.warmup = 100, s.lr = 2e-3;
     })},
    {"medium", "24 M parameters", make([](Settings& s) {
       s.layers = 8, s.width = 512, s.heads = 8, s.kv_heads = 4, s.hidden = 1408, s.context = 512, s.batch = 16, s.steps = 4000, s.warmup = 200, s.lr = 1e-3;
     })},
    {"124m", "124 M parameters, vocabulary 50304: for measurements", make([](Settings& s) {
       s.vocabulary = 50304, s.layers = 12, s.width = 768, s.heads = 12, s.kv_heads = 12, s.hidden = 2048, s.context = 1024, s.batch = 4, s.steps = 5000, s.warmup = 200, s.lr = 6e-4;
     })},
};

// Far above anything sensible, and low enough that no size computed from settings overflows.
constexpr int64_t kMost = int64_t(1) << 30;

}  // namespace

std::span<const Preset> presets() { return kPresets; }

const Preset* find_preset(std::string_view name) {
  for (const Preset& p : kPresets)
    if (p.name == name) return &p;
  return nullptr;
}

Status validate(const Settings& s) {
  const auto bad = [](std::string_view field, const auto& value, std::string_view rule) {
    return Status(Code::invalid_problem, text(field, " is ", value, ": ", rule));
  };
  const struct { std::string_view name; int64_t value, least, most; } integers[] = {
      {"vocabulary", s.vocabulary, 256, 1 << 24}, {"layers", s.layers, 1, 1000},   {"width", s.width, 2, 1 << 16},
      {"heads", s.heads, 1, 1 << 12},             {"kv_heads", s.kv_heads, 1, 1 << 12}, {"hidden", s.hidden, 1, 1 << 20},
      {"context", s.context, 1, 1 << 20},         {"steps", s.steps, 1, kMost},    {"batch", s.batch, 1, 1 << 20},
      {"warmup", s.warmup, 0, kMost},             {"seed", s.seed, 0, INT64_MAX}};
  for (const auto& i : integers)
    if (i.value < i.least || i.value > i.most) return bad(i.name, i.value, text("must be in [", i.least, ", ", i.most, "]"));
  const struct { std::string_view name; double value, above, most; bool open; } reals[] = {
      {"rope_theta", s.rope_theta, 0, 1e12, true}, {"norm_eps", s.norm_eps, 0, 1, true}, {"lr", s.lr, 0, 100, true},
      {"lr_floor", s.lr_floor, 0, 1, false},       {"adam_eps", s.adam_eps, 0, 1, true}, {"weight_decay", s.weight_decay, 0, 100, false},
      {"clip", s.clip, 0, 1e30, false}};
  for (const auto& r : reals)
    if (!(r.open ? r.value > r.above : r.value >= r.above) || !(r.value <= r.most))
      return bad(r.name, r.value, text("must be in ", r.open ? "(" : "[", r.above, ", ", r.most, "]"));
  for (const auto& [name, value] : {std::pair<std::string_view, double>{"beta1", s.beta1}, {"beta2", s.beta2}})
    if (!(value >= 0 && value < 1)) return bad(name, value, "must be in [0, 1)");
  if (s.dtype != DType::f32 && s.dtype != DType::bf16) return bad("dtype", s.dtype, "must be f32 or bf16");
  if (s.width % s.heads != 0) return bad("width", s.width, text("must be a multiple of heads, ", s.heads));
  if (s.head_dim() % 2 != 0 || s.head_dim() > 256) return bad("width / heads", s.head_dim(), "must be even and at most 256");
  if (s.heads % s.kv_heads != 0) return bad("heads", s.heads, text("must be a multiple of kv_heads, ", s.kv_heads));
  if (s.batch > (int64_t(1) << 31) / s.context) return bad("batch", s.batch, text("batch * context must be at most 2^31, context is ", s.context));
  return {};
}

int64_t parameters(const Settings& s) {
  const int64_t attention = s.width * s.head_dim() * (2 * s.heads + 2 * s.kv_heads);
  const int64_t layer = attention + 3 * s.width * s.hidden + 2 * s.width;
  return s.layers * layer + s.width + s.vocabulary * s.width * (s.tied ? 1 : 2);
}

double learning_rate(const Settings& s, int64_t step) {
  if (step <= s.warmup) return s.lr * double(step) / double(s.warmup);
  const double progress = s.steps > s.warmup ? double(step - s.warmup) / double(s.steps - s.warmup) : 1;
  return s.lr * (s.lr_floor + (1 - s.lr_floor) * 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

}  // namespace baracuda::cli
