// Keys that are not ours: the rest of a Hugging Face config.json, and names of TrainingArguments that
// go by another name here.
#pragma once

#include <optional>
#include <string_view>

#include "tidepool/result.h"

namespace tidepool {

// For a key of section `model`: an error if it asks for a model that is not built (another
// model_type, untied embeddings, ...), true if the key may be ignored, false if it is unknown.
Result<bool> accept_model_key(std::string_view key, std::string_view value);

// What to write instead of a well-known key that Tidepool has not; "" for the others.
std::string_view instead_of(std::string_view key);

}  // namespace tidepool
