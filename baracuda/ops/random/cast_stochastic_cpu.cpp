// y = x rounded by words that are there. sizeof(From) + sizeof(To) + 4 bytes an element, the words from L1.
#include "baracuda/ops/random/cast_stochastic_cpu.hpp"
#include "baracuda/ops/random/cast_stochastic_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class From, class To> void cast(const void* in, const uint32_t* words, void* out, int64_t n, bool saturate) {
  const From* x = static_cast<const From*>(in);
  To* y = static_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = stochastic::rounded<To>(x[i], words[i], saturate);
}
template <class... From> constexpr CastStochasticKernels table(TypeList<From...>) {
  CastStochasticKernels t{};
  ((t.cast[kDTypeOf<From>] = by_dtype<void (*)(const void*, const uint32_t*, void*, int64_t, bool)>(StochasticTo{}, []<class To>() { return &cast<From, To>; })), ...);
  return t;
}

}  // namespace
extern constexpr CastStochasticKernels cast_stochastic_kernels = table(Floating{});
}  // namespace BARACUDA_ISA
}  // namespace baracuda
