#pragma once
// What stands at the i-th place, in row-major order, of a tensor made from numbers: host and device.
#include <cmath>
#include "baracuda/math/element.hpp"
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/creation/creation.hpp"
#include "baracuda/ops/creation/creation_line.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace creation {

// Of numbers that are not negative; 32-bit division where it serves.
BARACUDA_HD int64_t quotient(int64_t a, int64_t b) { return (uint64_t(a) | uint64_t(b)) >> 32 ? a / b : int64_t(uint32_t(a) / uint32_t(b)); }

struct ArangeAt {
  double start, step;
  int64_t inner, extent;  // elements per index, indices along the axis
  explicit ArangeAt(const ArangeDescriptor& d) : start(d.start), step(d.step), inner(1) {
    const int axis = int(d.axis < 0 ? d.axis + d.shape.rank : d.axis);
    for (int i = axis + 1; i < d.shape.rank; ++i) inner *= d.shape[i];
    extent = d.shape.numel() == inner * d.shape[axis] ? 0 : d.shape[axis];  // 0: the index does not come round
  }
  template <class T> BARACUDA_HD T at(int64_t i) const {
    int64_t index = inner == 1 ? i : quotient(i, inner);
    if (extent) index -= quotient(index, extent) * extent;
    if constexpr (std::is_floating_point_v<T> || kIsHalf<T>) return from_double<T>(ramp(start, step, double(index)));
    else return T(int64_t(uint64_t(int64_t(start)) + uint64_t(int64_t(step)) * uint64_t(index)));
  }
};

struct LinspaceAt : CreationLine {
  double root_up, root_down, base;
  bool geometric, power;
  explicit LinspaceAt(const LinspaceDescriptor& d) : CreationLine{d.start, d.end, 0, 0, d.endpoint ? d.shape[0] - 1 : d.shape[0], true}, base(d.base.value_or(1)), geometric(d.geometric), power(d.base.has_value()) {
    // Halves first, so that the difference of two large numbers does not overflow.
    half = steps > 0 ? (end / 2 - start / 2) / double(steps) : 0, step = 2 * half, narrow = std::isfinite(step);
    // The ratio of neighbours to the power of 1 / 2, whose own root of order steps / 2 it is: start / end may be beyond f64, this is not.
    const double a = std::sqrt(std::fabs(start)), b = std::sqrt(std::fabs(end));
    root_up = b / a, root_down = a / b;
  }
  BARACUDA_HD double along(double from, double ratio, int64_t i) const {
    return i == 0 ? from : from * pow(Pack<double, 1>(ratio), Pack<double, 1>(2 * double(i) / double(steps))).v;
  }
  BARACUDA_HD double value(int64_t i) const {
    const bool first_half = i < turn(*this);
    if (geometric) return first_half ? along(start, root_up, i) : along(end, root_down, steps - i);
    const double v = first_half ? ahead(*this, double(i)) : behind(*this, double(steps - i));
    return power ? pow(Pack<double, 1>(base), Pack<double, 1>(v)).v : v;
  }
  template <class T> BARACUDA_HD T at(int64_t i) const { return cast_element<T>(value(i)); }
};

BARACUDA_HD bool is_one(EyeKind kind, int64_t off, int64_t diagonal) {  // off: column - row
  return kind == EyeKind::diagonal ? off == diagonal : kind == EyeKind::lower ? off <= diagonal : off >= diagonal;
}
// The columns of a row where it is.
struct Columns { int64_t from, to; };
BARACUDA_HD Columns ones_of(EyeKind kind, int64_t row, int64_t diagonal, int64_t columns) {
  int64_t at;
  if (__builtin_add_overflow(row, diagonal, &at) || at > columns) at = columns;
  const int64_t from = at < 0 ? 0 : at, to = at < 0 ? 0 : at < columns ? at + 1 : columns;
  return kind == EyeKind::diagonal ? Columns{from, to} : kind == EyeKind::lower ? Columns{0, to} : Columns{from, columns};
}
struct EyeAt {
  EyeKind kind;
  int64_t rows, columns, diagonal;
  uint64_t one;  // the bits of 1
  EyeAt(const EyeDescriptor& d, uint64_t one) : kind(d.kind), rows(d.shape[d.shape.rank - 2]), columns(d.shape[d.shape.rank - 1]), diagonal(d.diagonal), one(one) {}
  template <class T> BARACUDA_HD T at(int64_t i) const {  // T: unsigned, of the element's size
    const int64_t line = quotient(i, columns), column = i - line * columns, row = line - quotient(line, rows) * rows;
    return is_one(kind, column - row, diagonal) ? T(one) : T(0);
  }
};

BARACUDA_HD __int128 clamped(__int128 x, __int128 low, __int128 high) { return x < low ? low : x > high ? high : x; }
// Places in the rows before `row` where column - row <= diagonal.
BARACUDA_HD __int128 places_below(int64_t columns, int64_t row, __int128 diagonal) {
  const __int128 first = clamped(-diagonal, 0, row), full = clamped(columns - diagonal, first, row);  // rows that have one, that are full
  const __int128 partial = full - first;
  return partial * (first + full + 1 + 2 * diagonal) / 2 + (row - full) * columns;
}
struct TrianglePlace { int64_t row, column; };
struct Triangle {
  EyeKind kind;
  int64_t rows, columns, diagonal;
  explicit Triangle(const TriangleIndicesDescriptor& d) : kind(d.kind), rows(d.rows), columns(d.columns), diagonal(d.diagonal) {}
  BARACUDA_HD __int128 places_before(int64_t row) const {
    const __int128 k = diagonal;
    if (kind == EyeKind::lower) return places_below(columns, row, k);
    return kind == EyeKind::upper ? __int128(row) * columns - places_below(columns, row, k - 1) : places_below(columns, row, k) - places_below(columns, row, k - 1);
  }
  BARACUDA_HD int64_t row_of(int64_t place) const {  // the last row with places_before <= place
    int64_t row = 0, above = rows;
    while (above - row > 1) {
      const int64_t middle = row + (above - row) / 2;
      if (places_before(middle) <= place) row = middle;
      else above = middle;
    }
    return row;
  }
  BARACUDA_HD int64_t first_column(int64_t row) const {
    const __int128 c = __int128(row) + diagonal;
    return kind == EyeKind::lower || c < 0 ? 0 : int64_t(c);
  }
  BARACUDA_HD TrianglePlace place(int64_t i) const {
    const int64_t row = row_of(i);
    return {row, first_column(row) + int64_t(i - places_before(row))};
  }
};

}  // namespace creation
}  // namespace baracuda
