#pragma once
// How the family sees tensors: lanes along one axis. For the drivers of forward and backward.
#include "baracuda/host/row_walk.hpp"
#include "baracuda/ops/scan/scan.hpp"
#include "baracuda/ops/scan/scan_cpu.hpp"

namespace baracuda::scan_detail {

inline int axis_of(const ScanDescriptor& d) { return d.axis < 0 ? d.axis + (d.shape.rank ? d.shape.rank : 1) : d.axis; }
inline int64_t length(const ScanDescriptor& d) { return d.shape.rank ? d.shape[axis_of(d)] : 1; }
inline int64_t blocks(int64_t n) { return (n + kScanBlock - 1) / kScanBlock; }

// The view with the scanned axis last, beginning where the scan begins.
inline TensorView along(const TensorView& v, const ScanDescriptor& d, bool reverse) {
  TensorView out = v;
  if (v.absent()) return out;
  if (d.shape.rank == 0) {
    out.shape = {1}, out.strides = {1};
    return out;
  }
  const int axis = axis_of(d), last = d.shape.rank - 1;
  for (int i = axis; i < last; ++i) out.shape[i] = v.shape[i + 1], out.strides[i] = v.strides[i + 1];
  out.shape[last] = v.shape[axis], out.strides[last] = v.strides[axis];
  if (reverse && out.shape[last] > 0) {
    out.data = v.as<char>() + (out.shape[last] - 1) * out.strides[last] * int64_t(byte_size(v.dtype));
    out.strides[last] = -out.strides[last];
  }
  return out;
}
inline int64_t step(const TensorView& v) { return v.absent() ? 0 : v.strides[v.shape.rank - 1]; }
inline void* at(const TensorView& v, int64_t offset) { return v.absent() ? nullptr : v.as<char>() + offset * int64_t(byte_size(v.dtype)); }

// Lanes next to each other in memory go side by side (columns), and so do lanes of a few elements, in strips that leave every
// thread enough of them; `split` says that there are too few lanes for the threads, so that these share the blocks of a lane. `direct`: totals are
// cheap and strips may be wide (ScanDirect).
struct Arrangement {
  bool columns = false, split = false;
  int64_t strip = 1, strips = 1;  // lanes to a call with columns, calls to a row of lanes
};
constexpr int64_t kCached = 16 << 20;  // bytes of an output from which on it is written past the caches
constexpr int64_t kLeastPerThread = 4, kFewColumns = 8, kLeastStrip = 16, kLeastDirectStrip = 64, kShort = 16;
template <int K> Arrangement arrange(const RowWalk<K>& walk, const TensorView* const (&views)[K], int64_t n, int threads, bool direct) {
  Arrangement a;
  const int64_t inner = walk.outer.inner;
  for (int k = 0; k < K; ++k)
    a.columns |= inner >= kFewColumns && !views[k]->absent() && walk.pitch(k) == 1 && (n == 1 || (step(*views[k]) != 1 && step(*views[k]) != -1));
  a.columns |= n < kShort && inner >= kLeastStrip;
  const bool one = threads == 1 || blocks(n) < 2;
  if (!a.columns) {
    a.split = !one && walk.rows < kLeastPerThread * threads;
    return a;
  }
  const int64_t widest = direct ? kScanDirectStrip : kScanStrip, least = direct && blocks(n) >= kLeastPerThread * threads ? kLeastDirectStrip : kLeastStrip;
  for (a.strip = widest;; a.strip /= 2) {
    a.strips = (inner + a.strip - 1) / a.strip;
    const int64_t groups = walk.outer.rows * a.strips;
    if (threads == 1 || groups >= kLeastPerThread * threads || groups % threads == 0) return a;
    if (a.strip == least) break;
  }
  if (!one) a.split = true, a.strip = widest, a.strips = (inner + a.strip - 1) / a.strip;
  return a;
}
// Blocks of every lane that are taken at once when lanes are split: what fits in the caches, so that the second look is cheap.
// Two threads look twice at half of a lane only: that is cheaper than many segments.
inline int64_t segment(int64_t lanes, int64_t n, int threads) {
  const int64_t fit = (threads <= 2 ? 32768 : 512) / lanes;
  return fit < 1 ? 1 : fit < blocks(n) ? fit : blocks(n);
}
// Blocks of every lane that a thread takes at a time where totals are cheap: they stay in its second-level cache from the first look to the second.
inline int64_t chunk(int64_t lanes, int64_t n, int threads) {
  const int64_t fit = 128 / lanes, share = blocks(n) / (kLeastPerThread * threads), least = fit < share ? fit : share;
  return least < 1 ? 1 : least;
}
inline bool may_split(const ScanDescriptor& d, int threads) {
  const int64_t n = length(d);
  return threads > 1 && blocks(n) > 1 && d.shape.numel() / n < kLeastPerThread * kScanStrip * threads;
}

// A scan, or a gradient, over lanes of views that lie `along` the axis; those that the kind does not read are absent.
struct Lanes {
  TensorView in[3], out, out2;
  bool falling;  // positions along the axis fall from step to step
};
// Scratch: carries of split lanes, and products for the gradient of cumprod.
void carve_lanes(const ScanDescriptor& d, bool products, Carver& c);
void run_lanes(const ScanDescriptor& d, const ScanKernels& kernels, const Lanes& lanes, Carver c, int threads, const ScanDirect* direct = nullptr);
// The forward, from its own arguments.
void run_scan(const ScanDescriptor& d, const TensorView& x, const TensorView& y, const TensorView& indices, Carver c, int threads);
using Scanned = TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>;
PrecisionGuarantee scan_guarantee(const ScanDescriptor& d);
std::string scan_refuse(const ScanDescriptor& d, const PlanPreference&);
int64_t scan_empty(const ScanDescriptor& d);  // the identity of a maximum or minimum of integers

}  // namespace baracuda::scan_detail
