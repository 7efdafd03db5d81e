// Rows of LayerNorm and RmsNorm that no block holds, held by the blocks of a device together (device/spread.cuh). A piece of x has its mean and the
// sum of squares around it, in f64; they meet around the first piece's mean. A piece of the gradient has sums in f32, which meet in f64. Reads x (dy
// and x) once, writes y (dx).
#include "baracuda/device/spread.cuh"
#include "baracuda/ops/norm/norm_math.hpp"
#include "baracuda/ops/norm/norm_spread_cuda.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace spread_rows;
using V = Pack<float, 1>;

struct SpreadCuda {
  NormSpreadCuda p;
  Job job;
  double inverse_n, inverse_length;
};
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Factors of a chunk, `none` where there are none.
template <class T> struct Factors {
  static constexpr int N = kChunk<T>;
  V v[N];
  Factors() = default;
  __device__ __forceinline__ Factors(const ChannelVector& from, int i, double none) {
    const bool whole = from.stride == 1 && uintptr_t(from.data) % 16 == 0;
    if (!from.data) {
#pragma unroll
      for (int j = 0; j < N; ++j) v[j] = none;
    } else if (from.f32) {
      const float* const w = static_cast<const float*>(from.data) + i * from.stride;
      Packed<float, N> own;
      if (whole) own = Packed<float, N>::load(w);
      else own = Packed<float, N>::from([&](int j) { return w[j * from.stride]; });
#pragma unroll
      for (int j = 0; j < N; ++j) v[j] = own[j];
    } else {
      const T* const w = static_cast<const T*>(from.data) + i * from.stride;
      Packed<T> own;
      if (whole) own = Packed<T>::load(w);
      else own = Packed<T>::from([&](int j) { return w[j * from.stride]; });
#pragma unroll
      for (int j = 0; j < N; ++j) v[j] = own[j];
    }
  }
  __device__ __forceinline__ void one_plus() {
#pragma unroll
    for (int j = 0; j < N; ++j) v[j] = V(1) + v[j];
  }
};
template <class T> __device__ __forceinline__ V rounded_to(V v) { return Packed<T, 4 / int(sizeof(T))>::rounded([&](int) { return v; })[0]; }
template <class T> __device__ __forceinline__ int count_of(const NormSpreadCuda& p, int first, int length) { return p.write.n - first < length ? int(p.write.n - first) : length; }

// Where a block goes down the same columns of all rows: the first of this thread's chunk r of them, n where it has none.
template <int N> __device__ __forceinline__ int column_of(const Job& job, int n, int r) {
  const int place = (r * kWorkers + int(threadIdx.x)) * N, column = int(blockIdx.x) % job.pieces * job.length + place;
  return int(threadIdx.x) < kWorkers && place < job.length && column < n ? column : n;
}

// kKept: a block goes down the same columns of all rows, and keeps their factors, which are of x's dtype.
template <class Type, bool kKept> struct Forward {
  using T = Type;
  static constexpr int kTensors = 1, kWords = kNormPostWords, N = kChunk<T>;
  using Place = PlaceOf<T, 1>;
  struct Part {  // of distances from the piece's first element, RmsNorm's from 0
    double sum, squares;
    __device__ friend Part operator+(const Part& a, const Part& b) { return {a.sum + b.sum, a.squares + b.squares}; }
  };
  struct Kept { float shift, rest, scale; };
  static constexpr int kFactors = kKept ? kChunks : 1;
  const SpreadCuda& c;
  const NormSpreadCuda& p;
  Packed<T> weight[kFactors], bias[kFactors];
  __device__ __forceinline__ explicit Forward(const SpreadCuda& c) : c(c), p(c.p) {
    if constexpr (kKept)
#pragma unroll
      for (int r = 0; r < kFactors; ++r) {
        const int n = int(p.write.n), i = column_of<N>(c.job, n, r);
        weight[r] = row_team::factors<T, N>(p.write.weight.data, i, n, p.write.one_plus ? 0 : 1), bias[r] = row_team::factors<T, N>(p.write.bias.data, i, n, -0.0);
      }
  }
  __device__ Place place(int row, int first, int length) const {
    int64_t at[4];
    p.write.rows.offsets(row, at);
    Place place;
    place.from[0] = static_cast<const T*>(p.write.x) + at[0] + first, place.to = static_cast<T*>(p.write.y) + at[2] + first;
    place.row = row, place.first = first, place.count = count_of<T>(p, first, length);
    return place;
  }
  __device__ __forceinline__ double point(const void* head) const { return p.rms ? 0 : double(value(*static_cast<const T*>(head)).v); }
  template <int R, class Has> __device__ __forceinline__ Part part(const Packed<T> (&x)[1][R], Has has, const Place&, const void* head) const {
    const double from = point(head);
    Part own{0, 0};
    bool plain = false;
    if constexpr (kIsHalf<T>) {  // in f32 around a mean of 32 elements of the warp, where that changes nothing beyond rounding
      V near = 0, sum = 0, squares = 0;
      int count = 0;
      if (!p.rms) {
        const float lowest = __shfl_sync(0xffffffffu, x[0][0][0].v, 0);
        near = V::of(over_lanes(has(0) ? x[0][0][0].v : lowest)) * V(1.0 / 32);
      }
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if (!has(r)) continue;
        count += N;
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const V d = x[0][r][j] - near;
          sum = sum + d, squares = fma(d, d, squares);
        }
      }
      plain = __all_sync(0xffffffffu, p.eps > 0x1p-50 && squares.v < 0x1p100f);
      const double off = double(near.v) - from, moved = double(count) * off;
      if (plain && count > 0) own = {double(sum.v) + moved, __builtin_fma(off, 2 * double(sum.v) + moved, double(squares.v))};
    }
    if (!plain) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if (!has(r)) continue;
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const double d = double(x[0][r][j].v) - from;
          own.sum += d, own.squares = __builtin_fma(d, d, own.squares);
        }
      }
    }
    return over_lanes(own);
  }
  template <int kWarps> __device__ __forceinline__ Part join_parts(const Part (&parts)[kWarps]) const { return over_lanes<kWarps>(parts[threadIdx.x % kWarps]); }
  __device__ void post(const Part& all, const Place& place, const void* head, uint64_t (&word)[kWords]) const {
    const double mean = p.rms ? 0 : place.count == c.job.length ? all.sum * c.inverse_length : all.sum / double(place.count);
    word[0] = __builtin_bit_cast(uint64_t, point(head) + mean), word[1] = __builtin_bit_cast(uint64_t, p.rms ? all.squares : all.squares - all.sum * mean);
  }
  __device__ Kept join(const uint64_t* posts, int pieces, const Place& place) const {
    const int lane = int(threadIdx.x) % 32;
    // Distances from a mean of the row: that of its first piece.
    double first = 0;
    each_post<kWords>(posts, 1, 0, [&](int, const uint64_t (&word)[kWords]) { first = __builtin_bit_cast(double, word[0]); });
    Part all{0, 0};
    each_post<kWords>(posts, pieces, int(threadIdx.x) % 32, [&](int i, const uint64_t (&word)[kWords]) {
      const double count = double(i == pieces - 1 ? int(p.write.n) - i * c.job.length : c.job.length), d = __builtin_bit_cast(double, word[0]) - first, sum = count * d;
      all = all + Part{sum, __builtin_fma(sum, d, __builtin_bit_cast(double, word[1]))};
    });
    all = over_lanes(all);
    const double rest = all.sum * c.inverse_n, mean = first + rest, squares = all.squares - all.sum * rest, variance = squares <= 0 ? 0 : squares * c.inverse_n;
    Kept kept;
    kept.shift = float(mean), kept.rest = float(mean - double(kept.shift));
    kept.scale = variance_in_range<float>(squares, double(p.write.n), p.eps) ? inverse_root(float(variance) + float(p.eps)) : float(1 / __builtin_sqrt(variance + p.eps));
    if (place.first == 0 && lane == 0) {
      int64_t at[2];
      p.found.offsets(place.row, at);
      if (p.mean) static_cast<float*>(p.mean)[at[0]] = kept.shift;
      if (p.rstd) static_cast<float*>(p.rstd)[at[1]] = kept.scale;
    }
    return kept;
  }
  template <int R, class Has, class Put> __device__ __forceinline__ void finish(const Packed<T> (&x)[1][R], const Kept& kept, const Place& place, Has has, Put put) const {
    const V shift = V::of(kept.shift), rest = V::of(kept.rest), scale = V::of(kept.scale);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (!has(r)) continue;
      const auto store = [&](auto w, auto b) {
        put(r, Packed<T>::rounded([&](int j) {
          const V v = normalized(x[0][r][j], shift, rest, scale);
          return fma(p.write.cast_first ? rounded_to<T>(v) : v, p.write.one_plus ? V(1) + w(j) : w(j), b(j));
        }));
      };
      if constexpr (kKept) store([&](int j) { return weight[r][j]; }, [&](int j) { return bias[r][j]; });
      else {
        const int i = place.first + (r * kWorkers + int(threadIdx.x)) * N;
        const Factors<T> w(p.write.weight, i, p.write.one_plus ? 0 : 1), b(p.write.bias, i, -0.0);
        store([&](int j) { return w.v[j]; }, [&](int j) { return b.v[j]; });
      }
    }
  }
  __device__ void leave() const {}
};

template <class Type, bool kRms> struct Backward {
  using T = Type;
  static constexpr int kTensors = 2, kWords = kNormPostWords, N = kChunk<T>, kHalf = kChunks / 2;
  struct Place : PlaceOf<T, 2> {
    const T* dh;
    float shift, scale;
  };
  struct Part {  // of RmsNorm eh alone
    float e, eh, h;
    __device__ friend Part operator+(const Part& a, const Part& b) { return {a.e + b.e, a.eh + b.eh, a.h + b.h}; }
  };
  struct Kept { float rest, mean_g, minus_dot; };
  const SpreadCuda& c;
  const NormSpreadCuda& p;
  Factors<T> w[kHalf];
  V dw[kHalf][N], db[kRms ? 1 : kHalf][N];
  __device__ __forceinline__ int column(int r) const { return column_of<N>(c.job, int(p.write.n), r); }
  __device__ __forceinline__ explicit Backward(const SpreadCuda& c) : c(c), p(c.p) {
#pragma unroll
    for (int r = 0; r < kHalf; ++r) {
      if (column(r) < p.write.n) w[r] = Factors<T>(p.write.weight, column(r), p.write.one_plus ? 0 : 1);
      if (p.write.one_plus) w[r].one_plus();
#pragma unroll
      for (int j = 0; j < N; ++j) {
        dw[r][j] = 0;
        if constexpr (!kRms) db[r][j] = 0;
      }
    }
  }
  __device__ Place place(int row, int first, int length) const {
    int64_t at[4], found[2];
    p.write.rows.offsets(row, at), p.found.offsets(row, found);
    Place place;
    place.from[0] = static_cast<const T*>(p.write.dy) + at[1] + first, place.from[1] = static_cast<const T*>(p.write.x) + at[0] + first;
    place.to = static_cast<T*>(p.write.y) + at[2] + first, place.dh = p.write.dh ? static_cast<const T*>(p.write.dh) + at[3] + first : nullptr;
    place.row = row, place.first = first, place.count = count_of<T>(p, first, length);
    place.shift = p.mean ? static_cast<const float*>(p.mean)[found[0]] : 0, place.scale = static_cast<const float*>(p.rstd)[found[1]];
    return place;
  }
  template <int R, class Has> __device__ __forceinline__ Part part(const Packed<T> (&x)[2][R], Has has, const Place& place, const void*) const {
    const V shift = V::of(place.shift), scale = V::of(place.scale);
    V e = 0, eh = 0, h = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (!has(r)) continue;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const V g = x[0][r][j] * w[r].v[j], off = (kRms ? x[1][r][j] : x[1][r][j] - shift) * scale;
        eh = fma(g, off, eh);
        if constexpr (!kRms) e = e + g, h = h + off;
      }
    }
    return over_lanes(Part{e.v, eh.v, h.v});
  }
  template <int kWarps> __device__ __forceinline__ Part join_parts(const Part (&parts)[kWarps]) const { return over_lanes<kWarps>(parts[threadIdx.x % kWarps]); }
  __device__ void post(const Part& all, const Place&, const void*, uint64_t (&word)[kWords]) const { word[0] = word_of(all.e, all.eh), word[1] = word_of(all.h, 0); }
  __device__ Kept join(const uint64_t* posts, int pieces, const Place& place) const {
    GradientSums all{0, 0, 0};
    each_post<kWords>(posts, pieces, int(threadIdx.x) % 32, [&](int, const uint64_t (&word)[kWords]) {
      const float2 products = floats_of(word[0]);
      all = all + GradientSums{double(products.x), double(products.y), double(floats_of(word[1]).x)};
    });
    all = over_lanes(all);
    const double rest_hat = all.h * c.inverse_n;
    return {float(rest_hat) / place.scale, float(all.e * c.inverse_n), float((rest_hat * all.e - all.eh) * c.inverse_n)};
  }
  template <int R, class Has, class Put> __device__ __forceinline__ void finish(const Packed<T> (&x)[2][R], const Kept& kept, const Place& place, Has has, Put put) {
    const V shift = V::of(place.shift), rest = V::of(kept.rest), scale = V::of(place.scale), mean_g = V::of(kept.mean_g), minus_dot = V::of(kept.minus_dot);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (!has(r)) continue;
      Packed<T> dh{};
      if (place.dh) dh = Packed<T>::load(place.dh + (r * kWorkers + int(threadIdx.x)) * N);
      put(r, Packed<T>::rounded([&](int j) {
        const V e = x[0][r][j], xhat = kRms ? x[1][r][j] * scale : normalized(x[1][r][j], shift, rest, scale);
        dw[r][j] = fma(e, p.write.cast_first ? rounded_to<T>(xhat) : xhat, dw[r][j]);
        if constexpr (!kRms) db[r][j] = db[r][j] + e;
        const V d = input_gradient(e, w[r].v[j], xhat, mean_g, minus_dot, scale);
        return place.dh ? d + dh[j] : d;
      }));
    }
  }
  __device__ __forceinline__ void leave() const {
    const auto store = [&](void* parts, const V (&sums)[kHalf][N]) {
      if (!parts) return;
#pragma unroll
      for (int r = 0; r < kHalf; ++r)
        if (column(r) < p.write.n) {
          float* const to = static_cast<float*>(parts) + int64_t(int(blockIdx.x) / c.job.pieces) * p.write.n + column(r);
#pragma unroll
          for (int j = 0; j < N; ++j) to[j] = sums[r][j].v;
        }
    };
    store(p.write.dweight, dw);
    if constexpr (!kRms) store(p.write.dbias, db);
  }
};
#else
template <class Type, bool kKept> struct Forward { using T = Type; static constexpr int kTensors = 1; };
template <class Type, bool> struct Backward { using T = Type; static constexpr int kTensors = 2; };
#endif
template <class Op> __global__ void __launch_bounds__(kThreads, kBlocks) spread_kernel(const __grid_constant__ SpreadCuda c) { run<Op>(c); }

template <class T> bool whole(const NormSpreadCuda& p) {
  const void* const data[] = {p.write.x, p.write.dy, p.write.y, p.write.dh};
  for (int k = 0; k < 4; ++k)
    if (!device_rows::whole_chunks<T>(p.write.rows, k, data[k], p.write.n)) return false;
  return true;
}
template <class Op> int launch_as(const NormSpreadCuda& p, int64_t blocks, void* stream) {
  const Job job = job_of<Op>(p.write.rows.units, p.write.n, blocks, p.posts);
  return launch(spread_kernel<Op>, blocks, kNormPostWords, stream, SpreadCuda{p, job, 1 / double(p.write.n), 1 / double(job.length)});
}
template <class T> int forward(const NormSpreadCuda& p, void* stream) {
  if (!whole<T>(p)) return kNormNotSpread;
  const int64_t pieces = pieces_of(p.write.n, 1, sizeof(T));
  const auto plain = [](const ChannelVector& v) { return !v.data || (v.f32 == (sizeof(T) == 4) && v.stride == 1); };
  if (plain(p.write.weight) && plain(p.write.bias) && nearly_even(pieces, p.blocks)) return launch_as<Forward<T, true>>(p, even_blocks(pieces, p.blocks), stream);
  return launch_as<Forward<T, false>>(p, p.blocks, stream);
}
template <class T> int backward(const NormSpreadCuda& p, void* stream) {
  if (!whole<T>(p)) return kNormNotSpread;
  const int64_t blocks = even_blocks(pieces_of(p.write.n, 2, sizeof(T)), p.blocks);
  return p.rms ? launch_as<Backward<T, true>>(p, blocks, stream) : launch_as<Backward<T, false>>(p, blocks, stream);
}
constexpr NormSpreadCudaKernels kKernels = {device::floating<NormSpreadLaunch>(forward<f16>, forward<bf16>, forward<float>, nullptr),
                                           device::floating<NormSpreadLaunch>(backward<f16>, backward<bf16>, backward<float>, nullptr)};

}  // namespace
}  // namespace BARACUDA_ISA

extern const NormSpreadCudaKernels norm_spread_cuda = kKernels;

}  // namespace baracuda
