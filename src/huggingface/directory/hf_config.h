// Reads and writes config.json of a model directory, in the format of Hugging Face's transformers.
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
inline constexpr u64 config_bytes_max = mib;  // limit for each of these files
inline constexpr const char* generation_config_file = "generation_config.json";
inline constexpr const char* adapter_config_file =
    "adapter_config.json";  // PEFT's, in an adapter's directory

// RETURNS: text that transformers 4 and 5 can open: rope parameters and the weights' type are written under
// both of their names.
std::string hf_config_text(const ModelConfig&, Precision);
// The same, but keeps all other keys of `source` (ids of tokens, the version that wrote it, ...), so that a
// model keeps the config it came with. Of a wrapper's source only the text model's keys are kept.
// REQUIRES: parse_hf_config() accepted `source`.
std::string hf_config_text(const ModelConfig&, Precision, std::string_view source);
// RETURNS: a name such as "bfloat16".
const char* hf_dtype(Precision);
// RETURNS: the type of the weights according to config.json of a directory; none if it names no type or an
// unsupported one.
Result<std::optional<Precision>> hf_precision(const std::string& directory);
// Sets the type of the weights in any model's config.json, also of unsupported families.
Result<std::string> with_dtype(std::string_view source, Precision, std::string_view file_name);
// Says that the model classifies texts.
Result<std::string> with_score(std::string_view source, const ScoreHead&, std::string_view file_name);
// Removes what says that the weights are quantized.
Result<std::string> without_quantization(std::string_view source, std::string_view file_name);
// Says that matrices are FP8 in blocks of `size` x `size`, but for those of `unpacked_modules`.
Result<std::string> with_fp8_blocks(std::string_view source, u32 size,
                                    const std::vector<std::string>& unpacked_modules,
                                    std::string_view file_name);
// Ids of end tokens: generation stops after one of them. Read from generation_config.json, else from
// config.json.
// RETURNS: an empty list if neither names any.
Result<std::vector<u32>> end_token_ids(const std::string& directory);
// RETURNS: a generation_config.json for a model that has none, with the token ids of its config.json.
Result<std::string> generation_config_text(std::string_view config_json, std::string_view file_name);

// Reads a config, or the text model's within a wrapper's (hf_wrapper.h). A missing key has the family's
// default in transformers. Refuses settings that Tidepool would compute differently, such as another
// model_type or activation. Error: `error_kind`, naming `file_name` and the key.
Result<ModelConfig> parse_hf_config(std::string_view text, ErrorKind error_kind, std::string_view file_name);

// Family of any model's directory, or of the text model in it.
// RETURNS: none if its model_type is not supported.
// Error: bad_input.
Result<std::optional<Family>> family_of_directory(const std::string& directory);

// Reads `directory`/config.json, and from the names of the weights, if there are any, the form of the
// experts. Error: usage if there is no such directory, or if it holds only adapters or a run's checkpoints;
// bad_input for a fault in the file.
Result<ModelConfig> read_model_directory(const std::string& directory);
// Finds the DIRECTORY/checkpoint-N with the highest N.
// RETURNS: empty if there is none.
std::string newest_checkpoint(const std::string& directory);
// Error for a directory that was given as a model but holds only an adapter.
Error adapters_are_no_model(const std::string& directory);
// Error for a directory without config.json.
Error holds_no_config(const std::string& directory);

}  // namespace tidepool
