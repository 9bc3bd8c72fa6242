#include "model/decoder_windows.h"

#include <fmt/format.h>

#include "model/layer_tensors.h"
#include "model/mlps/experts/expert_windows.h"

namespace tidepool {

TensorSpec parameter_spec(const ModelConfig& c, std::string name, std::vector<u64> shape) {
  TensorSpec spec{.name = std::move(name), .shape = std::move(shape)};
  const bool norm = spec.shape.size() == 1 && spec.name.ends_with(".weight");
  const bool ones = norm && !style(c.family).norm_offset;
  // transformers draws these at random, though they are no matrices.
  const bool drawn = spec.name.ends_with(".sinks") || spec.name.ends_with(".router.bias");
  spec.init = ones ? Init::ones : spec.shape.size() > 1 || drawn ? Init::normal : Init::zeros;
  if (spec.init == Init::normal) spec.init_std = c.initializer_range;
  return spec;
}

Window model_window(const ModelGraph& g, std::string name, std::vector<TensorSpec> specs) {
  return make_window(g, std::move(name), std::move(specs), !g.lora.on());
}

namespace {

TensorSpec matrix_spec(const ModelConfig& c, std::string name, std::vector<u64> shape, TensorKind kind) {
  TensorSpec spec = parameter_spec(c, std::move(name), std::move(shape));
  spec.kind = kind;
  return spec;
}

Window score_window(const ModelGraph& g) {
  const ModelConfig& c = g.config;
  std::vector<TensorSpec> specs = {
      matrix_spec(c, "score.weight", {c.score.labels, c.width}, TensorKind::head)};
  if (c.score.of_tokens) specs.push_back(parameter_spec(c, "score.bias", {c.score.labels}));
  return make_window(g, "score", std::move(specs), true);
}

std::vector<Window> gpt2_windows(const ModelGraph& g) {
  const ModelConfig& c = g.config;
  std::vector<Window> windows;
  const auto embedding = [&](const std::string& name, u64 rows) {
    windows.push_back(
        model_window(g, name, {matrix_spec(c, name + ".weight", {rows, c.width}, TensorKind::embedding)}));
  };
  embedding("wte", c.vocab_size);
  embedding("wpe", c.positions);
  for (u32 layer = 0; layer < c.layers; ++layer) windows.push_back(layer_window(g, layer));
  windows.push_back(model_window(
      g, "ln_f", {parameter_spec(c, "ln_f.weight", {c.width}), parameter_spec(c, "ln_f.bias", {c.width})}));
  if (c.score.on()) windows.push_back(score_window(g));
  return windows;
}

}  // namespace

std::vector<Window> model_windows(const ModelGraph& g) {
  const ModelConfig& c = g.config;
  if (tidepool::style(c.family).positions == PositionKind::learned) return gpt2_windows(g);
  std::vector<Window> windows;
  const std::vector<u64> matrix = {c.vocab_size, c.width};
  const LayerStyle& style = tidepool::style(c.family);
  const std::string base(style.tensors_path.substr(0, style.tensors_path.find('.') + 1));
  const std::string embedding = fmt::format("{}{}.weight", base, style.embedding_name);
  windows.push_back(
      model_window(g, "embed_tokens", {matrix_spec(c, embedding, matrix, TensorKind::embedding)}));
  if (c.layer_inputs.on()) {
    const u64 columns = c.layer_inputs_width();
    windows.push_back(model_window(g, "embed_tokens_per_layer",
                                   {matrix_spec(c, fmt::format("{}embed_tokens_per_layer.weight", base),
                                                {c.layer_inputs_rows(), columns}, TensorKind::embedding)}));
    windows.push_back(model_window(
        g, "per_layer_projection",
        {parameter_spec(c, fmt::format("{}per_layer_model_projection.weight", base), {columns, c.width}),
         parameter_spec(c, fmt::format("{}per_layer_projection_norm.weight", base),
                        {c.layer_inputs.width})}));
  }
  for (u32 layer = 0; layer < c.layers; ++layer) {
    windows.push_back(layer_window(g, layer));
    for (u32 group = 0; c.has_experts(layer) && group < expert_groups(g); ++group)
      windows.push_back(expert_window(g, layer, experts_of_group(g, group)));
    if (c.has_branches(layer)) windows.push_back(layer_window(g, layer, end_part));
  }
  windows.push_back(model_window(
      g, "norm", {parameter_spec(c, fmt::format("{}{}.weight", base, style.last_norm_name), {c.width})}));
  if (c.score.on())
    windows.push_back(score_window(g));
  else if (!c.tied)
    windows.push_back(
        model_window(g, "lm_head", {matrix_spec(c, "lm_head.weight", matrix, TensorKind::head)}));
  return windows;
}

}  // namespace tidepool
