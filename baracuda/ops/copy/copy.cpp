#include "baracuda/ops/copy/copy.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include "baracuda/host/move.hpp"
#include "baracuda/host/past.hpp"
#include "baracuda/ops/copy/cast_cpu.hpp"
#include "baracuda/ops/elementwise/map.hpp"

namespace baracuda {
namespace {

using Castable = TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>;

template <class Op> PrecisionGuarantee exact(const typename Op::Descriptor& d) {
  return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true};
}
Status expect_apart(std::string_view op, const TensorView& x, const TensorView& y) {
  if (overlaps(x, y) || (x.data == y.data && x.numel() > 0 && (byte_size(x.dtype) != byte_size(y.dtype) || !(x.strides == y.strides))))
    return invalid(op, "y overlaps x without being the same tensor");
  return {};
}

Status run_cast(const Launch<Cast>& l) {
  const MapOperand x = MapOperand::of(l.args.x), y = MapOperand::of(l.args.y);
  run_map(l.desc.shape, {&x, 1}, {&y, 1}, BARACUDA_ISA_PICK(cast_kernels).from[l.desc.dtype][l.desc.to], nullptr, l.threads);
  return {};
}

// --- copy: rows are copied whole where both sides have them; where x runs along another axis than y, blocks are transposed.
struct Bytes16 { uint64_t a, b; };
template <class F> Status with_element(DType t, F f) {
  switch (byte_size(t)) {
    case 1: f(uint8_t{}); break;
    case 2: f(uint16_t{}); break;
    case 4: f(uint32_t{}); break;
    case 8: f(uint64_t{}); break;
    default: f(Bytes16{});
  }
  return {};
}
constexpr int64_t kShortRow = 2048;
constexpr int64_t kBlockRows = 256, kBlockColumns = 64;  // x is read in stretches of kBlockRows
template <class T> void copy_strided(const MapWalk& m, bool past, int threads) {
  const MoveKernels& move = BARACUDA_ISA_PICK(move_kernels);
  const auto& w = m.w;
  const T* x = reinterpret_cast<const T*>(m.data[0]);
  T* y = reinterpret_cast<T*>(m.data[1]);
  const int64_t x_step = w.inner_stride(0), y_step = w.inner_stride(1);
  int along = -1;  // the axis along which x is dense, where it is not the last one
  for (int i = 0; i < w.rank - 1; ++i)
    if (w.stride[0][i] == 1 && x_step != 1 && y_step == 1) along = i;
  if (along >= 0) {
    const int64_t rows = w.extent[along], columns = w.inner, tiles_r = (rows + kBlockRows - 1) / kBlockRows,
                  tiles_c = (columns + kBlockColumns - 1) / kBlockColumns;
    const auto transpose = move.transpose[std::countr_zero(sizeof(T))];
    parallel_for(w.rows / rows * tiles_r * tiles_c, 1, threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t u = begin; u < end; ++u) {
        const int64_t r = u / tiles_c % tiles_r * kBlockRows, c = u % tiles_c * kBlockColumns;
        int64_t rest = u / tiles_c / tiles_r, at[2] = {r + c * x_step, r * w.stride[1][along] + c};
        for (int i = w.rank - 2; i >= 0; --i) {
          if (i == along) continue;
          for (int k = 0; k < 2; ++k) at[k] += rest % w.extent[i] * w.stride[k][i];
          rest /= w.extent[i];
        }
        transpose(x + at[0], y + at[1], std::min(kBlockRows, rows - r), std::min(kBlockColumns, columns - c), x_step, w.stride[1][along], past);
      }
    });
    return;
  }
  if (w.rank > 1 && w.inner < kShortRow && x_step == 1 && y_step == 1) {  // of the last two axes at once: a row's place costs more than a short row
    const int64_t middle = w.extent[w.rank - 2], x_pitch = w.stride[0][w.rank - 2], y_pitch = w.stride[1][w.rank - 2];
    const int64_t most = std::max<int64_t>(1, kPiece / w.inner), pieces = (middle + most - 1) / most, grain = std::max<int64_t>(1, most / middle);
    const int64_t bytes = w.inner * int64_t(sizeof(T));
    parallel_for(w.rows / middle * pieces, grain, threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t u = begin; u < end; ++u) {
        const int64_t first = u % pieces * most, stop = std::min(middle, first + most);
        int64_t at[kMapOperands];
        w.offsets(u / pieces * middle + first, at);
        for (int64_t r = first; r < stop; ++r, at[0] += x_pitch, at[1] += y_pitch)
          if (past) move.copy_past(y + at[1], x + at[0], bytes);
          else std::memmove(y + at[1], x + at[0], size_t(bytes));
      }
      if (past) past_fence();
    });
    return;
  }
  for_each_piece(w, threads, [&](const int64_t (&at)[kMapOperands], int64_t, int64_t n) {
    const T* from = x + at[0];
    T* to = y + at[1];
    if (past && x_step == 1 && y_step == 1) move.copy_past(to, from, n * int64_t(sizeof(T))), past_fence();
    else if (x_step == 1 && y_step == 1) std::memmove(to, from, size_t(n) * sizeof(T));
    else for (int64_t i = 0; i < n; ++i) to[i * y_step] = from[i * x_step];
  });
}
Status run_copy(const Launch<Copy>& l) {
  const MapOperand x = MapOperand::of(l.args.x), y = MapOperand::of(l.args.y);
  MapWalk m;
  m.init(l.desc.shape, {&x, 1}, {&y, 1});
  const bool past = past_caches(l.args.y, l.args.x.data);
  return with_element(l.desc.dtype, [&]<class T>(T) { copy_strided<T>(m, past, l.threads); });
}

Status run_fill(const Launch<Fill>& l) {
  uint64_t bits[2] = {};
  const void* in[] = {&l.args.value};
  void* out[] = {bits};
  BARACUDA_ISA_PICK(cast_kernels).from[DType::f64][l.desc.dtype](nullptr, in, out, 1);
  const MapOperand y = MapOperand::of(l.args.y);
  MapWalk m;
  m.init(l.desc.shape, {}, {&y, 1});
  return with_element(l.desc.dtype, [&]<class T>(T) {
    T value;
    std::memcpy(&value, bits, sizeof value);
    for_each_piece(m.w, l.threads, [&](const int64_t (&at)[kMapOperands], int64_t, int64_t n) {
      T* to = reinterpret_cast<T*>(m.data[0]) + at[0];
      const int64_t step = m.w.inner_stride(0);
      if (step == 1) std::fill(to, to + n, value);
      else for (int64_t i = 0; i < n; ++i) to[i * step] = value;
    });
  });
}
// Every dtype whose elements take whole bytes.
template <class Op> constexpr ByDType<Launcher<Op>> launch_whole_bytes(Launcher<Op> f) {
  ByDType<Launcher<Op>> table;
  for (size_t t = 0; t < kDTypes; ++t)
    if (byte_size(DType(t))) table[DType(t)] = f;
  return table;
}

}  // namespace

Status Cast::validate(const Descriptor& d) {
  if (!valid(d.dtype) || !valid(d.to)) return invalid(name, "invalid dtype");
  return expect_shape(name, "shape", d.shape);
}
Status Cast::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "y", a.y, d.to, d.shape));
  return expect_apart(name, a.x, a.y);
}
std::span<const Kernel<Cast>> Cast::kernels() {
  static constexpr Kernel<Cast> list[] = {{.name = "cast.cpu.map",
                                           .launch = launch_all<Cast>(Castable{}, run_cast),
                                           .guarantee = exact<Cast>,
                                           .refuse = [](const CastDescriptor& d, const PlanPreference&) {
                                             return dtypes(Castable{}).has(d.to) ? std::string() : text("no cast to ", d.to);
                                           }}};
  return list;
}

Status Copy::validate(const Descriptor& d) {
  if (!valid(d.dtype)) return invalid(name, "invalid dtype");
  return expect_shape(name, "shape", d.shape);
}
Status Copy::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "y", a.y, d.dtype, d.shape));
  return expect_apart(name, a.x, a.y);
}
std::span<const Kernel<Copy>> Copy::kernels() {
  static constexpr Kernel<Copy> list[] = {{.name = "copy.cpu.strided", .launch = launch_whole_bytes<Copy>(run_copy), .guarantee = exact<Copy>}};
  return list;
}

Status Fill::validate(const Descriptor& d) {
  if (!valid(d.dtype)) return invalid(name, "invalid dtype");
  return expect_shape(name, "shape", d.shape);
}
Status Fill::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<Fill>> Fill::kernels() {
  static constexpr Kernel<Fill> list[] = {{.name = "fill.cpu.map", .launch = launch_all<Fill>(Castable{}, run_fill), .guarantee = exact<Fill>}};
  return list;
}

}  // namespace baracuda
