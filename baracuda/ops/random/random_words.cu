// Ops that compare or scale the words of Philox: a thread makes the blocks of 16 bytes of elements, the same numbers as on the CPU. Dropout reads x
// and writes y, the others write: the floor is memory bandwidth where elements have two bytes and more.
#include "baracuda/ops/random/random_words.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> __global__ void __launch_bounds__(kBlock) dropout_kernel(const __grid_constant__ DropoutCuda p) {
  constexpr int E = kElements<T, 1>;
  const T* x = static_cast<const T*>(p.x);
  T* y = static_cast<T*>(p.y);
  const Acc<T> factor = Acc<T>(p.factor);
  const bool together = whole<T, E>(p.words, p.walk, 0, x) && whole<T, E>(p.words, p.walk, 1, y) && (!p.mask || whole<bool, E>(p.words, p.walk, 2, p.mask));
  for_words<E, 1>(p.words, [&](int64_t first, const uint32_t(&w)[E]) {
    if (together && first + E <= p.words.n) {
      const Stretch<T, E> in = *reinterpret_cast<const Stretch<T, E>*>(x + first);
      Stretch<T, E> out;
      Stretch<bool, E> kept;
#pragma unroll
      for (int j = 0; j < E; ++j) kept.lane[j] = w[j] >= p.least, out.lane[j] = random::dropped(in.lane[j], kept.lane[j], factor);
      put(y + first, out);
      if (p.mask) put(p.mask + first, kept);
      return;
    }
#pragma unroll
    for (int j = 0; j < E; ++j) {
      if (first + j < 0 || first + j >= p.words.n) continue;
      int64_t at[3];
      p.walk.offsets(first + j, at);
      const bool keep = w[j] >= p.least;
      y[at[1]] = random::dropped(x[at[0]], keep, factor);
      if (p.mask) p.mask[at[2]] = keep;
    }
  });
}
template <class T> int dropout(const DropoutCuda& p, void* stream) { return device::launch(dropout_kernel<T>, blocks(p.words, kElements<T, 1>), kBlock, 0, stream, p); }

template <class U> __global__ void __launch_bounds__(kBlock) bernoulli_kernel(const __grid_constant__ BernoulliCuda p) {
  constexpr int E = kElements<U, 1>;
  U* y = static_cast<U*>(p.y);
  const U one = U(p.one);
  const bool together = !p.probabilities && whole<U, E>(p.words, p.walk, 1, y);
  for_words<E, 1>(p.words, [&](int64_t first, const uint32_t(&w)[E]) {
    if (together && first + E <= p.words.n) {
      Stretch<U, E> out;
#pragma unroll
      for (int j = 0; j < E; ++j) out.lane[j] = w[j] < p.below ? one : U{};
      put(y + first, out);
      return;
    }
#pragma unroll
    for (int j = 0; j < E; ++j) {
      if (first + j < 0 || first + j >= p.words.n) continue;
      int64_t at[2];
      p.walk.offsets(first + j, at);
      y[at[1]] = (p.probabilities ? random::below(w[j], p.probabilities[at[0]]) : w[j] < p.below) ? one : U{};
    }
  });
}
template <class U> int bernoulli(const BernoulliCuda& p, void* stream) { return device::launch(bernoulli_kernel<U>, blocks(p.words, kElements<U, 1>), kBlock, 0, stream, p); }

// of(words of the element, its number in the stream)
template <class T, int kPer, int E, class F> __device__ __forceinline__ void write_integers(const IntegersCuda& p, F of) {
  T* y = static_cast<T*>(p.y);
  const bool together = whole<T, E>(p.words, p.walk, 0, y);
  for_words<E, kPer>(p.words, [&](int64_t first, const uint32_t(&w)[E * kPer]) {
    Stretch<T, E> out;
#pragma unroll
    for (int j = 0; j < E; ++j) out.lane[j] = of(w + kPer * j, p.words.offset + uint64_t(first + j));
    if (together && first + E <= p.words.n) return put(y + first, out);
#pragma unroll
    for (int j = 0; j < E; ++j) {
      if (first + j < 0 || first + j >= p.words.n) continue;
      int64_t at[1];
      p.walk.offsets(first + j, at);
      y[at[0]] = out.lane[j];
    }
  });
}
// One block of words a thread: further words are long code.
template <class T, bool kWide> __global__ void __launch_bounds__(kBlock) randint_kernel(const __grid_constant__ IntegersCuda p) {
  write_integers<T, kWide ? 2 : 1, kWide ? 2 : 4>(p, [&](const uint32_t* w, uint64_t e) {
    uint64_t v;
    if constexpr (!kWide) v = random::below_range(w[0], p.range, p.least, p.words.seed, e);
    else v = p.range == 0 ? random::both(w[0], w[1]) : random::below_wide_range(random::both(w[0], w[1]), p.range, p.least, p.words.seed, e);
    return random::from_integer<T>(int64_t(p.low + v));
  });
}
template <class T> int randint(const IntegersCuda& p, void* stream) {
  if constexpr (sizeof(T) == 8)  // narrower ones hold no range beyond 2^32
    if (p.range == 0 || p.range > uint64_t(1) << 32) return device::launch(randint_kernel<T, true>, blocks(p.words, 2), kBlock, 0, stream, p);
  return device::launch(randint_kernel<T, false>, blocks(p.words, 4), kBlock, 0, stream, p);
}
template <class U> __global__ void __launch_bounds__(kBlock) bits_kernel(const __grid_constant__ IntegersCuda p) {
  constexpr int kPer = sizeof(U) == 8 ? 2 : 1;
  write_integers<U, kPer, kElements<U, kPer>>(p, [&](const uint32_t* w, uint64_t) { return U(kPer == 2 ? random::both(w[0], w[kPer - 1]) : w[0]); });
}
template <class U> int random_bits(const IntegersCuda& p, void* stream) {
  return device::launch(bits_kernel<U>, blocks(p.words, kElements<U, sizeof(U) == 8 ? 2 : 1>), kBlock, 0, stream, p);
}
template <class E, class... T> constexpr ByDType<E> numbers(TypeList<T...>) {
  ByDType<E> table;
  ((table[kDTypeOf<T>] = randint<T>), ...);
  return table;
}
using IntegersFn = int (*)(const IntegersCuda&, void*);
constexpr RandomWordsCudaKernels kKernels = {
    device::floating<int (*)(const DropoutCuda&, void*)>(dropout<f16>, dropout<bf16>, dropout<float>, dropout<double>),
    {bernoulli<uint8_t>, bernoulli<uint16_t>, bernoulli<uint32_t>, bernoulli<uint64_t>},
    numbers<IntegersFn>(TypeList<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>{}),
    {random_bits<uint8_t>, random_bits<uint16_t>, random_bits<uint32_t>, random_bits<uint64_t>}};

}  // namespace
}  // namespace BARACUDA_ISA

extern const RandomWordsCudaKernels random_words_cuda_kernels = kKernels;

}  // namespace baracuda
