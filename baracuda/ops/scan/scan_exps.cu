// Logarithms of sums of exponentials. The elements that a thread reads at once share a power of two: two exponentials and a logarithm an element in the
// computing type, short ones for halves; sums in f64, those of a chunk of halves in f32. What rises too far within them goes element by element.
#include "baracuda/math/brief.hpp"
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

// States beyond the range of exp_over, and infinities; rare.
template <class L> __device__ __noinline__ typename L::State join_wild(typename L::State a, typename L::State b) { return L::join_wild(a, b); }
template <class L> __device__ __noinline__ double precise(typename L::State s) { return L::precise(s); }
// Elements by themselves, whatever they are.
template <class T> __device__ __noinline__ typename scan::LogSum<Acc<T>>::State of_element(Acc<T> x) {
  using L = scan::LogSum<Acc<T>>;
  using V = Pack<Acc<T>, 1>;
  const V v = V::of(x), power = L::power(v);
  return {L::tame(double(x)) ? double(scan::exp_over(v, power + kMagic<V>, V(-kInf)).v) : double(v != V(-kInf)), double(x), double(power.v)};
}

template <class T> struct LogSumExp {
  using E = T;
  using Out = T;
  using L = scan::LogSum<Acc<T>>;
  using V = Pack<Acc<T>, 1>;
  using State = typename L::State;
  using One = Pack<double, 1>;
  using Sum = std::conditional_t<kIsHalf<T>, float, double>;  // of a chunk
  template <int N> struct Piece { T x[N]; };
  static constexpr int kIn = 1, kEach = 16 / int(sizeof(T)), kRounds = 8, kDownEach = sizeof(T) == 2 ? 4 : kColumnElements, kBlocks = 2;
  static constexpr bool kIndexed = false, kProducts = false, kIntegers = false, kChunks = true;
  const ScanCuda& p;
  template <class Io> __device__ void load(Io& io) const { io.read(0, false, T{}); }
  template <class Io, class P> __device__ void view(const Io& io, int c, P& piece) const { io.view(0, c, piece.x); }
  __device__ State identity() const { return L::identity(); }
  static __device__ bool usable(const State& s) { return L::tame(s.most) || s.most == -kInf; }  // none is as good as tame
  __device__ State join(const State& a, const State& b) const { return usable(a) && usable(b) ? L::join_in_range(a, b) : join_wild<L>(a, b); }
  template <int N> __device__ State own(const Piece<N>& piece, int k, int64_t) const { return of_element<T>(value(piece.x[k]).v); }
  static __device__ V exp_of(V x, V k) {  // exp(x) / 2^k of x that is at most a little larger than k ln2
    if constexpr (kIsHalf<T>) return V::of(falling_power_of_two(fma(Brief<1>::of(x.v), Brief<1>(kLog2E), Brief<1>::of(-k.v))).v);
    else return scan::exp_over(x, k + kMagic<V>, k * V(0x1.62e42fefa39efp-1) - scan::kVanish<V>);
  }
  template <int N> static __device__ V largest(const Piece<N>& piece) {
    V top = value(piece.x[0]);
#pragma unroll
    for (int k = 1; k < N; ++k) top = max_nan(value(piece.x[k]), top);
    return top;
  }
  template <int N> __device__ bool chunk(const Piece<N>& piece, State& all) const {
    const V top = largest(piece);
    if (!L::tame(top)) return false;
    const V power = L::power(top);
    Sum sum = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) sum = sum + Sum(exp_of(value(piece.x[k]), power).v);
    all = {double(sum), double(top.v), double(power.v)};
    return true;
  }
  template <int N> __device__ bool chunk(State& s, const Piece<N>& piece, int64_t, T (&out)[N]) const {
    const V top = largest(piece), first = value(piece.x[0]);
    if (!L::tame(top) || !usable(s)) return false;
    const double own = double(L::power(top).v), k = s.k > own ? s.k : own;
    const bool beside = s.sum > 0 && s.k >= own - L::kRange;
    if (!beside && (!(first >= top - V(L::kRange)) || (p.exclusive && s.sum > 0))) return false;
    const V power = V(k);
    const double before = s.sum * L::shift(One(s.k - k)).v;
    Sum run = kIsHalf<T> ? 0 : Sum(before);
    const V carried = V::of(Acc<T>(before));
    V sums[N];
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const Sum next = run + Sum(exp_of(value(piece.x[e]), power).v);
      const V v = V::of(Acc<T>(p.exclusive ? run : next));
      sums[e] = kIsHalf<T> ? carried + v : v;
      run = next;
    }
    bool near = !kIsHalf<T>;  // to 1: its logarithm needs more digits
    if constexpr (kIsHalf<T>)
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const Brief<1> y = (octaves_of_normal(Brief<1>::of(sums[e].v)) + Brief<1>::of(power.v)) * kLn2Brief;
        near |= abs(y) < 0.125;
        out[e] = element<T>(V::of(y.v));
      }
    if (near)
#pragma unroll
      for (int e = 0; e < N; ++e) out[e] = element<T>(L::log_scaled(sums[e], power));
    s = {kIsHalf<T> ? before + double(run) : double(run), s.most > double(top.v) ? s.most : double(top.v), k};
    return true;
  }
  template <int N> __device__ T step(State& s, const Piece<N>& piece, int k, int64_t i, int64_t&) const {
    const State before = s;
    s = join(s, own(piece, k, i));
    return element<T>(V::of(Acc<T>(precise<L>(p.exclusive ? before : s))));
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
