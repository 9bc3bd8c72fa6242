#include "config/foreign_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tidepool {

namespace {

// Keys that change the model: only the value that Tidepool builds is taken.
struct Demand {
  std::string_view key;
  std::string_view value;
};
constexpr std::array<Demand, 7> demands = {{{"model_type", "gpt2"},
                                            {"activation_function", "gelu_new"},
                                            {"tie_word_embeddings", "true"},
                                            {"scale_attn_weights", "true"},
                                            {"scale_attn_by_inverse_layer_idx", "false"},
                                            {"add_cross_attention", "false"},
                                            {"is_encoder_decoder", "false"}}};

// Keys of config.json files in the wild that change nothing in training.
constexpr std::array<std::string_view, 20> harmless = {"architectures",
                                                       "attention_mask",
                                                       "bos_token_id",
                                                       "dtype",
                                                       "eos_token_id",
                                                       "finetuning_task",
                                                       "gradient_checkpointing",
                                                       "id2label",
                                                       "label2id",
                                                       "output_past",
                                                       "pad_token_id",
                                                       "reorder_and_upcast_attn",
                                                       "summary_type",
                                                       "summary_activation",
                                                       "summary_first_dropout",
                                                       "summary_proj_to_labels",
                                                       "summary_use_proj",
                                                       "task_specific_params",
                                                       "torch_dtype",
                                                       "transformers_version"};

struct Instead {
  std::string_view key;
  std::string_view advice;
};
constexpr std::array<Instead, 20> advices = {{
    {"num_train_epochs", "set train.max_steps"},
    {"warmup_ratio", "train.warmup_steps takes a ratio below 1"},
    {"fp16", "set train.precision: fp16"},
    {"bf16", "set train.precision: bf16"},
    {"loss_scale", "fp16 scales the loss by itself, from train.init_scale on"},
    {"initial_scale_power", "set train.init_scale to 2 to this power"},
    {"initial_loss_scale", "set train.init_scale"},
    {"hysteresis", "every overflow lowers the scale; leave the key out"},
    {"optim", "AdamW is the optimizer; leave the key out"},
    {"gradient_checkpointing", "set train.recompute"},
    {"max_seq_length", "set train.sequence_length"},
    {"batch_size", "set train.per_device_train_batch_size"},
    {"per_device_eval_batch_size", "evaluation uses train.per_device_train_batch_size"},
    {"eval_strategy", "set train.eval_steps"},
    {"save_strategy", "set output.save_steps"},
    {"logging_strategy", "set output.logging_steps"},
    {"logging_dir", "set output.dir"},
    {"resume_from_checkpoint", "use the option --resume"},
    {"lr", "set train.learning_rate"},
    {"dropout", "set model.embd_pdrop, model.attn_pdrop and model.resid_pdrop"},
}};

}  // namespace

Result<bool> accept_model_key(std::string_view key, std::string_view value) {
  for (const Demand& demand : demands) {
    if (key != demand.key) continue;
    if (value == demand.value) return true;
    return Error{ErrorKind::usage,
                 fmt::format("'{}' is not supported; Tidepool trains GPT-2 models with {}: {}", value,
                             demand.key, demand.value)};
  }
  return std::ranges::find(harmless, key) != harmless.end() || key == "use_cache";
}

std::string_view instead_of(std::string_view key) {
  const auto found = std::ranges::find(advices, key, &Instead::key);
  return found == advices.end() ? "" : found->advice;
}

}  // namespace tidepool
