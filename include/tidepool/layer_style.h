// LayerStyle describes how a layer is made, as plain data: its norms, positions, mixer and MLP, and the names
// of their tensors in files. Mixers and MLPs are folders of src/model; all code asks these rows for
// properties, so that a new style is a row.
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
// MixerKind says how a layer's tokens read other tokens. Each kind is a folder of src/model/mixers.
enum class MixerKind : u8 {
  softmax,  // attention; several heads of queries may share a head of keys and values
  latent,   // as LatentAttention describes
  // A state per head that every token decays and corrects, as GatedDeltaConfig describes.
  gated_delta,
  mamba,  // a state per head that every token decays and adds to, as MambaConfig describes
  none,   // the layer is only an MLP
};
// Each kind is a folder of src/model/mlps; `plain` has both kinds without a gate.
enum class MlpKind : u8 {
  gelu,          // down(gelu(up(x)))
  glu,           // down(g(gate(x)) up(x)), where LayerStyle::gate is g
  experts,       // a few of many small MLPs for each token, as Experts describes
  squared_relu,  // down(relu(up(x))^2)
  none,          // the layer is only a mixer
  branches,      // the sum of experts and the dense MLP beside them: the end of such a layer
};
enum class MlpGate : u8 { silu, gelu };

// Sliding windows of attention, as config.json specifies them.
enum class WindowKind : u8 {
  none,
  every_layer,            // sliding_window
  by_switch,              // sliding_window from layer max_window_layers on, if use_sliding_window is true
  by_layer,               // sliding_window in most layers; those of a regular pattern see all tokens
  every_layer_by_switch,  // sliding_window if use_sliding_window is true
};

// RMS norms of q and k.
enum class QkNormKind : u8 {
  none,
  heads,          // over each head, before the rotation
  whole,          // over all heads together, before the rotation
  rotated_heads,  // over each head, after the rotation
};

// Biases of o, where config.json says whether q, k and v have some.
enum class OutputBias : u8 {
  as_qkv,
  never,
  by_key,  // attention_out_bias
};

// Names within a layer in files, to which ".weight" and ".bias" are added.
struct SoftmaxNames {
  std::string_view q, k, v, o;
  std::string_view qkv;  // in families whose q, k and v are one tensor
  std::string_view q_norm = "self_attn.q_norm", k_norm = "self_attn.k_norm";
};
struct MlpNames {
  std::string_view gate, up, down;
  std::string_view gate_up;  // in families whose gate and up are one tensor
};
// Small matrices of MixerKind::gated_delta, which published quantized models keep as they are.
struct DeltaNames {
  std::string_view rates = "linear_attn.in_proj_b", decays = "linear_attn.in_proj_a";
  std::string_view both = "linear_attn.in_proj_ba";  // in families whose rates and decays are one tensor
};
inline constexpr DeltaNames delta_names;

struct MambaNames {
  std::string_view in, convolution, dt_bias, a_log, skip, norm, out;
};
struct NormNames {
  std::string_view input, mlp;                    // LayerStyle::input_norms
  std::string_view attention_branch, mlp_branch;  // LayerStyle::branch_norms
};

// Names of ModelConfig fields in config.json, and so in the section `model` of a config.
struct ModelKeyNames {
  std::string_view positions, width, layers, heads, inner, norm_epsilon, attention_dropout;
};

struct LayerStyle {
  NormKind norm{};
  PositionKind positions{};
  MixerKind mixer{};
  MlpKind mlp{};  // of layers without experts
  MlpGate gate{};
  bool norm_offset = false;        // RMS norms multiply by 1 + weight
  bool input_norms = true;         // inputs of attention and MLP are normalised
  bool branch_norms = false;       // outputs of attention and MLP are normalised before they are added
  bool norm_casts_last = false;    // RMS norms multiply by the weight before they round to 16 bits, not after
  bool attention_gate = false;     // each head of q has a gate, whose logistic multiplies attention's output
  bool neighbours_rotate = false;  // rotated pairs are neighbouring columns of a head
  bool attention_sinks = false;    // a trained score per head, self_attn.sinks, that takes a share of softmax
  bool value_norms = false;        // heads of v are normalised, without a weight
  bool unit_scores = false;        // scores have the factor 1, whatever the size of heads
  bool last_sees_all = false;      // the last layer has no sliding window, whatever the pattern
  std::string_view output_scale;   // the layer's output is multiplied by this tensor, which is not trained
  bool scaled_embedding = false;   // the embedding is multiplied by the root of the width
  bool shared_key_heads = false;   // config.json has a number of heads of keys and values
  bool all_biases = false;         // every linear layer has a bias, and no key says so
  bool residual_dropout = false;   // sums of the residual stream drop out (ModelConfig::residual_dropout)
  bool residual_init = false;      // matrices of such sums are drawn smaller, by the root of their number
  double norm_epsilon = 0;         // default if config.json has no epsilon
  bool always_tied = false;        // the head has no matrix of its own
  bool matrices_in_out = false;    // [in, out], as transformers' Conv1D; otherwise [out, in]
  NormNames norm_names;
  SoftmaxNames softmax_names;
  MlpNames mlp_names;
  MambaNames mamba_names;
  bool one_part = false;  // a layer is a mixer or an MLP, as LayerKind says, with one norm
  // Names of the embedding and of the last norm in files, after the first part of tensors_path.
  std::string_view embedding_name = "embed_tokens", last_norm_name = "norm";
  std::string_view tensors_path;   // path of layers in files: "h" of "h.0.ln_1.weight"
  std::string_view window_path;    // path of layers in names of windows: "layers" of "layers.0"
  std::string_view layers_path;    // path of layers in transformers: "model.layers" of "model.layers.0"
  std::string_view linear_prefix;  // beginning of the names of linear layers
  std::string_view linear_suffix;  // part of the names of linear layers, mostly the end
  // Tensors that files of weights may have beside the model's own. A name that begins with a dot is a suffix,
  // the others are whole names.
  std::array<std::string_view, 5> extra_tensors{};
  ModelKeyNames keys;
  // Sizes that a config.json must name: transformers has defaults for them, but nobody wants those defaults.
  std::array<std::string_view, 10> required_keys{};
};

inline constexpr LayerStyle gpt2_layers = {
    .norm = NormKind::layer_norm,
    .positions = PositionKind::learned,
    .mixer = MixerKind::softmax,
    .mlp = MlpKind::gelu,
    .all_biases = true,
    .residual_dropout = true,
    .residual_init = true,
    .norm_epsilon = 1e-5,
    .always_tied = true,
    .matrices_in_out = true,
    .norm_names = {.input = "ln_1", .mlp = "ln_2"},
    .softmax_names = {.o = "attn.c_proj", .qkv = "attn.c_attn"},
    .mlp_names = {.up = "mlp.c_fc", .down = "mlp.c_proj"},
    .tensors_path = "h",
    .window_path = "h",
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
    .mixer = MixerKind::softmax,
    .mlp = MlpKind::glu,
    .shared_key_heads = true,
    .norm_epsilon = 1e-6,
    .norm_names = {.input = "input_layernorm", .mlp = "post_attention_layernorm"},
    .softmax_names = {.q = "self_attn.q_proj",
                      .k = "self_attn.k_proj",
                      .v = "self_attn.v_proj",
                      .o = "self_attn.o_proj",
                      .qkv = "self_attn.qkv_proj"},
    .mlp_names = {.gate = "mlp.gate_proj",
                  .up = "mlp.up_proj",
                  .down = "mlp.down_proj",
                  .gate_up = "mlp.gate_up_proj"},
    .tensors_path = "model.layers",
    .window_path = "layers",
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
  style.gate = MlpGate::gelu;
  style.norm_offset = true;
  style.branch_norms = true;
  style.norm_names = {.input = "input_layernorm",
                      .mlp = "pre_feedforward_layernorm",
                      .attention_branch = "post_attention_layernorm",
                      .mlp_branch = "post_feedforward_layernorm"};
  style.scaled_embedding = true;
  return style;
}();

// Gemma 4's layers.
inline constexpr LayerStyle gemma4_layers = [] {
  LayerStyle style = gemma_layers;
  style.norm_offset = false;
  style.norm_casts_last = true;
  style.value_norms = true;
  style.unit_scores = true;
  style.last_sees_all = true;
  style.output_scale = "layer_scalar";
  style.linear_suffix = "_";  // q_proj, per_layer_input_gate
  // Tensors in published files of layers that read other layers' keys and values.
  u32 at = 1;
  for (const std::string_view unused :
       {".self_attn.k_proj.weight", ".self_attn.v_proj.weight", ".self_attn.k_norm.weight"})
    style.extra_tensors[at++] = unused;
  return style;
}();

inline constexpr LayerStyle gpt_oss_layers = [] {
  LayerStyle style = llama_layers;
  style.norm_casts_last = true;
  style.attention_sinks = true;
  return style;
}();

// OLMo's layers have norms of branches only, as have EXAONE 4's.
inline constexpr LayerStyle olmo_layers = [] {
  LayerStyle style = llama_layers;
  style.input_norms = false;
  style.branch_norms = true;
  style.norm_casts_last = true;
  style.norm_names = {.attention_branch = "post_attention_layernorm",
                      .mlp_branch = "post_feedforward_layernorm"};
  return style;
}();

inline constexpr LayerStyle seed_oss_layers = [] {
  LayerStyle style = llama_layers;
  style.residual_dropout = true;
  return style;
}();

inline constexpr LayerStyle hunyuan_layers = [] {
  LayerStyle style = llama_layers;
  style.softmax_names.q_norm = "self_attn.query_layernorm";
  style.softmax_names.k_norm = "self_attn.key_layernorm";
  return style;
}();

inline constexpr LayerStyle ernie_layers = [] {
  LayerStyle style = llama_layers;
  style.neighbours_rotate = true;
  return style;
}();

inline constexpr LayerStyle arcee_layers = [] {
  LayerStyle style = llama_layers;
  style.mlp = MlpKind::squared_relu;
  return style;
}();

// Qwen's hybrids: most layers have a gated delta rule, the others attention with gates.
inline constexpr LayerStyle qwen_hybrid_layers = [] {
  LayerStyle style = llama_layers;
  style.norm_offset = true;
  style.attention_gate = true;
  return style;
}();

// The same without dense MLPs, whose width a config.json need not name.
inline constexpr LayerStyle qwen_hybrid_expert_layers = [] {
  LayerStyle style = qwen_hybrid_layers;
  style.required_keys = {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"};
  return style;
}();

// DeepSeek's latent attention. Its norms within attention have norm_epsilon, whatever config.json says.
inline constexpr LayerStyle deepseek_layers = [] {
  LayerStyle style = llama_layers;
  style.mixer = MixerKind::latent;
  u32 at = 5;  // after those of Llama
  for (const std::string_view key :
       {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"})
    style.required_keys[at++] = key;
  return style;
}();

// Nemotron-H's layers have one norm, and a mixer or an MLP.
inline constexpr LayerStyle nemotron_layers = [] {
  LayerStyle style = llama_layers;
  style.mlp = MlpKind::squared_relu;
  style.norm_casts_last = true;
  style.one_part = true;
  style.norm_epsilon = 1e-5;
  style.norm_names = {.input = "norm", .mlp = "norm"};
  style.softmax_names = {.q = "mixer.q_proj", .k = "mixer.k_proj", .v = "mixer.v_proj", .o = "mixer.o_proj"};
  style.mlp_names = {.up = "mixer.up_proj", .down = "mixer.down_proj"};
  style.mamba_names = {.in = "mixer.in_proj",
                       .convolution = "mixer.conv1d",
                       .dt_bias = "mixer.dt_bias",
                       .a_log = "mixer.A_log",
                       .skip = "mixer.D",
                       .norm = "mixer.norm",
                       .out = "mixer.out_proj"};
  style.embedding_name = "embeddings";
  style.last_norm_name = "norm_f";
  style.tensors_path = "backbone.layers";
  style.keys.norm_epsilon = "layer_norm_epsilon";
  style.required_keys = {"vocab_size", "hidden_size", "num_attention_heads"};
  return style;
}();

// Granite 4's: Mamba-2 or attention, and then an MLP that all tokens use, with experts beside it or not.
inline constexpr LayerStyle granite_hybrid_layers = [] {
  LayerStyle style = llama_layers;
  style.mlp_names = {.down = "shared_mlp.output_linear", .gate_up = "shared_mlp.input_linear"};
  style.mamba_names = {.in = "mamba.in_proj",
                       .convolution = "mamba.conv1d",
                       .dt_bias = "mamba.dt_bias",
                       .a_log = "mamba.A_log",
                       .skip = "mamba.D",
                       .norm = "mamba.norm",
                       .out = "mamba.out_proj"};
  style.linear_suffix = "_";  // in_proj, input_linear
  style.required_keys = {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                         "shared_intermediate_size"};
  return style;
}();

}  // namespace tidepool
