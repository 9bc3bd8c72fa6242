// A forecast in the terminal: what to expect, in numbers and as lanes over time.
#pragma once

#include <string>
#include <vector>

#include "report/screen.h"
#include "tidepool/plan.h"

namespace tidepool {

// Lines for people: name on the left, text on the right.
struct OutlookRow {
  std::string label, text;
};
std::string render_outlook(const std::string& machine, const std::vector<OutlookRow>&, const Screen&);

// One row per lane, a steady step of `seconds` from left to right; the height of a cell is the share of it in
// which the lane works. What lies outside of the step is folded into it: before and after come steps like it.
struct LaneActivity {
  std::string name;
  std::vector<std::pair<double, double>> busy;  // seconds [begin, end) from the step's begin, any order
};
std::string render_gantt(const std::vector<LaneActivity>&, double seconds, const Screen&);

}  // namespace tidepool
