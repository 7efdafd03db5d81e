// The loops of the ternary kinds, for one instruction set.
#include "baracuda/ops/elementwise/elementwise_table.hpp"
#include "baracuda/ops/elementwise/ternary_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

struct Wide { uint64_t a, b; };
template <class T> void map_where(const double*, const void* const* in, void* const* out, int64_t n) {
  const bool* a = static_cast<const bool*>(in[0]);
  const T *b = static_cast<const T*>(in[1]), *c = static_cast<const T*>(in[2]);
  T* const y = static_cast<T*>(out[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T u = b[i], v = c[i];
    y[i] = a[i] ? u : v;
  }
}
template <class T> void map_where_backward(const double*, const void* const* in, void* const* out, int64_t n) {
  const T* dy = static_cast<const T*>(in[0]);
  const bool* a = static_cast<const bool*>(in[1]);
  T *const db = static_cast<T*>(out[1]), *const dc = static_cast<T*>(out[2]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T g = dy[i];
    db[i] = a[i] ? g : T{}, dc[i] = a[i] ? T{} : g;
  }
}
template <class Single, class Double> constexpr ElementwiseEntry where_entry() {
  using Op = elementwise::Ternary<TernaryKind::where>;
  ElementwiseEntry e{{}, {&map_where_backward<Single>, &map_where_backward<Double>}, {Op::reads, Op::reads_b, Op::reads_c}, 0, Op::rule, {1, 1, 1}, false};
  for (int t = 0; t < int(kDTypes); ++t) {
    const size_t bytes = byte_size(DType(t));
    e.forward[DType(t)] = bytes == 1 ? &map_where<uint8_t> : bytes == 2 ? &map_where<uint16_t> : bytes == 4 ? &map_where<uint32_t> : bytes == 8 ? &map_where<uint64_t>
                        : bytes == 16 ? &map_where<Wide> : nullptr;
  }
  return e;
}
template <TernaryKind K> constexpr ElementwiseEntry kind_entry() {
  if constexpr (K == TernaryKind::where) return where_entry<float, double>();
  else return entry<elementwise::Ternary<K>>();
}
#define BARACUDA_ENTRY(k) kind_entry<TernaryKind::k>(),
constexpr ElementwiseEntry entries[] = {BARACUDA_TERNARY_KINDS(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY
}  // namespace
extern constexpr ElementwiseTable<kTernaryKinds> ternary_kernels = table(entries);
extern constexpr ElementwiseEntry where_complex = where_entry<uint64_t, Wide>();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
