#include <cmath>
#include <vector>
#include "baracuda/host/kept_state.hpp"
#include "baracuda/host/past.hpp"
#include "baracuda/host/row_walk.hpp"
#include "baracuda/ops/position/position.hpp"
#include "baracuda/ops/position/position_detail.hpp"

namespace baracuda {
namespace {
using position_detail::rotary_dim;

Status validate_common(std::string_view op, const RopeDescriptor& d) {
  BARACUDA_TRY(expect_shape(op, "shape", d.shape));
  if (d.shape.rank != 4) return invalid(op, text("shape ", d.shape, " must be [B, H, S, D]"));
  if (!valid_enum(d.pairing)) return invalid(op, text("pairing ", int(d.pairing), " is not a pairing"));
  if (!valid_enum(d.scaling)) return invalid(op, text("scaling ", int(d.scaling), " is not a scaling"));
  const int64_t rotary = rotary_dim(d);
  if (rotary < 0 || rotary > d.shape[3] || rotary % 2)
    return invalid(op, text("rotary_dim ", rotary, " must be even and at most the head dimension ", d.shape[3]));
  if (rotary > kMostRotaryDim) return invalid(op, text("rotary_dim ", rotary, " is more than ", kMostRotaryDim));
  if (!std::isfinite(d.theta) || d.theta <= 0) return invalid(op, text("theta ", d.theta, " must be finite and positive"));
  if (d.scaling == RopeScaling::none) return {};
  if (!std::isfinite(d.factor) || d.factor <= 0) return invalid(op, text("factor ", d.factor, " must be finite and positive"));
  if (d.scaling == RopeScaling::linear) return {};
  if (!std::isfinite(d.high_freq_factor) || !(d.low_freq_factor > 0) || !(d.high_freq_factor > d.low_freq_factor))
    return invalid(op, text("low_freq_factor ", d.low_freq_factor, " must be positive and below high_freq_factor ", d.high_freq_factor));
  if (d.original_context <= 0) return invalid(op, text("original_context ", d.original_context, " must be positive"));
  return {};
}
Status expect_heads(std::string_view op, std::string_view arg, const TensorView& v, const RopeDescriptor& d) {
  BARACUDA_TRY(expect(op, arg, v, d.dtype, d.shape));
  return expect_dense_rows(op, arg, v);
}
Status check_positions(std::string_view op, const TensorView& v, int64_t offset, const RopeDescriptor& d) {
  if (v.absent()) {
    if (int64_t end; __builtin_add_overflow(offset, d.shape[2], &end)) return invalid(op, text("offset ", offset, " plus ", d.shape[2], " positions exceeds 2^63 - 1"));
    return {};
  }
  if (offset != 0) return invalid(op, text("offset ", offset, " must be 0 where positions are given"));
  const Shape one{d.shape[2]}, each{d.shape[0], d.shape[2]};
  if (v.dtype != DType::i32 && v.dtype != DType::i64)
    return unexpected(op, "positions", DType::i64, one, text("has dtype ", v.dtype, ", expected i32 or i64"));
  if (!(v.shape == one) && !(v.shape == each))
    return unexpected(op, "positions", v.dtype, one, text("has shape ", v.shape, ", expected ", one, " or ", each));
  return {};
}
PrecisionGuarantee guarantee(const RopeDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}

// The frequencies and the sines of digits, shared by all plans of the same frequencies.
struct State {
  struct alignas(64) Line { unsigned char bytes[64]; };
  std::vector<double> high, low;
  std::vector<Line> digits, rounded;
  RopeFrequencies view() const {
    return {high.data(), low.data(), int64_t(high.size()), reinterpret_cast<double*>(const_cast<Line*>(digits.data())),
            reinterpret_cast<float*>(const_cast<Line*>(rounded.data()))};
  }
};
long double scaled(const RopeDescriptor& d, long double f) {
  if (d.scaling == RopeScaling::none) return f;
  if (d.scaling == RopeScaling::linear) return f / d.factor;
  const long double turns = d.original_context * f / 6.283185307179586476925286766559L;  // within the original context
  if (turns > d.high_freq_factor) return f;
  if (turns < d.low_freq_factor) return f / d.factor;
  const long double kept = (turns - d.low_freq_factor) / (d.high_freq_factor - d.low_freq_factor);
  return (1 - kept) * f / d.factor + kept * f;
}
PlanState make_rope_state(const RopeDescriptor& d) {
  auto s = std::make_shared<State>();
  const int64_t rotary = rotary_dim(d), half = rotary / 2;
  // theta^(-2 i / rotary) by the digits of i to base 4: most of the time of making a plan would go into powers.
  auto power = [&](int64_t i) { return i ? std::pow((long double)(d.theta), -(long double)(2 * i) / (long double)(rotary)) : 1; };
  long double digits[2][4], rest = 1;
  for (int64_t i = 0; i < 4; ++i) digits[0][i] = i < half ? power(i) : 1, digits[1][i] = 4 * i < half ? power(4 * i) : 1;
  s->high.resize(size_t(half)), s->low.resize(size_t(half));
  for (int64_t i = 0; i < half; ++i) {
    if (i % 16 == 0) rest = power(i);
    const long double f = scaled(d, rest * (digits[1][i / 4 % 4] * digits[0][i % 4]));
    s->high[size_t(i)] = double(f);
    s->low[size_t(i)] = double(f - double(f));
  }
  auto lines = [](int64_t bytes) { return size_t(bytes + 63) / 64; };
  s->digits.resize(lines((kRopeDigits + 16) * 2 * half * int64_t(sizeof(double)))), s->rounded.resize(lines(32 * 2 * half * int64_t(sizeof(float))));
  BARACUDA_ISA_PICK_BF16(position_kernels).fill_digits(s->view());
  return s;
}

}  // namespace

Result<PlanState> position_detail::prepare_rope(const Stream&, const RopeDescriptor& d, const PlanPreference&) {
  auto bits = [](double v) { return __builtin_bit_cast(uint64_t, v); };
  const std::vector<uint64_t> key{kRopeState, uint64_t(rotary_dim(d)), bits(d.theta), uint64_t(d.scaling), bits(d.factor), bits(d.low_freq_factor),
                                  bits(d.high_freq_factor), uint64_t(d.original_context)};
  return kept_state(key, [&] { return make_rope_state(d); });
}
RopeFrequencies position_detail::frequencies(const void* state) { return static_cast<const State*>(state)->view(); }

namespace {

// A block is 64 positions of one stretch of batches: its table is made once and used for all of their heads. With a single row at
// each position it is longer, where enough blocks are left, as only one row of sines is kept.
constexpr int64_t kBlock = 64, kLongBlock = 256, kManyBlocks = 64;
constexpr int kHeadsTogether = 4;
struct Scratch { char* table; double* coarse; };
Scratch carve_scratch(const RopeDescriptor& d, Carver& c) {
  Scratch s;
  s.table = static_cast<char*>(c.take_bytes("sines", c.threads() * kBlock * rotary_dim(d), byte_size(accumulator(d.dtype))));
  s.coarse = c.take<double>("sines of block starts", c.threads() * 5 * rotary_dim(d));
  return s;
}
void carve(const RopeDescriptor& d, const void*, Carver& c) { carve_scratch(d, c); }

template <class Op>
Status turn(const Launch<Op>& l, const TensorView& x, const TensorView& positions, int64_t offset, const TensorView& y, bool inverse) {
  const RopeDescriptor& d = l.desc;
  if (d.shape.numel() == 0) return {};
  const int64_t batches = d.shape[0], heads = d.shape[1], length = d.shape[2], n = d.shape[3], half = rotary_dim(d) / 2;
  const RopeFrequencies frequencies = position_detail::frequencies(l.state);
  const PositionKernels& kernels = BARACUDA_ISA_PICK_BF16(position_kernels);
  const auto rotate = (d.pairing == RopePairing::interleaved ? kernels.interleaved : kernels.half_split)[d.dtype];
  Carver c = l.carver();
  const Scratch scratch = carve_scratch(d, c);
  const int64_t width = rotary_dim(d), size = int64_t(byte_size(d.dtype)), table_bytes = kBlock * width * int64_t(byte_size(accumulator(d.dtype)));
  // Positions shared by the batches: a stretch is as many of them as leave some blocks for every thread.
  const bool own = positions.shape.rank == 2;
  const int64_t stretch = own ? 1 : std::clamp<int64_t>(batches * ((length + kBlock - 1) / kBlock) / kManyBlocks, 1, batches);
  const int64_t stretches = (batches + stretch - 1) / stretch;
  const int64_t block = heads * stretch == 1 && stretches * length >= kManyBlocks * kLongBlock ? kLongBlock : kBlock, blocks = (length + block - 1) / block;
  // Rows go by in the order in which they lie: position by position, or head by head.
  const bool heads_inside = heads > 1 && std::abs(x.strides[1]) < std::abs(x.strides[2]);
  const bool past = half * size % 64 == 0 && past_caches(y, x.data);
  parallel_for(stretches * blocks, 1, l.threads, [&](int64_t begin, int64_t end, int worker) {
    char* table = scratch.table + worker * table_bytes;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t b0 = task / blocks * stretch, b1 = std::min(b0 + stretch, batches), s0 = task % blocks * block;
      const int64_t count = std::min(block, length - s0);
      int64_t p[kLongBlock];
      for (int64_t s = 0; s < count; ++s) {
        if (positions.absent()) { p[s] = offset + s0 + s; continue; }
        const int64_t at = own ? b0 * positions.strides[0] + (s0 + s) * positions.strides[1] : (s0 + s) * positions.strides[0];
        p[s] = positions.dtype == DType::i64 ? positions.as<int64_t>()[at] : positions.as<int32_t>()[at];
      }
      const auto place = [&](const TensorView& v, int64_t b, int64_t head) { return v.as<char>() + (b * v.strides[0] + head * v.strides[1] + s0 * v.strides[2]) * size; };
      const RopeTable make{frequencies, p, count, inverse, scratch.coarse + worker * 10 * half, table};
      if (heads * (b1 - b0) == 1) {
        rotate({place(x, b0, 0), place(y, b0, 0), x.strides[2], y.strides[2], 0, count, nullptr, half, n, past, nullptr, 0, 0, 1, &make});
        if (past) past_fence();
        continue;
      }
      kernels.table[d.dtype](make);
      const int64_t far = (kRopeAhead / (count * n * size * kHeadsTogether) + 1) * kHeadsTogether;  // heads
      for (int64_t b = b0; b < b1; ++b) {
        if (heads_inside) {
          rotate({place(x, b, 0), place(y, b, 0), x.strides[1], y.strides[1], 0, heads, table, half, n, past, b + 1 < b1 ? place(x, b + 1, 0) : nullptr, 0, 0, 1,
                  nullptr, count, x.strides[2], y.strides[2], width});
          continue;
        }
        for (int64_t head = 0; head < heads; head += kHeadsTogether) {
          const int64_t at = head + far;
          const void* after = at < heads ? place(x, b, at) : b + 1 < b1 && at - heads < heads ? place(x, b + 1, at - heads) : nullptr;
          rotate({place(x, b, head), place(y, b, head), x.strides[2], y.strides[2], width, count, table, half, n, past, after, x.strides[1], y.strides[1],
                  int(std::min<int64_t>(kHeadsTogether, heads - head)), nullptr});
        }
      }
      if (past) past_fence();
    }
  });
  return {};
}
Status run_forward(const Launch<Rope>& l) { return turn(l, l.args.x, l.args.positions, l.args.offset, l.args.y, false); }
Status run_backward(const Launch<RopeBackward>& l) { return turn(l, l.args.dy, l.args.positions, l.args.offset, l.args.dx, true); }

}  // namespace

Status Rope::validate(const Descriptor& d) { return validate_common(name, d); }
Status Rope::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_heads(name, "x", a.x, d));
  BARACUDA_TRY(expect_heads(name, "y", a.y, d));
  return check_positions(name, a.positions, a.offset, d);
}
std::span<const Kernel<Rope>> Rope::kernels() {
  static constexpr Kernel<Rope> list[] = {
      {.name = "rope.cpu.block", .launch = launch_all<Rope>(Floating{}, run_forward), .guarantee = guarantee, .carve = carve, .prepare = position_detail::prepare_rope}};
  return list;
}

Status RopeBackward::validate(const Descriptor& d) { return validate_common(name, d); }
Status RopeBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_heads(name, "dy", a.dy, d));
  BARACUDA_TRY(expect_heads(name, "dx", a.dx, d));
  return check_positions(name, a.positions, a.offset, d);
}
std::span<const Kernel<RopeBackward>> RopeBackward::kernels() {
  static constexpr Kernel<RopeBackward> list[] = {{.name = "rope_backward.cpu.block",
                                                   .launch = launch_all<RopeBackward>(Floating{}, run_backward),
                                                   .guarantee = guarantee,
                                                   .carve = carve,
                                                   .prepare = position_detail::prepare_rope}};
  return list;
}

}  // namespace baracuda
