#pragma once
// What the instruction-set units of select_n export: loops over blocks in L1, by the logarithm of an element's bytes.
#include <cstdint>
#include "baracuda/host/isa.hpp"

namespace baracuda {

struct SelectNKernels {
  void (*keep[5])(const int32_t* which, int32_t k, const void* x, void* y, int64_t n);       // y = x where which is k
  void (*keep_only[5])(const int32_t* which, int32_t k, const void* x, void* y, int64_t n);  // y = x where which is k, else 0
  // Indices within [0, last].
  void (*from_bool)(const void* which, int64_t last, int32_t* to, int64_t n);
  void (*from_i32)(const void* which, int64_t last, int32_t* to, int64_t n);
  void (*from_i64)(const void* which, int64_t last, int32_t* to, int64_t n);
};
BARACUDA_ISA_TABLE(SelectNKernels, select_n_kernels)

}  // namespace baracuda
