// For those who only want the weights: what they read is verified, and the optimizer's state (six times as
// much) is not.
#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/adapter_files.h"
#include "checkpoint/check_named.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/shards.h"

namespace tidepool {

Result<void> verify_weights(const std::string& checkpoint, Bytes buffer) {
  TRY(check_named(checkpoint));
  TRY_ASSIGN(Manifest manifest, read_manifest(checkpoint));
  const bool adapters = manifest.find(adapter_weights_file) != nullptr;
  // Of adapters also what says how and into which model they are merged.
  std::erase_if(manifest.files, [&](const ManifestEntry& e) {
    if (!adapters) return !is_weights_file(e.file);
    return e.file != adapter_weights_file && e.file != adapter_config_file && e.file != trainer_state_file;
  });
  if (manifest.files.empty())
    return Error{ErrorKind::corrupt_checkpoint,
                 fmt::format("{}/{}: does not list {}", checkpoint, manifest_file, weights_file)};
  std::vector<std::byte> memory(buffer.value);
  return verify_files(checkpoint, manifest, memory);
}

Result<void> verify_weights_if_hashed(const std::string& directory, Bytes buffer) {
  return has_manifest(directory) ? verify_weights(directory, buffer) : Result<void>();
}

Result<FoundWeights> find_weights(const std::string& run_dir, Bytes buffer) {
  FoundWeights out;
  TRY_ASSIGN(std::vector<u64> steps, checkpoint_steps(run_dir));
  std::reverse(steps.begin(), steps.end());
  for (const u64 step : steps) {
    const std::string path = fmt::format("{}/checkpoint-{}", run_dir, step);
    TRY(check_manifest_version(path));
    const Result<void> good = verify_weights(path, buffer);
    if (good) {
      out.path = path;
      return out;
    }
    if (good.error().kind != ErrorKind::corrupt_checkpoint) return good.error();
    out.stepped_over.push_back({path, good.error().message});
  }
  if (!out.stepped_over.empty()) return none_is_good(run_dir, out.stepped_over);
  return out;
}

Error none_is_good(const std::string& run_dir, const std::vector<SteppedOver>& stepped_over) {
  std::string text = fmt::format("no checkpoint in {} is good:", run_dir);
  for (const SteppedOver& s : stepped_over) text += fmt::format("\n  {}: {}", s.path, s.reason);
  return {ErrorKind::corrupt_checkpoint,
          text + "\nNothing was changed. Put a good copy back, or train anew in another output.dir"};
}

}  // namespace tidepool
