// Backward by blocks of 128 keys, up to four of them at a time: their dk and dv stay in scratch while all queries that see them pass in blocks
// of 128, in strips of 32. Scores are recomputed: p = exp(s - lse), ds = p (dp - delta). Here the keys are the lanes: k and v are
// transposed once per key block; q, dy, p and ds are used in both directions as they lie.
//   s = q k^T, dp = dy v^T (strips);  dv += p^T dy, dk += ds^T q (whole blocks);  dq += ds k (strips)
// On AMX, which wants dense rows on the left, the products over queries are made the other way around, dv^T += dy^T p and dk^T += q^T ds: q and
// dy are turned once per block of queries and not p and ds per pair of blocks.
// Work: 6 D + 4 Dv flops a visible score. A strip skips the panels of 32 keys that none of its queries sees.
#include "baracuda/ops/attention/attention_block.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {
namespace {

constexpr int64_t kStrip = kSdpaPanel, kStrips = kSdpaRows / kStrip, kLd = kSdpaKeys + 16, kLdRows = kSdpaKeys + 32;  // rows of p off powers of two; whole lines of halves

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

  const bool turned = tile.dense_rows;  // dk and dv of a block of keys are [element][key], kLd apart, else [key][element]

  struct Strip { int64_t from, to; bool partial; };  // keys of the block, multiples of 32 or its end
  Row<S> rows[kSdpaRows];
  Strip strips[kStrips];
  struct Keys {
    int64_t key, n;
    const T *k, *v;
    TileB kt, vt;
    Block<P> columns;
    S *dk, *dv;
    int finite;  // of k; -1: not known yet
  };
  Keys blocks[kMostKeyBlocks];
  struct Queries {
    int64_t row0, count;
    const T *q, *dy;
    S* dq;
    Block<P> q_rows, dy_rows, q_columns, dy_columns;
    TileA q_turned, dy_turned;
    int finite;  // of both
  };
  // Scores and, in place, p; dp and ds. Pairs: `p_pairs`, `ds_pairs` [query / 2][key][2], `ds_rows` [query][key].
  S *s, *dp, *dk, *dv_sum, *bias, *one_row;
  P *k_packed, *v_packed, *k_staged, *q_rows, *q_columns, *dy_rows, *dy_columns, *p_pairs, *ds_pairs, *ds_rows, *visible;

  // Of one key block, the others' behind it.
  int64_t sums_of(int64_t width) const { return turned ? width * kLd : kSdpaKeys * sdpa_padded(width); }
  void carve(void* scratch) {
    Bump b{static_cast<char*>(scratch)};
    const int64_t pd = sdpa_padded(d), pv = sdpa_padded(dv), key_blocks = sdpa_key_blocks(d, dv);
    k_packed = b.take<P>(key_blocks * kSdpaKeys * pd), v_packed = b.take<P>(key_blocks * kSdpaKeys * pv), k_staged = b.take<P>(key_blocks * kSdpaKeys * pd);
    dk = b.take<S>(key_blocks * sums_of(d)), dv_sum = b.take<S>(key_blocks * sums_of(dv));
    q_rows = b.take<P>(kSdpaRows * pd), dy_rows = b.take<P>(kSdpaRows * pv);
    const auto columns = [&](int64_t width) { return b.take<P>(turned ? tile.a_bytes(width, kSdpaRows) / int64_t(sizeof(P)) : kSdpaRows * sdpa_padded(width)); };
    q_columns = O::pairs ? columns(d) : q_rows, dy_columns = O::pairs ? columns(dv) : dy_rows;
    s = b.take<S>(kSdpaRows * kLd), dp = b.take<S>(kSdpaRows * kLd);
    p_pairs = O::pairs ? b.take<P>(kSdpaRows * kLd) : nullptr, ds_pairs = O::pairs ? b.take<P>(kSdpaRows * kLd) : nullptr;
    ds_rows = O::pairs ? b.take<P>(kSdpaRows * kLdRows) : nullptr;
    bias = p.bias ? b.take<S>(kLd) : nullptr;
    visible = b.take<P>(kSdpaRows * most(pd, pv));
    one_row = turned ? b.take<S>(most(d, dv)) : nullptr;
  }

  void start_keys(Keys& b, int64_t kv_head, int64_t first, int64_t n) {
    const int64_t at = &b - blocks, pd = sdpa_padded(d), pv = sdpa_padded(dv);
    const T *const k = row_at<const T>(p.k, sequence, kv_head, sequence.k_start + first), *const v = row_at<const T>(p.v, sequence, kv_head, sequence.k_start + first);
    b = {first, n, k, v, tile.pack_b({k, p.k.row, 1, n, d}, k_packed + at * kSdpaKeys * pd), tile.pack_b({v, p.v.row, 1, n, dv}, v_packed + at * kSdpaKeys * pv),
         stage_columns<T>(k, p.k.row, n, d, k_staged + at * kSdpaKeys * pd), dk + at * sums_of(d), dv_sum + at * sums_of(dv), -1};
  }
  void start_rows(int64_t head, int64_t row0, int64_t count) {
    for (int64_t r = 0; r < count; ++r) make_row<T>(rows[r], p, sequence, mask, head, row0 + r);
  }
  // Which keys of the block the strips see; false where none sees any.
  bool start_strips(const Keys& b, int64_t count) {
    bool some = false;
    for (int64_t i = 0; i < kStrips; ++i) {
      int64_t lo = INT64_MAX, hi = 0, full_lo = 0, full_hi = INT64_MAX;
      for (int64_t r = i * kStrip; r < least((i + 1) * kStrip, count); ++r) {
        const Row<S>& row = rows[r];
        if (row.lo < row.hi) lo = least(lo, row.lo), hi = most(hi, row.hi);
        full_lo = most(full_lo, row.lo), full_hi = least(full_hi, row.lo < row.hi ? row.hi : 0);
      }
      Strip& strip = strips[i];
      strip.from = most(lo - b.key, 0) / kStrip * kStrip, strip.to = least(b.n, (hi - b.key + kStrip - 1) / kStrip * kStrip);
      if (lo >= hi || hi <= b.key || lo >= b.key + b.n) strip = {0, 0, false};
      else strip.partial = full_lo > b.key + strip.from || full_hi < b.key + strip.to, some = true;
    }
    return some;
  }

  // p and ds of row `r` for N keys from `j` of the block; Masked: some are hidden.
  template <bool kPlain, bool kMasked> BARACUDA_HD void weigh(const Keys& b, int64_t r, int64_t j, V lse, V delta, V& w, V& ds, V* score_gradient = nullptr) const {
    V x = load<N>(s + r * kLd + j), slope = 1;
    if constexpr (kPlain) x = fma(x, V(S(p.scale * kExpUnit<V>)), -lse);
    else {
      x = x * V(S(p.scale));
      if (p.softcap != 0) x = softcap(x, V(S(p.softcap)), V(S(1 / p.softcap)), slope);
      if (p.bias) x = biased(x, load<N>(bias + j));
      if (p.slopes) x = alibi(x, V(double(rows[r].slope)), V(double(rows[r].position - b.key - j)) - lane_index());
      x = fma(x, V(kExpUnit<V>), -lse);
    }
    w = weight<T>(O::pairs ? x : smaller(V(128), x));
    ds = w * (load<N>(dp + r * kLd + j) - delta);
    if constexpr (kMasked || !kPlain) {
      auto hide = x == V(-kInf);  // by a bias
      if constexpr (kMasked) {
        const V at = lane_index();
        hide = hide | (at < V(double(most(rows[r].lo - b.key, 0) - j))) | (at >= V(double(least(rows[r].hi - b.key, b.n) - j)));
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
  void load_bias(const Keys& b, int64_t r, const Strip& strip) {
    if (p.bias) for (int64_t j = strip.from; j < strip.to; ++j) bias[j] = bias_at<T>(p, rows[r].bias, b.key + j);
  }
  // What a score is less by, on the way to its weight.
  S lse_of(int64_t head, int64_t i) const {
    const S lse = *row_at<const S>(p.lse, sequence, head, sequence.q_start + i);
    return lse == S(-kInf) ? S(kInf) : lse * S(kExpUnit<V>) - S(O::up);  // a query that sees nothing: exp(-inf)
  }
  S delta_of(int64_t head, int64_t i) const {
    return static_cast<const S*>(p.delta)[sequence.b * p.delta_batch + head * p.delta_head + sequence.q_start + i];
  }
  template <bool kPlain, bool kMasked> void weigh_strip(const Keys& b, int64_t head, int64_t row0, int64_t first, int64_t count, const Strip& strip) {
    for (int64_t r = first; r < first + count; r += O::group) {
      const V lse = V(double(lse_of(head, row0 + r))), delta = V(double(delta_of(head, row0 + r)));
      if constexpr (!kPlain) load_bias(b, r, strip);
      if constexpr (!O::pairs)
        for (int64_t j = strip.from; j < strip.to; j += N) {
          V w, ds;
          weigh<kPlain, kMasked>(b, r, j, lse, delta, w, ds);
          store<S, N>(s + r * kLd + j, w);
          store<S, N>(dp + r * kLd + j, ds);
        }
#if defined(__AVX512BF16__)
      else {
        const bool two = r + 1 < first + count;
        const V lse1 = two ? V(double(lse_of(head, row0 + r + 1))) : lse, delta1 = two ? V(double(delta_of(head, row0 + r + 1))) : delta;
        if constexpr (!kPlain)  // one bias row at a time: the second row's scores first, kept as they are in s and dp
          if (two) {
            load_bias(b, r + 1, strip);
            for (int64_t j = strip.from; j < strip.to; j += N) {
              V w, ds;
              weigh<kPlain, kMasked>(b, r + 1, j, lse1, delta1, w, ds);
              store<S, N>(s + (r + 1) * kLd + j, w);
              store<S, N>(dp + (r + 1) * kLd + j, ds);
            }
            load_bias(b, r, strip);
          }
        for (int64_t j = strip.from; j < strip.to; j += N) {
          V w0, ds0, w1 = 0, ds1 = 0;
          weigh<kPlain, kMasked>(b, r, j, lse, delta, w0, ds0);
          if (two) {
            if constexpr (kPlain) weigh<kPlain, kMasked>(b, r + 1, j, lse1, delta1, w1, ds1);
            else w1 = load<N>(s + (r + 1) * kLd + j), ds1 = load<N>(dp + (r + 1) * kLd + j);
          }
          _mm512_storeu_si512(p_pairs + r * kLd + 2 * j, interleave(w0, w1));
          _mm512_storeu_si512(ds_pairs + r * kLd + 2 * j, interleave(ds0, ds1));
          const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(__m512(ds1.v), __m512(ds0.v));
          _mm256_storeu_si256((__m256i*)(ds_rows + r * kLdRows + j), _mm512_castsi512_si256(both));
          _mm256_storeu_si256((__m256i*)(ds_rows + (r + 1) * kLdRows + j), _mm512_extracti64x4_epi64(both, 1));
        }
        if (strip.to % 2) ds_rows[r * kLdRows + strip.to] = ds_rows[(r + 1) * kLdRows + strip.to] = bf16{0};  // the last key's partner
      }
#endif
    }
  }
  void scores(const Keys& b, const Queries& c, int64_t first, int64_t count, const Strip& strip) {
    const auto product = [&](Block<P> rows_, TileB keys, int64_t width, S* to) {
      keys.p = static_cast<const P*>(keys.p) + strip.from / tile.nr * keys.panel;
      tile.tile({count, strip.to - strip.from, tile.groups(width), rows_of(tile, rows_, first), keys, to + first * kLd + strip.from, kLd, false});
    };
    product(c.q_rows, b.kt, d, s), product(c.dy_rows, b.vt, dv, dp);
  }

  Block<P> p_block() const { return O::pairs ? Block<P>{p_pairs, 2 * kLd} : Block<P>{reinterpret_cast<const P*>(s), kLd}; }
  Block<P> ds_block() const { return O::pairs ? Block<P>{ds_pairs, 2 * kLd} : Block<P>{reinterpret_cast<const P*>(dp), kLd}; }
  Block<P> ds_row_block() const { return O::pairs ? Block<P>{ds_rows, kLdRows} : Block<P>{reinterpret_cast<const P*>(dp), kLd}; }
  TileA ds_rows_from(int64_t r, int64_t j) const {
    const Block<P> b = ds_row_block();
    return {b.p + r * b.row + j, b.row, O::group, tile.mr * b.row};
  }
  // across(), for keys from `first_key` and queries from `first_row`.
  TileA transposed(Block<P> w, int64_t first_row, int64_t first_key) const {
    return {w.p + first_row / O::group * w.row + first_key * O::group, O::group, w.row, tile.mr * O::group};
  }

  // dv += p^T dy and dk += ds^T q: runs of key panels that the same strips see. What a query sees moves forward with the
  // query, so these strips are neighbours and each sees the whole run.
  void add_key_sums(const Keys& b, const Queries& c) {
    auto seen = [&](int64_t panel, int64_t& first, int64_t& last) {
      first = kStrips, last = -1;
      for (int64_t i = 0; i < kStrips; ++i)
        if (strips[i].from < least(b.n, panel + kStrip) && strips[i].to > panel) first = least(first, i), last = i;
    };
    for (int64_t j = 0, next; j < b.n; j = next) {
      int64_t first, last, f, l;
      seen(j, first, last);
      for (next = j + kStrip; next < b.n; next += kStrip)
        if (seen(next, f, l), f != first || l != last) break;
      next = least(next, b.n);
      if (last < 0) continue;
      const int64_t r0 = first * kStrip, r1 = least(c.count, (last + 1) * kStrip), groups = tile.groups(r1 - r0);
      const auto add = [&](Block<P> w, Block<P> x, TileA x_turned, int64_t width, S* sums) {
        if (turned)
          tile.tile({width, next - j, groups, {static_cast<const P*>(x_turned.p) + r0, x_turned.row, x_turned.k, x_turned.panel},
                     {w.p + r0 / O::group * w.row + j * O::group, w.row, tile.nr * O::group}, sums + j, kLd, true});
        else tile.tile({next - j, width, groups, transposed(w, r0, j), columns_of(tile, x, r0), sums + j * width, width, true});
      };
      add(p_block(), c.dy_columns, c.dy_turned, dv, b.dv), add(ds_block(), c.q_columns, c.q_turned, d, b.dk);
    }
  }
  void zero_weights(int64_t r0, int64_t r1, int64_t j0, int64_t j1) {
    if constexpr (O::pairs)
      for (int64_t r = r0; r < r1; r += 2) zero(p_pairs + r * kLd + 2 * j0, 2 * (j1 - j0)), zero(ds_pairs + r * kLd + 2 * j0, 2 * (j1 - j0));
    else
      for (int64_t r = r0; r < r1; ++r) zero(s + r * kLd + j0, j1 - j0), zero(dp + r * kLd + j0, j1 - j0);
  }
  // dq += ds k, strip by strip.
  void add_query_sums(const Keys& b, const Queries& c) {
    for_each_strip(c.count, [&](int64_t r, int64_t rows_here, const Strip& strip) {
      tile.tile({rows_here, d, tile.groups(strip.to - strip.from), ds_rows_from(r, strip.from),
                 columns_of(tile, b.columns, strip.from), c.dq + r * d, d, true});
    });
  }
  // The same sums where an operand holds NaN or infinities that some weights of zero must not meet: one key, or one
  // query, at a time, with zeros for what it does not see.
  void add_visible(const Keys& b, const Queries& c) {
    for (int64_t j = 0; j < b.n; ++j) {
      auto hide = [&](int64_t r) { return strip_hides(r, j) || hidden<T>(p, rows[r], b.key + j); };
      for (int64_t i = 0; i < kStrips; ++i)
        if (i * kStrip < c.count && (j < strips[i].from || j >= strips[i].to)) zero_weights(i * kStrip, least(c.count, (i + 1) * kStrip), j, j + 1);
      const auto add = [&](Block<P> w, const T* x, int64_t row, int64_t width, S* sums) {
        const Block<P> rows_seen = stage_visible<T, P>(x, row, c.count, width, visible, hide);
        S* const to = turned ? one_row : sums + j * width;
        if (turned) for (int64_t e = 0; e < width; ++e) to[e] = sums[e * kLd + j];
        tile.tile({1, width, tile.groups(c.count), transposed(w, 0, j), columns_of(tile, rows_seen, 0), to, width, true});
        if (turned) for (int64_t e = 0; e < width; ++e) sums[e * kLd + j] = to[e];
      };
      add(p_block(), c.dy, p.dy.row, dv, b.dv), add(ds_block(), c.q, p.q.row, d, b.dk);
    }
    for (int64_t r = 0; r < c.count; ++r) {
      const Strip& strip = strips[r / kStrip];
      if (strip.from >= strip.to) continue;
      const Block<P> keys_seen = stage_visible<T, P>(b.k + strip.from * p.k.row, p.k.row, strip.to - strip.from, d, visible,
                                                     [&](int64_t j) { return hidden<T>(p, rows[r], b.key + strip.from + j); });
      tile.tile({1, d, tile.groups(strip.to - strip.from), ds_rows_from(r, strip.from),
                 columns_of(tile, keys_seen, 0), c.dq + r * d, d, true});
    }
  }
  bool strip_hides(int64_t r, int64_t j) const { return j < strips[r / kStrip].from || j >= strips[r / kStrip].to; }

  template <class F> void for_each_strip(int64_t count, F f) {
    for (int64_t i = 0; i < kStrips; ++i)
      if (strips[i].from < strips[i].to) f(i * kStrip, least(kStrip, count - i * kStrip), strips[i]);
  }

  Queries start_queries(const SdpaBackwardBlock& block, int64_t head, int64_t row0) {
    Queries c{};
    c.row0 = row0, c.count = least(kSdpaRows, sequence.q_len - row0), c.finite = -1;
    c.q = row_at<const T>(p.q, sequence, head, sequence.q_start + row0), c.dy = row_at<const T>(p.dy, sequence, head, sequence.q_start + row0);
    c.dq = static_cast<S*>(block.dq_sum) + head % p.group * block.dq_head + row0 * d;
    c.q_rows = stage_rows<T>(c.q, p.q.row, c.count, d, q_rows), c.dy_rows = stage_rows<T>(c.dy, p.dy.row, c.count, dv, dy_rows);
    if (turned) c.q_turned = tile.pack_a({c.q, 1, p.q.row, d, c.count}, q_columns), c.dy_turned = tile.pack_a({c.dy, 1, p.dy.row, dv, c.count}, dy_columns);
    else if (O::pairs) c.q_columns = stage_columns<T>(c.q, p.q.row, c.count, d, q_columns), c.dy_columns = stage_columns<T>(c.dy, p.dy.row, c.count, dv, dy_columns);
    else c.q_columns = c.q_rows, c.dy_columns = c.dy_rows;
    return c;
  }
  // What a block of queries and one of keys add.
  void add_pair(Keys& b, Queries& c, int64_t head) {
    bool partial = p.bias != nullptr;
    for_each_strip(c.count, [&](int64_t r, int64_t rows_here, const Strip& strip) {
      scores(b, c, r, rows_here, strip);
      if (plain && strip.partial) weigh_strip<true, true>(b, head, c.row0, r, rows_here, strip);
      else if (plain) weigh_strip<true, false>(b, head, c.row0, r, rows_here, strip);
      else weigh_strip<false, true>(b, head, c.row0, r, rows_here, strip);
      partial = partial || strip.partial;
    });
    if (partial) {
      if (b.finite < 0) b.finite = !any_nonfinite(b.k, p.k.row, b.n, d);
      if (c.finite < 0) c.finite = !any_nonfinite(c.q, p.q.row, c.count, d) && !any_nonfinite(c.dy, p.dy.row, c.count, dv);
      if (!b.finite || !c.finite) return add_visible(b, c);
    }
    add_key_sums(b, c);
    add_query_sums(b, c);
  }

  void run(const SdpaBackwardBlock& block) {
    carve(block.scratch);
    const int64_t q_len = sequence.q_len, end = block.key0 + block.keys;
    for (int64_t g = 0; g < p.group; ++g) zero(static_cast<S*>(block.dq_sum) + g * block.dq_head, q_len * d);
    for (int64_t first = block.key0; first < end; first += sdpa_key_blocks(d, dv) * kSdpaKeys) {
      const int64_t count = least(sdpa_key_blocks(d, dv), (end - first + kSdpaKeys - 1) / kSdpaKeys);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t key = first + i * kSdpaKeys;
        start_keys(blocks[i], block.kv_head, key, least(kSdpaKeys, end - key));
        zero(blocks[i].dk, sums_of(d)), zero(blocks[i].dv, sums_of(dv));
      }
      for (int64_t g = 0; g < p.group; ++g)
        for (int64_t row0 = 0; row0 < q_len; row0 += kSdpaRows) {
          const int64_t head = block.kv_head * p.group + g;
          start_rows(head, row0, least(kSdpaRows, q_len - row0));
          Queries c{};
          for (int64_t i = 0; i < count; ++i) {
            if (!start_strips(blocks[i], least(kSdpaRows, q_len - row0))) continue;
            if (!c.count) c = start_queries(block, head, row0);
            add_pair(blocks[i], c, head);
          }
        }
      for (int64_t i = 0; i < count; ++i)
        write_keys(p.dk, blocks[i], blocks[i].dk, block.kv_head, d, S(p.scale)), write_keys(p.dv, blocks[i], blocks[i].dv, block.kv_head, dv, S(1));
    }
    if (block.finish)
      for (int64_t g = 0; g < p.group; ++g)
        for (int64_t i = 0; i < q_len; ++i)
          write(row_at<T>(p.dq, sequence, block.kv_head * p.group + g, sequence.q_start + i),
                static_cast<const S*>(block.dq_sum) + g * block.dq_head + i * d, d, S(p.scale));
  }
  void write_keys(const SdpaTensor& to, const Keys& b, const S* sums, int64_t kv_head, int64_t width, S scale) const {
    const auto key_row = [&](int64_t j) { return row_at<T>(to, sequence, kv_head, sequence.k_start + b.key + j); };
    if (turned)
      for (int64_t j = 0; j < b.n; j += N) write_turned<T>(sums + j, kLd, width, int(least(N, b.n - j)), V(double(scale)), [&](int i) { return key_row(j + i); });
    else
      for (int64_t j = 0; j < b.n; ++j) write(key_row(j), sums + j * width, width, scale);
  }
  static void write(T* to, const S* from, int64_t count, S scale) {
    const V factor = V(double(scale));
    int64_t e = 0;
    for (; e + N <= count; e += N) store<T, N>(to + e, load<N>(from + e) * factor);
    if (e < count) store_tail<T, N>(to + e, load_tail<N>(from + e, int(count - e)) * factor, int(count - e));
  }

  void run(const SdpaBiasBlock& block) {
    carve(block.scratch);
    Keys& b = blocks[0];
    start_keys(b, block.head / p.group, block.key0, block.keys);
    start_rows(block.head, block.row0, block.rows);
    if (!start_strips(b, block.rows)) return;
    const T* q = row_at<const T>(p.q, sequence, block.head, sequence.q_start + block.row0);
    const T* dy = row_at<const T>(p.dy, sequence, block.head, sequence.q_start + block.row0);
    Queries c{};
    c.q_rows = stage_rows<T>(q, p.q.row, block.rows, d, q_rows), c.dy_rows = stage_rows<T>(dy, p.dy.row, block.rows, dv, dy_rows);
    for_each_strip(block.rows, [&](int64_t first, int64_t count, const Strip& strip) {
      scores(b, c, first, count, strip);
      for (int64_t r = first; r < first + count; ++r) {
        const V lse = V(double(lse_of(block.head, block.row0 + r))), delta = V(double(delta_of(block.head, block.row0 + r)));
        load_bias(b, r, strip);
        for (int64_t j = strip.from; j < strip.to; j += N) {
          V w, ds, gradient = 0;
          weigh<false, true>(b, r, j, lse, delta, w, ds, &gradient);
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
