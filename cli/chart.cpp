#include "cli/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace baracuda::cli {
namespace {

constexpr double kWidth = 960, kHeight = 540;
constexpr double kLeft = 78, kRight = 930, kTop = 74, kBottom = 478;  // the plot's box
constexpr size_t kMostPoints = 1200;  // about one per pixel; more would only make the file larger

std::string escaped(std::string_view text) {
  std::string s;
  for (const char c : text) {
    if (c == '&') s += "&amp;";
    else if (c == '<') s += "&lt;";
    else if (c == '>') s += "&gt;";
    else if (static_cast<unsigned char>(c) >= 0x20) s += c;
  }
  return s;
}

struct Axis {
  double low, high, from, to;  // data range and where it lies on the page
  double at(double v) const { return from + (v - low) / (high - low) * (to - from); }
};

struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double v) {
    if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  }
};

// One SVG path through (x, y); a value that is not finite lifts the pen.
class Path {
 public:
  void to(double x, double y) {
    if (!std::isfinite(y)) {
      down_ = false;
      return;
    }
    fmt::format_to(std::back_inserter(d_), "{}{:.1f} {:.1f}", down_ ? 'L' : 'M', x, y);
    down_ = true;
  }
  const std::string& d() const { return d_; }

 private:
  std::string d_;
  bool down_ = false;
};

// Lowest and highest of each bin, in the order of steps, so that thinning keeps every spike.
Path thinned(std::span<const float> y, const Axis& ax, const Axis& ay) {
  Path path;
  const size_t bins = std::min(y.size(), kMostPoints / 2);
  for (size_t b = 0; b < bins; ++b) {
    const size_t first = b * y.size() / bins, last = (b + 1) * y.size() / bins;
    size_t low = first, high = first;
    for (size_t i = first; i < last; ++i) {
      if (!std::isfinite(y[i])) low = high = i;
      if (y[i] < y[low]) low = i;
      if (y[i] > y[high]) high = i;
    }
    path.to(ax.at(double(std::min(low, high) + 1)), ay.at(double(y[std::min(low, high)])));
    if (low != high) path.to(ax.at(double(std::max(low, high) + 1)), ay.at(double(y[std::max(low, high)])));
  }
  return path;
}

// Mean of the finite values in a window that reaches `half` steps to both sides, less near the ends.
Path smoothed(std::span<const float> y, const Axis& ax, const Axis& ay) {
  Path path;
  const size_t half = std::max<size_t>(1, y.size() / 60), points = std::min(y.size(), kMostPoints);
  std::vector<double> sum(y.size() + 1, 0), count(y.size() + 1, 0);
  for (size_t i = 0; i < y.size(); ++i) {
    const bool finite = std::isfinite(y[i]);
    sum[i + 1] = sum[i] + (finite ? double(y[i]) : 0);
    count[i + 1] = count[i] + finite;
  }
  for (size_t p = 0; p < points; ++p) {
    const size_t i = points > 1 ? p * (y.size() - 1) / (points - 1) : 0, reach = std::min({half, i, y.size() - 1 - i});
    const size_t first = i - reach, last = i + reach + 1;
    path.to(ax.at(double(i + 1)), ay.at((sum[last] - sum[first]) / (count[last] - count[first])));
  }
  return path;
}

// A white page of the width kWidth with a title; what is put on it follows.
class Page {
 public:
  Page(double height, double left, std::string_view title, std::string_view subtitle) {
    put(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" height="{}" font-family="sans-serif" font-size="13" fill="#333">)",
        kWidth, height, kWidth, height);
    put(R"(<rect width="100%" height="100%" fill="white"/>)");
    put(R"(<text x="{}" y="30" font-size="18" font-weight="bold">{}</text>)", left, escaped(title));
    put(R"(<text x="{}" y="52" fill="#666">{}</text>)", left, escaped(subtitle));
  }
  template <class... A> void put(fmt::format_string<A...> f, A&&... a) {
    fmt::format_to(std::back_inserter(svg_), f, std::forward<A>(a)...);
    svg_ += '\n';
  }
  void legend(double x, double y, std::string_view mark, std::string_view label) {
    put(R"svg(<g transform="translate({} {})">{}<text x="38" y="4.5">{}</text></g>)svg", x, y, mark, label);
  }
  std::string done() { return std::move(svg_) + "</svg>\n"; }

 private:
  std::string svg_;
};

}  // namespace

std::vector<double> nice_ticks(double low, double high, int most) {
  if (!(high > low) || most < 2) return {low};
  const double raw = (high - low) / most, power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double m : {1.0, 2.0, 5.0})
    if (m * power >= raw) {
      step = m * power;
      break;
    }
  std::vector<double> ticks;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k) ticks.push_back(k * step + 0.0);  // + 0: no -0
  return ticks;
}

std::string loss_chart_svg(const LossChart& chart) {
  Range y;
  for (const float v : chart.losses) y.add(double(v));
  for (const HeldOut& h : chart.held_out) y.add(h.loss);
  if (y.low > y.high) y.low = 0, y.high = 1;
  const double margin = std::max(0.05 * (y.high - y.low), 1e-3);
  const Axis ax{0, std::max<double>(1, double(chart.losses.size())), kLeft, kRight};
  const Axis ay{y.low - margin, y.high + margin, kBottom, kTop};

  Page page(kHeight, kLeft, chart.title, chart.subtitle);
  for (const double t : nice_ticks(ay.low, ay.high, 8)) {
    page.put(R"(<line x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}" stroke="#e4e4e4"/>)", kLeft, kRight, ay.at(t), ay.at(t));
    page.put(R"(<text x="{}" y="{:.1f}" text-anchor="end">{:.6g}</text>)", kLeft - 8, ay.at(t) + 4.5, t);
  }
  for (const double t : nice_ticks(ax.low, ax.high, 10)) {
    page.put(R"(<line x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}" stroke="#999"/>)", ax.at(t), ax.at(t), kBottom, kBottom + 5);
    page.put(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{:.10g}</text>)", ax.at(t), kBottom + 20, t);
  }
  page.put(R"(<path d="M{} {}V{}H{}" fill="none" stroke="#999"/>)", kLeft, kTop, kBottom, kRight);
  page.put(R"(<text x="{}" y="{}" text-anchor="middle">step</text>)", (kLeft + kRight) / 2, kBottom + 44);
  page.put(R"svg(<text transform="translate(22 {}) rotate(-90)" text-anchor="middle">{}</text>)svg", (kTop + kBottom) / 2, escaped(chart.y_label));

  page.put(R"(<path d="{}" fill="none" stroke="#9ec5ea" stroke-width="1" stroke-linejoin="round"/>)", thinned(chart.losses, ax, ay).d());
  page.put(R"(<path d="{}" fill="none" stroke="#12559c" stroke-width="2.2" stroke-linejoin="round"/>)", smoothed(chart.losses, ax, ay).d());
  for (const HeldOut& h : chart.held_out)
    if (std::isfinite(h.loss)) page.put(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4.5" fill="#d95f02"/>)", ax.at(h.step), ay.at(h.loss));

  page.legend(kRight - 190, kTop + 14, R"(<path d="M0 0H30" stroke="#9ec5ea"/>)", "each step");
  page.legend(kRight - 190, kTop + 34, R"(<path d="M0 0H30" stroke="#12559c" stroke-width="2.2"/>)", "running mean");
  if (!chart.held_out.empty()) page.legend(kRight - 190, kTop + 54, R"(<circle cx="15" cy="0" r="4.5" fill="#d95f02"/>)", "held-out text");
  return page.done();
}

std::string bar_chart_svg(const BarChart& chart) {
  constexpr double kRow = 30, kBar = 16;
  size_t longest = 0;
  Range range;
  for (const Bar& b : chart.bars) longest = std::max(longest, b.label.size()), range.add(b.value), range.add(b.mark);
  const double left = std::min(24 + 8 * double(longest), 420.0), right = kWidth - 180, bottom = kTop + 40 + kRow * double(chart.bars.size());
  const Axis ax{0, range.high > 0 ? range.high : 1, left, right};
  Page page(bottom + 62, 24, chart.title, chart.subtitle);
  for (const double t : nice_ticks(ax.low, ax.high, 8)) {
    page.put(R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}" stroke="#e4e4e4"/>)", ax.at(t), kTop + 32, bottom);
    page.put(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{:.6g}</text>)", ax.at(t), bottom + 20, t);
  }
  page.put(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", (left + right) / 2, bottom + 44, escaped(chart.x_label));
  double y = kTop + 40;
  for (const Bar& b : chart.bars) {
    const double value = std::isfinite(b.value) ? std::max(0.0, b.value) : 0;
    page.put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", left - 8, y + kBar - 3, escaped(b.label));
    page.put(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}" fill="#9ec5ea"/>)", left, y, ax.at(value) - left, kBar);
    if (std::isfinite(b.mark) && b.mark >= 0) page.put(R"(<path d="M{:.1f} {:.1f}V{:.1f}" stroke="#d95f02" stroke-width="2"/>)", ax.at(b.mark), y - 4, y + kBar + 4);
    page.put(R"(<text x="{}" y="{:.1f}" fill="#666">{}</text>)", right + 12, y + kBar - 3, escaped(b.note));
    y += kRow;
  }
  page.legend(left, kTop + 14, R"(<path d="M0 0H30" stroke="#9ec5ea" stroke-width="10"/>)", escaped(chart.value_label));
  page.legend(left + 200, kTop + 14, R"(<path d="M15 -8V8" stroke="#d95f02" stroke-width="2"/>)", escaped(chart.mark_label));
  return page.done();
}

}  // namespace baracuda::cli
