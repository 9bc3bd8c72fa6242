// Writes figures that rest on measurements, only as exactly as the measurements allow: a range if the
// measurements lie apart, no percentage if no percentage holds.
#pragma once

#include <string>
#include <vector>

#include "report/run_report.h"

namespace tidepool {

// "1.20 s", or "1.10 s to 1.52 s".
std::string seconds_range_text(double seconds, const Spread&);

// RETURNS: "24% of peak", "24% to 31% of peak", "at least 83% of peak" or "above the measured peak"; empty if
// the peak was not measured.
std::string share_of_peak_text(const RunReport&);
// RETURNS: the share of the peak, if one figure holds for it; else NaN.
double share_of_peak(const RunReport&);

// Sentences about the measurements: the machine's speed after the last step differs from its speed before the
// first step; why steps were faster than the measured peak.
std::vector<std::string> measurement_notes(const RunReport&);

}  // namespace tidepool
