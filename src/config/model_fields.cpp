// Keys of section `model`, named as in config.json of each family.
#include "config/family_bits.h"
#include "config/schema.h"

namespace tidepool {
namespace {

using namespace family_sets;

constexpr auto family_names = [] {
  std::array<std::string_view, family_count> names;
  for (u32 f = 0; f < family_count; ++f) names[f] = families[f].name;
  return names;
}();

// Turns a captureless lambda into a function pointer, so that the variant can tell its type.
#define REF(path) +[](Config& c) { return &c.path; }
#define CHOICE(path) +[](Config& c) { return ChoiceRef{reinterpret_cast<u8*>(&c.path)}; }

constexpr Range width = {1, 16777216};
constexpr u64 by_rule = 0;

const std::array model_table = std::to_array<Field>({
    {.section = "model",
     .key = "directory",
     .ref = REF(model_directory),
     .help = "Model directory (Hugging Face) to start from: its weights and its config.json, whose values "
             "the keys here override. `model: PATH` for short"},
    {.section = "model",
     .key = "model_type",
     .ref = CHOICE(model.family),
     .help = "Family of the model; each family has the keys of its own config.json",
     .choices = family_names},
    {.section = "model",
     .key = "vocab_size",
     .ref = REF(model.vocab_size),
     .help = "Tokens in the vocabulary; text whose bytes are tokens needs 256",
     .unit = "tokens",
     .range = width},
    {.section = "model",
     .key = "n_positions",
     .ref = REF(model.positions),
     .help = "Longest sequence the model can see",
     .unit = "tokens",
     .range = width,
     .alias = "n_ctx",
     .families = learned},
    {.section = "model",
     .key = "n_embd",
     .ref = REF(model.width),
     .help = "Width of the residual stream",
     .range = {1, 1048576},
     .families = learned},
    {.section = "model",
     .key = "n_layer",
     .ref = REF(model.layers),
     .help = "Transformer layers",
     .unit = "layers",
     .range = {1, 1024},
     .families = learned},
    {.section = "model",
     .key = "n_head",
     .ref = REF(model.attention.heads),
     .help = "Attention heads; must divide n_embd",
     .unit = "heads",
     .range = {1, 65536},
     .families = learned},
    {.section = "model",
     .key = "n_inner",
     .ref = REF(model.mlp.inner_given),
     .help = "Width inside the MLP; auto is 4 * n_embd",
     .range = {0, 16777216},
     .automatic = by_rule,
     .families = learned},
    {.section = "model",
     .key = "layer_norm_epsilon",
     .ref = REF(model.norm_epsilon),
     .help = "Added to the variance in layer norms; nemotron_h: to the mean square in RMS norms",
     .range = {1e-12, 1},
     .families = layer_norm_names},
    {.section = "model",
     .key = "max_position_embeddings",
     .ref = REF(model.positions),
     .help = "Longest sequence the model can see",
     .unit = "tokens",
     .range = width,
     .families = rotary},
    {.section = "model",
     .key = "hidden_size",
     .ref = REF(model.width),
     .help = "Width of the residual stream",
     .range = {1, 1048576},
     .families = rotary},
    {.section = "model",
     .key = "num_hidden_layers",
     .ref = REF(model.layers),
     .help = "Transformer layers",
     .unit = "layers",
     .range = {1, 1024},
     .families = rotary},
    {.section = "model",
     .key = "num_attention_heads",
     .ref = REF(model.attention.heads),
     .help = "Heads of queries",
     .unit = "heads",
     .range = {1, 65536},
     .families = rotary},
    {.section = "model",
     .key = "num_key_value_heads",
     .ref = REF(model.attention.kv_heads_given),
     .help = "Heads of keys and values; must divide num_attention_heads; auto: as many",
     .unit = "heads",
     .range = {0, 65536},
     .automatic = by_rule,
     .families = rotary},
    {.section = "model",
     .key = "head_dim",
     .ref = REF(model.softmax.head_size_given),
     .help = "Width of a head; auto is hidden_size / num_attention_heads",
     .range = {0, 65536},
     .automatic = by_rule,
     .families = rotary & ~latent},
    {.section = "model",
     .key = "intermediate_size",
     .ref = REF(model.mlp.inner_given),
     .help =
         "Width inside the MLP (mixtral, gpt_oss, minimax_m2, granitemoehybrid: of an expert); auto: 8/3 of "
         "hidden_size, rounded up to "
         "a multiple of 256; arcee: 4 times hidden_size",
     .range = {0, 16777216},
     .automatic = by_rule,
     .families = rotary & ~only_experts},
    {.section = "model",
     .key = "rms_norm_eps",
     .ref = REF(model.norm_epsilon),
     .help = "Added to the mean square in RMS norms",
     .range = {1e-12, 1},
     .families = rotary & ~layer_norm_names},
    {.section = "model",
     .key = "sliding_window",
     .ref = REF(model.softmax.sliding_window),
     .help = "Tokens that a token sees at most, itself included; auto: all",
     .unit = "tokens",
     .range = {0, 16777216},
     .automatic = by_rule,
     .families = windowed},
    {.section = "model",
     .key = "use_sliding_window",
     .ref = REF(model.softmax.use_sliding_window),
     .help = "If false, sliding_window has no effect",
     .families = switched},
    {.section = "model",
     .key = "max_window_layers",
     .ref = REF(model.softmax.max_window_layers),
     .help = "Layers before this one see all tokens",
     .unit = "layers",
     .range = {0, 1024},
     .families = switched_from_a_layer},
    {.section = "model",
     .key = "sliding_window_pattern",
     .ref = REF(model.softmax.sliding_window_pattern),
     .help =
         "In each group of this many layers, the last sees all tokens; the others have sliding_window "
         "and, in gemma3_text and gemma4_text, rope_local_base_freq; gemma4_text: the last layer of all sees "
         "all tokens",
     .unit = "layers",
     .range = {1, 1025},
     .families = layered},
    {.section = "model",
     .key = "tie_word_embeddings",
     .ref = REF(model.tied),
     .help = "Use the embedding's matrix as the head's matrix; gemma2, gemma3_text, gemma4_text, smollm3, "
             "ernie4_5: true unless given",
     .families = rotary},
    {.section = "model",
     .key = "use_qk_norm",
     .ref = REF(model.softmax.qk_norm),
     .help = "Norms over each head of q and k, before the rotation",
     .families = norm_switched},
    {.section = "model",
     .key = "attention_bias",
     .ref = REF(model.attention.bias),
     .help = "Biases of q, k, v and o; glm4_moe, seed_oss: of q, k and v; gpt_oss, seed_oss: true unless "
             "given; latent "
             "attention: of o "
             "and of what makes latent values",
     .families = attention_biases},
    {.section = "model",
     .key = "attention_out_bias",
     .ref = REF(model.attention.output_bias),
     .help = "Bias of o",
     .families = output_biases},
    {.section = "model",
     .key = "mlp_bias",
     .ref = REF(model.mlp.bias),
     .help = "Biases of the MLP's matrices",
     .families = mlp_biases},
    {.section = "model",
     .key = "query_pre_attn_scalar",
     .ref = REF(model.softmax.scale_given),
     .help = "Attention scores are divided by the root of this; auto: head_dim",
     .range = {0, 16777216},
     .automatic = by_rule,
     .families = scaled_attention},
    {.section = "model",
     .key = "attn_logit_softcapping",
     .ref = REF(model.softmax.soft_cap),
     .help = "Cap of attention scores s, which count as cap * tanh(s / cap); auto: none",
     .range = {1e-3, 1e9},
     .automatic = by_rule,
     .families = capped_attention},
    {.section = "model",
     .key = "final_logit_softcapping",
     .ref = REF(model.final_soft_cap),
     .help = "Cap of logits z, which count as cap * tanh(z / cap); auto: none",
     .range = {1e-3, 1e9},
     .automatic = by_rule,
     .families = capped_logits},
    {.section = "model",
     .key = "attention_multiplier",
     .ref = REF(model.softmax.score_factor),
     .help = "Factor on attention scores",
     .range = {1e-9, 1e9},
     .families = with_factors},
    {.section = "model",
     .key = "embedding_multiplier",
     .ref = REF(model.factors.embedding),
     .help = "Factor on the embedding",
     .range = {1e-9, 1e9},
     .families = with_factors},
    {.section = "model",
     .key = "residual_multiplier",
     .ref = REF(model.factors.residual),
     .help = "Factor on outputs of attention and MLPs before they are added to the residual stream",
     .range = {1e-9, 1e9},
     .families = with_factors},
    {.section = "model",
     .key = "logits_scaling",
     .ref = REF(model.factors.logits_divisor),
     .help = "Logits are divided by this",
     .range = {1e-9, 1e9},
     .families = with_factors},
    {.section = "model",
     .key = "quantization",
     .ref = CHOICE(model.quantization.packing),
     .help = "Format of a published model's matrices, to plan without its files; a directory's config.json "
             "says it in quantization_config",
     .choices = packing_names,
     .families = rotary},
    {.section = "model",
     .key = "initializer_range",
     .ref = REF(model.initializer_range),
     .help = "Standard deviation of initial weights",
     .range = {0, 10}},
    {.section = "model",
     .key = "embd_pdrop",
     .ref = REF(model.embedding_dropout),
     .help = "Dropout after the embedding",
     .range = probability,
     .families = learned},
    {.section = "model",
     .key = "attn_pdrop",
     .ref = REF(model.attention.dropout),
     .help = "Dropout of attention weights",
     .range = probability,
     .families = learned},
    {.section = "model",
     .key = "resid_pdrop",
     .ref = REF(model.residual_dropout),
     .help = "Dropout before each residual sum",
     .range = probability,
     .families = learned},
    {.section = "model",
     .key = "residual_dropout",
     .ref = REF(model.residual_dropout),
     .help = "Dropout before each residual sum",
     .range = probability,
     .families = rotary & residual_dropout},
    {.section = "model",
     .key = "attention_dropout",
     .ref = REF(model.attention.dropout),
     .help = "Dropout of attention weights",
     .range = probability,
     .families = rotary},
});

#undef REF
#undef CHOICE

}  // namespace

std::span<const Field> model_fields() {
  static const std::vector<Field> all = [] {
    std::vector<Field> fields(model_table.begin(), model_table.end());
    fields.insert(fields.end(), rope_fields().begin(), rope_fields().end());
    fields.insert(fields.end(), layer_size_fields().begin(), layer_size_fields().end());
    fields.insert(fields.end(), delta_fields().begin(), delta_fields().end());
    fields.insert(fields.end(), mamba_fields().begin(), mamba_fields().end());
    fields.insert(fields.end(), expert_fields().begin(), expert_fields().end());
    return fields;
  }();
  return all;
}

bool applies(const Field& field, Family family) {
  return field.families == 0 || (field.families & bit(family)) != 0;
}

Family example_family(const Field& field) {
  for (u32 f = 0; f < family_count; ++f)
    if (applies(field, static_cast<Family>(f))) return static_cast<Family>(f);
  return ModelConfig().family;
}

std::string families_text(const Field& field) {
  if (field.families == 0) return "";
  if (field.families == rotary) return "all but gpt2";
  std::string out;
  for (u32 f = 0; f < family_count; ++f) {
    if ((field.families >> f & 1) == 0) continue;
    const bool last = field.families >> f == 1;
    out += (out.empty() ? "" : last ? " and " : ", ") + std::string(families[f].name);
  }
  return out;
}

}  // namespace tidepool
