// Family sets: the model families that share a property, as bits for the tables of keys. Bit f stands for
// Family(f).
#pragma once

#include "tidepool/model_config.h"

namespace tidepool {

constexpr u32 bit(Family family) { return u32{1} << static_cast<u32>(family); }

namespace family_sets {

constexpr bool has_gate(const FamilyTraits& f, MlpGate gate) {
  return f.style->mlp == MlpKind::glu && f.style->gate == gate;
}

inline constexpr u32 all = families_with([](const FamilyTraits&) { return true; });
inline constexpr u32 gelu =
    families_with([](const FamilyTraits& f) { return f.style->mlp == MlpKind::gelu; });
inline constexpr u32 squared_relu =
    families_with([](const FamilyTraits& f) { return f.style->mlp == MlpKind::squared_relu; });
inline constexpr u32 swiglu = families_with([](const FamilyTraits& f) { return has_gate(f, MlpGate::silu); });
inline constexpr u32 geglu = families_with([](const FamilyTraits& f) { return has_gate(f, MlpGate::gelu); });
inline constexpr u32 learned =
    families_with([](const FamilyTraits& f) { return f.style->positions == PositionKind::learned; });
inline constexpr u32 rotary =
    families_with([](const FamilyTraits& f) { return f.style->positions == PositionKind::rotary; });
inline constexpr u32 tied = families_with([](const FamilyTraits& f) { return f.style->always_tied; });
inline constexpr u32 windowed =
    families_with([](const FamilyTraits& f) { return f.window != WindowKind::none; });
inline constexpr u32 switched_from_a_layer =
    families_with([](const FamilyTraits& f) { return f.window == WindowKind::by_switch; });
inline constexpr u32 switched = switched_from_a_layer | families_with([](const FamilyTraits& f) {
                                  return f.window == WindowKind::every_layer_by_switch;
                                });
inline constexpr u32 not_switched = rotary & ~switched;
inline constexpr u32 layered =
    families_with([](const FamilyTraits& f) { return f.window == WindowKind::by_layer; });
inline constexpr u32 local_angles = families_with([](const FamilyTraits& f) { return f.local_rope; });
inline constexpr u32 global_sizes = families_with([](const FamilyTraits& f) { return f.global_sizes_key; });
inline constexpr u32 latent =
    families_with([](const FamilyTraits& f) { return f.style->mixer == MixerKind::latent; });
inline constexpr u32 delta_hybrids = families_with([](const FamilyTraits& f) { return f.delta_layers; });
inline constexpr u32 mamba_hybrids =
    families_with([](const FamilyTraits& f) { return !f.layer_kinds.empty(); });
inline constexpr u32 one_part = families_with([](const FamilyTraits& f) { return f.style->one_part; });
// Those with config.json's names of Granite 4, and the others.
inline constexpr u32 step_limits = families_with([](const FamilyTraits& f) { return f.step_limits_key; });
inline constexpr u32 least_steps = mamba_hybrids & ~step_limits;
inline constexpr u32 position_choice = families_with([](const FamilyTraits& f) { return f.position_key; });
inline constexpr u32 never_rotated = mamba_hybrids & ~position_choice;
inline constexpr u32 layer_norm_names =
    families_with([](const FamilyTraits& f) { return f.style->keys.norm_epsilon == "layer_norm_epsilon"; });
inline constexpr u32 scaled_attention =
    families_with([](const FamilyTraits& f) { return f.attention_scale_key; });
inline constexpr u32 capped_attention =
    families_with([](const FamilyTraits& f) { return f.attention_cap_key; });
inline constexpr u32 capped_logits = families_with([](const FamilyTraits& f) { return f.logits_cap_key; });
inline constexpr u32 residual_dropout =
    families_with([](const FamilyTraits& f) { return f.style->residual_dropout; });
inline constexpr u32 neighbours_rotate =
    families_with([](const FamilyTraits& f) { return f.style->neighbours_rotate; });
inline constexpr u32 output_biases =
    families_with([](const FamilyTraits& f) { return f.output_bias == OutputBias::by_key; });
inline constexpr u32 with_alpha = families_with([](const FamilyTraits& f) { return f.alpha_key; });
inline constexpr u32 growing_queries =
    families_with([](const FamilyTraits& f) { return f.query_growth_key; });
inline constexpr u32 with_unrotated = families_with([](const FamilyTraits& f) { return f.no_rope_key; });
inline constexpr u32 with_factors = families_with([](const FamilyTraits& f) { return f.factor_keys; });
inline constexpr u32 norms_after_rotation =
    families_with([](const FamilyTraits& f) { return f.qk_norm == QkNormKind::rotated_heads; });
inline constexpr u32 norm_switched = families_with([](const FamilyTraits& f) { return f.qk_norm_key; });
inline constexpr u32 whole_norms =
    families_with([](const FamilyTraits& f) { return f.qk_norm == QkNormKind::whole; });
inline constexpr u32 rotary_widths = families_with([](const FamilyTraits& f) { return f.rotary_width_key; });
inline constexpr u32 biased_qkv = families_with([](const FamilyTraits& f) { return f.qkv_bias; });
inline constexpr u32 attention_biases =
    families_with([](const FamilyTraits& f) { return f.attention_bias_key; });
inline constexpr u32 partly_rotated =
    families_with([](const FamilyTraits& f) { return f.partial_rotary_key; });
inline constexpr u32 mlp_biases = families_with([](const FamilyTraits& f) { return f.mlp_bias_key; });

// Families whose experts have a property.
template <class Has>
constexpr u32 families_with_experts(Has has) {
  return families_with([&](const FamilyTraits& f) { return f.with_experts && has(*f.experts); });
}
inline constexpr u32 experts = families_with_experts([](const ExpertTraits&) { return true; });
inline constexpr u32 expert_sizes = families_with_experts([](const ExpertTraits& e) { return e.inner_key; });
inline constexpr u32 expert_weights =
    families_with_experts([](const ExpertTraits& e) { return e.normalise_key; });
inline constexpr u32 expert_steps = families_with_experts([](const ExpertTraits& e) { return e.step_keys; });
inline constexpr u32 expert_groups =
    families_with_experts([](const ExpertTraits& e) { return e.group_keys; });
inline constexpr u32 by_layer_kind =
    families_with_experts([](const ExpertTraits& e) { return e.by_layer_kind; });
inline constexpr u32 dense_beside =
    families_with_experts([](const ExpertTraits& e) { return e.dense_beside; });
inline constexpr u32 sigmoid_routed =
    families_with_experts([](const ExpertTraits& e) { return e.router == RouterKind::sigmoid_in_groups; });
// Families whose config.json says with a key of its own that a model has experts.
inline constexpr u32 switched_experts =
    families_with_experts([](const ExpertTraits& e) { return !e.switch_key.empty(); });
// Families without dense MLPs.
inline constexpr u32 only_experts = families_with_experts([](const ExpertTraits& e) {
  return e.inner_key && !e.step_keys && !e.group_keys && !e.tensors.are_branch();
});
inline constexpr u32 shared_widths =
    families_with_experts([](const ExpertTraits& e) { return e.shared_width_key; });
inline constexpr u32 shared_experts =
    families_with_experts([](const ExpertTraits& e) { return e.shared_key; });
inline constexpr u32 balanced = families_with_experts([](const ExpertTraits& e) { return e.balance_keys; });
inline constexpr u32 clamped = families_with_experts(
    [](const ExpertTraits& e) { return e.activation == ExpertActivation::clamped_swiglu; });
// Families that call the number of a token's experts by this name.
constexpr u32 chosen_as(std::string_view key) {
  return families_with_experts([&](const ExpertTraits& e) { return e.chosen_key == key; });
}
// Families that call the number of experts by this name.
constexpr u32 counted_as(std::string_view key) {
  return families_with_experts([&](const ExpertTraits& e) { return e.count_key == key; });
}

}  // namespace family_sets
}  // namespace tidepool
