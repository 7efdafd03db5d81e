// Integers, bool, and the count of elements that are not zero in any dtype, by the bytes of an element. Every order gives the same bits.
#include "baracuda/ops/reduce/reduce_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

enum class Whole { sum, product, count, max, min, both, argmax, argmin };
// B: an unsigned integer of as many bytes.
template <class B, Whole kind> struct WholeLoop {
  using E = B;
  using A = int64_t;
  static constexpr ReduceLoop kLoop = kind == Whole::sum       ? ReduceLoop::sum
                                      : kind == Whole::product ? ReduceLoop::product
                                      : kind == Whole::max     ? ReduceLoop::max
                                      : kind == Whole::min     ? ReduceLoop::min
                                      : kind == Whole::both    ? ReduceLoop::minmax
                                      : kind == Whole::argmax  ? ReduceLoop::argmax
                                      : kind == Whole::argmin  ? ReduceLoop::argmin
                                                               : ReduceLoop::nonzero;
  static constexpr bool kArg = kind == Whole::argmax || kind == Whole::argmin, kBoth = kind == Whole::both;
  static constexpr bool kIndex = kArg, kHead = false, kChecks = false, kPasses = false, kTidyEach = false, kRows = true, kColumns = false;
  static constexpr int kUnroll = sizeof(B) < 4 ? 2 : 4, kResident = 3, kShortResident = 4;
  static constexpr bool kOrdered = kArg || kBoth || kind == Whole::max || kind == Whole::min;
  static constexpr int64_t kMost = int64_t(~uint64_t(0) >> 1), kLeast = ~kMost;
  // As integers that compare as i64 do; made() undoes it.
  static __device__ int64_t made(int64_t v, const ReduceCuda& p) { return int64_t(uint64_t(v) ^ p.flip); }
  struct State {
    int64_t v;
    static __device__ State chosen(bool yes, State a, State b) { return {yes ? a.v : b.v}; }
  };
  struct Pair {
    int64_t v, other;  // the largest and the smallest; the extremum and where it is
    static __device__ Pair chosen(bool yes, const Pair& a, const Pair& b) { return {yes ? a.v : b.v, yes ? a.other : b.other}; }
  };
  template <int N> struct Lanes {
    using Lane = std::conditional_t<kArg || kBoth, Pair, State>;
    Lane lane[1];
    uint64_t sign, flip;
    bool is_bool;
    __device__ void begin(const ReduceCuda& p, double) {
      sign = p.sign, flip = p.flip, is_bool = p.is_bool;
      if constexpr (kBoth) lane[0] = {kLeast, kMost};
      else if constexpr (kArg) lane[0] = {kind == Whole::argmax ? kLeast : kMost, kSumChunk};
      else lane[0] = {kind == Whole::product ? 1 : kind == Whole::max ? kLeast : kind == Whole::min ? kMost : 0};
    }
    __device__ Lane of(E e, int i) const {
      if constexpr (kind == Whole::count) return {int64_t((uint64_t(e) & ~sign) != 0)};
      const uint64_t raw = is_bool ? uint64_t(e != 0) : uint64_t(e);
      const int64_t v = int64_t(((raw ^ sign) - sign) ^ (kOrdered ? flip : 0));
      if constexpr (kBoth) return {v, v};
      else if constexpr (kArg) return {v, i};
      else return {v};
    }
    __device__ void step(int, E e, int i) { lane[0] = join(lane[0], of(e, i)); }
    __device__ void tidy() {}
    __device__ void settle() {}
    static __device__ Lane join(const Lane& a, const Lane& b) {
      if constexpr (kind == Whole::product) return {int64_t(uint64_t(a.v) * uint64_t(b.v))};
      else if constexpr (kind == Whole::max) return {a.v > b.v ? a.v : b.v};
      else if constexpr (kind == Whole::min) return {a.v < b.v ? a.v : b.v};
      else if constexpr (kBoth) return {a.v > b.v ? a.v : b.v, a.other < b.other ? a.other : b.other};
      else if constexpr (kArg) return Pair::chosen((kind == Whole::argmax ? b.v > a.v : b.v < a.v) || (a.v == b.v && b.other < a.other), b, a);
      else return {int64_t(uint64_t(a.v) + uint64_t(b.v))};
    }
    template <class S, class At> static __device__ void finish(const ReduceCuda& p, const S& all, int, double, At, ReduceState& out) {
      out.i = kOrdered ? made(all.v, p) : all.v, out.at = 0;
      if constexpr (kBoth) out.at = made(all.other, p);
      if constexpr (kArg) out.at = all.other;
    }
  };
};
template <Whole kind> constexpr ByDType<ReduceLaunch> loops() {
  ByDType<ReduceLaunch> t;
  t[DType::boolean] = t[DType::i8] = t[DType::u8] = launch_loop<WholeLoop<uint8_t, kind>>;
  t[DType::i16] = t[DType::u16] = launch_loop<WholeLoop<uint16_t, kind>>;
  t[DType::i32] = t[DType::u32] = launch_loop<WholeLoop<uint32_t, kind>>;
  t[DType::i64] = t[DType::u64] = launch_loop<WholeLoop<uint64_t, kind>>;
  if constexpr (kind == Whole::count) t[DType::f16] = t[DType::bf16] = t[DType::i16], t[DType::f32] = t[DType::i32], t[DType::f64] = t[DType::i64];
  return t;
}
constexpr ReduceCudaTable make() {
  ReduceCudaTable t;
  t.of[int(ReduceLoop::sum)] = loops<Whole::sum>();
  t.of[int(ReduceLoop::product)] = loops<Whole::product>();
  t.of[int(ReduceLoop::max)] = loops<Whole::max>();
  t.of[int(ReduceLoop::min)] = loops<Whole::min>();
  t.of[int(ReduceLoop::minmax)] = loops<Whole::both>();
  t.of[int(ReduceLoop::argmax)] = loops<Whole::argmax>();
  t.of[int(ReduceLoop::argmin)] = loops<Whole::argmin>();
  t.of[int(ReduceLoop::nonzero)] = loops<Whole::count>();
  return t;
}
constexpr ReduceCudaTable kTable = make();

}  // namespace
}  // namespace BARACUDA_ISA

extern const ReduceCudaTable reduce_cuda_integers = kTable;

}  // namespace baracuda
