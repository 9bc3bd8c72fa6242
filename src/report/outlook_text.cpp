#include "report/outlook_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text/units.h"

namespace tidepool {
namespace {

constexpr u32 outlook_label_columns = 14, lane_columns = 14;

std::string cell(double share, const Screen& screen) {
  static constexpr std::array<const char*, 9> blocks = {"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::array<const char*, 9> plain = {".", ".", ":", ":", "+", "+", "x", "X", "#"};
  const u32 level = share <= 0.01 ? 0 : std::clamp(static_cast<u32>(std::lround(share * 8)), 1u, 8u);
  return screen.unicode ? blocks[level] : plain[level];
}

// Busy share of each cell, for a step of `seconds` that repeats forever: work beyond the end of the step
// wraps around to its begin.
std::vector<double> shares_of(const LaneActivity& lane, double seconds, u32 width) {
  std::vector<double> share(width, 0.0);
  const auto add = [&](double begin, double end) {
    const double from = begin / seconds * width, to = end / seconds * width;
    for (u32 c = static_cast<u32>(from); c < width && c < to; ++c)
      share[c] += std::min<double>(to, c + 1) - std::max<double>(from, c);
  };
  for (const auto& [begin, end] : lane.busy) {
    const double at = begin - std::floor(begin / seconds) * seconds,
                 stop = at + std::min(end - begin, seconds);
    add(at, std::min(stop, seconds));
    if (stop > seconds) add(0, stop - seconds);
  }
  return share;
}

}  // namespace

std::string render_outlook(const std::string& machine, const std::vector<OutlookRow>& rows,
                           const Screen& screen) {
  std::string out = "\n " + paint(screen, Ink::bold, "On " + machine) + "\n";
  for (const OutlookRow& row : rows) {
    std::string label = row.label;
    for (const std::string& line :
         wrap_words(row.text, std::min(screen.columns, 80u) - 2 - outlook_label_columns, 0)) {
      out += "  " + pad_right(label, outlook_label_columns - 1) + line + "\n";
      label.clear();
    }
  }
  return out;
}

std::string render_gantt(const std::vector<LaneActivity>& lanes, double seconds, const Screen& screen) {
  const u32 width = std::min(screen.columns, 120u) - lane_columns - 8;
  std::string out = "\n " + paint(screen, Ink::bold, "A steady step") + "\n";
  for (const LaneActivity& lane : lanes) {
    double busy = 0;
    for (const auto& [begin, end] : lane.busy) busy += end - begin;
    std::string cells;
    for (double s : shares_of(lane, seconds, width)) cells += cell(std::min(s, 1.0), screen);
    out += fmt::format("  {}{} {:>4.0f}%\n", pad_right(lane.name, lane_columns - 2), cells,
                       100 * std::min(1.0, busy / seconds));
  }
  out += fmt::format("  {}0{}{}\n", std::string(lane_columns - 2, ' '),
                     std::string(width - 1 - seconds_text(seconds).size(), ' '), seconds_text(seconds));
  return out;
}

}  // namespace tidepool
