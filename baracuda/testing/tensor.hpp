#pragma once
// Test tensors: memory of their own with guard bytes on both sides, poison until written, values as doubles.
#include <cstdint>
#include <functional>
#include <vector>
#include "baracuda/core/tensor.hpp"
#include "baracuda/core/text.hpp"

namespace baracuda::testing {

// One element of any floating, integer or bool dtype as a double, and back (rounded to nearest even).
double read_element(DType t, const void* p);
void write_element(DType t, void* p, double v);
// v rounded to the dtype.
double rounded(DType t, double v);

// How a tensor lies in memory, for tests of strides.
enum class Layout {
  dense,      // row-major
  padded,     // rows with a gap: last axis dense, pitch larger than the row
  transposed, // last two axes swapped in memory
  reversed,   // last axis with a negative stride
  outer_reversed,  // first axis with a negative stride
  every_other,     // last axis with stride 2
};

class Tensor {
 public:
  Tensor() = default;  // absent
  Tensor(const Tensor& other);  // another memory with the same layout and contents
  Tensor& operator=(const Tensor& other) { return *this = Tensor(other); }
  Tensor(Tensor&&) = default;
  Tensor& operator=(Tensor&&) = default;
  Tensor(DType dtype, Shape shape, Layout layout = Layout::dense);
  Tensor(DType dtype, Shape shape, const std::vector<double>& values, Layout layout = Layout::dense);
  static Tensor normal(DType dtype, Shape shape, uint64_t seed, double mean = 0, double std = 1, Layout layout = Layout::dense);
  static Tensor uniform(DType dtype, Shape shape, uint64_t seed, double low, double high, Layout layout = Layout::dense);
  static Tensor integers(DType dtype, Shape shape, uint64_t seed, int64_t low, int64_t high_exclusive);

  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }
  DType dtype() const { return view_.dtype; }
  const Shape& shape() const { return view_.shape; }
  int64_t numel() const { return view_.shape.numel(); }
  // Elements in row-major order of the shape, whatever the layout.
  double at(int64_t i) const { return read_element(view_.dtype, address(i)); }
  void set(int64_t i, double v) { write_element(view_.dtype, address(i), v); }
  std::vector<double> values() const;
  // The bytes of the elements alone, in row-major order: what bit comparisons look at.
  std::vector<uint8_t> element_bytes() const;
  // Fills the whole memory, gaps included, with bytes that are NaN for floats and absurd for integers.
  void poison();
  // Whether the guards and the gaps between elements are untouched since poison() or construction.
  bool guards_intact() const;
  bool same_bits(const Tensor& other) const { return element_bytes() == other.element_bytes(); }

 private:
  void* address(int64_t i) const;
  void close_guards() const;
  std::vector<uint8_t> memory_;
  TensorView view_;
  bool dense_ = false;  // element i lies i elements behind the first
};

// Under AddressSanitizer a read or write of these bytes stops the program until they are opened again.
void close_memory(const void* at, size_t bytes);
void open_memory(const void* at, size_t bytes);

// Deterministic standard normals and uniforms for data (not the library's generator).
class Source {
 public:
  explicit Source(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du) {}
  uint64_t next();
  double uniform();  // [0, 1)
  double normal();
 private:
  uint64_t state_;
};

}  // namespace baracuda::testing
