// Sums and products.
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T, class A, bool kProduct> struct Fold {
  using E = T;
  using Out = T;
  using State = A;
  template <int N> struct Piece { T x[N]; };
  static constexpr int kIn = 1, kEach = 16 / int(sizeof(T)), kRounds = 8, kDownEach = kColumnElements, kBlocks = 3;
  static constexpr bool kIndexed = false, kProducts = false, kIntegers = false;
  const ScanCuda& p;
  template <class Io> __device__ void load(Io& io) const { io.read(0, false, T{}); }
  template <class Io, class P> __device__ void view(const Io& io, int c, P& piece) const { io.view(0, c, piece.x); }
  __device__ State identity() const { return kProduct ? A(1) : A(-0.0); }
  __device__ State join(State a, State b) const { return kProduct ? a * b : a + b; }
  template <int N> __device__ State own(const Piece<N>& piece, int k, int64_t) const { return A(value(piece.x[k]).v); }
  template <int N> __device__ T step(State& s, const Piece<N>& piece, int k, int64_t i, int64_t&) const {
    const State before = s;
    s = join(s, own(piece, k, i));
    const State v = !p.exclusive ? s : i ? before : A(kProduct);
    return element<T>(Pack<Acc<T>, 1>::of(Acc<T>(v)));
  }
};
template <class T> using Sums = Fold<T, std::conditional_t<kIsHalf<T>, float, double>, false>;
template <class T> using Products = Fold<T, double, true>;
template <template <class> class F> constexpr ByDType<ScanLaunch> floats() {
  return device::floating<ScanLaunch>(launches<F<f16>>(), launches<F<bf16>>(), launches<F<float>>(), launches<F<double>>());
}
constexpr ScanCudaKernels make() {
  ScanCudaKernels k;
  k.of[0] = floats<Sums>(), k.of[1] = floats<Products>();
  return k;
}
constexpr ScanCudaKernels kKernels = make();

}  // namespace
}  // namespace BARACUDA_ISA

extern const ScanCudaKernels scan_cuda_sums = kKernels;

}  // namespace baracuda
