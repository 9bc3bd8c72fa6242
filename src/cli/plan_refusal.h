// Formats a refused plan as JSON: `tidepool plan --json`.
#pragma once

#include <string>

#include "base/result.h"

namespace tidepool {

// RETURNS: pretty JSON for `plan --json` if there is no plan: the reason, and which keys of the config must
// have which values.
std::string refusal_json(const Error&);

}  // namespace tidepool
