// Reads what a model's config.json says about its packed weights: the key quantization_config.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tidepool/packing.h"

namespace tidepool {

inline constexpr const char* quantization_key = "quantization_config";

// `config`: the text of a config.json.
// RETURNS: none if the key is missing or null.
// Error: `error_kind`, naming `file_name` and the key, for every format that Tidepool does not unpack.
Result<std::optional<Quantization>> parse_quantization(std::string_view config, ErrorKind error_kind,
                                                       std::string_view file_name);

}  // namespace tidepool
