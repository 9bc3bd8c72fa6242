// Attention as the layers of a model will run it: so that a library for it can be chosen and prepared before.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/attention/attention.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// RETURNS: the shape of a layer's attention; nothing if its mixer is none.
std::optional<AttentionShape> attention_shape(const ModelGraph&, u32 layer);

// Scratch of attention's backward, in any layer: the bytes of the gradient inside a dense layer's MLP, which
// is dead when attention's backward begins.
Bytes attention_scratch(const ModelGraph&);

// RETURNS: why attention must use our own kernels on every device; empty if a library may compute it.
std::string_view why_own_attention(const ModelGraph&);

// RETURNS: the attention that the model's layers will run, so that a library can prepare for it; nothing if
// our own kernels must compute it.
std::optional<AttentionToCome> attention_to_come(const ModelGraph&);

}  // namespace tidepool
