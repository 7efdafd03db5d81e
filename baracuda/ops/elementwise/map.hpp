#pragma once
// The loop of every elementwise op on the CPU, written once: a map over tensors of one shape with any strides. The
// arithmetic is a plain function over dense pointers, compiled per instruction set; here are the walk and the threads.
// Axes are ordered by the strides of the outputs and merged, so that tensors of equal order in memory become one row.
// Where all operands are dense the function gets them as they lie; where one is not, it goes through a block of 256
// elements on the stack. An element's bits do not depend on any of this.
#include <span>
#include "baracuda/host/strided.hpp"
#include "baracuda/ops/elementwise/map_run.hpp"

namespace baracuda {

inline constexpr int kMapOperands = 8;
inline constexpr int64_t kMapBlock = 256;
// Null data: an input that is not read (it is given zeros) or an output that is not wanted.
struct MapOperand {
  void* data = nullptr;
  Strides strides;
  int bytes = 4;      // of an element: 1, 2, 4, 8 or 16
  bool truth = false;  // of bool: the function gets 1 for every byte but 0
  static MapOperand of(const TensorView& v) { return {v.data, v.strides, int(byte_size(v.dtype)), v.dtype == DType::boolean}; }
};

// One walk over up to kMapOperands tensors.
struct MapWalk {
  Strided<kMapOperands> w;
  int operands = 0;
  char* data[kMapOperands] = {};
  int bytes[kMapOperands] = {};
  bool dense[kMapOperands] = {};  // element i of the walk lies at i
  bool truth[kMapOperands] = {};

  // `order`: the operand whose strides decide the order of the axes; sort = false keeps it.
  void init(const Shape& shape, std::span<const MapOperand> in, std::span<const MapOperand> out, bool sort = true);
  int64_t size() const { return w.rows * w.inner; }
  // Every operand can be used in place for any stretch of a row.
  bool direct() const;
  // Output k is larger than the caches, and can be written past them in stretches (host/past.hpp); it is none of the inputs.
  bool past(int k, int inputs) const;
  // Elements of the walk from i on that a block may take.
  int64_t stretch(int64_t i, int64_t most) const {
    if (w.rows == 1 || w.inner < kMapBlock / 2) return most;
    const int64_t left = w.inner - i % w.inner;
    return left < most ? left : most;
  }
  // Where elements [i, i + n) of operand k lie, n <= kMapBlock: in place, or (a copy of them, when `read`) in `block`.
  void* fetch(int k, int64_t i, int64_t n, void* block, bool read) const;
  // The same for a function that reads: of bool 0 and 1, whatever bytes lie there.
  const void* read(int k, int64_t i, int64_t n, void* block) const;
  // Copies an output's block to its place, unless it was computed there.
  void put(int k, int64_t i, int64_t n, void* at) const;

 private:
  bool in_place(int k, int64_t i, int64_t n) const {
    return data[k] && (dense[k] || (w.inner_stride(k) == 1 && i % w.inner + n <= w.inner));
  }
  int64_t offset(int k, int64_t i) const;
};

void run_map(const Shape& shape, std::span<const MapOperand> in, std::span<const MapOperand> out, const MapKernel& run,
             const double* parameters, int threads);

}  // namespace baracuda
