#include "baracuda/core/transfer.hpp"
#include <charconv>
#include <cstring>
#include "baracuda/core/cuda_half.hpp"
#include "baracuda/core/text.hpp"

namespace baracuda {

Status copy(const Stream& stream, void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return {};
  if (stream.device.kind == DeviceKind::cpu) return std::memcpy(to, from, bytes), Status();
  BARACUDA_TRY_ASSIGN(half, cuda_half());
  return half->copy(stream, to, from, bytes);
}
Status wait(const Stream& stream) {
  if (stream.device.kind == DeviceKind::cpu) return {};
  BARACUDA_TRY_ASSIGN(half, cuda_half());
  return half->wait(stream);
}
Result<Device> parse_device(std::string_view word) {
  constexpr std::string_view kNumbered = "cuda:";
  if (word == "cpu") return Device{};
  if (word == "cuda") return Device{DeviceKind::cuda, 0};
  if (word.starts_with(kNumbered)) {
    int n = -1;
    const auto [end, error] = std::from_chars(word.data() + kNumbered.size(), word.data() + word.size(), n);
    if (error == std::errc() && end == word.data() + word.size() && n >= 0) return Device{DeviceKind::cuda, n};
  }
  return Status(Code::invalid_problem, text("no device '", word, "'; they are cpu, cuda and cuda:N"));
}

}  // namespace baracuda
