#include "baracuda/ops/embedding/embedding_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/embedding/embedding.hpp"

namespace baracuda {
namespace {
using device::Operand;

// Rows of a tensor that may be taken 16 bytes at a time: the memory, every step between rows and the row itself.
bool by_16_bytes(const TensorView& v) {
  const int64_t size = int64_t(byte_size(v.dtype)), last = v.shape.rank - 1;
  bool whole = uintptr_t(v.data) % 16 == 0 && v.shape[int(last)] * size % 16 == 0;
  for (int a = 0; a < last; ++a) whole = whole && (v.shape[a] == 1 || v.strides[a] * size % 16 == 0);
  return whole;
}
TensorView rows_of(TensorView v) {  // first elements of the rows
  --v.shape.rank, --v.strides.rank;
  return v;
}
device::Walk<2> walk(const Shape& indices, const TensorView& i, const TensorView& rows) {
  const Operand operands[] = {Operand::of(i), Operand::of(rows_of(rows))};
  return device::walk<2>(indices, operands, -1, 1);
}
Status run_forward(const Launch<Embedding>& l) {
  const EmbeddingDescriptor& d = l.desc;
  const Embedding::Args& a = l.args;
  if (a.y.numel() == 0) return {};
  const EmbeddingCuda p{walk(d.indices, a.indices, a.y), a.indices.data, a.weight.data, a.y.data, a.weight.strides[0], d.vocabulary, d.width,
                        d.index_dtype == DType::i64, by_16_bytes(a.weight) && by_16_bytes(a.y)};
  return device::queue(l.stream, "embedding.cuda.copy", [&] { return embedding_cuda_kernels.forward[d.dtype](p, l.stream.handle); });
}

struct Scratch { device::SortedRows s; void* sums; };
Scratch carve(const EmbeddingBackwardDescriptor& d, Carver& c) {
  const int64_t n = d.indices.numel();
  const device::SortedRows s = device::carve_sorted(c, n, d.vocabulary);
  return {s, c.take_bytes("sums of groups", Shape{n > 64 ? (n + 63) / 64 * 2 : 0, d.width}.numel(), byte_size(accumulator(d.dtype)))};
}
Status run_backward(const Launch<EmbeddingBackward>& l) {
  const EmbeddingBackwardDescriptor& d = l.desc;
  const EmbeddingBackward::Args& a = l.args;
  if (d.vocabulary == 0 || d.width == 0) return {};
  Carver c = l.carver();
  const Scratch scratch = carve(d, c);
  const EmbeddingBackwardCuda p{walk(d.indices, a.indices, a.dy), a.indices.data, a.dy.data, a.dweight.data, a.dweight.strides[0], d.vocabulary, d.width,
                                d.padding_idx.value_or(-1), d.index_dtype == DType::i64, d.accumulate,
                                by_16_bytes(a.dy) && by_16_bytes(a.dweight), scratch.s, scratch.sums};
  const auto& sums = a.dweight.dtype == d.dtype ? embedding_cuda_kernels.same : embedding_cuda_kernels.f32;
  return device::queue(l.stream, "embedding_backward.cuda.sorted", [&] {
    const int e = embedding_cuda_kernels.sort(p, l.stream.handle);
    return e ? e : sums[d.dtype](p, l.stream.handle);
  });
}

}  // namespace

template <> std::span<const Kernel<Embedding>> cuda_kernels<Embedding>() {
  static constexpr Kernel<Embedding> list[] = {
      {.name = "embedding.cuda.copy", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Embedding>(Floating{}, run_forward),
       .guarantee = [](const EmbeddingDescriptor& d) {
         return PrecisionGuarantee{.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true, .same_on_cpu_and_cuda = true};
       }}};
  return list;
}
template <> std::span<const Kernel<EmbeddingBackward>> cuda_kernels<EmbeddingBackward>() {
  static constexpr Kernel<EmbeddingBackward> list[] = {
      {.name = "embedding_backward.cuda.sorted", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<EmbeddingBackward>(Floating{}, run_backward),
       .guarantee = [](const EmbeddingBackwardDescriptor& d) {
         return PrecisionGuarantee{.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .same_on_cpu_and_cuda = true};
       },
       .refuse = [](const EmbeddingBackwardDescriptor& d, const PlanPreference&) {
         constexpr int64_t most = device::kMostSorted;
         return d.vocabulary > most || d.indices.numel() > most ? text("sorts 32-bit numbers: at most ", most, " rows and indices") : std::string();
       },
       .carve = [](const EmbeddingBackwardDescriptor& d, const void*, Carver& c) { (void)carve(d, c); }}};
  return list;
}

}  // namespace baracuda
