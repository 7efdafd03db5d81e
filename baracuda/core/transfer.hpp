#pragma once
// For programs that hold memory on host and device: copies between them, and devices by their words.
#include <string_view>
#include "baracuda/core/device.hpp"

namespace baracuda {

// In the order of the stream, and done when it has been waited for: until then host memory stays as it is. On the CPU at once.
Status copy(const Stream& stream, void* to, const void* from, uint64_t bytes);
// Until everything queued on the stream is done; errors of what was queued come back here.
Status wait(const Stream& stream);

// "cpu", "cuda", which is cuda:0, or "cuda:N".
Result<Device> parse_device(std::string_view word);

}  // namespace baracuda
