// config.json of a model directory, as Hugging Face's transformers writes and reads it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tidepool/chunk.h"
#include "tidepool/model_config.h"

namespace tidepool {

inline constexpr const char* model_config_file = "config.json";
inline constexpr u64 config_bytes_max = mib;  // of any of these
inline constexpr const char* generation_config_file = "generation_config.json";
inline constexpr const char* adapter_config_file =
    "adapter_config.json";  // PEFT's: what stands beside a model

// Opens in transformers 4 and 5: rope parameters and the weights' type stand there under both of their names.
std::string hf_config_text(const ModelConfig&, Precision);
// The same over what `source` says beside it (ids of tokens, the version that wrote it, ...), so that a model
// leaves as it came. REQUIRES: parse_hf_config() has read `source`.
std::string hf_config_text(const ModelConfig&, Precision, std::string_view source);
// "bfloat16".
const char* hf_dtype(Precision);
// Which of them config.json of a directory says that its weights are; none where it says nothing, or another.
Result<std::optional<Precision>> hf_precision(const std::string& directory);
// Any model's config.json with another type of weights.
Result<std::string> with_dtype(std::string_view source, Precision, std::string_view file_name);
// The ids after which a model of this directory has said all: of generation_config.json, else of config.json.
// None where neither tells.
Result<std::vector<u32>> end_token_ids(const std::string& directory);
// generation_config.json for a model that came without: the ids of tokens that its config.json names.
Result<std::string> generation_config_text(std::string_view config_json, std::string_view file_name);

// Keys that are left out have the family's defaults in transformers. Refuses what Tidepool would compute
// otherwise: another model_type, another activation ... Errors name `file_name` and the key.
Result<ModelConfig> parse_hf_config(std::string_view text, ErrorKind error_kind, std::string_view file_name);

// Of any model's directory; none where its model_type is not one of Tidepool's. ErrorKind::bad_input.
Result<std::optional<Family>> family_of_directory(const std::string& directory);

// Of `directory`/config.json. ErrorKind::usage where there is no such directory, or in it adapters alone
// or a run's checkpoints; bad_input for what is in the file.
Result<ModelConfig> read_model_directory(const std::string& directory);
// DIRECTORY/checkpoint-N of the highest N; empty: there is none.
std::string newest_checkpoint(const std::string& directory);
// Of a directory that was named as a model's and holds adapters alone.
Error adapters_are_no_model(const std::string& directory);
// Of one without a config.json.
Error holds_no_config(const std::string& directory);

}  // namespace tidepool
