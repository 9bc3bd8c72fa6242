#include "tidepool/expert_adapters.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidepool {
namespace {

constexpr std::string_view weight_suffix = ".weight";

std::string_view without_weight(std::string_view name) {
  name.remove_suffix(weight_suffix.size());
  return name;
}

std::string path_of(const ModelConfig& c, u32 layer, std::string_view rest) {
  return fmt::format("{}.{}.{}", style(c.family).layers_path, layer, rest);
}

void add(ExpertAdapters& to, const ExpertAdapter& adapter) { to.of[to.count++] = adapter; }

ExpertAdapters joined_adapters(const ModelConfig& c, const LoraConfig& lora, u32 layer) {
  const ExpertTensors& names = traits(c.family).experts->tensors;
  const auto is_named = [&](std::string_view parameter) {
    const std::string path = fmt::format("{}.{}", names.joined, parameter);
    return names_path(lora.target_parameters, path_of(c, layer, path));
  };
  const bool gate_up = is_named(names.first_parameter()), down = is_named("down_proj");
  const u32 r = lora.expert_r != 0 ? lora.expert_r : lora.r, joint_r = lora.joint_r != 0 ? lora.joint_r : r,
            inner = c.expert_inner();
  const double alpha = lora.expert_alpha != 0 ? lora.expert_alpha : lora.alpha,
               joint_alpha = lora.joint_alpha != 0 ? lora.joint_alpha : alpha;
  ExpertAdapters out;
  if (gate_up)
    add(out, {.name = names.first_parameter(),
              .r = joint_r,
              .in = c.width,
              .out = names.has_gate() ? 2 * inner : inner,
              .alpha = joint_alpha,
              .scale = lora.scale_of(joint_r, joint_alpha),
              .in_file = down ? names.joined_base_layer : names.joined});
  if (down)
    add(out, {.name = "down_proj",
              .r = r,
              .in = inner,
              .out = c.width,
              .down = true,
              .alpha = alpha,
              .scale = lora.scale_of(r, alpha),
              .in_file = names.joined});
  out.form = out.count != 0 ? AdapterForm::joined : AdapterForm::none;
  return out;
}

// Experts that are no modules in any version of transformers have no single adapters.
ExpertAdapters single_adapters(const ModelConfig& c, const LoraConfig& lora) {
  const ExpertTensors& names = traits(c.family).experts->tensors;
  const u32 inner = c.expert_inner(), h = c.width;
  ExpertAdapters out;
  if (!names.has_single_files()) return out;
  const auto add_named = [&](std::string_view name, u32 in, u32 columns, u32 column, bool down) {
    if (std::ranges::find(lora.target_modules, name) == lora.target_modules.end()) return;
    add(out, {.name = name,
              .r = lora.r,
              .in = in,
              .out = columns,
              .column = column,
              .down = down,
              .alpha = lora.alpha,
              .scale = lora.scale()});
  };
  add_named(names.gate, h, inner, 0, false);
  add_named(names.up, h, inner, names.has_gate() ? inner : 0, false);
  add_named(names.down, inner, h, 0, true);
  out.form = out.count != 0 ? AdapterForm::single : AdapterForm::none;
  return out;
}

std::string_view router_adapter_path(const ModelConfig& c, const LoraConfig& lora, u32 layer) {
  const ExpertTensors& tensors = traits(c.family).experts->tensors;
  const RouterNames names = router_names(c, layer);
  if (names_path(lora.target_parameters, names.parameter)) return without_weight(tensors.joined_router);
  if (!names.module.empty() && names_path(lora.target_modules, names.module))
    return without_weight(tensors.router);
  return {};
}

}  // namespace

bool names_path(const std::vector<std::string>& targets, std::string_view path) {
  return std::ranges::any_of(targets, [&](const std::string& target) {
    return path.ends_with(target) &&
           (path.size() == target.size() || path[path.size() - target.size() - 1] == '.');
  });
}

RouterNames router_names(const ModelConfig& c, u32 layer) {
  const ExpertTensors& names = traits(c.family).experts->tensors;
  RouterNames out = {.parameter = path_of(c, layer, names.joined_router)};
  if (names.has_single_files()) out.module = path_of(c, layer, without_weight(names.router));
  return out;
}

std::vector<LayerAdapters> layer_adapters(const ModelConfig& c, const LoraConfig& lora) {
  if (!lora.on() || c.experts.count == 0) return {};
  std::vector<LayerAdapters> out(c.layers);
  bool joined = false;
  for (u32 layer = 0; layer < c.layers; ++layer) {
    if (!c.has_experts(layer)) continue;
    out[layer] = {.experts = joined_adapters(c, lora, layer), .router = router_adapter_path(c, lora, layer)};
    joined = joined || out[layer].experts.count != 0;
  }
  // If target_parameters name experts' matrices, target_modules name linear layers of transformers 5 alone,
  // and experts are none there.
  for (u32 layer = 0; layer < c.layers && !joined; ++layer)
    if (c.has_experts(layer)) out[layer].experts = single_adapters(c, lora);
  return out;
}

}  // namespace tidepool
