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
// A thread has two rows, 8 apart, and of 8 columns two neighbours: c[j][2 r + i] is row r, column 8 j + 2 q + i, q its place among four threads.
struct OfRows {
  const float* bias;
  float softcap;
  int n;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  // kTogether: pairs of the bias that are on their way at once; 0: one number after the other, where registers allow no more.
  template <int kN, int kTogether> __device__ __forceinline__ void shape(float (&c)[kN / 8][4], int column) const {
    if (bias) {
      const float* const from = bias + column;
      if constexpr (kTogether > 0) {
        const int last = (n - 1) / 2 * 2 - column;  // behind the bias of an odd n lies one more
#pragma unroll
        for (int j = 0; j < kN / 8; j += kTogether) {
          float2 b[kTogether];
#pragma unroll
          for (int k = 0; k < kTogether; ++k) b[k] = *reinterpret_cast<const float2*>(from + ((j + k) * 8 < last ? (j + k) * 8 : last));
          asm volatile("" ::: "memory");
#pragma unroll
          for (int k = 0; k < kTogether; ++k)
#pragma unroll
            for (int r = 0; r < 2; ++r) c[j + k][2 * r] = c[j + k][2 * r] + b[k].x, c[j + k][2 * r + 1] = c[j + k][2 * r + 1] + b[k].y;
        }
      } else {
        const int last = n - 1 - column;
#pragma unroll
        for (int j = 0; j < kN / 8; ++j) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float b = from[j * 8 + i < last ? j * 8 + i : last];
            c[j][i] = c[j][i] + b, c[j][2 + i] = c[j][2 + i] + b;
          }
          asm volatile("" ::: "memory");
        }
      }
    }
    if (softcap > 0) {
      const Cap cap(softcap);
#pragma unroll
      for (int j = 0; j < kN / 8; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) c[j][i] = cap(c[j][i]);
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
  struct Rows {};
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ Rows rows(int, int) const { return {}; }
  template <int kN> __device__ __forceinline__ void operator()(float (&c)[kN / 8][4], const Rows&, int, int, int column) const {
    of.shape<kN, 16>(c, column + int(product::anew(threadIdx.x)) % 4 * 2);
  }
#endif
};

template <bool kShaped> struct Statistics {
  OfRows of;
  const int* target;
  int64_t first, first_class, stride;
  FusedPart* parts;
  float *totals, *at_target;
  static constexpr bool kStores = false;
  using Rows = Targets;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ Rows rows(int m, int row) const { return targets_of(target, first, m, row); }
  template <int kN> __device__ __forceinline__ void operator()(float (&c)[kN / 8][4], const Rows& rows, int m, int row, int tile) const {
    const int q = int(product::anew(threadIdx.x)) % 4, column = tile + q * 2;
    if constexpr (kShaped) of.shape<kN, 8>(c, column);
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
  using Rows = std::conditional_t<kShaped, Nothing, Slopes>;  // a bias and a cap take the registers that would hold them
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ FusedSlope slope_of(int m, int row) const { return row < m ? slopes[first + row] : FusedSlope{0, 0, 0, 0}; }
  __device__ __forceinline__ Rows rows(int m, int row) const {
    if constexpr (kShaped) return {};
    else return {{slope_of(m, row), slope_of(m, row + 8)}, targets_of(target, first, m, row)};
  }
  template <int kN> __device__ __forceinline__ void operator()(float (&c)[kN / 8][4], const Rows& rows, int m, int row, int tile) const {
    const int column = tile + int(product::anew(threadIdx.x)) % 4 * 2;
    if constexpr (kShaped) of.shape<kN, 0>(c, column);
    const Cap cap(of.softcap);
    float hit[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      FusedSlope known;
      if constexpr (kShaped) known = slope_of(m, row + 8 * r);
      else known = rows.of[r];
      RowSlope<bf16, float> slope;
      slope.factor = known.factor, slope.uniform = known.uniform, hit[r] = known.hit;
#pragma unroll
      for (int j = 0; j < kN / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = c[j][2 * r + i];
          const float d = slope(x - known.most);
          if constexpr (kShaped) x = of.softcap > 0 ? d * cap.slope(x) : d;
          else x = d;
        }
    }
    Targets targets;
    if constexpr (kShaped) targets = targets_of(target, first, m, row);
    else targets = rows.target;
    const int at[2] = {int(targets.of[0] - first_class) - column, int(targets.of[1] - first_class) - column};
    if (__any_sync(0xffffffffu, (at[0] >= 0 && at[0] < kN) || (at[1] >= 0 && at[1] < kN)))
      at_column<kN>(c, at, [&](int r, float& x) {
        if (targets.of[r] >= 0) x = r == 0 ? hit[0] : hit[1];
      });
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
OfRows of_rows(const FusedProduct& p) { return {p.bias, float(p.softcap), int(p.g.n)}; }
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
int join(const FusedJoin& p, void* stream) { return device::launch(join_kernel, device::blocks_for(p.rows.rows, kRows), dim3(kRows, kSegments), 0, stream, p); }

}  // namespace
}  // namespace BARACUDA_ISA

extern const FusedProductKernels fused_product_kernels = {logits, statistics, gradients, join};

}  // namespace baracuda
