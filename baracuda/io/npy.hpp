#pragma once
// numpy's .npy files: "\x93NUMPY", version, header length, a Python dict in text, then the elements.
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
// Format description: numpy.lib.format (NEP 1). Versions 1, 2 and 3 are read, version 1 is written.
// Dtypes: b1, i1 to i8, u1 to u8, f2 f4 f8, c8 c16, little-endian; '<V2' is bf16, as numpy writes the bfloat16 of ml_dtypes.
#include "baracuda/core/tensor.hpp"
#include "baracuda/core/workspace.hpp"
#include "baracuda/io/file.hpp"

namespace baracuda::io {

// Nothing larger is ever allocated for a header.
inline constexpr uint64_t kMaxNpyHeader = 1 << 20;

struct NpyHeader {
  DType dtype = DType::f32;
  Shape shape;
  bool fortran = false;  // the first axis is the dense one
  uint64_t offset = 0;   // of the elements, from the start of the file
  Strides strides() const;
};
// `start`: the file's first bytes, the whole header at least; `bytes`: the size of the file. invalid_problem, naming the broken
// rule: no .npy file, an unknown key, dtype or order, a shape that is none, a file that is too short or too long.
// unsupported: big-endian, structured or other dtypes, a rank above 8.
Result<NpyHeader> parse_npy(std::span<const std::byte> start, uint64_t bytes);

// A tensor with host memory of its own.
class HostTensor {
 public:
  // Dense, zeroed. out_of_memory names the bytes.
  static Result<HostTensor> make(DType dtype, const Shape& shape);
  HostTensor(HostTensor&& other) noexcept : view_(std::exchange(other.view_, {})) {}
  HostTensor& operator=(HostTensor&& other) noexcept { return std::swap(view_, other.view_), *this; }
  ~HostTensor() { deallocate({}, view_.data); }
  const TensorView& view() const { return view_; }
  void set_strides(const Strides& s) { view_.strides = s; }
  uint64_t bytes() const { return uint64_t(view_.numel()) * byte_size(view_.dtype); }

 private:
  explicit HostTensor(const TensorView& v) : view_(v) {}
  TensorView view_;
};
Result<HostTensor> read_npy(const std::string& path);
// A contiguous host tensor, atomically. unsupported: a dtype that numpy has no word for.
Status write_npy(const std::string& path, const TensorView& tensor);

}  // namespace baracuda::io
