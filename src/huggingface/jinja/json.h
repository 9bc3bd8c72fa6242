// json.dumps of Python, as the filter tojson of chat templates calls it.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "huggingface/jinja/value.h"

namespace tidepool::jinja {

struct JsonLook {
  std::optional<std::string> indent;  // one level's; none: all on one line
  bool ascii = false, sorted = false;
};
// Error: what has no JSON, without a place.
Result<std::string> to_json(const Value&, const JsonLook&);

}  // namespace tidepool::jinja
