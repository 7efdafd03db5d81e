// Blocks in a stream: while exp of one tile of columns is computed, the next one is read and the one before is written; the gradient
// finishes a block while the next one is summed. Every element is read from memory once and written once. Columns stand in buffers:
// lines of a pitch that is a power of two would not stay in the caches. Exps of a row of softmax stand in one, too; other rows are read again from the caches.
#include "baracuda/host/fetch_ahead.hpp"
#include "baracuda/host/lane_sum.hpp"
#include "baracuda/ops/softmax/softmax_lanes.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using namespace softmax;
using Blocks = const SoftmaxBlock* const (&)[3];
constexpr int N = kLanes<float>;
using V = Full<float>;

BARACUDA_HD V each(const void* p, int c) { return double(at<float>(p, c)); }

// 2 N elements as load_dealt has them, or one behind the other.
template <class T, bool kDealt> BARACUDA_HD Twice<V> both_of(const T* p) {
  if constexpr (kDealt) return load_dealt<N>(p);
  else return {load<N>(p), load<N>(p + N)};
}
// Where a row is written: from `head` on what is written together begins at multiples of its size, if it goes past the caches. Two packs at a time.
template <class T, bool kPast> struct Out {
  T* y;
  int head;
  BARACUDA_HD Out(const SoftmaxBlock& b, int c) : y(static_cast<T*>(b.out) + c * b.pitch), head(kPast ? head_of<T, N>(y) : 0) {}
  // What stands before the first step; element(j, count).
  template <class F> BARACUDA_HD void begin(const F& element) const {
    for (int j = 0; j < head; j += N) put<T>(y + j, element(j, head - j < N ? head - j : N), head - j < N ? head - j : N, 1);
  }
  // The two packs that belong to step i, which are there; of(j): as both_of<kDealt> has them.
  template <bool kDealt, bool kNormal, class F> BARACUDA_HD void twice(int64_t i, const F& of) const {
    const Twice<V> v = of(i + head);
    if constexpr (kDealt) store_dealt_rounded<T, N, kNormal>(y + i + head, v.low, v.high, kPast);
    else store_twice_rounded<T, N>(y + i + head, v.low, v.high, kPast);
  }
  // The pack that belongs to step i, or it and the next one.
  template <class F> BARACUDA_HD void once(int64_t i, int64_t m, const F& element) const {
    const int64_t j = i + head, left = m - j;
    const bool second = i / N % 2;
    if (!second && left >= 2 * N) store_twice_rounded<T, N>(y + j, element(j, N), element(j + N, N), kPast);
    else if (!second && left >= N) store<T, N>(y + j, element(j, N));
    else if (left > 0 && left < N) put<T>(y + j, element(j, int(left)), int(left), 1);
  }
};
BARACUDA_HD bool row_past(const SoftmaxBlock* b) { return b && b->past && b->m >= 2 * N; }
// twice(accumulator, accumulator, i) at every two packs of a row, while i + 2 N + head elements are there, summed as chunk_sum does: as both_of<kDealt>
// has them. once(accumulator, i) at the others, a pack each.
template <class T, bool kDealt, class F, class G> BARACUDA_HD float over_row(int64_t m, int head, const F& twice, const G& once) {
  if constexpr (N == 1) {
    return chunk_sum<float>(0, int(m), [&](auto acc, int64_t i) __attribute__((always_inline)) { return once(acc, i); });
  } else {
    constexpr int P = kSumLanes / N;
    V acc[P];
#pragma GCC unroll 64
    for (int k = 0; k < P; ++k) acc[k] = -0.0;
    int64_t i = 0;
    for (; i + kSumLanes + head <= m; i += kSumLanes)
#pragma GCC unroll 64
      for (int k = 0; k < P; k += 2) twice(acc[k], acc[k + 1], i + k * N);
    if constexpr (kDealt && kStep<T, N> == 2)
#pragma GCC unroll 64
      for (int k = 0; k < P; k += 2) {
        const Twice<V> in_order = by_turns(acc[k], acc[k + 1], std::make_integer_sequence<int, N>{});
        acc[k] = in_order.low, acc[k + 1] = in_order.high;
      }
    if (i < m) {
      alignas(64) float lane[kSumLanes];
      for (int k = 0; k < P; ++k) store<float, N>(lane + k * N, acc[k]);
      for (; i < m; i += N) {
        float* const l = lane + i % kSumLanes;
        store<float, N>(l, once(V(load<N>(l)), i));
      }
      for (int k = 0; k < P; ++k) acc[k] = load<N>(lane + k * N);
    }
    return fold_lanes(acc);
  }
}
template <class T> BARACUDA_HD V part(const T* p, int64_t left, double fill) {
  return left >= N ? V(load<N>(p)) : load_tail<N>(p, int(left & (N - 1)), fill);
}
template <class T> BARACUDA_HD void fetch_line_ahead(const T* p, int64_t i) {  // at every line once
  constexpr int kLine = 64 / int(sizeof(T));
  if (i % (kLine > N ? kLine : N) == 0) fetch_ahead<64>(p + i);
}
BARACUDA_HD bool has(const SoftmaxBlock* b, int c) { return b && c < b->count; }
template <class T, bool kLog, bool kBefore, bool kNow, bool kPast> void backward_row(Blocks b, int c) {
  constexpr SoftmaxFinish F = kLog ? kLogSlope<T> : SoftmaxFinish::slope;
  const SoftmaxBlock &before = *b[kBefore ? 0 : 1], &now = *b[kNow ? 1 : 0];
  const int64_t m = now.m;
  auto row = [&](const void* in, const SoftmaxBlock& block) __attribute__((always_inline)) { return static_cast<const T*>(in) + c * block.pitch; };
  const T *const dy0 = row(before.in, before), *const y0 = row(before.second, before), *const dy1 = row(now.in, now), *const y1 = row(now.second, now);
  const V dot = kBefore ? each(before.sum, c) : V(0), sign = before.sign;
  auto of = [&](V dy, V y) __attribute__((always_inline)) { return finished<F, true>(dy, y, V(0), dot, sign); };
  auto element = [&](int64_t j, int count) __attribute__((always_inline)) { return of(part(dy0 + j, count, 0), part(y0 + j, count, 0)); };
  auto add = [&](V acc, V dy, V y) __attribute__((always_inline)) { return kLog ? acc + dy : fma(dy, y, acc); };
  const Out<T, kPast> out(before, c);
  if constexpr (kBefore) out.begin(element);
  const float total = over_row<T, true>(m, kBefore ? out.head : 0, [&](V& first, V& second, int64_t i) __attribute__((always_inline)) {
    if constexpr (kBefore) out.template twice<true, false>(i, [&](int64_t j) __attribute__((always_inline)) {
      const Twice<V> dy = both_of<T, true>(dy0 + j), y = both_of<T, true>(y0 + j);
      return Twice<V>{of(dy.low, y.low), of(dy.high, y.high)};
    });
    if constexpr (kNow) {
      for (int k = 0; k < 2 * N; k += N) fetch_line_ahead(dy1, i + k), fetch_line_ahead(y1, i + k);
      const Twice<V> dy = both_of<T, true>(dy1 + i), y = kLog ? dy : both_of<T, true>(y1 + i);
      first = add(first, dy.low, y.low), second = add(second, dy.high, y.high);
    }
  }, [&](V acc, int64_t i) __attribute__((always_inline)) {
    if constexpr (kBefore) out.once(i, m, element);
    if constexpr (!kNow) return acc;  // the padding adds -0, which changes no bit
    else return add(acc, part(dy1 + i, m - i, -0.0), part(y1 + i, m - i, 1));
  });
  if constexpr (kNow) static_cast<float*>(now.sum)[c] = total;
}
template <class T, bool kLog, bool kPast> BARACUDA_HD void backward_lines(Blocks b) {
  const int lines[] = {b[0] ? b[0]->count : 0, b[1] ? b[1]->count : 0};
  for (int c = 0; c < lines[0] || c < lines[1]; ++c)
    if (has(b[0], c) && has(b[1], c)) backward_row<T, kLog, true, true, kPast>(b, c);
    else if (has(b[0], c)) backward_row<T, kLog, true, false, kPast>(b, c);
    else backward_row<T, kLog, false, true, false>(b, c);
}
template <class T, bool kLog> void backward_rows(Blocks b) {
  if (!row_past(b[0])) return backward_lines<T, kLog, false>(b);
  backward_lines<T, kLog, true>(b);
  store_past_fence();
}

// The largest element of a row and, of halves, whether all lie near it. add() takes what both_of takes, or a pack.
template <class T> struct Extremes {
  V most = -kInf, least = kInf;
#if BARACUDA_VECTOR_BYTES == 64
  // Halves as integers: the largest one is the largest half, if that is not negative; the largest without a sign is the least half, or none is negative.
  static constexpr bool kWords = kIsHalf<T>;
  static constexpr short kLowest = kIsBf16<T> ? -0x80 : -0x400;  // -inf, which leaves out what is negative
  __m512i largest[2] = {_mm512_set1_epi16(kLowest), _mm512_set1_epi16(kLowest)}, unsigned_largest[2] = {};
#else
  static constexpr bool kWords = false;
#endif
  BARACUDA_HD void add(V v) {
    most = larger(v, most);
    if constexpr (kIsHalf<T>) least = smaller(v, least);
  }
  BARACUDA_HD void add(const T* p, [[maybe_unused]] int which) {
#if BARACUDA_VECTOR_BYTES == 64
    if constexpr (kWords) {
      const __m512i x = _mm512_loadu_si512(p);
      largest[which] = _mm512_max_epi16(x, largest[which]), unsigned_largest[which] = _mm512_max_epu16(x, unsigned_largest[which]);
      return;
    }
#endif
    const Twice<V> v = both_of<T, true>(p);
    add(v.low), add(v.high);
  }
  BARACUDA_HD void put([[maybe_unused]] const T* x, [[maybe_unused]] int64_t m, const SoftmaxBlock& b, int c) {
#if BARACUDA_VECTOR_BYTES == 64
    if constexpr (kWords) {
      alignas(64) T words[4 * N];
      _mm512_store_si512(words, _mm512_max_epi16(largest[0], largest[1]));
      _mm512_store_si512(words + 2 * N, _mm512_max_epu16(unsigned_largest[0], unsigned_largest[1]));
      for (int k = 0; k < 2; ++k) {
        most = larger(load<N>(words + k * N), most);
        least = smaller(load<N>(words + (2 + k) * N), least);
      }
      if (!(top_lane(most) >= 0))  // NaN, too
        for (int64_t i = 0; i < m; i += N) most = larger(part(x + i, m - i, -kInf), most);
    }
#endif
    const float top = top_lane(most);
    static_cast<float*>(b.max)[c] = top;
    if constexpr (kIsHalf<T>) b.near[c] = top < 60 - top_lane(-smaller(least, V(0)));
  }
};
// A row is finished, the next one's exps are summed and the one after that is looked through for its maximum. Of softmax the exps stand in the buffer.
// kOnce: the factor is in one part; kNear: no exp, and no result of the row that is finished, is subnormal.
template <class T, bool kLog, bool kBefore, bool kNow, bool kAfter, bool kPast, bool kDealt, bool kNear, bool kOnce = true> void forward_row(Blocks b, int c) {
  constexpr SoftmaxFinish F = kLog ? SoftmaxFinish::log_value : SoftmaxFinish::value;
  const SoftmaxBlock &before = *b[kBefore ? 0 : kNow ? 1 : 2], &now = *b[kNow ? 1 : kBefore ? 0 : 2], &after = *b[kAfter ? 2 : kNow ? 1 : 0];
  const int64_t m = now.m;
  auto row = [&](const SoftmaxBlock& block) __attribute__((always_inline)) { return static_cast<const T*>(block.in) + c * block.pitch; };
  const T *const x0 = row(before), *const x1 = row(now), *const x2 = row(after);
  float* const e = buffer_of<float>(now, 0, c);
  const V sum = kBefore ? each(before.sum, c) : V(0), max = kBefore ? each(before.max, c) : V(0), base = kNow ? softmax::base(each(now.max, c)) : V(0);
  auto of = [&](V v) __attribute__((always_inline)) { return finished<F, kOnce>(v, v, max, sum, V(1)); };
  auto element = [&](int64_t j, int count) __attribute__((always_inline)) { return of(kLog ? part(x0 + j, count, 0) : part(e + j, count, 0)); };
  Extremes<T> found;
  const Out<T, kPast> out(before, c);
  if constexpr (kBefore) out.begin(element);
  const float total = over_row<T, kDealt>(m, kBefore ? out.head : 0, [&](V& first, V& second, int64_t i) __attribute__((always_inline)) {
    if constexpr (kBefore) out.template twice<kDealt, kNear && !kLog>(i, [&](int64_t j) __attribute__((always_inline)) {
      const Twice<V> v = kLog ? both_of<T, kDealt>(x0 + j) : both_of<float, false>(e + j);
      return Twice<V>{of(v.low), of(v.high)};
    });
    if constexpr (kAfter) {
      for (int k = 0; k < 2 * N; k += N) fetch_line_ahead(x2, i + k);
      found.add(x2 + i, i / (2 * N) % 2);
    }
    if constexpr (kNow) {
      const Twice<V> x = both_of<T, kDealt>(x1 + i), u{exp_up_for<T, kNear>(x.low - base), exp_up_for<T, kNear>(x.high - base)};
      if constexpr (!kLog) store<float, N>(e + i, u.low), store<float, N>(e + i + N, u.high);
      first += u.low, second += u.high;
    }
  }, [&](V acc, int64_t i) __attribute__((always_inline)) {
    if constexpr (kBefore) out.once(i, m, element);
    if constexpr (kAfter) found.add(part(x2 + i, m - i, kNaN));  // a NaN enters neither
    if constexpr (kNow) {
      const V u = exp_up_for<T>(part(x1 + i, m - i, -kInf) - base);
      if constexpr (!kLog) store<float, N>(e + i, u);
      acc += u;
    }
    return acc;
  });
  if constexpr (kNow) static_cast<float*>(now.sum)[c] = total;
  if constexpr (kAfter) found.put(x2, m, after, c);
}
// Exps of halves stand in the buffer as they are dealt where rows begin with a line.
template <class T> BARACUDA_HD bool whole_lines(const void* p, int64_t step) { return (uintptr_t(p) | uintptr_t(step) * sizeof(T)) % 64 == 0; }
template <class T, bool kLog> BARACUDA_HD bool is_dealt(const SoftmaxBlock& b) {
  return kLog || !row_past(&b) || whole_lines<T>(b.out, b.pitch);
}
template <class T, bool kLog, bool kPast, bool kDealt> BARACUDA_HD void forward_lines(Blocks b) {
  const int lines[] = {b[0] ? b[0]->count : 0, b[1] ? b[1]->count : 0, b[2] ? b[2]->count : 0};
  for (int c = 0; c < lines[0] || c < lines[1] || c < lines[2]; ++c) {
    const bool once = kLog || !has(b[0], c) || at<float>(b[0]->max, c) == 1;
    if constexpr (kPast || kDealt)
      if (once && has(b[0], c) && has(b[1], c) && has(b[2], c)) {
        if (kIsHalf<T> && b[0]->near[c] && b[1]->near[c] && (kLog || at<float>(b[0]->sum, c) > 0x1p-60f)) forward_row<T, kLog, true, true, true, kPast, kDealt, kIsHalf<T>>(b, c);
        else forward_row<T, kLog, true, true, true, kPast, kDealt, false>(b, c);
        continue;
      }
    if (has(b[0], c)) once ? forward_row<T, kLog, true, false, false, kPast, kDealt, false>(b, c) : forward_row<T, kLog, true, false, false, kPast, kDealt, false, false>(b, c);
    if (has(b[1], c)) forward_row<T, kLog, false, true, false, false, kDealt, false>(b, c);
    if (has(b[2], c)) forward_row<T, kLog, false, false, true, false, kDealt, false>(b, c);
  }
}
template <class T, bool kLog> void forward_rows(Blocks b) {
  const bool dealt = is_dealt<T, kLog>(b[0] ? *b[0] : b[1] ? *b[1] : *b[2]);
  for (int k = 1; k < 3; ++k)
    if (b[k] && is_dealt<T, kLog>(*b[k]) != dealt) {  // one after the other
      for (int i = 0; i < 3; ++i) {
        const SoftmaxBlock* alone[3] = {};
        alone[i] = b[i];
        if (b[i]) forward_rows<T, kLog>(alone);
      }
      return;
    }
  const bool past = row_past(b[0]);
  if (dealt) past ? forward_lines<T, kLog, true, true>(b) : forward_lines<T, kLog, false, true>(b);
  else if constexpr (!kLog) past ? forward_lines<T, kLog, true, false>(b) : forward_lines<T, kLog, false, false>(b);
  if (past) store_past_fence();
}

// --- columns
constexpr int W = kSoftmaxStream, P = W / N;
constexpr int kAhead = 24;  // rows that are fetched ahead into the second-level cache

template <class T> BARACUDA_HD void fetch(const T* p, bool whole) {
  for (int i = 0; i < W; i += 64 / int(sizeof(T))) __builtin_prefetch(p + i, 0, 2);
  if (!whole) __builtin_prefetch(p + W - 1, 0, 2);
}
BARACUDA_HD void clear(float* lane, int m, int wide) {
  for (int i = 0; i < (m < kSumLanes ? m : kSumLanes) * wide; i += N) store<float, N>(lane + i, V(-0.0));
}
// The lanes folded as in lane_sum.hpp; those that no row went to would be -0, which changes nothing.
BARACUDA_HD void fold(float* lane, int m, int wide, void* sum) {
  const int used = m < kSumLanes ? m : kSumLanes;
  for (int w = kSumLanes / 2; w; w /= 2)
    for (int l = 0; l < w && l + w < used; ++l)
      for (int j = 0; j < wide; j += N) store<float, N>(lane + l * wide + j, load<N>(lane + l * wide + j) + load<N>(lane + (l + w) * wide + j));
  for (int j = 0; j < wide; j += N) store<float, N>(static_cast<float*>(sum) + j, load<N>(lane + j));
}
template <class T> BARACUDA_HD void put_row(T* y, const V (&out)[P], bool past) {
  static_assert(P % 2 == 0);
  for (int k = 0; k < P; k += 2) store_twice_rounded<T, N>(y + k * N, out[k], out[k + 1], past);
}
template <class T, bool kLog, bool kBefore, bool kNow, bool kAfter, bool kOnce = true> void forward_tile(Blocks b) {
  constexpr SoftmaxFinish F = kLog ? SoftmaxFinish::log_value : SoftmaxFinish::value;
  const SoftmaxBlock &before = *b[kBefore ? 0 : kNow ? 1 : 2], &now = *b[kNow ? 1 : kBefore ? 0 : 2], &after = *b[kAfter ? 2 : kNow ? 1 : 0];
  V sum[P], max[P], base[P], top[P];
  for (int k = 0; k < P; ++k) {
    if constexpr (kBefore) sum[k] = load<N>(static_cast<const float*>(before.sum) + k * N), max[k] = load<N>(static_cast<const float*>(before.max) + k * N);
    if constexpr (kNow) base[k] = softmax::base(V(load<N>(static_cast<const float*>(now.max) + k * N)));
    top[k] = -kInf;
  }
  alignas(64) float lane[kSumLanes * W];
  if constexpr (kNow) clear(lane, now.m, W);
  float *const shared = static_cast<float*>((kAfter ? after : before).buffer[0]), *const own = static_cast<float*>(now.buffer[0]);
  const bool whole = whole_lines<T>(after.in, after.step), whole_out = whole_lines<T>(before.out, before.step), past = whole_out && before.past;
  for (int r = 0; r < now.m; ++r) {
    const T* const x = static_cast<const T*>(after.in) + r * after.step;
    T* const y = static_cast<T*>(before.out) + r * before.step;
    if constexpr (kAfter)
      if (r + kAhead < after.m) fetch(x + kAhead * after.step, whole);
    if constexpr (kBefore)
      if (!past && r + kAhead < before.m) fetch(y + kAhead * before.step, whole_out);
    [[maybe_unused]] V out[P];
    for (int k = 0; k < P; ++k) {
      float *const s = shared + r * W + k * N, *const e = own + r * W + k * N, *const l = lane + r % kSumLanes * W + k * N;
      if constexpr (kBefore) {
        const V v = load<N>(s);
        out[k] = finished<F, kOnce>(v, v, max[k], sum[k], V(1));
      }
      if constexpr (kAfter) {
        const V v = load<N>(x + k * N);
        store<float, N>(s, v);
        top[k] = larger(v, top[k]);
      }
      if constexpr (kNow) {
        const V u = exp_up_for<T>(V(load<N>(e)) - base[k]);
        if constexpr (!kLog) store<float, N>(e, u);
        store<float, N>(l, V(load<N>(l)) + u);
      }
    }
    if constexpr (kBefore) put_row<T>(y, out, past);
  }
  if constexpr (kNow) fold(lane, now.m, W, now.sum);
  if constexpr (kAfter)
    for (int k = 0; k < P; ++k) store<float, N>(static_cast<float*>(after.max) + k * N, top[k]);
  if (kBefore && past) store_past_fence();
}
template <class T, bool kLog> void forward_columns(Blocks b) {
  bool once = true;
  for (int j = 0; !kLog && b[0] && j < W; ++j) once = once && at<float>(b[0]->max, j) == 1;
  if (b[0] && b[1] && b[2] && once) return forward_tile<T, kLog, true, true, true>(b);
  if (b[0]) once ? forward_tile<T, kLog, true, false, false>(b) : forward_tile<T, kLog, true, false, false, false>(b);
  if (b[1]) forward_tile<T, kLog, false, true, false>(b);
  if (b[2]) forward_tile<T, kLog, false, false, true>(b);
}
template <class T, bool kLog, bool kBefore, bool kNow> void backward_tile(Blocks b) {
  constexpr SoftmaxFinish F = kLog ? kLogSlope<T> : SoftmaxFinish::slope;
  const SoftmaxBlock &before = *b[kBefore ? 0 : 1], &now = *b[kNow ? 1 : 0];
  V dot[P];
  for (int k = 0; k < P; ++k) dot[k] = kBefore ? V(load<N>(static_cast<const float*>(before.sum) + k * N)) : V(0);
  const V sign = before.sign;
  alignas(64) float lane[kSumLanes * W];
  if constexpr (kNow) clear(lane, now.m, W);
  float *const first = static_cast<float*>(now.buffer[0]), *const second = static_cast<float*>(now.buffer[1]);
  const bool whole = whole_lines<T>(now.in, now.step), whole_y = whole_lines<T>(now.second, now.step);
  const bool whole_out = whole_lines<T>(before.out, before.step), past = whole_out && before.past;
  for (int r = 0; r < now.m; ++r) {
    const T *const dy = static_cast<const T*>(now.in) + r * now.step, *const y = static_cast<const T*>(now.second) + r * now.step;
    T* const dx = static_cast<T*>(before.out) + r * before.step;
    if constexpr (kNow)
      if (r + kAhead < now.m) fetch(dy + kAhead * now.step, whole), fetch(y + kAhead * now.step, whole_y);
    if constexpr (kBefore)
      if (!past && r + kAhead < before.m) fetch(dx + kAhead * before.step, whole_out);
    [[maybe_unused]] V out[P];
    for (int k = 0; k < P; ++k) {
      float *const s = first + r * W + k * N, *const t = second + r * W + k * N, *const l = lane + r % kSumLanes * W + k * N;
      if constexpr (kBefore) out[k] = finished<F, true>(V(load<N>(s)), V(load<N>(t)), V(0), dot[k], sign);
      if constexpr (kNow) {
        const V u = load<N>(dy + k * N), v = load<N>(y + k * N);
        store<float, N>(s, u), store<float, N>(t, v);
        store<float, N>(l, kLog ? V(load<N>(l)) + u : fma(u, v, V(load<N>(l))));
      }
    }
    if constexpr (kBefore) put_row<T>(dx, out, past);
  }
  if constexpr (kNow) fold(lane, now.m, W, now.sum);
  if (kBefore && past) store_past_fence();
}
template <class T, bool kLog> void backward_columns(Blocks b) {
  if (b[0] && b[1]) backward_tile<T, kLog, true, true>(b);
  else if (b[0]) backward_tile<T, kLog, true, false>(b);
  else if (b[1]) backward_tile<T, kLog, false, true>(b);
}

template <bool kLog> constexpr void fill(SoftmaxStreams& s) {
  using Types = TypeList<f16, bf16, float>;
  using Rows = std::conditional_t<kLog, Types, TypeList<f16, bf16>>;
  s.forward[int(SoftmaxLay::rows)][kLog] = by_dtype<SoftmaxStep>(Rows{}, []<class T>() { return &forward_rows<T, kLog>; });
  s.forward[int(SoftmaxLay::columns)][kLog] = by_dtype<SoftmaxStep>(Types{}, []<class T>() { return &forward_columns<T, kLog>; });
  s.backward[int(SoftmaxLay::rows)][kLog] = by_dtype<SoftmaxStep>(Types{}, []<class T>() { return &backward_rows<T, kLog>; });
  s.backward[int(SoftmaxLay::columns)][kLog] = by_dtype<SoftmaxStep>(Types{}, []<class T>() { return &backward_columns<T, kLog>; });
}
constexpr SoftmaxStreams make() {
  SoftmaxStreams s{};
  fill<false>(s), fill<true>(s);
  return s;
}

}  // namespace
extern constexpr SoftmaxStreams softmax_streams = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
