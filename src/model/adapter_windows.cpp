#include "model/adapter_windows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "kernels/gradient/gradient.h"
#include "model/decoder_windows.h"
#include "model/layer_tensors.h"
#include "model/mlps/experts/expert_windows.h"
#include "model/window_builder.h"

namespace tidepool {
namespace {

// Names that target_modules and target_parameters may have.
struct TargetNames {
  std::vector<std::string> modules, parameters;
};

void add_new(std::vector<std::string>& names, std::string_view name) {
  if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
}

TargetNames target_names(const ModelConfig& c) {
  TargetNames out;
  for (u32 layer = 0; layer < c.layers; ++layer) {
    for (const LayerPart part : layer_parts(c, layer)) {
      const LinearModules modules = LayerTensors(c, layer, part).modules();
      for (u32 m = 0; m < modules.count; ++m)
        if (!modules.of[m].router) add_new(out.modules, modules.of[m].name());
    }
    if (!c.has_experts(layer)) continue;
    const ExpertTensors& names = traits(c.family).experts->tensors;
    if (names.has_single_files()) {
      const std::string router = router_names(c, layer).module;
      for (const std::string_view name :
           {std::string_view(router).substr(router.rfind('.') + 1), names.gate, names.up, names.down})
        if (!name.empty()) add_new(out.modules, name);
    }
    for (const std::string_view name : {names.first_parameter(), std::string_view("down_proj")})
      add_new(out.parameters, fmt::format("{}.{}", names.joined, name));
    add_new(out.parameters, names.joined_router);
  }
  return out;
}

// True if some layer has the module, and it gets an adapter.
bool names_module(const ModelGraph& g, const std::string& target) {
  for (u32 layer = 0; layer < g.config.layers; ++layer) {
    for (const LayerPart part : layer_parts(g.config, layer)) {
      const LinearModules modules = LayerTensors(g.config, layer, part).modules();
      for (u32 m = 0; m < modules.count; ++m)
        if (!modules.of[m].router && names_path({target}, modules.of[m].path)) return true;
    }
    if (!g.config.has_experts(layer)) continue;
    if (names_path({target}, router_names(g.config, layer).module)) return true;
    for (const ExpertAdapter& adapter : g.adapters[layer].experts)
      if (g.adapters[layer].experts.form == AdapterForm::single && adapter.name == target) return true;
  }
  return false;
}

bool names_parameter(const ModelConfig& c, const std::string& target) {
  const std::vector<std::string> targets = {target};
  for (u32 layer = 0; layer < c.layers; ++layer) {
    if (!c.has_experts(layer)) continue;
    const ExpertTensors& names = traits(c.family).experts->tensors;
    const std::string experts = fmt::format("{}.{}.{}", style(c.family).layers_path, layer, names.joined);
    const std::string first = fmt::format("{}.{}", experts, names.first_parameter());
    if (names_path(targets, first) || names_path(targets, experts + ".down_proj") ||
        names_path(targets, router_names(c, layer).parameter))
      return true;
  }
  return false;
}

std::string wrong_targets(const ModelGraph& g) {
  const TargetNames names = target_names(g.config);
  for (const std::string& target : g.lora.target_modules) {
    if (g.lora.all_linear() || names_module(g, target)) continue;
    return fmt::format(
        "lora.target_modules: '{}' is no linear layer of this model; there are {}, and all-linear alone for "
        "{}",
        target, fmt::join(names.modules, ", "),
        names.parameters.empty() ? "all of them" : "all but experts and routers");
  }
  for (const std::string& target : g.lora.target_parameters) {
    if (names_parameter(g.config, target)) continue;
    if (names.parameters.empty())
      return fmt::format(
          "lora.target_parameters: '{}' is for models with experts, which this model is not; name its linear "
          "layers with lora.target_modules",
          target);
    return fmt::format(
        "lora.target_parameters: '{}' is no parameter of this model that can have an adapter; there are {}",
        target, fmt::join(names.parameters, ", "));
  }
  return {};
}

bool adapts_experts(const ModelGraph& g) {
  return std::ranges::any_of(g.adapters, [](const LayerAdapters& adapters) { return adapters.any(); });
}

std::string wrong_adapters(const ModelGraph& g) {
  const LoraConfig& lora = g.lora;
  for (const auto& [key, r] : {std::pair{"r", lora.r}, {"expert_r", lora.expert_r}})
    if (r > lora_rank_max) return fmt::format("lora.{}: {} is above {}", key, r, lora_rank_max);
  if (!(lora.alpha > 0) || !std::isfinite(lora.alpha))
    return fmt::format("lora.lora_alpha: {} is not above 0", lora.alpha);
  if (!(lora.dropout >= 0 && lora.dropout < 1))
    return fmt::format("lora.lora_dropout: {} is not from 0 to below 1", lora.dropout);
  if (std::string message = wrong_targets(g); !message.empty()) return message;
  // A adapter of a parameter cannot drop out a part of its x, so PEFT refuses it too.
  if (lora.dropout > 0 && adapts_experts(g))
    return fmt::format(
        "lora.lora_dropout: is {}, but adapters of experts and routers have no dropout; set it to 0, or name "
        "neither in lora.target_modules and lora.target_parameters",
        lora.dropout);
  const bool joined = std::ranges::any_of(
      g.adapters, [](const LayerAdapters& adapters) { return adapters.experts.form == AdapterForm::joined; });
  if ((lora.expert_r != 0 || lora.expert_alpha != 0) && !joined)
    return fmt::format(
        "lora.{}: is for experts that lora.target_parameters names, such as mlp.experts.gate_up_proj; leave "
        "the key out, or name some",
        lora.expert_r != 0 ? "expert_r" : "expert_alpha");
  return {};
}

// A is drawn from Kaiming's uniform distribution with a = sqrt(5), the default of torch.nn.Linear and so of
// PEFT. B is zero, so the first step computes the base model.
void add_specs(std::vector<TensorSpec>& specs, const std::string& path, u32 r, u32 in, u32 out) {
  specs.push_back({.name = path + ".lora_A.weight",
                   .shape = {r, in},
                   .init = Init::uniform,
                   .init_bound = 1.0 / std::sqrt(static_cast<double>(in)),
                   .kind = TensorKind::adapter});
  specs.push_back({.name = path + ".lora_B.weight", .shape = {out, r}, .kind = TensorKind::adapter});
}

std::string layer_path(const ModelGraph& g, u32 layer) {
  return fmt::format("base_model.model.{}.{}", style(g.config.family).layers_path, layer);
}

u32 add_window(ModelGraph& g, const std::string& name, std::vector<TensorSpec> specs) {
  if (specs.empty()) return none;
  Window window = make_window(g, name + ".lora", std::move(specs), true);
  window.adapter = true;
  g.windows.push_back(std::move(window));
  return static_cast<u32>(g.windows.size()) - 1;
}

u32 add_layer_window(ModelGraph& g, LayerPart part, u32 layer, const std::string& name) {
  const LinearModules modules = LayerTensors(g.config, layer, part).modules();
  std::vector<TensorSpec> specs;
  for (u32 m = 0; m < modules.count; ++m) {
    const LinearModule& module = modules.of[m];
    if (!is_target(g, layer, module)) continue;
    const std::string_view path = module.router ? g.adapters[layer].router : module.path;
    add_specs(specs, fmt::format("{}.{}", layer_path(g, layer), path), adapter_size(g, layer, module).r,
              module.in, module.out);
  }
  return add_window(g, name, std::move(specs));
}

u32 add_group_window(ModelGraph& g, u32 layer, ExpertRange range, const std::string& name) {
  std::vector<TensorSpec> specs;
  const ExpertAdapters& adapters = g.adapters[layer].experts;
  const ExpertTensors& names = traits(g.config.family).experts->tensors;
  const std::string_view experts = adapters.form == AdapterForm::joined ? names.joined : names.single;
  for (u32 expert = range.first; expert < range.first + range.count; ++expert) {
    const u64 first = specs.size();
    for (const ExpertAdapter& adapter : adapters)
      add_specs(specs, fmt::format("{}.{}.{}.{}", layer_path(g, layer), experts, expert, adapter.name),
                adapter.r, adapter.in, adapter.out);
    if (specs.size() > first) specs[first].alignment = norm_granule_elements;
  }
  const u32 added = add_window(g, name, std::move(specs));
  if (added == none) return none;
  Window& window = g.windows[added];
  window.group = fmt::format("layers.{}.experts.lora", layer);
  window.group_begin = range.first * (round_up(window.elements, norm_granule_elements) / range.count);
  return added;
}

// A score head is trained whole, and saved beside the adapters under the name that PEFT gives it
// (modules_to_save).
void train_score(Window& window) {
  window.trainable = window.adapter = true;
  for (Tensor& tensor : window.tensors) tensor.name = "base_model.model." + tensor.name;
}

}  // namespace

Result<AdapterWindows> add_adapters(ModelGraph& g) {
  if (std::string message = wrong_adapters(g); !message.empty())
    return Error{ErrorKind::usage, std::move(message)};
  for (Window& window : g.windows) window.trainable = false;
  if (g.config.score.on()) train_score(g.windows.back());
  AdapterWindows out;
  u32 window = windows_before_layers(g.config);
  for (u32 layer = 0; layer < g.config.layers; ++layer) {
    const auto add = [&](LayerPart part) {
      return add_layer_window(g, part, layer, std::string(g.windows[window++].name));
    };
    const LayerPart first = first_part(g.config, layer);
    out.layers.push_back(add(first));
    std::vector<u32>& groups = out.groups.emplace_back();
    for (u32 group = 0; g.config.has_experts(layer) && group < expert_groups(g); ++group)
      groups.push_back(
          add_group_window(g, layer, experts_of_group(g, group), std::string(g.windows[window++].name)));
    out.ends.push_back(first.ends ? none : add(end_part));
  }
  return out;
}

}  // namespace tidepool
