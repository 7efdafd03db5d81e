// Reads and writes each byte once. Transpose: a square of L x L elements, a row to a register; log2 L times rows k and k + L / 2
// are interleaved, each of which rotates the digits of an element's (row, column) by one, so that in the end they have changed
// places. Lines of y are written whole.
#include <utility>
#include "baracuda/host/move.hpp"
#include "baracuda/math/element.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kBytes = BARACUDA_VECTOR_BYTES;
#if BARACUDA_VECTOR_BYTES == 64
using Line = __m512i;
BARACUDA_HD void put_past(void* p, Line v) { _mm512_stream_si512(static_cast<Line*>(p), v); }
#elif BARACUDA_VECTOR_BYTES == 32
using Line = __m256i;
BARACUDA_HD void put_past(void* p, Line v) { _mm256_stream_si256(static_cast<Line*>(p), v); }
#endif

template <class F> BARACUDA_HD void copy_lines(void* y, const void* x, int64_t bytes, F fetch) {
  const char* from = static_cast<const char*>(x);
  char* to = static_cast<char*>(y);
  int64_t i = 0;
#if BARACUDA_VECTOR_BYTES
  for (; i + 64 <= bytes; i += 64) {
    fetch(i);
    for (int k = 0; k < 64; k += kBytes) {
      Line v;
      __builtin_memcpy(&v, from + i + k, sizeof v);
      put_past(to + i + k, v);
    }
  }
#endif
  if (i < bytes) fetch(i);
  __builtin_memcpy(to + i, from + i, size_t(bytes - i));
}
void copy_past(void* y, const void* x, int64_t bytes) {
  copy_lines(y, x, bytes, [](int64_t) {});
}
void copy_past_fetching(void* y, const void* x, int64_t bytes, const void* next) {
  copy_lines(y, x, bytes, [next](int64_t i) { __builtin_prefetch(static_cast<const char*>(next) + i, 0, 2); });
}
void copy_rows_past(void* const* y, const void* const* x, int64_t bytes, const void* const* next) {
  const char* from[kSideBySide];
  char* to[kSideBySide];
  for (int k = 0; k < kSideBySide; ++k) {
    from[k] = static_cast<const char*>(x[k]), to[k] = static_cast<char*>(y[k]);
    __builtin_prefetch(next[k], 0, 2);
  }
  int64_t i = 0;
#if BARACUDA_VECTOR_BYTES
  for (; i + 64 <= bytes; i += 64)
    for (int k = 0; k < kSideBySide; ++k)
      for (int b = 0; b < 64; b += kBytes) {
        Line v;
        __builtin_memcpy(&v, from[k] + i + b, sizeof v);
        put_past(to[k] + i + b, v);
      }
#endif
  if (i < bytes)
    for (int k = 0; k < kSideBySide; ++k) __builtin_memcpy(to[k] + i, from[k] + i, size_t(bytes - i));
}
void zero_past(void* y, int64_t bytes) {
  char* to = static_cast<char*>(y);
  int64_t i = 0;
#if BARACUDA_VECTOR_BYTES
  for (; i + 64 <= bytes; i += 64)
    for (int k = 0; k < 64; k += kBytes) put_past(to + i + k, Line{});
#endif
  __builtin_memset(to + i, 0, size_t(bytes - i));
}

#if BARACUDA_VECTOR_BYTES
template <class V, int L, int... K> BARACUDA_HD V interleave_low(V a, V b, std::integer_sequence<int, K...>) {
  return __builtin_shufflevector(a, b, (K / 2 + K % 2 * L)...);
}
template <class V, int L, int... K> BARACUDA_HD V interleave_high(V a, V b, std::integer_sequence<int, K...>) {
  return __builtin_shufflevector(a, b, (L / 2 + K / 2 + K % 2 * L)...);
}
template <class T, int L> void transpose_square(const T* x, T* y, int64_t x_step, int64_t y_step, bool past) {
  using V = Raw<T, L>;
  constexpr auto lanes = std::make_integer_sequence<int, L>{};
  V r[L], t[L];
#pragma GCC unroll 64
  for (int j = 0; j < L; ++j) __builtin_memcpy(&r[j], x + j * x_step, sizeof(V));
#pragma GCC unroll 8
  for (int w = 1; w < L; w *= 2) {
#pragma GCC unroll 64
    for (int k = 0; k < L / 2; ++k) {
      t[2 * k] = interleave_low<V, L>(r[k], r[k + L / 2], lanes);
      t[2 * k + 1] = interleave_high<V, L>(r[k], r[k + L / 2], lanes);
    }
#pragma GCC unroll 64
    for (int k = 0; k < L; ++k) r[k] = t[k];
  }
  if constexpr (sizeof(V) == kBytes)
    if (past) {
#pragma GCC unroll 64
      for (int i = 0; i < L; ++i) put_past(y + i * y_step, Line(r[i]));
      return;
    }
#pragma GCC unroll 64
  for (int i = 0; i < L; ++i) __builtin_memcpy(y + i * y_step, &r[i], sizeof(V));
}
#endif
template <class T> void transpose_part(const T* x, T* y, int64_t rows, int64_t columns, int64_t x_step, int64_t y_step) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) y[i * y_step + j] = x[j * x_step + i];
}
template <class T, int L> void transpose(const void* vx, void* vy, int64_t rows, int64_t columns, int64_t x_step, int64_t y_step, [[maybe_unused]] bool past) {
  const T* x = static_cast<const T*>(vx);
  T* y = static_cast<T*>(vy);
#if BARACUDA_VECTOR_BYTES
  if constexpr (L > 1) {
    constexpr int64_t kAhead = 2, kFar = 2048;  // squares; bytes from row to row of y that the processor does not fetch ahead by itself
    const int64_t whole_rows = rows / L * L, whole_columns = columns / L * L;
    const bool far = !past && y_step * int64_t(sizeof(T)) >= kFar;
    for (int64_t j = 0; j < whole_columns; j += L)
      for (int64_t i = 0; i < whole_rows; i += L) {
        if (far)
          for (int64_t r = i + kAhead * L; r < i + (kAhead + 1) * L && r < whole_rows; ++r) {
            if (j == 0) __builtin_prefetch(y + r * y_step, 1, 3);
            __builtin_prefetch(y + r * y_step + j + L - 1, 1, 3);
          }
        transpose_square<T, L>(x + j * x_step + i, y + i * y_step + j, x_step, y_step, past);
      }
    transpose_part(x + whole_columns * x_step, y + whole_columns, whole_rows, columns - whole_columns, x_step, y_step);
    transpose_part(x + whole_rows, y + whole_rows * y_step, rows - whole_rows, columns, x_step, y_step);
    if (past) store_past_fence();
    return;
  }
#endif
  transpose_part(x, y, rows, columns, x_step, y_step);
}
struct Sixteen { uint64_t a, b; };

}  // namespace
// A register's lanes; bytes in 16, the widest that has an instruction for it everywhere.
extern const MoveKernels move_kernels = {copy_past, copy_past_fetching, copy_rows_past, zero_past,
                                         {transpose<uint8_t, 16>, transpose<uint16_t, kBytes / 2>, transpose<uint32_t, kBytes / 4>,
                                          transpose<uint64_t, kBytes / 8>, transpose<Sixteen, 1>}};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
