// dx of cumprod, cummax, cummin and logcumsumexp: one recurrence each, which runs against the scan. cumprod's gradient takes in the products behind each
// element too; lines of more than a tile are looked at once more for them, before.
#include "baracuda/math/brief.hpp"
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using One = Pack<double, 1>;
struct Map { One a, b; };

// R_i = dy_i + q_(i-1), q_i = x_i R_i, dx_i = P_i R_i. P, the product of what the scan took before i, lies behind i in this direction.
template <class T> struct ProductGrad {
  using E = T;
  using Out = T;
  using F = scan::Careful;
  struct State { double r, a; };  // where a stretch begins with 0, and the product of all a
  template <int N> struct Piece { T dy[N], x[N]; };
  static constexpr int kIn = 2, kEach = 16 / int(sizeof(T)), kRounds = 4, kDownEach = kColumnElements, kBlocks = 2;
  static constexpr bool kIndexed = false, kProducts = true, kIntegers = false;
  const ScanCuda& p;
  template <class Io> __device__ void load(Io& io) const {
    io.read(0, p.exclusive, T{}), io.read(1, false, element<T>(Pack<Acc<T>, 1>(1)));
  }
  template <class Io, class P> __device__ void view(const Io& io, int c, P& piece) const { io.view(0, c, piece.dy), io.view(1, c, piece.x); }
  __device__ State identity() const { return {-0.0, 1}; }
  __device__ State join(State first, State then) const {
    const Map all = scan::joined<F>(Map{One::of(first.a), One::of(first.r)}, Map{One::of(then.a), One::of(then.r)});
    return {all.b.v, all.a.v};
  }
  __device__ double times(double a, double b) const { return F::mul(One::of(a), One::of(b)).v; }
  template <int N> __device__ double factor(const Piece<N>& piece, int k) const { return double(value(piece.x[k]).v); }
  template <int N> __device__ State own(const Piece<N>& piece, int k, int64_t) const {
    const double x = factor(piece, k);
    return {times(x, double(value(piece.dy[k]).v)), x};
  }
  template <int N> __device__ T step(State& s, const Piece<N>& piece, int k, int64_t i, double behind) const {
    const double r = s.r + double(value(piece.dy[k]).v), dx = times(behind, r);
    s.r = times(factor(piece, k), r);
    return element<T>(Pack<Acc<T>, 1>::of(p.exclusive && i == 0 ? Acc<T>(0) : Acc<T>(dx)));
  }
};

// r_i = dy_i + (what r_(i-1) was, unless an element pointed to i - 1); dx_i = r_i where one points to i.
template <class T> struct ExtremumGrad {
  using E = T;
  using Out = T;
  struct State { double sum; int64_t closed; };  // what has not found its element; closed: one was pointed to
  template <int N> struct Piece { T dy[N]; uint32_t found; };
  static constexpr int kIn = 2, kEach = 16 / int(sizeof(T)), kRounds = 4, kDownEach = kColumnElements, kBlocks = 2;
  static constexpr bool kIndexed = false, kProducts = false, kIntegers = false;
  const ScanCuda& p;
  template <class Io> __device__ void load(Io& io) const {
    io.read(0, p.exclusive, T{}), io.read_found(1, p.exclusive);
  }
  template <class Io, class P> __device__ void view(const Io& io, int c, P& piece) const { io.view(0, c, piece.dy), piece.found = io.found(1, c); }
  __device__ State identity() const { return {-0.0, 0}; }
  __device__ State join(State a, State b) const { return {b.closed ? b.sum : b.sum + a.sum, a.closed | b.closed}; }
  template <int N> __device__ State own(const Piece<N>& piece, int k, int64_t) const {
    const bool found = piece.found >> k & 1;
    return {found ? -0.0 : double(value(piece.dy[k]).v), found};
  }
  template <int N> __device__ T step(State& s, const Piece<N>& piece, int k, int64_t, int64_t&) const {
    const bool found = piece.found >> k & 1;
    const double sum = s.sum + double(value(piece.dy[k]).v);
    s.sum = found ? -0.0 : sum;
    return element<T>(Pack<Acc<T>, 1>::of(found ? Acc<T>(sum) : Acc<T>(0)));
  }
};

// Sums beyond the range of powers of two, infinities and NaN; rare.
template <class L> __device__ __noinline__ double gain_wild(typename L::State from, typename L::State to) { return L::gain(from, to); }
template <class L> __device__ __noinline__ double weight_wild(double x, double y) { return x == y ? 1 : L::Forward::exp1(x - y); }

// dx = exp(x) / 2^k S, S = the sum of dy exp(-y) 2^k over what the scan took from here on.
template <class T> struct LogSumExpGrad {
  using E = T;
  using Out = T;
  using L = scan::LogSumGrad<Acc<T>>;
  using V = Pack<Acc<T>, 1>;
  using Sum = std::conditional_t<kIsHalf<T>, float, double>;  // of a chunk
  using State = typename L::State;
  template <int N> struct Piece { T dy[N], x[N], y[N]; };
  static constexpr int kIn = 3, kEach = 16 / int(sizeof(T)), kRounds = 2, kDownEach = sizeof(T) == 4 ? kColumnElements : 4, kBlocks = 2;
  static constexpr bool kIndexed = false, kProducts = false, kIntegers = false, kChunks = true;
  const ScanCuda& p;
  template <class Io> __device__ void load(Io& io) const {
    io.read(0, p.exclusive, T{}), io.read(1, false, T{}), io.read(2, p.exclusive, T{});
  }
  template <class Io, class P> __device__ void view(const Io& io, int c, P& piece) const { io.view(0, c, piece.dy), io.view(1, c, piece.x), io.view(2, c, piece.y); }
  __device__ State identity() const { return L::identity(); }
  __device__ State join(const State& a, State b) const {
    if (b.sum == 0 && !b.stop && b.y == kInf) return a;
    if (!b.stop && a.sum != 0) {
      const int k = b.k - a.k;
      const bool near = L::Forward::tame(a.y) && L::Forward::tame(b.y) && k >= -int(L::kFar) && k <= int(L::kFar);
      b.sum = b.sum + (near ? L::gain_tame(One(a.sum), One(a.k), One(b.k)).v : gain_wild<L>(a, b)) * a.sum;
    }
    b.stop |= a.stop;
    return b;
  }
  static __device__ State term(V dy, V y) {
    if (!L::Forward::tame(double(y.v))) return {double(dy.v), double(y.v), 0, 0};
    const V power = L::Forward::power(y);
    return {double(dy.v) * double(scan::exp_over(-y, kMagic<V> - power, V(-kInf)).v), double(y.v), int32_t(power.v), 0};
  }
  static __device__ void cut(State& s, V x) {
    if (x == V(kInf)) s.sum = 0, s.stop = 1;
  }
  static __device__ V exp_of(V x, V k) {  // exp(x) / 2^k
    if constexpr (kIsHalf<T>) return V::of(power_of_two(fma(Brief<1>::of(x.v), Brief<1>(kLog2E), Brief<1>::of(-k.v))).v);
    else return scan::exp_over(x, k + kMagic<V>, k * V(0x1.62e42fefa39efp-1) - scan::kVanish<V>);
  }
  // The power of two that a chunk shares: that of its last y, where none is far from it and nothing is cut off.
  static constexpr double kApart = 40;
  template <int N> static __device__ bool together(const Piece<N>& piece, V& power) {
    const V last = value(piece.y[N - 1]);
    bool all = L::Forward::tame(double(last.v));
#pragma unroll
    for (int k = 0; k < N; ++k) all = all && abs(value(piece.y[k]) - last) <= V(kApart) && !(value(piece.x[k]) > last + V(kApart));
    power = L::Forward::power(last);
    return all;
  }
  template <int N> __device__ bool chunk(const Piece<N>& piece, State& all) const {
    V power;
    if (!together(piece, power)) return false;
    Sum sum = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) sum = sum + Sum((value(piece.dy[k]) * exp_of(-value(piece.y[k]), -power)).v);
    all = {double(sum), double(value(piece.y[N - 1]).v), int32_t(power.v), 0};
    return true;
  }
  template <int N> __device__ bool chunk(State& s, const Piece<N>& piece, int64_t i, T (&out)[N]) const {
    V power;
    if (!together(piece, power)) return false;
    const int k = int(power.v), far = k - s.k;
    if (s.sum != 0 && !(L::Forward::tame(s.y) && far >= -int(L::kFar) && far <= int(L::kFar))) return false;
    const double before = s.sum == 0 ? 0 : s.sum * L::gain_tame(One(s.sum), One(s.k), One(k)).v;
    const V carried = V::of(Acc<T>(before));
    Sum run = kIsHalf<T> ? 0 : Sum(before);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const V x = value(piece.x[e]);
      run = run + Sum((value(piece.dy[e]) * exp_of(-value(piece.y[e]), -power)).v);
      const V sum = kIsHalf<T> ? carried + V::of(Acc<T>(run)) : V::of(Acc<T>(run));
      const V dx = exp_of(x, power) * sum;
      out[e] = element<T>(where(x == V(-kInf) || (p.exclusive && i + e == 0), V(0), dx));
    }
    s = {kIsHalf<T> ? before + double(run) : double(run), double(value(piece.y[N - 1]).v), k, s.stop};
    return true;
  }
  template <int N> __device__ State own(const Piece<N>& piece, int k, int64_t) const {
    State s = term(value(piece.dy[k]), value(piece.y[k]));
    cut(s, value(piece.x[k]));
    return s;
  }
  template <int N> __device__ T step(State& s, const Piece<N>& piece, int k, int64_t i, int64_t&) const {
    const V x = value(piece.x[k]), y = value(piece.y[k]);
    s = join(s, term(value(piece.dy[k]), y));
    double weight;
    if (L::Forward::tame(double(y.v))) {
      const V power = V(double(s.k));
      weight = double(scan::exp_over(x, power + kMagic<V>, power * 0x1.62e42fefa39efp-1 - scan::kVanish<V>).v);
    } else weight = weight_wild<L>(double(x.v), double(y.v));
    const double dx = x == V(-kInf) || (p.exclusive && i == 0) ? 0 : weight * s.sum;
    cut(s, x);
    return element<T>(V::of(Acc<T>(dx)));
  }
};

// --- products of tiles
template <class T> __device__ __forceinline__ double factor_at(const ScanCuda& p, int64_t at, int64_t i) { return double(value(static_cast<const T*>(p.in[1])[at + i * p.step[1]]).v); }
__device__ __forceinline__ double times(double a, double b) { return scan::Careful::mul(One::of(a), One::of(b)).v; }
// A block a tile of a row; a thread has every 512th element, so that a warp reads neighbours.
template <class T> __global__ void __launch_bounds__(kMostTeam, 1) products_of_rows_kernel(const __grid_constant__ ScanCuda p) {
  __shared__ double shared[kMostTeam / 32];
  for (int64_t t = blockIdx.x; t < p.lines.units * p.tiles; t += gridDim.x) {
    int64_t at[5];
    p.lines.offsets(t / p.tiles, at);
    const int64_t begin = t % p.tiles * p.tile, end = begin + p.tile < p.n ? begin + p.tile : p.n;
    double f = 1;
#pragma unroll 8
    for (int64_t i = begin + threadIdx.x; i < end; i += kMostTeam) f = times(f, factor_at<T>(p, at[1], i));
#pragma unroll
    for (int w = 16; w; w /= 2) f = times(f, __shfl_down_sync(0xffffffffu, f, w));
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = f;
    __syncthreads();
    if (threadIdx.x) continue;
    for (int w = 1; w < kMostTeam / 32; ++w) f = times(f, shared[w]);
    p.products[t] = f;
  }
}
// A thread a tile of a column.
template <class T> __global__ void __launch_bounds__(kThreads, 1) products_of_columns_kernel(const __grid_constant__ ScanCuda p) {
  for (int64_t t = int64_t(blockIdx.x) * kThreads + threadIdx.x; t < p.lines.units * p.tiles; t += int64_t(gridDim.x) * kThreads) {
    const int64_t line = t % p.lines.units, tile = t / p.lines.units, begin = tile * p.tile, end = begin + p.tile < p.n ? begin + p.tile : p.n;
    int64_t at[5];
    p.lines.offsets(line, at);
    double f = 1;
#pragma unroll 16
    for (int64_t i = begin; i < end; ++i) f = times(f, factor_at<T>(p, at[1], i));
    p.products[line * p.tiles + tile] = f;
  }
}
// A warp a line, from its end.
__global__ void __launch_bounds__(32, 1) spread_kernel(const __grid_constant__ ScanCuda p) {
  const int lane = int(threadIdx.x);
  for (int64_t line = blockIdx.x; line < p.lines.units; line += gridDim.x) {
    double* const to = p.products + line * p.tiles;
    double carry = 1;
    for (int64_t last = p.tiles - 1; last >= 0; last -= 32) {
      const int64_t c = last - lane;
      double f = c >= 0 ? to[c] : 1;
#pragma unroll
      for (int w = 1; w < 32; w *= 2) {
        const double other = from_lower(f, w);
        if (lane >= w) f = times(other, f);
      }
      const double left = from_lower(f, 1);
      if (c >= 0) to[c] = lane ? times(carry, left) : carry;
      carry = times(carry, of_lane(f, 31));
    }
  }
}
template <class T> int product_grad(const ScanCuda& p, void* stream) {
  if (p.stage != ScanPhase::products) return launch_scan<ProductGrad<T>>(p, stream);
  if (!p.columns) return device::launch(products_of_rows_kernel<T>, device::blocks_for(p.lines.units * p.tiles, 1), dim3(kMostTeam), 0, stream, p);
  return device::launch(products_of_columns_kernel<T>, device::blocks_for(p.lines.units * p.tiles, kThreads), dim3(kThreads), 0, stream, p);
}
template <class T> constexpr ScanLaunch product_grads() {
  ScanLaunch l = launches<ProductGrad<T>>();
  l.scan = product_grad<T>;
  return l;
}
template <template <class> class F> constexpr ByDType<ScanLaunch> floats() {
  return device::floating<ScanLaunch>(launches<F<f16>>(), launches<F<bf16>>(), launches<F<float>>(), launches<F<double>>());
}
constexpr ScanCudaKernels make() {
  ScanCudaKernels k;
  k.of[1] = device::floating<ScanLaunch>(product_grads<f16>(), product_grads<bf16>(), product_grads<float>(), product_grads<double>());
  k.of[2] = k.of[3] = floats<ExtremumGrad>();
  k.of[4] = floats<LogSumExpGrad>();
  return k;
}
constexpr ScanCudaKernels kKernels = make();

}  // namespace
}  // namespace BARACUDA_ISA

extern const ScanCudaKernels scan_cuda_gradients = kKernels;
int scan_cuda_spread(const ScanCuda& p, void* stream) { return device::launch(spread_kernel, device::blocks_for(p.lines.units, 1), dim3(32), 0, stream, p); }

}  // namespace baracuda
