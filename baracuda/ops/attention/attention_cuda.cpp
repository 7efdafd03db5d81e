#include "baracuda/ops/attention/attention_cuda.hpp"
#include <algorithm>
#include <bit>
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/attention/attention_cudnn.hpp"
#include "baracuda/ops/attention/attention_problem.hpp"

namespace baracuda {
namespace attention {
namespace {

PrecisionGuarantee exact_guarantee(const SdpaDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}
template <class Args> SdpaCuda problem_of(const SdpaDescriptor& d, const Args& a) {
  SdpaCuda p{call_of(d, a.q, a.k, a.v, a.y, a.lse, a.bias, a.alibi_slopes)};
  p.batch = d.batch, p.q_len = d.q_len, p.k_len = d.k_len, p.total_q = d.total_q, p.total_k = d.total_k;
  if (d.varlen) {
    p.cu_q = a.cu_seqlens_q.data, p.cu_q_stride = a.cu_seqlens_q.strides[0], p.cu_q_wide = a.cu_seqlens_q.dtype == DType::i64;
    p.cu_k = a.cu_seqlens_k.data, p.cu_k_stride = a.cu_seqlens_k.strides[0], p.cu_k_wide = a.cu_seqlens_k.dtype == DType::i64;
  }
  return p;
}

// Few queries: the heads that share keys go through together, so that decoding reads each key once.
bool joined(const SdpaDescriptor& d) { return d.q_len < kSdpaPanel && d.heads > d.hk(); }

Status run_exact(const Launch<FlashSdpa>& l) {
  const SdpaDescriptor& d = l.desc;
  SdpaCuda p = problem_of(d, l.args);
  p.joined = joined(d);
  return device::queue(l.stream, "flash_sdpa.cuda.exact", [&] { return sdpa_cuda_forward.exact[d.dtype](p, l.stream.handle); });
}

PrecisionGuarantee mma_guarantee(const SdpaDescriptor& d) {  // weights of the second product are rounded to the dtype
  return {.math_precision = d.dtype, .accumulator = DType::f32, .batch_invariant = true};
}
std::string refuse_mma(const SdpaDescriptor& d, const PlanPreference&) {
  if (std::max(d.q_len, d.k_len) >= int64_t(1) << 30) return "for sequences shorter than 2^30";
  const double blocks = double(d.batch) * double(d.heads) * (double(d.q_len) / double(kSdpaMmaRows) + 1);
  return blocks < 0x1p30 ? "" : "for fewer than 2^30 blocks of queries";
}
Status run_mma(const Launch<FlashSdpa>& l) {
  const SdpaCuda p = problem_of(l.desc, l.args);
  return device::queue(l.stream, "flash_sdpa.cuda.mma", [&] { return sdpa_cuda_mma.forward[l.desc.dtype](p, l.stream.handle); });
}

// Keys of a part: an eighth of them, within limits, wider ones where many rows give more sums to join, but no more than 64 parts; by k_len and the rows of a key head
// alone, so that a row's bits do not depend on the batch.
int64_t part_of(const SdpaDescriptor& d) {
  const auto share = [&](int64_t n) { return int64_t(std::bit_ceil(uint64_t(blocks(d.k_len, n)))); };
  return std::max(std::clamp<int64_t>(share(8), 256, d.q_len * (d.heads / d.hk()) > 16 ? 2048 : 1024), share(64));
}
int64_t splits(const SdpaDescriptor& d) { return std::max<int64_t>(1, blocks(d.k_len, part_of(d))); }
std::string refuse_parts(const SdpaDescriptor& d, const PlanPreference& p, int64_t block_rows) {
  const double rows = double(d.q_len) * double(d.heads / d.hk()), blocks = double(d.batch) * double(d.hk()) * double(splits(d)) * (rows / double(block_rows) + 1);
  return std::max(rows, blocks) < 0x1p30 ? refuse_mma(d, p) : "for fewer than 2^30 blocks of keys";
}
void* carve_parts(const SdpaDescriptor& d, Carver& c) {
  const int64_t n = splits(d);
  return n > 1 ? c.take_bytes("parts of the keys", d.batch * d.heads * d.q_len * n, uint64_t(4 * (2 + d.dv()))) : nullptr;
}
void carve_decode(const SdpaDescriptor& d, const void*, Carver& c) { carve_parts(d, c); }
SdpaCuda problem_in_parts(const Launch<FlashSdpa>& l) {
  Carver c = l.carver();
  SdpaCuda p = problem_of(l.desc, l.args);
  p.splits = splits(l.desc), p.part = part_of(l.desc), p.partial = carve_parts(l.desc, c), p.multiprocessors = device::facts(l.stream.device.index).multiprocessors;
  return p;
}
std::string refuse_decode(const SdpaDescriptor& d, const PlanPreference& p) {
  return d.q_len < kSdpaPanel ? refuse_parts(d, p, 16) : text("for fewer than ", kSdpaPanel, " queries");
}
Status run_decode(const Launch<FlashSdpa>& l) {
  const SdpaCuda p = problem_in_parts(l);
  return device::queue(l.stream, "flash_sdpa.cuda.decode", [&] { return sdpa_cuda_decode.forward[l.desc.dtype](p, l.stream.handle); });
}
std::string refuse_scores(const SdpaDescriptor& d) { return d.softcap != 0 || d.alibi || d.has_bias() ? "for scores without softcap, ALiBi and bias" : ""; }
std::string refuse_split(const SdpaDescriptor& d, const PlanPreference& p) {
  if (d.q_len >= 128) return "for fewer than 128 queries";
  if (d.scale && !(*d.scale > 0)) return "for scales above 0";
  const std::string why = refuse_scores(d);
  return why.empty() ? refuse_parts(d, p, 64) : why;
}
Status run_split(const Launch<FlashSdpa>& l) {
  const SdpaCuda p = problem_in_parts(l);
  return device::queue(l.stream, "flash_sdpa.cuda.split", [&] { return sdpa_cuda_decode_sm90.forward[l.desc.dtype](p, l.stream.handle); });
}

Result<PlanState> only_sm90(const Stream& stream, const SdpaDescriptor&, const PlanPreference&) {
  BARACUDA_TRY(device::only_sm90a(stream));
  return PlanState{};
}
std::string refuse_sm90(const SdpaDescriptor& d, const PlanPreference& p) {
  if (d.has_bias()) return "for scores without bias";
  return d.q_len < 128 ? "for 128 queries and more" : refuse_mma(d, p);
}
uint32_t* carve_order(const SdpaDescriptor& d, Carver& c) { return d.varlen ? c.take<uint32_t>("order of blocks", 1 + d.batch * d.heads * blocks(d.q_len, 128)) : nullptr; }
// Tiles of 64 keys. Up to 64 columns, in blocks of 256 queries, of which as many as there are keys would leave little empty. The keys alone decide: bits follow from the tiles.
bool few_keys(const SdpaDescriptor& d) {
  const int64_t width = std::max(d.head_dim, d.dv());
  return d.k_len <= 640 && (width <= 64 ? 4 * 256 * blocks(d.k_len, 256) <= 5 * d.k_len : width > 128 && width <= 192);
}
void carve_sm90(const SdpaDescriptor& d, const void*, Carver& c) { carve_order(d, c); }
Status run_sm90(const Launch<FlashSdpa>& l) {
  const SdpaDescriptor& d = l.desc;
  Carver c = l.carver();
  SdpaCuda p = problem_of(d, l.args);
  p.multiprocessors = device::facts(l.stream.device.index).multiprocessors, p.next = carve_order(d, c);
  const bool capped = d.softcap != 0 && d.softcap <= 0x1p20 && d.dtype == DType::bf16 && d.head_dim <= 128 && d.dv() <= 128;
  const SdpaCudaMma& kernels = d.alibi || !(p.scale > 0) || (d.softcap != 0 && !capped) ? sdpa_cuda_sm90_scores : capped ? sdpa_cuda_sm90_softcap : few_keys(d) ? sdpa_cuda_sm90_few : sdpa_cuda_sm90;
  return device::queue(l.stream, "flash_sdpa.cuda.wgmma", [&] { return kernels.forward[d.dtype](p, l.stream.handle); });
}

void* carve_delta(const SdpaDescriptor& d, Carver& c) {
  return c.take_bytes("delta", (d.varlen ? d.total_q : d.batch * d.q_len) * d.heads, sum_size(d.dtype));
}
void carve_backward(const SdpaDescriptor& d, const void*, Carver& c) { carve_delta(d, c); }
SdpaCuda backward_of(const Launch<FlashSdpaBackward>& l) {
  const SdpaDescriptor& d = l.desc;
  const auto& a = l.args;
  Carver c = l.carver();
  SdpaCuda p = problem_of(d, a);
  p.dy = rows_of(d, a.dy), p.dq = rows_of(d, a.dq), p.dk = rows_of(d, a.dk), p.dv = rows_of(d, a.dv);
  p.delta = carve_delta(d, c), p.delta_batch = d.varlen ? 0 : d.heads * d.q_len, p.delta_head = d.varlen ? d.total_q : d.q_len;
  if (!a.dbias.absent()) {
    p.dbias = a.dbias.data;
    for (int i = 0; i < 4; ++i) p.dbias_stride[i] = a.dbias.strides[i], p.bias_shape[i] = d.bias_shape[i];
  }
  return p;
}
Status run_in_order(const Launch<FlashSdpaBackward>& l, std::string_view name, const SdpaCuda& p, std::initializer_list<SdpaLaunch> steps) {
  return device::queue(l.stream, name, [&] {
    for (const SdpaLaunch f : steps)
      if (const int error = f ? f(p, l.stream.handle) : 0) return error;
    return 0;
  });
}
Status run_backward_exact(const Launch<FlashSdpaBackward>& l) {
  const SdpaCuda p = backward_of(l);
  const SdpaCudaBackward& k = sdpa_cuda_backward;
  const DType t = l.desc.dtype;
  return run_in_order(l, "flash_sdpa_backward.cuda.exact", p, {k.delta[t], k.dkv[t], k.dq[t], p.dbias ? k.dbias[t] : nullptr});
}
std::string refuse_backward_mma(const SdpaDescriptor& d, const PlanPreference& p) {
  const std::string why = refuse_scores(d);
  return why.empty() ? refuse_mma(d, p) : why;
}
void carve_ordered(const SdpaDescriptor& d, SdpaCuda& p, Carver& c) {
  const int width = sdpa_ordered_width(d.head_dim, d.dv()), tile = sdpa_ordered_tile(width);
  p.tiles = d.varlen ? d.total_q / tile + d.batch + 1 : d.batch * blocks(d.q_len, tile);
  p.sums = static_cast<float*>(c.take_bytes("sums of queries", d.heads * p.tiles * tile, 8));
  p.turns = static_cast<int*>(c.take_bytes("turns", sdpa_ordered_parts(width) * d.heads * p.tiles + 1, 4));
  p.dq_sums = static_cast<float*>(c.take_bytes("dq", d.heads * p.tiles * tile * width, 4));
  p.shares = sdpa_ordered_shares(d.heads / d.hk(), d.hk(), d.k_len, width);
  if (p.shares > 1)
    p.dkv_sums = static_cast<float*>(c.take_bytes("dk and dv of heads", p.shares * 2 * d.hk() * (d.varlen ? d.total_k : d.batch * d.k_len), uint64_t(4 * width)));
  if (d.dtype == DType::f16) p.largest = static_cast<float*>(c.take_bytes("largest of queries", d.heads * p.tiles, 8));
}
void carve_backward_sm90(const SdpaDescriptor& d, const void*, Carver& c) {
  SdpaCuda p{};
  carve_delta(d, c);
  carve_ordered(d, p, c);
}
Status run_backward_mma(const Launch<FlashSdpaBackward>& l);
Status run_backward_sm90(const Launch<FlashSdpaBackward>& l) {
  const SdpaDescriptor& d = l.desc;
  SdpaCuda p = backward_of(l);
  Carver c = l.carver();
  carve_delta(d, c), carve_ordered(d, p, c);
  p.multiprocessors = device::facts(l.stream.device.index).multiprocessors;
  const int width = sdpa_ordered_width(d.head_dim, d.dv());
  const SdpaCudaMma& kernels = width == 64 ? sdpa_cuda_backward_ordered : width == 128 ? sdpa_cuda_backward_pair : sdpa_cuda_backward_relay;
  int answer = 0;
  const Status queued = device::queue(l.stream, "flash_sdpa_backward.cuda.wgmma", [&] { return (answer = kernels.forward[d.dtype](p, l.stream.handle)) == kSdpaNotOrdered ? 0 : answer; });
  return answer != kSdpaNotOrdered ? queued : refuse_scores(d).empty() ? run_backward_mma(l) : run_backward_exact(l);
}
Status run_backward_mma(const Launch<FlashSdpaBackward>& l) {
  const DType t = l.desc.dtype;
  return run_in_order(l, "flash_sdpa_backward.cuda.mma", backward_of(l), {sdpa_cuda_backward.delta[t], sdpa_cuda_backward_mma.dkv[t], sdpa_cuda_backward_mma.dq[t]});
}

}  // namespace
}  // namespace attention

namespace library = attention::library;  // rows that are never chosen unasked: they stand behind those that take every descriptor

template <> std::span<const Kernel<FlashSdpa>> cuda_kernels<FlashSdpa>() {
  static constexpr Kernel<FlashSdpa> list[] = {
      {.name = "flash_sdpa.cuda.wgmma", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<FlashSdpa>(TypeList<f16, bf16>{}, attention::run_sm90),
       .guarantee = attention::mma_guarantee, .refuse = attention::refuse_sm90, .carve = attention::carve_sm90, .prepare = attention::only_sm90},
      {.name = "flash_sdpa.cuda.split", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<FlashSdpa>(TypeList<f16, bf16>{}, attention::run_split),
       .guarantee = attention::mma_guarantee, .refuse = attention::refuse_split, .carve = attention::carve_decode, .prepare = attention::only_sm90},
      {.name = "flash_sdpa.cuda.decode", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<FlashSdpa>(TypeList<f16, bf16>{}, attention::run_decode),
       .guarantee = attention::mma_guarantee, .refuse = attention::refuse_decode, .carve = attention::carve_decode},
      {.name = "flash_sdpa.cuda.mma", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<FlashSdpa>(TypeList<f16, bf16>{}, attention::run_mma),
       .guarantee = attention::mma_guarantee, .refuse = attention::refuse_mma},
      {.name = "flash_sdpa.cuda.exact", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<FlashSdpa>(Floating{}, attention::run_exact),
       .guarantee = attention::exact_guarantee},
      {.name = "flash_sdpa.cuda.cudnn", .device = DeviceKind::cuda, .backend = Backend::cudnn, .min_arch = 80, .launch = launch_all<FlashSdpa>(TypeList<f16, bf16>{}, library::run),
       .guarantee = library::guarantee, .refuse = library::refuse, .carve = library::carve, .prepare = library::prepare, .check = library::check}};
  return list;
}
template <> std::span<const Kernel<FlashSdpaBackward>> cuda_kernels<FlashSdpaBackward>() {
  static constexpr Kernel<FlashSdpaBackward> list[] = {
      {.name = "flash_sdpa_backward.cuda.wgmma", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<FlashSdpaBackward>(TypeList<f16, bf16>{}, attention::run_backward_sm90),
       .guarantee = attention::mma_guarantee, .refuse = attention::refuse_sm90, .carve = attention::carve_backward_sm90, .prepare = attention::only_sm90},
      {.name = "flash_sdpa_backward.cuda.mma", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<FlashSdpaBackward>(TypeList<f16, bf16>{}, attention::run_backward_mma),
       .guarantee = attention::mma_guarantee, .refuse = attention::refuse_backward_mma, .carve = attention::carve_backward},
      {.name = "flash_sdpa_backward.cuda.exact", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<FlashSdpaBackward>(Floating{}, attention::run_backward_exact),
       .guarantee = attention::exact_guarantee, .carve = attention::carve_backward},
      {.name = "flash_sdpa_backward.cuda.cudnn", .device = DeviceKind::cuda, .backend = Backend::cudnn, .min_arch = 80,
       .launch = launch_all<FlashSdpaBackward>(TypeList<f16, bf16>{}, library::run_backward), .guarantee = library::guarantee_backward, .refuse = library::refuse,
       .carve = library::carve_backward, .prepare = library::prepare_backward, .check = library::check_backward}};
  return list;
}

}  // namespace baracuda
