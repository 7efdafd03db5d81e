// Any bytes as a safetensors file: a header that is accepted must describe the file without gaps or overlap, and its tensors
// must be readable; everything else is refused with a text.
#include <fcntl.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "baracuda/io/safetensors.hpp"

using namespace baracuda;

namespace {
void require(bool fact, const char* what) {
  if (fact) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}
const std::string& scratch() {
  static const std::string path = [] {
    const char* folder = std::getenv("TMPDIR");
    std::string p = std::string(folder ? folder : "/tmp") + "/fuzz_safetensors." + std::to_string(getpid());
    std::atexit([] { unlink(scratch().c_str()); });
    return p;
  }();
  return path;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  const auto header = io::parse_safetensors(file);
  if (!header.ok()) {
    require(!header.status().message().empty(), "refused without a reason");
    require(header.status().message().find('\n') == std::string::npos, "the reason has more than one line");
    return 0;
  }
  uint64_t at = header->tensors.empty() ? size : header->tensors.front().offset;
  for (const io::SafetensorsEntry& t : header->tensors) {
    require(t.offset == at, "tensors leave a hole or overlap");
    require(t.shape.valid() && uint64_t(t.shape.numel()) * uint64_t(bit_size(t.dtype)) == t.bytes * 8, "shape and bytes disagree");
    require(header->find(t.name) != nullptr, "a tensor is not found by its name");
    at += t.bytes;
  }
  require(at == size, "tensors do not fill the file");

  const int fd = open(scratch().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  require(fd >= 0 && write(fd, data, size) == ssize_t(size) && close(fd) == 0, "cannot write the scratch file");
  const auto opened = io::SafetensorsFile::open(scratch());
  require(opened.ok(), "the file is refused, its bytes were not");
  for (const io::SafetensorsEntry& t : opened->header().tensors) {
    std::vector<uint8_t> memory(t.bytes);
    const Status s = opened->read(t.name, TensorView::dense(memory.data(), t.dtype, t.shape));
    require(s.ok() || byte_size(t.dtype) == 0, "a tensor is refused");
    if (s.ok()) require(memory.empty() || std::memcmp(memory.data(), data + t.offset, t.bytes) == 0, "a tensor has other bytes");
  }
  return 0;
}
