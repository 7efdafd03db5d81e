#pragma once
// What gemm_amx_cpu.cpp exports: the parts in which the bf16 kernels of gemm_tile.hpp and gemm_few.hpp differ where the
// processor has AMX. B is packed as for the bf16 instruction of AVX-512.
#include "baracuda/host/gemm_few.hpp"

namespace baracuda {

struct GemmAmx {
  int mr;
  void (*tile)(const TileParams&);
  void (*hold)(bool);
  void (*tile_held)(const TileParams&);
  TileA (*pack_a)(const PackSource&, void* out);
  TileA (*pack_a_acc)(const PackSource&, void* out);
  FewKernel few;
};
inline namespace amx { extern const GemmAmx gemm_amx_table; }

}  // namespace baracuda
