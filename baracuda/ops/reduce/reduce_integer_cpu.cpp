// Integers, bool, and the count of elements that are not zero in any dtype. Integer sums and products wrap modulo 2^64, so every
// order gives the same bits: plain loops for the compiler to vectorise. sizeof(T) bytes read per element.
#include <type_traits>
#include "baracuda/ops/reduce/reduce_cpu.hpp"
#include "baracuda/ops/reduce/reduce_kinds.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {
using namespace reduce_kinds;

template <class T, class K> struct Chunk {
  using E = StoredOf<T>;
  using S = typename K::S;
  static S over(const E* x, int m) {
    S s = K::kStart;
    for (int i = 0; i < m; ++i) s = K::step(s, x[i]);
    return s;
  }
  static void rows(const ReduceRows& p) {
    for (int64_t r = 0; r < p.rows; ++r) p.state[r].i = int64_t(over(static_cast<const E*>(p.x) + r * p.pitch, p.m)), p.state[r].at = 0;
  }
  static void columns(const ReduceColumns& p) {
    S* const s = static_cast<S*>(p.lanes);
    for (int j = 0; j < p.width; ++j) s[j] = K::kStart;
    for (int i = 0; i < p.m; ++i) {
      const E* const x = static_cast<const E*>(p.x) + p.offset[i];
      for (int j = 0; j < p.width; ++j) s[j] = K::step(s[j], x[j]);
    }
    for (int j = 0; j < p.width; ++j) p.state[j].i = int64_t(s[j]), p.state[j].at = 0;
  }
};
template <class T> struct Extremes {
  using E = StoredOf<T>;
  using Low = Smallest<T>;
  using High = Largest<T>;
  static void rows(const ReduceRows& p) {
    for (int64_t r = 0; r < p.rows; ++r) {
      const E* const x = static_cast<const E*>(p.x) + r * p.pitch;
      E least = Low::kStart, most = High::kStart;
      for (int i = 0; i < p.m; ++i) least = Low::step(least, x[i]), most = High::step(most, x[i]);
      p.state[r].i = int64_t(most), p.state[r].at = int64_t(least);
    }
  }
  static void columns(const ReduceColumns& p) {
    E *const most = static_cast<E*>(p.lanes), *const least = most + reduce_pitch(p.width);
    for (int j = 0; j < p.width; ++j) most[j] = High::kStart, least[j] = Low::kStart;
    for (int i = 0; i < p.m; ++i) {
      const E* const x = static_cast<const E*>(p.x) + p.offset[i];
      for (int j = 0; j < p.width; ++j) most[j] = High::step(most[j], x[j]), least[j] = Low::step(least[j], x[j]);
    }
    for (int j = 0; j < p.width; ++j) p.state[j].i = int64_t(most[j]), p.state[j].at = int64_t(least[j]);
  }
};
// The first index of the extremum: along rows the extremum first, then where it is; down columns both at once.
template <class T, class K> struct ArgChunk {
  using E = StoredOf<T>;
  static void rows(const ReduceRows& p) {
    for (int64_t r = 0; r < p.rows; ++r) {
      const E* const x = static_cast<const E*>(p.x) + r * p.pitch;
      const E best = Chunk<T, K>::over(x, p.m);
      int at = 0;
      while (at + 1 < p.m && K::value(x[at]) != best) ++at;
      p.state[r].i = int64_t(best), p.state[r].at = at;
    }
  }
  static void columns(const ReduceColumns& p) {
    E* const best = static_cast<E*>(p.lanes);
    int* const at = reinterpret_cast<int*>(static_cast<char*>(p.lanes) + 8 * reduce_pitch(p.width));
    for (int j = 0; j < p.width; ++j) best[j] = K::kStart, at[j] = 0;
    for (int i = 0; i < p.m; ++i) {
      const E* const x = static_cast<const E*>(p.x) + p.offset[i];
      for (int j = 0; j < p.width; ++j) {
        const E v = K::value(x[j]);
        const bool better = K::better(v, best[j]);
        best[j] = better ? v : best[j], at[j] = better ? i : at[j];
      }
    }
    for (int j = 0; j < p.width; ++j) p.state[j].i = int64_t(best[j]), p.state[j].at = at[j];
  }
};

using Whole = TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>;
template <template <class> class K> constexpr ByDType<ReduceKernel> chunks() {
  return by_dtype<ReduceKernel>(Whole{}, []<class T>() { return ReduceKernel{Chunk<T, K<T>>::rows, Chunk<T, K<T>>::columns, 8}; });
}
template <template <class> class K> constexpr ByDType<ReduceKernel> arg_chunks() {
  return by_dtype<ReduceKernel>(Whole{}, []<class T>() { return ReduceKernel{ArgChunk<T, K<T>>::rows, ArgChunk<T, K<T>>::columns, 12}; });
}
constexpr ReduceTable make() {
  ReduceTable t;
  t.of[int(ReduceLoop::minmax)] = by_dtype<ReduceKernel>(Whole{}, []<class T>() { return ReduceKernel{Extremes<T>::rows, Extremes<T>::columns, 16}; });
  t.of[int(ReduceLoop::sum)] = chunks<Summed>();
  t.of[int(ReduceLoop::product)] = chunks<Multiplied>();
  t.of[int(ReduceLoop::max)] = chunks<Largest>();
  t.of[int(ReduceLoop::min)] = chunks<Smallest>();
  t.of[int(ReduceLoop::argmax)] = arg_chunks<Largest>();
  t.of[int(ReduceLoop::argmin)] = arg_chunks<Smallest>();
  auto& nonzero = t.of[int(ReduceLoop::nonzero)] = chunks<Counted>();
  nonzero[DType::f16] = nonzero[DType::bf16] = {Chunk<f16, Counted<f16>>::rows, Chunk<f16, Counted<f16>>::columns, 8};
  nonzero[DType::f32] = {Chunk<float, Counted<float>>::rows, Chunk<float, Counted<float>>::columns, 8};
  nonzero[DType::f64] = {Chunk<double, Counted<double>>::rows, Chunk<double, Counted<double>>::columns, 8};
  return t;
}

}  // namespace
extern constexpr ReduceTable reduce_integer_table = make();
}  // namespace baracuda
