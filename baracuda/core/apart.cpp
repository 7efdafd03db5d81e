// Whether tensors share memory, and the refusal of those that must not.
#include <algorithm>
#include <numeric>
#include "baracuda/core/kernel.hpp"

namespace baracuda {
namespace {

using Wide = __int128;  // addresses and what strides reach, whatever they are
constexpr Wide kFar = Wide(1) << 66;

// The bytes between the first and the last element; begin == end without elements.
struct Range { Wide begin, end; };
int64_t element_bytes(const TensorView& v) { return int64_t(std::max<size_t>(1, byte_size(v.dtype))); }
Range range(const TensorView& v) {
  Wide low = 0, high = 0;
  if (!v.data || !v.shape.rank_ok()) return {0, 0};
  for (int i = 0; i < v.shape.rank; ++i) {
    if (v.shape[i] == 0) return {0, 0};
    const Wide reach = std::clamp(Wide(v.shape[i] - 1) * v.strides[i], -kFar, kFar);
    (reach < 0 ? low : high) += reach;
  }
  const Wide bytes = element_bytes(v), at = Wide(uintptr_t(v.data));
  return {at + low * bytes, at + (high + 1) * bytes};
}
bool meet(const Range& a, const Range& b) { return a.begin < b.end && b.begin < a.end && a.begin < a.end && b.begin < b.end; }

// Bytes of a at a.begin + sum i_k s_k + u, of b at b.begin + sum j_k t_k + v, every index from 0 to its extent - 1 and u, v to the element's
// size - 1: a search for sum c_k step_k + w = b.begin - a.begin, largest step first, each c_k within what the smaller steps can make up for.
class Meeting {
 public:
  Meeting(const TensorView& a, const TensorView& b) {
    add(a, 1), add(b, -1);
    std::sort(term_, term_ + terms_, [](const Term& x, const Term& y) { return x.step > y.step; });
    int n = 0;
    for (int k = 0; k < terms_; ++k)
      if (n > 0 && term_[n - 1].step == term_[k].step) term_[n - 1].low += term_[k].low, term_[n - 1].high += term_[k].high;
      else term_[n++] = term_[k];
    terms_ = n;
    rest_[n] = {0, 1 - element_bytes(b), element_bytes(a) - 1};
    for (int k = n - 1; k >= 0; --k)
      rest_[k] = {gcd(term_[k].step, rest_[k + 1].step), rest_[k + 1].low + term_[k].low * term_[k].step, rest_[k + 1].high + term_[k].high * term_[k].step};
  }
  bool at(Wide distance) { return find(0, distance); }

 private:
  struct Term { Wide step, low, high; };
  static Wide gcd(Wide a, Wide b) {
    while (b) std::swap(a %= b, b);
    return a;
  }
  static Wide floor_div(Wide a, Wide b) { return a / b - (a % b < 0); }  // b > 0
  void add(const TensorView& v, int sign) {
    for (int i = 0; i < v.shape.rank; ++i) {
      const Wide step = Wide(v.strides[i]) * element_bytes(v), last = v.shape[i] - 1;
      if (last > 0 && step != 0) term_[terms_++] = {step < 0 ? -step : step, sign > 0 ? 0 : -last, sign > 0 ? last : 0};
    }
  }
  bool find(int k, Wide distance) {
    const Term& all = rest_[k];
    if (distance < all.low || distance > all.high) return false;
    if (k == terms_) return true;
    // What the steps make is a multiple of their common divisor; the bytes of an element make up for the remainder.
    const Term& byte = rest_[terms_];
    if (floor_div(distance - byte.low, all.step) * all.step < distance - byte.high) return false;
    const Term &t = term_[k], &rest = rest_[k + 1];
    const Wide first = std::max(t.low, -floor_div(rest.high - distance, t.step)), last = std::min(t.high, floor_div(distance - rest.low, t.step));
    for (Wide c = first; c <= last; ++c)
      if (--patience_ < 0 || find(k + 1, distance - c * t.step)) return true;
    return false;
  }
  Term term_[2 * kMaxRank], rest_[2 * kMaxRank + 1];  // rest_[k]: common divisor, least and most of terms from k on
  int terms_ = 0, patience_ = 1 << 14;
};
bool share(const TensorView& a, const Range& ra, const TensorView& b, const Range& rb) {
  if (!meet(ra, rb)) return false;
  const bool real = ra.end - ra.begin < kFar && rb.end - rb.begin < kFar;  // no memory is larger
  return !real || Meeting(a, b).at(rb.begin - ra.begin);
}

bool same_tensor(const TensorView& a, const TensorView& b) {
  if (a.data != b.data || element_bytes(a) != element_bytes(b) || !(a.shape == b.shape)) return false;
  for (int i = 0; i < a.shape.rank; ++i)
    if (a.shape[i] > 1 && a.strides[i] != b.strides[i]) return false;
  return true;
}

// One of the tensors of a call.
struct One {
  const ArgTensors* of;
  size_t index;
  Range range;
  const TensorView& view() const { return of->views[index]; }
  std::string name() const { return of->list ? text(of->name, "[", index, "]") : std::string(of->name); }
};
Status judge(std::string_view op, const One& out, const One& other, InPlace in_place, const void* desc) {
  if (!meet(out.range, other.range)) return {};
  const bool may = !other.of->written && in_place && in_place(desc, out.of->name, other.of->name);
  if (same_tensor(out.view(), other.view()))
    return may ? Status() : invalid(op, text(out.name(), " overlaps ", other.name(), ": they are the same tensor, and ",
                                             other.of->written ? "both are written" : "this plan does not work in place"));
  if (!share(out.view(), out.range, other.view(), other.range)) return {};
  const Wide bytes = out.range.begin - other.range.begin;
  return invalid(op, text(out.name(), " overlaps ", other.name(), ": it begins ", int64_t(bytes < 0 ? -bytes : bytes), " bytes ", bytes < 0 ? "before" : "behind", " it",
                          may ? text("; in place it has the same shape and strides, ", out.view().strides, " is not ", other.view().strides) : std::string()));
}
template <class F> void for_each_one(std::span<const ArgTensors> all, F f) {
  for (const ArgTensors& a : all)
    for (size_t i = 0; i < a.count; ++i) f(One{&a, i, range(a.views[i])});
}
// Whether the byte ranges alone tell that all is well: sorted in blocks, since nothing may be allocated.
bool ranges_apart(std::span<const ArgTensors> all) {
  constexpr size_t kBlock = 256;
  Range block[kBlock];
  size_t n = 0, begins = 0;
  const auto block_apart = [&] {
    std::sort(block, block + n, [](const Range& a, const Range& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < n; ++i)
      if (meet(block[i - 1], block[i])) return false;
    bool apart = true;
    size_t at = 0;
    for_each_one(all, [&](const One& one) {
      const bool own = one.of->written && at >= begins && at < begins + n;
      at += one.of->written;
      if (own || !apart) return;
      const Range* next = std::upper_bound(block, block + n, one.range, [](const Range& a, const Range& b) { return a.begin < b.end; });
      apart = (next == block || !meet(next[-1], one.range)) && (next == block + n || !meet(*next, one.range));
    });
    begins += n, n = 0;
    return apart;
  };
  bool apart = true;
  for_each_one(all, [&](const One& one) {
    if (!one.of->written || !apart) return;
    block[n++] = one.range;
    if (n == kBlock) apart = block_apart();
  });
  return apart && block_apart();
}

}  // namespace

bool share_memory(const TensorView& a, const TensorView& b) { return share(a, range(a), b, range(b)); }

Status check_apart(std::string_view op, std::span<const ArgTensors> all, InPlace in_place, const void* desc) {
  constexpr size_t kFew = 20;
  size_t count = 0;
  for (const ArgTensors& a : all) count += a.count;
  Status s;
  if (count <= kFew) {
    One few[kFew];
    size_t n = 0;
    for_each_one(all, [&](const One& one) { few[n++] = one; });
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n && few[i].of->written; ++j)
        if (j < i || (j > i && !few[j].of->written)) BARACUDA_TRY(judge(op, few[i], few[j], in_place, desc));
    return s;
  }
  if (ranges_apart(all)) return s;
  for_each_one(all, [&](const One& out) {
    bool before = true;
    if (out.of->written && s.ok()) for_each_one(all, [&](const One& other) {
      if (other.of == out.of && other.index == out.index) before = false;
      else if (s.ok() && (before || !other.of->written)) s = judge(op, out, other, in_place, desc);
    });
  });
  return s;
}

}  // namespace baracuda
