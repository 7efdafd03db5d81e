#pragma once
// The one loop under gather, scatter, index and index_put. A walk goes over a shape; elements of "sources" lie at its strides,
// elements of "targets" at theirs plus what the indices add. A key is one tensor of indices, expanded to the shape by zero strides.
#include "baracuda/core/kernel.hpp"
#include "baracuda/host/strided.hpp"
#include "baracuda/ops/index/index.hpp"

namespace baracuda {

inline constexpr int kIndexSources = 2, kIndexTargets = 3;
inline constexpr int64_t kIndexBlock = 256;     // elements of a block whose indices differ, at most
inline constexpr int64_t kOutside = INT64_MIN;  // in place of what an index that is no index would add

// `count` elements in one direction. Element j of source s lies at source[s] + j source_step[s]; of target t at target[t] +
// j target_step[t] + at[t][j], where at[t][j] may be kOutside. Where at[0] is null the indices are the same for the whole block,
// and are in target already; `outside` then tells that they are none, and `next` where target 0 of a later row begins, to be fetched.
// Where `which` is not null, `count` elements of many: at[t][k] belongs to number which[k].
struct IndexBlock {
  int64_t count = 0;
  int64_t source[kIndexSources] = {}, source_step[kIndexSources] = {};
  int64_t target[kIndexTargets] = {}, target_step[kIndexTargets] = {};
  const int64_t* at[kIndexTargets] = {};
  const int32_t* which = nullptr;
  bool outside = false;
  int64_t next = kOutside;
  int64_t position = 0, position_step = 0;  // among the positions of an ordered walk
};

class IndexWalk {
 public:
  IndexWalk(const Shape& shape, DType index_dtype, OutOfRange rule, bool negative) : shape_(shape), index_dtype_(index_dtype), rule_(rule), negative_(negative) {}
  // Axes along which the indices are taken one behind another in an ordered walk; targets do not move along them.
  void take_axis(int axis) { taken_[axis] = true; }
  void add_key(const void* indices, const Strides& strides, int64_t extent) { key_[keys_++] = {indices, strides, extent}; }
  void add_source(const Strides& strides) { source_[sources_++] = strides; }
  // key_strides: what one step of each key adds.
  void add_target(const Strides& strides, const Strides& key_strides) { target_[targets_] = strides, target_key_[targets_++] = key_strides; }

  // Calls f(block) for every element once. ordered: all blocks that reach one element of a target come from one thread, in the
  // row-major order of the taken axes (their number is block.position + j block.position_step), and what is outside may be left
  // out. Otherwise in any order. f may write past the caches.
  template <class F> void run(bool ordered, int threads, F&& f) const {
    walk(ordered, threads, [](void* g, const IndexBlock& b) { (*static_cast<std::remove_reference_t<F>*>(g))(b); },
         const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  static constexpr int kOperands = kMaxRank + kIndexSources + kIndexTargets;
  struct Key { const void* data = nullptr; Strides strides; int64_t extent = 0; };
  using Call = void (*)(void*, const IndexBlock&);
  struct Run;
  void walk(bool ordered, int threads, Call call, void* f) const;
  Strided<kOperands> part(bool taken) const;

  Shape shape_;
  DType index_dtype_;
  OutOfRange rule_;
  bool negative_, taken_[kMaxRank] = {};
  int keys_ = 0, sources_ = 0, targets_ = 0;
  Key key_[kMaxRank];
  Strides source_[kIndexSources], target_[kIndexTargets], target_key_[kIndexTargets];
};

// The first index in row-major order that is none of [0, extent), or of [-extent, extent) where negative ones count; refused in the
// words "indices[2, 1] is 7, axis 1 of x has extent 5". OutOfRange::refuse only.
Status check_indices(std::string_view op, std::string_view arg, const TensorView& indices, std::string_view of, int axis, int64_t extent, bool negative,
                     int threads);

}  // namespace baracuda
