#pragma once
// Memory for many tensors in one allocation: every tensor is announced first, then all get their places at once.
#include <utility>
#include <vector>
#include "baracuda/core/tensor.hpp"
#include "baracuda/core/workspace.hpp"

namespace baracuda::cli {

class Arena {
 public:
  explicit Arena(Device device = {}) : device_(device) {}
  ~Arena() { if (memory_) deallocate(device_, memory_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // `view` is filled in by allocate() and must stay where it is until then. Tensors follow each other in the order of
  // announcement, each aligned to kWorkspaceAlignment.
  void add(TensorView& view, DType dtype, const Shape& shape) {
    view = TensorView::dense(nullptr, dtype, shape, device_);
    pieces_.push_back({&view, bytes_});
    const uint64_t size = uint64_t(shape.numel()) * byte_size(dtype);
    bytes_ += (size + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  }
  uint64_t bytes() const { return bytes_; }
  Status allocate() {
    BARACUDA_TRY_ASSIGN(memory, baracuda::allocate(device_, bytes_));
    memory_ = memory;
    for (const auto& [view, offset] : pieces_) view->data = static_cast<char*>(memory_) + offset;
    pieces_.clear();
    return {};
  }

 private:
  Device device_;
  void* memory_ = nullptr;
  uint64_t bytes_ = 0;
  std::vector<std::pair<TensorView*, uint64_t>> pieces_;
};

}  // namespace baracuda::cli
