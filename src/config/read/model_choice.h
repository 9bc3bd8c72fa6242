// Reads what a config says of its model before any other key can be read: a directory to start from or a
// family, and an adapter to start from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "config/read/load_config.h"
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
  Said family;          // empty: gpt2, or what the directory holds
  Said adapter;         // lora.adapter; empty: none
  std::string run_dir;  // output.dir, where that is said: a run keeps what config.json said
};

// `model: PATH` in the place of a map.
bool is_path(const YAML::Node& model);

// Overrides come after the file, and each takes the place of what was said before.
ModelChoice model_choice(std::string_view file, const YAML::Node& root,
                         const std::vector<std::string>& overrides);

// Of the directory's config.json, or where that directory is gone and KeptModel::read, of what the run kept
// of it; or the family's defaults. Errors are ErrorKind::usage and name the place, or ErrorKind::bad_input
// and name what is wrong with config.json.
Result<ModelConfig> model_of(const ModelChoice&, KeptModel);

// Section `lora` before any of its keys is read: that of the adapter to start from, or the defaults. An
// adapter that is gone is an error with KeptModel::unread: a run that goes on has it in its checkpoints.
// Errors are ErrorKind::usage and name the place, or ErrorKind::bad_input and name what is wrong with
// adapter_config.json.
Result<LoraConfig> lora_of(const ModelChoice&, KeptModel);

}  // namespace tidepool
