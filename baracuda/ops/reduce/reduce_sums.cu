// Sums, moments and products of floats; what all loops share.
#include "baracuda/ops/reduce/reduce_wide.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr ReduceCudaTable make() {
  ReduceCudaTable t;
  t.of[int(ReduceLoop::sum)] = t.of[int(ReduceLoop::magnitudes)] = sum_loops<Sum, ReduceLoop::sum>();
  t.of[int(ReduceLoop::numbers)] = kind_loops<Numbers, ReduceLoop::numbers>();
  t.of[int(ReduceLoop::squares)] = kind_loops<Squares, ReduceLoop::squares>();
  t.of[int(ReduceLoop::moments)] = kind_loops<Moments, ReduceLoop::moments>();
  t.of[int(ReduceLoop::product)] = kind_loops<Product, ReduceLoop::product>();
  return t;
}
constexpr ReduceCudaTable kTable = make();

struct Fill { ReduceCuda p; ReduceState s; };
__global__ void __launch_bounds__(256) fill_kernel(const __grid_constant__ Fill f) {
  for (int64_t o = int64_t(blockIdx.x) * 256 + threadIdx.x; o < f.p.rows; o += int64_t(gridDim.x) * 256) finish_row<kAnyLoop>(f.p, o, f.s);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const ReduceCudaTable reduce_cuda_sums = kTable;
// Those whose states are joined with a few instructions have short kernels of their own.
int reduce_cuda_join(const ReduceCuda& p, void* stream) {
  switch (p.floating ? p.loop : ReduceLoop::count) {
    case ReduceLoop::sum: return launch_join<OfLoop<ReduceLoop::sum>>(p, stream);
    case ReduceLoop::max: return launch_join<OfLoop<ReduceLoop::max>>(p, stream);
    case ReduceLoop::min: return launch_join<OfLoop<ReduceLoop::min>>(p, stream);
    case ReduceLoop::moments: return launch_join<OfLoop<ReduceLoop::moments>>(p, stream);
    case ReduceLoop::squares: return launch_join<OfLoop<ReduceLoop::squares>>(p, stream);
    case ReduceLoop::exps: return launch_join<OfLoop<ReduceLoop::exps>>(p, stream);
    default: return launch_join<OfLoop<kAnyLoop>>(p, stream);
  }
}
int reduce_cuda_fill(const ReduceCuda& p, const ReduceState& s, void* stream) {
  return device::launch(fill_kernel, device::blocks_for(p.rows, 256), dim3(256), 0, stream, Fill{p, s});
}

}  // namespace baracuda
