// Figures that rest on measurements, said as exactly as the measurements allow: a range where they lie apart,
// no percentage where none holds.
#pragma once

#include <string>
#include <vector>

#include "report/run_report.h"

namespace tidepool {

// "1.20 s", or "1.10 s to 1.52 s".
std::string seconds_range_text(double seconds, const Spread&);

// "24% of peak", "24% to 31% of peak", "at least 83% of peak", "above the measured peak". Empty: the peak was
// not measured.
std::string share_of_peak_text(const RunReport&);
// The share, where one figure holds; else NaN.
double share_of_peak(const RunReport&);

// Sentences on what was measured: the machine's speed after the last step was another than before the first;
// why steps were faster than the peak.
std::vector<std::string> measurement_notes(const RunReport&);

}  // namespace tidepool
