// Experts describes layers that are mixtures of experts: a router chooses a few of many small MLPs for each
// token, and their outputs are added, weighted by the router. ExpertTraits is the row of a family with such
// layers: how its router scores, and what its tensors and keys are called.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "tidepool/layer_style.h"

namespace tidepool {

// Way from a router's logits to the chosen experts and their weights. Scores are fp32. Of equal scores, the
// expert with the lower number is chosen.
enum class RouterKind : u8 {
  softmax,            // softmax over all experts; those with the largest probabilities are chosen
  softmax_of_chosen,  // the largest logits are chosen; softmax over them gives the weights
  // Sigmoid of each logit. Choices are made on score + correction bias: the groups with the largest sums of
  // their two best, then the best experts in these groups. The weights are the scores without the bias.
  sigmoid_in_groups,
};
enum class ExpertActivation : u8 {
  swiglu,          // silu(gate) up
  clamped_swiglu,  // (min(max(up, -limit), limit) + 1) g sigmoid(alpha g), where g = min(gate, limit)
  squared_relu,    // relu(up)^2: no gate
  geglu,           // gelu(gate) up
};

// Norms of experts that are a branch beside a dense MLP: router, experts and MLP each normalise the residual
// stream, and the outputs of experts and MLP are normalised before they are added. That sum has the norm of
// NormNames::mlp_branch.
struct BranchNormNames {
  std::string_view router;   // [H]: the norm's weight; ".weight" is not added
  std::string_view experts;  // of their input
  std::string_view expert_branch, dense_branch;
};

// Names of an expert layer's tensors in files, after "model.layers.L.". transformers 4 wrote one tensor per
// expert and matrix ("single"); transformers 5 has all experts in one tensor ("joined") in memory. It writes
// the single names of its conversion_mapping.py, or the joined ones if the model was loaded from them or is
// saved with save_original_format=False. It reads both forms, so either may come.
struct ExpertTensors {
  std::string_view router;           // [E, H]
  std::string_view router_bias;      // [E]; empty: none
  std::string_view correction_bias;  // [E], fp32, not trained; empty: none
  std::string_view factors;          // [E]: factors on the weights of an expert's tokens; empty: none
  // Single: gate and up [I, H], down [H, I], called `single`.e.`gate`.weight for expert e. An empty `single`:
  // the family has only the joined form.
  // Experts without a gate have no name for it.
  std::string_view single, gate, up, down;
  // Joined: `joined`.gate_up_proj and `joined`.down_proj, without ".weight". joined_in_out decides their
  // shape: false: [E, 2I, H], the rows of gate first, and [E, H, I]; true: [E, H, 2I], gate in even columns
  // and up in odd ones, and [E, I, H].
  std::string_view joined;
  std::string_view joined_base_layer =
      "mlp.experts.base_layer";  // `joined` with this end, in adapters' files
  // Names of the two in files, if they are others than `joined`.gate_up_proj and `joined`.down_proj.
  std::string_view joined_gate_up, joined_down;
  bool only_joined = false;        // files have no single form, though `single` names the tensors of windows
  std::string_view joined_router;  // the router's name in files of the joined form
  std::string_view joined_correction_bias;  // the same of correction_bias; empty: its name does not differ
  bool joined_in_out = false;
  // Also `joined`.gate_up_proj_bias [E, 2I], in the order of columns, and down_proj_bias [E, H].
  bool biases = false;
  MlpNames shared;        // of the MLP that every token uses; empty: none. Without a gate if experts are
  BranchNormNames norms;  // empty: experts and that MLP have one input, and the sum no norms

  constexpr bool has_gate() const { return single.empty() || !gate.empty(); }
  // True if experts are a branch beside a dense MLP.
  constexpr bool are_branch() const { return !norms.experts.empty(); }
  // True if transformers 4 had a module for each expert.
  constexpr bool has_single_files() const { return !single.empty() && !only_joined; }
  // Parameters of all experts in transformers 5, after "`joined`.".
  constexpr std::string_view first_parameter() const { return has_gate() ? "gate_up_proj" : "up_proj"; }
  std::string_view shared_gate;  // [1, H]: its logistic multiplies that MLP's output; empty: none
};

struct ExpertTraits {
  RouterKind router{};
  ExpertActivation activation{};
  ExpertTensors tensors;
  std::string_view count_key;                           // name of Experts::count in config.json
  std::string_view chosen_key = "num_experts_per_tok";  // the same of Experts::chosen
  std::string_view other_count_key;  // its other name, which transformers 5 reads and may write
  bool inner_key = false;            // moe_intermediate_size; otherwise experts have intermediate_size
  bool normalise_key = false;        // norm_topk_prob; otherwise the weights of the chosen have the sum 1
  bool normalise_left_out = false;   // its default in transformers
  bool step_keys = false;            // decoder_sparse_step and mlp_only_layers
  bool group_keys = false;           // n_group, topk_group, routed_scaling_factor, first_k_dense_replace
  bool shared_key = false;           // n_shared_experts
  bool shared_width_key = false;     // shared_expert_intermediate_size
  // moe_shared_expert_intermediate_size; and the kinds of layers say which have experts, so that there is no
  // first_k_dense_replace.
  bool by_layer_kind = false;
  bool dense_beside = false;    // the MLP that every token uses is there without experts too
  bool optional = false;        // the number of experts may be 0: a dense model
  std::string_view switch_key;  // is true in config.json if a model has experts; empty: their number says it
  bool balance_keys = false;    // output_router_logits and router_aux_loss_coef
  bool mlp_list_key = false;    // mlp_layer_types in place of first_k_dense_replace
  bool joined_default = false;  // files have the joined form unless they were read in the other
  std::array<std::string_view, 8> required_keys{};  // sizes that a config.json must name
};

inline constexpr ExpertTraits qwen3_experts = {
    .router = RouterKind::softmax,
    .tensors = {.router = "mlp.gate.weight",
                .single = "mlp.experts",
                .gate = "gate_proj",
                .up = "up_proj",
                .down = "down_proj",
                .joined = "mlp.experts",
                .joined_router = "mlp.gate.weight"},
    .count_key = "num_experts",
    .other_count_key = "num_local_experts",
    .inner_key = true,
    .normalise_key = true,
    .step_keys = true,
    .balance_keys = true,
    .required_keys = {"num_experts", "num_experts_per_tok", "moe_intermediate_size"}};

// transformers 5 has renamed block_sparse_moe to mlp in memory, so the joined form has the new name.
inline constexpr ExpertTraits mixtral_experts = {
    .router = RouterKind::softmax,
    .tensors = {.router = "block_sparse_moe.gate.weight",
                .single = "block_sparse_moe.experts",
                .gate = "w1",
                .up = "w3",
                .down = "w2",
                .joined = "mlp.experts",
                .joined_router = "mlp.gate.weight"},
    .count_key = "num_local_experts",
    .other_count_key = "num_experts",
    .balance_keys = true,
    .required_keys = {"num_local_experts", "num_experts_per_tok"}};

inline constexpr ExpertTraits gpt_oss_experts = {
    .router = RouterKind::softmax_of_chosen,
    .activation = ExpertActivation::clamped_swiglu,
    .tensors = {.router = "mlp.router.weight",
                .router_bias = "mlp.router.bias",
                .joined = "mlp.experts",
                .joined_router = "mlp.router.weight",
                .joined_in_out = true,
                .biases = true},
    .count_key = "num_local_experts",
    .other_count_key = "num_experts",
    .balance_keys = true,
    .required_keys = {"num_local_experts", "num_experts_per_tok"}};

inline constexpr ExpertTraits deepseek_experts = {
    .router = RouterKind::sigmoid_in_groups,
    .tensors = {.router = "mlp.gate.weight",
                .correction_bias = "mlp.gate.e_score_correction_bias",
                .single = "mlp.experts",
                .gate = "gate_proj",
                .up = "up_proj",
                .down = "down_proj",
                .joined = "mlp.experts",
                .joined_router = "mlp.gate.weight",
                .shared = {.gate = "mlp.shared_experts.gate_proj",
                           .up = "mlp.shared_experts.up_proj",
                           .down = "mlp.shared_experts.down_proj"}},
    .count_key = "n_routed_experts",
    .other_count_key = "num_local_experts",
    .inner_key = true,
    .normalise_key = true,
    .normalise_left_out = true,
    .group_keys = true,
    .shared_key = true,
    .required_keys = {"n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts",
                      "n_group", "topk_group", "routed_scaling_factor", "first_k_dense_replace"}};

// Qwen3-Next's experts, beside an MLP that every token uses.
inline constexpr ExpertTraits qwen3_next_experts = [] {
  ExpertTraits traits = qwen3_experts;
  traits.tensors.shared = {.gate = "mlp.shared_expert.gate_proj",
                           .up = "mlp.shared_expert.up_proj",
                           .down = "mlp.shared_expert.down_proj"};
  traits.tensors.shared_gate = "mlp.shared_expert_gate";
  traits.normalise_left_out = true;
  traits.shared_width_key = true;
  traits.required_keys[3] = "shared_expert_intermediate_size";
  return traits;
}();

// Qwen3.5's: every layer has them, and their weights always have the sum 1.
inline constexpr ExpertTraits qwen3_5_experts = [] {
  ExpertTraits traits = qwen3_next_experts;
  traits.normalise_key = false;
  traits.step_keys = false;
  traits.joined_default = true;
  return traits;
}();

// DeepSeek's, but that a list of all layers says which are dense.
inline constexpr ExpertTraits glm4_moe_lite_experts = [] {
  ExpertTraits traits = deepseek_experts;
  traits.mlp_list_key = true;
  traits.required_keys[7] = {};
  return traits;
}();

// Mixtral's experts with DeepSeek's router, in one group. Its load-balancing loss, which transformers counts
// with the choices of a softmax, is not computed.
inline constexpr ExpertTraits minimax_m2_experts = [] {
  ExpertTraits traits = mixtral_experts;
  traits.router = RouterKind::sigmoid_in_groups;
  traits.tensors.correction_bias = "block_sparse_moe.e_score_correction_bias";
  traits.tensors.joined_correction_bias = "mlp.e_score_correction_bias";
  traits.balance_keys = false;
  return traits;
}();

// DeepSeek's router, and experts without a gate, as the MLP that every token uses.
inline constexpr ExpertTraits nemotron_experts = {
    .router = RouterKind::sigmoid_in_groups,
    .activation = ExpertActivation::squared_relu,
    .tensors = {.router = "mixer.gate.weight",
                .correction_bias = "mixer.gate.e_score_correction_bias",
                .single = "mixer.experts",
                .up = "up_proj",
                .down = "down_proj",
                .joined = "mixer.experts",
                .joined_base_layer = "mixer.experts.base_layer",
                .joined_router = "mixer.gate.weight",
                .shared = {.up = "mixer.shared_experts.up_proj", .down = "mixer.shared_experts.down_proj"}},
    .count_key = "n_routed_experts",
    .other_count_key = "num_local_experts",
    .inner_key = true,
    .normalise_key = true,
    .normalise_left_out = true,
    .group_keys = true,
    .by_layer_kind = true,
    .optional = true};

// gpt-oss's router, and the dense MLP beside the experts, or alone. Published files have all experts of a
// layer in one tensor, but under other names than transformers 5 has them in memory.
inline constexpr ExpertTraits granite_hybrid_experts = {
    .router = RouterKind::softmax_of_chosen,
    .tensors = {.router = "block_sparse_moe.router.layer.weight",
                .single = "block_sparse_moe.experts",
                .gate = "gate_proj",
                .up = "up_proj",
                .down = "down_proj",
                .joined = "block_sparse_moe.experts",
                .joined_base_layer = "block_sparse_moe.experts.base_layer",
                .joined_gate_up = "block_sparse_moe.input_linear.weight",
                .joined_down = "block_sparse_moe.output_linear.weight",
                .only_joined = true,
                .joined_router = "block_sparse_moe.router.layer.weight",
                .shared = granite_hybrid_layers.mlp_names},
    .count_key = "num_local_experts",
    .other_count_key = "num_experts",
    .dense_beside = true,
    .optional = true,
    .balance_keys = true,
    .joined_default = true};

// Gemma 4's experts, beside a dense MLP.
inline constexpr ExpertTraits gemma4_experts = {
    .router = RouterKind::softmax,
    .activation = ExpertActivation::geglu,
    .tensors = {.router = "router.proj.weight",
                .factors = "router.per_expert_scale",
                .single = "experts",
                .gate = "gate_proj",
                .up = "up_proj",
                .down = "down_proj",
                .joined = "experts",
                .joined_base_layer = "experts.base_layer",
                .only_joined = true,
                .joined_router = "router.proj.weight",
                .shared = gemma4_layers.mlp_names,
                .norms = {.router = "router.scale",
                          .experts = "pre_feedforward_layernorm_2",
                          .expert_branch = "post_feedforward_layernorm_2",
                          .dense_branch = "post_feedforward_layernorm_1"}},
    .count_key = "num_experts",
    .chosen_key = "top_k_experts",
    .inner_key = true,
    .optional = true,
    .switch_key = "enable_moe_block",
    .joined_default = true};

inline constexpr u32 experts_max = 1024;  // in one layer

// Values of a model; fields that its family has no key for keep their defaults.
struct Experts {
  u32 count = 0;              // E: experts of a layer, without shared ones; 0: a dense model
  u32 chosen = 0;             // k: experts that a token uses
  u32 inner_given = 0;        // I: width inside an expert; 0: ModelConfig::inner()
  bool normalise = true;      // the weights of the chosen are divided by their sum
  u32 shared = 0;             // the shared MLP is as wide as this many experts; 0: none
  u32 shared_width = 0;       // or so wide
  u32 groups = 1;             // number of groups of consecutive experts
  u32 chosen_groups = 1;      // number of groups from which a token's experts are chosen
  double scale = 1;           // factor on the weights, after `normalise`
  u32 dense_layers = 0;       // layers before this one have no experts
  u32 step = 1;               // every so many layers, the last has experts
  std::vector<u32> dense;     // numbers of further layers without experts
  double gate_alpha = 1.702;  // alpha and limit of ExpertActivation::clamped_swiglu
  double gate_limit = 7;
  bool joined_files = false;  // files have the joined form: those that were read, and those to be written
  // Losses of the router, added to the model's loss. The first is E times the sum over experts of (choices
  // per token) times (mean probability), over all layers and tokens together.
  bool balance = false;          // the load-balancing loss is added
  double balance_factor = 1e-3;  // its factor
  double z_factor = 0;           // factor of the mean of (log of the sum of exp(logits))^2; 0: not added

  bool operator==(const Experts&) const = default;
};

}  // namespace tidepool
