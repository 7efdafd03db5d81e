#include "baracuda/core/workspace.hpp"
#include <cstdlib>
#include <utility>
#include "baracuda/core/cuda_half.hpp"
#include "baracuda/core/text.hpp"

namespace baracuda {

void* Carver::take_bytes(std::string_view name, int64_t count, uint64_t element) {
  uint64_t bytes = 0, padded = 0, end = 0;
  if (count < 0 || __builtin_mul_overflow(uint64_t(count), element, &bytes) ||
      __builtin_add_overflow(bytes, kWorkspaceAlignment - 1, &padded) ||
      __builtin_add_overflow(used_, padded / kWorkspaceAlignment * kWorkspaceAlignment, &end)) {
    overflow_ = true;
    return nullptr;
  }
  void* p = base_ ? base_ + used_ : nullptr;
  used_ = end;
  if (items_ && bytes) items_->push_back({name, bytes});
  return p;
}

Result<void*> allocate(Device device, uint64_t bytes) {
  if (bytes == 0) return nullptr;
  void* p = nullptr;
  if (device.kind == DeviceKind::cuda) {
    BARACUDA_TRY_ASSIGN(half, cuda_half());
    BARACUDA_TRY(half->allocate(device.index, bytes, p));
    return p;
  }
  uint64_t rounded;
  if (!__builtin_add_overflow(bytes, kWorkspaceAlignment - 1, &rounded))
    p = std::aligned_alloc(kWorkspaceAlignment, rounded / kWorkspaceAlignment * kWorkspaceAlignment);
  if (!p) return Status(Code::out_of_memory, text("out of memory: ", bytes, " bytes on ", to_string(device)), bytes, 0);
  return p;
}
void deallocate(Device device, void* data) {
  if (!data) return;
  if (device.kind == DeviceKind::cpu) std::free(data);
  else if (auto half = cuda_half(); half.ok()) (*half)->deallocate(device.index, data);
}

ScratchArena::~ScratchArena() { deallocate(device_, memory_.data); }
Result<Workspace> ScratchArena::get(uint64_t bytes) {
  if (bytes > memory_.bytes) {
    deallocate(device_, std::exchange(memory_, {}).data);
    BARACUDA_TRY_ASSIGN(p, allocate(device_, bytes));
    memory_ = {p, bytes};
  }
  return Workspace{memory_.data, bytes};
}

}  // namespace baracuda
