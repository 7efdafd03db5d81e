// Gradients on Hopper's tensor cores (wgmma) in one pass over blocks of keys (attention_ordered.cuh), head dims up to 64.
//   keys kernel   two warpgroups own 64 keys each: s^T = k q^T, dp^T = v dy^T, dv += p^T dy, dk += ds^T q with the weights in registers; ds (kGeneral, softcap or ALiBi: from
//                 p times the softcap's derivative, which waits in shared memory) by way of shared memory to a third one, which makes the halves of dq = ds k.
//                 A fourth has tiles brought and dq added by the copy engine. kStays (bf16, plain scores, short sequences): thread blocks stay
//                 and take blocks of keys one after the other, the next one's k, v and tiles under the last products and the writing of this one
#include "baracuda/ops/attention/attention_ordered.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

constexpr int kWidth = 64;
template <bool kGeneral, bool kStaying> struct Config {
  static constexpr int kRows = sdpa_ordered_keys(kWidth), kWorkers = 256, kThreads = 512, kTile = kQueryTile<kWidth>;  // keys of a block, queries of a tile
  static constexpr bool kStays = kStaying;  // thread blocks stay: there is room for the next block's k and v
  static constexpr int kHeld = kStays ? 2 : 1;
  static constexpr size_t kBytes = size_t(2 * kHeld * kRows + 4 * kTile) * kWidth * 2 + (kGeneral ? 2 : 1) * kRows * kTile * 2 + 2 * kPartBytes + 2 * kTile * 8 + 1024;
};

template <class T, bool kGeneral, bool kStays> __global__ void __launch_bounds__(Config<kGeneral, kStays>::kThreads, 1) keys_kernel(const __grid_constant__ Work work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using C = Config<kGeneral, kStays>;
  constexpr int kTile = C::kTile, kSums = kTile / 8;
  constexpr uint32_t kTileBytes = kTile * kWidth * 2, kRowsBytes = C::kRows * kWidth * 2, kSlopeBytes = C::kRows * kTile * 2;
  const SdpaCuda& p = work.p;
  extern __shared__ char memory[];
  __shared__ Place places[C::kHeld];
  __shared__ uint64_t barriers[20];
  __shared__ bool bad_key[C::kRows];
  __shared__ int2 seen_by[C::kRows];  // queries
  __shared__ int largest[3];  // f16: a sum of |dy|, a |delta|, a |v|
  const uint32_t kv0 = (shared_address(memory) + 1023) / 1024 * 1024, q0 = kv0 + 2 * C::kHeld * kRowsBytes, dy0 = q0 + 2 * kTileBytes, ds0 = dy0 + 2 * kTileBytes,
                 dq0 = ds0 + kSlopeBytes, sums0 = dq0 + 2 * kPartBytes, second0 = sums0 + 4 * kTile * 4;
  // Full: it has come; free: whoever reads it is done. q_full stands for the sums too.
  const uint32_t q_full = shared_address(barriers), dy_full = q_full + 16, q_free = dy_full + 16, dy_free = q_free + 16, dq_full = dy_free + 16, dq_free = dq_full + 16,
                 ds_full = dq_free + 16, ds_free = ds_full + 8, place_full = ds_free + 8, place_free = place_full + 16, k_full = place_free + 16;
  if (threadIdx.x == 0) {
    if constexpr (!kStays) take_place<2, C::kRows, kTile>(work, places[0]);
    barrier_init(ds_full, 256), barrier_init(ds_free, 4);
    for (int i = 0; i < 2; ++i) {
      barrier_init(q_full + 8 * i, 1), barrier_init(dy_full + 8 * i, 1), barrier_init(q_free + 8 * i, 8), barrier_init(dy_free + 8 * i, 8);
      barrier_init(dq_full + 8 * i, 128), barrier_init(dq_free + 8 * i, 1);
      barrier_init(place_full + 8 * i, 1), barrier_init(place_free + 8 * i, 14), barrier_init(k_full + 8 * i, 1);
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
    give_registers<kStays ? 48 : 24>();
    const int warp = int(threadIdx.x) % 128 / 32;
    if (threadIdx.x % 32 != 0 || warp > 2) return;
    int done = 0;  // tiles of blocks before, here and below
#pragma unroll 1
    for (int block = 0; block == 0 || kStays; ++block) {
      const int held = block % C::kHeld;
      const uint32_t turn = uint32_t(block / C::kHeld), k0 = kv0 + held * 2 * kRowsBytes, v0 = k0 + kRowsBytes;
      Place& place = places[held];
      if (warp == 0) {
        if constexpr (kStays) {
          barrier_wait(place_free + 8 * held, (turn + 1) % 2);
          take_place<2, C::kRows, kTile>(work, place);
          place.falls = falls;
          barrier_arrive(place_full + 8 * held);
          if (place.all < 0) return;
        }
        if (place.all == 0) {
          barrier_arrive(k_full + 8 * held);
          continue;
        }
        bring_keys<C::kRows, kWidth>(work, place, k0, v0, k_full + 8 * held);
        bring_tiles<kTile, kWidth, 2, 2>(work, place, q0, sums0, q_full, q_free, dy0, dy_full, dy_free, done);
      } else {
        if constexpr (kStays) barrier_wait(place_full + 8 * held, turn % 2);
        if (place.all < 0) return;
        add_in_turn<2, 2, C::kRows, kTile, 64>(p, place, warp - 1, dq0, dq_full, dq_free, done);
      }
      if constexpr (kStays) {
        done += place.all;
        if (warp != 0) barrier_arrive(place_free + 8 * held);
      }
    }
  } else if (int(threadIdx.x) >= C::kWorkers) {
    give_registers<kStays ? 64 : 72>();
    const int lane = int(threadIdx.x) % 32;
    float dq[8][4];
    int done = 0;
#pragma unroll 1
    for (int block = 0; block == 0 || kStays; ++block) {
      const int held = block % C::kHeld;
      const uint32_t turn = uint32_t(block / C::kHeld), k0 = kv0 + held * 2 * kRowsBytes;
      if constexpr (kStays) barrier_wait(place_full + 8 * held, turn % 2);
      const int all = places[held].all;
      if (all < 0) return;
      if (all > 0) barrier_wait(k_full + 8 * held, turn % 2);
#pragma unroll 1
      for (int u = done; u < done + all; ++u) {
        barrier_wait(ds_full, uint32_t(u) % 2);
        const float inverse = kIsF16<T> ? power_of_two(-slope_power(largest)) : 1;
#pragma unroll 1
        for (int c = 0; c < 2; ++c) {
          const uint64_t left = operand(anew(ds0) + uint32_t(c) * C::kRows * 128), right = operand(k0);
          pin(dq);
          begin_products();
#pragma unroll
          for (int k = 0; k < C::kRows / 16; ++k) wgmma<T, 1, 1>(dq, further(left, k * 2048), further(right, k * 2048), k != 0);
          commit_products();
          wait_products<0>();
          pin(dq);
          if (c == 1 && lane == 0) barrier_arrive(ds_free);
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
    take_registers<kStays ? 200 : 208>();
    using Keys = MmaTile<T, kWidth, C::kWorkers, C::kRows>;
    using Queries = MmaTile<T, kWidth, C::kWorkers, kTile>;
    const int warp = __shfl_sync(kAllLanes, int(threadIdx.x) / 32, 0), group = warp / 4, lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4, first = warp * 16;
    const uint32_t mine = uint32_t(group) * 64 * 128;  // the warpgroup's rows of k and v
    [[maybe_unused]] const uint32_t mine2 = second0 + 8 * threadIdx.x;     // kGeneral: the thread's weights times the softcap's derivative, two words at a step of 2048 bytes
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
      float dk[1][kWidth / 8][4] = {}, dv[1][kWidth / 8][4] = {}, x[1][kSums][4];
      uint32_t weights[kSums][2], slopes[kSums][2], seen[2];
      bool bad = false;
      if (place.all > 0) {
        barrier_wait(k_full + 8 * held, turn % 2);
        bad = clean_keys<T, kWidth, C::kRows>(k0, bad_key);
        if constexpr (kIsF16<T>) find_largest_value<kWidth, C::kRows>(v0, place.n, largest);
      }
      const auto begin_dots = [&](float (&sum)[kSums][4], uint32_t rows, uint32_t tile) {
        const uint64_t a = operand(anew(rows + mine)), b = operand(tile);
        pin(sum);
        begin_products();
#pragma unroll
        for (int k = 0; k < kWidth / 16; ++k) wgmma<T>(sum, further(a, k * 32), further(b, k * 32), k != 0);
        commit_products();
      };
      pin(dk[0]), pin(dv[0]);
      int query = place.last * kTile, head = 0;
#pragma unroll 1
      for (int u = done, end = kStays ? done + place.all : 0; u < (kStays ? end : place.all); ++u) {
        const int i = u % 2;
        const uint32_t q = q0 + uint32_t(i) * kTileBytes, dy = dy0 + uint32_t(i) * kTileBytes, sums = sums0 + uint32_t(i) * 2 * kTile * 4;
        barrier_wait(q_full + 8 * i, uint32_t(u / 2) % 2);
        begin_dots(x[0], k0, q);
        const bool masked = query < place.all_from || query + kTile > place.all_to, odd = masked && any_odd<kTile>(sums);
        wait_products<0>();
        pin(x[0]);
        if (bad) {
#pragma unroll
          for (int j = 0; j < kSums; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) x[0][j][e] = bad_key[first + 8 * (e / 2) + g] ? float(kNaN) : x[0][j][e];
        }
        if constexpr (kGeneral)
          to_weights<T>(x[0], weights, sums, work, scores_of<kTile, C::kRows>(p, place, place.head0 + head, query, first + g),
                        [&](int j, uint32_t a, uint32_t b) { store_shared_words(mine2 + uint32_t(j) * 2048, a, b); });
        else to_weights(x[0], sums, work.unit);
        if (masked) {
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const uint32_t of_row = queries_seen<kTile>(seen_by[first + 8 * r + g], query);
            if constexpr (kGeneral) keep_seen(weights, r, of_row);
            else keep_seen(x[0], r, of_row);
          }
        }
        if constexpr (!kGeneral) {
#pragma unroll
          for (int j = 0; j < kSums; ++j) weights[j][0] = pair<T>(x[0][j][0], x[0][j][1]), weights[j][1] = pair<T>(x[0][j][2], x[0][j][3]);
        }
        pin(weights);
        barrier_wait(dy_full + 8 * i, uint32_t(u / 2) % 2);
        begin_dots(x[0], v0, dy);
        wait_products<0>();
        pin(x[0]);
        const float factor = kIsF16<T> ? power_of_two(slope_power(largest) - kWeightPower<T>) : 1;
#pragma unroll
        for (int j = 0; j < kSums; ++j) {
          const float2 delta = load_shared_pair(sums + 4 * kTile + 8 * (4 * j + t));
          uint32_t part[2] = {weights[j][0], weights[j][1]};
          if constexpr (kGeneral) load_shared_words(mine2 + uint32_t(j) * 2048, part[0], part[1]);
#pragma unroll
          for (int e = 0; e < 4; ++e) x[0][j][e] = slope_of<T>((e % 2 ? high_value<T>(part[e / 2]) : low_value<T>(part[e / 2])).v, x[0][j][e], e % 2 ? delta.y : delta.x, factor);
        }
        if (masked) {
#pragma unroll
          for (int r = 0; r < 2; ++r) keep_seen(x[0], r, queries_seen<kTile>(seen_by[first + 8 * r + g], query));
        }
        barrier_wait(ds_free, uint32_t(u + 1) % 2);
#pragma unroll
        for (int j = 0; j < kSums; ++j) {
          slopes[j][0] = pair<T>(x[0][j][0], x[0][j][1]), slopes[j][1] = pair<T>(x[0][j][2], x[0][j][3]);
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const int key = first + 8 * r + g;
            store_shared(ds0 + uint32_t((j / 8 * C::kRows + key) * 128 + ((j % 8 ^ (key & 7)) << 4) + 4 * t), slopes[j][r]);
          }
        }
        publish();
        barrier_arrive(ds_full);
        // Weights of 0 must not meet what is not finite, which shows in the sums of its query.
        if (odd && named_any(2, C::kWorkers, Queries::template any_nonfinite<kTile>(q) || Queries::template any_nonfinite<kTile>(dy))) {
          Queries::template clean<kTile>(q), Queries::template clean<kTile>(dy);
          publish();
          named_wait(2, C::kWorkers);
          const int left = int(place.s.q_len) - query;
#pragma unroll
          for (int r = 0; r < 2; ++r) seen[r] = queries_seen<kTile>(seen_by[first + 8 * r + g], query);
          add_nonfinite<T, kWidth, 1>(dv, seen, row_at<const T>(p.dy, place.s, place.head0 + head, place.s.q_start + query), p.dy.row, left < kTile ? left : kTile, 0,
                                      int(p.head_dim_v));
        }
        pin(slopes), pin(dk[0]);
        begin_weighted<T>(dv[0], weights, dy);
        begin_weighted<T>(dk[0], slopes, q0 + anew(uint32_t(i)) * kTileBytes);
        if (++head == place.heads) head = 0, query -= kTile;
        wait_products<1>();
        pin(dv[0]), pin(weights);
        if (lane == 0) barrier_arrive(dy_free + 8 * i);
        wait_products<0>();
        pin(dk[0]), pin(slopes);
        if (lane == 0) barrier_arrive(q_free + 8 * i);
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

template <class T, bool kGeneral, bool kStays = false> int launch_keys(const SdpaCuda& p, void* stream) {
  return launch_ordered<T, kWidth, Config<kGeneral, kStays>>(p, keys_kernel<T, kGeneral, kStays>, stream);
}
template <class T> int backward(const SdpaCuda& p, void* stream) {
  if (general(p)) return launch_keys<T, true>(p, stream);
  if constexpr (!kIsF16<T>)
    if (p.k_len <= 4096) return launch_keys<T, false, true>(p, stream);  // of long sequences, blocks that stay were 4 % slower
  return launch_keys<T, false>(p, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_backward_ordered = {attention::of_halves(backward<f16>, backward<bf16>)};

}  // namespace baracuda
