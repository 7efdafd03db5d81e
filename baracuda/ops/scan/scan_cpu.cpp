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
  E* tile;
  typename Op::Index* index;
  alignas(64) State total[kW], before[kW];
  char *x[kW], *y[kW];
  int64_t* indices[kW];
  int count[kW];
  int64_t chunk[kW];
  int lanes, steps;

  [[gnu::noinline]] void set(const ScanLanes& p, int l, int64_t lane, int64_t c) {
    const int64_t i = c * kL;
    x[l] = static_cast<char*>(const_cast<void*>(p.x)) + (lane * p.x_pitch + i * p.x_step) * p.x_size;
    y[l] = static_cast<char*>(p.y) + (lane * p.y_pitch + i * p.y_step) * p.y_size;
    if (Op::kIndexed) indices[l] = p.indices + lane * p.indices_pitch + i * p.indices_step;
    count[l] = p.n - i < kL ? int(p.n - i) : kL;
    chunk[l] = c;
  }
  [[gnu::noinline]] void close(int n) {  // the lanes beyond repeat the last
    lanes = n, steps = count[0];
    for (int l = 1; l < n; ++l) steps = count[l] > steps ? count[l] : steps;
    for (int l = n; l < kW; ++l) x[l] = x[n - 1], y[l] = y[n - 1], count[l] = count[n - 1], chunk[l] = chunk[n - 1];
  }
  Source source(const ScanLanes& p) const { return {scan_stage.at[p.x_dtype], x, count, p.x_step}; }
  // `all` lanes: this tile's, or more that lie densely beside them.
  void load(const ScanLanes& p, int all, bool dense, int64_t ahead) {
    scan_stage.in[p.x_dtype]({tile, x, count, all, steps, p.x_step, dense, ahead, Op::kMaps ? -kInf : 0.0, false});
  }
  void store(const ScanLanes& p, int all, bool dense, int64_t ahead) {
    scan_stage.out[p.y_dtype]({tile, y, count, all, steps, p.y_step, dense, ahead, 0, p.past});
  }
  [[gnu::noinline]] void sum(const ScanLanes& p) {
    if (!Op::kMaps && !p.total && (p.columns || p.end - p.begin == 1)) return;  // apply() gives them in time
    if constexpr (requires { Op::totals(tile, steps, total, p.first); }) Op::totals(tile, steps, total, p.first);
    else Op::totals(tile, steps, total, source(p));
    move_totals();
  }
  void move_totals() {
    for (int l = 0; l < lanes; ++l) Op::move(total[l], chunk[l] * kL);
  }
  [[gnu::noinline]] void apply(const ScanLanes& p) {
    for (int l = lanes; l < kW; ++l) before[l] = before[lanes - 1], total[l] = total[lanes - 1];
    if (p.exclusive) {
      Op::template apply<true>(tile, index, steps, before, total, p.first, source(p));
      for (int l = 0; l < lanes; ++l)
        if (chunk[l] == 0) tile[l] = Op::empty(p.empty);
    } else Op::template apply<false>(tile, index, steps, before, total, p.first, source(p));
    if (!Op::kMaps && p.columns) move_totals();
    if constexpr (Op::kIndexed) store_indices(p);
  }
  // -1 means what came before.
  [[gnu::noinline]] void store_indices(const ScanLanes& p) {
    auto position = [&](int64_t step, int64_t start, int64_t carried) __attribute__((always_inline)) {
      const int64_t at = step < 0 ? carried : start + step;
      return p.reverse && at >= 0 ? p.n - 1 - at : at;
    };
    if (p.columns && p.indices_pitch == 1 && lanes == kW) {
      alignas(64) int64_t carried[kW];
      for (int l = 0; l < kW; ++l) carried[l] = before[l].index;
      const int64_t start = chunk[0] * kL;
      for (int i = 0; i < steps; ++i)
        for (int l = 0; l < kW; ++l) indices[0][i * p.indices_step + l] = position(index[i * kW + l], start, carried[l]);
      return;
    }
    // Steps are as wide as the elements of a tile: what turns tiles turns them.
    alignas(64) typename Op::Index turned[kW][kL];
    char* lane[kW];
    for (int l = 0; l < kW; ++l) lane[l] = reinterpret_cast<char*>(turned[l]);
    constexpr DType bits = sizeof(typename Op::Index) == 4 ? DType::f32 : DType::i64;
    scan_stage.out[bits]({index, lane, count, lanes, steps, 1, false, 0, 0, false});
    for (int l = 0; l < lanes; ++l) {
      const int64_t start = chunk[l] * kL, carried = before[l].index;
      if (p.indices_step == 1)
        for (int i = 0; i < count[l]; ++i) indices[l][i] = position(turned[l][i], start, carried);
      else
        for (int i = 0; i < count[l]; ++i) indices[l][i * p.indices_step] = position(turned[l][i], start, carried);
    }
  }
};

template <class Op> void scan_rows(const ScanLanes& p) {
  alignas(64) typename Op::E tile[kL * kW];
  alignas(64) typename Op::Index index[Op::kIndexed ? kL * kW : 1];
  Tile<Op> t;
  t.tile = tile, t.index = index;
  const int64_t ahead = kScanBlock * p.x_size * (p.x_step < 0 ? -1 : 1), y_ahead = kScanBlock * p.y_size * (p.y_step < 0 ? -1 : 1);
  Before<Op> b;
  int64_t row = 0, c = p.begin;
  while (row < p.lanes) {
    int64_t r = row;
    int l = 0;
    for (; l < kW && row < p.lanes; ++l) {
      t.set(p, l, row, c);
      if (++c == p.end) c = p.begin, ++row;
    }
    t.close(l);
    t.load(p, l, false, ahead);
    t.sum(p);
    for (int k = 0; k < l; ++k) {
      if (t.chunk[k] == p.begin) b = {p.carry ? get_state<Op>(p.carry + r) : Op::identity(), Op::identity()};
      t.before[k] = b.enter(t.chunk[k], p.first);
      if (p.end - p.begin > 1 || p.total) b.chunks = joined<Op>(b.chunks, t.total[k], p.first);
      if (t.chunk[k] + 1 == p.end) {
        if (p.total) put_state<Op>(p.total + r, b.chunks);
        ++r;
      }
    }
    if (p.total) continue;
    t.apply(p);
    t.store(p, l, false, y_ahead);
  }
}
template <class Op> void scan_columns(const ScanLanes& p) {
  constexpr int kTiles = sizeof(typename Op::E) == 4 ? 4 : 2;  // side by side, so that memory is passed in longer pieces
  alignas(64) typename Op::E tile[kTiles * kL * kW];
  alignas(64) typename Op::Index index[Op::kIndexed ? kL * kW : 1];
  Tile<Op> t[kTiles];
  for (int q = 0; q < kTiles; ++q) t[q].tile = tile + q * kL * kW, t[q].index = index;
  const int64_t ahead = p.x_step * kL * p.x_size, y_ahead = p.y_step * kL * p.y_size;
  Before<Op> b[kScanStrip];
  if (p.carry)
    for (int64_t l = 0; l < p.lanes; ++l) b[l].blocks = get_state<Op>(p.carry + l);
  for (int64_t c = p.begin; c < p.end; ++c)
    for (int64_t first = 0; first < p.lanes; first += kTiles * kW) {
      const int lanes = p.lanes - first < kTiles * kW ? int(p.lanes - first) : kTiles * kW, tiles = (lanes + kW - 1) / kW;
      for (int q = 0; q < tiles; ++q) {
        const int own = lanes - q * kW < kW ? lanes - q * kW : kW;
        for (int l = 0; l < own; ++l) t[q].set(p, l, first + q * kW + l, c);
        t[q].close(own);
        if (p.x_pitch != 1) t[q].load(p, own, false, 0);
      }
      if (p.x_pitch == 1) t[0].load(p, lanes, true, ahead);
      for (int q = 0; q < tiles; ++q) {
        Before<Op>* const here = b + first + q * kW;
        t[q].sum(p);
        for (int l = 0; l < t[q].lanes; ++l) t[q].before[l] = here[l].enter(c, p.first);
        if (!p.total) t[q].apply(p);
        for (int l = 0; l < t[q].lanes; ++l) here[l].chunks = joined<Op>(here[l].chunks, t[q].total[l], p.first);
        if (!p.total && p.y_pitch != 1) t[q].store(p, t[q].lanes, false, 0);
      }
      if (!p.total && p.y_pitch == 1) t[0].store(p, lanes, true, y_ahead);
    }
  if (p.total)
    for (int64_t l = 0; l < p.lanes; ++l) put_state<Op>(p.total + l, b[l].chunks);
}
template <class Op> void scan_lanes(const ScanLanes& p) {
  p.columns ? scan_columns<Op>(p) : scan_rows<Op>(p);
  if (p.past) store_past_fence();
}
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
