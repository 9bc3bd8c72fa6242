// Reads config files: the YAML of a run, and overrides.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"

namespace tidepool {

// Fallback for a model directory that is gone. `read`: use the config.json that the run in output.dir kept.
// Only commands that continue that run may use it; in all others a missing directory is a typing error.
enum class KeptModel : u8 { unread, read };

// Reads a YAML file and applies overrides such as "train.learning_rate=1e-3". The section may be left out if
// the key is unique.
// Error: usage, naming file, line, key and the nearest key.
Result<Config> load_config(const std::string& path, const std::vector<std::string>& overrides,
                           KeptModel = KeptModel::unread);
Result<Config> parse_config(std::string_view yaml, std::string_view file_name,
                            const std::vector<std::string>& overrides, KeptModel = KeptModel::unread);

}  // namespace tidepool
