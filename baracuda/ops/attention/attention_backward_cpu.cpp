// Backward by blocks of 128 keys: their dk and dv stay in scratch while all queries that see them pass in blocks of 128,
// in strips of 32. Scores are recomputed: p = exp(s - lse), ds = p (dp - delta). Here the keys are the lanes: k and v are
// transposed once per key block; q, dy, p and ds are used in both directions as they lie.
//   s = q k^T, dp = dy v^T (strips);  dv += p^T dy, dk += ds^T q (whole blocks);  dq += ds k (strips)
// Work: 6 D + 4 Dv flops a visible score. A strip skips the panels of 32 keys that none of its queries sees.
#include "baracuda/ops/attention/attention_block.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {
namespace {

constexpr int64_t kStrip = kSdpaPanel, kStrips = kSdpaRows / kStrip, kLd = kSdpaKeys + 16;  // rows of p off powers of two

template <class T> struct Backward {
  using S = Acc<T>;
  using O = Operand<T>;
  using P = typename O::Packed;
  using V = PackOf<T>;
  static constexpr int N = V::kWidth;

  const SdpaProblem& p;
  const SdpaSequence& sequence;
  const HeldTiles held{*p.tile};
  const TileKernel& tile = held.kernel;
  const int64_t d = p.head_dim, dv = p.head_dim_v;
  const Mask mask = mask_of(p, sequence);
  const bool plain = p.softcap == 0 && !p.slopes && !p.bias;

  struct Strip { int64_t from, to; bool partial; };  // keys of the block, multiples of 32 or its end
  Row<S> rows[kSdpaRows];
  Strip strips[kStrips];
  // Scores and, in place, p; dp and ds. Pairs: `p_pairs`, `ds_pairs` [query / 2][key][2], `ds_rows` [query][key].
  S *s, *dp, *dk, *dv_sum, *bias;
  P *k_packed, *v_packed, *k_staged, *q_rows, *q_columns, *dy_rows, *dy_columns, *p_pairs, *ds_pairs, *ds_rows, *visible;
  // of the key block
  int64_t key, n;
  const T *k, *v;
  TileB kt, vt;
  Block<P> k_columns;

  void carve(void* scratch) {
    Bump b{static_cast<char*>(scratch)};
    const int64_t pd = sdpa_padded(d), pv = sdpa_padded(dv);
    k_packed = b.take<P>(kSdpaKeys * pd), v_packed = b.take<P>(kSdpaKeys * pv), k_staged = b.take<P>(kSdpaKeys * pd);
    dk = b.take<S>(kSdpaKeys * pd), dv_sum = b.take<S>(kSdpaKeys * pv);
    q_rows = b.take<P>(kSdpaRows * pd), dy_rows = b.take<P>(kSdpaRows * pv);
    q_columns = O::pairs ? b.take<P>(kSdpaRows * pd) : q_rows, dy_columns = O::pairs ? b.take<P>(kSdpaRows * pv) : dy_rows;
    s = b.take<S>(kSdpaRows * kLd), dp = b.take<S>(kSdpaRows * kLd);
    p_pairs = O::pairs ? b.take<P>(kSdpaRows * kLd) : nullptr, ds_pairs = O::pairs ? b.take<P>(kSdpaRows * kLd) : nullptr;
    ds_rows = O::pairs ? b.take<P>(kSdpaRows * kLd) : nullptr;
    bias = p.bias ? b.take<S>(kLd) : nullptr;
    visible = b.take<P>(kSdpaRows * most(pd, pv));
  }

  void start_keys(int64_t kv_head, int64_t first, int64_t count) {
    key = first, n = count;
    k = row_at<const T>(p.k, sequence, kv_head, sequence.k_start + key), v = row_at<const T>(p.v, sequence, kv_head, sequence.k_start + key);
    kt = tile.pack_b({k, p.k.row, 1, n, d}, k_packed);
    vt = tile.pack_b({v, p.v.row, 1, n, dv}, v_packed);
    k_columns = stage_columns<T>(k, p.k.row, n, d, k_staged);
  }
  // Which keys of the block the strips see; false where none sees any.
  bool start_rows(int64_t head, int64_t row0, int64_t count) {
    bool some = false;
    for (int64_t i = 0; i < kStrips; ++i) {
      int64_t lo = INT64_MAX, hi = 0, full_lo = 0, full_hi = INT64_MAX;
      for (int64_t r = i * kStrip; r < least((i + 1) * kStrip, count); ++r) {
        Row<S>& row = rows[r];
        make_row<T>(row, p, sequence, mask, head, row0 + r);
        if (row.lo < row.hi) lo = least(lo, row.lo), hi = most(hi, row.hi);
        full_lo = most(full_lo, row.lo), full_hi = least(full_hi, row.lo < row.hi ? row.hi : 0);
      }
      Strip& strip = strips[i];
      strip.from = most(lo - key, 0) / kStrip * kStrip, strip.to = least(n, (hi - key + kStrip - 1) / kStrip * kStrip);
      if (lo >= hi || hi <= key || lo >= key + n) strip = {0, 0, false};
      else strip.partial = full_lo > key + strip.from || full_hi < key + strip.to, some = true;
    }
    return some;
  }

  // p and ds of row `r` for N keys from `j` of the block; Masked: some are hidden.
  template <bool kPlain, bool kMasked> BARACUDA_HD void weigh(int64_t r, int64_t j, V lse, V delta, V& w, V& ds, V* score_gradient = nullptr) const {
    V x = load<N>(s + r * kLd + j), slope = 1;
    if constexpr (kPlain) x = fma(x, V(S(p.scale * kExpUnit<V>)), -lse);
    else {
      x = x * V(S(p.scale));
      if (p.softcap != 0) x = softcap(x, V(S(p.softcap)), V(S(1 / p.softcap)), slope);
      if (p.bias) x = biased(x, load<N>(bias + j));
      if (p.slopes) x = alibi(x, V(double(rows[r].slope)), V(double(rows[r].position - key - j)) - lane_index());
      x = fma(x, V(kExpUnit<V>), -lse);
    }
    w = exp_weight<O::terms>(where(x > V(128), V(128), x));
    ds = w * (load<N>(dp + r * kLd + j) - delta);
    if constexpr (kMasked || !kPlain) {
      auto hide = x == V(-kInf);  // by a bias
      if constexpr (kMasked) {
        const V at = lane_index();
        hide = hide | (at < V(double(most(rows[r].lo - key, 0) - j))) | (at >= V(double(least(rows[r].hi - key, n) - j)));
      }
      w = where(hide, V(0), w), ds = where(hide, V(0), ds);
      if constexpr (!kPlain) slope = where(hide, V(0), slope);
    }
    if (score_gradient) *score_gradient = ds;
    if constexpr (!kPlain) ds = ds * slope;
  }
  BARACUDA_HD static V lane_index() {
    alignas(64) S index[N];
    for (int i = 0; i < N; ++i) index[i] = S(i);
    return load<N>(index);
  }
  void load_bias(int64_t r, const Strip& strip) {
    if (p.bias) for (int64_t j = strip.from; j < strip.to; ++j) bias[j] = bias_at<T>(p, rows[r].bias, key + j);
  }
  S lse_of(int64_t head, int64_t i) const {
    const S lse = *row_at<const S>(p.lse, sequence, head, sequence.q_start + i);
    return lse == S(-kInf) ? S(kInf) : lse * S(kExpUnit<V>);  // a query that sees nothing: exp(-inf)
  }
  S delta_of(int64_t head, int64_t i) const {
    return static_cast<const S*>(p.delta)[sequence.b * p.delta_batch + head * p.delta_head + sequence.q_start + i];
  }
  template <bool kPlain, bool kMasked> void weigh_strip(int64_t head, int64_t row0, int64_t first, int64_t count, const Strip& strip) {
    for (int64_t r = first; r < first + count; r += O::group) {
      const V lse = V(double(lse_of(head, row0 + r))), delta = V(double(delta_of(head, row0 + r)));
      if constexpr (!kPlain) load_bias(r, strip);
      if constexpr (!O::pairs)
        for (int64_t j = strip.from; j < strip.to; j += N) {
          V w, ds;
          weigh<kPlain, kMasked>(r, j, lse, delta, w, ds);
          store<S, N>(s + r * kLd + j, w);
          store<S, N>(dp + r * kLd + j, ds);
        }
#if defined(__AVX512BF16__)
      else {
        const bool two = r + 1 < first + count;
        const V lse1 = two ? V(double(lse_of(head, row0 + r + 1))) : lse, delta1 = two ? V(double(delta_of(head, row0 + r + 1))) : delta;
        if constexpr (!kPlain)  // one bias row at a time: the second row's scores first, kept as they are in s and dp
          if (two) {
            load_bias(r + 1, strip);
            for (int64_t j = strip.from; j < strip.to; j += N) {
              V w, ds;
              weigh<kPlain, kMasked>(r + 1, j, lse1, delta1, w, ds);
              store<S, N>(s + (r + 1) * kLd + j, w);
              store<S, N>(dp + (r + 1) * kLd + j, ds);
            }
            load_bias(r, strip);
          }
        for (int64_t j = strip.from; j < strip.to; j += N) {
          V w0, ds0, w1 = 0, ds1 = 0;
          weigh<kPlain, kMasked>(r, j, lse, delta, w0, ds0);
          if (two) {
            if constexpr (kPlain) weigh<kPlain, kMasked>(r + 1, j, lse1, delta1, w1, ds1);
            else w1 = load<N>(s + (r + 1) * kLd + j), ds1 = load<N>(dp + (r + 1) * kLd + j);
          }
          _mm512_storeu_si512(p_pairs + r * kLd + 2 * j, interleave(w0, w1));
          _mm512_storeu_si512(ds_pairs + r * kLd + 2 * j, interleave(ds0, ds1));
          const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(__m512(ds1.v), __m512(ds0.v));
          _mm256_storeu_si256((__m256i*)(ds_rows + r * kLd + j), _mm512_castsi512_si256(both));
          _mm256_storeu_si256((__m256i*)(ds_rows + (r + 1) * kLd + j), _mm512_extracti64x4_epi64(both, 1));
        }
        if (strip.to % 2) ds_rows[r * kLd + strip.to] = ds_rows[(r + 1) * kLd + strip.to] = bf16{0};  // the last key's partner
      }
#endif
    }
  }
  void scores(int64_t first, int64_t count, const Strip& strip, Block<P> q, Block<P> dy) {
    const int64_t skip = strip.from / tile.nr, width = strip.to - strip.from;
    const P* kp = static_cast<const P*>(kt.p) + skip * kt.panel;
    const P* vp = static_cast<const P*>(vt.p) + skip * vt.panel;
    tile.tile({count, width, tile.groups(d), rows_of(tile, q, first), {kp, kt.k, kt.panel}, s + first * kLd + strip.from, kLd, false});
    tile.tile({count, width, tile.groups(dv), rows_of(tile, dy, first), {vp, vt.k, vt.panel}, dp + first * kLd + strip.from, kLd, false});
  }

  Block<P> p_block() const { return O::pairs ? Block<P>{p_pairs, 2 * kLd} : Block<P>{reinterpret_cast<const P*>(s), kLd}; }
  Block<P> ds_block() const { return O::pairs ? Block<P>{ds_pairs, 2 * kLd} : Block<P>{reinterpret_cast<const P*>(dp), kLd}; }
  Block<P> ds_row_block() const { return {O::pairs ? ds_rows : reinterpret_cast<const P*>(dp), kLd}; }
  // across(), for keys from `first_key` and queries from `first_row`.
  TileA transposed(Block<P> w, int64_t first_row, int64_t first_key) const {
    return {w.p + first_row / O::group * w.row + first_key * O::group, O::group, w.row, tile.mr * O::group};
  }

  // dv += p^T dy and dk += ds^T q: runs of key panels that the same strips see. What a query sees moves forward with the
  // query, so these strips are neighbours and each sees the whole run.
  void add_key_sums(int64_t count, Block<P> q, Block<P> dy) {
    auto seen = [&](int64_t panel, int64_t& first, int64_t& last) {
      first = kStrips, last = -1;
      for (int64_t i = 0; i < kStrips; ++i)
        if (strips[i].from < least(n, panel + kStrip) && strips[i].to > panel) first = least(first, i), last = i;
    };
    for (int64_t j = 0, next; j < n; j = next) {
      int64_t first, last, f, l;
      seen(j, first, last);
      for (next = j + kStrip; next < n; next += kStrip)
        if (seen(next, f, l), f != first || l != last) break;
      next = least(next, n);
      if (last < 0) continue;
      const int64_t r0 = first * kStrip, r1 = least(count, (last + 1) * kStrip);
      tile.tile({next - j, dv, tile.groups(r1 - r0), transposed(p_block(), r0, j), columns_of(tile, dy, r0), dv_sum + j * dv, dv, true});
      tile.tile({next - j, d, tile.groups(r1 - r0), transposed(ds_block(), r0, j), columns_of(tile, q, r0), dk + j * d, d, true});
    }
  }
  void zero_weights(int64_t r0, int64_t r1, int64_t j0, int64_t j1) {
    if constexpr (O::pairs)
      for (int64_t r = r0; r < r1; r += 2) zero(p_pairs + r * kLd + 2 * j0, 2 * (j1 - j0)), zero(ds_pairs + r * kLd + 2 * j0, 2 * (j1 - j0));
    else
      for (int64_t r = r0; r < r1; ++r) zero(s + r * kLd + j0, j1 - j0), zero(dp + r * kLd + j0, j1 - j0);
  }
  // dq += ds k, strip by strip.
  void add_query_sums(int64_t count, S* dq) {
    for (int64_t i = 0; i < kStrips; ++i) {
      const Strip& strip = strips[i];
      const int64_t r = i * kStrip, rows_here = least(kStrip, count - r);
      if (strip.from >= strip.to) continue;
      tile.tile({rows_here, d, tile.groups(strip.to - strip.from), {ds_row_block().p + r * kLd + strip.from, kLd, O::group, tile.mr * kLd},
                 columns_of(tile, k_columns, strip.from), dq + r * d, d, true});
    }
  }
  // The same sums where an operand holds NaN or infinities that some weights of zero must not meet: one key, or one
  // query, at a time, with zeros for what it does not see.
  void add_visible(int64_t count, const T* q, const T* dy, S* dq) {
    for (int64_t j = 0; j < n; ++j) {
      auto hide = [&](int64_t r) { return strip_hides(r, j) || hidden<T>(p, rows[r], key + j); };
      for (int64_t i = 0; i < kStrips; ++i)
        if (i * kStrip < count && (j < strips[i].from || j >= strips[i].to)) zero_weights(i * kStrip, least(count, (i + 1) * kStrip), j, j + 1);
      Block<P> rows_seen = stage_visible<T, P>(dy, p.dy.row, count, dv, visible, hide);
      tile.tile({1, dv, tile.groups(count), transposed(p_block(), 0, j), columns_of(tile, rows_seen, 0), dv_sum + j * dv, dv, true});
      rows_seen = stage_visible<T, P>(q, p.q.row, count, d, visible, hide);
      tile.tile({1, d, tile.groups(count), transposed(ds_block(), 0, j), columns_of(tile, rows_seen, 0), dk + j * d, d, true});
    }
    for (int64_t r = 0; r < count; ++r) {
      const Strip& strip = strips[r / kStrip];
      if (strip.from >= strip.to) continue;
      const Block<P> keys_seen = stage_visible<T, P>(k + strip.from * p.k.row, p.k.row, strip.to - strip.from, d, visible,
                                                     [&](int64_t j) { return hidden<T>(p, rows[r], key + strip.from + j); });
      tile.tile({1, d, tile.groups(strip.to - strip.from), {ds_row_block().p + r * kLd + strip.from, kLd, O::group, tile.mr * kLd},
                 columns_of(tile, keys_seen, 0), dq + r * d, d, true});
    }
  }
  bool strip_hides(int64_t r, int64_t j) const { return j < strips[r / kStrip].from || j >= strips[r / kStrip].to; }

  template <class F> void for_each_strip(int64_t count, F f) {
    for (int64_t i = 0; i < kStrips; ++i)
      if (strips[i].from < strips[i].to) f(i * kStrip, least(kStrip, count - i * kStrip), strips[i]);
  }

  void run(const SdpaBackwardBlock& block) {
    carve(block.scratch);
    const int64_t q_len = sequence.q_len;
    for (int64_t g = 0; g < p.group; ++g) zero(static_cast<S*>(block.dq_sum) + g * block.dq_head, q_len * d);
    for (int64_t first = block.key0; first < block.key0 + block.keys; first += kSdpaKeys) {
      start_keys(block.kv_head, first, least(kSdpaKeys, block.key0 + block.keys - first));
      zero(dk, n * d), zero(dv_sum, n * dv);
      int k_finite = -1;
      for (int64_t g = 0; g < p.group; ++g)
        for (int64_t row0 = 0; row0 < q_len; row0 += kSdpaRows) {
          const int64_t head = block.kv_head * p.group + g, count = least(kSdpaRows, q_len - row0);
          if (!start_rows(head, row0, count)) continue;
          const T* q = row_at<const T>(p.q, sequence, head, sequence.q_start + row0);
          const T* dy = row_at<const T>(p.dy, sequence, head, sequence.q_start + row0);
          S* dq = static_cast<S*>(block.dq_sum) + g * block.dq_head + row0 * d;
          const Block<P> qr = stage_rows<T>(q, p.q.row, count, d, q_rows), dyr = stage_rows<T>(dy, p.dy.row, count, dv, dy_rows);
          bool partial = p.bias != nullptr;
          for_each_strip(count, [&](int64_t r, int64_t rows_here, const Strip& strip) {
            scores(r, rows_here, strip, qr, dyr);
            if (plain && strip.partial) weigh_strip<true, true>(head, row0, r, rows_here, strip);
            else if (plain) weigh_strip<true, false>(head, row0, r, rows_here, strip);
            else weigh_strip<false, true>(head, row0, r, rows_here, strip);
            partial = partial || strip.partial;
          });
          if (partial) {
            if (k_finite < 0) k_finite = !any_nonfinite(k, p.k.row, n, d);
            if (!k_finite || any_nonfinite(q, p.q.row, count, d) || any_nonfinite(dy, p.dy.row, count, dv)) {
              add_visible(count, q, dy, dq);
              continue;
            }
          }
          const Block<P> qc = O::pairs ? stage_columns<T>(q, p.q.row, count, d, q_columns) : qr;
          const Block<P> dyc = O::pairs ? stage_columns<T>(dy, p.dy.row, count, dv, dy_columns) : dyr;
          add_key_sums(count, qc, dyc);
          add_query_sums(count, dq);
        }
      for (int64_t j = 0; j < n; ++j) {
        write(row_at<T>(p.dk, sequence, block.kv_head, sequence.k_start + first + j), dk + j * d, d, S(p.scale));
        write(row_at<T>(p.dv, sequence, block.kv_head, sequence.k_start + first + j), dv_sum + j * dv, dv, S(1));
      }
    }
    if (block.finish)
      for (int64_t g = 0; g < p.group; ++g)
        for (int64_t i = 0; i < q_len; ++i)
          write(row_at<T>(p.dq, sequence, block.kv_head * p.group + g, sequence.q_start + i),
                static_cast<const S*>(block.dq_sum) + g * block.dq_head + i * d, d, S(p.scale));
  }
  static void write(T* to, const S* from, int64_t count, S scale) {
    const V factor = V(double(scale));
    int64_t e = 0;
    for (; e + N <= count; e += N) store<T, N>(to + e, load<N>(from + e) * factor);
    if (e < count) store_tail<T, N>(to + e, load_tail<N>(from + e, int(count - e)) * factor, int(count - e));
  }

  void run(const SdpaBiasBlock& block) {
    carve(block.scratch);
    start_keys(block.head / p.group, block.key0, block.keys);
    if (!start_rows(block.head, block.row0, block.rows)) return;
    const T* q = row_at<const T>(p.q, sequence, block.head, sequence.q_start + block.row0);
    const T* dy = row_at<const T>(p.dy, sequence, block.head, sequence.q_start + block.row0);
    const Block<P> qr = stage_rows<T>(q, p.q.row, block.rows, d, q_rows), dyr = stage_rows<T>(dy, p.dy.row, block.rows, dv, dy_rows);
    for_each_strip(block.rows, [&](int64_t first, int64_t count, const Strip& strip) {
      scores(first, count, strip, qr, dyr);
      for (int64_t r = first; r < first + count; ++r) {
        const V lse = V(double(lse_of(block.head, block.row0 + r))), delta = V(double(delta_of(block.head, block.row0 + r)));
        load_bias(r, strip);
        for (int64_t j = strip.from; j < strip.to; j += N) {
          V w, ds, gradient = 0;
          weigh<false, true>(r, j, lse, delta, w, ds, &gradient);
          for (int64_t e = 0; e < least(N, strip.to - j); ++e)
            block.sum[r * block.sum_row + (j + e) * block.sum_key] += double(gradient.lane(int(e)));
        }
      }
    });
  }
};

template <class T> void backward(const SdpaBackwardBlock& b) { Backward<T>{*b.problem, b.sequence}.run(b); }
template <class T> void bias(const SdpaBiasBlock& b) { Backward<T>{*b.problem, b.sequence}.run(b); }

template <class T> void delta(const SdpaBlock& b) {
  using S = Acc<T>;
  const SdpaProblem& p = *b.problem;
  S* out = static_cast<S*>(p.delta) + b.sequence.b * p.delta_batch + b.head * p.delta_head + b.sequence.q_start + b.row0;
  for (int64_t i = 0; i < b.rows; ++i) {
    const int64_t row = b.sequence.q_start + b.row0 + i;
    const T *dy = row_at<const T>(p.dy, b.sequence, b.head, row), *y = row_at<const T>(p.y, b.sequence, b.head, row);
    Pack<S, 16> sum = 0;  // 16 lanes whatever the registers hold
    int64_t e = 0;
    for (; e + 16 <= p.head_dim_v; e += 16) sum = fma(load<16>(dy + e), load<16>(y + e), sum);
    for (; e < p.head_dim_v; ++e) sum.set_lane(int(e % 16), fma(load<1>(dy + e), load<1>(y + e), Pack<S, 1>::of(sum.lane(int(e % 16)))).v);
    S total = 0;
    for (int l = 0; l < 16; ++l) total += sum.lane(l);
    const S lse = *row_at<const S>(p.lse, b.sequence, b.head, row);
    out[i] = lse == S(-kInf) ? S(0) : total;  // no key: y is 0, whatever the caller's y holds
  }
}
template <class T> void reduce(const SdpaReduceBlock& b) {
  using S = Acc<T>;
  const SdpaProblem& p = *b.problem;
  const int64_t d = p.head_dim;
  for (int64_t i = 0; i < b.rows; ++i) {
    T* to = row_at<T>(p.dq, b.sequence, b.head, b.sequence.q_start + b.row0 + i);
    for (int64_t e = 0; e < d; ++e) {
      S sum = 0;
      for (int64_t part = 0; part < b.parts; ++part) sum += static_cast<const S*>(b.sum)[part * b.part + i * d + e];
      store<T, 1>(to + e, Pack<S, 1>::of(sum * S(p.scale)));
    }
  }
}

}  // namespace
}  // namespace attention

extern constexpr SdpaBackwardKernels sdpa_backward_kernels = {
    by_dtype<void (*)(const SdpaBlock&)>(Floating{}, []<class T>() { return &attention::delta<T>; }),
    by_dtype<void (*)(const SdpaBackwardBlock&)>(Floating{}, []<class T>() { return &attention::backward<T>; }),
    by_dtype<void (*)(const SdpaBiasBlock&)>(Floating{}, []<class T>() { return &attention::bias<T>; }),
    by_dtype<void (*)(const SdpaReduceBlock&)>(Floating{}, []<class T>() { return &attention::reduce<T>; })};

}  // namespace baracuda::inline BARACUDA_ISA
