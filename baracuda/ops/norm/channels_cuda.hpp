#pragma once
// What the kernel files of BatchNorm and GroupNorm export to their rows. A list is what one pair of statistics is of: a channel over all
// samples, or a group of channels of a sample; the sums of GroupNorm's gradient are of cells, a channel of a sample.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

// Elements of a list that a block sums at a time, and how many numbers of the accumulator type such sums are.
inline constexpr int kListChunk = 4096;
inline int64_t list_chunks(int64_t n) { return (n + kListChunk - 1) / kListChunk; }
inline constexpr int kSumNumbers = 3;
// What a list keeps: normalized() and, for a gradient, input_gradient() take it.
template <class A> struct alignas(8 * sizeof(A)) ListKept { A shift, rest, scale, mean_g, minus_dot, spare[3]; };

// A vector of a number per channel, null: not there; f32, else of x's dtype.
struct ChannelVector {
  void* data = nullptr;
  int64_t stride = 0;
  bool f32 = false;
};
// Sums of chunks of lists; moments of x, or sums of a gradient with what `kept` has of list l / cells: a list is as many cells.
struct ListSumsCuda {
  device::Walk<2> walk;  // x dy, over [lists, n]
  const void *x, *dy;    // dy null: moments
  int64_t lists, n, cells;
  const void* kept;
  void* sums;            // [lists, chunks]
  ChannelVector weight{};  // of the elements of a list, for dy; one_plus: 1 is added
  bool one_plus = false;
  int team = 1;          // set at the launch
};
// The same sums where lists are channels next to one another, in 16 bytes each, and a list's elements stand in equal steps.
struct ColumnSumsCuda {
  const void *x, *dy;  // dy null: moments
  int64_t x_step, dy_step, channels, n;
  const void* kept;
  void* sums;          // [channels, chunks]
};
// Where the statistics of lists come from: sums of x, the caller's mean and rstd, or mean and variance. Into `kept`.
enum class ListStatistics : uint8_t { sums, saved, given };
struct ListJoinCuda {
  device::Walk<2> walk;  // as for the sums: x, where the variance leaves the range
  device::Walk<2> found; // mean rstd (given: mean var), over the lists
  const void *x, *sums;
  void *kept, *mean, *rstd;
  int64_t lists, n;
  double eps, momentum;
  ChannelVector running_mean, running_var;
  ListStatistics from;
  bool f32_given = false;  // given: mean and var are f32, else of x's dtype
  bool rms = false;        // the mean counts as 0
};
// Sums of a gradient, [lists, cells, chunks], to what dx is made with, in `kept`, and dweight and dbias: of each cell in f64, or of each channel.
struct GradientJoinCuda {
  const void* sums;
  void* kept;
  int64_t lists, cells, n, chunks;  // n: elements of a list
  int64_t channels;
  ChannelVector weight, dweight, dbias;  // of channels, where a list is a channel
  double *cell_dweight, *cell_dbias;     // else [lists, cells]
  bool given;                            // mean and variance were: the gradient takes no means
  bool rms = false;                      // the mean counts as 0
};
// y or dx, element by element.
enum class ChannelWrite : uint8_t { forward, backward, scaled };
struct ChannelWriteCuda {
  device::Walk<3> walk;  // x dy y, over [samples, channels, span], or, `last`, [samples, span, channels]
  const void *x, *dy, *kept;
  void* y;
  int64_t channels, span, each;  // each: channels of a list's group; 0: a list is a channel
  ChannelVector weight, bias;
  bool last;
  device::Divisor by_span, by_channels, by_each, by_sample;
};
// All of it in one kernel, where a block holds a list, and a list is runs of neighbours: list l of a tensor begins at l / per major + l % per minor, a
// run `outer` behind the one before, all in whole 16 bytes.
struct HeldTensorCuda { int64_t major, minor, outer; };
struct HeldListsCuda {
  ListJoinCuda join;
  GradientJoinCuda gradient;  // of a backward, whose lists are channels
  const void *x, *dy;         // dy null: forward
  void* y;                    // or dx
  ChannelVector weight, bias;
  int64_t channels, span;     // span: elements of a channel in a list of several
  int64_t each;               // channels of a list; 0: a list is a channel
  HeldTensorCuda at_x{}, at_dy{}, at_y{};
  device::Divisor per{}, run{};
  int team = 1;               // set at the launch
};
inline constexpr int kHeldChunks = 2;  // of a list, at most: their threads share the registers
struct ChannelCudaKernels {
  ByDType<int (*)(const ListSumsCuda&, void* stream)> sums;
  ByDType<int (*)(const ListJoinCuda&, void* stream)> join;
  ByDType<int (*)(const GradientJoinCuda&, void* stream)> join_gradient;
};
extern const ChannelCudaKernels channel_cuda_kernels;
extern const ByDType<int (*)(const ColumnSumsCuda&, void* stream)> channel_column_sums_cuda;
extern const ByDType<int (*)(const HeldListsCuda&, void* stream)> channel_held_cuda;
extern const ByDType<int (*)(const ChannelWriteCuda&, ChannelWrite, void* stream)> channel_write_cuda;

}  // namespace baracuda
