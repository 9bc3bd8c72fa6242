// ExactJson is JSON whose integers beyond signed 64 bits keep their digits. Such integers are data, for
// example ids in arguments of tool calls, and a double would change their digits.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

struct ExactJson {
  boost::json::value value;
  std::vector<std::string> large;  // digits, with their sign
};

// Parses as parse_json() does. In `value`, each integer of `large` is replaced by a NaN; JSON text has no
// other way to produce a NaN.
// Errors: also an integer of more than large_integer_digits_max digits, which Python does not read either.
Result<ExactJson> parse_exact_json(std::string_view text, ErrorKind kind, std::string_view file_name);
inline constexpr size_t large_integer_digits_max = 4300;

// Index in ExactJson::large of the integer that the NaN `number` replaces; none if `number` is no such NaN.
std::optional<size_t> large_integer(double number);

}  // namespace tidepool
