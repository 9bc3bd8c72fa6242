// Family bits: sets of model families, bit f for Family(f), as rows of tables name them.
#pragma once

#include "tidepool/model_config.h"

namespace tidepool {

constexpr u32 bit(Family family) { return u32{1} << static_cast<u32>(family); }
inline constexpr u32 all_families = (u32{1} << family_count) - 1;
inline constexpr u32 only_gpt2 = bit(Family::gpt2);
inline constexpr u32 qwens = bit(Family::qwen2) | bit(Family::qwen3);
inline constexpr u32 llama_style = all_families & ~only_gpt2;

}  // namespace tidepool
