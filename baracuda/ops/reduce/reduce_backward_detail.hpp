#pragma once
// What the rows of every device ask a descriptor of reduce_backward.
#include "baracuda/ops/reduce/reduce_detail.hpp"

namespace baracuda {

inline bool one_of_ties(const ReduceDescriptor& d) {
  return (d.kind == ReduceKind::max || d.kind == ReduceKind::min) && d.ties != ReduceTies::split;
}
inline ReduceLoop loop_for(const ReduceDescriptor& d) {  // over x, before the map
  if (one_of_ties(d)) return d.kind == ReduceKind::max ? ReduceLoop::argmax : ReduceLoop::argmin;
  const ReduceKind k = plain_kind(d);
  return has_mean(k) ? ReduceLoop::moments : k == ReduceKind::norm_inf || k == ReduceKind::norm_neg_inf ? ReduceLoop::equal_magnitude : ReduceLoop::equal;
}
inline bool is_extremum(ReduceKind k) {
  return k == ReduceKind::max || k == ReduceKind::min || k == ReduceKind::norm_inf || k == ReduceKind::norm_neg_inf;
}
inline bool may_loop(ReduceKind k) { return is_extremum(k) || k == ReduceKind::logsumexp || k == ReduceKind::nanmean || has_mean(k); }
inline ReduceMapKind map_of(const ReduceDescriptor& d) {
  switch (plain_kind(d)) {
    case ReduceKind::max: case ReduceKind::min: return one_of_ties(d) ? ReduceMapKind::spread : ReduceMapKind::equal;
    case ReduceKind::norm_inf: case ReduceKind::norm_neg_inf: return ReduceMapKind::equal_magnitude;
    case ReduceKind::norm1: return ReduceMapKind::sign;
    case ReduceKind::norm2: return ReduceMapKind::ratio;
    case ReduceKind::norm_p: return ReduceMapKind::power;
    case ReduceKind::logsumexp: return ReduceMapKind::softmax;
    case ReduceKind::var: case ReduceKind::std: return ReduceMapKind::distance;
    case ReduceKind::nansum: case ReduceKind::nanmean: return ReduceMapKind::numbers;
    default: return ReduceMapKind::spread;
  }
}
inline bool reads_x(ReduceMapKind k) { return k != ReduceMapKind::spread; }

}  // namespace baracuda
