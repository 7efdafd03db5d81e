#pragma once
// Forward on Hopper's tensor cores (wgmma): y = softmax(scores, masked) v for f16 and bf16, as FlashAttention-3 does it (Shah et al., 2024). Blocks
// stay, one on each multiprocessor, and go through blocks of queries, 64 for each of their two to four warpgroups; in a warpgroup of its own one thread says
// which, and one has the copy engine bring queries and tiles of keys and values, two in flight; both run ahead. Within a warpgroup the scores of the next tile are
// made while the weights of this one are multiplied, and their softmax runs under that product; the warpgroups take turns at issuing products, so that
// one's softmax runs under the other's. Three and four leave out tiles of keys that their own queries do not see. 2 (D + Dv) flops a visible score; floor: the matrix rate, under the power that the card may draw.
//
// Where y is not finite, the block goes through its work once more, takes the largest score first where a weight is infinite, and keeps what is not finite
// and hidden out of the products: a weight of 0 must not meet it. Numbers that were finite stay.
#include <cmath>
#include "baracuda/ops/attention/attention_sm90_places.cuh"
#include "baracuda/ops/attention/attention_sm90_weights.cuh"
#include "baracuda/ops/attention/attention_whole_rows.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

template <class T, int kColumns, Scores kScores, int kGroups, bool kShort>
__global__ void __launch_bounds__(WgmmaShape<kColumns, kScores, kGroups, kShort>::kThreads, 1) wgmma_kernel(const __grid_constant__ WgmmaWork work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using C = WgmmaShape<kColumns, kScores, kGroups, kShort>;
  using V = Pack<float, 1>;
  constexpr bool kGeneral = kScores == Scores::general, kCapped = kScores == Scores::capped, kShared = kCapped && kColumns <= 64;
  constexpr int kKeys = C::kKeys, kWidth = C::kWidth, kStages = C::kStages;
  constexpr uint32_t kTileBytes = kKeys * kWidth * 2, kPartBytes = C::kPartRows * kWidth * 2;
  const SdpaCuda& p = work.p;
  extern __shared__ char memory[];
  __shared__ WgmmaPlace places[C::kPlaces];
  __shared__ uint64_t barriers[1 + 4 * C::kStages + 2 * C::kSlots + 2 * C::kPlaces];
  __shared__ bool spoiled;
  __shared__ uint32_t last_taken;  // of p.next's numbers, by this block
  const uint32_t q0 = (shared_address(memory) + 1023) / 1024 * 1024, k0 = q0 + C::kSlots * kPartBytes, v0 = k0 + kStages * kTileBytes;
  // Full: the tile has come; free: all warps are done with it.
  const uint32_t q_full = shared_address(barriers), q_free = q_full + 8 * C::kSlots, k_full = q_free + 8 * C::kSlots, v_full = k_full + 8 * kStages, k_free = v_full + 8 * kStages, v_free = k_free + 8 * kStages, all_done = v_free + 8 * kStages;
  const uint32_t known = all_done + 8, forgotten = known + 8 * C::kPlaces;  // places
  if (threadIdx.x == 0) {
    fetch_map(work.q), fetch_map(work.k), fetch_map(work.v);
    spoiled = false, last_taken = UINT32_MAX;
    barrier_init(all_done, 4 * kGroups);
    for (int i = 0; i < C::kSlots; ++i) barrier_init(q_full + 8 * i, 1), barrier_init(q_free + 8 * i, 4 * kGroups / C::kParts);
    for (int i = 0; i < C::kPlaces; ++i) barrier_init(known + 8 * i, 1), barrier_init(forgotten + 8 * i, 1);
    for (int i = 0; i < kStages; ++i) {
      barrier_init(k_full + 8 * i, 1), barrier_init(v_full + 8 * i, 1);
      barrier_init(k_free + 8 * i, 4 * kGroups), barrier_init(v_free + 8 * i, 4 * kGroups);
    }
    barriers_made();
  }
  __syncthreads();

  // Blocks of queries and tiles so far: % stages is their place, / stages their phase.
  uint32_t o = 0, u = 0;
  uint32_t slot = 0, turn = 0;  // of places: the one of block o, and its phase
  const auto next_slot = [&] {
    if (++slot == C::kPlaces) slot = 0, turn ^= 1;
  };
  if (int(threadIdx.x) >= C::kWorkers) {
    give_registers<C::kGiven>();
    const int helper = int(threadIdx.x) - C::kWorkers;
    const auto again = [&] {  // all is done; whether not for good
      if (helper < 32) barrier_wait(all_done, 0);
      named_wait(kGroups + 2, 128);
      return spoiled;
    };
    if (helper / 32 == 1) {
      for (bool careful = false;; careful = true) {
        if (helper == 32) {  // says which blocks of queries, ahead of the thread that has them brought
          uint32_t k = p.next && careful ? last_taken : 0;
          bool found = true;
#pragma unroll 1
          for (; found; next_slot()) {
            barrier_wait(forgotten + 8 * slot, turn ^ 1);
            WgmmaPlace& place = places[slot];
#pragma unroll 1
            do {
              if (p.next && !careful) k = atomicAdd(p.next, 1u);
              found = find_place<C>(place, work, k);
              if (!found) place.n = -1;
              else if (!p.next) ++k;
              else if (careful) k = p.next[1 + k];
              else p.next[1 + k] = last_taken, last_taken = k;
            } while (found && place.n <= 0);
            barrier_arrive(known + 8 * slot);
          }
        }
        if (careful || !again()) break;
      }
    } else {
      for (bool careful = false;; careful = true) {
        if (helper == 0) {
          bool more = true;
          int tiles = 0, k_row = 0, kv_head = 0, batch = 0;  // of block o
          const auto look = [&] {
            barrier_wait(known + 8 * slot, turn);
            const WgmmaPlace& place = places[slot];
            more = place.n >= 0;
            kv_head = place.head / int(p.group), batch = p.cu_q ? 0 : place.b, tiles = more ? place.tiles : 0, k_row = place.k_start + place.last_key;
          };
          const auto bring_rows = [&](int from, int to) {  // parts of block o
#pragma unroll
            for (int part = from; part < to; ++part) {
              const WgmmaPlace& place = places[slot];
              const uint32_t n = o * C::kParts + part, i = n % C::kSlots;
              barrier_wait(q_free + 8 * i, (n / C::kSlots + 1) % 2);
              if (part + 1 == C::kParts) {
                next_slot();
                if (o >= C::kQueries) barrier_arrive(forgotten + 8 * slot);  // block o - kQueries has left
                ++o;
              }
              if (more) {
                barrier_expect(q_full + 8 * i, kPartBytes);
#pragma unroll
                for (int c = 0; c < kWidth / 64; ++c)
                  load_box(q0 + i * kPartBytes + c * C::kPartRows * 128, work.q, q_full + 8 * i, 64 * c, place.q_start + place.row0 + part * C::kPartRows, place.head, batch);
              } else barrier_arrive(q_full + 8 * i);
            }
          };
          constexpr int kAhead = C::kSlots >= 2 * C::kParts ? C::kParts : C::kSlots - C::kParts;  // parts of the next block that have room beside this one
          const auto bring = [&](const CUtensorMap& map, uint32_t to, uint32_t full, uint32_t free, uint32_t t, int row, int head, int item) {
            const uint32_t i = t % kStages;
            barrier_wait(free + 8 * i, (t / kStages + 1) % 2);
            barrier_expect(full + 8 * i, kTileBytes);
#pragma unroll
            for (int c = 0; c < kWidth / 64; ++c) load_box(to + i * kTileBytes + c * kKeys * 128, map, full + 8 * i, 64 * c, row, head, item);
          };
          look();
          bring_rows(0, C::kParts);
          if (tiles > 0) bring(work.k, k0, k_full, k_free, u, k_row, kv_head, batch);
#pragma unroll 1
          while (more) {
            const int n = tiles, head = kv_head, item = batch, turns = n > 0 ? n : 1, ahead = kAhead > 0 && turns > 1 ? 1 : turns - 1;
            int row = k_row;
#pragma unroll 1
            for (int j = 0; j < turns; ++j, row -= kKeys) {
              if (j == ahead) {  // the next block's rows, once those of the block before this one have left
                look();
                bring_rows(0, kAhead);
              }
              const bool last = j + 1 >= n;
              if (!last || tiles > 0) bring(work.k, k0, k_full, k_free, last ? u + n : u + j + 1, last ? k_row : row - kKeys, last ? kv_head : head, last ? batch : item);
              if (j < n) bring(work.v, v0, v_full, v_free, u + j, row, head, item);
            }
            bring_rows(kAhead, C::kParts);
            u += n;
          }
        }
        if (careful || !again()) break;
      }
    }
  } else {
    take_registers<C::kTaken>();
    using Queries = MmaTile<T, kWidth, kWidth / 8, C::kPartRows>;
    using Keys = MmaTile<T, kWidth, kWidth / 8, kKeys>;
    const int warp = __shfl_sync(kAllLanes, int(threadIdx.x) / 32, 0), lane = int(threadIdx.x) % 32, g = lane / 4, first = warp * 16, group = warp / 4;
    const int dv = int(p.head_dim_v);
    const float unit = work.unit;
    const WgmmaPlace* place = places;
    const auto part = [&] { return o * C::kParts + (C::kParts > 1 ? group : 0); };  // of queries, the warpgroup's of block o
    const auto masked = [&](int j) { return j < place->seen.all_from || j >= place->seen.all_to; };
    const auto seen = [&]() -> const WgmmaTiles& { return C::kApart ? place->of_group[group] : place->seen; };
    const auto seen_keys = [&](int i, int j) {  // [from, to) of line i of the thread, from tile j on
      const int r = first + 8 * i + g, start = place->last_key - j * kKeys;
      if (r >= place->n) return int2{0, 0};
      const KeyRangeOf<int> range = MaskOf<int>{place->shift, work.left, work.right, place->k_len}.of(place->row0 + r);
      return int2{range.lo - start, range.hi - start};
    };
    const auto release = [&](uint32_t free) {
      if (lane == 0) barrier_arrive(free);
    };
    float y[1][kColumns / 8][4], x[1][kKeys / 8][4], m[2], l[2], shrink[2], base[2] = {};
    bool settled = false;
    V slope = V(0);  // of ALiBi, in units of the exponential
    uint32_t weights[kKeys / 8][2], q = q0;
    uint32_t rows_held[C::kHeld ? kColumns / 16 : 1][4];
    const auto begin_scores = [&](int j, auto held) {
      const uint64_t rows = operand(anew(q + uint32_t(group) * 64 * 128)), tile = operand(anew(k0) + uint32_t((u + j) % kStages) * kTileBytes);
      pin(x[0]);
      begin_products();
#pragma unroll
      for (int k = 0; k < kColumns / 16; ++k) {
        const uint64_t keys = further(tile, k / 4 * kKeys * 128 + k % 4 * 32);
        if constexpr (held) wgmma<T, 0>(x[0], rows_held[k], keys, k != 0);
        else wgmma<T>(x[0], further(rows, k / 4 * C::kPartRows * 128 + k % 4 * 32), keys, k != 0);
      }
      commit_products();
    };
    const auto begin_weighted = [&](int j) {
      const uint64_t tile = operand(anew(v0) + uint32_t((u + j) % kStages) * kTileBytes, kKeys * 128);
      pin(weights), pin(y[0]);
      begin_products();
#pragma unroll
      for (int k = 0; k < kKeys / 16; ++k) {
        const uint32_t a[4] = {weights[2 * k][0], weights[2 * k][1], weights[2 * k + 1][0], weights[2 * k + 1][1]};
        wgmma<T>(y[0], a, further(tile, k * 2048), 1);
      }
      commit_products();
    };
    const auto hide_some = [&](int j, auto before) {  // what lies before a row's keys, or behind them
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int2 keys = seen_keys(i, j);
        const int bound = (before ? keys.x : keys.y) - lane % 4 * 2;
#pragma unroll
        for (int e = 0; e < kKeys / 4; ++e) {
          const int at = e / 2 * 8 + e % 2;
          if (before ? at < bound : at >= bound) x[0][e / 2][2 * i + e % 2] = float(-kInf);
        }
      }
    };
    const auto distance_to = [&](int i, int j) {  // of line i from the thread's first key of tile j
      return float(place->row0 + first + 8 * i + g + place->shift - place->last_key + j * kKeys - lane % 4 * 2);
    };
    // From q.k to scores, but for the factor `unit` and the tile's `base`. True: but for the softcap, too, which may be taken with the weights.
    const auto finish_scores = [&](int j, auto careful) {
      if constexpr (kCapped) {
#pragma unroll
        for (int e = 0; e < kKeys / 2; ++e) x[0][e / 4][e % 4] *= work.inward;
        pin(x[0]);
        if (!careful && settled && j >= seen().all_from && j < seen().all_to) return true;
#pragma unroll
        for (int e = 0; e < kKeys / 2; ++e) x[0][e / 4][e % 4] = brief_tanh<T>(V::of(x[0][e / 4][e % 4]), V(1)).v;
      }
      if constexpr (kGeneral) {
        if (p.softcap != 0) {
#pragma unroll
          for (int e = 0; e < kKeys / 2; ++e) x[0][e / 4][e % 4] = brief_tanh<T>(V::of(x[0][e / 4][e % 4]), V::of(work.inward)).v;
        }
        if (work.two_sided) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const V distance = V::of(distance_to(i, j));
#pragma unroll
            for (int e = 0; e < kKeys / 4; ++e) {
              float& score = x[0][e / 2][2 * i + e % 2];
              score = fma(V::of(score), V::of(work.factor), -slope * abs(distance - V(e / 2 * 8 + e % 2))).v;
            }
          }
        } else if (p.slopes) {  // no key is ahead: what a score loses grows with its column, and the rest is the tile's
          const V lift = slope * V::of(work.inverse);
#pragma unroll
          for (int e = 0; e < kKeys / 2; ++e) {
            float& score = x[0][e / 4][e % 4];
            score = fma(lift, V(e / 4 * 8 + e % 2), V::of(score)).v;
          }
#pragma unroll
          for (int i = 0; i < 2; ++i) base[i] = (-slope * V::of(distance_to(i, j))).v;
        } else if (!(work.factor > 0)) {
#pragma unroll
          for (int e = 0; e < kKeys / 2; ++e) x[0][e / 4][e % 4] *= work.factor;
        }
      }
      if (j < seen().all_from) hide_some(j, std::false_type{});
      if (j >= seen().all_to) hide_some(j, std::true_type{});
      return false;
    };
    const auto make_weights = [&](bool uncapped) {
      if constexpr (kCapped)
        if (uncapped) return soften_lazily<false, true, kShared>(x[0], m, l, shrink, unit, settled, base, [](V score) { return brief_tanh<T>(score, V(1)); });
      if constexpr (kGeneral)
        if (work.two_sided) return soften(x[0], m, l, shrink, unit);  // scores grow up to the query's own position
      return soften_lazily<kGeneral, false, kShared>(x[0], m, l, shrink, unit, settled, base, [](V score) { return score; });
    };
    const auto to_weights = [&] {
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) weights[j][0] = pair<T>(x[0][j][0], x[0][j][1]), weights[j][1] = pair<T>(x[0][j][2], x[0][j][3]);
    };
    const auto await = [&](uint32_t full, int j) { barrier_wait(full + 8 * ((u + j) % kStages), (u + j) / kStages % 2); };
    // What is not finite in v of tile j: zeros in its place, and what is seen of it to the sums by hand.
    const auto clean = [&](int j) {
      const uint32_t v = v0 + uint32_t((u + j) % kStages) * kTileBytes;
      named_wait(kGroups + 1, C::kWorkers);
#pragma unroll 1
      for (int i = int(threadIdx.x); i < kKeys * kWidth / 8; i += C::kWorkers) Keys::clean_chunk(Keys::at(v, i / (kWidth / 8), i % (kWidth / 8)));
      publish();
      named_wait(kGroups + 1, C::kWorkers);
      const int from = place->last_key - j * kKeys, left = place->k_len - from;
      uint32_t seen[2] = {};
      const int column = int(anew(threadIdx.x)) % 4 * 2;  // made here, not kept
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int2 keys = seen_keys(i, j);
        for (int e = 0; e < kKeys / 4; ++e) {
          const int key = e / 2 * 8 + column + e % 2;
          seen[i] |= uint32_t(key >= keys.x && key < keys.y) << e;
        }
      }
      add_nonfinite<T, kColumns, 1>(y, seen, row_at<const T>(p.v, {place->b, 0, 0, 0, 0}, place->head / int(p.group), place->k_start + from), p.v.row, left < kKeys ? left : kKeys, 0, dv);
    };
    if (group == kGroups - 1) named_arrive(1, 256);  // the first group's turn
    const auto pass_by = [&](int j, bool turn) {  // a tile that the group does not see
      await(k_full, j);
      if (turn) named_wait(1 + group, 256), named_arrive(1 + (group + 1) % kGroups, 256);
      release(k_free + 8 * ((u + j) % kStages));
      await(v_full, j);
      release(v_free + 8 * ((u + j) % kStages));
    };
    const auto pass = [&](auto careful) {
#pragma unroll 1
      for (;; ++o, next_slot()) {
        barrier_wait(q_full + 8 * (part() % C::kSlots), part() / C::kSlots % 2);
        place = places + slot;
        if (place->n < 0) {
          __syncwarp();
          release(q_free + 8 * (part() % C::kSlots));  // a second pass waits for it
          break;
        }
        const int tiles = place->tiles;
        q = q0 + uint32_t(part() % C::kSlots) * kPartBytes - (C::kParts > 1 ? uint32_t(group) * 64 * 128 : 0);  // of the block's first row
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) y[0][j][0] = y[0][j][1] = y[0][j][2] = y[0][j][3] = 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) m[i] = float(-kInf), l[i] = 0;
        if constexpr (C::kHeld && !careful)
#pragma unroll
          for (int k = 0; k < kColumns / 16; ++k) Queries::left(rows_held[k], q, warp * 16, k);
        settled = false;
        if constexpr (kGeneral)
          if (p.slopes) slope = V(p.slopes[place->b * p.slopes_batch + place->head * p.slopes_head]) * V(kExpUnit<V>);
        if constexpr (careful) {
#pragma unroll 1
          for (int j = 0; j < tiles; ++j) {
            await(k_full, j);
            begin_scores(j, std::false_type{});
            wait_products<0>();
            pin(x[0]);
            release(k_free + 8 * ((u + j) % kStages));
            const bool uncapped = finish_scores(j, careful);
            float sooner[2] = {1, 1};
            if (!kGeneral || !work.two_sided) {
#pragma unroll
              for (int i = 0; i < 2; ++i) sooner[i] = catch_up<kShared>(x[0], i, m[i], l[i], unit, base[i]);
            }
            make_weights(uncapped);
#pragma unroll
            for (int i = 0; i < 2; ++i) shrink[i] *= sooner[i];
            scale_rows(y, shrink);
            to_weights();
            await(v_full, j);
            if (C::kShort || masked(j)) clean(j);  // kShort: always, so that a block's other rows do not show
            begin_weighted(j);
            wait_products<0>();
            pin(y[0]);
            release(v_free + 8 * ((u + j) % kStages));
          }
        } else {
          const int from = C::kApart ? seen().from : 0, to = C::kApart ? seen().to : tiles;  // each group has a turn less than there are tiles
#pragma unroll 1
          for (int j = 0; j < from; ++j) pass_by(j, j > 0 || from < tiles);
          if (from < to) {
            await(k_full, from);
            begin_scores(from, std::bool_constant<C::kHeld>{});
            wait_products<0>();
            pin(x[0]);
            release(k_free + 8 * ((u + from) % kStages));
            make_weights(finish_scores(from, careful));
            to_weights();
#pragma unroll 1
            for (int j = from; j + 1 < to; ++j) {
              await(k_full, j + 1);
              named_wait(1 + group, 256);
              begin_scores(j + 1, std::bool_constant<C::kHeld>{});
              await(v_full, j);
              begin_weighted(j);
              named_arrive(1 + (group + 1) % kGroups, 256);
              wait_products<1>();
              pin(x[0]);
              const bool rescale = make_weights(finish_scores(j + 1, careful));
              // Always: the assembler would put the wait first, and the weights would not be made under the product.
              if (!(l[0] + l[1] < 0)) release(k_free + 8 * ((u + j + 1) % kStages));
              wait_products<0>();
              pin(y[0]), pin(weights);
              release(v_free + 8 * ((u + j) % kStages));
              if (rescale) scale_rows(y, shrink);
              to_weights();
            }
            await(v_full, to - 1);
            begin_weighted(to - 1);
            wait_products<0>();
            pin(y[0]);
            release(v_free + 8 * ((u + to - 1) % kStages));
          }
#pragma unroll 1
          for (int j = to; j < tiles; ++j) pass_by(j, true);
        }
        u += tiles;
        float factor[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int r = first + 8 * i + g;
          const float sum = row_sum(l[i]);
          factor[i] = sum == 0 ? 0 : sum == float(kInf) ? float(kNaN) : 1 / sum;  // NaN: the second pass takes all of the row
          if (r >= place->n) continue;
          if (lane % 4 == 0 && p.lse.p) {
            float* const lse = row_of<float>(p.lse, *place, r);
            if (!careful || !(abs(V::of(*lse)) < V(kInf))) *lse = sum == 0 ? float(-kInf) : fma(V::of(m[i]), V(1 / kExpUnit<V>), log(V::of(sum))).v;
          }
        }
        // In the second pass numbers that are finite stay: that others are not must not show in them.
        T* const out = row_of<T>(p.y, *place, 0);
        if (!careful && work.y_chunks && dv == kColumns && first + 16 <= place->n) {
          if (!write_whole_rows<Queries, T, kColumns>(y, factor, q, first, out, p.y.row)) spoiled = true;
        } else {
          if constexpr (!careful) {
            float zeros[2] = {};
#pragma unroll
            for (int j = 0; j < kColumns / 8; ++j)
#pragma unroll
              for (int i = 0; i < 4; ++i) zeros[i / 2] = fma(V::of(y[0][j][i]), V(0), V::of(zeros[i / 2])).v;
            if ((first + g < place->n && zeros[0] != 0) || (first + 8 + g < place->n && zeros[1] != 0)) spoiled = true;
          }
          write_rows<Queries, T, kColumns, 1, careful>(y, factor, q, first, place->n, 0, dv, work.y_chunks, [&](int r) { return out + r * p.y.row; });
          publish();
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(q_free + 8 * (part() % C::kSlots));
      }
      ++o, next_slot();
    };
    pass(std::false_type{});
    __syncwarp();
    release(all_done);
    barrier_wait(all_done, 0);
    if (spoiled) pass(std::true_type{});
  }
#endif
}

inline bool make_map(CUtensorMap& map, bool is_f16, const SdpaTensor& t, int64_t batch, int64_t heads, int64_t rows, int64_t width, int box) {
  return hopper::make_map(map, is_f16, t.p, {batch, heads, rows, width}, {t.batch, t.head, t.row, 1}, box);
}
template <class T, int kColumns, Scores kScores, int kGroups, bool kShort = false> int launch_groups(const SdpaCuda& p, void* stream) {
  using C = WgmmaShape<kColumns, kScores, kGroups, kShort>;
  const bool varlen = p.cu_q != nullptr;
  const int64_t batch = varlen ? 1 : p.batch, rows = varlen ? p.total_q : p.q_len, keys = varlen ? p.total_k : p.k_len;
  WgmmaWork work{p};
  if (!make_map(work.q, kIsF16<T>, p.q, batch, p.heads, rows, p.head_dim, C::kPartRows) || !make_map(work.k, kIsF16<T>, p.k, batch, p.kv_heads, keys, p.head_dim, C::kKeys) ||
      !make_map(work.v, kIsF16<T>, p.v, batch, p.kv_heads, keys, p.head_dim_v, C::kKeys))
    return sdpa_cuda_mma.forward[kIsF16<T> ? DType::f16 : DType::bf16](p, stream);
  constexpr int64_t kCached = 8 << 20;
  const int64_t one = p.k_len * (p.head_dim + p.head_dim_v) * 2;
  work.heads = uint32_t(p.batch * p.heads), work.parts = uint32_t(device::ceil_div(p.q_len, C::kRows));
  const int64_t shift = p.top_left ? 0 : p.k_len - p.q_len, filling = most(0, device::ceil_div(p.left + 1 - shift, C::kRows));  // first blocks of a head, whose windows begin before the keys
  const bool alike = !p.next && p.left >= 0 && p.right >= 0 && 2 * filling <= work.parts;
  const bool full = p.left < 0 && p.right < 0, in_turn = !p.next && !full && p.left < 0 && work.parts <= 4 && p.multiprocessors % work.parts == 0;
  work.pairs = !p.next && !alike && !full && !in_turn && int64_t(work.heads) * work.parts > p.multiprocessors;
  work.section = uint32_t(most(1, least(p.batch * p.heads, in_turn ? p.multiprocessors / work.parts : kCached / one * p.group)));
  const auto items_of = [&](int64_t heads) { return work.pairs ? heads * (work.parts / 2) + (work.parts % 2 ? (heads + 1) / 2 : 0) : heads * (work.parts - work.late); };
  if (alike) work.late = uint32_t(filling);
  if (p.next) work.late = uint32_t(std::ceil(least(double(work.parts), std::sqrt(4.0 * p.multiprocessors * work.parts / work.heads))));
  work.y_chunks = in_chunks(p.y), work.left = int(least(p.left, 1 << 30)), work.right = int(least(p.right, 1 << 30));
  if (p.next)
    if (const cudaError_t e = cudaMemsetAsync(p.next, 0, sizeof(int), static_cast<cudaStream_t>(stream))) return int(e);
  const double factor = (p.softcap != 0 ? p.softcap : p.scale) * kExpUnit<Pack<float, 1>>;
  work.two_sided = p.slopes && (p.right != 0 || !(factor > 0x1p-60));
  work.factor = float(factor), work.inverse = float(1 / factor), work.unit = work.two_sided || !(factor > 0) ? 1 : work.factor;
  work.inward = p.softcap != 0 ? float(p.scale / p.softcap * kTanhUnit<T>) : 0;
  work.in_section = uint32_t(most(1, items_of(work.section)));
  const int64_t items = work.heads / work.section * items_of(work.section) + items_of(work.heads % work.section) + int64_t(work.heads) * work.late;
  work.rounds = uint32_t(most(0, items / p.multiprocessors - (items % p.multiprocessors != 0 ? 1 : 0)));
  return items ? device::launch(wgmma_kernel<T, kColumns, kScores, kGroups, kShort>, unsigned(least(items, p.multiprocessors)), C::kThreads, C::kBytes, stream, work) : 0;
}
template <class T, int kColumns, Scores kScores> int launch_wgmma(const SdpaCuda& p, void* stream) {
  if constexpr (kColumns <= 64)  // 192 rows share a tile's loads; of few queries too many of them would be none
    if (p.q_len > 640) return launch_groups<T, kColumns, kScores, 3>(p, stream);
  return launch_groups<T, kColumns, kScores, 2>(p, stream);
}
// Tiles of 64 keys at up to 64 columns: blocks of 256 queries where they are more than the multiprocessors, else of 128, with the same bits.
template <class T, Scores kScores> int launch_short(const SdpaCuda& p, void* stream) {
  const bool many = p.q_len > 128 && p.batch * p.heads * device::ceil_div(p.q_len, 256) > p.multiprocessors;
  return many ? launch_groups<T, 64, kScores, 4, true>(p, stream) : launch_groups<T, 64, kScores, 2, true>(p, stream);
}
template <template <class, int> class F, class T> int by_columns(const SdpaCuda& p, void* stream) {
  const int64_t width = most(p.head_dim, p.head_dim_v);
  if (width <= 64) return F<T, 64>::launch(p, stream);
  if (width <= 96) return F<T, 96>::launch(p, stream);
  if (width <= 128) return F<T, 128>::launch(p, stream);
  return width <= 192 ? F<T, 192>::launch(p, stream) : F<T, 256>::launch(p, stream);
}

}  // namespace attention
}  // namespace baracuda
