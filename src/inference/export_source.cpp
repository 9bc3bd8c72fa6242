#include "inference/export_source.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <filesystem>
#include <optional>

#include "base/json/text.h"
#include "base/text/path_text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/origin.h"
#include "checkpoint/trainer_state.h"
#include "fit/memory_need.h"
#include "huggingface/adapters/adapter_config.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/load_weights.h"
#include "huggingface/weights/other_weights.h"
#include "huggingface/weights/shards.h"
#include "inference/committed_checkpoint.h"
#include "model/blocks.h"
#include "run/weights/base_model.h"
#include "run/weights/kept_model.h"

namespace tidepool {

namespace {

Result<ExportSource> find_what_is_named(const std::string& path, std::string& reading) {
  namespace fs = std::filesystem;
  const auto has = [&](const char* file) { return is_named(path + "/" + file); };
  std::error_code unused;
  if (!fs::is_directory(path, unused))
    return Error{ErrorKind::usage,
                 fmt::format("{} is not a directory: name a run, a checkpoint or a model directory", path)};
  if (has_manifest(path)) {
    TRY(verify_model(path, checkpoint_buffer));
    return ExportSource{.directory = path, .notes = {}};
  }
  // Other trainers leave checkpoints beside a model in one directory: the path then means the model.
  if (has(model_config_file) && has_weights(path)) return ExportSource{.directory = path, .notes = {}};
  if (has(adapter_config_file) && has(adapter_weights_file))
    return ExportSource{.directory = path, .notes = {}};
  TRY_ASSIGN(const std::vector<std::string> committed, save_committed_state(path));
  TRY_ASSIGN(const FoundWeights found, find_weights(path, checkpoint_buffer));
  if (!found.path) {
    if (has_weights(path)) return holds_no_config(path);
    if (std::string other = other_weights(path); !other.empty())
      return Error{ErrorKind::bad_input, std::move(other)};
    return Error{ErrorKind::usage,
                 fmt::format("{} holds neither a checkpoint nor {} with {}: name a run, a checkpoint "
                             "or a model directory",
                             path, model_config_file, weights_file)};
  }
  reading = *found.path;
  ExportSource out{.directory = *found.path, .notes = committed};
  for (const SteppedOver& s : found.stepped_over)
    out.notes.push_back(fmt::format("skipped {}: {}", s.path, s.reason));
  out.notes.push_back("exporting " + *found.path);
  return out;
}

// RETURNS: the directory of the adapters' base model: `base`, or the one that the adapters' config names.
Result<std::string> base_of(const std::string& adapter, const std::string& base) {
  TRY_ASSIGN(const AdapterConfig config, read_adapter_config(adapter, ErrorKind::bad_input));
  const std::string directory = base.empty() ? config.base : base;
  const bool is_model = is_named(directory + "/" + model_config_file);
  if (!directory.empty() && is_model && has_weights(directory)) {
    TRY(verify_model_if_hashed(directory, checkpoint_buffer));
    TRY(check_base_model(directory, adapter));
    return directory;
  }
  if (!base.empty())
    return Error{ErrorKind::usage,
                 fmt::format("--base {}: holds no {} with {}: name a model directory, or a run's "
                             "checkpoint-N",
                             base, model_config_file, weights_file)};
  return Error{ErrorKind::usage,
               fmt::format("{} holds adapters for '{}', which is not a model directory here: name the "
                           "adapters' base model with --base DIR",
                           adapter, directory)};
}

// Checks that a model has all tensors, if Tidepool computes its family. Names and shapes of others are
// unknown.
Result<void> check_model_is_whole(const std::string& directory) {
  TRY_ASSIGN(const std::optional<Family> family, family_of_directory(directory));
  if (!family) return {};
  const Result<ModelConfig> model = read_model_directory(directory);
  if (!model && has_manifest(directory)) return model.error();  // Tidepool wrote this config
  if (!model) return {};                                        // settings that Tidepool does not compute
  TRY_ASSIGN(const ModelGraph graph,
             build_model(*model, Precision::fp32, {.sequences = 1, .tokens = 1}, Precision::fp32));
  return check_all_tensors(directory, graph);
}

// RETURNS: the items of a list as settings are written, which is JSON; empty: it is none.
std::vector<std::string> list_of_text(const std::string& text) {
  std::vector<std::string> out;
  const Result<boost::json::value> list = parse_json(text, ErrorKind::bad_input, trainer_state_file);
  if (!list || !list->is_array()) return out;
  for (const boost::json::value& item : list->get_array())
    if (item.is_string()) out.emplace_back(item.get_string());
  return out;
}

// Adds to `source` the base model's hash and changed files, as the adapters' run recorded them.
Result<void> add_what_the_run_knows(ExportSource& source) {
  const std::string state_path = source.adapter + "/" + trainer_state_file;
  if (!is_named(state_path)) return {};  // adapters of PEFT
  TRY_ASSIGN(const TrainerState state, read_trainer_state(source.adapter));
  source.base_xxh3 = state.base_xxh3;
  if (const auto labels = state.settings.find("objective.labels"); labels != state.settings.end())
    source.labels = list_of_text(labels->second);
  const std::string run =
      std::filesystem::path(absolute_path(without_slashes(source.adapter))).parent_path().string();
  const std::vector<std::string> changed =
      changes_since_kept({.model_directory = source.directory, .output = {.dir = run}});
  source.notes.insert(source.notes.end(), changed.begin(), changed.end());
  return {};
}

// Finds the directory whose form a text model gets: the one that was named, or the origin of its checkpoint.
Result<void> find_base(ExportSource& source, const ExportRequest& request) {
  const bool adapters = !source.adapter.empty();  // whose base model --base names
  const std::string named = adapters ? "" : request.base;
  std::optional<Origin> origin;
  if (has_manifest(source.directory)) {
    TRY_ASSIGN(const Manifest manifest, read_manifest(source.directory));
    origin = manifest.origin;
  }
  if (named.empty() && !origin) return {};
  const std::string base = named.empty() ? origin->directory : named;
  if (!is_named(base + "/" + model_config_file) || !has_weights(base)) {
    const std::string lacks = fmt::format("holds no {} with {}", model_config_file, weights_file);
    if (!named.empty())
      return usage_error(fmt::format("--base {}: {}: name the model directory that {} began from", base,
                                     lacks, source.directory));
    return usage_error(fmt::format(
        "{} was trained from {}, whose other tensors an export carries, and which {} now: put that "
        "model there again{}, or write the text model alone with --text-only",
        source.directory, base, lacks, adapters ? "" : ", name its directory with --base DIR"));
  }
  TRY(verify_model_if_hashed(base, checkpoint_buffer));
  if (origin) TRY(check_origin(*origin, base));
  source.notes.push_back(fmt::format("writing {} in the form of {}", source.directory, base));
  source.base = base;
  return {};
}

}  // namespace

Result<ExportSource> find_export_source(const ExportRequest& request, std::string& reading) {
  TRY_ASSIGN(ExportSource out, find_what_is_named(request.path, reading));
  const bool adapters = is_named(out.directory + "/" + adapter_config_file);
  if (!adapters && request.text_only && !request.base.empty())
    return usage_error(
        fmt::format("--base: {} holds a model, not adapters, and --text-only writes it alone: leave "
                    "one of the two out",
                    out.directory));
  if (adapters) {
    out.adapter = std::move(out.directory);
    TRY_ASSIGN(out.directory, base_of(out.adapter, request.base));
  }
  TRY(check_model_is_whole(out.directory));
  if (adapters) {
    TRY(add_what_the_run_knows(out));
    out.notes.push_back(fmt::format("merging {} into {}", out.adapter, out.directory));
  }
  if (request.text_only) return out;
  TRY(find_base(out, request));
  return out;
}

}  // namespace tidepool
