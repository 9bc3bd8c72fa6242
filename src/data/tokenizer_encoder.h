// A tokenizer.json as text encoder.
#pragma once

#include <memory>
#include <string>

#include "data/text_encoder.h"

namespace tidepool {

// Errors as Tokenizer::open.
Result<std::unique_ptr<const TextEncoder>> open_tokenizer_encoder(const std::string& tokenizer_json);

}  // namespace tidepool
