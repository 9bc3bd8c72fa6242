// json_text() formats JSON for people. boost::json writes 5.5 as 5.5E0 and everything on one line; here
// doubles are the shortest text that reads back to the same bits, and non-finite numbers are null.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tidepool {

enum class JsonStyle : unsigned char {
  line,    // one line, no newline at the end: for .jsonl
  pretty,  // two spaces per level, arrays of numbers on one line, newline at the end
};

std::string json_text(const boost::json::value&, JsonStyle);

// Text of one number: "0.1", "5.0", "1e-05", or "null".
std::string json_number(double);

// `kind` and `file_name` are used in the error, which names the offset of the first fault.
Result<boost::json::value> parse_json(std::string_view text, ErrorKind kind, std::string_view file_name);

}  // namespace tidepool
