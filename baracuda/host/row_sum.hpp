#pragma once
// A sum whose tree depends on its length alone. Element i is in chunk i / 4096 and lane i % 64. A lane adds its elements
// in order; lanes are folded l + (l + 32), then 16 ... 1; chunk sums are joined in pairs of neighbours, level by level.
// Vectors take lanes, threads take chunks, rows or columns: neither shows in the bits, and columns equal rows of the
// transpose. -0 is the identity; an empty sum is 0. f16, bf16 and f32 are summed in f32, f64 in f64; squares and products
// enter with one fma. The error of a sum of n terms is at most (n / 64 + 6 + log2(n / 4096)) eps times the sum of |terms|
// for n <= 4096 (70 + log2(n / 4096) beyond).
#include <cstdint>

#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

inline constexpr int kSumLanes = 64, kSumChunk = 4096;
constexpr __attribute__((always_inline)) inline int64_t sum_chunks(int64_t n) {
  return n / kSumChunk + (n % kSumChunk != 0);
}

enum class SumOf : uint8_t { values, squares, products, count };  // x, x x, x y; y is read for products only

// One row, on the calling thread.
template <class T> Acc<T> row_sum(SumOf of, const T* x, const T* y, int64_t n);
// The same sum, chunks spread over threads. scratch: sum_chunks(n) elements.
template <class T> Acc<T> row_sum(SumOf of, const T* x, const T* y, int64_t n, Acc<T>* scratch, int max_threads);
// sums[c] over the rows of column c; row r of x begins at x + r x_pitch. scratch: column_sum_scratch() elements. Takes
// 256 KiB of each thread's stack.
constexpr int64_t column_sum_scratch(int64_t rows, int64_t columns) {
  return rows > kSumChunk ? sum_chunks(rows) * columns : 0;
}
template <class T>
void column_sums(SumOf of, const T* x, int64_t x_pitch, const T* y, int64_t y_pitch, int64_t rows, int64_t columns,
                 Acc<T>* sums, Acc<T>* scratch, int max_threads);

// What an instruction set provides, per dtype of Floating and SumOf. Sums are Acc<T>.
struct SumKernels {
  void (*row)(const void* x, const void* y, int64_t n, void* sum);
  void (*chunk)(const void* x, const void* y, int64_t begin, int m, void* sum);
  // One chunk of m <= kSumChunk rows, any number of columns.
  void (*columns)(const void* x, int64_t x_pitch, const void* y, int64_t y_pitch, int m, int64_t columns, void* sums);
};
struct SumTable { SumKernels kernels[4][int(SumOf::count)]; };  // f16, bf16, f32, f64
BARACUDA_ISA_TABLE(SumTable, sum_table)

}  // namespace baracuda
