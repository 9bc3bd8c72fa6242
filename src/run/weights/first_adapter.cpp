#include "run/weights/first_adapter.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/path_text.h"
#include "checkpoint/checkpoint.h"
#include "fit/memory_need.h"
#include "huggingface/adapters/adapter_config.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/expert_files.h"
#include "huggingface/weights/load_weights.h"
#include "huggingface/weights/other_weights.h"
#include "huggingface/weights/safetensors.h"
#include "huggingface/weights/unused_tensors.h"
#include "huggingface/weights/weights_fingerprint.h"
#include "run/weights/base_model.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

Error wrong(const SafetensorsModel& adapter, std::string_view tensor, const std::string& reason) {
  return {ErrorKind::bad_input, fmt::format("{}: tensor {} {}", adapter.files()[0]->path(), tensor, reason)};
}

Result<void> check_is_there(const std::string& directory) {
  if (is_named(directory + "/" + adapter_weights_file)) return {};
  const bool pickled = is_named(directory + "/adapter_model.bin");
  return Error{ErrorKind::bad_input,
               fmt::format("{}: holds no {}{}", directory, adapter_weights_file,
                           pickled ? ", but adapter_model.bin, a format that can run programs and is not "
                                     "read; convert it with PEFT's save_pretrained(DIR)"
                                   : "")};
}

// Checks that the adapter has exactly the run's adapter tensors. PEFT would silently ignore an extra tensor
// and initialise a missing one.
Result<void> check_tensors(const SafetensorsModel& adapter, const ModelGraph& graph) {
  const std::vector<FileTensor> tensors = file_tensors(graph, form_of_files(graph));
  std::map<std::string_view, const FileTensor*> wanted;
  for (const FileTensor& tensor : tensors)
    if (graph.windows[tensor.parts[0].window].adapter) wanted.emplace(tensor.name, &tensor);
  for (const auto& file : adapter.files())
    for (const StoredTensor& stored : file->tensors()) {
      const auto at = wanted.find(stored.name);
      if (at == wanted.end())
        return wrong(
            adapter, stored.name,
            "belongs to no adapter of this run: correct lora.target_modules or lora.target_parameters, or "
            "name an adapter of this model");
      if (stored.shape != at->second->shape)
        return wrong(
            adapter, stored.name,
            fmt::format("is {}, but this run's model and lora.r need {}: name an adapter of this model",
                        shape_text(stored.shape), shape_text(at->second->shape)));
      wanted.erase(at);
    }
  if (wanted.empty()) return {};
  return wrong(adapter, wanted.begin()->first,
               "is missing, but this run trains an adapter there: name the modules of the file with "
               "lora.target_modules, and its parameters of experts with lora.target_parameters");
}

// Compares the weights of the run's model with those of the directory that adapter_config.json names, if that
// holds a model. Another name is no error: it may be the same model's name on a hub.
Result<void> check_named_base(const Config& config, const std::string& named) {
  std::error_code unused;
  const std::string& model = config.model_directory;
  if (named.empty() || fs::equivalent(named, model, unused)) return {};
  if (!is_named(named + "/" + model_config_file) || !has_weights(named)) return {};
  TRY_ASSIGN(const std::string there, weights_fingerprint(named));
  TRY_ASSIGN(const std::string here, weights_fingerprint(model));
  if (there == here) return {};
  return Error{
      ErrorKind::usage,
      fmt::format("lora.adapter: {} was trained for the model in {}, whose weights differ from those in "
                  "{}; name that model in the config, or correct base_model_name_or_path of {}",
                  config.lora.adapter, named, model, adapter_config_file)};
}

}  // namespace

Result<void> check_first_adapter(const Job& job) {
  const auto& [config, graph, options] = job;
  const std::string& directory = config.lora.adapter;
  if (directory.empty()) return {};
  TRY_ASSIGN(const AdapterConfig said, read_adapter_config(directory, ErrorKind::bad_input));
  TRY(check_is_there(directory));
  if (said.saves_score && !graph.config.score.on())
    return Error{ErrorKind::usage, fmt::format("lora.adapter: {} is a classifier's or a reward model's; set "
                                               "objective.type=sequence_classification "
                                               "and objective.labels, or objective.type=reward",
                                               directory)};
  TRY_ASSIGN(const auto adapter,
             SafetensorsModel::open(directory, ErrorKind::bad_input, adapter_weights_file));
  TRY(check_tensors(*adapter, graph));
  TRY(check_base_model(config.model_directory, directory));
  return check_named_base(config, said.base);
}

Result<void> load_first_adapter(const Job& job, StateWriter& state, RunOutputs& outputs) {
  const std::string& directory = job.config.lora.adapter;
  TRY(verify_model_if_hashed(directory, checkpoint_buffer));
  TRY(load_weights(directory, job.graph, state, WeightsOf::adapters));
  outputs.say("starting from the adapter in " + directory);
  for (const std::string& line : describe_rounded(directory)) outputs.say(line);
  return {};
}

}  // namespace tidepool
