// y_i = x_0 op ... op x_i. Reads x, writes y (and indices): the floor is the copy bandwidth; logcumsumexp pays one exp and one
// log per element. Rows go through registers group by group, columns sixteen or more side by side.
#include "baracuda/ops/scan/scan_engine.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using namespace scan;

template <class E, bool kMax> void scan_extremum(const ScanLanes& p) {
  p.out2.at ? scan_lanes<Extremum<E, kMax, true>>(p) : scan_lanes<Extremum<E, kMax, false>>(p);
}
template <class F> struct Kept {  // in what sums and products are kept
  template <class T> static constexpr auto of() {
    if constexpr (std::is_integral_v<T>) return int64_t();
    else if constexpr (kIsHalf<T> && std::is_same_v<F, Add>) return float();
    else return double();
  }
};
template <class T> using StagedOf = std::conditional_t<std::is_integral_v<T>, std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>, Acc<T>>;
template <class F, class T> using FoldOf = Fold<std::conditional_t<std::is_integral_v<T>, int64_t, Acc<T>>, decltype(Kept<F>::template of<T>()), F>;
using Scanned = TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>;

constexpr ScanKernels make() {
  using Run = void (*)(const ScanLanes&);
  using Carry = void (*)(const ScanCarries&);
  return {{by_dtype<Run>(Scanned{}, []<class T>() { return &scan_lanes<FoldOf<Add, T>>; }),
           by_dtype<Run>(Scanned{}, []<class T>() { return &scan_lanes<FoldOf<Mul, T>>; }),
           by_dtype<Run>(Scanned{}, []<class T>() { return &scan_extremum<StagedOf<T>, true>; }),
           by_dtype<Run>(Scanned{}, []<class T>() { return &scan_extremum<StagedOf<T>, false>; }),
           by_dtype<Run>(Floating{}, []<class T>() { return &scan_lanes<LogSumExp<Acc<T>>>; })},
          {by_dtype<Carry>(Scanned{}, []<class T>() { return &scan_carries<FoldOf<Add, T>>; }),
           by_dtype<Carry>(Scanned{}, []<class T>() { return &scan_carries<FoldOf<Mul, T>>; }),
           by_dtype<Carry>(Scanned{}, []<class T>() { return &scan_carries<Extremum<StagedOf<T>, true, true>>; }),
           by_dtype<Carry>(Scanned{}, []<class T>() { return &scan_carries<Extremum<StagedOf<T>, false, true>>; }),
           by_dtype<Carry>(Floating{}, []<class T>() { return &scan_carries<LogSumExp<Acc<T>>>; })},
          {}};
}

}  // namespace
extern constexpr ScanKernels scan_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
