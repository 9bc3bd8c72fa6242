// LayerStyle describes how a layer is made, as plain data: its norm, positions, attention and MLP, and the
// names of its parts in files. The code of each style is a folder of src/model. All other code asks these
// rows for properties, so that a new style is a row and a folder.
#pragma once

#include <array>
#include <string_view>

#include "base/types.h"

namespace tidepool {

enum class NormKind : u8 {
  layer_norm,  // subtracts the mean, and has a bias
  rms_norm,
};
enum class PositionKind : u8 {
  learned,  // a table, added to the embedding
  rotary,   // q and k are rotated in each layer
};
enum class AttentionKind : u8 {
  multi_head,
  grouped,  // several heads of queries may share a head of keys and values
  latent,   // as LatentAttention describes
};
enum class MlpKind : u8 {
  gelu,    // down(gelu(up(x)))
  swiglu,  // down(silu(gate(x)) up(x))
  geglu,   // down(gelu(gate(x)) up(x))
};

// Names of ModelConfig fields in config.json, and so in the section `model` of a config.
struct ModelKeyNames {
  std::string_view positions, width, layers, heads, inner, norm_epsilon, attention_dropout;
};

struct LayerStyle {
  NormKind norm{};
  PositionKind positions{};
  AttentionKind attention{};
  MlpKind mlp{};
  bool norm_offset = false;        // RMS norms multiply by 1 + weight
  bool branch_norms = false;       // outputs of attention and MLP are normalised before they are added
  bool norm_casts_last = false;    // RMS norms multiply by the weight before they round to 16 bits, not after
  bool attention_sinks = false;    // a trained score per head, self_attn.sinks, that takes a share of softmax
  bool scaled_embedding = false;   // the embedding is multiplied by the root of the width
  double norm_epsilon = 0;         // default if config.json has no epsilon
  bool always_tied = false;        // the head has no matrix of its own
  bool matrices_in_out = false;    // [in, out], as transformers' Conv1D; otherwise [out, in]
  std::string_view layers_path;    // path of layers in transformers: "model.layers" of "model.layers.0"
  std::string_view linear_prefix;  // names of linear layers begin with it ...
  std::string_view linear_suffix;  // ... and contain it, mostly at their end
  // Tensors that files of weights may have beside the model's own. A name that begins with a dot is a suffix,
  // the others are whole names.
  std::array<std::string_view, 3> extra_tensors{};
  ModelKeyNames keys;
  // Sizes that a config.json must name: transformers has defaults for them, but nobody wants those defaults.
  std::array<std::string_view, 10> required_keys{};

  // Number of matrices that read the MLP's input.
  constexpr u32 mlp_inputs() const { return mlp == MlpKind::gelu ? 1 : 2; }
};

inline constexpr LayerStyle gpt2_layers = {
    .norm = NormKind::layer_norm,
    .positions = PositionKind::learned,
    .attention = AttentionKind::multi_head,
    .mlp = MlpKind::gelu,
    .norm_epsilon = 1e-5,
    .always_tied = true,
    .matrices_in_out = true,
    .layers_path = "transformer.h",
    .linear_prefix = "c_",
    .linear_suffix = "",
    .extra_tensors = {".attn.bias", ".attn.masked_bias", "lm_head.weight"},  // masks; a copy of the head
    .keys = {.positions = "n_positions",
             .width = "n_embd",
             .layers = "n_layer",
             .heads = "n_head",
             .inner = "n_inner",
             .norm_epsilon = "layer_norm_epsilon",
             .attention_dropout = "attn_pdrop"},
    .required_keys = {"vocab_size", "n_positions", "n_embd", "n_layer", "n_head"}};

// Llama and most families since.
inline constexpr LayerStyle llama_layers = {
    .norm = NormKind::rms_norm,
    .positions = PositionKind::rotary,
    .attention = AttentionKind::grouped,
    .mlp = MlpKind::swiglu,
    .norm_epsilon = 1e-6,
    .always_tied = false,
    .matrices_in_out = false,
    .layers_path = "model.layers",
    .linear_prefix = "",
    .linear_suffix = "_proj",
    // lm_head.weight is not listed: if a tied model's file has a head of its own, it is another model's.
    .extra_tensors = {".rotary_emb.inv_freq"},
    .keys = {.positions = "max_position_embeddings",
             .width = "hidden_size",
             .layers = "num_hidden_layers",
             .heads = "num_attention_heads",
             .inner = "intermediate_size",
             .norm_epsilon = "rms_norm_eps",
             .attention_dropout = "attention_dropout"},
    .required_keys = {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                      "num_attention_heads"}};

// Gemma's layers are Llama's with other norms and another MLP. Its names are the same.
inline constexpr LayerStyle gemma_layers = [] {
  LayerStyle style = llama_layers;
  style.mlp = MlpKind::geglu;
  style.norm_offset = true;
  style.branch_norms = true;
  style.scaled_embedding = true;
  return style;
}();

inline constexpr LayerStyle gpt_oss_layers = [] {
  LayerStyle style = llama_layers;
  style.norm_casts_last = true;
  style.attention_sinks = true;
  return style;
}();

// DeepSeek's latent attention. Its norms within attention have norm_epsilon, whatever config.json says.
inline constexpr LayerStyle deepseek_layers = [] {
  LayerStyle style = llama_layers;
  style.attention = AttentionKind::latent;
  u32 at = 5;  // after those of Llama
  for (const std::string_view key :
       {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"})
    style.required_keys[at++] = key;
  return style;
}();

}  // namespace tidepool
