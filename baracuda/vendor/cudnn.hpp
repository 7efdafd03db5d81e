#pragma once
// Attention by cuDNN: a graph of its operations (the backend interface), for which the library finds and compiles a kernel. The library is
// looked for when it is first needed; without it everything else of the CUDA half works.
#include <memory>
#include "baracuda/core/device.hpp"
#include "baracuda/core/dtype.hpp"

namespace baracuda::cudnn {

struct Attention {
  DType dtype;                                      // f16, bf16; sums in f32
  int64_t batch, heads, kv_heads, q_len, k_len, head_dim, head_dim_v;
  double scale;
  bool top_left;
  int64_t left, right;                              // keys that a query sees before and behind its position; -1: all
  bool heads_last;                                  // tensors lie as [batch, row, head, element], else as [batch, head, row, element]
};
// Every tensor of a call; those that a graph does not name are not looked at. lse and delta are f32 [batch, heads, q_len], dq_sums f32
// [batch, heads, q_len, head_dim]: scratch of the backward.
struct Tensors { void *q, *k, *v, *y, *lse, *dy, *dq, *dk, *dv, *delta, *dq_sums; };

class Graph;  // compiled; immutable
using SharedGraph = std::shared_ptr<const Graph>;

// Why there is no library on this machine; empty where there is.
std::string missing();
// Host work alone. The backward adds dq in dq_sums in the order in which blocks come.
Result<SharedGraph> forward(const Stream& stream, const Attention& a);
Result<SharedGraph> backward(const Stream& stream, const Attention& a);
uint64_t workspace_size(const Graph& g);
bool same_bits_again(const Graph& g);  // what the library says of the kernel
Status run(const Stream& stream, const Graph& g, const Tensors& t, void* workspace);

}  // namespace baracuda::cudnn
