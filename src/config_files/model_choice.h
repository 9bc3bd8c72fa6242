// ModelChoice is the part of a config that must be read before all other keys: the directory or family to
// start from, and the adapter to start from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "config_files/load_config.h"
#include "tidepool/model_config.h"

namespace YAML {
class Node;
}

namespace tidepool {

struct ModelChoice {
  struct Said {
    std::string text, place;  // FILE:LINE, or the override
  };
  Said directory;       // empty: none
  Said family;          // empty: gpt2, or the directory's family
  Said adapter;         // lora.adapter; empty: none
  std::string run_dir;  // output.dir, if set: a run keeps its model's config.json there
};

// True for `model: PATH`, a path in place of a map.
bool is_path(const YAML::Node& model);

// Overrides come after the file; each replaces earlier values.
ModelChoice model_choice(std::string_view file, const YAML::Node& root,
                         const std::vector<std::string>& overrides);

// Model config to start with: from config.json of the directory; if the directory is gone and
// KeptModel::read, from the run's copy; else the family's defaults.
// Error: usage, naming the place in the config; bad_input, naming the fault in config.json.
Result<ModelConfig> model_of(const ModelChoice&, KeptModel);

// Section `lora` before its keys are read: the settings of the adapter to start from, or the defaults. A
// missing adapter is an error only with KeptModel::unread: a resumed run has the adapter in its checkpoints.
// Error: usage, naming the place in the config; bad_input, naming the fault in adapter_config.json.
Result<LoraConfig> lora_of(const ModelChoice&, KeptModel);

// The names of labels count them, unless objective.num_labels or the model directory does.
// RETURNS: the reason why the model directory's head, with the labels `of_directory`, cannot have the
// config's; empty: it can.
std::string complete_labels(Config&, const ScoreHead& of_directory);

}  // namespace tidepool
