#pragma once
// DLPack in and out, without copies. Include it where <dlpack/dlpack.h> is installed; nothing else of the library needs it.
// Lifetimes stay with the caller: the view borrows the tensor's memory.
#include <dlpack/dlpack.h>
#include "baracuda/core/tensor.hpp"
#include "baracuda/core/text.hpp"

namespace baracuda {

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
  constexpr uint8_t kBool = 6;  // kDLBool of DLPack 0.8 and later
  if (t.dtype.lanes == 1)
    for (size_t i = 0; i < kDTypes; ++i) {
      const DTypeFacts& f = kDTypeFacts[i];
      const DType d = DType(i);
      if (f.bits != t.dtype.bits || f.bits < 8 || d == DType::f8e4m3 || d == DType::f8e5m2) continue;
      const uint8_t code = d == DType::boolean ? kBool : d == DType::bf16 ? uint8_t(kDLBfloat)
                           : f.complex ? uint8_t(kDLComplex) : f.floating ? uint8_t(kDLFloat) : f.is_signed ? uint8_t(kDLInt) : uint8_t(kDLUInt);
      if (code == t.dtype.code) v.dtype = d;
    }
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
  const DTypeFacts& f = kDTypeFacts[size_t(v.dtype)];
  if (f.bits < 8 || v.dtype == DType::f8e4m3 || v.dtype == DType::f8e5m2)
    return {Code::unsupported, text("dlpack: no code for ", name(v.dtype))};
  const uint8_t code = v.dtype == DType::boolean ? uint8_t(6) : v.dtype == DType::bf16 ? uint8_t(kDLBfloat)
                       : f.complex ? uint8_t(kDLComplex) : f.floating ? uint8_t(kDLFloat) : f.is_signed ? uint8_t(kDLInt) : uint8_t(kDLUInt);
  t = DLTensor{};
  t.data = v.data;
  t.device.device_type = v.device.kind == DeviceKind::cuda ? kDLCUDA : kDLCPU;
  t.device.device_id = v.device.index;
  t.ndim = v.shape.rank;
  t.dtype = {code, uint8_t(f.bits), 1};
  t.shape = v.shape.dim;
  t.strides = v.strides.dim;
  t.byte_offset = 0;
  return {};
}

}  // namespace baracuda
