#include "baracuda/ops/copy/copy_elements.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include "baracuda/host/move.hpp"
#include "baracuda/host/past.hpp"
#include "baracuda/ops/elementwise/map.hpp"

namespace baracuda {
namespace {

// Rows are copied whole where both sides have them; where x runs along another axis than y, blocks are transposed.
constexpr int64_t kShortRow = 2048;
template <class T> void copy_strided(const MapWalk& m, bool past, int threads) {
  constexpr int64_t kBlockRows = sizeof(T) == 2 ? 512 : 256, kBlockColumns = sizeof(T) == 2 ? 32 : 64;  // x is read in stretches of kBlockRows
  const MoveKernels& move = BARACUDA_ISA_PICK(move_kernels);
  const auto& w = m.w;
  const T* x = reinterpret_cast<const T*>(m.data[0]);
  T* y = reinterpret_cast<T*>(m.data[1]);
  const int64_t x_step = w.inner_stride(0), y_step = w.inner_stride(1);
  int along = -1;  // the axis along which x is dense, where it is not the last one
  for (int i = 0; i < w.rank - 1; ++i)
    if (w.stride[0][i] == 1 && x_step != 1 && y_step == 1) along = i;
  if (along >= 0) {
    const int64_t rows = w.extent[along], columns = w.inner, tiles_r = (rows + kBlockRows - 1) / kBlockRows,
                  tiles_c = (columns + kBlockColumns - 1) / kBlockColumns;
    const auto transpose = move.transpose[std::countr_zero(sizeof(T))];
    parallel_for(w.rows / rows * tiles_r * tiles_c, 1, threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t u = begin; u < end; ++u) {
        const int64_t r = u / tiles_c % tiles_r * kBlockRows, c = u % tiles_c * kBlockColumns;
        int64_t rest = u / tiles_c / tiles_r, at[2] = {r + c * x_step, r * w.stride[1][along] + c};
        for (int i = w.rank - 2; i >= 0; --i) {
          if (i == along) continue;
          for (int k = 0; k < 2; ++k) at[k] += rest % w.extent[i] * w.stride[k][i];
          rest /= w.extent[i];
        }
        transpose(x + at[0], y + at[1], std::min(kBlockRows, rows - r), std::min(kBlockColumns, columns - c), x_step, w.stride[1][along], past);
      }
    });
    return;
  }
  if (w.rank > 1 && w.inner < kShortRow && x_step == 1 && y_step == 1) {  // of the last two axes at once: a row's place costs more than a short row
    const int64_t middle = w.extent[w.rank - 2], x_pitch = w.stride[0][w.rank - 2], y_pitch = w.stride[1][w.rank - 2];
    const int64_t most = std::max<int64_t>(1, kPiece / w.inner), pieces = (middle + most - 1) / most, grain = std::max<int64_t>(1, most / middle);
    const int64_t bytes = w.inner * int64_t(sizeof(T));
    parallel_for(w.rows / middle * pieces, grain, threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t u = begin; u < end; ++u) {
        const int64_t first = u % pieces * most, stop = std::min(middle, first + most);
        int64_t at[kMapOperands];
        w.offsets(u / pieces * middle + first, at);
        for (int64_t r = first; r < stop; ++r, at[0] += x_pitch, at[1] += y_pitch)
          if (past) move.copy_past(y + at[1], x + at[0], bytes);
          else std::memmove(y + at[1], x + at[0], size_t(bytes));
      }
      if (past) past_fence();
    });
    return;
  }
  for_each_piece(w, threads, [&](const int64_t (&at)[kMapOperands], int64_t, int64_t n) {
    const T* from = x + at[0];
    T* to = y + at[1];
    if (past && x_step == 1 && y_step == 1) move.copy_past(to, from, n * int64_t(sizeof(T))), past_fence();
    else if (x_step == 1 && y_step == 1) std::memmove(to, from, size_t(n) * sizeof(T));
    else for (int64_t i = 0; i < n; ++i) to[i * y_step] = from[i * x_step];
  });
}

}  // namespace

void copy_elements(const TensorView& x, const TensorView& y, int threads) {
  if (y.numel() == 0) return;
  const MapOperand from = MapOperand::of(x), to = MapOperand::of(y);
  MapWalk m;
  m.init(y.shape, {&from, 1}, {&to, 1});
  with_element(y.dtype, [&]<class T>(T) { copy_strided<T>(m, past_caches(y, x.data), threads); });
}
Bytes16 bits_of(DType t, double value) {
  Bytes16 bits{};
  const auto cast = BARACUDA_ISA_PICK(cast_kernels).from[DType::f64][t];
  const void* in[] = {&value};
  void* out[] = {&bits};
  if (cast) cast(nullptr, in, out, 1);
  return bits;
}
void fill_elements(const TensorView& y, double value, int threads) { fill_bits(y, bits_of(y.dtype, value), threads); }
void fill_bits(const TensorView& y, Bytes16 bits, int threads) {
  const MapOperand to = MapOperand::of(y);
  MapWalk m;
  m.init(y.shape, {}, {&to, 1});
  const auto copy_past = BARACUDA_ISA_PICK(move_kernels).copy_past;
  const bool past = past_caches(y, nullptr);
  with_element(y.dtype, [&]<class T>(T) {
    constexpr int64_t kBlock = 4096 / int64_t(sizeof(T));
    alignas(64) T block[kBlock];
    std::memcpy(block, &bits, sizeof(T));
    if (past) std::fill(block + 1, block + kBlock, block[0]);
    for_each_piece(m.w, threads, [&](const int64_t (&at)[kMapOperands], int64_t, int64_t n) {
      T* piece = reinterpret_cast<T*>(m.data[0]) + at[0];
      const int64_t step = m.w.inner_stride(0);
      if (past && step == 1) {
        for (int64_t i = 0; i < n; i += kBlock) copy_past(piece + i, block, std::min(kBlock, n - i) * int64_t(sizeof(T)));
        past_fence();
      } else if (step == 1) std::fill(piece, piece + n, block[0]);
      else for (int64_t i = 0; i < n; ++i) piece[i * step] = block[0];
    });
  });
}

}  // namespace baracuda
