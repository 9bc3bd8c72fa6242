// The system's error numbers as people read them.
#pragma once

#include <string>

namespace tidepool {

// "No space left on device (ENOSPC)"
std::string errno_text(int error_number);

// What someone can do about it; empty if nothing better than the text is known.
std::string errno_advice(int error_number);

// `message`, and the advice behind it.
std::string with_advice(std::string message, int error_number);

}  // namespace tidepool
