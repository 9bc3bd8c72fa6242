// Optim names the rule by which training changes parameters; src/optimizers has the rules.
#pragma once

#include <array>
#include <string_view>

#include "base/types.h"

namespace tidepool {

enum class Optim : u8 {
  adamw_torch,
  lion,
  sgd,
  adamw_bf16,
  adamw_8bit,
  lion_bf16,
  lion_8bit,
  sgd_bf16,
  sgd_8bit,
  muon,
  muon_bf16,
  adafactor
};
inline constexpr u32 optim_count = 12;

// As in config files.
inline constexpr std::array<std::string_view, optim_count> optim_names = {
    "adamw_torch", "lion",     "sgd",      "adamw_bf16", "adamw_8bit", "lion_bf16",
    "lion_8bit",   "sgd_bf16", "sgd_8bit", "muon",       "muon_bf16",  "adafactor"};
// Other names that people have for them. Paged state is what a plan does with any state.
inline constexpr std::array<std::array<std::string_view, 2>, 11> optim_aliases = {{
    {"adamw_torch_fused", "adamw_torch"},
    {"adamw_hf", "adamw_torch"},
    {"paged_adamw_32bit", "adamw_torch"},
    {"paged_adamw", "adamw_torch"},
    {"adamw_bnb_8bit", "adamw_8bit"},
    {"paged_adamw_8bit", "adamw_8bit"},
    {"adamw_torch_8bit", "adamw_8bit"},
    {"lion_32bit", "lion"},
    {"paged_lion_32bit", "lion"},
    {"paged_lion_8bit", "lion_8bit"},
    {"sgd_32bit", "sgd"},
}};
constexpr std::string_view name(Optim optim) { return optim_names[static_cast<u32>(optim)]; }

}  // namespace tidepool
