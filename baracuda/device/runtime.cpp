// The table that the CUDA half hands to core, over the CUDA runtime.
#include <cuda_runtime.h>
#include <array>
#include <atomic>
#include <mutex>
#include "baracuda/core/cuda_half.hpp"
#include "baracuda/core/text.hpp"
#include "baracuda/device/code.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda_version.hpp"

namespace baracuda::device {

Status cuda_status(int error, std::string_view kernel) {
  if (error == 0) return {};
  const auto e = cudaError_t(error);
  if (e == cudaErrorMemoryAllocation) return Status(Code::out_of_memory, text(kernel, ": ", cudaGetErrorName(e), ", ", cudaGetErrorString(e)));
  return Status(Code::backend_failure, text(kernel, ": CUDA error ", error, " ", cudaGetErrorName(e), ", ", cudaGetErrorString(e)));
}

OnDevice::OnDevice(const Stream& stream) {
  int now = 0;
  error_ = int(cudaGetDevice(&now));
  if (error_ || now == stream.device.index) return;
  error_ = int(cudaSetDevice(stream.device.index));
  if (!error_) before_ = now;
}
OnDevice::~OnDevice() { if (before_ >= 0) (void)cudaSetDevice(before_); }

namespace {

constexpr int kMostDevices = 64;
Status read_facts(int device, DeviceFacts& f) {
  int major = 0, minor = 0;
  const struct { cudaDeviceAttr attribute; int* to; } wanted[] = {
      {cudaDevAttrComputeCapabilityMajor, &major}, {cudaDevAttrComputeCapabilityMinor, &minor}, {cudaDevAttrMultiProcessorCount, &f.multiprocessors},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, &f.shared_bytes_per_block}, {cudaDevAttrMaxSharedMemoryPerMultiprocessor, &f.shared_bytes_per_sm}};
  for (const auto& w : wanted) BARACUDA_TRY(cuda_status(int(cudaDeviceGetAttribute(w.to, w.attribute, device)), "cuda: device attributes"));
  f.arch = 10 * major + minor;
  return {};
}
// Kernels are chosen by what runs: on a device that is newer than all code of this build, code for an older one.
Status read_code(int device, DeviceFacts& f) {
  OnDevice on(Stream{{DeviceKind::cuda, device}, 0, nullptr});
  BARACUDA_TRY(cuda_status(on.error(), "cuda: device"));
  CodeFacts code;
  if (const int error = find_code(code)) {
    (void)cudaGetLastError();
    return Status(Code::unsupported, text("cuda: device ", device, " has compute capability ", f.arch / 10, ".", f.arch % 10, ", this build has code for ", BARACUDA_CUDA_BUILT_FOR,
                                          " (", cudaGetErrorName(cudaError_t(error)), ")"));
  }
  if (code.arch < f.arch) f.arch = code.arch;
  return {};
}
Status open_device(int index, int& arch) {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return Status(Code::unsupported, "cuda: no driver is installed on this machine (libcuda.so.1 was not found)");
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted == cudaErrorInsufficientDriver)
    return Status(Code::unsupported, text("cuda: the driver serves CUDA ", driver / 1000, ".", driver % 1000 / 10, ", this build needs ", CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10));
  if (counted == cudaErrorNoDevice || (counted == cudaSuccess && count == 0)) return Status(Code::unsupported, "cuda: the driver sees no device");
  BARACUDA_TRY(cuda_status(int(counted), "cuda: devices"));
  if (index < 0 || index >= count) return Status(Code::unsupported, text("cuda: there is no device ", index, ", the driver sees ", count));
  DeviceFacts f;
  BARACUDA_TRY(read_facts(index, f));
  BARACUDA_TRY(read_code(index, f));
  arch = f.arch;
  return {};
}
Status allocate(int index, uint64_t bytes, void*& data) {
  OnDevice on(Stream{{DeviceKind::cuda, index}, 0, nullptr});
  BARACUDA_TRY(cuda_status(on.error(), "cuda: device"));
  const cudaError_t e = cudaMalloc(&data, bytes ? bytes : 1);
  if (e != cudaSuccess) (void)cudaGetLastError();
  return e == cudaErrorMemoryAllocation ? Status(Code::out_of_memory, text("cuda:", index, ": ", bytes, " bytes")) : cuda_status(int(e), "cudaMalloc");
}
void deallocate(int index, void* data) {
  OnDevice on(Stream{{DeviceKind::cuda, index}, 0, nullptr});
  if (!on.error()) (void)cudaFree(data);
}
Status copy(const Stream& s, void* to, const void* from, uint64_t bytes) {
  return queue(s, "cudaMemcpyAsync", [&] { return int(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(s.handle))); });
}
Status wait(const Stream& s) {
  return queue(s, "cudaStreamSynchronize", [&] { return int(cudaStreamSynchronize(static_cast<cudaStream_t>(s.handle))); });
}
Status make_stream(int index, void*& handle) {
  const Stream s{{DeviceKind::cuda, index}, 0, nullptr};
  return queue(s, "cudaStreamCreate", [&] { return int(cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(&handle), cudaStreamNonBlocking)); });
}
void drop_stream(int index, void* handle) {
  OnDevice on(Stream{{DeviceKind::cuda, index}, 0, nullptr});
  if (!on.error()) (void)cudaStreamDestroy(static_cast<cudaStream_t>(handle));
}

struct Captured { cudaGraph_t graph = nullptr; cudaGraphExec_t exec = nullptr; };
Status capture(const Stream& s, Status (*run)(void*), void* data, GraphFacts& facts, void*& graph) {
  OnDevice on(s);
  BARACUDA_TRY(cuda_status(on.error(), "cuda: device"));
  const auto stream = static_cast<cudaStream_t>(s.handle);
  BARACUDA_TRY(cuda_status(int(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)), "cudaStreamBeginCapture"));
  const Status ran = run(data);
  Captured c;
  const int ended = int(cudaStreamEndCapture(stream, &c.graph));
  const auto fail = [&](Status status) {
    (void)cudaGetLastError();
    if (c.graph) (void)cudaGraphDestroy(c.graph);
    return status;
  };
  if (!ran.ok()) return fail(ran);
  if (ended) return fail(cuda_status(ended, "cudaStreamEndCapture"));
  size_t count = 0;
  if (const int e = int(cudaGraphGetNodes(c.graph, nullptr, &count))) return fail(cuda_status(e, "cudaGraphGetNodes"));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count)
    if (const int e = int(cudaGraphGetNodes(c.graph, nodes.data(), &count))) return fail(cuda_status(e, "cudaGraphGetNodes"));
  facts = {};
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    if (const int e = int(cudaGraphNodeGetType(node, &type))) return fail(cuda_status(e, "cudaGraphNodeGetType"));
    ++(type == cudaGraphNodeTypeKernel ? facts.kernels : type == cudaGraphNodeTypeMemcpy ? facts.copies : type == cudaGraphNodeTypeMemset ? facts.fills
       : type == cudaGraphNodeTypeMemAlloc || type == cudaGraphNodeTypeMemFree ? facts.allocations : facts.others);
  }
  if (const int e = int(cudaGraphInstantiate(&c.exec, c.graph, 0))) return fail(cuda_status(e, "cudaGraphInstantiate"));
  graph = new Captured(c);
  return {};
}
Status replay(const Stream& s, void* graph) {
  return queue(s, "cudaGraphLaunch", [&] { return int(cudaGraphLaunch(static_cast<Captured*>(graph)->exec, static_cast<cudaStream_t>(s.handle))); });
}
void drop_graph(void* graph) {
  const auto* c = static_cast<Captured*>(graph);
  (void)cudaGraphExecDestroy(c->exec);
  (void)cudaGraphDestroy(c->graph);
  delete c;
}

}  // namespace

const DeviceFacts& facts(int device) {
  static std::array<DeviceFacts, kMostDevices> known;
  static std::array<std::once_flag, kMostDevices> once;
  const size_t i = size_t(device < 0 || device >= kMostDevices ? 0 : device);
  std::call_once(once[i], [&] { if (read_facts(device, known[i]).ok()) (void)read_code(device, known[i]); });
  return known[i];
}
Status only_sm90a(const Stream& stream) {
  CodeFacts code;
  BARACUDA_TRY(queue(stream, "cuda: code of the device", [&] { return find_code(code); }));
  return code.only_90 ? Status() : Status(Code::unsupported, "for compute capability 9.0 alone, and what runs on this device was not built for sm_90a");
}

}  // namespace baracuda::device

extern "C" __attribute__((visibility("default"))) const baracuda::CudaHalf* baracuda_cuda_half() {
  using namespace baracuda;
  static const CudaHalf half{BARACUDA_BUILD_ID, device::rows(), BARACUDA_CUDA_BUILT_FOR, device::open_device, device::allocate, device::deallocate,
                             device::copy, device::wait, device::make_stream, device::drop_stream, device::capture, device::replay, device::drop_graph};
  return &half;
}
