#include "baracuda/core/bitcast.hpp"
#include "baracuda/core/text.hpp"

namespace baracuda {
namespace {

Status no_bitcast(const TensorView& v, DType to, std::string_view why) {
  return {Code::invalid_problem, text("bitcast: ", name(v.dtype), " ", v.shape, " is no tensor of ", name(to), ": ", why)};
}
// Elements of v's dtype per element of `to`, or the other way round, in `ratio`; all strides but the last in elements of `to`.
Status begin_bitcast(TensorView& v, DType to, int64_t& ratio, int axes) {
  if (!valid(v.dtype) || !valid(to)) return {Code::invalid_problem, "bitcast: invalid dtype"};
  if (v.numel() < 0 || v.strides.rank != v.shape.rank) return {Code::invalid_problem, text("bitcast: ", v.shape, " is not a shape with as many strides")};
  const int64_t from = int64_t(byte_size(v.dtype)), size = int64_t(byte_size(to));
  if (from == 0 || size == 0) return {Code::unsupported, text("bitcast: ", from ? to : v.dtype, " is packed")};
  if (to == DType::boolean && v.dtype != to) return no_bitcast(v, to, "its bytes need not be 0 or 1");
  ratio = from > size ? from / size : size / from;
  if (size > from && uintptr_t(v.data) % uintptr_t(size > 8 ? 8 : size)) return no_bitcast(v, to, text("it is not aligned to ", size > 8 ? 8 : size, " bytes"));
  for (int i = 0; i < axes; ++i) {
    int64_t& stride = v.strides[i];
    if (size > from && v.shape[i] > 1 && stride % ratio) return no_bitcast(v, to, text("stride ", stride, " of axis ", i, " is no multiple of ", ratio));
    if (size > from) stride /= ratio;
    else if (__builtin_mul_overflow(stride, ratio, &stride)) return no_bitcast(v, to, text("the stride of axis ", i, " overflows"));
  }
  return {};
}

}  // namespace

Result<TensorView> bitcast(const TensorView& x, DType to) {
  TensorView v = x;
  int64_t ratio = 1;
  const int last = v.shape.rank - 1;
  BARACUDA_TRY(begin_bitcast(v, to, ratio, last));
  v.dtype = to;
  if (ratio == 1) return v;
  if (last < 0) return no_bitcast(x, to, "there is no axis to change");
  if (v.shape[last] > 1 && v.strides[last] != 1) return no_bitcast(x, to, text("its last axis has stride ", v.strides[last]));
  if (byte_size(to) > byte_size(x.dtype)) {
    if (v.shape[last] % ratio) return no_bitcast(x, to, text("its last axis is no multiple of ", ratio));
    v.shape[last] /= ratio;
  } else if (__builtin_mul_overflow(v.shape[last], ratio, &v.shape[last]) || !v.shape.valid()) return no_bitcast(x, to, "its extent overflows");
  v.strides[last] = 1;
  return v;
}
Result<TensorView> bitcast_axis(const TensorView& x, DType to) {
  TensorView v = x;
  int64_t ratio = 1;
  const bool wider = valid(to) && valid(x.dtype) && byte_size(to) > byte_size(x.dtype);
  const int last = v.shape.rank - 1;
  BARACUDA_TRY(begin_bitcast(v, to, ratio, wider ? last : v.shape.rank));
  v.dtype = to;
  if (ratio == 1) return v;
  if (wider) {
    if (last < 0 || v.shape[last] != ratio || v.strides[last] != 1) return no_bitcast(x, to, text("a last axis of extent ", ratio, " and stride 1 is needed"));
    v.shape[last] = v.strides[last] = 0, --v.shape.rank, --v.strides.rank;
    return v;
  }
  if (v.shape.rank == kMaxRank) return no_bitcast(x, to, text("it would have more than ", kMaxRank, " axes"));
  v.shape.push_back(ratio), v.strides.push_back(1);
  if (!v.shape.valid()) return no_bitcast(x, to, "its number of elements overflows");
  return v;
}

}  // namespace baracuda
