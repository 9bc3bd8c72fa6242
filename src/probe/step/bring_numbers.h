// bring_numbers() fills device memory with random numbers for a measurement.
#pragma once

#include "session/session.h"

namespace tidepool {

// Uniform in [-scale, scale), copied through the host's arena, whose content is lost. Not zeros: with zeros a
// GPU draws less power and runs faster.
// REQUIRES: `to` lies in the first device's memory; no work is in flight.
Result<void> bring_numbers(Session&, std::span<std::byte> to, Precision, float scale);

}  // namespace tidepool
