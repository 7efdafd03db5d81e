// Gradients on Hopper's tensor cores (wgmma): the kernels of attention_backward_mma.cu with warpgroups, whose right sides are read from
// shared memory once for 64 rows. Head dims up to 128, plain scores.
//   dkv kernel  a block owns 128 keys, two warpgroups 64 each, and goes through tiles of 64 queries: s^T = k q^T, dp^T = v dy^T from shared memory;
//               dv += p^T dy, dk += ds^T q with the weights in registers
//   dq kernel   a block owns 128 queries and goes through tiles of 64 keys: s, dp, dq += ds k
#include "baracuda/device/hopper.cuh"
#include "baracuda/ops/attention/attention_gradient.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;
using namespace hopper;

template <int kWidth> struct Config {  // of both kernels: rows that a block owns, rows of a tile
  static constexpr int kRows = 128, kThreads = 256, kTile = 64;
  static constexpr size_t kBytes = size_t(2 * kRows + 4 * kTile) * kWidth * 2 + 2 * kTile * 8 + 1024;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// x (+)= 64 rows of `left` . tile^T; columns in blocks of 64: `lefts` rows of the left tile, 64 of the right one.
template <class T, int kWidth, int kRows> __device__ __forceinline__ void begin_dots(float (&x)[8][4], uint32_t left, uint32_t tile) {
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k)
    wgmma<T>(x, operand(left + uint32_t(k / 4 * kRows * 128 + k % 4 * 32)), operand(tile + uint32_t(k / 4 * 64 * 128 + k % 4 * 32)), k != 0);
}
// sum += weights . tile over its 64 rows.
template <class T, int kWidth> __device__ __forceinline__ void begin_weighted(float (&sum)[kWidth / 8][4], const uint32_t (&weights)[1][8][2], uint32_t tile) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const uint32_t a[4] = {weights[0][2 * k][0], weights[0][2 * k][1], weights[0][2 * k + 1][0], weights[0][2 * k + 1][1]};
    wgmma<T>(sum, a, operand(tile + uint32_t(k * 2048), 64 * 128), 1);
  }
}
#endif

template <class T, int kWidth> __global__ void __launch_bounds__(Config<kWidth>::kThreads, 1) dkv_kernel(const __grid_constant__ Gradients work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using C = Config<kWidth>;
  using Keys = MmaTile<T, kWidth, C::kThreads, C::kRows>;
  using Queries = MmaTile<T, kWidth, C::kThreads, C::kTile>;
  constexpr int kTile = C::kTile;
  constexpr uint32_t kTileBytes = kTile * kWidth * 2;
  const SdpaCuda& p = work.p;
  extern __shared__ char memory[];
  const uint32_t k = (shared_address(memory) + 1023) / 1024 * 1024, v = k + C::kRows * kWidth * 2, stages = v + C::kRows * kWidth * 2, sums = stages + 4 * kTileBytes;
  const int warp = int(threadIdx.x) / 32, first = warp * 16;
  const int d = int(p.head_dim), dv_width = int(p.head_dim_v);
  __shared__ GradientPlace place;
  int begin, tiles;
  {
    const int64_t item = blockIdx.x, kv_head = item % p.kv_heads;
    const SdpaSequence s = sequence_of(p, item / p.kv_heads % p.batch);
    const int key0 = int(item / (p.kv_heads * p.batch)) * C::kRows, n = int(least(C::kRows, s.k_len - key0));
    if (n <= 0) return;
    const Mask mask = mask_of(p, s);
    int end;
    queries_of(mask, s, key0, n, kTile, begin, end);
    tiles = end > begin ? (end - begin + kTile - 1) / kTile : 0;
    Keys::template copy<C::kRows>(k, row_at<const T>(p.k, s, kv_head, s.k_start + key0), p.k.row, n, d, work.k_chunks);
    Keys::template copy<C::kRows>(v, row_at<const T>(p.v, s, kv_head, s.k_start + key0), p.v.row, n, dv_width, work.v_chunks);
    if (threadIdx.x == 0) place = {s, mask, 0, kv_head, key0, n};
  }
  __syncthreads();
  const int all = tiles * int(p.group);
  const auto copy = [&](int u) {
    const int query = begin + u % tiles * kTile;
    const uint32_t q = stages + uint32_t(u % 2) * 2 * kTileBytes;
    copy_queries<Queries, T, kTile>(work, place, place.kv_head * p.group + u / tiles, query, q, q + kTileBytes, sums + uint32_t(u % 2 * 2 * kTile) * 4);
  };
  if (all) copy(0);
  commit_copies();
  float dk[1][kWidth / 8][4] = {}, dv[1][kWidth / 8][4] = {}, x[1][8][4], dp[1][8][4];
  uint32_t weights[1][8][2], slopes[1][8][2], seen[2];
  Range<T> range;
  const float unit = float(p.scale * kExpUnit<Pack<float, 1>>);
  const uint32_t mine = uint32_t(warp / 4) * 64 * 128;  // the warpgroup's rows of k and v
  for (int u = 0; u < all; ++u) {
    wait_copies<0>();
    publish();
    __syncthreads();
    if (u + 1 < all) copy(u + 1);
    commit_copies();
    const int query = begin + u % tiles * kTile, last = int(least(query + kTile, place.s.q_len)) - 1;
    const uint32_t q = stages + uint32_t(u % 2) * 2 * kTileBytes, dy = q + kTileBytes, lse = sums + uint32_t(u % 2 * 2 * kTile) * 4;
    const bool masked = place.mask.of(last).lo > place.row0 || place.mask.of(query).hi < place.row0 + place.n;
    // Where some keys are hidden from some queries, weights of 0 must not meet NaN or infinities.
    const bool bad = masked && __syncthreads_or(Queries::template any_nonfinite<kTile>(q) || Queries::template any_nonfinite<kTile>(dy));
    pin(x[0]), pin(dp[0]);
    begin_products();
    begin_dots<T, kWidth, C::kRows>(x[0], k + mine, q);
    begin_dots<T, kWidth, C::kRows>(dp[0], v + mine, dy);
    commit_products();
    wait_products<0>();
    pin(x[0]), pin(dp[0]);
    weigh_columns<T, 1, kTile>(x, dp, seen, unit, lse, lse + 4 * kTile, masked, place.mask, query, place.row0, first);
    range.follow(dp, dk);
    to_pairs<T, 1, kTile>(weights, x, 1), to_pairs<T, 1, kTile>(slopes, dp, range.factor());
    if (bad) {
      __syncthreads();
      Queries::template clean<kTile>(q), Queries::template clean<kTile>(dy);
      publish();
      __syncthreads();
      add_nonfinite<T, kWidth, 1>(dv, seen, row_at<const T>(p.dy, place.s, place.kv_head * p.group + u / tiles, place.s.q_start + query), p.dy.row, last - query + 1, 0, dv_width);
    }
    pin(weights[0]), pin(slopes[0]), pin(dv[0]), pin(dk[0]);
    begin_products();
    begin_weighted<T, kWidth>(dv[0], weights, dy);
    begin_weighted<T, kWidth>(dk[0], slopes, q);
    commit_products();
    wait_products<0>();
    pin(dv[0]), pin(dk[0]), pin(weights[0]), pin(slopes[0]);
  }
  wait_copies<0>();
  __syncthreads();
  float of_dk[2], of_dv[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) of_dk[i] = float(p.scale) * range.inverse(), of_dv[i] = kWeightUnit<T>;
  write_rows<Keys, T, kWidth, 1>(dk, of_dk, k, first, place.n, 0, d, work.dk_chunks, [&](int r) { return row_at<T>(p.dk, place.s, place.kv_head, place.s.k_start + place.row0 + r); });
  write_rows<Keys, T, kWidth, 1>(dv, of_dv, v, first, place.n, 0, dv_width, work.dv_chunks, [&](int r) { return row_at<T>(p.dv, place.s, place.kv_head, place.s.k_start + place.row0 + r); });
#endif
}

template <class T, int kWidth> __global__ void __launch_bounds__(Config<kWidth>::kThreads, 1) dq_kernel(const __grid_constant__ Gradients work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using C = Config<kWidth>;
  using Queries = MmaTile<T, kWidth, C::kThreads, C::kRows>;
  using Keys = MmaTile<T, kWidth, C::kThreads, C::kTile>;
  constexpr int kTile = C::kTile;
  constexpr uint32_t kTileBytes = kTile * kWidth * 2;
  const SdpaCuda& p = work.p;
  extern __shared__ char memory[];
  const uint32_t q = (shared_address(memory) + 1023) / 1024 * 1024, dy = q + C::kRows * kWidth * 2, stages = dy + C::kRows * kWidth * 2;
  const int warp = int(threadIdx.x) / 32, first = warp * 16;
  const int d = int(p.head_dim), dv = int(p.head_dim_v);
  __shared__ GradientPlace place;
  __shared__ float2 sums[C::kRows];
  int lo, hi, all_from, all_to, k_len;
  {
    const int64_t item = blockIdx.x, head = item % p.heads;
    const SdpaSequence s = sequence_of(p, item / p.heads % p.batch);
    const int row0 = int(work.parts - 1 - item / (p.heads * p.batch)) * C::kRows, n = int(least(C::kRows, s.q_len - row0));
    if (n <= 0) return;
    const Mask mask = mask_of(p, s);
    lo = int(mask.of(row0).lo), hi = int(mask.of(row0 + n - 1).hi), all_from = int(mask.of(row0 + n - 1).lo), all_to = int(mask.of(row0).hi), k_len = int(s.k_len);
    Queries::template copy<C::kRows>(q, row_at<const T>(p.q, s, head, s.q_start + row0), p.q.row, n, d, work.q_chunks);
    Queries::template copy<C::kRows>(dy, row_at<const T>(p.dy, s, head, s.q_start + row0), p.dy.row, n, dv, work.dy_chunks);
    if (threadIdx.x == 0) place = {s, mask, head, head / p.group, row0, n};
  }
  __syncthreads();
  const auto copy = [&](int j, int key) {
    const SdpaSequence& s = place.s;
    const uint32_t k = stages + uint32_t(j % 2) * 2 * kTileBytes;
    Keys::template copy<kTile>(k, row_at<const T>(p.k, s, place.kv_head, s.k_start + key), p.k.row, k_len - key, d, work.k_chunks);
    Keys::template copy<kTile>(k + kTileBytes, row_at<const T>(p.v, s, place.kv_head, s.k_start + key), p.v.row, k_len - key, dv, work.v_chunks);
  };
  int key = lo / kTile * kTile;
  if (lo < hi) copy(0, key);
  commit_copies();
  load_sums<C::kRows, C::kThreads>(sums, p, place);
  float dq[1][kWidth / 8][4] = {}, x[1][8][4], dp[1][8][4];
  uint32_t slopes[1][8][2];
  Range<T> range;
  const float unit = float(p.scale * kExpUnit<Pack<float, 1>>);
  const uint32_t mine = uint32_t(warp / 4) * 64 * 128;  // the warpgroup's rows of q and dy
  for (int j = 0; key < hi; ++j, key += kTile) {
    wait_copies<0>();
    publish();
    __syncthreads();
    if (key + kTile < hi) copy(j + 1, key + kTile);
    commit_copies();
    const uint32_t k = stages + uint32_t(j % 2) * 2 * kTileBytes, v = k + kTileBytes;
    const bool masked = key < all_from || key + kTile > all_to, bad = masked && __syncthreads_or(Keys::template any_nonfinite<kTile>(k));
    pin(x[0]), pin(dp[0]);
    begin_products();
    begin_dots<T, kWidth, C::kRows>(x[0], q + mine, k);
    begin_dots<T, kWidth, C::kRows>(dp[0], dy + mine, v);
    commit_products();
    wait_products<0>();
    pin(x[0]), pin(dp[0]);
    weigh_lines<T, 1, kTile>(x, dp, unit, sums, masked, place.mask, place.row0, first, key);
    range.follow(dp, dq);
    to_pairs<T, 1, kTile>(slopes, dp, range.factor());
    if (bad) {
      __syncthreads();
      Keys::template clean<kTile>(k);
      publish();
      __syncthreads();
    }
    pin(slopes[0]), pin(dq[0]);
    begin_products();
    begin_weighted<T, kWidth>(dq[0], slopes, k);
    commit_products();
    wait_products<0>();
    pin(dq[0]), pin(slopes[0]);
  }
  wait_copies<0>();
  __syncthreads();
  float factor[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) factor[i] = float(p.scale) * range.inverse();
  write_rows<Queries, T, kWidth, 1>(dq, factor, q, first, place.n, 0, d, work.dq_chunks, [&](int r) { return row_at<T>(p.dq, place.s, place.head, place.s.q_start + place.row0 + r); });
#endif
}

template <class T, int kWidth> int launch_dkv(const SdpaCuda& p, void* stream) {
  using C = Config<kWidth>;
  const int64_t parts = device::ceil_div(p.k_len, C::kRows), items = p.batch * p.kv_heads * parts;
  return items ? device::launch(dkv_kernel<T, kWidth>, unsigned(items), C::kThreads, C::kBytes, stream, gradients_of(p, parts)) : 0;
}
template <class T, int kWidth> int launch_dq(const SdpaCuda& p, void* stream) {
  using C = Config<kWidth>;
  const int64_t parts = device::ceil_div(p.q_len, C::kRows), items = p.batch * p.heads * parts;
  return items ? device::launch(dq_kernel<T, kWidth>, unsigned(items), C::kThreads, C::kBytes, stream, gradients_of(p, parts)) : 0;
}
bool narrow(const SdpaCuda& p) { return p.head_dim <= 64 && p.head_dim_v <= 64; }
template <class T> int dkv(const SdpaCuda& p, void* stream) { return narrow(p) ? launch_dkv<T, 64>(p, stream) : launch_dkv<T, 128>(p, stream); }
template <class T> int dq(const SdpaCuda& p, void* stream) { return narrow(p) ? launch_dq<T, 64>(p, stream) : launch_dq<T, 128>(p, stream); }

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaBackwardMma sdpa_cuda_backward_sm90 = {attention::of_halves(dq<f16>, dq<bf16>), attention::of_halves(dkv<f16>, dkv<bf16>)};

}  // namespace baracuda
