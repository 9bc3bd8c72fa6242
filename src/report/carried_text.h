// Texts for figures that depend on measurements, only as exact as the measurements: a range if they differ,
// and no percentage if none is valid.
#pragma once

#include <string>
#include <vector>

#include "report/run_report.h"

namespace tidepool {

// RETURNS: "1.20 s", or "1.10 s to 1.52 s".
std::string seconds_range_text(double seconds, const Spread&);

// RETURNS: "24% of peak", "24% to 31% of peak", "at least 83% of peak" or "above the measured peak"; empty if
// the peak was not measured.
std::string share_of_peak_text(const RunReport&);
// The share of peak, if a single number is valid; else NaN.
double share_of_peak(const RunReport&);

// Sentences about the measurements: the machine's speed changed between first and last step; why steps were
// faster than the peak.
std::vector<std::string> measurement_notes(const RunReport&);

}  // namespace tidepool
