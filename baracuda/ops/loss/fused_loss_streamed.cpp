// The loss without gradients: a worker packs the rows of w of a chunk of 1024 classes once and goes with them through all rows of x, 128 at a
// time; these logits, 512 KiB, are summed up where they are made, in the second-level cache. Memory sees w once, x once per chunk of classes,
// and of the logits 24 bytes per 1024. 2 tokens hidden classes flops and an exponential per logit; products and sums are those of the row
// `chunked`, and so are the bits.
#include "baracuda/ops/loss/fused_loss_streamed.hpp"
#include <cstring>
#include "baracuda/host/thread_team.hpp"
#include "baracuda/ops/gemm/gemm_tuning.hpp"
#include "baracuda/ops/loss/fused_loss_plan.hpp"
#include "baracuda/ops/loss/loss_detail.hpp"

namespace baracuda {
namespace {

using namespace fused_loss;

constexpr int64_t kRows = 128;      // whose logits are at hand at a time
constexpr int64_t kBand = 4096;     // whose sums wait for the last classes
constexpr int64_t kFewRows = 96;    // below, packing w does not pay
constexpr int64_t kItems = 4;       // per worker at least, so that the last round is short

struct Streamed : FusedLossChunk {
  const TileKernel* tile;
  int64_t chain, slices, band;
  Streamed(const D& d, const TileKernel& t)
      : FusedLossChunk{kRows}, tile(&t), chain(gemm_chain(t.packed)), slices((d.classes + kLossChunk - 1) / kLossChunk), band(std::min(d.tokens, kBand)) {}
};
struct StreamedScratch {
  double *loss, *z_part, *at_target;
  int64_t* kept;
  void *bias, *x;
  LossPart* parts;
  char* worker;
  int64_t w_bytes, x_bytes, worker_bytes;
};
int64_t pitch_of(DType acc) { return kLossChunk + 64 / int64_t(byte_size(acc)); }  // a line apart from powers of two
StreamedScratch carve_streamed(const D& d, const Streamed& s, Carver& c) {
  const Types t(d);
  StreamedScratch w{};
  w.loss = c.take<double>("loss per row", d.tokens);
  w.z_part = c.take<double>("z part per row", d.tokens);
  w.kept = c.take<int64_t>("kept rows", d.tokens);
  w.at_target = c.take<double>("logits at targets", s.band);
  w.bias = d.bias && d.weight() != t.acc ? c.take_bytes("bias", d.classes, byte_size(t.acc)) : nullptr;
  w.x = c.take_bytes("rows of x", Shape{s.band, d.hidden}.numel(), byte_size(d.dtype));
  w.parts = c.take<LossPart>("sums of rows", Shape{s.band, s.slices}.numel());
  const int64_t whole = d.hidden / s.chain, rest = d.hidden % s.chain;
  w.w_bytes = whole * s.tile->b_bytes(kLossChunk, s.chain) + s.tile->b_bytes(kLossChunk, rest);
  w.x_bytes = s.tile->a_bytes(kRows, std::min(s.chain, d.hidden));
  w.worker_bytes = w.w_bytes + w.x_bytes + kRows * pitch_of(t.acc) * int64_t(byte_size(t.acc));
  w.worker = static_cast<char*>(c.take_bytes("blocks per worker", c.threads(), uint64_t(w.worker_bytes)));
  return w;
}

class Run {
 public:
  explicit Run(const Launch<FusedLinearCrossEntropy>& l)
      : l_(l), d_(l.desc), a_(l.args), s_(*static_cast<const Streamed*>(l.state)), t_(*s_.tile), acc_(accumulator(d_.dtype)),
        k_(BARACUDA_ISA_PICK(loss_kernels)), tokens_(loss_options(d_), a_.target, a_.weights, a_.dloss, 1) {
    Carver c = l.carver();
    w_ = carve_streamed(d_, s_, c);
  }
  Status operator()() {
    const int64_t kept = tokens_.list(w_.kept, w_.loss, w_.z_part);
    if (w_.bias && kept) k_.to_acc[d_.weight()](a_.bias.data, w_.bias, d_.classes);
    for (int64_t done = 0; done < kept; done += s_.band) band(done, std::min(s_.band, kept - done), kept == d_.tokens);
    tokens_.reduce(w_.loss, a_.loss);
    tokens_.reduce(w_.z_part, a_.z_part);
    return {};
  }

 private:
  // Kept rows [done, done + rows).
  void band(int64_t done, int64_t rows, bool dense) const {
    const int64_t* const kept = w_.kept + done;
    TensorView x = matrix(w_.x, d_.dtype, rows, d_.hidden, d_.hidden);
    if (dense) x = matrix(row_at(a_.x, done), d_.dtype, rows, d_.hidden, a_.x.strides[0]);
    else
      parallel_for(rows, kRows, l_.threads, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) std::memcpy(row_at(x, r), row_at(a_.x, kept[r]), size_t(d_.hidden) * byte_size(d_.dtype));
      });
    // Rows are divided too, where there are few chunks of classes for the workers.
    const int64_t blocks = (rows + kRows - 1) / kRows, parts = std::clamp<int64_t>((kItems * l_.threads - 1) / s_.slices + 1, 1, blocks);
    const int64_t share = (blocks - 1) / parts + 1;
    parallel_for(s_.slices * parts, 1, l_.threads, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % parts * share * kRows;
        if (first < rows) slice(i / parts, x, kept, first, std::min(rows, first + share * kRows), w_.worker + worker * w_.worker_bytes);
      }
    });
    parallel_for(rows, kRows, l_.threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        LossRow e{};
        e.n = d_.classes, e.smoothing = d_.label_smoothing, e.z = d_.z_loss;
        k_.join(e, w_.parts + r * s_.slices, w_.at_target[r]);
        const double weight = tokens_.weight(kept[r]);
        w_.loss[kept[r]] = weight * e.loss, w_.z_part[kept[r]] = weight * e.z_part;
      }
    });
  }
  // The sums of rows [begin, end) of the band over one chunk of classes.
  void slice(int64_t index, const TensorView& x, const int64_t* kept, int64_t begin, int64_t end, char* scratch) const {
    const int64_t first = index * kLossChunk, n = std::min(kLossChunk, d_.classes - first), pitch = pitch_of(acc_), acc = int64_t(byte_size(acc_));
    const auto chain = [&](int64_t k) { return std::min(s_.chain, d_.hidden - k); };
    const auto packed = [&](int64_t k) { return scratch + k / s_.chain * t_.b_bytes(kLossChunk, s_.chain); };
    char *const x_packed = scratch + w_.w_bytes, *const logits = x_packed + w_.x_bytes;
    const auto from = [&](const TensorView& v, int64_t row, int64_t k, int64_t rows) {
      return PackSource{row_at(v, row) + k * int64_t(byte_size(v.dtype)), v.strides[0], 1, rows, chain(k)};
    };
    for (int64_t k = 0; k < d_.hidden; k += s_.chain) t_.pack_b(from(a_.w, first, k, n), packed(k));
    const int64_t group = t_.nr * t_.k_group;  // elements of a group of k
    for (int64_t r = begin; r < end; r += kRows) {
      const int64_t rows = std::min(kRows, end - r);
      for (int64_t k = 0; k < d_.hidden; k += s_.chain) {
        const int64_t groups = t_.groups(chain(k));
        t_.tile({rows, n, groups, t_.pack_a(from(x, r, k, rows), x_packed), {packed(k), group, groups * group}, logits, pitch, k > 0});
      }
      const void* const bias = !d_.bias ? nullptr : static_cast<const char*>(w_.bias ? w_.bias : a_.bias.data) + first * acc;
      k_.chunk[acc_]({logits, pitch, rows, n, bias, d_.softcap, d_.label_smoothing > 0, w_.parts + r * s_.slices + index, s_.slices});
      for (int64_t i = 0; i < rows; ++i)
        if (const int64_t at = tokens_.target(kept[r + i]) - first; at >= 0 && at < n) {
          const int64_t element = i * pitch + at;
          w_.at_target[r + i] = acc_ == DType::f64 ? reinterpret_cast<const double*>(logits)[element] : double(reinterpret_cast<const float*>(logits)[element]);
        }
    }
  }

  const Launch<FusedLinearCrossEntropy>& l_;
  const D& d_;
  const FusedLinearCrossEntropy::Args& a_;
  const Streamed& s_;
  const TileKernel& t_;
  DType acc_;
  const LossKernels& k_;
  LossTokens tokens_;
  StreamedScratch w_{};
};

std::string refuse(const D& d, const PlanPreference&) {
  if (std::string why = refuse_types(d); !why.empty()) return why;
  if (any_gradient(d)) return "gradients are asked for";
  if (d.weight() != d.dtype) return "x would have to be widened for its product with w";
  if (d.chunk) return "a chunk is given";
  if (d.tokens < kFewRows) return text("fewer than ", kFewRows, " tokens do not pay for packing w");
  return {};
}
// The tile by which the preferred product is made: with another the loss would not be what it is beside its gradients.
Result<PlanState> prepare(const Stream& stream, const D& d, const PlanPreference& preference) {
  BARACUDA_TRY_ASSIGN(product, GemmPlan::select(stream, {.dtype = d.dtype, .out = accumulator(d.dtype), .m = d.tokens, .n = d.classes, .k = d.hidden, .batch = {}, .trans_b = true},
                                                {.prefer_backend = preference.prefer_backend}));
  if (product.backend() != Backend::baracuda) return Status(Code::unsupported, "the matrix products are a library's");
  return PlanState(std::make_shared<const Streamed>(d, gemm_tiles().of[d.dtype]));
}

}  // namespace

Kernel<FusedLinearCrossEntropy> fused_loss_streamed_row() {
  return {.name = "fused_linear_cross_entropy.cpu.streamed", .launch = launch_all<FusedLinearCrossEntropy>(Floating{}, [](const Launch<FusedLinearCrossEntropy>& l) { return Run(l)(); }),
          .guarantee = guarantee, .refuse = refuse, .carve = [](const D& d, const void* state, Carver& c) { (void)carve_streamed(d, *static_cast<const Streamed*>(state), c); },
          .prepare = prepare};
}

}  // namespace baracuda
