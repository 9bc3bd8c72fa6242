// config.json as Hugging Face's GPT-2 has it.
#pragma once

#include <string>
#include <string_view>

#include "tidepool/model_graph.h"
#include "tidepool/result.h"

namespace tidepool {

inline constexpr const char* model_config_file = "config.json";

std::string hf_config_text(const Gpt2Config&, Precision);

// Refuses what Tidepool would compute otherwise than Hugging Face: another model_type, another
// activation, an untied head. Errors name `file_name` and the key.
Result<Gpt2Config> parse_hf_config(std::string_view text, ErrorKind error_kind, std::string_view file_name);

}  // namespace tidepool
