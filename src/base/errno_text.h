// The system's error numbers as people read them.
#pragma once

#include <string>

#include "base/types.h"

namespace tidepool {

// "No space left on device (ENOSPC)"
std::string errno_text(int error_number);

// Whose file failed: each is moved and made smaller by other keys.
enum class FileUse : u8 { swap, run, cache, other };

// Advice for that error; empty if nothing better than the text is known.
std::string errno_advice(int error_number, FileUse);

// `message`, and the advice behind it.
std::string with_advice(std::string message, int error_number, FileUse);

}  // namespace tidepool
