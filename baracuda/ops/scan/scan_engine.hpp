#pragma once
// The loops around an op, for ISA units: rows, and columns side by side. Elements are read where they lie if they are dense and
// of the computing type, else through L1; what is not written in place goes through L1 too, where an exclusive scan shifts it.
#include "baracuda/host/fetch_ahead.hpp"
#include "baracuda/ops/scan/scan_ops.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace scan {

template <class E> BARACUDA_HD bool is_element(DType t) {
  if constexpr (std::is_integral_v<E>) return t == DType::i64 || t == DType::u64;
  else return t == (sizeof(E) == 4 ? DType::f32 : DType::f64);
}
template <class Op> typename Op::State get_state(const ScanState* from) {
  static_assert(sizeof(typename Op::State) <= sizeof(ScanState));
  typename Op::State s;
  __builtin_memcpy(&s, from, sizeof s);
  return s;
}
template <class Op> void put_state(ScanState* to, const typename Op::State& s) { __builtin_memcpy(static_cast<void*>(to), &s, sizeof s); }

// n elements of a lane or of a step: element i at at[i next], next = 1 or -1.
template <class E> struct Line { E* at; int64_t next; };
template <class E> Line<const E> line_of(const ScanPort& p, const char* at, int64_t step, int64_t n, E* buffer, int64_t ahead = 0) {
  if (step == -1 && n > 0) {
    if (is_element<E>(p.dtype)) return {reinterpret_cast<const E*>(at), -1};
    scan_stage.in[p.dtype](at - (n - 1) * p.size, 1, buffer, n, ahead);
    return {buffer + n - 1, -1};
  }
  if (step == 1 && is_element<E>(p.dtype)) return {reinterpret_cast<const E*>(at), 1};
  scan_stage.in[p.dtype](at, step, buffer, n, ahead);
  return {buffer, 1};
}
// to[i] = 1 where line has own + i turn, else 0.
template <class E> void mark(Line<const int64_t> line, int64_t own, int64_t turn, E* to, int64_t n) {
  constexpr int N = kLanes<int64_t>;
  using I = Pack<int64_t, N>;
  I place;
  for (int l = 0; l < N; ++l) place.set_lane(l, own + turn * l);
  int64_t i = 0;
  for (; i + N <= n; i += N, place = place + spread<I>(turn * N)) {
    I at;
    __builtin_memcpy(&at.v, line.next == 1 ? line.at + i : line.at - i - (N - 1), sizeof at.v);
    if (line.next != 1) at = reversed(at);
    store<E, N>(to + i, narrow<E>(where(at == place, Pack<double, N>(1), Pack<double, N>(0))));
  }
  for (; i < n; ++i) to[i] = E(line.at[i * line.next] == own + turn * i);
}
// Steps of an extremum as positions along the axis.
template <class Index> void widen_places(const Index* at, int64_t* to, int64_t n, bool down, bool falling, int64_t last, int64_t start, int64_t carried) {
  const int64_t turn = falling ? -1 : 1, zero = falling ? last - start : start, before = carried < 0 ? -1 : falling ? last - carried : carried;
  if (down)
    for (int64_t i = 0; i < n; ++i) to[n - 1 - i] = at[i] < 0 ? before : zero + turn * at[i];
  else
    for (int64_t i = 0; i < n; ++i) to[i] = at[i] < 0 ? before : zero + turn * at[i];
}
// How far in[q] lies behind the output. Of an exclusive scan's gradient some are one element behind: y_(i+1) of the scan is the i-th
// of the inclusive one.
template <class Op> BARACUDA_HD int shift_of(const ScanLanes& p, int q) {
  if constexpr (requires { Op::kShift; }) return Op::kShift[q];
  else if constexpr (Op::kGradient) return p.exclusive && Op::kLate[q];
  else return 0;
}
// Whether v[1] may be a second output.
template <class Op> constexpr bool has_two() { return requires { Op::kTwo; }; }
// Whether the element that a shift leaves without one is 0; else any will do.
template <class Op> BARACUDA_HD bool is_missing_zero(int q) { return q == 0 || q == Op::kPlaces || requires { Op::kShift; }; }

template <class Op> class Rows {
  using E = typename Op::E;
  using V = typename Op::V;
  using Index = typename Op::Index;
  static constexpr int N = V::kWidth, R = row_elements<Op>(), K = R / N, kIn = Op::kIn, kMargin = 64;
  const ScanLanes& p_;
  typename Op::State before_;
  typename Op::template Carry<false> carry_;
  E last_;  // y before the next element, for exclusive scans
  Index last_at_;
  alignas(64) E in_[kIn][kScanChunk], out_[kMargin + kScanChunk + kMargin], out2_[has_two<Op>() ? kScanChunk : 1];
  alignas(64) Index at_[Op::kIndexed ? 1 + kScanChunk : 1];
  alignas(64) int64_t wide_[Op::kIndexed || Op::kGradient ? kScanChunk : 1];

  Line<const E> read(int q, int64_t lane, int64_t i, int n) {
    const ScanPort& x = p_.in[q];
    const int64_t late = shift_of<Op>(p_, q);
    const char* at = x.at + (lane * x.pitch + (i - late) * x.step) * x.size;
    if constexpr (Op::kGradient)
      if (q == Op::kPlaces) {
        Line<const int64_t> places{};
        if (late && i == 0) {
          wide_[0] = -1;
          if (n > 1) scan_stage.in[DType::i64](at + x.step * x.size, x.step, wide_ + 1, n - 1, 0);
          places = {wide_, 1};
        } else places = line_of<int64_t>(x, at, x.step, n, wide_);
        const int64_t own = p_.falling ? p_.n - 1 - i : i, turn = p_.falling ? -1 : 1;
        mark(places, own, turn, in_[q], n);
        return {in_[q], 1};
      }
    if (late < 0 && i + n == p_.n) {
      if (n > 1) scan_stage.in[x.dtype](at, x.step, in_[q], n - 1, 0);
      in_[q][n - 1] = 0;
      return {in_[q], 1};
    }
    if (late > 0 && i == 0) {
      scan_stage.in[x.dtype](at + x.step * x.size, 0, in_[q], 1, 0);
      if (is_missing_zero<Op>(q)) in_[q][0] = 0;
      if (n > 1) scan_stage.in[x.dtype](at + x.step * x.size, x.step, in_[q] + 1, n - 1, 0);
      return {in_[q], 1};
    }
    // A chunk's lines come upwards also where chunks go down, so that the processor does not see what comes next.
    return line_of<E>(x, at, x.step, n, in_[q], x.step == 1 || x.step == -1 ? x.step * n * x.size : 0);
  }
  static constexpr bool kTurned = [] {
    if constexpr (requires { Op::kTurned; }) return Op::kTurned;
    else return false;
  }();
  using Narrow = Pack<E, N>;
  BARACUDA_HD static void get(const E* at, int64_t next, int packs, V* v) {
    if constexpr (kTurned) {
      Narrow e[K];
      if (next > 0)
#pragma GCC unroll 16
        for (int j = 0; j < K; ++j) e[j] = load<N>(at + j * N);
      else
#pragma GCC unroll 16
        for (int j = 0; j < K; ++j) e[j] = reversed(load<N>(at - j * N - (N - 1)));
      turn(e);
#pragma GCC unroll 16
      for (int j = 0; j < K; ++j) v[j] = widened<V>(e[j]);
    } else if (next > 0)
#pragma GCC unroll 16
      for (int j = 0; j < packs; ++j) v[j] = fetch<V>(at + j * N);
    else
#pragma GCC unroll 16
      for (int j = 0; j < packs; ++j) v[j] = reversed(fetch<V>(at - j * N - (N - 1)));
  }
  BARACUDA_HD static void put(V* v, int packs, Line<E> to) {
    if constexpr (kTurned) {
      Narrow e[K];
#pragma GCC unroll 16
      for (int j = 0; j < K; ++j) e[j] = narrow<E>(v[j]);
      turn(e);
      if (to.next > 0)
#pragma GCC unroll 16
        for (int j = 0; j < K; ++j) store<E, N>(to.at + j * N, e[j]);
      else
#pragma GCC unroll 16
        for (int j = 0; j < K; ++j) store<E, N>(to.at - j * N - (N - 1), reversed(e[j]));
    } else if (to.next > 0)
#pragma GCC unroll 16
      for (int j = 0; j < packs; ++j) store<E, N>(to.at + j * N, narrow<E>(v[j]));
    else
#pragma GCC unroll 16
      for (int j = 0; j < packs; ++j) store<E, N>(to.at - j * N - (N - 1), narrow<E>(reversed(v[j])));
  }
  void steps(const Line<const E> (&x)[kIn], Line<E> y, Line<E> y2, int64_t lane, int64_t i, int n) {
    alignas(64) E tail[kIn][R], tail_out[R], tail_out2[has_two<Op>() ? R : 1];
    typename Op::template Carry<false> carry = carry_;
    for (int k = 0; k < n; k += R) {
      const int m = n - k < R ? n - k : R, whole = (m + kRowStep - 1) / kRowStep * kRowStep, packs = R == kRowStep ? K : whole / N;
      Step<Op> s;
      Line<E> to{y.at + k * y.next, y.next};
      for (int q = 0; q < kIn; ++q) {
        s.in[q] = x[q].at + k * x[q].next, s.next[q] = x[q].next;
        constexpr int kBytes = R * int(sizeof(E));
        if (x[q].at != in_[q]) fetch_ahead<kBytes>(reinterpret_cast<const char*>(s.in[q]) - (x[q].next > 0 ? 0 : 2 * 4096 + kBytes));
      }
      s.steps = m, s.start = int(i % kScanBlock) + k, s.first = p_.first, s.totals = p_.total != nullptr, s.two = p_.out2.at != nullptr;
      if constexpr (Op::kIndexed) s.at = at_ + 1 + k;
      if (p_.products) s.products = p_.products + (i + k) / kScanProducts * p_.products_pitch + lane;
      if (m < whole) {
        for (int q = 0; q < kIn; ++q) {
          for (int j = 0; j < whole; ++j) tail[q][j] = j < m ? s.in[q][j * s.next[q]] : Op::fill(q);
          s.in[q] = tail[q], s.next[q] = 1;
        }
        to = {tail_out, 1};
      }
      V v[kIn][K];
#pragma GCC unroll 3
      for (int q = 0; q < kIn; ++q) get(s.in[q], s.next[q], packs, v[q]);
      Op::template scan<false>(v, carry, s);
      put(v[0], packs, to);
      if (m < whole)
        for (int j = 0; j < m; ++j) y.at[(k + j) * y.next] = tail_out[j];
      if constexpr (has_two<Op>())
        if (s.two) {
          put(v[1], packs, m < whole ? Line<E>{tail_out2, 1} : Line<E>{y2.at + k * y2.next, y2.next});
          for (int j = 0; m < whole && j < m; ++j) y2.at[(k + j) * y2.next] = tail_out2[j];
        }
    }
    carry_ = carry;
  }
  void piece(int64_t lane, int64_t i, int n) {
    Line<const E> x[kIn];
    for (int q = 0; q < kIn; ++q) x[q] = read(q, lane, i, n);
    const ScanPort& y = p_.out;
    char* const at = y.at + (lane * y.pitch + i * y.step) * y.size;
    const bool shift = p_.exclusive && !Op::kGradient, down = y.step == -1;
    const bool direct = !p_.total && !shift && !p_.past && (down || y.step == 1) && is_element<E>(y.dtype);
    Line<E> to = direct ? Line<E>{reinterpret_cast<E*>(at), y.step} : down ? Line<E>{out_ + kMargin + n - 1, -1} : Line<E>{out_ + kMargin, 1};
    E* const begin = to.at;
    if (shift) *to.at = last_, to.at += to.next;
    const ScanPort& z = p_.out2;
    const bool down2 = z.step == -1;
    steps(x, to, down2 ? Line<E>{out2_ + n - 1, -1} : Line<E>{out2_, 1}, lane, i, n);
    if (p_.total) return;
    if (shift) last_ = to.at[(n - 1) * to.next];
    if (Op::kGradient && p_.exclusive && i == 0) *begin = 0;
    if (!direct) scan_stage.out[y.dtype](out_ + kMargin, down ? at - (n - 1) * y.size : at, down ? 1 : y.step, n, p_.past);
    char* const at2 = z.at + (lane * z.pitch + i * z.step) * z.size;
    if constexpr (has_two<Op>())
      if (z.at) scan_stage.out[z.dtype](out2_, down2 ? at2 - (n - 1) * z.size : at2, down2 ? 1 : z.step, n, p_.past);
    if constexpr (Op::kIndexed) {
      if (shift) at_[0] = last_at_, last_at_ = at_[n];
      widen_places(at_ + !shift, wide_, n, down2, p_.falling, p_.n - 1, i / kScanBlock * kScanBlock, before_.index);
      scan_stage.out[DType::i64](wide_, down2 ? at2 - (n - 1) * 8 : at2, down2 ? 1 : z.step, n, p_.past);
    }
  }

 public:
  explicit Rows(const ScanLanes& p) : p_(p) {}
  void run(int64_t lane) {
    before_ = p_.carry ? get_state<Op>(p_.carry + lane) : Op::identity();
    for (int64_t b = p_.begin; b < p_.end; ++b) {
      if (p_.total) before_ = Op::identity();
      carry_ = Op::template enter<false>(&before_);
      if constexpr (!Op::kGradient) last_ = b == 0 ? Op::empty(p_.empty) : Op::value(before_);
      last_at_ = -1;
      const int64_t from = b * kScanBlock, to = p_.n - from < kScanBlock ? p_.n : from + kScanBlock;
      for (int64_t i = from; i < to; i += kScanChunk) piece(lane, i, to - i < kScanChunk ? int(to - i) : kScanChunk);
      Op::template leave<false>(carry_, &before_, from);
      if (p_.total) put_state<Op>(p_.total + (b - p_.begin) * p_.total_pitch + lane, before_);
    }
  }
};

template <class Op> class Columns {
  using E = typename Op::E;
  using V = typename Op::V;
  using Index = typename Op::Index;
  static constexpr int N = V::kWidth, K = Op::kStep, kIn = Op::kIn;
  // Lanes abreast: steps of a few elements stay in L1, longer ones in L2, in lines that do not lie a power of two apart.
  static constexpr int kFit = (K > 16 ? 65536 : kIn == 1 ? 16384 : 8192) / (K * int(sizeof(E))), kLong = K > 16 ? 64 / int(sizeof(E)) : 0;
  static constexpr int kAbreast = kFit < kScanStrip ? kFit : kScanStrip, S = kAbreast + kLong;
  static constexpr int kAhead = K <= 16 ? K : 8;  // steps; lines a power of two apart share few places in the caches
  static_assert(S % N == 0 && kAbreast % N == 0);
  const ScanLanes& p_;
  alignas(64) E in_[kIn][K * S], out_[(K + 1) * S], out2_[has_two<Op>() ? K * S : 1];  // out: a row for the element before, then one for each step
  alignas(64) Index at_[Op::kIndexed ? (K + 1) * S : 1];
  alignas(64) int64_t wide_[Op::kIndexed || Op::kGradient ? S : 1], place_[Op::kIndexed ? S : 1];  // place: of what came before the block
  alignas(64) typename Op::State before_[S];
  alignas(64) typename Op::template Carry<true> carry_[S / N];

  // Where step i of the lanes lies; `whole`: it may be read up to a multiple of N lanes.
  const E* read(int q, int64_t lane, int lanes, int64_t i, int steps, int64_t& pitch) {
    const ScanPort& x = p_.in[q];
    const int64_t late = shift_of<Op>(p_, q), begin = i - late, gone = late > 0 ? 0 : late < 0 ? p_.n - 1 : -1;
    const char* at = x.at + (lane * x.pitch + begin * x.step) * x.size;
    const int64_t next = x.step * x.size;
    const bool places = q == Op::kPlaces;
    if (K <= 16 && !places && (gone < i || gone >= i + steps) && x.pitch == 1 && lanes % N == 0 && is_element<E>(x.dtype)) {
      pitch = x.step;
      return reinterpret_cast<const E*>(at);
    }
    pitch = S;
    for (int k = 0; k < steps; ++k, at += next) {
      E* const to = in_[q] + k * S;
      const bool none = i + k == gone;
      const char* const from = at + (none ? late * next : 0);
      const int64_t ahead = i + k + kAhead < p_.n && x.pitch == 1 ? kAhead * next : 0;
      if (places) {
        const Line<const int64_t> line = line_of<int64_t>(x, from, x.pitch, lanes, wide_, ahead);
        const int64_t own = none ? -1 : p_.falling ? p_.n - 1 - i - k : i + k;
        mark(line, own, 0, to, lanes);
      } else scan_stage.in[x.dtype](from, x.pitch, to, lanes, ahead);
      if (none && is_missing_zero<Op>(q))
        for (int l = 0; l < lanes; ++l) to[l] = 0;
    }
    return in_[q];
  }
  void write(int64_t lane, int lanes, int64_t i, int steps, int64_t block) {
    const bool shift = p_.exclusive && !Op::kGradient;
    const ScanPort& y = p_.out;
    E* const from = out_ + (shift ? 0 : S);
    if (Op::kGradient && p_.exclusive && i == 0)
      for (int l = 0; l < lanes; ++l) from[l] = 0;
    for (int k = 0; k < steps; ++k)
      scan_stage.out[y.dtype](from + k * S, y.at + (lane * y.pitch + (i + k) * y.step) * y.size, y.pitch, lanes, p_.past);
    if (shift) __builtin_memcpy(out_, out_ + steps * S, S * sizeof(E));
    if constexpr (has_two<Op>())
      if (const ScanPort& z = p_.out2; z.at)
        for (int k = 0; k < steps; ++k)
          scan_stage.out[z.dtype](out2_ + k * S, z.at + (lane * z.pitch + (i + k) * z.step) * z.size, z.pitch, lanes, p_.past);
    if constexpr (Op::kIndexed) {
      for (int k = 0; k < steps; ++k) {
        const Index* const at = at_ + (k + !shift) * S;
        const int64_t turn = p_.falling ? -1 : 1, zero = p_.falling ? p_.n - 1 - block : block;
        for (int l = 0; l < lanes; ++l) wide_[l] = at[l] < 0 ? place_[l] : zero + turn * at[l];
        const ScanPort& to = p_.out2;
        scan_stage.out[DType::i64](wide_, to.at + (lane * to.pitch + (i + k) * to.step) * 8, to.pitch, lanes, p_.past);
      }
      if (shift) __builtin_memcpy(at_, at_ + steps * S, S * sizeof(Index));
    }
  }
  void steps(int64_t lane, int lanes, int64_t i, int n) {
    const E* x[kIn];
    int64_t pitch[kIn];
    for (int q = 0; q < kIn; ++q) x[q] = read(q, lane, lanes, i, n, pitch[q]);
    for (int l = 0; l < lanes; l += N) {
      Step<Op> s;
      V v[kIn][K];
      for (int q = 0; q < kIn; ++q) {
        s.in[q] = x[q] + l, s.next[q] = pitch[q];
        if (x[q] != in_[q] && l * sizeof(E) % 64 == 0 && i + 2 * K <= p_.n)
          for (int k = 0; k < K; ++k) __builtin_prefetch(x[q] + l + (K + k) * pitch[q]);
        if (n == K)
#pragma GCC unroll 16
          for (int k = 0; k < K; ++k) v[q][k] = fetch<V>(s.in[q] + k * pitch[q]);
        else
          for (int k = 0; k < K; ++k) v[q][k] = k < n ? fetch<V>(s.in[q] + k * pitch[q]) : spread<V>(typename V::Scalar(Op::fill(q)));
      }
      s.steps = n, s.start = int(i % kScanBlock), s.first = p_.first, s.totals = p_.total != nullptr, s.two = p_.out2.at != nullptr;
      if constexpr (Op::kIndexed) s.at = at_ + S + l, s.at_next = S;
      if (p_.products) s.products = p_.products + i / kScanProducts * p_.products_pitch + lane + l, s.lanes = lanes - l;
      Op::template scan<true>(v, carry_[l / N], s);
#pragma GCC unroll 16
      for (int k = 0; k < K; ++k) store<E, N>(out_ + (1 + k) * S + l, narrow<E>(v[0][k]));
      if constexpr (has_two<Op>())
        if (s.two)
#pragma GCC unroll 16
          for (int k = 0; k < K; ++k) store<E, N>(out2_ + k * S + l, narrow<E>(v[1][k]));
    }
  }

 public:
  explicit Columns(const ScanLanes& p) : p_(p) {
    if (p.lanes % N == 0) return;
    for (auto& tile : in_)  // lanes that are not there are computed too
      for (E& e : tile) e = 0;
  }
  void run() {
    for (int64_t lane = 0; lane < p_.lanes; lane += kAbreast) {
      const int lanes = p_.lanes - lane < kAbreast ? int(p_.lanes - lane) : kAbreast, all = (lanes + N - 1) / N * N;
      for (int l = 0; l < all; ++l) before_[l] = p_.carry && l < lanes ? get_state<Op>(p_.carry + lane + l) : Op::identity();
      for (int64_t b = p_.begin; b < p_.end; ++b) {
        if (p_.total)
          for (int l = 0; l < all; ++l) before_[l] = Op::identity();
        for (int l = 0; l < all; l += N) carry_[l / N] = Op::template enter<true>(before_ + l);
        if constexpr (!Op::kGradient)
          for (int l = 0; l < all; ++l) out_[l] = b == 0 ? Op::empty(p_.empty) : Op::value(before_[l]);
        if constexpr (Op::kIndexed)
          for (int l = 0; l < all; ++l) {
            const int64_t place = before_[l].index;
            at_[l] = -1, place_[l] = p_.falling && place >= 0 ? p_.n - 1 - place : place;
          }
        const int64_t from = b * kScanBlock, to = p_.n - from < kScanBlock ? p_.n : from + kScanBlock;
        for (int64_t i = from; i < to; i += K) {
          const int n = to - i < K ? int(to - i) : K;
          steps(lane, lanes, i, n);
          if (!p_.total) write(lane, lanes, i, n, from);
        }
        for (int l = 0; l < all; l += N) Op::template leave<true>(carry_[l / N], before_ + l, from);
        if (p_.total)
          for (int l = 0; l < lanes; ++l) put_state<Op>(p_.total + (b - p_.begin) * p_.total_pitch + lane + l, before_[l]);
      }
    }
  }
};

template <class Op> void scan_lanes(const ScanLanes& p) {
  if (p.columns) {
    Columns<Op> c(p);
    c.run();
  } else {
    Rows<Op> r(p);
    for (int64_t lane = 0; lane < p.lanes; ++lane) r.run(lane);
  }
  if (p.past) store_past_fence();
}
template <class Op> void scan_carries(const ScanCarries& p) {
  for (int64_t l = 0; l < p.lanes; ++l) {
    typename Op::State s = p.start ? Op::identity() : get_state<Op>(p.running + l);
    for (int64_t b = 0; b < p.blocks; ++b) {
      const typename Op::State own = get_state<Op>(p.carries + b * p.lanes + l);
      put_state<Op>(p.carries + b * p.lanes + l, s);
      s = Op::join(s, own, p.first);
    }
    put_state<Op>(p.running + l, s);
  }
}

}  // namespace scan
}  // namespace baracuda
