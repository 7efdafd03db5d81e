// Forward: y = softmax(scale q k^T, masked) v by panels of queries, online over blocks of keys.
//
// A panel holds up to 32 queries as lanes, so that maximum, sum and rescaling of the softmax are plain vertical vector
// operations: s^T = k q^T with k as it lies, y^T = v^T p^T with v as it lies; only q is transposed, once. Per key block
// of 128: m' = max(m, s), p = exp(s - m'), l = l exp(m - m') + sum p, y^T = y^T exp(m - m') + v^T p.
// Work: 2 (D + Dv) flops a visible score and one exponential; the s^T block (16 KiB) stays in the first cache.
// Few rows (decoding) would leave lanes empty: up to 8 take the product's other side, k transposed once, v as rows of B and
// y by rows. Every sum keeps its terms and their order, so the bits are the same.
// The blocks of keys begin at multiples of 128 whatever the panel sees, and keys that no query of the panel sees add
// exact zeros, so a query's bits do not depend on its neighbours.
#include "baracuda/ops/attention/attention_block.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {
namespace {

constexpr int64_t kW = kSdpaPanel, kFew = 8;

template <class T> struct Forward {
  using S = Acc<T>;
  using O = Operand<T>;
  using P = typename O::Packed;
  using V = PackOf<T>;
  static constexpr int N = V::kWidth, kVectors = int(kW) / N;

  const SdpaProblem& p;
  const SdpaBlock& block;
  const TileKernel& tile = *p.tile;
  const int64_t d = p.head_dim, dv = p.head_dim_v;
  const Mask mask = mask_of(p, block.sequence);
  const bool plain = p.softcap == 0 && !p.slopes && !p.bias && p.scale > 0;
  const bool few = block.rows <= kFew;  // y is [query][element] then, else [element][lane]

  struct Panel {
    int64_t cols, lo, hi, full_lo, full_hi;  // keys that any, that every query sees
    TileB q;
  };
  Row<S> rows[kSdpaRows];
  Panel panels[kSdpaRows / kW];
  P *q_packed, *k_staged, *v_staged, *v_turned, *weights;
  S *s, *y, *m, *l, *bias, *few_scores;
  T* gathered;       // queries of several heads
  Block<P> few_q;

  // Rows of the block, counted over its heads.
  int64_t head_of(int64_t r) const { return block.head + (block.row0 + r) / block.sequence.q_len; }
  int64_t query_of(int64_t r) const { return (block.row0 + r) % block.sequence.q_len; }

  void carve() {
    Bump b{static_cast<char*>(block.scratch)};
    const int64_t count = (block.rows + kW - 1) / kW;
    q_packed = b.take<P>(kSdpaRows * sdpa_padded(d));
    y = b.take<S>(count * kW * dv);
    m = b.take<S>(count * kW);
    l = b.take<S>(count * kW);
    s = b.take<S>(kSdpaKeys * kW);
    weights = O::pairs ? b.take<P>(kSdpaKeys * kW) : nullptr;
    bias = p.bias ? b.take<S>(kSdpaKeys * kW) : nullptr;
    k_staged = b.take<P>(kSdpaKeys * sdpa_padded(d));
    v_staged = b.take<P>(2 * kSdpaKeys * sdpa_padded(dv));
    v_turned = tile.dense_rows ? b.take<P>(tile.a_bytes(dv, kSdpaKeys) / int64_t(sizeof(P))) : nullptr;
    gathered = b.take<T>(kW * d);
    few_scores = few ? b.take<S>(kFew * kSdpaKeys) : nullptr;
  }

  void start_panel(int64_t first, Panel& n) {
    n = {least(kW, block.rows - first), INT64_MAX, 0, 0, INT64_MAX, {}};
    for (int64_t c = 0; c < n.cols; ++c) {
      Row<S>& r = rows[first + c];
      make_row<T>(r, p, block.sequence, mask, head_of(first + c), query_of(first + c));
      if (r.lo < r.hi) n.lo = least(n.lo, r.lo), n.hi = most(n.hi, r.hi);
      n.full_lo = most(n.full_lo, r.lo), n.full_hi = least(n.full_hi, r.lo < r.hi ? r.hi : 0);
    }
    const T* q = row_at<T>(p.q, block.sequence, head_of(first), block.sequence.q_start + query_of(first));
    int64_t q_row = p.q.row;
    if (block.heads > 1) {
      for (int64_t c = 0; c < n.cols; ++c)
        __builtin_memcpy(gathered + c * d, row_at<T>(p.q, block.sequence, head_of(first + c), block.sequence.q_start + query_of(first + c)),
                         size_t(d) * sizeof(T));
      q = gathered, q_row = d;
    }
    if (few) few_q = stage_rows<T>(q, q_row, n.cols, d, q_packed);
    else n.q = tile.pack_b({q, q_row, 1, n.cols, d}, q_packed + first * sdpa_padded(d));
    zero(y + first * dv, kW * dv);
    zero(l + first, kW);
    for (int64_t c = 0; c < kW; ++c) m[first + c] = S(-kInf);
  }

  // s^T of one panel against n keys of the block from `skip`.
  void scores(const Panel& panel, const T* k, Block<P> ks, int64_t skip, int64_t n) {
    if (!few) return tile.tile({n, panel.cols, tile.groups(d), rows_of(tile, ks, skip), panel.q, s, kW, false});
    const TileB kt = tile.pack_b({k + skip * p.k.row, p.k.row, 1, n, d}, k_staged);
    tile.tile({panel.cols, n, tile.groups(d), rows_of(tile, few_q, 0), kt, few_scores, kSdpaKeys, false});
    for (int64_t c = 0; c < panel.cols; ++c)
      for (int64_t j = 0; j < n; ++j) s[j * kW + c] = few_scores[c * kSdpaKeys + j];
  }

  // Scale, softcap, bias and ALiBi of the scores of keys [key, key + n), in natural logarithms.
  void transform(const Row<S>* row, int64_t cols, int64_t key, int64_t n) {
    if (p.bias)
      for (int64_t c = 0; c < cols; ++c)
        for (int64_t k = 0; k < n; ++k) bias[k * kW + c] = bias_at<T>(p, row[c].bias, key + k);
    alignas(64) S slope[kW] = {}, at[kW] = {};
    for (int64_t c = 0; c < cols; ++c) slope[c] = row[c].slope, at[c] = S(row[c].position - key);
    const V scale = V(S(p.scale)), cap = V(S(p.softcap)), inverse = V(S(p.softcap ? 1 / p.softcap : 0));
    for (int64_t c = 0; c < cols; c += N)
      for (int64_t k = 0; k < n; ++k) {
        V x = load<N>(s + k * kW + c) * scale, unused;
        if (p.softcap != 0) x = softcap(x, cap, inverse, unused);
        if (p.bias) x = biased(x, load<N>(bias + k * kW + c));
        if (p.slopes) x = alibi(x, load<N>(slope + c), load<N>(at + c) - V(double(k)));
        store<S, N>(s + k * kW + c, x);
      }
  }
  // Scores [begin, end) of keys from `key` on, where these are hidden.
  void hide(const Row<S>* row, int64_t cols, int64_t key, int64_t begin, int64_t end) {
    alignas(64) S lo[kW] = {}, hi[kW] = {};
    for (int64_t c = 0; c < cols; ++c) lo[c] = S(most(row[c].lo - key, 0)), hi[c] = S(least(row[c].hi - key, end));
    for (int64_t c = 0; c < cols; c += N) {
      const V from = load<N>(lo + c), to = load<N>(hi + c);
      for (int64_t k = begin; k < end; ++k) {
        const V at = double(k);
        store<S, N>(s + k * kW + c, where((at >= from) & (at < to), load<N>(s + k * kW + c), V(-kInf)));
      }
    }
  }

  // One round of the online softmax over s[0, n): weights in place of the scores (pairs: in `weights`).
  void softmax(int64_t first, int64_t cols, int64_t n) {
    const V unit = V(S(plain ? p.scale * kExpUnit<V> : kExpUnit<V>));
    alignas(64) S shrink[kW];
    bool rescale = false;
    for (int64_t c = 0; c < cols; c += N) {
      const V old = load<N>(m + first + c);
      constexpr int kChains = 4;
      V tops[kChains] = {old, old, old, old};
      int64_t at = 0;
      for (; at + kChains <= n; at += kChains)
        for (int i = 0; i < kChains; ++i) tops[i] = larger(load<N>(s + (at + i) * kW + c), tops[i]);
      for (; at < n; ++at) tops[0] = larger(load<N>(s + at * kW + c), tops[0]);
      const V top = larger(larger(tops[0], tops[1]), larger(tops[2], tops[3]));
      const V safe = where(top == V(-kInf), V(0), top), shrunk = exp_weight<O::terms>((old - safe) * unit);
      const V alpha = where(old == V(-kInf), V(1), shrunk);  // nothing to shrink yet
      V sum = 0;
      if constexpr (O::pairs) sum = weigh_pairs(c, n, safe, unit);
      else
        for (int64_t k = 0; k < n; ++k) {
          const V w = exp_weight<O::terms>((load<N>(s + k * kW + c) - safe) * unit);
          sum += w;
          store<S, N>(s + k * kW + c, w);
        }
      store<S, N>(m + first + c, top);
      store<S, N>(l + first + c, fma(load<N>(l + first + c), alpha, sum));
      store<S, N>(shrink + c, alpha);
      rescale = rescale || any(alpha != V(1));
    }
    if (!rescale) return;
    S* o = y + first * dv;
    if (few)
      for (int64_t c = 0; c < cols; ++c)
        for (int64_t e = 0; e < dv; ++e) o[c * dv + e] *= shrink[c];
    else for (int64_t c = 0; c < cols; c += N) {
      const V alpha = load<N>(shrink + c);
      for (int64_t e = 0; e < dv; ++e) store<S, N>(o + e * kW + c, load<N>(o + e * kW + c) * alpha);
    }
  }
  V weigh_pairs([[maybe_unused]] int64_t c, [[maybe_unused]] int64_t n, [[maybe_unused]] V safe, [[maybe_unused]] V unit) {
    V sum = 0;
#if defined(__AVX512BF16__)
    if constexpr (O::pairs)
      for (int64_t k = 0; k < n; k += 2) {
        const V a = exp_weight<O::terms>((load<N>(s + k * kW + c) - safe) * unit);
        const V b = k + 1 < n ? exp_weight<O::terms>((load<N>(s + (k + 1) * kW + c) - safe) * unit) : V(0);
        sum += a + b;
        _mm512_storeu_si512(weights + k * kW + 2 * c, interleave(a, b));
      }
#endif
    return sum;
  }

  // y^T += v^T p^T, or y += p v, for queries [c, c + cols) of a panel; v from row `skip` on.
  void accumulate(int64_t first, int64_t c, int64_t cols, Block<P> v, int64_t skip, int64_t n, TileA vt = {}) {
    const P* w = (O::pairs ? weights : reinterpret_cast<const P*>(s)) + c * O::group;
    const int64_t step = O::group * kW;
    if (few) tile.tile({cols, dv, tile.groups(n), {w, O::group, step, tile.mr * O::group}, columns_of(tile, v, skip), y + c * dv, dv, true});
    else tile.tile({dv, cols, tile.groups(n), vt.p ? TileA{static_cast<const P*>(vt.p) + skip, vt.row, vt.k, vt.panel} : across(tile, v, skip), {w, step, tile.nr * O::group}, y + first * dv + c, kW, true});
  }
  // The same, query by query, with the values of hidden keys replaced by zero.
  void accumulate_visible(int64_t first, int64_t cols, const T* v, int64_t key, int64_t n) {
    for (int64_t c = 0; c < cols; ++c) {
      const Row<S>& r = rows[first + c];
      accumulate(first, c, 1, stage_visible<T, P>(v, p.v.row, n, dv, v_visible(), [&](int64_t k) { return hidden<T>(p, r, key + k); }), 0, n);
    }
  }
  P* v_visible() { return v_staged + kSdpaKeys * sdpa_padded(dv); }

  // y^T / l by squares of N queries x N elements, y / l by rows.
  void finish(int64_t first, const Panel& n) {
    const S* o = y + first * dv;
    const V natural = V(S(plain ? p.scale : 1));
    alignas(64) S lse[kW];
    for (int64_t c = 0; c < n.cols; c += N) {
      const V sum = load<N>(l + first + c), inverse = where(sum == V(0), V(0), V(1) / sum);
      store<S, N>(lse + c, where(sum == V(0), V(-kInf), fma(load<N>(m + first + c), natural, log(sum))));
      T* to[N];
      const int queries = int(least(N, n.cols - c));
      for (int i = 0; i < queries; ++i) {
        const int64_t head = head_of(first + c + i), row = block.sequence.q_start + query_of(first + c + i);
        to[i] = row_at<T>(p.y, block.sequence, head, row);
        if (p.lse.p) *row_at<S>(p.lse, block.sequence, head, row) = lse[c + i];
      }
      for (int64_t e = 0; e < dv; e += N) {
        const int width = int(least(N, dv - e));
        if (few) {
          for (int i = 0; i < queries; ++i)
            store_tail<T, N>(to[i] + e, load_tail<N>(y + (c + i) * dv + e, width) * V(double(inverse.lane(i))), width);
          continue;
        }
        V square[N];
        for (int i = 0; i < N; ++i) square[i] = i < width ? load<N>(o + (e + i) * kW + c) * inverse : V(0);
        transpose(square);
        if (width == N) for (int i = 0; i < queries; ++i) store<T, N>(to[i] + e, square[i]);
        else for (int i = 0; i < queries; ++i) store_tail<T, N>(to[i] + e, square[i], width);
      }
    }
  }

  void run() {
    carve();
    int64_t lo = INT64_MAX, hi = 0;
    const int64_t count = (block.rows + kW - 1) / kW;
    for (int64_t i = 0; i < count; ++i) {
      start_panel(i * kW, panels[i]);
      lo = least(lo, panels[i].lo), hi = most(hi, panels[i].hi);
    }
    zero(s, kSdpaKeys * kW);  // lanes without a query are computed and dropped
    const int64_t kv_head = block.head / p.group;
    for (int64_t key = lo / kSdpaKeys * kSdpaKeys; key < hi; key += kSdpaKeys) {
      const int64_t n = least(kSdpaKeys, least(block.sequence.k_len, even(hi)) - key);
      const T* k = row_at<const T>(p.k, block.sequence, kv_head, block.sequence.k_start + key);
      const T* v = row_at<const T>(p.v, block.sequence, kv_head, block.sequence.k_start + key);
      const bool turn = tile.dense_rows && !few;
      const Block<P> ks = few ? Block<P>{} : stage_rows<T>(k, p.k.row, n, d, k_staged);
      const Block<P> vs = turn ? Block<P>{} : stage_columns<T>(v, p.v.row, n, dv, v_staged);
      const TileA vt = turn ? tile.pack_a({v, 1, p.v.row, dv, n}, v_turned) : TileA{};
      if (few)  // memory-bound: the values arrive while the scores are made
        for (int64_t j = 0; j < n; ++j)
          for (int64_t e = 0; e < dv; e += 64 / int64_t(sizeof(T))) __builtin_prefetch(v + j * p.v.row + e, 0, 2);
      for (int64_t i = 0; i < count; ++i) {
        const Panel& panel = panels[i];
        const int64_t first = i * kW, from = most(key, panel.lo) / kSdpaStep * kSdpaStep, to = least(key + n, even(panel.hi));
        if (from >= to) continue;
        // Some query does not see keys before `head` and from `tail` on.
        const int64_t size = to - from, head = least(size, most(panel.full_lo - from, 0)), tail = least(size, most(panel.full_hi - from, head));
        scores(panel, k, ks, from - key, size);
        if (!plain) transform(rows + first, panel.cols, from, size);
        if (head > 0) hide(rows + first, panel.cols, from, 0, head);
        if (tail < size) hide(rows + first, panel.cols, from, tail, size);
        softmax(first, panel.cols, size);
        const T* seen = v + (from - key) * p.v.row;
        const bool safe = p.bias ? !any_nonfinite(seen, p.v.row, least(size, n - (from - key)), dv)
                                 : !any_nonfinite(seen, p.v.row, head, dv) && !any_nonfinite(seen + tail * p.v.row, p.v.row, size - tail, dv);
        if (!safe) accumulate_visible(first, panel.cols, seen, from, size);
        else accumulate(first, 0, panel.cols, vs, from - key, size, vt);
      }
    }
    for (int64_t i = 0; i < count; ++i) finish(i * kW, panels[i]);
  }
};

template <class T> void forward(const SdpaBlock& b) { Forward<T>{*b.problem, b}.run(); }

}  // namespace
}  // namespace attention

extern constexpr SdpaForwardKernels sdpa_forward_kernels = {
    by_dtype<void (*)(const SdpaBlock&)>(Floating{}, []<class T>() { return &attention::forward<T>; })};

}  // namespace baracuda::inline BARACUDA_ISA
