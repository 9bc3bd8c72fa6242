// MixerKind::none: the layer is only an MLP, which has the frames to itself.
#pragma once

#include "model/layer_parts.h"

namespace tidepool::no_mixer {

extern const Mixer row;

}  // namespace tidepool::no_mixer
