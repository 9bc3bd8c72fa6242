// The gated delta rule: instead of looking back at tokens, a layer keeps a state per head, which every token
// decays and corrects.
#pragma once

#include "model/layer_parts.h"

namespace tidepool::gated_delta {

extern const Mixer row;

}  // namespace tidepool::gated_delta
