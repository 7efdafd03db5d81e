#pragma once
// The CUDA half is a library of its own, loaded when a CUDA stream is first asked for. It exports one function,
// `baracuda_cuda_half`, that returns this table. Both halves must come from one build: the ids are compared.
//
// Search order: the half that is linked into this program (baracuda::cuda_static); $BARACUDA_CUDA_LIBRARY (a file); the
// folder of this library; the loader's own path. The name is libbaracuda_cuda.so.<major>.<minor>.
#include <span>
#include "baracuda/core/device.hpp"

namespace baracuda {

struct CudaRows { std::string_view op; const void* kernels; size_t count; };  // kernels: Kernel<Op>[count]
// What a captured run consists of. A plan's run adds kernels, copies and fills only.
struct GraphFacts { int kernels = 0, copies = 0, fills = 0, allocations = 0, others = 0; };
struct CudaHalf {
  const char* build_id;
  std::span<const CudaRows> rows;
  std::string_view architectures;  // as built, for example "80 86 89 90a ptx-90"
  Status (*open_device)(int index, int& arch);
  Status (*allocate)(int index, uint64_t bytes, void*& data);
  void (*deallocate)(int index, void* data);
  // Between host and device, or on the device, in the order of the stream; host memory must stay until the stream is done.
  Status (*copy)(const Stream&, void* to, const void* from, uint64_t bytes);
  Status (*wait)(const Stream&);
  Status (*make_stream)(int index, void*& handle);  // does not wait for the default stream
  void (*drop_stream)(int index, void* handle);
  // Captures what run(data) queues on the stream into a graph; replay queues it again. backend_failure where something in
  // it cannot be captured (a wait, an allocation of the blocking kind).
  Status (*capture)(const Stream&, Status (*run)(void*), void* data, GraphFacts&, void*& graph);
  Status (*replay)(const Stream&, void* graph);
  void (*drop_graph)(void* graph);
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
