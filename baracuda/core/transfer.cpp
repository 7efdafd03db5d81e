#include "baracuda/core/transfer.hpp"
#include <cstring>
#include "baracuda/core/cuda_half.hpp"

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

}  // namespace baracuda
