// refuses_adapter() knows the linear layers to which PEFT adds no adapters, so that its files and ours agree.
#pragma once

#include <array>
#include <string_view>

#include "tidepool/families.h"

namespace tidepool {

// PEFT refuses a module by its name and `model_type`: fused kernels of Mamba-2 read the weight, and would not
// see an adapter (_check_lora_target_modules_mamba in PEFT 0.21).
struct RefusedAdapter {
  std::string_view model_type, module;
};
inline constexpr std::array<RefusedAdapter, 1> refused_adapters = {{{"nemotron_h", "out_proj"}}};

// RETURNS: true for a module's path, or its end, whose last part is such a name.
constexpr bool refuses_adapter(Family family, std::string_view path) {
  const std::string_view last = path.substr(path.rfind('.') + 1);
  for (const RefusedAdapter& refused : refused_adapters)
    if (refused.model_type == name(family) && refused.module == last) return true;
  return false;
}

}  // namespace tidepool
