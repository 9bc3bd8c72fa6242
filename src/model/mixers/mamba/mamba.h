// Mamba-2: a layer keeps a state per head, which every token decays and adds to.
#pragma once

#include "model/layer_parts.h"

namespace tidepool::mamba {

extern const Mixer row;

}  // namespace tidepool::mamba
