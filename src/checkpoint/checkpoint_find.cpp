// Finds a checkpoint that is undamaged and belongs to this model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/read_file.h"
#include "base/text/cut_text.h"
#include "base/text/path_text.h"
#include "checkpoint/check_named.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"
#include "checkpoint/state_tensors.h"
#include "checkpoint/trained_by.h"
#include "huggingface/adapters/adapter_config.h"
#include "huggingface/directory/config_difference.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/shards.h"
#include "optimizers/optimizer.h"

namespace tidepool {
namespace {

constexpr u64 run_config_bytes_max = 1 * mib;

std::string tensor_text(const StoredTensor& t) {
  return fmt::format("{} {} {}", t.name, name(t.dtype), shape_text(t.shape));
}

// First difference between a file's tensors and those that this run would write; empty: none.
std::string tensors_difference(std::span<const StoredTensor> there, std::span<const StoredTensor> here) {
  for (std::size_t i = 0; i < std::max(there.size(), here.size()); ++i) {
    const std::string a = i < there.size() ? tensor_text(there[i]) : "nothing more";
    const std::string b = i < here.size() ? tensor_text(here[i]) : "nothing more";
    if (a != b) return fmt::format("it holds {} where this run has {}", a, b);
  }
  return {};
}

// Tensors of all files, in the order of the files' numbers.
std::vector<StoredTensor> tensors_in_order(const SafetensorsModel& model) {
  std::vector<const SafetensorsFile*> files;
  for (const auto& file : model.files()) files.push_back(file.get());
  std::ranges::sort(files, {}, [](const SafetensorsFile* file) { return file->path(); });
  std::vector<StoredTensor> out;
  for (const SafetensorsFile* file : files)
    out.insert(out.end(), file->tensors().begin(), file->tensors().end());
  return out;
}

constexpr std::string_view model_keys = "the model and train.precision", lora_keys = "section lora",
                           all_keys = "the model, section lora and train.precision";

Error other_run(const std::string& path, const std::string& difference, std::string_view keys) {
  return {ErrorKind::usage,
          fmt::format("{} was trained with other settings: {}. Set {} as there, or choose another output.dir",
                      path, difference, keys)};
}

Error cannot_tell(const Error& error) {
  return {error.kind,
          fmt::format("{}. So this checkpoint cannot be verified: fix the cause and resume, or name "
                      "an older checkpoint with --resume PATH",
                      error.message)};
}

Result<void> has_all_files(const std::string& path, const Manifest& manifest) {
  const auto lacks = [&](const char* file) {
    return Error{ErrorKind::corrupt_checkpoint,
                 fmt::format("{}/{}: does not list {}", path, manifest_file, file)};
  };
  const bool adapters = manifest.find(adapter_weights_file) != nullptr;
  for (const char* file :
       {optimizer_file_name, adapters ? adapter_config_file : model_config_file, trainer_state_file})
    if (manifest.find(file) == nullptr) return lacks(file);
  if (!adapters && manifest.find(weights_file) == nullptr && manifest.find(weights_index_file) == nullptr)
    return lacks(weights_file);
  return {};
}

// Compares alpha of each linear layer; shapes of tensors tell ranks.
Result<void> check_alphas(const std::string& path, const AdapterConfig& there, const ModelGraph& graph) {
  constexpr std::string_view before = "base_model.model.", a = ".lora_A.weight";
  for (const Window& window : graph.windows)
    for (const Tensor& t : window.tensors) {
      std::string_view module = t.name;
      if (!window.adapter || !take_prefix(module, before) || !module.ends_with(a)) continue;
      module.remove_suffix(a.size());
      const auto at = layer_module_of(module);
      const ModuleAdapter* own = at ? graph.lora.find(static_cast<u32>(at->layer), at->module) : nullptr;
      const double here = own != nullptr ? own->alpha : graph.lora.alpha, then = there.alpha_of(module);
      if (std::abs(then - here) > 1e-12 * here)
        return other_run(path, fmt::format("lora_alpha of {} is {} there and {} here", module, then, here),
                         lora_keys);
    }
  return {};
}

}  // namespace

Result<std::vector<u64>> checkpoint_steps(const std::string& run_dir) {
  TRY_ASSIGN(const std::vector<CheckpointName> all, list_checkpoints(run_dir));
  std::vector<u64> steps;
  for (const CheckpointName& name : all)
    if (name.mark == CheckpointMark::whole) steps.push_back(name.step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

Result<FoundCheckpoint> CheckpointStore::verify(const std::string& path) {
  TRY_ASSIGN(const Manifest manifest, read_manifest(path));
  TRY(has_all_files(path, manifest));
  for (const ListedFile& file : manifest.files)
    TRY(is_restored(file.file) ? check_length(path, file) : check_file(path, file, buffer_));
  TRY_ASSIGN(TrainerState state, read_trainer_state(path));
  if (state.step != manifest.step) {
    return Error{ErrorKind::corrupt_checkpoint, fmt::format("{}/{}: says step {}, the manifest step {}", path,
                                                            trainer_state_file, state.step, manifest.step)};
  }
  return FoundCheckpoint{
      .path = path, .manifest = manifest, .weights_xxh3 = manifest.weights_xxh3, .state = std::move(state)};
}

Result<void> CheckpointStore::check_model_config(const std::string& path, const ModelGraph& graph) {
  const std::string config_path = path + "/" + model_config_file;
  if (!is_named(config_path)) {
    TRY_ASSIGN(const AdapterConfig there, read_adapter_config(path, ErrorKind::corrupt_checkpoint));
    return other_run(path, fmt::format("lora.r is {} there and 0 here", there.r), lora_keys);
  }
  TRY_ASSIGN(const std::string text,
             read_small_file(config_path, run_config_bytes_max, ErrorKind::corrupt_checkpoint));
  TRY_ASSIGN(const ModelConfig config, parse_hf_config(text, ErrorKind::corrupt_checkpoint, config_path));
  const std::string difference = config_difference(config, graph.config);
  if (!difference.empty()) return other_run(path, difference, model_keys);
  return {};
}

// Compares rank and scale. Target modules need no check here: they decide which tensors exist.
Result<void> CheckpointStore::check_adapter_config(const std::string& path, const ModelGraph& graph) {
  if (!is_named(path + "/" + adapter_config_file))
    return other_run(path, fmt::format("lora.r is 0 there and {} here", graph.lora.r), lora_keys);
  TRY_ASSIGN(const AdapterConfig there, read_adapter_config(path, ErrorKind::corrupt_checkpoint));
  if (there.r != graph.lora.r)
    return other_run(path, fmt::format("lora.r is {} there and {} here", there.r, graph.lora.r), lora_keys);
  if (std::abs(there.alpha - graph.lora.alpha) > 1e-12 * graph.lora.alpha)
    return other_run(path,
                     fmt::format("lora.lora_alpha is {} there and {} here", there.alpha, graph.lora.alpha),
                     lora_keys);
  if (there.rslora != graph.lora.rslora)
    return other_run(path,
                     fmt::format("lora.use_rslora is {} there and {} here", there.rslora, graph.lora.rslora),
                     lora_keys);
  TRY(check_alphas(path, there, graph));
  for (const LayerAdapters& layer : graph.adapters)
    for (const ExpertAdapter& adapter : layer.experts) {
      if (layer.experts.form != AdapterForm::joined) continue;
      const u32 r = adapter.down ? there.down_r : there.gate_up_r;
      const double alpha = adapter.down ? there.down_alpha : there.gate_up_alpha;
      if (adapter.r != r)
        return other_run(path, fmt::format("lora.expert_r is {} there and {} here", r, adapter.r), lora_keys);
      if (std::abs(alpha - adapter.alpha) > 1e-12 * adapter.alpha)
        return other_run(path, fmt::format("lora.expert_alpha is {} there and {} here", alpha, adapter.alpha),
                         lora_keys);
    }
  return {};
}

Result<void> CheckpointStore::check_trained_alike(const std::string& path, const ModelGraph& graph) {
  Result<Manifest> manifest = read_manifest(path);
  if (!manifest) return {};
  std::erase_if(manifest->files, [](const ListedFile& entry) {
    return entry.file != model_config_file && entry.file != adapter_config_file &&
           entry.file != trainer_state_file;
  });
  std::vector<std::byte> buffer(64 * kib);
  if (!verify_files(path, *manifest, buffer)) return {};
  TRY(graph.lora.on() ? check_adapter_config(path, graph) : check_model_config(path, graph));
  const Result<TrainerState> state = read_trainer_state(path);
  if (!state) return {};
  const std::string_view now = name(graph.precision);
  const auto then = state->settings.find("train.precision");
  if (then == state->settings.end() || then->second == now) return {};
  return other_run(path, fmt::format("train.precision is {} there and {} here", then->second, now),
                   graph.lora.on() ? all_keys : model_keys);
}

bool CheckpointStore::is_whole(const std::string& path) {
  const Result<FoundCheckpoint> found = verify(path);
  return found && verify_files(path, found->manifest, buffer_).has_value();
}

// Headers of files that restore() will verify are unverified here. So if the model looks different, verify
// the files first: the difference may be damage.
Result<void> CheckpointStore::check_model(const FoundCheckpoint& found) {
  const Result<void> same = compare_model(found.path);
  if (same || same.error().kind == ErrorKind::io) return same;
  TRY(verify_files(found.path, found.manifest, buffer_));
  return same;
}

// The run continues in the checkpoint's form of experts. An optimizer's state in other formats than the run's
// is converted; then its tensors may also be in another order.
Result<void> CheckpointStore::compare_model(const std::string& path) {
  TRY(graph_.lora.on() ? check_adapter_config(path, graph_) : check_model_config(path, graph_));

  TRY_ASSIGN(const auto optimizer,
             SafetensorsFile::open(path + "/optimizer.safetensors", ErrorKind::corrupt_checkpoint));
  const std::vector<Kind> slots = optimizer_parts(graph_.state_slots);
  converts_ = !tensors_difference(optimizer->tensors(), stored_tensors(graph_, slots)).empty() &&
              has_slots_in_some_format(graph_, optimizer->tensors());
  const Result<TrainerState> state = read_trainer_state(path);
  if (const std::string difference = state ? difference_of_optimizers(*state, graph_) : "";
      !difference.empty())
    return Error{
        ErrorKind::usage,
        fmt::format("{} was trained with other settings: {}. Resume with that rule; or begin anew from "
                    "its weights, with model={} and another output.dir",
                    path, difference, path)};
  const auto check_tensors = [&](const char* file_name, std::vector<StoredTensor> there,
                                 const std::vector<Kind>& parts) -> Result<void> {
    std::vector<StoredTensor> here = stored_tensors(graph_, parts, form_);
    if (converts_)
      std::ranges::sort(there, {}, &StoredTensor::name), std::ranges::sort(here, {}, &StoredTensor::name);
    const std::string difference = tensors_difference(there, here);
    if (difference.empty()) return {};
    return other_run(path, fmt::format("{}: {}", file_name, difference),
                     graph_.lora.on() ? all_keys : model_keys);
  };
  const char* weights = weights_file_of(graph_);
  TRY_ASSIGN(const auto model, SafetensorsModel::open(path, ErrorKind::corrupt_checkpoint, weights));
  if (!graph_.lora.on()) {
    TRY_ASSIGN(form_, find_expert_form(*model, graph_.config));
  }
  TRY(check_tensors(weights, tensors_in_order(*model), model_parts()));
  if (converts_) return {};
  const std::span<const StoredTensor> tensors = optimizer->tensors();
  return check_tensors("optimizer.safetensors", {tensors.begin(), tensors.end()}, slots);
}

Result<FoundCheckpoint> CheckpointStore::open(const std::string& path) {
  TRY(check_named(path));
  TRY_ASSIGN(FoundCheckpoint found, verify(path));
  TRY(check_model(found));
  return found;
}

Result<Resumable> CheckpointStore::find_resumable(const std::vector<std::string>& distrusted) {
  Resumable out;
  TRY_ASSIGN(std::vector<u64> steps, checkpoint_steps(run_dir_));
  std::reverse(steps.begin(), steps.end());
  for (const u64 step : steps) {
    const std::string path = path_of(step);
    if (std::ranges::find(distrusted, path) != distrusted.end()) continue;
    TRY(check_manifest_version(path));
    Result<FoundCheckpoint> found = verify(path);
    if (!found && found.error().kind != ErrorKind::corrupt_checkpoint) return cannot_tell(found.error());
    Result<void> same = found ? check_model(*found) : Result<void>(found.error());
    if (same) {
      out.found = std::move(*found);
      return out;
    }
    // Skips only damaged or incomplete checkpoints. After an I/O error the device may work again later;
    // resuming from an older checkpoint would repeat steps and finally rotate this checkpoint away.
    if (same.error().kind != ErrorKind::corrupt_checkpoint) return same.error();
    out.stepped_over.push_back({path, same.error().message});
  }
  return out;
}

}  // namespace tidepool
