// Gradients on Hopper's tensor cores (wgmma) in one pass over blocks of keys (attention_ordered.cuh), head dims up to 64.
//   keys kernel   two warpgroups own 64 keys each: s^T = k q^T, dp^T = v dy^T, dv += p^T dy, dk += ds^T q with the weights in registers; ds by way of shared memory
//                 to a third one, which makes the halves of dq = ds k (softcap: ds is made of p times the derivative, which waits in shared memory). Products queue
//                 up: the next tile's scores, dk, under which the first half of the weights are made, dp, under which the others are, dv, under which ds is made
//                 (stored, where blocks do not stay, once the next scores and dk are begun). A fourth has tiles brought and dq added by the copy engine.
//                 kStays (bf16, plain scores, short sequences): thread blocks stay and take blocks of keys one after the other, the next one's k, v and tiles under the
//                 writing of this one
#include "baracuda/ops/attention/attention_ordered.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

constexpr int kWidth = 64;
template <Formula kFormula, bool kStaying> struct Config {
  static constexpr int kRows = sdpa_ordered_keys(kWidth), kWorkers = 256, kThreads = 512, kTile = kQueryTile<kWidth>;  // keys of a block, queries of a tile
  static constexpr bool kCapped = kFormula == Formula::capped || kFormula == Formula::both;
  static constexpr bool kStays = kStaying;  // thread blocks stay: there is room for the next block's k and v
  static constexpr int kHeld = kStays ? 2 : 1, kSlots = kStays || kCapped ? 1 : 2;  // blocks of keys, tiles of ds that shared memory holds
  static constexpr int kTaken = 208, kGiven = 64, kLeft = 32;                      // registers: of workers, of the third warpgroup, of the fourth
  static constexpr size_t kBytes = size_t(2 * kHeld * kRows + 4 * kTile) * kWidth * 2 + (kSlots + kCapped) * kRows * kTile * 2 + 2 * kPartBytes + 2 * kTile * 8 + 1024;
};

template <class T, Formula kFormula, bool kStays> __global__ void __launch_bounds__(Config<kFormula, kStays>::kThreads, 1) keys_kernel(const __grid_constant__ Work work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using C = Config<kFormula, kStays>;
  constexpr int kTile = C::kTile, kSums = kTile / 8;
  constexpr uint32_t kTileBytes = kTile * kWidth * 2, kRowsBytes = C::kRows * kWidth * 2, kSlopeBytes = C::kRows * kTile * 2;
  const SdpaCuda& p = work.p;
  extern __shared__ char memory[];
  __shared__ Place places[C::kHeld];
  __shared__ uint64_t barriers[22];
  __shared__ bool bad_key[C::kRows];
  __shared__ int2 seen_by[C::kRows];  // queries
  __shared__ int largest[3];  // f16: a sum of |dy|, a |delta|, a |v|
  const uint32_t kv0 = (shared_address(memory) + 1023) / 1024 * 1024, q0 = kv0 + 2 * C::kHeld * kRowsBytes, dy0 = q0 + 2 * kTileBytes, ds0 = dy0 + 2 * kTileBytes,
                 dq0 = ds0 + C::kSlots * kSlopeBytes, sums0 = dq0 + 2 * kPartBytes, capped0 = sums0 + 4 * kTile * 4;
  // Full: it has come; free: whoever reads it is done. q_full stands for the sums too.
  const uint32_t q_full = shared_address(barriers), dy_full = q_full + 16, q_free = dy_full + 16, dy_free = q_free + 16, dq_full = dy_free + 16, dq_free = dq_full + 16,
                 ds_full = dq_free + 16, ds_free = ds_full + 16, place_full = ds_free + 16, place_free = place_full + 16, k_full = place_free + 16;
  if (threadIdx.x == 0) {
    if constexpr (!kStays) take_place<2, C::kRows, kTile>(work, places[0]);
    for (int i = 0; i < 2; ++i) {
      barrier_init(q_full + 8 * i, 1), barrier_init(dy_full + 8 * i, 1), barrier_init(q_free + 8 * i, 8), barrier_init(dy_free + 8 * i, 8);
      barrier_init(ds_full + 8 * i, 8), barrier_init(ds_free + 8 * i, 4), barrier_init(dq_full + 8 * i, 128), barrier_init(dq_free + 8 * i, 1);
      barrier_init(place_full + 8 * i, 1), barrier_init(place_free + 8 * i, 15), barrier_init(k_full + 8 * i, 1);
    }
    barriers_made();
  }
  if (kIsF16<T> && threadIdx.x < 3) largest[threadIdx.x] = 0;
  const auto look_at_keys = [&](const Place& place) {
    if (int(threadIdx.x) < C::kRows) bad_key[threadIdx.x] = false, seen_by[threadIdx.x] = queries_seeing(place.mask, place.s, place.key0 + int(threadIdx.x));
  };
  const bool falls = __syncthreads_or(lengths_fall<C::kThreads>(p));
  if constexpr (!kStays) {
    if (places[0].n <= 0) return;
    if (threadIdx.x == 0) places[0].falls = falls;
    look_at_keys(places[0]);
    if constexpr (kIsF16<T>) find_largest<C::kThreads>(p, places[0], largest);
    __syncthreads();
  }

  if (int(threadIdx.x) >= C::kWorkers + 128) {
    give_registers<C::kLeft>();
    const int warp = int(threadIdx.x) % 128 / 32;
    if (threadIdx.x % 32 != 0 || warp > 2) return;
    int done = 0;  // tiles of blocks before, here and below
#pragma unroll 1
    for (int block = 0; block == 0 || kStays; ++block) {
      const int held = block % C::kHeld;
      const uint32_t turn = uint32_t(block / C::kHeld), k0 = kv0 + held * 2 * kRowsBytes, v0 = k0 + kRowsBytes;
      Place& place = places[held];
      if constexpr (kStays) barrier_wait(place_full + 8 * held, turn % 2);
      if (place.all < 0) return;
      if (warp != 0) add_in_turn<2, 2, C::kRows, kTile, 64>(p, place, warp - 1, dq0, dq_full, dq_free, done);
      else if (place.all == 0) barrier_arrive(k_full + 8 * held);
      else {
        bring_keys<C::kRows, kWidth>(work, place, k0, v0, k_full + 8 * held);
        bring_tiles<kTile, kWidth, 2, 2>(work, place, q0, sums0, q_full, q_free, dy0, dy_full, dy_free, done);
      }
      if constexpr (kStays) {
        done += place.all;
        barrier_arrive(place_free + 8 * held);
      }
    }
  } else if (int(threadIdx.x) >= C::kWorkers) {
    give_registers<C::kGiven>();
    const int lane = int(threadIdx.x) % 32;
    float dq[8][4];
    int done = 0;
#pragma unroll 1
    for (int block = 0; block == 0 || kStays; ++block) {
      const int held = block % C::kHeld;
      const uint32_t turn = uint32_t(block / C::kHeld), k0 = kv0 + held * 2 * kRowsBytes;
      if constexpr (kStays) {
        if (threadIdx.x == C::kWorkers) {  // this warpgroup has the registers for it
          barrier_wait(place_free + 8 * held, (turn + 1) % 2);
          take_place<2, C::kRows, kTile>(work, places[held]);
          places[held].falls = falls;
          barrier_arrive(place_full + 8 * held);
        }
        __syncwarp();
        barrier_wait(place_full + 8 * held, turn % 2);
      }
      const int all = places[held].all;
      if (all < 0) return;
      if (all > 0) barrier_wait(k_full + 8 * held, turn % 2);
#pragma unroll 1
      for (int u = done; u < done + all; ++u) {
        const int at = u % C::kSlots;
        barrier_wait(ds_full + 8 * at, uint32_t(u / C::kSlots) % 2);
        const float inverse = kIsF16<T> ? power_of_two(-slope_power(largest)) : 1;
#pragma unroll 1
        for (int c = 0; c < 2; ++c) {
          const uint64_t left = operand(anew(ds0) + uint32_t(at) * kSlopeBytes + uint32_t(c) * C::kRows * 128), right = operand(k0);
          pin(dq);
          begin_part<T, C::kRows>(dq, left, right);
          wait_products<0>();
          pin(dq);
          if (c == 1 && lane == 0) barrier_arrive(ds_free + 8 * at);
          barrier_wait(dq_free + 8 * c, uint32_t(u + 1) % 2);
          put_part<T>(dq, inverse, dq0 + c * kPartBytes);
          publish();
          barrier_arrive(dq_full + 8 * c);
        }
      }
      if constexpr (kStays) {
        done += all;
        __syncwarp();
        if (lane == 0) barrier_arrive(place_free + 8 * held);
      }
    }
  } else {
    take_registers<C::kTaken>();
    using Keys = MmaTile<T, kWidth, C::kWorkers, C::kRows>;
    using Queries = MmaTile<T, kWidth, C::kWorkers, kTile>;
    const int warp = __shfl_sync(kAllLanes, int(threadIdx.x) / 32, 0), group = warp / 4, lane = int(threadIdx.x) % 32, t = lane % 4, first = warp * 16;
    const auto row = [](int r) {  // the thread's, of a product
      const int at = int(anew(threadIdx.x));
      return at / 32 * 16 + at % 32 / 4 + 8 * r;
    };
    const uint32_t my_slopes = ds0 + uint32_t((first + lane % 16) * 128 + ((lane / 16 ^ lane % 8) << 4));  // where the lane has a row of ds stored
    const uint32_t mine = uint32_t(group) * 64 * 128;                                                     // the warpgroup's rows of k and v
    [[maybe_unused]] const uint32_t my_capped = capped0 + 8 * threadIdx.x;  // the thread's weights times the softcap's derivative, two words at a step of 2048 bytes
    int done = 0;
#pragma unroll 1
    for (int block = 0; block == 0 || kStays; ++block) {
      const int held = block % C::kHeld;
      const uint32_t turn = uint32_t(block / C::kHeld), k0 = kv0 + held * 2 * kRowsBytes, v0 = k0 + kRowsBytes;
      const Place& place = places[held];
      if constexpr (kStays) {
        barrier_wait(place_full + 8 * held, turn % 2);
        if (place.all < 0) return;
        look_at_keys(place);
      }
      float dk[1][kWidth / 8][4] = {}, dv[1][kWidth / 8][4] = {}, x[1][kSums][4], y[1][kSums][4];
      uint32_t weights[kSums][2], slopes[kSums][2], seen[2];
      bool bad = false;
      if (place.all > 0) {
        barrier_wait(k_full + 8 * held, turn % 2);
        bad = clean_keys<T, kWidth, C::kRows>(k0, bad_key);
        if constexpr (kIsF16<T>) find_largest_value<kWidth, C::kRows>(v0, place.n, largest);
      }
      const auto begin_scores = [&](int u) {
        const int i = u % 2;
        barrier_wait(q_full + 8 * i, uint32_t(u / 2) % 2);
        begin_dots<T, kWidth, C::kRows, kTile>(x[0], k0 + mine, q0 + uint32_t(i) * kTileBytes);
      };
      const auto begin_slopes = [&](int u) {
        const int i = u % 2;
        barrier_wait(dy_full + 8 * i, uint32_t(u / 2) % 2);
        begin_dots<T, kWidth, C::kRows, kTile>(y[0], v0 + mine, dy0 + uint32_t(i) * kTileBytes);
      };
      const auto begin_dk = [&](int u) { begin_weighted<T>(dk[0], slopes, q0 + anew(uint32_t(u % 2)) * kTileBytes); };
      const auto end_dk = [&](int u) {
        wait_products<0>();
        pin(dk[0]), pin(slopes);
        if (lane == 0) barrier_arrive(q_free + 8 * (u % 2));
      };
      // The tile's ds for dq, which blocks that do not stay store once the products that do not need it are on their way.
      const auto store_slopes = [&](int u) {
        const int at = u % C::kSlots;
        barrier_wait(ds_free + 8 * at, uint32_t(u / C::kSlots + 1) % 2);
#pragma unroll
        for (int j = 0; j < kSums; j += 2)
          store_fragments((anew(my_slopes) + uint32_t(at) * kSlopeBytes + uint32_t(j / 8 * C::kRows * 128)) ^ uint32_t(j % 8 << 4), slopes[j][0], slopes[j][1], slopes[j + 1][0], slopes[j + 1][1]);
        publish();
        __syncwarp();
        if (lane == 0) barrier_arrive(ds_full + 8 * at);
      };
      int query = place.last * kTile, head = 0;
      // From the scores of a tile, which are under way, to its ds, with its dv.
      const auto to_slopes = [&]<bool kFirst>(int u) {
        const int i = u % 2;
        const uint32_t q = q0 + uint32_t(i) * kTileBytes, dy = dy0 + uint32_t(i) * kTileBytes, sums = sums0 + uint32_t(i) * 2 * kTile * 4;
        const bool masked = query < place.all_from || query + kTile > place.all_to, odd = masked && any_odd<kTile>(sums);
        wait_products<kFirst ? 0 : 1>();
        pin(x[0]);
        if (bad) {
#pragma unroll
          for (int j = 0; j < kSums; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) x[0][j][e] = bad_key[row(e / 2)] ? float(kNaN) : x[0][j][e];
        }
        Scores scores{};
        if constexpr (kFormula != Formula::plain && kFormula != Formula::capped) scores = scores_of<kTile, C::kRows>(p, place, place.head0 + head, query, row(0));
#pragma unroll
        for (int j = 0; j < kSums; j += kWeighed) {
          if (j == kSums / 2) {
            if constexpr (!kFirst) end_dk(u - 1);
            begin_slopes(u);  // not before: there are no registers for it
          }
          to_weights<T, kFormula>(x[0], weights, j, sums, work, scores, [&](int n, uint32_t a, uint32_t b) {
            if constexpr (C::kCapped) store_shared_words(my_capped + uint32_t(n) * 2048, a, b);
          });
        }
        if (masked) {
#pragma unroll
          for (int r = 0; r < 2; ++r) keep_seen(weights, r, queries_seen<kTile>(seen_by[row(r)], query));
        }
        // Weights of 0 must not meet what is not finite, which shows in the sums of its query.
        if (odd) {
          wait_products<0>();
          if (named_any(2, C::kWorkers, Queries::template any_nonfinite<kTile>(q) || Queries::template any_nonfinite<kTile>(dy))) {
            Queries::template clean<kTile>(q), Queries::template clean<kTile>(dy);
            publish();
            named_wait(2, C::kWorkers);
            const int left = int(place.s.q_len) - query;
#pragma unroll
            for (int r = 0; r < 2; ++r) seen[r] = queries_seen<kTile>(seen_by[row(r)], query);
            add_nonfinite<T, kWidth, 1>(dv, seen, row_at<const T>(p.dy, place.s, place.head0 + head, place.s.q_start + query), p.dy.row, left < kTile ? left : kTile, 0,
                                        int(p.head_dim_v));
          }
        }
        begin_weighted<T>(dv[0], weights, dy0 + anew(uint32_t(i)) * kTileBytes);
        wait_products<1>();
        pin(y[0]);
        const float factor = kIsF16<T> ? power_of_two(slope_power(largest) - kWeightPower<T>) : 1;
#pragma unroll
        for (int j = 0; j < kSums; ++j) {
          const float2 delta = load_shared_pair(sums + 4 * kTile + 8 * (4 * j + t));
          uint32_t part[2] = {weights[j][0], weights[j][1]};
          if constexpr (C::kCapped) load_shared_words(my_capped + uint32_t(j) * 2048, part[0], part[1]);
#pragma unroll
          for (int e = 0; e < 4; ++e) y[0][j][e] = slope_of<T>((e % 2 ? high_value<T>(part[e / 2]) : low_value<T>(part[e / 2])).v, y[0][j][e], e % 2 ? delta.y : delta.x, factor);
          slopes[j][0] = pair<T>(y[0][j][0], y[0][j][1]), slopes[j][1] = pair<T>(y[0][j][2], y[0][j][3]);
        }
        if (masked) {
#pragma unroll
          for (int r = 0; r < 2; ++r) keep_seen(slopes, r, queries_seen<kTile>(seen_by[row(r)], query));
        }
        if constexpr (kStays) store_slopes(u);
        if (++head == place.heads) head = 0, query -= kTile;
        wait_products<0>();
        pin(dv[0]), pin(weights);
        if (lane == 0) barrier_arrive(dy_free + 8 * i);
      };
      if (place.all > 0) {
        int u = done;
        const int last = done + place.all - 1;
        begin_scores(u);
        to_slopes.template operator()<true>(u);
#pragma unroll 1
        for (; u < last; ++u) {
          pin(dk[0]), pin(dv[0]);
          begin_scores(u + 1);
          begin_dk(u);
          if constexpr (!kStays) store_slopes(u);
          to_slopes.template operator()<false>(u + 1);
        }
        begin_dk(u);
        if constexpr (!kStays) store_slopes(u);
        end_dk(u);
      }
      named_wait(1, C::kWorkers);  // v is read no more, nor are q and dy of a block that does not stay
      write_keys<Keys, T, kWidth>(work, place, false, dk, kIsF16<T> && place.all > 0 ? power_of_two(-slope_power(largest)) : 1, kStays ? v0 : q0, first);
      write_keys<Keys, T, kWidth>(work, place, true, dv, kWeightUnit<T>, v0, first);
      if constexpr (kStays) {
        done += place.all;
        publish();
        __syncwarp();
        if (lane == 0) barrier_arrive(place_free + 8 * held);
      }
    }
  }
#endif
}

template <class T, Formula kFormula, bool kStays = false> int launch_keys(const SdpaCuda& p, void* stream) {
  return launch_ordered<T, kWidth, Config<kFormula, kStays>>(p, keys_kernel<T, kFormula, kStays>, stream);
}
template <class T> int backward(const SdpaCuda& p, void* stream) {
  if (p.softcap != 0) return p.slopes ? launch_keys<T, Formula::both>(p, stream) : launch_keys<T, Formula::capped>(p, stream);
  if (p.slopes) return launch_keys<T, Formula::alibi>(p, stream);
  if constexpr (!kIsF16<T>)
    if (p.k_len <= 4096 || (p.left >= 0 && p.right >= 0 && p.left + p.right < 4096)) return launch_keys<T, Formula::plain, true>(p, stream);  // where many queries see a key, blocks that stay were 2 % slower
  return launch_keys<T, Formula::plain>(p, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_backward_ordered = {attention::of_halves(backward<f16>, backward<bf16>)};

}  // namespace baracuda
