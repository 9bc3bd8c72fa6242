#pragma once

#include <string>

#include "base/result.h"

namespace tidepool {

// `plan --json` where there is no plan: why, and which keys of the config would have to be what. JSON,
// pretty.
std::string refusal_json(const Error&);

}  // namespace tidepool
