// Holds every op of the registry to what its plans claim, over descriptors made at random and those of kBatches: the same bits for
// repeats and thread counts, rows that do not depend on the rows around them, inputs left alone, nothing written elsewhere,
// a workspace that is too small or memory that is not aligned refused.
#include <gtest/gtest.h>
#include <cstring>
#include <map>
#include <set>
#include "baracuda/testing/effort.hpp"
#include "baracuda/testing/on_device.hpp"
#include "tests/fuzz/drawn.hpp"

namespace baracuda {
namespace {

using fuzz::Drawn;
using fuzz::DrawRules;
using fuzz::same_element;
using testing::on_cuda;
using testing::run_on;
using testing::test_stream;

// Where the rows of an op are: fields with # for their number and $ for the dtype. A tensor whose shape depends on # is cut
// there, any other is the same for every row. An op whose results have no rows stands here without #. Every value of a field
// `kind` or `reduce` is tried unless the fields say one.
struct Batch {
  std::string_view op, fields;
  int64_t rows = 37;
  std::string_view open = {};      // shapes of the tensors that the descriptor leaves open, with ; between them
  bool from_first = false;         // values depend on the place in the tensor (random numbers): only the first rows alone
};
constexpr Batch kBatches[] = {
    {"flash_sdpa", "batch=# heads=2 q_len=5 k_len=9 head_dim=16 causal=true"},
    {"flash_sdpa", "heads=# q_len=3 k_len=70 head_dim=8"},
    {"flash_sdpa", "q_len=# k_len=33 head_dim=8"},
    {"flash_sdpa_backward", "batch=# heads=2 q_len=5 k_len=9 head_dim=16 causal=true"},
    {"flash_sdpa_backward", "heads=# q_len=3 k_len=70 head_dim=8"},
    {"cast", "shape=#,37 to=bf16"},
    {"cast", "shape=#,37 to=i32"},
    {"cast_e8m0", "shape=#,37 rounding=up"},
    {"cast_from_e8m0", "shape=#,37"},
    {"cast_packed", "shape=#,38"},
    {"cast_from_packed", "shape=#,38 format=int4"},
    {"copy", "shape=#,37"},
    {"fill", "shape=#,37"},
    {"arange", "shape=#,37 axis=1"},
    {"linspace", "shape=37"},
    {"eye", "shape=#,5,7"},
    {"triangle_indices", "rows=9 columns=7"},
    {"unary", "shape=#,37"},
    {"unary_backward", "shape=#,37"},
    {"binary", "a=#,37 b=#,37"},
    {"binary", "a=#,37 b=37"},
    {"binary", "a=#,1 b=#,37"},
    {"binary_backward", "a=#,37 b=#,37"},
    {"binary_backward", "a=#,37 b=#,1"},
    {"ternary", "a=#,37 b=37 c=#,1"},
    {"ternary_backward", "a=#,37 b=37 c=#,1"},
    {"cross_entropy", "tokens=# classes=37 reduction=none grad_logits=true"},
    {"cross_entropy_backward", "tokens=# classes=37 reduction=none"},
    {"embedding", "vocabulary=12 width=17 indices=#,3"},
    {"gather", "shape=#,12 axis=1 indices=#,37 out_of_range=fill"},
    {"gather", "shape=12,# indices=37,# out_of_range=clip"},
    {"gather_backward", "shape=#,12 axis=1 indices=#,37 out_of_range=fill"},
    {"index", "shape=12,17 indices=#,3 out_of_range=fill"},
    {"index_backward", "shape=#,12 axes=1 indices=37 out_of_range=fill"},
    {"scatter", "shape=#,12 axis=1 indices=#,37 out_of_range=fill"},
    {"scatter", "shape=12,# indices=37,# out_of_range=fill include_self=false"},
    {"scatter_backward", "shape=#,12 axis=1 indices=#,37 out_of_range=fill"},
    {"index_put", "shape=#,12 axes=1 indices=37 out_of_range=fill"},
    {"index_put_backward", "shape=#,12 axes=1 indices=37 out_of_range=fill"},
    {"gated", "shape=#,37"},
    {"gated_backward", "shape=#,37"},
    {"gated_quantize", "shape=#,37"},
    {"gated_quantize_dynamic", "shape=#,37"},
    {"gemm", "m=# n=33 k=70 bias=row epilogue=gelu"},
    {"gemm", "n=# m=5 k=300"},
    {"gemm", "batch=# m=3 n=5 k=7 beta=0.5"},
    {"gemm", "m=# n=9 k=130 trans_a=true trans_b=true"},
    {"rms_norm", "shape=#,37"},
    {"rms_norm", "shape=#,5000", 5},
    {"rms_norm_backward", "shape=#,37"},
    {"rms_norm_backward", "shape=#,5000", 5},
    {"layer_norm", "shape=#,37"},
    {"layer_norm", "shape=#,3,1700 axes=2", 5},
    {"layer_norm_backward", "shape=#,37"},
    {"layer_norm_backward", "shape=#,3,1700 axes=2", 5},
    {"group_norm", "shape=#,6,7 groups=3"},
    {"group_norm", "shape=#,4,2500 groups=2", 5},
    {"group_norm_backward", "shape=#,6,7 groups=3"},
    {"group_norm_backward", "shape=#,4,2500 groups=2", 5},
    {"batch_norm_inference", "shape=#,6,7"},
    {"batch_norm_inference_backward", "shape=#,6,7"},
    {"adamw", "grad_dtype=$", 37, "#,5;#"},
    {"clip_scale", ""},
    {"rope", "shape=#,2,3,8"},
    {"rope", "shape=2,3,#,8"},
    {"rope_backward", "shape=2,#,3,8"},
    {"rope_backward", "shape=2,3,#,8"},
    {"one_hot", "shape=#,5 classes=7 out_of_range=fill"},
    {"one_hot", "shape=5,# classes=700 axis=0 out_of_range=clip"},
    {"kv_cache_append", "batch=# heads=2 tokens=2 capacity=13 head_dim=8"},
    {"quantize", "shape=#,36 by=token"},
    {"quantize", "shape=#,36 by=channel axis=1"},
    {"dequantize", "shape=#,36 by=group group_size=12"},
    {"dequantize", "shape=#,36"},
    {"fake_quantize", "shape=#,36 by=token"},
    {"fake_quantize", "shape=#,36 by=channel axis=0"},
    {"quantize_dynamic", "shape=#,36 by=token"},
    {"quantize_dynamic", "shape=#,36 by=group group_size=12 range=minmax"},
    {"quantize_backward", "shape=#,36 by=channel axis=1"},
    {"dequantize_backward", "shape=#,36 by=token"},
    {"fake_quantize_backward", "shape=#,36"},
    {"quantize_packed", "shape=#,64"},
    {"quantize_packed", "shape=#,64 format=mxfp4"},
    {"dequantize_packed", "shape=#,64"},
    {"dequantize_packed", "shape=#,128 format=int4"},
    {"random_uniform", "shape=#,37", 37, {}, true},
    {"random_normal", "shape=#,37", 37, {}, true},
    {"random_exponential", "shape=#,37", 37, {}, true},
    {"random_gumbel", "shape=#,37", 37, {}, true},
    {"random_laplace", "shape=#,37", 37, {}, true},
    {"random_cauchy", "shape=#,37", 37, {}, true},
    {"random_logistic", "shape=#,37", 37, {}, true},
    {"random_truncated_normal", "shape=#,37", 37, {}, true},
    {"randint", "shape=#,37 high=100", 37, {}, true},
    {"random_bits", "shape=#,37", 37, {}, true},
    {"randperm", "shape=#,37", 37, {}, true},
    {"categorical", "shape=#,37 samples=2 kind=logits", 37, {}, true},
    {"sampling_filter", "shape=#,37 kind=logits top_k=9 top_p=0.8"},
    {"token_penalty", "shape=#,400 length=5 prompt_length=3"},
    {"bernoulli", "shape=#,37", 37, {}, true},
    {"dropout", "shape=#,37", 37, {}, true},
    {"cast_stochastic", "shape=#,37 to=f8_e4m3fn", 37, {}, true},
    {"dropout_backward", "shape=#,37", 37, {}, true},
    {"reduce", "shape=#,37 axes=1"},
    {"reduce", "shape=37,# axes=0"},
    {"reduce", "shape=3,#,19 axes=0,2"},
    {"reduce", "shape=#,5000 axes=1", 5},
    {"reduce_backward", "shape=#,37 axes=1"},
    {"reduce_backward", "shape=37,# axes=0"},
    {"reduce_backward", "shape=#,5000 axes=1", 5},
    {"aminmax", "shape=#,37 axes=1"},
    {"aminmax", "shape=37,# axes=0"},
    {"trace", "shape=#,6,7 axis1=1 axis2=2"},
    {"trace_backward", "shape=#,6,7 axis1=1 axis2=2"},
    {"arg_reduce", "shape=#,37 axis=1"},
    {"arg_reduce", "shape=37,# axis=0"},
    {"arg_reduce", "shape=#,5000 axis=1", 5},
    {"linear_recurrence", "shape=#,37 axis=1"},
    {"linear_recurrence", "shape=37,# axis=0"},
    {"linear_recurrence", "shape=#,5000 axis=1", 5},
    {"linear_recurrence_backward", "shape=#,37 axis=1"},
    {"linear_recurrence_backward", "shape=37,# axis=0"},
    {"linear_recurrence_backward", "shape=#,5000 axis=1", 5},
    {"scan", "shape=#,37 axis=1"},
    {"scan", "shape=37,# axis=0"},
    {"scan", "shape=#,5000 axis=1", 5},
    {"scan_backward", "shape=#,37 axis=1"},
    {"scan_backward", "shape=37,# axis=0"},
    {"scan_backward", "shape=#,5000 axis=1", 5},
    {"permute", "shape=#,3,5 axes=2,0,1"},
    {"concat", "shape=#,5 axis=1", 37, "#,2;#,3"},
    {"split", "shape=#,5 axis=1", 37, "#,2;#,3"},
    {"select_n", "shape=#,5 which=#,5"},
    {"select_n_backward", "shape=#,5 which=#,5"},
    {"pad", "shape=#,5 lo=0,1 hi=0,2"},
    {"pad", "shape=#,5 lo=0,3 hi=0,2 mode=reflect"},
    {"pad_backward", "shape=#,5 lo=0,3 hi=0,2 mode=reflect"},
    {"flip", "shape=#,5 axes=1"},
    {"roll", "shape=#,5 shifts=2 axes=1"},
    {"repeat", "shape=#,5 repeats=1,3"},
    {"repeat_backward", "shape=#,5 repeats=1,3"},
    {"repeat_interleave", "shape=#,5 repeats=3 axis=1"},
    {"repeat_interleave_backward", "shape=#,5 repeats=3 axis=0"},
    {"slice", "shape=#,9 start=0,2 size=#,4"},
    {"slice_backward", "shape=#,9 start=0,2 size=#,4"},
    {"update_slice", "shape=#,9 start=0,2 size=#,4"},
    {"update_slice_backward", "shape=#,9 start=0,2 size=#,4"},
    {"dynamic_slice", "shape=#,9 size=#,4"},
    {"dynamic_slice_backward", "shape=#,9 size=#,4"},
    {"dynamic_update_slice", "shape=#,9 size=#,4"},
    {"dynamic_update_slice_backward", "shape=#,9 size=#,4"},
    {"triangle", "shape=#,5,7"},
    {"diagonal", "shape=#,5,7"},
    {"diagonal_embed", "shape=#,5,7"},
    {"softmax", "shape=#,37 axis=1"},
    {"softmax", "shape=37,# axis=0"},
    {"softmax", "shape=#,5000 axis=1", 5},
    {"softmax_backward", "shape=#,37 axis=1"},
    {"softmax_backward", "shape=37,# axis=0"},
    {"softmax_backward", "shape=#,5000 axis=1", 5},
};

struct Totals { int plans = 0, runs = 0, parts = 0, same_on_cpu = 0; std::set<std::string_view> claim; } totals;

std::string filled(std::string_view words, int64_t rows, DType t, char space) {
  std::string s;
  for (char c : words) {
    if (c == '#') s += std::to_string(rows);
    else if (c == '$') s += name(t);
    else s += c == space ? '\n' : c;
  }
  return s;
}
// The text that fuzz::parse_problem reads, for one kernel.
std::string problem(std::string_view op, const std::string& lines, std::string_view kernel, DType t) {
  return text(op, "\n", lines, "\ndtype=", t, "\n@kernel=", kernel);
}
std::vector<Shape> open_shapes(const Batch& b, int64_t rows) {
  std::vector<Shape> list;
  const std::string s = b.open.empty() ? "" : filled(b.open, rows, DType::f32, ';') + "\n";
  for (size_t at = 0; at < s.size(); at = s.find('\n', at) + 1) {
    list.emplace_back();
    EXPECT_TRUE(parse_value("open", s.substr(at, s.find('\n', at) - at), list.back()).ok());
  }
  return list;
}
// Values of `kind` or `reduce` to try, as lines of a problem; one empty line where there is no such field or the fields say it.
std::vector<std::string> kinds(const OpInfo& op, std::string_view fields) {
  std::vector<std::string> list;
  for (const FieldInfo& f : op.fields())
    if ((f.name == "kind" || f.name == "reduce") && fields.find(text(f.name, "=")) == fields.npos)
      for (std::string_view v : f.values) list.push_back(text("\n", f.name, "=", v));
  if (list.empty()) list.emplace_back();
  return list;
}
std::shared_ptr<const AnyPlan> select(const std::string& problem) {
  const fuzz::Problem p = fuzz::parse_problem(problem);
  const auto plan = p.op->select(test_stream(), p.settings, p.preference);
  if (!plan.ok() || (*plan)->workspace_size() > (64 << 20)) return nullptr;
  if ((*plan)->sku().guarantee.batch_invariant) totals.claim.insert(p.op->name);
  return *plan;
}

Status run(const AnyPlan& plan, const Stream& stream, std::vector<Drawn>& drawn, int poison) {
  fuzz::Memory workspace(plan.workspace_size(), kWorkspaceAlignment);
  std::memset(workspace.data(), poison, workspace.bytes());
  for (Drawn& d : drawn) d.restore();
  const Status s = run_on(plan, stream, {plan.workspace_size() ? workspace.data() : nullptr, plan.workspace_size()}, values(drawn));
  ++totals.runs;
  EXPECT_FALSE(workspace.damage()) << "wrote outside its workspace";
  EXPECT_TRUE(s.ok() || s.code() == Code::invalid_problem) << s.to_string();  // values may be refused
  for (const Drawn& d : drawn)
    for (size_t i = 0; i < d.start.size(); ++i) {
      EXPECT_FALSE(d.memory[i]->damage()) << "wrote outside " << d.info.name;
      if (!written(d.info.role) || !s.ok())
        EXPECT_TRUE(std::equal(d.start[i].begin(), d.start[i].end(), d.memory[i]->data())) << (s.ok() ? "changed its input " : "was refused and wrote ") << d.info.name;
    }
  return s;
}
void check_refusals(const AnyPlan& plan, std::vector<Drawn>& drawn) {
  const uint64_t need = plan.workspace_size();
  fuzz::Memory workspace(need, kWorkspaceAlignment);
  const auto refused = [&](uint64_t offset, uint64_t bytes, Code code, std::string_view what) {
    const Status s = run_on(plan, test_stream(), {need ? workspace.data() + offset : nullptr, bytes}, values(drawn));
    EXPECT_EQ(name(s.code()), name(code)) << what << ": " << s.to_string();
  };
  for (Drawn& d : drawn) d.restore();
  if (need) {
    refused(0, need - 1, Code::workspace_too_small, "a workspace one byte short");
    refused(64, need, Code::misaligned_operand, "a misaligned workspace");
  }
  for (Drawn& d : drawn)
    for (TensorView& v : d.views)
      if (d.given && byte_size(v.dtype) > 1 && v.numel() > 0) {
        v.data = v.as<char>() + 1;
        refused(0, need, Code::misaligned_operand, d.info.name);
        v.data = v.as<char>() - 1;
      }
  for (const Drawn& d : drawn)
    for (size_t i = 0; i < d.start.size(); ++i)
      EXPECT_TRUE(std::equal(d.start[i].begin(), d.start[i].end(), d.memory[i]->data())) << "a refused run wrote " << d.info.name;
}

// What a plan of the device wrote, and what the CPU's writes.
void check_same_on_cpu(const std::string& problem, std::vector<Drawn>& drawn) {
  fuzz::Problem p = fuzz::parse_problem(problem);
  p.preference.require_kernel = {}, p.preference.max_workspace = PlanPreference{}.max_workspace;  // the CPU's own may be larger
  const auto plan = p.op->select(Stream::cpu(), p.settings, p.preference);
  ASSERT_TRUE(plan.ok()) << "the CPU has no such plan: " << plan.status().message();
  std::vector<std::vector<char>> there;
  for (const Drawn& d : drawn)
    for (size_t i = 0; i < d.start.size(); ++i) there.emplace_back(d.memory[i]->data(), d.memory[i]->data() + d.start[i].size());
  if (!run(**plan, Stream::cpu(), drawn, 0xff).ok()) return;  // values that only the CPU can refuse: the device marks their rows
  ++totals.same_on_cpu;
  size_t k = 0;
  for (const Drawn& d : drawn)
    for (size_t i = 0; i < d.start.size(); ++i, ++k) {
      const size_t bytes = byte_size(d.dtype);
      for (size_t at = 0; at + bytes <= there[k].size(); at += bytes)
        if (!same_element(d.dtype, &there[k][at], d.memory[i]->data() + at)) {
          ADD_FAILURE() << "not the CPU's bits in " << d.info.name << ", element " << at / bytes << " in memory";
          break;
        }
    }
}

// Whether the plan was small enough to try.
bool audit_repeats(const std::string& problem, const DrawRules& rules, uint64_t seed) {
  SCOPED_TRACE(problem);
  const int before = threads();
  std::optional<std::vector<Drawn>> drawn;
  std::vector<std::vector<char>> first;
  bool ran = true;
  for (int team : testing::teams()) {
    set_threads(team);
    const auto plan = select(problem);
    if (!plan) { ran = false; break; }
    if (!drawn) {
      fuzz::Random r(seed);
      drawn = draw_arguments(*plan, r, rules);
      if (!drawn) { ran = false; break; }
      check_refusals(*plan, *drawn);
    }
    for (int repeat = 0; repeat < testing::repeats(on_cuda() ? 4 : 2) && ran; ++repeat) {
      ran = run(*plan, test_stream(), *drawn, repeat ? 0x7f : 0xff).ok();
      size_t k = 0;
      for (const Drawn& d : *drawn)
        for (size_t i = 0; i < d.start.size(); ++i, ++k) {
          const char* now = d.memory[i]->data();
          if (k == first.size()) first.emplace_back(now, now + d.start[i].size());
          else if (ran && plan->sku().guarantee.deterministic)
            EXPECT_TRUE(std::equal(first[k].begin(), first[k].end(), now)) << "other bits in " << d.info.name << " with " << team << " threads, repeat " << repeat;
        }
      if (ran && repeat == 0 && on_cuda() && plan->sku().guarantee.same_on_cpu_and_cuda) check_same_on_cpu(problem, *drawn);
    }
  }
  set_threads(before);
  totals.plans += ran;
  return ran;
}

// Calls f(of the whole, of the part, bytes) for each run of bytes that the part has of the whole: rows from `first`, of `rows`.
// False where they have the same shape.
template <class F> bool for_each_part(const TensorView& whole, const TensorView& part, int64_t first, int64_t rows, F f) {
  int axis = -1;
  EXPECT_EQ(whole.shape.rank, part.shape.rank);
  for (int a = 0; a < whole.shape.rank; ++a)
    if (whole.shape[a] != part.shape[a]) {
      EXPECT_EQ(axis, -1) << "rows on two axes";
      axis = a;
    }
  if (axis < 0) return false;
  const int64_t inner = whole.shape.product(axis + 1, whole.shape.rank) * int64_t(byte_size(whole.dtype)), from = first * (whole.shape[axis] / rows);
  for (int64_t o = 0; o < whole.shape.product(0, axis); ++o)
    f((o * whole.shape[axis] + from) * inner, o * part.shape[axis] * inner, part.shape[axis] * inner);
  return true;
}
// Rows [first, first + count) of the whole alone. How many output tensors had rows to compare.
int audit_part(const std::string& problem, const Batch& b, const std::vector<Drawn>& whole, int64_t first, int64_t count) {
  SCOPED_TRACE(text("rows ", first, " to ", first + count, " alone: ", problem));
  const auto plan = select(problem);
  EXPECT_TRUE(plan) << "the part has no such plan";
  fuzz::Random r(7);
  auto part = plan ? draw_arguments(*plan, r, {.most_elements = 1 << 18, .padded = false, .generous = true, .least = 0, .open = open_shapes(b, count)}) : std::nullopt;
  EXPECT_TRUE(part && part->size() == whole.size()) << "the part takes other arguments";
  if (!part || part->size() != whole.size()) return 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ((*part)[i].start.size(), whole[i].start.size()) << "the part takes another " << whole[i].info.name;
    if ((*part)[i].start.size() != whole[i].start.size()) return 0;
    for (size_t t = 0; t < whole[i].start.size(); ++t) {
      std::vector<char>& to = (*part)[i].start[t];
      if (whole[i].info.role == Role::out || whole[i].info.role == Role::optional_out) continue;
      if (!for_each_part(whole[i].views[t], (*part)[i].views[t], first, b.rows, [&](int64_t w, int64_t p, int64_t n) { std::memcpy(&to[size_t(p)], &whole[i].start[t][size_t(w)], size_t(n)); }))
        to = whole[i].start[t];
    }
  }
  EXPECT_TRUE(run(*plan, test_stream(), *part, 0xff).ok());
  ++totals.parts;
  int compared = 0;
  for (size_t i = 0; i < whole.size(); ++i)
    for (size_t t = 0; t < whole[i].start.size() && written(whole[i].info.role); ++t) {
      int64_t other = -1;
      const char *all = whole[i].memory[t]->data(), *alone = (*part)[i].memory[t]->data();
      compared += for_each_part(whole[i].views[t], (*part)[i].views[t], first, b.rows, [&](int64_t w, int64_t p, int64_t n) {
        for (int64_t k = 0; k < n && other < 0; k += int64_t(byte_size(whole[i].dtype)))
          if (!same_element(whole[i].dtype, all + w + k, alone + p + k)) other = (p + k) / int64_t(byte_size(whole[i].dtype));
      });
      EXPECT_EQ(other, -1) << "the element of " << whole[i].info.name << " that first differs from the result with the rows around";
    }
  return compared;
}
void audit_batch(const OpInfo& op, const Batch& b, const RowInfo& row, DType t, const std::string& kind) {
  const auto lines = [&](int64_t rows) { return problem(op.name, filled(b.fields, rows, t, ' ') + kind, row.name, t); };
  const auto plan = select(lines(b.rows));
  if (!plan || !plan->sku().guarantee.batch_invariant) return;
  if (b.fields.find('#') == b.fields.npos && b.open.find('#') == b.open.npos) return;
  std::string why;
  for (uint64_t seed = 1; seed < 9; ++seed) {  // until the values are not refused
    fuzz::Random r(seed);
    auto whole = draw_arguments(*plan, r, {.most_elements = 1 << 18, .padded = false, .generous = true, .least = 0, .open = open_shapes(b, b.rows)});
    ASSERT_TRUE(whole) << lines(b.rows);
    if (const Status ran = run(*plan, test_stream(), *whole, 0xff); !ran.ok()) {
      why = ran.message();
      continue;
    }
    for (int64_t count : {int64_t(1), int64_t(2), b.rows / 2})
      for (int64_t first : {int64_t(0), b.rows - count})
        if (first == 0 || !b.from_first) EXPECT_GT(audit_part(lines(count), b, *whole, first, count), 0) << "no output has rows: " << lines(count);
    return;
  }
  ADD_FAILURE() << "every value refused: " << lines(b.rows) << "\n" << why;
}

// f(row, dtype) for every kernel of the device under test and every dtype that it takes.
template <class F> void for_each_kernel(const OpInfo& op, F f) {
  for (const RowInfo& row : op.rows())
    for (size_t t = 0; t < kDTypes && row.device == test_stream().device.kind; ++t)
      if (row.dtypes.has(DType(t))) f(row, DType(t));
}

bool has_kernels(const OpInfo& op) {
  int count = 0;
  for_each_kernel(op, [&](const RowInfo&, DType) { ++count; });
  return count > 0;
}

TEST(GuaranteeAudit, RandomDescriptors) {
  for (const OpInfo& op : registry())
    for_each_kernel(op, [&](const RowInfo& row, DType t) {
      fuzz::Random random(uint64_t(t) + 1);
      std::string lines(op.name);
      int done = 0;
      for (int i = 0; i < 400 && done < 6; ++i) {
        lines = fuzz::mutate_problem(i % 8 ? lines : std::string(op.name), random);
        if (fuzz::parse_problem(lines).op != &op) lines = op.name;
        done += audit_repeats(problem(op.name, lines.substr(std::min(lines.find('\n'), lines.size())), row.name, t), {.most_elements = 1 << 14}, uint64_t(i));
      }
    });
}
TEST(GuaranteeAudit, ManyRows) {
  std::map<std::string_view, int> tried;
  for (const Batch& b : kBatches) {
    const OpInfo* op = find_op(b.op);
    if (!op) continue;
    size_t turn = 0;  // each kind with one dtype, each dtype with some kinds
    for_each_kernel(*op, [&](const RowInfo& row, DType t) {
      const auto list = kinds(*op, b.fields);
      const size_t step = std::max<size_t>(1, list.size() / 4);
      for (size_t k = turn++ % step; k < list.size(); k += step)
        for (int attempt = 0; attempt < 12; ++attempt) {  // fewer rows, then other values, where a plan refuses
          const int64_t rows = attempt % 3 == 0 ? 3000 : attempt % 3 == 1 ? 300 : b.rows;
          if (audit_repeats(problem(b.op, filled(b.fields, rows, t, ' ') + list[k], row.name, t),
                            {.most_elements = 1 << 17, .padded = false, .generous = true, .least = 0, .open = open_shapes(b, rows)}, uint64_t(1 + attempt / 3))) {
            ++tried[b.op];
            break;
          }
        }
    });
    if (has_kernels(*op)) EXPECT_GT(tried[b.op], 0) << "no plan of " << b.op << " was tried";
  }
}
TEST(GuaranteeAudit, RowsAlone) {
  for (const Batch& b : kBatches)
    if (const OpInfo* op = find_op(b.op))
      for_each_kernel(*op, [&](const RowInfo& row, DType t) {
        for (const std::string& kind : kinds(*op, b.fields)) audit_batch(*op, b, row, t, kind);
      });
}
TEST(GuaranteeAudit, EveryClaimHasRows) {
  for (std::string_view op : totals.claim)
    EXPECT_TRUE(std::any_of(std::begin(kBatches), std::end(kBatches), [&](const Batch& b) { return b.op == op; }))
        << op << " claims to be batch invariant: say in kBatches where its rows are";
  std::printf("%zu ops, %d plans on the %s, %d runs; %zu ops claim batch invariance, %d parts; %d compared with the CPU's bits\n", registry().size(), totals.plans, std::string(name(test_stream().device.kind)).c_str(),
              totals.runs, totals.claim.size(), totals.parts, totals.same_on_cpu);
}

}  // namespace
}  // namespace baracuda
