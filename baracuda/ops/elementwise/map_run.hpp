#pragma once
#include <cstdint>

namespace baracuda {

// The arithmetic of a map: n elements from dense inputs to dense outputs, with the parameters of its functor.
using MapRun = void (*)(const double* parameters, const void* const* in, void* const* out, int64_t n);

// A loop, and how halves reach a loop that is written for f32: block by block through buffers in L1.
struct MapKernel {
  MapRun run = nullptr;
  void (*widen)(const void* half, float* to, int64_t n) = nullptr;  // null: the loop takes the elements as they are
  void (*narrow)(const float* from, void* half, int64_t n) = nullptr;
  unsigned widened = 0;  // bit k: input k is half; the others are bool
  int inputs = 0, outputs = 0;
  int out_bytes = 2;     // of an output's element; 2: half

  MapKernel(MapRun run) : run(run) {}
  void operator()(const double* parameters, const void* const* in, void* const* out, int64_t n) const {
    widen ? staged(parameters, in, out, n) : run(parameters, in, out, n);
  }

 private:
  void staged(const double* parameters, const void* const* in, void* const* out, int64_t n) const;
};

}  // namespace baracuda
