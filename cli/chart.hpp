#pragma once
// Self-contained SVG pictures, axes with round ticks and labels. A loss curve: every step as a pale line, its running mean
// as a dark one, held-out losses as dots. A bar chart: a row per case, its value as a bar, another value to hold it against as a
// line across the row.
#include <span>
#include <string>
#include <vector>

namespace baracuda::cli {

// Round positions for at most `most` ticks inside [low, high]; one tick where the range is empty.
std::vector<double> nice_ticks(double low, double high, int most);

struct HeldOut { double step, loss; };
struct LossChart {
  std::string title, subtitle;      // any text; escaped here
  std::string y_label = "loss (nats per token)";
  std::span<const float> losses;    // of steps 1, 2, ...; values that are not finite leave a gap
  std::span<const HeldOut> held_out = {};
};
std::string loss_chart_svg(const LossChart& chart);

struct Bar {
  std::string label;       // in front
  double value, mark;      // not finite or negative: not drawn
  std::string note;        // behind
};
struct BarChart {
  std::string title, subtitle, x_label, value_label, mark_label;  // any text; escaped here
  std::span<const Bar> bars;
};
std::string bar_chart_svg(const BarChart& chart);

}  // namespace baracuda::cli
