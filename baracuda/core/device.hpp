#pragma once
// Where tensors live and where work is queued.
#include <cstdint>
#include <string>
#include "baracuda/core/status.hpp"

namespace baracuda {

enum class DeviceKind : uint8_t { cpu, cuda };
constexpr std::string_view name(DeviceKind k) { return k == DeviceKind::cpu ? "cpu" : "cuda"; }

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  friend constexpr bool operator==(Device, Device) = default;
};
std::string to_string(Device d);  // "cpu", "cuda:0"

// A place to run. CPU: `run` computes on the caller's thread and the library's thread team and returns when done.
// CUDA: `run` queues on the caller's cudaStream_t, whose device it respects and restores; the stream stays the caller's.
struct Stream {
  Device device;
  int arch = 0;             // CUDA: compute capability as 90 for 9.0; CPU: 0
  void* handle = nullptr;   // CUDA: cudaStream_t (null is the legacy default stream)

  static Stream cpu() { return {}; }
  // Loads the CUDA half on first use. unsupported: no CUDA half found, no driver, no such device, or no code for it;
  // the message says which and what was looked for.
  static Result<Stream> cuda(void* handle = nullptr, int device = 0);
};

}  // namespace baracuda
