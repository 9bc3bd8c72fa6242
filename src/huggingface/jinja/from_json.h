// Converts JSON to template values.
#pragma once

#include <boost/json/fwd.hpp>
#include <span>
#include <string>

#include "huggingface/jinja/value.h"

namespace tidepool::jinja {

// `large`: integers beyond 64 bits of an ExactJson, kept as they were written. Without it they become reals.
Value from_json(const boost::json::value&, std::span<const std::string> large = {});

}  // namespace tidepool::jinja
