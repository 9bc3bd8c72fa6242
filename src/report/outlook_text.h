// Renders a forecast for the terminal: expected numbers, and lanes over time.
#pragma once

#include <string>
#include <vector>

#include "report/screen.h"
#include "tidepool/plan.h"

namespace tidepool {

// A line for people: name on the left, text on the right.
struct OutlookRow {
  std::string label, text;
};
std::string render_outlook(const std::string& machine, const std::vector<OutlookRow>&, const Screen&);

// Busy times of one lane in a steady step. The chart has one row per lane, with time from left to right; the
// height of a cell is the share of its time in which the lane works. Times outside of the step wrap around,
// because the steps before and after are alike.
struct LaneActivity {
  std::string name;
  std::vector<std::pair<double, double>> busy;  // [begin, end) in seconds from the step's start, in any order
};
std::string render_gantt(const std::vector<LaneActivity>&, double seconds, const Screen&);

}  // namespace tidepool
