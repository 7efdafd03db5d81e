#pragma once
// What a family's rows and its kernel file say to each other: a launch function takes plain structs and a stream, and gives
// a CUDA error number (0: queued).
#include <string_view>
#include "baracuda/core/device.hpp"

namespace baracuda::device {

// The error as a status: backend_failure with CUDA's name and text.
Status cuda_status(int error, std::string_view kernel);

// Makes the stream's device the current one for a scope.
class OnDevice {
 public:
  explicit OnDevice(const Stream& stream);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  int error() const { return error_; }

 private:
  int before_ = -1, error_ = 0;
};

// f() queues and returns the error number.
template <class F> Status queue(const Stream& stream, std::string_view kernel, F&& f) {
  OnDevice on(stream);
  return cuda_status(on.error() ? on.error() : f(), kernel);
}

// Facts of a device that launches and row choices need; read once.
struct DeviceFacts { int arch = 0, multiprocessors = 1, shared_bytes_per_block = 0, shared_bytes_per_sm = 0; };
const DeviceFacts& facts(int device);

// For prepare() of rows with instructions of 9.0 alone: a newer device has others, and code for 9.0 that is not sm_90a has none of them,
// but empty kernels in their place. unsupported, or the reason why there is no answer.
Status only_sm90a(const Stream& stream);

}  // namespace baracuda::device
