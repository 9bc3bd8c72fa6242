// Renders a forecast for the terminal: the expected numbers, and the lanes over time.
#pragma once

#include <string>
#include <vector>

#include "report/screen.h"
#include "tidepool/plan.h"

namespace tidepool {

// One line: `label` on the left, `text` on the right.
struct OutlookRow {
  std::string label, text;
};
std::string render_outlook(const std::string& machine, const std::vector<OutlookRow>&, const Screen&);

// One row per lane, with a steady step of `seconds` from left to right. The height of a cell is the share of
// its time in which the lane works. Work outside the step is folded into it, because the steps before and
// after it are alike.
struct LaneActivity {
  std::string name;
  std::vector<std::pair<double, double>> busy;  // [begin, end) in seconds from the step's start, in any order
};
std::string render_gantt(const std::vector<LaneActivity>&, double seconds, const Screen&);

}  // namespace tidepool
