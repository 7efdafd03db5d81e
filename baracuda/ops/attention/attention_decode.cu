// Forward for few queries over many keys (decoding), f16 and bf16: y = softmax(scale q k^T, masked) v by mma.sync (attention_mma.cuh), as
// Flash-Decoding splits it (Dao, Haziza, Massa, Sizov, 2023). The queries of all heads that share keys go together, so that keys are read once.
//   decode kernel   a block has a part of a key head's keys; each of its teams of one or two warps goes through tiles of its own, the next ones coming in
//                   while one is worked on, a warp without waiting for the others; their m, l and y are joined in shared memory, in order
//   join kernel     joins the parts of a row (attention_decode.cuh)
// Which keys make a part and which team has a tile follows from the key and k_len alone. Floor: k and v once, at the bandwidth of memory.
#include "baracuda/ops/attention/attention_decode.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

// kSides: warps of a team, each with rows of its own.
template <int kWidth, bool kGeneral, int kSides> struct Config {
  static constexpr int kTiles = kSides > 1 && kWidth <= 128 ? 2 : 1, kRows = 16 * kTiles * kSides;
  static constexpr int kTeams = kWidth <= 128 ? 4 / kSides : 2, kThreads = 32 * kSides * kTeams, kBlocks = 2;
  static constexpr bool kHeld = kSides == 1 && kWidth <= 128;  // queries stay in registers, and their memory becomes a third stage
  static constexpr int kStages = kHeld ? 3 : 2;
  static constexpr int kKeys = kSides * (kWidth <= 64 ? 32 : 16) / (kWidth <= 128 ? 1 : kSides);
  static constexpr uint32_t kTileBytes = kKeys * kWidth * 2;
  static constexpr size_t kStageBytes = size_t(kTeams) * kStages * 2 * kTileBytes + (kHeld ? 0 : size_t(kRows) * kWidth * 2), kSumBytes = size_t(kTeams) * kRows * kWidth * 4;
  static constexpr size_t kBytes = kStageBytes > kSumBytes ? kStageBytes : kSumBytes;
};
template <class T, int kWidth, bool kGeneral, int kSides>
__global__ void __launch_bounds__(Config<kWidth, kGeneral, kSides>::kThreads, Config<kWidth, kGeneral, kSides>::kBlocks) decode_kernel(const __grid_constant__ SplitWork work) {
  using C = Config<kWidth, kGeneral, kSides>;
  using Tile = MmaTile<T, kWidth, 32 * kSides>;
  using V = Pack<float, 1>;
  constexpr int kTiles = C::kTiles, kKeys = C::kKeys, kTeams = C::kTeams, kLines = 2 * kTiles, kTurn = kTeams * kKeys;  // lines: rows that a thread has sums of
  const SdpaCuda& p = work.p;
  extern __shared__ __align__(128) char memory[];
  __shared__ float2 team_sums[kTeams][C::kRows];
  const int team = int(threadIdx.y), t = int(threadIdx.x) % 4, first = int(threadIdx.x) / 32 * 16 * kTiles;
  const uint32_t q = shared_address(memory), stages = q + (C::kHeld ? 0 : C::kRows * kWidth * 2) + uint32_t(team) * C::kStages * 2 * C::kTileBytes;
  const int d = int(p.head_dim), dv = int(p.head_dim_v);
  const T *keys, *values;
  int lo, hi, all_from, all_to, k_len, rows;  // keys of the part that some query, that all queries see
  {
    const SplitPlace place = place_of(work, C::kRows);
    const SdpaSequence& s = place.s;
    if (place.n <= 0) return;
    const Mask mask = mask_of(p, s);
    const KeyRange top = mask.of(0), bottom = mask.of(s.q_len - 1);
    all_from = int(bottom.lo), all_to = int(top.hi), lo = int(most(top.lo, place.split * p.part)), hi = int(least(bottom.hi, (place.split + 1) * p.part));
    k_len = int(s.k_len), rows = place.n;
    keys = row_at<const T>(p.k, s, place.kv_head, s.k_start), values = row_at<const T>(p.v, s, place.kv_head, s.k_start);
    if (team == 0)
      Tile::template copy<C::kRows>(q, place.n, d, work.q_chunks, [&](int r) { return row_at<const T>(p.q, s, place.head_of(r), s.q_start + place.query_of(r)); });
  }
  const auto copy = [&](int key, uint32_t to) {
    Tile::template copy<kKeys>(to, keys + key * p.k.row, p.k.row, k_len - key, d, work.k_chunks);
    Tile::template copy<kKeys>(to + C::kTileBytes, values + key * p.v.row, p.v.row, k_len - key, dv, work.v_chunks);
  };
  uint32_t held[C::kHeld ? kWidth / 16 : 1][4];
  if constexpr (C::kHeld) {
    commit_copies();
    wait_copies<0>();
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kWidth / 16; ++k) Tile::left(held[k], q, 0, k);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i + 1 < C::kStages; ++i) {
    if (const int key = (lo / kTurn + i) * kTurn + team * kKeys; key < hi) copy(key, stages + uint32_t(i) * 2 * C::kTileBytes);
    commit_copies();
  }

  float y[kTiles][kWidth / 8][4] = {}, m[kLines], l[kLines];
#pragma unroll
  for (int i = 0; i < kLines; ++i) m[i] = float(-kInf), l[i] = 0;
  const V unit = V(kGeneral ? kExpUnit<V> : p.scale * kExpUnit<V>);
  const auto line_row = [&](int i) {  // of the block; anew each time
    int thread = int(threadIdx.x);
    asm volatile("" : "+r"(thread));
    return thread / 32 * 16 * kTiles + 16 * (i / 2) + 8 * (i % 2) + thread % 32 / 4;
  };
  if constexpr (!C::kHeld) {
    wait_copies<0>();
    __syncthreads();
  }

  const auto sync = [] {  // of a team; teams of several warps go in step
    if constexpr (kSides == 1) __syncwarp();
    else __syncthreads();
  };
  int now = 0;  // the stage of the tile
#pragma unroll 1
  for (int turn = lo / kTurn * kTurn; turn < hi; turn += kTurn, now = now + 1 == C::kStages ? 0 : now + 1) {
    const int key = turn + team * kKeys;
    wait_copies<C::kStages - 2>();
    sync();
    if (const int next = key + (C::kStages - 1) * kTurn; next < hi) copy(next, stages + uint32_t(now == 0 ? C::kStages - 1 : now - 1) * 2 * C::kTileBytes);
    commit_copies();
    const uint32_t k = stages + uint32_t(now) * 2 * C::kTileBytes, v = k + C::kTileBytes;
    const bool here = key < hi && key + kKeys > lo, masked = (kGeneral && p.bias) || (kSides == 1 ? key < all_from || key + kKeys > all_to : turn < all_from || turn + kTurn > all_to);
    // Where some queries do not see what others see, a weight of 0 must not meet NaN or infinities in v.
    bool bad = false;
    if (masked) {
      bad = here && Tile::template any_nonfinite<kKeys>(v);
      if constexpr (kSides == 1) bad = __any_sync(kAllLanes, bad);
      else bad = __syncthreads_or(bad);
      if (bad) {
        if (here) Tile::template clean<kKeys>(v);
        sync();
      }
    }
    if (first >= rows || !here) continue;
    float x[kTiles][kKeys / 8][4];
    if constexpr (C::kHeld)
      scores_of<Tile, T, kWidth, kTiles, kKeys>(x, [&](uint32_t (&a)[4], int, int j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = held[j][i];
      }, k, d);
    else scores<Tile, T, kWidth, kTiles, kKeys>(x, q, first, k, d);
    uint32_t seen[kLines];  // bit e: the line's e-th score counts
    if (kGeneral || masked) {
      const SplitPlace place = place_of(work, C::kRows);
      const Mask mask = mask_of(p, place.s);
#pragma unroll
      for (int i = 0; i < kLines; ++i) {
        const int r = line_row(i);
        Row<float> row{0, 0, 0, 0, nullptr};
        if (r < place.n) {
          if constexpr (kGeneral) make_row<T>(row, p, place.s, mask, place.head_of(r), place.query_of(r));
          else {
            const KeyRange range = mask.of(place.query_of(r));
            row.lo = range.lo, row.hi = range.hi;
          }
        }
        const int begin = int(row.lo) - key, end = int(row.hi) - key;
        if constexpr (kGeneral)
#pragma unroll
          for (int e = 0; e < kKeys / 4; ++e) {
            float& score = x[i / 2][e / 2][2 * (i % 2) + e % 2];
            const int at = e / 2 * 8 + 2 * t + e % 2;
            V slope;
            if (at >= begin && at < end) score = scored<T>(p, row, key + at, V::of(score), slope).v;
          }
        seen[i] = hide<kTiles, kKeys>(x, i, begin, end);
      }
    }
    float shrink[kLines];
    uint32_t weights[kTiles][kKeys / 8][2];
    if (soften<T, kTiles, kKeys>(x, m, l, shrink, weights, unit)) scale_rows(y, shrink);
    if (bad) add_nonfinite<T, kWidth, kTiles>(y, seen, values + key * p.v.row, p.v.row, k_len - key < kKeys ? k_len - key : kKeys, 0, dv);
    weighted<Tile, T, kWidth, kTiles, kKeys>(y, weights, v, 0, dv);
  }

#pragma unroll
  for (int i = 0; i < kLines; ++i) {
    l[i] = row_sum(l[i]);
    if (t == 0) team_sums[team][line_row(i)] = {m[i], l[i]};
  }
  __syncthreads();  // and all are done with the tiles
  float* const sums = reinterpret_cast<float*>(memory);  // [team][row][column]
  const auto join = [&](int r, float& most_of, float& sum) {  // of all teams, in order
    most_of = float(-kInf), sum = 0;
#pragma unroll
    for (int j = 0; j < kTeams; ++j) most_of = fmaxf(most_of, team_sums[j][r].x);
    const V safe = V::of(most_of == float(-kInf) ? 0 : most_of);
#pragma unroll
    for (int j = 0; j < kTeams; ++j) sum = fma(exp_weight<4>((V::of(team_sums[j][r].x) - safe) * unit), V::of(team_sums[j][r].y), V::of(sum)).v;
  };
#pragma unroll
  for (int i = 0; i < kLines; ++i) {
    const int r = line_row(i);
    if (r >= rows) continue;
    float most_of, sum;
    join(r, most_of, sum);
    const float weight = exp_weight<4>((V::of(m[i]) - V::of(most_of == float(-kInf) ? 0 : most_of)) * unit).v;
#pragma unroll
    for (int j = 0; j < kWidth / 8; ++j)
      *reinterpret_cast<float2*>(sums + (team * C::kRows + r) * kWidth + 8 * j + 2 * t) = {y[i / 2][j][2 * (i % 2)] * weight, y[i / 2][j][2 * (i % 2) + 1] * weight};
  }
  __syncthreads();
  const SplitPlace place = place_of(work, C::kRows);
  const SdpaSequence& s = place.s;
  for (int r = team; r < rows; r += kTeams) {
    float most_of, sum;
    join(r, most_of, sum);
    const int64_t head = place.head_of(r), query = place.query_of(r), row = (s.b * p.heads + head) * p.q_len + query;
    const float factor = p.splits > 1 ? 1 : sum == 0 ? 0 : 1 / sum;
    float* const part = p.splits > 1 ? part_rows(work, row) + place.split * dv : nullptr;
    T* const to = row_at<T>(p.y, s, head, s.q_start + query);
    for (int c = int(threadIdx.x); c < dv; c += 32 * kSides) {
      float value = 0;
#pragma unroll
      for (int j = 0; j < kTeams; ++j) value += sums[(j * C::kRows + r) * kWidth + c];
      if (part) part[c] = value;
      else store<T, 1>(to + c, V::of(value * factor));
    }
    if (threadIdx.x != 0) continue;
    if (part) part_sums(work, row)[place.split] = {most_of, sum};
    else if (p.lse.p) *row_at<float>(p.lse, s, head, s.q_start + query) = lse_from(p, kGeneral, most_of, sum);
  }
}

template <class T, int kWidth, bool kGeneral, int kSides> int launch_as(SplitWork work, void* stream) {
  using C = Config<kWidth, kGeneral, kSides>;
  work.parts = device::ceil_div(work.p.q_len * work.p.group, C::kRows);
  const int64_t items = work.p.batch * work.p.kv_heads * work.p.splits * work.parts;
  return items ? device::launch(decode_kernel<T, kWidth, kGeneral, kSides>, unsigned(items), dim3(32 * kSides, C::kTeams), C::kBytes, stream, work) : 0;
}
template <class T, int kWidth> struct Decode {
  static int launch(const SdpaCuda& p, void* stream) {
    const SplitWork work{p, 0, in_chunks(p.q), in_chunks(p.k), in_chunks(p.v)};
    const int error = general_scores(p)      ? launch_as<T, kWidth, true, 1>(work, stream)
                      : p.q_len * p.group > 16 ? launch_as<T, kWidth, false, 2>(work, stream)
                                               : launch_as<T, kWidth, false, 1>(work, stream);
    return error ? error : join_parts<T>(work, false, stream);
  }
};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_decode = {attention::halves_by_width<Decode>()};

}  // namespace baracuda
