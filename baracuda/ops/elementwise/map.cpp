#include "baracuda/ops/elementwise/map.hpp"
#include <algorithm>
#include <cstring>
#include <functional>
#include "baracuda/host/move.hpp"
#include "baracuda/host/past.hpp"

namespace baracuda {
namespace {

constexpr int64_t kMapBytes = kMapBlock * 16;  // of a block of the widest elements
constexpr int64_t kPastBytes = 2048;           // computed at a time on the way past the caches
constexpr int64_t kPastPiece = 256 << 10;      // bytes: a piece waits for its last lines to leave, and its streams begin anew

// While a block is computed, what is read 4 KiB later is asked for.
void fetch_ahead(const void* block, int64_t bytes) {
  constexpr int64_t kAhead = 4096;
  for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(static_cast<const char*>(block) + kAhead + b, 0, 2);
}
template <class T> void gather(T* to, const T* from, int64_t n, int64_t stride) {
  if (stride == 1) std::memcpy(to, from, size_t(n) * sizeof(T));
  else if (stride == 0) std::fill(to, to + n, *from);
  else for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
}
template <class T> void scatter(T* to, const T* from, int64_t n, int64_t stride) {
  if (stride == 1) std::memcpy(to, from, size_t(n) * sizeof(T));
  else for (int64_t i = 0; i < n; ++i) to[i * stride] = from[i];
}
struct Wide { uint64_t a, b; };
template <class F> void with_element(int bytes, F f) {
  switch (bytes) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: return f(Wide{});
  }
}
// Calls f(offset of the first element, first index in the block, count) for the parts of rows that [i, i + n) touches.
template <class F> void for_rows(const Strided<kMapOperands>& w, int k, int64_t i, int64_t n, F f) {
  int64_t row = i / w.inner, column = i % w.inner, coordinate[kMaxRank] = {}, offset = 0;
  for (int a = w.rank - 2; a >= 0; --a) coordinate[a] = row % w.extent[a], row /= w.extent[a], offset += coordinate[a] * w.stride[k][a];
  for (int64_t done = 0; done < n;) {
    const int64_t count = std::min(w.inner - column, n - done);
    f(offset + column * w.inner_stride(k), done, count);
    done += count, column = 0;
    for (int a = w.rank - 2; a >= 0; --a) {
      offset += w.stride[k][a];
      if (++coordinate[a] < w.extent[a]) break;
      offset -= w.extent[a] * w.stride[k][a], coordinate[a] = 0;
    }
  }
}

}  // namespace

void MapWalk::init(const Shape& shape, std::span<const MapOperand> in, std::span<const MapOperand> out, bool sort) {
  operands = int(in.size() + out.size());
  const MapOperand* all[kMapOperands];
  for (size_t k = 0; k < in.size(); ++k) all[k] = &in[k];
  for (size_t k = 0; k < out.size(); ++k) all[in.size() + k] = &out[k];
  // The first present output leads, or, without one, the first present input.
  const MapOperand* lead = nullptr;
  for (const MapOperand& o : out) if (o.data && !lead) lead = &o;
  for (const MapOperand& o : in) if (o.data && !lead) lead = &o;
  int axis[kMaxRank];
  for (int i = 0; i < shape.rank; ++i) axis[i] = i;
  if (sort && lead) {
    auto step = [&](int i) { return std::abs(lead->strides[i]); };
    for (int i = 1; i < shape.rank; ++i)
      for (int j = i; j > 0 && shape[axis[j]] > 1 && step(axis[j - 1]) < step(axis[j]); --j) std::swap(axis[j - 1], axis[j]);
  }
  Shape ordered;
  Strides strides[kMapOperands];
  const Strides* pointers[kMapOperands];
  for (int i = 0; i < shape.rank; ++i) ordered.push_back(shape[axis[i]]);
  for (int k = 0; k < kMapOperands; ++k) {
    const MapOperand& o = k < operands && all[k]->data ? *all[k] : lead ? *lead : *all[0];
    for (int i = 0; i < shape.rank; ++i) strides[k].push_back(o.strides.rank ? o.strides[axis[i]] : 0);
    pointers[k] = &strides[k];
  }
  w = walk_of<kMapOperands>(ordered, pointers);
  for (int k = 0; k < operands; ++k) {
    data[k] = static_cast<char*>(all[k]->data), bytes[k] = all[k]->bytes, truth[k] = all[k]->truth;
    int64_t step = 1;
    dense[k] = data[k] != nullptr;
    for (int i = w.rank - 1; i >= 0; --i) dense[k] = dense[k] && (w.extent[i] == 1 || w.stride[k][i] == step), step *= w.extent[i];
  }
}
bool MapWalk::direct() const {
  for (int k = 0; k < operands; ++k)
    if (!data[k] || w.inner_stride(k) != 1) return false;
  return w.rows == 1 || w.inner >= kMapBlock / 2;
}
bool MapWalk::past(int k, int inputs) const {
  if (!dense[k] || size() < kPastCaches / bytes[k] || reinterpret_cast<uintptr_t>(data[k]) % 64) return false;
  for (int j = 0; j < inputs; ++j) if (data[j] == data[k]) return false;
  return w.rows == 1 || w.inner < kMapBlock / 2 || w.inner * bytes[k] % 64 == 0;  // every stretch begins at a line
}
int64_t MapWalk::offset(int k, int64_t i) const {
  if (dense[k]) return i;
  int64_t row = i / w.inner, at = i % w.inner * w.inner_stride(k);
  for (int a = w.rank - 2; a >= 0; --a) at += row % w.extent[a] * w.stride[k][a], row /= w.extent[a];
  return at;
}
void* MapWalk::fetch(int k, int64_t i, int64_t n, void* block, bool read) const {
  if (in_place(k, i, n)) return data[k] + offset(k, i) * bytes[k];
  if (!read) return block;
  if (!data[k]) return std::memset(block, 0, size_t(n) * size_t(bytes[k]));
  with_element(bytes[k], [&]<class T>(T) {
    for_rows(w, k, i, n, [&](int64_t at, int64_t first, int64_t count) {
      gather(static_cast<T*>(block) + first, reinterpret_cast<const T*>(data[k]) + at, count, w.inner_stride(k));
    });
  });
  return block;
}
const void* MapWalk::read(int k, int64_t i, int64_t n, void* block) const {
  const void* const at = fetch(k, i, n, block, true);
  if (!truth[k]) return at;
  for (int64_t j = 0; j < n; ++j) static_cast<uint8_t*>(block)[j] = static_cast<const uint8_t*>(at)[j] != 0;
  return block;
}
void MapWalk::put(int k, int64_t i, int64_t n, void* from) const {
  if (!data[k] || in_place(k, i, n)) return;
  with_element(bytes[k], [&]<class T>(T) {
    for_rows(w, k, i, n, [&](int64_t at, int64_t first, int64_t count) {
      scatter(reinterpret_cast<T*>(data[k]) + at, static_cast<const T*>(from) + first, count, w.inner_stride(k));
    });
  });
}

void MapKernel::staged(const double* parameters, const void* const* in, void* const* out, int64_t n, bool past) const {
  constexpr int64_t kStage = 512;
  alignas(64) float x[kMapOperands][kStage], y[kMapOperands][kStage];
  const void* from[kMapOperands];
  void* to[kMapOperands];
  for (int64_t i = 0; i < n; i += kStage) {
    const int64_t m = std::min(kStage, n - i);
    for (int k = 0; k < inputs; ++k) {
      from[k] = x[k];
      if (!(widened >> k & 1)) from[k] = static_cast<const char*>(in[k]) + i;
      else if (k > 0 && in[k] == in[0] && (widened & 1)) from[k] = x[0];
      else {
        if (past) fetch_ahead(static_cast<const uint16_t*>(in[k]) + i, 2 * m);
        widen(static_cast<const uint16_t*>(in[k]) + i, x[k], m);
      }
    }
    for (int k = 0; k < outputs; ++k) to[k] = out_bytes == 2 ? static_cast<void*>(y[k]) : static_cast<char*>(out[k]) + i * out_bytes;
    run(parameters, from, to, m);
    if (out_bytes == 2)
      for (int k = 0; k < outputs; ++k) narrow(y[k], static_cast<uint16_t*>(out[k]) + i, m, past);
  }
}

void run_map(const Shape& shape, std::span<const MapOperand> in, std::span<const MapOperand> out, const MapKernel& run,
             const double* parameters, int threads) {
  MapWalk walk;
  walk.init(shape, in, out);
  const int inputs = int(in.size());
  const auto copy_past = BARACUDA_ISA_PICK(move_kernels).copy_past;
  bool past[kMapOperands] = {}, any_past = false;
  const bool copied = std::any_of(walk.truth, walk.truth + inputs, std::identity());
  int64_t step = !walk.direct() ? kMapBlock : copied ? kMapBytes : INT64_MAX;
  bool all_past = true;
  for (int k = inputs; k < walk.operands; ++k) {
    past[k] = walk.past(k, inputs);
    any_past = any_past || past[k], all_past = all_past && past[k];
  }
  const bool by_run = all_past && run.can_write_past();
  for (int k = inputs; k < walk.operands; ++k) {
    past[k] = past[k] && !by_run;
    if (past[k]) step = std::min(step, walk.direct() ? kPastBytes / walk.bytes[k] : kMapBlock);
  }
  parallel_for(walk.size(), any_past ? std::max(kPiece, kPastPiece / walk.bytes[inputs]) : kPiece, threads, [&](int64_t begin, int64_t end, int) {
    alignas(64) char block[kMapOperands][kMapBytes];
    const void* x[kMapOperands];
    void* y[kMapOperands];
    for (int64_t i = begin, n; i < end; i += n) {
      n = walk.stretch(i, std::min(step, end - i));
      for (int k = 0; k < inputs; ++k) {
        x[k] = walk.read(k, i, n, block[k]);
        if (any_past && !by_run && x[k] != block[k]) fetch_ahead(x[k], n * walk.bytes[k]);
      }
      for (int k = inputs; k < walk.operands; ++k) y[k - inputs] = past[k] ? block[k] : walk.fetch(k, i, n, block[k], false);
      run(parameters, x, y, n, by_run);
      for (int k = inputs; k < walk.operands; ++k)
        if (past[k]) copy_past(walk.data[k] + i * walk.bytes[k], block[k], n * walk.bytes[k]);
        else walk.put(k, i, n, y[k - inputs]);
    }
    if (any_past) past_fence();
  });
}

}  // namespace baracuda
