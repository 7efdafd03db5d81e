// y_t = a_t y_(t-1) + x_t and its gradients: reads two or three tensors, writes one or two; the floor is memory bandwidth. In f64, as on the CPU.
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using One = Pack<double, 1>;
struct Map { One a, b; };
// Maps r to r_0 + a r, one after the other. Gradients have the same tiles whatever is asked for, and so the same bits.
template <class T, int kIn_> struct Affine {
  using E = T;
  using Out = T;
  using F = scan::Careful;
  struct State { double r, a; };  // where a stretch begins with 0, and the product of all a
  static constexpr int kIn = kIn_, kEach = 16 / int(sizeof(T)), kRounds = 2, kDownEach = sizeof(T) < 8 ? kColumnElements : 4, kBlocks = 2;
  static constexpr bool kIndexed = false, kProducts = false, kIntegers = false;
  const ScanCuda& p;
  static __device__ T one() { return element<T>(Pack<Acc<T>, 1>(1)); }
  static __device__ T rounded(double v) { return element<T>(Pack<Acc<T>, 1>::of(Acc<T>(v))); }
  static __device__ double number(T e) { return double(value(e).v); }
  __device__ State identity() const { return {-0.0, 1}; }
  __device__ State join(State first, State then) const {
    const Map all = scan::joined<F>(Map{One::of(first.a), One::of(first.r)}, Map{One::of(then.a), One::of(then.r)});
    return {all.b.v, all.a.v};
  }
};
template <class T> struct Forward : Affine<T, 2> {
  using Base = Affine<T, 2>;
  using State = typename Base::State;
  template <int N> struct Piece { T x[N], a[N]; };
  template <class Io> __device__ void load(Io& io) const { io.read(0, 0, T{}), io.read(1, 0, Base::one()); }
  template <class Io, class P> __device__ void view(const Io& io, int c, P& piece) const { io.view(0, c, piece.x), io.view(1, c, piece.a); }
  template <int N> __device__ State own(const Piece<N>& piece, int k, int64_t) const { return {Base::number(piece.x[k]), Base::number(piece.a[k])}; }
  template <int N> __device__ T step(State& s, const Piece<N>& piece, int k, int64_t, int64_t&) const {
    s.r = Base::F::mul_add(One::of(Base::number(piece.a[k])), One::of(s.r), One::of(Base::number(piece.x[k]))).v;
    return Base::rounded(s.r);
  }
};
// r_i = dy_i + q_(i-1), q_i = a_i r_i; dx_i = r_i, da_i = r_i y_(i+1), as what the forward had before lies behind i in this direction.
template <class T, bool kWeighted> struct Gradient : Affine<T, kWeighted ? 3 : 2> {
  using Base = Affine<T, kWeighted ? 3 : 2>;
  using State = typename Base::State;
  template <int N> struct Piece { T dy[N], a[N], y[kWeighted ? N : 1]; };
  static constexpr bool kTwo = kWeighted;
  template <class Io> __device__ void load(Io& io) const {
    io.read(0, 0, T{}), io.read(1, 0, Base::one());
    if constexpr (kWeighted) io.read(2, -1, T{});
  }
  template <class Io, class P> __device__ void view(const Io& io, int c, P& piece) const {
    io.view(0, c, piece.dy), io.view(1, c, piece.a);
    if constexpr (kWeighted) io.view_next(2, c, piece.y);
  }
  static __device__ double times(double a, double b) { return Base::F::mul(One::of(a), One::of(b)).v; }
  template <int N> __device__ State own(const Piece<N>& piece, int k, int64_t) const {
    const double a = Base::number(piece.a[k]);
    return {times(a, Base::number(piece.dy[k])), a};
  }
  // Where both are asked for, `second` is da.
  template <int N, class S> __device__ T step(State& s, const Piece<N>& piece, int k, int64_t, S& second) const {
    const double r = s.r + Base::number(piece.dy[k]);
    s.r = times(Base::number(piece.a[k]), r);
    if constexpr (!kWeighted) return Base::rounded(r);
    else {
      const T dx = Base::rounded(r), da = Base::rounded(r * Base::number(piece.y[k]));
      second = da;
      return this->p.indices ? dx : da;
    }
  }
};
template <class T> using Plain = Gradient<T, false>;
template <class T> using Weighted = Gradient<T, true>;
template <template <class> class F> constexpr ByDType<ScanLaunch> floats() {
  return device::floating<ScanLaunch>(launches<F<f16>>(), launches<F<bf16>>(), launches<F<float>>(), launches<F<double>>());
}
constexpr LinearRecurrenceCuda kKernels = {floats<Forward>(), floats<Plain>(), floats<Weighted>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const LinearRecurrenceCuda linear_recurrence_cuda = kKernels;

}  // namespace baracuda
