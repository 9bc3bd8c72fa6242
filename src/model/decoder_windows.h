// model_windows makes the windows of a model, with the names of GPT-2 or of all families since:
// "model.embed_tokens.weight", "model.layers.0...", "model.norm.weight", "lm_head.weight".
#pragma once

#include "model/window_builder.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// RETURNS: a tensor of the model, drawn as transformers draws it.
TensorSpec parameter_spec(const ModelConfig&, std::string name, std::vector<u64> shape);

// RETURNS: a window of the model, which is frozen beside adapters.
Window model_window(const ModelGraph&, std::string name, std::vector<TensorSpec>);

// In order: the embedding's windows, a window per layer, the final norm, the head's matrix if it is not
// the embedding's.
// A layer's window is followed by those of its groups of experts.
std::vector<Window> model_windows(const ModelGraph&);
// RETURNS: the number of windows before those of layers.
inline u32 windows_before_layers(const ModelConfig& c) {
  if (c.layer_inputs.on()) return 3;
  return style(c.family).positions == PositionKind::learned ? 2 : 1;
}

}  // namespace tidepool
