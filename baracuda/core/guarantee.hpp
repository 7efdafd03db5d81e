#pragma once
// What a chosen kernel promises about its numbers, and the name it goes by. Tests hold every plan to its own claim.
#include <cstdint>
#include <string>
#include <string_view>
#include "baracuda/core/device.hpp"
#include "baracuda/core/dtype.hpp"

namespace baracuda {

enum class Backend : uint8_t { baracuda, onednn, cublaslt, cudnn, count };
constexpr std::string_view name(Backend b) {
  constexpr std::string_view names[] = {"baracuda", "onednn", "cublaslt", "cudnn"};
  return b < Backend::count ? names[int(b)] : "any";
}

struct PrecisionGuarantee {
  DType math_precision = DType::f32;  // the type that products and functions are computed in
  bool tf32 = false;                  // f32 products with operands rounded to TF32 (only where the preference allows it)
  DType accumulator = DType::f32;     // the type that sums are kept in
  bool deterministic = true;          // the same bits run after run, for any grid and thread count
  bool bit_stable_on_same_hardware = true;  // ... and process after process on the same processor and library version
  bool batch_invariant = false;       // a row's bits do not depend on the rows around it (NaN payloads aside)
  bool same_on_cpu_and_cuda = false;  // the CPU and the CUDA row of this op give the same bits (NaN payloads aside)
  friend constexpr bool operator==(const PrecisionGuarantee&, const PrecisionGuarantee&) = default;
};
std::string to_string(const PrecisionGuarantee& g);

// Identifies a kernel choice; hashable and printable.
struct KernelSku {
  std::string_view category, op, kernel;
  DType dtype = DType::f32, aux_dtype = DType::f32;  // aux: the second type of the op (weights, indices); dtype where none
  std::string_view layout = "strided", epilogue = "none";
  Backend backend = Backend::baracuda;
  DeviceKind device = DeviceKind::cpu;
  int arch = 0;
  PrecisionGuarantee guarantee;
  friend bool operator==(const KernelSku&, const KernelSku&) = default;
};
std::string to_string(const KernelSku& s);
size_t hash(const KernelSku& s);

enum class MathMode : uint8_t { strict, allow_tf32, count };
constexpr std::string_view name(MathMode m) { return m == MathMode::strict ? "strict" : "allow_tf32"; }

// Filters and reorders the kernel list of an op. The default takes the first deterministic row that accepts.
struct PlanPreference {
  Backend prefer_backend = Backend::count;   // moved to the front; count: no preference
  Backend require_backend = Backend::count;  // all others are refused
  std::string_view require_kernel = {};      // all others are refused; must outlive select
  bool allow_nondeterministic = false;
  bool require_batch_invariant = false;
  MathMode math = MathMode::strict;
  uint64_t max_workspace = UINT64_MAX;       // bytes; rows that need more are refused or choose a smaller arrangement
  friend bool operator==(const PlanPreference&, const PlanPreference&) = default;
};

}  // namespace baracuda
