#pragma once
// DLPack in and out, without copies. Include it where <dlpack/dlpack.h> is installed; nothing else of the library needs it.
// Lifetimes stay with the caller: the view borrows the tensor's memory.
#include <dlpack/dlpack.h>
#include <optional>
#include "baracuda/core/tensor.hpp"
#include "baracuda/core/text.hpp"

namespace baracuda {

// Nothing for the packed types. The codes that DLPack 0.6 lacks are those of DLPack 1.1: frameworks exchange 8-bit floats by them.
inline std::optional<DLDataType> dlpack_dtype(DType t) {
  if (!valid(t) || bit_size(t) < 8) return {};
  constexpr uint8_t kBool = 6, kFloat8_e4m3fn = 10, kFloat8_e4m3fnuz = 11, kFloat8_e5m2 = 12, kFloat8_e5m2fnuz = 13;
  const DTypeFacts& f = kDTypeFacts[size_t(t)];
  const uint8_t code = t == DType::boolean ? kBool : t == DType::bf16 ? uint8_t(kDLBfloat)
                       : t == DType::f8_e4m3fn ? kFloat8_e4m3fn : t == DType::f8_e4m3fnuz ? kFloat8_e4m3fnuz
                       : t == DType::f8_e5m2 ? kFloat8_e5m2 : t == DType::f8_e5m2fnuz ? kFloat8_e5m2fnuz
                       : f.complex ? uint8_t(kDLComplex) : f.floating ? uint8_t(kDLFloat) : f.is_signed ? uint8_t(kDLInt) : uint8_t(kDLUInt);
  return DLDataType{code, uint8_t(f.bits), 1};
}

inline Result<TensorView> from_dlpack(const DLTensor& t) {
  TensorView v;
  if (t.ndim < 0 || t.ndim > kMaxRank)
    return Status(Code::invalid_problem, text("dlpack: rank ", t.ndim, " is outside 0..", kMaxRank));
  switch (t.device.device_type) {
    case kDLCPU: v.device = {DeviceKind::cpu, 0}; break;
    case kDLCUDAHost: v.device = {DeviceKind::cpu, 0}; break;
    case kDLCUDA: v.device = {DeviceKind::cuda, t.device.device_id}; break;
    default: return Status(Code::unsupported, text("dlpack: device type ", int(t.device.device_type), " is neither CPU nor CUDA"));
  }
  v.dtype = DType::count;
  for (size_t i = 0; i < kDTypes; ++i)
    if (const auto d = dlpack_dtype(DType(i)); d && d->code == t.dtype.code && d->bits == t.dtype.bits && d->lanes == t.dtype.lanes) v.dtype = DType(i);
  if (v.dtype == DType::count)
    return Status(Code::unsupported, text("dlpack: no dtype for code ", int(t.dtype.code), ", ", int(t.dtype.bits), " bits, ",
                                          int(t.dtype.lanes), " lanes"));
  for (int i = 0; i < t.ndim; ++i) v.shape.push_back(t.shape[i]);
  if (!v.shape.valid()) return Status(Code::invalid_problem, text("dlpack: ", v.shape, " is not a shape"));
  v.strides = v.shape.contiguous();
  if (t.strides) for (int i = 0; i < t.ndim; ++i) v.strides[i] = t.strides[i];
  v.data = t.data ? static_cast<char*>(t.data) + t.byte_offset : nullptr;
  return v;
}

// Fills `t`; shape and strides point into `v`, which must outlive it.
inline Status to_dlpack(TensorView& v, DLTensor& t) {
  const auto dtype = dlpack_dtype(v.dtype);
  if (!dtype) return {Code::unsupported, text("dlpack: no code for ", name(v.dtype))};
  t = DLTensor{};
  t.data = v.data;
  t.device.device_type = v.device.kind == DeviceKind::cuda ? kDLCUDA : kDLCPU;
  t.device.device_id = v.device.index;
  t.ndim = v.shape.rank;
  t.dtype = *dtype;
  t.shape = v.shape.dim;
  t.strides = v.strides.dim;
  t.byte_offset = 0;
  return {};
}

}  // namespace baracuda
