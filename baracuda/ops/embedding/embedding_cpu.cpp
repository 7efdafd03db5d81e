// dweight[v, c] = sum over the occurrences of v of dy[., c]. Reads each row of dy once; the floor is memory bandwidth. Four
// packs of columns stay in registers while the occurrences go by. Rows lie anywhere, so that the processor does not guess the next
// one: they are fetched into the second-level cache, which takes more at once than the first, 8 KiB ahead.
#include "baracuda/math/twice.hpp"
#include "baracuda/ops/embedding/embedding_cpu.hpp"
#include "baracuda/ops/embedding/embedding_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using embedding::kGroup;

template <int N, class T> BARACUDA_HD Pack<Acc<T>, N> get(const T* p, int count) {
  return count == N ? load<N>(p) : load_tail<N>(p, count & (N - 1));
}
template <class A, class G, int N> BARACUDA_HD void put(G* p, Pack<A, N> v, int count, bool accumulate, bool past) {
  if constexpr (sizeof(A) == 8 && sizeof(G) == 4) {
    for (int i = 0; i < count; ++i) p[i] = embedding::result<G>(Pack<A, 1>::of(v.lane(i)), accumulate, accumulate ? p[i] : G{});
  } else {
    if (accumulate) v = get<N>(p, count) + v;
    if (count == N && past) store_past<G, N>(p, v);
    else if (count == N) store<G, N>(p, v);
    else store_tail<G, N>(p, v, count & (N - 1));
  }
}

// C packs from column c; `count` is the width of each, a whole one where there are several.
template <class T, class G, int C, int N> BARACUDA_HD void sum_columns(const RowsSum& p, int64_t c, int count) {
  using V = Pack<Acc<T>, N>;
  constexpr int kBytes = C * N * int(sizeof(T));
  const int64_t row_bytes = (p.end - p.begin) * int64_t(sizeof(T)), ahead = row_bytes > kFetchAhead / 4 ? 4 : row_bytes < kFetchAhead / 128 ? 128 : kFetchAhead / row_bytes;
  const T* dy = static_cast<const T*>(p.dy) + c;
  const int width = C > 1 ? N : count;
  V low[C];
  auto group = [&](int64_t begin, int64_t end) __attribute__((always_inline)) {
    for (int k = 0; k < C; ++k) low[k] = -0.0;
    for (int64_t j = begin; j < end; ++j) {
      const T* row = dy + p.at[j];
      if (C > 1 && j + ahead < p.known)
        for (int64_t b = 0; b < kBytes; b += 64) __builtin_prefetch(reinterpret_cast<const char*>(dy + p.at[j + ahead]) + b, 0, 2);
      for (int k = 0; k < C; ++k) low[k] = low[k] + get<N>(row + k * N, width);
    }
  };
  if (p.count <= kGroup) group(0, p.count);  // the sum of one group
  else {
    embedding::GroupSum<V> sum[C];
    for (int64_t i = 0, number = 1; i < p.count; i += kGroup, ++number) {
      group(i, p.count - i < kGroup ? p.count : i + kGroup);
      for (int k = 0; k < C; ++k) sum[k].add(low[k], number);
    }
    for (int k = 0; k < C; ++k) low[k] = sum[k].sum();
  }
  G* out = static_cast<G*>(p.out) + c;
  if constexpr (C % 2 == 0 && !(sizeof(Acc<T>) == 8 && sizeof(G) == 4)) {  // whole lines of halves
    for (int k = 0; k < C; k += 2) {
      if (p.accumulate) low[k] = load<N>(out + k * N) + low[k], low[k + 1] = load<N>(out + (k + 1) * N) + low[k + 1];
      store_twice<G, N>(out + k * N, low[k], low[k + 1], p.past);
    }
  } else {
    for (int k = 0; k < C; ++k) put<Acc<T>, G, N>(out + k * N, low[k], count, p.accumulate, p.past);
  }
}
template <class T, class G> void sum_rows(const RowsSum& p) {
  constexpr int N = kLanes<Acc<T>>, C = 4;
  int64_t c = p.begin;
  for (; c + C * N <= p.end; c += C * N) sum_columns<T, G, C, N>(p, c, N);
  for (; c + N <= p.end; c += N) sum_columns<T, G, 1, N>(p, c, N);
  if (c < p.end) sum_columns<T, G, 1, N>(p, c, int(p.end - c));
}
template <class T, class G> void sum_block(const RowsBlock& p) {
  const int64_t row_bytes = p.width * int64_t(sizeof(G)), rows = kFetchAhead / (row_bytes + 1), ahead = rows < 1 ? 1 : rows > 64 ? 64 : rows;
  const int64_t total = p.rows > 0 ? p.ends[p.rows - 1] : 0;
  const T* dy = static_cast<const T*>(p.dy);
  char* out = static_cast<char*>(p.out);
  for (int64_t j = 0; j < total && j < ahead; ++j) __builtin_prefetch(dy + p.at[j], 0, 2);
  // Rows of one occurrence are copied; wide ones wait until there are enough to go side by side.
  void* to[kSideBySide];
  const void *from[kSideBySide], *next[kSideBySide];
  int waiting = 0;
  for (int64_t v = 0, first = 0; v < p.rows; first = p.ends[v++], out += p.pitch) {
    const int64_t count = p.ends[v] - first, known = total - first;
    const int64_t* at = p.at + first;
    if (count == 0) {
      if (p.accumulate) continue;
      if (p.past) p.move->zero_past(out, row_bytes);
      else __builtin_memset(out, 0, size_t(row_bytes));
    } else if (std::is_same_v<T, G> && count == 1 && p.past && row_bytes >= kSideBySideFrom) {
      to[waiting] = out, from[waiting] = dy + at[0], next[waiting] = dy + at[known > kSideBySide ? kSideBySide : 0];
      if (++waiting == kSideBySide) p.move->copy_rows_past(to, from, row_bytes, next), waiting = 0;
    } else if (std::is_same_v<T, G> && count == 1 && p.past && known > ahead)
      p.move->copy_past_fetching(out, dy + at[0], row_bytes, dy + at[ahead]);
    else if (count <= p.most) sum_rows<T, G>({dy, at, count, known, out, 0, p.width, p.accumulate, p.past});
  }
  for (int k = 0; k < waiting; ++k) p.move->copy_past(to[k], from[k], row_bytes);
}
constexpr EmbeddingKernels make() {
  return {by_dtype<void (*)(const RowsSum&)>(Floating{}, []<class T>() { return &sum_rows<T, T>; }),
          by_dtype<void (*)(const RowsSum&)>(Floating{}, []<class T>() { return &sum_rows<T, float>; }),
          by_dtype<void (*)(const RowsBlock&)>(Floating{}, []<class T>() { return &sum_block<T, T>; }),
          by_dtype<void (*)(const RowsBlock&)>(Floating{}, []<class T>() { return &sum_block<T, float>; })};
}

}  // namespace
extern constexpr EmbeddingKernels embedding_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
