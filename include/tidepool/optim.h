// Optim names the rule by which training changes parameters; src/optimizers has the rules.
#pragma once

#include <array>
#include <string_view>

#include "base/types.h"

namespace tidepool {

enum class Optim : u8 { adamw_torch, lion, sgd };
inline constexpr u32 optim_count = 3;

// As in config files.
inline constexpr std::array<std::string_view, optim_count> optim_names = {"adamw_torch", "lion", "sgd"};
constexpr std::string_view name(Optim optim) { return optim_names[static_cast<u32>(optim)]; }

}  // namespace tidepool
