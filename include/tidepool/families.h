// Families of models, a row for each: its name, its style, and properties that differ between families of a
// style. Code reads the property that it needs, and never asks for a family.
#pragma once

#include <array>
#include <string_view>

#include "base/types.h"
#include "tidepool/experts.h"
#include "tidepool/layer_style.h"

namespace tidepool {

enum class Family : u8 {
  gpt2,
  llama,
  mistral,
  qwen2,
  qwen3,
  phi3,
  gemma3_text,
  qwen3_moe,
  mixtral,
  gpt_oss,
  deepseek_v3,
  qwen3_next,
  qwen3_5_text,
  qwen3_5_moe_text,
  glm4_moe,
  glm4_moe_lite,
  minimax_m2,
  ministral3,
  smollm3,
  olmo2,
  olmo3,
  exaone4,
  seed_oss,
  hunyuan_v1_dense,
  ernie4_5,
  granite,
  arcee,
  gemma2,
  nemotron_h,
  granitemoehybrid,
  gemma4_text,
};
inline constexpr u32 family_count = 31;

// Defaults of transformers for keys that a config.json leaves out; 0: the default is default_model()'s.
struct LeftOut {
  u32 positions = 0, kv_heads = 0, head_size = 0, sliding_window = 0, attention_scale_size = 0;
  double dropout = 0;  // for the embedding, attention and residual sums
  double norm_epsilon = 0;
  double rope_theta = 0, local_rope_theta = 0;
  double partial_rotary = 0;
  double attention_cap = 0, logits_cap = 0;
  u32 global_head_size = 0, layer_input_width = 0, layer_input_rows = 0;
};

// Properties that differ between families of the same style.
struct FamilyTraits {
  std::string_view name;          // `model_type` in config.json
  std::string_view architecture;  // class of the model in transformers
  std::string_view models;        // published models, for people
  const LayerStyle* style = nullptr;
  const ExpertTraits* experts = nullptr;  // null: all layers are dense
  // True if `experts` is not null. Under UBSan, GCC does not compare an address with null in constants.
  bool with_experts = false;
  bool qkv_bias = false;  // q, k and v have biases, and o has none
  QkNormKind qk_norm{};
  bool qk_norm_key = false;  // config.json says whether q and k have norms
  // config.json says whether q, k and v have biases, and o as output_bias says.
  bool attention_bias_key = false;
  OutputBias output_bias{};
  bool mlp_bias_key = false;         // config.json says whether the MLP's matrices have biases
  bool fused_projections = false;    // q, k and v are one tensor, as are gate and up
  bool partial_rotary_key = false;   // config.json says what share of a head is rotated
  bool rotary_width_key = false;     // or how many columns: rotary_dim
  bool attention_scale_key = false;  // config.json says what size scales attention's scores
  bool attention_cap_key = false;    // config.json may have a soft cap of attention's scores
  bool logits_cap_key = false;       // or of logits
  bool alpha_key = false;            // config.json may have dynamic angles with an alpha
  bool query_growth_key = false;     // config.json says how q grows with its position
  bool no_rope_key = false;          // config.json says which layers do not rotate q and k
  bool windows_rotate = false;       // if some layers have a window, the others do not rotate q and k
  bool factor_keys = false;          // config.json has Factors and a factor on attention's scores
  bool window_pattern_key = false;   // config.json has sliding_window_pattern, beside layer_types
  bool rope_required = false;        // config.json must say how angles are scaled: the default is one model's
  bool global_sizes_key = false;     // config.json says which heads layers that see all tokens have, and
                                     // whether their v is k; their angles are proportional or plain
  bool local_rope = false;           // layers with a window have angles of their own
  bool biased_default = false;       // attention_bias is true unless config.json says otherwise
  bool tied_default = false;         // the head is tied unless config.json says otherwise
  bool delta_layers = false;         // most layers have MixerKind::gated_delta, as GatedDeltaConfig says
  bool delta_by_key_head = false;    // their projections are two tensors, each by key heads
  // Kinds of layers of a model that does not say them, again and again; empty: the family has no such kinds.
  std::string_view layer_kinds;
  bool position_key = false;     // config.json says whether q and k are rotated; otherwise they are not, in
                                 // families with layer_kinds
  bool step_limits_key = false;  // config.json has both bounds of Mamba-2's steps, not the least alone
  WindowKind window{};
  u32 window_pattern = 6;  // default of SoftmaxConfig::sliding_window_pattern
  LeftOut left_out;
  // Token that ends texts, if the config.json of the family's vocabulary names it; 0: none.
  u32 end_of_text = 0;
};

// The version that the families' results and files were compared with.
inline constexpr std::string_view compared_transformers = "5.24.0";

inline constexpr std::array<FamilyTraits, family_count> families = {{
    {.name = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .models = "GPT-2",
     .style = &gpt2_layers,
     .fused_projections = true,
     .left_out = {.dropout = 0.1},
     .end_of_text = 50256},
    {.name = "llama",
     .architecture = "LlamaForCausalLM",
     .models = "Llama 2, 3, 3.1, 3.2 and 3.3, TinyLlama, Yi",
     .style = &llama_layers,
     .attention_bias_key = true,
     .mlp_bias_key = true,
     .left_out = {.positions = 2048}},
    {.name = "mistral",
     .architecture = "MistralForCausalLM",
     .models = "Mistral 7B, Nemo, Small",
     .style = &llama_layers,
     .window = WindowKind::every_layer,
     .left_out = {.positions = 131072, .kv_heads = 8, .sliding_window = 4096}},
    {.name = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .models = "Qwen2, Qwen2.5, QwQ",
     .style = &llama_layers,
     .qkv_bias = true,
     .window = WindowKind::by_switch,
     .left_out = {.positions = 32768, .kv_heads = 32, .sliding_window = 4096}},
    {.name = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .models = "Qwen3, dense",
     .style = &llama_layers,
     .qk_norm = QkNormKind::heads,
     .attention_bias_key = true,
     .window = WindowKind::by_switch,
     .left_out = {.positions = 32768, .kv_heads = 32, .head_size = 128, .sliding_window = 4096}},
    {.name = "phi3",
     .architecture = "Phi3ForCausalLM",
     .models = "Phi-3, Phi-3.5, Phi-4",
     .style = &llama_layers,
     .fused_projections = true,
     .partial_rotary_key = true,
     .window = WindowKind::every_layer,
     .left_out = {.positions = 4096, .norm_epsilon = 1e-5}},
    {.name = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .models = "Gemma 3, text",
     .style = &gemma_layers,
     .qk_norm = QkNormKind::heads,
     .attention_bias_key = true,
     .attention_scale_key = true,
     .window_pattern_key = true,
     .local_rope = true,
     .tied_default = true,
     .window = WindowKind::by_layer,
     .left_out = {.positions = 131072,
                  .kv_heads = 4,
                  .head_size = 256,
                  .sliding_window = 4096,
                  .attention_scale_size = 256,
                  .rope_theta = 1e6}},
    {.name = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .models = "Qwen3 30B-A3B, 235B-A22B, Coder",
     .style = &llama_layers,
     .experts = &qwen3_experts,
     .with_experts = true,
     .qk_norm = QkNormKind::heads,
     .attention_bias_key = true,
     .window = WindowKind::every_layer_by_switch,
     .left_out = {.positions = 32768, .kv_heads = 4, .sliding_window = 4096}},
    {.name = "mixtral",
     .architecture = "MixtralForCausalLM",
     .models = "Mixtral 8x7B, 8x22B",
     .style = &llama_layers,
     .experts = &mixtral_experts,
     .with_experts = true,
     .window = WindowKind::every_layer,
     .left_out = {.positions = 131072, .kv_heads = 8, .norm_epsilon = 1e-5, .rope_theta = 1e6}},
    {.name = "gpt_oss",
     .architecture = "GptOssForCausalLM",
     .models = "gpt-oss 20b, 120b",
     .style = &gpt_oss_layers,
     .experts = &gpt_oss_experts,
     .with_experts = true,
     .attention_bias_key = true,
     .rope_required = true,
     .biased_default = true,
     .window = WindowKind::by_layer,
     .window_pattern = 2,
     .left_out = {.positions = 131072,
                  .kv_heads = 8,
                  .head_size = 64,
                  .sliding_window = 128,
                  .norm_epsilon = 1e-5,
                  .rope_theta = 150000}},
    {.name = "deepseek_v3",
     .architecture = "DeepseekV3ForCausalLM",
     .models = "DeepSeek-V3, V3.1, R1",
     .style = &deepseek_layers,
     .experts = &deepseek_experts,
     .with_experts = true,
     .attention_bias_key = true,
     .left_out = {.positions = 4096}},
    {.name = "qwen3_next",
     .architecture = "Qwen3NextForCausalLM",
     .models = "Qwen3-Next 80B-A3B",
     .style = &qwen_hybrid_layers,
     .experts = &qwen3_next_experts,
     .with_experts = true,
     .qk_norm = QkNormKind::heads,
     .attention_bias_key = true,
     .partial_rotary_key = true,
     .delta_layers = true,
     .delta_by_key_head = true,
     .left_out = {.positions = 32768, .kv_heads = 2, .head_size = 256, .partial_rotary = 0.25}},
    {.name = "qwen3_5_text",
     .architecture = "Qwen3_5ForCausalLM",
     .models = "Qwen3.5 and 3.6, dense, text",
     .style = &qwen_hybrid_layers,
     .qk_norm = QkNormKind::heads,
     .attention_bias_key = true,
     .partial_rotary_key = true,
     .delta_layers = true,
     .left_out = {.positions = 32768, .kv_heads = 4, .head_size = 256, .partial_rotary = 0.25}},
    {.name = "qwen3_5_moe_text",
     .architecture = "Qwen3_5MoeForCausalLM",
     .models = "Qwen3.5 and 3.6 with experts, text",
     .style = &qwen_hybrid_expert_layers,
     .experts = &qwen3_5_experts,
     .with_experts = true,
     .qk_norm = QkNormKind::heads,
     .attention_bias_key = true,
     .partial_rotary_key = true,
     .delta_layers = true,
     .left_out = {.positions = 32768, .kv_heads = 2, .head_size = 256, .partial_rotary = 0.25}},
    {.name = "glm4_moe",
     .architecture = "Glm4MoeForCausalLM",
     .models = "GLM-4.5, 4.6 and 4.7",
     .style = &llama_layers,
     .experts = &deepseek_experts,
     .with_experts = true,
     .qk_norm = QkNormKind::heads,
     .qk_norm_key = true,
     .attention_bias_key = true,
     .output_bias = OutputBias::never,
     .partial_rotary_key = true,
     .left_out = {.positions = 131072, .kv_heads = 8, .norm_epsilon = 1e-5, .partial_rotary = 0.5}},
    {.name = "glm4_moe_lite",
     .architecture = "Glm4MoeLiteForCausalLM",
     .models = "GLM-4.7-Flash",
     .style = &deepseek_layers,
     .experts = &glm4_moe_lite_experts,
     .with_experts = true,
     .attention_bias_key = true,
     .left_out = {.positions = 202752, .norm_epsilon = 1e-5}},
    {.name = "minimax_m2",
     .architecture = "MiniMaxM2ForCausalLM",
     .models = "MiniMax-M2",
     .style = &llama_layers,
     .experts = &minimax_m2_experts,
     .with_experts = true,
     .qk_norm = QkNormKind::whole,
     .partial_rotary_key = true,
     .rotary_width_key = true,
     .left_out = {.positions = 196608, .kv_heads = 8, .head_size = 128, .rope_theta = 5e6}},
    {.name = "ministral3",
     .architecture = "Ministral3ForCausalLM",
     .models = "Ministral 3",
     .style = &llama_layers,
     .query_growth_key = true,
     .rope_required = true,
     .window = WindowKind::every_layer,
     .left_out = {.positions = 262144, .kv_heads = 8, .head_size = 128, .norm_epsilon = 1e-5}},
    {.name = "smollm3",
     .architecture = "SmolLM3ForCausalLM",
     .models = "SmolLM3",
     .style = &llama_layers,
     .attention_bias_key = true,
     .mlp_bias_key = true,
     .no_rope_key = true,
     .tied_default = true,
     .left_out = {.positions = 32768, .kv_heads = 4, .rope_theta = 2e6}},
    {.name = "olmo2",
     .architecture = "Olmo2ForCausalLM",
     .models = "OLMo 2",
     .style = &olmo_layers,
     .qk_norm = QkNormKind::whole,
     .attention_bias_key = true,
     .left_out = {.positions = 2048, .norm_epsilon = 1e-5}},
    {.name = "olmo3",
     .architecture = "Olmo3ForCausalLM",
     .models = "OLMo 3",
     .style = &olmo_layers,
     .qk_norm = QkNormKind::whole,
     .attention_bias_key = true,
     .local_rope = true,
     .window = WindowKind::by_layer,
     .window_pattern = 4,
     .left_out = {.positions = 2048,
                  .sliding_window = 4096,
                  .norm_epsilon = 1e-5,
                  .rope_theta = 5e5,
                  .local_rope_theta = 5e5}},
    {.name = "exaone4",
     .architecture = "Exaone4ForCausalLM",
     .models = "EXAONE 4",
     .style = &olmo_layers,
     .qk_norm = QkNormKind::heads,
     .windows_rotate = true,
     .window_pattern_key = true,
     .window = WindowKind::by_layer,
     .window_pattern = 4,
     .left_out = {.positions = 2048, .kv_heads = 32, .sliding_window = 4096, .norm_epsilon = 1e-5}},
    {.name = "seed_oss",
     .architecture = "SeedOssForCausalLM",
     .models = "Seed-OSS",
     .style = &seed_oss_layers,
     .attention_bias_key = true,
     .output_bias = OutputBias::by_key,
     .mlp_bias_key = true,
     .biased_default = true,
     .left_out = {.positions = 524288, .kv_heads = 8, .head_size = 128, .dropout = 0.1}},
    {.name = "hunyuan_v1_dense",
     .architecture = "HunYuanDenseV1ForCausalLM",
     .models = "Hunyuan, dense",
     .style = &hunyuan_layers,
     .qk_norm = QkNormKind::rotated_heads,
     .attention_bias_key = true,
     .alpha_key = true,
     .left_out = {.positions = 2048, .norm_epsilon = 1e-5}},
    {.name = "ernie4_5",
     .architecture = "Ernie4_5ForCausalLM",
     .models = "ERNIE 4.5, dense",
     .style = &ernie_layers,
     .tied_default = true,
     .left_out =
         {.positions = 131072, .kv_heads = 2, .head_size = 128, .norm_epsilon = 1e-5, .rope_theta = 5e5}},
    {.name = "granite",
     .architecture = "GraniteForCausalLM",
     .models = "Granite 3, dense",
     .style = &llama_layers,
     .attention_bias_key = true,
     .mlp_bias_key = true,
     .factor_keys = true,
     .left_out = {.positions = 2048}},
    {.name = "arcee",
     .architecture = "ArceeForCausalLM",
     .models = "AFM 4.5B",
     .style = &arcee_layers,
     .attention_bias_key = true,
     .mlp_bias_key = true,
     .left_out = {.positions = 4096, .norm_epsilon = 1e-5}},
    {.name = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .models = "Gemma 2",
     .style = &gemma_layers,
     .attention_bias_key = true,
     .attention_scale_key = true,
     .attention_cap_key = true,
     .logits_cap_key = true,
     .tied_default = true,
     .window = WindowKind::by_layer,
     .window_pattern = 2,
     .left_out = {.positions = 8192,
                  .kv_heads = 4,
                  .head_size = 256,
                  .sliding_window = 4096,
                  .attention_scale_size = 256,
                  .attention_cap = 50,
                  .logits_cap = 30}},
    {.name = "nemotron_h",
     .architecture = "NemotronHForCausalLM",
     .models = "Nemotron-H, Nemotron Nano 2, Nemotron 3",
     .style = &nemotron_layers,
     .experts = &nemotron_experts,
     .with_experts = true,
     .layer_kinds = "ME*-",
     .left_out = {.positions = 4096, .kv_heads = 8, .head_size = 128}},
    {.name = "granitemoehybrid",
     .architecture = "GraniteMoeHybridForCausalLM",
     .models = "Granite 4",
     .style = &granite_hybrid_layers,
     .experts = &granite_hybrid_experts,
     .with_experts = true,
     .attention_bias_key = true,
     .factor_keys = true,
     .layer_kinds = "M",
     .position_key = true,
     .step_limits_key = true,
     .left_out = {.positions = 2048}},
    {.name = "gemma4_text",
     .architecture = "Gemma4ForCausalLM",
     .models = "Gemma 4",
     .style = &gemma4_layers,
     .experts = &gemma4_experts,
     .with_experts = true,
     .qk_norm = QkNormKind::heads,
     .attention_bias_key = true,
     .partial_rotary_key = true,
     .logits_cap_key = true,
     .global_sizes_key = true,
     .local_rope = true,
     .tied_default = true,
     .window = WindowKind::by_layer,
     .left_out = {.positions = 131072,
                  .kv_heads = 4,
                  .head_size = 256,
                  .sliding_window = 512,
                  .rope_theta = 1e6,
                  .local_rope_theta = 1e4,
                  .partial_rotary = 0.25,
                  .global_head_size = 512,
                  .layer_input_width = 256,
                  .layer_input_rows = 262144}},
}};
static_assert(!families.back().name.empty());  // no row is missing

constexpr const FamilyTraits& traits(Family family) { return families[static_cast<u32>(family)]; }
constexpr std::string_view name(Family family) { return traits(family).name; }
constexpr const LayerStyle& style(Family family) { return *traits(family).style; }
constexpr const ModelKeyNames& key_names(Family family) { return style(family).keys; }

// Documents can share a sequence only if positions are computed per document (rotary), not learned for whole
// sequences.
constexpr bool can_pack(Family family) { return style(family).positions == PositionKind::rotary; }

// Families with a property, as bits: bit f for Family(f).
template <class Has>
constexpr u32 families_with(Has has) {
  u32 bits = 0;
  for (u32 f = 0; f < family_count; ++f) bits |= has(families[f]) ? u32{1} << f : 0;
  return bits;
}

}  // namespace tidepool
