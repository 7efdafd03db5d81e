#include "baracuda/ops/attention/attention_cudnn.hpp"
#include <algorithm>
#include <cmath>
#include "baracuda/vendor/cudnn.hpp"

namespace baracuda::attention::library {
namespace {

// A graph is compiled for the strides of its tensors: one per arrangement. Where there is one head they are the same.
struct Graphs {
  cudnn::SharedGraph rows_last, heads_last;
  uint64_t workspace() const { return std::max(cudnn::workspace_size(*rows_last), heads_last ? cudnn::workspace_size(*heads_last) : 0); }
};

bool lies(const TensorView& v, bool heads_last) {
  int64_t step = 1;
  for (const int axis : {3, heads_last ? 1 : 2, heads_last ? 2 : 1, 0}) {
    if (v.shape[axis] != 1 && v.strides[axis] != step) return false;
    step *= v.shape[axis];
  }
  return true;
}
using Named = std::pair<std::string_view, const TensorView*>;
Status check_tensors(std::string_view op, std::initializer_list<Named> tensors, const TensorView& lse) {
  for (const auto& [arg, v] : tensors)
    if (reinterpret_cast<uintptr_t>(v->data) % 16) return Status(Code::unsupported, text(op, ": cuDNN takes tensors at multiples of 16 bytes, ", arg, " is not"));
  const auto all = [&](bool heads_last) { return std::all_of(tensors.begin(), tensors.end(), [&](const Named& t) { return lies(*t.second, heads_last); }); };
  if (!all(false) && !all(true))
    return Status(Code::unsupported, text(op, ": cuDNN's kernels were made for tensors that all lie as [batch, head, row, element] or all as [batch, row, head, element], without gaps"));
  return lse.absent() || lse.contiguous() ? Status() : Status(Code::unsupported, text(op, ": cuDNN takes an lse without gaps"));
}

cudnn::Attention attention_of(const SdpaDescriptor& d) {
  const auto bound = [&](int64_t window) { return window > d.q_len + d.k_len ? -1 : window; };  // as good as unbounded
  return {.dtype = d.dtype, .batch = d.batch, .heads = d.heads, .kv_heads = d.hk(), .q_len = d.q_len, .k_len = d.k_len, .head_dim = d.head_dim, .head_dim_v = d.dv(),
          .scale = d.scale.value_or(1 / std::sqrt(double(d.head_dim))), .top_left = d.align == CausalAlign::top_left || d.q_len == d.k_len, .left = bound(d.window_left),
          .right = d.causal ? 0 : bound(d.window_right)};
}
Result<PlanState> graphs(const Stream& stream, const SdpaDescriptor& d, Result<cudnn::SharedGraph> (*compile)(const Stream&, const cudnn::Attention&), bool repeats) {
  const auto state = std::make_shared<Graphs>();
  cudnn::Attention a = attention_of(d);
  for (const bool heads_last : {false, true}) {
    if (heads_last && d.heads == 1) continue;
    a.heads_last = heads_last;
    BARACUDA_TRY_ASSIGN(g, compile(stream, a));
    if (repeats && !cudnn::same_bits_again(*g)) return Status(Code::unsupported, "cuDNN says of its kernel that its bits may differ from run to run");
    (heads_last ? state->heads_last : state->rows_last) = std::move(g);
  }
  return PlanState(state);
}
const Graphs& graphs_of(const void* state) { return *static_cast<const Graphs*>(state); }
const cudnn::Graph& graph_for(const Graphs& g, const SdpaDescriptor& d, std::initializer_list<const TensorView*> tensors) {
  return d.heads == 1 || std::all_of(tensors.begin(), tensors.end(), [](const TensorView* v) { return lies(*v, false); }) ? *g.rows_last : *g.heads_last;
}

}  // namespace

PrecisionGuarantee guarantee(const SdpaDescriptor& d) { return {.math_precision = d.dtype, .accumulator = DType::f32}; }
PrecisionGuarantee guarantee_backward(const SdpaDescriptor& d) {
  return {.math_precision = d.dtype, .accumulator = DType::f32, .deterministic = false, .bit_stable_on_same_hardware = false};
}

std::string refuse(const SdpaDescriptor& d, const PlanPreference&) {
  if (d.softcap != 0 || d.alibi || d.has_bias() || d.varlen) return "for tensors of one length, scores without softcap, ALiBi and bias";
  if (d.head_dim % 8 || d.dv() % 8) return "for a head_dim and head_dim_v that are multiples of 8";
  if (d.batch == 0 || d.q_len == 0 || d.k_len == 0) return "for tensors that are not empty";
  if (d.scale && !(*d.scale > 0)) return "for a scale above 0";
  // So that every query sees a key: the library has no zero for one that sees none.
  const bool right = d.causal || d.window_right >= 0;
  if (d.q_len > d.k_len && (d.window_left >= 0 || (right && d.align == CausalAlign::bottom_right))) return "for masks with as many keys as queries or more";
  const double most = double(d.batch) * double(d.heads) * double(std::max(d.q_len, d.k_len)) * double(std::max(d.head_dim, d.dv()));
  if (most >= 0x1p31 || std::max(d.q_len, d.k_len) >= int64_t(1) << 24) return "for tensors of fewer than 2^31 elements and 2^24 rows";
  return "";
}

Status check(const SdpaDescriptor&, const FlashSdpa::Args& a) {
  return check_tensors(FlashSdpa::name, {{"q", &a.q}, {"k", &a.k}, {"v", &a.v}, {"y", &a.y}}, a.lse);
}
Status check_backward(const SdpaDescriptor&, const FlashSdpaBackward::Args& a) {
  return check_tensors(FlashSdpaBackward::name, {{"dy", &a.dy}, {"q", &a.q}, {"k", &a.k}, {"v", &a.v}, {"y", &a.y}, {"dq", &a.dq}, {"dk", &a.dk}, {"dv", &a.dv}}, a.lse);
}

Result<PlanState> prepare(const Stream& stream, const SdpaDescriptor& d, const PlanPreference&) { return graphs(stream, d, cudnn::forward, true); }
Result<PlanState> prepare_backward(const Stream& stream, const SdpaDescriptor& d, const PlanPreference&) { return graphs(stream, d, cudnn::backward, false); }

namespace {
struct ForwardScratch { float* lse; void* library; };
ForwardScratch scratch(const SdpaDescriptor& d, const Graphs& g, Carver& c) {
  ForwardScratch s{};
  s.lse = c.take<float>("lse where none is wanted", d.batch * d.heads * d.q_len);
  s.library = c.take_bytes("cuDNN", int64_t(g.workspace()), 1);
  return s;
}
struct BackwardScratch { float *delta, *dq; void* library; };
BackwardScratch backward_scratch(const SdpaDescriptor& d, const Graphs& g, Carver& c) {
  BackwardScratch s{};
  s.delta = c.take<float>("delta", d.batch * d.heads * d.q_len);
  s.dq = c.take<float>("dq", d.batch * d.heads * d.q_len * d.head_dim);
  s.library = c.take_bytes("cuDNN", int64_t(g.workspace()), 1);
  return s;
}
}  // namespace
void carve(const SdpaDescriptor& d, const void* state, Carver& c) { scratch(d, graphs_of(state), c); }
void carve_backward(const SdpaDescriptor& d, const void* state, Carver& c) { backward_scratch(d, graphs_of(state), c); }

Status run(const Launch<FlashSdpa>& l) {
  const FlashSdpa::Args& a = l.args;
  const Graphs& g = graphs_of(l.state);
  Carver c = l.carver();
  const ForwardScratch s = scratch(l.desc, g, c);
  const cudnn::Tensors t{.q = a.q.data, .k = a.k.data, .v = a.v.data, .y = a.y.data, .lse = a.lse.absent() ? s.lse : a.lse.data};
  return cudnn::run(l.stream, graph_for(g, l.desc, {&a.q, &a.k, &a.v, &a.y}), t, s.library);
}
Status run_backward(const Launch<FlashSdpaBackward>& l) {
  const FlashSdpaBackward::Args& a = l.args;
  const Graphs& g = graphs_of(l.state);
  Carver c = l.carver();
  const BackwardScratch s = backward_scratch(l.desc, g, c);
  const cudnn::Tensors t{.q = a.q.data, .k = a.k.data, .v = a.v.data, .y = a.y.data, .lse = a.lse.data, .dy = a.dy.data, .dq = a.dq.data, .dk = a.dk.data, .dv = a.dv.data,
                         .delta = s.delta, .dq_sums = s.dq};
  return cudnn::run(l.stream, graph_for(g, l.desc, {&a.dy, &a.q, &a.k, &a.v, &a.y, &a.dq, &a.dk, &a.dv}), t, s.library);
}

}  // namespace baracuda::attention::library
