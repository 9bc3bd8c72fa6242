// Reads small text files of a run directory. base/write_file.h writes them.
#pragma once

#include <string>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// The longest file, metrics.jsonl, has about 200 bytes per step: this limit allows five million steps.
inline constexpr u64 text_file_bytes_max = gib;

// RETURNS: the file's text. ErrorKind::bad_input if the file is missing, longer than text_file_bytes_max, or
// not a regular file; ErrorKind::io if it cannot be read.
Result<std::string> read_text_file(const std::string& path);

}  // namespace tidepool
