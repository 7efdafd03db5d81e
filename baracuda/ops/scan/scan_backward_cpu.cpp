// dx of cumprod, cummax, cummin and logcumsumexp: one recurrence each, which runs against the scan. Reads dy and what the
// formula needs, writes dx. Sixteen lanes at a time pass through tiles in L1, as in the forward: chunks of a block's lane, of
// several lanes, or columns. A block's chunks are taken twice, for their totals and for dx.
#include "baracuda/ops/scan/scan_ops.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using namespace scan;

constexpr int kTile = kL * kW;
// What an op works on: tiles of dy (which becomes dx), of a and of b, `steps` long, and the elements in memory.
template <class E> struct Tiles {
  E *dy, *a, *b;
  int steps;
  const int* count;
  Source dy_at, a_at, b_at;
  bool exclusive;
  const int64_t* start;  // of each lane's chunk
};

// R = dy + Q, dx = P R, Q = x R. P, the product of what the scan took before, lies behind in this direction: State carries the
// product of the elements passed, and `after` that of those to come.
template <class E_> struct ProductGrad {
  using E = E_;
  using V = Pack<double, kLanes<double>>;
  struct State { double q, product, after; };
  static constexpr int N = V::kWidth, kPacks = kW / N;
  static constexpr bool kReadsB = false, kIndexed = false;
  static constexpr double kFillA = 1;
  BARACUDA_HD static State identity() { return {0, 1, 1}; }
  BARACUDA_HD static State join(State a, State b) { return {b.q + b.product * a.q, a.product * b.product, 1}; }
  BARACUDA_HD static V get(const E* p) {
    if constexpr (sizeof(E) == 8) return load<N>(p);
    else return widen(p);
  }
  [[gnu::noinline]] static void totals(const Tiles<E>& t, State* s) {
    for (int k = 0; k < kPacks; ++k) {
      V q = 0, g = 1;
      for (int i = 0; i < t.steps; ++i) {
        const V x = get(t.a + i * kW + k * N);
        q = x * (get(t.dy + i * kW + k * N) + q);
        g = g * x;
      }
      for (int l = 0; l < N; ++l) s[k * N + l] = {q.lane(l), g.lane(l), 1};
    }
  }
  [[gnu::noinline]] static void apply(const Tiles<E>& t, const State* before) {
    alignas(64) double product[kL * N], q_in[N], after[N];
    for (int k = 0; k < kPacks; ++k) {
      for (int l = 0; l < N; ++l) q_in[l] = before[k * N + l].q, after[l] = before[k * N + l].after;
      V p = load<N>(after), q = load<N>(q_in);
      for (int i = t.steps; i-- > 0;) {
        store<double, N>(product + i * N, p);
        p = p * get(t.a + i * kW + k * N);
      }
      for (int i = 0; i < t.steps; ++i) {
        E* at = t.dy + i * kW + k * N;
        const V r = get(at) + q, before_i = load<N>(product + i * N), dx = before_i * r;
        store<E, N>(at, narrow<E>(where(before_i == 0, where(abs(r) == kInf, V(0), dx), dx)));
        q = get(t.a + i * kW + k * N) * r;
      }
    }
  }
};

// R = dy + R, and where an element was pointed to, dx = R and R = 0; a is 1 there, else 0.
template <class E_> struct ExtremumGrad {
  using E = E_;
  using V = Pack<double, kLanes<double>>;
  struct State { double sum; int64_t taken; };
  static constexpr int N = V::kWidth, kPacks = kW / N;
  static constexpr bool kReadsB = false, kIndexed = true;
  static constexpr double kFillA = 0;
  BARACUDA_HD static State identity() { return {0, 0}; }
  BARACUDA_HD static State join(State a, State b) { return {b.taken ? b.sum : b.sum + a.sum, a.taken | b.taken}; }
  BARACUDA_HD static V get(const E* p) { return ProductGrad<E>::get(p); }
  [[gnu::noinline]] static void totals(const Tiles<E>& t, State* s) {
    for (int k = 0; k < kPacks; ++k) {
      V sum = 0, taken = 0;
      for (int i = 0; i < t.steps; ++i) {
        const V flag = get(t.a + i * kW + k * N);
        sum = where(flag != 0, V(0), sum + get(t.dy + i * kW + k * N));
        taken = where(flag != 0, V(1), taken);
      }
      for (int l = 0; l < N; ++l) s[k * N + l] = {sum.lane(l), int64_t(taken.lane(l))};
    }
  }
  [[gnu::noinline]] static void apply(const Tiles<E>& t, const State* before) {
    alignas(64) double in[N];
    for (int k = 0; k < kPacks; ++k) {
      for (int l = 0; l < N; ++l) in[l] = before[k * N + l].sum;
      V sum = load<N>(in);
      for (int i = 0; i < t.steps; ++i) {
        E* at = t.dy + i * kW + k * N;
        const V flag = get(t.a + i * kW + k * N), r = sum + get(at);
        store<E, N>(at, narrow<E>(where(flag != 0, r, V(0))));
        sum = where(flag != 0, V(0), r);
      }
    }
  }
};

// dx = exp(x) / 2^k S, S = the sum of dy exp(-y) 2^k over what the scan took from here on; 2^k from the chunk's least y. A chunk
// whose y rises by more than kRange or is beyond kLimit goes element by element in f64.
template <class E_> struct LogSumExpGrad {
  using E = E_;
  using Forward = LogSumExp<E>;
  using V = Pack<E, kLanes<E>>;
  struct State { double sum; E y; int32_t k : 31, stop : 1; };  // sum of dy exp(base - y_i), base = k ln 2, or y beyond kLimit; stop: all before is cut off
  static constexpr int N = V::kWidth, kPacks = kW / N;
  static constexpr bool kReadsB = true, kIndexed = false;
  static constexpr double kFillA = -kInf;
  BARACUDA_HD static State identity() { return {0, E(kInf), 0, 0}; }
  BARACUDA_HD static double base(State s) { return Forward::tame(s.y) ? s.k * 0x1.62e42fefa39efp-1 : double(s.y); }
  static double gain(State from, State to) {  // exp(base(to) - base(from))
    if (from.sum == 0) return 0;
    if (Forward::tame(from.y) && Forward::tame(to.y)) return to.k <= from.k ? Forward::pow2(to.k - from.k) : Forward::exp1((to.k - from.k) * 0x1.62e42fefa39efp-1);
    const double a = base(to), b = base(from);
    return a == b ? 1 : Forward::exp1(a - b);
  }
  static State join(State a, State b) {
    if (!b.stop) b.sum += gain(a, b) * a.sum;
    b.stop |= a.stop;
    return b;
  }
  // One element on, in f64; dx of it.
  static double step(State& s, double dy, double x, double y) {
    State now{dy, E(y), Forward::power(y), s.stop};
    // Here sums are over exp(y) itself: base() and k meet at the borders of chunks only.
    const double from = s.sum == 0 ? y : base(s), to = base(now);
    const double in = s.sum == 0 ? 0 : s.sum * (to == from ? 1 : Forward::exp1(to - from));
    now.sum = dy * (to == y || y != y ? 1 : Forward::exp1(to - y)) + in;
    const double weight = x == to ? 1 : Forward::exp1(x - to);
    const double dx = x == -kInf ? 0 : weight * now.sum;
    if (x == kInf) now.sum = 0, now.stop = 1;
    s = now;
    return dx;
  }
  static double dy_of(const Tiles<E>& t, int l, int i) {
    if (!t.exclusive) return t.dy_at(l, i);
    return t.start[l] + i == 0 ? 0 : t.dy_at(l, i - 1);
  }
  static double y_of(const Tiles<E>& t, int l, int i) { return t.b_at(l, t.exclusive && t.start[l] + i > 0 ? i - 1 : i); }
  BARACUDA_HD static bool plain(const Tiles<E>& t, int l) {
    const double high = t.b[l], low = t.b[(t.count[l] - 1) * kW + l];
    return Forward::tame(high) && Forward::tame(low) && high - low <= Forward::kRange && low - high <= 1;
  }
  BARACUDA_HD static void powers(const Tiles<E>& t, E* power_of) {
    for (int l = 0; l < kW; ++l) {
      const double low = t.b[(t.count[l] - 1) * kW + l];
      power_of[l] = E(Forward::power(low));
    }
  }
  BARACUDA_HD static V term(const Tiles<E>& t, int at, V p) {  // dy exp(-y) 2^k
    const V k = -p;
    return load<N>(t.dy + at) * exp_over(-load<N>(t.b + at), k + kMagic<V>, k * 0x1.62e42fefa39efp-1 - kVanish<V>);
  }
  [[gnu::noinline]] static void totals(const Tiles<E>& t, State* s) {
    alignas(64) E power_of[kW], total[kW];
    powers(t, power_of);
    for (int k = 0; k < kPacks; ++k) {
      const V p = load<N>(power_of + k * N);
      V sum = 0;
      for (int i = 0; i < t.steps; ++i) sum = sum + term(t, i * kW + k * N, p);
      store<E, N>(total + k * N, sum);
    }
    for (int l = 0; l < kW; ++l) {
      s[l] = {double(total[l]), t.b[(t.count[l] - 1) * kW + l], int32_t(power_of[l]), 0};
      if (plain(t, l)) continue;
      s[l] = identity();
      for (int i = 0; i < t.count[l]; ++i) step(s[l], dy_of(t, l, i), t.a_at(l, i), y_of(t, l, i));
    }
  }
  [[gnu::noinline]] static void apply(const Tiles<E>& t, const State* before) {
    alignas(64) E power_of[kW], in[kW], kept[kL];
    powers(t, power_of);
    int odd[kW], odd_count = 0;
    for (int l = 0; l < kW; ++l) {
      in[l] = 0;
      if (plain(t, l)) in[l] = E(before[l].sum * gain(before[l], {1, t.b[(t.count[l] - 1) * kW + l], int32_t(power_of[l]), 0}));
      else odd[odd_count++] = l;
    }
    for (int k = 0; k < kPacks; ++k) {
      const V p = load<N>(power_of + k * N), k_magic = p + kMagic<V>, low = p * 0x1.62e42fefa39efp-1 - kVanish<V>;
      V sum = load<N>(in + k * N);
      for (int i = 0; i < t.steps; ++i) {
        const int at = i * kW + k * N;
        const V x = load<N>(t.a + at);
        sum = sum + term(t, at, p);
        store<E, N>(t.dy + at, where(x == -kInf, V(0), exp_over(x, k_magic, low) * sum));
      }
    }
    for (int o = 0; o < odd_count; ++o) {
      const int l = odd[o];
      State s = before[l];
      for (int i = 0; i < t.count[l]; ++i) kept[i] = E(step(s, dy_of(t, l, i), t.a_at(l, i), y_of(t, l, i)));
      for (int i = 0; i < t.count[l]; ++i) t.dy[i * kW + l] = kept[i];
    }
  }
};

template <class Op> struct Engine {
  using E = typename Op::E;
  using State = typename Op::State;
  static_assert(sizeof(State) <= sizeof(ScanState));
  alignas(64) E dy[kTile], a[kTile], b[Op::kReadsB ? kTile : 1];
  alignas(64) int64_t index[Op::kIndexed ? kTile : 1];
  alignas(64) State total[kW], before[kW];
  char *dy_at[kW], *a_at[kW], *b_at[kW], *dx_at[kW];
  int64_t start[kW];
  int count[kW], lanes, steps;
  bool flip;
  const ScanGradLanes& p;

  explicit Engine(const ScanGradLanes& p) : p(p) {}
  // Row r, elements from `first` on.
  void set(int l, int64_t r, int64_t first) {
    const int a_size = Op::kIndexed ? 8 : p.size;
    dy_at[l] = static_cast<char*>(const_cast<void*>(p.dy)) + (r * p.dy_pitch + first * p.dy_step) * p.size;
    a_at[l] = static_cast<char*>(const_cast<void*>(p.a)) + (r * p.a_pitch + first * p.a_step) * a_size;
    if (Op::kReadsB) b_at[l] = static_cast<char*>(const_cast<void*>(p.b)) + (r * p.b_pitch + first * p.b_step) * p.size;
    dx_at[l] = static_cast<char*>(p.dx) + (r * p.dx_pitch + first * p.dx_step) * p.size;
    start[l] = first;
    count[l] = p.n - first < kL ? int(p.n - first) : kL;
  }
  Tiles<E> tiles() const {
    const auto at = scan_stage.at[p.dtype];
    return {const_cast<E*>(dy), const_cast<E*>(a), const_cast<E*>(b), steps, count, {at, dy_at, count, p.dy_step}, {at, a_at, count, p.a_step},
            {at, b_at, count, p.b_step}, p.exclusive, start};
  }
  // The exclusive scan's element i + 1 is the scan's element i: one step later in this direction.
  template <class F> void shift(F* tile, char* const* at, int64_t step, int size, auto&& first) {
    if (!p.exclusive) return;
    for (int i = steps - 1; i > 0; --i)
      for (int l = 0; l < kW; ++l) tile[i * kW + l] = tile[(i - 1) * kW + l];
    for (int l = 0; l < kW; ++l) tile[l] = first(l, at[l] - step * size);
  }
  [[gnu::noinline]] void load(int n) {
    lanes = n, steps = count[0];
    for (int l = 1; l < n; ++l) steps = count[l] > steps ? count[l] : steps;
    for (int l = n; l < kW; ++l) {
      dy_at[l] = dy_at[n - 1], a_at[l] = a_at[n - 1], dx_at[l] = dx_at[n - 1], start[l] = start[n - 1], count[l] = count[n - 1];
      if (Op::kReadsB) b_at[l] = b_at[n - 1];
    }
    auto stage = [&](DType t, void* tile, char* const* at, int64_t step, int64_t pitch, int64_t size, double fill) {
      const int64_t ahead = p.columns ? step * kL * size : (step < 0 ? -1 : 1) * kScanBlock * size;
      scan_stage.in[t]({tile, at, count, lanes, steps, step, p.columns && pitch == 1, ahead, fill, false});
    };
    const auto value = scan_stage.at[p.dtype];
    stage(p.dtype, dy, dy_at, p.dy_step, p.dy_pitch, p.size, 0);
    shift(dy, dy_at, p.dy_step, p.size, [&](int l, const void* from) { return start[l] ? E(value(from, 0)) : E(0); });
    if constexpr (Op::kIndexed) {
      stage(DType::i64, index, a_at, p.a_step, p.a_pitch, 8, -1);
      shift(index, a_at, p.a_step, 8, [&](int l, const void* from) { return start[l] ? *static_cast<const int64_t*>(from) : int64_t(-1); });
      alignas(64) int64_t own[kW];
      for (int l = 0; l < kW; ++l) own[l] = p.falling ? p.n - 1 - start[l] : start[l];
      const int64_t next = p.falling ? -1 : 1;
      for (int i = 0; i < steps; ++i)
        for (int l = 0; l < kW; ++l) a[i * kW + l] = E(index[i * kW + l] == own[l] + next * i && i < count[l]);
    } else stage(p.dtype, a, a_at, p.a_step, p.a_pitch, p.size, Op::kFillA);
    if constexpr (Op::kReadsB) {
      stage(p.dtype, b, b_at, p.b_step, p.b_pitch, p.size, 0);
      shift(b, b_at, p.b_step, p.size, [&](int l, const void* from) { return start[l] ? E(value(from, 0)) : b[l]; });
    }
  }
  [[gnu::noinline]] void finish() {
    for (int l = lanes; l < kW; ++l) before[l] = before[lanes - 1];
    Op::apply(tiles(), before);
    if (p.exclusive)
      for (int l = 0; l < lanes; ++l)
        if (start[l] == 0) dy[l] = 0;
    const int64_t ahead = p.columns ? p.dx_step * kL * p.size : (p.dx_step < 0 ? -1 : 1) * kScanBlock * p.size;
    scan_stage.out[p.dtype]({dy, dx_at, count, lanes, steps, p.dx_step, p.columns && p.dx_pitch == 1, ahead, 0, p.past});
  }
  State carried(int64_t lane, int64_t block) const {
    State s = Op::identity();
    if (p.state) __builtin_memcpy(&s, p.state + lane * ((p.n + kScanBlock - 1) / kScanBlock) + block, sizeof s);
    return s;
  }
  void keep(int64_t lane, int64_t block, const State& s) const {
    __builtin_memcpy(static_cast<void*>(p.state + lane * ((p.n + kScanBlock - 1) / kScanBlock) + block), &s, sizeof s);
  }
  // What is before (and after) each of a block's chunks, from their totals and what is around the block.
  static void spread(State s, const State* total, State* before, int chunks, int64_t stride) {
    double after = 1;
    if constexpr (requires { s.after; }) after = s.after;
    for (int c = 0; c < chunks; ++c) {
      before[c * stride] = s;
      s = Op::join(s, total[c * stride]);
    }
    if constexpr (requires { s.after; })
      for (int c = chunks; c-- > 0;) {
        before[c * stride].after = after;
        after *= total[c * stride].product;
      }
  }
  int chunks(int64_t block) const {
    const int64_t left = p.n - block * kScanBlock;
    return left >= kScanBlock ? kW : int((left + kL - 1) / kL);
  }
  void rows() {  // a tile holds whole blocks
    int64_t row = 0, block = p.begin;
    while (row < p.lanes) {
      int64_t first_row = row, first_block = block;
      int l = 0;
      while (row < p.lanes && l + chunks(block) <= kW) {
        for (int c = 0, m = chunks(block); c < m; ++c) set(l++, row, block * kScanBlock + c * kL);
        if (++block == p.end) block = p.begin, ++row;
      }
      load(l);
      Op::totals(tiles(), total);
      for (int k = 0; k < l;) {
        const int m = chunks(first_block);
        if (p.totals) {
          State s = Op::identity();
          for (int c = 0; c < m; ++c) s = Op::join(s, total[k + c]);
          keep(first_row, first_block, s);
        } else spread(carried(first_row, first_block), total + k, before + k, m, 1);
        k += m;
        if (++first_block == p.end) first_block = p.begin, ++first_row;
      }
      if (!p.totals) finish();
    }
  }
  void columns() {
    State totals[kW * kW], befores[kW * kW];
    for (int64_t first = 0; first < p.lanes; first += kW) {
      const int n = p.lanes - first < kW ? int(p.lanes - first) : kW;
      auto enter = [&](int64_t block, int c) {
        for (int l = 0; l < n; ++l) set(l, first + l, block * kScanBlock + c * kL);
        load(n);
      };
      for (int64_t block = p.begin; block < p.end; ++block) {
        const int m = chunks(block);
        for (int c = 0; c < m; ++c) {
          enter(block, c);
          if (m > 1 || p.totals) Op::totals(tiles(), totals + c * kW);
        }
        for (int l = 0; l < n; ++l) {
          if (p.totals) {
            State s = Op::identity();
            for (int c = 0; c < m; ++c) s = Op::join(s, totals[c * kW + l]);
            keep(first + l, block, s);
          } else if (m > 1) spread(carried(first + l, block), totals + l, befores + l, m, kW);
          else befores[l] = carried(first + l, block);
        }
        if (p.totals) continue;
        for (int c = 0; c < m; ++c) {
          if (m > 1) enter(block, c);
          for (int l = 0; l < n; ++l) before[l] = befores[c * kW + l];
          finish();
        }
      }
    }
  }
};
template <class Op> void grad(const ScanGradLanes& p) {
  Engine<Op> e(p);
  p.columns ? e.columns() : e.rows();
  if (p.past) store_past_fence();
}
template <class Op> void carries(ScanState* state, int64_t blocks) {
  using State = typename Op::State;
  State s = Op::identity();
  for (int64_t b = 0; b < blocks; ++b) {
    State total;
    __builtin_memcpy(&total, state + b, sizeof total);
    State in = s;
    s = Op::join(s, total);
    if constexpr (requires { s.after; }) in.product = total.product;
    __builtin_memcpy(static_cast<void*>(state + b), &in, sizeof in);
  }
  if constexpr (requires { s.after; }) {
    double after = 1;
    for (int64_t b = blocks; b-- > 0;) {
      State in;
      __builtin_memcpy(&in, state + b, sizeof in);
      const double product = in.product;
      in.after = after, after *= product;
      __builtin_memcpy(static_cast<void*>(state + b), &in, sizeof in);
    }
  }
}

constexpr ScanGradKernels make() {
  using Run = void (*)(const ScanGradLanes&);
  using Carry = void (*)(ScanState*, int64_t);
  const auto extremum = by_dtype<Run>(Floating{}, []<class T>() { return &grad<ExtremumGrad<Acc<T>>>; });
  const auto extremum_carries = by_dtype<Carry>(Floating{}, []<class T>() { return &carries<ExtremumGrad<Acc<T>>>; });
  return {{{}, by_dtype<Run>(Floating{}, []<class T>() { return &grad<ProductGrad<Acc<T>>>; }), extremum, extremum,
           by_dtype<Run>(Floating{}, []<class T>() { return &grad<LogSumExpGrad<Acc<T>>>; })},
          {{}, by_dtype<Carry>(Floating{}, []<class T>() { return &carries<ProductGrad<Acc<T>>>; }), extremum_carries, extremum_carries,
           by_dtype<Carry>(Floating{}, []<class T>() { return &carries<LogSumExpGrad<Acc<T>>>; })}};
}

}  // namespace
extern constexpr ScanGradKernels scan_grad_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
