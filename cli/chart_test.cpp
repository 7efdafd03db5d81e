#include "cli/chart.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace baracuda::cli {
namespace {

TEST(NiceTicks, are_round_and_inside) {
  EXPECT_EQ(nice_ticks(0, 1000, 10), (std::vector<double>{0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000}));
  EXPECT_EQ(nice_ticks(1.4, 3.1, 4), (std::vector<double>{1.5, 2, 2.5, 3}));
  EXPECT_EQ(nice_ticks(2, 2, 8), (std::vector<double>{2}));
  for (const double low : {-3.7, 0.0, 1e-9, 12345.6})
    for (const double span : {1e-6, 0.3, 7.0, 1e9})
      for (const double t : nice_ticks(low, low + span, 8)) EXPECT_TRUE(t >= low - 1e-9 * span && t <= low + span * (1 + 1e-9));
  EXPECT_FALSE(std::signbit(nice_ticks(-0.01, 100, 8)[0]));
}

// Every number in a path or attribute must be finite whatever the losses are, or viewers reject the picture.
TEST(LossChart, is_well_formed_for_any_losses) {
  std::vector<float> rising{1, 2, 3}, gaps{NAN, 2, INFINITY, -INFINITY, 1}, none, one{5}, equal(7, 2.f), all_nan(4, NAN);
  std::vector<float> many(100000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = float(i % 97);
  const HeldOut held_out[] = {{2, 1.5}, {3, NAN}};
  for (const auto* losses : {&rising, &gaps, &none, &one, &equal, &all_nan, &many}) {
    const std::string svg = loss_chart_svg({"a < b & \"c\"\n", "sub", "loss", *losses, held_out});
    EXPECT_TRUE(svg.starts_with("<svg "));
    EXPECT_TRUE(svg.ends_with("</svg>\n"));
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_NE(svg.find("a &lt; b &amp; \"c\""), std::string::npos);
    EXPECT_LT(svg.size(), 100000u);
  }
}

TEST(BarChart, is_well_formed_for_any_bars) {
  const Bar bars[] = {{"m=1 & n=2", 3, 12, "0.25 of copy"}, {"<none>", NAN, INFINITY, ""}, {"less than nothing", -1, -2, ""}, {std::string(200, 'x'), 0, 0, "far"}};
  for (const size_t n : {size_t(0), size_t(1), std::size(bars)}) {
    const std::string svg = bar_chart_svg({"a < b", "sub", "GB/s", "plan", "copy", std::span(bars, n)});
    EXPECT_TRUE(svg.starts_with("<svg "));
    EXPECT_TRUE(svg.ends_with("</svg>\n"));
    for (const char* never : {"nan", "inf", "<none>", "width=\"-"}) EXPECT_EQ(svg.find(never), std::string::npos) << never;
    EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
    EXPECT_EQ(svg.find("m=1 &amp; n=2") != std::string::npos, n > 0);
  }
}
TEST(BarChart, bars_and_marks_are_to_scale) {
  const Bar bars[] = {{"a", 10, 20, ""}, {"b", 5, 20, ""}};
  const std::string svg = bar_chart_svg({"", "", "GB/s", "plan", "copy", bars});
  std::vector<double> widths;
  for (size_t at = 0; (at = svg.find("<rect x=", at)) != std::string::npos; ++at) widths.push_back(std::stod(svg.substr(svg.find("width=\"", at) + 7)));
  ASSERT_EQ(widths.size(), 2u);
  EXPECT_NEAR(widths[0], 2 * widths[1], 0.2);
}

TEST(LossChart, keeps_a_single_spike_when_thinning) {
  std::vector<float> losses(50000, 1.f);
  losses[31234] = 9;
  const std::string svg = loss_chart_svg({"", "", "", losses, {}});
  EXPECT_NE(svg.find(">8<"), std::string::npos);  // the axis reaches the spike
  const size_t pale = svg.find("stroke=\"#9ec5ea\" stroke-width");
  const std::string path = svg.substr(svg.rfind("<path", pale), pale - svg.rfind("<path", pale));
  double top = 1e9;  // smallest y on the page
  for (size_t i = path.find_first_of("ML"); i != std::string::npos; i = path.find_first_of("ML", i + 1)) {
    double x, y;
    if (sscanf(path.c_str() + i + 1, "%lf %lf", &x, &y) == 2) top = std::min(top, y);
  }
  EXPECT_LT(top, 120);
}

}  // namespace
}  // namespace baracuda::cli
