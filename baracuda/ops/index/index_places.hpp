#pragma once
// From a descriptor of the family to the walk that serves it, and the checks that its ops share.
#include <cmath>
#include "baracuda/ops/index/index_walk.hpp"
#include "baracuda/ops/shape/shape_detail.hpp"

namespace baracuda::index_detail {

using namespace shape_detail;

// Descriptors along one axis, with an index per element; the others index slices along `axes`.
template <class D> inline constexpr bool kAlongAxis = requires(D d) { d.axis; };

// What is walked: the shape of what is read by gather and written by scatter, and where its axes stand in x.
struct IndexPlaces {
  Shape walk;
  int of[kMaxRank] = {};    // the axis of x that an axis of the walk is, -1: one of the indices
  int keys = 0;
  int key_axis[kMaxRank] = {};
  int first = 0, rank = 0;  // the axes of the walk that the indices have
};
template <class D> IndexPlaces places_of(const D& d) {
  IndexPlaces p;
  if constexpr (kAlongAxis<D>) {
    p.walk = d.indices, p.keys = 1, p.key_axis[0] = std::max(0, axis_at(d.axis, d.shape.rank)), p.rank = d.indices.rank;
    for (int i = 0; i < p.walk.rank; ++i) p.of[i] = i == p.key_axis[0] ? -1 : i;
  } else {
    bool indexed[kMaxRank] = {}, neighbours = true;
    for (int k = 0; k < d.axes.rank; ++k) {
      indexed[p.key_axis[p.keys++] = axis_at(d.axes[k], d.shape.rank)] = true;
      neighbours = neighbours && (k == 0 || p.key_axis[k] == p.key_axis[k - 1] + 1);
    }
    p.rank = d.indices.rank;
    auto put_indices = [&] {
      p.first = p.walk.rank;
      for (int i = 0; i < d.indices.rank; ++i) {
        if (p.walk.rank < kMaxRank) p.of[p.walk.rank] = -1;
        p.walk.push_back(d.indices[i]);
      }
    };
    if (!neighbours) put_indices();
    for (int i = 0; i < d.shape.rank; ++i) {
      if (neighbours && i == p.key_axis[0]) put_indices();
      if (indexed[i]) continue;
      if (p.walk.rank < kMaxRank) p.of[p.walk.rank] = i;
      p.walk.push_back(d.shape[i]);
    }
  }
  return p;
}
// A tensor of rank 0 is indexed along an axis of extent 1.
template <class D> int64_t key_extent(const D& d, const IndexPlaces& p, int k) { return d.shape.rank ? d.shape[p.key_axis[k]] : 1; }
// The tensor's strides over the walk; zero where it lacks an axis.
inline Strides key_strides(const IndexPlaces& p, const TensorView& indices) {
  Strides s;
  for (int i = 0; i < p.walk.rank; ++i) {
    const int own = i - p.first - (p.rank - indices.shape.rank);
    s.push_back(i < p.first + p.rank && own >= 0 && own < indices.shape.rank && indices.shape[own] > 1 ? indices.strides[own] : 0);
  }
  return s;
}
template <class D> IndexWalk walk_of_indices(const D& d, const IndexPlaces& p, IndexLists indices) {
  IndexWalk w(p.walk, d.index_dtype, d.out_of_range, d.negative);
  for (int i = 0; i < p.walk.rank; ++i)
    if (p.of[i] < 0) w.take_axis(i);
  for (int k = 0; k < p.keys; ++k) w.add_key(indices[size_t(k)].data, key_strides(p, indices[size_t(k)]), key_extent(d, p, k));
  return w;
}
// A tensor of x's shape, as target.
inline void add_target(IndexWalk& w, const IndexPlaces& p, const Strides& of_x) {
  Strides s, key;
  for (int i = 0; i < p.walk.rank; ++i) s.push_back(p.of[i] < 0 ? 0 : of_x[p.of[i]]);
  for (int k = 0; k < p.keys; ++k) key.push_back(of_x[p.key_axis[k]]);
  w.add_target(s, key);
}
template <class A> IndexLists lists(const A& indices) {
  if constexpr (std::is_same_v<A, TensorView>) return {&indices, 1};
  else return indices;
}
template <class D> Status look_at_indices(std::string_view op, const D& d, const IndexPlaces& p, IndexLists indices, int threads) {
  if (d.out_of_range != OutOfRange::refuse) return {};
  for (int k = 0; k < p.keys; ++k)
    BARACUDA_TRY(check_indices(op, kAlongAxis<D> ? std::string("indices") : text("indices[", k, "]"), indices[size_t(k)], "x", p.key_axis[k],
                               key_extent(d, p, k), d.negative, threads));
  return {};
}

// What stands for an element that no index names.
Bytes16 missing(DType t);
inline int class_axis(const OneHotDescriptor& d) { return axis_at(d.axis, d.shape.rank + 1); }

// f(j, target) for the elements whose indices are some; target(t) is the offset in target t.
template <class F> void each_inside(const IndexBlock& b, F f) {
  if (!b.at[0]) {
    if (!b.outside)
      for (int64_t j = 0; j < b.count; ++j) f(j, [&](int t) { return b.target[t] + j * b.target_step[t]; });
  } else if (b.which)
    for (int64_t k = 0; k < b.count; ++k) {
      const int64_t j = b.which[k];
      if (b.at[0][k] != kOutside) f(j, [&](int t) { return b.target[t] + j * b.target_step[t] + b.at[t][k]; });
    }
  else
    for (int64_t j = 0; j < b.count; ++j)
      if (b.at[0][j] != kOutside) f(j, [&](int t) { return b.target[t] + j * b.target_step[t] + b.at[t][j]; });
}
// Fetches what will be read at `next`, the first lines of a row of b.count elements.
template <class T> void fetch_next(const IndexBlock& b, const T* data) {
  if (b.next == kOutside) return;
  const char* row = reinterpret_cast<const char*>(data + b.next);
  for (int64_t i = 0, bytes = std::min<int64_t>(b.count * int64_t(sizeof(T)), 512); i < bytes; i += 64) __builtin_prefetch(row + i);
}
// f(j) for the others.
template <class F> void each_outside(const IndexBlock& b, F f) {
  for (int64_t j = 0; j < b.count; ++j)
    if (b.at[0] ? b.at[0][j] == kOutside : b.outside) f(j);
}

// --- validate and check
template <class D> Status validate_indices(std::string_view op, const D& d) {
  BARACUDA_TRY(validate_base(op, d, kAlongAxis<D> ? 0 : 1));
  BARACUDA_TRY(expect_shape(op, "indices", d.indices));
  if (d.index_dtype != DType::i32 && d.index_dtype != DType::i64) return invalid(op, text("index_dtype ", d.index_dtype, " must be i32 or i64"));
  if (!valid_enum(d.out_of_range)) return invalid(op, text("out_of_range ", int(d.out_of_range), " is not a rule"));
  if constexpr (kAlongAxis<D>) {
    BARACUDA_TRY(expect_axis(op, "axis", d.axis, std::max(1, d.shape.rank)));
    if (d.indices.rank != d.shape.rank) return invalid(op, text("indices ", d.indices, " has rank ", d.indices.rank, ", shape ", d.shape, " has ", d.shape.rank));
    for (int i = 0; i < d.shape.rank; ++i)
      if (i != axis_at(d.axis, d.shape.rank) && d.indices[i] > d.shape[i])
        return invalid(op, text("indices ", d.indices, " has more than the ", d.shape[i], " places of shape ", d.shape, " along axis ", i));
  } else {
    if (!d.axes.rank_ok() || d.axes.rank < 1 || d.axes.rank > d.shape.rank)
      return invalid(op, text("axes ", d.axes, " has ", d.axes.rank, " numbers, shape ", d.shape, " takes 1 to ", d.shape.rank));
    for (int k = 0; k < d.axes.rank; ++k) {
      BARACUDA_TRY(expect_axis(op, text("axes[", k, "]"), d.axes[k], d.shape.rank));
      if (k > 0 && axis_at(d.axes[k], d.shape.rank) <= axis_at(d.axes[k - 1], d.shape.rank)) return invalid(op, text("axes ", d.axes, " do not ascend"));
    }
  }
  return expect_addressable(op, kAlongAxis<D> ? "indices" : "the shape of the slices", d.dtype, places_of(d).walk);
}
template <class D> Status validate_scatter(std::string_view op, const D& d) {
  BARACUDA_TRY(validate_indices(op, d));
  if (!valid_enum(d.reduce)) return invalid(op, text("reduce ", int(d.reduce), " is not a ScatterKind"));
  if (!std::isfinite(d.alpha)) return invalid(op, text("alpha ", d.alpha, " is not finite"));
  if (!is_floating(d.dtype) && (std::trunc(d.alpha) != d.alpha || std::fabs(d.alpha) >= 0x1p63))
    return invalid(op, text("alpha ", d.alpha, " must be an integer of 64 bits for ", d.dtype));
  return {};
}
template <class D> std::string refuse_reduce(const D& d) {
  const bool no_mean = d.reduce == ScatterKind::mean && d.dtype == DType::boolean;
  if (d.reduce == ScatterKind::replace || (dtypes(Castable{}).has(d.dtype) && !no_mean)) return {};
  return text("no ", enum_name(d.reduce), " of ", d.dtype);
}
template <class D, class A> Status check_lists(std::string_view op, const D& d, const A& indices, Device device) {
  if constexpr (kAlongAxis<D>) {
    return expect(op, "indices", indices, d.index_dtype, d.indices);
  } else {
    if (int64_t(indices.size()) != d.axes.rank)
      return unexpected(op, "indices", d.index_dtype, d.indices, text("has ", indices.size(), " tensors for ", d.axes.rank, " axes"));
    for (size_t k = 0; k < indices.size(); ++k) {
      const TensorView& v = indices[k];
      const std::string who = text("indices[", k, "]");
      BARACUDA_TRY(check_argument(op, who, v, Role::in, device));
      if (v.dtype != d.index_dtype) return unexpected(op, who, d.index_dtype, d.indices, text("has dtype ", v.dtype, ", expected ", d.index_dtype));
      bool fits = v.shape.rank <= d.indices.rank;
      for (int i = 0; fits && i < v.shape.rank; ++i) {
        const int64_t n = d.indices[d.indices.rank - v.shape.rank + i];
        fits = v.shape[i] == n || v.shape[i] == 1;
      }
      if (!fits) return unexpected(op, who, d.index_dtype, d.indices, text("has shape ", v.shape, ", which does not broadcast to ", d.indices));
    }
    return {};
  }
}

}  // namespace baracuda::index_detail
