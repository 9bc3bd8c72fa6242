// Rates and durations as people write them: "53.5 GB/s", "112 TFLOP/s", "2 us". And back again.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

enum class RateUnit : u8 { bytes, flops };  // per second

// A number with a unit: KB/s ... PB/s and KFLOP/s ... PFLOP/s count in 1000, KiB/s ... in 1024; TFLOPS
// is read as TFLOP/s, upper or lower case. A plain number is refused but for 0: 15.12 would be 15 bytes a
// second. Finite and not negative.
// Errors hold the reason only ("is not a rate ..."); the caller says which key and where.
Result<double> parse_rate(std::string_view text, RateUnit);
// The largest unit that leaves at least 1 before the point. parse_rate gives the same bits again.
// REQUIRES: finite and not negative.
std::string format_rate(double per_second, RateUnit);

// "2 us", "150 ns", "1.5 ms", "0.1 s"; a plain number only if it is 0. Rounded to whole nanoseconds.
Result<Nanos> parse_duration(std::string_view text);
std::string format_duration(Nanos);  // exact

}  // namespace tidepool
