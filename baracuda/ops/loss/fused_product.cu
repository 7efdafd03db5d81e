// Logits that are never stored, or stored once as their gradients: 128 x 256 of them in registers, as a product (gemm_sm90.cuh) leaves them, become a maximum
// and a sum for each row, or, where those of the whole row are known, its gradient. Beside the product: an exp per logit, the processor's.
#include "baracuda/ops/gemm/gemm_sm90.cuh"
#include "baracuda/ops/loss/fused_product.hpp"
#include "baracuda/ops/loss/loss_device.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace loss_device;
namespace product = gemm_sm90_detail;
static_assert(kFusedColumns == product::kMostN);

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
__device__ __forceinline__ float quad_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
__device__ __forceinline__ float quad_sum(float v) {
  v = v + __shfl_xor_sync(0xffffffffu, v, 1);
  return v + __shfl_xor_sync(0xffffffffu, v, 2);
}
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// From global to shared memory without waiting; zeros unless it is there.
template <int kBytes> __device__ __forceinline__ void copy_some(uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes), "r"(there ? kBytes : 0) : "memory");
}
__device__ __forceinline__ float2 pair_at(uint32_t at) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ int word_at(uint32_t at) {
  int v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}
#endif
// A thread has two rows, 8 apart, and of 8 columns two neighbours: c[j][2 r + i] is row r, column 8 j + 2 q + i, q its place among four threads.
// The bias of a tile's columns lies in shared memory, 0 behind the last one.
struct OfRows {
  const float* bias;
  Cap cap;
  int n;
  static constexpr uint32_t kOwn = kFusedColumns * 4;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  // A warpgroup's copy; `tile`: the first column.
  __device__ __forceinline__ void fetch(uint32_t own, int tile) const {
    const int at = int(product::anew(threadIdx.x)) % 128 * 2;
    if (bias) copy_some<8>(own + uint32_t(at) * 4, bias + tile + at, tile + at < n);  // behind the bias of an odd n lies one more
  }
  template <int kN> __device__ __forceinline__ void shape(float (&c)[kN / 8][4], uint32_t own) const {
    if (bias) {
      const uint32_t from = own + product::anew(threadIdx.x) % 4 * 8;
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        const float2 b = pair_at(from + uint32_t(j) * 32);
#pragma unroll
        for (int r = 0; r < 2; ++r) c[j][2 * r] = c[j][2 * r] + b.x, c[j][2 * r + 1] = c[j][2 * r + 1] + b.y;
      }
    }
    if (cap.c > 0) {
      constexpr int kTogether = 2;  // blocks of 8 columns; a warp goes beyond the inner part where one of its elements is there
#pragma unroll
      for (int first = 0; first < kN / 8; first += kTogether) {
        float most = 0, x[kTogether][4];
#pragma unroll
        for (int j = 0; j < kTogether; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) x[j][i] = c[first + j][i], most = fmaxf(most, fabsf(x[j][i])), c[first + j][i] = cap.of_inner(x[j][i]);
        if (__any_sync(0xffffffffu, most > cap.inner))
#pragma unroll
          for (int j = 0; j < kTogether; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) asm volatile("mov.f32 %0, %1;" : "=f"(c[first + j][i]) : "f"(cap(x[j][i])));
        __syncwarp();  // one after the other: there are no registers for more
      }
    }
  }
#endif
};
// f(element of row r) for the one of column `at` of a thread's two rows, at in [0, kN) where it is among them.
template <int kN, class F> __device__ __forceinline__ void at_column(float (&c)[kN / 8][4], const int (&at)[2], F f) {
#pragma unroll
  for (int j = 0; j < kN / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (at[i / 2] == j * 8 + i % 2) f(i / 2, c[j][i]);
}
struct Targets { int of[2]; };
__device__ __forceinline__ Targets targets_of(const int* target, int64_t first, int m, int row) {
  return {{row < m ? target[first + row] : -1, row + 8 < m ? target[first + row + 8] : -1}};
}

struct Logits {
  OfRows of;
  static constexpr bool kStores = true;
  static constexpr uint32_t kOwn = OfRows::kOwn;
  struct Rows {};
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ Rows rows(int, int) const { return {}; }
  __device__ __forceinline__ void fetch(uint32_t own, int, int, int tile) const {
    of.fetch(own, tile);
    device_lines::commit_lines();
  }
  template <int kN> __device__ __forceinline__ void operator()(float (&c)[kN / 8][4], const Rows&, int, int, int, uint32_t own) const { of.shape<kN>(c, own); }
#endif
};

template <bool kShaped> struct Statistics {
  OfRows of;
  const int* target;
  int64_t first, first_class, stride;
  FusedPart* parts;
  float *totals, *at_target;
  static constexpr bool kStores = false;
  static constexpr uint32_t kOwn = kShaped ? OfRows::kOwn : 0;
  using Rows = Targets;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ Rows rows(int m, int row) const { return targets_of(target, first, m, row); }
  __device__ __forceinline__ void fetch(uint32_t own, int, int, int tile) const {
    of.fetch(own, tile);
    device_lines::commit_lines();
  }
  template <int kN> __device__ __forceinline__ void operator()(float (&c)[kN / 8][4], const Rows& rows, int m, int row, int tile, uint32_t own) const {
    const int q = int(product::anew(threadIdx.x)) % 4, column = tile + q * 2;
    if constexpr (kShaped) of.shape<kN>(c, own);
    if (tile + kN > of.n)
#pragma unroll
      for (int j = 0; j < kN / 8; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (column + j * 8 + i % 2 >= of.n) c[j][i] = -INFINITY;
    const int at[2] = {int(rows.of[0] - first_class) - column, int(rows.of[1] - first_class) - column};
    if (__any_sync(0xffffffffu, (at[0] >= 0 && at[0] < kN) || (at[1] >= 0 && at[1] < kN)))
      at_column<kN>(c, at, [&](int r, float x) {
        if (rows.of[r] >= 0) at_target[first + row + 8 * r] = x;
      });
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = -INFINITY, sums[4] = {}, total = 0;
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) most = fmaxf(most, fmaxf(c[j][2 * r], c[j][2 * r + 1]));
      most = quad_max(most);
      const float base = most == -INFINITY ? 0 : most;
#pragma unroll
      for (int j = 0; j < kN / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) sums[j % 2 * 2 + i] = sums[j % 2 * 2 + i] + term(c[j][2 * r + i] - base);
      const float sum = quad_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
      if (totals) {
#pragma unroll
        for (int j = 0; j < kN / 8; ++j)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (column + j * 8 + i < of.n) total = total + (c[j][2 * r + i] - base);
        total = quad_sum(total);
      }
      const int64_t to = tile / kN * stride + row + 8 * r;
      if (q == 0 && row + 8 * r < m) {
        parts[to] = {most, sum};
        if (totals) totals[to] = total;
      }
    }
  }
#endif
};

struct Slopes { FusedSlope of[2]; Targets target; };
template <bool kShaped> struct Gradients {
  OfRows of;
  const int* target;
  int64_t first, first_class;
  const FusedSlope* slopes;
  static constexpr bool kStores = true;
  struct Nothing {};
  using Rows = std::conditional_t<kShaped, Nothing, Slopes>;  // with a bias and a cap there are no registers for them: they lie in shared memory
  static constexpr int kRows = 64;  // of a warpgroup
  static constexpr uint32_t kSlopes = OfRows::kOwn, kTargets = kSlopes + kRows * sizeof(FusedSlope), kOwn = kShaped ? kTargets + kRows * 4 : 0;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ Rows rows(int m, int row) const {
    if constexpr (kShaped) return {};
    else {
      const auto slope_of = [&](int r) { return r < m ? slopes[first + r] : FusedSlope{0, 0, 0, 0}; };
      return {{slope_of(row), slope_of(row + 8)}, targets_of(target, first, m, row)};
    }
  }
  __device__ __forceinline__ void fetch(uint32_t own, int m, int row, int tile) const {
    of.fetch(own, tile);
    if (const int at = int(product::anew(threadIdx.x)) % 128; at < kRows) {
      copy_some<16>(own + kSlopes + uint32_t(at) * sizeof(FusedSlope), slopes + first + row + at, row + at < m);
      copy_some<4>(own + kTargets + uint32_t(at) * 4, target + first + row + at, row + at < m);
    }
    device_lines::commit_lines();
  }
  template <int kN> __device__ __forceinline__ void operator()(float (&c)[kN / 8][4], const Rows& rows, int, int row, int tile, uint32_t own) const {
    const int column = tile + int(product::anew(threadIdx.x)) % 4 * 2;
    if constexpr (kShaped) of.shape<kN>(c, own);
    float hit[2];
    int targets[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      FusedSlope known;
      if constexpr (kShaped) {
        const uint32_t at = uint32_t(row) % kRows + 8 * uint32_t(r);
        const float2 a = pair_at(own + kSlopes + at * 16), b = pair_at(own + kSlopes + at * 16 + 8);
        known = {a.x, a.y, b.x, b.y};
        targets[r] = word_at(own + kTargets + at * 4);
      } else known = rows.of[r], targets[r] = rows.target.of[r];
      RowSlope<bf16, float> slope;
      slope.factor = known.factor, slope.uniform = known.uniform, hit[r] = known.hit;
#pragma unroll
      for (int j = 0; j < kN / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = c[j][2 * r + i];
          const float d = slope(x - known.most);
          if constexpr (kShaped) x = of.cap.c > 0 ? d * of.cap.slope(x) : d;
          else x = d;
        }
    }
    const int at[2] = {int(targets[0] - first_class) - column, int(targets[1] - first_class) - column};
    if (__any_sync(0xffffffffu, (at[0] >= 0 && at[0] < kN) || (at[1] >= 0 && at[1] < kN)))
      at_column<kN>(c, at, [&](int r, float& x) {
        if (targets[r] >= 0) x = r == 0 ? hit[0] : hit[1];
      });
  }
#endif
};

// What is in f32 already, if any, added to the sums of the last chunk. Rows of a tile are asked for while its products run.
struct Last {
  const float* sums;
  int64_t pitch, first, k;
  const int64_t* count;
  int n;
  static constexpr bool kStores = true;
  static constexpr uint32_t kOwn = 16;  // nothing: so that fetch is called
  struct Rows { bool add; };
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ bool adds() const { return *count - first > k; }
  __device__ __forceinline__ Rows rows(int, int) const { return {adds()}; }
  __device__ __forceinline__ void fetch(uint32_t, int m, int row, int tile) const {
    const int at = int(product::anew(threadIdx.x)) % 128, left = n - tile, bytes = (left < kFusedColumns ? left : kFusedColumns) * 4 / 16 * 16;
    if (at < 64 && row + at < m && bytes > 0 && adds())
      asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(sums + (row + at) * pitch + tile), "r"(bytes) : "memory");
  }
  template <int kN> __device__ __forceinline__ void operator()(float (&c)[kN / 8][4], const Rows& rows, int m, int row, int tile, uint32_t) const {
    if (!rows.add) return;
    constexpr int kTogether = 8;  // blocks of 8 columns
    const int column = tile + int(product::anew(threadIdx.x)) % 4 * 2;
    const float* const from = sums + row * pitch + column;
#pragma unroll
    for (int first = 0; first < kN / 8; first += kTogether) {
      float2 there[kTogether][2];
#pragma unroll
      for (int j = 0; j < kTogether; ++j)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          there[j][r] = row + 8 * r < m && column + (first + j) * 8 < n ? __ldcs(reinterpret_cast<const float2*>(from + 8 * r * pitch + (first + j) * 8)) : make_float2(0, 0);
#pragma unroll
      for (int j = 0; j < kTogether; ++j)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float(&v)[4] = c[first + j];
          v[2 * r] = there[j][r].x + v[2 * r], v[2 * r + 1] = there[j][r].y + v[2 * r + 1];
        }
    }
  }
#endif
};

// A row's parts by eight threads, each every eighth of them, twice: for the largest, and for the sum.
constexpr int kRows = 32, kSegments = 8;
__global__ void __launch_bounds__(kRows * kSegments, 1) join_kernel(const __grid_constant__ FusedJoin p) {
  __shared__ float largest[kSegments][kRows];
  __shared__ double sums[kSegments][kRows][2];
  const LossCudaRows& r = p.rows;
  const RowsLeft rows(r.kept, r.first, r.rows);
  const int lane = int(threadIdx.x), segment = int(threadIdx.y);
  const int64_t tiles = (r.t.classes + kFusedColumns - 1) / kFusedColumns;
  for (int64_t first = int64_t(blockIdx.x) * kRows; first < rows.some; first += int64_t(gridDim.x) * kRows) {
    const int64_t row = first + lane;
    const bool there = row < rows.some;
    float most = -INFINITY;
    if (there)
#pragma unroll 8
      for (int64_t i = segment; i < tiles; i += kSegments) most = fmaxf(most, p.parts[i * p.stride + row].most);
    largest[segment][lane] = most;
    __syncthreads();
#pragma unroll
    for (int s = 0; s < kSegments; ++s) most = fmaxf(most, largest[s][lane]);
    double sum = 0, total = 0;
    if (there)
#pragma unroll 4
      for (int64_t i = segment; i < tiles; i += kSegments) {
        const FusedPart part = p.parts[i * p.stride + row];
        const int64_t left = r.t.classes - i * kFusedColumns;
        sum = sum + double(part.sum) * double(exp(Pack<float, 1>::of(part.most) - Pack<float, 1>::of(most)).v);
        if (p.totals) total = total + (double(p.totals[i * p.stride + row]) + double(left < kFusedColumns ? left : kFusedColumns) * double(part.most == -INFINITY ? 0 : part.most));
      }
    sums[segment][lane][0] = sum, sums[segment][lane][1] = total;
    __syncthreads();
    if (segment == 0 && there) {
      double exps = 0;
      total = 0;
#pragma unroll
      for (int s = 0; s < kSegments; ++s) exps = exps + sums[s][lane][0], total = total + sums[s][lane][1];
      if (most == -INFINITY) exps = kNaN;  // no class has a probability
      const int64_t token = token_of(r.kept, r.first + row);
      const float x = p.at_target[r.first + row];
      const RowLoss made = loss_of(r.t, token, exps, most, x, total - double(r.t.classes) * double(most), r.smoothing, r.z);
      r.loss[token] = made.loss, r.z_part[token] = made.z;
      if (p.slopes) {
        const loss::RowGradient k = gradient_of(r.t, upstream(r.t, token), exps, most, r.smoothing, r.z);
        const RowSlope<bf16, float> slope(k.per_exp, k.uniform);
        const double hit = at_target_of(k, x, most) * (r.softcap > 0 ? double(Cap(r.softcap).slope(x)) : 1);
        p.slopes[r.first + row] = {slope.factor, slope.uniform, most, float(hit)};
      }
    }
    __syncthreads();
  }
}

template <class E> int queue(const FusedProduct& p, const E& between, void* stream) {
  using namespace product;
  int error = 0;
  const int64_t most = multiprocessors(error);
  if (error) return error;
  Works<E, 1> w{{}, between};
  if (!make_work(w.work[0], p.g, false, kMostN, E::kStores)) return kGemmSm90Refused;
  return launch_product<bf16, E, Kind<false, kMostN, 0, 0>>(w, most, stream);
}
OfRows of_rows(const FusedProduct& p) { return {p.bias, Cap(p.softcap), int(p.g.n)}; }
bool shaped(const FusedProduct& p) { return p.bias || p.softcap > 0; }
int logits(const FusedProduct& p, void* stream) { return queue(p, Logits{of_rows(p)}, stream); }
template <bool kShaped> int statistics_of(const FusedProduct& p, void* stream) {
  return queue(p, Statistics<kShaped>{of_rows(p), p.target, p.g.first, p.first_class, p.g.m, p.parts, p.totals, p.at_target}, stream);
}
int statistics(const FusedProduct& p, void* stream) { return shaped(p) ? statistics_of<true>(p, stream) : statistics_of<false>(p, stream); }
template <bool kShaped> int gradients_of(const FusedProduct& p, void* stream) {
  return queue(p, Gradients<kShaped>{of_rows(p), p.target, p.g.first, p.first_class, p.slopes}, stream);
}
int gradients(const FusedProduct& p, void* stream) { return shaped(p) ? gradients_of<true>(p, stream) : gradients_of<false>(p, stream); }
int last(const FusedLast& p, void* stream) {
  using namespace product;
  int error = 0;
  const int64_t most = multiprocessors(error);
  if (error) return error;
  Works<Last, 1> w{{}, {p.sums, p.sums_pitch, p.g.first, p.g.k, p.g.count, int(p.g.n)}};
  if (!make_work(w.work[0], p.g, false, kMostN)) return kGemmSm90Refused;
  return launch_product<bf16, Last, Kind<false, kMostN, 1, 1>>(w, most, stream);
}
int join(const FusedJoin& p, void* stream) { return device::launch(join_kernel, device::blocks_for(p.rows.rows, kRows), dim3(kRows, kSegments), 0, stream, p); }

}  // namespace
}  // namespace BARACUDA_ISA

extern const FusedProductKernels fused_product_kernels = {logits, statistics, gradients, join, last};

}  // namespace baracuda
