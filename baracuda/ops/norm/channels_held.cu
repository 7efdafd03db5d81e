// BatchNorm and GroupNorm where a block has a list, up to kHeldChunks chunks: the first-level cache holds it from the sums to y (dx), so that x (and dy) are
// read from memory once; the floor is memory bandwidth. Sums and joins are those of channels.cu, and so are the bits.
#include "baracuda/ops/norm/channels.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kTeam = kListChunk / kEach, kMostLists = 32;  // threads of a chunk; lists of a block

// By a warp. Not inlined: their registers are not those of the sums.
template <class T> __device__ __noinline__ void find(const HeldListsCuda& p, int64_t list, const Sums<Acc<T>>* sums, ListKept<Acc<T>>* kept) {
  const Statistics s = found_statistics<T>(p.join, list, sums);
  if (threadIdx.x % 32) return;
  keep(s, *kept);
  put_statistics<T>(p.join, list, s);
}
template <class T> __device__ __noinline__ void find_gradient(const HeldListsCuda& p, int64_t list, const Sums<Acc<T>>* sums, ListKept<Acc<T>>* kept) {
  const GradientSums all = list_gradient<T>(p.gradient, list, sums, p.weight.data ? number<T>(p.weight, list) : 1.0);
  if (threadIdx.x % 32 == 0) keep(gradient_means(all, p.join.n, double(kept->scale)), *kept);
}
template <class T, bool kBackward> __global__ void __launch_bounds__(kTeam * kHeldChunks, 1) held_kernel(const __grid_constant__ HeldListsCuda p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  constexpr int N = kChunk<T>, R = kEach / N;
  __shared__ A shared[2][3 * 64], gradients[3 * 64];
  __shared__ Sums<A> parts[kMostLists];
  __shared__ ListKept<A> kept[kMostLists];
  const row_team::TeamOf<true> t(p.team);
  const bool cut = p.join.n > kListChunk;  // teams have a chunk each of the block's list; else lists
  const int lists = cut ? 1 : t.slots, own = cut ? 0 : t.slot, begin = cut ? t.slot * kListChunk : 0, warps = int(blockDim.x) / 32, warp = int(threadIdx.x) / 32;
  const int64_t first = int64_t(blockIdx.x) * lists, list = first + own;
  const int left = list < p.join.lists ? int(p.join.n) - begin : 0, m = left < kListChunk ? left : kListChunk;
  const uint32_t major = p.per.quotient(uint32_t(list)), minor = uint32_t(list) - major * p.per.divisor;
  const auto place = [&](const HeldTensorCuda& at) { return major * at.major + minor * at.minor; };
  const T* const x_list = static_cast<const T*>(p.x) + place(p.at_x);
  const T* const dy_list = static_cast<const T*>(p.dy) + place(p.at_dy);
  // f(r, first element, x, dy, where y is) for the pieces of a thread.
  const auto each_piece = [&](auto at_once, auto f) {
#pragma unroll (decltype(at_once)::value)
    for (int r = 0; r < R; ++r) {
      const int i = (r * t.size + t.thread) * N;
      if (i >= m) continue;
      const uint32_t run = p.run.quotient(uint32_t(begin + i)), in_run = uint32_t(begin + i) - run * p.run.divisor;
      A x[N], dy[N];
      const auto get = [&](const T* from, const HeldTensorCuda& at, A (&to)[N]) {
        const auto c = *reinterpret_cast<const device_rows::Chunk<T, N>*>(from + (run * at.outer + in_run));
#pragma unroll
        for (int j = 0; j < N; ++j) to[j] = value_of(c.lane[j]);
      };
      get(x_list, p.at_x, x);
      if constexpr (kBackward) get(dy_list, p.at_dy, dy);
      f(r, i, x, dy, run * p.at_y.outer + in_run);
    }
  };
  const auto load = [&](A (&x)[R][N], A (&dy)[R][N]) {
    each_piece(std::integral_constant<int, R>{}, [&](int r, int, const A (&of_x)[N], const A (&of_dy)[N], int64_t) {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        x[r][j] = of_x[j];
        if constexpr (kBackward) dy[r][j] = of_dy[j];
      }
    });
  };
  if (p.join.from == ListStatistics::sums) {
    A x[R][N], dy[R][N];
    load(x, dy);
    const Sums<A> s = moment_sums(t, x, m, shared);
    if (t.thread == 0) parts[t.slot] = s;
    __syncthreads();
  }
  // Warps share the block's lists out.
  const auto each_list = [&](auto f) {
    for (int l = warp; l < lists && first + l < p.join.lists; l += warps) f(l, first + l);
    __syncthreads();
  };
  each_list([&](int l, int64_t list) { find<T>(p, list, parts + l, kept + l); });
  if constexpr (kBackward) {
    A x[R][N], dy[R][N];
    load(x, dy);
    const Sums<A> s = gradient_sums(t, x, dy, m, V::of(kept[own].shift), V::of(kept[own].scale), gradients);
    if (t.thread == 0) parts[t.slot] = s;
    __syncthreads();
    each_list([&](int l, int64_t list) { find_gradient<T>(p, list, parts + l, kept + l); });
  }
  const ListKept<A> k = kept[own];
  const V shift = V::of(k.shift), rest = V::of(k.rest), scale = V::of(k.scale);
  T* const y_list = static_cast<T*>(p.y) + place(p.at_y);
  each_piece(std::integral_constant<int, 1>{}, [&](int, int i, const A (&x)[N], const A (&dy)[N], int64_t to) {
    const int64_t channel = p.each ? minor * p.each + uint32_t(begin + i) / uint32_t(p.span) : list;
    const V weight = V::of(p.weight.data ? A(number<T>(p.weight, channel)) : A(1));
    device_rows::Chunk<T, N> out;
    if constexpr (kBackward) {
#pragma unroll
      for (int j = 0; j < N; ++j) out.lane[j] = element<T>(input_gradient(V::of(dy[j]), weight, normalized(V::of(x[j]), shift, rest, scale), V::of(k.mean_g), V::of(k.minus_dot), scale));
    } else {
      const V bias = V::of(p.bias.data ? A(number<T>(p.bias, channel)) : A(-0.0));
#pragma unroll
      for (int j = 0; j < N; ++j) out.lane[j] = element<T>(standardized(V::of(x[j]), shift, rest, scale, weight, bias));
    }
    *reinterpret_cast<device_rows::Chunk<T, N>*>(y_list + to) = out;
  });
}

template <class T> int held(const HeldListsCuda& given, void* stream) {
  HeldListsCuda p = given;
  const int64_t n = p.join.n;
  const auto shape = row_team::TeamShape::of(n < kListChunk ? n : kListChunk, kEach);
  p.team = shape.team;
  const int block = n > kListChunk ? int(list_chunks(n)) * kTeam : shape.block;
  return device::launch(p.dy ? held_kernel<T, true> : held_kernel<T, false>, unsigned(device::ceil_div(p.join.lists, n > kListChunk ? 1 : block / p.team)), dim3(unsigned(block)), 0, stream, p);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<int (*)(const HeldListsCuda&, void* stream)> channel_held_cuda = device::floating<int (*)(const HeldListsCuda&, void*)>(held<f16>, held<bf16>, held<float>, nullptr);

}  // namespace baracuda
