// ns per element in the first-level cache: 4096 floats or 2048 doubles in and out.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "baracuda/math/math_table.hpp"

namespace {
using namespace baracuda;

template <class T> void measure(benchmark::State& state, typename MathFunctions<T>::Unary f, double lo, double hi) {
  std::vector<T> x(16384 / sizeof(T)), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = T(lo + (hi - lo) * double(i * 7919 % x.size()) / double(x.size()));
  for (auto _ : state) {
    f(x.data(), y.data(), int64_t(x.size()));
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  state.counters["ns"] = benchmark::Counter(double(x.size()) * double(state.iterations()) * 1e-9,
                                            benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
template <class T> MathFunctions<T> functions(const MathTable& t) {
  if constexpr (sizeof(T) == 4) return t.f32;
  else return t.f64;
}
template <class T> void add(const std::string& prefix, const MathTable& t) {
  struct Row { const char* name; typename MathFunctions<T>::Unary MathFunctions<T>::*member; };
#define BARACUDA_NAMED(name) {#name, &MathFunctions<T>::name},
  const Row rows[] = {BARACUDA_MATH_UNARY(BARACUDA_NAMED)};
  for (const Row& row : rows) {
    const std::string name = row.name;
    const bool positive = name.starts_with("log") || name == "sqrt";
    benchmark::RegisterBenchmark((prefix + name).c_str(), measure<T>, functions<T>(t).*row.member, positive ? 0.01 : -4, 4)->UseRealTime();
  }
}
const bool registered = [] {
  struct Set { const char* name; const MathTable* table; Isa isa; };
  for (const Set& s : {Set{"portable", &portable::math_table, Isa::portable}, Set{"avx2", &avx2::math_table, Isa::avx2},
                       Set{"avx512", &avx512::math_table, Isa::avx512}}) {
    if (isa() < s.isa) continue;
    add<float>(std::string(s.name) + "/f32/", *s.table);
    add<double>(std::string(s.name) + "/f64/", *s.table);
#define BARACUDA_OF_BRIEF(f) benchmark::RegisterBenchmark((std::string(s.name) + "/brief/" #f).c_str(), measure<float>, s.table->brief.f, 0.01, 4)->UseRealTime();
    BARACUDA_MATH_BRIEF(BARACUDA_OF_BRIEF)
  }
  return true;
}();

}  // namespace
