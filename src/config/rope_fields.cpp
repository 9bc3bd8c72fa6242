// Keys of section `model` about rotary positions, named as in config.json.
#include <array>

#include "config/family_bits.h"
#include "config/schema.h"

namespace tidepool {
namespace {

using namespace family_sets;

// Turns a captureless lambda into a function pointer, so that the variant can tell its type.
#define REF(path) +[](Config& c) { return &c.path; }
#define CHOICE(path) +[](Config& c) { return ChoiceRef{reinterpret_cast<u8*>(&c.path)}; }

constexpr u64 by_length = 0;

const std::array rope_table = std::to_array<Field>({
    {.section = "model",
     .key = "rope_parameters.rope_theta",
     .ref = REF(model.attention.rope.theta),
     .help = "Base of the rotary embedding's angles; some families have another default",
     .range = {1, 1e15},
     .alias = "rope_theta",
     .families = rotary},
    {.section = "model",
     .key = "rope_local_base_freq",
     .ref = REF(model.softmax.local_rope_theta),
     .help = "Base of the rotary embedding's angles in layers that have sliding_window",
     .range = {1, 1e15},
     .families = local_angles},
    {.section = "model",
     .key = "rope_parameters.partial_rotary_factor",
     .ref = REF(model.attention.rope.partial_factor),
     .help = "Share of each head that is rotated, from its start",
     .range = {0, 1},
     .alias = "partial_rotary_factor",
     .families = partly_rotated},
    {.section = "model",
     .key = "rope_parameters.rope_type",
     .ref = CHOICE(model.attention.rope.type),
     .help = "Scaling of the angles for sequences longer than in earlier training",
     .choices = rope_type_names,
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.factor",
     .ref = REF(model.attention.rope.factor),
     .help =
         "ratio of the new length to the original length; longrope: for the factor on cosine and sine alone",
     .range = {1, 1e9},
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.low_freq_factor",
     .ref = REF(model.attention.rope.low_freq_factor),
     .help = "llama3: angles with fewer turns than this in the original length are scaled fully",
     .range = {0, 1e9},
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.high_freq_factor",
     .ref = REF(model.attention.rope.high_freq_factor),
     .help = "llama3: angles with more turns than this are not scaled",
     .range = {0, 1e9},
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.original_max_position_embeddings",
     .ref = REF(model.attention.rope.original_positions),
     .help = "llama3, yarn, longrope: the original length; auto is max_position_embeddings",
     .unit = "tokens",
     .range = {0, 16777216},
     .automatic = by_length,
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.beta_fast",
     .ref = REF(model.attention.rope.beta_fast),
     .help = "yarn: angles with more turns than this in the original length are not scaled",
     .range = {0, 1e9},
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.beta_slow",
     .ref = REF(model.attention.rope.beta_slow),
     .help = "yarn: angles with fewer turns than this in the original length are scaled fully",
     .range = {0, 1e9},
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.truncate",
     .ref = REF(model.attention.rope.truncate),
     .help = "yarn: the two limits are rounded outwards to whole pairs of columns",
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.attention_factor",
     .ref = REF(model.attention.rope.attention_factor),
     .help =
         "yarn, longrope: factor on cosine and sine; 0: computed from factor, and for yarn from mscale and "
         "mscale_all_dim",
     .range = {0, 1e9},
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.mscale",
     .ref = REF(model.attention.rope.mscale),
     .help = "yarn: growth of the factor on cosine and sine with the logarithm of factor; 0: not given",
     .range = {0, 1e9},
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.mscale_all_dim",
     .ref = REF(model.attention.rope.mscale_all_dim),
     .help =
         "yarn: growth that mscale's is divided by; latent attention: also scales attention's scores; 0: not "
         "given",
     .range = {0, 1e9},
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.short_factor",
     .ref = REF(model.attention.rope.short_factor),
     .help = "longrope: numbers that divide the angles of each pair, for sequences up to the original length",
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.long_factor",
     .ref = REF(model.attention.rope.long_factor),
     .help = "longrope: the same for longer sequences",
     .families = rotary},
    {.section = "model",
     .key = "rope_parameters.alpha",
     .ref = REF(model.attention.rope.alpha),
     .help = "dynamic: the base is multiplied by a power of this, whatever the length; 0: not given",
     .range = {0, 1e9},
     .families = with_alpha},
    {.section = "model",
     .key = "rope_parameters.llama_4_scaling_beta",
     .ref = REF(model.attention.rope.query_growth),
     .help = "Growth of q with the logarithm of its position in original lengths",
     .range = {0, 1e9},
     .families = growing_queries},
    {.section = "model",
     .key = "no_rope_layer_interval",
     .ref = REF(model.softmax.no_rope_interval),
     .help = "In each group of this many layers, q and k of the last are not rotated",
     .unit = "layers",
     .range = {1, 1025},
     .families = with_unrotated},
});

#undef REF
#undef CHOICE

}  // namespace

std::span<const Field> rope_fields() { return rope_table; }

}  // namespace tidepool
