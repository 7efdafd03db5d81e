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

template <class T> void stage_in(const ScanTile& s) {
  using E = TileOf<T>;
  using P = Stored<T>;
  constexpr int N = kLanes<E>;
  E* tile = static_cast<E*>(s.tile);
  if (s.dense) {
    for (int i = 0; i < s.steps; ++i) {
      const P* row = reinterpret_cast<const P*>(s.lane[0]) + i * s.step;
      __builtin_prefetch(reinterpret_cast<const char*>(row) + s.ahead);
      int l = 0;
      for (; l + N <= s.lanes; l += N) store<E, N>(tile + i * kScanLanes + l, get<N, T>(row + l));
      for (; l < s.lanes; ++l) tile[i * kScanLanes + l] = get<1, T>(row + l).v;
      for (; l < kScanLanes; ++l) tile[i * kScanLanes + l] = E(s.fill);
    }
    return;
  }
  if (s.step != 1 && s.step != -1) {
    for (int l = 0; l < kScanLanes; ++l) {
      const P* x = reinterpret_cast<const P*>(s.lane[l]);
      for (int i = 0; i < s.steps; ++i) tile[i * kScanLanes + l] = i < s.count[l] ? get<1, T>(x + i * s.step).v : E(s.fill);
    }
    return;
  }
  const bool up = s.step == 1;
  for (int g = 0; g < kScanLanes; g += N)
    for (int i = 0; i < s.steps; i += N) {
      Pack<E, N> v[N];
      for (int j = 0; j < N; ++j) {
        const P* x = reinterpret_cast<const P*>(s.lane[g + j]) + (up ? i : -i);
        const int left = s.count[g + j] - i;
        if (left >= N) {
          const P* from = up ? x : x - (N - 1);
          if (i % 16 == 0) __builtin_prefetch(reinterpret_cast<const char*>(from) + s.ahead);
          v[j] = get<N, T>(from);
          continue;
        }
        alignas(64) E buffer[N];
        for (int q = 0; q < N; ++q) buffer[up ? q : N - 1 - q] = q < left ? get<1, T>(x + (up ? q : -q)).v : E(s.fill);
        v[j] = load<N>(buffer);
      }
      transpose(v);
      for (int r = 0; r < N; ++r) store<E, N>(tile + (i + (up ? r : N - 1 - r)) * kScanLanes + g, v[r]);
    }
}
template <class T> void stage_out(const ScanTile& s) {
  using E = TileOf<T>;
  using P = Stored<T>;
  constexpr int N = kLanes<E>;
  const E* tile = static_cast<const E*>(s.tile);
  if (s.dense) {
    for (int i = 0; i < s.steps; ++i) {
      P* row = reinterpret_cast<P*>(s.lane[0]) + i * s.step;
      int l = 0;
      for (; l + N <= s.lanes; l += N) put<N, T>(row + l, load<N>(tile + i * kScanLanes + l));
      for (; l < s.lanes; ++l) put<1, T>(row + l, load<1>(tile + i * kScanLanes + l));
    }
    return;
  }
  if (s.step != 1 && s.step != -1) {
    for (int l = 0; l < s.lanes; ++l) {
      P* y = reinterpret_cast<P*>(s.lane[l]);
      for (int i = 0; i < s.count[l]; ++i) put<1, T>(y + i * s.step, load<1>(tile + i * kScanLanes + l));
    }
    return;
  }
  const bool up = s.step == 1;
  for (int g = 0; g < s.lanes; g += N)
    for (int i = 0; i < s.steps; i += N) {
      Pack<E, N> v[N];
      for (int r = 0; r < N; ++r) v[up ? r : N - 1 - r] = load<N>(tile + (i + r) * kScanLanes + g);
      transpose(v);
      for (int j = 0; j < N && g + j < s.lanes; ++j) {
        P* y = reinterpret_cast<P*>(s.lane[g + j]) + (up ? i : -i);
        const int left = s.count[g + j] - i;
        if (left >= N) put<N, T>(up ? y : y - (N - 1), v[j]);
        else
          for (int q = 0; q < left; ++q) put<1, T>(y + (up ? q : -q), Pack<E, 1>::of(v[j].lane(up ? q : N - 1 - q)));
      }
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
