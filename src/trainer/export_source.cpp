#include "trainer/export_source.h"

#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/shards.h"
#include "config/hf_config.h"
#include "trainer/session.h"

namespace tidepool {

Result<ExportSource> find_export_source(const std::string& path) {
  namespace fs = std::filesystem;
  const auto has = [&](const char* file) {
    std::error_code unused;
    return fs::exists(path + "/" + file, unused);
  };
  std::error_code unused;
  if (!fs::is_directory(path, unused))
    return Error{ErrorKind::usage, fmt::format("{} is not a directory: name a run, a checkpoint or a model directory", path)};
  if (has(manifest_file)) {
    TRY(verify_weights(path, checkpoint_buffer));
    return ExportSource{.directory = path, .notes = {}};
  }
  // Other trainers leave a model and checkpoints beside it: the model is what is named then.
  if (has(model_config_file) && (has(weights_file) || has(weights_index_file)))
    return ExportSource{.directory = path, .notes = {}};
  TRY_ASSIGN(const FoundWeights found, find_weights(path, checkpoint_buffer));
  if (!found.path)
    return Error{ErrorKind::usage, fmt::format("{} holds neither a checkpoint nor {} with {}: name a run, a checkpoint "
                                               "or a model directory",
                                               path, model_config_file, weights_file)};
  ExportSource out{.directory = *found.path, .notes = {}};
  for (const SteppedOver& s : found.stepped_over) out.notes.push_back(fmt::format("stepped over {}: {}", s.path, s.reason));
  out.notes.push_back("exporting " + *found.path);
  return out;
}

}  // namespace tidepool
