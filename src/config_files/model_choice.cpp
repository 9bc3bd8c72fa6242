#include "config_files/model_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/files/file_list.h"
#include "base/text/path_text.h"
#include "base/yaml/read_keys.h"
#include "config/foreign_keys.h"
#include "config_files/load_config.h"
#include "huggingface/adapters/adapter_config.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/directory/hf_score.h"
#include "objectives/objective.h"

namespace tidepool {
namespace {

using Said = ModelChoice::Said;

Said said_in_file(std::string_view file, const YAML::Node& model, const char* key) {
  if (!model.IsMap()) return {};
  const YAML::Node node = model[key];
  if (!node || !node.IsScalar()) return {};
  return {node.Scalar(), place_in(file, node)};
}

std::string run_dir_in_file(const YAML::Node& output) {
  if (!output || !output.IsMap()) return "";
  for (const char* key : {"dir", "output_dir"})
    if (const YAML::Node dir = output[key]; dir && dir.IsScalar()) return dir.Scalar();
  return "";
}

// RETURNS: true if the kept config.json is undamaged.
bool is_sound(const std::string& kept) {
  const auto list = read_kept_list(kept);
  if (!list) return false;
  const ListedFile* config = *list ? find_listed(**list, model_config_file) : nullptr;
  std::vector<std::byte> buffer(64 * kib);
  return config == nullptr || check_file(kept, *config, buffer).has_value();
}

// Directory to read config.json from: the model directory itself, as long as it exists.
std::string place_of_config(const ModelChoice& choice, KeptModel use) {
  std::error_code unused;
  if (use == KeptModel::unread || choice.run_dir.empty() ||
      std::filesystem::is_directory(choice.directory.text, unused))
    return choice.directory.text;
  const std::string kept = kept_model_directory({.output = {.dir = choice.run_dir}});
  if (!is_named(kept + "/" + model_config_file)) return choice.directory.text;
  if (is_sound(kept)) return kept;
  // A resumed run restores a damaged copy from the newest checkpoint, and reports it.
  const std::string checkpoint = newest_checkpoint(choice.run_dir);
  return is_named(checkpoint + "/" + model_config_file) ? checkpoint : kept;
}

void read_override(ModelChoice& choice, const std::string& text) {
  const auto value_of = [&](std::initializer_list<std::string_view> starts, Said& said) {
    for (const std::string_view start : starts)
      if (text.starts_with(start)) said = {text.substr(start.size()), fmt::format("override '{}'", text)};
  };
  value_of({"model=", "model.directory=", "directory="}, choice.directory);
  value_of({"model.model_type=", "model_type="}, choice.family);
  value_of({"lora.adapter=", "lora.adapter_name_or_path=", "adapter=", "adapter_name_or_path="},
           choice.adapter);
  Said run_dir;
  value_of({"output.dir=", "output.output_dir=", "output_dir=", "dir="}, run_dir);
  if (!run_dir.text.empty()) choice.run_dir = run_dir.text;
}

}  // namespace

bool is_path(const YAML::Node& model) { return model.IsScalar() && !model.Scalar().empty(); }

ModelChoice model_choice(std::string_view file, const YAML::Node& root,
                         const std::vector<std::string>& overrides) {
  ModelChoice choice;
  if (root.IsMap()) {
    choice.run_dir = run_dir_in_file(root["output"]);
    const YAML::Node model = root["model"], lora = root["lora"];
    for (const char* key : {"adapter", "adapter_name_or_path"})
      if (Said said = lora ? said_in_file(file, lora, key) : Said{}; !said.text.empty())
        choice.adapter = std::move(said);
    if (model && is_path(model)) choice.directory = {model.Scalar(), place_in(file, model)};
    if (model && model.IsMap()) {
      choice.directory = said_in_file(file, model, "directory");
      choice.family = said_in_file(file, model, "model_type");
    }
  }
  for (const std::string& text : overrides) read_override(choice, text);
  return choice;
}

Result<ModelConfig> model_of(const ModelChoice& choice, KeptModel kept) {
  std::optional<Family> family;
  if (!choice.family.text.empty()) {
    const Result<Family> parsed = parse_family(choice.family.text);
    if (!parsed)
      return fault_at(choice.family.place, fmt::format("model.model_type: {}", parsed.error().message));
    family = *parsed;
  }
  if (choice.directory.text.empty()) return default_model(family.value_or(Family::gpt2));
  Result<ModelConfig> model = read_model_directory(place_of_config(choice, kept));
  if (!model && model.error().kind == ErrorKind::usage)
    return fault_at(choice.directory.place, fmt::format("model: {}", model.error().message));
  if (model && family && *family != model->family)
    return fault_at(choice.family.place,
                    fmt::format("model.model_type: {} holds a {} model; leave the key out",
                                choice.directory.text, name(model->family)));
  return model;
}

Result<LoraConfig> lora_of(const ModelChoice& choice, KeptModel kept) {
  const auto& [directory, place] = choice.adapter;
  if (directory.empty()) return LoraConfig{};
  std::error_code unused;
  const bool is_there = std::filesystem::is_directory(directory, unused);
  if (!is_there && kept == KeptModel::read) {
    const std::string own = newest_checkpoint(choice.run_dir);
    if (own.empty() || !is_named(own + "/" + adapter_config_file)) return LoraConfig{};
    TRY_ASSIGN(const AdapterConfig adapter, read_adapter_config(own, ErrorKind::corrupt_checkpoint));
    return lora_of_adapter_files(adapter, own, directory);
  }
  if (!is_there || !is_named(directory + "/" + adapter_config_file))
    return fault_at(place,
                    fmt::format("lora.adapter: '{}' {}; name the directory of an adapter, written by PEFT's "
                                "save_pretrained() or by a run with LoRA",
                                directory,
                                is_there ? fmt::format("holds no {}", adapter_config_file)
                                         : std::string("is not a directory")));
  TRY_ASSIGN(const AdapterConfig adapter, read_adapter_config(directory, ErrorKind::bad_input));
  return lora_of_adapter_files(adapter, directory, directory);
}

std::string complete_labels(Config& config, const ScoreHead& of_directory) {
  ScoreHead& score = config.model.score;
  if (score.labels == 0) score.labels = static_cast<u32>(score.names.size());
  const Objective& of = objective(config.objective.type);
  if (of.documents == Documents::scored_pairs && score.labels == 0) score.labels = 1;
  score.of_tokens = of.documents == Documents::token_labels;
  if (score.of_tokens)
    score.dropout = of_directory.of_tokens ? of_directory.dropout : token_classifier_dropout;
  if (of.labelled()) config.data.labelled = score;
  if (may_compare(objective_rule(config.objective)) && config.objective.reference.empty())
    config.objective.reference = config.model_directory;
  config.data.units = unit_settings(config.objective, config.model, config.train.sequence_length);
  if (config.data.units.sequences < 2 && !config.data.packing) config.data.units.shares = false;
  if (!of_directory.on()) return {};
  if (score.of_tokens != of_directory.of_tokens)
    return fmt::format(
        "the model directory's labels are those of {}; set objective.type to {}_classification, or "
        "name a model without such a head",
        of_directory.of_tokens ? "tokens" : "texts", of_directory.of_tokens ? "token" : "sequence");
  if (score.labels != of_directory.labels)
    return fmt::format(
        "the model directory's head has {} labels, and these are {}; leave the keys of labels out, "
        "or name a model without such a head",
        of_directory.labels, score.labels);
  if (score.names != of_directory.names && std::ranges::is_permutation(score.names, of_directory.names))
    return fmt::format(
        "the model directory has the same names in another order ({}), so each would stand for "
        "another label; leave the key out",
        fmt::join(of_directory.names, ", "));
  return {};
}

}  // namespace tidepool
