// Forward on Hopper's tensor cores (wgmma): y = softmax(scale q k^T, masked) v for f16 and bf16, plain scores (a scale and a mask), as
// FlashAttention-3 does it (Shah et al., 2024). A block owns 64 queries for each of its two or three warpgroups; one thread of a warpgroup of
// its own has the copy engine bring tiles of keys and values, two in flight. Within a warpgroup the scores of the next tile are made while the
// weights of this one are multiplied, and their softmax runs under that product; the warpgroups take turns at issuing products, so that one's
// softmax runs under the other's. 2 (D + Dv) flops a visible score; floor: the matrix rate.
//
// Where y is not finite and some keys of the block are hidden, the block goes through its keys once more and keeps what is not finite out of
// the products: a weight of 0 must not meet it.
#include "baracuda/device/hopper.cuh"
#include "baracuda/ops/attention/attention_mma.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;
using namespace hopper;

template <int kWidth> struct Config {
  static constexpr int kGroups = kWidth == 64 ? 3 : 2, kRows = 64 * kGroups, kWorkers = 128 * kGroups, kThreads = kWorkers + 128;
  static constexpr int kKeys = kWidth <= 128 ? 128 : 80;
  static constexpr int kGiven = kGroups == 3 ? 32 : 24, kTaken = kGroups == 3 ? 160 : 240;  // registers of a thread: of the copying one, of workers
  static constexpr size_t kBytes = size_t(kRows + 4 * kKeys) * kWidth * 2 + 1024;
};
struct Work {
  SdpaCuda p;
  int64_t parts, section;  // blocks of a head's queries; heads whose keys the L2 cache holds together
  CUtensorMap q, k, v;
  bool y_chunks;
};
struct Place {
  SdpaSequence s;
  Mask mask;
  int64_t head;
  int row0, n;
  int key0, all_from, all_to;  // the first tile begins at key0; tiles [all_from, all_to) are seen by all rows
};
// Sections of heads one after the other, in a section the longest blocks of a causal mask first.
__device__ __forceinline__ Place place_of(const Work& work, int rows) {
  const SdpaCuda& p = work.p;
  const int64_t all = p.batch * p.heads, from = int64_t(blockIdx.x) / (work.section * work.parts) * work.section, width = least(work.section, all - from);
  const int64_t item = int64_t(blockIdx.x) - from * work.parts, at = from + item % width;
  Place place;
  place.s = sequence_of(p, at / p.heads);
  place.mask = mask_of(p, place.s);
  place.head = at % p.heads;
  place.row0 = int(work.parts - 1 - item / width) * rows;
  place.n = int(least(rows, place.s.q_len - place.row0));
  return place;
}

// One round of the online softmax: scores x become weights, m is the largest score so far times `unit`, l the sum of weights, and sums of
// weighted rows shrink. False: all by 1.
template <int kSums> __device__ __forceinline__ bool soften(float (&x)[kSums][4], float (&m)[2], float (&l)[2], float (&shrink)[2], float unit) {
  using V = Pack<float, 1>;
  bool rescale = false;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float even = float(-kInf), odd = float(-kInf);
#pragma unroll
    for (int j = 0; j < kSums; ++j) even = fmaxf(even, x[j][2 * i]), odd = fmaxf(odd, x[j][2 * i + 1]);  // NaN does not count
    float top = fmaxf(even, odd);
    top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
    top = fmaxf(m[i], fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2)) * unit);
    const float safe = top == float(-kInf) ? 0 : top;
    shrink[i] = m[i] == float(-kInf) ? 1 : exp_weight<4>(V::of(m[i] - safe)).v;  // nothing to shrink yet: 1
    rescale = rescale || shrink[i] != 1;
    m[i] = top;
    V a = V(0), b = V(0);
#pragma unroll
    for (int j = 0; j < kSums; ++j) {
      const V u = exp_weight<4>(fma(V::of(x[j][2 * i]), V::of(unit), V::of(-safe))), w = exp_weight<4>(fma(V::of(x[j][2 * i + 1]), V::of(unit), V::of(-safe)));
      x[j][2 * i] = u.v, x[j][2 * i + 1] = w.v;
      a = a + u, b = b + w;
    }
    l[i] = fma(V::of(l[i]), V::of(shrink[i]), a + b).v;
  }
  return __any_sync(kAllLanes, rescale);
}

template <class T, int kWidth> __global__ void __launch_bounds__(Config<kWidth>::kThreads, 1) wgmma_kernel(const __grid_constant__ Work work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using C = Config<kWidth>;
  using V = Pack<float, 1>;
  constexpr int kKeys = C::kKeys, kGroups = C::kGroups;
  constexpr uint32_t kTileBytes = kKeys * kWidth * 2, kRowsBytes = C::kRows * kWidth * 2;
  const SdpaCuda& p = work.p;
  extern __shared__ char memory[];
  __shared__ Place place;
  __shared__ uint64_t barriers[9];
  __shared__ int2 seen_keys[C::kRows];  // [from, to) of each row, from key0 on
  const uint32_t q = (shared_address(memory) + 1023) / 1024 * 1024, k0 = q + kRowsBytes, v0 = k0 + 2 * kTileBytes;
  // Full: the tile has come; free: all warps are done with it.
  const uint32_t q_full = shared_address(barriers), k_full = q_full + 8, v_full = k_full + 16, k_free = v_full + 16, v_free = k_free + 16;
  int tiles;
  {
    Place at = place_of(work, C::kRows);
    if (at.n <= 0) return;
    const KeyRange top = at.mask.of(at.row0), bottom = at.mask.of(at.row0 + at.n - 1);
    const int key0 = int(top.lo) / kKeys * kKeys;
    tiles = top.lo < bottom.hi ? (int(bottom.hi) - key0 + kKeys - 1) / kKeys : 0;
    at.key0 = key0, at.all_from = (int(bottom.lo) - key0 + kKeys - 1) / kKeys, at.all_to = (int(top.hi) - key0) / kKeys;
    for (int r = int(threadIdx.x); r < C::kRows; r += C::kThreads) {
      const KeyRange range = at.mask.of(at.row0 + r);
      seen_keys[r] = r < at.n ? int2{int(range.lo) - key0, int(range.hi) - key0} : int2{0, 0};
    }
    if (threadIdx.x == 0) {
      place = at;
      barrier_init(q_full, 1);
      for (int i = 0; i < 2; ++i) barrier_init(k_full + 8 * i, 1), barrier_init(v_full + 8 * i, 1), barrier_init(k_free + 8 * i, 4 * kGroups), barrier_init(v_free + 8 * i, 4 * kGroups);
      barriers_made();
    }
  }
  __syncthreads();

  if (int(threadIdx.x) >= C::kWorkers) {
    give_registers<C::kGiven>();
    int u = 0;  // tiles brought so far: u % 2 is their place, u / 2 their phase
    for (bool careful = false;; careful = true) {
      if (int(threadIdx.x) == C::kWorkers && tiles > 0) {
        const int head = int(place.head), kv_head = int(place.head / p.group), batch = p.cu_q ? 0 : int(place.s.b), k_row = int(place.s.k_start) + place.key0;
        const auto bring = [&](const CUtensorMap& map, uint32_t to, uint32_t full, uint32_t free, int j) {
          const int i = (u + j) % 2;
          barrier_wait(free + 8 * i, ((u + j) / 2 + 1) % 2);
          barrier_expect(full + 8 * i, kTileBytes);
#pragma unroll
          for (int c = 0; c < kWidth / 64; ++c) load_box(to + i * kTileBytes + c * kKeys * 128, map, full + 8 * i, 64 * c, k_row + j * kKeys, kv_head, batch);
        };
        if (!careful) {
          barrier_expect(q_full, kRowsBytes);
#pragma unroll
          for (int c = 0; c < kWidth / 64; ++c) load_box(q + c * C::kRows * 128, work.q, q_full, 64 * c, int(place.s.q_start) + place.row0, head, batch);
        }
        bring(work.k, k0, k_full, k_free, 0);
        for (int j = 0; j < tiles; ++j) {
          if (j + 1 < tiles) bring(work.k, k0, k_full, k_free, j + 1);
          bring(work.v, v0, v_full, v_free, j);
        }
      }
      u += tiles;
      if (!__syncthreads_or(0) || careful) return;
    }
  } else {
    take_registers<C::kTaken>();
    using Queries = MmaTile<T, kWidth, C::kWorkers, C::kRows>;
    using Keys = MmaTile<T, kWidth, C::kWorkers, kKeys>;
    const int warp = __shfl_sync(kAllLanes, int(threadIdx.x) / 32, 0), lane = int(threadIdx.x) % 32, g = lane / 4, first = warp * 16, group = warp / 4;
    const int dv = int(p.head_dim_v);
    const float unit = float(p.scale * kExpUnit<V>);
    const auto masked = [&](int j) { return j < place.all_from || j >= place.all_to; };
    const auto release = [&](uint32_t free) {
      if (lane == 0) barrier_arrive(free);
    };
    float y[1][kWidth / 8][4], x[1][kKeys / 8][4], m[2], l[2], shrink[2];
    uint32_t weights[kKeys / 8][2];
    int u = 0;
    const auto begin_scores = [&](int j) {
      const uint64_t rows = operand(q + uint32_t(group) * 64 * 128), tile = operand(k0 + uint32_t((u + j) % 2) * kTileBytes);
      pin(x[0]);
      begin_products();
#pragma unroll
      for (int k = 0; k < kWidth / 16; ++k)
        wgmma<T>(x[0], further(rows, k / 4 * C::kRows * 128 + k % 4 * 32), further(tile, k / 4 * kKeys * 128 + k % 4 * 32), k != 0);
      commit_products();
    };
    const auto begin_weighted = [&](int j) {
      const uint64_t tile = operand(v0 + uint32_t((u + j) % 2) * kTileBytes, kKeys * 128);
      pin(weights), pin(y[0]);
      begin_products();
#pragma unroll
      for (int k = 0; k < kKeys / 16; ++k) {
        const uint32_t a[4] = {weights[2 * k][0], weights[2 * k][1], weights[2 * k + 1][0], weights[2 * k + 1][1]};
        wgmma<T>(y[0], a, further(tile, k * 2048), 1);
      }
      commit_products();
    };
    const auto mask_scores = [&](int j) {
      if (!masked(j)) return;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int2 keys = seen_keys[first + 8 * i + g];
        hide<1, kKeys>(x, i, keys.x - j * kKeys, keys.y - j * kKeys);
      }
    };
    const auto to_weights = [&] {
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) weights[j][0] = pair<T>(x[0][j][0], x[0][j][1]), weights[j][1] = pair<T>(x[0][j][2], x[0][j][3]);
    };
    const auto await = [&](uint32_t full, int j) { barrier_wait(full + 8 * ((u + j) % 2), (u + j) / 2 % 2); };
    // What is not finite in v of tile j: zeros in its place, and what is seen of it to the sums by hand.
    const auto clean = [&](int j) {
      const uint32_t v = v0 + uint32_t((u + j) % 2) * kTileBytes;
      await(v_full, j);
      named_wait(kGroups + 1, C::kWorkers);
      Keys::template clean<kKeys>(v);
      publish();
      named_wait(kGroups + 1, C::kWorkers);
      const int from = place.key0 + j * kKeys, left = int(place.s.k_len) - from;
      uint32_t seen[2] = {};
#pragma unroll
      for (int i = 0; i < 2; ++i)
        for (int e = 0; e < kKeys / 4; ++e) {
          const int2 keys = seen_keys[first + 8 * i + g];
          const int key = j * kKeys + e / 2 * 8 + lane % 4 * 2 + e % 2;
          seen[i] |= uint32_t(key >= keys.x && key < keys.y) << e;
        }
      add_nonfinite<T, kWidth, 1>(y, seen, row_at<const T>(p.v, place.s, place.head / p.group, place.s.k_start + from), p.v.row, left < kKeys ? left : kKeys, 0, dv);
    };
    if (group == kGroups - 1) named_arrive(1, 256);  // the first group's turn
    for (bool careful = false;; careful = true) {
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j) y[0][j][0] = y[0][j][1] = y[0][j][2] = y[0][j][3] = 0;
#pragma unroll
      for (int i = 0; i < 2; ++i) m[i] = float(-kInf), l[i] = 0;
      if (tiles > 0) {
        barrier_wait(q_full, 0);
        await(k_full, 0);
        begin_scores(0);
        wait_products<0>();
        pin(x[0]);
        release(k_free + 8 * (u % 2));
        mask_scores(0);
        soften(x[0], m, l, shrink, unit);
        to_weights();
#pragma unroll 1
        for (int j = 0; j + 1 < tiles; ++j) {
          if (careful && masked(j)) clean(j);
          await(k_full, j + 1);
          named_wait(1 + group, 256);
          begin_scores(j + 1);
          await(v_full, j);
          begin_weighted(j);
          named_arrive(1 + (group + 1) % kGroups, 256);
          wait_products<1>();
          pin(x[0]);
          release(k_free + 8 * ((u + j + 1) % 2));
          mask_scores(j + 1);
          const bool rescale = soften(x[0], m, l, shrink, unit);
          wait_products<0>();
          pin(y[0]), pin(weights);
          release(v_free + 8 * ((u + j) % 2));
          if (rescale) scale_rows(y, shrink);
          to_weights();
        }
        if (careful && masked(tiles - 1)) clean(tiles - 1);
        await(v_full, tiles - 1);
        begin_weighted(tiles - 1);
        wait_products<0>();
        pin(y[0]);
        release(v_free + 8 * ((u + tiles - 1) % 2));
      }
      u += tiles;
      float probe[2] = {};
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) probe[i / 2] += y[0][j][i] * 0;
      const bool bad = (place.all_from > 0 || place.all_to < tiles) && ((first + g < place.n && probe[0] != 0) || (first + 8 + g < place.n && probe[1] != 0));
      if (!__syncthreads_or(bad) || careful) break;
    }
    float factor[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = first + 8 * i + g;
      const float sum = row_sum(l[i]);
      factor[i] = sum == 0 ? 0 : 1 / sum;
      if (lane % 4 == 0 && r < place.n && p.lse.p)
        *row_at<float>(p.lse, place.s, place.head, place.s.q_start + place.row0 + r) = sum == 0 ? float(-kInf) : fma(V::of(m[i]), V(1 / kExpUnit<V>), log(V::of(sum))).v;
    }
    write_rows<Queries, T, kWidth, 1>(y, factor, q, first, place.n, 0, dv, work.y_chunks,
                                      [&](int r) { return row_at<T>(p.y, place.s, place.head, place.s.q_start + place.row0 + r); });
  }
#endif
}

bool make_map(CUtensorMap& map, bool is_f16, const SdpaTensor& t, int64_t batch, int64_t heads, int64_t rows, int64_t width, int box) {
  return hopper::make_map(map, is_f16, t.p, {batch, heads, rows, width}, {t.batch, t.head, t.row, 1}, box);
}
template <class T, int kWidth> int launch(const SdpaCuda& p, void* stream) {
  using C = Config<kWidth>;
  const bool varlen = p.cu_q != nullptr;
  const int64_t batch = varlen ? 1 : p.batch, rows = varlen ? p.total_q : p.q_len, keys = varlen ? p.total_k : p.k_len;
  Work work{p, device::ceil_div(p.q_len, C::kRows)};
  if (!make_map(work.q, kIsF16<T>, p.q, batch, p.heads, rows, p.head_dim, C::kRows) || !make_map(work.k, kIsF16<T>, p.k, batch, p.kv_heads, keys, p.head_dim, C::kKeys) ||
      !make_map(work.v, kIsF16<T>, p.v, batch, p.kv_heads, keys, p.head_dim_v, C::kKeys))
    return sdpa_cuda_mma.forward[kIsF16<T> ? DType::f16 : DType::bf16](p, stream);
  constexpr int64_t kCached = 24 << 20;
  const int64_t one = p.k_len * (p.head_dim + p.head_dim_v) * 2;
  work.section = most(1, least(p.batch * p.heads, kCached / one * p.group));
  work.y_chunks = in_chunks(p.y);
  const int64_t items = p.batch * p.heads * work.parts;
  return items ? device::launch(wgmma_kernel<T, kWidth>, unsigned(items), C::kThreads, C::kBytes, stream, work) : 0;
}
template <class T> int forward(const SdpaCuda& p, void* stream) {
  const int64_t width = most(p.head_dim, p.head_dim_v);
  return width <= 64 ? launch<T, 64>(p, stream) : width <= 128 ? launch<T, 128>(p, stream) : launch<T, 256>(p, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_sm90 = {attention::of_halves(forward<f16>, forward<bf16>)};

}  // namespace baracuda
