#pragma once
// What the CUDA rows of reduce and of its gradient share.
#include "baracuda/ops/reduce/reduce_cuda.hpp"
#include "baracuda/ops/reduce/reduce_detail.hpp"

namespace baracuda {

// x over `shape` and up to three tensors of the reduced shape, numbered as `walk` numbers its rows.
ReduceCuda reduce_cuda_problem(ReduceLoop loop, const Shape& shape, unsigned mask, const TensorView& x, const ReduceWalk& walk, const TensorView* const (&others)[3]);
// Queues the loop, and the join of chunks where they stand in p.parts.
int reduce_cuda_run(const ReduceCuda& p, void* stream);
ReducePart* reduce_cuda_carve(ReduceLoop loop, const Shape& shape, unsigned mask, Carver& c);

}  // namespace baracuda
