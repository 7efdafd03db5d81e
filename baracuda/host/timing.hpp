#pragma once
// What benchmarks are made of: wall time, the median of runs, and a copy that shows what the memory gives.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#include "baracuda/host/thread_team.hpp"

namespace baracuda {

inline double seconds(auto&& f) {
  const auto t0 = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
}
// The value at `part` of the sorted list; 0 of none.
inline double quantile(std::vector<double> v, double part) {
  if (v.empty()) return 0;
  const auto at = v.begin() + std::ptrdiff_t(std::min(part * double(v.size()), double(v.size() - 1)));
  std::nth_element(v.begin(), at, v.end());
  return *at;
}
inline double median(const std::vector<double>& v) { return quantile(v, 0.5); }

// n bytes (whole 64s, both sides aligned to 16) read and written past the caches, by the team in pieces of 256 KiB.
inline void copy_past_caches(const void* from, void* to, int64_t n) {
  constexpr int64_t kPiece = 256 << 10;
  parallel_for((n + kPiece - 1) / kPiece, 1, threads(), [&](int64_t begin, int64_t end, int) {
    const int64_t first = begin * kPiece, last = std::min(end * kPiece, n);
#if defined(__SSE2__)
    const auto* x = static_cast<const __m128i*>(from);
    auto* y = static_cast<__m128i*>(to);
    for (int64_t i = first / 16; i < last / 16; i += 4)
      for (int j = 0; j < 4; ++j) _mm_stream_si128(y + i + j, _mm_load_si128(x + i + j));
    _mm_sfence();
#else
    std::memcpy(static_cast<char*>(to) + first, static_cast<const char*>(from) + first, size_t(last - first));
#endif
  });
}

}  // namespace baracuda
