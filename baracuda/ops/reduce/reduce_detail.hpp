#pragma once
// How a reduction is cut into chunks and walked, whatever the strides; shared by the ops of the family.
#include <type_traits>
#include "baracuda/core/kernel.hpp"
#include "baracuda/host/strided.hpp"
#include "baracuda/ops/reduce/reduce.hpp"
#include "baracuda/ops/reduce/reduce_cpu.hpp"

namespace baracuda {

inline constexpr auto kReduceDTypes = TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>{};

// The reduced axes as a bit mask; refuses an axis out of range or named twice. An empty list is every axis.
Status reduce_axes(std::string_view op, const Shape& shape, const Dims& axes, unsigned& mask);
Shape reduced_shape(const Shape& shape, unsigned mask, bool keepdim);
// Elements of a row and rows.
int64_t row_length(const Shape& shape, unsigned mask);
int64_t row_count(const Shape& shape, unsigned mask);
// What a tensor of the reduced shape steps along every axis of `shape`: 0 along the reduced ones. An absent one does not move.
Strides over_shape(const Shape& shape, unsigned mask, const TensorView& v);

const ReduceKernel& reduce_kernel_of(ReduceLoop loop, DType t);
int64_t reduce_tile(const ReduceKernel& k, int64_t outputs);
struct ReduceScratch {
  ReduceState* partial;
  char* lanes;
  // What the chunks of `shape` need; the same pieces at select and run time.
  static ReduceScratch carve(ReduceLoop loop, DType t, const Shape& shape, unsigned mask, Carver& c);
};

// The rows of a view, in the order that suits its strides: rows are numbered by it, not by row-major order.
struct ReduceWalk {
  enum class Mode { rows, columns, narrow, gather } mode;
  Strided<1> row;    // along the reduced axes
  Strided<4> kept;   // x and up to three tensors of the reduced shape
  int64_t n, outputs;
  bool dense;        // a row has stride 1
  int order[kMaxRank], kept_rank = 0;  // of the kept axes

  ReduceWalk(const Shape& shape, unsigned mask, const Strides& x, const Strides* const (&others)[3]);
  void at(int64_t output, int64_t (&offset)[4]) const {
    kept.offsets(output / kept.inner, offset);
    for (int k = 0; k < 4; ++k) offset[k] += output % kept.inner * kept.inner_stride(k);
  }
};

using ReduceDone = void (*)(void* self, int64_t first, int64_t count, ReduceState* states);
struct ReduceRun {
  const ReduceWalk& walk;
  ReduceLoop loop;
  TensorView x;
  const double* shift = nullptr;  // by row number
  ReduceScratch scratch;
  int threads;
  double power = 2;
};
// left = left and right joined, states of n_left and n_right elements.
void join_states(const ReduceRun& run, ReduceState& left, int64_t n_left, const ReduceState& right, int64_t n_right);
void reduce_chunks(const ReduceRun& run, ReduceDone done, void* self);
// done(first row, count, states) for every row once, on any thread. n > 0.
template <class F> void reduce_run(const ReduceRun& run, F&& done) {
  using G = std::remove_reference_t<F>;
  reduce_chunks(run, [](void* self, int64_t first, int64_t count, ReduceState* s) { (*static_cast<G*>(self))(first, count, s); }, &done);
}
// The elements [begin, begin + m) of a row at x, moved together.
void gather_row(const Strided<1>& row, const char* x, int64_t size, int64_t begin, int m, void* out);

// --- what the forward and the backward of reduce share
ReduceKind plain_kind(const ReduceDescriptor& d);  // norm_p of 0, 1, 2 and the infinities is the kind of that name
ReduceLoop loop_of(ReduceKind kind);
bool has_mean(ReduceKind kind);
unsigned mask_of(const ReduceDescriptor& d);
PrecisionGuarantee reduce_guarantee(const ReduceDescriptor& d);
// What an empty row leaves.
ReduceState empty_state(ReduceLoop loop, DType t);
unsigned mask_of(const ArgReduceDescriptor& d);
ReduceLoop loop_of(const ArgReduceDescriptor& d);
ReduceDescriptor one_of(const AminmaxDescriptor& d);  // the largest
Status validate_reduce(std::string_view op, const ReduceDescriptor& d);

}  // namespace baracuda
