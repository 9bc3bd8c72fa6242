// Parses and formats values as users write them: "20GiB", "1e-5", "1_000_000", "true".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// Error that holds the reason only ("is not a number"); the caller names the key and the place.
inline Error reason(std::string text) { return {ErrorKind::usage, std::move(text)}; }

Result<u64> parse_integer(std::string_view text);   // "4096", "4_096", "1e6"
Result<u64> parse_count(std::string_view text);     // "300B", "1.5T", "20M", "4096"
Result<double> parse_real(std::string_view text);   // "1e-5", "0.1", "3"
Result<bool> parse_boolean(std::string_view text);  // true false yes no on off

// KiB MiB GiB TiB are powers of 1024, KB MB GB TB of 1000; B is bytes; upper or lower case.
// A number without a unit is an error, except 0.
Result<Bytes> parse_size(std::string_view text);

std::string format_real(double value);  // shortest text that reads back to the same bits
std::string format_size(Bytes bytes);   // exact: the largest unit that divides, "1536MiB"

}  // namespace tidepool
