// baracuda bench: the time of a plan beside that of a copy of as many bytes.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "baracuda/core/transfer.hpp"
#include "baracuda/host/timing.hpp"
#include "baracuda/io/file.hpp"
#include "cli/chart.hpp"
#include "cli/command.hpp"
#include "cli/made_plan.hpp"
#include "cli/on_device.hpp"
#include "cli/words.hpp"

namespace baracuda::cli {
namespace {

struct Options {
  std::string op, device = "cpu", kernel, json, svg;
  double seconds = 0.5;
  int64_t repeats = 5, elements = 1 << 20;
};
using Settings = std::vector<KeyValue>;

// A field of every case: all its values.
struct Sweep { std::string_view name; std::vector<std::string_view> values; };
// A list of numbers is one value, so several of them take several words; other fields have commas between their values.
std::vector<Sweep> sweeps_of(const OpInfo& op, const std::vector<Word>& words) {
  std::vector<Sweep> list;
  for (const Word& w : words) {
    auto at = std::find_if(list.begin(), list.end(), [&](const Sweep& s) { return s.name == w.name; });
    if (at == list.end()) at = list.insert(at, {w.name, {}});
    bool whole = false;
    for (const FieldInfo& f : op.fields()) whole = whole || (f.name == w.name && f.type == "ints");
    std::string_view rest = w.value;
    for (size_t comma; !whole && (comma = rest.find(',')) != rest.npos; rest.remove_prefix(comma + 1)) at->values.push_back(rest.substr(0, comma));
    at->values.push_back(rest);
  }
  return list;
}
// Every combination, the last field fastest.
std::vector<Settings> cases_of(const std::vector<Sweep>& sweeps) {
  std::vector<Settings> cases(1);
  for (const Sweep& s : sweeps) {
    std::vector<Settings> longer;
    for (const Settings& c : cases)
      for (std::string_view v : s.values) longer.push_back(c), longer.back().push_back({s.name, v});
    cases = std::move(longer);
  }
  return cases;
}

struct Measured {
  std::string label, descriptor, kernel;  // label: the fields that have several values
  Settings fields;
  size_t runs = 0;
  double low = 0, median = 0, high = 0;   // seconds of a run: quartiles
  double bytes = 0, copy_rate = 0, of_copy = 0, flops = 0;
  double rate() const { return bytes / median; }
  double spread() const { return (high - low) / 2 / median; }
};
// Of n runs, done.
double seconds_of(const Stream& stream, int64_t n, auto&& f) {
  return seconds([&] {
    for (int64_t i = 0; i < n; ++i) f();
    (void)wait(stream);
  });
}
// As many runs as make a time that the clock tells well, and beside which a device's last wait is short.
int64_t runs_of_a_sample(const Stream& stream, auto&& f) {
  const double enough = stream.device.kind == DeviceKind::cpu ? 1e-4 : 2e-3;
  int64_t n = 1;
  while (seconds_of(stream, n, f) < enough && n < (1 << 20)) n *= 2;
  return n;
}
// Two pieces of memory where the stream runs.
struct CopyPair {
  Device device;
  void *from = nullptr, *to = nullptr;
  ~CopyPair() { deallocate(device, from), deallocate(device, to); }
};
Result<Measured> measure(const Stream& stream, const OpInfo& op, const Settings& settings, const Options& o) {
  Shape open{o.elements};  // of tensors in a list; where the op has a shape, that of the whole
  for (const KeyValue& s : settings)
    if (s.key == "shape") BARACUDA_TRY(parse_value(s.key, s.value, open));
  BARACUDA_TRY_ASSIGN(made, make_plan(stream, op, settings, {.require_kernel = o.kernel}, open));
  Measured m;
  m.descriptor = made.plan->descriptor(), m.kernel = made.plan->sku().kernel, m.fields = settings, m.flops = made.plan->flops();
  uint64_t state = 1;
  for (size_t i = 0; i < made.arguments.size(); ++i) {
    const Role role = made.arguments[i].info.role;
    for (const TensorView& v : made.views[i]) {
      m.bytes += double(v.numel()) * double(byte_size(v.dtype)) * (role == Role::inout || role == Role::optional_inout ? 2 : 1);
      for (int64_t k = 0; k < v.numel(); ++k) write_value(v, k, next_value(state));
    }
  }
  const auto args = made.args();
  Call call(stream, *made.plan);
  BARACUDA_TRY(call.take(args));
  BARACUDA_TRY(call.copies().to_device());
  const int64_t half = std::max<int64_t>(64, int64_t(m.bytes / 2) / 64 * 64);
  CopyPair pair{stream.device};
  for (void** p : {&pair.from, &pair.to}) {
    BARACUDA_TRY_ASSIGN(memory, allocate(stream.device, uint64_t(half)));
    *p = memory;
  }
  const bool on_cpu = stream.device.kind == DeviceKind::cpu;
  if (on_cpu) std::memset(pair.from, 0, size_t(half)), std::memset(pair.to, 0, size_t(half));
  const auto copy = [&] {
    if (on_cpu) copy_past_caches(pair.from, pair.to, half);
    else (void)baracuda::copy(stream, pair.to, pair.from, uint64_t(half));
  };
  const auto run = [&] { (void)call.run(); };
  BARACUDA_TRY(call.run());
  BARACUDA_TRY(wait(stream));
  const int64_t n = runs_of_a_sample(stream, run), copies = runs_of_a_sample(stream, copy);

  std::vector<double> own, copy_rates, quotients;
  double total = 0, copy_total = 0;
  while (int64_t(own.size()) < o.repeats || total < o.seconds) {
    if (copy_total <= total) {  // a slow plan has a copy before each run, a fast one before most
      const double s = seconds_of(stream, copies, copy);
      copy_total += s, copy_rates.push_back(2.0 * double(half * copies) / s);
    }
    const double s = seconds_of(stream, n, run);
    total += s, own.push_back(s / double(n)), quotients.push_back(m.bytes * double(n) / s / copy_rates.back());
  }
  m.runs = own.size() * size_t(n);
  m.low = quantile(own, 0.25), m.median = median(own), m.high = quantile(own, 0.75);
  m.copy_rate = median(copy_rates), m.of_copy = median(quotients);
  return m;
}

std::string time_text(double s) { return s < 1e-3 ? fmt::format("{:.4g} us", s * 1e6) : s < 1 ? fmt::format("{:.4g} ms", s * 1e3) : fmt::format("{:.4g} s", s); }
std::string json_text(const Stream& stream, const OpInfo& op, const std::vector<Measured>& list) {
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const Measured& m : list) {
    nlohmann::ordered_json fields = nlohmann::ordered_json::object();
    for (const KeyValue& f : m.fields) fields[std::string(f.key)] = std::string(f.value);
    cases.push_back({{"fields", fields}, {"descriptor", m.descriptor}, {"kernel", m.kernel}, {"runs", m.runs}, {"seconds", m.median},
                     {"seconds_quartiles", {m.low, m.high}}, {"bytes", m.bytes}, {"bytes_per_second", m.rate()}, {"copy_bytes_per_second", m.copy_rate},
                     {"of_copy", m.of_copy}});
    if (m.flops > 0) cases.back()["flops"] = m.flops, cases.back()["flops_per_second"] = m.flops / m.median;
  }
  nlohmann::ordered_json all{{"op", op.name}};
  if (stream.device.kind == DeviceKind::cpu) all["threads"] = threads();
  else all["device"] = place(stream);
  all["cases"] = cases;
  return all.dump(1) + "\n";
}

Status bench(const Options& o, const std::vector<std::string>& rest) {
  BARACUDA_TRY_ASSIGN(op, known_op(o.op));
  BARACUDA_TRY_ASSIGN(words, split_words(rest));
  BARACUDA_TRY_ASSIGN(stream, stream_on(o.device));
  const std::vector<Sweep> sweeps = sweeps_of(*op, words);
  const std::vector<Settings> cases = cases_of(sweeps);
  const auto label_of = [&](const Settings& settings) {
    std::string label;
    for (size_t i = 0; i < sweeps.size(); ++i)
      if (sweeps[i].values.size() > 1) label += text(label.empty() ? "" : " ", settings[i].key, "=", settings[i].value);
    return label.empty() ? std::string(op->name) : label;
  };
  size_t width = 4;
  for (const Settings& settings : cases) {  // what is refused is refused before anything is timed
    BARACUDA_TRY(op->select(stream, settings, {.require_kernel = o.kernel}).status());
    width = std::max(width, label_of(settings).size());
  }
  for (const std::string* path : {&o.json, &o.svg})
    if (!path->empty()) BARACUDA_TRY(io::AtomicFile::create(*path).status());

  std::vector<Measured> list;
  fmt::print("{}, {}\n{:<{}}  {:>10}  {:>7}  {:>9}  {:>9}  {:>8}  {:>9}  kernel\n", op->name, place(stream), "case", width, "median", "spread", "GB/s", "copy GB/s",
             "of copy", "GFLOP/s");
  for (const Settings& settings : cases) {
    BARACUDA_TRY_ASSIGN(m, measure(stream, *op, settings, o));
    m.label = label_of(settings);
    fmt::print("{:<{}}  {:>10}  {:>6.1f}%  {:>9.3f}  {:>9.3f}  {:>8.3f}  {:>9}  {}\n", m.label, width, time_text(m.median), 100 * m.spread(), m.rate() * 1e-9,
               m.copy_rate * 1e-9, m.of_copy, m.flops > 0 ? fmt::format("{:.2f}", m.flops / m.median * 1e-9) : "-", m.kernel);
    list.push_back(std::move(m));
  }
  if (!o.json.empty()) BARACUDA_TRY(io::write_text(o.json, json_text(stream, *op, list)));
  if (!o.svg.empty()) {
    std::vector<Bar> bars;
    for (const Measured& m : list) bars.push_back({m.label, m.rate() * 1e-9, m.copy_rate * 1e-9, fmt::format("{}, {:.2f} of copy", time_text(m.median), m.of_copy)});
    BARACUDA_TRY(io::write_text(o.svg, bar_chart_svg({text("baracuda bench ", op->name), text(list[0].kernel, ", ", place(stream), ", medians"), "GB/s", "the plan",
                                                      "a copy", bars})));
  }
  return {};
}

}  // namespace

std::function<int()> bench_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("op", o->op, "the op")->required();
  add_device(app, o->device);
  app.add_option("--seconds", o->seconds, "least time of a case")->check(at_least(0, "a number of seconds"))->capture_default_str();
  app.add_option("--repeats", o->repeats, "least samples of a case")->check(at_least(1, "a positive number"))->capture_default_str();
  app.add_option("--elements", o->elements, "of a tensor whose shape no field says")->check(at_least(1, "a positive number"))->capture_default_str();
  app.add_option("--require-kernel", o->kernel, "time this kernel");
  app.add_option("--json", o->json, "write the measurements to this file");
  app.add_option("--svg", o->svg, "draw them into this file");
  app.allow_extras();
  app.footer("Behind the op: fields as field=value or --field value. Several values of a field, with commas (--m 1,2,4; a list such as shape\n"
             "takes a word each: --shape 4096,4096 --shape 1,65536), give a case for each combination.\n"
             "Values are multiples of 1/128 in [-1, 1) (integers: 0 or 1), optional arguments are left out. Times are wall times of run.\n"
             "GB/s counts every tensor whole, once where it is read and once where it is written, also where the op touches a part of it\n"
             "or reads it again. A copy of as many bytes, half of them read and half written past the caches by the same threads, is timed\n"
             "in turn with the plan: \"of copy\" is the median of the plan's rate over that of the copy just before it. It says little\n"
             "where the tensors stay in the caches, and arithmetic decides where the op tells GFLOP/s. The spread is half the distance of\n"
             "the quartiles over the median. With --device cuda runs are queued one behind another and the last is waited for, and the copy\n"
             "is the driver's.\n"
             "Example: baracuda bench rms_norm --shape 4096,4096 --dtype f32,bf16 --svg rms.svg");
  return [o, &app] {
    const Status s = bench(*o, app.remaining());
    fflush(stdout);
    return s.ok() ? kDone : fail("bench", s);
  };
}

}  // namespace baracuda::cli
