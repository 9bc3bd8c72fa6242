// Model directories: what is in one, and what to say if it is none.
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <filesystem>

#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/checkpoint_name.h"
#include "base/text/path_text.h"
#include "huggingface/directory/hf_config.h"

namespace tidepool {
namespace json = boost::json;

Result<std::optional<Family>> family_of_directory(const std::string& directory) {
  const std::string path = directory + "/" + model_config_file;
  TRY_ASSIGN(const std::string text, read_small_file(path, config_bytes_max, ErrorKind::bad_input));
  TRY_ASSIGN(const json::value root, parse_json(text, ErrorKind::bad_input, path));
  const json::value* type = root.is_object() ? root.get_object().if_contains("model_type") : nullptr;
  if (type == nullptr || !type->is_string()) return std::optional<Family>();
  if (const ModelWrapper* wrapper = wrapper_of(root.get_object())) return std::optional(wrapper->text);
  const Result<Family> family = parse_family(std::string_view(type->get_string()));
  return family ? std::optional(*family) : std::nullopt;
}

Error adapters_are_no_model(const std::string& directory) {
  return {ErrorKind::usage,
          fmt::format("{0} holds adapters (LoRA) but no model: merge them with `tidepool export {0} OUT` and "
                      "name OUT, or resume their run with its config and --resume",
                      directory)};
}

Error holds_no_config(const std::string& directory) {
  return {ErrorKind::bad_input,
          fmt::format("{} holds no {}, which describes the model of its weights: copy the file from where "
                      "the weights came from, or name another directory",
                      directory, model_config_file)};
}

std::string newest_checkpoint(const std::string& directory) {
  std::error_code ignored;
  std::optional<CheckpointName> newest;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const auto found = parse_checkpoint_name(entry.path().filename().string());
    if (!found || found->mark != CheckpointMark::whole) continue;
    if (!newest || found->step > newest->step) newest = found;
  }
  return newest ? fmt::format("{}/{}", directory, to_text(*newest)) : "";
}

namespace {

Error run_is_no_model(const std::string& directory, const std::string& checkpoint) {
  std::error_code ignored;
  const bool adapters = std::filesystem::exists(checkpoint + "/" + adapter_config_file, ignored);
  return {
      ErrorKind::usage,
      fmt::format("{} is a run's directory, which holds no {}: ", directory, model_config_file) +
          (adapters ? fmt::format("its newest checkpoint holds adapters (LoRA); merge them with `tidepool "
                                  "export {} OUT` and name OUT",
                                  checkpoint)
                    : "name its newest checkpoint, " + checkpoint)};
}

}  // namespace

Result<ModelConfig> read_model_directory(const std::string& directory) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory, ignored))
    return Error{ErrorKind::usage,
                 fmt::format("'{}' is not a directory; name one that holds a config.json and weights, "
                             "or write keys under 'model:', such as model_type",
                             directory)};
  const std::string path = directory + "/" + model_config_file;
  if (!is_named(path)) {
    if (std::filesystem::exists(directory + "/" + adapter_config_file, ignored))
      return adapters_are_no_model(directory);
    if (const std::string checkpoint = newest_checkpoint(directory); !checkpoint.empty())
      return run_is_no_model(directory, checkpoint);
    return holds_no_config(directory);
  }
  TRY_ASSIGN(const std::string text, read_small_file(path, config_bytes_max, ErrorKind::bad_input));
  TRY_ASSIGN(ModelConfig config, parse_hf_config(text, ErrorKind::bad_input, path));
  config.experts.joined_files = has_joined_experts(directory, config);
  if (Quantization& q = config.quantization; q.packing != Packing::none)
    if (std::optional<std::vector<std::string>> modules = unpacked_modules(directory, config))
      q.unpacked_modules = *std::move(modules), q.from_files = true;
  return config;
}

}  // namespace tidepool
