#pragma once
// The safetensors format: 8 bytes little-endian header length, a JSON header, then the tensors back to back.
//   {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
// Format description: https://github.com/huggingface/safetensors (README, "Format").
#include <map>
#include "baracuda/core/tensor.hpp"
#include "baracuda/io/file.hpp"

namespace baracuda::io {

// The format's own limit on the header; nothing larger is ever allocated on behalf of a file.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t offset = 0;  // from the start of the file
  uint64_t bytes = 0;
};
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // by offset
  std::map<std::string, std::string, std::less<>> metadata;
  const SafetensorsEntry* find(std::string_view name) const;
};

// Every malformed header is one invalid_problem whose message names the tensor and the broken rule: length out of range,
// JSON errors (with position), duplicate names, unknown fields or dtypes, shapes whose size overflows, offsets that are
// out of range, overlap, leave a hole or disagree with dtype and shape, a data section that is too short or too long.
// unsupported: a rank above 8.
//   json: the header's bytes; data_bytes: how many bytes follow it in the file
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes);
// The same over a whole file in memory.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file);

// A file whose header has been checked; tensors are read one at a time into the caller's memory.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  const SafetensorsHeader& header() const { return header_; }
  const std::string& path() const { return file_.path(); }
  // Reads `name` into contiguous host memory of exactly its dtype and shape. invalid_problem: absent, other dtype or shape.
  Status read(std::string_view name, const TensorView& to) const;

 private:
  SafetensorsFile(InputFile file, SafetensorsHeader header) : file_(std::move(file)), header_(std::move(header)) {}
  InputFile file_;
  SafetensorsHeader header_;
};

struct NamedTensor { std::string name; TensorView tensor; };

// Writes contiguous host tensors atomically (AtomicFile). Larger element types go first, so that every tensor is aligned
// to its own type; otherwise the order given is kept. The header is padded to 8 bytes.
// invalid_problem: a tensor that is not contiguous or not on the host, a duplicate or reserved name, text that is not UTF-8.
Status write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                         const std::map<std::string, std::string, std::less<>>& metadata = {});

}  // namespace baracuda::io
