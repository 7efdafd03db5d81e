#include "baracuda/ops/index/index_walk.hpp"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include "baracuda/host/past.hpp"
#include "baracuda/ops/index/index_math.hpp"

namespace baracuda {
namespace {

constexpr int64_t kStage = kIndexBlock;  // indices that are resolved at a time
constexpr int64_t kShortRow = 16, kTile = 64;  // kTile columns of a matrix with thousands of rows fit the caches
constexpr int kMostRanges = 16;
constexpr int64_t kAhead = 12;  // rows whose places are told early

}  // namespace

// The state of one thread's block of units.
struct IndexWalk::Run {
  const IndexWalk& w;
  bool ordered, ranged;  // ranged: keys outside [low, high) are left to another thread
  int64_t low, high;     // of the first key
  Call call;
  void* f;
  int64_t at[kIndexTargets][kStage];
  int32_t which[kStage];

  // The elements whose first key is in range, into `which`; how many. No branch: keys of several ranges come without order.
  template <class I> int64_t keep_range(int64_t first, int64_t step, int64_t n) {
    const I* p = static_cast<const I*>(w.key_[0].data) + first;
    const int64_t extent = w.key_[0].extent, from = low, places = high - low;
    const bool negative = w.negative_, clip = w.rule_ == OutOfRange::clip;
    int64_t kept = 0;
    for (int64_t j = 0; j < n; ++j) {
      which[kept] = int32_t(j);
      kept += uint64_t(indexing::place_of(p[j * step], extent, negative, clip)) - uint64_t(from) < uint64_t(places);
    }
    return kept;
  }
  template <class I> void resolve_key(int k, int64_t first, int64_t step, int64_t n, const int32_t* pick) {
    const I* p = static_cast<const I*>(w.key_[k].data) + first;
    const int64_t extent = w.key_[k].extent;
    const bool negative = w.negative_, clip = w.rule_ == OutOfRange::clip;
    for (int t = 0; t < w.targets_; ++t) {
      const int64_t add = w.target_key_[t][k];
      int64_t* to = at[t];
      for (int64_t j = 0; j < n; ++j) {
        const int64_t i = indexing::place_of(p[(pick ? pick[j] : j) * step], extent, negative, clip), before = k == 0 ? 0 : to[j];
        to[j] = uint64_t(i) < uint64_t(extent) && before != kOutside ? before + i * add : kOutside;
      }
    }
  }
  // Of n elements, or of those in range: how many there are.
  int64_t resolve(const int64_t* first, const int64_t* step, int64_t n) {
    const bool wide = w.index_dtype_ == DType::i64;
    if (ranged) n = wide ? keep_range<int64_t>(first[0], step[0], n) : keep_range<int32_t>(first[0], step[0], n);
    const int32_t* pick = ranged ? which : nullptr;
    for (int k = 0; k < w.keys_; ++k)
      if (wide) resolve_key<int64_t>(k, first[k], step[k], n, pick);
      else resolve_key<int32_t>(k, first[k], step[k], n, pick);
    return n;
  }
  IndexBlock block(const int64_t* first, const int64_t* step, int64_t n) const {
    IndexBlock b;
    b.count = n;
    for (int s = 0; s < w.sources_; ++s) b.source[s] = first[w.keys_ + s], b.source_step[s] = step[w.keys_ + s];
    const int targets = w.keys_ + w.sources_;
    for (int t = 0; t < w.targets_; ++t) b.target[t] = first[targets + t], b.target_step[t] = step[targets + t];
    return b;
  }
  // n elements whose indices differ.
  void emit(int64_t* first, const int64_t* step, int64_t n, int64_t position, int64_t position_step) {
    for (int64_t done = 0, m; done < n; done += m) {
      m = std::min(kStage, n - done);
      IndexBlock b = block(first, step, resolve(first, step, m));
      for (int t = 0; t < w.targets_; ++t) b.at[t] = at[t];
      b.which = ranged ? which : nullptr;
      b.position = position + done * position_step, b.position_step = position_step;
      call(f, b);
      for (int o = 0; o < w.keys_ + w.sources_ + w.targets_; ++o) first[o] += m * step[o];
    }
  }
  // Rows of n elements with the same indices.
  void emit_rows(int64_t* first, const int64_t* step, int64_t n, const int64_t* row_step, int64_t rows, int64_t position) {
    for (int64_t done = 0, m; done < rows; done += m) {
      m = std::min(kStage, rows - done);
      const int64_t kept = resolve(first, row_step, m);
      IndexBlock b = block(first, step, n);
      const IndexBlock base = b;
      for (int64_t k = 0; k < kept; ++k) {
        const int64_t r = ranged ? which[k] : k, ahead = k + kAhead < kept ? at[0][k + kAhead] : kOutside;
        b.outside = at[0][k] == kOutside;
        if (b.outside && ordered) continue;
        for (int t = 0; t < w.targets_; ++t) b.target[t] = base.target[t] + (b.outside ? 0 : at[t][k]);
        for (int s = 0; s < w.sources_; ++s) b.source[s] = base.source[s] + r * row_step[w.keys_ + s];
        b.next = ahead == kOutside ? kOutside : base.target[0] + ahead;
        b.position = position + done + r;
        call(f, b);
      }
      for (int o = 0; o < w.keys_ + w.sources_ + w.targets_; ++o) first[o] += m * row_step[o];
    }
  }
};

// The axes that are taken, or the others, as a walk; of the others the widest steps of source 0 outside.
Strided<IndexWalk::kOperands> IndexWalk::part(bool taken) const {
  int axes[kMaxRank], n = 0;
  for (int i = 0; i < shape_.rank; ++i)
    if (taken_[i] == taken) axes[n++] = i;
  if (!taken && sources_ > 0)
    std::stable_sort(axes, axes + n, [&](int a, int b) { return std::llabs(source_[0][a]) > std::llabs(source_[0][b]); });
  Shape shape;
  for (int j = 0; j < n; ++j) shape.push_back(shape_[axes[j]]);
  Strides strides[kOperands];
  const Strides* lists[kOperands];
  for (int o = 0; o < kOperands; ++o) {
    const int s = o - keys_, t = s - sources_;
    const Strides* from = s < 0 ? &key_[o].strides : t < 0 ? &source_[s] : t < targets_ ? &target_[t] : nullptr;
    for (int j = 0; j < n; ++j) strides[o].push_back(from ? (*from)[axes[j]] : 0);
    lists[o] = &strides[o];
  }
  return walk_of<kOperands>(shape, lists);
}

void IndexWalk::walk(bool ordered, int threads, Call call, void* f) const {
  if (shape_.numel() == 0) return;
  const Strided<kOperands> columns = part(false), positions = part(true);
  const int operands = keys_ + sources_ + targets_;
  int64_t step[kOperands], along_step[kOperands];
  bool same_indices = true;  // along the columns
  for (int o = 0; o < operands; ++o) {
    step[o] = columns.inner_stride(o), along_step[o] = positions.inner_stride(o);
    if (o < keys_ && columns.inner > 1) same_indices = same_indices && step[o] == 0;
  }
  // A block lies along the columns (then all of it may have one index) or along the positions, where memory is denser.
  const int64_t all = positions.rows * positions.inner;
  const bool denser = sources_ > 0 && std::llabs(along_step[keys_]) < std::llabs(step[keys_]);
  const bool along = positions.inner > 1 && (columns.inner < kShortRow || denser);
  const bool rows = !along && same_indices;
  // A column that lies denser than its neighbours reads and writes lines of its own; else neighbours share theirs.
  const int64_t most = along && denser ? 1 : along || (!rows && all > kTile) ? kTile : kPiece;
  const int64_t pieces = (columns.inner + most - 1) / most, width = std::min(most, columns.inner);
  const int64_t stretch = ordered ? positions.inner : std::clamp<int64_t>(kPiece / width, 1, positions.inner);
  const int64_t stretches = (positions.inner + stretch - 1) / stretch, lots = ordered ? 1 : positions.rows * stretches;
  const int64_t units = columns.rows * pieces * lots;
  // Where there are fewer columns than threads, each thread takes a range of the first key and skips the others.
  const int64_t extent = keys_ ? key_[0].extent : 1;
  if (threads <= 0) threads = baracuda::threads();
  const int64_t ranges = ordered && units < threads && all >= kPiece ? std::clamp<int64_t>(extent, 1, std::min(threads, kMostRanges)) : 1;
  const int64_t grain = ranges > 1 ? 1 : std::max<int64_t>(1, kPiece / width / (ordered ? std::min(all, kPiece) : stretch));
  parallel_for(units * ranges, grain, threads, [&](int64_t begin, int64_t end, int) {
    Run run{*this, ordered, ranges > 1, 0, 0, call, f, {}, {}};
    for (int64_t u = begin; u < end; ++u) {
      const int64_t range = u / units, share = extent / ranges, lot = u % units % lots, unit = u % units / lots;
      run.low = range * share, run.high = range + 1 == ranges ? extent : (range + 1) * share;
      const int64_t first = unit % pieces * most, n = std::min(most, columns.inner - first);
      const int64_t q_begin = ordered ? 0 : lot / stretches, q_end = ordered ? positions.rows : q_begin + 1;
      const int64_t p_begin = ordered ? 0 : lot % stretches * stretch, p_end = std::min(positions.inner, p_begin + stretch);
      int64_t base[kOperands], place[kOperands], at[kOperands];
      columns.offsets(unit / pieces, base);
      for (int64_t q = q_begin; q < q_end; ++q) {
        positions.offsets(q, place);
        for (int o = 0; o < operands; ++o) place[o] += base[o] + first * step[o] + p_begin * along_step[o];
        if (along)
          for (int64_t j = 0; j < n; ++j) {
            for (int o = 0; o < operands; ++o) at[o] = place[o] + j * step[o];
            run.emit(at, along_step, p_end - p_begin, q * positions.inner + p_begin, 1);
          }
        else if (rows) run.emit_rows(place, step, n, along_step, p_end - p_begin, q * positions.inner + p_begin);
        else
          for (int64_t p = p_begin; p < p_end; ++p) {
            std::copy(place, place + operands, at);
            run.emit(at, step, n, q * positions.inner + p, 0);
            for (int o = 0; o < operands; ++o) place[o] += along_step[o];
          }
      }
    }
    past_fence();
  });
}

Status check_indices(std::string_view op, std::string_view arg, const TensorView& indices, std::string_view of, int axis, int64_t extent, bool negative,
                     int threads) {
  Shape shape = indices.shape;
  for (int i = 0; i < shape.rank; ++i)
    if (indices.strides[i] == 0 && shape[i] > 1) shape[i] = 1;
  const Strided<1> w = walk_of<1>(shape, {&indices.strides});
  std::atomic<bool> bad = false;
  const int64_t least = negative ? -extent : 0;
  for_each_piece(w, threads, [&](const int64_t (&at)[1], int64_t, int64_t n) {
    auto look = [&]<class I>(const I* p) {
      const int64_t step = w.inner_stride(0);
      bool any = false;
      for (int64_t j = 0; j < n; ++j) any |= p[j * step] < least || p[j * step] >= extent;
      return any;
    };
    if (bad.load(std::memory_order_relaxed)) return;
    if (indices.dtype == DType::i64 ? look(indices.as<int64_t>() + at[0]) : look(indices.as<int32_t>() + at[0])) bad = true;
  });
  if (!bad) return {};
  // Rare: one thread looks for the first.
  for (int64_t i = 0, n = shape.numel(); i < n; ++i) {
    int64_t at = 0, rest = i;
    Dims place;
    place.rank = shape.rank;
    for (int a = shape.rank - 1; a >= 0; --a) place[a] = rest % shape[a], at += place[a] * indices.strides[a], rest /= shape[a];
    const int64_t v = indices.dtype == DType::i64 ? indices.as<int64_t>()[at] : indices.as<int32_t>()[at];
    if (v < least || v >= extent) return invalid(op, text(arg, place, " is ", v, ", axis ", axis, " of ", of, " has extent ", extent));
  }
  return {};
}

}  // namespace baracuda
