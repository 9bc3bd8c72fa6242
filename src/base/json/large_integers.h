// JSON whose integers beyond 64 bits with a sign are kept as they were written: they are data, such as ids in
// the arguments of tool calls, and a double would change their digits.
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

// As parse_json(). In `value` a NaN stands for each integer of `large`; text has no other way to make one.
// Also an error: an integer of more than large_integer_digits_max digits, which Python does not read either.
Result<ExactJson> parse_exact_json(std::string_view text, ErrorKind kind, std::string_view file_name);
inline constexpr size_t large_integer_digits_max = 4300;

// The place in ExactJson::large of the integer that `number` stands for; none: it is a number of its own.
std::optional<size_t> large_integer(double number);

}  // namespace tidepool
