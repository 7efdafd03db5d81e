#include "baracuda/ops/norm/batch_norm.hpp"
#include <bit>
#include "baracuda/host/move.hpp"
#include "baracuda/ops/norm/batch_norm_cpu.hpp"
#include "baracuda/ops/norm/standardized_detail.hpp"

namespace baracuda {
namespace {

using namespace norm_detail;

int64_t count_of(const BatchNormDescriptor& d) { return d.shape.numel() ? samples_of(d) * span_of(d) : 0; }  // elements of a channel
int64_t chunks_of(const BatchNormDescriptor& d) { return (count_of(d) + kChannelChunk - 1) / kChannelChunk; }

Status validate_common(std::string_view op, const BatchNormDescriptor& d) {
  BARACUDA_TRY(expect_shape(op, "shape", d.shape, 2));
  return validate_numbers(op, d);
}
Status validate_training(std::string_view op, const BatchNormDescriptor& d) {
  BARACUDA_TRY(validate_common(op, d));
  if (count_of(d) == 1) return invalid(op, text("shape ", d.shape, " has 1 value a channel; the variance of a batch takes at least 2"));
  return {};
}
Status expect_statistic(std::string_view op, std::string_view arg, const TensorView& v, const BatchNormDescriptor& d) {
  return norm_detail::expect_statistic(op, arg, v, d.dtype, {channels_of(d)});
}

// A tensor as its channels: how a channel's elements lie over samples and further axes, and within a sample.
struct Channels {
  TensorView rows;  // [N, C]
  RowLay all{}, inside{};
  bool lanes = false;  // channels lie next to one another, and their elements in one progression
  Channels(const BatchNormDescriptor& d, const TensorView& v) : rows(v) {
    if (v.absent()) return;
    rows.shape = {samples_of(d), channels_of(d)}, rows.strides = {v.strides[0], v.strides[1]};
    Shape within, whole = {samples_of(d)};
    Strides steps, whole_steps = {v.strides[0]};
    for (int i = 2; i < d.shape.rank; ++i) {
      within.push_back(d.shape[i]), steps.push_back(v.strides[i]);
      whole.push_back(d.shape[i]), whole_steps.push_back(v.strides[i]);
    }
    all = lay_of(whole, whole_steps), inside = lay_of(within, steps);
    lanes = channels_of(d) > 1 && pitch() == 1 && all.rank == 1;
  }
  bool given() const { return !rows.absent(); }
  int64_t pitch() const { return rows.strides[1]; }
  const void* channel(int64_t c) const { return at(rows, c * pitch()); }
  TensorView part(int64_t c, int64_t count) const {  // of the channels
    TensorView v = rows;
    if (given()) v.shape[1] = count, v.data = at(rows, c * pitch());
    return v;
  }
};

double get(const TensorView& v, int64_t c) {
  return visit_dtype(Floating{}, v.dtype, 0.0, [&]<class T>() { return to_double(v.as<T>()[c * v.strides[0]]); });
}
void set(const TensorView& v, int64_t c, double value) {
  if (v.absent()) return;
  visit_dtype(Floating{}, v.dtype, 0, [&]<class T>() { return v.as<T>()[c * v.strides[0]] = from_double<T>(value), 0; });
}

// What a run keeps of every channel.
struct Kept {
  DType type;  // of the vectors
  Vectors given;
  void *shift, *rest, *scale, *mean_g = nullptr, *minus_dot = nullptr;  // the last two: of the gradient, for statistics of the batch
  Statistics* found = nullptr;
  ChunkSums *total = nullptr, *sums = nullptr;  // sums: chunks_of() a channel
  Kept(const BatchNormDescriptor& d, Carver& c, bool backward, bool batch) : type(accumulator(d.dtype)), given(carve_vectors(d, c, !backward)) {
    const auto vector = [&](std::string_view what) { return c.take_bytes(what, channels_of(d), byte_size(type)); };
    shift = vector("mean"), rest = vector("rest of the mean"), scale = vector("rstd");
    if (backward && batch) mean_g = vector("mean of the gradient"), minus_dot = vector("mean of its product");
    if (!backward && !batch) return;
    found = c.take<Statistics>("statistics", channels_of(d)), total = c.take<ChunkSums>("sums", channels_of(d));
    sums = static_cast<ChunkSums*>(c.take_bytes("sums of chunks", chunks_of(d) ? channels_of(d) : 0, sizeof(ChunkSums) * uint64_t(std::max<int64_t>(chunks_of(d), 1))));
  }
  void put(void* vector, int64_t c, double value) const {
    if (type == DType::f64) static_cast<double*>(vector)[c] = value;
    else static_cast<float*>(vector)[c] = float(value);
  }
  void put_statistics(int64_t c, const Statistics& s) const { put(shift, c, s.shift), put(rest, c, s.rest), put(scale, c, s.rstd); }
  void* from(void* vector, int64_t c) const { return vector ? static_cast<char*>(vector) + c * int64_t(byte_size(type)) : nullptr; }
  ChannelVectors vectors(int64_t c) const {
    return {from(shift, c), from(rest, c), from(scale, c), from(given.weight, c), from(given.bias, c), from(mean_g, c), from(minus_dot, c)};
  }
};
template <bool kBackward, bool kBatch> void carve(const BatchNormDescriptor& d, const void*, Carver& c) { Kept(d, c, kBackward, kBatch); }

// Channels are done in groups that the caches hold between the passes, where a channel's lines are its own.
constexpr int64_t kGroupBytes = int64_t(2) << 20;
int64_t group_of(const BatchNormDescriptor& d, std::initializer_list<const Channels*> read) {
  for (const Channels* t : read)
    if (t->lanes) return channels_of(d);
  return std::clamp<int64_t>(kGroupBytes / int64_t(byte_size(d.dtype)) / count_of(d), 1, channels_of(d));
}

constexpr int64_t kLaneTile = 64;  // channels: 256 KiB of a chunk in f32, which the second-level cache keeps between two looks
// Sums of every chunk of `count` channels from c0 on: of x, or of a gradient dy. Where the channels of one of two tensors alone lie next to one
// another a line's worth of them is turned around first.
void sum_chunks_of(const BatchNormDescriptor& d, const Kept& kept, const Channels& x, const Channels* dy, int64_t c0, int64_t count, int threads) {
  const BatchNormKernels& kernels = BARACUDA_ISA_PICK_BF16(batch_norm_kernels);
  const auto kernel = (dy ? kernels.gradient : kernels.moments)[d.dtype];
  const int64_t size = int64_t(byte_size(d.dtype)), n = count_of(d), chunks = chunks_of(d);
  const auto turn = BARACUDA_ISA_PICK(move_kernels).transpose[std::countr_zero(uint64_t(size))];
  const bool lanes = x.lanes || (dy && dy->lanes), all_lanes = x.lanes && (!dy || dy->lanes);
  const int64_t tile = all_lanes ? kLaneTile : lanes ? 64 / size : 1, tiles = (count + tile - 1) / tile;
  constexpr int64_t kPitch = kChannelChunk + 16;  // not a power of two: rows would meet in the first-level cache
  parallel_for(tiles * chunks, 8, threads, [&](int64_t begin, int64_t end, int) {
    alignas(64) char turned[2][64 * kPitch];
    for (int64_t u = begin; u < end; ++u) {
      const int64_t chunk = lanes ? u / tiles : u % chunks, in_group = (lanes ? u % tiles : u / chunks) * tile, c = c0 + in_group;
      ChannelChunk p{{}, {}, kept.from(kept.shift, c), kept.from(kept.scale, c), std::min(tile, count - in_group),
                     std::min(kChannelChunk, n - chunk * kChannelChunk), kept.sums + c * chunks + chunk, chunks, all_lanes};
      const int64_t next = u + 1 < end ? u + 1 : u, next_m = std::min(kChannelChunk, n - next / tiles * kChannelChunk);
      const auto take = [&](const Channels& t, char* buffer) -> ChannelChunk::Rows {
        const int64_t first = chunk * kChannelChunk, step = t.all.stride[0];
        if (all_lanes)  // what is asked for ahead has as many rows
          return {at(t.rows, c + first * step), step, 0, nullptr, next_m < p.m ? at(t.rows, c + first * step) : at(t.rows, c0 + next % tiles * tile + next / tiles * kChannelChunk * step)};
        if (!t.lanes) return {t.channel(c), t.pitch(), first, unless_dense(t.all)};
        turn(at(t.rows, c + first * t.all.stride[0]), buffer, p.channels, p.m, t.all.stride[0], kPitch, false);
        return {buffer, kPitch, 0, nullptr};
      };
      p.x = take(x, turned[0]);
      if (dy) p.dy = take(*dy, turned[1]);
      kernel(p);
    }
  });
}
ChannelJoin join_of(const BatchNormDescriptor& d, const Kept& kept, const Channels& x, int64_t c, int64_t channels) {
  return {x.channel(c), x.pitch(), unless_dense(x.all), channels, count_of(d), chunks_of(d), d.eps, kept.sums + c * chunks_of(d), kept.found + c,
          kept.total + c, kept.from(kept.given.weight, c), kept.from(kept.rest, c), kept.from(kept.mean_g, c), kept.from(kept.minus_dot, c)};
}
constexpr int64_t kChannelGrain = 64;
// The statistics of `count` channels of x from c0 on.
void find_statistics(const BatchNormDescriptor& d, const Kept& kept, const Channels& x, int64_t c0, int64_t count, int threads) {
  sum_chunks_of(d, kept, x, nullptr, c0, count, threads);
  const auto join = BARACUDA_ISA_PICK_BF16(batch_norm_kernels).join_moments[d.dtype];
  parallel_for(count, kChannelGrain, threads, [&](int64_t begin, int64_t end, int) { join(join_of(d, kept, x, c0 + begin, end - begin)); });
  for (int64_t c = c0; c < c0 + count; ++c) kept.put_statistics(c, kept.found[c]);
}
// The sums of dy and of dy xhat over `count` channels from c0 on, into `total`, whose mean and rstd are known.
void find_gradient_sums(const BatchNormDescriptor& d, const Kept& kept, const Channels& x, const Channels& dy, int64_t c0, int64_t count, int threads) {
  sum_chunks_of(d, kept, x, &dy, c0, count, threads);
  const auto join = BARACUDA_ISA_PICK_BF16(batch_norm_kernels).join_gradient[d.dtype];
  parallel_for(count, kChannelGrain, threads, [&](int64_t begin, int64_t end, int) { join(join_of(d, kept, x, c0 + begin, end - begin)); });
}

// y, or dx, of `count` channels from c0 on.
void write(const BatchNormDescriptor& d, const Kept& kept, void (*kernel)(const ChannelRows&), const Channels& x, const Channels& dy, const Channels& y,
           int64_t c0, int64_t count, int threads) {
  const auto lanes = [](const Channels& t) { return !t.given() || t.lanes; };
  if (lanes(x) && lanes(dy) && lanes(y)) {  // c0 is 0 and count all channels
    TensorView out = y.rows;
    const int64_t n = count_of(d), x_step = x.all.stride[0], dy_step = dy.all.stride[0], y_step = y.all.stride[0];
    out.shape = {n, count}, out.strides = {y_step, 1};
    const bool past = out.data != dy.rows.data && past_caches(out, x.rows.data);
    parallel_for(n, std::max<int64_t>(16, grain(count)), threads, [&](int64_t begin, int64_t end, int) {
      kernel({at(x.rows, begin * x_step), at(dy.rows, begin * dy_step), at(y.rows, begin * y_step), x_step, dy_step, y_step, nullptr, nullptr, nullptr,
              end - begin, 0, count, 0, count, true, past, kept.vectors(0)});
    });
    return;
  }
  const TensorView xs = x.part(c0, count), dys = dy.part(c0, count), ys = y.part(c0, count);
  const RowWalk<3> walk({samples_of(d), count}, {&xs, &dys, &ys});
  const int64_t span = span_of(d), pieces = (span + kPiece - 1) / kPiece;
  const bool past = !unless_dense(y.inside) && past_channels(d, y.rows, x.rows.data, dy.rows.data);
  const auto rows = [&](const int64_t (&o)[3], int64_t first_row, int64_t many, int64_t first, int64_t n) {
    kernel({at(xs, o[0]), at(dys, o[1]), at(ys, o[2]), walk.pitch(0), walk.pitch(1), walk.pitch(2), unless_dense(x.inside), unless_dense(dy.inside),
            unless_dense(y.inside), many, first, n, first_row % count, count, false, past, kept.vectors(c0)});
  };
  parallel_for(walk.rows * pieces, grain(span), threads, [&](int64_t begin, int64_t end, int) {
    if (pieces == 1) return walk.runs(begin, end, [&](const int64_t (&o)[3], int64_t first_row, int64_t many) { rows(o, first_row, many, 0, span); });
    for (int64_t i = begin; i < end; ++i) {
      int64_t o[3];
      walk.offsets(i / pieces, o);
      rows(o, i / pieces, 1, i % pieces * kPiece, std::min(kPiece, span - i % pieces * kPiece));
    }
  });
}

Status run_forward(const Launch<BatchNorm>& l) {
  const BatchNormDescriptor& d = l.desc;
  const BatchNorm::Args& a = l.args;
  if (d.shape.numel() == 0) {  // the mean of nothing is NaN
    fill_nan(a.mean), fill_nan(a.rstd);
    return {};
  }
  Carver carver = l.carver();
  const Kept kept(d, carver, false, true);
  prepare_vector(d.dtype, a.weight, 1, kept.given.weight, channels_of(d), l.threads);
  prepare_vector(d.dtype, a.bias, -0.0, kept.given.bias, channels_of(d), l.threads);
  const Channels x(d, a.x), none(d, {}), y(d, a.y);
  const double n = double(count_of(d)), m = a.momentum;
  const auto update = [&](const TensorView& v, int64_t c, double batch) { if (!v.absent()) set(v, c, (1 - m) * get(v, c) + m * batch); };
  for (int64_t c0 = 0, group = group_of(d, {&x, &y}); c0 < channels_of(d); c0 += group) {
    const int64_t count = std::min(group, channels_of(d) - c0);
    find_statistics(d, kept, x, c0, count, l.threads);
    for (int64_t c = c0; c < c0 + count; ++c) {
      const Statistics& s = kept.found[c];
      set(a.mean, c, s.shift + s.rest), set(a.rstd, c, s.rstd);
      update(a.running_mean, c, s.shift + s.rest), update(a.running_var, c, s.variance * (n / (n - 1)));
    }
    write(d, kept, BARACUDA_ISA_PICK_BF16(batch_norm_kernels).forward[d.dtype], x, none, y, c0, count, l.threads);
  }
  return {};
}

void no_gradients(const BatchNormDescriptor& d, const TensorView& dweight, const TensorView& dbias) {
  for (int64_t c = 0; c < channels_of(d); ++c) set(dweight, c, 0), set(dbias, c, 0);
}
Status run_backward(const Launch<BatchNormBackward>& l) {
  const BatchNormDescriptor& d = l.desc;
  const BatchNormBackward::Args& a = l.args;
  if (d.shape.numel() == 0) return no_gradients(d, a.dweight, a.dbias), Status();
  Carver carver = l.carver();
  const Kept kept(d, carver, true, true);
  prepare_vector(d.dtype, a.weight, 1, kept.given.weight, channels_of(d), l.threads);
  const Channels x(d, a.x), dy(d, a.dy), dx(d, a.dx);
  for (int64_t c0 = 0, group = group_of(d, {&x, &dy, &dx}); c0 < channels_of(d); c0 += group) {
    const int64_t count = std::min(group, channels_of(d) - c0);
    if (a.rstd.absent()) find_statistics(d, kept, x, c0, count, l.threads);
    else
      for (int64_t c = c0; c < c0 + count; ++c) kept.put_statistics(c, kept.found[c] = {get(a.mean, c), 0, get(a.rstd, c)});
    find_gradient_sums(d, kept, x, dy, c0, count, l.threads);
    for (int64_t c = c0; c < c0 + count; ++c) set(a.dweight, c, kept.total[c].b), set(a.dbias, c, kept.total[c].a);
    write(d, kept, BARACUDA_ISA_PICK_BF16(batch_norm_kernels).backward[d.dtype], x, dy, dx, c0, count, l.threads);
  }
  return {};
}

// mean and var, which are given.
template <class Args> void put_given(const BatchNormDescriptor& d, const Args& a, const Kept& kept) {
  for (int64_t c = 0; c < channels_of(d); ++c) kept.put_statistics(c, {get(a.mean, c), 0, 1 / std::sqrt(get(a.var, c) + d.eps)});
}
Status run_inference(const Launch<BatchNormInference>& l) {
  const BatchNormDescriptor& d = l.desc;
  const BatchNormInference::Args& a = l.args;
  if (d.shape.numel() == 0) return {};
  Carver carver = l.carver();
  const Kept kept(d, carver, false, false);
  prepare_vector(d.dtype, a.weight, 1, kept.given.weight, channels_of(d), l.threads);
  prepare_vector(d.dtype, a.bias, -0.0, kept.given.bias, channels_of(d), l.threads);
  put_given(d, a, kept);
  write(d, kept, BARACUDA_ISA_PICK_BF16(batch_norm_kernels).forward[d.dtype], Channels(d, a.x), Channels(d, {}), Channels(d, a.y), 0, channels_of(d), l.threads);
  return {};
}
Status run_inference_backward(const Launch<BatchNormInferenceBackward>& l) {
  const BatchNormDescriptor& d = l.desc;
  const BatchNormInferenceBackward::Args& a = l.args;
  if (d.shape.numel() == 0) return no_gradients(d, a.dweight, a.dbias), Status();
  Carver carver = l.carver();
  const Kept kept(d, carver, true, false);
  prepare_vector(d.dtype, a.weight, 1, kept.given.weight, channels_of(d), l.threads);
  put_given(d, a, kept);
  const Channels dy(d, a.dy), x(d, a.dweight.absent() ? a.dy : a.x);  // dbias asks for dy alone
  if (!a.dweight.absent() || !a.dbias.absent()) {
    find_gradient_sums(d, kept, x, dy, 0, channels_of(d), l.threads);
    for (int64_t c = 0; c < channels_of(d); ++c) set(a.dweight, c, kept.total[c].b), set(a.dbias, c, kept.total[c].a);
  }
  write(d, kept, BARACUDA_ISA_PICK_BF16(batch_norm_kernels).backward[d.dtype], Channels(d, {}), dy, Channels(d, a.dx), 0, channels_of(d), l.threads);
  return {};
}

}  // namespace

Status BatchNorm::validate(const Descriptor& d) { return validate_training(name, d); }
Status BatchNorm::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(check_forward<Descriptor>(name, d, a, expect_x, expect_vector, expect_statistic));
  BARACUDA_TRY(expect_vector(name, "running_mean", a.running_mean, d));
  BARACUDA_TRY(expect_vector(name, "running_var", a.running_var, d));
  return std::isfinite(a.momentum) ? Status() : invalid(name, text("momentum ", a.momentum, " must be finite"));
}
std::span<const Kernel<BatchNorm>> BatchNorm::kernels() {
  static constexpr Kernel<BatchNorm> list[] = {{.name = "batch_norm.cpu.channel",
                                                .launch = launch_all<BatchNorm>(Floating{}, run_forward),
                                                .guarantee = guarantee_of_batch,
                                                .carve = carve<false, true>}};
  return list;
}

Status BatchNormBackward::validate(const Descriptor& d) { return validate_training(name, d); }
Status BatchNormBackward::check(const Descriptor& d, const Args& a) { return check_backward<Descriptor>(name, d, a, expect_x, expect_vector, expect_statistic); }
std::span<const Kernel<BatchNormBackward>> BatchNormBackward::kernels() {
  static constexpr Kernel<BatchNormBackward> list[] = {{.name = "batch_norm_backward.cpu.channel",
                                                        .launch = launch_all<BatchNormBackward>(Floating{}, run_backward),
                                                        .guarantee = guarantee_of_batch,
                                                        .carve = carve<true, true>}};
  return list;
}

Status BatchNormInference::validate(const Descriptor& d) { return validate_common(name, d); }
Status BatchNormInference::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_x(name, "x", a.x, d));
  BARACUDA_TRY(expect_vector(name, "weight", a.weight, d));
  BARACUDA_TRY(expect_vector(name, "bias", a.bias, d));
  BARACUDA_TRY(expect_vector(name, "mean", a.mean, d));
  BARACUDA_TRY(expect_vector(name, "var", a.var, d));
  return expect_x(name, "y", a.y, d);
}
std::span<const Kernel<BatchNormInference>> BatchNormInference::kernels() {
  static constexpr Kernel<BatchNormInference> list[] = {{.name = "batch_norm_inference.cpu.channel",
                                                         .launch = launch_all<BatchNormInference>(Floating{}, run_inference),
                                                         .guarantee = guarantee,
                                                         .carve = carve<false, false>}};
  return list;
}

Status BatchNormInferenceBackward::validate(const Descriptor& d) { return validate_common(name, d); }
Status BatchNormInferenceBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect_x(name, "dy", a.dy, d));
  if (!a.x.absent()) BARACUDA_TRY(expect_x(name, "x", a.x, d));
  BARACUDA_TRY(expect_vector(name, "weight", a.weight, d));
  BARACUDA_TRY(expect_vector(name, "mean", a.mean, d));
  BARACUDA_TRY(expect_vector(name, "var", a.var, d));
  BARACUDA_TRY(expect_x(name, "dx", a.dx, d));
  BARACUDA_TRY(expect_vector(name, "dweight", a.dweight, d));
  BARACUDA_TRY(expect_vector(name, "dbias", a.dbias, d));
  return a.x.absent() && !a.dweight.absent() ? invalid(name, "x is missing: dweight takes it") : Status();
}
std::span<const Kernel<BatchNormInferenceBackward>> BatchNormInferenceBackward::kernels() {
  static constexpr Kernel<BatchNormInferenceBackward> list[] = {{.name = "batch_norm_inference_backward.cpu.channel",
                                                                 .launch = launch_all<BatchNormInferenceBackward>(Floating{}, run_inference_backward),
                                                                 .guarantee = guarantee,
                                                                 .carve = carve<true, false>}};
  return list;
}

}  // namespace baracuda
