// Keys of section `lora`, named as in PEFT's LoraConfig where it has the key.
#include <array>

#include "config/schema.h"

namespace tidepool {
namespace {

// Turns a captureless lambda into a function pointer, so that the variant can tell its type.
#define REF(path) +[](Config& c) { return &c.path; }

const std::array lora_table = std::to_array<Field>({
    {"lora",
     "r",
     REF(lora.r),
     "Rank of the adapters; 0: no adapters, the whole model is trained. Adapters need model: DIRECTORY",
     "",
     {0, lora_rank_max}},
    {.section = "lora",
     .key = "lora_alpha",
     .ref = REF(lora.alpha),
     .help = "Scales the output of adapters by lora_alpha / r; with use_rslora, by lora_alpha / sqrt(r)",
     .range = {1e-9, 1e9},
     .alias = "alpha"},
    {.section = "lora",
     .key = "target_modules",
     .ref = REF(lora.target_modules),
     .help = "Linear layers that get an adapter, such as q_proj, or c_attn of GPT-2; empty, or all-linear: "
             "all linear layers, but not experts and routers, which must be named"},
    {.section = "lora",
     .key = "target_parameters",
     .ref = REF(lora.target_parameters),
     .help = "Parameters of models with experts that get an adapter, as transformers 5 names them: "
             "mlp.experts.gate_up_proj, mlp.experts.down_proj, mlp.gate.weight. Then an empty target_modules "
             "names no linear layer"},
    {.section = "lora",
     .key = "expert_r",
     .ref = REF(lora.expert_r),
     .help = "Rank of each expert's adapter, of experts in target_parameters; 0: r",
     .range = {0, lora_rank_max}},
    {.section = "lora",
     .key = "expert_alpha",
     .ref = REF(lora.expert_alpha),
     .help = "lora_alpha of experts in target_parameters; 0: lora_alpha",
     .range = {0, 1e9}},
    {.section = "lora",
     .key = "lora_dropout",
     .ref = REF(lora.dropout),
     .help = "Dropout on the input of adapters, drawn separately for each",
     .range = {0, 1, true},
     .alias = "dropout"},

    {.section = "lora",
     .key = "use_rslora",
     .ref = REF(lora.rslora),
     .help = "Rank-stabilised LoRA: scales the output of adapters by lora_alpha / sqrt(r)"},
    {.section = "lora",
     .key = "adapter",
     .ref = REF(lora.adapter),
     .help = "Directory of an adapter (PEFT's, or a checkpoint with one) that a new run starts from; r, "
             "lora_alpha, target_modules and use_rslora are then the adapter's. Empty: new adapters",
     .alias = "adapter_name_or_path"},
});

#undef REF

}  // namespace

std::span<const Field> lora_fields() { return lora_table; }

}  // namespace tidepool
