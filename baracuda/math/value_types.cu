// The functors of value_types_math.hpp in CUDA kernels: one lane per thread, the same text, the same bits as on the CPU
// (-fmad=false). Compiled by a test wherever nvcc is; the kernels of the families have their own units.
#include "baracuda/math/brief.hpp"
#include "baracuda/math/value_types_math.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <class T> __global__ void gelu_forward(const T* x, T* y, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) store<T, 1>(y + i, GeluProof{}.fwd(load<1>(x + i)));
}
template <class T> __global__ void gelu_backward(const T* dy, const T* x, T* dx, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) store<T, 1>(dx + i, GeluProof{}.bwd(load<1>(dy + i), load<1>(x + i)));
}
template <class T> __global__ void cumprod_backward(const T* dy, const T* x, const T* y, T* dx, int64_t rows, int64_t n) {
  using V = Pack<Acc<T>, 1>;
  const int64_t r = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  dy += r * n, x += r * n, y += r * n, dx += r * n;
  V s = 0;
  for (int64_t k = n; k-- > 0;) {
    s = CumprodBackwardProof{}.step(load<1>(dy + k), k + 1 < n ? load<1>(x + k + 1) : V(0), s);
    store<T, 1>(dx + k, k ? load<1>(y + k - 1) * s : s);
  }
}
// Every function of vmath compiles for a device.
template <class T> __global__ void all_functions(const T* x, T* y, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto v = load<1>(x + i);
  auto sum = exp(v) + expm1(v) + exp2(v) + log(v) + log1p(v) + log2(v) + log10(v) + tanh(v) + sigmoid(v) + erf(v) + sin(v) +
             cos(v) + pow(v, v) + sqrt(v) + round_even(v) + trunc(v) + floor(v) + ceil(v) + max_nan(v, -v);
  if constexpr (sizeof(T) < 8) {
    const auto b = Brief<1>::of(v.v);
    sum += v.of((exp(b) + expm1(b) + exp2(b) + log(b) + log1p(b) + log2(b) + log10(b) + tanh(b) + sigmoid(b) + erf(b) + sinh(b) + cosh(b)).v);
  }
  store<T, 1>(y + i, sum);
}
#define BARACUDA_KERNELS(T)                                                                            \
  template __global__ void gelu_forward<T>(const T*, T*, int64_t);                                     \
  template __global__ void gelu_backward<T>(const T*, const T*, T*, int64_t);                          \
  template __global__ void cumprod_backward<T>(const T*, const T*, const T*, T*, int64_t, int64_t);    \
  template __global__ void all_functions<T>(const T*, T*, int64_t);
BARACUDA_KERNELS(f16)
BARACUDA_KERNELS(bf16)
BARACUDA_KERNELS(float)
BARACUDA_KERNELS(double)

}  // namespace baracuda
