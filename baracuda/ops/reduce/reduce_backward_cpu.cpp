// The gradients that are a formula of x and a few numbers of its row: reads x (not for spread), writes dx; the floor is memory, but for
// powers.
#include "baracuda/host/fetch_ahead.hpp"
#include "baracuda/math/bf16_instruction.hpp"
#include "baracuda/math/exp_of_halves.hpp"
#include "baracuda/ops/reduce/reduce_cpu.hpp"
#include "baracuda/ops/reduce/reduce_map_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {
using namespace reduce_map;

struct SoftmaxOfHalves {
  template <class V> BARACUDA_HD static V of(V x, V p, V, V g) { return where(x == p, V(1), exp_or_zero(x - p)) * g; }
};
template <class T> inline constexpr int kTogether = kIsHalf<T> ? 2 : 1;  // packs that are written together, halves as a line
// Whole packs; step: what the numbers move by.
template <class T, class F> void packs(const T* x, T* dx, const Acc<T>* p, const Acc<T>* q, const Acc<T>* g, int64_t step, int64_t n, bool past) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  constexpr bool kX = !std::is_same_v<F, Spread>, kP = kX && !std::is_same_v<F, Sign> && !std::is_same_v<F, Numbers>;
  constexpr bool kQ = std::is_same_v<F, Distance> || std::is_same_v<F, Power>;
  constexpr int kLine = 64 / int(sizeof(T)), kBytes = kLine > N ? 64 : N * int(sizeof(T));
  int64_t i = 0;
  if constexpr (kTogether<T> == 2) {  // numbers that move are those of neighbours: then elements are, too
    const auto two = [&](auto load_two, auto store_two) __attribute__((always_inline)) {
      for (; i + 2 * N <= n; i += 2 * N, g += 2 * step) {
        V a[2] = {0, 0}, b[2] = {0, 0};
        Twice<V> v{0, 0};
        if constexpr (kX) fetch_ahead<2 * N * int(sizeof(T))>(x + i), v = load_two(x + i);
        if constexpr (kP) a[0] = load<N>(p), a[1] = load<N>(p + step), p += 2 * step;
        if constexpr (kQ) b[0] = load<N>(q), b[1] = load<N>(q + step), q += 2 * step;
        store_two(dx + i, F::of(v.low, a[0], b[0], V(load<N>(g))), F::of(v.high, a[1], b[1], V(load<N>(g + step))));
      }
    };
    if (step) two([](const T* from) __attribute__((always_inline)) { return Twice<V>{load<N>(from), load<N>(from + N)}; },
                  [&](T* to, V low, V high) __attribute__((always_inline)) { store_twice_rounded<T, N>(to, low, high, past); });
    else two([](const T* from) __attribute__((always_inline)) { return load_dealt<N>(from); },
             [&](T* to, V low, V high) __attribute__((always_inline)) { store_dealt_rounded<T, N>(to, low, high, past); });
  }
  for (; i < n; i += N, g += step) {
    V v = 0, a = 0, b = 0;
    if constexpr (kX) {
      if (kLine <= N || i % kLine == 0) fetch_ahead<kBytes>(x + i);
      v = load<N>(x + i);
    }
    if constexpr (kP) a = load<N>(p), p += step;
    if constexpr (kQ) b = load<N>(q), q += step;
    const V d = F::of(v, a, b, V(load<N>(g)));
    if (past) store_past<T, N>(dx + i, d);
    else store<T, N>(dx + i, d);
  }
}
// Fewer elements than a pack, through copies.
template <class T, class F> void few(const T* x, T* dx, const Acc<T>* const (&c)[3], int64_t step, int n) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  alignas(64) T in[N] = {}, out[N];
  alignas(64) A numbers[3][N] = {};
  for (int i = 0; i < n; ++i) {
    if (x) in[i] = x[i];
    for (int k = 0; k < 3; ++k)
      if (c[k]) numbers[k][i] = c[k][step ? i : 0];
  }
  packs<T, F>(in, out, numbers[0], numbers[1], numbers[2], 0, N, false);
  for (int i = 0; i < n; ++i) dx[i] = out[i];
}
template <class T, class F> void rows(const ReduceMap& m) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  const void* const given[3] = {m.p, m.q, m.g};
  alignas(64) A one[3][N] = {};
  for (int64_t r = 0; r < m.rows; ++r) {
    const T* const x = m.x ? static_cast<const T*>(m.x) + r * m.x_pitch : nullptr;
    T* const dx = static_cast<T*>(m.dx) + r * m.dx_pitch;
    const A *c[3], *from[3];
    for (int k = 0; k < 3; ++k) {
      c[k] = given[k] ? static_cast<const A*>(given[k]) + r * m.c_pitch : nullptr;
      if (c[k] && !m.c_step)
        for (int i = 0; i < N; ++i) one[k][i] = *c[k];
    }
    auto numbers_at = [&](int64_t i) {
      for (int k = 0; k < 3; ++k) from[k] = m.c_step && c[k] ? c[k] + i : one[k];
    };
    auto some = [&](int64_t i, int64_t count) {
      const A* const at[3] = {c[0] && m.c_step ? c[0] + i : c[0], c[1] && m.c_step ? c[1] + i : c[1], c[2] && m.c_step ? c[2] + i : c[2]};
      few<T, F>(x ? x + i : nullptr, dx + i, at, m.c_step, int(count));
    };
    int64_t i = 0;
    if (m.past) i = int64_t((0 - reinterpret_cast<uintptr_t>(dx)) / sizeof(T) % (kTogether<T> * N));  // up to where stores past the caches may begin
    if (i > m.n) i = m.n;
    for (int64_t j = 0; j < i; j += N) some(j, i - j < N ? i - j : N);
    const int64_t whole = (m.n - i) / N * N;
    numbers_at(i);
    packs<T, F>(x ? x + i : nullptr, dx + i, from[0], from[1], from[2], m.c_step ? N : 0, whole, m.past);
    if (i + whole < m.n) some(i + whole, m.n - i - whole);
  }
  if (m.past) store_past_fence();
}
template <class F> constexpr ByDType<void (*)(const ReduceMap&)> maps() {
  return by_dtype<void (*)(const ReduceMap&)>(Floating{}, []<class T>() {
    return &rows<T, std::conditional_t<kIsHalf<T> && std::is_same_v<F, Softmax>, SoftmaxOfHalves, F>>;
  });
}
constexpr ReduceMapTable make() {
  return {{maps<Spread>(), maps<Numbers>(), maps<Distance>(), maps<Ratio>(), maps<Sign>(), maps<Power>(), maps<Equal>(), maps<EqualMagnitude>(),
           maps<Softmax>()}};
}

}  // namespace
extern constexpr ReduceMapTable reduce_map_table = make();
}  // namespace baracuda
