// Products of halves by wgmma: the kernels of gemm_sm90.cuh that store their sums as they are.
#include "baracuda/ops/gemm/gemm_sm90.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace gemm_sm90_detail;

template <class T> int product(const GemmSm90& g, void* stream) {
  if (g.m == 0 || g.n == 0) return 0;
  int error = 0;
  const int64_t most = multiprocessors(error);
  if (error) return error;
  // Of few tiles each is halved where that employs twice as many multiprocessors.
  const bool narrow = !g.wide && 2 * device::ceil_div(g.m, kM) * device::ceil_div(g.n, kMostN) <= most;
  Works<AsTheyAre, 1> w{};
  if (!make_work(w.work[0], g, kIsF16<T>, narrow ? kMostN / 2 : kMostN)) return kGemmSm90Refused;
  const auto by_sides = [&](auto wide, auto n) {
    constexpr bool kWide = decltype(wide)::value;
    constexpr int kN = decltype(n)::value;
    if (g.a.across) return g.b.across ? launch_product<T, AsTheyAre, Kind<kWide, kN, 1, 1>>(w, most, stream) : launch_product<T, AsTheyAre, Kind<kWide, kN, 1, 0>>(w, most, stream);
    return g.b.across ? launch_product<T, AsTheyAre, Kind<kWide, kN, 0, 1>>(w, most, stream) : launch_product<T, AsTheyAre, Kind<kWide, kN, 0, 0>>(w, most, stream);
  };
  const std::integral_constant<int, kMostN> all;
  if (narrow) return by_sides(std::false_type{}, std::integral_constant<int, kMostN / 2>{});
  return g.wide ? by_sides(std::true_type{}, all) : by_sides(std::false_type{}, all);
}

// dlogits^T x, say, and dlogits w, which is added to what is there in f32.
template <bool kWideOfFirst> int both(const GemmSm90& first, const GemmSm90& second, void* stream) {
  int error = 0;
  const int64_t most = multiprocessors(error);
  if (error) return error;
  Works<AsTheyAre, 2> w{};
  if (!make_work(w.work[0], first, false, kMostN) || !make_work(w.work[1], second, false, kMostN)) return kGemmSm90Refused;
  return launch_product<bf16, AsTheyAre, Kind<kWideOfFirst, kMostN, 1, 1>, Kind<true, kMostN, 0, 1>>(w, most, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<int (*)(const GemmSm90&, void* stream)> gemm_sm90 = [] {
  ByDType<int (*)(const GemmSm90&, void* stream)> table;
  table[DType::f16] = product<f16>, table[DType::bf16] = product<bf16>;
  return table;
}();
int gemm_sm90_both(const GemmSm90& first, const GemmSm90& second, void* stream) {
  if (!first.b.across || !second.b.across || !first.a.across || second.a.across || !second.wide) return kGemmSm90Refused;
  return first.wide ? both<true>(first, second, stream) : both<false>(first, second, stream);
}

}  // namespace baracuda
