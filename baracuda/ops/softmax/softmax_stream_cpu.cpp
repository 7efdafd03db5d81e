// Blocks in a stream: while exp of one tile of columns is computed, the next one is read and the one before is written; the gradient
// finishes a block while the next one is summed. Every element is read from memory once and written once. Columns stand in buffers:
// lines of a pitch that is a power of two would not stay in the caches. Rows are read again from the caches.
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

// Where a row is written: from `head` on what is written together begins at multiples of its size, if it goes past the caches. Two packs at a time.
template <class T, bool kPast> struct Out {
  T* y;
  int head;
  BARACUDA_HD Out(const SoftmaxBlock& b, int c) : y(static_cast<T*>(b.out) + c * b.pitch), head(kPast ? head_of<T, N>(y) : 0) {}
  // element(j, count) of the pack that belongs to step i, or of it and the next one, and before the first step of what stands before it.
  template <class F> BARACUDA_HD void begin(const F& element) const {
    for (int j = 0; j < head; j += N) put<T>(y + j, element(j, head - j < N ? head - j : N), head - j < N ? head - j : N, 1);
  }
  template <bool kWhole, class F> BARACUDA_HD void step(int64_t i, int64_t m, const F& element) const {
    const int64_t j = i + head, left = m - j;
    const bool second = i / N % 2;
    if (!second && (kWhole || left >= 2 * N)) store_twice_rounded<T, N>(y + j, element(j, N), element(j + N, N), kPast);
    else if (!second && left >= N) store<T, N>(y + j, element(j, N));
    else if (!kWhole && left > 0 && left < N) put<T>(y + j, element(j, int(left)), int(left), 1);
  }
};
BARACUDA_HD bool row_past(const SoftmaxBlock* b) { return b && b->past && b->m >= 2 * N; }
// f<whole>(accumulator, i) at every pack of a row, summed as chunk_sum does. Whole: i + N + head elements are there.
template <class F> BARACUDA_HD float over_row(int64_t m, int head, const F& f) {
  if constexpr (N == 1) {
    return chunk_sum<float>(0, int(m), [&](auto acc, int64_t i) __attribute__((always_inline)) { return f.template operator()<false>(acc, i); });
  } else {
    constexpr int P = kSumLanes / N;
    V acc[P];
#pragma GCC unroll 64
    for (int k = 0; k < P; ++k) acc[k] = -0.0;
    int64_t i = 0;
    for (; i + kSumLanes + head <= m; i += kSumLanes)
#pragma GCC unroll 64
      for (int k = 0; k < P; ++k) acc[k] = f.template operator()<true>(acc[k], i + k * N);
    if (i < m) {
      alignas(64) float lane[kSumLanes];
      for (int k = 0; k < P; ++k) store<float, N>(lane + k * N, acc[k]);
      for (; i < m; i += N) {
        float* const l = lane + i % kSumLanes;
        store<float, N>(l, f.template operator()<false>(V(load<N>(l)), i));
      }
      for (int k = 0; k < P; ++k) acc[k] = load<N>(lane + k * N);
    }
    return fold_lanes(acc);
  }
}
template <bool kWhole, class T> BARACUDA_HD V part(const T* p, int64_t left, double fill) {
  return kWhole || left >= N ? V(load<N>(p)) : load_tail<N>(p, int(left & (N - 1)), fill);
}
BARACUDA_HD bool has(const SoftmaxBlock* b, int c) { return b && c < b->count; }
template <class T, bool kLog, bool kBefore, bool kNow, bool kPast> void backward_row(Blocks b, int c) {
  constexpr SoftmaxFinish F = kLog ? SoftmaxFinish::log_slope : SoftmaxFinish::slope;
  const SoftmaxBlock &before = *b[kBefore ? 0 : 1], &now = *b[kNow ? 1 : 0];
  const int64_t m = now.m;
  auto row = [&](const void* in, const SoftmaxBlock& block) __attribute__((always_inline)) { return static_cast<const T*>(in) + c * block.pitch; };
  const T *const dy0 = row(before.in, before), *const y0 = row(before.second, before), *const dy1 = row(now.in, now), *const y1 = row(now.second, now);
  const V dot = kBefore ? each(before.sum, c) : V(0), sign = before.sign;
  auto element = [&](int64_t j, int count) __attribute__((always_inline)) {
    return finished<F, true>(part<false>(dy0 + j, count, 0), part<false>(y0 + j, count, 0), V(0), dot, sign);
  };
  const Out<T, kPast> out(before, c);
  if constexpr (kBefore) out.begin(element);
  const float total = over_row(m, kBefore ? out.head : 0, [&]<bool kWhole>(V acc, int64_t i) __attribute__((always_inline)) {
    if constexpr (kBefore) out.template step<kWhole>(i, m, element);
    if constexpr (kNow) {  // the padding adds -0, which changes no bit
      constexpr int kLine = 64 / int(sizeof(T));
      if (i % (kLine > N ? kLine : N) == 0) fetch_ahead<64>(dy1 + i), fetch_ahead<64>(y1 + i);
      const V dy = part<kWhole>(dy1 + i, m - i, -0.0);
      acc = kLog ? acc + dy : fma(dy, part<kWhole>(y1 + i, m - i, 1), acc);
    }
    return acc;
  });
  if constexpr (kNow) static_cast<float*>(now.sum)[c] = total;
}
template <class T, bool kLog, bool kPast> BARACUDA_HD void backward_lines(Blocks b) {
  const int lines[] = {b[0] ? b[0]->count : 0, b[1] ? b[1]->count : 0};
  for (int c = 0; c < lines[0] || c < lines[1]; ++c)
    if (has(b[0], c) && has(b[1], c)) backward_row<T, kLog, true, true, kPast>(b, c);
    else if (has(b[0], c)) backward_row<T, kLog, true, false, false>(b, c);
    else backward_row<T, kLog, false, true, false>(b, c);
}
template <class T, bool kLog> void backward_rows(Blocks b) {
  if (!row_past(b[0])) return backward_lines<T, kLog, false>(b);
  backward_lines<T, kLog, true>(b);
  store_past_fence();
}

// The logarithm: a row is finished, the next one's exps are summed and the one after that is looked through for its maximum.
template <class T, bool kBefore, bool kNow, bool kAfter, bool kPast> void forward_row(Blocks b, int c) {
  const SoftmaxBlock &before = *b[kBefore ? 0 : kNow ? 1 : 2], &now = *b[kNow ? 1 : kBefore ? 0 : 2], &after = *b[kAfter ? 2 : kNow ? 1 : 0];
  const int64_t m = now.m;
  auto row = [&](const SoftmaxBlock& block) __attribute__((always_inline)) { return static_cast<const T*>(block.in) + c * block.pitch; };
  const T *const x0 = row(before), *const x1 = row(now), *const x2 = row(after);
  const V sum = kBefore ? each(before.sum, c) : V(0), max = kBefore ? each(before.max, c) : V(0), base = kNow ? softmax::base(each(now.max, c)) : V(0);
  auto element = [&](int64_t j, int count) __attribute__((always_inline)) { return softmax::log_value(part<false>(x0 + j, count, 0), max, sum); };
  constexpr int kTops = N > 1 ? kSumLanes / N : 1;
  V top[kTops];
  for (V& t : top) t = -kInf;
  const Out<T, kPast> out(before, c);
  if constexpr (kBefore) out.begin(element);
  const float total = over_row(m, kBefore ? out.head : 0, [&]<bool kWhole>(V acc, int64_t i) __attribute__((always_inline)) {
    if constexpr (kBefore) out.template step<kWhole>(i, m, element);
    if constexpr (kAfter) {
      constexpr int kLine = 64 / int(sizeof(T));
      if (i % (kLine > N ? kLine : N) == 0) fetch_ahead<64>(x2 + i);
      V& t = top[i / N % kTops];
      t = larger(part<kWhole>(x2 + i, m - i, -kInf), t);
    }
    if constexpr (kNow) acc = acc + softmax::exp_up(part<kWhole>(x1 + i, m - i, -kInf) - base);
    return acc;
  });
  if constexpr (kNow) static_cast<float*>(now.sum)[c] = total;
  if constexpr (kAfter) {
    for (int k = 1; k < kTops; ++k) top[0] = larger(top[k], top[0]);
    static_cast<float*>(after.max)[c] = top_lane(top[0]);
  }
}
template <class T, bool kPast> void forward_lines(Blocks b) {
  const int lines[] = {b[0] ? b[0]->count : 0, b[1] ? b[1]->count : 0, b[2] ? b[2]->count : 0};
  for (int c = 0; c < lines[0] || c < lines[1] || c < lines[2]; ++c) {
    if (has(b[0], c) && has(b[1], c) && has(b[2], c)) {
      forward_row<T, true, true, true, kPast>(b, c);
      continue;
    }
    if (has(b[0], c)) forward_row<T, true, false, false, false>(b, c);
    if (has(b[1], c)) forward_row<T, false, true, false, false>(b, c);
    if (has(b[2], c)) forward_row<T, false, false, true, false>(b, c);
  }
}
template <class T> void forward_rows(Blocks b) {
  if (!row_past(b[0])) return forward_lines<T, false>(b);
  forward_lines<T, true>(b);
  store_past_fence();
}

// --- columns
constexpr int W = kSoftmaxStream, P = W / N;
constexpr int kAhead = 24;  // rows that are fetched ahead into the second-level cache

// Rows begin with a line of the caches.
template <class T> BARACUDA_HD bool whole_lines(const void* p, int64_t step) { return (uintptr_t(p) | uintptr_t(step) * sizeof(T)) % 64 == 0; }
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
        const V u = softmax::exp_up(V(load<N>(e)) - base[k]);
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
  constexpr SoftmaxFinish F = kLog ? SoftmaxFinish::log_slope : SoftmaxFinish::slope;
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
  if constexpr (kLog) s.forward[int(SoftmaxLay::rows)][kLog] = by_dtype<SoftmaxStep>(TypeList<float>{}, []<class T>() { return &forward_rows<T>; });
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
