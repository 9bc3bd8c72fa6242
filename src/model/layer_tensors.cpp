#include "model/layer_tensors.h"

#include <fmt/format.h>

#include <cmath>

#include "model/decoder_windows.h"
#include "model/layer_parts.h"

namespace tidepool {

LayerPart first_part(const ModelConfig& c, u32 layer) {
  return {.mixer = c.mixer_kind(layer), .mlp = c.mlp_kind(layer), .ends = !c.has_branches(layer)};
}

std::vector<LayerPart> layer_parts(const ModelConfig& c, u32 layer) {
  std::vector<LayerPart> parts = {first_part(c, layer)};
  if (!parts.back().ends) parts.push_back(end_part);
  return parts;
}

LayerTensors::LayerTensors(const ModelConfig& c, u32 layer, LayerPart part) {
  add_mixer(c, layer, part);
  add_mlp(c, layer, part);
  if (!part.ends) return;
  if (c.layer_inputs.on()) {
    add_matrix(LayerRole::inputs_gate, "per_layer_input_gate", c.layer_inputs.width, c.width);
    add_matrix(LayerRole::inputs_projection, "per_layer_projection", c.width, c.layer_inputs.width).residual =
        true;
    add_norm(NormRole::inputs_branch, "post_per_layer_input_norm", c.width);
  }
  const std::string_view scale = tidepool::style(c.family).output_scale;
  if (!scale.empty())
    add(LayerRole::output_scale, {.path = scale, .rows = 1, .constant = true, .init = Init::ones});
}

void LayerTensors::add_mixer(const ModelConfig& c, u32 layer, LayerPart part) {
  if (part.mixer == MixerKind::none) return;
  const LayerStyle& style = tidepool::style(c.family);
  const NormNames& names = style.norm_names;
  if (style.input_norms) add_norm(NormRole::input, names.input, c.width);
  if (style.norm == NormKind::layer_norm) add_bias(NormRole::input_bias, names.input, c.width);
  mixer_row(part.mixer).tensors(c, layer, *this);
  if (style.branch_norms) add_norm(NormRole::attention_branch, names.attention_branch, c.width);
}

void LayerTensors::add_mlp(const ModelConfig& c, u32 layer, LayerPart part) {
  if (part.mlp == MlpKind::none) return;
  const LayerStyle& style = tidepool::style(c.family);
  const NormNames& names = style.norm_names;
  if (style.input_norms && part.mlp != MlpKind::branches) add_norm(NormRole::mlp, names.mlp, c.width);
  if (style.norm == NormKind::layer_norm) add_bias(NormRole::mlp_bias, names.mlp, c.width);
  mlp_row(part.mlp).tensors(c, layer, *this);
  if (!style.branch_norms) return;
  const bool dense_branch = part.mlp == MlpKind::experts;
  add_norm(NormRole::mlp_branch,
           dense_branch ? traits(c.family).experts->tensors.norms.dense_branch : names.mlp_branch, c.width);
}

LinearModules LayerTensors::modules() const {
  LinearModules out;
  for (u32 i = 0; i < count_; ++i)
    if (list_[i].is_module()) out.add({.path = list_[i].path, .in = list_[i].columns, .out = list_[i].rows});
  for (u32 i = 0; i < count_; ++i)
    if (list_[i].router && list_[i].is_matrix())
      out.add({.in = list_[i].columns, .out = list_[i].rows, .router = true});
  return out;
}

u32 LayerTensors::module(u32 matrix) const {
  u32 module = 0;
  for (u32 i = 0; i < (list_[matrix].router ? count_ : matrix); ++i) module += list_[i].is_module();
  return module;
}

Window layer_window(const ModelGraph& g, u32 layer, LayerPart part) {
  const ModelConfig& c = g.config;
  const LayerStyle& style = tidepool::style(c.family);
  const LayerTensors tensors(c, layer, part);
  std::vector<TensorSpec> specs;
  for (u32 i = 0; i < tensors.count(); ++i) {
    const LayerTensor& t = tensors[i];
    std::vector<u64> shape = {t.rows};
    if (t.is_matrix()) shape.insert(style.matrices_in_out ? shape.begin() : shape.end(), t.columns);
    if (t.taps != 0) shape.insert(shape.end(), {1, t.taps});
    specs.push_back(parameter_spec(c, fmt::format("{}.{}.{}{}", style.tensors_path, layer, t.path, t.suffix),
                                   std::move(shape)));
    TensorSpec& spec = specs.back();
    if (t.init) spec.init = *t.init;
    spec.fused = t.fused, spec.constant = t.constant;
    spec.in_out = style.matrices_in_out && t.is_matrix();
    for (const u32 outputs : t.joined)
      if (outputs != 0) spec.joined.push_back(outputs);
    if (t.router) spec.kind = TensorKind::router;
    // Each layer adds to the residual stream twice.
    if (t.residual && style.residual_init) specs.back().init_std /= std::sqrt(2.0 * c.layers);
  }
  const std::string_view end = part == end_part ? ".end" : "";
  return model_window(g, fmt::format("{}.{}{}", style.window_path, layer, end), std::move(specs));
}

}  // namespace tidepool
