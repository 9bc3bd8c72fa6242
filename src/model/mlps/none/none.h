// MlpKind::none: the layer is only a mixer.
#pragma once

#include "model/layer_parts.h"

namespace tidepool::no_mlp {

extern const Mlp row;

}  // namespace tidepool::no_mlp
