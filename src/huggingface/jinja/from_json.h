// JSON as template values.
#pragma once

#include <boost/json/fwd.hpp>
#include <span>
#include <string>

#include "huggingface/jinja/value.h"

namespace tidepool::jinja {

// `large`: of ExactJson, whose integers beyond 64 bits stay as they were written. Without, they come to
// reals.
Value from_json(const boost::json::value&, std::span<const std::string> large = {});

}  // namespace tidepool::jinja
