#pragma once
#include <cstdint>

namespace baracuda {

// The arithmetic of a map: n elements from dense inputs to dense outputs, with the parameters of its functor.
using MapRun = void (*)(const double* parameters, const void* const* in, void* const* out, int64_t n);

// A loop, and how halves reach a loop that is written for f32: block by block through buffers in L1; or a table of its results.
struct MapKernel {
  MapRun run = nullptr;
  void (*widen)(const void* half, float* to, int64_t n) = nullptr;  // null: the loop takes the elements as they are
  void (*narrow)(const float* from, void* half, int64_t n, bool past) = nullptr;
  unsigned widened = 0;  // bit k: input k is half; the others are bool
  int inputs = 0, outputs = 0;
  int out_bytes = 2;     // of an output's element; 2: half
  const void* table = nullptr;  // y = table[x], or dx = dy table[x]
  void (*look_up)(const void* table, const void* x, void* y, int64_t n, bool past) = nullptr;
  void (*look_up_times)(const void* table, const void* dy, const void* x, void* dx, int64_t n, bool past) = nullptr;

  MapKernel(MapRun run) : run(run) {}
  // It can write past the caches itself, as it goes; else that is a copy of a block.
  bool can_write_past() const { return widen && out_bytes == 2; }
  void operator()(const double* parameters, const void* const* in, void* const* out, int64_t n, bool past = false) const {
    if (look_up) look_up(table, in[0], out[0], n, past);
    else if (look_up_times) look_up_times(table, in[0], in[1], out[0], n, past);
    else widen ? staged(parameters, in, out, n, past) : run(parameters, in, out, n);
  }

 private:
  void staged(const double* parameters, const void* const* in, void* const* out, int64_t n, bool past) const;
};

}  // namespace baracuda
