// gemm.cpu.blocked: flops 2 m n k; the floor is the multiply-add rate, which the tile of host/gemm_tile.hpp reaches to
// about 95 %. What remains is packing (each element of B once or once per row block, each of A once per column block)
// and the last step over c. Work is cut into blocks of c by gemm_blocking(); each is computed by one worker, over k in
// chains of a fixed length, so that neither the cutting nor the team size shows in the bits. Products of few rows or
// columns are bound by reading the large operand; host/gemm_few.hpp reads it once, where it lies.
#include "baracuda/host/gemm_few.hpp"
#include "baracuda/ops/gemm/gemm_rows.hpp"
#include "baracuda/ops/gemm/gemm_tuning.hpp"

namespace baracuda {
namespace {

// Prepared at select time. The product may run as c^T = op(b)^T op(a)^T, depending on the strides that run() is given.
struct BlockedState {
  const TileKernel* tile;
  const FewKernel* few;
  GemmBlocking straight, swapped;
};
struct BlockedScratch {
  char* packed_b = nullptr;    // shared
  char* full_sums = nullptr;   // m x n
  char* worker = nullptr;      // per worker: packed A, packed B unless shared, sums
  int64_t a_bytes = 0, b_bytes = 0, worker_bytes = 0;
};

constexpr int64_t kLine = 64;
bool c_holds_sums(const GemmDescriptor& d) { return d.out_dtype() == gemm_accumulator(d) && d.beta == 0; }

// Rows of a worker's sums, a line apart from a power of two.
int64_t pitch(const GemmBlocking& g, int64_t acc) { return g.nb + kLine / acc; }

BlockedScratch carve_scratch(const GemmDescriptor& d, const BlockedState& s, Carver& carver) {
  BlockedScratch scratch;
  if (!gemm_reads_product(d) || d.m == 0 || d.n == 0) return scratch;
  const TileKernel& t = *s.tile;
  const int64_t acc = int64_t(byte_size(gemm_accumulator(d))), chain = gemm_chain(t.packed);
  int64_t shared = 0, full = 0, sums = 0;
  for (const GemmBlocking& g : {s.straight, s.swapped}) {
    scratch.a_bytes = std::max(scratch.a_bytes, t.a_bytes(g.mb, std::min(chain, d.k)));
    if (g.shared_b) shared = std::max(shared, t.b_bytes(g.nc, g.ks) + kLine * (g.ks / chain + 1));
    else scratch.b_bytes = std::max(scratch.b_bytes, t.b_bytes(g.nb, std::min(chain, d.k)));
    if (g.full_sums) full = d.m * d.n;
    sums = std::max(sums, round_up(g.mb * pitch(g, acc) * acc, kLine));
  }
  scratch.worker_bytes = scratch.a_bytes + scratch.b_bytes + sums;
  if (shared) scratch.packed_b = static_cast<char*>(carver.take_bytes("packed b", shared, 1));
  if (full) scratch.full_sums = static_cast<char*>(carver.take_bytes("sums", full, uint64_t(acc)));
  scratch.worker = static_cast<char*>(carver.take_bytes("blocks per worker", carver.threads() * scratch.worker_bytes, 1));
  return scratch;
}

template <class T> void copy_sums(const T* from, int64_t from_row, int64_t from_col, T* to, int64_t to_row, int64_t to_col, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) to[i * to_row + j * to_col] = from[i * from_row + j * from_col];
}

struct Blocked {
  const Launch<Gemm>& l;
  const GemmDescriptor& d = l.desc;
  const BlockedState& state = *static_cast<const BlockedState*>(l.state);
  const TileKernel& t = *state.tile;
  BlockedScratch scratch;
  GemmBlocking g{};
  GemmFinishRun finish = gemm_finish(d);
  int64_t in = int64_t(byte_size(d.dtype)), out = int64_t(byte_size(d.out_dtype())), acc = int64_t(byte_size(gemm_accumulator(d)));
  int64_t chain = gemm_chain(t.packed);
  int team = l.threads;

  PackSource side(const GemmSide& s, int64_t at, int64_t k, int64_t count, int64_t depth) const {
    return {s.p + (at * s.outer + k * s.k) * in, s.outer, s.k, count, depth};
  }
  // The sums may be written where c lies.
  bool direct(const GemmProblem& p) const {
    return p.c_col == 1 && gemm_plain(d) && d.alpha == 1 && d.out_dtype() == gemm_accumulator(d) && (d.beta == 0 || (d.beta == 1 && p.k <= chain && !t.goes_on));
  }
  // Without packing: for a small product the copy would cost more than it saves. Rows whose distance is a multiple of
  // 4 KiB would all fall into the same lines of the first cache.
  bool a_in_place(const GemmProblem& p, int64_t kn) const {
    return t.packed == d.dtype && p.a.k == 1 && kn % t.k_group == 0 && p.a.outer * in % 4096 != 0 && p.n <= kAInPlace;
  }
  bool b_in_place(const GemmProblem& p) const {
    return t.packed == d.dtype && t.k_group == 1 && p.b.outer == 1 && p.b.k * in % 4096 != 0 && p.m <= kBInPlace;
  }
  bool few_rows(const GemmProblem& p) const { return p.m <= state.few->rows && !g.shared_b && state.few->reads(p.b.outer, p.b.k); }
  int64_t packed_offset(int64_t k) const { return k ? k / chain * t.b_bytes(g.nc, chain) : 0; }

  // One block of c over k in [k0, k0 + depth). `packed`: B of these k and columns j0..., or null: packed here.
  void block(const GemmProblem& p, int64_t i0, int64_t rows, int64_t j0, int64_t cols, int64_t k0, int64_t depth, int64_t packed_column, int worker) const {
    char* const a_scratch = scratch.worker + worker * scratch.worker_bytes;
    char* const b_scratch = a_scratch + scratch.a_bytes;
    char* const local = b_scratch + scratch.b_bytes;
    char* const c = p.c + (i0 * p.c_row + j0 * p.c_col) * out;
    const bool to_c = direct(p), last = k0 + depth == p.k, few = few_rows(p);
    const bool local_sums = !to_c && !g.full_sums;
    char* const sums = to_c ? c : g.full_sums ? scratch.full_sums + (i0 * p.n + j0) * acc : local;
    const int64_t sums_row = to_c ? p.c_row : g.full_sums ? p.n : pitch(g, acc);
    if (local_sums && k0 > 0) each_acc([&]<class T>(T) { copy_sums((const T*)c, p.c_row, p.c_col, (T*)local, sums_row, 1, rows, cols); });
    for (int64_t k = k0; k < k0 + depth; k += chain) {
      const int64_t kn = std::min(chain, k0 + depth - k), groups = t.groups(kn);
      const PackSource source = side(p.a, i0, k, rows, kn);
      const TileA a = a_in_place(p, kn) ? TileA{source.p, p.a.outer, t.k_group, t.mr * p.a.outer} : t.pack_a(source, a_scratch);
      const bool accumulate = k > 0 || (to_c && d.beta == 1);
      if (few) {
        state.few->run({rows, a, side(p.b, j0, k, cols, kn), sums, sums_row, accumulate});
        if (!to_c && last && k + chain >= p.k) finish(gemm_finish_block(p, d, sums, sums_row, i0, j0, rows, cols));
        continue;
      }
      TileB b;
      if (g.shared_b) {
        const int64_t panel = groups * t.k_group * t.nr;
        b = {scratch.packed_b + packed_offset(k - k0) + packed_column / t.nr * panel * t.element_bytes, t.nr * t.k_group, panel};
      } else if (const PackSource columns = side(p.b, j0, k, cols, kn); b_in_place(p)) {
        b = {columns.p, p.b.k, t.nr};
      } else {
        b = t.pack_b(columns, b_scratch);
      }
      if (to_c || !last || k + chain < p.k) {
        t.tile({rows, cols, groups, a, b, sums, sums_row, accumulate});
      } else {  // the last step takes each panel's sums from the first cache
        for (int64_t j = 0; j < cols; j += t.nr, b.p = static_cast<const char*>(b.p) + b.panel * t.element_bytes) {
          const int64_t width = std::min<int64_t>(t.nr, cols - j);
          char* const panel_sums = accumulate ? sums + j * acc : local;
          const int64_t pitch = accumulate ? sums_row : t.nr;
          t.tile({rows, width, groups, a, b, panel_sums, pitch, accumulate});
          finish(gemm_finish_block(p, d, panel_sums, pitch, i0, j0 + j, rows, width));
        }
      }
    }
    if (local_sums && !last) each_acc([&]<class T>(T) { copy_sums((const T*)local, sums_row, 1, (T*)c, p.c_row, p.c_col, rows, cols); });
  }
  template <class F> void each_acc(F f) const { acc == 8 ? f(double()) : f(float()); }

  void run_private(const GemmProblem& whole, int64_t batch, bool swap) const {
    const GemmProblem first = swap ? whole.swapped() : whole;
    const int64_t rows = (first.m + g.mb - 1) / g.mb, columns = (first.n + g.nb - 1) / g.nb;
    parallel_for(batch * rows * columns, 1, team, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) {
        // Neighbours share columns of B: the larger of the two streams.
        const int64_t row = i % rows * g.mb, column = i / rows % columns * g.nb;
        GemmProblem p = gemm_at(whole, d, l.args, i / (rows * columns));
        if (swap) p = p.swapped();
        block(p, row, std::min(g.mb, p.m - row), column, std::min(g.nb, p.n - column), 0, p.k, 0, worker);
      }
    });
  }
  void run_shared(const GemmProblem& p) const {
    const int64_t rows = (p.m + g.mb - 1) / g.mb;
    for (int64_t jc = 0; jc < p.n; jc += g.nc) {
      const int64_t width = std::min(g.nc, p.n - jc), columns = (width + g.nb - 1) / g.nb;
      for (int64_t k0 = 0; k0 < p.k; k0 += g.ks) {
        const int64_t depth = std::min(g.ks, p.k - k0), chains = (depth + chain - 1) / chain, strip = 4 * t.nr, strips = (width + strip - 1) / strip;
        parallel_for(chains * strips, 1, team, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t k = i / strips * chain, j = i % strips * strip, kn = std::min(chain, depth - k);
            const int64_t panel_bytes = t.groups(kn) * t.k_group * t.nr * t.element_bytes;
            t.pack_b(side(p.b, jc + j, k0 + k, std::min(strip, width - j), kn), scratch.packed_b + packed_offset(k) + j / t.nr * panel_bytes);
          }
        });
        parallel_for(rows * columns, 1, team, [&](int64_t begin, int64_t end, int worker) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t row = i / columns * g.mb, column = i % columns * g.nb;
            block(p, row, std::min(g.mb, p.m - row), jc + column, std::min(g.nb, width - column), k0, depth, column, worker);
          }
        });
      }
    }
  }

  Status run() {
    Carver carver = l.carver();
    scratch = carve_scratch(d, state, carver);
    const GemmProblem p = gemm_problem(d, l.args);
    // A column-major c, or one so narrow that most lanes of the tile would be idle.
    const bool swap = (p.c_col != 1 && p.c_row == 1) || (p.n <= 8 && p.m > 4 * p.n && p.c_col == 1);
    g = swap ? state.swapped : state.straight;
    const int64_t batch = d.batch.numel();
    if (2.0 * double(p.m) * double(p.n) * double(p.k) * double(batch) < kTiny) team = 1;
    if (!g.shared_b) run_private(p, batch, swap);
    else for (int64_t b = 0; b < batch; ++b) {
      const GemmProblem at = gemm_at(p, d, l.args, b);
      run_shared(swap ? at.swapped() : at);
    }
    return {};
  }
  static constexpr int64_t kAInPlace = 512, kBInPlace = 128;  // columns of c, rows of c
  static constexpr double kTiny = 1e6;  // flops: about 10 us of one core, the price of waking another
};

Status run_blocked(const Launch<Gemm>& l) {
  if (l.desc.m == 0 || l.desc.n == 0 || l.desc.batch.numel() == 0) return {};
  if (!gemm_reads_product(l.desc)) return gemm_without_product(l);
  return Blocked{.l = l}.run();
}
Result<PlanState> prepare(const Stream&, const GemmDescriptor& d, const PlanPreference&) {
  const TileKernel& t = gemm_tiles().of[d.dtype];
  const int64_t batch = d.batch.numel();
  return PlanState(std::make_shared<const BlockedState>(BlockedState{
      &t, &gemm_few().of[d.dtype], gemm_blocking(t, d.m, d.n, d.k, batch, c_holds_sums(d)), gemm_blocking(t, d.n, d.m, d.k, batch, c_holds_sums(d))}));
}
void carve(const GemmDescriptor& d, const void* state, Carver& c) { carve_scratch(d, *static_cast<const BlockedState*>(state), c); }
PrecisionGuarantee guarantee(const GemmDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}

}  // namespace

Kernel<Gemm> gemm_blocked_row() {
  return {.name = "gemm.cpu.blocked", .launch = launch_all<Gemm>(Floating{}, run_blocked), .guarantee = guarantee, .carve = carve, .prepare = prepare};
}

}  // namespace baracuda
