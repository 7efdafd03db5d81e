// Logarithms of sums of exponentials: an exponential and a logarithm an element in the computing type, sums in f64.
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

// States beyond the range of exp_over, and infinities; rare.
template <class L> __device__ __noinline__ typename L::State join_wild(typename L::State a, typename L::State b) { return L::join_wild(a, b); }
template <class L> __device__ __noinline__ double precise(typename L::State s) { return L::precise(s); }

template <class T> struct LogSumExp {
  using E = T;
  using Out = T;
  using L = scan::LogSum<Acc<T>>;
  using V = Pack<Acc<T>, 1>;
  using State = typename L::State;
  template <int N> struct Piece { T x[N]; };
  static constexpr int kIn = 1, kEach = 16 / int(sizeof(T)), kRounds = 8, kDownEach = sizeof(T) == 2 ? 4 : kColumnElements, kBlocks = 2;
  static constexpr bool kIndexed = false, kProducts = false, kIntegers = false;
  const ScanCuda& p;
  template <class Io> __device__ void load(Io& io) const { io.read(0, false, T{}); }
  template <class Io, class P> __device__ void view(const Io& io, int c, P& piece) const { io.view(0, c, piece.x); }
  __device__ State identity() const { return L::identity(); }
  static __device__ bool usable(const State& s) { return L::tame(s.most) || s.most == -kInf; }  // none is as good as tame
  __device__ State join(const State& a, const State& b) const { return usable(a) && usable(b) ? L::join_in_range(a, b) : join_wild<L>(a, b); }
  template <int N> __device__ State own(const Piece<N>& piece, int k, int64_t) const {
    const V x = value(piece.x[k]), power = L::power(x);
    const double sum = L::tame(double(x.v)) ? double(scan::exp_over(x, power + kMagic<V>, V(-kInf)).v) : double(x != V(-kInf));
    return {sum, double(x.v), double(power.v)};
  }
  template <int N> __device__ T step(State& s, const Piece<N>& piece, int k, int64_t i, int64_t&) const {
    const State before = s;
    s = join(s, own(piece, k, i));
    const State v = p.exclusive ? before : s;
    if (usable(v)) return element<T>(L::log_scaled(V::of(Acc<T>(v.sum)), V::of(Acc<T>(v.k))));
    return element<T>(V::of(Acc<T>(precise<L>(v))));
  }
};
constexpr ScanCudaKernels make() {
  ScanCudaKernels k;
  k.of[4] = device::floating<ScanLaunch>(launches<LogSumExp<f16>>(), launches<LogSumExp<bf16>>(), launches<LogSumExp<float>>(), launches<LogSumExp<double>>());
  return k;
}
constexpr ScanCudaKernels kKernels = make();

}  // namespace
}  // namespace BARACUDA_ISA

extern const ScanCudaKernels scan_cuda_exps = kKernels;

}  // namespace baracuda
