// Parses and formats rates and durations as users write them: "53.5 GB/s", "112 TFLOP/s", "2 us".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

enum class RateUnit : u8 { bytes, flops };  // per second

// Parses a number with a unit. KB/s ... PB/s and KFLOP/s ... PFLOP/s are powers of 1000, KiB/s ... of 1024;
// TFLOPS means TFLOP/s; upper or lower case. A plain number except 0 is refused: 15.12 would be 15 bytes a
// second.
// RETURNS: a finite rate, not negative.
// Errors hold the reason only ("is not a rate ..."); the caller names the key and the place.
Result<double> parse_rate(std::string_view text, RateUnit);
// Uses the largest unit that leaves at least 1 before the point. parse_rate() reads back the same bits.
// REQUIRES: finite and not negative.
std::string format_rate(double per_second, RateUnit);

// Parses "2 us", "150 ns", "1.5 ms", "0.1 s"; a plain number only if it is 0. Rounds to whole nanoseconds.
Result<Nanos> parse_duration(std::string_view text);
std::string format_duration(Nanos);  // exact

}  // namespace tidepool
