// Config files: reads the YAML of a run and its overrides.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"

namespace tidepool {

// What is read where the model directory is gone: nothing, or the config.json that the run in output.dir
// kept. Only what goes on from that run may: to all others a directory that is not there is a mistyped one.
enum class KeptModel : u8 { unread, read };

// Reads a YAML file and applies overrides ("train.learning_rate=1e-3"; the section may be left out
// where the key is unique). Errors are ErrorKind::usage and name file, line, key and nearest key.
Result<Config> load_config(const std::string& path, const std::vector<std::string>& overrides,
                           KeptModel = KeptModel::unread);
Result<Config> parse_config(std::string_view yaml, std::string_view file_name,
                            const std::vector<std::string>& overrides, KeptModel = KeptModel::unread);

}  // namespace tidepool
