// Foreign keys stand in three tables: demanded values, harmless keys, and keys with another name here.
#include "config/foreign_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/text/nearest.h"
#include "config/family_bits.h"
#include "tidepool/model_wrappers.h"

namespace tidepool {

namespace {

using namespace family_sets;

constexpr std::string_view window_switch =
    "this key is for qwen models; of the others, those with windows have model.sliding_window alone";
constexpr std::string_view no_soft_caps = "choose a model without soft caps, such as Gemma 3";
constexpr std::array demands = std::to_array<DemandedValue>({
    {"activation_function", "gelu_new", gelu},
    {"tie_word_embeddings", "true", tied},
    {"scale_attn_weights", "true", learned},
    {"scale_attn_by_inverse_layer_idx", "false", learned},
    {"add_cross_attention", "false", learned},
    {"is_encoder_decoder", "false", all},
    {"hidden_act", "silu", swiglu},
    {"hidden_act", "relu2", squared_relu},
    {"hidden_activation", "gelu_pytorch_tanh", geglu},
    {"attn_logit_softcapping", "null", geglu & ~capped_attention, no_soft_caps},
    {"final_logit_softcapping", "null", geglu & ~capped_logits, no_soft_caps},
    {"use_bidirectional_attention", "vision", global_sizes, "tokens of texts see earlier tokens alone"},
    {"use_bidirectional_attention", "false", geglu & ~global_sizes},
    {"use_sliding_window", "false", not_switched, window_switch},
    {"layer_types", "full_attention", rotary & ~windowed & ~delta_hybrids & ~mamba_hybrids},
    {"layer_types", "full_attention", windowed & ~layered,
     "sliding_window says the window of all layers, in qwen models together with use_sliding_window"},
    {"attention_bias", "false", rotary},
    {"mlp_bias", "false", rotary},
    {"qkv_bias", "true", biased_qkv},
    {"resid_pdrop", "0", bit(Family::phi3)},
    {"embd_pdrop", "0", bit(Family::phi3)},
    {"pretraining_tp", "1", rotary,
     "it slices products, which changes only their rounding: set pretraining_tp to 1"},
    {"partial_rotary_factor", "1", rotary & ~never_rotated},
    {"rope_parameters.partial_rotary_factor", "1", rotary & ~never_rotated},
    {"mlp_hidden_act", "relu2", one_part},
    {"mamba_hidden_act", "silu", one_part},
    {"moe_latent_size", "null", by_layer_kind,
     "experts that read a narrower latent are not computed: choose a model without them"},
    {"n_shared_experts", "1", by_layer_kind},
    {"hidden_dropout", "0", one_part},
    {"residual_in_fp32", "false", one_part, "the residual stream has the type of activations"},
    {"use_mrope", "false", switched},
    {"attn_output_gate", "true", delta_hybrids},
    {"router_jitter_noise", "0", experts},
    {"moe_layer_freq", "1", expert_groups,
     "dense layers are the first ones, counted by first_k_dense_replace"},
    {"scoring_func", "sigmoid", sigmoid_routed},
    {"use_routing_bias", "true", sigmoid_routed},
    {"output_router_logits", "false", sigmoid_routed & ~expert_groups,
     "its load-balancing loss counts other choices than the router's"},
    {"use_qk_norm", "true", whole_norms | norms_after_rotation},
    {"use_cla", "false", norms_after_rotation},
    {"use_bias", "false", neighbours_rotate},
    {"qk_norm_type", "per_layer", whole_norms& experts},
    {"attn_type_list", "1", whole_norms& experts},
    {"shared_intermediate_size", "0", whole_norms& experts},
    {"topk_method", "noaux_tc", expert_groups},
    {"quantization_config", "null", family_sets::all,
     "the config.json of a model's directory says how its weights are quantized; to plan without it, set "
     "model.quantization"},
});

// A key found in published config.json files that does not affect training.
struct Harmless {
  std::string_view key;
  u32 families = family_sets::all;
};
constexpr std::array harmless = std::to_array<Harmless>({
    {"_name_or_path"},
    {"architectures"},
    {"attention_mask"},
    {"auto_map"},
    {"bos_token_id"},
    {"dtype"},
    {"eos_token_id"},
    {"ep_size", experts},
    {"experts_per_token", clamped},  // gpt-oss's own code reads it; transformers reads num_experts_per_tok
    {"finetuning_task"},
    {"gradient_checkpointing"},
    {"id2label"},
    {"label2id"},
    {"chunk_size", least_steps},  // chunks change no result beyond rounding
    {"mamba_chunk_size", step_limits},
    {"mamba_expand", step_limits},  // read with the sizes that it follows from
    {"moe_shared_expert_overlap", by_layer_kind},
    {"mtp_layers_block_type", by_layer_kind},
    {"mtp_hybrid_override_pattern", by_layer_kind},
    {"partial_rotary_factor", never_rotated},
    {"num_nextn_predict_layers", expert_groups},  // these layers are extra tensors, which are not trained
    {"num_mtp_layers", expert_groups},
    {"output_past"},
    {"num_mtp_modules", sigmoid_routed},
    {"mtp_transformer_layers", sigmoid_routed},
    {"use_mtp", sigmoid_routed},
    {"output_router_logits", expert_groups},  // has no effect on DeepSeek's loss
    {"router_aux_loss_coef", sigmoid_routed},
    {"pad_token_id"},
    {"reorder_and_upcast_attn", learned},
    // The three positions of a token of text are one.
    {"rope_parameters.mrope_interleaved", delta_hybrids},
    {"rope_parameters.mrope_section", delta_hybrids},
    {"rope_parameters.max_position_embeddings", growing_queries},
    {"summary_type", learned},
    {"summary_activation", learned},
    {"summary_first_dropout", learned},
    {"summary_proj_to_labels", learned},
    {"summary_use_proj", learned},
    {"task_specific_params"},
    {"torch_dtype"},
    {"transformers_version"},
    {"use_cache"},
});

struct Instead {
  std::string_view key;
  std::string_view advice;
  std::string_view ours = "";     // a value that changes nothing here; empty: none
  std::string_view section = "";  // the only section where the key has this meaning; empty: all sections
  u32 families = family_sets::all;
};
constexpr std::string_view of_precision = "set train.precision: fp32, bf16 or fp16";
constexpr std::string_view of_quantized_weights =
    "a run does not quantize weights: name the directory of a quantized model, and leave the key out";
constexpr std::string_view of_answers_only = "set data.loss: answers, to learn from answers alone, or all";
constexpr std::array advices = std::to_array<Instead>({
    {"num_epochs", "set train.num_train_epochs"},
    {"epochs", "set train.num_train_epochs"},
    {"max_iters", "set train.max_steps"},
    {"warmup_iters", "set train.warmup_steps"},
    {"warmup_ratio", "train.warmup_steps takes a ratio below 1"},
    {"fp16", of_precision},
    {"bf16", of_precision},
    {"dtype", of_precision},
    {"torch_dtype", of_precision},
    {"loss_scale", "fp16 scales the loss dynamically; train.init_scale sets the first scale"},
    {"initial_scale_power", "set train.init_scale to 2 to this power"},
    {"initial_loss_scale", "set train.init_scale"},
    {"hysteresis", "every overflow lowers the scale; leave the key out"},
    {"optimizer", "set train.optim"},
    {"optim_args", "set train.adam_beta1, adam_beta2, adam_epsilon or sgd_momentum"},
    {"nesterov", "SGD has plain momentum; leave the key out", "false"},
    {"momentum", "set train.sgd_momentum"},
    {"gradient_checkpointing", "set train.recompute"},
    {"max_seq_length", "set train.sequence_length"},
    {"max_length", "set train.sequence_length"},
    {"sequence_len", "set train.sequence_length"},
    {"sample_packing", "set data.packing"},
    {"eval_sample_packing", "data.packing applies to held-out documents, too; leave the key out"},
    {"group_by_length", "data.packing fills sequences with several documents; leave the key out", "false"},
    {"batch_size", "set train.per_device_train_batch_size"},
    {"per_device_eval_batch_size", "evaluation uses train.per_device_train_batch_size"},
    {"eval_strategy", "set train.eval_steps"},
    {"evaluation_strategy", "set train.eval_steps"},
    {"eval_interval", "set train.eval_steps"},
    {"eval_iters", "set train.eval_batches"},
    {"dataset", "set data.train"},
    {"datasets", "set data.train"},
    {"val_set_size", "set data.validation_fraction, a share of the data"},
    {"train_on_inputs", of_answers_only},
    {"assistant_only_loss", of_answers_only},
    {"completion_only_loss", of_answers_only},
    {"validation_file", "set data.validation"},
    {"load_best_model_at_end", "checkpoint-best keeps the best checkpoint; leave the key out"},
    {"max_eval_samples", "set train.eval_batches"},
    {"save_strategy", "set output.save_steps"},
    {"logging_strategy", "set output.logging_steps"},
    {"log_interval", "set output.logging_steps"},
    {"bias", "only adapters are trained, and they have no bias; leave the key out", "none", "lora"},
    {"bias",
     "the family decides, and in some families model.attention_bias and model.mlp_bias: leave the key out",
     "", "model"},
    {"task_type", "only causal language models are trained; leave the key out", "CAUSAL_LM"},
    {"use_dora", "only plain LoRA is trained; leave the key out", "false"},
    {"modules_to_save",
     "only adapters are trained; leave the key out, or leave section lora out to train the whole model"},
    {"rank_pattern", "set lora.r, and lora.expert_r for experts in lora.target_parameters"},
    {"alpha_pattern", "set lora.lora_alpha, and lora.expert_alpha for experts in lora.target_parameters"},
    {"layers_to_transform", "every layer gets adapters; leave the key out"},
    {"layers_pattern", "every layer gets adapters; leave the key out"},
    {"exclude_modules", "name the layers that get adapters in lora.target_modules"},
    {"peft_type", "only plain LoRA is trained; leave the key out", "LORA"},
    {"init_lora_weights", "A begins with random values and B with zeros; leave the key out", "true"},
    {"fan_in_fan_out", "the model's family decides it; leave the key out"},
    {"inference_mode", "it does not affect training; leave the key out"},
    {"layer_types", "set model.sliding_window_pattern", "", "model", layered},
    {"layer_types", "set model.full_attention_interval", "", "model", delta_hybrids},
    {"layer_types", "set model.hybrid_override_pattern", "", "model", mamba_hybrids},
    {"layers_block_type", "set model.hybrid_override_pattern", "", "model", mamba_hybrids},
    {"enable_moe_block", "set model.num_experts; 0 is for a dense model", "", "model", switched_experts},
    {"mlp_layer_types", "set model.first_k_dense_replace", "", "model", expert_groups & ~by_layer_kind},
    {"no_rope_layers", "set model.no_rope_layer_interval", "", "model", with_unrotated},
    {"rotary_dim",
     "it is the number of columns of a head that are rotated: set model.partial_rotary_factor to "
     "rotary_dim / head_dim",
     "", "model", partly_rotated},
    {"rope_parameters.full_attention", "set model.rope_parameters.rope_theta and its neighbours", "", "model",
     local_angles},
    {"rope_parameters.sliding_attention", "set model.rope_local_base_freq", "", "model", local_angles},
    {"base_model_name_or_path", "set model: DIRECTORY"},
    {"base_model", "set model: DIRECTORY"},
    {"model_name_or_path", "set model: DIRECTORY"},
    {"load_in_4bit", of_quantized_weights, "false"},
    {"load_in_8bit", of_quantized_weights, "false"},
    {"rank", "set lora.r"},
    {"lora_r", "set lora.r"},
    {"lora_rank", "set lora.r"},
    {"lora_model_dir", "set lora.adapter"},
    {"adapter_path", "set lora.adapter"},
    {"skip_invalid", "set data.on_bad_record: skip"},
    {"logging_dir", "set output.dir"},
    {"out_dir", "set output.dir"},
    {"resume_from_checkpoint", "use the option --resume"},
    {"deepspeed", "the budgets in section memory decide what is offloaded; leave the key out"},
    {"lr", "set train.learning_rate"},
    {"lr_scheduler", "set train.lr_scheduler_type"},
    {"lr_decay_iters", "the learning rate falls until train.max_steps; leave the key out"},
    {"min_lr",
     "set train.min_lr_rate, its share of train.learning_rate, and train.lr_scheduler_type: "
     "cosine_with_min_lr"},
    {"grad_clip", "set train.max_grad_norm"},
    {"beta1", "set train.adam_beta1"},
    {"beta2", "set train.adam_beta2"},
    {"dropout", "set model.embd_pdrop, model.attn_pdrop and model.resid_pdrop", "", "", learned},
    {"dropout", "set model.attention_dropout", "", "", rotary},
});

constexpr std::string_view of_images = "only reads images, and ";

// Explains why a model type is not supported, if the type's name tells.
std::string_view kind_of(std::string_view model_type) {
  if (model_type.ends_with("_vision") || model_type.ends_with("_vision_model")) return of_images;
  constexpr std::array<std::string_view, 6> words = {"moe", "deepseek", "dbrx", "jamba", "llama4", "grok"};
  for (const std::string_view word : words)
    if (model_type.find(word) != std::string_view::npos) return "is another mixture of experts, and ";
  if (model_type.find("gemma") != std::string_view::npos) return "has other layers than Gemma 3, and ";
  return "";
}

const DemandedValue* demand_of(Family family, std::string_view key) {
  const auto found = std::ranges::find_if(demands, [&](const DemandedValue& demand) {
    return key == demand.key && (demand.families & bit(family)) != 0;
  });
  return found == demands.end() ? nullptr : &*found;
}

bool equal_values(std::string_view value, std::string_view wanted) {
  return value == wanted || (wanted == "1" && value == "1.0") || (wanted == "0" && value == "0.0");
}

bool is_ours(const Instead& known, const ForeignKey& given) {
  return !known.ours.empty() && given.value == known.ours;
}

}  // namespace

std::span<const DemandedValue> demanded_values() { return demands; }

Result<Family> parse_family(std::string_view model_type) {
  const auto found = std::ranges::find(families, model_type, &FamilyTraits::name);
  if (found != families.end()) return static_cast<Family>(found - families.begin());
  std::vector<std::string_view> known;
  for (const FamilyTraits& family : families) known.push_back(family.name);
  if (const ModelWrapper* wrapper = find_wrapper(model_type))
    return Error{ErrorKind::usage,
                 fmt::format("'{}' also reads images, and is read only from a model directory; set "
                             "model: DIRECTORY, or model.model_type: {} for its text model",
                             model_type, name(wrapper->text))};
  const std::string_view kind = kind_of(model_type);
  std::string advice = kind.empty() ? did_you_mean(model_type, known) : "";
  if (kind == of_images) advice = "; name the directory of the whole model, whose text model is trained";
  if (advice.empty()) advice = "; choose a model of one of these families";
  return Error{ErrorKind::usage, fmt::format("'{}' {}is not supported; Tidepool trains {}{}", model_type,
                                             kind, fmt::join(known, ", "), advice)};
}

std::string canonical_model_key(std::string_view key) {
  constexpr std::string_view old = "rope_scaling.", now = "rope_parameters.";
  std::string_view inner = key;
  if (key.starts_with(old))
    inner.remove_prefix(old.size());
  else if (key.starts_with(now))
    inner.remove_prefix(now.size());
  else
    return std::string(key);
  return fmt::format("{}{}", now, inner == "type" ? "rope_type" : inner);
}

bool is_rope_key(std::string_view key) { return key == "rope_scaling" || key == "rope_parameters"; }

Result<bool> accept_model_key(Family family, std::string_view key, std::string_view value) {
  if (const DemandedValue* demand = demand_of(family, key)) {
    if (equal_values(value, demand->value)) return true;
    return Error{
        ErrorKind::usage,
        fmt::format("'{}' is not supported; Tidepool trains {} models with {}: {}{}{}", value, name(family),
                    demand->key, demand->value, demand->advice.empty() ? "" : "; ", demand->advice)};
  }
  if (is_rope_key(key) && value == "null") return true;
  const bool known = std::ranges::any_of(
      harmless, [&](const Harmless& h) { return h.key == key && (h.families & bit(family)) != 0; });
  if (known) return true;
  if (key.find("expert") == std::string_view::npos && key.find("moe") == std::string_view::npos) return false;
  const ExpertTraits* const has = traits(family).experts;
  if (has != nullptr && key == has->switch_key) return false;  // has advice of its own
  if (has != nullptr)
    return Error{ErrorKind::usage,
                 fmt::format("is none of the keys of experts that Tidepool computes in {} models, such as {}",
                             name(family), has->count_key)};
  return Error{
      ErrorKind::usage,
      fmt::format("is a key of mixtures of experts, but {} models are dense; choose a family with experts, "
                  "such as qwen3_moe",
                  name(family))};
}

bool is_demanded(Family family, std::string_view key) { return demand_of(family, key) != nullptr; }

std::string wrong_family(const Field& field, Family family) {
  std::string text =
      fmt::format("is a key of {} models, but this model is {}",
                  families_text(field) == "all but gpt2" ? "Llama-like" : families_text(field), name(family));
  std::string way = "leave it out";
  for (const Field& other : model_fields())
    if (applies(other, family) && same_value(other, field))
      way = fmt::format("its name there is {}", other.key);
  return text + fmt::format("; {}, or set model.model_type: {}", way, name(example_family(field)));
}

std::string instead_of(const ForeignKey& given, Family family) {
  const auto about = [&](const Instead& i) {
    return i.key == given.key && (i.families & bit(family)) != 0 &&
           (i.section.empty() || given.section.empty() || i.section == given.section);
  };
  const auto found = std::ranges::find_if(advices, about);
  if (found == advices.end()) return "";
  const auto other = std::find_if(found + 1, advices.end(), about);
  if (other != advices.end() && !is_ours(*found, given) && !is_ours(*other, given))
    return fmt::format("the key differs between sections '{}' and '{}'; name the section", found->section,
                       other->section);
  const bool is_so = is_ours(*found, given) || (other != advices.end() && is_ours(*other, given));
  return is_so ? "Tidepool always does this; leave the key out" : std::string(found->advice);
}

}  // namespace tidepool
