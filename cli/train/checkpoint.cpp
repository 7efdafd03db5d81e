#include "cli/train/checkpoint.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include "cli/train/data.hpp"

namespace baracuda::cli {
namespace {

using Metadata = std::map<std::string, std::string, std::less<>>;

constexpr std::string_view kKind = "baracuda train 1";  // the number counts layouts of this file
constexpr std::string_view kChecksum = "checksum";
constexpr const char *kLosses = "train.losses", *kHeldOut = "train.held_out";

Metadata describe_settings(const Settings& s) {
  Metadata m{{"format", "pt"}};
  for_each_field<Settings>([&](const auto& f) { m["settings." + std::string(f.name)] = field_text(s.*f.member); });
  return m;
}

template <class T> bool parse_number(std::string_view text, T& value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

// Four chains over words of eight bytes, a tail byte by byte.
class Checksum {
 public:
  void add(const void* data, size_t n) {
    const char* p = static_cast<const char*>(data);
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
      for (size_t k = 0; k < 4; ++k) {
        uint64_t word;
        memcpy(&word, p + i + 8 * k, 8);
        lane_[k] = (lane_[k] ^ word) * 0x9e3779b97f4a7c15u;
        lane_[k] ^= lane_[k] >> 29;
      }
    for (; i < n; ++i) lane_[0] = mix(lane_[0], static_cast<uint8_t>(p[i]));
  }
  void add(std::string_view text) { add(text.data(), text.size()), lane_[1] = mix(lane_[1], text.size()); }
  uint64_t value() const { return mix(mix(lane_[0], lane_[1]), mix(lane_[2], lane_[3])); }

 private:
  uint64_t lane_[4] = {1, 2, 3, 4};
};

// Of metadata, names and contents; the entry "checksum" itself apart.
uint64_t checksum(const Metadata& metadata, std::span<const io::NamedTensor> tensors) {
  Checksum sum;
  for (const auto& [key, value] : metadata)
    if (key != kChecksum) sum.add(key), sum.add(value);
  for (const io::NamedTensor& t : tensors) {
    sum.add(t.name);
    sum.add(t.tensor.data, size_t(t.tensor.numel()) * byte_size(t.tensor.dtype));
  }
  return sum.value();
}

// The tensors of a checkpoint: the given ones, then the history of losses, which `pairs` holds in the form of the file.
std::vector<io::NamedTensor> with_history(std::span<const io::NamedTensor> tensors, const RunState& state, std::vector<double>& pairs) {
  for (const HeldOut& h : state.held_out) pairs.insert(pairs.end(), {h.step, h.loss});
  std::vector<io::NamedTensor> all(tensors.begin(), tensors.end());
  all.push_back({kLosses, TensorView::dense(state.losses.data(), {int64_t(state.losses.size())})});
  all.push_back({kHeldOut, TensorView::dense(pairs.data(), {int64_t(state.held_out.size()), 2})});
  return all;
}

}  // namespace

Status save_tensors(const std::string& path, const Settings& settings, std::span<const io::NamedTensor> tensors) {
  return io::write_safetensors(path, tensors, describe_settings(settings));
}

Status save_checkpoint(const std::string& path, const RunState& state, std::span<const io::NamedTensor> tensors) {
  Metadata m = describe_settings(state.settings);
  m["kind"] = kKind;
  m["step"] = std::to_string(state.step);
  m["text.path"] = state.text_path;
  m["text.fingerprint"] = fmt::format("{:016x}", state.text_fingerprint);
  std::vector<double> pairs;
  const std::vector<io::NamedTensor> all = with_history(tensors, state, pairs);
  m[std::string(kChecksum)] = fmt::format("{:016x}", checksum(m, all));
  return io::write_safetensors(path, all, m);
}

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  BARACUDA_TRY_ASSIGN(file, io::SafetensorsFile::open(path));
  const auto wrong = [&](const std::string& why) { return Status(Code::invalid_problem, io::in_quotes(path) + ": " + why); };
  const Metadata& m = file.header().metadata;
  const auto get = [&](std::string_view key) -> std::string_view {
    const auto it = m.find(key);
    return it == m.end() ? std::string_view() : std::string_view(it->second);
  };
  if (get("kind") != kKind) return wrong("not a checkpoint of this program's `train` (its metadata lacks kind = '" + std::string(kKind) + "')");
  RunState s;
  Status status;
  for_each_field<Settings>([&](const auto& f) {
    const std::string key = "settings." + std::string(f.name);
    if (!status.ok()) return;
    if (!m.contains(key)) status = wrong("the metadata lacks " + key);
    else if (Status set = set_field(s.settings, f.name, get(key)); !set.ok()) status = wrong(set.message());
  });
  BARACUDA_TRY(status);
  if (Status valid = validate(s.settings); !valid.ok()) return wrong(valid.message());
  if (!parse_number(get("step"), s.step, 10) || s.step < 0 || s.step > s.settings.steps)
    return wrong("the metadata's step " + io::in_quotes(get("step")) + " is not in [0, " + std::to_string(s.settings.steps) + "]");
  if (!parse_number(get("text.fingerprint"), s.text_fingerprint, 16)) return wrong("the metadata lacks text.fingerprint");
  uint64_t sum = 0;
  if (!parse_number(get(kChecksum), sum, 16)) return wrong("the metadata lacks checksum");
  s.text_path = get("text.path");
  // The header's sizes have been checked against the file, so these allocations are no larger than the file.
  const auto* losses = file.header().find(kLosses);
  if (!losses || losses->shape != Shape{s.step}) return wrong("losses and step disagree");
  s.losses.resize(size_t(s.step));
  BARACUDA_TRY(file.read(kLosses, TensorView::dense(s.losses.data(), {s.step})));
  const auto* held_out = file.header().find(kHeldOut);
  if (!held_out || held_out->dtype != DType::f64 || held_out->shape.rank != 2 || held_out->shape[1] != 2) return wrong("held-out losses are malformed");
  std::vector<double> pairs(size_t(2 * held_out->shape[0]));
  BARACUDA_TRY(file.read(kHeldOut, TensorView::dense(pairs.data(), held_out->shape)));
  for (size_t i = 0; i < pairs.size(); i += 2) s.held_out.push_back({pairs[i], pairs[i + 1]});
  return Checkpoint(std::move(file), std::move(s), sum);
}

Status Checkpoint::read(std::span<const io::NamedTensor> tensors) const {
  for (const io::NamedTensor& t : tensors) BARACUDA_TRY(file_.read(t.name, t.tensor));
  std::vector<double> pairs;
  const std::vector<io::NamedTensor> all = with_history(tensors, state_, pairs);
  const auto wrong = [&](const std::string& why) { return Status(Code::invalid_problem, io::in_quotes(file_.path()) + ": " + why); };
  if (file_.header().tensors.size() != all.size()) return wrong(fmt::format("{} tensors, expected {}", file_.header().tensors.size(), all.size()));
  if (checksum(file_.header().metadata, all) != checksum_) return wrong("damaged: contents and checksum disagree");
  return {};
}

}  // namespace baracuda::cli
