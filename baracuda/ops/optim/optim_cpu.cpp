// Adam: p m v (and v_max) read and written, g read; seven (nine) streams of 4 bytes in f32, memory bandwidth is the floor. With masters p is
// only written. Norm: one stream
// read, eight vectors of f64 sums so that the additions do not wait for each other.
#include "baracuda/math/twice.hpp"
#include "baracuda/ops/optim/optim_cpu.hpp"
#include "baracuda/ops/optim/optim_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class P, class G> void adam(const AdamStep& step, const AdamPiece& piece) {
  using S = Acc<P>;
  constexpr int N = kLanes<S>;
  using V = Pack<S, N>;
  const AdamStep s = step;
  P* p = static_cast<P*>(piece.params);
  const G* g = static_cast<const G*>(piece.grads);
  S *m = static_cast<S*>(piece.m), *v = static_cast<S*>(piece.v), *w = static_cast<S*>(piece.masters), *u = static_cast<S*>(piece.v_max);
  auto stepped = [&](int64_t i) __attribute__((always_inline)) {
    V pv = w ? load<N>(w + i) : load<N>(p + i), mv = load<N>(m + i), vv = load<N>(v + i), uv = u ? load<N>(u + i) : V(0);
    optim::adam(s, load<N>(g + i), pv, mv, vv, u ? &uv : nullptr);
    store<S, N>(m + i, mv);
    store<S, N>(v + i, vv);
    if (w) store<S, N>(w + i, pv);
    if (u) store<S, N>(u + i, uv);
    return pv;
  };
  int64_t i = 0;
  for (; i + 2 * N <= piece.n; i += 2 * N) {
    const V low = stepped(i), high = stepped(i + N);
    store_twice<P, N>(p + i, low, high, piece.past);
  }
  for (; i + N <= piece.n; i += N) store<P, N>(p + i, stepped(i));
  if (piece.past) store_past_fence();
  if (const int rest = int(piece.n - i)) {
    V pv = w ? load_tail<N>(w + i, rest) : load_tail<N>(p + i, rest), mv = load_tail<N>(m + i, rest), vv = load_tail<N>(v + i, rest),
      uv = u ? load_tail<N>(u + i, rest) : V(0);
    optim::adam(s, load_tail<N>(g + i, rest), pv, mv, vv, u ? &uv : nullptr);
    store_tail<S, N>(m + i, mv, rest);
    store_tail<S, N>(v + i, vv, rest);
    if (w) store_tail<S, N>(w + i, pv, rest);
    if (u) store_tail<S, N>(u + i, uv, rest);
    store_tail<P, N>(p + i, pv, rest);
  }
}

template <int L> void add_folded(double (&lane)[L], double& sum) {
  for (int w = L / 2; w; w /= 2)
    for (int l = 0; l < w; ++l) lane[l] += lane[l + w];
  sum += lane[0];
}
// f32: element i goes to lane i mod 64 in its turn; lanes are folded in halves.
template <class T> void squares_of_floats(const T* x, int64_t n, SquareSums& sums) {
  constexpr int L = 64, N = kLanes<T>, H = N > 1 ? N / 2 : 1, kParts = L / H;
  using D = Pack<double, H>;
  const int64_t whole = n / L * L;
  D acc[kParts];
  for (auto& a : acc) a = 0;
  for (int64_t i = 0; i < whole; i += L)
    for (int k = 0; k < L / N; ++k) {
      const auto v = load<N>(x + i + k * N);
      if constexpr (N > 1) {
        const Twice<D> d = widen(v);
        acc[2 * k] = fma(d.low, d.low, acc[2 * k]);  // products of floats are exact: rounded once, as + does
        acc[2 * k + 1] = fma(d.high, d.high, acc[2 * k + 1]);
      } else {
        const D d = convert<double>(v);
        acc[k] = acc[k] + d * d;
      }
    }
  double lane[L];
  for (int k = 0; k < kParts; ++k) store<double, H>(lane + k * H, acc[k]);
  for (int64_t i = whole; i < n; ++i) lane[i - whole] += double(x[i]) * double(x[i]);
  add_folded(lane, sums.mid);
}
// Halves, in blocks of 64: lane l adds the squares of 2 l, 2 l + 1, 2 l + 32 and 2 l + 33 in f32, in which each is exact, and the
// sum in f64; all of it in f64 where f32 may not hold them.
constexpr int kBlock = 64, kHalfLanes = 16;
bool squares_fit(const f16*) { return true; }
bool squares_fit(const bf16* x) {
  constexpr int kMost = optim::kMostMagnitude, kLeast = optim::kLeastMagnitude;
#if BARACUDA_VECTOR_BYTES == 64
  const __m512i magnitude = _mm512_set1_epi16(0x7fff);
  const __m512i m = _mm512_max_epu16(_mm512_and_si512(_mm512_loadu_si512(x), magnitude), _mm512_and_si512(_mm512_loadu_si512(x + 32), magnitude));
  return !_mm512_cmpge_epu16_mask(m, _mm512_set1_epi16(kMost)) && _mm512_cmpge_epu16_mask(m, _mm512_set1_epi16(kLeast));
#else
  int m = 0;
  for (int l = 0; l < kBlock; ++l) m = (x[l].bits & 0x7fff) > m ? x[l].bits & 0x7fff : m;
  return m >= kLeast && m < kMost;
#endif
}
template <class T> void squares_of_halves(const T* x, int64_t n, SquareSums& sums) {
  constexpr int N = kLanes<float>, H = N > 1 ? N / 2 : 1, P = N / H;
  const int64_t whole = n / kBlock * kBlock;
  Pack<double, H> acc[kHalfLanes / H];
  for (auto& a : acc) a = 0;
  auto add = [&](int l, auto v, auto f) __attribute__((always_inline)) {
    if constexpr (N == 1) acc[l] = f(convert<double>(v), acc[l]);
    else {
      const auto d = widen(v);
      acc[l / N * P] = f(d.low, acc[l / N * P]), acc[l / N * P + 1] = f(d.high, acc[l / N * P + 1]);
    }
  };
  for (int64_t i = 0; i < whole; i += kBlock) {
    const bool fit = squares_fit(x + i);
    for (int l = 0; l < kHalfLanes; l += N) {
      const auto u = load_apart<N>(x + i + 2 * l), v = load_apart<N>(x + i + 2 * l + 32);
      if (fit) add(l, optim::four_squares(u.low, u.high, v.low, v.high), [](auto s, auto a) { return a + s; });
      else for (auto w : {u.low, u.high, v.low, v.high}) add(l, w, [](auto d, auto a) { return fma(d, d, a); });
    }
  }
  double lane[kHalfLanes];
  for (int k = 0; k < kHalfLanes / H; ++k) store<double, H>(lane + k * H, acc[k]);
  for (int64_t i = whole; i < n; ++i) lane[i % kHalfLanes] += to_double(x[i]) * to_double(x[i]);
  add_folded(lane, sums.mid);
}
template <class T> void squares(const void* data, int64_t n, SquareSums& sums) {
  if constexpr (kIsHalf<T>) squares_of_halves(static_cast<const T*>(data), n, sums);
  else squares_of_floats<T>(static_cast<const T*>(data), n, sums);
}
template <> void squares<double>(const void* data, int64_t n, SquareSums& sums) {
  constexpr int N = kLanes<double>, kParts = 16 / N;
  using D = Pack<double, N>;
  const double* x = static_cast<const double*>(data);
  const int64_t whole = n / 16 * 16;
  D big[kParts], mid[kParts], small[kParts];
  for (int k = 0; k < kParts; ++k) big[k] = mid[k] = small[k] = 0;
  for (int64_t i = 0; i < whole; i += 16)
    for (int k = 0; k < kParts; ++k) {
      optim::add_square(load<N>(x + i + k * N), big[k], mid[k], small[k]);
    }
  double lane[3][16];
  for (int k = 0; k < kParts; ++k)
    for (int l = 0; l < N; ++l) lane[0][k * N + l] = big[k].lane(l), lane[1][k * N + l] = mid[k].lane(l), lane[2][k * N + l] = small[k].lane(l);
  for (int64_t i = whole; i < n; ++i) {
    using E = Pack<double, 1>;
    E sums_of[3];
    for (int l = 0; l < 3; ++l) sums_of[l] = E::of(lane[l][i - whole]);
    optim::add_square(E::of(x[i]), sums_of[0], sums_of[1], sums_of[2]);
    for (int l = 0; l < 3; ++l) lane[l][i - whole] = sums_of[l].v;
  }
  for (auto& l : lane)
    for (int w = 8; w; w /= 2)
      for (int j = 0; j < w; ++j) l[j] += l[j + w];
  sums.big += lane[0][0], sums.mid += lane[1][0], sums.small += lane[2][0];
}

template <class P, class... G> constexpr auto row(TypeList<G...> list) {
  return by_dtype<void (*)(const AdamStep&, const AdamPiece&)>(list, []<class T>() { return &adam<P, T>; });
}
constexpr OptimKernels table() {
  OptimKernels k;
  using Small = TypeList<f16, bf16, float>;
  k.adam[DType::f16] = row<f16>(Small{});
  k.adam[DType::bf16] = row<bf16>(Small{});
  k.adam[DType::f32] = row<float>(Small{});
  k.adam[DType::f64] = row<double>(TypeList<double>{});
  k.squares = by_dtype<void (*)(const void*, int64_t, SquareSums&)>(Floating{}, []<class T>() { return &squares<T>; });
  return k;
}

}  // namespace
extern constexpr OptimKernels optim_kernels = table();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
