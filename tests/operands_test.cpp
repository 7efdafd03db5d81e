// For every op of the registry, over descriptors made at random. An output that is laid over an input or over another output is
// refused, in part and as a whole; where a plan takes it as a whole it works in place, with the bits of separate memory. Bools: every
// byte but 0 is the same.
#include <gtest/gtest.h>
#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>
#include "tests/fuzz/drawn.hpp"

namespace baracuda {
namespace {

using fuzz::Drawn;

struct Totals { int plans = 0, refused = 0, in_place = 0; };
std::map<std::string_view, Totals> totals;

Status run(const AnyPlan& plan, const std::vector<ArgValue>& args) {
  fuzz::Memory workspace(plan.workspace_size(), kWorkspaceAlignment);
  return plan.run(Stream::cpu(), {plan.workspace_size() ? workspace.data() : nullptr, plan.workspace_size()}, args);
}
std::vector<std::vector<char>> contents(const std::vector<Drawn>& drawn) {
  std::vector<std::vector<char>> all;
  for (const Drawn& d : drawn)
    for (size_t i = 0; d.given && i < d.views.size(); ++i) all.emplace_back(d.memory[i]->data(), d.memory[i]->data() + d.memory[i]->bytes());
  return all;
}
// The plan takes tensor `o` of `out` in the memory of tensor `k` of `other`: runs it so and apart.
void check_in_place(const AnyPlan& plan, std::vector<Drawn>& drawn, Drawn& out, size_t o, const Drawn& other, size_t k, Totals& t) {
  for (Drawn& d : drawn) d.restore();
  if (!run(plan, values(drawn)).ok()) return;  // values may be refused
  const auto want = contents(drawn);
  for (Drawn& d : drawn) d.restore();
  const auto before = contents(drawn);
  void* const own = std::exchange(out.views[o].data, other.views[k].data);
  const Status s = run(plan, values(drawn));
  out.views[o].data = own;
  EXPECT_TRUE(s.ok()) << s.to_string();
  const auto now = contents(drawn);
  size_t at = 0, shared = 0, written_at = 0;
  for (const Drawn& d : drawn)
    for (size_t i = 0; d.given && i < d.views.size(); ++i, ++at) {
      if (&d == &other && i == k) shared = at;
      if (&d == &out && i == o) written_at = at;
    }
  at = 0;
  for (const Drawn& d : drawn)
    for (size_t i = 0; d.given && i < d.views.size(); ++i, ++at) {
      const auto& expected = at == shared ? want[written_at] : at == written_at ? before[at] : written(d.info.role) ? want[at] : before[at];
      ASSERT_EQ(now[at].size(), expected.size());
      const size_t size = byte_size(at == shared ? out.dtype : d.dtype);
      for (size_t b = 0; b < expected.size(); b += size)
        ASSERT_TRUE(fuzz::same_element(at == shared ? out.dtype : d.dtype, &now[at][b], &expected[b]))
            << "in place, element " << b / size << " of " << (at == shared ? out.info.name : d.info.name) << " differs";
    }
  ++t.in_place;
}
void check_pair(const AnyPlan& plan, std::vector<Drawn>& drawn, Drawn& out, size_t o, const Drawn& other, size_t k, Totals& t) {
  TensorView& y = out.views[o];
  const TensorView& x = other.views[k];
  if (y.numel() == 0 || x.numel() == 0) return;
  SCOPED_TRACE(text(out.info.name, " over ", other.info.name, " of ", plan.sku().op, " ", plan.descriptor()));
  const auto laid_at = [&](void* where) {
    void* const own = std::exchange(y.data, where);
    const Status s = plan.can_implement(values(drawn));
    y.data = own;
    return s;
  };
  const auto expect_refused = [&](const Status& s) {
    EXPECT_FALSE(s.ok()) << "taken";
    if (s.ok()) return;
    ++t.refused;
    EXPECT_NE(s.message().find("overlaps"), std::string::npos) << s.to_string();  // perhaps a third tensor, beyond the end of `other`
    EXPECT_NE(s.message().find(out.info.name), std::string::npos) << s.to_string();
  };
  const size_t step = byte_size(y.dtype), align = std::max(step, byte_size(x.dtype));
  // In part: y begins at another element of x, or x at another of y.
  if (x.numel() * int64_t(byte_size(x.dtype)) > int64_t(align)) expect_refused(laid_at(x.as<char>() + align));
  if (y.numel() * int64_t(step) > int64_t(align)) expect_refused(laid_at(x.as<char>() - align));
  const Status whole = laid_at(x.data);
  if (!whole.ok()) return expect_refused(whole);
  EXPECT_TRUE(!written(other.info.role) && y.shape == x.shape && step == byte_size(x.dtype)) << "taken";
  check_in_place(plan, drawn, out, o, other, k, t);
}
bool check_plan(const AnyPlan& plan, uint64_t seed, Totals& t) {
  fuzz::Random r(seed);
  auto drawn = draw_arguments(plan, r, {.padded = false, .generous = true, .least = 0, .open = {{2, 3}, {5}}});
  if (!drawn || plan.workspace_size() > (16 << 20)) return false;
  bool looked = false;
  for (Drawn& out : *drawn)
    for (Drawn& other : *drawn)
      for (size_t o = 0; written(out.info.role) && out.given && o < out.views.size(); ++o)
        for (size_t k = 0; other.given && k < other.views.size(); ++k)
          if ((&out != &other || o != k) && !::testing::Test::HasFatalFailure()) check_pair(plan, *drawn, out, o, other, k, t), looked = true;
  return looked;
}

TEST(Overlap, IsRefusedByEveryOp) {
  for (const OpInfo& op : registry()) {
    fuzz::Random random(2);
    std::string text(op.name);
    Totals& t = totals[op.name];
    int tensors = 0, written_ones = 0;
    for (const ArgInfo& a : op.args()) tensors += a.role != Role::value, written_ones += written(a.role);
    for (int i = 0; t.refused == 0 ? i < 100000 : i < 6000 && t.plans < 40; ++i) {
      const fuzz::Problem p = fuzz::parse_problem(text);
      if (p.op == &op)
        if (const auto plan = op.select(Stream::cpu(), p.settings, {}); plan.ok()) t.plans += check_plan(**plan, uint64_t(i), t);
      text = fuzz::mutate_problem(i % 8 ? text : std::string(op.name), random);
    }
    if (tensors > 1 && written_ones > 0) EXPECT_GT(t.refused, 0) << "nothing of " << op.name << " was tried";
  }
  int refused = 0;
  for (const auto& [op, t] : totals) {
    refused += t.refused;
    if (t.in_place) std::printf("%.*s %d ", int(op.size()), op.data(), t.in_place);
  }
  std::printf("runs in place; %d overlaps refused\n", refused);
}

// Whether the plan read a bool.
bool check_bools(const AnyPlan& plan, uint64_t seed) {
  fuzz::Random r(seed);
  auto drawn = draw_arguments(plan, r, {.generous = true, .least = 0, .open = {{2, 3}, {5}}});
  if (!drawn || plan.workspace_size() > (16 << 20)) return false;
  const auto is_bool = [](const Drawn& d) { return d.given && d.dtype == DType::boolean; };
  if (std::none_of(drawn->begin(), drawn->end(), [&](const Drawn& d) { return is_bool(d) && d.info.role != Role::out && d.info.role != Role::optional_out; })) return false;
  SCOPED_TRACE(text(plan.sku().op, " ", plan.descriptor()));
  for (Drawn& d : *drawn) d.restore();
  if (!run(plan, values(*drawn)).ok()) return false;
  const auto want = contents(*drawn);
  for (Drawn& d : *drawn)
    if (is_bool(d) && d.info.role != Role::out && d.info.role != Role::optional_out)
      for (auto& memory : d.start)
        for (char& c : memory) c = c ? char(1 + r.below(255)) : char(0);
  for (Drawn& d : *drawn) d.restore();
  EXPECT_TRUE(run(plan, values(*drawn)).ok());
  const auto now = contents(*drawn);
  size_t at = 0;
  for (const Drawn& d : *drawn)
    for (size_t i = 0; d.given && i < d.views.size(); ++i, ++at) {
      const size_t size = byte_size(d.dtype);
      int64_t other = -1;
      for (size_t b = 0; b < want[at].size() && written(d.info.role) && other < 0; b += size)
        if (is_bool(d) ? !now[at][b] != !want[at][b] : !fuzz::same_element(d.dtype, &now[at][b], &want[at][b])) other = int64_t(b / size);
      EXPECT_EQ(other, -1) << "the element of " << d.info.name << " that differs where true is not 1";
    }
  return true;
}
TEST(Bool, EveryByteButZeroIsTrue) {
  std::map<std::string_view, int> tried;
  for (const OpInfo& op : registry()) {
    fuzz::Random random(3);
    std::string text(op.name);
    bool serves = false;
    for (const RowInfo& row : op.rows()) serves = serves || row.dtypes.has(DType::boolean);
    std::vector<std::string_view> kinds;
    for (const FieldInfo& f : op.fields())
      if (f.name == "kind") kinds = f.values;
    for (int i = 0; i < 2000 && tried[op.name] < 60; ++i) {
      std::string bools = text + "\ndtype=bool";
      if (!kinds.empty()) bools += "\nkind=" + std::string(kinds[size_t(i) % kinds.size()]);
      const fuzz::Problem p = fuzz::parse_problem(serves && i % 4 ? bools : text);
      if (p.op == &op)
        if (const auto plan = op.select(Stream::cpu(), p.settings, {}); plan.ok()) tried[op.name] += check_bools(**plan, uint64_t(i));
      text = fuzz::mutate_problem(i % 8 ? text : std::string(op.name), random);
    }
  }
  for (const auto& [op, n] : tried)
    if (n) std::printf("%.*s %d ", int(op.size()), op.data(), n);
  std::printf("plans read bools\n");
  for (std::string_view op : {"binary", "cast", "reduce", "scan", "scatter", "ternary", "unary"})
    if (find_op(op)) EXPECT_GT(tried[op], 0) << op;
}

}  // namespace
}  // namespace baracuda
