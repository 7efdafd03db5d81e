// gemm.cpu.onednn: a library multiplies, on fixed blocks of c and fixed ranges of k, with one thread
// per call, in an order that depends on the shape alone; so its bits cannot depend on the team. A block goes straight to c
// where the product is all there is; otherwise to a worker's sums, from where the last step takes it.
#include "baracuda/ops/gemm/gemm_rows.hpp"
#include "baracuda/ops/gemm/gemm_tuning.hpp"
#include "baracuda/vendor/library_product.hpp"
#include <atomic>
#include <cstring>
#include <mutex>

namespace baracuda {
namespace {

constexpr LibraryBlocking kBlocking;

struct LibraryScratch {
  char *a = nullptr, *b = nullptr, *sums = nullptr, *library = nullptr;  // per worker
  int64_t a_bytes = 0, b_bytes = 0, sums_bytes = 0, library_bytes = 0;
};
LibraryScratch carve_scratch(const GemmDescriptor& d, int64_t library_bytes, Carver& c) {
  LibraryScratch s;
  if (!gemm_reads_product(d) || d.m == 0 || d.n == 0) return s;
  const int64_t mb = std::min(kBlocking.mb, d.m), nb = std::min(kBlocking.nb, d.n), depth = std::min(kBlocking.depth, d.k);
  const int64_t in = int64_t(byte_size(d.dtype)), acc = int64_t(byte_size(gemm_accumulator(d)));
  s.a_bytes = round_up(mb * depth * in, 64), s.b_bytes = round_up(depth * nb * in, 64), s.sums_bytes = round_up(mb * nb * acc, 64);
  s.a = static_cast<char*>(c.take_bytes("a per worker", c.threads() * s.a_bytes, 1));
  s.b = static_cast<char*>(c.take_bytes("b per worker", c.threads() * s.b_bytes, 1));
  s.sums = static_cast<char*>(c.take_bytes("sums per worker", c.threads() * s.sums_bytes, 1));
  s.library_bytes = round_up(library_bytes, 256);
  if (library_bytes) s.library = static_cast<char*>(c.take_bytes("library scratch per worker", c.threads() * s.library_bytes, 1));
  return s;
}

struct State {
  LibraryShapes shapes;
  LibraryState library;
};
// A dense block as the library takes it, `wide` rows of the memory by `dense` elements, from p[i * row + j * col]; copied to
// scratch where it does not lie like that.
const char* library_matrix(const char* p, int64_t row, int64_t col, int64_t wide, int64_t dense, int64_t size, char* scratch) {
  if (col == 1 && (wide == 1 || row == dense)) return p;
  for (int64_t i = 0; i < wide; ++i) {
    const char* from = p + i * row * size;
    char* to = scratch + i * dense * size;
    if (col == 1) std::memcpy(to, from, size_t(dense * size));
    else for (int64_t j = 0; j < dense; ++j) std::memcpy(to + j * size, from + j * col * size, size_t(size));
  }
  return scratch;
}

struct FirstFailure {
  std::mutex mutex;
  std::atomic<bool> failed{false};
  Status status;
  void set(Status s) {
    std::lock_guard lock(mutex);
    if (!failed.exchange(true)) status = std::move(s);
  }
};

template <auto product> Status run_library(const Launch<Gemm>& l) {
  const GemmDescriptor& d = l.desc;
  const int64_t batch = d.batch.numel();
  if (d.m == 0 || d.n == 0 || batch == 0) return {};
  if (!gemm_reads_product(d)) return gemm_without_product(l);
  Carver carver = l.carver();
  const State& state = *static_cast<const State*>(l.state);
  const LibraryScratch scratch = carve_scratch(d, product().scratch_bytes(state.library.get()), carver);
  const GemmProblem whole = gemm_problem(d, l.args);
  const GemmFinishRun finish = gemm_finish(d);
  const int64_t in = int64_t(byte_size(d.dtype)), acc = int64_t(byte_size(gemm_accumulator(d)));
  const int64_t mb = kBlocking.mb, nb = kBlocking.nb, depth = kBlocking.depth;
  const int64_t rows = (d.m + mb - 1) / mb, columns = (d.n + nb - 1) / nb;
  const bool to_c = gemm_plain(d) && d.alpha == 1 && (d.beta == 0 || d.beta == 1) && d.out_dtype() == gemm_accumulator(d) &&
                    whole.c_col == 1 && columns == 1 && whole.c_row == d.n;
  FirstFailure failure;
  parallel_for(batch * rows * columns, 1, l.threads, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end && !failure.failed; ++i) {
      const GemmProblem p = gemm_at(whole, d, l.args, i / (rows * columns));
      const int64_t i0 = i % rows * mb, j0 = i / rows % columns * nb, m = std::min(mb, d.m - i0), n = std::min(nb, d.n - j0);
      char* const sums = to_c ? p.c + (i0 * p.c_row + j0) * acc : scratch.sums + worker * scratch.sums_bytes;
      for (int64_t k0 = 0; k0 < p.k; k0 += depth) {
        const int64_t k = std::min(depth, p.k - k0);
        const char* const at_a = p.a.p + (i0 * p.a.outer + k0 * p.a.k) * in;
        const char* const at_b = p.b.p + (j0 * p.b.outer + k0 * p.b.k) * in;
        char *const a_copy = scratch.a + worker * scratch.a_bytes, *const b_copy = scratch.b + worker * scratch.b_bytes;
        const char* const a = d.trans_a ? library_matrix(at_a, p.a.k, p.a.outer, k, m, in, a_copy)
                                   : library_matrix(at_a, p.a.outer, p.a.k, m, k, in, a_copy);
        const char* const b = d.trans_b ? library_matrix(at_b, p.b.outer, p.b.k, n, k, in, b_copy)
                                   : library_matrix(at_b, p.b.k, p.b.outer, k, n, in, b_copy);
        const LibraryBlock block{m, n, k, a, b, sums, k0 > 0 || (to_c && d.beta == 1),
                                 scratch.library + worker * scratch.library_bytes};
        if (Status s = product().run(state.library.get(), state.shapes, block); !s.ok()) return failure.set(std::move(s));
      }
      if (!to_c) finish(gemm_finish_block(p, d, sums, n, i0, j0, m, n));
    }
  });
  return failure.status;
}
template <auto product> Result<PlanState> prepare(const Stream&, const GemmDescriptor& d, const PlanPreference&) {
  auto piece = [](int64_t extent, int64_t most, int64_t (&of)[2]) { of[0] = extent >= most ? most : 0, of[1] = extent % most; };
  State s{{d.dtype, d.trans_a, d.trans_b, {}, {}, {}, d.k > kBlocking.depth || d.beta == 1}, {}};
  piece(d.m, kBlocking.mb, s.shapes.m), piece(d.n, kBlocking.nb, s.shapes.n), piece(gemm_reads_product(d) ? d.k : 0, kBlocking.depth, s.shapes.k);
  BARACUDA_TRY_ASSIGN(library, product().prepare(s.shapes));
  s.library = library;
  return PlanState(std::make_shared<const State>(std::move(s)));
}
template <auto product> void carve(const GemmDescriptor& d, const void* state, Carver& c) {
  carve_scratch(d, product().scratch_bytes(static_cast<const State*>(state)->library.get()), c);
}
PrecisionGuarantee guarantee(const GemmDescriptor& d) { return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype)}; }

template <Backend backend> std::string refuse(const GemmDescriptor&, const PlanPreference& p) {
  if (gemm_prefers_library(isa()) || p.prefer_backend == backend || p.require_backend == backend || !p.require_kernel.empty()) return {};
  return text("gemm.cpu.blocked is as fast with ", name(isa()), " and promises more; prefer backend ", name(backend), " to use this row");
}
template <auto product, Backend backend, class... T> Kernel<Gemm> library_row(std::string_view name) {
  return {.name = name, .backend = backend, .launch = launch_all<Gemm>(TypeList<T...>{}, run_library<product>), .guarantee = guarantee,
          .refuse = refuse<backend>, .carve = carve<product>, .prepare = prepare<product>};
}

}  // namespace

Kernel<Gemm> gemm_onednn_row() { return library_row<onednn_product, Backend::onednn, float, bf16>("gemm.cpu.onednn"); }

}  // namespace baracuda
