#include <algorithm>
#include "baracuda/host/thread_team.hpp"
#include "baracuda/math/half.hpp"
#include "baracuda/ops/attention/attention_problem.hpp"

namespace baracuda {
namespace attention {
namespace {

using Op = FlashSdpaBackward;

// Keys are split among threads where few key heads leave them idle; each part then has a dq of its own, added up in
// order. The rule may not look at the batch or the threads, because sums depend on it.
constexpr int64_t kSplitKeys = 1024, kWantedParts = 8;
int64_t parts_of(const SdpaDescriptor& d) {
  return std::max<int64_t>(1, std::min(d.k_len / kSplitKeys, kWantedParts / d.hk()));
}
int64_t keys_of_part(const SdpaDescriptor& d) { return blocks(blocks(d.k_len, parts_of(d)), kSdpaKeys) * kSdpaKeys; }
int64_t q_rows(const SdpaDescriptor& d) { return d.varlen ? d.total_q : d.batch * d.q_len; }

struct Scratch {
  char *delta, *dq, *bias, *block;
  int64_t delta_size, dq_size, block_size, bias_size;
};
constexpr int64_t round256(int64_t n) { return (n + 255) / 256 * 256; }
Scratch carve_all(const SdpaDescriptor& d, Carver& c) {
  const int64_t size = sum_size(d.dtype), parts = parts_of(d);
  Scratch s{};
  s.delta_size = q_rows(d) * d.heads * size;
  // One part: each worker sums dq of one key head's queries at a time. Several: all of dq, once per part.
  s.dq_size = parts > 1 ? q_rows(d) * d.heads * d.head_dim * size : round256(d.heads / d.hk() * d.q_len * d.head_dim * size);
  s.block_size = round256(sdpa_backward_scratch(d.head_dim, d.dv(), size));
  s.bias_size = d.has_bias() ? kSdpaRows * kSdpaKeys * int64_t(sizeof(double)) : 0;
  s.delta = c.take<char>("delta", s.delta_size);
  s.dq = c.take<char>(parts > 1 ? "dq parts" : "dq of a key head", s.dq_size * (parts > 1 ? parts : c.threads()));
  s.bias = c.take<char>("dbias block", s.bias_size * c.threads());
  s.block = c.take<char>("block scratch", s.block_size * c.threads());
  return s;
}
void carve(const SdpaDescriptor& d, const void*, Carver& c) { carve_all(d, c); }

void write_bias(const TensorView& dbias, const int64_t (&at)[4], const double* sum, int64_t rows, int64_t keys, int64_t sum_row, int64_t sum_key);

// One block of dbias at a time: all that broadcast to it recompute their scores, in the order batch, head, row, key.
void run_bias(const Launch<Op>& l, const SdpaProblem& p, const Scratch& s) {
  const SdpaDescriptor& d = l.desc;
  const Shape& shape = d.bias_shape;
  const int64_t rows = shape[2] == 1 ? 1 : d.q_len, keys = shape[3] == 1 ? 1 : d.k_len;
  const int64_t row_blocks = blocks(rows, kSdpaRows), key_blocks = blocks(keys, kSdpaKeys);
  const auto kernel = BARACUDA_ISA_PICK_BF16(sdpa_backward_kernels).bias[d.dtype];
  parallel_for(shape[0] * shape[1] * row_blocks * key_blocks, 1, l.threads, [&](int64_t begin, int64_t end, int worker) {
    double* sum = reinterpret_cast<double*>(s.bias + worker * s.bias_size);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t key0 = i % key_blocks * kSdpaKeys, row0 = i / key_blocks % row_blocks * kSdpaRows;
      const int64_t head = i / (key_blocks * row_blocks) % shape[1], batch = i / (key_blocks * row_blocks * shape[1]);
      const int64_t n_rows = std::min(kSdpaRows, rows - row0), n_keys = std::min(kSdpaKeys, keys - key0);
      const int64_t sum_row = shape[2] == 1 ? 0 : kSdpaKeys, sum_key = shape[3] == 1 ? 0 : 1;
      std::fill(sum, sum + kSdpaRows * kSdpaKeys, 0.0);
      for (int64_t b = batch; b < (shape[0] == 1 ? d.batch : batch + 1); ++b)
        for (int64_t h = head; h < (shape[1] == 1 ? d.heads : head + 1); ++h)
          for (int64_t r = row0; r < (shape[2] == 1 ? d.q_len : row0 + 1); r += kSdpaRows)
            for (int64_t k = key0; k < (shape[3] == 1 ? d.k_len : key0 + 1); k += kSdpaKeys)
              kernel({&p, sequence_of(d, {}, {}, b), h, r, std::min(kSdpaRows, d.q_len - r), k, std::min(kSdpaKeys, d.k_len - k), sum, sum_row,
                      sum_key, s.block + worker * s.block_size});
      write_bias(l.args.dbias, {batch, head, row0, key0}, sum, n_rows, n_keys, sum_row, sum_key);
    }
  });
}
template <class T> void write_bias_as(const TensorView& dbias, const int64_t (&at)[4], const double* sum, int64_t rows, int64_t keys, int64_t sum_row,
                                      int64_t sum_key) {
  T* to = dbias.as<T>();
  for (int i = 0; i < 4; ++i) to += at[i] * dbias.strides[i];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < keys; ++k) to[r * dbias.strides[2] + k * dbias.strides[3]] = from_double<T>(sum[r * sum_row + k * sum_key]);
}
void write_bias(const TensorView& dbias, const int64_t (&at)[4], const double* sum, int64_t rows, int64_t keys, int64_t sum_row, int64_t sum_key) {
  visit_dtype(Floating{}, dbias.dtype, 0, [&]<class T>() { return write_bias_as<T>(dbias, at, sum, rows, keys, sum_row, sum_key), 0; });
}

Status run_backward(const Launch<Op>& l) {
  const SdpaDescriptor& d = l.desc;
  const auto& a = l.args;
  BARACUDA_TRY(check_sequences(Op::name, d, a.cu_seqlens_q, a.cu_seqlens_k));
  Carver c = l.carver();
  const Scratch s = carve_all(d, c);
  SdpaProblem p{call_of(d, a.q, a.k, a.v, a.y, a.lse, a.bias, a.alibi_slopes), &gemm_tiles().of[d.dtype]};
  p.dy = rows_of(d, a.dy), p.dq = rows_of(d, a.dq), p.dk = rows_of(d, a.dk), p.dv = rows_of(d, a.dv);
  p.delta = s.delta, p.delta_batch = d.varlen ? 0 : d.heads * d.q_len, p.delta_head = d.varlen ? d.total_q : d.q_len;
  const SdpaBackwardKernels& kernels = BARACUDA_ISA_PICK_BF16(sdpa_backward_kernels);
  const int64_t row_blocks = blocks(d.q_len, kSdpaRows), size = sum_size(d.dtype);
  auto for_rows = [&](auto f) {  // f(sequence, head, row0, rows) for every block of queries
    parallel_for(d.batch * d.heads * row_blocks, 1, l.threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const SdpaSequence sequence = sequence_of(d, a.cu_seqlens_q, a.cu_seqlens_k, i / (row_blocks * d.heads));
        const int64_t row0 = i % row_blocks * kSdpaRows, rows = std::min(kSdpaRows, sequence.q_len - row0);
        if (rows > 0) f(sequence, i / row_blocks % d.heads, row0, rows);
      }
    });
  };
  for_rows([&](const SdpaSequence& sequence, int64_t head, int64_t row0, int64_t rows) {
    kernels.delta[d.dtype]({&p, sequence, head, 1, row0, rows, nullptr});
  });

  const int64_t parts = parts_of(d), keys = keys_of_part(d);
  // Where head 0, row 0 of a sequence has its sum in a part, and the stride between heads, in elements.
  auto dq_start = [&](const SdpaSequence& q) { return (d.varlen ? q.q_start : q.b * d.heads * d.q_len) * d.head_dim; };
  const int64_t dq_head = (parts > 1 && d.varlen ? d.total_q : d.q_len) * d.head_dim, part_elements = s.dq_size / size;
  parallel_for(d.batch * p.kv_heads * parts, 1, l.threads, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i % parts, kv_head = i / parts % p.kv_heads;
      const SdpaSequence sequence = sequence_of(d, a.cu_seqlens_q, a.cu_seqlens_k, i / (parts * p.kv_heads));
      SdpaBackwardBlock block{&p, sequence, kv_head, part * keys, 0, nullptr, dq_head, parts == 1, s.block + worker * s.block_size};
      block.keys = std::clamp<int64_t>(sequence.k_len - block.key0, 0, keys);
      block.dq_sum = parts == 1 ? s.dq + worker * s.dq_size
                                : s.dq + part * s.dq_size + (dq_start(sequence) + kv_head * p.group * dq_head) * size;
      kernels.backward[d.dtype](block);
    }
  });
  if (parts > 1)
    for_rows([&](const SdpaSequence& sequence, int64_t head, int64_t row0, int64_t rows) {
      kernels.reduce[d.dtype]({&p, sequence, head, row0, rows, parts, part_elements,
                               s.dq + (dq_start(sequence) + head * dq_head + row0 * d.head_dim) * size});
    });
  if (!a.dbias.absent()) run_bias(l, p, s);
  return {};
}

}  // namespace
}  // namespace attention

Status FlashSdpaBackward::validate(const Descriptor& d) { return attention::validate(name, d); }
Status FlashSdpaBackward::check(const Descriptor& d, const Args& a) {
  using namespace attention;
  struct { std::string_view arg; const TensorView& v; Shape shape; } tensors[] = {
      {"dy", a.dy, q_shape(d, d.dv())}, {"q", a.q, q_shape(d, d.head_dim)}, {"k", a.k, k_shape(d, d.head_dim)},
      {"v", a.v, k_shape(d, d.dv())},   {"y", a.y, q_shape(d, d.dv())},     {"dq", a.dq, q_shape(d, d.head_dim)},
      {"dk", a.dk, k_shape(d, d.head_dim)}, {"dv", a.dv, k_shape(d, d.dv())}};
  for (const auto& t : tensors) BARACUDA_TRY(expect_rows(name, t.arg, t.v, d.dtype, t.shape));
  BARACUDA_TRY(expect(name, "lse", a.lse, accumulator(d.dtype), lse_shape(d)));
  BARACUDA_TRY(expect_side(name, d, a.bias, a.alibi_slopes, a.cu_seqlens_q, a.cu_seqlens_k));
  if (!a.dbias.absent()) {
    if (!d.has_bias()) return invalid(name, "dbias is given: the descriptor has no bias_shape");
    BARACUDA_TRY(expect(name, "dbias", a.dbias, d.bias_dtype.value_or(d.dtype), d.bias_shape));
  }
  return {};
}
std::span<const Kernel<FlashSdpaBackward>> FlashSdpaBackward::kernels() {
  static constexpr Kernel<FlashSdpaBackward> list[] = {{.name = "flash_sdpa_backward.cpu.recompute",
                                                        .launch = launch_all<FlashSdpaBackward>(Floating{}, attention::run_backward),
                                                        .guarantee = attention::guarantee,
                                                        .carve = attention::carve}};
  return list;
}

}  // namespace baracuda
