// Plots a curve in braille dots (2 x 4 per character), or in ASCII with one point per character.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text/units.h"
#include "report/terminal.h"

namespace tidepool {
namespace {

constexpr u32 tick_columns = 7;

// A grid of dots, with y downwards.
class Canvas {
 public:
  Canvas(u32 columns, u32 rows, bool braille)
      : columns_(columns),
        rows_(rows),
        per_column_(braille ? 2 : 1),
        per_row_(braille ? 4 : 1),
        cells_(columns * rows) {}

  u32 width() const { return columns_ * per_column_; }
  u32 height() const { return rows_ * per_row_; }

  void dot(u32 x, u32 y) {
    constexpr u8 bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    cells_[y / per_row_ * columns_ + x / per_column_] |= bits[y % per_row_][x % per_column_];
  }
  void mark(u32 x, u32 y) { cells_[y / per_row_ * columns_ + x / per_column_] = marked; }

  std::string row(u32 r, const Screen& screen) const {
    std::string out;
    for (u32 c = 0; c < columns_; ++c) {
      const u32 cell = cells_[r * columns_ + c];
      if (cell == marked) {
        out += paint(screen, Ink::yellow, screen.unicode ? "◆" : "o");
      } else if (cell == 0) {
        out += ' ';
      } else {
        out += paint(screen, Ink::cyan, screen.unicode ? braille(cell) : "*");
      }
    }
    return out;
  }

 private:
  static constexpr u32 marked = 0x100;

  // U+2800 + dots, encoded as UTF-8.
  static std::string braille(u32 dots) {
    return {static_cast<char>(0xe2), static_cast<char>(0xa0 | dots >> 6),
            static_cast<char>(0x80 | (dots & 0x3f))};
  }

  u32 columns_, rows_, per_column_, per_row_;
  std::vector<u32> cells_;
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;

  void add(double v) {
    if (!std::isfinite(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  bool empty() const { return low > high; }
};

// Mean of the finite values in each of `width` columns; NaN for a column without any.
std::vector<double> columns_of(const std::vector<double>& values, u32 width) {
  std::vector<double> sums(width, 0.0);
  std::vector<u32> counts(width, 0);
  const double last = std::max<double>(1, static_cast<double>(values.size()) - 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    const u32 x = static_cast<u32>(std::lround(static_cast<double>(i) / last * (width - 1)));
    sums[x] += values[i];
    ++counts[x];
  }
  for (u32 x = 0; x < width; ++x) sums[x] = counts[x] == 0 ? std::nan("") : sums[x] / counts[x];
  return sums;
}

// Connects neighbours with straight lines, so that few values make a curve instead of single dots.
void draw_curve(Canvas& canvas, const std::vector<double>& ys) {
  int before = -1;
  for (int x = 0; x < static_cast<int>(ys.size()); ++x) {
    if (!std::isfinite(ys[static_cast<u32>(x)])) continue;
    const double to = ys[static_cast<u32>(x)];
    const double from = before < 0 ? to : ys[static_cast<u32>(before)];
    const int start = before < 0 ? x : before;
    const int steps = std::max({1, x - start, static_cast<int>(std::fabs(to - from))});
    for (int i = 0; i <= steps; ++i) {
      const double t = static_cast<double>(i) / steps;
      canvas.dot(static_cast<u32>(std::lround(start + t * (x - start))),
                 static_cast<u32>(std::lround(from + t * (to - from))));
    }
    before = x;
  }
}

std::string axis_numbers(u64 last, u32 width) {
  const std::string first = "1", end = count_text(static_cast<double>(last));
  const std::string middle = count_text(std::ceil(static_cast<double>(last) / 2));
  std::string line = pad_right(first, width / 2 - static_cast<u32>(middle.size()) / 2);
  constexpr u32 middle_columns_min = 20;
  if (last > 2 && width >= middle_columns_min) line += middle;
  return pad_right(line, width - static_cast<u32>(end.size())) + (last > 1 ? end : "");
}

}  // namespace

std::vector<std::string> render_plot(const std::vector<double>& values, const std::vector<PlotMark>& marks,
                                     PlotSize size, const Screen& screen) {
  const u32 width = size.columns - tick_columns - 2;
  Canvas canvas(width, size.rows, screen.unicode);
  std::vector<double> columns = columns_of(values, canvas.width());
  Range range;
  for (const double v : columns) range.add(v);
  for (const PlotMark& m : marks) range.add(m.value);
  if (range.empty()) return {};
  // A flat curve is drawn in the middle.
  const double span = std::max(range.high - range.low, 1e-9 * std::max(1.0, std::fabs(range.high)));
  const double top = range.high == range.low ? range.high + span / 2 : range.high;
  const auto y_of = [&](double v) { return (top - v) / span * (canvas.height() - 1); };
  for (double& v : columns) v = y_of(v);
  draw_curve(canvas, columns);
  const double last = std::max<double>(1, static_cast<double>(values.size()) - 1);
  for (const PlotMark& m : marks) {
    if (!std::isfinite(m.value) || m.step == 0 || m.step > values.size()) continue;
    canvas.mark(static_cast<u32>(std::lround(static_cast<double>(m.step - 1) / last * (canvas.width() - 1))),
                static_cast<u32>(std::lround(y_of(m.value))));
  }

  std::vector<std::string> lines;
  for (u32 r = 0; r < size.rows; ++r) {
    const bool labelled = r == 0 || r == size.rows - 1 || r == size.rows / 2;
    const double value = top - span * r / std::max(1u, size.rows - 1);
    const std::string label = labelled ? significant_text(value) : "";
    const char* tick = screen.unicode ? (labelled ? "┤" : "│") : "|";
    std::string line =
        pad_left(label, tick_columns) + " " + paint(screen, Ink::dim, tick) + canvas.row(r, screen);
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  const std::string rule = screen.unicode ? "└" + repeat("─", width) : "+" + repeat("-", width);
  lines.push_back(pad_left("", tick_columns + 1) + paint(screen, Ink::dim, rule));
  lines.push_back(pad_left("", tick_columns + 2) + axis_numbers(values.size(), width));
  return lines;
}

}  // namespace tidepool
