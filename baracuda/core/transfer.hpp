#pragma once
// Copies between host and device, for programs that hold memory on both.
#include "baracuda/core/device.hpp"

namespace baracuda {

// In the order of the stream, and done when it has been waited for: until then host memory stays as it is. On the CPU at once.
Status copy(const Stream& stream, void* to, const void* from, uint64_t bytes);
// Until everything queued on the stream is done; errors of what was queued come back here.
Status wait(const Stream& stream);

}  // namespace baracuda
