#pragma once
// Rows of queries and their scores, from the call: host and device.
#include "baracuda/math/element.hpp"
#include "baracuda/ops/attention/attention_call.hpp"
#include "baracuda/ops/attention/attention_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

BARACUDA_HD int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
BARACUDA_HD int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// What one query needs to know about its scores.
template <class S> struct Row {
  int64_t lo, hi, position;
  S slope;           // of ALiBi
  const char* bias;  // of key 0
};
template <class T> BARACUDA_HD void make_row(Row<Acc<T>>& r, const SdpaCall& p, const SdpaSequence& s, const Mask& mask, int64_t head, int64_t i) {
  const KeyRange range = mask.of(i);
  r.lo = range.lo, r.hi = range.hi, r.position = i + mask.shift;
  r.slope = p.slopes ? Acc<T>(p.slopes[s.b * p.slopes_batch + head * p.slopes_head]) : 0;
  r.bias = nullptr;
  if (p.bias)
    r.bias = static_cast<const char*>(p.bias) +
             (s.b * p.bias_stride[0] + head * p.bias_stride[1] + i * p.bias_stride[2]) * int64_t(p.bias_f32 ? sizeof(float) : sizeof(T));
}
template <class T> BARACUDA_HD Acc<T> bias_at(const SdpaCall& p, const char* bias, int64_t key) {
  const int64_t at = key * p.bias_stride[3];
  if (p.bias_f32) return Acc<T>(reinterpret_cast<const float*>(bias)[at]);
  return load<1>(reinterpret_cast<const T*>(bias) + at).v;
}
template <class T> BARACUDA_HD bool hidden(const SdpaCall& p, const Row<Acc<T>>& r, int64_t key) {
  return key < r.lo || key >= r.hi || (r.bias && bias_at<T>(p, r.bias, key) == Acc<T>(-kInf));
}
BARACUDA_HD Mask mask_of(const SdpaCall& p, const SdpaSequence& s) {
  return {p.top_left ? 0 : s.k_len - s.q_len, p.left, p.right, s.k_len};
}
template <class T> BARACUDA_HD T* row_at(const SdpaTensor& t, const SdpaSequence& s, int64_t head, int64_t row) {
  return static_cast<T*>(t.p) + s.b * t.batch + head * t.head + row * t.row;
}

}  // namespace attention
}  // namespace baracuda
