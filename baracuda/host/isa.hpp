#pragma once
// Choice of the instruction set at run time. A unit listed with baracuda_isa_sources() is compiled once per set, each
// in its own namespace (BARACUDA_ISA), and exports one table of plain functions:
//
//   foo_cpu.hpp:  struct FooKernels { void (*run)(const FooParams&, int64_t begin, int64_t end); };
//                 BARACUDA_ISA_TABLE(FooKernels, foo_kernels)
//   foo_cpu.cpp:  namespace baracuda::inline BARACUDA_ISA { extern const FooKernels foo_kernels = {...}; }
//   foo.cpp:      BARACUDA_ISA_PICK(foo_kernels).run(...)
#include <string_view>

namespace baracuda {

enum class Isa { portable, avx2, avx512, avx512bf16 };
constexpr std::string_view name(Isa isa) {
  constexpr std::string_view names[] = {"portable", "avx2", "avx512", "avx512bf16"};
  return names[int(isa)];
}
// The best set that this processor has, at most the one that the environment variable BARACUDA_ISA names and that
// limit_isa() allows.
Isa isa();
// For tests: use at most this set from now on.
void limit_isa(Isa at_most);

}  // namespace baracuda

// Declares the tables of every set beside the type that they share. For use at namespace baracuda. Inline, because the
// unit that defines a table opens its namespace that way.
#define BARACUDA_ISA_TABLE(Type, table)              \
  inline namespace portable { extern const Type table; }    \
  inline namespace avx2 { extern const Type table; }        \
  inline namespace avx512 { extern const Type table; }
#define BARACUDA_ISA_TABLE_BF16(Type, table)         \
  BARACUDA_ISA_TABLE(Type, table)                    \
  inline namespace avx512bf16 { extern const Type table; }
// The table to use on this machine. Units without an avx512bf16 variant use their avx512 one there.
#ifdef BARACUDA_WITHOUT_AVX2
#define BARACUDA_ISA_PICK(table) (::baracuda::isa() >= ::baracuda::Isa::avx512 ? ::baracuda::avx512::table : ::baracuda::portable::table)
#else
#define BARACUDA_ISA_PICK(table)                                         \
  (::baracuda::isa() >= ::baracuda::Isa::avx512 ? ::baracuda::avx512::table \
   : ::baracuda::isa() == ::baracuda::Isa::avx2 ? ::baracuda::avx2::table : ::baracuda::portable::table)
#endif
#define BARACUDA_ISA_PICK_BF16(table) \
  (::baracuda::isa() == ::baracuda::Isa::avx512bf16 ? ::baracuda::avx512bf16::table : BARACUDA_ISA_PICK(table))
