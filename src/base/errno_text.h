// errno_text says the system's error numbers in words, with advice.
#pragma once

#include <string>

#include "base/types.h"

namespace tidepool {

// "No space left on device (ENOSPC)"
std::string errno_text(int error_number);

// Owner of the file that failed. Each owner has other config keys, or options, that move its files or make
// them smaller.
enum class FileUse : u8 { swap, run, cache, page, other };

// Advice for this error number; empty if there is none beyond the text of errno_text().
std::string errno_advice(int error_number, FileUse);

// `message`, followed by the advice.
std::string with_advice(std::string message, int error_number, FileUse);

}  // namespace tidepool
