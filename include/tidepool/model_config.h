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
#include "tidepool/families.h"
#include "tidepool/layer_config.h"
#include "tidepool/layer_style.h"
#include "tidepool/packing.h"

namespace tidepool {

// Head of a model that classifies sequences or tokens, in the place of the head over the vocabulary: a matrix
// "score".
struct ScoreHead {
  u32 labels = 0;                  // rows of the matrix; 0: the head is over the vocabulary
  std::vector<std::string> names;  // of the labels; empty: they have only numbers
  bool of_tokens = false;          // every token has a label, and the matrix a bias
  double dropout = 0;              // of the head's input

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
  MambaConfig mamba;
  // A letter of LayerKind for each layer, in families that have them; empty: by the family's rule.
  std::string layer_kinds;
  LayerInputs layer_inputs;
  MlpConfig mlp;
  Experts experts;
  Factors factors;
  double norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  double final_soft_cap = 0;       // of the logits over the vocabulary; 0: none
  double embedding_dropout = 0.0;  // GPT-2 only
  double residual_dropout = 0.0;   // LayerStyle::residual_dropout
  bool tied = true;                // the head's matrix is the embedding's
  Quantization quantization;       // of the layers' matrices, in files and in memory
  ScoreHead score;                 // a classifier's

  // Factor on logits.
  double logits_factor() const { return score.on() ? 1 : 1 / factors.logits_divisor; }
  // Soft cap of logits; 0: none.
  double logits_cap() const { return score.on() ? 0 : final_soft_cap; }
  // Rows of the head's matrix.
  u32 head_rows() const { return score.on() ? score.labels : vocab_size; }
  // True if the head's matrix is the embedding's.
  bool head_is_embedding() const { return tied && !score.on(); }
  // Columns of the inputs of all layers, and rows of their embedding.
  u32 layer_inputs_width() const { return layers * layer_inputs.width; }
  u32 layer_inputs_rows() const {
    return layer_inputs.vocab_size_given != 0 ? layer_inputs.vocab_size_given : vocab_size;
  }
  u32 inner() const;
  // Width inside the MLP of layers without experts.
  u32 dense_inner() const {
    const ExpertTraits* of_experts = traits(family).experts;
    return of_experts != nullptr && of_experts->dense_beside ? experts.shared_width : inner();
  }
  u32 dense_inner(u32 layer) const { return (mlp.double_wide && reads_keys(layer) ? 2 : 1) * dense_inner(); }
  u32 kv_heads() const { return attention.kv_heads(); }
  // Columns of a head of q and k.
  u32 head_size() const {
    if (latent.kv_lora_rank != 0) return latent.qk_nope_head_dim + latent.qk_rope_head_dim;
    return softmax.head_size_given != 0 ? softmax.head_size_given : width / attention.heads;
  }
  u32 query_width() const { return attention.heads * head_size(); }
  // RETURNS: true if the layer sees all tokens, in a family where others have a sliding window.
  bool is_global(u32 layer) const { return traits(family).window == WindowKind::by_layer && !slides(layer); }
  // The same of a layer, where layers that see all tokens may differ from the others.
  u32 head_size(u32 layer) const {
    return is_global(layer) && softmax.global_head_size != 0 ? softmax.global_head_size : head_size();
  }
  bool keys_are_values(u32 layer) const {
    return softmax.keys_are_values && is_global(layer) && !reads_keys(layer);
  }
  u32 kv_heads(u32 layer) const {
    const bool own = softmax.keys_are_values && is_global(layer) && softmax.global_kv_heads != 0;
    return own ? softmax.global_kv_heads : kv_heads();
  }
  // RETURNS: true if the layer has no k and v of its own, but reads those of layer keys_of().
  bool reads_keys(u32 layer) const { return layer + softmax.shared_layers >= layers; }
  // RETURNS: the last layer of this one's kind that has k and v; `none` if there is none.
  u32 keys_of(u32 layer) const;
  // RETURNS: true if another layer reads its k and v.
  bool gives_keys(u32 layer) const;
  u32 query_width(u32 layer) const { return attention.heads * head_size(layer); }
  u32 key_width(u32 layer) const { return kv_heads(layer) * head_size(layer); }
  u32 qkv_width(u32 layer) const { return query_width(layer) + 2 * key_width(layer); }
  // Columns of the product that makes q, k and v, and the gates of q's heads if they have some; without v if
  // it is k, and of q alone if k and v are another layer's.
  u32 qkv_product_width(u32 layer) const {
    if (reads_keys(layer)) return query_width(layer);
    const u32 gates = attention_gate() ? query_width(layer) : 0;
    return qkv_width(layer) + gates - (keys_are_values(layer) ? key_width(layer) : 0);
  }
  // False if the rows of that product have other columns than q, k and v.
  bool product_is_qkv(u32 layer) const {
    return !attention_gate() && !keys_are_values(layer) && !reads_keys(layer);
  }
  bool attention_gate() const { return style(family).attention_gate; }
  u32 attention_scale_size() const { return softmax.scale_given != 0 ? softmax.scale_given : head_size(); }
  // Factor on attention's scores.
  double attention_scale() const;
  // The longest sequence that positions allow: with dynamic angles longer than `positions`.
  u32 longest_sequence() const;
  // Columns of a head that the rotation has. In Gemma 4 all: proportional angles of some pairs are 0, and
  // plain ones know no share.
  u32 rotary_size() const { return rotary_share_of(head_size()); }
  u32 rotary_size(u32 layer) const { return rotary_share_of(head_size(layer)); }
  bool has_experts(u32 layer) const;
  // RETURNS: true if the layer's experts are a branch beside a dense MLP.
  bool has_branches(u32 layer) const {
    return has_experts(layer) && traits(family).experts->tensors.are_branch();
  }
  // REQUIRES: FamilyTraits::layer_kinds is not empty.
  LayerKind layer_kind(u32 layer) const {
    const std::string_view kinds = layer_kinds.empty() ? traits(family).layer_kinds : layer_kinds;
    return static_cast<LayerKind>(kinds[layer % kinds.size()]);
  }
  MixerKind mixer_kind(u32 layer) const;
  MlpKind mlp_kind(u32 layer) const;
  u32 expert_inner() const { return experts.inner_given != 0 ? experts.inner_given : inner(); }
  u32 shared_inner() const {
    return experts.shared_width != 0 ? experts.shared_width : experts.shared * expert_inner();
  }
  // The same of a layer, whose dense MLP it may be.
  u32 shared_inner(u32 layer) const { return has_branches(layer) ? dense_inner(layer) : shared_inner(); }
  // True if the MLP that every token uses has a gate.
  bool shared_gate() const {
    return shared_inner() != 0 && !traits(family).experts->tensors.shared_gate.empty();
  }
  bool qkv_bias() const { return attention.bias || traits(family).qkv_bias; }
  bool output_bias() const {
    const OutputBias kind = traits(family).output_bias;
    return kind == OutputBias::as_qkv ? attention.bias : kind == OutputBias::by_key && attention.output_bias;
  }
  QkNormKind qk_norm() const { return softmax.qk_norm ? traits(family).qk_norm : QkNormKind::none; }
  // RETURNS: true if the family has layers with and without a sliding window, and this layer has one.
  bool slides(u32 layer) const {
    if (style(family).last_sees_all && layer + 1 == layers) return false;
    return traits(family).window == WindowKind::by_layer && (layer + 1) % softmax.sliding_window_pattern != 0;
  }

  // RETURNS: true if the layer rotates q and k, in families with rotary positions.
  bool rotates(u32 layer) const {
    if (softmax.positions == PositionEmbedding::nope) return false;
    if (traits(family).windows_rotate && softmax.sliding_window != 0) return slides(layer);
    return softmax.no_rope_interval == 0 || (layer + 1) % softmax.no_rope_interval != 0;
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

 private:
  u32 rotary_share_of(u32 head_columns) const {
    if (latent.kv_lora_rank != 0) return latent.qk_rope_head_dim;
    if (traits(family).global_sizes_key) return head_columns;
    return static_cast<u32>(head_columns * attention.rope.partial_factor);
  }
};

// RETURNS: the longest sequence and the keys that give it, for people.
std::string longest_sequence_text(const ModelConfig&);

// RETURNS: the family's model with default sizes.
ModelConfig default_model(Family);

// Widest head: the attention kernels hold one row of a head in registers.
inline constexpr u32 model_head_size_max = 512;
// Widest head of a gated delta rule, and of Mamba-2.
inline constexpr u32 model_state_head_size_max = 256;
// Longest convolution of a gated delta rule, and of Mamba-2.
inline constexpr u32 model_taps_max = 8;
// ModelFault says why no model can have these sizes, and names the key to change.
struct ModelFault {
  ModelFault(std::string_view of_key, std::string why) : key(of_key), reason(std::move(why)) {}

  std::string key, reason;
};
std::optional<ModelFault> check_model(const ModelConfig&);

}  // namespace tidepool
