// Sums, products and extrema of floats where elements lie side by side, in rows or from column to column, and nothing else is asked for: from
// memory to registers and back, in the order of every scan (scan_ops.hpp). A row goes 64 elements at a time, whole lines past the
// caches; a reverse one as it lies, by the network's mirror image. Columns go line by line through L1.
#include "baracuda/host/fetch_ahead.hpp"
#include "baracuda/math/bf16_instruction.hpp"
#include "baracuda/ops/scan/scan_ops.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using namespace scan;

template <class Op> typename Op::State state_of(const ScanState* from) {
  typename Op::State s;
  __builtin_memcpy(&s, from, sizeof s);
  return s;
}

// `to` begins a line; past the caches but for the last line's part.
void lines_past(char* to, const char* from, int64_t bytes) {
  constexpr int N = kLanes<float>, kBytes = N * int(sizeof(float));
  int64_t i = 0;
  for (; i + 64 <= bytes; i += 64)
    for (int k = 0; k < 64; k += kBytes) store_past<float, N>(reinterpret_cast<float*>(to + i + k), load<N>(reinterpret_cast<const float*>(from + i + k)));
  __builtin_memcpy(to + i, from + i, size_t(bytes - i));
}

// A register of what T computes in, F, is kParts of V.
template <class Op, class T> struct Ports {
  using V = typename Op::V;
  using F = PackOf<T>;
  static constexpr int N = V::kWidth, L = F::kWidth, kParts = L / N;
  static_assert(kParts == 1 || kParts == 2);

  BARACUDA_HD static void get(const T* p, V* v) {
    if constexpr (std::is_same_v<F, V>) v[0] = load<N>(p);
    else if constexpr (std::is_same_v<T, float>)
      for (int k = 0; k < kParts; ++k) v[k] = fetch<V>(p + k * N);
    else {
      alignas(64) float wide[L];
      store<float, L>(wide, load<L>(p));
      for (int k = 0; k < kParts; ++k) v[k] = fetch<V>(wide + k * N);
    }
  }
  BARACUDA_HD static F narrowed(const V* v) {
    if constexpr (std::is_same_v<F, V>) return v[0];
    else if constexpr (kParts == 1) return narrow<Acc<T>>(v[0]);
    else return narrow(v[0], v[1]);
  }
  BARACUDA_HD static void put(T* p, const V* v, bool past) { store_twice_rounded<T, L>(p, narrowed(v), narrowed(v + kParts), past); }  // two registers of F
};

// The totals of a row's groups of step 64, in memory's order: each pair of neighbours, of pairs, of fours ... is joined, as the network does on
// its way to a group's last element. Registers are joined by halves of two at a time.
template <class F> struct GroupTotals {
  template <class V> static constexpr bool kFits = BARACUDA_VECTOR_BYTES == 64 && V::kWidth * sizeof(typename V::Scalar) == 64;
  template <class V, class A, class B> BARACUDA_HD static V both(V a, V b, A first, B second) { return F::of(pick(a, b, first), pick(a, b, second)); }
#if BARACUDA_VECTOR_BYTES == 64
  BARACUDA_HD static void of(const Pack<float, 16>* v, float* to) {  // four groups
    using V = Pack<float, 16>;
    auto even = [](int l) { return l / 4 * 4 + l % 2 * 2 + l % 4 / 2 * 16; };
    auto odd = [](int l) { return l / 4 * 4 + l % 2 * 2 + l % 4 / 2 * 16 + 1; };
    V t = both(both(v[0], v[1], even, odd), both(v[2], v[3], even, odd), even, odd);
    t = F::of(t, V::of(Raw<float, 16>(_mm512_shuffle_f32x4(__m512(t.v), __m512(t.v), 0xb1))));  // g++ takes pick() of whole quarters through memory
    t = F::of(t, V::of(Raw<float, 16>(_mm512_shuffle_f32x4(__m512(t.v), __m512(t.v), 0x4e))));
    _mm_store_ps(to, _mm512_castps512_ps128(__m512(t.v)));
  }
#endif
  BARACUDA_HD static void of(const Pack<double, 8>* v, double* to) {  // eight
    auto even = [](int l) { return l / 2 * 2 + l % 2 * 8; };
    auto odd = [](int l) { return l / 2 * 2 + l % 2 * 8 + 1; };
    auto low = [](int l) { return l / 2 % 2 * 4 + l % 2 + l / 4 * 8; };
    auto high = [](int l) { return l / 2 % 2 * 4 + l % 2 + l / 4 * 8 + 2; };
    Pack<double, 8> t[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) t[k] = both(v[2 * k], v[2 * k + 1], even, odd);
    store<double, 8>(to, both(both(t[0], t[1], low, high), both(t[2], t[3], low, high), low, high));
  }
};

template <class Op, class T> class DirectRows {
  using V = typename Op::V;
  using P = Ports<Op, T>;
  using Carry = typename Op::template Carry<false>;
  using State = typename Op::State;
  static constexpr int N = V::kWidth, K = kRowStep / N;
  static constexpr bool kByTurns = kIsBf16<T> && BARACUDA_VECTOR_BYTES == 64 && std::is_same_v<V, Pack<float, 16>>;

  template <bool kDown> BARACUDA_HD static void step(const T* x, T* y, Carry& c, bool first, bool past) {
    V v[K];
    if constexpr (kByTurns) {
#pragma GCC unroll 4
      for (int k = 0; k < K; k += 2) {
        const auto both = load_apart<N>(x + k * N);
        v[k] = both.low, v[k + 1] = both.high;
      }
      if (Op::template take_by_turns<K, kDown>(v, c, first)) {
#pragma GCC unroll 4
        for (int k = 0; k < K; k += 2) store_by_turns_rounded<T, N>(y + k * N, v[k], v[k + 1], past);
        return;
      }
    }
#pragma GCC unroll 64
    for (int k = 0; k < K; k += P::kParts) P::get(x + k * N, v + k);
    Op::template take<false, K, kDown>(v, c, first);
#pragma GCC unroll 64
    for (int k = 0; k < K; k += 2 * P::kParts) P::put(y + k * N, v + k, past);
  }
  // n elements from x on, which lie downwards where kDown; meanwhile what lies `ahead` bytes further is fetched.
  template <bool kDown> [[gnu::noinline]] static void steps(const T* x, T* y, int64_t n, Carry& carry, bool first, bool past, int64_t ahead) {
    Carry c = carry;
    int64_t i = 0;
    for (; i + kRowStep <= n; i += kRowStep) {
      const int64_t at = kDown ? -i - (kRowStep - 1) : i;
      constexpr int kBytes = kRowStep * int(sizeof(T));
      fetch_ahead<kBytes>(reinterpret_cast<const char*>(x + at) + (kDown ? -ahead : ahead) - 4096);
      step<kDown>(x + at, y + at, c, first, past);
    }
    if (const int m = int(n - i)) {
      alignas(64) T tail[kRowStep];
      for (int j = 0; j < kRowStep; ++j) store<T, 1>(tail + (kDown ? kRowStep - 1 - j : j), Pack<Acc<T>, 1>(Op::fill(0)));
      __builtin_memcpy(kDown ? tail + kRowStep - m : tail, kDown ? x - (n - 1) : x + i, m * sizeof(T));
      step<kDown>(tail, tail, c, first, false);
      __builtin_memcpy(kDown ? y - (n - 1) : y + i, kDown ? tail + kRowStep - m : tail, m * sizeof(T));
    }
    carry = c;
  }
  // Where lines do not begin as rows do, results go through L1.
  template <bool kDown> static void shifted(const T* x, T* y, int64_t n, Carry& c, bool first, int64_t ahead) {
    alignas(64) T block[kScanBlock];
    steps<kDown>(x, kDown ? block + n - 1 : block, n, c, first, false, ahead);
    char* const to = reinterpret_cast<char*>(kDown ? y - (n - 1) : y);
    const int64_t bytes = n * int64_t(sizeof(T)), head = -reinterpret_cast<intptr_t>(to) & 63;
    if (head >= bytes) return void(__builtin_memcpy(to, block, size_t(bytes)));
    __builtin_memcpy(to, block, size_t(head));
    lines_past(to + head, reinterpret_cast<const char*>(block) + head, bytes - head);
  }

  static constexpr int kBlocks = 4;  // whose totals are taken side by side
  // The totals of kBlocks whole blocks from x on. False: they have to be scanned.
  template <bool kDown> static bool totals_of(const T* x, int64_t start, State* to, bool first) {
    auto at = [&](int b, int i) { return x + (kDown ? -b * kScanBlock - i - (kRowStep - 1) : b * kScanBlock + i); };
    auto get = [&](int b, int i, V* v) __attribute__((always_inline)) {
      fetch_ahead<kRowStep * int(sizeof(T))>(reinterpret_cast<const char*>(at(b, i)) + (kDown ? -1 : 1) * kBlocks * kScanBlock * int(sizeof(T)) - 4096);
#pragma GCC unroll 64
      for (int k = 0; k < K; k += P::kParts) P::get(at(b, i) + k * N, v + k);
    };
    if constexpr (Op::kIsFold) {
      using A = typename V::Scalar;
      if constexpr (GroupTotals<typename Op::Join>::template kFits<V>) {
        constexpr int kGroups = kRowStep / Op::W;
        A all[kBlocks];
        for (A& a : all) a = Op::identity();
        for (int i = 0; i < kScanBlock; i += kRowStep) {
          alignas(64) A t[kBlocks][kGroups];
#pragma GCC unroll 4
          for (int b = 0; b < kBlocks; ++b) {
            V v[K];
            get(b, i, v);
            GroupTotals<typename Op::Join>::of(v, t[b]);
          }
#pragma GCC unroll 8
          for (int g = 0; g < kGroups; ++g)
#pragma GCC unroll 4
            for (int b = 0; b < kBlocks; ++b) all[b] = Op::join(all[b], t[b][kDown ? kGroups - 1 - g : g], first);
        }
        for (int b = 0; b < kBlocks; ++b) to[b] = all[b];
        return true;
      }
      return false;
    } else {
      if (first) return false;
      for (int b = 0; b < kBlocks; ++b) {
        V most[2] = {V(Op::fill(0)), V(Op::fill(0))}, sum[2] = {V(0), V(0)};
        for (int i = 0; i < kScanBlock; i += kRowStep) {
          V v[K];
          get(b, i, v);
#pragma GCC unroll 64
          for (int k = 0; k < K; ++k) most[k % 2] = Op::over(most[k % 2], v[k]), sum[k % 2] = sum[k % 2] + v[k];
        }
        most[0] = Op::over(most[0], most[1]);
        State all{most[0].lane(0), start + b * kScanBlock};
        for (int l = 1; l < N; ++l) all = Op::join(all, {most[0].lane(l), all.index}, false);
        if (any(is_nan(sum[0] + sum[1])) || all.v == 0) return false;  // of zeros it is the last one's sign
        to[b] = all;
      }
      return true;
    }
  }
  template <bool kDown> static void totals(const ScanLanes& p, const T* x, ScanState* total) {
    for (int64_t b = p.begin; b < p.end;) {
      State some[kBlocks];
      const int64_t i = b * kScanBlock, left = p.n - i;
      if (b + kBlocks <= p.end && left >= kBlocks * kScanBlock && totals_of<kDown>(x + (kDown ? -i : i), i, some, p.first)) {
        for (int k = 0; k < kBlocks; ++k, ++b) __builtin_memcpy(static_cast<void*>(total + (b - p.begin) * p.total_pitch), some + k, sizeof some[k]);
        continue;
      }
      alignas(64) T scratch[kScanBlock];
      const int64_t n = left < kScanBlock ? left : kScanBlock;
      State s = Op::identity();
      Carry c = Op::template enter<false>(&s);
      steps<kDown>(x + (kDown ? -i : i), kDown ? scratch + n - 1 : scratch, n, c, p.first, false, 4096);
      Op::template leave<false>(c, &s, i);
      __builtin_memcpy(static_cast<void*>(total + (b - p.begin) * p.total_pitch), &s, sizeof s);
      ++b;
    }
  }
  template <bool kDown> static void run(const ScanLanes& p) {
    const int64_t last = p.n < p.end * kScanBlock ? p.n : p.end * kScanBlock, ahead = p.ahead ? p.ahead * int64_t(sizeof(T)) : 4096;
    const bool whole = reinterpret_cast<uintptr_t>(p.out.at) % 64 == (kDown ? 64 - sizeof(T) : 0) && (p.lanes == 1 || p.out.pitch * sizeof(T) % 64 == 0);
    for (int64_t lane = 0; lane < p.lanes; ++lane) {
      const T* const x = reinterpret_cast<const T*>(p.in[0].at) + lane * p.in[0].pitch;
      if (p.total) {
        totals<kDown>(p, x, p.total + lane);
        continue;
      }
      T* const y = reinterpret_cast<T*>(p.out.at) + lane * p.out.pitch;
      State before = p.carry ? state_of<Op>(p.carry + lane) : Op::identity();
      for (int64_t i = p.begin * kScanBlock; i < last; i += kScanBlock) {
        const int64_t n = last - i < kScanBlock ? last - i : kScanBlock, at = kDown ? -i : i;
        Carry c = Op::template enter<false>(&before);
        if (!p.past || whole) steps<kDown>(x + at, y + at, n, c, p.first, p.past, ahead);
        else shifted<kDown>(x + at, y + at, n, c, p.first, ahead);
        Op::template leave<false>(c, &before, i);
      }
    }
  }

 public:
  static void run_all(const ScanLanes& p) { p.in[0].step > 0 ? run<false>(p) : run<true>(p); }
};

template <class Op, class T> class DirectColumns {
  using V = typename Op::V;
  using P = Ports<Op, T>;
  using Carry = typename Op::template Carry<true>;
  static constexpr int N = V::kWidth, K = Op::kStep, L = P::L, kParts = P::kParts;
  // Columns that go through L1 at a time, and from line to line there: not a power of two apart.
  static constexpr int kAbreast = 256, S = kAbreast + 64 / int(sizeof(T));
  static_assert(kAbreast % (2 * L) == 0);
  const ScanLanes& p_;
  const int64_t pitch_;  // S, or that of y where its rows follow each other: then they are written as one
  alignas(64) T out_[K * S];
  alignas(64) typename Op::State before_[kScanDirectStrip];
  Carry carry_[kScanDirectStrip / N];

  static constexpr int G = sizeof(T) == 2 && K * kParts <= 8 ? 2 : 1, kWidth = G * L;  // registers of F abreast, and their columns

  // Columns l to l + kWidth of the piece that begins with column `from` of the strip.
  void group(const T* x, int64_t next, int from, int l, int steps, int lanes) {
    alignas(64) T some[K * kWidth];
    if (steps < K || lanes < kWidth) {
      const Pack<Acc<T>, 1> fill = Op::fill(0);
      for (T& e : some) store<T, 1>(&e, fill);
      for (int k = 0; k < steps; ++k) __builtin_memcpy(some + k * kWidth, x + k * next, size_t(lanes < kWidth ? lanes : kWidth) * sizeof(T));
      x = some, next = kWidth;
    }
    V v[G * kParts][K];
#pragma GCC unroll 16
    for (int k = 0; k < K; ++k)
#pragma GCC unroll 2
      for (int g = 0; g < G; ++g) {
        V e[kParts];
        P::get(x + k * next + g * L, e);
#pragma GCC unroll 2
        for (int j = 0; j < kParts; ++j) v[g * kParts + j][k] = e[j];
      }
    Carry* const c = carry_ + (from + l) / N;
    if (p_.total) {
#pragma GCC unroll 4
      for (int g = 0; g < G * kParts; ++g) Op::template count<K>(v[g], c[g], p_.first);
      return;
    }
#pragma GCC unroll 4
    for (int g = 0; g < G * kParts; ++g) Op::template take<true, K>(v[g], c[g], p_.first);
#pragma GCC unroll 16
    for (int k = 0; k < K; ++k) {
      V e[G * kParts];
#pragma GCC unroll 4
      for (int g = 0; g < G * kParts; ++g) e[g] = v[g][k];
      if constexpr (G == 2) P::put(out_ + k * pitch_ + l, e, false);
      else store<T, L>(out_ + k * pitch_ + l, P::narrowed(e));
    }
  }
  void write(int64_t lane, int lanes, int64_t i, int steps) const {
    const bool one = pitch_ != S;
    const int64_t bytes = (one ? steps : 1) * lanes * int64_t(sizeof(T));
    for (int k = 0; k < (one ? 1 : steps); ++k) {
      char* const to = reinterpret_cast<char*>(reinterpret_cast<T*>(p_.out.at) + lane + (i + k) * p_.out.step);
      const char* const from = reinterpret_cast<const char*>(out_ + k * S);
      const int64_t head = p_.past ? -reinterpret_cast<intptr_t>(to) & 63 : 0;
      if (!p_.past || head >= bytes) __builtin_memcpy(to, from, size_t(bytes));
      else __builtin_memcpy(to, from, size_t(head)), lines_past(to + head, from + head, bytes - head);
    }
  }

 public:
  explicit DirectColumns(const ScanLanes& p) : p_(p), pitch_(p.lanes <= kAbreast && p.lanes % kWidth == 0 && p.out.step == p.lanes ? p.lanes : S) {}
  void run() {
    const int64_t last = p_.n < p_.end * kScanBlock ? p_.n : p_.end * kScanBlock, next = p_.in[0].step, ahead = p_.ahead ? p_.ahead : 2 * K;
    for (int64_t lane = 0; lane < p_.lanes; lane += kScanDirectStrip) {
      const int lanes = p_.lanes - lane < kScanDirectStrip ? int(p_.lanes - lane) : kScanDirectStrip, all = (lanes + N - 1) / N * N;
      for (int l = 0; l < all; ++l) before_[l] = p_.carry && l < lanes ? state_of<Op>(p_.carry + lane + l) : Op::identity();
      for (int64_t b = p_.begin * kScanBlock; b < last; b += kScanBlock) {
        const int64_t end = last - b < kScanBlock ? last : b + kScanBlock;
        if (p_.total)
          for (int l = 0; l < all; ++l) before_[l] = Op::identity();
        for (int l = 0; l < all; l += N) carry_[l / N] = Op::template enter<true>(before_ + l);
        for (int64_t i = b; i < end; i += K) {
          const int steps = end - i < K ? int(end - i) : K;
          const bool more = i + ahead + K <= p_.n;
          for (int piece = 0; piece < lanes; piece += kAbreast) {
            const T* const x = reinterpret_cast<const T*>(p_.in[0].at) + lane + piece + i * next;
            const int abreast = lanes - piece < kAbreast ? lanes - piece : kAbreast;
            for (int l = 0; l < abreast; l += kWidth) {
              if (more && l * sizeof(T) % 64 == 0)
#pragma GCC unroll 16
                for (int k = 0; k < K; ++k) __builtin_prefetch(x + l + (ahead + k) * next, 0, 2);
              group(x + l, next, piece, l, steps, abreast - l);
            }
            if (!p_.total) write(lane + piece, abreast, i, steps);
          }
        }
        for (int l = 0; l < all; l += N) Op::template leave<true>(carry_[l / N], before_ + l, b);
        if (p_.total)
          for (int l = 0; l < lanes; ++l)
            __builtin_memcpy(static_cast<void*>(p_.total + (b / kScanBlock - p_.begin) * p_.total_pitch + lane + l), &before_[l], sizeof before_[l]);
      }
    }
  }
};

template <class Op, class T> void direct(const ScanLanes& p) {
  if (p.columns) {
    DirectColumns<Op, T> c(p);
    c.run();
  } else DirectRows<Op, T>::run_all(p);
  if (p.past) store_past_fence();
}
template <class F, class T> using FoldOf = Fold<Acc<T>, std::conditional_t<kIsHalf<T> && std::is_same_v<F, Add>, float, double>, F>;

constexpr ScanDirect make() {
  using Run = void (*)(const ScanLanes&);
  return {{by_dtype<Run>(Floating{}, []<class T>() { return &direct<FoldOf<Add, T>, T>; }),
           by_dtype<Run>(Floating{}, []<class T>() { return &direct<FoldOf<Mul, T>, T>; }),
           by_dtype<Run>(Floating{}, []<class T>() { return &direct<Extremum<Acc<T>, true, false>, T>; }),
           by_dtype<Run>(Floating{}, []<class T>() { return &direct<Extremum<Acc<T>, false, false>, T>; })}};
}

}  // namespace
extern constexpr ScanDirect scan_direct = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
