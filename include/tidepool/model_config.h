// ModelConfig describes a model before any batch or budget: its family, its sizes, and the options of the
// family that it uses.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"
#include "tidepool/experts.h"
#include "tidepool/layer_config.h"
#include "tidepool/layer_style.h"
#include "tidepool/packing.h"

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
};
inline constexpr u32 family_count = 14;

// Sliding windows of attention, as config.json specifies them.
enum class WindowKind : u8 {
  none,
  every_layer,            // sliding_window
  by_switch,              // sliding_window from layer max_window_layers on, if use_sliding_window is true
  by_layer,               // sliding_window in most layers; those of a regular pattern see all tokens
  every_layer_by_switch,  // sliding_window if use_sliding_window is true
};

// Defaults of transformers for keys that a config.json leaves out; 0: the default is default_model()'s.
struct LeftOut {
  u32 positions = 0, kv_heads = 0, head_size = 0, sliding_window = 0, attention_scale_size = 0;
  double dropout = 0;  // for the embedding, attention and residual sums
  double norm_epsilon = 0;
  double rope_theta = 0;
  double partial_rotary = 0;
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
  bool qkv_bias = false;             // q, k and v have biases, and o has none
  bool qk_norm = false;              // RMSNorm over each head of q and k, before the rotation
  bool attention_bias_key = false;   // config.json says whether q, k, v and o have biases
  bool mlp_bias_key = false;         // config.json says whether gate, up and down have biases
  bool fused_projections = false;    // q, k and v are one tensor, as are gate and up
  bool partial_rotary_key = false;   // config.json says what share of a head is rotated
  bool attention_scale_key = false;  // config.json says what size scales attention's scores
  bool rope_required = false;        // config.json must say how angles are scaled: the default is one model's
  bool local_rope = false;           // layers with a window have angles of their own
  bool biased_default = false;       // attention_bias is true unless config.json says otherwise
  bool tied_default = false;         // the head is tied unless config.json says otherwise
  bool delta_layers = false;         // most layers have MixerKind::gated_delta, as GatedDeltaConfig says
  bool delta_by_key_head = false;    // their projections are two tensors, each by key heads
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
     .qk_norm = true,
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
     .qk_norm = true,
     .attention_bias_key = true,
     .attention_scale_key = true,
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
     .qk_norm = true,
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
     .models = "DeepSeek-V3, V3.1, R1, Kimi K2",
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
     .qk_norm = true,
     .attention_bias_key = true,
     .partial_rotary_key = true,
     .delta_layers = true,
     .delta_by_key_head = true,
     .left_out = {.positions = 32768, .kv_heads = 2, .head_size = 256, .partial_rotary = 0.25}},
    {.name = "qwen3_5_text",
     .architecture = "Qwen3_5ForCausalLM",
     .models = "Qwen3.5 and 3.6, dense, text",
     .style = &qwen_hybrid_layers,
     .qk_norm = true,
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
     .qk_norm = true,
     .attention_bias_key = true,
     .partial_rotary_key = true,
     .delta_layers = true,
     .left_out = {.positions = 32768, .kv_heads = 2, .head_size = 256, .partial_rotary = 0.25}},
}};
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

// Head of a model that classifies sequences, in the place of the head over the vocabulary: a matrix "score".
struct ScoreHead {
  u32 labels = 0;                  // rows of the matrix; 0: the head is over the vocabulary
  std::vector<std::string> names;  // of the labels; empty: they have only numbers

  bool on() const { return labels != 0; }
  // "LABEL_1" if it has no name, as in transformers.
  std::string name(u32 label) const {
    return label < names.size() ? names[label] : "LABEL_" + std::to_string(label);
  }
  bool operator==(const ScoreHead&) const = default;
};

struct ModelConfig {
  Family family = Family::gpt2;
  u32 vocab_size = 256;
  u32 positions = 1024;  // the longest sequence
  u32 width = 768;       // width of the residual stream
  u32 layers = 12;
  // Mixers and MLPs of the layers, as mixer_kind() and mlp_kind() choose them.
  AttentionConfig attention;
  SoftmaxConfig softmax;
  LatentAttention latent;
  GatedDeltaConfig delta;
  MlpConfig mlp;
  Experts experts;
  double norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  double embedding_dropout = 0.0;  // GPT-2 only
  double residual_dropout = 0.0;   // LayerStyle::residual_dropout
  bool tied = true;                // the head's matrix is the embedding's
  Quantization quantization;       // of the layers' matrices, in files and in memory
  ScoreHead score;                 // a classifier's

  // Rows of the head's matrix.
  u32 head_rows() const { return score.on() ? score.labels : vocab_size; }
  // True if the head's matrix is the embedding's.
  bool head_is_embedding() const { return tied && !score.on(); }
  u32 inner() const;
  u32 kv_heads() const { return attention.kv_heads(); }
  // Columns of a head of q and k.
  u32 head_size() const {
    if (latent.kv_lora_rank != 0) return latent.qk_nope_head_dim + latent.qk_rope_head_dim;
    return softmax.head_size_given != 0 ? softmax.head_size_given : width / attention.heads;
  }
  u32 query_width() const { return attention.heads * head_size(); }
  u32 qkv_width() const { return (attention.heads + 2 * kv_heads()) * head_size(); }
  // Columns of the product that makes q, k and v, and the gates of q's heads if they have some.
  u32 qkv_product_width() const { return qkv_width() + (attention_gate() ? query_width() : 0); }
  bool attention_gate() const { return style(family).attention_gate; }
  u32 attention_scale_size() const { return softmax.scale_given != 0 ? softmax.scale_given : head_size(); }
  // Factor on attention's scores.
  double attention_scale() const;
  // The longest sequence that positions allow: with dynamic angles longer than `positions`.
  u32 longest_sequence() const;
  u32 rotary_size() const {
    return latent.kv_lora_rank != 0 ? latent.qk_rope_head_dim
                                    : static_cast<u32>(head_size() * attention.rope.partial_factor);
  }
  bool has_experts(u32 layer) const;
  MixerKind mixer_kind(u32 layer) const {
    const bool delta_layer = traits(family).delta_layers && (layer + 1) % delta.attention_interval != 0;
    return delta_layer ? MixerKind::gated_delta : style(family).mixer;
  }
  MlpKind mlp_kind(u32 layer) const { return has_experts(layer) ? MlpKind::experts : style(family).mlp; }
  u32 expert_inner() const { return experts.inner_given != 0 ? experts.inner_given : inner(); }
  u32 shared_inner() const {
    return experts.shared_width != 0 ? experts.shared_width : experts.shared * expert_inner();
  }
  // True if the MLP that every token uses has a gate.
  bool shared_gate() const {
    return shared_inner() != 0 && !traits(family).experts->tensors.shared_gate.empty();
  }
  bool qkv_bias() const { return attention.bias || traits(family).qkv_bias; }
  bool qk_norm() const { return traits(family).qk_norm; }
  // RETURNS: true if the family has layers with and without a sliding window, and this layer has one.
  bool slides(u32 layer) const {
    return traits(family).window == WindowKind::by_layer && (layer + 1) % softmax.sliding_window_pattern != 0;
  }

  // RETURNS: true if the layer has the angles of local_rope_theta.
  bool local_rope(u32 layer) const { return traits(family).local_rope && slides(layer); }
  // The angles of a layer.
  Rope rope(u32 layer) const {
    return local_rope(layer) ? Rope{.theta = softmax.local_rope_theta} : attention.rope;
  }
  // RETURNS: the most tokens that a token of this layer attends to, itself included; 0: no limit.
  u32 attention_window(u32 layer) const;
  // RETURNS: the window of the layers that have one; 0: no layer has one.
  u32 window_of_any_layer() const;

  bool operator==(const ModelConfig&) const = default;
};

// RETURNS: the family's model with default sizes.
ModelConfig default_model(Family);

// Widest head: the attention kernels hold one row of a head in registers.
inline constexpr u32 model_head_size_max = 256;
// Longest convolution of a gated delta rule.
inline constexpr u32 model_taps_max = 8;
// ModelFault says why no model can have these sizes, and names the key to change.
struct ModelFault {
  ModelFault(std::string_view of_key, std::string why) : key(of_key), reason(std::move(why)) {}

  std::string key, reason;
};
std::optional<ModelFault> check_model(const ModelConfig&);

}  // namespace tidepool
