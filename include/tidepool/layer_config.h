// Configs of mixers and MLPs, a struct for each. Zero in a field that ends in `_given` means that the
// family's rule gives the number.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tidepool {

// Scaling of the rotary embedding's angles with the number of the pair; names as in config.json.
enum class RopeType : u8 {
  plain,     // "default": theta^(-2i / D)
  linear,    // all angles divided by `factor`
  llama3,    // slow angles divided by `factor`, fast angles unchanged, a ramp between
  yarn,      // the same with another ramp, and a factor on cosine and sine
  dynamic,   // theta grows with sequences that are longer than ModelConfig::positions
  longrope,  // each angle divided by a number of its own, and a factor on cosine and sine
  // A share of a head's pairs has theta^(-2i / D) / factor, and the others do not turn; element i rotates
  // with element i + D / 2 of the whole head.
  proportional,
};
inline constexpr std::array<std::string_view, 7> rope_type_names = {
    "default", "linear", "llama3", "yarn", "dynamic", "longrope", "proportional"};

struct Rope {
  RopeType type = RopeType::plain;
  double theta = 10000.0;
  double factor = 1.0;           // of all types but plain; longrope: for the factor on cosine and sine alone
  double low_freq_factor = 1.0;  // llama3, as is high_freq_factor
  double high_freq_factor = 4.0;
  u32 original_positions = 0;   // 0: ModelConfig::positions
  double partial_factor = 1.0;  // share of a head that is rotated, from its start; proportional: of its pairs
  // YaRN only. Angles with more than beta_fast turns in the original length are unchanged; those with fewer
  // than beta_slow are divided by `factor`.
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;                   // the ends of the ramp are rounded outwards to whole pairs
  double attention_factor = 0;            // also longrope: factor on cosine and sine; 0: computed
  double mscale = 0, mscale_all_dim = 0;  // 0: not given
  double alpha = 0;                       // dynamic; not 0: theta grows with this, and not with sequences
  double query_growth = 0;                // q times 1 + this log(1 + floor(position / original_positions))
  // longrope only: for each pair, for sequences of at most original_positions, and for longer ones.
  std::vector<double> short_factor, long_factor;

  // RETURNS: the factor on cosine and sine; 1 unless the type is yarn or longrope.
  double rotary_factor() const;
  bool operator==(const Rope&) const = default;
};

// Parts of a layer in families whose config.json names them layer by layer. Letters are those of Nemotron-H's
// hybrid_override_pattern.
enum class LayerKind : char {
  mamba = 'M',
  attention = '*',
  mlp = '-',  // LayerStyle::one_part only, as `experts`
  experts = 'E',
};

// Read by every mixer that is attention.
struct AttentionConfig {
  u32 heads = 12;          // of queries
  u32 kv_heads_given = 0;  // 0: as many
  bool bias = false;  // q, k and v have biases, and o as ModelConfig::output_bias says; latent: o and what
                      // makes latents. GPT-2 always has them
  bool output_bias = false;  // OutputBias::by_key
  double dropout = 0.0;      // of attention's weights
  Rope rope;

  u32 kv_heads() const { return kv_heads_given != 0 ? kv_heads_given : heads; }
  bool operator==(const AttentionConfig&) const = default;
};

// Names as in config.json.
enum class PositionEmbedding : u8 { nope, rope };
inline constexpr std::array<std::string_view, 2> position_embedding_names = {"nope", "rope"};

// MixerKind::softmax.
struct SoftmaxConfig {
  u32 head_size_given = 0;          // 0: width / heads
  bool qk_norm = true;              // false: q and k have no norms, where config.json has a say
  u32 scale_given = 0;              // Gemma: scores are divided by its root; 0: the size of a head
  double score_factor = 0;          // on scores; 0: by the size
  double soft_cap = 0;              // of scores, after their factor; 0: none
  u32 no_rope_interval = 0;         // every so many layers, one does not rotate q and k; 0: all rotate
  u32 sliding_window = 0;           // value in config.json; 0: none
  bool use_sliding_window = false;  // Qwen: true if sliding_window is used
  u32 max_window_layers = 0;        // Qwen: layers before this one see all tokens
  u32 sliding_window_pattern = 6;   // Gemma, gpt-oss: every so many layers, one sees all tokens
  double local_rope_theta = 10000;  // Gemma: of layers with a window, whose angles are not scaled
  // Gemma 4: of layers that see all tokens, if others have a window.
  u32 global_head_size = 0;      // 0: as in the others
  u32 global_kv_heads = 0;       // only with keys_are_values; 0: as in the others
  bool keys_are_values = false;  // v is k before its norm and rotation
  // Gemma 4: so many layers, the last ones, read k and v of the last layer before them that is of their kind.
  u32 shared_layers = 0;
  PositionEmbedding positions = PositionEmbedding::rope;

  bool operator==(const SoftmaxConfig&) const = default;
};

// MixerKind::latent.
// LatentAttention: q, k and v are made from a few latent values per token (DeepSeek-AI, arXiv:2405.04434). A
// head of q and k has `qk_nope_head_dim` columns without positions, then `qk_rope_head_dim` columns with
// rotary positions; the rotated columns of k are the same for all heads.
struct LatentAttention {
  u32 q_lora_rank = 0;   // width of the latent of q; 0: q is made from the input in one product
  u32 kv_lora_rank = 0;  // width of the latent of k and v; 0: attention is not latent
  u32 qk_nope_head_dim = 0;
  u32 qk_rope_head_dim = 0;
  u32 v_head_dim = 0;       // columns of a head of v
  bool interleaved = true;  // column 2i is rotated with 2i + 1; otherwise i with i + qk_rope_head_dim / 2

  bool operator==(const LatentAttention&) const = default;
};

// MixerKind::gated_delta (Yang et al., arXiv:2412.06464). Names in config.json begin with linear_.
struct GatedDeltaConfig {
  u32 taps = 4;  // linear_conv_kernel_dim: tokens that the convolution of q, k and v sees
  u32 key_heads = 16, value_heads = 32;
  u32 key_head_dim = 128, value_head_dim = 128;
  u32 attention_interval = 4;  // every so many layers, the last has attention instead

  bool operator==(const GatedDeltaConfig&) const = default;
};

// MixerKind::mamba: Mamba-2 (Dao and Gu, arXiv:2405.21060).
struct MambaConfig {
  u32 heads = 128, head_dim = 64;
  u32 groups = 8;        // of heads that share B and C
  u32 state_size = 128;  // columns of B and C
  u32 taps = 4;          // tokens that the convolution sees
  bool convolution_bias = true;
  bool bias = false;  // of the projections
  // Bounds of the steps: the least in families that have only this, or both. Empty: none.
  double least_step = 0.001;
  std::vector<double> step_limits;

  u32 inner() const { return heads * head_dim; }
  bool operator==(const MambaConfig&) const = default;
};

// Columns that each layer reads beside the residual stream: the token's row in an embedding of its own, and a
// product of the residual stream's first values (Gemma 4).
struct LayerInputs {
  u32 width = 0;             // P, of a layer; 0: there are none
  u32 vocab_size_given = 0;  // rows of that embedding; 0: ModelConfig::vocab_size

  bool on() const { return width != 0; }
  bool operator==(const LayerInputs&) const = default;
};

// Factors within the model; 1: no factor.
struct Factors {
  double embedding = 1;
  double residual = 1;        // on outputs of mixers and MLPs, before they are added to the residual stream
  double logits_divisor = 1;  // of the head over the vocabulary

  bool operator==(const Factors&) const = default;
};

// Every MlpKind but experts.
struct MlpConfig {
  u32 inner_given = 0;       // 0: 8/3 width rounded up to 256s (glu), 4 width (the others)
  bool bias = false;         // of all its matrices. GPT-2 always has them
  bool double_wide = false;  // twice as wide in layers that read other layers' k and v

  bool operator==(const MlpConfig&) const = default;
};

}  // namespace tidepool
