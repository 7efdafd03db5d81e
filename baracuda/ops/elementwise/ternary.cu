// The kernels of the ternary kinds.
#include "baracuda/ops/elementwise/elementwise_table.cuh"
#include "baracuda/ops/elementwise/ternary_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
template <class T> struct Choice { T v; bool is_true; };  // a value, or the bool that chooses
}  // namespace
namespace device_map {
template <class T> struct Lane<Choice<T>> {
  static __device__ __forceinline__ Choice<T> zero() { return {}; }
  static __device__ __forceinline__ Choice<T> of(T e) requires(!std::is_same_v<T, bool>) { return {e, false}; }
  static __device__ __forceinline__ Choice<T> of(bool e) { return {{}, e}; }
  template <class E> static __device__ __forceinline__ E as(Choice<T> a) { return a.v; }
};
template <class C> __device__ __forceinline__ bool is_true(Pack<C, 1> a) { return a.v != 0; }
template <class C> __device__ __forceinline__ bool is_true(Complex<Pack<C, 1>> a) { return a.re.v != 0; }
}  // namespace device_map
namespace {

// `where` moves values as they are: unsigned integers of their size.
struct alignas(16) Wide { uint64_t a, b; };
template <class T> struct Where {
  static constexpr int in = 3, out = 1;
  static constexpr bool needs(int) { return true; }
  template <int k> using Stored = std::conditional_t<k == 0, bool, T>;
  double alpha, beta;  // none
  template <class M> __device__ __forceinline__ void operator()(const M* x, M* y) const { y[0] = x[0].is_true ? x[1] : x[2]; }
};
// The gradient of the side that was not taken is 0. dy a b c y -> (da) db dc.
template <class T> struct WhereBackward {
  static constexpr int in = 5, out = 3;
  static constexpr bool needs(int k) { return k < 2; }
  template <int k> using Stored = std::conditional_t<k == 1, bool, T>;
  double alpha, beta;  // none
  template <class A> __device__ __forceinline__ void operator()(const A* x, A* dx) const {
    const bool first = device_map::is_true(x[1]);
    const A zero = device_map::Lane<A>::zero();
    dx[0] = zero, dx[1] = first ? x[0] : zero, dx[2] = first ? zero : x[0];
  }
};
template <class T, class A> constexpr void add_gradient(ElementwiseCudaEntry& e, DType t) {
  e.backward[t] = map_launch<WhereBackward<T>, T, T, A>(), e.sum[t] = sum_launch<WhereBackward<T>, T, T, A>();
}
constexpr ElementwiseCudaEntry where_entry() {
  ElementwiseCudaEntry e;
  auto move = []<class T>(TypeList<T>) { return map_launch<Where<T>, T, T, Choice<T>>(); };
  for (int t = 0; t < int(kDTypes); ++t) {
    const size_t bytes = byte_size(DType(t));
    if (bytes == 0) continue;
    e.forward[DType(t)] = bytes == 1 ? move(TypeList<uint8_t>{}) : bytes == 2 ? move(TypeList<uint16_t>{}) : bytes == 4 ? move(TypeList<uint32_t>{})
                        : bytes == 8 ? move(TypeList<uint64_t>{}) : move(TypeList<Wide>{});
  }
  [&]<class... T>(TypeList<T...>) { (add_gradient<T, Pack<Acc<T>, 1>>(e, kDTypeOf<T>), ...); }(Floating{});
  add_gradient<device_map::Parts<float>, Complex<Pack<float, 1>>>(e, DType::c64);
  add_gradient<device_map::Parts<double>, Complex<Pack<double, 1>>>(e, DType::c128);
  return e;
}
template <TernaryKind K> constexpr ElementwiseCudaEntry kind_entry() {
  if constexpr (K == TernaryKind::where) return where_entry();
  else return entry<elementwise::Ternary<K>>();
}

}  // namespace
}  // namespace BARACUDA_ISA

#define BARACUDA_ENTRY(k) kind_entry<TernaryKind::k>(),
extern const ElementwiseCudaEntry ternary_cuda[] = {BARACUDA_TERNARY_KINDS(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
