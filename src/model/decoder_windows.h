// decoder_windows makes the windows of a model that is named as Llama is: "model.embed_tokens.weight",
// "model.layers.0...", "model.norm.weight", "lm_head.weight".
#pragma once

#include "model/window_builder.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// RETURNS: a tensor of the model, drawn as transformers draws it.
TensorSpec parameter_spec(const ModelConfig&, std::string name, std::vector<u64> shape);

// RETURNS: the window of a score head, in any family.
Window score_window(const ModelConfig&);

// `layer_window` makes the window of a layer, or of its attention block if it has experts.
std::vector<Window> decoder_windows(const ModelGraph&, Window (*layer_window)(const ModelConfig&, u32 layer));

}  // namespace tidepool
