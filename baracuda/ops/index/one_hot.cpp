// one_hot: reads the indices, writes every element of y once, and where rows of classes are long or not dense the ones again.
#include <algorithm>
#include <cstring>
#include "baracuda/host/row_walk.hpp"
#include "baracuda/ops/index/index_math.hpp"
#include "baracuda/ops/index/index_places.hpp"

namespace baracuda {
namespace {

using namespace index_detail;

constexpr size_t kShortRow = 1024;  // bytes: zeros and the one in one go

template <class T> void put_ones(const OneHotDescriptor& d, const TensorView& indices, const TensorView& y, T one, int threads) {
  const int axis = class_axis(d);
  const int64_t step = y.strides[axis], n = d.classes;
  TensorView first = y;  // the elements of class 0
  first.shape = d.shape, first.strides = {};
  for (int i = 0; i < y.shape.rank; ++i)
    if (i != axis) first.strides.push_back(y.strides[i]);
  const bool rows = step == 1 && size_t(n) * sizeof(T) <= kShortRow;
  if (!rows) fill_bits(y, {}, threads);
  const RowWalk<2> walk(d.shape, {&indices, &first});
  auto put = [&]<class I>(const I* from) {
    parallel_for(walk.rows, std::max<int64_t>(1, kPiece / (rows ? n : 1)), threads, [&](int64_t begin, int64_t end, int) {
      walk.runs(begin, end, [&](const int64_t (&at)[2], int64_t, int64_t count) {
        for (int64_t j = 0; j < count; ++j) {
          T* const to = y.as<T>() + at[1] + j * walk.pitch(1);
          const int64_t i = indexing::place_of(from[at[0] + j * walk.pitch(0)], n, d.negative, d.out_of_range == OutOfRange::clip);
          if (rows) std::fill_n(to, n, T{});
          if (i >= 0 && i < n) to[i * step] = one;
        }
      });
    });
  };
  d.index_dtype == DType::i64 ? put(indices.as<int64_t>()) : put(indices.as<int32_t>());
}
Status run_one_hot(const Launch<OneHot>& l) {
  const auto& d = l.desc;
  const TensorView &indices = l.args.indices, &y = l.args.y;
  if (d.out_of_range == OutOfRange::refuse)
    BARACUDA_TRY(check_indices(OneHot::name, "indices", indices, "y", class_axis(d), d.classes, d.negative, l.threads));
  if (y.numel() == 0) return {};
  const Bytes16 bits = bits_of(d.dtype, 1);
  with_element(d.dtype, [&]<class T>(T one) {
    std::memcpy(&one, &bits, sizeof one);
    put_ones(d, indices, y, one, l.threads);
  });
  return {};
}

}  // namespace

Shape OneHotDescriptor::y_shape() const {
  Shape s;
  for (int i = 0, at = class_axis(*this); i <= shape.rank; ++i) s.push_back(i == at ? classes : shape[i - (i > at)]);
  return s;
}
Status OneHot::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_base(name, d));
  if (d.index_dtype != DType::i32 && d.index_dtype != DType::i64) return invalid(name, text("index_dtype ", d.index_dtype, " must be i32 or i64"));
  if (!valid_enum(d.out_of_range)) return invalid(name, text("out_of_range ", int(d.out_of_range), " is not a rule"));
  if (d.classes < 0) return invalid(name, text("classes is ", d.classes, ", it must be >= 0"));
  BARACUDA_TRY(expect_axis(name, "axis", d.axis, d.shape.rank + 1));
  return expect_addressable(name, "shape of y", d.dtype, d.y_shape());
}
Status OneHot::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "indices", a.indices, d.index_dtype, d.shape));
  return expect(name, "y", a.y, d.dtype, d.y_shape());
}
std::span<const Kernel<OneHot>> OneHot::kernels() {
  static constexpr Kernel<OneHot> list[] = {{.name = "one_hot.cpu.rows", .launch = launch_all<OneHot>(Castable{}, run_one_hot), .guarantee = exact<OneHot>}};
  return list;
}

}  // namespace baracuda
