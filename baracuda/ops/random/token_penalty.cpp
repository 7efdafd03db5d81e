#include "baracuda/ops/random/token_penalty.hpp"
#include <algorithm>
#include <atomic>
#include <cmath>
#include "baracuda/host/row_walk.hpp"
#include "baracuda/math/half.hpp"
#include "baracuda/ops/copy/copy_elements.hpp"
#include "baracuda/ops/elementwise/map.hpp"
#include "baracuda/ops/random/token_penalty_math.hpp"

namespace baracuda {
namespace {

constexpr int64_t kPrompt = int64_t(1) << 62;  // in a count: the prompt has the token

Shape with_length(const TokenPenaltyDescriptor& d, int64_t length) {
  Shape s = d.shape;
  s[s.rank - 1] = length;
  return s;
}
int64_t* carve_counts(const TokenPenaltyDescriptor& d, Carver& c) {
  if (d.shape.numel() == 0) return nullptr;
  return c.take<int64_t>("counts", Shape{std::min<int64_t>(c.threads(), d.shape.rows()), d.shape.last()}.numel());
}
// f(token) for the entries of a row that are no padding.
template <class F> void each_token(const TokenPenaltyDescriptor& d, const TensorView& v, int64_t at, F f) {
  if (v.absent()) return;
  const int64_t n = v.shape.last(), step = v.strides[v.shape.rank - 1];
  auto all = [&](const auto* p) {
    for (int64_t j = 0; j < n; ++j)
      if (const int64_t token = p[at + j * step]; token >= 0) f(token);
  };
  d.index_dtype == DType::i64 ? all(v.as<int64_t>()) : all(v.as<int32_t>());
}
Status look_at_tokens(const TokenPenaltyDescriptor& d, std::string_view arg, const TensorView& v, int threads) {
  if (v.absent() || v.numel() == 0) return {};
  const RowWalk<1> walk(outer_axes(v.shape), {&v});
  std::atomic<int64_t> refused = INT64_MAX;  // the first row at fault
  const auto wrong = [&](int64_t row) {
    int64_t at[1], found = -1;
    walk.offsets(row, at);
    each_token(d, v, at[0], [&](int64_t token) { if (found < 0 && token >= d.shape.last()) found = token; });
    return found;
  };
  parallel_for(walk.rows, std::max<int64_t>(1, kPiece / v.shape.last()), threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      if (wrong(row) >= 0)
        for (int64_t now = refused; row < now && !refused.compare_exchange_weak(now, row);) {}
  });
  if (refused == INT64_MAX) return {};
  return invalid(TokenPenalty::name, text(arg, " has ", wrong(refused), " in row ", refused.load(), ", the last axis of x has extent ", d.shape.last()));
}
Status run_penalty(const Launch<TokenPenalty>& l) {
  const auto& d = l.desc;
  const auto& a = l.args;
  BARACUDA_TRY(look_at_tokens(d, "tokens", a.tokens, l.threads));
  BARACUDA_TRY(look_at_tokens(d, "prompt", a.prompt, l.threads));
  if (a.y.numel() == 0) return {};
  Carver c = l.carver();
  int64_t* const counts = carve_counts(d, c);
  const int64_t n = d.shape.last(), x_step = a.x.strides[d.shape.rank - 1], y_step = a.y.strides[d.shape.rank - 1];
  if (a.x.data != a.y.data) copy_elements(a.x, a.y, l.threads);
  const RowWalk<7> walk(outer_axes(d.shape), {&a.x, &a.y, &a.tokens, &a.prompt, &a.repetition, &a.frequency, &a.presence});
  visit_dtype(Floating{}, d.dtype, 0, [&]<class T>() {
    parallel_for(walk.rows, std::max<int64_t>(1, kPiece / std::max<int64_t>(1, d.length + d.prompt_length)), l.threads, [&](int64_t begin, int64_t end, int worker) {
      int64_t* const count = counts + worker * n;
      for (int64_t row = begin; row < end; ++row) {
        int64_t at[7];
        walk.offsets(row, at);
        const auto factor = [&](const TensorView& v, int k, double otherwise) { return v.absent() ? otherwise : double(v.as<float>()[at[k]]); };
        const token_penalty::Factors factors{factor(a.repetition, 4, d.repetition), factor(a.frequency, 5, d.frequency), factor(a.presence, 6, d.presence)};
        const auto both = [&](auto f) { each_token(d, a.tokens, at[2], f), each_token(d, a.prompt, at[3], f); };
        both([&](int64_t token) { count[token] = 0; });
        each_token(d, a.tokens, at[2], [&](int64_t token) { ++count[token]; });
        each_token(d, a.prompt, at[3], [&](int64_t token) { count[token] |= kPrompt; });
        both([&](int64_t token) {
          if (count[token] == 0) return;
          const int64_t times = count[token] & ~kPrompt;
          count[token] = 0;
          a.y.as<T>()[at[1] + token * y_step] = from_double<T>(token_penalty::penalised(to_double(a.x.as<T>()[at[0] + token * x_step]), times, factors));
        });
      }
    });
    return 0;
  });
  return {};
}

}  // namespace

Status TokenPenalty::validate(const Descriptor& d) {
  if (!valid(d.dtype)) return invalid(name, "invalid dtype");
  BARACUDA_TRY(expect_shape(name, "shape", d.shape, 1));
  if (d.length < 0 || d.prompt_length < 0) return invalid(name, text("length ", d.length, " and prompt_length ", d.prompt_length, " must be >= 0"));
  BARACUDA_TRY(expect_shape(name, "shape with length", with_length(d, d.length)));
  BARACUDA_TRY(expect_shape(name, "shape with prompt_length", with_length(d, d.prompt_length)));
  if (d.index_dtype != DType::i32 && d.index_dtype != DType::i64) return invalid(name, text("index_dtype ", d.index_dtype, " must be i32 or i64"));
  if (!(d.repetition > 0) || !std::isfinite(d.repetition)) return invalid(name, text("repetition ", d.repetition, " is not finite and > 0"));
  if (!std::isfinite(d.frequency) || !std::isfinite(d.presence)) return invalid(name, text("frequency ", d.frequency, " and presence ", d.presence, " must be finite"));
  return {};
}
Status TokenPenalty::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "tokens", a.tokens, d.index_dtype, with_length(d, d.length)));
  BARACUDA_TRY(expect(name, "y", a.y, d.dtype, d.shape));
  if (!a.prompt.absent()) BARACUDA_TRY(expect(name, "prompt", a.prompt, d.index_dtype, with_length(d, d.prompt_length)));
  const struct { std::string_view name; const TensorView& v; bool twice; } factors[] = {
      {"repetition", a.repetition, d.repetition != 1}, {"frequency", a.frequency, d.frequency != 0}, {"presence", a.presence, d.presence != 0}};
  for (const auto& f : factors) {
    if (f.v.absent()) continue;
    if (f.twice) return invalid(name, text(f.name, " is given twice, as an argument and in the descriptor"));
    BARACUDA_TRY(expect(name, f.name, f.v, DType::f32, outer_axes(d.shape)));
  }
  return {};
}
std::span<const Kernel<TokenPenalty>> TokenPenalty::kernels() {
  static constexpr Kernel<TokenPenalty> list[] = {{.name = "token_penalty.cpu.counts",
                                                   .launch = launch_all<TokenPenalty>(Floating{}, run_penalty),
                                                   .guarantee = [](const Descriptor&) -> PrecisionGuarantee {
                                                     return {.math_precision = DType::f64, .accumulator = DType::f64, .batch_invariant = true};
                                                   },
                                                   .carve = [](const Descriptor& d, const void*, Carver& c) { carve_counts(d, c); }}};
  return list;
}

}  // namespace baracuda
