// Rows of softmax that no block holds, held by the blocks of a device together (device/spread.cuh). A piece has the maximum and the sum of exps from
// its own maximum ("Online normalizer calculation for softmax", Milakov and Gimelshein, 2018), of the gradient the sum of dy y. Reads x (dy and y)
// once, writes y (dx).
#include "baracuda/device/spread.cuh"
#include "baracuda/ops/softmax/softmax_short.cuh"
#include "baracuda/ops/softmax/softmax_spread_cuda.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace spread_rows;
using namespace softmax_short;

struct SpreadCuda {
  SoftmaxCuda p;
  Job job;
};
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <class T, int K> __device__ __forceinline__ PlaceOf<T, K> place_of(const SoftmaxCuda& p, int row, int first, int length) {
  int64_t at[4];
  p.lines.offsets(row, at);
  PlaceOf<T, K> place;
  place.from[0] = static_cast<const T*>(p.in) + at[0] + first;
  if constexpr (K > 1) place.from[1] = static_cast<const T*>(p.second) + at[1] + first;
  place.to = static_cast<T*>(p.out) + at[3] + first;
  place.row = row, place.first = first, place.count = p.n - first < length ? int(p.n - first) : length;
  return place;
}
template <class Type> struct Forward {
  using T = Type;
  static constexpr int kTensors = 1, kWords = 1, N = kChunk<T>;
  using Place = PlaceOf<T, 1>;
  struct Part { float top, sum; };
  using Kept = Line<T>;
  const SoftmaxCuda& p;
  V scale;
  __device__ explicit Forward(const SpreadCuda& c) : p(c.p), scale(c.p.negate ? -c.p.scale : c.p.scale) {}
  __device__ Place place(int row, int first, int length) const { return place_of<T, 1>(p, row, first, length); }
  template <int R, class Has> __device__ __forceinline__ Part part(const Packed<T> (&x)[1][R], Has has, const Place&, const void*) const {
    V top = -kInf, sum = 0;
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int j = 0; j < N; ++j) top = has(r) ? greater(x[0][r][j] * scale, top) : top;
#pragma unroll
    for (int w = 16; w; w /= 2) top = greater(top, V::of(__shfl_xor_sync(0xffffffffu, top.v, w)));
    const Exp<T> exp(top);
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const V e = exp(x[0][r][j] * scale);
        sum = has(r) ? sum + e : sum;
      }
#pragma unroll
    for (int w = 16; w; w /= 2) sum = sum + V::of(__shfl_xor_sync(0xffffffffu, sum.v, w));
    return {top.v, sum.v};
  }
  // Of the lanes of a group.
  template <int kLanes> static __device__ __forceinline__ Part over(const Part& own) {
    V top = V::of(own.top);
#pragma unroll
    for (int w = kLanes / 2; w; w /= 2) top = greater(top, V::of(__shfl_xor_sync(0xffffffffu, top.v, w)));
    return {top.v, over_lanes<kLanes>((V::of(own.sum) * Exp<T>(V::of(own.top)).weight(Exp<T>(top))).v)};
  }
  template <int kWarps> __device__ __forceinline__ Part join_parts(const Part (&parts)[kWarps]) const { return over<kWarps>(parts[threadIdx.x % kWarps]); }
  __device__ void post(const Part& all, const Place&, const void*, uint64_t (&word)[1]) const { word[0] = word_of(all.top, all.sum); }
  __device__ __forceinline__ Kept join(const uint64_t* posts, int pieces, const Place&) const {
    V top = -kInf, sum = 0;
    each_post<1>(posts, pieces, int(threadIdx.x) % 32, [&](int, const uint64_t (&word)[1]) {
      const float2 piece = floats_of(word[0]);
      const V more = greater(V::of(piece.x), top);
      const Exp<T> line(more);
      sum = sum * Exp<T>(top).weight(line) + V::of(piece.y) * Exp<T>(V::of(piece.x)).weight(line), top = more;
    });
    const Part all = over<32>({top.v, sum.v});
    return Kept::of(V::of(all.top), V::of(all.sum), p.log, p.safe);
  }
  template <int R, class Has, class Put> __device__ __forceinline__ void finish(const Packed<T> (&x)[1][R], const Kept& line, const Place&, Has, Put put) const {
    if (p.log) {
#pragma unroll
      for (int r = 0; r < R; ++r) put(r, Packed<T>::rounded([&](int j) { return line.made(x[0][r][j] * scale, true); }));
    } else {
      const Exp<T> exp(line.top);
#pragma unroll
      for (int r = 0; r < R; ++r) put(r, Packed<T>::rounded([&](int j) { return line.made(exp(x[0][r][j] * scale), false); }));
    }
  }
  __device__ void leave() const {}
};
template <class Type> struct Backward {
  using T = Type;
  static constexpr int kTensors = 2, kWords = 1, N = kChunk<T>;
  using Place = PlaceOf<T, 2>;
  struct Part {
    float sum = 0;
    __device__ friend Part operator+(const Part& a, const Part& b) { return {a.sum + b.sum}; }
  };
  using Kept = Part;
  const SoftmaxCuda& p;
  __device__ explicit Backward(const SpreadCuda& c) : p(c.p) {}
  __device__ Place place(int row, int first, int length) const { return place_of<T, 2>(p, row, first, length); }
  template <int R, class Has> __device__ __forceinline__ Part part(const Packed<T> (&x)[2][R], Has has, const Place&, const void*) const {
    V sum = -0.0;
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const V dy = x[0][r][j], more = p.log ? sum + dy : fma(dy, x[1][r][j], sum);
        sum = has(r) ? more : sum;
      }
#pragma unroll
    for (int w = 16; w; w /= 2) sum = sum + V::of(__shfl_xor_sync(0xffffffffu, sum.v, w));
    return {sum.v};
  }
  template <int kWarps> __device__ __forceinline__ Part join_parts(const Part (&parts)[kWarps]) const { return over_lanes<kWarps>(parts[threadIdx.x % kWarps]); }
  __device__ void post(const Part& all, const Place&, const void*, uint64_t (&word)[1]) const { word[0] = word_of(all.sum, 0); }
  __device__ Kept join(const uint64_t* posts, int pieces, const Place&) const {
    Part all{};
    each_post<1>(posts, pieces, int(threadIdx.x) % 32, [&](int, const uint64_t (&word)[1]) { all = all + Part{floats_of(word[0]).x}; });
    return over_lanes(all);
  }
  template <int R, class Has, class Put> __device__ __forceinline__ void finish(const Packed<T> (&x)[2][R], const Kept& all, const Place&, Has, Put put) const {
    const V dot = V::of(all.sum), sign = p.sign;
#pragma unroll
    for (int r = 0; r < R; ++r)
      put(r, Packed<T>::rounded([&](int j) { return slope_of<T>(p.log, x[0][r][j], x[1][r][j], dot, sign); }));
  }
  __device__ void leave() const {}
};
#else
template <class Type> struct Forward { using T = Type; static constexpr int kTensors = 1; };
template <class Type> struct Backward { using T = Type; static constexpr int kTensors = 2; };
#endif
template <class Op> __global__ void __launch_bounds__(kThreads, kBlocks) spread_kernel(const __grid_constant__ SpreadCuda c) { run<Op>(c); }

template <class T, bool kBackward> int run_spread(const SoftmaxCuda& p, int64_t blocks, void* stream) {
  using Op = std::conditional_t<kBackward, Backward<T>, Forward<T>>;
  const void* const data[] = {p.in, p.second, nullptr, p.out};
  for (int k = 0; k < 4; ++k)
    if (!device_rows::whole_chunks<T>(p.lines, k, data[k], p.n)) return kSoftmaxNotSpread;
  return launch(spread_kernel<Op>, blocks, 1, stream, SpreadCuda{p, job_of<Op>(p.lines.units, p.n, blocks, p.chunk_memory)});
}
template <bool kBackward> constexpr auto by_dtype_of() {
  return device::floating<SoftmaxSpread>(run_spread<f16, kBackward>, run_spread<bf16, kBackward>, run_spread<float, kBackward>, nullptr);
}
constexpr SoftmaxSpreadCuda kSpread = {by_dtype_of<false>(), by_dtype_of<true>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SoftmaxSpreadCuda softmax_spread_cuda = kSpread;

}  // namespace baracuda
