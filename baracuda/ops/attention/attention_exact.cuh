#pragma once
// Attention by plain arithmetic, every dtype: what the kernels of attention.cu and attention_backward.cu share.
//
// A warp owns kRows rows of one side (queries, or keys in the gradient of keys); rows of the other side pass in tiles of 32, a row per
// lane, through shared memory in the type of sums. Scores: a lane's row of the tile against the warp's rows, which are read at one
// address by all lanes. Products: lanes take columns, and go through the 32 rows of the tile in order. Tiles begin at multiples of 32,
// and rows that a warp's row does not see add nothing, so a row's bits depend on what it sees alone.
#include "baracuda/device/launch.cuh"
#include "baracuda/device/walk.hpp"
#include "baracuda/ops/attention/attention_cuda.hpp"
#include "baracuda/ops/attention/attention_rows.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

inline constexpr int kTile = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

__device__ __forceinline__ int64_t length_at(const void* cu, int64_t stride, bool wide, int64_t i) {
  return wide ? static_cast<const int64_t*>(cu)[i * stride] : int64_t(static_cast<const int32_t*>(cu)[i * stride]);
}
// Item or sequence b. The host does not see the lengths: here they are cut to what the tensors hold.
__device__ __forceinline__ SdpaSequence sequence_of(const SdpaCuda& p, int64_t b) {
  if (!p.cu_q) return {b, p.q_len, p.k_len, 0, 0};
  const int64_t q = most(0, least(p.total_q, length_at(p.cu_q, p.cu_q_stride, p.cu_q_wide, b)));
  const int64_t k = most(0, least(p.total_k, length_at(p.cu_k, p.cu_k_stride, p.cu_k_wide, b)));
  const int64_t nq = length_at(p.cu_q, p.cu_q_stride, p.cu_q_wide, b + 1) - q, nk = length_at(p.cu_k, p.cu_k_stride, p.cu_k_wide, b + 1) - k;
  return {b, most(0, least(nq, least(p.q_len, p.total_q - q))), most(0, least(nk, least(p.k_len, p.total_k - k))), q, k};
}

// The score in natural logarithms, for a key that the row may see.
template <class T, class V = Pack<Acc<T>, 1>> __device__ __forceinline__ V scored(const SdpaCall& p, const Row<Acc<T>>& row, int64_t key, V s, V& slope) {
  using A = Acc<T>;
  s = s * V::of(A(p.scale)), slope = V(1);
  if (p.softcap != 0) s = softcap(s, V::of(A(p.softcap)), V::of(A(1 / p.softcap)), slope);
  if (row.bias) s = biased(s, V::of(bias_at<T>(p, row.bias, key)));
  if (p.slopes) s = alibi(s, V::of(row.slope), V::of(A(row.position - key)));
  return s;
}

// Whether scores need more than a scale that keeps their order.
BARACUDA_HD bool general_scores(const SdpaCall& p) { return p.softcap != 0 || p.slopes || p.bias || !(p.scale > 0); }
// From the maximum, in natural logarithms or (general false) before the scale, and the sum.
__device__ __forceinline__ float lse_from(const SdpaCall& p, bool general, float m, float l) {
  using V = Pack<float, 1>;
  return l == 0 ? float(-kInf) : fma(V::of(m), V(general ? 1 : p.scale), log(V::of(l))).v;
}

// T: of the tensors; kWidth: the most columns of a row.
template <class T, int kWidth> struct Exact {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  static constexpr int kRows = sizeof(A) * kWidth <= 512 ? 8 : 4, kWarps = sizeof(A) * kWidth == 2048 ? 2 : 4, kBlock = kRows * kWarps, kThreads = 32 * kWarps;
  static constexpr int kLane = 16 / int(sizeof(A)), kColumns = kWidth / 32, kStep = kColumns < kLane ? kColumns : kLane;
  static constexpr int kRowPitch = kWidth, kPitch = kWidth + kLane;  // rows of the tile: 16 bytes more, so that lanes with a row each meet no bank twice
  static constexpr int terms = kIsHalf<T> ? 4 : 6;
  struct alignas(16) Vec { A lane[kLane]; };
  struct alignas(sizeof(A) * kStep) Columns { A lane[kStep]; };
  // Tile, `sides` blocks of the warps' rows, weights.
  static constexpr size_t bytes(int sides) { return sizeof(A) * size_t(kTile * kPitch + sides * kBlock * kWidth + kBlock * kTile); }

  __device__ static int warp() { return int(threadIdx.x) / 32; }
  __device__ static int lane() { return int(threadIdx.x) % 32; }
  __device__ static int column(int c) { return c / kStep * (32 * kStep) + lane() * kStep + c % kStep; }
  __device__ static int filled(int64_t d) { return int((d + kLane - 1) / kLane * kLane); }

  // Rows [0, count) by address(r), or zeros from row n on, each filled up to 16 bytes with zeros.
  template <class F> __device__ static void load_rows(A* to, int pitch, int count, int n, int d, F address) {
    const int width = filled(d);
    for (int r = warp(); r < count; r += kWarps) {
      const T* from = r < n ? address(r) : nullptr;
      for (int e = lane(); e < width; e += 32) to[r * pitch + e] = from && e < d ? load<1>(from + e).v : A(0);
    }
  }
  __device__ static void load_tile(A* tile, const T* from, int64_t row, int n, int d) {
    load_rows(tile, kPitch, kTile, n, d, [&](int r) { return from + r * row; });
  }
  // s[r] = rows[r] . the lane's row of the tile.
  __device__ static void dots(const A* rows, const A* tile, int d, V (&s)[kRows]) {
    const int width = filled(d);
#pragma unroll
    for (int r = 0; r < kRows; ++r) s[r] = V(0);
#pragma unroll 1
    for (int e = 0; e < width; e += kLane) {
      const Vec k = *reinterpret_cast<const Vec*>(tile + lane() * kPitch + e);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const Vec x = *reinterpret_cast<const Vec*>(rows + r * kWidth + e);
#pragma unroll
        for (int j = 0; j < kLane; ++j) s[r] = fma(V::of(x.lane[j]), V::of(k.lane[j]), s[r]);
      }
    }
  }
  // sum[r] += sum over j of weights[r][j] tile[j]; kSome: over the rows that seen[r] names, whatever the others hold.
  template <bool kSome> __device__ static void products(const A* weights, const A* tile, const uint32_t (&seen)[kRows], V (&sum)[kRows][kColumns]) {
#pragma unroll 1
    for (int j = 0; j < kTile; j += kLane) {
      Vec w[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) w[r] = *reinterpret_cast<const Vec*>(weights + r * kTile + j);
#pragma unroll
      for (int i = 0; i < kLane; ++i) {
        V x[kColumns];
#pragma unroll
        for (int c = 0; c < kColumns; c += kStep) {
          const Columns part = *reinterpret_cast<const Columns*>(tile + (j + i) * kPitch + column(c));
#pragma unroll
          for (int k = 0; k < kStep; ++k) x[c + k] = V::of(part.lane[k]);
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          if (!kSome || (seen[r] >> (j + i) & 1))
#pragma unroll
            for (int c = 0; c < kColumns; ++c) sum[r][c] = fma(V::of(w[r].lane[i]), x[c], sum[r][c]);
      }
    }
  }
  __device__ static void add_products(bool some, const A* weights, const A* tile, const uint32_t (&seen)[kRows], V (&sum)[kRows][kColumns]) {
    if (some) products<true>(weights, tile, seen, sum);
    else products<false>(weights, tile, seen, sum);
  }
  // The same through a sum of the tile alone: the error of f32 sums then grows with the number of tiles.
  __device__ static void add_tile(bool some, const A* weights, const A* tile, const uint32_t (&seen)[kRows], V (&sum)[kRows][kColumns]) {
    if constexpr (sizeof(A) == 8) return add_products(some, weights, tile, seen, sum);
    V part[kRows][kColumns];
    clear(part);
    add_products(some, weights, tile, seen, part);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kColumns; ++c) sum[r][c] = sum[r][c] + part[r][c];
  }
  __device__ static void clear(V (&sum)[kRows][kColumns]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kColumns; ++c) sum[r][c] = V(0);
  }
  __device__ static void write(T* to, const V (&row)[kColumns], int d, V factor) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (column(c) < d) store<T, 1>(to + column(c), row[c] * factor);
  }
  // p and ds of a score whose row has log-sum-exp `lse` (times kExpUnit) and `delta`; seen: whether it counts.
  __device__ static void weigh(const SdpaCall& p, const Row<A>& row, int64_t key, bool seen, V s, V dp, V lse, V delta, V& w, V& ds, V& slope) {
    slope = V(1);
    V x;
    if (p.softcap == 0 && !p.slopes && !p.bias) x = fma(s, V::of(A(p.scale * kExpUnit<V>)), -lse);
    else x = seen ? fma(scored<T>(p, row, key, s, slope), V(kExpUnit<V>), -lse) : V(-kInf);
    w = exp_weight<terms>(where(x > V(128), V(128), x));
    ds = w * (dp - delta);
    if (!seen || x == V(-kInf)) w = ds = slope = V(0);
  }
  __device__ static V lse_of(const SdpaCall& p, const SdpaSequence& s, int64_t head, int64_t i) {
    const A lse = *row_at<const A>(p.lse, s, head, s.q_start + i);
    return lse == A(-kInf) ? V(kInf) : V::of(lse) * V(kExpUnit<V>);  // a query that sees nothing: exp(-inf)
  }
  __device__ static V delta_of(const SdpaCall& p, const SdpaSequence& s, int64_t head, int64_t i) {
    return V::of(static_cast<const A*>(p.delta)[s.b * p.delta_batch + head * p.delta_head + s.q_start + i]);
  }
};

// F<T, kWidth> for the width of a call, by dtype.
template <template <class, int> class F, class T> int by_width(const SdpaCuda& p, void* stream) {
  const int64_t width = p.head_dim > p.head_dim_v ? p.head_dim : p.head_dim_v;
  if (width <= 64) return F<T, 64>::launch(p, stream);
  if (width <= 128) return F<T, 128>::launch(p, stream);
  return F<T, 256>::launch(p, stream);
}
template <template <class, int> class F> constexpr ByDType<SdpaLaunch> by_dtype() {
  return device::floating<SdpaLaunch>(by_width<F, f16>, by_width<F, bf16>, by_width<F, float>, by_width<F, double>);
}

}  // namespace attention
}  // namespace baracuda
