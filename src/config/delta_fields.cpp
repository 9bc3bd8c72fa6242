// Keys of section `model` about the gated delta rule, named as in config.json of Qwen's hybrids.
#include <array>

#include "config/family_bits.h"
#include "config/schema.h"

namespace tidepool {
namespace {

using family_sets::delta_hybrids;

// Turns a captureless lambda into a function pointer, so that the variant can tell its type.
#define REF(path) +[](Config& c) { return &c.path; }

const std::array delta_table = std::to_array<Field>({
    {.section = "model",
     .key = "full_attention_interval",
     .ref = REF(model.delta.attention_interval),
     .help = "In each group of this many layers, the last has attention; the others have a gated delta rule",
     .unit = "layers",
     .range = {1, 1024},
     .families = delta_hybrids},
    {.section = "model",
     .key = "linear_num_key_heads",
     .ref = REF(model.delta.key_heads),
     .help = "Heads of q and k in layers with a gated delta rule",
     .unit = "heads",
     .range = {1, 65536},
     .families = delta_hybrids},
    {.section = "model",
     .key = "linear_num_value_heads",
     .ref = REF(model.delta.value_heads),
     .help = "Heads of v and of states there; a multiple of linear_num_key_heads",
     .unit = "heads",
     .range = {1, 65536},
     .families = delta_hybrids},
    {.section = "model",
     .key = "linear_key_head_dim",
     .ref = REF(model.delta.key_head_dim),
     .help = "Width of a head of q and k there",
     .range = {1, 65536},
     .families = delta_hybrids},
    {.section = "model",
     .key = "linear_value_head_dim",
     .ref = REF(model.delta.value_head_dim),
     .help = "Width of a head of v there",
     .range = {1, 65536},
     .families = delta_hybrids},
    {.section = "model",
     .key = "linear_conv_kernel_dim",
     .ref = REF(model.delta.taps),
     .help = "Tokens that the convolution of q, k and v sees there, the token itself included",
     .unit = "tokens",
     .range = {1, 1024},
     .families = delta_hybrids},
});

#undef REF

}  // namespace

std::span<const Field> delta_fields() { return delta_table; }

}  // namespace tidepool
