// JSON as template values.
#pragma once

#include <boost/json/fwd.hpp>

#include "jinja/value.h"

namespace tidepool::jinja {

// Integers beyond 64 bits with a sign come to reals.
Value from_json(const boost::json::value&);

}  // namespace tidepool::jinja
