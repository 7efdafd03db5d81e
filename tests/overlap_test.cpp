// For every op of the registry, over descriptors made at random: an output that is laid over an input or over another output is
// refused, in part and as a whole; where a plan takes it as a whole it works in place, with the bits of separate memory.
#include <gtest/gtest.h>
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

}  // namespace
}  // namespace baracuda
