// What a model is, before any batch or budget: its family, its sizes, and which of the family's options it
// takes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

enum class Family : u8 { gpt2, llama, mistral, qwen2, qwen3 };
inline constexpr u32 family_count = 5;

// Which layer a family's blocks are: model/layer_*.cpp (gpt2), model/llama_*.cpp (llama).
enum class LayerStyle : u8 { gpt2, llama };

// All that tells one family from another of its style. Its keys of config.json are in the schema of
// src/config.
struct FamilyTraits {
  std::string_view name;          // `model_type` in config.json
  std::string_view architecture;  // the class that transformers makes of it
  LayerStyle style{};
  bool qkv_bias = false;  // q, k and v have biases, and o has none
  bool qk_norm = false;   // RMSNorm over each head of q and k, before the rotation
};
inline constexpr std::array<FamilyTraits, family_count> families = {{
    {"gpt2", "GPT2LMHeadModel", LayerStyle::gpt2},
    {"llama", "LlamaForCausalLM", LayerStyle::llama},
    {"mistral", "MistralForCausalLM", LayerStyle::llama},
    {"qwen2", "Qwen2ForCausalLM", LayerStyle::llama, true},
    {"qwen3", "Qwen3ForCausalLM", LayerStyle::llama, false, true},
}};
constexpr const FamilyTraits& traits(Family family) { return families[static_cast<u32>(family)]; }
constexpr std::string_view name(Family family) { return traits(family).name; }
constexpr LayerStyle style(Family family) { return traits(family).style; }

// How the angles of the rotary embedding fall with the pair's number; names as in config.json.
enum class RopeType : u8 {
  plain,   // "default": theta^(-2i / D)
  linear,  // all of them divided by `factor`
  llama3,  // the slow ones divided by `factor`, the fast ones not, and a ramp between
};
inline constexpr std::array<std::string_view, 3> rope_type_names = {"default", "linear", "llama3"};

struct Rope {
  RopeType type = RopeType::plain;
  double theta = 10000.0;
  double factor = 1.0;           // linear, llama3
  double low_freq_factor = 1.0;  // llama3, as below
  double high_freq_factor = 4.0;
  u32 original_positions = 0;  // 0: ModelConfig::positions

  bool operator==(const Rope&) const = default;
};

// Zero in a field that ends in `_given` means that the family's own rule gives the number.
struct ModelConfig {
  Family family = Family::gpt2;
  u32 vocab_size = 256;
  u32 positions = 1024;  // the longest sequence
  u32 width = 768;       // of the residual stream
  u32 layers = 12;
  u32 heads = 12;           // of queries
  u32 kv_heads_given = 0;   // 0: as many as heads
  u32 head_size_given = 0;  // 0: width / heads
  u32 inner_given = 0;      // 0: 4 width (GPT-2), 8/3 width rounded up to 256s (the others)
  double norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  double embedding_dropout = 0.0;  // GPT-2 only
  double attention_dropout = 0.0;
  double residual_dropout = 0.0;  // GPT-2 only
  // All below not GPT-2, whose head is tied and which has biases everywhere.
  bool tied = true;             // the head's matrix is the embedding's
  bool attention_bias = false;  // of q, k, v and o
  bool mlp_bias = false;        // of gate, up and down
  Rope rope;
  u32 sliding_window = 0;           // Mistral, Qwen: as config.json has it; 0: none
  bool use_sliding_window = false;  // Qwen: whether sliding_window counts

  u32 inner() const;
  u32 kv_heads() const { return kv_heads_given != 0 ? kv_heads_given : heads; }
  u32 head_size() const { return head_size_given != 0 ? head_size_given : width / heads; }
  u32 query_width() const { return heads * head_size(); }
  u32 qkv_width() const { return (heads + 2 * kv_heads()) * head_size(); }
  bool qkv_bias() const { return attention_bias || traits(family).qkv_bias; }
  bool qk_norm() const { return traits(family).qk_norm; }

  // Tokens that a token of some layer sees at most, itself included; 0: all. Sequences no longer than the
  // window are seen whole, so full attention is the same there, and longer ones are refused.
  u32 attention_window() const;

  bool operator==(const ModelConfig&) const = default;
};

// A family's model where nothing is said of it.
ModelConfig default_model(Family);

// What config.json, and so the section `model` of a config, calls the fields of a ModelConfig.
struct ModelKeyNames {
  std::string_view positions, width, layers, heads, inner, norm_epsilon, attention_dropout;
};
const ModelKeyNames& key_names(Family);

// Heads are at most this wide: attention's kernels hold a row of one in registers.
inline constexpr u32 model_head_size_max = 256;
// What no model of these sizes can be, with the key to point at.
struct ModelFault {
  std::string_view key;
  std::string reason;
};
std::optional<ModelFault> check_model(const ModelConfig&);

}  // namespace tidepool
