// Extrema, and everything about integers.
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

// NaN wins and stays; of equal ones the last, or the first.
template <class A> __device__ __forceinline__ bool takes_over(const ScanCuda& p, A a, A b) {
  const bool nan = a != a, later_nan = b != b, more = p.max ? b > a : b < a;
  return more || (later_nan && !nan) || (!p.first && (b == a || (nan && later_nan)));
}
template <class A, bool kIndexed> struct Extreme { A v; };
template <class A> struct alignas(8) Extreme<A, true> {
  A v;
  int32_t low, high;  // the index in two words: -1 is nothing
  __device__ int64_t index() const { return int64_t(uint64_t(uint32_t(high)) << 32 | uint32_t(low)); }
};
template <class T, bool kIndexed_> struct Extremum {
  using E = T;
  using Out = T;
  using A = Acc<T>;
  using State = Extreme<A, kIndexed_>;
  template <int N> struct Piece { T x[N]; };
  static constexpr int kIn = 1, kEach = 16 / int(sizeof(T)), kRounds = 8, kDownEach = kColumnElements, kBlocks = 2;
  static constexpr bool kIndexed = kIndexed_, kProducts = false, kIntegers = false;
  const ScanCuda& p;
  template <class Io> __device__ void load(Io& io) const { io.read(0, false, T{}); }
  template <class Io, class P> __device__ void view(const Io& io, int c, P& piece) const { io.view(0, c, piece.x); }
  static __device__ State made(A v, int64_t i) {
    if constexpr (kIndexed) return {v, int32_t(uint64_t(i)), int32_t(uint64_t(i) >> 32)};
    else return {v};
  }
  __device__ State identity() const { return made(A(p.max ? -kInf : kInf), -1); }
  __device__ State join(State a, State b) const {
    if constexpr (kIndexed) {
      if (b.high < 0) return a;
      if (a.high < 0) return b;
    }
    return takes_over(p, a.v, b.v) ? b : a;
  }
  template <int N> __device__ State own(const Piece<N>& piece, int k, int64_t i) const { return made(value(piece.x[k]).v, i); }
  template <int N> __device__ T step(State& s, const Piece<N>& piece, int k, int64_t i, int64_t& place) const {
    const State before = s;
    s = join(s, own(piece, k, i));
    const State v = p.exclusive ? before : s;
    if constexpr (kIndexed) place = v.index();
    return element<T>(Pack<A, 1>::of(v.v));
  }
};

enum class Whole { sum, product, extremum };
template <Whole kind> struct Integers {  // any integer or bool, as 64 bits
  using E = int64_t;
  using Out = int64_t;
  struct State { int64_t v, at; };
  template <int N> struct Piece { int64_t x[N]; };
  static constexpr int kIn = 1, kEach = 2, kRounds = 4, kDownEach = kColumnElements, kBlocks = 2;
  static constexpr bool kIndexed = kind == Whole::extremum, kProducts = false, kIntegers = true;
  const ScanCuda& p;
  __device__ int64_t read_one(int64_t at) const {
    const void* const x = p.in[0];
    switch (p.dtype) {
      case DType::boolean: return static_cast<const uint8_t*>(x)[at] != 0;
      case DType::i8: return static_cast<const int8_t*>(x)[at];
      case DType::u8: return static_cast<const uint8_t*>(x)[at];
      case DType::i16: return static_cast<const int16_t*>(x)[at];
      case DType::u16: return static_cast<const uint16_t*>(x)[at];
      case DType::i32: return static_cast<const int32_t*>(x)[at];
      case DType::u32: return static_cast<const uint32_t*>(x)[at];
      default: return static_cast<const int64_t*>(x)[at];
    }
  }
  __device__ void store(int64_t at, int64_t v) const {
    switch (p.y_dtype) {
      case DType::boolean: case DType::i8: case DType::u8: static_cast<int8_t*>(p.out)[at] = int8_t(v); return;
      case DType::i16: case DType::u16: static_cast<int16_t*>(p.out)[at] = int16_t(v); return;
      case DType::i32: case DType::u32: static_cast<int32_t*>(p.out)[at] = int32_t(v); return;
      default: static_cast<int64_t*>(p.out)[at] = v;
    }
  }
  template <class Io> __device__ void load(Io& io) const { io.read(0, false, 0); }
  template <class Io, class P> __device__ void view(const Io& io, int c, P& piece) const { io.view(0, c, piece.x); }
  __device__ State identity() const { return {kind == Whole::product, -1}; }
  __device__ State join(State a, State b) const {
    if constexpr (kind == Whole::sum) return {int64_t(uint64_t(a.v) + uint64_t(b.v)), 0};
    else if constexpr (kind == Whole::product) return {int64_t(uint64_t(a.v) * uint64_t(b.v)), 0};
    else {
      if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
      const bool plain = p.dtype != DType::u64, above = plain ? b.v > a.v : uint64_t(b.v) > uint64_t(a.v), equal = a.v == b.v;
      return (p.max ? above : !above && !equal) || (!p.first && equal) ? b : a;
    }
  }
  template <int N> __device__ State own(const Piece<N>& piece, int k, int64_t i) const { return {piece.x[k], i}; }
  template <int N> __device__ int64_t step(State& s, const Piece<N>& piece, int k, int64_t i, int64_t& place) const {
    const State before = s;
    s = join(s, own(piece, k, i));
    place = p.exclusive ? (i ? before.at : -1) : s.at;
    if (!p.exclusive) return s.v;
    return i ? before.v : kind == Whole::extremum ? p.empty : kind == Whole::product;
  }
};
template <class T> int extremum(const ScanCuda& p, void* stream) { return p.indices ? launch_scan<Extremum<T, true>>(p, stream) : launch_scan<Extremum<T, false>>(p, stream); }
template <class T> int extremum_carries(const ScanCuda& p, void* stream) {
  return p.indices ? launch_carries<Extremum<T, true>>(p, stream) : launch_carries<Extremum<T, false>>(p, stream);
}
template <class T> constexpr ScanLaunch extrema() {
  ScanLaunch l = launches<Extremum<T, true>>();
  l.scan = extremum<T>, l.carries = extremum_carries<T>;
  return l;
}
template <Whole kind> constexpr void integers(ByDType<ScanLaunch>& to) {
  for (DType t : {DType::boolean, DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64}) to[t] = launches<Integers<kind>>();
}
constexpr ScanCudaKernels make() {
  ScanCudaKernels k;
  integers<Whole::sum>(k.of[0]), integers<Whole::product>(k.of[1]);
  k.of[2] = device::floating<ScanLaunch>(extrema<f16>(), extrema<bf16>(), extrema<float>(), extrema<double>());
  integers<Whole::extremum>(k.of[2]);
  k.of[3] = k.of[2];
  return k;
}
constexpr ScanCudaKernels kKernels = make();

}  // namespace
}  // namespace BARACUDA_ISA

extern const ScanCudaKernels scan_cuda_order = kKernels;

}  // namespace baracuda
