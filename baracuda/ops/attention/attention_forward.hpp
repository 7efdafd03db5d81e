#pragma once
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
  TileKernel tile = *p.tile;
  const int64_t d = p.head_dim, dv = p.head_dim_v;
  const Mask mask = mask_of(p, block.sequence);
  const bool plain = p.softcap == 0 && !p.slopes && !p.bias && p.scale > 0;
  const int64_t count = (block.rows + kW - 1) / kW;
  const bool few = block.rows <= kFew;  // y is [query][element] then, else [element][lane]

  struct Panel {
    int64_t cols, lo, hi, full_lo, full_hi;  // keys that any, that every query sees
    TileB q;
  };
  Row<S> rows[kSdpaMostRows];
  Panel panels[kSdpaMostRows / kW];
  P *q_packed, *k_staged, *v_staged, *v_turned, *weights;
  S *s, *other_s, *y, *m, *l, *bias, *few_scores;
  T* gathered;       // queries of several heads
  Block<P> few_q;

  // Rows of the block, counted over its heads.
  int64_t head_of(int64_t r) const { return block.head + (block.row0 + r) / block.sequence.q_len; }
  int64_t query_of(int64_t r) const { return (block.row0 + r) % block.sequence.q_len; }

  void carve() {
    Bump b{static_cast<char*>(block.scratch)};
    q_packed = b.take<P>(count * kW * sdpa_padded(d));
    y = b.take<S>(count * kW * dv);
    m = b.take<S>(count * kW);
    l = b.take<S>(count * kW);
    s = b.take<S>(kSdpaKeys * kW);
    weights = O::pairs ? b.take<P>(kSdpaKeys * kW) : nullptr;
    other_s = tile.dense_rows ? b.take<S>(kSdpaKeys * kW) : nullptr;
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

  // The maximum of queries [c, c + N) including s[0, n): kept in m, what the scores are relative to, and what earlier weights shrink by.
  struct Raised {
    V safe, alpha;
  };
  Raised raise(int64_t first, int64_t c, int64_t n, V unit) {
    const V old = load<N>(m + first + c);
    constexpr int kChains = 4;
    V tops[kChains] = {old, old, old, old};
    int64_t at = 0;
    for (; at + kChains <= n; at += kChains)
      for (int i = 0; i < kChains; ++i) tops[i] = larger(load<N>(s + (at + i) * kW + c), tops[i]);
    for (; at < n; ++at) tops[0] = larger(load<N>(s + at * kW + c), tops[0]);
    const V top = larger(larger(tops[0], tops[1]), larger(tops[2], tops[3]));
    const V safe = where(top == V(-kInf), V(0), top), shrunk = exp_weight<O::terms>((old - safe) * unit);
    store<S, N>(m + first + c, top);
    return {safe, where(old == V(-kInf), V(1), shrunk)};  // nothing to shrink yet
  }
  V unit() const { return V(S(plain ? p.scale * kExpUnit<V> : kExpUnit<V>)); }
  void add_weights(int64_t first, int64_t c, V alpha, V sum) { store<S, N>(l + first + c, fma(load<N>(l + first + c), alpha, sum)); }

  // One round of the online softmax over s[0, n): weights in place of the scores (pairs: in `weights`).
  void softmax(int64_t first, int64_t cols, int64_t n) {
    alignas(64) S shrink[kW];
    if (softmax_weights(first, cols, n, shrink)) rescale(first, cols, shrink);
  }
  // Of it the weights and by what y shrinks: whether something does.
  bool softmax_weights(int64_t first, int64_t cols, int64_t n, S* shrink) {
    const V unit = this->unit();
    bool rescaled = false;
    for (int64_t c = 0; c < cols; c += N) {
      const Raised r = raise(first, c, n, unit);
      V sum = 0;
      if constexpr (O::pairs) sum = weigh_pairs(c, n, r.safe, unit);
      else
        for (int64_t k = 0; k < n; ++k) {
          const V w = exp_weight<O::terms>((load<N>(s + k * kW + c) - r.safe) * unit);
          sum += w;
          store<S, N>(s + k * kW + c, w);
        }
      add_weights(first, c, r.alpha, sum);
      store<S, N>(shrink + c, r.alpha);
      rescaled = rescaled || any(r.alpha != V(1));
    }
    return rescaled;
  }
  void rescale(int64_t first, int64_t cols, const S* shrink) {
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
      for (int64_t k = 0; k < n; k += 2) sum += weigh_pair(c, k, k + 1 < n, safe, unit);
#endif
    return sum;
  }
#if defined(__AVX512BF16__)
  // Weights of keys k and, if there is one, k + 1: their sum.
  BARACUDA_HD V weigh_pair(int64_t c, int64_t k, bool both, V safe, V unit) {
    const V a = weight<T>(fma(load<N>(s + k * kW + c) - safe, unit, V(O::up)));
    const V b = both ? weight<T>(fma(load<N>(s + (k + 1) * kW + c) - safe, unit, V(O::up))) : V(0);
    _mm512_storeu_si512(weights + k * kW + 2 * c, interleave(a, b));
    return a + b;
  }
#endif

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
      if (!few) {
        write_turned<T>(o + c, kW, dv, queries, inverse, [&](int i) { return to[i]; });
        continue;
      }
      for (int64_t e = 0; e < dv; e += N)
        for (int i = 0; i < queries; ++i) {
          const int width = int(least(N, dv - e));
          store_tail<T, N>(to[i] + e, load_tail<N>(y + (c + i) * dv + e, width) * V(double(inverse.lane(i))), width);
        }
    }
  }

  // What a panel sees of the block of keys [key, key + n): keys [from, from + size), of which some query does not see those before `head`
  // and from `tail` on.
  struct Part {
    int64_t from, size, head, tail;
  };
  static Part part_of(const Panel& panel, int64_t key, int64_t n) {
    const int64_t from = most(key, panel.lo) / kSdpaStep * kSdpaStep, size = least(key + n, even(panel.hi)) - from;
    const int64_t head = least(size, most(panel.full_lo - from, 0));
    return {from, size, head, least(size, most(panel.full_hi - from, head))};
  }
  int64_t keys_from(int64_t key, int64_t hi) const { return least(kSdpaKeys, least(block.sequence.k_len, even(hi)) - key); }
  const T* at_key(const SdpaTensor& x, int64_t key) const { return row_at<const T>(x, block.sequence, block.head / p.group, block.sequence.k_start + key); }
  // Everything between products and softmax.
  void finish_scores(int64_t first, int64_t cols, const Part& t) {
    if (!plain) transform(rows + first, cols, t.from, t.size);
    if (t.head > 0) hide(rows + first, cols, t.from, 0, t.head);
    if (t.tail < t.size) hide(rows + first, cols, t.from, t.tail, t.size);
  }
  // Whether weights of zero do no harm: values of keys that some query does not see are finite.
  bool hides_safely(const Part& t, int64_t k_end) const {
    const T* const seen = at_key(p.v, t.from);
    return p.bias ? !any_nonfinite(seen, p.v.row, least(t.size, k_end - t.from), dv)
                  : !any_nonfinite(seen, p.v.row, t.head, dv) && !any_nonfinite(seen + t.tail * p.v.row, p.v.row, t.size - t.tail, dv);
  }
  struct Keys {
    int64_t lo = INT64_MAX, hi = 0;
  };
  Keys start() {
    carve();
    Keys seen;
    for (int64_t i = 0; i < count; ++i) {
      start_panel(i * kW, panels[i]);
      seen.lo = least(seen.lo, panels[i].lo), seen.hi = most(seen.hi, panels[i].hi);
    }
    zero(s, kSdpaKeys * kW);  // lanes without a query are computed and dropped
    return seen;
  }
  void finish_all() {
    for (int64_t i = 0; i < count; ++i) finish(i * kW, panels[i]);
  }

  void run() {
    const Keys seen = start();
    for (int64_t key = seen.lo / kSdpaKeys * kSdpaKeys; key < seen.hi; key += kSdpaKeys) {
      const int64_t n = keys_from(key, seen.hi);
      const T *const k = at_key(p.k, key), *const v = at_key(p.v, key);
      const bool turn = tile.dense_rows && !few;
      const Block<P> ks = few ? Block<P>{} : stage_rows<T>(k, p.k.row, n, d, k_staged);
      const Block<P> vs = turn ? Block<P>{} : stage_columns<T>(v, p.v.row, n, dv, v_staged);
      const TileA vt = turn ? tile.pack_a({v, 1, p.v.row, dv, n}, v_turned) : TileA{};
      if (few)  // memory-bound: the values arrive while the scores are made
        for (int64_t j = 0; j < n; ++j)
          for (int64_t e = 0; e < dv; e += 64 / int64_t(sizeof(T))) __builtin_prefetch(v + j * p.v.row + e, 0, 2);
      for (int64_t i = 0; i < count; ++i) {
        const Part t = part_of(panels[i], key, n);
        const int64_t first = i * kW, cols = panels[i].cols;
        if (t.size <= 0) continue;
        scores(panels[i], k, ks, t.from - key, t.size);
        finish_scores(first, cols, t);
        softmax(first, cols, t.size);
        if (hides_safely(t, key + n)) accumulate(first, 0, cols, vs, t.from - key, t.size, vt);
        else accumulate_visible(first, cols, at_key(p.v, t.from), t.from, t.size);
      }
    }
    finish_all();
  }
};

}  // namespace
}  // namespace attention
}  // namespace baracuda::inline BARACUDA_ISA
