#pragma once
// Gradients of RmsNorm's and LayerNorm's rows in registers: how many threads a row has, and where it goes by tiles.
#include "baracuda/device/row_tile.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace norm_rows {

using namespace row_team;

// Rows that are no whole chunks, and that one block holds by tiles and else a cluster would. Shorter ones are no better off.
inline bool by_tiles(const RowTiles& tiles, int64_t n, int size) { return team_for(n, 16) > kMostTeam && tiles.take(n, size, 3); }
// tiles: of halves and of f32.
inline TeamShape backward_shape(const RowTiles (&tiles)[2], int64_t n, int64_t rows, int size) {
  return by_tiles(tiles[size / 4], n, size) ? tiles[size / 4].shape(n, rows, kSeveralBlock) : TeamShape::of(n, 16, rows);
}
// Of the weight's gradient.
inline int64_t row_parts(const RowTiles (&tiles)[2], int64_t rows, int64_t n, int size) {
  return backward_shape(tiles, n, rows, size).parts(rows, by_tiles(tiles[size / 4], n, size) ? tiles[size / 4].threads : kMostTeam);
}

}  // namespace norm_rows
}  // namespace baracuda
