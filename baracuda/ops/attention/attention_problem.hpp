#pragma once
// From descriptor and arguments to what the kernels take; shared by the launches of forward and backward.
#include "baracuda/ops/attention/attention.hpp"
#include "baracuda/ops/attention/attention_cpu.hpp"

namespace baracuda::attention {

Status validate(std::string_view op, const SdpaDescriptor& d);
// Shapes of q and k, v and y, lse as the descriptor has them.
Shape q_shape(const SdpaDescriptor& d, int64_t width);
Shape k_shape(const SdpaDescriptor& d, int64_t width);
Shape lse_shape(const SdpaDescriptor& d);
// dtype, shape and a dense last axis.
Status expect_rows(std::string_view op, std::string_view arg, const TensorView& v, DType dtype, const Shape& shape);
// bias, slopes and sequence lengths: given exactly when the descriptor says so, with its dtypes and shapes.
Status expect_side(std::string_view op, const SdpaDescriptor& d, const TensorView& bias, const TensorView& slopes, const TensorView& cu_q,
                   const TensorView& cu_k);
PrecisionGuarantee guarantee(const SdpaDescriptor& d);

SdpaTensor rows_of(const SdpaDescriptor& d, const TensorView& v);
SdpaTensor lse_of(const SdpaDescriptor& d, const TensorView& v);
SdpaCall call_of(const SdpaDescriptor& d, const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& y, const TensorView& lse,
                 const TensorView& bias, const TensorView& slopes);
// Item or sequence b.
SdpaSequence sequence_of(const SdpaDescriptor& d, const TensorView& cu_q, const TensorView& cu_k, int64_t b);
// The lengths are known only when a plan runs.
Status check_sequences(std::string_view op, const SdpaDescriptor& d, const TensorView& cu_q, const TensorView& cu_k);

constexpr int64_t blocks(int64_t n, int64_t size) { return (n + size - 1) / size; }
inline int64_t sum_size(DType t) { return t == DType::f64 ? 8 : 4; }

}  // namespace baracuda::attention
