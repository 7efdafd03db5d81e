#pragma once
// The text that fuzz_descriptor reads: the name of an op, then lines "field=value", and lines "@name=value" for what is
// not the descriptor: @seed, @threads, @max_workspace, @backend, @kernel, @batch_invariant, @nondeterministic.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>
#include "baracuda/core/registry.hpp"

namespace baracuda::fuzz {

struct Problem {
  const OpInfo* op = nullptr;
  std::vector<KeyValue> settings;  // into the text
  PlanPreference preference;
  uint64_t seed = 0;
  int threads = 1;
};
// Lines that say nothing known are settings, which the op refuses.
Problem parse_problem(std::string_view text);

// A counter-based generator; the same seed gives the same problem.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return next() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  template <class T, size_t N> const T& pick(const T (&list)[N]) { return list[below(N)]; }

 private:
  uint64_t state_;
};

// A text that says something about `op`: mutates one line of `text`, or begins anew.
std::string mutate_problem(std::string_view text, Random& random);

// Runs the plan on arguments drawn at random (drawn.hpp), twice, and aborts where it writes outside of its outputs, or gives
// other bits though it claims to be deterministic. Returns whether it ran.
bool run_plan(const AnyPlan& plan, const Stream& stream, uint64_t seed);

}  // namespace baracuda::fuzz
