#pragma once
// TensorView: memory that somebody else owns, with dtype, device, shape and strides (in elements).
#include <span>
#include "baracuda/core/device.hpp"
#include "baracuda/core/dtype.hpp"
#include "baracuda/core/shape.hpp"

namespace baracuda {

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Device device;
  Shape shape;
  Strides strides;

  // An argument that is not given: an optional input that is absent, an output that is not wanted.
  bool absent() const { return data == nullptr && shape.rank == 0; }
  int64_t numel() const { return shape.numel(); }
  int64_t row_stride() const { return shape.rank >= 2 ? strides[shape.rank - 2] : 0; }
  bool contiguous() const {
    if (numel() == 0) return true;
    int64_t step = 1;
    for (int i = shape.rank - 1; i >= 0; --i) {
      if (shape[i] != 1 && strides[i] != step) return false;
      step *= shape[i];
    }
    return true;
  }
  template <class T> T* as() const { return static_cast<T*>(data); }

  // Row-major over raw memory. Nothing can be checked here; prefer from_span where the extent is known.
  static TensorView dense(void* data, DType dtype, const Shape& shape, Device device = {}) {
    return {data, dtype, device, shape, shape.contiguous()};
  }
  template <class T> static TensorView dense(T* data, const Shape& shape, Device device = {}) {
    return dense(const_cast<std::remove_const_t<T>*>(data), kDTypeOf<std::remove_const_t<T>>, shape, device);
  }
  // Checks that every element of shape and strides (contiguous by default) lies inside memory: buffer_too_small with
  // needed and got in bytes. `offset` is the element that index 0 refers to, for views with negative strides.
  static Result<TensorView> over(void* memory, uint64_t bytes, DType dtype, const Shape& shape, const Strides* strides = nullptr,
                                 int64_t offset = 0, Device device = {});
  template <class T> static Result<TensorView> from_span(std::span<T> s, const Shape& shape) {
    return over(const_cast<std::remove_const_t<T>*>(s.data()), s.size_bytes(), kDTypeOf<std::remove_const_t<T>>, shape);
  }
  template <class T>
  static Result<TensorView> from_span(std::span<T> s, const Shape& shape, const Strides& strides, int64_t offset = 0) {
    return over(const_cast<std::remove_const_t<T>*>(s.data()), s.size_bytes(), kDTypeOf<std::remove_const_t<T>>, shape, &strides, offset);
  }
};

// Lowest and highest element that a view touches, relative to data, in elements; {0, -1} for an empty view.
struct Extent { int64_t low, high; };
Extent extent(const TensorView& v);
// Whether an element of a and one of b have a byte in common, whatever the strides; also true where strides are so entangled that
// 2^14 steps of the search do not tell.
bool share_memory(const TensorView& a, const TensorView& b);

// The typed layer for C++ callers: a dtype mistake does not compile.
template <class T> struct TensorRef : TensorView {
  TensorRef(T* data, const Shape& shape) : TensorView(dense(data, shape)) {}
  TensorRef(T* data, const Shape& shape, const Strides& s) : TensorView{const_cast<std::remove_const_t<T>*>(data), kDTypeOf<std::remove_const_t<T>>, {}, shape, s} {}
};

}  // namespace baracuda
