// Strided copy and fill: sizeof(T) bytes read and written per element; the floor is memory bandwidth. Dense tensors are copied by
// the driver; rows in the widest words that they allow; where x is dense along another axis than y, tiles go through shared memory
// (Ruetsch and Micikevicius, "Optimizing matrix transpose in CUDA", 2009), so that both sides move whole sectors.
#include "baracuda/device/make.cuh"
#include "baracuda/ops/copy/copy_cuda.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

struct alignas(16) Wide { uint64_t a, b; };
template <class T> struct Moved { T v; };
}  // namespace
namespace device_map {
template <class T> struct Lane<Moved<T>> {
  static __device__ __forceinline__ Moved<T> zero() { return {}; }
  static __device__ __forceinline__ Moved<T> of(T e) { return {e}; }
  template <class E> static __device__ __forceinline__ E as(Moved<T> a) { return a.v; }
};
}  // namespace device_map
namespace {

struct Same {
  static constexpr int in = 1, out = 1;
  static constexpr bool needs(int) { return true; }
  template <class A> __device__ __forceinline__ void operator()(const A* x, A* y) const { y[0] = x[0]; }
};

// --- tiles: elements [r, c]; x is dense along r, y along c. A thread moves N elements, a word of 4 bytes where T is smaller.
constexpr int kTileBlock = 256;
template <class T> inline constexpr int kTile = sizeof(T) == 1 ? 128 : sizeof(T) <= 4 ? 64 : 32;
template <class T> struct Transpose {
  const T* x;
  T* y;
  int64_t rows, columns, x_pitch, y_pitch;  // x_pitch: of a column in x, y_pitch: of a row in y
  int64_t tiles_r, tiles_c, tiles;          // tiles: in all
  device::Walk<2> outer;                    // the other axes
};
template <int N, class T> __global__ void __launch_bounds__(kTileBlock) transpose_kernel(const __grid_constant__ Transpose<T> t) {
  using device_map::Vector;
  constexpr int S = kTile<T>, kPad = sizeof(T) < 4 ? 4 / int(sizeof(T)) : 1, kAcross = S / N, kStep = kTileBlock / kAcross;
  __shared__ T tile[S][S + kPad];  // [column][row]
  const int a = int(threadIdx.x) % kAcross * N, b = int(threadIdx.x) / kAcross;
  for (int64_t i = blockIdx.x; i < t.tiles; i += gridDim.x) {
    const int64_t rest = i / t.tiles_c, c0 = (i - rest * t.tiles_c) * S, o = rest / t.tiles_r, r0 = (rest - o * t.tiles_r) * S;
    int64_t at[2];
    t.outer.offsets(o, at);
    const T* x = t.x + at[0] + r0 + c0 * t.x_pitch;
    T* y = t.y + at[1] + r0 * t.y_pitch + c0;
    if (r0 + a < t.rows) {
#pragma unroll
      for (int c = b; c < S; c += kStep)
        if (c0 + c < t.columns) *reinterpret_cast<Vector<T, N>*>(&tile[c][a]) = *reinterpret_cast<const Vector<T, N>*>(x + c * t.x_pitch + a);
    }
    __syncthreads();
    if (c0 + a < t.columns) {
#pragma unroll
      for (int r = b; r < S; r += kStep)
        if (r0 + r < t.rows) {
          Vector<T, N> e;
#pragma unroll
          for (int j = 0; j < N; ++j) e.lane[j] = tile[a + j][r];
          *reinterpret_cast<Vector<T, N>*>(y + r * t.y_pitch + a) = e;
        }
    }
    __syncthreads();
  }
}
// Of elements of 2 bytes: tiles of 128 x 128. A thread reads 4 neighbours of two columns and makes words of the two columns' elements of a row; word w of
// row r stands at w ^ (r / 4 % 32), so that neither side meets a bank twice.
constexpr int kHalvesTile = 128, kHalvesLeast = 2 * 132;  // so many tiles, or smaller ones
__global__ void __launch_bounds__(kTileBlock, 3) transpose_halves_kernel(const __grid_constant__ Transpose<uint16_t> t) {
  constexpr int S = kHalvesTile, kWords = S / 2, kWarps = kTileBlock / 32, kAhead = 8;  // pairs of columns at once
  __shared__ uint2 tile[S][kWords / 2];  // [row][words]
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  for (int64_t i = blockIdx.x; i < t.tiles; i += gridDim.x) {
    const int64_t rest = i / t.tiles_c, c0 = (i - rest * t.tiles_c) * S, o = rest / t.tiles_r, r0 = (rest - o * t.tiles_r) * S;
    int64_t at[2];
    t.outer.offsets(o, at);
    const uint16_t* const x = t.x + at[0] + r0 + c0 * t.x_pitch + 4 * lane;
    uint16_t* const y = t.y + at[1] + r0 * t.y_pitch + c0 + 4 * lane;
    const int rows = int(t.rows - r0 < S ? t.rows - r0 : S), columns = int(t.columns - c0 < S ? t.columns - c0 : S);
    if (4 * lane < rows) {
      uint32_t* const words = reinterpret_cast<uint32_t*>(tile[4 * lane]);
#pragma unroll 1
      for (int first = warp; first < kWords; first += kAhead * kWarps) {
        uint2 a[kAhead], b[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          const int c = 2 * (first + k * kWarps);
          if (c < columns) a[k] = *reinterpret_cast<const uint2*>(x + c * t.x_pitch), b[k] = *reinterpret_cast<const uint2*>(x + (c + 1) * t.x_pitch);
        }
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          uint32_t* const to = words + ((first + k * kWarps) ^ lane);
          to[0] = __byte_perm(a[k].x, b[k].x, 0x5410), to[kWords] = __byte_perm(a[k].x, b[k].x, 0x7632);
          to[2 * kWords] = __byte_perm(a[k].y, b[k].y, 0x5410), to[3 * kWords] = __byte_perm(a[k].y, b[k].y, 0x7632);
        }
      }
    }
    __syncthreads();
    if (4 * lane < columns) {
#pragma unroll 4
      for (int k = 0; k < S / kWarps; ++k) {
        const int r = warp * (S / kWarps) + k, turn = r / 4;
        if (r < rows) {
          const uint2 e = tile[r][lane ^ turn / 2];
          *reinterpret_cast<uint2*>(y + r * t.y_pitch) = turn % 2 ? make_uint2(e.y, e.x) : e;
        }
      }
    }
    __syncthreads();
  }
}
// Walks are in elements, y's last axis dense and x dense along another one; false where they are not.
template <class T> bool transposed(const device::Walk<2>& w, const void* x, void* y, void* stream, int& error) {
  const int last = w.rank - 1;
  int along = -1;
  for (int a = 0; a < last; ++a)
    if (w.stride[0][a] == 1) along = a;
  if (along < 0 || w.stride[1][last] != 1 || w.stride[0][last] == 1 || w.extent[along] < 8 || w.extent[last] < 8) return false;
  Transpose<T> t{static_cast<const T*>(x), static_cast<T*>(y), w.extent[along], w.extent[last], w.stride[0][last], w.stride[1][along]};
  Shape outer;
  device::Operand side[2] = {{x, int(sizeof(T)), {}}, {y, int(sizeof(T)), {}}};
  for (int a = 0; a < last; ++a) {
    if (a == along) continue;
    outer.push_back(w.extent[a]);
    for (int k = 0; k < 2; ++k) side[k].strides.push_back(w.stride[k][a]);
  }
  t.outer = device::walk<2>(outer, side, -1, 1);
  const auto fits = [&](int n) {  // n elements are one access on either side
    bool ok = t.rows % n == 0 && t.columns % n == 0 && t.x_pitch % n == 0 && t.y_pitch % n == 0 && (uintptr_t(x) | uintptr_t(y)) % (n * sizeof(T)) == 0;
    for (int a = 0; a < outer.rank; ++a) ok = ok && side[0].strides[a] % n == 0 && side[1].strides[a] % n == 0;
    return ok;
  };
  const auto tiles_of = [&](int size) {
    t.tiles_r = device::ceil_div(t.rows, size), t.tiles_c = device::ceil_div(t.columns, size);
    return t.tiles = t.tiles_r * t.tiles_c * t.outer.units;
  };
  if constexpr (sizeof(T) == 2)
    if (tiles_of(kHalvesTile) >= kHalvesLeast && fits(4)) {
      error = device::launch(transpose_halves_kernel, device::blocks_for(t.tiles, 1), kTileBlock, 0, stream, t);
      return true;
    }
  tiles_of(kTile<T>);
  constexpr int N = sizeof(T) < 4 ? 4 / int(sizeof(T)) : 1;
  error = device::launch(N > 1 && fits(N) ? transpose_kernel<N, T> : transpose_kernel<1, T>, device::blocks_for(t.tiles, 1), kTileBlock, 0, stream, t);
  return true;
}

// --- rows, as words of W where both sides allow that
template <class W> int copy_words(const Shape& shape, const device::Operand& x, const device::Operand& y, void* stream) {
  const device::Operand all[] = {x, y};
  return device_map::map<Same, W, W, Moved<W>>(Same{}, shape, all, stream);
}
template <class T> int copy_elements(const Shape& shape, const device::Operand& x, const device::Operand& y, void* stream) {
  const device::Operand all[] = {x, y};
  const device::Walk<2> w = device::walk<2>(shape, all, 1, 1);
  if (w.units == 0) return 0;
  const int last = w.rank - 1;
  void* to = const_cast<void*>(y.data);
  if (last == 0 && (w.extent[0] == 1 || (w.stride[0][0] == 1 && w.stride[1][0] == 1)))
    return x.data == y.data ? 0 : int(cudaMemcpyAsync(to, x.data, size_t(w.extent[0]) * sizeof(T), cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)));
  int error = 0;
  if (transposed<T>(w, x.data, to, stream, error)) return error;
  // The merged axes, the last one in words.
  Shape merged;
  device::Operand sides[2] = {{x.data, 0, {}}, {y.data, 0, {}}};
  int words = w.stride[0][last] == 1 && w.stride[1][last] == 1 ? 16 / int(sizeof(T)) : 1;
  const auto fits = [&](int n) {
    bool ok = w.extent[last] % n == 0 && (uintptr_t(x.data) | uintptr_t(y.data)) % (n * sizeof(T)) == 0;
    for (int a = 0; a < last; ++a) ok = ok && w.stride[0][a] % n == 0 && w.stride[1][a] % n == 0;
    return ok;
  };
  while (words > 1 && !fits(words)) words /= 2;
  for (int a = 0; a <= last; ++a) {
    merged.push_back(a == last ? w.extent[a] / words : w.extent[a]);
    for (int k = 0; k < 2; ++k) sides[k].strides.push_back(a == last ? w.stride[k][a] : w.stride[k][a] / words);
  }
  const int bytes = words * int(sizeof(T));
  sides[0].bytes = sides[1].bytes = bytes;
  return bytes == 16 ? copy_words<Wide>(merged, sides[0], sides[1], stream) : bytes == 8 ? copy_words<uint64_t>(merged, sides[0], sides[1], stream)
       : bytes == 4 ? copy_words<uint32_t>(merged, sides[0], sides[1], stream) : bytes == 2 ? copy_words<uint16_t>(merged, sides[0], sides[1], stream)
                    : copy_words<uint8_t>(merged, sides[0], sides[1], stream);
}

struct Constant {
  static constexpr bool constant = true;
  Wide bits;
  template <class T> __device__ __forceinline__ T at(int64_t) const {
    if constexpr (std::is_same_v<T, Wide>) return bits;
    else return T(bits.a);
  }
};

}  // namespace
}  // namespace BARACUDA_ISA

int copy_on_device(const Shape& shape, const device::Operand& x, const device::Operand& y, void* stream) {
  const auto f = y.bytes == 1 ? copy_elements<uint8_t> : y.bytes == 2 ? copy_elements<uint16_t> : y.bytes == 4 ? copy_elements<uint32_t>
               : y.bytes == 8 ? copy_elements<uint64_t> : copy_elements<Wide>;
  return f(shape, x, y, stream);
}
int fill_on_device(const Shape& shape, const device::Operand& y, uint64_t a, uint64_t b, void* stream) {
  const Constant c{{a, b}};
  const auto f = y.bytes == 1 ? device_make::make<Constant, uint8_t> : y.bytes == 2 ? device_make::make<Constant, uint16_t> : y.bytes == 4 ? device_make::make<Constant, uint32_t>
               : y.bytes == 8 ? device_make::make<Constant, uint64_t> : device_make::make<Constant, Wide>;
  return f(c, shape, y, stream);
}

}  // namespace baracuda
