// Reads small text files of a run directory. base/write_file.h writes them.
#pragma once

#include <string>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// Limit for metrics.jsonl, the longest: about 200 bytes per step, so five million steps.
inline constexpr u64 text_file_bytes_max = gib;

// Error: bad_input if the file is missing, too long, or not a regular file; io if it cannot be read.
Result<std::string> read_text_file(const std::string& path);

}  // namespace tidepool
