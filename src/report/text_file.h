// Small text files of a run directory.
#pragma once

#include <string>
#include <string_view>

#include "tidepool/result.h"

namespace tidepool {

// Readers see the old text or the new one, never half. Not fsynced: a report is no checkpoint.
Result<void> replace_text_file(const std::string& path, std::string_view text);

// ErrorKind::bad_input where it cannot be opened.
Result<std::string> read_text_file(const std::string& path);

}  // namespace tidepool
