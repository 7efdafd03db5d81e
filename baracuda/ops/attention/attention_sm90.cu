// Forward on Hopper's tensor cores (wgmma): y = softmax(scale q k^T, masked) v for f16 and bf16, plain scores (a scale and a mask).
// FlashAttention-3's order within a warpgroup (Shah et al., 2024): the scores of the next tile are made while the weights of this one are
// multiplied, and their softmax runs under that product. A block owns 128 queries, two warpgroups 64 each; tiles of 128 keys come
// by cp.async, two in flight. 2 (D + Dv) flops a visible score; floor: the matrix rate.
#include "baracuda/ops/attention/attention_sm90.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

template <int kWidth> struct Config {
  static constexpr int kRows = 128, kThreads = 256, kKeys = 128;
  static constexpr size_t kBytes = size_t(kRows + 4 * kKeys) * kWidth * 2 + 1024;
};
struct Work {
  SdpaCuda p;
  int64_t parts;
  bool q_chunks, k_chunks, v_chunks, y_chunks;
};
struct Place {
  SdpaSequence s;
  Mask mask;
  const void *keys, *values;  // row 0 of the sequence
  int64_t head;
  int row0, n;
};

template <class T, int kWidth> __global__ void __launch_bounds__(Config<kWidth>::kThreads, 1) wgmma_kernel(const __grid_constant__ Work work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using C = Config<kWidth>;
  using V = Pack<float, 1>;
  constexpr int kKeys = C::kKeys;
  using Queries = MmaTile<T, kWidth, C::kThreads, C::kRows>;
  using Keys = MmaTile<T, kWidth, C::kThreads, kKeys>;
  constexpr uint32_t kTileBytes = kKeys * kWidth * 2;
  const SdpaCuda& p = work.p;
  extern __shared__ char memory[];
  const uint32_t q = (shared_address(memory) + 1023) / 1024 * 1024, k0 = q + C::kRows * kWidth * 2, v0 = k0 + 2 * kTileBytes;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, g = lane / 4, first = warp * 16;
  const int d = int(p.head_dim), dv = int(p.head_dim_v);
  __shared__ Place place;
  int lo, hi, all_from, all_to, k_len;
  {
    const int64_t item = blockIdx.x, head = item % p.heads;
    const SdpaSequence s = sequence_of(p, item / p.heads % p.batch);
    const int row0 = int(work.parts - 1 - item / (p.heads * p.batch)) * C::kRows, n = int(least(C::kRows, s.q_len - row0));  // the longest of a causal mask first
    if (n <= 0) return;
    const Mask mask = mask_of(p, s);
    lo = int(mask.of(row0).lo), hi = int(mask.of(row0 + n - 1).hi), all_from = int(mask.of(row0 + n - 1).lo), all_to = int(mask.of(row0).hi), k_len = int(s.k_len);
    Queries::template copy<C::kRows>(q, row_at<const T>(p.q, s, head, s.q_start + row0), p.q.row, n, d, work.q_chunks);
    if (threadIdx.x == 0) place = {s, mask, row_at<const T>(p.k, s, head / p.group, s.k_start), row_at<const T>(p.v, s, head / p.group, s.k_start), head, row0, n};
  }
  __syncthreads();
  const auto keys = [&](int key) { return static_cast<const T*>(place.keys) + key * p.k.row; };
  const auto values = [&](int key) { return static_cast<const T*>(place.values) + key * p.v.row; };
  const int key0 = lo / kKeys * kKeys, tiles = lo < hi ? (hi - key0 + kKeys - 1) / kKeys : 0;
  const auto copy_keys = [&](int j) {
    if (j < tiles) Keys::template copy<kKeys>(k0 + uint32_t(j % 2) * kTileBytes, keys(key0 + j * kKeys), p.k.row, k_len - key0 - j * kKeys, d, work.k_chunks);
  };
  const auto copy_values = [&](int j) {
    if (j < tiles) Keys::template copy<kKeys>(v0 + uint32_t(j % 2) * kTileBytes, values(key0 + j * kKeys), p.v.row, k_len - key0 - j * kKeys, dv, work.v_chunks);
  };
  const auto masked = [&](int j) { return key0 + j * kKeys < all_from || key0 + (j + 1) * kKeys > all_to; };

  float y[1][kWidth / 8][4] = {}, x[1][kKeys / 8][4], m[2] = {float(-kInf), float(-kInf)}, l[2] = {}, shrink[2];
  using Weights = uint32_t[1][kKeys / 8][2];
  Weights even, odd;  // of the tiles with these numbers
  uint32_t seen[2] = {};
  const V unit = V(p.scale * kExpUnit<V>);
  const auto begin_scores = [&](int j) {
    const uint32_t rows = q + uint32_t(warp / 4) * 64 * 128, tile = k0 + uint32_t(j % 2) * kTileBytes;
    pin(x[0]);
    begin_products();
#pragma unroll
    for (int k = 0; k < kWidth / 16; ++k)
      wgmma<T>(x[0], operand(rows + uint32_t(k / 4 * C::kRows * 128 + k % 4 * 32)), operand(tile + uint32_t(k / 4 * kKeys * 128 + k % 4 * 32)), k != 0);
    commit_products();
  };
  const auto begin_weighted = [&](int j, Weights& weights) {
    const uint32_t tile = v0 + uint32_t(j % 2) * kTileBytes;
    begin_products();
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      const uint32_t a[4] = {weights[0][2 * k][0], weights[0][2 * k][1], weights[0][2 * k + 1][0], weights[0][2 * k + 1][1]};
      wgmma<T>(y[0], a, operand(tile + uint32_t(k * 2048), kKeys * 128), 1);
    }
    commit_products();
  };
  const auto mask_scores = [&](int j) {
    if (!masked(j)) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = first + 8 * i + g;
      const KeyRange range = place.mask.of(place.row0 + r);
      const int from = key0 + j * kKeys;
      seen[i] = hide<1, kKeys>(x, i, r < place.n ? int(range.lo) - from : 0, r < place.n ? int(range.hi) - from : 0);
    }
  };
  // v of tile j is there, and k of tile j + 1; the buffers of the tiles before are free. What is not finite and not seen by all leaves v.
  const auto arrive = [&](int j) {
    wait_copies<0>();
    publish();
    __syncthreads();
    copy_keys(j + 2), copy_values(j + 1);
    commit_copies();
    const uint32_t v = v0 + uint32_t(j % 2) * kTileBytes;
    if (!masked(j) || !__syncthreads_or(Keys::template any_nonfinite<kKeys>(v))) return;
    Keys::template clean<kKeys>(v);
    publish();
    const int from = key0 + j * kKeys;
    add_nonfinite<T, kWidth, 1>(y, seen, values(from), p.v.row, k_len - from < kKeys ? k_len - from : kKeys, 0, dv);
    __syncthreads();
  };

  const auto turn = [&](int j, Weights& weights, Weights& next) {
    arrive(j);
    pin(weights[0]), pin(y[0]);
    begin_scores(j + 1);
    begin_weighted(j, weights);
    wait_products<1>();
    pin(x[0]);
    mask_scores(j + 1);
    const bool rescale = soften<T, 1, kKeys>(x, m, l, shrink, next, unit);
    wait_products<0>();
    pin(y[0]), pin(weights[0]);  // they are read until here
    if (rescale) scale_rows(y, shrink);
  };
  const auto finish = [&](int j, Weights& weights) {
    arrive(j);
    pin(weights[0]), pin(y[0]);
    begin_weighted(j, weights);
    wait_products<0>();
    pin(y[0]);
  };
  if (tiles > 0) {
    copy_keys(0);
    commit_copies();
    copy_keys(1), copy_values(0);
    commit_copies();
    wait_copies<1>();
    publish();
    __syncthreads();
    begin_scores(0);
    wait_products<0>();
    pin(x[0]);
    mask_scores(0);
    soften<T, 1, kKeys>(x, m, l, shrink, even, unit);
    int j = 0;
    for (; j + 2 < tiles; j += 2) turn(j, even, odd), turn(j + 1, odd, even);
    if (j + 1 < tiles) turn(j, even, odd), finish(j + 1, odd);
    else finish(j, even);
  }
  wait_copies<0>();
  __syncthreads();
  float factor[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = first + 8 * i + g;
    const float sum = row_sum(l[i]);
    factor[i] = sum == 0 ? 0 : 1 / sum;
    if (lane % 4 == 0 && r < place.n && p.lse.p) *row_at<float>(p.lse, place.s, place.head, place.s.q_start + place.row0 + r) = lse_from(p, false, m[i], sum);
  }
  write_rows<Queries, T, kWidth, 1>(y, factor, q, first, place.n, 0, dv, work.y_chunks,
                                    [&](int r) { return row_at<T>(p.y, place.s, place.head, place.s.q_start + place.row0 + r); });
#endif
}

template <class T, int kWidth> int launch(const SdpaCuda& p, void* stream) {
  using C = Config<kWidth>;
  const int64_t parts = device::ceil_div(p.q_len, C::kRows), items = p.batch * p.heads * parts;
  const Work work{p, parts, in_chunks(p.q), in_chunks(p.k), in_chunks(p.v), in_chunks(p.y)};
  return items ? device::launch(wgmma_kernel<T, kWidth>, unsigned(items), C::kThreads, C::kBytes, stream, work) : 0;
}
template <class T> int forward(const SdpaCuda& p, void* stream) {
  return p.head_dim <= 64 && p.head_dim_v <= 64 ? launch<T, 64>(p, stream) : launch<T, 128>(p, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_sm90 = {attention::of_halves(forward<f16>, forward<bf16>)};

}  // namespace baracuda
