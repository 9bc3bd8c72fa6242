// Matrices that are no ordinary linear layers, found by their names in files.
#pragma once

#include <string_view>

#include "tidepool/model_config.h"

namespace tidepool {

// True for the router's matrix, under its name in files of either form.
inline bool is_router(Family family, std::string_view tensor) {
  const ExpertTraits* experts = traits(family).experts;
  return experts != nullptr &&
         (tensor.ends_with(experts->tensors.router) || tensor.ends_with(experts->tensors.joined_router));
}

// True for the weight of a small matrix whose error would reach a whole head or token: rates and decays of a
// gated delta rule, and the gate of a shared MLP. Published quantized models keep them as they are.
inline bool is_gate_matrix(Family family, std::string_view tensor) {
  constexpr std::string_view suffix = ".weight";
  if (!tensor.ends_with(suffix)) return false;
  tensor.remove_suffix(suffix.size());
  const ExpertTraits* experts = traits(family).experts;
  const auto is = [&](std::string_view name) { return !name.empty() && tensor.ends_with(name); };
  if (experts != nullptr && is(experts->tensors.shared_gate)) return true;
  return traits(family).delta_layers &&
         (is(delta_names.rates) || is(delta_names.decays) || is(delta_names.both));
}

}  // namespace tidepool
