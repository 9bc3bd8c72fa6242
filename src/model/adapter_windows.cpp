#include "model/adapter_windows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "model/experts/expert_windows.h"
#include "model/window_builder.h"

namespace tidepool {
namespace {

constexpr std::string_view all_linear = "all-linear";

std::vector<std::string_view> names_of(const LinearModules& modules) {
  std::vector<std::string_view> names;
  for (u32 m = 0; m < modules.count; ++m)
    if (std::ranges::find(names, modules.of[m].name()) == names.end()) names.push_back(modules.of[m].name());
  return names;
}

std::string wrong_adapters(const LoraConfig& lora, const LinearModules& modules) {
  if (lora.r > lora_rank_max) return fmt::format("lora.r: {} is above {}", lora.r, lora_rank_max);
  if (!(lora.alpha > 0) || !std::isfinite(lora.alpha))
    return fmt::format("lora.lora_alpha: {} is not above 0", lora.alpha);
  if (!(lora.dropout >= 0 && lora.dropout < 1))
    return fmt::format("lora.lora_dropout: {} is not from 0 to below 1", lora.dropout);
  const std::vector<std::string_view> names = names_of(modules);
  for (const std::string& target : lora.target_modules) {
    if (target == all_linear && lora.target_modules.size() == 1) continue;
    if (std::ranges::find(names, target) == names.end())
      return fmt::format(
          "lora.target_modules: '{}' is no linear layer of this model; there are {}, and all-linear alone "
          "for all of them",
          target, fmt::join(names, ", "));
  }
  return {};
}

Window adapter_window(const ModelGraph& g, const LinearModules& modules, u32 layer, const std::string& name) {
  std::vector<TensorSpec> specs;
  for (u32 m = 0; m < modules.count; ++m) {
    const LinearModule& module = modules.of[m];
    if (!is_target(g.lora, module)) continue;
    const std::string path =
        fmt::format("base_model.model.{}.{}.{}", style(g.config.family).layers_path, layer, module.path);
    // A is drawn from Kaiming's uniform distribution with a = sqrt(5), the default of torch.nn.Linear and so
    // of PEFT. B is zero, so the first step computes the base model.
    specs.push_back({.name = path + ".lora_A.weight",
                     .shape = {g.lora.r, module.in},
                     .init = Init::uniform,
                     .init_bound = 1.0 / std::sqrt(static_cast<double>(module.in))});
    specs.push_back({.name = path + ".lora_B.weight", .shape = {module.out, g.lora.r}});
  }
  Window window = make_window(name + ".lora", std::move(specs));
  window.adapter = true;
  return window;
}

}  // namespace

bool is_target(const LoraConfig& lora, const LinearModule& module) {
  if (lora.target_modules.empty()) return true;
  return std::ranges::any_of(lora.target_modules, [&](const std::string& target) {
    return target == all_linear || target == module.name();
  });
}

Result<void> add_adapters(ModelGraph& g, const LayerCode& code) {
  const auto modules_of = [&](u32 layer) { return code.modules(g.config, layer_kind(g.config, layer)); };
  if (std::string message = wrong_adapters(g.lora, modules_of(0)); !message.empty())
    return Error{ErrorKind::usage, std::move(message)};
  for (Window& window : g.windows) window.trainable = false;
  u32 window = code.embedding_windows;
  for (u32 layer = 0; layer < g.config.layers; ++layer) {
    g.windows.push_back(adapter_window(g, modules_of(layer), layer, g.windows[window].name));
    window += 1 + (g.config.has_experts(layer) ? expert_groups(g) : 0);
  }
  return {};
}

}  // namespace tidepool
