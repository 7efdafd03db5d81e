// y = act(gate) up; dgate = dy up act'(gate), dup = dy act(gate). Three streams forward, five backward; the floor is
// memory bandwidth for f32 and f64, arithmetic (erf, exp) or the look-ups for halves. Blocks of 256 elements: a dense block is used where
// it lies, a strided one or a tail goes through a buffer on the stack.
#include "baracuda/math/look_up.hpp"
#include "baracuda/math/twice.hpp"
#include "baracuda/ops/gated/gated_cpu.hpp"
#include "baracuda/ops/gated/gated_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kBlock = 256;
using Halves = TypeList<f16, bf16>;

// f(in, j, x, y) for the elements of a block from j on, which x holds and which lie at in[k] + j.
template <class T, int kIn, int kOut, class F> void map_piece(const GatedPiece& p, F f) {
  constexpr int N = kLanes<Acc<T>>;
  alignas(64) T buffer[kIn + kOut][kBlock] = {};
  bool past[kOut];
  for (int64_t i = 0; i < p.n; i += kBlock) {
    const int m = p.n - i < kBlock ? int(p.n - i) : kBlock;
    const T* in[kIn];
    T* out[kOut];
    for (int k = 0; k < kIn; ++k) {
      const T* from = static_cast<const T*>(p.in[k]) + i * p.in_stride[k];
      const bool direct = p.in_stride[k] == 1 && m == kBlock;
      in[k] = direct ? from : buffer[k];
      if (!direct) for (int j = 0; j < m; ++j) buffer[k][j] = from[j * p.in_stride[k]];
    }
    for (int k = 0; k < kOut; ++k) {
      const bool direct = p.out[k] && p.out_stride[k] == 1 && m == kBlock;
      out[k] = direct ? static_cast<T*>(p.out[k]) + i : buffer[kIn + k];
      past[k] = direct && p.past;
    }
    for (int j = 0; j < kBlock; j += 2 * N) {
      if (j >= m) break;
      Pack<Acc<T>, N> x[2][kIn], y[2][kOut];
      for (int k = 0; k < kIn; ++k) {
        const auto both = load_dealt<N>(in[k] + j);
        x[0][k] = both.low, x[1][k] = both.high;
      }
      f(in, j, x[0], y[0]);
      f(in, j + kSecond<T, N>, x[1], y[1]);
      for (int k = 0; k < kOut; ++k) store_dealt<T, N>(out[k] + j, y[0][k], y[1][k], past[k]);
    }
    for (int k = 0; k < kOut; ++k)
      if (p.out[k] && out[k] == buffer[kIn + k]) {
        T* to = static_cast<T*>(p.out[k]) + i * p.out_stride[k];
        for (int j = 0; j < m; ++j) to[j * p.out_stride[k]] = buffer[kIn + k][j];
      }
  }
  if (p.past) store_past_fence();
}
template <class Act, class T> void forward(const GatedPiece& p) {
  const Act a = gated::made<Act>(p.alpha, p.limit);
  map_piece<T, 2, 1>(p, [a](auto&, int, const auto* x, auto* y) { y[0] = gated::gate(a.act(x[0]), a.up(x[1])); });
}
template <class Act, class T> void backward(const GatedPiece& p) {
  const Act a = gated::made<Act>(p.alpha, p.limit);
  map_piece<T, 3, 2>(p, [a](auto&, int, const auto* x, auto* y) {
    gated::gate_gradient(x[0], a.up(x[2]), a.act(x[1]), a.slope(x[1]), y[0], y[1]);
    y[1] = a.up_gradient(y[1], x[2]);
  });
}
template <class T> void forward_by_table(const GatedPiece& p) {
  constexpr int N = kLanes<float>;
  map_piece<T, 2, 1>(p, [&](auto& in, int j, const auto* x, auto* y) {
    y[0] = gated::gate(look_up<N, kStep<T, N>>(static_cast<const float*>(p.table), in[0] + j), x[1]);
  });
}
template <class T> void backward_by_table(const GatedPiece& p) {
  constexpr int N = kLanes<float>;
  map_piece<T, 3, 2>(p, [&](auto& in, int j, const auto* x, auto* y) {
    Pack<float, N> act, slope;
    look_up<N, kStep<T, N>>(static_cast<const ActSlope*>(p.table), in[1] + j, act, slope);
    gated::gate_gradient(x[0], x[2], act, slope, y[0], y[1]);
  });
}
template <class... Act> constexpr GatedKernels make(gated::Acts<Act...>) {
  static_assert(sizeof...(Act) == kGatedKinds);
  return {{by_dtype<void (*)(const GatedPiece&)>(Floating{}, []<class T>() { return &forward<Act, T>; })...},
          {by_dtype<void (*)(const GatedPiece&)>(Floating{}, []<class T>() { return &backward<Act, T>; })...},
          by_dtype<void (*)(const GatedPiece&)>(Halves{}, []<class T>() { return &forward_by_table<T>; }),
          by_dtype<void (*)(const GatedPiece&)>(Halves{}, []<class T>() { return &backward_by_table<T>; })};
}

}  // namespace
extern constexpr GatedKernels gated_kernels = make(gated::GatedActs{});
}  // namespace BARACUDA_ISA
}  // namespace baracuda
