// The gradients that are a formula of x and a few numbers of its row: reads x (not for spread), writes dx; the floor is memory.
#include "baracuda/math/element.hpp"
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/reduce/reduce_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

struct Spread { template <class V> BARACUDA_HD static V of(V, V, V, V g) { return g; } };
struct Distance { template <class V> BARACUDA_HD static V of(V x, V p, V q, V g) { return ((x - p) - q) * g; } };  // p + q: the mean
struct Ratio { template <class V> BARACUDA_HD static V of(V x, V p, V, V g) { return x / p * g; } };
struct Equal {
  template <class V> BARACUDA_HD static V of(V x, V p, V, V g) { return where((x == p) | (is_nan(x) & is_nan(p)), g, V(0)); }
};
struct Softmax {  // x = p: also where both are infinite
  template <class V> BARACUDA_HD static V of(V x, V p, V, V g) { return where(x == p, V(1), exp(x - p)) * g; }
};

template <class T, class F, bool kStep> void row(const T* x, T* dx, const Acc<T>* p, const Acc<T>* q, const Acc<T>* g, int64_t n) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  constexpr bool kX = !std::is_same_v<F, Spread>, kP = kX, kQ = std::is_same_v<F, Distance>;
  auto number = [](const A* a, int64_t i, int count) __attribute__((always_inline)) -> V {
    if constexpr (!kStep) return V::of(*a - Raw<A, N>{});
    else return count == N ? V(load<N>(a + i)) : V(load_tail<N>(a + i, count & (N - 1)));
  };
  V p0 = 0, q0 = 0, g0 = 0;
  if constexpr (!kStep) {
    if (kP) p0 = number(p, 0, N);
    if (kQ) q0 = number(q, 0, N);
    g0 = number(g, 0, N);
  }
  for (int64_t i = 0; i < n; i += N) {
    const int count = n - i < N ? int(n - i) : N;
    if constexpr (kStep) {
      if (kP) p0 = number(p, i, count);
      if (kQ) q0 = number(q, i, count);
      g0 = number(g, i, count);
    }
    V v = 0;
    if (kX) v = count == N ? V(load<N>(x + i)) : V(load_tail<N>(x + i, count & (N - 1)));
    const V d = F::of(v, p0, q0, g0);
    if (count == N) store<T, N>(dx + i, d);
    else store_tail<T, N>(dx + i, d, count & (N - 1));
  }
}
template <class T, class F> void rows(const ReduceMap& m) {
  using A = Acc<T>;
  auto at = [&](const void* c, int64_t r) { return c ? static_cast<const A*>(c) + r * m.c_pitch : nullptr; };
  for (int64_t r = 0; r < m.rows; ++r) {
    const T* const x = m.x ? static_cast<const T*>(m.x) + r * m.x_pitch : nullptr;
    T* const dx = static_cast<T*>(m.dx) + r * m.dx_pitch;
    if (m.c_step) row<T, F, true>(x, dx, at(m.p, r), at(m.q, r), at(m.g, r), m.n);
    else row<T, F, false>(x, dx, at(m.p, r), at(m.q, r), at(m.g, r), m.n);
  }
}
template <class F> constexpr ByDType<void (*)(const ReduceMap&)> maps() {
  return by_dtype<void (*)(const ReduceMap&)>(Floating{}, []<class T>() { return &rows<T, F>; });
}
constexpr ReduceMapTable make() { return {{maps<Spread>(), maps<Distance>(), maps<Ratio>(), maps<Equal>(), maps<Softmax>()}}; }

}  // namespace
extern constexpr ReduceMapTable reduce_map_table = make();
}  // namespace baracuda
