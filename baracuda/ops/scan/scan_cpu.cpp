// y_i = x_0 op ... op x_i. Reads x, writes y (and indices): the floor is the copy bandwidth; logcumsumexp pays one exp and one
// log per element. Sixteen lanes at a time pass through a tile in L1: chunks of one row, of several rows, or columns. A tile
// is taken twice: once for the totals of its chunks, which give what came before each, once for y.
#include "baracuda/ops/scan/scan_ops.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using namespace scan;

template <class Op> void put_state(ScanState* to, const typename Op::State& s) { __builtin_memcpy(to, &s, sizeof s); }
template <class Op> typename Op::State get_state(const ScanState* from) {
  static_assert(sizeof(typename Op::State) <= sizeof(ScanState));
  typename Op::State s;
  __builtin_memcpy(&s, from, sizeof s);
  return s;
}
template <class Op> BARACUDA_HD typename Op::State joined(const typename Op::State& a, const typename Op::State& b, bool first) {
  if constexpr (requires { Op::join(a, b, first); }) return Op::join(a, b, first);
  else return Op::join(a, b);
}
// What came before the chunks of a lane: whole blocks, and chunks of the block at hand.
template <class Op> struct Before {
  typename Op::State blocks = Op::identity(), chunks = Op::identity();
  BARACUDA_HD typename Op::State enter(int64_t chunk, bool first) {
    if (chunk % kW == 0) blocks = joined<Op>(blocks, chunks, first), chunks = Op::identity();
    return joined<Op>(blocks, chunks, first);
  }
};

template <class Op> struct Tile {
  using E = typename Op::E;
  using State = typename Op::State;
  alignas(64) E tile[kL * kW];
  alignas(64) typename Op::Index index[Op::kIndexed ? kL * kW : 1];
  alignas(64) State total[kW], before[kW];
  char *x[kW], *y[kW];
  int64_t* indices[kW];
  int count[kW];
  int64_t chunk[kW];
  int lanes, steps;

  void set(const ScanLanes& p, int l, int64_t lane, int64_t c) {
    const int64_t i = c * kL;
    x[l] = static_cast<char*>(const_cast<void*>(p.x)) + (lane * p.x_pitch + i * p.x_step) * p.x_size;
    y[l] = static_cast<char*>(p.y) + (lane * p.y_pitch + i * p.y_step) * p.y_size;
    if (Op::kIndexed) indices[l] = p.indices + lane * p.indices_pitch + i * p.indices_step;
    count[l] = p.n - i < kL ? int(p.n - i) : kL;
    chunk[l] = c;
  }
  void close(int n) {  // the lanes beyond repeat the last
    lanes = n, steps = count[0];
    for (int l = 1; l < n; ++l) steps = count[l] > steps ? count[l] : steps;
    for (int l = n; l < kW; ++l) x[l] = x[n - 1], y[l] = y[n - 1], count[l] = count[n - 1], chunk[l] = chunk[n - 1];
  }
  Source source(const ScanLanes& p) const { return {scan_stage.at[p.x_dtype], x, count, p.x_step}; }
  void load_totals(const ScanLanes& p, int64_t ahead) {
    scan_stage.in[p.x_dtype]({tile, x, count, lanes, steps, p.x_step, p.columns && p.x_pitch == 1, ahead, Op::kMaps ? -kInf : 0.0});
    if (!Op::kMaps && p.end - p.begin == 1 && !p.total) return;  // nothing asks for them
    if constexpr (requires { Op::totals(tile, steps, total, p.first); }) Op::totals(tile, steps, total, p.first);
    else Op::totals(tile, steps, total, source(p));
    for (int l = 0; l < lanes; ++l) Op::move(total[l], chunk[l] * kL);
  }
  void finish(const ScanLanes& p) {
    for (int l = lanes; l < kW; ++l) before[l] = before[lanes - 1], total[l] = total[lanes - 1];
    if (p.exclusive) {
      Op::template apply<true>(tile, index, steps, before, total, p.first, source(p));
      for (int l = 0; l < lanes; ++l)
        if (chunk[l] == 0) tile[l] = Op::empty(p.empty);
    } else Op::template apply<false>(tile, index, steps, before, total, p.first, source(p));
    scan_stage.out[p.y_dtype]({tile, y, count, lanes, steps, p.y_step, p.columns && p.y_pitch == 1, 0, 0});
    if constexpr (Op::kIndexed) {
      for (int l = 0; l < lanes; ++l) {
        const int64_t start = chunk[l] * kL, carried = before[l].index;
        for (int i = 0; i < count[l]; ++i) {
          const int64_t step = index[i * kW + l], at = step < 0 ? carried : start + step;
          indices[l][i * p.indices_step] = p.reverse && at >= 0 ? p.n - 1 - at : at;
        }
      }
    }
  }
};

template <class Op> void scan_rows(const ScanLanes& p) {
  Tile<Op> t;
  const int64_t ahead = kScanBlock * p.x_size * (p.x_step < 0 ? -1 : 1);
  Before<Op> b;
  int64_t row = 0, c = p.begin, first_row = 0;
  while (row < p.lanes) {
    first_row = row;
    int l = 0;
    for (; l < kW && row < p.lanes; ++l) {
      t.set(p, l, row, c);
      if (++c == p.end) c = p.begin, ++row;
    }
    t.close(l);
    t.load_totals(p, ahead);
    int64_t r = first_row;
    for (int k = 0; k < l; ++k) {
      if (t.chunk[k] == p.begin) b = {p.carry ? get_state<Op>(p.carry + r) : Op::identity(), Op::identity()};
      t.before[k] = b.enter(t.chunk[k], p.first);
      if (p.end - p.begin > 1 || p.total) b.chunks = joined<Op>(b.chunks, t.total[k], p.first);
      if (t.chunk[k] + 1 == p.end) {
        if (p.total) put_state<Op>(p.total + r, b.chunks);
        ++r;
      }
    }
    if (!p.total) t.finish(p);
  }
}
template <class Op> void scan_columns(const ScanLanes& p) {
  Tile<Op> t;
  const int64_t ahead = p.x_step * kL * p.x_size;
  Before<Op> b[kScanStrip];
  if (p.carry)
    for (int64_t l = 0; l < p.lanes; ++l) b[l].blocks = get_state<Op>(p.carry + l);
  for (int64_t c = p.begin; c < p.end; ++c)
    for (int64_t first = 0; first < p.lanes; first += kW) {
      const int lanes = p.lanes - first < kW ? int(p.lanes - first) : kW;
      for (int l = 0; l < lanes; ++l) t.set(p, l, first + l, c);
      t.close(lanes);
      t.load_totals(p, ahead);
      for (int l = 0; l < lanes; ++l) t.before[l] = b[first + l].enter(c, p.first);
      if (p.end - p.begin > 1 || p.total)
        for (int l = 0; l < lanes; ++l) b[first + l].chunks = joined<Op>(b[first + l].chunks, t.total[l], p.first);
      if (!p.total) t.finish(p);
    }
  if (p.total)
    for (int64_t l = 0; l < p.lanes; ++l) put_state<Op>(p.total + l, b[l].chunks);
}
template <class Op> void scan_lanes(const ScanLanes& p) { p.columns ? scan_columns<Op>(p) : scan_rows<Op>(p); }
template <class E, bool kMax> void scan_extremum(const ScanLanes& p) {
  p.indices ? scan_lanes<Extremum<E, kMax, true>>(p) : scan_lanes<Extremum<E, kMax, false>>(p);
}
template <class Op> void carries(const ScanCarries& p) {
  for (int64_t l = 0; l < p.lanes; ++l) {
    typename Op::State s = p.start ? Op::identity() : get_state<Op>(p.running + l);
    for (int64_t b = 0; b < p.blocks; ++b) {
      const typename Op::State total = get_state<Op>(p.carries + b * p.lanes + l);
      put_state<Op>(p.carries + b * p.lanes + l, s);
      s = joined<Op>(s, total, p.first);
    }
    put_state<Op>(p.running + l, s);
  }
}

template <class F> struct Kept {  // in what sums and products are kept
  template <class T> static constexpr auto of() {
    if constexpr (std::is_integral_v<T>) return int64_t();
    else if constexpr (kIsHalf<T> && std::is_same_v<F, Add>) return float();
    else return double();
  }
};
template <class T> using TileOf = std::conditional_t<std::is_integral_v<T>, std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>, Acc<T>>;
template <class F, class T> using FoldOf = Fold<std::conditional_t<std::is_integral_v<T>, int64_t, Acc<T>>, decltype(Kept<F>::template of<T>()), F>;
using Scanned = TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>;

constexpr ScanKernels make() {
  using Run = void (*)(const ScanLanes&);
  using Carry = void (*)(const ScanCarries&);
  return {{by_dtype<Run>(Scanned{}, []<class T>() { return &scan_lanes<FoldOf<Add, T>>; }),
           by_dtype<Run>(Scanned{}, []<class T>() { return &scan_lanes<FoldOf<Mul, T>>; }),
           by_dtype<Run>(Scanned{}, []<class T>() { return &scan_extremum<TileOf<T>, true>; }),
           by_dtype<Run>(Scanned{}, []<class T>() { return &scan_extremum<TileOf<T>, false>; }),
           by_dtype<Run>(Floating{}, []<class T>() { return &scan_lanes<LogSumExp<Acc<T>>>; })},
          {by_dtype<Carry>(Scanned{}, []<class T>() { return &carries<FoldOf<Add, T>>; }),
           by_dtype<Carry>(Scanned{}, []<class T>() { return &carries<FoldOf<Mul, T>>; }),
           by_dtype<Carry>(Scanned{}, []<class T>() { return &carries<Extremum<TileOf<T>, true, true>>; }),
           by_dtype<Carry>(Scanned{}, []<class T>() { return &carries<Extremum<TileOf<T>, false, true>>; }),
           by_dtype<Carry>(Floating{}, []<class T>() { return &carries<LogSumExp<Acc<T>>>; })}};
}

}  // namespace
extern constexpr ScanKernels scan_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
