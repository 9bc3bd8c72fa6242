// Keys that are not ours: the rest of a Hugging Face config.json, and names of TrainingArguments, PEFT, TRL,
// Axolotl and nanoGPT that go by another name here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "config/schema.h"

namespace tidepool {

// The family that `model_type` names. The error says what that type is, where it is known, and which there
// are.
Result<Family> parse_family(std::string_view model_type);

// One name for a key that config.json has had under several: "rope_scaling.type" is
// "rope_parameters.rope_type".
std::string canonical_model_key(std::string_view key);
// Whether the key's value is a map of rope parameters.
bool is_rope_key(std::string_view key);

// For a key of a model, not in the schema or not of this family: an error if it asks for what is not computed
// (another activation, quantized weights, ...), true if the key may be ignored, false if it is unknown. Of a
// list each item is asked about; null is "null".
Result<bool> accept_model_key(Family, std::string_view key, std::string_view value);

// Whether the value of such a key counts.
bool is_demanded(Family, std::string_view key);

// "is a key of gpt2 models, and this one is llama: hidden_size is its name there; ..."
std::string wrong_family(const Field&, Family);

// A key as it was written: an override may name no section; `value` is "" of a list or a map.
struct ForeignKey {
  std::string_view section, key, value;
};
// What to write instead of a well-known key that Tidepool has not; "" for the others.
std::string instead_of(const ForeignKey&, Family);

}  // namespace tidepool
