// Integers, bool, and the count of elements that are not zero in any dtype. Every order gives the same bits.
#include "baracuda/ops/reduce/reduce_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace reduce_kinds;

template <class T, class K> struct SumLoop {
  using E = StoredOf<T>;
  static constexpr bool kIndex = false;
  static constexpr int kLanes = reduce_cuda_lanes(sizeof(E), true), kRounds = 2;
  template <class Tile> __device__ static ReduceState chunk(const Tile& t) {
    constexpr int L = Tile::kLanes;
    constexpr bool times = std::is_same_v<K, Multiplied<T>>;
    uint64_t s = K::kStart;
    for (int b = 0; b < t.m; b += Tile::kBlock) {
      E v[Tile::kRounds][L];
      t.load(b, v);
      t.each(b, [&](int r, int k, int) { s = K::step(s, v[r][k]); });
    }
    uint64_t lane[L];
#pragma unroll
    for (int k = 0; k < L; ++k) lane[k] = k ? uint64_t(K::kStart) : s;
    ReduceState out;
    out.i = int64_t(t.fold(lane, [](uint64_t a, uint64_t c) { return times ? a * c : a + c; })), out.at = 0;
    return out;
  }
};
template <class T, class K> struct BestLoop {
  using E = StoredOf<T>;
  using Wide = std::conditional_t<std::is_signed_v<E>, int64_t, uint64_t>;
  static constexpr bool kIndex = false;
  static constexpr int kLanes = reduce_cuda_lanes(sizeof(E), true), kRounds = 2;
  template <class Tile> __device__ static ReduceState chunk(const Tile& t) {
    constexpr int L = Tile::kLanes;
    E s = K::kStart;
    for (int b = 0; b < t.m; b += Tile::kBlock) {
      E v[Tile::kRounds][L];
      t.load(b, v);
      t.each(b, [&](int r, int k, int) { s = K::step(s, v[r][k]); });
    }
    ReduceState out;
    out.i = int64_t(t.fold_one(Wide(s), [](Wide a, Wide c) { return Wide(K::step(E(a), E(c))); })), out.at = 0;
    return out;
  }
};
template <class T> struct BothLoop {
  using E = StoredOf<T>;
  using Low = Smallest<T>;
  using High = Largest<T>;
  using Wide = std::conditional_t<std::is_signed_v<E>, int64_t, uint64_t>;
  static constexpr bool kIndex = false;
  static constexpr int kLanes = reduce_cuda_lanes(sizeof(E), true), kRounds = 2;
  template <class Tile> __device__ static ReduceState chunk(const Tile& t) {
    constexpr int L = Tile::kLanes;
    E least = Low::kStart, most = High::kStart;
    for (int b = 0; b < t.m; b += Tile::kBlock) {
      E v[Tile::kRounds][L];
      t.load(b, v);
      t.each(b, [&](int r, int k, int) { least = Low::step(least, v[r][k]), most = High::step(most, v[r][k]); });
    }
    ReduceState out;
    out.i = int64_t(t.fold_one(Wide(most), [](Wide a, Wide c) { return Wide(High::step(E(a), E(c))); }));
    out.at = int64_t(t.fold_one(Wide(least), [](Wide a, Wide c) { return Wide(Low::step(E(a), E(c))); }));
    return out;
  }
};
template <class T, class K> struct ArgLoop {
  using E = StoredOf<T>;
  using Wide = std::conditional_t<std::is_signed_v<E>, int64_t, uint64_t>;
  static constexpr bool kIndex = true;
  static constexpr int kLanes = reduce_cuda_lanes(sizeof(E), true), kRounds = 2;
  struct Found { Wide v; int64_t at; };
  template <class Tile> __device__ static ReduceState chunk(const Tile& t) {
    constexpr int L = Tile::kLanes;
    E best = K::kStart;
    int at = kSumChunk;
    for (int b = 0; b < t.m; b += Tile::kBlock) {
      E v[Tile::kRounds][L];
      t.load(b, v);
      t.each(b, [&](int r, int k, int i) {
        const E x = K::value(v[r][k]);
        const bool better = K::better(x, best) || (x == best && i < at);
        best = better ? x : best, at = better ? i : at;
      });
    }
    const Found all = t.fold_one(Found{Wide(best), at}, [](Found a, Found c) { return K::better(E(c.v), E(a.v)) || (a.v == c.v && c.at < a.at) ? c : a; });
    ReduceState out;
    out.i = int64_t(all.v), out.at = all.at;
    return out;
  }
};
template <template <class> class L> constexpr ByDType<ReduceLaunch> loops() {
  ByDType<ReduceLaunch> t;
  t[DType::boolean] = launch_loop<L<bool>>, t[DType::i8] = launch_loop<L<int8_t>>, t[DType::u8] = launch_loop<L<uint8_t>>;
  t[DType::i16] = launch_loop<L<int16_t>>, t[DType::u16] = launch_loop<L<uint16_t>>, t[DType::i32] = launch_loop<L<int32_t>>;
  t[DType::u32] = launch_loop<L<uint32_t>>, t[DType::i64] = launch_loop<L<int64_t>>, t[DType::u64] = launch_loop<L<uint64_t>>;
  return t;
}
template <class T> using Sums = SumLoop<T, Summed<T>>;
template <class T> using Products = SumLoop<T, Multiplied<T>>;
template <class T> using Counts = SumLoop<T, Counted<T>>;
template <class T> using Max = BestLoop<T, Largest<T>>;
template <class T> using Min = BestLoop<T, Smallest<T>>;
template <class T> using ArgMax = ArgLoop<T, Largest<T>>;
template <class T> using ArgMin = ArgLoop<T, Smallest<T>>;
constexpr ReduceCudaTable make() {
  ReduceCudaTable t;
  t.of[int(ReduceLoop::sum)] = loops<Sums>();
  t.of[int(ReduceLoop::product)] = loops<Products>();
  t.of[int(ReduceLoop::max)] = loops<Max>();
  t.of[int(ReduceLoop::min)] = loops<Min>();
  t.of[int(ReduceLoop::minmax)] = loops<BothLoop>();
  t.of[int(ReduceLoop::argmax)] = loops<ArgMax>();
  t.of[int(ReduceLoop::argmin)] = loops<ArgMin>();
  auto& nonzero = t.of[int(ReduceLoop::nonzero)] = loops<Counts>();
  nonzero[DType::f16] = nonzero[DType::bf16] = launch_loop<Counts<f16>>;
  nonzero[DType::f32] = launch_loop<Counts<float>>, nonzero[DType::f64] = launch_loop<Counts<double>>;
  return t;
}
constexpr ReduceCudaTable kTable = make();

}  // namespace
}  // namespace BARACUDA_ISA

extern const ReduceCudaTable reduce_cuda_integers = kTable;

}  // namespace baracuda
