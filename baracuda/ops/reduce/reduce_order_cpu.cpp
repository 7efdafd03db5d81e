// Extrema, where they are, and how many elements equal one: sizeof(T) bytes read per element; the floor is memory.
#include "baracuda/ops/reduce/reduce_tree_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

template <class T, bool kMax> struct Extremum {
  using A = Acc<T>;
  static constexpr int kStates = 1;
  static constexpr bool kGrouped = false, kSettle = false;
  static constexpr Shift kShift = Shift::none;
  static constexpr double kStart[] = {kMax ? -kInf : kInf};
  template <int> using Fold = std::conditional_t<kMax, Larger, Smaller>;
  BARACUDA_HD static double pad(double) { return kStart[0]; }
  template <class V> BARACUDA_HD static void step(V* s, V x, V, int) { s[0] = Fold<0>::of(x, s[0]); }
  template <class Get> BARACUDA_HD static void finish(const A* s, int, double, Get, ReduceState& out) { out.a = s[0], out.b = 0; }
};
template <class T> using Max = Extremum<T, true>;
template <class T> using Min = Extremum<T, false>;

// A lane keeps its best value and which of its elements that is; the first index among the lanes that hold the best wins.
template <class T, bool kMax> struct Where {
  using A = Acc<T>;
  static constexpr int kStates = 2;
  static constexpr bool kGrouped = false, kSettle = true;
  static constexpr Shift kShift = Shift::none;
  static constexpr double kStart[] = {kMax ? -kInf : kInf, 0};
  template <int i> using Fold = std::conditional_t<kMax && i == 0, Larger, Smaller>;
  BARACUDA_HD static double pad(double) { return kStart[0]; }
  template <class V> BARACUDA_HD static void step(V* s, V x, V, int row) {
    const auto better = ((kMax ? x > s[0] : x < s[0]) | is_nan(x)) & mask_not(is_nan(s[0]));
    s[0] = where(better, x, s[0]), s[1] = where(better, V(double(row)), s[1]);
  }
  template <class V> BARACUDA_HD static void settle(V* s, V top, V lane) {
    s[1] = where((s[0] == top) | (is_nan(s[0]) & is_nan(top)), s[1] * kSumLanes + lane, V(kInf));
  }
  template <class Get> BARACUDA_HD static void finish(const A* s, int, double, Get, ReduceState& out) { out.a = s[0], out.at = int64_t(s[1]); }
};
template <class T> using ArgMax = Where<T, true>;
template <class T> using ArgMin = Where<T, false>;

template <class T> struct Equal {
  using A = Acc<T>;
  static constexpr int kStates = 1;
  static constexpr bool kGrouped = false, kSettle = false;
  static constexpr Shift kShift = Shift::given;
  static constexpr double kStart[] = {0};
  template <int> using Fold = Plus;
  BARACUDA_HD static double pad(double shift) { return shift != shift ? 0 : kNaN; }
  template <class V> BARACUDA_HD static void step(V* s, V x, V shift, int) {
    s[0] = s[0] + where((x == shift) | (is_nan(x) & is_nan(shift)), V(1), V(0));
  }
  template <class Get> BARACUDA_HD static void finish(const A* s, int, double, Get, ReduceState& out) { out.a = s[0], out.b = 0; }
};

constexpr ReduceTable make() {
  ReduceTable t;
  t.of[int(ReduceLoop::max)] = reduce_kernels<Max>();
  t.of[int(ReduceLoop::min)] = reduce_kernels<Min>();
  t.of[int(ReduceLoop::argmax)] = reduce_kernels<ArgMax>();
  t.of[int(ReduceLoop::argmin)] = reduce_kernels<ArgMin>();
  t.of[int(ReduceLoop::equal)] = reduce_kernels<Equal>();
  return t;
}

}  // namespace
extern constexpr ReduceTable reduce_order_table = make();
}  // namespace baracuda
