// Family sets: the model families that share a property, as bits for the tables of keys. Bit f stands for
// Family(f).
#pragma once

#include "tidepool/model_config.h"

namespace tidepool {

constexpr u32 bit(Family family) { return u32{1} << static_cast<u32>(family); }

namespace family_sets {

inline constexpr u32 all = families_with([](const FamilyTraits&) { return true; });
inline constexpr u32 gelu =
    families_with([](const FamilyTraits& f) { return f.style->mlp == MlpKind::gelu; });
inline constexpr u32 swiglu =
    families_with([](const FamilyTraits& f) { return f.style->mlp == MlpKind::swiglu; });
inline constexpr u32 geglu =
    families_with([](const FamilyTraits& f) { return f.style->mlp == MlpKind::geglu; });
inline constexpr u32 learned =
    families_with([](const FamilyTraits& f) { return f.style->positions == PositionKind::learned; });
inline constexpr u32 rotary =
    families_with([](const FamilyTraits& f) { return f.style->positions == PositionKind::rotary; });
inline constexpr u32 tied = families_with([](const FamilyTraits& f) { return f.style->always_tied; });
inline constexpr u32 windowed =
    families_with([](const FamilyTraits& f) { return f.window != WindowKind::none; });
inline constexpr u32 switched =
    families_with([](const FamilyTraits& f) { return f.window == WindowKind::by_switch; });
inline constexpr u32 not_switched = rotary & ~switched;
inline constexpr u32 layered =
    families_with([](const FamilyTraits& f) { return f.window == WindowKind::by_layer; });
inline constexpr u32 scaled_attention =
    families_with([](const FamilyTraits& f) { return f.attention_scale_key; });
inline constexpr u32 biased_qkv = families_with([](const FamilyTraits& f) { return f.qkv_bias; });
inline constexpr u32 attention_biases =
    families_with([](const FamilyTraits& f) { return f.attention_bias_key; });
inline constexpr u32 partly_turned =
    families_with([](const FamilyTraits& f) { return f.partial_rotary_key; });
inline constexpr u32 mlp_biases = families_with([](const FamilyTraits& f) { return f.mlp_bias_key; });

}  // namespace family_sets
}  // namespace tidepool
