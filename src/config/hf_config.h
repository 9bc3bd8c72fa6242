// config.json of a model directory, as Hugging Face's transformers writes and reads it.
#pragma once

#include <string>
#include <string_view>

#include "tidepool/chunk.h"
#include "tidepool/model_config.h"
#include "tidepool/result.h"

namespace tidepool {

inline constexpr const char* model_config_file = "config.json";

// Opens in transformers 4 and 5: rope parameters and the weights' type stand there under both of their names.
std::string hf_config_text(const ModelConfig&, Precision);

// Keys that are left out have the family's defaults in transformers. Refuses what Tidepool would compute otherwise:
// another model_type, another activation, sliding windows ... Errors name `file_name` and the key.
Result<ModelConfig> parse_hf_config(std::string_view text, ErrorKind error_kind, std::string_view file_name);

// Of `directory`/config.json. ErrorKind::usage where there is no such directory, bad_input for what is in it.
Result<ModelConfig> read_model_directory(const std::string& directory);

}  // namespace tidepool
