#include "baracuda/testing/plan_checks.hpp"

namespace baracuda::testing {

void check_directional(const std::function<double()>& loss, Tensor& x, const Tensor& dx, uint64_t seed, double relative, double step) {
  ASSERT_EQ(x.dtype(), DType::f64);
  ASSERT_EQ(x.numel(), dx.numel());
  const std::vector<double> at = x.values();
  Source source(seed);
  for (int trial = 0; trial < 3; ++trial) {
    std::vector<double> v(at.size());
    double norm = 0;
    for (double& e : v) e = source.normal(), norm += e * e;
    norm = std::sqrt(norm);
    double want = 0, scale = 0;
    for (size_t i = 0; i < v.size(); ++i) {
      v[i] /= norm;
      want += v[i] * dx.at(int64_t(i));
      scale += std::fabs(v[i] * dx.at(int64_t(i)));
    }
    auto moved = [&](double h) {
      for (size_t i = 0; i < v.size(); ++i) x.set(int64_t(i), at[i] + h * v[i]);
      return loss();
    };
    const double got = (8 * (moved(step) - moved(-step)) - (moved(2 * step) - moved(-2 * step))) / (12 * step);
    for (size_t i = 0; i < v.size(); ++i) x.set(int64_t(i), at[i]);
    EXPECT_NEAR(got, want, relative * (scale + 1)) << "directional derivative, trial " << trial;
    EXPECT_TRUE(scale > 0 || at.empty()) << "the gradient is zero everywhere: this check would see nothing";
  }
}

}  // namespace baracuda::testing
