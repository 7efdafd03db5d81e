#include "cli/tensor_files.hpp"
#include "baracuda/core/text.hpp"
#include "baracuda/io/safetensors.hpp"

namespace baracuda::cli {
namespace {

constexpr std::string_view kNpy = ".npy", kSafetensors = ".safetensors";

// FILE and NAME of "FILE.safetensors:NAME".
std::pair<std::string, std::string> split(const std::string& where) {
  const size_t at = where.rfind(".safetensors:");
  if (at == where.npos) return {where, {}};
  return {where.substr(0, at + kSafetensors.size()), where.substr(at + kSafetensors.size() + 1)};
}

}  // namespace

bool is_tensor_file(std::string_view v) { return v.ends_with(kNpy) || v.ends_with(kSafetensors) || v.find(".safetensors:") != v.npos; }

Result<io::HostTensor> load_tensor(const std::string& where) {
  if (where.ends_with(kNpy)) return io::read_npy(where);
  if (!is_tensor_file(where)) return Status(Code::invalid_problem, text("'", where, "' is neither FILE.npy nor FILE.safetensors:NAME"));
  auto [path, name] = split(where);
  BARACUDA_TRY_ASSIGN(file, io::SafetensorsFile::open(path));
  const auto& tensors = file.header().tensors;
  if (name.empty()) {
    if (tensors.size() != 1) return Status(Code::invalid_problem, text(path, " holds ", tensors.size(), " tensors; name one as ", path, ":NAME"));
    name = tensors[0].name;
  }
  const io::SafetensorsEntry* e = file.header().find(name);
  if (!e) return Status(Code::invalid_problem, text(path, " holds no tensor ", io::in_quotes(name)));
  Result<io::HostTensor> t = io::HostTensor::make(e->dtype, e->shape);
  if (t.ok()) BARACUDA_TRY(file.read(name, t->view()));
  return t;
}

Status TensorWriter::add(const std::string& where, std::string_view name, const TensorView& tensor) {
  if (!is_tensor_file(where)) return {Code::invalid_problem, text("'", where, "' is neither FILE.npy nor FILE.safetensors:NAME")};
  const auto [path, given] = split(where);
  std::vector<Entry>& entries = files_[path];
  if (path.ends_with(kNpy) && !entries.empty()) return {Code::invalid_problem, text(path, " takes one tensor, ", entries[0].name, " and ", name, " go there")};
  entries.push_back({given.empty() ? std::string(name) : given, tensor});
  return {};
}
Status TensorWriter::write() const {
  for (const auto& [path, entries] : files_) {
    if (path.ends_with(kNpy)) {
      BARACUDA_TRY(io::write_npy(path, entries[0].tensor));
      continue;
    }
    std::vector<io::NamedTensor> list;
    for (const Entry& e : entries) list.push_back({e.name, e.tensor});
    BARACUDA_TRY(io::write_safetensors(path, list));
  }
  return {};
}

}  // namespace baracuda::cli
