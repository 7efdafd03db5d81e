#include "baracuda/core/cuda_half.hpp"
#include <dlfcn.h>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include "baracuda/core/text.hpp"
#include "baracuda_version.hpp"

// Defined where the half is linked in: in a program with baracuda::cuda_static, and in the half itself, whose plans may hold plans.
extern "C" __attribute__((weak)) const baracuda::CudaHalf* baracuda_cuda_half();

namespace baracuda {

const char* version() { return BARACUDA_VERSION; }
const char* build_id() { return BARACUDA_BUILD_ID; }

Result<const CudaHalf*> load_cuda_half(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return Status(Code::unsupported, text("cuda half: ", dlerror()));
  const auto entry = reinterpret_cast<CudaHalfEntry>(dlsym(library, "baracuda_cuda_half"));
  if (!entry) {
    dlclose(library);
    return Status(Code::unsupported, text("cuda half: ", file, " does not export baracuda_cuda_half"));
  }
  const CudaHalf* half = entry();
  if (std::string_view(half->build_id) != build_id()) {
    std::string message = text("cuda half: ", file, " was built as ", half->build_id, ", this library as ", build_id(),
                               "; both must come from one build");
    dlclose(library);
    return Status(Code::unsupported, message);
  }
  return half;
}

namespace {
std::string own_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void*>(&build_id), &info) || !info.dli_fname) return {};
  return std::filesystem::path(info.dli_fname).parent_path().string();
}
Result<const CudaHalf*> search() {
  if (const char* file = std::getenv("BARACUDA_CUDA_LIBRARY"); file && *file) return load_cuda_half(file);
  const std::string name = "libbaracuda_cuda.so." BARACUDA_SOVERSION;
  std::string tried;
  for (const std::string& file : {own_folder() + "/" + name, name}) {
    auto half = load_cuda_half(file);
    if (half.ok()) return half;
    tried += text(tried.empty() ? "" : "; ", half.status().message());
  }
  return Status(Code::unsupported, text("no CUDA half: ", tried));
}
}  // namespace

Result<const CudaHalf*> cuda_half() {
  static const Result<const CudaHalf*> half = baracuda_cuda_half ? Result<const CudaHalf*>(baracuda_cuda_half()) : search();
  return half;
}
CudaRows cuda_rows(std::string_view op) {
  if (const auto half = cuda_half(); half.ok())
    for (const CudaRows& r : (*half)->rows)
      if (r.op == op) return r;
  return {op, nullptr, 0};
}

Result<Stream> Stream::cuda(void* handle, int device) {
  BARACUDA_TRY_ASSIGN(half, cuda_half());
  Stream s{{DeviceKind::cuda, device}, 0, handle};
  BARACUDA_TRY(half->open_device(device, s.arch));
  return s;
}

}  // namespace baracuda
