#include "baracuda/ops/position/position.hpp"
#include <algorithm>
#include <cmath>
#include <cstring>
#include "baracuda/host/move.hpp"
#include "baracuda/host/past.hpp"
#include "baracuda/host/row_walk.hpp"
#include "baracuda/ops/position/position_detail.hpp"

namespace baracuda {

float position_detail::slope(const AlibiSlopesDescriptor& d, int64_t h) {
  int64_t power = 1;
  while (power <= d.heads / 2) power *= 2;
  const double step = h < power ? double(h + 1) / double(power) : double(2 * (h - power) + 1) / double(2 * power);
  return float(std::exp2(-d.max_bias * step));
}

namespace {
using position_detail::value_dim;

Status make_slopes(const Launch<AlibiSlopes>& l) {
  for (int64_t h = 0; h < l.desc.heads; ++h) l.args.slopes.as<float>()[h * l.args.slopes.strides[0]] = position_detail::slope(l.desc, h);
  return {};
}
int64_t place_of(const KvCacheAppend::Args& a, int64_t b) {
  if (a.lengths.absent()) return a.offset;
  const int64_t at = b * a.lengths.strides[0];
  return a.lengths.dtype == DType::i64 ? a.lengths.as<int64_t>()[at] : a.lengths.as<int32_t>()[at];
}
Status expect_fit(const KvCacheAppendDescriptor& d, int64_t place, std::string_view what) {
  if (place >= 0 && place <= d.capacity - d.tokens) return {};
  return invalid(KvCacheAppend::name, text(what, " ", place, " plus ", d.tokens, " tokens must lie in the cache of ", d.capacity));
}
void append(const KvCacheAppendDescriptor& d, const KvCacheAppend::Args& a, const TensorView& from, const TensorView& to, int64_t width, bool large, int threads) {
  const RowWalk<2> walk({d.batch, d.heads, d.tokens}, {&from, &to});
  const int64_t size = int64_t(byte_size(d.dtype)), per_batch = d.heads * d.tokens;
  if (width == 0) return;
  const bool past = large && past_caches(to, nullptr);
  const auto copy_past = BARACUDA_ISA_PICK(move_kernels).copy_past;
  parallel_for(walk.rows, width < kPiece ? kPiece / width : 1, threads, [&](int64_t begin, int64_t end, int) {
    const bool dense = walk.pitch(0) == width && walk.pitch(1) == width;
    for (int64_t next; begin < end; begin = next) {  // batch by batch: each has a place of its own
      next = std::min(end, (begin / per_batch + 1) * per_batch);
      const int64_t place = place_of(a, begin / per_batch) * to.strides[2];
      walk.runs(begin, next, [&](const int64_t (&o)[2], int64_t, int64_t rows) {
        const int64_t pieces = dense ? 1 : rows, bytes = (dense ? rows : 1) * width * size;
        const char* x = from.as<char>() + o[0] * size;
        char* y = to.as<char>() + (o[1] + place) * size;
        for (int64_t i = 0; i < pieces; ++i, x += walk.pitch(0) * size, y += walk.pitch(1) * size)
          if (past) copy_past(y, x, bytes);
          else std::memcpy(y, x, size_t(bytes));
      });
    }
    if (past) past_fence();
  });
}
Status run_append(const Launch<KvCacheAppend>& l) {
  const KvCacheAppendDescriptor& d = l.desc;
  if (!l.args.lengths.absent())
    for (int64_t b = 0; b < d.batch; ++b) BARACUDA_TRY(expect_fit(d, place_of(l.args, b), text("lengths[", b, "] =")));
  const bool large = d.batch * d.heads * d.tokens * (d.head_dim + value_dim(d)) >= kPastCaches / int64_t(byte_size(d.dtype));
  append(d, l.args, l.args.k, l.args.k_cache, d.head_dim, large, l.threads);
  append(d, l.args, l.args.v, l.args.v_cache, value_dim(d), large, l.threads);
  return {};
}

}  // namespace

Status AlibiSlopes::validate(const Descriptor& d) {
  BARACUDA_TRY(expect_shape(name, "heads", {d.heads}));
  if (!std::isfinite(d.max_bias) || d.max_bias <= 0) return invalid(name, text("max_bias ", d.max_bias, " must be finite and positive"));
  return {};
}
Status AlibiSlopes::check(const Descriptor& d, const Args& a) { return expect(name, "slopes", a.slopes, DType::f32, {d.heads}); }
std::span<const Kernel<AlibiSlopes>> AlibiSlopes::kernels() {
  static constexpr Kernel<AlibiSlopes> list[] = {{.name = "alibi_slopes.cpu.loop",
                                                  .launch = launch_all<AlibiSlopes>(TypeList<float>{}, make_slopes),
                                                  .guarantee = [](const Descriptor&) { return PrecisionGuarantee{.math_precision = DType::f64}; }}};
  return list;
}

Status KvCacheAppend::validate(const Descriptor& d) {
  BARACUDA_TRY(expect_shape(name, "k", {d.batch, d.heads, d.tokens, d.head_dim}));
  BARACUDA_TRY(expect_shape(name, "v", {d.batch, d.heads, d.tokens, value_dim(d)}));
  BARACUDA_TRY(expect_shape(name, "k_cache", {d.batch, d.heads, d.capacity, d.head_dim}));
  BARACUDA_TRY(expect_shape(name, "v_cache", {d.batch, d.heads, d.capacity, value_dim(d)}));
  if (d.tokens > d.capacity) return invalid(name, text("tokens ", d.tokens, " exceeds capacity ", d.capacity));
  return {};
}
Status KvCacheAppend::check(const Descriptor& d, const Args& a) {
  auto rows = [&](std::string_view arg, const TensorView& v, int64_t tokens, int64_t width) {
    BARACUDA_TRY(expect(name, arg, v, d.dtype, {d.batch, d.heads, tokens, width}));
    return expect_dense_rows(name, arg, v);
  };
  BARACUDA_TRY(rows("k", a.k, d.tokens, d.head_dim));
  BARACUDA_TRY(rows("v", a.v, d.tokens, value_dim(d)));
  BARACUDA_TRY(rows("k_cache", a.k_cache, d.capacity, d.head_dim));
  BARACUDA_TRY(rows("v_cache", a.v_cache, d.capacity, value_dim(d)));
  if (a.lengths.absent()) return expect_fit(d, a.offset, "offset");
  if (a.offset != 0) return invalid(name, text("offset ", a.offset, " must be 0 where lengths are given"));
  if (a.lengths.dtype != DType::i32 && a.lengths.dtype != DType::i64)
    return unexpected(name, "lengths", DType::i64, Shape{d.batch}, text("has dtype ", a.lengths.dtype, ", expected i32 or i64"));
  return expect(name, "lengths", a.lengths, a.lengths.dtype, {d.batch});
}
std::span<const Kernel<KvCacheAppend>> KvCacheAppend::kernels() {
  static constexpr Kernel<KvCacheAppend> list[] = {{.name = "kv_cache_append.cpu.copy",
                                                    .launch = launch_all<KvCacheAppend>(Floating{}, run_append),
                                                    .guarantee = [](const Descriptor& d) {
                                                      return PrecisionGuarantee{.math_precision = d.dtype, .accumulator = d.dtype,
                                                                                .batch_invariant = true};
                                                    }}};
  return list;
}

}  // namespace baracuda
