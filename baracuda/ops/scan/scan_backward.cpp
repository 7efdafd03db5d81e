#include "baracuda/ops/scan/scan.hpp"
#include "baracuda/ops/scan/scan_lanes.hpp"

namespace baracuda {
namespace {

using namespace scan_detail;

// The gradient of a sum is the sum from the other end.
ScanDescriptor turned(ScanDescriptor d) {
  d.reverse = !d.reverse;
  return d;
}
PrecisionGuarantee guarantee(const ScanDescriptor& d) {
  if (d.kind == ScanKind::cumsum) return scan_guarantee(d);
  const DType kept = d.kind == ScanKind::logcumsumexp ? accumulator(d.dtype) : DType::f64;
  return {.math_precision = kept, .accumulator = kept, .batch_invariant = true};
}
ScanState* carve_carries(const ScanDescriptor& d, Carver& c) {
  const int64_t n = length(d);
  if (d.shape.numel() == 0 || blocks(n) < 2) return nullptr;
  return c.take<ScanState>("carries of blocks", d.shape.numel() / n * blocks(n));
}
void carve(const ScanDescriptor& d, const void*, Carver& c) {
  if (d.kind == ScanKind::cumsum) carve_scan(turned(d), c);
  else carve_carries(d, c);
}

struct Runner {
  const TensorView &dy, &a, &b, &dx;
  const bool exclusive, falling;
  const RowWalk<4> walk;
  const int64_t n;
  const int threads;
  const Arrangement how;
  ScanState* const state;
  void (*const grad)(const ScanGradLanes&);
  void (*const carries)(ScanState*, int64_t);

  Runner(const ScanDescriptor& d, const TensorView& dy, const TensorView& a, const TensorView& b, const TensorView& dx, ScanState* state, int threads)
      : dy(dy), a(a), b(b), dx(dx), exclusive(d.exclusive), falling(!d.reverse), walk(outer_axes(dy.shape), {&dy, &a, &b, &dx}), n(dy.shape.last()),
        threads(threads), how(arrange<4>(walk, {&dy, &a, &b, &dx}, n, threads)), state(state),
        grad(BARACUDA_ISA_PICK(scan_grad_kernels).grad[int(d.kind)][d.dtype]), carries(BARACUDA_ISA_PICK(scan_grad_kernels).carries[int(d.kind)][d.dtype]) {}

  ScanGradLanes lanes(const int64_t (&o)[4], int64_t first, int64_t count) const {
    return {at(dy, o[0]), at(a, o[1]), at(b, o[2]), at(dx, o[3]), step(dy), step(a), step(b), step(dx), walk.pitch(0), walk.pitch(1), walk.pitch(2),
            walk.pitch(3), count, n, 0, blocks(n), dx.dtype, int(byte_size(dx.dtype)), how.columns, exclusive, falling,
            state ? state + first * blocks(n) : nullptr, false, dy.numel() * int64_t(byte_size(dx.dtype)) >= kCached};
  }
  int64_t groups() const { return how.columns ? walk.outer.rows * how.strips : walk.rows; }
  ScanGradLanes group(int64_t g, int64_t& first) const {
    int64_t count = 1, o[4];
    first = g;
    if (how.columns) {
      const int64_t begin = g % how.strips * how.strip, inner = walk.outer.inner;
      first = g / how.strips * inner + begin, count = inner - begin < how.strip ? inner - begin : how.strip;
    }
    walk.offsets(first, o);
    return lanes(o, first, count);
  }
  void carry(int64_t begin, int64_t end) const {
    for (int64_t l = begin; l < end; ++l) carries(state + l * blocks(n), blocks(n));
  }
  void whole() const {
    if (!state && !how.columns) {
      parallel_for(walk.rows, n < kPiece ? kPiece / n : 1, threads, [&](int64_t begin, int64_t end, int) {
        walk.runs(begin, end, [&](const int64_t (&o)[4], int64_t first, int64_t rows) { grad(lanes(o, first, rows)); });
      });
      return;
    }
    const int64_t size = how.strip * n;
    parallel_for(groups(), size < kPiece ? kPiece / size : 1, threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t g = begin; g < end; ++g) {
        int64_t first;
        ScanGradLanes p = group(g, first);
        if (state) {
          p.totals = true;
          grad(p);
          carry(first, first + p.lanes);
          p.totals = false;
        }
        grad(p);
      }
    });
  }
  void split() const {
    const int64_t all = blocks(n);
    for (bool totals : {true, false}) {
      parallel_for(groups() * all, how.columns ? 1 : 8, threads, [&](int64_t begin, int64_t end, int) {
        while (begin < end) {
          const int64_t block = begin % all, m = all - block < end - begin ? all - block : end - begin;
          int64_t first;
          ScanGradLanes p = group(begin / all, first);
          p.begin = block, p.end = block + m, p.totals = totals;
          grad(p);
          begin += m;
        }
      });
      if (totals) parallel_for(walk.rows, 1, threads, [&](int64_t begin, int64_t end, int) { carry(begin, end); });
    }
  }
};

Status run(const Launch<ScanBackward>& l) {
  const ScanDescriptor& d = l.desc;
  const ScanBackward::Args& given = l.args;
  if (d.kind == ScanKind::cumsum) {
    run_scan(turned(d), given.dy, given.dx, {}, l.carver(), l.threads);
    return {};
  }
  if (d.shape.numel() == 0) return {};
  Carver c = l.carver();
  ScanState* const state = carve_carries(d, c);
  const auto reads = ScanBackward::reads(d.kind);
  const TensorView dy = along(given.dy, d, !d.reverse), a = along(reads.x ? given.x : given.indices, d, !d.reverse),
                   b = along(reads.y ? given.y : TensorView{}, d, !d.reverse), dx = along(given.dx, d, !d.reverse);
  const Runner r(d, dy, a, b, dx, state, l.threads);
  r.how.split ? r.split() : r.whole();
  return {};
}

}  // namespace

Status ScanBackward::validate(const Descriptor& d) {
  const Status s = Scan::validate(d);
  return s.ok() ? s : Status(s.code(), text("scan_backward: ", s.message()));
}
Status ScanBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "dy", a.dy, d.dtype, d.shape));
  const Reads r = reads(d.kind);
  auto saved = [&](std::string_view arg, const TensorView& v, bool read, DType dtype) -> Status {
    if (v.absent() && !read) return {};
    if (v.absent()) return unexpected(name, arg, dtype, d.shape, text("is missing, the gradient of ", enum_name(d.kind), " reads it"));
    return expect(name, arg, v, dtype, d.shape);
  };
  BARACUDA_TRY(saved("x", a.x, r.x, d.dtype));
  BARACUDA_TRY(saved("y", a.y, r.y, d.dtype));
  BARACUDA_TRY(saved("indices", a.indices, r.indices, DType::i64));
  return expect(name, "dx", a.dx, d.dtype, d.shape);
}
std::span<const Kernel<ScanBackward>> ScanBackward::kernels() {
  static constexpr Kernel<ScanBackward> list[] = {
      {.name = "scan_backward.cpu.tile", .launch = launch_all<ScanBackward>(Floating{}, run), .guarantee = guarantee, .carve = carve}};
  return list;
}

}  // namespace baracuda
