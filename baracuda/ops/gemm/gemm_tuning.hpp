#pragma once
// How gemm.cpu.blocked cuts a product. Everything follows from the shape and the tile, never from the number of threads.
#include <algorithm>
#include "baracuda/host/gemm_tile.hpp"

namespace baracuda {

// Length of one chain of sums over k: part of the numerics (see gemm.hpp), so it depends on the packed type alone.
// A panel of B (chain x nr) is then 48 KiB and stays in the second cache, of which it takes 8 bytes a cycle.
constexpr int64_t gemm_chain(DType packed) { return packed == DType::f64 ? 256 : packed == DType::f32 ? 384 : 768; }

struct GemmBlocking {
  int64_t mb, nb;    // block of c that one worker computes at a time: its sums are mb x nb
  int64_t nc, ks;    // with shared_b: columns and depth of B that are packed at a time
  bool shared_b;     // B is packed once for all row blocks, by all workers; otherwise by each worker for its block
  bool full_sums;    // partial sums wait in an m x n scratch, because c cannot hold them
  friend constexpr bool operator==(const GemmBlocking&, const GemmBlocking&) = default;
};
constexpr int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }
// The extent of equal pieces of at most `most`, a multiple of `unit`.
constexpr int64_t even_piece(int64_t extent, int64_t most, int64_t unit) {
  const int64_t pieces = std::max<int64_t>(1, (extent + most - 1) / most);
  return std::max(unit, round_up((extent + pieces - 1) / pieces, unit));
}

// c_holds_sums: c has the accumulator's type and its old values are not needed.
constexpr GemmBlocking gemm_blocking(const TileKernel& t, int64_t m, int64_t n, int64_t k, int64_t batch, bool c_holds_sums) {
  constexpr int64_t kRows = 128;           // mb x chain of A: 192 KiB, a fifth of the second cache
  constexpr int64_t kPacked = 8 << 20;     // bytes of B packed at a time: a quarter of the third cache
  constexpr int64_t kPieces = 16;          // blocks wanted, so that the last round of a few workers is short
  const int64_t nr = t.nr, chain = gemm_chain(t.packed);
  const double flops = 2.0 * double(m) * double(n) * double(k);
  GemmBlocking g{};
  g.mb = even_piece(m, kRows / t.mr * t.mr, t.mr);
  // Packing together costs two waits of the team (about 5 us each); a batch of small products needs none.
  g.shared_b = m >= 96 && n >= nr && k >= 32 && flops >= (batch < 8 ? 1e7 : 1e8);
  auto pieces = [&](int64_t width, int64_t columns) { return (m + g.mb - 1) / g.mb * ((columns + width - 1) / width); };
  if (!g.shared_b) {
    // Few rows read B where it lies: wide pieces keep its rows long.
    const int64_t least = m <= t.mr ? std::max<int64_t>(2 * nr, 128) : 2 * nr;
    g.nb = even_piece(n, (m <= t.mr ? 512 : 256) / nr * nr, nr);
    while (pieces(g.nb, n) * batch < kPieces && g.nb > least) g.nb = even_piece(g.nb, g.nb / 2, nr);
    g.ks = k, g.nc = n;
    return g;
  }
  const int64_t whole_k = round_up(k, chain) * t.element_bytes, columns = kPacked / whole_k / nr * nr;
  g.nc = even_piece(n, 1024 / nr * nr, nr);
  g.ks = k;
  if (g.nc > columns) {
    if (!c_holds_sums && columns >= 256) g.nc = even_piece(n, columns, nr);
    else g.ks = std::max<int64_t>(1, kPacked / (g.nc * chain * t.element_bytes)) * chain;
  }
  g.full_sums = g.ks < k && !c_holds_sums;
  // Shorter blocks first: they pack nothing twice, narrower ones pack their rows of A again.
  g.nb = g.nc;
  while (pieces(g.nb, g.nc) < kPieces && g.mb > 4 * t.mr) g.mb = even_piece(g.mb, g.mb / 2, t.mr);
  while (pieces(g.nb, g.nc) < kPieces && g.nb > 256) g.nb = even_piece(g.nb, g.nb / 2, nr);
  return g;
}

// Whether a library's row stands before gemm.cpu.blocked without being asked for. Measured on Zen 4 (gemm.md): the blocked row
// is ahead of the library or near it, and it is batch invariant; so it stands first from AVX2 on. Its portable unit
// reaches a third of the AVX2 one's rate.
inline bool gemm_prefers_library(Isa isa) { return isa == Isa::portable; }
// Blocks that a library computes with one call. Its scratch holds a copy of the operands where they are not
// dense in that block.
struct LibraryBlocking { int64_t mb = 256, nb = 512, depth = 1024; };

}  // namespace baracuda
