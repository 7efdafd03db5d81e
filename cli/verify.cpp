// baracuda verify: how far an op is from its own f64 (c128) kernel on the CPU with the same values, in units in the last place.
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include "baracuda/math/half.hpp"
#include "cli/command.hpp"
#include "cli/made_plan.hpp"
#include "cli/on_device.hpp"
#include "cli/words.hpp"

namespace baracuda::cli {
namespace {

struct Options { std::string op, device = "cpu"; uint64_t seed = 1; };

double read(const TensorView& v, int64_t i) {
  switch (v.dtype) {
    case DType::f16: return to_double(v.as<f16>()[i]);
    case DType::bf16: return to_double(v.as<bf16>()[i]);
    case DType::f32: return v.as<float>()[i];
    default: return v.as<double>()[i];
  }
}
// One unit in the last place of dtype t at magnitude |x|.
double ulp(DType t, double x) {
  const int digits = t == DType::f16 ? 11 : t == DType::bf16 ? 8 : t == DType::f32 ? 24 : 53;
  const int least = t == DType::f16 ? -14 : t == DType::f64 ? -1022 : -126;
  return std::ldexp(1.0, std::max(x == 0 ? least : std::ilogb(x), least) - (digits - 1));
}

// A dense tensor of complex numbers as twice as many of their parts; others as they are.
TensorView parts(const TensorView& v) { return is_complex(v.dtype) ? TensorView::dense(v.data, counterpart(v.dtype), {2 * v.numel()}) : v; }

Status run(const Stream& stream, const MadePlan& made) {
  const auto args = made.args();
  Call call(stream, *made.plan);
  BARACUDA_TRY(call.take(args));
  return call.once();
}
Status compare(const TensorView& of_ours, const TensorView& of_reference, std::string_view arg) {
  const TensorView got = parts(of_ours), want = parts(of_reference);
  const int64_t n = got.numel();
  if (!is_real(got.dtype) || !is_real(want.dtype)) {
    int64_t other = 0;
    const size_t size = byte_size(got.dtype);
    if (got.dtype != want.dtype) return {Code::unsupported, text(arg, " is ", got.dtype, ", the reference ", want.dtype)};
    for (int64_t i = 0; i < n; ++i) other += std::memcmp(got.as<char>() + i * int64_t(size), want.as<char>() + i * int64_t(size), size) != 0;
    fmt::print("{:<14} {:<5} {} elements, {} differ\n", arg, name(got.dtype), n, other);
    return {};
  }
  double most = 0, sum = 0;
  int64_t at = -1, kinds = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double a = read(got, i), b = read(want, i);
    if (std::isnan(a) || std::isnan(b) || std::isinf(a) || std::isinf(b)) {
      kinds += !(std::isnan(a) && std::isnan(b)) && a != b;
      continue;
    }
    const double e = std::fabs(a - b) / ulp(got.dtype, b);
    sum += e;
    if (e > most) most = e, at = i;
  }
  fmt::print("{:<14} {:<5} {} elements, largest error {:.3g} ulp, mean {:.3g} ulp, {} of another kind (NaN, infinite)\n", arg, name(got.dtype), n, most,
             n ? sum / double(n) : 0, kinds);
  if (at >= 0) fmt::print("{:<14} at element {}: {:.9g}, reference {:.17g}\n", "", at, read(got, at), read(want, at));
  return {};
}

Status verify(const Options& o, const std::vector<std::string>& rest) {
  BARACUDA_TRY_ASSIGN(op, known_op(o.op));
  BARACUDA_TRY_ASSIGN(words, split_words(rest));
  std::vector<KeyValue> settings;
  for (const Word& w : words) settings.push_back({w.name, w.value});
  BARACUDA_TRY_ASSIGN(stream, stream_on(o.device));
  BARACUDA_TRY_ASSIGN(ours, make_plan(stream, *op, settings, {}, Shape{256}));
  DType dtype = DType::f32;
  for (const FieldInfo& f : op->fields())
    if (f.name == "dtype") BARACUDA_TRY(parse_value(f.name, f.default_value, dtype));
  for (const KeyValue& s : settings)
    if (s.key == "dtype") BARACUDA_TRY(parse_value(s.key, s.value, dtype));
  if (!is_floating(dtype)) return {Code::unsupported, text(dtype, " is exact, so that no wider kernel tells an error: verify takes floats and complex numbers")};
  const std::string_view wide = is_complex(dtype) ? "c128" : "f64";
  int64_t compared = 0;
  for (size_t i = 0; i < ours.arguments.size(); ++i)
    for (const TensorView& v : ours.views[i]) compared += written(ours.arguments[i].info.role) ? v.numel() : 0;
  if (!compared) return {Code::invalid_problem, text("nothing to compare: every output of ", op->name, " is empty; its fields say how large it is, see `baracuda ops ", op->name, "`")};
  std::vector<KeyValue> widened = settings;
  for (const FieldInfo& f : op->fields()) {
    if (f.type != "dtype") continue;
    DType given = DType::count;
    for (const KeyValue& s : settings)
      if (s.key == f.name && s.value != "none") BARACUDA_TRY(parse_value(f.name, s.value, given));
    if (f.name == "dtype") widened.push_back({f.name, wide});
    else if (is_real(given) || (valid(given) && is_complex(given))) widened.push_back({f.name, is_real(given) ? "f64" : "c128"});
  }
  Result<MadePlan> reference = make_plan(Stream::cpu(), *op, widened, {}, Shape{256});
  if (!reference.ok()) return {reference.status().code(), text("no reference: ", reference.status().message())};
  uint64_t state = o.seed;
  for (size_t i = 0; i < ours.arguments.size(); ++i) {
    if (ours.views[i].size() != reference->views[i].size()) return {Code::unsupported, text(ours.arguments[i].info.name, " is taken with one of the two dtypes only")};
    const Role role = ours.arguments[i].info.role;
    if (role == Role::out || role == Role::optional_out) continue;
    for (size_t t = 0; t < ours.views[i].size(); ++t) {
      const TensorView a = parts(ours.views[i][t]), b = parts(reference->views[i][t]);
      for (int64_t k = 0; k < a.numel(); ++k) {
        const double x = next_value(state);
        write_value(a, k, x), write_value(b, k, x);
      }
    }
  }
  BARACUDA_TRY(run(stream, ours));
  BARACUDA_TRY(run(Stream::cpu(), *reference));
  fmt::print("{} {}\nkernel    {}\nreference {}, the {} kernel of the same op{}\n", op->name, ours.plan->descriptor(),
             ours.plan->sku().kernel, reference->plan->sku().kernel, wide, stream.device.kind == DeviceKind::cpu ? " (not an independent one)" : " on the CPU, with the same formulas");
  for (size_t i = 0; i < ours.arguments.size(); ++i)
    for (size_t t = 0; t < ours.views[i].size() && written(ours.arguments[i].info.role); ++t)
      BARACUDA_TRY(compare(ours.views[i][t], reference->views[i][t], ours.arguments[i].info.name));
  return {};
}

}  // namespace

std::function<int()> verify_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("op", o->op, "the op")->required();
  app.add_option("--seed", o->seed, "of the values");
  add_device(app, o->device);
  app.allow_extras();
  app.footer("Behind the op: fields as field=value or --field value. Inputs are multiples of 1/128 in [-1, 1), exact in every dtype (integers: 0 or 1).\n"
             "The reference is the CPU's f64 (of complex numbers c128) kernel of the same op: it measures rounding, not a formula that is wrong in both. The tests of each family\n"
             "compare with loops that share no code with a kernel.\n"
             "Example: baracuda verify unary kind=exp dtype=bf16 shape=1000");
  return [o, &app] {
    const Status s = verify(*o, app.remaining());
    fflush(stdout);
    return s.ok() ? kDone : fail("verify", s);
  };
}

}  // namespace baracuda::cli
