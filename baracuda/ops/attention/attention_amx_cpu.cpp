// Forward of bf16 on AMX: the algorithm of attention_forward.hpp, the same sums in the same order and so the same bits, as a pipeline over
// its parts (a panel and a block of keys). While the vectors make the weights of one part, the tiles make the scores of the next and add
// the values of the one before: a step of the tiles stands after every few weights, and the processor, which looks some 500 instructions
// ahead, does both. A product by itself waits for its tiles. Two buffers of scores take turns; weights take the
// place of the scores that they are made of.
// Parts that are not whole blocks of tiles go through the general product, by themselves.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // false on the undefined lanes of the compiler's own functions
#endif
#include "baracuda/host/amx_tiles.hpp"
#include "baracuda/ops/attention/attention_forward.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {
namespace {

class Pipeline : Forward<bf16> {
 public:
  explicit Pipeline(const SdpaBlock& b) : Forward<bf16>{*b.problem, b} {}

  void run() {
    const HeldTiles held(*p.tile);
    tile = held.kernel;
    if (few || d % kBlock || dv % kBlock) return Forward::run();
    seen = start();
    key = seen.lo / kSdpaKeys * kSdpaKeys;
    zero(other_s, kSdpaKeys * kW);
    weights = weights_in(s);
    Item before{}, now{}, after{};
    advance(now);
    make_scores(now);
    for (; now.size > 0; before = now, now = after) {
      advance(after);
      const int64_t first = now.panel * kW, cols = panels[now.panel].cols;
      finish_scores(first, cols, now);
      if (!(now.whole && before.direct())) add_values(before), before = {};
      alignas(64) S shrink[kW];
      const bool rescaled = now.whole ? weigh(now, after, before, shrink) : weigh_alone(now, shrink);
      std::swap(s, other_s), weights = weights_in(s);
      if (!(now.whole && after.whole)) make_scores(after);
      if (rescaled) rescale(first, cols, shrink);
      if (now.key != turned_key) turned = tile.pack_a({at_key(p.v, now.key), 1, p.v.row, dv, now.n}, v_turned), turned_key = now.key;
    }
    add_values(before);
    finish_all();
  }

 private:
  struct Item : Part {
    int64_t panel, key, n;  // n: keys of the block
    bool whole, safe;       // blocks of tiles; weights of zero do no harm
    bool direct() const { return whole && safe; }
  };

  // The next part; its size is 0 behind the last.
  void advance(Item& next) {
    for (; key < seen.hi; key += kSdpaKeys, panel = 0)
      while (panel < count) {
        const int64_t i = panel++, n = keys_from(key, seen.hi);
        const Part t = part_of(panels[i], key, n);
        if (t.size <= 0) continue;
        const bool whole = t.size % kBlock == 0 && panels[i].cols == kW, safe = hides_safely(t, key + n);
        next = {t, i, key, n, whole, safe};
        return;
      }
    next = {};
  }

  // Of the scores of a part: a pair of keys takes the place of the first of them and of keys before.
  static P* weights_in(S* scores) { return reinterpret_cast<P*>(scores); }

  // Products step by step, `between` after each of these: scores into `to`, values by the weights in other_s into y.
  template <class F> void score_steps(const Item& t, S* to, F between) {
    const TileB q = panels[t.panel].q;
    const bf16 *k = at_key(p.k, t.from), *const pairs = static_cast<const bf16*>(q.p);
    for (int64_t i = 0; i < t.size; i += kBlock, k += kBlock * p.k.row) {
      each_tile_of_sums<2, 2>([]<int T>(int, int) { tile_zero<T>(); });
      for (int64_t g = 0; g < d / 2; g += kStep) tile_step<2, 2>(k + 2 * g, 2 * p.k.row, pairs + g * q.k, 2 * q.k), between();
      each_tile_of_sums<2, 2>([&]<int T>(int r, int c) { tile_store<T>(to + (i + r) * kW + c, kW * 4); });
      between();
    }
  }
  template <class F> void value_steps(const Item& t, F between) {
    const P* const w = weights_in(other_s);
    const bf16* const v = static_cast<const bf16*>(turned.p) + (t.from - t.key);
    for (int64_t e = 0; e < dv; e += kBlock) {
      S* const sums = y + t.panel * kW * dv + e * kW;
      each_tile_of_sums<2, 2>([&]<int T>(int r, int c) { tile_load<T>(sums + r * kW + c, kW * 4); });
      for (int64_t g = 0; g < t.size / 2; g += kStep) tile_step<2, 2>(v + e / kBlock * turned.panel + 2 * g, 2 * turned.row, w + g * 2 * kW, 4 * kW), between();
      each_tile_of_sums<2, 2>([&]<int T>(int r, int c) { tile_store<T>(sums + r * kW + c, kW * 4); });
      between();
    }
  }
  int64_t score_step_count(const Item& t) const { return t.whole ? t.size / kBlock * (d / kBlock + 1) : 0; }
  int64_t value_step_count(const Item& t) const { return t.direct() ? dv / kBlock * (t.size / kBlock + 1) : 0; }

  // Weights of s, with the products of the neighbours in between: whether something has to shrink.
  bool weigh(const Item& now, const Item& after, const Item& before, S* shrink) {
    const int64_t first = now.panel * kW, pairs = now.size / 2, steps = score_step_count(after) + value_step_count(before);
    const int64_t share = steps ? (pairs << 16) / steps + 1 : 0;  // pairs of keys a step, in 2^-16
    const V one = unit();
    const Raised low = raise(first, 0, now.size, one), high = raise(first, N, now.size, one);
    V low_sum = 0, high_sum = 0;
    int64_t k = 0, due = 0;
    const auto up_to = [&](int64_t end) {
      for (; k < end; ++k) {
        low_sum += weigh_pair(0, 2 * k, true, low.safe, one);
        high_sum += weigh_pair(N, 2 * k, true, high.safe, one);
      }
    };
    const auto between = [&] { due += share, up_to(least(pairs, due >> 16)); };
    if (before.direct()) value_steps(before, between);  // which lie where the scores come next
    if (after.whole) score_steps(after, other_s, between);
    up_to(pairs);
    add_weights(first, 0, low.alpha, low_sum), add_weights(first, N, high.alpha, high_sum);
    store<S, N>(shrink, low.alpha), store<S, N>(shrink + N, high.alpha);
    return any(low.alpha != V(1)) || any(high.alpha != V(1));
  }
  bool weigh_alone(const Item& now, S* shrink) { return softmax_weights(now.panel * kW, panels[now.panel].cols, now.size, shrink); }

  // The same products by themselves, scores into s.
  void make_scores(const Item& t) {
    if (t.size == 0) return;
    if (t.whole) return score_steps(t, s, [] {});
    scores(panels[t.panel], at_key(p.k, t.from), {at_key(p.k, t.from), p.k.row}, 0, t.size);
  }
  void add_values(const Item& t) {
    if (t.size == 0) return;
    if (t.direct()) return value_steps(t, [] {});
    const int64_t first = t.panel * kW, cols = panels[t.panel].cols;
    weights = weights_in(other_s);
    if (t.safe) accumulate(first, 0, cols, {}, t.from - t.key, t.size, turned);
    else accumulate_visible(first, cols, at_key(p.v, t.from), t.from, t.size);
    weights = weights_in(s);
  }

  Keys seen;
  int64_t key = 0, panel = 0;  // of the part that comes next
  TileA turned{};  // values of the block of keys that begins at turned_key
  int64_t turned_key = -1;
};

void forward(const SdpaBlock& b) { Pipeline(b).run(); }

}  // namespace
}  // namespace attention

extern constexpr SdpaForwardAmx sdpa_forward_amx = {attention::forward};

}  // namespace baracuda::inline BARACUDA_ISA
