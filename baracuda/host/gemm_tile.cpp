#include "baracuda/host/gemm_tile.hpp"
#include "baracuda/host/amx.hpp"
#include "baracuda/host/gemm_amx.hpp"

namespace baracuda {

const GemmTiles& gemm_tiles() {
  if (!has_amx()) return BARACUDA_ISA_PICK_BF16(gemm_tiles_table);
  static const GemmTiles tiles = [] {
    GemmTiles t = avx512bf16::gemm_tiles_table;
    TileKernel& k = t.of[DType::bf16];
    k.mr = gemm_amx_table.mr, k.tile = gemm_amx_table.tile, k.pack_a = gemm_amx_table.pack_a, k.pack_a_acc = gemm_amx_table.pack_a_acc;
    k.hold = gemm_amx_table.hold, k.tile_held = gemm_amx_table.tile_held;
    k.goes_on = k.dense_rows = true;
    return t;
  }();
  return tiles;
}
const GemmFew& gemm_few() {
  if (!has_amx()) return BARACUDA_ISA_PICK_BF16(gemm_few_table);
  static const GemmFew few = [] {
    GemmFew f = avx512bf16::gemm_few_table;
    f.of[DType::bf16] = gemm_amx_table.few;
    return f;
  }();
  return few;
}

}  // namespace baracuda
