#include "baracuda/core/tensor.hpp"
#include "baracuda/core/text.hpp"

namespace baracuda {

std::string to_string(Device d) { return d.kind == DeviceKind::cpu ? "cpu" : text("cuda:", d.index); }

Extent extent(const TensorView& v) {
  if (v.shape.numel() <= 0) return {0, -1};
  Extent e{0, 0};
  for (int i = 0; i < v.shape.rank; ++i) {
    const int64_t reach = (v.shape[i] - 1) * v.strides[i];
    (reach < 0 ? e.low : e.high) += reach;
  }
  return e;
}

Result<TensorView> TensorView::over(void* memory, uint64_t bytes, DType dtype, const Shape& shape, const Strides* strides,
                                    int64_t offset, Device device) {
  if (!baracuda::valid(dtype)) return Status(Code::invalid_problem, "tensor: invalid dtype");
  if (!shape.valid()) return Status(Code::invalid_problem, text("tensor: ", shape, " is not a shape"));
  if (byte_size(dtype) == 0) return Status(Code::unsupported, text("tensor: views of packed ", name(dtype), " are not offered"));
  if (strides && strides->rank != shape.rank)
    return Status(Code::invalid_problem, text("tensor: ", strides->rank, " strides for rank ", shape.rank));
  TensorView v{memory, dtype, device, shape, strides ? *strides : shape.contiguous()};
  if (shape.numel() == 0) return v;
  // In 128 bits, so that no stride can wrap around.
  __int128 low = offset, high = offset;
  for (int i = 0; i < shape.rank; ++i) {
    const __int128 reach = __int128(shape[i] - 1) * v.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const __int128 size = byte_size(dtype);
  if (low < 0)
    return Status(Code::invalid_problem, text("tensor: strides ", v.strides, " reach ", uint64_t(-low), " elements before the memory"));
  const __int128 needed = (high + 1) * size;
  if (needed > __int128(bytes)) {
    const uint64_t n = needed > __int128(UINT64_MAX) ? UINT64_MAX : uint64_t(needed);
    return Status(Code::buffer_too_small, text("tensor: shape ", shape, " strides ", v.strides, " of ", name(dtype), " needs ", n,
                                               " bytes, the memory has ", bytes), n, bytes);
  }
  if (uintptr_t(memory) % byte_size(dtype))
    return Status(Code::misaligned_operand, text("tensor: memory is not aligned to ", byte_size(dtype), " bytes of ", name(dtype)));
  v.data = static_cast<char*>(memory) + offset * int64_t(size);
  return v;
}

}  // namespace baracuda
