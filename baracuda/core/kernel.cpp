#include "baracuda/core/kernel.hpp"

namespace baracuda {

Status invalid(std::string_view op, std::string message) { return {Code::invalid_problem, text(op, ": ", message)}; }

namespace {
thread_local Expectation* listener = nullptr;
}
Expectation::Expectation() : outer_(std::exchange(listener, this)) {}
Expectation::~Expectation() { listener = outer_; }

Status unexpected(std::string_view op, std::string_view arg, DType dtype, const std::optional<Shape>& shape, std::string_view what) {
  if (listener) listener->arg = arg, listener->dtype = dtype, listener->shape = shape;
  return invalid(op, text(arg, " ", what));
}
Status expect(std::string_view op, std::string_view arg, const TensorView& v, DType dtype, const Shape& shape) {
  if (v.dtype != dtype) return unexpected(op, arg, dtype, shape, text("has dtype ", v.dtype, ", expected ", dtype));
  if (!(v.shape == shape)) return unexpected(op, arg, dtype, shape, text("has shape ", v.shape, ", expected ", shape));
  return {};
}
Status expect_elements(std::string_view op, std::string_view arg, const TensorView& v, DType dtype, const Shape& shape) {
  if (v.dtype != dtype) return unexpected(op, arg, dtype, shape, text("has dtype ", v.dtype, ", expected ", dtype));
  if (const int64_t n = shape.numel(); v.numel() != n)
    return unexpected(op, arg, dtype, shape, text("has shape ", v.shape, ", expected ", n, n == 1 ? " element" : " elements"));
  return {};
}

Status expect_shape(std::string_view op, std::string_view field, const Shape& shape, int min_rank) {
  if (!shape.rank_ok()) return invalid(op, text(field, " has rank ", shape.rank, ", at most ", kMaxRank, " is allowed"));
  if (!shape.valid()) return invalid(op, text(field, " ", shape, " has a negative extent or more than 2^63 - 1 elements"));
  if (shape.rank < min_rank) return invalid(op, text(field, " ", shape, " has rank ", shape.rank, ", at least ", min_rank, " is needed"));
  return {};
}

Status check_argument(std::string_view op, std::string_view arg, const TensorView& v, Role role, Device device) {
  if (v.absent()) {
    if (optional(role)) return {};
    return invalid(op, text(arg, " is missing"));
  }
  if (!valid(v.dtype)) return invalid(op, text(arg, " has an invalid dtype"));
  if (v.device != device) return invalid(op, text(arg, " is on ", to_string(v.device), ", the plan runs on ", to_string(device)));
  const int64_t n = v.shape.numel();
  if (n < 0) return invalid(op, text(arg, " has shape ", v.shape, ", which is not a shape"));
  if (v.strides.rank != v.shape.rank) return invalid(op, text(arg, " has ", v.strides.rank, " strides for rank ", v.shape.rank));
  if (n == 0) return {};
  if (!v.data) return invalid(op, text(arg, " has shape ", v.shape, " and no memory"));
  if (const size_t size = byte_size(v.dtype); size > 1 && uintptr_t(v.data) % (size > 8 ? 8 : size))
    return {Code::misaligned_operand, text(op, ": ", arg, " is not aligned to the ", size, " bytes of ", v.dtype)};
  if (written(role))
    for (int i = 0; i < v.shape.rank; ++i)
      if (v.shape[i] > 1 && v.strides[i] == 0)
        return invalid(op, text(arg, " is written, but its stride along axis ", i, " (extent ", v.shape[i], ") is 0"));
  return {};
}

Status wrong_stream(std::string_view op, Device plan, Device stream) {
  return invalid(op, text("the plan is for ", to_string(plan), ", the stream is on ", to_string(stream)));
}
Status check_workspace(std::string_view op, std::string_view kernel, Workspace w, uint64_t needed) {
  if (needed == 0) return {};
  if (w.bytes < needed || !w.data) {
    const uint64_t got = w.data ? w.bytes : 0;
    return {Code::workspace_too_small, text(op, ": ", kernel, " needs a workspace of ", needed, " bytes, got ", got), needed, got};
  }
  if (uintptr_t(w.data) % kWorkspaceAlignment)
    return {Code::misaligned_operand, text(op, ": the workspace is not aligned to ", kWorkspaceAlignment, " bytes")};
  return {};
}

bool as_rows(const TensorView& v, int64_t& pitch) {
  const int r = v.shape.rank;
  if (r == 0) { pitch = 1; return true; }
  if (v.shape[r - 1] > 1 && v.strides[r - 1] != 1) return false;
  // Outer axes of extent 1 say nothing; the others must step like one index over rows.
  pitch = v.shape[r - 1];
  int64_t step = 0, inner = 1;
  for (int i = r - 2; i >= 0; --i) {
    if (v.shape[i] == 1) continue;
    if (step == 0) step = v.strides[i];
    else if (v.strides[i] != step * inner) return false;
    inner *= v.shape[i];
  }
  if (inner > 1) pitch = step;
  return true;
}

}  // namespace baracuda
