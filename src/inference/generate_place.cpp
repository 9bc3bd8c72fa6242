#include "inference/generate_place.h"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>

#include "base/text/path_text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "fit/memory_need.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/other_weights.h"
#include "inference/committed_checkpoint.h"
#include "inference/model_directory.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

// RETURNS: the absolute path without a trailing slash, so that "." has a directory above it.
fs::path clean(const std::string& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

bool is_numbered(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("checkpoint-") && name.size() > 11 && std::isdigit(name[11]) != 0;
}

bool looks_like_checkpoint(const fs::path& path) {
  const auto has = [&](const char* file) { return is_named((path / file).string()); };
  return is_numbered(path) || has_manifest(path.string()) || has_weights(path.string()) ||
         has(adapter_weights_file);
}

// RETURNS: the place of a checkpoint, or of another trainer's model directory, which has no hashes.
Result<GeneratePlace> checkpoint_place(const std::string& path) {
  TRY(is_numbered(clean(path)) ? verify_model(path, checkpoint_buffer)
                               : verify_model_if_hashed(path, checkpoint_buffer));
  GeneratePlace out{.run_dir = clean(path).parent_path().string(), .checkpoint = path};
  if (is_named(out.run_dir + "/config.yaml")) return out;
  if (is_named(path + "/" + adapter_config_file))
    return Error{
        ErrorKind::usage,
        fmt::format(
            "{0} holds adapters (LoRA) and is in no run: merge them first with `tidepool export {0} OUT "
            "--base MODEL`, where MODEL is the directory of their base model, then use OUT",
            path)};
  if (!is_named(path + "/" + model_config_file)) return holds_no_config(path);
  return Error{ErrorKind::usage,
               fmt::format("{0} is in no run: budgets are read from the config.yaml of the run, in the "
                           "directory above; put a config.yaml there, or make a model directory with "
                           "`tidepool export {0} OUT`, then use OUT with memory.device=2GiB memory.host=2GiB",
                           path)};
}

}  // namespace

bool stands_alone(const std::string& path) {
  const fs::path directory = clean(path);
  return is_model_directory(path) && !is_named((directory / "config.yaml").string()) &&
         !is_named((directory.parent_path() / "config.yaml").string());
}

Result<GeneratePlace> find_generate_place(const std::string& path) {
  std::error_code unused;
  if (!fs::is_directory(path, unused))
    return Error{
        ErrorKind::usage,
        fmt::format("{} is not a directory: name the output.dir of a run, a checkpoint or a model directory",
                    path)};
  if (looks_like_checkpoint(clean(path))) return checkpoint_place(path);
  TRY_ASSIGN(const std::vector<std::string> committed, save_committed_state(path));
  TRY_ASSIGN(const FoundWeights found, find_weights(path, checkpoint_buffer));
  if (!found.path) {
    if (std::string other = other_weights(path); !other.empty())
      return Error{ErrorKind::bad_input, std::move(other)};
    return Error{
        ErrorKind::usage,
        fmt::format("{} holds no checkpoint: name a run directory, a checkpoint-N or a model directory",
                    path)};
  }
  GeneratePlace out{.run_dir = clean(path).string(), .checkpoint = *found.path, .newest = true};
  for (const SteppedOver& s : found.stepped_over)
    out.notes.push_back(fmt::format("skipped {}: {}", s.path, s.reason));
  if (!out.notes.empty()) out.notes.push_back("using " + *found.path);
  out.notes.insert(out.notes.begin(), committed.begin(), committed.end());
  return out;
}

}  // namespace tidepool
