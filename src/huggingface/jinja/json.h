// Writes JSON as Python's json.dumps does: filter `tojson` of chat templates.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "huggingface/jinja/value.h"

namespace tidepool::jinja {

struct JsonLook {
  std::optional<std::string> indent;  // of one level; none: all on one line
  std::string item_separator = ", ", key_separator = ": ";
  bool ascii = false, sorted = false;
};
// Error: without line number, if a value has no JSON form.
Result<std::string> to_json(const Value&, const JsonLook&);

}  // namespace tidepool::jinja
