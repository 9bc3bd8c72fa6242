// Small text files of a run directory.
#pragma once

#include <string>
#include <string_view>

#include "tidepool/result.h"
#include "tidepool/types.h"

namespace tidepool {

// ErrorKind::io where something is there that is no regular file: a pipe would make a writer wait for ever,
// and a device would be replaced by a file.
Result<void> check_can_be_file(const std::string& path);

// Readers see the old text or the new one, never half. Not fsynced: a report is no checkpoint.
Result<void> replace_text_file(const std::string& path, std::string_view text);

// The longest of them, metrics.jsonl, has about 200 bytes a step: five million steps.
inline constexpr u64 text_file_bytes_max = gib;

// ErrorKind::bad_input where it is missing, longer, or no regular file; ErrorKind::io where it cannot be
// read.
Result<std::string> read_text_file(const std::string& path);

}  // namespace tidepool
