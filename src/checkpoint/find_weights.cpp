// Finds and verifies the model of a checkpoint without the optimizer's state (which is six times as large),
// for commands that only need the model.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/text/path_text.h"
#include "checkpoint/check_named.h"
#include "checkpoint/checkpoint.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/shards.h"

namespace tidepool {

namespace {

constexpr u32 looks_max = 100;  // no run saves faster than this can read

// RETURNS: true for files that only resuming needs. An adapter's trainer_state.json is also needed for its
// model's name.
bool is_for_training(const std::string& file, bool adapters) {
  return file == optimizer_file_name || (file == trainer_state_file && !adapters);
}

// Looks for the newest good checkpoint.
// RETURNS: none if a checkpoint was rotated away while it was read.
Result<std::optional<FoundWeights>> look_for_weights(const std::string& run_dir, Bytes buffer) {
  FoundWeights out;
  TRY_ASSIGN(std::vector<u64> steps, checkpoint_steps(run_dir));
  std::reverse(steps.begin(), steps.end());
  for (const u64 step : steps) {
    const std::string path = fmt::format("{}/checkpoint-{}", run_dir, step);
    TRY(check_manifest_version(path));
    const Result<void> good = verify_model(path, buffer);
    if (good) {
      out.path = path;
      return std::optional(std::move(out));
    }
    if (!is_named(path)) return std::optional<FoundWeights>();
    if (good.error().kind != ErrorKind::corrupt_checkpoint) return good.error();
    out.stepped_over.push_back({path, good.error().message});
  }
  if (!out.stepped_over.empty()) return none_is_good(run_dir, out.stepped_over);
  return std::optional(std::move(out));
}

}  // namespace

Result<void> verify_model(const std::string& checkpoint, Bytes buffer) {
  TRY(check_named(checkpoint));
  TRY_ASSIGN(Manifest manifest, read_manifest(checkpoint));
  const bool adapters = manifest.find(adapter_weights_file) != nullptr;
  const bool weights =
      adapters || manifest.find(weights_file) != nullptr || manifest.find(weights_index_file) != nullptr;
  const char* config = adapters ? adapter_config_file : model_config_file;
  for (const auto& [listed, name] :
       {std::pair{weights, weights_file}, {manifest.find(config) != nullptr, config}})
    if (!listed)
      return Error{ErrorKind::corrupt_checkpoint,
                   fmt::format("{}/{}: does not list {}", checkpoint, manifest_file, name)};
  std::erase_if(manifest.files, [&](const ListedFile& e) { return is_for_training(e.file, adapters); });
  std::vector<std::byte> memory(buffer.value);
  return verify_files(checkpoint, manifest, memory);
}

Result<void> verify_model_if_hashed(const std::string& directory, Bytes buffer) {
  return has_manifest(directory) ? verify_model(directory, buffer) : Result<void>();
}

Result<FoundWeights> find_weights(const std::string& run_dir, Bytes buffer) {
  for (u32 i = 0; i < looks_max; ++i) {
    TRY_ASSIGN(std::optional<FoundWeights> found, look_for_weights(run_dir, buffer));
    if (found) return *std::move(found);
  }
  return Error{
      ErrorKind::io,
      fmt::format("{}: its run rotates checkpoints away faster than they can be read; name one checkpoint, "
                  "or raise output.save_total_limit",
                  run_dir)};
}

Error none_is_good(const std::string& run_dir, const std::vector<SteppedOver>& stepped_over) {
  std::string text = fmt::format("no checkpoint in {} is good:", run_dir);
  for (const SteppedOver& s : stepped_over) text += fmt::format("\n  {}: {}", s.path, s.reason);
  return {ErrorKind::corrupt_checkpoint,
          text + "\nNothing was changed. Restore a good copy, or train again in another output.dir"};
}

}  // namespace tidepool
