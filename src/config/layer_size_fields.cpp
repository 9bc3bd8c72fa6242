// Keys of section `model` about what layers have of their own, named as in config.json of Gemma 4: heads of
// those that see all tokens, and inputs.
#include <array>

#include "config/family_bits.h"
#include "config/schema.h"

namespace tidepool {
namespace {

using family_sets::global_sizes;

// Turns a captureless lambda into a function pointer, so that the variant can tell its type.
#define REF(path) +[](Config& c) { return &c.path; }

constexpr u64 as_others = 0;

const std::array layer_size_table = std::to_array<Field>({
    {.section = "model",
     .key = "global_head_dim",
     .ref = REF(model.softmax.global_head_size),
     .help = "Width of a head in layers that see all tokens; auto: head_dim",
     .range = {0, 65536},
     .automatic = as_others,
     .families = global_sizes},
    {.section = "model",
     .key = "attention_k_eq_v",
     .ref = REF(model.softmax.keys_are_values),
     .help = "In layers that see all tokens, v is k before its norm and rotation",
     .families = global_sizes},
    {.section = "model",
     .key = "num_global_key_value_heads",
     .ref = REF(model.softmax.global_kv_heads),
     .help = "Heads of keys and values in layers that see all tokens, with attention_k_eq_v; auto: "
             "num_key_value_heads",
     .unit = "heads",
     .range = {0, 65536},
     .automatic = as_others,
     .families = global_sizes},
    {.section = "model",
     .key = "num_kv_shared_layers",
     .ref = REF(model.softmax.shared_layers),
     .help = "So many layers, the last ones, read keys and values of the last layer before them that has the "
             "same "
             "kind: a window, or none",
     .unit = "layers",
     .range = {0, 1024},
     .families = global_sizes},
    {.section = "model",
     .key = "use_double_wide_mlp",
     .ref = REF(model.mlp.double_wide),
     .help = "Their MLPs are twice as wide",
     .families = global_sizes},
    {.section = "model",
     .key = "hidden_size_per_layer_input",
     .ref = REF(model.layer_inputs.width),
     .help = "Columns that each layer reads from an embedding of its own; 0: none",
     .range = {0, 65536},
     .families = global_sizes},
    {.section = "model",
     .key = "vocab_size_per_layer_input",
     .ref = REF(model.layer_inputs.vocab_size_given),
     .help = "Rows of that embedding, at least vocab_size; auto: as many",
     .unit = "tokens",
     .range = {0, 16777216},
     .automatic = as_others,
     .families = global_sizes},
});

#undef REF

}  // namespace

std::span<const Field> layer_size_fields() { return layer_size_table; }

}  // namespace tidepool
