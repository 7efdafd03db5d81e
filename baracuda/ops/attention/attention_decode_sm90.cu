// Forward for few queries over many keys on Hopper, f16 and bf16, scores that need no more than a scale: the queries of all heads that share keys go
// together, 64 in a block, whose warpgroup makes their products (wgmma); its first thread has the copy engine bring the tiles of the block's part of the keys, as
// many as fit on their way. Parts are joined by a kernel of its own (attention_decode.cuh); where all blocks run at once, up to 8 parts are
// a cluster, which joins them from each other's shared memory, with the same bits. Floor: k and v once, at the bandwidth of memory; up to 128
// queries the products take less, three times as many for 64.
#include "baracuda/ops/attention/attention_decode.cuh"
#include "baracuda/ops/attention/attention_sm90.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

template <int kWidth> struct Shape {
  static constexpr int kRows = 64, kKeys = kWidth == 64 ? 128 : 64, kThreads = 128, kBlocks = kWidth <= 128 ? 2 : 1, kStages = kWidth == 192 ? 4 : 3;
  static constexpr bool kHeld = kWidth <= 128;  // queries stay in registers, and come by way of the last stage
  static constexpr uint32_t kTileBytes = kKeys * kWidth * 2;
  static constexpr size_t kBytes = kStages * 2 * kTileBytes + (kHeld ? 0 : kRows * kWidth * 2) + 1024;
};
constexpr int64_t kMostClustered = 8;
struct WgmmaSplit {
  SplitWork work;
  bool clustered;
  CUtensorMap k, v;
};

template <class T, int kWidth> __global__ void __launch_bounds__(Shape<kWidth>::kThreads, Shape<kWidth>::kBlocks) split_kernel(const __grid_constant__ WgmmaSplit given) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using C = Shape<kWidth>;
  using V = Pack<float, 1>;
  constexpr int kRows = C::kRows, kKeys = C::kKeys, kStages = C::kStages;
  constexpr uint32_t kTileBytes = C::kTileBytes;
  const SplitWork& work = given.work;
  const SdpaCuda& p = work.p;
  extern __shared__ char memory[];
  __shared__ uint64_t barriers[3 * kStages];
  const uint32_t stages = (shared_address(memory) + 1023) / 1024 * 1024, q = stages + (C::kHeld ? kStages - 1 : kStages) * 2 * kTileBytes;
  const uint32_t k_full = shared_address(barriers), v_full = k_full + 8 * kStages, free = v_full + 8 * kStages;
  if (threadIdx.x == 0) {
    fetch_map(given.k), fetch_map(given.v);
    for (int i = 0; i < kStages; ++i) barrier_init(k_full + 8 * i, 1), barrier_init(v_full + 8 * i, 1), barrier_init(free + 8 * i, 4);
    barriers_made();
  }
  begin_early();
  const unsigned splits = unsigned(p.splits), parts = unsigned(work.parts), pieces = blockIdx.x / splits;  // of a cluster: a block's neighbours have the other parts of its keys
  const SplitPlace place = place_at(work, kRows, given.clustered ? (pieces / parts * splits + blockIdx.x % splits) * parts + pieces % parts : blockIdx.x);
  if (place.n <= 0) return;
  const SdpaSequence& s = place.s;
  const Mask mask = mask_of(p, s);
  const KeyRange top = mask.of(0), bottom = mask.of(s.q_len - 1);
  // Keys of the part that some query, that all queries see.
  const int all_from = int(bottom.lo), all_to = int(top.hi), lo = int(most(top.lo, place.split * p.part)), hi = int(least(bottom.hi, (place.split + 1) * p.part));
  const int key0 = lo / kKeys * kKeys, tiles = lo < hi ? (hi - key0 + kKeys - 1) / kKeys : 0;
  __syncthreads();
  constexpr int kCopiers = kWidth == 192 ? 96 : C::kThreads;  // a multiple of a row's chunks
  using Queries = MmaTile<T, kWidth, kCopiers, kRows>;
  using Keys = MmaTile<T, kWidth, kCopiers, kKeys>;
  const bool copies = int(threadIdx.x) < kCopiers;
  const int warp = __shfl_sync(kAllLanes, int(threadIdx.x) / 32, 0), lane = int(threadIdx.x) % 32, first = warp * 16, dv = int(p.head_dim_v);
  const auto bring = [&](int j) {
    const int i = j % kStages, row = int(s.k_start) + key0 + j * kKeys, batch = p.cu_q ? 0 : int(s.b);
    const uint32_t k = stages + i * 2 * kTileBytes, v = k + kTileBytes;
    barrier_expect(k_full + 8 * i, kTileBytes), barrier_expect(v_full + 8 * i, kTileBytes);
#pragma unroll
    for (int c = 0; c < kWidth / 64; ++c) load_box(k + c * kKeys * 128, given.k, k_full + 8 * i, 64 * c, row, place.kv_head, batch);
#pragma unroll
    for (int c = 0; c < kWidth / 64; ++c) load_box(v + c * kKeys * 128, given.v, v_full + 8 * i, 64 * c, row, place.kv_head, batch);
  };
  constexpr int kAhead = C::kHeld ? kStages - 1 : kStages;  // before the queries have left the last stage
  if (threadIdx.x == 0)
#pragma unroll 1
    for (int j = 0; j < kAhead && j < tiles; ++j) bring(j);
  __syncwarp();
  if (copies) Queries::template copy<kRows>(q, place.n, int(p.head_dim), work.q_chunks, [&](int r) { return row_at<const T>(p.q, s, place.head_of(r), s.q_start + place.query_of(r)); });
  commit_copies();
  wait_copies<0>();
  publish();
  named_wait(1, C::kThreads);
  uint32_t held[C::kHeld ? kWidth / 16 : 1][4];
  if constexpr (C::kHeld) {
#pragma unroll
    for (int k = 0; k < kWidth / 16; ++k) Queries::left(held[k], q, first, k);
    publish();
    named_wait(1, C::kThreads);
    if (threadIdx.x == 0 && kAhead < tiles) bring(kAhead);
    __syncwarp();
  }
  float y[1][kWidth / 8][4] = {}, x[1][kKeys / 8][4], m[2] = {float(-kInf), float(-kInf)}, l[2] = {};
  uint32_t weights[1][kKeys / 8][2] = {};
  const V unit = V(p.scale * kExpUnit<V>);
#pragma unroll 1
  for (int j = 0; j < tiles; ++j) {
    const int i = j % kStages, key = key0 + j * kKeys;
    const uint32_t phase = uint32_t(j / kStages % 2), k = stages + i * 2 * kTileBytes, v = k + kTileBytes;
    barrier_wait(k_full + 8 * i, phase);
    const uint64_t keys = operand(anew(k)), rows = operand(anew(q));
    pin(x[0]);
    begin_products();
#pragma unroll
    for (int e = 0; e < kWidth / 16; ++e) {
      if constexpr (C::kHeld) wgmma<T, 0>(x[0], held[e], further(keys, e / 4 * kKeys * 128 + e % 4 * 32), e != 0);
      else wgmma<T>(x[0], further(rows, e / 4 * kRows * 128 + e % 4 * 32), further(keys, e / 4 * kKeys * 128 + e % 4 * 32), e != 0);
    }
    commit_products();
    wait_products<0>();
    pin(x[0]);
    if (threadIdx.x == 0 && j > 0 && j - 1 + kStages < tiles) {  // the tile before has been used up, and its place is free
      barrier_wait(free + 8 * ((j - 1) % kStages), (j - 1) / kStages % 2);
      bring(j - 1 + kStages);
    }
    __syncwarp();
    const bool masked = key < all_from || key + kKeys > all_to;
    uint32_t seen[2];
    if (masked) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int r = first + 8 * e + lane / 4;
        const KeyRange range = r < place.n ? mask.of(place.query_of(r)) : KeyRange{0, 0};
        seen[e] = hide<1, kKeys>(x, e, int(range.lo) - key, int(range.hi) - key);
      }
    }
    float shrink[2];
    if (first < place.n && soften<T, 1, kKeys>(x, m, l, shrink, weights, unit)) scale_rows(y, shrink);
    barrier_wait(v_full + 8 * i, phase);
    // Where some queries do not see what others see, a weight of 0 must not meet NaN or infinities in v.
    if (masked && named_any(1, C::kThreads, copies && Keys::template any_nonfinite<kKeys>(v))) {
      if (copies) Keys::template clean<kKeys>(v);
      publish();
      named_wait(1, C::kThreads);
      const int left = int(s.k_len) - key;
      add_nonfinite<T, kWidth, 1>(y, seen, row_at<const T>(p.v, s, place.kv_head, s.k_start + key), p.v.row, left < kKeys ? left : kKeys, 0, dv);
    }
    const uint64_t values = operand(anew(v), kKeys * 128);
    pin(weights[0]), pin(y[0]);
    begin_products();
#pragma unroll
    for (int e = 0; e < kKeys / 16; ++e) {
      const uint32_t a[4] = {weights[0][2 * e][0], weights[0][2 * e][1], weights[0][2 * e + 1][0], weights[0][2 * e + 1][1]};
      wgmma<T>(y[0], a, further(values, e * 2048), 1);
    }
    commit_products();
    wait_products<0>();
    pin(y[0]);
    if (lane == 0) barrier_arrive(free + 8 * i);
  }
  if (given.clustered) {
    constexpr uint32_t kPitch = (kWidth + 8) * 4;
    const uint32_t sums = stages + kRows * kPitch;
    const auto row_out = [&](int r) { return row_at<T>(p.y, s, place.head_of(r), s.q_start + place.query_of(r)); };
    named_wait(1, C::kThreads);  // all are done with the tiles
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = first + 8 * i + lane / 4;
      const float sum = row_sum(l[i]);
      if (r >= place.n) continue;
#pragma unroll
      for (int e = 0; e < kWidth / 8; ++e) store_floats(stages + r * kPitch + e * 32 + lane % 4 * 8, {y[0][e][2 * i], y[0][e][2 * i + 1]});
      if (lane % 4 == 0) store_floats(sums + r * 8, {m[i], sum});
    }
    cluster_wait();
    for (int r = place.split + int(splits) * warp; r < place.n; r += 4 * int(splits)) {
      const float2 part = lane < int(splits) ? load_of_block(sums + r * 8, lane) : float2{float(-kInf), 0};
      float most_of = part.x, sum = 0;
#pragma unroll
      for (int w = kMostClustered / 2; w; w /= 2) most_of = fmaxf(most_of, __shfl_xor_sync(kAllLanes, most_of, w));
      most_of = __shfl_sync(kAllLanes, most_of, 0);
      const float weight = exp_weight<4>((V::of(part.x) - V::of(most_of == float(-kInf) ? 0 : most_of)) * unit).v;
      float2 value[kWidth / 64] = {};
#pragma unroll
      for (int w = 0; w < kFewWarps; ++w) {  // as the warps of join_kernel
        float2 some[kWidth / 64] = {};
        float some_sum = 0;
        for (int j = w; j < int(splits); j += kFewWarps) {
          const V weight_j = V::of(__shfl_sync(kAllLanes, weight, j));
          some_sum = fma(weight_j, V::of(__shfl_sync(kAllLanes, part.y, j)), V::of(some_sum)).v;
#pragma unroll
          for (int c = 0; c < kWidth / 64; ++c) {
            const float2 y_part = load_of_block(stages + r * kPitch + c * 256 + lane * 8, j);
            some[c] = {fma(weight_j, V::of(y_part.x), V::of(some[c].x)).v, fma(weight_j, V::of(y_part.y), V::of(some[c].y)).v};
          }
        }
        sum += some_sum;
#pragma unroll
        for (int c = 0; c < kWidth / 64; ++c) value[c].x += some[c].x, value[c].y += some[c].y;
      }
      const V factor = V::of(sum == 0 ? 0 : 1 / sum);
      T* const to = row_out(r);
#pragma unroll
      for (int c = 0; c < kWidth / 64; ++c) {
        const int column = 64 * c + 2 * lane;
        if (column < dv) store<T, 1>(to + column, V::of(value[c].x) * factor);
        if (column + 1 < dv) store<T, 1>(to + column + 1, V::of(value[c].y) * factor);
      }
      if (lane == 0 && p.lse.p) *row_at<float>(p.lse, s, place.head_of(r), s.q_start + place.query_of(r)) = lse_from(p, false, most_of, sum);
    }
    cluster_wait();  // others may still read
    return;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = first + 8 * i + lane / 4;
    const float sum = row_sum(l[i]);
    if (r >= place.n) continue;
    const int64_t head = place.head_of(r), query = place.query_of(r), row = (s.b * p.heads + head) * p.q_len + query;
    if (p.splits > 1) {
      float* const part = part_rows(work, row) + place.split * int64_t(dv);
#pragma unroll
      for (int e = 0; e < kWidth / 8; ++e) {
        const int c = e * 8 + lane % 4 * 2;
        if (dv % 2 == 0 && c < dv) *reinterpret_cast<float2*>(part + c) = {y[0][e][2 * i], y[0][e][2 * i + 1]};
        else if (c < dv) {
          part[c] = y[0][e][2 * i];
          if (c + 1 < dv) part[c + 1] = y[0][e][2 * i + 1];
        }
      }
      if (lane % 4 == 0) part_sums(work, row)[place.split] = {m[i], sum};
    } else {
      const V factor = V::of(sum == 0 ? 0 : 1 / sum);
      T* const to = row_at<T>(p.y, s, head, s.q_start + query);
#pragma unroll
      for (int e = 0; e < kWidth / 4; ++e)
        if (const int c = e / 2 * 8 + lane % 4 * 2 + e % 2; c < dv) store<T, 1>(to + c, V::of(y[0][e / 2][2 * i + e % 2]) * factor);
      if (lane % 4 == 0 && p.lse.p) *row_at<float>(p.lse, s, head, s.q_start + query) = lse_from(p, false, m[i], sum);
    }
  }
#endif
}

template <class T, int kWidth> struct Split {
  static int launch(const SdpaCuda& p, void* stream) {
    using C = Shape<kWidth>;
    const bool varlen = p.cu_q != nullptr;
    const int64_t batch = varlen ? 1 : p.batch, keys = varlen ? p.total_k : p.k_len;
    WgmmaSplit given{{p, device::ceil_div(p.q_len * p.group, C::kRows), in_chunks(p.q), true, true}, false};
    const int64_t items = p.batch * p.kv_heads * p.splits * given.work.parts;
    if (items == 0) return 0;
    if (!make_map(given.k, kIsF16<T>, p.k, batch, p.kv_heads, keys, p.head_dim, C::kKeys) || !make_map(given.v, kIsF16<T>, p.v, batch, p.kv_heads, keys, p.head_dim_v, C::kKeys))
      return sdpa_cuda_decode.forward[kIsF16<T> ? DType::f16 : DType::bf16](p, stream);
    given.clustered = p.splits > 1 && p.splits <= kMostClustered && items <= p.multiprocessors;  // many are faster without: clusters come and go as a whole
    if (const int error = launch_early(split_kernel<T, kWidth>, unsigned(items), C::kThreads, C::kBytes, stream, given, true, given.clustered ? unsigned(p.splits) : 1)) return error;
    return given.clustered ? 0 : join_parts<T>(given.work, true, stream);
  }
};
template <class T> int by_blocks(const SdpaCuda& p, void* stream) {
  const int64_t width = most(p.head_dim, p.head_dim_v);
  if (width <= 64) return Split<T, 64>::launch(p, stream);
  if (width <= 128) return Split<T, 128>::launch(p, stream);
  return width <= 192 ? Split<T, 192>::launch(p, stream) : Split<T, 256>::launch(p, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_decode_sm90 = {attention::of_halves(by_blocks<f16>, by_blocks<bf16>)};

}  // namespace baracuda
