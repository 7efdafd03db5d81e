// Sums, moments and products: sizeof(T) bytes read per element; the floor is memory. Squares, moments and products of f32 and the
// halves are kept in f64: they neither leave the range nor need a second pass.
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/reduce/reduce_tree_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

constexpr ReduceTable make() {
  ReduceTable t;
  t.of[int(ReduceLoop::sum)] = t.of[int(ReduceLoop::magnitudes)] = reduce_kernels<Sum>();
  t.of[int(ReduceLoop::numbers)] = reduce_kernels<Numbers>();
  t.of[int(ReduceLoop::squares)] = reduce_kernels<Squares>();
  t.of[int(ReduceLoop::moments)] = reduce_kernels<Moments>();
  t.of[int(ReduceLoop::product)] = reduce_kernels<Product>();
  return t;
}

}  // namespace
extern constexpr ReduceTable reduce_sum_table = make();
}  // namespace baracuda
