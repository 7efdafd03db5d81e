#include "baracuda/ops/scan/scan.hpp"
#include <algorithm>
#include <atomic>
#include <thread>
#include "baracuda/ops/scan/scan_lanes.hpp"

namespace baracuda {
namespace {

using namespace scan_detail;

constexpr bool has_indices(ScanKind k) { return k == ScanKind::cummax || k == ScanKind::cummin; }
struct Scratch {
  ScanState *block = nullptr, *running = nullptr;  // carries of a segment's blocks, and what goes on from segment to segment
  double* products = nullptr;
};
int64_t products_of(int64_t n) { return (n + kScanProducts - 1) / kScanProducts; }
Scratch carve_scratch(const ScanDescriptor& d, bool products, Carver& c) {
  Scratch out;
  if (d.shape.numel() == 0) return out;
  const int64_t n = length(d), lanes = d.shape.numel() / n;
  if (may_split(d, c.threads())) {
    const int64_t most = std::max(segment(lanes, n, c.threads()), chunk(lanes, n, c.threads()) * c.threads());
    out.block = c.take<ScanState>("carries of blocks", most * lanes);
    out.running = c.take<ScanState>("carries of segments", lanes);
  }
  if (products) out.products = c.take<double>("products", products_of(n) * lanes);
  return out;
}

struct Runner {
  const ScanDescriptor& d;
  const Lanes& l;
  const ScanKernels& kernels;
  const RowWalk<5> walk;
  const int64_t n;
  const int threads;
  const bool cheap;  // its kernels may be direct
  const Arrangement how;
  const Scratch scratch;
  const bool direct;
  void (*const scan)(const ScanLanes&);

  Runner(const ScanDescriptor& d, const Lanes& l, const ScanKernels& kernels, const Scratch& scratch, int threads, const ScanDirect* direct_kernels)
      : d(d), l(l), kernels(kernels), walk(outer_axes(l.out.shape), {&l.in[0], &l.in[1], &l.in[2], &l.out, &l.out2}), n(l.out.shape.last()),
        threads(threads), cheap(direct_kernels && d.kind != ScanKind::logcumsumexp && is_floating(d.dtype) && !d.exclusive && l.out2.absent()),
        how(arrange<5>(walk, {&l.in[0], &l.in[1], &l.in[2], &l.out, &l.out2}, n, threads, cheap)), scratch(scratch), direct(cheap && is_direct()),
        scan(direct ? direct_kernels->scan[int(d.kind)][d.dtype] : kernels.scan[int(d.kind)][d.dtype]) {}

  bool is_direct() const {
    const int64_t along = step(l.in[0]);
    return how.columns ? walk.pitch(0) == 1 && walk.pitch(3) == 1 : step(l.out) == along && (along == 1 || along == -1);
  }

  // `count` lanes from lane `first` on, at these offsets.
  ScanLanes lanes(const int64_t (&o)[5], int64_t first, int64_t count) const {
    auto port = [&](const TensorView& v, int k) {
      return ScanPort{static_cast<char*>(at(v, o[k])), step(v), walk.pitch(k), v.dtype, int(byte_size(v.dtype))};
    };
    return {{port(l.in[0], 0), port(l.in[1], 1), port(l.in[2], 2)}, port(l.out, 3), port(l.out2, 4), count, n, 0, blocks(n), scan_empty(d),
            how.columns, d.exclusive, l.falling, d.ties == ScanTies::first, d.shape.numel() * int64_t(byte_size(l.out.dtype)) >= kCached, nullptr,
            nullptr, scratch.products ? scratch.products + first : nullptr, walk.rows};
  }
  int64_t groups() const { return how.columns ? walk.outer.rows * how.strips : walk.rows; }
  // The lanes of one call: a strip of columns, or one row.
  ScanLanes group(int64_t g, int64_t& first) const {
    int64_t count = 1, o[5];
    first = g;
    if (how.columns) {
      const int64_t begin = g % how.strips * how.strip, inner = walk.outer.inner;
      first = g / how.strips * inner + begin, count = inner - begin < how.strip ? inner - begin : how.strip;
    }
    walk.offsets(first, o);
    return lanes(o, first, count);
  }
  // Products of pieces become those of all pieces behind them; one that has overflowed counts as 0 beside a 0.
  void spread_products(int64_t first, int64_t count) const {
    constexpr int64_t kAbreast = 64;
    for (int64_t lane = first; lane < first + count; lane += kAbreast) {
      const int64_t lanes = first + count - lane < kAbreast ? first + count - lane : kAbreast;
      double after[kAbreast];
      for (int64_t l = 0; l < lanes; ++l) after[l] = 1;
      for (int64_t c = products_of(n); c-- > 0;)
        for (int64_t l = 0; l < lanes; ++l) {
          double& p = scratch.products[c * walk.rows + lane + l];
          const double own = p, joined = after[l] * own;
          p = after[l], after[l] = joined != joined && after[l] == after[l] && own == own ? 0 : joined;
        }
    }
  }
  void whole() const {
    const int64_t size = (how.columns ? how.strip : 1) * n, grain = size < kPiece ? kPiece / size : 1;
    parallel_for(groups(), grain, threads, [&](int64_t begin, int64_t end, int) {
      if (!how.columns && !scratch.products)
        return walk.runs(begin, end, [&](const int64_t (&o)[5], int64_t first, int64_t rows) { scan(lanes(o, first, rows)); });
      for (int64_t g = begin, first; g < end; ++g) {
        const ScanLanes p = group(g, first);
        if (scratch.products) kernels.products[d.dtype](p), spread_products(first, p.lanes);
        scan(p);
      }
    });
  }
  // f(lanes, their first lane, group, first block, end block) for blocks [begin, begin + count) of all lanes.
  template <class F> void each(int64_t start, int64_t count, int64_t grain, F&& f) const {
    parallel_for(groups() * count, grain, threads, [&](int64_t begin, int64_t end, int) {
      while (begin < end) {
        const int64_t b = begin % count, m = count - b < end - begin ? count - b : end - begin;
        int64_t first;
        ScanLanes p = group(begin / count, first);
        p.begin = start + b, p.end = start + b + m;
        f(p, first, begin / count, b, b + m);
        begin += m;
      }
    });
  }
  // Chunk by chunk, each by one thread: totals of its blocks, what came before each, its blocks. A chunk waits for what the one before it hands on,
  // which its thread has taken earlier and needs its totals alone for.
  void chained() const {
    const int64_t all = blocks(n), most = chunk(walk.rows, n, threads), chunks = (all + most - 1) / most;
    std::atomic<int64_t> next{0};  // the chunk whose turn it is to take what comes before it
    parallel_for(chunks, 1, threads, [&](int64_t from, int64_t to, int worker) {
      ScanState* const carries = scratch.block + worker * most * walk.rows;
      for (int64_t c = from; c < to; ++c) {
        const int64_t begin = c * most, end = std::min(all, begin + most);
        auto each = [&](auto&& f) {
          for (int64_t g = 0, first; g < groups(); ++g) {
            ScanLanes p = group(g, first);
            p.begin = begin, p.end = end;
            f(p, first);
          }
        };
        if (end < all) each([&](ScanLanes& p, int64_t first) { p.total = carries + first, p.total_pitch = walk.rows, scan(p); });
        else std::fill_n(carries, (end - begin) * walk.rows, ScanState{});
        for (int spins = 0; next.load(std::memory_order_acquire) != c; ++spins)
          if (spins > 1000) std::this_thread::yield();
        kernels.carries[int(d.kind)][d.dtype]({carries, scratch.running, end - begin, walk.rows, c == 0, d.ties == ScanTies::first});
        next.store(c + 1, std::memory_order_release);
        each([&](ScanLanes& p, int64_t first) { p.carry = carries + first, p.ahead = most * threads * kScanBlock, scan(p); });
      }
    });
  }
  // Segment by segment: totals of blocks, what came before each, blocks. A thread takes a stretch of blocks; the last stretch of a
  // lane is nobody's past, unless a segment follows.
  void split() const {
    const int64_t all = blocks(n), most = segment(walk.rows, n, threads), grain = how.columns ? 1 : 8;
    if (scratch.products) {
      each(0, all, grain, [&](const ScanLanes& p, int64_t, int64_t, int64_t, int64_t) { kernels.products[d.dtype](p); });
      parallel_for(walk.rows, 1, threads, [&](int64_t begin, int64_t end, int) { spread_products(begin, end - begin); });
    }
    for (int64_t s = 0; s < all; s += most) {
      const int64_t count = all - s < most ? all - s : most, stretch = (groups() * count + threads - 1) / threads;
      const bool last = s + count == all;
      each(s, count, grain, [&](ScanLanes p, int64_t first, int64_t g, int64_t begin, int64_t end) {
        const int64_t past = last ? ((g + 1) * count - 1) / stretch * stretch - g * count : count;
        for (int64_t b = begin; b < end; ++b) {
          p.begin = s + b, p.end = s + b + 1, p.total = scratch.block + b * walk.rows + first;
          if (b < past) scan(p);
          else std::fill_n(p.total, p.lanes, ScanState{});
        }
      });
      kernels.carries[int(d.kind)][d.dtype]({scratch.block, scratch.running, count, walk.rows, s == 0, d.ties == ScanTies::first});
      each(s, count, stretch, [&](ScanLanes p, int64_t first, int64_t, int64_t begin, int64_t) {
        p.carry = scratch.block + begin * walk.rows + first;
        scan(p);
      });
    }
  }
};

void carve(const ScanDescriptor& d, const void*, Carver& c) { carve_lanes(d, false, c); }
Status run(const Launch<Scan>& l) {
  run_scan(l.desc, l.args.x, l.args.y, l.args.indices, l.carver(), l.threads);
  return {};
}

}  // namespace

std::string scan_detail::scan_refuse(const ScanDescriptor& d, const PlanPreference&) {
  if (d.kind == ScanKind::logcumsumexp && !is_floating(d.dtype)) return text("logcumsumexp takes floats, not ", d.dtype);
  return {};
}
int64_t scan_detail::scan_empty(const ScanDescriptor& d) {
  if (d.dtype == DType::boolean) return d.kind == ScanKind::cummin;
  const uint64_t all = ~uint64_t(0) >> (64 - bit_size(d.dtype)), top = kDTypeFacts[size_t(d.dtype)].is_signed ? all >> 1 : all;
  return int64_t(d.kind == ScanKind::cummin ? top : top == all ? 0 : ~top);
}
PrecisionGuarantee scan_detail::scan_guarantee(const ScanDescriptor& d) {
  const bool half = d.dtype == DType::f16 || d.dtype == DType::bf16;
  const bool wide = d.kind == ScanKind::cumprod || (d.kind == ScanKind::cumsum && !half);
  const DType kept = has_indices(d.kind) ? d.dtype : is_floating(d.dtype) && wide ? DType::f64 : accumulator(d.dtype);
  return {.math_precision = kept, .accumulator = kept, .batch_invariant = true};
}
void scan_detail::carve_lanes(const ScanDescriptor& d, bool products, Carver& c) { carve_scratch(d, products, c); }
void scan_detail::run_lanes(const ScanDescriptor& d, const ScanKernels& kernels, const Lanes& lanes, Carver c, int threads, const ScanDirect* direct) {
  if (d.shape.numel() == 0) return;
  const Scratch scratch = carve_scratch(d, kernels.products[d.dtype] && d.kind == ScanKind::cumprod, c);
  const Runner r(d, lanes, kernels, scratch, threads, direct);
  if (!r.how.split) r.whole();
  else if (r.direct) r.chained();
  else r.split();
}
void scan_detail::run_scan(const ScanDescriptor& d, const TensorView& x, const TensorView& y, const TensorView& indices, Carver c, int threads) {
  const Lanes lanes{{along(x, d, d.reverse)}, along(y, d, d.reverse), along(indices, d, d.reverse), d.reverse};
  run_lanes(d, BARACUDA_ISA_PICK(scan_kernels), lanes, c, threads, &BARACUDA_ISA_PICK_BF16(scan_direct));
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
      {.name = "scan.cpu.tile", .launch = launch_all<Scan>(Scanned{}, run), .guarantee = scan_guarantee, .refuse = scan_refuse, .carve = carve}};
  return list;
}

}  // namespace baracuda
