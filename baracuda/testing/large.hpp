#pragma once
// Dense tensors that are larger than the caches, where kernels write past them (host/past.hpp). The same case with its output one
// element off the boundary of a cache line takes the ordinary stores: the bits must agree.
#include <cstring>
#include <memory>
#include "baracuda/host/past.hpp"
#include "baracuda/testing/tensor.hpp"

namespace baracuda::testing {

class Large {
 public:
  // The first element stands `off` elements behind a multiple of 64 bytes. Values repeat with a period of 1021.
  Large(DType t, const Shape& shape, int64_t off = 0)
      : memory_(static_cast<char*>(std::aligned_alloc(64, (size_t(shape.numel() + off) * byte_size(t) / 64 + 1) * 64)), std::free) {
    const size_t size = byte_size(t), bytes = size_t(shape.numel()) * size;
    char* p = memory_.get() + size_t(off) * size;
    view_ = TensorView::dense(p, t, shape);
    Source source(5);
    for (size_t i = 0; i < std::min<size_t>(1021, bytes / size); ++i) write_element(t, p + i * size, source.normal());
    for (size_t done = 1021 * size; done < bytes; done += std::min(done, bytes - done)) std::memcpy(p + done, p, std::min(done, bytes - done));
  }
  operator const TensorView&() const { return view_; }
  const TensorView& view() const { return view_; }
  bool same_bits(const Large& other) const {
    return std::memcmp(view_.data, other.view_.data, size_t(view_.numel()) * byte_size(view_.dtype)) == 0;
  }

 private:
  std::unique_ptr<char, void (*)(void*)> memory_;
  TensorView view_;
};

}  // namespace baracuda::testing
