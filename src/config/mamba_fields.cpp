// Keys of section `model` about Mamba-2 and layers of several kinds, named as in config.json of Nemotron-H
// and of Granite 4.
#include <array>

#include "config/family_bits.h"
#include "config/schema.h"

namespace tidepool {
namespace {

using namespace family_sets;

// Turns a captureless lambda into a function pointer, so that the variant can tell its type.
#define REF(path) +[](Config& c) { return &c.path; }
#define CHOICE(path) +[](Config& c) { return ChoiceRef{reinterpret_cast<u8*>(&c.path)}; }

constexpr Range mamba_sizes = {1, 65536}, mamba_taps = {1, 1024};
constexpr std::string_view help_heads = "Heads of layers with Mamba-2; a multiple of the groups",
                           help_head = "Width of a head there", help_state = "Columns of B and C there",
                           help_groups = "Groups of heads that share B and C there",
                           help_taps =
                               "Tokens that the convolution of x, B and C sees there, the token "
                               "itself included",
                           help_convolution_bias = "Bias of that convolution",
                           help_bias = "Biases of the projections there";

const std::array mamba_table = std::to_array<Field>({
    {.section = "model",
     .key = "hybrid_override_pattern",
     .ref = REF(model.layer_kinds),
     .help =
         "A letter for each layer: M Mamba-2, * attention; nemotron_h, whose layers have one part: also - "
         "MLP, E experts. Unless given: ME*- again and again; granitemoehybrid: M",
     .families = mamba_hybrids},
    {.section = "model",
     .key = "mamba_num_heads",
     .ref = REF(model.mamba.heads),
     .help = help_heads,
     .unit = "heads",
     .range = mamba_sizes,
     .families = least_steps},
    {.section = "model",
     .key = "mamba_head_dim",
     .ref = REF(model.mamba.head_dim),
     .help = help_head,
     .range = mamba_sizes,
     .families = least_steps},
    {.section = "model",
     .key = "ssm_state_size",
     .ref = REF(model.mamba.state_size),
     .help = help_state,
     .range = mamba_sizes,
     .families = least_steps},
    {.section = "model",
     .key = "n_groups",
     .ref = REF(model.mamba.groups),
     .help = help_groups,
     .unit = "groups",
     .range = mamba_sizes,
     .families = least_steps},
    {.section = "model",
     .key = "conv_kernel",
     .ref = REF(model.mamba.taps),
     .help = help_taps,
     .unit = "tokens",
     .range = mamba_taps,
     .families = least_steps},
    {.section = "model",
     .key = "use_conv_bias",
     .ref = REF(model.mamba.convolution_bias),
     .help = help_convolution_bias,
     .families = least_steps},
    {.section = "model",
     .key = "use_bias",
     .ref = REF(model.mamba.bias),
     .help = help_bias,
     .families = least_steps},
    {.section = "model",
     .key = "time_step_min",
     .ref = REF(model.mamba.least_step),
     .help = "Least step of Mamba-2",
     .range = {0, 1e9},
     .families = least_steps},
    {.section = "model",
     .key = "mamba_n_heads",
     .ref = REF(model.mamba.heads),
     .help = help_heads,
     .unit = "heads",
     .range = mamba_sizes,
     .families = step_limits},
    {.section = "model",
     .key = "mamba_d_head",
     .ref = REF(model.mamba.head_dim),
     .help = help_head,
     .range = mamba_sizes,
     .families = step_limits},
    {.section = "model",
     .key = "mamba_d_state",
     .ref = REF(model.mamba.state_size),
     .help = help_state,
     .range = mamba_sizes,
     .families = step_limits},
    {.section = "model",
     .key = "mamba_n_groups",
     .ref = REF(model.mamba.groups),
     .help = help_groups,
     .unit = "groups",
     .range = mamba_sizes,
     .families = step_limits},
    {.section = "model",
     .key = "mamba_d_conv",
     .ref = REF(model.mamba.taps),
     .help = help_taps,
     .unit = "tokens",
     .range = mamba_taps,
     .families = step_limits},
    {.section = "model",
     .key = "mamba_conv_bias",
     .ref = REF(model.mamba.convolution_bias),
     .help = help_convolution_bias,
     .families = step_limits},
    {.section = "model",
     .key = "mamba_proj_bias",
     .ref = REF(model.mamba.bias),
     .help = help_bias,
     .families = step_limits},
    {.section = "model",
     .key = "time_step_limit",
     .ref = REF(model.mamba.step_limits),
     .help = "Least and most step of Mamba-2; empty: no limits",
     .families = step_limits},
    {.section = "model",
     .key = "position_embedding_type",
     .ref = CHOICE(model.softmax.positions),
     .help = "rope: attention rotates q and k",
     .choices = position_embedding_names,
     .families = position_choice},
    {.section = "model",
     .key = "moe_shared_expert_intermediate_size",
     .ref = REF(model.experts.shared_width),
     .help = "Width inside the MLP that all tokens use, in layers with experts",
     .range = {1, 16777216},
     .families = by_layer_kind},
    {.section = "model",
     .key = "shared_intermediate_size",
     .ref = REF(model.experts.shared_width),
     .help = "Width inside the MLP that all tokens use, with experts beside it or without",
     .range = {1, 16777216},
     .families = dense_beside},
});

#undef REF
#undef CHOICE

}  // namespace

std::span<const Field> mamba_fields() { return mamba_table; }

}  // namespace tidepool
