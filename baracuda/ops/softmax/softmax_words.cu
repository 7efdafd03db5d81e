// Dense rows of softmax whose length is no whole number of 16 bytes, by words of 4 bytes in registers: f32 needs no shifts then, and halves of a row that
// begins in the middle of a word are taken out of two. A thread's words are 32 apart, a warp's lie together. Reads x and writes y once (backward: dy, y and
// dx): the floor is memory bandwidth.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/softmax/softmax_short.cuh"
#include "baracuda/ops/softmax/softmax_words_cuda.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace row_team;
using namespace softmax_short;

template <class T> constexpr int kOf = 4 / int(sizeof(T));      // elements of a word; a thread has 16 words of a row, of longer ones in f32 32
template <int W> constexpr int kThreads = W > 16 ? 640 : 1024;  // of a multiprocessor, whose registers they share

// A thread's words of a row of n elements.
template <class T, int W> struct Words {
  static constexpr int N = kOf<T>, kStep = 32 * N;
  int first, left;  // the thread's first element, and the elements of the row from there on
  bool all;         // the row has all words of the warp
  __device__ __forceinline__ Words(const Team& t, int n) : first(t.thread / 32 * (W * kStep) + t.thread % 32 * N), left(n - first), all(n - first + t.thread % 32 * N >= W * kStep) {}
  // f(c, elements from word c on): of the row where less than N. No branches, so that words are worked on together.
  template <class F> __device__ __forceinline__ void each(F f) const {
    if (all) {
#pragma unroll
      for (int c = 0; c < W; ++c) f(c, N);
    } else {
#pragma unroll
      for (int c = 0; c < W; ++c) f(c, left - c * kStep);
    }
  }
  // made(c): a word. A row that begins in the middle of one has in each the end of the word before and the beginning of this one. Every thread of the
  // warp calls.
  template <class F> __device__ __forceinline__ void put(T* row, F made) const {
    T* const to = row + first;
    if (N == 1 || uintptr_t(row) % 4 == 0) {
      each([&](int c, int count) {
        const uint32_t own = made(c);
        if (count >= N) *reinterpret_cast<uint32_t*>(to + c * kStep) = own;
        if constexpr (N > 1)
          if (count == 1) to[c * kStep] = T{uint16_t(own)};
      });
    } else if constexpr (N > 1) {
      const int lane = int(threadIdx.x) % 32;
      uint32_t last = 0;
      const auto pass = [&](int c, int count) {  // count: elements from this word on; the next lane writes the second
        const uint32_t own = made(c), before = __shfl_sync(0xffffffffu, lane == 31 ? last : own, (lane + 31) % 32);
        last = own;
        T* const at = to + c * kStep;
        if (count > 0) {
          if (c > 0 || lane > 0) *reinterpret_cast<uint32_t*>(at - 1) = __funnelshift_r(before, own, 16);
          else *at = T{uint16_t(own)};
        }
        if (count == N || (count > N && c == W - 1 && lane == 31)) at[1] = T{uint16_t(own >> 16)};
      };
      if (left + lane * N > W * kStep) {
#pragma unroll
        for (int c = 0; c < W; ++c) pass(c, N + 1);
      } else {
#pragma unroll
        for (int c = 0; c < W; ++c) pass(c, left - c * kStep);
      }
    }
  }
};
// What comes next of K tensors, on its way to shared memory: W words of a lane, and one more of a warp.
template <class T, int W, int K> struct Coming {
  static constexpr int N = kOf<T>, kWarp = 32 * W + 1, kStep = 32 * N;
  uint32_t* slots;
  int shift[K];  // elements of the first word before the row
  __device__ __forceinline__ explicit Coming(uint32_t* shared) : slots(shared + int(threadIdx.x) / 32 * (K * kWarp) + int(threadIdx.x) % 32) {}
  // With a branch around it the compiler puts three loads before a copy.
  __device__ __forceinline__ static void copy(uint32_t* slot, const T* from, int left) {
    const auto to = unsigned(__cvta_generic_to_shared(slot));
    asm volatile("{\n.reg .pred p;\nsetp.ge.s32 p, %2, %3;\n@p cp.async.ca.shared.global [%0], [%1], 4;\n}" ::"r"(to), "l"(from), "r"(left), "n"(N) : "memory");
    if constexpr (N > 1) asm volatile("{\n.reg .pred p;\nsetp.eq.s32 p, %2, 1;\n@p cp.async.ca.shared.global [%0], [%1], 4, 2;\n}" ::"r"(to), "l"(from), "r"(left) : "memory");
  }
  // Every thread of the warp calls.
  __device__ __forceinline__ void fetch(const Words<T, W>& w, const T* const (&row)[K]) {
    if constexpr (N > 1) __syncwarp();  // what was there was taken
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int s = shift[k] = N == 1 ? 0 : int(uintptr_t(row[k]) / sizeof(T)) & 1;
      const T* const from = row[k] + (w.first - s);
      uint32_t* const slot = slots + k * kWarp;
#pragma unroll
      for (int c = 0; c < W; ++c) copy(slot + c * 32, from + c * kStep, w.left + s - c * kStep);
      if (N > 1 && int(threadIdx.x) % 32 == 31) copy(slot + (W - 1) * 32 + 1, from + (W - 1) * kStep + N, w.left + s - (W - 1) * kStep - N);
    }
  }
  __device__ __forceinline__ void arrive() const {
    asm volatile("cp.async.wait_all;" ::: "memory");
    if constexpr (N > 1) __syncwarp();
  }
  // What is behind the end is anything.
  __device__ __forceinline__ Packed<T, N> taken(int k, int c) const {
    const uint32_t* const slot = slots + k * kWarp + c * 32;
    if constexpr (N == 1) return {slot[0]};
    else return {__funnelshift_r(slot[0], slot[1], unsigned(shift[k]) * 16)};
  }
};
constexpr size_t bytes_of(int tensors, int words, int block) { return size_t(4) * size_t(tensors * (block / 32) * (32 * words + 1)); }

template <class T, int W> __global__ void __launch_bounds__(kThreads<W>, 1) forward_kernel(const __grid_constant__ SoftmaxCuda p) {
  constexpr int N = kOf<T>;
  extern __shared__ uint32_t slots[];
  __shared__ float shared[2][64];
  Team t(p.team);
  int n = int(p.n);
  const int64_t rows = p.lines.units, step = t.row_step();
  const V scale = p.negate ? -p.scale : p.scale;
  Coming<T, W, 1> coming(slots);
  const auto fetch = [&](int64_t first) {
    int64_t at[4];
    p.lines.offsets(first + t.slot < rows ? first + t.slot : first, at);
    coming.fetch(Words<T, W>(t, n), {static_cast<const T*>(p.in) + at[0]});
  };
  int64_t first = t.first_row();
  if (first < rows) fetch(first);
  for (; first < rows; first += step) {
    t.forget_places(n);
    const Words<T, W> words(t, n);
    Packed<T, N> held[W];
    coming.arrive();
#pragma unroll
    for (int c = 0; c < W; ++c) held[c] = coming.taken(0, c);
    if (first + step < rows) fetch(first + step);
    V top = -kInf, sum = 0;
    words.each([&](int c, int count) {
#pragma unroll
      for (int j = 0; j < N; ++j) top = greater(j < count ? held[c][j] * scale : V(-kInf), top);
    });
    top = V::of(t.over(top.v, float(-kInf), shared[0], [](float a, float b) { return greater(V::of(a), V::of(b)).v; }));
    const Exp<T> exp(top);
    words.each([&](int c, int count) {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const V e = exp(held[c][j] * scale);
        if constexpr (!kIsHalf<T>)
          if (!p.log) held[c].word[j] = __builtin_bit_cast(uint32_t, e.v);
        sum = j < count ? sum + e : sum;
      }
    });
    sum = V::of(t.over(sum.v, 0.f, shared[1], [](float a, float b) { return a + b; }));
    const auto line = Line<T>::of(top, sum, p.log, p.safe);
    const bool live = first + t.slot < rows;
    int64_t at[4];
    p.lines.offsets(live ? first + t.slot : first, at);
    Words<T, W>(t, live ? n : 0).put(static_cast<T*>(p.out) + at[3], [&](int c) {
      return Packed<T, N>::rounded([&](int j) {
        if (p.log) return line.made(held[c][j] * scale, true);
        return line.made(kIsHalf<T> ? exp(held[c][j] * scale) : held[c][j], false);
      }).word[0];
    });
  }
}
template <class T, int W> __global__ void __launch_bounds__(kThreads<W>, 1) backward_kernel(const __grid_constant__ SoftmaxCuda p) {
  constexpr int N = kOf<T>;
  extern __shared__ uint32_t slots[];
  __shared__ float shared[2][64];
  Team t(p.team);
  int n = int(p.n);
  const int64_t rows = p.lines.units, step = t.row_step();
  Coming<T, W, 2> coming(slots);
  const auto fetch = [&](int64_t first) {
    int64_t at[4];
    p.lines.offsets(first + t.slot < rows ? first + t.slot : first, at);
    coming.fetch(Words<T, W>(t, n), {static_cast<const T*>(p.in) + at[0], static_cast<const T*>(p.second) + at[1]});
  };
  int64_t first = t.first_row();
  bool other = false;  // buffer of this row's sum
  if (first < rows) fetch(first);
  for (; first < rows; first += step, other = !other) {
    t.forget_places(n);
    coming.arrive();
    V sum = -0.0;
    Words<T, W>(t, n).each([&](int c, int count) {
      const Packed<T, N> dy = coming.taken(0, c), y = coming.taken(1, c);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const V more = p.log ? sum + dy[j] : fma(dy[j], y[j], sum);
        sum = j < count ? more : sum;
      }
    });
    const V dot = V::of(t.over(sum.v, 0.f, shared[other], [](float a, float b) { return a + b; })), sign = p.sign;
    const bool live = first + t.slot < rows;
    int64_t at[4];
    p.lines.offsets(live ? first + t.slot : first, at);
    Words<T, W>(t, live ? n : 0).put(static_cast<T*>(p.out) + at[3], [&](int c) {
      const Packed<T, N> dy = coming.taken(0, c), y = coming.taken(1, c);
      return Packed<T, N>::rounded([&](int j) { return slope_of<T>(p.log, dy[j], y[j], dot, sign); }).word[0];
    });
    if (first + step < rows) fetch(first + step);
  }
}

// f(W) with the words of a thread for rows of n elements.
template <class F> auto with_words(int64_t n, int size, F f) {
  return size == 4 && n > 16 * kMostTeam ? f(std::integral_constant<int, 32>{}) : f(std::integral_constant<int, 16>{});
}
template <class T, bool kBackward> int rows(const SoftmaxCuda& given, void* stream) {
  return with_words(given.n, sizeof(T), [&](auto words) {
    constexpr int W = decltype(words)::value;
    if constexpr (kIsHalf<T> && W > 16) return 0;
    else {
      SoftmaxCuda p = given;
      const TeamShape shape = TeamShape::of(p.n, W * kOf<T>);
      p.team = shape.team;
      return launch(kBackward ? backward_kernel<T, W> : forward_kernel<T, W>, shape, p.lines.units, bytes_of(kBackward ? 2 : 1, W, shape.block), stream, p, kThreads<W>);
    }
  });
}
template <bool kBackward> constexpr ByDType<SoftmaxLaunch> by_dtype_of() {
  return device::floating<SoftmaxLaunch>(rows<f16, kBackward>, rows<bf16, kBackward>, rows<float, kBackward>, nullptr);
}
constexpr SoftmaxRowsCuda kWords = {by_dtype_of<false>(), by_dtype_of<true>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SoftmaxRowsCuda softmax_words_cuda = kWords;
// Shorter ones are no better off: a warp has less than a quarter of its words.
bool softmax_cuda_by_words(int64_t n, int size, bool backward) {
  return n * size % 16 && n * size >= 1024 && with_words(n, size, [&](auto words) {
    constexpr int W = decltype(words)::value;
    return bytes_of(backward ? 2 : 1, W, TeamShape::of(n, W * (4 / size)).block) <= kMostAhead;
  });
}

}  // namespace baracuda
