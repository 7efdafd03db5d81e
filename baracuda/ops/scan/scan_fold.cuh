#pragma once
// Sums and products as ops of scans.
#include "baracuda/device/row_team.cuh"
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
  static constexpr bool kIndexed = false, kProducts = false, kIntegers = false, kChunks = true, kPiped = true, kTwice = false;
  static constexpr int kAtOnce = sizeof(T) == 2 ? 2 : 4;  // chunks whose code stands side by side, in whole lines
  const ScanCuda& p;
  template <class Io> __device__ void load(Io& io) const { io.read(0, false, T{}); }
  template <class Io, class P> __device__ void view(const Io& io, int c, P& piece) const { io.view(0, c, piece.x); }
  __device__ State identity() const { return kProduct ? A(1) : A(-0.0); }
  __device__ State join(State a, State b) const { return kProduct ? a * b : a + b; }
  __device__ static A empty() { return A(kProduct); }                                                  // the first of an exclusive scan, and not -0
  __device__ static T none() { return element<T>(Pack<Acc<T>, 1>::of(Acc<T>(kProduct ? 1 : -0.0))); }  // an element that changes nothing
  // Elements by words, as they lie in memory: element k of one, and one of v(k).
  using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr int kWordEach = int(sizeof(Word) / sizeof(T)), kStripRows = sizeof(State) * kWordEach > 8 || sizeof(T) == 8 ? 8 : 16;
  __device__ static A of_word(Word w, int k) {
    if constexpr (sizeof(T) == 8) return __builtin_bit_cast(double, w);
    else return A(row_team::Packed<T, kWordEach>{w}[k].v);
  }
  template <class F> __device__ static Word rounded(F v) {
    if constexpr (sizeof(T) == 8) return __builtin_bit_cast(Word, v(0));
    else return row_team::Packed<T, kWordEach>::rounded([&](int k) { return Pack<float, 1>::of(float(v(k))); }).word[0];
  }
  __device__ static State made(A v, int64_t) { return v; }
  __device__ State took(State s, A v, int) const { return join(s, v); }  // element i
  template <int N> __device__ State own(const Piece<N>& piece, int k, int64_t) const { return A(value(piece.x[k]).v); }
  template <int N> __device__ bool chunk(const Piece<N>& piece, State& all) const {
    all = own(piece, 0, 0);
#pragma unroll
    for (int k = 1; k < N; ++k) all = join(all, own(piece, k, 0));
    return true;
  }
  template <int N> __device__ bool chunk(State& s, const Piece<N>& piece, int64_t i, T (&out)[N]) const {
    Acc<T> v[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const State before = s;
      s = join(s, own(piece, k, 0));
      v[k] = Acc<T>(p.exclusive ? before : s);
    }
    if (p.exclusive && i == 0) v[0] = kProduct;  // and not -0
    if constexpr (kIsHalf<T>) {
      const auto packed = row_team::Packed<T, N>::rounded([&](int k) { return Pack<float, 1>::of(v[k]); });
#pragma unroll
      for (int k = 0; k < N; ++k) out[k] = packed.at(k);
    } else
#pragma unroll
      for (int k = 0; k < N; ++k) out[k] = element<T>(Pack<Acc<T>, 1>::of(v[k]));
    return true;
  }
  template <int N> __device__ T step(State& s, const Piece<N>& piece, int k, int64_t, int64_t&) const { return s = join(s, own(piece, k, 0)), T{}; }  // chunk() does it all
};
template <class T> using Sums = Fold<T, std::conditional_t<kIsHalf<T>, float, double>, false>;
template <class T> using Products = Fold<T, double, true>;

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
