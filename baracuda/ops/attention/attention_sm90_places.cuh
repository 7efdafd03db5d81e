#pragma once
// Shapes of the forward on Hopper (attention_sm90.cuh), and which blocks of queries a block of threads goes through, in which order.
#include "baracuda/device/hopper.cuh"
#include "baracuda/ops/attention/attention_mma.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {
using namespace hopper;

enum class Scores { plain, capped, general };  // a scale above 0; a softcap; whatever else
// kColumns: of a product. kGroups: warpgroups of 64 queries. kShort: tiles of half as many keys.
template <int kColumns, Scores kScores, int kGroupsGiven, bool kShortGiven> struct WgmmaShape {
  static constexpr bool kShort = kShortGiven;
  static constexpr int kWidth = (kColumns + 63) / 64 * 64;  // of rows in shared memory
  static constexpr int kGroups = kGroupsGiven, kRows = 64 * kGroups, kWorkers = 128 * kGroups, kThreads = kWorkers + 128;
  static constexpr bool kApart = kGroups >= 3;              // a warpgroup leaves out tiles that it does not see: blocks of 192 rows end within tiles of 128 keys
  static constexpr int kKeys = kShort || kWidth == 256 ? 64 : kWidth == 192 ? 96 : 128;
  static constexpr bool kHeld = kWidth == 128 && kScores == Scores::plain;  // queries stay in registers
  static constexpr int kGiven = kGroups >= 3 ? 32 : kScores == Scores::general && kWidth <= 192 ? 56 : 40, kTaken = kGroups == 4 ? 112 : kGroups == 3 ? 160 : kScores == Scores::general && kWidth <= 192 ? 224 : 232;  // registers of a thread: of the copying one, of workers; as many as the launch has
  static_assert(kGiven + kGroups * kTaken <= 65536 / kThreads / 8 * 8 * (kGroups + 1), "more than the launch has: the workers would wait for ever");
  // Parts in which a block's queries come and leave: a warpgroup's each, where shared memory has no room for three blocks. Rows of a part; parts there.
  static constexpr int kParts = kWidth <= 128 ? 1 : kGroups, kPartRows = kRows / kParts, kSlots = kWidth == 192 && kShort ? 4 : 3;
  static constexpr int kQueries = (kSlots + kParts - 1) / kParts, kPlaces = kQueries + 1;  // blocks of queries in shared memory, and known
  static constexpr int kStages = kShort && kWidth <= 64 ? 4 : 2;  // tiles on their way or at work
  static constexpr size_t kBytes = size_t(kSlots * kPartRows + 2 * kStages * kKeys) * kWidth * 2 + 1024;
};
struct WgmmaWork {
  SdpaCuda p;
  uint32_t heads, parts, section;  // of all items; blocks of a head's queries; heads whose keys the L2 cache holds together
  uint32_t in_section;             // items
  bool pairs;
  uint32_t rounds;                 // of pairs, one for each block of threads
  uint32_t late;                   // without pairs: so many first blocks of queries of all heads come last
  bool two_sided;                  // ALiBi that keys ahead of a query have too, or of scores that a factor turns around
  float unit, factor, inverse;     // of the softmax; of scores, where that is not it; 1 / factor
  float inward;                    // of the argument of tanh
  CUtensorMap q, k, v;
  bool y_chunks;
  int left, right;                 // of the window; lengths are below 2^30, and so are positions
};
struct WgmmaTiles { int from, to, all_from, all_to; };  // some rows see [from, to), all see [all_from, all_to)
struct WgmmaPlace {  // rows [row0, row0 + n) of a sequence's queries in a head
  int b, q_start, k_start, k_len, shift, head, row0, n;
  int tiles, last_key;  // tiles go down from the one at last_key
  WgmmaTiles seen, of_group[4];
};
// A row as attention_rows.hpp has it.
template <class T> __device__ __forceinline__ T* row_of(const SdpaTensor& t, const WgmmaPlace& place, int r) { return row_at<T>(t, {place.b, 0, 0, 0, 0}, place.head, place.q_start + place.row0 + r); }
// Item number k of a block of threads, in sections of heads one after the other: a block of queries, the last of a head first, which a causal mask makes
// longer; of sequences, whose blocks are of any length, the next that nobody has taken (p.next), which is k itself, the short ones (late) behind all others, by
// length, so that all blocks of threads end together; under a window, where all but a head's first are as long, the same, to and fro; so, too, without a mask, and
// where a section has a block of queries for each block of threads: with pairs twice as many heads are at work, more than the L2 cache holds; else, where they
// are many, one of a pair, a block of queries and its mirror image, or the middle ones of two heads (n is 0 where there is no second): under a causal mask all pairs
// are as long. The pairs of the last rounds, where not all blocks of threads would have one more, are taken apart: their blocks of queries go by length, to and fro.
// False: there are no more.
template <class C> __device__ __forceinline__ bool find_place(WgmmaPlace& place, const WgmmaWork& work, uint32_t k) {
  const SdpaCuda& p = work.p;
  const uint32_t parts = work.parts;
  const bool apart = work.pairs && k >= 2 * work.rounds;
  const auto to_and_fro = [&](uint32_t turn) { return turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x); };
  const uint32_t index = p.next ? k : apart ? work.rounds * gridDim.x : work.pairs ? k / 2 * gridDim.x + blockIdx.x : to_and_fro(k);
  uint32_t at, part;
  bool none = false;
  if (const uint32_t early = work.heads * (parts - work.late); !work.pairs && index >= early) {
    const uint32_t rank = index - early;
    if (rank >= work.heads * work.late) return false;
    at = rank % work.heads, part = work.late - 1 - rank / work.heads;
  } else {
    const uint32_t from = index / work.in_section * work.section, first_there = index - index % work.in_section;
    if (from >= work.heads) return false;
    const uint32_t width = min(work.section, work.heads - from), in_section = index - first_there, second = work.pairs && !apart ? k % 2 : 0;
    uint32_t i = in_section / width;
    at = from + in_section % width, part = second ? i : parts - 1 - i;
    if (work.pairs && i >= parts / 2) {  // the middle ones
      i = part = parts / 2, at = from + 2 * (in_section - width * i) + second;
      none = at >= from + width;
    }
    if (apart) {
      uint32_t rank = to_and_fro(k - 2 * work.rounds), first = 0;
      for (part = parts;;) {
        if (part-- == 0) return false;
        const uint32_t pair = min(part, parts - 1 - part);  // of the section where the rounds end some heads have had this pair, all of them an earlier one
        first = pair < i ? from + width : pair == i ? min(at, work.heads) : from;
        if (rank < work.heads - first) break;
        rank -= work.heads - first;
      }
      at = first + rank, none = false;
    }
  }
  const SdpaSequence q = sequence_of(p, at / uint32_t(p.heads));
  const MaskOf<int> mask{p.top_left ? 0 : int(q.k_len) - int(q.q_len), work.left, work.right, int(q.k_len)};
  const int row0 = int(part) * C::kRows, n = none ? 0 : max(0, min(C::kRows, int(q.q_len) - row0));
  const KeyRangeOf<int> top = mask.of(row0), bottom = mask.of(row0 + n - 1);
  const int key0 = top.lo / C::kKeys * C::kKeys, tiles = top.lo < bottom.hi ? (bottom.hi - key0 + C::kKeys - 1) / C::kKeys : 0;
  place.b = int(q.b), place.q_start = int(q.q_start), place.k_start = int(q.k_start), place.k_len = int(q.k_len), place.shift = mask.shift;
  place.head = int(at % uint32_t(p.heads)), place.row0 = row0, place.n = n, place.tiles = tiles, place.last_key = key0 + (tiles - 1) * C::kKeys;
  const auto seen = [&](KeyRangeOf<int> first, KeyRangeOf<int> last) {
    return WgmmaTiles{tiles - (last.hi - key0 + C::kKeys - 1) / C::kKeys, tiles - (first.lo - key0) / C::kKeys,
                      tiles - (first.hi - key0) / C::kKeys, tiles - (last.lo - key0 + C::kKeys - 1) / C::kKeys};
  };
  place.seen = seen(top, bottom);
  if constexpr (C::kApart) {
#pragma unroll
    for (int g = 0; g < C::kGroups; ++g) {
      const KeyRangeOf<int> first = mask.of(row0 + 64 * g), last = mask.of(row0 + min(64 * g + 63, n - 1));
      place.of_group[g] = seen(first, last);
      if (64 * g >= n || first.lo >= last.hi) place.of_group[g].from = place.of_group[g].to = tiles;
    }
  }
  return true;
}

}  // namespace attention
}  // namespace baracuda
