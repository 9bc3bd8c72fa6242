// Renders the lines below the progress bar: how busy each lane is and how full each tier is.
#include <fmt/format.h>

#include <cmath>

#include "base/text/units.h"
#include "report/terminal.h"

namespace tidepool {
namespace {

constexpr u32 lane_bar_columns = 4, tier_bar_columns = 10;
constexpr u32 columns_least = 50;  // narrower screens only have room for the bar

// Joins as many items as fit on a line, and drops the rest.
std::string fitted(const std::vector<std::string>& items, const Screen& screen) {
  std::string line;
  for (const std::string& item : items) {
    if (display_width(line) + 2 + display_width(item) > screen.columns - 1) break;
    line.append(line.empty() ? " " : "  ").append(item);
  }
  return line;
}

std::string gauge(const std::string& name, double share, u32 columns, Ink ink, const Screen& screen) {
  return fmt::format("{} {} {:>4}", name, bar(screen, share, columns, ink),
                     percent_text(std::min(share, 1.0)));
}

}  // namespace

std::vector<std::string> live_lines(const LiveState& live, const Screen& screen) {
  if (!live.known || screen.columns < columns_least) return {};
  // Short names: all lanes of a run that streams from disk fit into 80 columns with their bars.
  constexpr std::array<const char*, lane_kind_count> names = {"compute", "h2d",  "d2h",  "comm",   "read",
                                                              "write",   "host", "send", "receive"};
  std::vector<std::string> lanes, tiers;
  const bool bars = screen.columns >= 100;
  for (u32 lane = 0; lane < lane_kind_count; ++lane) {
    const double share = live.busy[lane];
    if (!std::isfinite(share)) continue;
    lanes.push_back(
        bars ? gauge(names[lane], share, lane_bar_columns, lane == 0 ? Ink::green : Ink::yellow, screen)
             : fmt::format("{} {:>4}", names[lane], percent_text(std::min(share, 1.0))));
  }
  for (u32 tier = 0; tier < tier_count; ++tier)
    if (std::isfinite(live.fill[tier]))
      tiers.push_back(gauge(std::string(name(static_cast<Tier>(tier))), live.fill[tier], tier_bar_columns,
                            Ink::cyan, screen));
  return {fitted(lanes, screen), fitted(tiers, screen)};
}

}  // namespace tidepool
