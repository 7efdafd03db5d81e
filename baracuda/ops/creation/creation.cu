// Tensors made from numbers, each element by itself: device/make.cuh. The floor is memory bandwidth.
#include "baracuda/device/make.cuh"
#include "baracuda/ops/creation/creation_cuda.hpp"
#include "baracuda/ops/creation/creation_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace creation;

template <class T> struct Places {
  Triangle triangle;
  int64_t count, row_stride, place_stride;
  T* y;
};
// A search for the row of each place.
template <class T> __global__ void __launch_bounds__(device_make::kBlock) triangle_kernel(const __grid_constant__ Places<T> p) {
  for (int64_t i = int64_t(blockIdx.x) * device_make::kBlock + threadIdx.x; i < p.count; i += int64_t(gridDim.x) * device_make::kBlock) {
    const TrianglePlace place = p.triangle.place(i);
    p.y[i * p.place_stride] = T(place.row), p.y[p.row_stride + i * p.place_stride] = T(place.column);
  }
}
template <class T> int triangle_indices(const TriangleIndicesDescriptor& d, int64_t places, const device::Operand& y, void* stream) {
  if (places == 0) return 0;
  const Places<T> p{Triangle(d), places, y.strides[0], y.strides[1], static_cast<T*>(const_cast<void*>(y.data))};
  return device::launch(triangle_kernel<T>, device::blocks_for(places, device_make::kBlock), device_make::kBlock, 0, stream, p);
}
int eye(const EyeDescriptor& d, uint64_t one, const device::Operand& y, void* stream) {
  if (d.shape.numel() == 0) return 0;
  const EyeAt f(d, one);
  const auto run = y.bytes == 1 ? device_make::make<EyeAt, uint8_t> : y.bytes == 2 ? device_make::make<EyeAt, uint16_t> : y.bytes == 4 ? device_make::make<EyeAt, uint32_t> : device_make::make<EyeAt, uint64_t>;
  return run(f, d.shape, y, stream);
}
template <class F, class D, class T> int along(const D& d, const device::Operand& y, void* stream) {
  return d.shape.numel() == 0 ? 0 : device_make::make<F, T>(F(d), d.shape, y, stream);
}
template <class... T> constexpr CreationCudaKernels kernels(TypeList<T...>) {
  CreationCudaKernels k{};
  ((k.arange[kDTypeOf<T>] = along<ArangeAt, ArangeDescriptor, T>, k.linspace[kDTypeOf<T>] = along<LinspaceAt, LinspaceDescriptor, T>), ...);
  k.eye = eye, k.triangle_indices[DType::i32] = triangle_indices<int32_t>, k.triangle_indices[DType::i64] = triangle_indices<int64_t>;
  return k;
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const CreationCudaKernels creation_cuda_kernels = kernels(join(join(TypeList<bool>{}, Integers{}), Floating{}));

}  // namespace baracuda
