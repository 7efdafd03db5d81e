// Gradients on Hopper's tensor cores (wgmma) in one pass over blocks of keys (attention_ordered.cuh), head dims from 65 to 128. Two warpgroups own 64 keys
// each: s^T = k q^T, dp^T = v dy^T, dv += p^T dy, dk += ds^T q with weights in registers, and, of ds of both in shared memory, halves of the columns of
// dq = ds k. Products queue up, so that the tensor cores always have some: the next tile's scores before the two meet, dq and dk of this one, under which
// the first half of the next one's p is made, its dp, under which the other is, dv, under which dq is handed over and its ds is made. A third warpgroup has
// tiles brought and dq added by the copy engine.
// kGeneral: softcap or ALiBi; p times the softcap's derivative, which ds is made of, takes the registers of the weights of dk, so that dk ends before p is made.
#include "baracuda/ops/attention/attention_ordered.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

template <int kWidth> struct Config {
  static constexpr bool kStays = false;
  static constexpr int kWide = sdpa_ordered_width(kWidth, kWidth);  // columns that shared memory holds, the further ones 0
  static constexpr int kRows = sdpa_ordered_keys(kWidth), kWorkers = 256, kThreads = 384, kTile = kQueryTile<kWidth>;  // keys of a block, queries of a tile
  static constexpr int kQueries = 3;  // tiles of q that shared memory holds; of dy two
  static constexpr uint32_t kTileBytes = kTile * kWide * 2, kRowsBytes = kRows * kWide * 2, kSlopeBytes = kRows * kTile * 2;
  static constexpr size_t kBytes = 2 * kRowsBytes + (kQueries + 2) * kTileBytes + 2 * kSlopeBytes + 2 * kPartBytes + kQueries * kTile * 8 + 1024;
};

template <class T, int kWidth, bool kGeneral> __global__ void __launch_bounds__(Config<kWidth>::kThreads, 1) keys_kernel(const __grid_constant__ Work work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using C = Config<kWidth>;
  constexpr int kTile = C::kTile, kSums = kTile / 8, kQueries = C::kQueries, kRest = kWidth % 64 == 0 ? 64 : kWidth % 64;  // columns of the second half of dq
  constexpr uint32_t kTileBytes = C::kTileBytes, kSlopeBytes = C::kSlopeBytes;
  static_assert(kTile == 64);
  const SdpaCuda& p = work.p;
  extern __shared__ char memory[];
  __shared__ Place place;
  __shared__ uint64_t barriers[15];
  __shared__ bool bad_key[C::kRows];
  __shared__ int2 seen_by[C::kRows];  // queries
  __shared__ int largest[3];          // f16: a sum of |dy|, a |delta|, a |v|
  const uint32_t k0 = (shared_address(memory) + 1023) / 1024 * 1024, v0 = k0 + C::kRowsBytes, q0 = v0 + C::kRowsBytes, dy0 = q0 + kQueries * kTileBytes, ds0 = dy0 + 2 * kTileBytes,
                 dq0 = ds0 + 2 * kSlopeBytes, sums0 = dq0 + 2 * kPartBytes;
  // Full: it has come; free: whoever reads it is done. q_full stands for the sums too.
  const uint32_t k_full = shared_address(barriers), q_full = k_full + 8, q_free = q_full + 8 * kQueries, dy_full = q_free + 8 * kQueries, dy_free = dy_full + 16, dq_full = dy_free + 16,
                 dq_free = dq_full + 16;
  if (threadIdx.x == 0) {
    take_place<2, C::kRows, kTile>(work, place);
    barrier_init(k_full, 1);
    for (int i = 0; i < kQueries; ++i) barrier_init(q_full + 8 * i, 1), barrier_init(q_free + 8 * i, 8);
    for (int i = 0; i < 2; ++i) barrier_init(dy_full + 8 * i, 1), barrier_init(dy_free + 8 * i, 8), barrier_init(dq_full + 8 * i, 4), barrier_init(dq_free + 8 * i, 1);
    barriers_made();
    if (place.all > 0) bring_keys<C::kRows, C::kWide>(work, place, k0, v0, k_full);
  }
  if (!look_at_block<T, C::kThreads>(p, place, bad_key, seen_by, largest)) return;

  if (int(threadIdx.x) >= C::kWorkers) {
    give_registers<24>();
    const int warp = int(threadIdx.x) % 128 / 32;
    if (threadIdx.x % 32 != 0 || place.all == 0) return;
    if (warp == 0) bring_tiles<kTile, C::kWide, kQueries, 2>(work, place, q0, sums0, q_full, q_free, dy0, dy_full, dy_free);
    else if (warp <= 2) add_in_turn<2, 2, C::kRows, kTile, kRest>(p, place, warp - 1, dq0, dq_full, dq_free);
  } else {
    take_registers<240>();
    using Keys = MmaTile<T, C::kWide, C::kWorkers, C::kRows>;
    using Queries = MmaTile<T, C::kWide, C::kWorkers, kTile>;
    const int warp = __shfl_sync(kAllLanes, int(threadIdx.x) / 32, 0), group = warp / 4, lane = int(threadIdx.x) % 32, t = lane % 4, first = warp * 16;
    const auto row = [](int r) {  // the thread's, of a product
      const int at = int(anew(threadIdx.x));
      return at / 32 * 16 + at % 32 / 4 + 8 * r;
    };
    const uint32_t my_slopes = ds0 + uint32_t((first + lane % 16) * 128 + ((7 ^ lane / 16 ^ lane % 8) << 4));  // where the lane has the last row of ds stored
    const uint32_t mine = uint32_t(group) * 64 * 128;                                                         // the warpgroup's rows of k and v
    float dk[1][kWidth / 8][4] = {}, dv[1][kWidth / 8][4] = {}, x[1][kSums][4], y[1][kSums][4];
    uint32_t weights[kSums][2], slopes[kSums][2], seen[2];
    bool bad = false;
    if (place.all > 0) {
      barrier_wait(k_full, 0);
      bad = clean_keys<T, C::kWide, C::kRows>(k0, bad_key);
      if constexpr (kIsF16<T>) find_largest_value<C::kWide, C::kRows>(v0, place.n, largest);
    }
    // lse of half of a tile's queries, delta of all: of plain scores read before they are needed, for a read waits long while products read shared memory, too.
    [[maybe_unused]] float2 lse[kSums / 2], delta[kSums];
    const auto read_lse = [&](int u, int from) {
      const uint32_t sums = sums0 + uint32_t(u % kQueries) * 2 * kTile * 4;
#pragma unroll
      for (int j = 0; j < kSums / 2; ++j) lse[j] = load_shared_pair(sums + 8 * (4 * (from + j) + t));
    };
    const auto read_delta = [&](int u) {
      const uint32_t sums = sums0 + uint32_t(u % kQueries) * 2 * kTile * 4;
#pragma unroll
      for (int j = 0; j < kSums; ++j) delta[j] = load_shared_pair(sums + 4 * kTile + 8 * (4 * j + t));
    };
    const auto begin_scores = [&](int u) {
      const int i = u % kQueries;
      barrier_wait(q_full + 8 * i, uint32_t(u / kQueries) % 2);
      if constexpr (!kGeneral) read_lse(u, 0);
      begin_dots<T, kWidth, C::kRows, kTile>(x[0], k0 + mine, q0 + uint32_t(i) * kTileBytes);
    };
    const auto begin_slopes = [&](int u) {
      const int i = u % 2;
      barrier_wait(dy_full + 8 * i, uint32_t(u / 2) % 2);
      begin_dots<T, kWidth, C::kRows, kTile>(y[0], v0 + mine, dy0 + uint32_t(i) * kTileBytes);
    };
    const auto begin_dv = [&](int u) { begin_weighted<T>(dv[0], weights, dy0 + anew(uint32_t(u % 2)) * kTileBytes); };
    const auto begin_dk = [&](int u) { begin_weighted<T>(dk[0], slopes, q0 + anew(uint32_t(u % kQueries)) * kTileBytes); };
    // The warpgroup's columns of dq, in registers of dp; past kWidth they are 0.
    const auto begin_dq = [&](int u) {
      const uint64_t left = operand(anew(ds0) + uint32_t(u % 2) * kSlopeBytes), right = operand(k0 + uint32_t(group) * C::kRows * 128);
      begin_part<T, C::kRows>(y[0], left, right);
    };
    const float inverse = kIsF16<T> ? power_of_two(-slope_power(largest)) : 1;
    // The part leaves its registers, then publish_dq hands it over.
    const auto store_dq = [&](int u) {
      pin(y[0]);
      barrier_wait(dq_free + 8 * group, uint32_t(u + 1) % 2);
      const uint32_t to = dq0 + group * kPartBytes;
      if (kRest != 64 && group == 1) put_part<T>(reinterpret_cast<const float(&)[kRest / 8][4]>(y[0]), inverse, to);
      else put_part<T>(y[0], inverse, to);
    };
    const auto publish_dq = [&] {
      publish();
      __syncwarp();
      if (lane == 0) barrier_arrive(dq_full + 8 * group);
    };
    int query = place.last * kTile, head = 0;
    const auto is_masked = [&] { return query < place.all_from || query + kTile > place.all_to; };
    [[maybe_unused]] uint32_t capped[kSums][2];
    const auto look_at_scores = [&] {
      pin(x[0]);
      if (bad) {
#pragma unroll
        for (int j = 0; j < kSums; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) x[0][j][e] = bad_key[row(e / 2)] ? float(kNaN) : x[0][j][e];
      }
    };
    const auto weigh_half = [&](int from) {
#pragma unroll
      for (int j = 0; j < kSums / 2; ++j) to_weights(x[0][from + j], lse[j], work.unit);
    };
    // A tile's weights of its scores: of plain ones the first half before dp is begun.
    const auto begin_weights = [&](int u) {
      if constexpr (kGeneral) return;
      weigh_half(0);
      read_lse(u, kSums / 2);
    };
    const auto end_weights = [&](int u, bool masked) {
      if constexpr (kGeneral)
        to_weights<T>(x[0], weights, sums0 + uint32_t(u % kQueries) * 2 * kTile * 4, work, scores_of<kTile, C::kRows>(p, place, place.head0 + head, query, row(0)), [&](int j, uint32_t a, uint32_t b) { capped[j][0] = a, capped[j][1] = b; });
      else weigh_half(kSums / 2);
      if (masked) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const uint32_t of_row = queries_seen<kTile>(seen_by[row(r)], query);
          if constexpr (kGeneral) keep_seen(weights, r, of_row);
          else keep_seen(x[0], r, of_row);
        }
      }
      if constexpr (!kGeneral) {
#pragma unroll
        for (int j = 0; j < kSums; ++j) weights[j][0] = pair<T>(x[0][j][0], x[0][j][1]), weights[j][1] = pair<T>(x[0][j][2], x[0][j][3]);
      }
    };
    // Weights of 0 must not meet what is not finite, which shows in the sums of its query. Behind the products that make scores and dp.
    const auto clean = [&](int u) {
      const uint32_t q = q0 + uint32_t(u % kQueries) * kTileBytes, dy = dy0 + uint32_t(u % 2) * kTileBytes, sums = sums0 + uint32_t(u % kQueries) * 2 * kTile * 4;
      if (!any_odd<kTile>(sums)) return;
      wait_products<0>();
      if (named_any(2, C::kWorkers, Queries::template any_nonfinite<kTile>(q) || Queries::template any_nonfinite<kTile>(dy))) {
        Queries::template clean<kTile>(q), Queries::template clean<kTile>(dy);
        publish();
        named_wait(2, C::kWorkers);
        const int left = int(place.s.q_len) - query;
#pragma unroll
        for (int r = 0; r < 2; ++r) seen[r] = queries_seen<kTile>(seen_by[row(r)], query);
        add_nonfinite<T, kWidth, 1>(dv, seen, row_at<const T>(p.dy, place.s, place.head0 + head, place.s.q_start + query), p.dy.row, left < kTile ? left : kTile, 0, int(p.head_dim_v));
      }
    };
    const auto end_dk = [&](int u) {
      pin(dk[0]), pin(slopes);
      if (lane == 0) barrier_arrive(q_free + 8 * (u % kQueries));
    };
    // A tile's ds, of its weights and dp.
    const auto slope = [&](int u, bool masked) {
      if constexpr (kGeneral) read_delta(u);
      pin(y[0]);
      const float factor = kIsF16<T> ? power_of_two(slope_power(largest) - kWeightPower<T>) : 1;
#pragma unroll
      for (int j = 0; j < kSums; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const uint32_t of = kGeneral ? capped[j][e / 2] : weights[j][e / 2];
          y[0][j][e] = slope_of<T>((e % 2 ? high_value<T>(of) : low_value<T>(of)).v, y[0][j][e], e % 2 ? delta[j].y : delta[j].x, factor);
        }
      }
      if (masked) {
#pragma unroll
        for (int r = 0; r < 2; ++r) keep_seen(y[0], r, queries_seen<kTile>(seen_by[row(r)], query));
      }
#pragma unroll
      for (int j = 0; j < kSums; ++j) slopes[j][0] = pair<T>(y[0][j][0], y[0][j][1]), slopes[j][1] = pair<T>(y[0][j][2], y[0][j][3]);
#pragma unroll
      for (int j = 0; j < kSums; j += 2)
        store_fragments((anew(my_slopes) + uint32_t(u % 2) * kSlopeBytes) ^ uint32_t((7 - j) << 4), slopes[j][0], slopes[j][1], slopes[j + 1][0], slopes[j + 1][1]);
      publish();
      if (++head == place.heads) head = 0, query -= kTile;
    };
    const auto end_dv = [&](int u) {
      pin(dv[0]), pin(weights);
      if (lane == 0) barrier_arrive(dy_free + 8 * (u % 2));
    };
    const auto write_dv = [&] { write_keys<Keys, T, kWidth>(work, place, true, dv, kWeightUnit<T>, v0, first); };  // v is read no more
    if (place.all > 0) {
      int u = 0;
      bool masked = is_masked();
      begin_scores(u);
      wait_products<0>();
      look_at_scores();
      begin_weights(u);
      end_weights(u, masked);
      begin_slopes(u);
      if (masked) clean(u);
      begin_dv(u);
      if constexpr (!kGeneral) read_delta(u);
      wait_products<1>();
      slope(u, masked);
      wait_products<0>();
      end_dv(u);
#pragma unroll 1
      for (; u < place.all - 1; ++u) {
        pin(x[0]), pin(y[0]), pin(dk[0]), pin(dv[0]);
        masked = is_masked();
        begin_scores(u + 1);
        named_wait(1, C::kWorkers);  // ds of both is there
        begin_dq(u);
        begin_dk(u);
        if constexpr (kGeneral) {
          wait_products<1>();
          store_dq(u);
          begin_slopes(u + 1);
          publish_dq();
          wait_products<1>();
          end_dk(u);
          look_at_scores();
          end_weights(u + 1, masked);
        } else {
          wait_products<2>();
          look_at_scores();
          begin_weights(u + 1);
          wait_products<1>();
          store_dq(u);
          begin_slopes(u + 1);
          end_weights(u + 1, masked);
        }
        if (masked) clean(u + 1);
        begin_dv(u + 1);
        if constexpr (!kGeneral) {
          publish_dq();
          wait_products<2>();
          end_dk(u);
          read_delta(u + 1);
        }
        wait_products<1>();
        slope(u + 1, masked);
        wait_products<0>();
        end_dv(u + 1);
      }
      named_wait(1, C::kWorkers);
      pin(y[0]);
      begin_dq(u);
      begin_dk(u);
      wait_products<1>();
      store_dq(u), publish_dq();
      write_dv();  // under dk
      wait_products<0>();
      pin(dk[0]), pin(slopes);
    } else write_dv();
    write_keys<Keys, T, kWidth>(work, place, false, dk, kIsF16<T> && place.all > 0 ? power_of_two(-slope_power(largest)) : 1, v0, first);
  }
#endif
}

template <class T, int kWidth> int launch_width(const SdpaCuda& p, void* stream) {
  return launch_ordered<T, Config<kWidth>::kWide, Config<kWidth>>(p, general(p) ? keys_kernel<T, kWidth, true> : keys_kernel<T, kWidth, false>, stream);
}
template <class T> int backward(const SdpaCuda& p, void* stream) { return most(p.head_dim, p.head_dim_v) <= 96 ? launch_width<T, 96>(p, stream) : launch_width<T, 128>(p, stream); }

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_backward_pair = {attention::of_halves(backward<f16>, backward<bf16>)};

}  // namespace baracuda
