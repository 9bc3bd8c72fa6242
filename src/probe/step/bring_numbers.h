// Numbers for a device to be measured with.
#pragma once

#include "session/session.h"

namespace tidepool {

// Uniform in [-scale, scale), by way of the host's arena, whose content is lost. Not zeros: on those a GPU
// draws less power and runs faster. REQUIRES: `to` lies in the first device's memory; nothing is under way.
Result<void> bring_numbers(Session&, std::span<std::byte> to, Precision, float scale);

}  // namespace tidepool
