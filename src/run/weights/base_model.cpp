#include "run/weights/base_model.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/read_file.h"
#include "base/text/path_text.h"
#include "checkpoint/trainer_state.h"
#include "huggingface/directory/config_difference.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/weights_fingerprint.h"
#include "run/weights/kept_model.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

// RETURNS: how the base model's config.json differs from the copy that the run keeps; empty: no difference,
// or no copy.
Result<std::string> difference_of_configs(const std::string& base, const std::string& checkpoint) {
  const std::string run = fs::path(absolute_path(without_slashes(checkpoint))).parent_path().string();
  const std::string kept = kept_model_directory({.output = {.dir = run}});
  if (!is_named(kept + "/" + model_config_file)) return std::string();
  TRY(check_kept_model(run, model_config_file));
  TRY_ASSIGN(const ModelConfig then, read_model_directory(kept));
  TRY_ASSIGN(const ModelConfig now, read_model_directory(base));
  const std::string difference = config_difference(then, now);
  return difference.empty() ? "" : fmt::format("{} ({})", difference, model_config_file);
}

Result<std::string> difference_of_weights(const std::string& base, const std::string& then) {
  if (then.empty()) return std::string();
  TRY_ASSIGN(const std::string now, weights_fingerprint(base));
  return now == then ? std::string()
                     : fmt::format("the weights' fingerprint is {} there and {} here", then, now);
}

}  // namespace

Result<void> check_base_model(const std::string& base, const std::string& checkpoint) {
  if (!is_named(checkpoint + "/" + trainer_state_file)) return {};
  TRY_ASSIGN(const TrainerState state, read_trainer_state(checkpoint));
  TRY_ASSIGN(std::string difference, difference_of_configs(base, checkpoint));
  if (difference.empty()) {
    TRY_ASSIGN(difference, difference_of_weights(base, state.base_fingerprint));
  }
  if (difference.empty()) return {};
  return Error{
      ErrorKind::usage,
      fmt::format("{} was trained for another base model than the model in {}: {}. Restore that model, or "
                  "name its directory (`model` of the config, --base of export)",
                  without_slashes(checkpoint), base, difference)};
}

Result<void> same_base_weights(const std::string& base, const std::string& then, const std::string& xxh3) {
  if (then.empty() || then == xxh3) return {};
  return Error{
      ErrorKind::bad_input,
      fmt::format(
          "{}: the weights differ from the base model that the adapters were trained for (XXH3 is {}, "
          "was {}): a file was changed or damaged; restore that model",
          base, xxh3, then)};
}

Result<void> check_base_weights(const std::string& base, const std::string& checkpoint,
                                const std::string& xxh3) {
  if (!is_named(checkpoint + "/" + trainer_state_file)) return {};
  TRY_ASSIGN(const TrainerState state, read_trainer_state(checkpoint));
  return same_base_weights(base, state.base_xxh3, xxh3);
}

Result<void> check_base_is_named(const Config& config) {
  if (!config.lora.on() || !config.model_directory.empty()) return {};
  return Error{
      ErrorKind::usage,
      fmt::format("lora.r: {} asks for adapters, which need a trained base model: name its directory "
                  "with model: DIRECTORY, or set lora.r=0 to train a whole model from random weights",
                  config.lora.r)};
}

namespace {

// Quantized weights are not trained, and a directory says itself how its weights are quantized.
Result<void> check_quantization(const Config& config) {
  const Packing packing = config.model.quantization.packing;
  const std::string& directory = config.model_directory;
  // A run that trains the whole model may resume without the directory that it began with.
  if (!directory.empty() && (config.lora.on() || packing != Packing::none)) {
    TRY_ASSIGN(const ModelConfig base, read_model_directory(directory));
    if (base.quantization.packing != packing)
      return Error{
          ErrorKind::usage,
          fmt::format("model.quantization: {} is not what the config.json in {} says ({}), and the key "
                      "is for plans without files: leave it out",
                      name(packing), directory, name(base.quantization.packing))};
  }
  if (config.lora.on() || packing == Packing::none) return {};
  if (directory.empty())
    return Error{
        ErrorKind::usage,
        fmt::format("model.quantization: weights in {} are not trained, only adapters beside them: set "
                    "lora.r, such as lora.r=16, or leave the key out",
                    name(packing))};
  return Error{
      ErrorKind::usage,
      fmt::format("model: the weights in {0} are quantized ({1}), so only adapters beside them can be "
                  "trained: set lora.r, such as lora.r=16, or unpack them with `tidepool export {0} "
                  "OUT --dtype bf16` and name OUT",
                  directory, name(packing))};
}

}  // namespace

Result<void> check_model_is_unchanged(const Config& config) {
  TRY(check_quantization(config));
  if (!config.lora.on() || config.model_directory.empty()) return {};
  TRY_ASSIGN(const ModelConfig base, read_model_directory(config.model_directory));
  const std::string difference = config_difference(base, config.model);
  if (difference.empty()) return {};
  return Error{ErrorKind::usage,
               fmt::format("lora.r: adapters need the model in {} unchanged, but this config changes the "
                           "model: {}. Leave these keys out, or train the whole model with lora.r=0",
                           config.model_directory, difference)};
}

}  // namespace tidepool
