// Philox words to numbers, for one instruction set. sizeof(T) bytes written per element; arithmetic bounds: ten rounds
// of four multiplications per block, and for normals a log, a root, a sine and a cosine per pair, for the others one log or two.
#include "baracuda/math/element.hpp"
#include "baracuda/ops/random/random_cpu.hpp"
#include "baracuda/ops/random/random_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int N = kLanes<float>, kD = kLanes<double>;

using random::Draw;
// out[4 j + k] = lane j of column k.
template <bool kHigh, class V, int... I> BARACUDA_HD V woven(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (I % 2 ? N : 0) + I / 2 + (kHigh ? N / 2 : 0)...);
}
template <class T> BARACUDA_HD void in_order(const Raw<T, N> (&column)[4], T* out) {
  if constexpr (N == 1)
    for (int k = 0; k < 4; ++k) out[k] = column[k];
  else {
    constexpr auto lanes = std::make_integer_sequence<int, N>();
    const Raw<T, N> even[2] = {woven<false>(column[0], column[2], lanes), woven<true>(column[0], column[2], lanes)};
    const Raw<T, N> odd[2] = {woven<false>(column[1], column[3], lanes), woven<true>(column[1], column[3], lanes)};
    const Raw<T, N> all[4] = {woven<false>(even[0], odd[0], lanes), woven<true>(even[0], odd[0], lanes), woven<false>(even[1], odd[1], lanes), woven<true>(even[1], odd[1], lanes)};
    __builtin_memcpy(out, all, sizeof all);
  }
}
// N blocks as 4 N floats in the order of elements.
template <Draw kDraw> struct Group32 {
  using A = float;
  static constexpr int kSize = 4 * N;
  __attribute__((noinline)) static void make(const RandomNumbers& p, uint64_t block, float* out) {
    using V = Pack<float, N>;
    const PhiloxBlock<N> b = philox_blocks<N>(block, p.seed);
    Raw<float, N> column[4];
    for (int k = 0; k < 4; k += 2) {
      V first, second;
      if constexpr (kDraw == Draw::normal) {
        const auto z = random::normal_pair<N>(b.word[k], b.word[k + 1]);
        first = fma(z.cosine, V(p.factor), V(p.base)), second = fma(z.sine, V(p.factor), V(p.base));
      } else {
        auto value = [&](Words<N> w) { return random::drawn<kDraw>(p, kDraw == Draw::uniform ? random::unit<N>(w) : random::open_unit<N>(w)); };
        first = value(b.word[k]), second = value(b.word[k + 1]);
      }
      column[k] = first.v, column[k + 1] = second.v;
    }
    in_order<float>(column, out);
  }
};
// N blocks as 2 N doubles.
template <Draw kDraw> struct Group64 {
  using A = double;
  static constexpr int kSize = 2 * N;
  __attribute__((noinline)) static void make(const RandomNumbers& p, uint64_t block, double* out) {
    using V = Pack<double, kD>;
    const PhiloxBlock<N> b = philox_blocks<N>(block, p.seed);
    alignas(64) uint32_t w[4][N];
    for (int k = 0; k < 4; ++k) __builtin_memcpy(w[k], &b.word[k], sizeof w[k]);
    auto word = [&](int k, int j) { return uint64_t(w[k + 1][j]) << 32 | w[k][j]; };
    if constexpr (kDraw == Draw::normal) {
      alignas(64) double u[N], a[N];
      alignas(64) int64_t quarter[N];
      for (int j = 0; j < N; ++j) {
        const random::Angle t = random::angle_f64(word(2, j));
        u[j] = random::unit_f64(word(0, j), true).v, a[j] = t.a, quarter[j] = t.quarter;
      }
      for (int j = 0; j < N; j += kD) {
        typename V::Bits q;
        __builtin_memcpy(&q, quarter + j, sizeof q);
        const auto z = random::box_muller(load<kD>(u + j), load<kD>(a + j), q);
        store<double, kD>(u + j, fma(z.cosine, V(p.factor), V(p.base)));
        store<double, kD>(a + j, fma(z.sine, V(p.factor), V(p.base)));
      }
      for (int j = 0; j < N; ++j) out[2 * j] = u[j], out[2 * j + 1] = a[j];
    } else {
      for (int j = 0; j < N; ++j)
        for (int k = 0; k < 2; ++k) out[2 * j + k] = random::unit_f64(word(2 * k, j), kDraw != Draw::uniform).v;
      for (int j = 0; j < kSize; j += kD) store<double, kD>(out + j, random::drawn<kDraw>(p, load<kD>(out + j)));
    }
  }
};

template <class Group, class T> void generate(const RandomNumbers& p) {
  using A = typename Group::A;
  constexpr int per_block = Group::kSize / N, lanes = kLanes<A>;
  T* y = static_cast<T*>(p.y);
  alignas(64) A values[Group::kSize];
  int64_t done = 0;
  while (done < p.n) {
    const uint64_t element = p.first + uint64_t(done);
    const int skip = int(element % per_block), most = Group::kSize - skip;
    const uint64_t until_wrap = 0 - element;  // elements are numbered mod 2^64, and their blocks start over with them
    int m = p.n - done < most ? int(p.n - done) : most;
    if (until_wrap != 0 && until_wrap < uint64_t(m)) m = int(until_wrap);
    Group::make(p, element / per_block, values);
    if (m == Group::kSize)
      for (int j = 0; j < Group::kSize; j += lanes) store<T, lanes>(y + done + j, load<lanes>(values + j));
    else
      for (int j = 0; j < m; ++j) store<T, 1>(y + done + j, load<1>(values + skip + j));
    done += m;
  }
}
// N blocks as 4 N words in the order of elements.
void words(uint64_t seed, uint64_t first, uint32_t* out, int64_t n) {
  uint32_t all[4 * N];
  for (int64_t done = 0; done < n;) {
    const uint64_t element = first + uint64_t(done), until_wrap = 0 - element;
    const int skip = int(element % 4);
    int m = n - done < 4 * N - skip ? int(n - done) : 4 * N - skip;
    if (until_wrap != 0 && until_wrap < uint64_t(m)) m = int(until_wrap);
    const PhiloxBlock<N> b = philox_blocks<N>(element / 4, seed);
    in_order<uint32_t>(b.word, m == 4 * N ? out + done : all);
    if (m != 4 * N) for (int j = 0; j < m; ++j) out[done + j] = all[skip + j];
    done += m;
  }
}
template <class T, int W> BARACUDA_HD void drop_lanes(const RandomDrop& p, int64_t i) {
  using V = Pack<Acc<T>, W>;
  const T* const x = static_cast<const T*>(p.x) + i;
  T* const y = static_cast<T*>(p.y) + i;
  const bool some = p.least >> 32 == 0;  // are kept
  if constexpr (W == 1) *y = random::dropped(*x, some && p.words[i] >= p.least, Acc<T>(p.factor));
  else {
    Words<W> w;
    __builtin_memcpy(&w, p.words + i, sizeof w);
    const auto keep = __builtin_convertvector(w >= uint32_t(p.least), typename V::Bits);
    store<T, W>(y, where(some ? keep : keep ^ keep, load<W>(x) * V(p.factor), V(0)));
  }
}
template <class T> void drop(const RandomDrop& p) {
  constexpr int W = kLanes<Acc<T>>;
  if (p.mask)
    for (int64_t i = 0; i < p.n; ++i) p.mask[i] = (p.words[i] >= uint32_t(p.least)) & (p.least >> 32 == 0);
  int64_t i = 0;
  for (; i + W <= p.n; i += W) drop_lanes<T, W>(p, i);
  for (; i < p.n; ++i) drop_lanes<T, 1>(p, i);
}
template <class U> void chance(const RandomChance& p) {
  U* const y = static_cast<U*>(p.y);
  const U one = U(p.one);
  const uint32_t least = uint32_t(p.least);
  const bool always = p.least >> 32;
  if (p.p)
    for (int64_t i = 0; i < p.n; ++i) y[i] = random::below(p.words[i], p.p[i]) ? one : U(0);
  else
    for (int64_t i = 0; i < p.n; ++i) y[i] = (p.words[i] < least) | always ? one : U(0);
}
template <Draw kDraw> constexpr auto draws() {
  return by_dtype<void (*)(const RandomNumbers&)>(
      Floating{}, []<class T>() { return &generate<std::conditional_t<sizeof(T) == 8, Group64<kDraw>, Group32<kDraw>>, T>; });
}

}  // namespace
extern constexpr RandomKernels random_kernels = {draws<Draw::uniform>(), draws<Draw::normal>(), draws<Draw::exponential>(), draws<Draw::gumbel>(),
                                                 draws<Draw::laplace>(), draws<Draw::cauchy>(), draws<Draw::logistic>(), draws<Draw::truncated_normal>(), words,
                                                 by_dtype<void (*)(const RandomDrop&)>(Floating{}, []<class T>() { return &drop<T>; }),
                                                 {chance<uint8_t>, chance<uint16_t>, chance<uint32_t>, chance<uint64_t>}};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
