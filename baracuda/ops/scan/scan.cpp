#include "baracuda/ops/scan/scan.hpp"
#include "baracuda/ops/scan/scan_lanes.hpp"

namespace baracuda {
namespace {

using namespace scan_detail;

constexpr bool has_indices(ScanKind k) { return k == ScanKind::cummax || k == ScanKind::cummin; }
using Scanned = TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>;

std::string refuse(const ScanDescriptor& d, const PlanPreference&) {
  if (d.kind == ScanKind::logcumsumexp && !is_floating(d.dtype)) return text("logcumsumexp takes floats, not ", d.dtype);
  return {};
}

// The identity of a maximum or minimum of integers.
int64_t empty(const ScanDescriptor& d) {
  if (d.dtype == DType::boolean) return d.kind == ScanKind::cummin;
  const uint64_t all = ~uint64_t(0) >> (64 - bit_size(d.dtype)), top = kDTypeFacts[size_t(d.dtype)].is_signed ? all >> 1 : all;
  return int64_t(d.kind == ScanKind::cummin ? top : top == all ? 0 : ~top);
}

// --- carries of split lanes: those of a segment's blocks, and what goes on from segment to segment
struct Carries { ScanState *block, *running; };
Carries carve_carries(const ScanDescriptor& d, Carver& c) {
  if (d.shape.numel() == 0 || !may_split(d, c.threads())) return {};
  const int64_t n = length(d), lanes = d.shape.numel() / n;
  Carries out;
  out.block = c.take<ScanState>("carries of blocks", segment(lanes, n) * lanes);
  out.running = c.take<ScanState>("carries of segments", lanes);
  return out;
}
void carve(const ScanDescriptor& d, const void*, Carver& c) { carve_carries(d, c); }

struct Runner {
  const ScanDescriptor& d;
  const TensorView &x, &y, &indices;
  const RowWalk<3> walk;
  const int64_t n;
  const int threads;
  const Arrangement how;
  const bool past;
  void (*const scan)(const ScanLanes&);
  void (*const carries)(const ScanCarries&);

  Runner(const ScanDescriptor& d, const TensorView& x, const TensorView& y, const TensorView& indices, int threads)
      : d(d), x(x), y(y), indices(indices), walk(outer_axes(x.shape), {&x, &y, &indices}), n(x.shape.last()), threads(threads),
        how(arrange<3>(walk, {&x, &y, &indices}, n, threads)),
        past(d.shape.numel() * int64_t(byte_size(y.dtype)) >= kCached), scan(BARACUDA_ISA_PICK(scan_kernels).scan[int(d.kind)][d.dtype]),
        carries(BARACUDA_ISA_PICK(scan_kernels).carries[int(d.kind)][d.dtype]) {}

  ScanLanes lanes(const int64_t (&o)[3], int64_t count) const {
    return {at(x, o[0]), at(y, o[1]), static_cast<int64_t*>(at(indices, o[2])), step(x), step(y), step(indices), walk.pitch(0), walk.pitch(1),
            walk.pitch(2), count, n, 0, chunks(n), x.dtype, y.dtype, int(byte_size(x.dtype)), int(byte_size(y.dtype)), empty(d), how.columns, d.exclusive, d.reverse, d.ties == ScanTies::first, past, nullptr, nullptr};
  }
  int64_t groups() const { return how.columns ? walk.outer.rows * how.strips : walk.rows; }
  // The lanes of one call: a strip of columns, or one row.
  ScanLanes group(int64_t g, int64_t& first) const {
    int64_t count = 1, o[3];
    first = g;
    if (how.columns) {
      const int64_t begin = g % how.strips * how.strip, inner = walk.outer.inner;
      first = g / how.strips * inner + begin, count = inner - begin < how.strip ? inner - begin : how.strip;
    }
    walk.offsets(first, o);
    return lanes(o, count);
  }
  void whole() const {
    if (how.columns) {
      const int64_t size = how.strip * n;
      parallel_for(groups(), size < kPiece ? kPiece / size : 1, threads, [&](int64_t begin, int64_t end, int) {
        int64_t first;
        for (int64_t g = begin; g < end; ++g) scan(group(g, first));
      });
    } else {
      parallel_for(walk.rows, n < kPiece ? kPiece / n : 1, threads, [&](int64_t begin, int64_t end, int) {
        walk.runs(begin, end, [&](const int64_t (&o)[3], int64_t, int64_t rows) { scan(lanes(o, rows)); });
      });
    }
  }
  // Segment by segment: totals of blocks, what came before each block, blocks.
  void split(const Carries& c) const {
    const int64_t all = blocks(n), most = segment(walk.rows, n), grain = how.columns ? 1 : 8;
    for (int64_t s = 0; s < all; s += most) {
      const int64_t count = all - s < most ? all - s : most;
      auto each = [&](int64_t grain, auto&& f) {  // f(lanes, first lane, first block, end block)
        parallel_for(groups() * count, grain, threads, [&](int64_t begin, int64_t end, int) {
          while (begin < end) {
            const int64_t b = begin % count, m = count - b < end - begin ? count - b : end - begin;
            int64_t first;
            ScanLanes p = group(begin / count, first);
            f(p, first, b, b + m);
            begin += m;
          }
        });
      };
      auto blocks_of = [&](ScanLanes& p, int64_t b, int64_t e) {
        p.begin = (s + b) * kScanLanes;
        p.end = (s + e) * kScanLanes < chunks(n) ? (s + e) * kScanLanes : chunks(n);
      };
      each(grain, [&](ScanLanes p, int64_t first, int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          blocks_of(p, b, b + 1);
          p.total = c.block + b * walk.rows + first;
          scan(p);
        }
      });
      carries({c.block, c.running, count, walk.rows, s == 0, d.ties == ScanTies::first});
      each(grain, [&](ScanLanes p, int64_t first, int64_t begin, int64_t end) {
        blocks_of(p, begin, end);
        p.carry = c.block + begin * walk.rows + first;
        scan(p);
      });
    }
  }
};

Status run(const Launch<Scan>& l) {
  run_scan(l.desc, l.args.x, l.args.y, l.args.indices, l.carver(), l.threads);
  return {};
}

}  // namespace

PrecisionGuarantee scan_detail::scan_guarantee(const ScanDescriptor& d) {
  const bool half = d.dtype == DType::f16 || d.dtype == DType::bf16;
  const bool wide = d.kind == ScanKind::cumprod || (d.kind == ScanKind::cumsum && !half);
  const DType kept = has_indices(d.kind) ? d.dtype : is_floating(d.dtype) && wide ? DType::f64 : accumulator(d.dtype);
  return {.math_precision = kept, .accumulator = kept, .batch_invariant = true};
}
void scan_detail::carve_scan(const ScanDescriptor& d, Carver& c) { carve_carries(d, c); }
void scan_detail::run_scan(const ScanDescriptor& d, const TensorView& x, const TensorView& y, const TensorView& indices, Carver c, int threads) {
  if (d.shape.numel() == 0) return;
  const Carries carries = carve_carries(d, c);
  const TensorView from = along(x, d, d.reverse), to = along(y, d, d.reverse), at = along(indices, d, d.reverse);
  const Runner r(d, from, to, at, threads);
  r.how.split ? r.split(carries) : r.whole();
}

DType Scan::y_dtype(const Descriptor& d) {
  return is_floating(d.dtype) || has_indices(d.kind) ? d.dtype : accumulator(d.dtype);
}
Status Scan::validate(const Descriptor& d) {
  BARACUDA_TRY(expect_shape(name, "shape", d.shape));
  if (!valid_enum(d.kind)) return invalid(name, text("kind ", int(d.kind), " is not a kind"));
  if (!valid_enum(d.ties)) return invalid(name, text("ties ", int(d.ties), " is not a tie rule"));
  const int rank = d.shape.rank ? d.shape.rank : 1;
  if (d.axis < -rank || d.axis >= rank)
    return invalid(name, text("axis ", d.axis, " is not an axis of the shape ", d.shape, ": it must be in [", -rank, ", ", rank - 1, "]"));
  return {};
}
Status Scan::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "y", a.y, y_dtype(d), d.shape));
  if (a.indices.absent()) return {};
  if (!has_indices(d.kind)) return invalid(name, text("indices are given, but ", enum_name(d.kind), " has none"));
  return expect(name, "indices", a.indices, DType::i64, d.shape);
}
std::span<const Kernel<Scan>> Scan::kernels() {
  static constexpr Kernel<Scan> list[] = {
      {.name = "scan.cpu.tile", .launch = launch_all<Scan>(Scanned{}, run), .guarantee = scan_guarantee, .refuse = refuse, .carve = carve}};
  return list;
}

}  // namespace baracuda
