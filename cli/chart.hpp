#pragma once
// A loss curve as a self-contained SVG picture: axes with ticks and labels, every step as a pale line, its running mean
// as a dark one, held-out losses as dots.
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

}  // namespace baracuda::cli
