// gemm.cuda.cublaslt: the library multiplies matrices that lie in rows or columns, straight into c; what it cannot do, or does
// otherwise than we define it, a pass of ours does after it: over c where c has the accumulator's type, else over sums in the
// workspace, so that c is rounded once. Other strides, and whatever else it refuses, go to the tile kernel, which is a row of its own.
// Its relu and gelu are left alone: gelu is an approximation of the one with tanh.
#include <memory>
#include <mutex>
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/gemm/gemm.hpp"
#include "baracuda/ops/gemm/gemm_cuda.hpp"
#include "baracuda/ops/gemm/gemm_rows.hpp"
#include "baracuda/ops/gemm/gemm_sm90.hpp"
#include "baracuda/vendor/cublaslt.hpp"

namespace baracuda {
namespace {

using D = GemmDescriptor;

bool wide(const D& d) { return d.out_dtype() != d.dtype; }
bool empty(const D& d) { return d.m == 0 || d.n == 0 || d.batch.numel() == 0; }
Strides leading(const Strides& s, int rank) {
  Strides b;
  for (int i = 0; i < rank; ++i) b.push_back(s[i]);
  return b;
}
int bytes_of(DType t) { return int(byte_size(t)); }

// act(alpha sums + beta c + bias); sums null: none.
Status finish(const Launch<Gemm>& l, const void* sums, const Strides& sums_strides, double alpha, double beta) {
  const D& d = l.desc;
  Strides bias;
  for (int i = 0; i <= d.batch.rank; ++i) bias.push_back(0);
  bias.push_back(d.bias == GemmBias::row ? l.args.bias.strides[0] : 0);
  const void* const bias_data = d.bias == GemmBias::row ? l.args.bias.data : nullptr;
  const device::Operand operands[3] = {{sums, bytes_of(gemm_accumulator(d)), sums_strides}, device::Operand::of(l.args.c), {bias_data, bytes_of(d.dtype), bias}};
  const GemmCudaFinish p{device::walk<3>(gemm_matrix(d.batch, d.m, d.n), operands, 1, gemm_finish_lanes(d.dtype)), sums, l.args.c.data, bias_data, alpha, beta, int(d.epilogue)};
  return device::queue(l.stream, "gemm.cuda: last step", [&] { return gemm_cuda_kernels.finish[wide(d)][d.dtype](p, l.stream.handle); });
}
Status run_tile(const Launch<Gemm>& l) {
  const D& d = l.desc;
  if (empty(d)) return {};
  if (!gemm_reads_product(d)) return d.beta == 1 && gemm_plain(d) ? Status() : finish(l, nullptr, {}, 0, d.beta);
  const GemmProblem p = gemm_problem(d, l.args);
  const int r = d.batch.rank;
  const device::Operand operands[3] = {{p.a.p, bytes_of(d.dtype), leading(l.args.a.strides, r)}, {p.b.p, bytes_of(d.dtype), leading(l.args.b.strides, r)},
                                       {p.c, bytes_of(d.out_dtype()), leading(l.args.c.strides, r)}};
  const GemmCudaTile t{p.m, p.n, p.k, {p.a.p, p.a.outer, p.a.k}, {p.b.p, p.b.outer, p.b.k}, p.c, p.c_row, p.c_col, p.bias, p.bias_col, d.alpha, d.beta,
                       int(d.epilogue), device::walk<3>(d.batch, operands, -1, 1)};
  return device::queue(l.stream, "gemm.cuda.tile", [&] { return gemm_cuda_kernels.tile[wide(d)][d.dtype](t, l.stream.handle); });
}

// --- Hopper's tensor cores: one plain product of matrices that lie in rows or columns
std::string refuse_sm90(const D& d, const PlanPreference&) {
  if (d.batch.numel() != 1 || d.alpha != 1 || !gemm_plain(d)) return "it serves one product with alpha 1, without bias and epilogue";
  return d.beta == 0 || (d.beta == 1 && wide(d)) ? "" : "it adds to c in f32 alone, with beta 1";
}
Result<PlanState> prepare_sm90(const Stream& stream, const D&, const PlanPreference&) {
  BARACUDA_TRY(device::only_sm90a(stream));
  return PlanState();
}
Status run_sm90(const Launch<Gemm>& l) {
  const D& d = l.desc;
  GemmProblem p = gemm_problem(d, l.args);
  if (p.c_col != 1 && p.c_row == 1) p = p.swapped();
  const auto lies = [](const GemmSide& s) { return s.k == 1 || s.outer == 1; };
  const auto side = [](const GemmSide& s) { return GemmSm90Side{s.p, s.k == 1 ? s.outer : s.k, s.k != 1}; };
  if (empty(d) || !gemm_reads_product(d) || p.c_col != 1 || !lies(p.a) || !lies(p.b)) return run_tile(l);
  const GemmSm90 g{p.m, p.n, p.k, side(p.a), side(p.b), p.c, p.c_row, wide(d), d.beta == 1, GemmSm90::kAll, nullptr, 0, nullptr};
  int answer = 0;
  const Status queued = device::queue(l.stream, "gemm.cuda.wgmma", [&] { return (answer = gemm_sm90[d.dtype](g, l.stream.handle)) == kGemmSm90Refused ? 0 : answer; });
  return answer == kGemmSm90Refused ? run_tile(l) : queued;
}

// --- the library
// What is left to do after the product.
enum class After { nothing, in_place, from_sums };
bool halves(const D& d) { return d.dtype == DType::f16 || d.dtype == DType::bf16; }
bool library_bias(const D& d) { return d.bias == GemmBias::row && d.epilogue == GemmEpilogue::none && !wide(d) && d.dtype != DType::f64; }
// The library's kernels for operands that are not aligned, or that split k, round halves before they add the bias.
bool rounds_twice(const D& d, int alignment) { return halves(d) && alignment < 16; }
After after(const D& d, bool bias_by_library) {
  if (gemm_plain(d) || bias_by_library) return After::nothing;
  return d.out_dtype() == gemm_accumulator(d) ? After::in_place : After::from_sums;
}

// A product as the library is asked for it. Which of its kernels answers depends on `slot` alone: how the operands lie, what divides
// their addresses and pitches, how many of the batch's axes are one step apart. So the bits cannot depend on what ran before.
struct Arrangement {
  cublaslt::Product product;
  const char *a, *b;  // in the library's order
  char* c;
  bool swapped;       // c lies in columns
  int merged;         // axes of the batch, from the last, that one call takes
  int slot;
};
constexpr int kSlots = 2 * 2 * 2 * 4;
constexpr int64_t kMostExtent = INT32_MAX;
int log2_of(int alignment) { return alignment >= 16 ? 3 : alignment >= 8 ? 2 : alignment >= 4 ? 1 : 0; }

// A matrix of `outer` x `k`, op(a)'s rows or op(b)'s columns: in columns (dense along outer), or in rows (dense along k).
bool lies(const GemmSide& s, int64_t outer, int64_t k, bool& by_k, int64_t& ld) {
  by_k = s.k == 1;
  if (!by_k && s.outer != 1) return false;
  const int64_t dense = by_k ? k : outer, other = by_k ? outer : k;
  ld = by_k ? s.outer : s.k;
  if (other == 1) ld = dense;
  return ld >= dense && ld <= kMostExtent;
}
bool arrange(const D& d, const GemmProblem& whole, const Strides (&strides)[3], DType out, bool tf32, bool bias, Arrangement& to) {
  if (whole.m > kMostExtent || whole.n > kMostExtent || whole.k > kMostExtent) return false;
  to.swapped = whole.c_col != 1 && whole.c_row == 1;
  const GemmProblem p = to.swapped ? whole.swapped() : whole;
  if (p.c_col != 1 || (p.m > 1 && p.c_row < p.n) || p.c_row > kMostExtent) return false;
  if (bias && (to.swapped || (p.bias_col != 1 && p.n > 1))) return false;
  cublaslt::Product& q = to.product;
  q = {d.dtype, out, tf32, bias, p.n, p.m, p.k, false, false, 0, 0, p.m == 1 ? p.n : p.c_row, 1, 0, 0, 0, 16};
  // c in rows is the library's d in columns, with b for its a: [n, k] dense along n is its plain a, and k x m dense along k its plain b.
  bool by_k;
  if (!lies(p.b, p.n, p.k, by_k, q.lda)) return false;
  q.trans_a = by_k;
  if (!lies(p.a, p.m, p.k, by_k, q.ldb)) return false;
  q.trans_b = !by_k;
  to.a = p.b.p, to.b = p.a.p, to.c = p.c;

  const int in = bytes_of(d.dtype), wide = bytes_of(out), ia = to.swapped ? 0 : 1, ib = 1 - ia;
  uint64_t bits = uint64_t(uintptr_t(to.a)) | uintptr_t(to.b) | uintptr_t(to.c) | uint64_t(q.lda * in) | uint64_t(q.ldb * in) | uint64_t(q.ldd * wide) |
                  (bias ? uintptr_t(p.bias) : 0) | 16;
  to.merged = 0;
  bool together = true;
  for (int i = d.batch.rank - 1; i >= 0; --i) {
    const int64_t extent = d.batch[i];
    const int64_t s[3] = {strides[ia][i], strides[ib][i], strides[2][i]};
    if (extent > 1) {
      if (s[0] < 0 || s[1] < 0 || s[2] < 0) return false;
      bits |= uint64_t(s[0] * in) | uint64_t(s[1] * in) | uint64_t(s[2] * wide);
      const bool first = q.batch == 1;
      together = together && q.batch * extent <= kMostExtent &&
                 (first || (s[0] == q.stride_a * q.batch && s[1] == q.stride_b * q.batch && s[2] == q.stride_d * q.batch));
      if (together && first) q.stride_a = s[0], q.stride_b = s[1], q.stride_d = s[2];
    }
    if (!together) continue;
    q.batch *= extent;
    ++to.merged;
  }
  q.alignment = int(bits & (~bits + 1));
  to.slot = (to.merged * 8 + to.swapped * 4 + q.trans_a * 2 + q.trans_b) * 4 + log2_of(q.alignment);
  return true;
}
// The product that stands for all of a slot.
cublaslt::Product typical(cublaslt::Product q) {
  const auto up = [&](int64_t elements, DType t) {
    const int64_t unit = std::max<int64_t>(1, q.alignment / bytes_of(t));
    return (elements + unit - 1) / unit * unit;
  };
  q.lda = up(q.trans_a ? q.k : q.m, q.in), q.ldb = up(q.trans_b ? q.n : q.k, q.in), q.ldd = up(q.m, q.out);
  q.stride_a = up(q.lda * (q.trans_a ? q.m : q.k), q.in), q.stride_b = up(q.ldb * (q.trans_b ? q.k : q.n), q.in), q.stride_d = up(q.ldd * q.n, q.out);
  return q;
}

struct State {
  bool tf32, bias;     // bias: added by the library
  After rest;
  uint64_t workspace;  // of the library
  struct Slot {
    std::once_flag once;
    bool there = false;
    cublaslt::Algorithm how;
  };
  std::unique_ptr<Slot[]> slots;
  // Asked for once; the library then needs no memory of the device.
  const cublaslt::Algorithm* algorithm(const Stream& stream, const Arrangement& a) const {
    Slot& s = slots[size_t(a.slot)];
    std::call_once(s.once, [&] {
      if (auto how = cublaslt::choose(stream, typical(a.product), workspace); how.ok()) s.how = *how, s.there = true;
    });
    return s.there ? &s.how : nullptr;
  }
};
int64_t sums_count(const D& d, After rest) { return rest == After::from_sums && gemm_reads_product(d) && !empty(d) ? d.batch.numel() * d.m * d.n : 0; }
void* carve_sums(const D& d, After rest, Carver& c) {
  const int64_t count = sums_count(d, rest);
  return count ? c.take_bytes("sums", count, byte_size(gemm_accumulator(d))) : nullptr;
}
void* carve_library(const State& s, Carver& c) { return s.workspace ? c.take_bytes("library", int64_t(s.workspace), 1) : nullptr; }
void carve(const D& d, const void* state, Carver& c) {
  const State& s = *static_cast<const State*>(state);
  carve_sums(d, s.rest, c), carve_library(s, c);
}

// Arguments as the library is to see them: with sums in the workspace for c.
GemmProblem product_problem(const D& d, const Gemm::Args& args, After rest, void* sums, Strides (&strides)[3]) {
  GemmProblem p = gemm_problem(d, args);
  const int r = d.batch.rank;
  strides[0] = leading(args.a.strides, r), strides[1] = leading(args.b.strides, r), strides[2] = leading(args.c.strides, r);
  if (rest == After::from_sums) p.c = static_cast<char*>(sums), p.c_row = d.n, p.c_col = 1, strides[2] = leading(gemm_matrix(d.batch, d.m, d.n).contiguous(), r);
  return p;
}
DType product_out(const D& d, After rest) { return rest == After::from_sums ? gemm_accumulator(d) : d.out_dtype(); }
// Dense tensors on 256 bytes.
Gemm::Args dense_args(const D& d) {
  const auto view = [&](DType t, int64_t rows, int64_t columns) { return TensorView::dense(nullptr, t, gemm_matrix(d.batch, rows, columns)); };
  return {d.trans_a ? view(d.dtype, d.k, d.m) : view(d.dtype, d.m, d.k), d.trans_b ? view(d.dtype, d.n, d.k) : view(d.dtype, d.k, d.n),
          view(d.out_dtype(), d.m, d.n), d.bias == GemmBias::row ? TensorView::dense(nullptr, d.dtype, {d.n}) : TensorView{}};
}
template <bool kTf32> Result<PlanState> prepare(const Stream& stream, const D& d, const PlanPreference& preference) {
  auto s = std::make_shared<State>();
  s->tf32 = kTf32, s->bias = library_bias(d), s->rest = after(d, s->bias), s->workspace = 0;
  s->slots.reset(new State::Slot[size_t(kSlots * (d.batch.rank + 1))]);
  if (empty(d) || !gemm_reads_product(d)) return PlanState(s);
  Strides strides[3];
  Arrangement a;
  const Gemm::Args dense = dense_args(d);
  const auto fits = [&] { return arrange(d, product_problem(d, dense, s->rest, nullptr, strides), strides, product_out(d, s->rest), kTf32, s->bias, a); };
  bool taken = fits();
  if (taken && s->bias && rounds_twice(d, a.product.alignment)) s->bias = false, s->rest = after(d, false), taken = fits();
  if (!taken) return Status(Code::unsupported, text("an extent is beyond the library's ", kMostExtent));
  constexpr uint64_t kMost = uint64_t(32) << 20;  // bytes that the library gets at most, for sums of parts of k
  Carver c(1);
  carve_sums(d, s->rest, c);
  if (c.size() > preference.max_workspace) return PlanState(s);  // refused for its size
  BARACUDA_TRY_ASSIGN(how, cublaslt::choose(stream, typical(a.product), std::min(kMost, preference.max_workspace - c.size())));
  s->workspace = how.workspace;
  State::Slot& slot = s->slots[size_t(a.slot)];
  std::call_once(slot.once, [&] { slot.how = how, slot.there = true; });
  return PlanState(s);
}
Status run_library(const Launch<Gemm>& l) {
  const D& d = l.desc;
  if (empty(d) || !gemm_reads_product(d)) return run_tile(l);
  const State& s = *static_cast<const State*>(l.state);
  Carver carver = l.carver();
  void *const sums = carve_sums(d, s.rest, carver), *const workspace = carve_library(s, carver);
  Strides strides[3];
  Arrangement a;
  if (!arrange(d, product_problem(d, l.args, s.rest, sums, strides), strides, product_out(d, s.rest), s.tf32, s.bias, a)) return run_tile(l);
  if (s.bias && rounds_twice(d, a.product.alignment)) return run_tile(l);
  const cublaslt::Algorithm* const how = s.algorithm(l.stream, a);
  if (!how) return run_tile(l);
  const double alpha = s.rest == After::from_sums ? 1 : d.alpha, beta = s.rest == After::from_sums ? 0 : d.beta;
  const int in = bytes_of(d.dtype), out = bytes_of(a.product.out), ia = a.swapped ? 0 : 1, outer = d.batch.rank - a.merged;
  const int64_t calls = d.batch.product(0, outer);
  for (int64_t i = 0; i < calls; ++i) {
    int64_t at[3] = {}, rest_of = i;
    for (int axis = outer - 1; axis >= 0; --axis) {
      for (int k = 0; k < 3; ++k) at[k] += rest_of % d.batch[axis] * strides[k][axis];
      rest_of /= d.batch[axis];
    }
    BARACUDA_TRY(cublaslt::multiply(l.stream, a.product, *how, alpha, beta, {a.a + at[ia] * in, a.b + at[1 - ia] * in, a.c + at[2] * out, l.args.bias.data}, workspace));
  }
  if (s.rest == After::in_place) return finish(l, l.args.c.data, l.args.c.strides, 1, 0);
  return s.rest == After::nothing ? Status() : finish(l, sums, gemm_matrix(d.batch, d.m, d.n).contiguous(), d.alpha, d.beta);
}

template <bool kTf32, bool kOwn> PrecisionGuarantee guarantee(const D& d) {
  return {.math_precision = gemm_accumulator(d), .tf32 = kTf32, .accumulator = gemm_accumulator(d), .batch_invariant = kOwn};
}
std::string refuse(const D&, const PlanPreference&) { return cublaslt::missing(); }

}  // namespace

template <> std::span<const Kernel<Gemm>> cuda_kernels<Gemm>() {
  static constexpr Kernel<Gemm> list[] = {
      {.name = "gemm.cuda.cublaslt_tf32", .device = DeviceKind::cuda, .backend = Backend::cublaslt, .min_arch = 80,
       .launch = launch_all<Gemm>(TypeList<float>{}, run_library), .guarantee = guarantee<true, false>, .refuse = refuse, .carve = carve, .prepare = prepare<true>},
      {.name = "gemm.cuda.cublaslt", .device = DeviceKind::cuda, .backend = Backend::cublaslt, .min_arch = 80,
       .launch = launch_all<Gemm>(Floating{}, run_library), .guarantee = guarantee<false, false>, .refuse = refuse, .carve = carve, .prepare = prepare<false>},
      {.name = "gemm.cuda.wgmma", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<Gemm>(TypeList<f16, bf16>{}, run_sm90),
       .guarantee = guarantee<false, false>, .refuse = refuse_sm90, .prepare = prepare_sm90},
      {.name = "gemm.cuda.tile", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Gemm>(Floating{}, run_tile),
       .guarantee = guarantee<false, true>}};
  return list;
}

}  // namespace baracuda
