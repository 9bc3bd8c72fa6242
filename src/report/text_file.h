// Small text files of a run directory. Writing them: base/write_file.h.
#pragma once

#include <string>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// The longest of them, metrics.jsonl, has about 200 bytes a step: five million steps.
inline constexpr u64 text_file_bytes_max = gib;

// ErrorKind::bad_input where it is missing, longer, or no regular file; ErrorKind::io where it cannot be
// read.
Result<std::string> read_text_file(const std::string& path);

}  // namespace tidepool
