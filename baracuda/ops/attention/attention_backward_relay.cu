// Gradients on Hopper's tensor cores (wgmma) in one pass over blocks of keys (attention_ordered.cuh), head dims from 129 to 256. A warpgroup's
// registers hold one gradient of 64 keys, so that work is split by product, and each of three warpgroups runs its own pace behind barriers:
//   weights   s^T = k q^T, p; dv += p^T dy
//   slopes    dp^T = v dy^T, ds from p (kGeneral: times the softcap's derivative), which comes by way of shared memory in 16 bits; dk += ds^T q
//   queries   dq = ds k, 64 columns after the other
// A fourth has tiles brought and dq added by the copy engine.
#include "baracuda/ops/attention/attention_ordered.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

template <int kWidth> struct Config {
  static constexpr bool kStays = false;
  static constexpr int kThreads = 512, kTile = 64, kRows = sdpa_ordered_keys(kWidth), kBlocks = kRows / 64;  // keys of a block
  static constexpr int kSlots = 3;  // for parts of dq
  static constexpr int kTiles = kWidth <= 192 ? 2 : 1;  // of dy that shared memory holds; of q two
  static constexpr uint32_t kTileBytes = kTile * kWidth * 2, kRowsBytes = kRows * kWidth * 2, kSlopeBytes = kRows * kTile * 2;
  static constexpr size_t kBytes = 2 * kRowsBytes + (2 + kTiles) * kTileBytes + 2 * kSlopeBytes + kSlots * kPartBytes + 2 * kTile * 8 + 1024;
  static_assert(kBytes <= 226 * 1024);
};

template <class T, int kWidth, bool kGeneral> __global__ void __launch_bounds__(Config<kWidth>::kThreads, 1) keys_kernel(const __grid_constant__ Work work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using C = Config<kWidth>;
  using Rows = MmaTile<T, kWidth, kWidth, C::kRows>;  // where elements lie
  using Block = MmaTile<T, 64, 256, C::kRows>;        // 64 columns
  constexpr int kTile = C::kTile, kSums = kTile / 8, kBlocks = C::kBlocks, kSlots = C::kSlots;
  constexpr uint32_t kTileBytes = C::kTileBytes, kRowsBytes = C::kRowsBytes;
  const SdpaCuda& p = work.p;
  extern __shared__ char memory[];
  __shared__ Place place;
  __shared__ uint64_t barriers[20];
  __shared__ bool bad_keys, bad_key[C::kRows];
  __shared__ int odd_tile;            // the last one that held what is not finite
  __shared__ int2 seen_by[C::kRows];  // queries
  __shared__ int largest[3];          // f16: a sum of |dy|, a |delta|, a |v|
  const uint32_t k0 = (shared_address(memory) + 1023) / 1024 * 1024, v0 = k0 + kRowsBytes, q0 = v0 + kRowsBytes, dy0 = q0 + 2 * kTileBytes, ds0 = dy0 + C::kTiles * kTileBytes,
                 p0 = ds0 + C::kSlopeBytes, dq0 = p0 + C::kSlopeBytes, sums0 = dq0 + kSlots * kPartBytes;
  // Full: it has come; free: whoever reads it is done. q_full stands for the sums too.
  const uint32_t k_full = shared_address(barriers), q_full = k_full + 8, dy_full = q_full + 16, q_free = dy_full + 16, dy_free = q_free + 16, dq_full = dy_free + 16, dq_free = dq_full + 24,
                 p_full = dq_free + 24, p_free = p_full + 8, ds_full = p_free + 8, ds_free = ds_full + 8, met = ds_free + 8;
  if (threadIdx.x == 0) {
    take_place<kParts<kWidth>, C::kRows, kTile>(work, place);
    barrier_init(k_full, 1), barrier_init(p_full, 4), barrier_init(p_free, 4), barrier_init(ds_full, 128), barrier_init(ds_free, 4), barrier_init(met, 256);
    for (int i = 0; i < 2; ++i) {
      barrier_init(q_full + 8 * i, 1), barrier_init(dy_full + 8 * i, 1), barrier_init(q_free + 8 * i, 8), barrier_init(dy_free + 8 * i, 8);
    }
    for (int i = 0; i < kSlots; ++i) barrier_init(dq_full + 8 * i, 128), barrier_init(dq_free + 8 * i, 1);
    barriers_made();
    bad_keys = false, odd_tile = -1;
  }
  if (!look_at_block<T, C::kThreads>(p, place, bad_key, seen_by, largest)) return;
  const int role = __shfl_sync(kAllLanes, int(threadIdx.x) / 128, 0), warp = __shfl_sync(kAllLanes, int(threadIdx.x) % 128 / 32, 0), lane = int(threadIdx.x) % 32;

  if (role == 3) {
    give_registers<24>();
    if (lane == 0 && place.all > 0) {
      if (warp == 0) {
        bring_keys<C::kRows, kWidth>(work, place, k0, v0, k_full);
        bring_tiles<kTile, kWidth, 2, C::kTiles>(work, place, q0, sums0, q_full, q_free, dy0, dy_full, dy_free);
      } else if (warp <= kSlots) {
        add_in_turn<kParts<kWidth>, kSlots, C::kRows, kTile, 64>(p, place, warp - 1, dq0, dq_full, dq_free);
      }
    }
  } else if (role == 2) {
    constexpr int kGiven = kWidth <= 128 ? 56 : 72;
    give_registers<kGiven>();
    float dq[8][4];
    if (place.all > 0) {
      barrier_wait(k_full, 0);
#pragma unroll 1
      for (int u = 0; u < place.all; ++u) {
        barrier_wait(ds_full, uint32_t(u) % 2);
        const float inverse = kIsF16<T> ? power_of_two(-slope_power(largest)) : 1;
#pragma unroll 1
        for (int c = 0; c < kParts<kWidth>; ++c) {
          const int part = u * kParts<kWidth> + c, n = part / kSlots, slot = part % kSlots;
          const uint64_t left = operand(anew(ds0)), right = operand(k0 + uint32_t(c) * C::kRows * 128);
          pin(dq);
          begin_part<T, C::kRows>(dq, left, right);
          wait_products<0>();
          pin(dq);
          if (c == kParts<kWidth> - 1 && lane == 0) barrier_arrive(ds_free);
          barrier_wait(dq_free + 8 * slot, uint32_t(n + 1) % 2);
          put_part<T>(dq, inverse, dq0 + slot * kPartBytes);
          publish();
          barrier_arrive(dq_full + 8 * slot);
        }
      }
    }
  } else {
    constexpr int kTaken = kWidth <= 128 ? 216 : 208;
    take_registers<kTaken>();
    const int g = lane / 4, t = lane % 4, first = 16 * warp;  // of each block of 64 keys
    float sum[kBlocks][kWidth / 8][4] = {}, x[kBlocks][kSums][4];  // dv or dk
    uint32_t words[kBlocks][kSums][2];
    if (place.all > 0) {
      barrier_wait(k_full, 0);
      bool bad = false;
#pragma unroll 1
      for (int c = 0; c < kWidth / 64; ++c) bad = bad || Block::template any_nonfinite<C::kRows>(k0 + uint32_t(c) * C::kRows * 128);
      bad = named_any(1, 256, bad);
      if (bad) {  // zeros in their place for dq; scores of such keys are NaN
        for (int i = int(threadIdx.x); i < C::kRows * kWidth / 8; i += 256) {
          const uint4 w = load_shared(k0 + 16 * i);
          if (nonfinite<T>(w.x) | nonfinite<T>(w.y) | nonfinite<T>(w.z) | nonfinite<T>(w.w)) bad_key[i / 8 % C::kRows] = true;
        }
        named_wait(1, 256);
#pragma unroll 1
        for (int c = 0; c < kWidth / 64; ++c) Block::template clean<C::kRows>(k0 + uint32_t(c) * C::kRows * 128);
        bad_keys = true;
        publish();
        named_wait(1, 256);
      }
      if constexpr (kIsF16<T>) {
        find_largest_value<kWidth, C::kRows>(v0, place.n, largest);
      }
    }
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) pin(sum[m]);
    const auto begin_dots = [&](uint32_t rows, uint32_t tile) {
      const uint64_t a = operand(anew(rows)), b = operand(tile);
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) pin(x[m]);
      begin_products();
#pragma unroll
      for (int m = 0; m < kBlocks; ++m)
#pragma unroll
        for (int k = 0; k < kWidth / 16; ++k)
          wgmma<T>(x[m], further(a, k / 4 * C::kRows * 128 + m * 64 * 128 + k % 4 * 32), further(b, k / 4 * kTile * 128 + k % 4 * 32), k != 0);
      commit_products();
    };
    const auto begin_weighted = [&](uint32_t tile) {
      const uint64_t b = operand(anew(tile), kTile * 128);
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) pin(words[m]), pin(sum[m]);
      begin_products();
#pragma unroll
      for (int m = 0; m < kBlocks; ++m)
#pragma unroll
        for (int k = 0; k < kTile / 16; ++k) {
          const uint32_t a[4] = {words[m][2 * k][0], words[m][2 * k][1], words[m][2 * k + 1][0], words[m][2 * k + 1][1]};
          if constexpr (kWidth <= 192) wgmma<T>(sum[m], a, further(b, k * 2048), 1);
          else {
            float(&low)[kWidth / 16][4] = reinterpret_cast<float(&)[kWidth / 16][4]>(sum[m]), (&high)[kWidth / 16][4] = reinterpret_cast<float(&)[kWidth / 16][4]>(sum[m][kWidth / 16]);
            wgmma<T>(low, a, further(b, k * 2048), 1), wgmma<T>(high, a, further(b, kWidth / 128 * kTile * 128 + k * 2048), 1);
          }
        }
      commit_products();
    };
    const auto pin_sums = [&] {
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) pin(sum[m]), pin(words[m]);
    };
    const auto pack = [&] {
#pragma unroll
      for (int m = 0; m < kBlocks; ++m)
#pragma unroll
        for (int n = 0; n < kSums; ++n) words[m][n][0] = pair<T>(x[m][n][0], x[m][n][1]), words[m][n][1] = pair<T>(x[m][n][2], x[m][n][3]);
    };
    const auto pin_x = [&] {
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) pin(x[m]);
    };
    // Where a tile holds what is not finite: zeros in its place, once the products of both have read it. True: it did.
    const auto clean = [&](int u, uint32_t q, uint32_t dy) {
      bool bad = false;
#pragma unroll 1
      for (int c = 0; c < kWidth / 64; ++c)
        bad = bad || MmaTile<T, 64, 256, kTile>::template any_nonfinite<kTile>(q + uint32_t(c) * kTile * 128) || MmaTile<T, 64, 256, kTile>::template any_nonfinite<kTile>(dy + uint32_t(c) * kTile * 128);
      if (bad) odd_tile = u;
      barrier_arrive(met);
      barrier_wait(met, 0);
      bad = odd_tile == u;
      if (bad) {
#pragma unroll 1
        for (int c = 0; c < kWidth / 64; ++c)
          MmaTile<T, 64, 256, kTile>::template clean<kTile>(q + uint32_t(c) * kTile * 128), MmaTile<T, 64, 256, kTile>::template clean<kTile>(dy + uint32_t(c) * kTile * 128);
        publish();
      }
      barrier_arrive(met);
      barrier_wait(met, 1);
      return bad;
    };
    const uint32_t mine = p0 + uint32_t(threadIdx.x % 128) * 16;  // the thread's weights, four words at a step of 2048 bytes
    int query = place.last * kTile, head = 0;
    if (role == 0) {
#pragma unroll 1
      for (int u = 0; u < place.all; ++u) {
        const int i = u % 2, j = u % C::kTiles;
        const uint32_t q = q0 + uint32_t(i) * kTileBytes, dy = dy0 + uint32_t(j) * kTileBytes, lse = sums0 + uint32_t(i) * 2 * kTile * 4;
        barrier_wait(q_full + 8 * i, uint32_t(u / 2) % 2);
        begin_dots(k0, q);
        const bool masked = query < place.all_from || query + kTile > place.all_to, odd = masked && any_odd<kTile>(lse);
        wait_products<0>();
        pin_x();
        if (bad_keys) {
#pragma unroll
          for (int m = 0; m < kBlocks; ++m)
#pragma unroll
            for (int n = 0; n < kSums; ++n)
#pragma unroll
              for (int e = 0; e < 4; ++e) x[m][n][e] = bad_key[64 * m + first + 8 * (e / 2) + g] ? float(kNaN) : x[m][n][e];
        }
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
          if constexpr (kGeneral) {
            if (m == 0) barrier_wait(p_free, uint32_t(u + 1) % 2);
            uint32_t low, high;
            to_weights<T>(x[m], words[m], lse, work, scores_of<kTile, C::kRows>(p, place, place.head0 + head, query, 64 * m + first + g), [&](int n, uint32_t a, uint32_t b) {
              if (n % 2 == 0) low = a, high = b;
              else store_shared(mine + uint32_t(m * kSums + n / 2 * 2) * 1024, uint4{low, high, a, b});
            });
          } else to_weights(x[m], lse, work.unit);
        }
        if (masked) {
          uint32_t seen[kBlocks][2];
#pragma unroll
          for (int m = 0; m < kBlocks; ++m)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              seen[m][r] = queries_seen<kTile>(seen_by[64 * m + first + 8 * r + g], query);
              if constexpr (kGeneral) keep_seen(words[m], r, seen[m][r]);
              else keep_seen(x[m], r, seen[m][r]);
            }
          if (odd) barrier_wait(dy_full + 8 * j, uint32_t(u / C::kTiles) % 2);
          if (odd && clean(u, q, dy)) {
            const int left = int(place.s.q_len) - query;
#pragma unroll
            for (int m = 0; m < kBlocks; ++m) {
              float(&dv)[1][kWidth / 8][4] = reinterpret_cast<float(&)[1][kWidth / 8][4]>(sum[m]);
              add_nonfinite<T, kWidth, 1>(dv, seen[m], row_at<const T>(p.dy, place.s, place.head0 + head, place.s.q_start + query), p.dy.row, left < kTile ? left : kTile, 0,
                                          int(p.head_dim_v));
            }
          }
        }
        if (lane == 0) barrier_arrive(q_free + 8 * i);
        if constexpr (!kGeneral) {
          pack();
          barrier_wait(p_free, uint32_t(u + 1) % 2);
#pragma unroll
          for (int m = 0; m < kBlocks; ++m)
#pragma unroll
            for (int n = 0; n < kSums; n += 2) store_shared(mine + uint32_t(m * kSums + n) * 1024, uint4{words[m][n][0], words[m][n][1], words[m][n + 1][0], words[m][n + 1][1]});
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(p_full);
        barrier_wait(dy_full + 8 * j, uint32_t(u / C::kTiles) % 2);
        begin_weighted(dy);
        if (++head == place.heads) head = 0, query -= kTile;
        wait_products<0>();
        pin_sums();
        if (lane == 0) barrier_arrive(dy_free + 8 * j);
      }
    } else {
      const float factor = kIsF16<T> ? power_of_two(slope_power(largest) - kWeightPower<T>) : 1;
#pragma unroll 1
      for (int u = 0; u < place.all; ++u) {
        const int i = u % 2, j = u % C::kTiles;
        const uint32_t q = q0 + uint32_t(i) * kTileBytes, dy = dy0 + uint32_t(j) * kTileBytes, sums = sums0 + uint32_t(i) * 2 * kTile * 4;
        barrier_wait(dy_full + 8 * j, uint32_t(u / C::kTiles) % 2);
        begin_dots(v0, dy);
        wait_products<1>();
        if (u > 0 && lane == 0) barrier_arrive(q_free + 8 * ((u - 1) % 2));
        barrier_wait(q_full + 8 * i, uint32_t(u / 2) % 2);
        const bool masked = query < place.all_from || query + kTile > place.all_to, odd = masked && any_odd<kTile>(sums);
        wait_products<0>();
        pin_x();
        if (odd) clean(u, q, dy);
        if (lane == 0) barrier_arrive(dy_free + 8 * j);
        barrier_wait(p_full, uint32_t(u) % 2);
#pragma unroll
        for (int m = 0; m < kBlocks; ++m)
#pragma unroll
          for (int n = 0; n < kSums; n += 2) {
            const uint4 w = load_shared(mine + uint32_t(m * kSums + n) * 1024);
            const uint32_t weight[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
            for (int h = 0; h < 4; ++h) {
              const int at = n + h / 2;  // rows g and g + 8 by h % 2
              const float2 delta = load_shared_pair(sums + 4 * kTile + 8 * (4 * at + t));
              float &low = x[m][at][2 * (h % 2)], &high = x[m][at][2 * (h % 2) + 1];
              low = slope_of<T>(low_value<T>(weight[h]).v, low, delta.x, factor), high = slope_of<T>(high_value<T>(weight[h]).v, high, delta.y, factor);
            }
          }
        __syncwarp();
        if (lane == 0) barrier_arrive(p_free);
        if (masked) {
#pragma unroll
          for (int m = 0; m < kBlocks; ++m)
#pragma unroll
            for (int r = 0; r < 2; ++r) keep_seen(x[m], r, queries_seen<kTile>(seen_by[64 * m + first + 8 * r + g], query));
        }
        pack();
        barrier_wait(ds_free, uint32_t(u + 1) % 2);
#pragma unroll
        for (int m = 0; m < kBlocks; ++m)
#pragma unroll
          for (int n = 0; n < kSums; ++n)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              const int key = 64 * m + first + 8 * r + g;
              store_shared(ds0 + uint32_t(key * 128 + ((n ^ (key & 7)) << 4) + 4 * t), words[m][n][r]);
            }
        publish();
        barrier_arrive(ds_full);
        begin_weighted(q);
        if (++head == place.heads) head = 0, query -= kTile;
      }
      wait_products<0>();
      pin_sums();
    }
    named_wait(1, 256);  // v is read no more, nor are q and dy
    const bool of_dv = role == 0;
    const float factor = of_dv ? kWeightUnit<T> : kIsF16<T> && place.all > 0 ? power_of_two(-slope_power(largest)) : 1;
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      const float(&rows)[1][kWidth / 8][4] = reinterpret_cast<const float(&)[1][kWidth / 8][4]>(sum[m]);
      write_keys<Rows, T, kWidth>(work, place, of_dv, rows, factor, of_dv ? q0 : v0, 64 * m + first);
    }
  }
#endif
}

template <class T, int kWidth> int launch_width(const SdpaCuda& p, void* stream) {
  return launch_ordered<T, kWidth, Config<kWidth>>(p, general(p) ? keys_kernel<T, kWidth, true> : keys_kernel<T, kWidth, false>, stream);
}
template <class T> int backward(const SdpaCuda& p, void* stream) {
  return sdpa_ordered_width(p.head_dim, p.head_dim_v) <= 192 ? launch_width<T, 192>(p, stream) : launch_width<T, 256>(p, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_backward_relay = {attention::of_halves(backward<f16>, backward<bf16>)};

}  // namespace baracuda
