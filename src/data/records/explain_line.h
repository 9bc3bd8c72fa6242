// Explains why a line of JSONL is no JSON object, more precisely than a JSON parser can.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tidepool {

// `error`: of the JSON parser. `place`: "FILE:LINE".
Error explain_line(const Error& error, std::string_view line, const std::string& place);

}  // namespace tidepool
