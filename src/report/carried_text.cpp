#include "report/carried_text.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text/units.h"

namespace tidepool {
namespace {

constexpr double speed_kept = 0.9;  // ratios down to this, and up to its inverse, count as no change

// Older reports have a single number for the peak.
Spread peak_of(const RunReport& run) {
  if (run.peak_range.known()) return run.peak_range;
  return {run.peak_flops_per_second, run.peak_flops_per_second};
}

}  // namespace

std::string seconds_range_text(double seconds, const Spread& range) {
  if (!range.wide()) return seconds_text(seconds);
  return fmt::format("{} to {}", seconds_text(range.least), seconds_text(range.most));
}

std::string share_of_peak_text(const RunReport& run) {
  const Spread peak = peak_of(run);
  if (!peak.known()) return "";
  const double least = run.flops_per_second / peak.most, most = run.flops_per_second / peak.least;
  if (least > 1) return "above the measured peak";
  if (!peak.wide() && most <= 1)
    return percent_text(run.flops_per_second / run.peak_flops_per_second) + " of peak";
  if (most > 1) return fmt::format("at least {} of peak", percent_text(least));
  return fmt::format("{} to {} of peak", percent_text(least), percent_text(most));
}

double share_of_peak(const RunReport& run) {
  const Spread peak = peak_of(run);
  if (!peak.known() || peak.wide() || run.flops_per_second > peak.least) return std::nan("");
  return run.flops_per_second / run.peak_flops_per_second;
}

std::vector<std::string> measurement_notes(const RunReport& run) {
  std::vector<std::string> notes;
  const double speed = run.speed_at_end;
  if (speed > 0 && (speed < speed_kept || speed * speed_kept > 1))
    notes.push_back(
        fmt::format("The machine was {:.1f} times as {} after the last step as before the first: the "
                    "prediction is for "
                    "the speed before.",
                    speed > 1 ? speed : 1 / speed, speed > 1 ? "fast" : "slow"));
  if (const Spread peak = peak_of(run); peak.known() && run.flops_per_second > peak.most)
    notes.push_back(
        "Steps were faster than the products that the peak was measured with: the machine was slower then, "
        "or "
        "the budgets had room for small products only.");
  return notes;
}

}  // namespace tidepool
