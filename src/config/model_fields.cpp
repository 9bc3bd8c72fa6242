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
     .help = "Model directory (Hugging Face) to start from: its config.json, then the keys here; and its "
             "weights. `model: PATH` for short"},
    {.section = "model",
     .key = "model_type",
     .ref = CHOICE(model.family),
     .help = "Family of the model; each has the keys of its own config.json",
     .choices = family_names},
    {.section = "model",
     .key = "vocab_size",
     .ref = REF(model.vocab_size),
     .help = "Tokens in the vocabulary; bytes of text need 256",
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
     .ref = REF(model.heads),
     .help = "Attention heads; must divide n_embd",
     .unit = "heads",
     .range = {1, 65536},
     .families = learned},
    {.section = "model",
     .key = "n_inner",
     .ref = REF(model.inner_given),
     .help = "Width inside the MLP; auto is 4 * n_embd",
     .range = {0, 16777216},
     .automatic = by_rule,
     .families = learned},
    {.section = "model",
     .key = "layer_norm_epsilon",
     .ref = REF(model.norm_epsilon),
     .help = "Added to the variance in layer norms",
     .range = {1e-12, 1},
     .families = learned},
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
     .ref = REF(model.heads),
     .help = "Heads of queries",
     .unit = "heads",
     .range = {1, 65536},
     .families = rotary},
    {.section = "model",
     .key = "num_key_value_heads",
     .ref = REF(model.kv_heads_given),
     .help = "Heads of keys and values, which must divide those of queries; auto is as many",
     .unit = "heads",
     .range = {0, 65536},
     .automatic = by_rule,
     .families = rotary},
    {.section = "model",
     .key = "head_dim",
     .ref = REF(model.head_size_given),
     .help = "Width of a head; auto is hidden_size / num_attention_heads",
     .range = {0, 65536},
     .automatic = by_rule,
     .families = rotary},
    {.section = "model",
     .key = "intermediate_size",
     .ref = REF(model.inner_given),
     .help = "Width inside the MLP; auto is 8/3 of hidden_size, rounded up to 256s",
     .range = {0, 16777216},
     .automatic = by_rule,
     .families = rotary},
    {.section = "model",
     .key = "rms_norm_eps",
     .ref = REF(model.norm_epsilon),
     .help = "Added to the mean square in RMS norms",
     .range = {1e-12, 1},
     .families = rotary},
    {.section = "model",
     .key = "sliding_window",
     .ref = REF(model.sliding_window),
     .help = "Tokens that a token sees at most, itself included; auto is all. Sequences up to this long are "
             "trained, with full attention, which is the same there",
     .unit = "tokens",
     .range = {0, 16777216},
     .automatic = by_rule,
     .families = windowed},
    {.section = "model",
     .key = "use_sliding_window",
     .ref = REF(model.use_sliding_window),
     .help = "Whether sliding_window counts",
     .families = switched},
    {.section = "model",
     .key = "tie_word_embeddings",
     .ref = REF(model.tied),
     .help = "The head's matrix is the embedding's",
     .families = rotary},
    {.section = "model",
     .key = "attention_bias",
     .ref = REF(model.attention_bias),
     .help = "Biases of q, k, v and o",
     .families = attention_biases},
    {.section = "model",
     .key = "mlp_bias",
     .ref = REF(model.mlp_bias),
     .help = "Biases of gate, up and down",
     .families = mlp_biases},
    {.section = "model",
     .key = "rope_parameters.rope_theta",
     .ref = REF(model.rope.theta),
     .help = "Base of the rotary embedding's angles",
     .range = {1, 1e15},
     .alias = "rope_theta",
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.partial_rotary_factor",
     .ref = REF(model.rope.partial_factor),
     .help = "Share of each head that is turned, from its start",
     .range = {0, 1},
     .alias = "partial_rotary_factor",
     .families = partly_turned},
    {.section = "model",
     .key = "rope_parameters.rope_type",
     .ref = CHOICE(model.rope.type),
     .help = "How the angles are scaled for sequences longer than trained before",
     .choices = rope_type_names,
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.factor",
     .ref = REF(model.rope.factor),
     .help = "linear, llama3: how many times longer",
     .range = {1, 1e9},
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.low_freq_factor",
     .ref = REF(model.rope.low_freq_factor),
     .help = "llama3: angles with fewer turns than this in the original length are scaled whole",
     .range = {0, 1e9},
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.high_freq_factor",
     .ref = REF(model.rope.high_freq_factor),
     .help = "llama3: angles with more turns than this are not scaled",
     .range = {0, 1e9},
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.original_max_position_embeddings",
     .ref = REF(model.rope.original_positions),
     .help = "llama3: the original length; auto is max_position_embeddings",
     .unit = "tokens",
     .range = {0, 16777216},
     .automatic = by_rule,
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
     .ref = REF(model.attention_dropout),
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
     .key = "attention_dropout",
     .ref = REF(model.attention_dropout),
     .help = "Dropout of attention weights",
     .range = probability,
     .families = rotary},
});

#undef REF
#undef CHOICE

}  // namespace

std::span<const Field> model_fields() { return model_table; }

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
  for (u32 f = 0; f < family_count; ++f)
    if ((field.families >> f & 1) != 0) out += (out.empty() ? "" : " and ") + std::string(families[f].name);
  return out;
}

}  // namespace tidepool
