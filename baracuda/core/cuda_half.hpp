#pragma once
// The CUDA half is a library of its own, loaded when a CUDA stream is first asked for. It exports one function,
// `baracuda_cuda_half`, that returns this table. Both halves must come from one build: the ids are compared.
//
// Search order: $BARACUDA_CUDA_LIBRARY (a file); the folder of this library; the loader's own path. The name is
// libbaracuda_cuda.so.<major>.<minor>.
#include <span>
#include "baracuda/core/device.hpp"

namespace baracuda {

struct CudaRows { std::string_view op; const void* kernels; size_t count; };  // kernels: Kernel<Op>[count]
struct CudaHalf {
  const char* build_id;
  std::span<const CudaRows> rows;
  std::string_view architectures;  // as built, for example "80 86 89 90a ptx-90"
  Status (*open_device)(int index, int& arch);
  Status (*allocate)(int index, uint64_t bytes, void*& data);
  void (*deallocate)(int index, void* data);
};
using CudaHalfEntry = const CudaHalf* (*)();

// The loaded half, or why there is none; the first answer is kept for the process.
Result<const CudaHalf*> cuda_half();
// Loads a file and checks its id; used by cuda_half() and by tests.
Result<const CudaHalf*> load_cuda_half(const std::string& file);
// Rows for one op; empty without a CUDA half.
CudaRows cuda_rows(std::string_view op);

const char* version();   // "0.1.0"
const char* build_id();  // version, compiler and source hash of this build

}  // namespace baracuda
