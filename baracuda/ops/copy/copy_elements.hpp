#pragma once
// Moving elements of any dtype: what copy, fill and the ops that only rearrange share.
#include <cstdint>
#include "baracuda/core/kernel.hpp"
#include "baracuda/ops/copy/cast_cpu.hpp"

namespace baracuda {

struct Bytes16 { uint64_t a, b; };
// Calls f with a value of a type that has the size and the alignment of the dtype's elements.
template <class F> void with_element(DType t, F f) {
  switch (byte_size(t)) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: return f(Bytes16{});
  }
}
// Every dtype whose elements take whole bytes.
template <class Op> constexpr ByDType<Launcher<Op>> launch_whole_bytes(Launcher<Op> f) {
  ByDType<Launcher<Op>> table;
  for (size_t t = 0; t < kDTypes; ++t)
    if (byte_size(DType(t))) table[DType(t)] = f;
  return table;
}
// Moves bits, and nothing depends on anything but the element that is moved.
template <class Op> PrecisionGuarantee exact(const typename Op::Descriptor& d) {
  return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true};
}

// y = x, element by element; equal shapes and dtypes, any strides.
void copy_elements(const TensorView& x, const TensorView& y, int threads);
// y = value, cast from f64 by the rules of Cast. Dtypes as for Cast.
void fill_elements(const TensorView& y, double value, int threads);
// y = bits everywhere, the low bytes of them; every dtype of whole bytes.
void fill_bits(const TensorView& y, Bytes16 bits, int threads);
// value in the dtype t, as fill_bits takes it; 0 serves every dtype.
Bytes16 bits_of(DType t, double value);

}  // namespace baracuda
