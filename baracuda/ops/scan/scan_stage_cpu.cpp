// Tiles: 16 lanes of up to 64 elements from memory into L1 as rows of 16, and back. Lanes that are dense along the axis
// (either direction) are transposed in registers, N x N elements at a time; lanes side by side are copied row by row.
#include "baracuda/math/element.hpp"
#include "baracuda/ops/scan/scan_cpu.hpp"
#include <utility>

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> using TileOf = std::conditional_t<std::is_integral_v<T>, int64_t, Acc<T>>;
// bool is read as a byte: any value but 0 is true.
template <class T> using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <int N, class T> BARACUDA_HD Pack<TileOf<T>, N> get(const Stored<T>* p) {
  using E = TileOf<T>;
  if constexpr (!std::is_integral_v<T>) return load<N>(p);
  else if constexpr (N == 1) return Pack<E, 1>::of(std::is_same_v<T, bool> ? E(*p != 0) : E(*p));
  else {
    Raw<Stored<T>, N> raw;
    __builtin_memcpy(&raw, p, sizeof raw);
    auto wide = __builtin_convertvector(raw, Raw<E, N>);
    if constexpr (std::is_same_v<T, bool>) wide = -(wide != 0);
    return Pack<E, N>::of(wide);
  }
}
template <int N, class T> BARACUDA_HD void put(Stored<T>* p, Pack<TileOf<T>, N> v) {
  if constexpr (!std::is_integral_v<T>) store<T, N>(p, v);
  else if constexpr (N == 1) *p = Stored<T>(v.v);
  else {
    const auto raw = __builtin_convertvector(v.v, Raw<Stored<T>, N>);
    __builtin_memcpy(p, &raw, sizeof raw);
  }
}

template <class E, int N, int... L> BARACUDA_HD Raw<E, N> interleave(Raw<E, N> a, Raw<E, N> b, int half, std::integer_sequence<int, L...>) {
  return half ? __builtin_shufflevector(a, b, (L / 2 + N / 2 + L % 2 * N)...) : __builtin_shufflevector(a, b, (L / 2 + L % 2 * N)...);
}
// log2 N rounds of interleaving row i with row i + N / 2.
template <class E, int N> BARACUDA_HD void transpose(Pack<E, N>* v) {
  if constexpr (N > 1) {
    constexpr auto lanes = std::make_integer_sequence<int, N>{};
#pragma GCC unroll 4
    for (int round = 1; round < N; round *= 2) {
      Pack<E, N> w[N];
#pragma GCC unroll 16
      for (int i = 0; i < N / 2; ++i) {
        w[2 * i] = Pack<E, N>::of(interleave<E, N>(v[i].v, v[i + N / 2].v, 0, lanes));
        w[2 * i + 1] = Pack<E, N>::of(interleave<E, N>(v[i].v, v[i + N / 2].v, 1, lanes));
      }
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) v[i] = w[i];
    }
  }
}

// Types whose registers may be written past the caches.
template <class T> inline constexpr bool kStreams = std::is_same_v<TileOf<T>, T> || kIsHalf<T>;
template <int N, class T> BARACUDA_HD void put_past(Stored<T>* p, Pack<TileOf<T>, N> v) {
  if constexpr (kStreams<T>) store_past<T, N>(p, v);
}
// Whether every lane begins with a line; a falling one whose elements are `last` bytes, ends with one.
BARACUDA_HD bool aligned(const ScanTile& s, int lanes, int last = 0) {
  uintptr_t bits = 0;
  for (int l = 0; l < lanes; ++l) bits |= uintptr_t(s.lane[l]) + last;
  return bits % 64 == 0;
}

// Lanes beyond 16 are further tiles.
BARACUDA_HD int tile_index(int i, int l) { return (l / kScanLanes * kScanSteps + i) * kScanLanes + l % kScanLanes; }

template <class T> void stage_in(const ScanTile& s) {
  using E = TileOf<T>;
  using P = Stored<T>;
  constexpr int N = kLanes<E>;
  E* const tile = static_cast<E*>(s.tile);
  const int steps = s.steps, lanes = s.lanes;
  const int64_t step = s.step, ahead = s.ahead;
  const E fill = E(s.fill);
  if (s.dense) {
    const P* row = reinterpret_cast<const P*>(s.lane[0]);
    for (int i = 0; i < steps; ++i, row += step) {
      int l = 0;
      for (; l + N <= lanes; l += N) {
        if (l * sizeof(P) % 64 == 0) __builtin_prefetch(reinterpret_cast<const char*>(row + l) + ahead);
        store<E, N>(tile + tile_index(i, l), get<N, T>(row + l));
      }
      for (; l < lanes; ++l) tile[tile_index(i, l)] = get<1, T>(row + l).v;
      for (; l % kScanLanes; ++l) tile[tile_index(i, l)] = fill;
    }
    return;
  }
  if (step != 1 && step != -1) {
    for (int l = 0; l < kScanLanes; ++l) {
      const P* x = reinterpret_cast<const P*>(s.lane[l]);
      const int count = s.count[l];
      for (int i = 0; i < steps; ++i) tile[i * kScanLanes + l] = i < count ? get<1, T>(x + i * step).v : fill;
    }
    return;
  }
  const bool up = step == 1;
  for (int g = 0; g < kScanLanes; g += N) {
    const P* x[N];
    int count[N], least = kScanSteps;
    for (int j = 0; j < N; ++j) {
      x[j] = reinterpret_cast<const P*>(s.lane[g + j]), count[j] = s.count[g + j];
      least = count[j] < least ? count[j] : least;
    }
    for (int i = 0; i < steps; i += N) {
      Pack<E, N> v[N];
      if (i + N <= least) {
        const int64_t at = up ? i : -i - (N - 1);
        for (int j = 0; j < N; ++j) {
          if (i % 16 == 0) __builtin_prefetch(reinterpret_cast<const char*>(x[j] + at) + ahead);
          v[j] = get<N, T>(x[j] + at);
        }
      } else {
        for (int j = 0; j < N; ++j) {
          alignas(64) E buffer[N];
          for (int q = 0; q < N; ++q) buffer[up ? q : N - 1 - q] = i + q < count[j] ? get<1, T>(x[j] + (up ? i + q : -i - q)).v : fill;
          v[j] = load<N>(buffer);
        }
      }
      transpose(v);
      E* to = tile + (up ? i : i + N - 1) * kScanLanes + g;
      const int next = up ? kScanLanes : -kScanLanes;
      for (int r = 0; r < N; ++r) store<E, N>(to + r * next, v[r]);
    }
  }
}
template <class T> void stage_out(const ScanTile& s) {
  using E = TileOf<T>;
  using P = Stored<T>;
  constexpr int N = kLanes<E>;
  const E* const tile = static_cast<const E*>(s.tile);
  const int steps = s.steps, lanes = s.lanes;
  const int64_t step = s.step;
  if (s.dense) {
    P* row = reinterpret_cast<P*>(s.lane[0]);
    const bool past = kStreams<T> && s.past && aligned(s, 1) && step % N == 0;
    for (int i = 0; i < steps; ++i, row += step) {
      int l = 0;
      if (past)
        for (; l + N <= lanes; l += N) put_past<N, T>(row + l, load<N>(tile + tile_index(i, l)));
      for (; l + N <= lanes; l += N) {
        if (l * sizeof(P) % 64 == 0) __builtin_prefetch(reinterpret_cast<const char*>(row + l) + s.ahead, 1);
        put<N, T>(row + l, load<N>(tile + tile_index(i, l)));
      }
      for (; l < lanes; ++l) put<1, T>(row + l, load<1>(tile + tile_index(i, l)));
    }
    return;
  }
  if (step != 1 && step != -1) {
    for (int l = 0; l < lanes; ++l) {
      P* y = reinterpret_cast<P*>(s.lane[l]);
      const int count = s.count[l];
      for (int i = 0; i < count; ++i) put<1, T>(y + i * step, load<1>(tile + i * kScanLanes + l));
    }
    return;
  }
  const bool up = step == 1, past = kStreams<T> && s.past && aligned(s, lanes, up ? 0 : int(sizeof(P)));
  for (int g = 0; g < lanes; g += N) {
    const int own = lanes - g < N ? lanes - g : N;
    P* y[N];
    int count[N], least = own == N ? kScanSteps : 0;
    for (int j = 0; j < own; ++j) {
      y[j] = reinterpret_cast<P*>(s.lane[g + j]), count[j] = s.count[g + j];
      least = count[j] < least ? count[j] : least;
    }
    // Less than a line at a time would leave the processor with parts of lines: a lane is gathered first.
    constexpr bool kGather = N * sizeof(P) < 64;
    alignas(64) P gathered[kGather ? N : 1][kGather ? kScanSteps : 1];
    const bool gather = past && kGather && least == kScanSteps;
    for (int i = 0; i < steps; i += N) {
      Pack<E, N> v[N];
      const E* from = tile + (up ? i : i + N - 1) * kScanLanes + g;
      const int next = up ? kScanLanes : -kScanLanes;
      for (int r = 0; r < N; ++r) v[r] = load<N>(from + r * next);
      transpose(v);
      const int64_t at = up ? i : -i - (N - 1);
      if (i + N <= least) {
        if constexpr (kGather)
          if (gather) {
            for (int j = 0; j < N; ++j) put<N, T>(&gathered[j][up ? i : kScanSteps - N - i], v[j]);
            continue;
          }
        if (past && !kGather) for (int j = 0; j < N; ++j) put_past<N, T>(y[j] + at, v[j]);
        else
          for (int j = 0; j < N; ++j) {
            if (i % 16 == 0) __builtin_prefetch(reinterpret_cast<const char*>(y[j] + at) + s.ahead, 1);
            put<N, T>(y[j] + at, v[j]);
          }
        continue;
      }
      for (int j = 0; j < own; ++j) {
        alignas(64) E buffer[N];
        store<E, N>(buffer, v[j]);
        if (i + N <= count[j]) put<N, T>(y[j] + at, v[j]);
        else for (int q = 0; i + q < count[j]; ++q) put<1, T>(y[j] + (up ? i + q : -i - q), load<1>(buffer + (up ? q : N - 1 - q)));
      }
    }
    if constexpr (kGather)
      if (gather)
        for (int j = 0; j < N; ++j)
          for (int i = 0; i < kScanSteps * int(sizeof(P)); i += kLanes<float> * 4)
            store_past<float, kLanes<float>>(reinterpret_cast<float*>(reinterpret_cast<char*>(y[j] - (up ? 0 : kScanSteps - 1)) + i),
                                             load<kLanes<float>>(reinterpret_cast<const float*>(reinterpret_cast<const char*>(gathered[j]) + i)));
  }
}
template <class T> double at(const void* p, int64_t i) { return to_double(static_cast<const T*>(p)[i]); }

template <class... T> constexpr ScanStage make(TypeList<T...>) {
  ScanStage s;
  ((s.in[kDTypeOf<T>] = &stage_in<T>, s.out[kDTypeOf<T>] = &stage_out<T>), ...);
  s.at = by_dtype<double (*)(const void*, int64_t)>(Floating{}, []<class F>() { return &at<F>; });
  return s;
}

}  // namespace
extern constexpr ScanStage scan_stage =
    make(TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>{});
}  // namespace BARACUDA_ISA
}  // namespace baracuda
