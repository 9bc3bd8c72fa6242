#include "model/decoder_windows.h"

#include "model/experts/expert_windows.h"

namespace tidepool {

TensorSpec parameter_spec(const ModelConfig& c, std::string name, std::vector<u64> shape) {
  TensorSpec spec{.name = std::move(name), .shape = std::move(shape)};
  const bool ones = spec.name.ends_with("norm.weight") && !style(c.family).norm_offset;
  // transformers draws these at random, though they are no matrices.
  const bool drawn = spec.name.ends_with(".sinks") || spec.name.ends_with(".router.bias");
  spec.init = ones ? Init::ones : spec.shape.size() > 1 || drawn ? Init::normal : Init::zeros;
  if (spec.init == Init::normal) spec.init_std = c.initializer_range;
  return spec;
}

Window score_window(const ModelConfig& c) {
  return make_window("score", {parameter_spec(c, "score.weight", {c.score.labels, c.width})});
}

std::vector<Window> decoder_windows(const ModelGraph& g, Window (*layer_window)(const ModelConfig&, u32)) {
  const ModelConfig& c = g.config;
  std::vector<Window> windows;
  const std::vector<u64> matrix = {c.vocab_size, c.width};
  windows.push_back(make_window("embed_tokens", {parameter_spec(c, "model.embed_tokens.weight", matrix)}));
  for (u32 layer = 0; layer < c.layers; ++layer) {
    windows.push_back(layer_window(c, layer));
    for (u32 group = 0; c.has_experts(layer) && group < expert_groups(g); ++group)
      windows.push_back(expert_window(g, layer, experts_of_group(g, group)));
  }
  windows.push_back(make_window("norm", {parameter_spec(c, "model.norm.weight", {c.width})}));
  if (c.score.on())
    windows.push_back(score_window(c));
  else if (!c.tied)
    windows.push_back(make_window("lm_head", {parameter_spec(c, "lm_head.weight", matrix)}));
  return windows;
}

}  // namespace tidepool
