// Rope: the turns of the digits of positions come first, in a launch of their own, unless sines are few. Then a block takes a few tokens and all their
// heads, or a part of them: it makes the sines of its tokens in shared memory, new ones only where 64 positions end, or where sines are few a thread for each
// factor, and a thread keeps those of one unit in registers while the heads go by. Reads x, writes y: the floor is memory bandwidth. Appending to a cache: one map over both tensors.
#include "baracuda/device/half.cuh"
#include "baracuda/device/map.cuh"
#include "baracuda/ops/position/position_cuda.hpp"
#include "baracuda/ops/position/position_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using device_map::Vector;
using rope::Turn;
using D = Pack<double, 1>;

constexpr int kBlock = 256, kMostTokens = 8, kTogether = 2;
constexpr int64_t kEnoughBlocks = 2048;

// A unit: V neighbours of the row and their partners half a row on, or V / 2 pairs of neighbours. kWhole: the address allows one load.
template <class T, int V, bool kWhole> __device__ __forceinline__ Vector<T, V> get(const T* p) {
  if constexpr (kWhole) return *reinterpret_cast<const Vector<T, V>*>(p);
  else {
    Vector<T, V> v;
#pragma unroll
    for (int j = 0; j < V; ++j) v.lane[j] = p[j];
    return v;
  }
}
template <class T, int V, bool kWhole> __device__ __forceinline__ void put(T* p, const Vector<T, V>& v) {
  if constexpr (kWhole) *reinterpret_cast<Vector<T, V>*>(p) = v;
  else
#pragma unroll
    for (int j = 0; j < V; ++j) p[j] = v.lane[j];
}
template <bool kPairs, int V> inline constexpr int kTurnsOf = kPairs ? V / 2 : V;  // of a unit
template <class T> __device__ __forceinline__ void turn_pair(const Turn<Pack<Acc<T>, 1>>& t, T& a, T& b) {
  const auto r = rope::product<Pack<Acc<T>, 1>>({value(a), value(b)}, t);
  a = element<T>(r.cosine), b = element<T>(r.sine);
}

// Called, so that its registers are not the kernels'.
__device__ __noinline__ double2 turn_of(double position, double high, double low) {
  const Turn<D> t = rope::turn_of(D::of(position), D::of(high), D::of(low));
  return {t.cosine.v, t.sine.v};
}
__device__ __forceinline__ Turn<D> as_turn(double2 t) { return {D::of(t.x), D::of(t.y)}; }
// Positions of whose turns a digit's is the product; 0: none.
struct Factors { int first, second; };
__device__ __forceinline__ Factors factors_of(int digit) {
  if (digit >= 16) return {16 * (digit - 16), 0};
  return rope::is_product(digit) ? Factors{digit - digit % 4, digit % 4} : Factors{digit, 0};
}
__device__ __forceinline__ double2 factor(const RopeCuda& p, int position, int i) { return position ? turn_of(position, p.high[i], p.low[i]) : double2{1, 0}; }
__device__ __forceinline__ Turn<D> joined(const Factors& f, double2 first, double2 second) { return f.second ? rope::product(as_turn(first), as_turn(second)) : as_turn(first); }
__global__ void __launch_bounds__(kBlock) digits_kernel(const __grid_constant__ RopeCuda p) {
  const int k = int(blockIdx.x * kBlock + threadIdx.x), digit = k / p.count, i = k % p.count;
  if (digit >= kRopeDigits) return;
  const Factors f = factors_of(digit);
  const Turn<D> t = joined(f, factor(p, f.first, i), factor(p, f.second, i));
  *reinterpret_cast<double2*>(p.digits + 2 * (digit * p.half + p.first + i)) = {t.cosine.v, t.sine.v};
}
int digits(const RopeCuda& p, void* stream) { return device::launch(digits_kernel, device::blocks_for(int64_t(kRopeDigits) * p.count, kBlock), kBlock, 0, stream, p); }
__device__ __forceinline__ int64_t position_of(const RopeCuda& p, int64_t token) {
  const int64_t b = token / p.length, s = token - b * p.length;
  if (!p.positions) return p.offset + s;
  const int64_t i = b * p.position_stride[0] + s * p.position_stride[1];
  return p.positions_i64 ? static_cast<const int64_t*>(p.positions)[i] : int64_t(static_cast<const int32_t*>(p.positions)[i]);
}
// Cosines and sines of the tile's tokens, for all threads of the block; scratch: kFactors times as many turns, or as many where digits are given.
constexpr int kFactors = 4;
template <class T, class A> __device__ __forceinline__ void make_sines(const RopeCuda& p, int64_t token, int tokens, A* cosine, A* sine, double2* scratch) {
  using P = std::conditional_t<kIsHalf<T>, float, double>;  // of the last product
  __shared__ int64_t at[kMostTokens];
  const int stretch = tokens * p.count;
  if (int(threadIdx.x) < tokens) at[threadIdx.x] = token + threadIdx.x < p.batches * p.length ? position_of(p, token + threadIdx.x) : 0;
  __syncthreads();
  const auto as_before = [&](int t) { return t > 0 && rope::coarse_of(at[t]) == rope::coarse_of(at[t - 1]); };
  for (int k = threadIdx.x; k < (p.digits ? stretch : kFactors * stretch); k += kBlock) {
    const int which = k / stretch, t = k % stretch / p.count, i = k % p.count;
    const Factors middle = factors_of(16 + rope::middle_of(at[t])), fine = factors_of(rope::fine_of(at[t]));
    if (which) scratch[k] = factor(p, which == 1 ? middle.first : which == 2 ? fine.first : fine.second, i);
    else if (!p.digits || !as_before(t)) scratch[k] = turn_of(double(rope::coarse_of(at[t])), p.high[i], p.low[i]);
  }
  __syncthreads();
  for (int k = threadIdx.x; k < stretch; k += kBlock) {
    const int t = k / p.count, i = k % p.count;
    Turn<D> coarse, middle, fine;
    if (p.digits) {
      int first = t;
      while (as_before(first)) --first;
      const auto digit = [&](int d) { return as_turn(*reinterpret_cast<const double2*>(p.digits + 2 * (d * p.half + p.first + i))); };
      coarse = as_turn(scratch[first * p.count + i]), middle = digit(16 + rope::middle_of(at[t])), fine = digit(rope::fine_of(at[t]));
    } else {
      coarse = as_turn(scratch[k]), middle = as_turn(scratch[stretch + k]);
      fine = joined(factors_of(rope::fine_of(at[t])), scratch[2 * stretch + k], scratch[3 * stretch + k]);
    }
    const Turn<D> group = rope::product(coarse, middle);
    const auto turn = rope::product<Pack<P, 1>>({convert<P>(group.cosine), convert<P>(group.sine)}, {convert<P>(fine.cosine), convert<P>(fine.sine)});
    cosine[k] = A(turn.cosine.v), sine[k] = p.inverse ? -A(turn.sine.v) : A(turn.sine.v);
  }
  __syncthreads();
}

struct RopeTile { RopeCuda p; int64_t tiles, heads_each; int tokens; };
template <class T, bool kPairs, int V, bool kWhole> __global__ void __launch_bounds__(kBlock) rope_kernel(const __grid_constant__ RopeTile q) {
  using A = Acc<T>;
  constexpr int kTurns = kTurnsOf<kPairs, V>;
  extern __shared__ __align__(16) char shared[];
  const RopeCuda& p = q.p;
  const int stretch = q.tokens * p.count;
  double2* scratch = reinterpret_cast<double2*>(shared);
  A *cosine = reinterpret_cast<A*>(scratch + (p.digits ? stretch : kFactors * stretch)), *sine = cosine + stretch;
  const int turning = p.count / kTurns;
  const int64_t resting = p.copy_rest ? (p.n - 2 * p.half) / V : 0, per_token = turning + resting, units = q.tokens * per_token;
  const int side = units < kBlock ? int(units) : kBlock, groups = side ? kBlock / side : 0;
  const int64_t head = int64_t(blockIdx.y) * q.heads_each, head_end = head + q.heads_each < p.heads ? head + q.heads_each : p.heads;
  for (int64_t tile = blockIdx.x; tile < q.tiles; tile += gridDim.x) {
    __syncthreads();  // the sines before may still be read
    make_sines<T>(p, tile * q.tokens, q.tokens, cosine, sine, scratch);
    if (int(threadIdx.x) >= side * groups) continue;
    for (int64_t l = threadIdx.x % side; l < units; l += side) {
      const int64_t in_tile = l / per_token, u = l - in_tile * per_token, token = tile * q.tokens + in_tile, b = token / p.length, s = token - b * p.length;
      if (b >= p.batches) break;
      const bool turns = u < turning;
      const int64_t column = !turns ? 2 * p.half + (u - turning) * V : kPairs ? 2 * p.first + u * V : p.first + u * V;
      const T* x = static_cast<const T*>(p.x) + b * p.x_stride[0] + s * p.x_stride[2] + column;
      T* y = static_cast<T*>(p.y) + b * p.y_stride[0] + s * p.y_stride[2] + column;
      if (!turns) {
        for (int64_t h = head + threadIdx.x / side; h < head_end; h += groups) put<T, V, kWhole>(y + h * p.y_stride[1], get<T, V, kWhole>(x + h * p.x_stride[1]));
        continue;
      }
      Turn<Pack<A, 1>> t[kTurns];
#pragma unroll
      for (int j = 0; j < kTurns; ++j) {
        const int64_t k = in_tile * p.count + u * kTurns + j;
        t[j] = {Pack<A, 1>::of(cosine[k]), Pack<A, 1>::of(sine[k])};
      }
      for (int64_t h = head + threadIdx.x / side; h < head_end; h += groups * kTogether) {
        Vector<T, V> a[kTogether], c[kTogether];
#pragma unroll
        for (int k = 0; k < kTogether; ++k) {
          if (h + k * groups >= head_end) continue;
          const T* row = x + (h + k * groups) * p.x_stride[1];
          a[k] = get<T, V, kWhole>(row);
          if constexpr (!kPairs) c[k] = get<T, V, kWhole>(row + p.half);
        }
#pragma unroll
        for (int k = 0; k < kTogether; ++k) {
          if (h + k * groups >= head_end) continue;
#pragma unroll
          for (int j = 0; j < kTurns; ++j)
            if constexpr (kPairs) turn_pair<T>(t[j], a[k].lane[2 * j], a[k].lane[2 * j + 1]);
            else turn_pair<T>(t[j], a[k].lane[j], c[k].lane[j]);
          T* row = y + (h + k * groups) * p.y_stride[1];
          put<T, V, kWhole>(row, a[k]);
          if constexpr (!kPairs) put<T, V, kWhole>(row + p.half, c[k]);
        }
      }
    }
  }
}
template <class T, bool kPairs, int V, bool kWhole> int rope_units(const RopeCuda& p, void* stream) {
  const int64_t per_token = p.count / kTurnsOf<kPairs, V> + (p.copy_rest ? (p.n - 2 * p.half) / V : 0), tokens = p.batches * p.length;
  if (per_token == 0) return 0;
  const int64_t threads = p.digits || p.count == 0 ? per_token : kFactors * p.count;  // of a token
  RopeTile q{p, 0, p.heads, int(std::clamp<int64_t>(kBlock / threads, 1, kMostTokens))};
  q.tokens = int(std::min<int64_t>(q.tokens, tokens));
  q.tiles = device::ceil_div(tokens, q.tokens);
  // Few tokens: their heads are shared among blocks.
  const int64_t parts = std::clamp<int64_t>(kEnoughBlocks / q.tiles, 1, device::ceil_div(p.heads, kRopeHeads));
  q.heads_each = device::ceil_div(p.heads, std::min<int64_t>(parts, 65535));
  return device::launch(rope_kernel<T, kPairs, V, kWhole>, dim3(device::blocks_for(q.tiles, 1), unsigned(device::ceil_div(p.heads, q.heads_each))), kBlock,
                        size_t(q.tokens) * size_t(p.count) * ((p.digits ? 1 : kFactors) * sizeof(double2) + 2 * sizeof(Acc<T>)), stream, q);
}
template <class T, bool kPairs> int turn(const RopeCuda& p, void* stream) {
  constexpr int V = 16 / int(sizeof(T)), kLeast = kPairs ? 2 : 1;
  bool whole = p.count % (kPairs ? V / 2 : V) == 0 && (kPairs ? 2 * p.half : p.half) % V == 0 && p.n % V == 0;
  whole = whole && uintptr_t(p.x) % 16 == 0 && uintptr_t(p.y) % 16 == 0;
  const int64_t extents[] = {p.batches, p.heads, p.length};
  for (int a = 0; a < 3; ++a) whole = whole && (extents[a] == 1 || (p.x_stride[a] % V == 0 && p.y_stride[a] % V == 0));
  if (whole) return rope_units<T, kPairs, V, true>(p, stream);
  if (!kPairs || (p.n - 2 * p.half) % 2 == 0 || !p.copy_rest) return rope_units<T, kPairs, kLeast, false>(p, stream);
  // Pairs of neighbours and an odd rest: the rest goes by single elements.
  RopeCuda pairs = p, rest = p;
  pairs.copy_rest = false, rest.count = 0;
  const int e = rope_units<T, true, 2, false>(pairs, stream);
  return e ? e : rope_units<T, false, 1, false>(rest, stream);
}

__global__ void __launch_bounds__(kSlopes) slopes_kernel(const __grid_constant__ SlopesCuda p) {
  if (int(threadIdx.x) < p.count) p.out[threadIdx.x * p.stride] = p.slope[threadIdx.x];
}
int slopes(const SlopesCuda& p, void* stream) { return device::launch(slopes_kernel, 1, kSlopes, 0, stream, p); }

template <class U> __global__ void __launch_bounds__(kBlock) append_kernel(const __grid_constant__ AppendCuda p) {
  constexpr int V = 16 / int(sizeof(U));
  const int which = blockIdx.y;
  const auto& w = p.walk[which];
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < w.units + w.rest; i += int64_t(gridDim.x) * kBlock) {
    int64_t at[3], place = p.offset;
    w.offsets(i, at);
    if (p.lengths) place = p.lengths_i64 ? static_cast<const int64_t*>(p.lengths)[at[2]] : int64_t(static_cast<const int32_t*>(p.lengths)[at[2]]);
    if (place < 0 || place > p.room) continue;
    const U* from = static_cast<const U*>(p.from[which]) + at[0];
    U* to = static_cast<U*>(p.to[which]) + at[1] + place * p.place_stride[which];
    if (w.lanes == 1 || i >= w.units) *to = *from;
    else *reinterpret_cast<Vector<U, V>*>(to) = *reinterpret_cast<const Vector<U, V>*>(from);
  }
}
template <class U> int append(const AppendCuda& p, void* stream) {
  const int64_t most = std::max(p.walk[0].threads(), p.walk[1].threads());
  if (most == 0) return 0;
  return device::launch(append_kernel<U>, dim3(device::blocks_for(most, kBlock), 2), kBlock, 0, stream, p);
}

template <bool kPairs> constexpr ByDType<int (*)(const RopeCuda&, void*)> turns() {
  return device::floating<int (*)(const RopeCuda&, void*)>(turn<f16, kPairs>, turn<bf16, kPairs>, turn<float, kPairs>, turn<double, kPairs>);
}
constexpr PositionCudaKernels kKernels = {
    digits, turns<false>(), turns<true>(), slopes,
    device::floating<int (*)(const AppendCuda&, void*)>(append<uint16_t>, append<uint16_t>, append<uint32_t>, append<uint64_t>),
    device::floating<int>(8, 8, 4, 2)};

}  // namespace
}  // namespace BARACUDA_ISA

extern const PositionCudaKernels position_cuda_kernels = kKernels;

}  // namespace baracuda
