// Handles foreign keys: other keys of a Hugging Face config.json, and names from TrainingArguments, PEFT,
// TRL, Axolotl and nanoGPT that are called differently here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "config/schema.h"

namespace tidepool {

// Family of a `model_type`.
// Error: names the kind of model, if known, and the supported types.
Result<Family> parse_family(std::string_view model_type);

// Current name of a key that config.json has had under several names: "rope_scaling.type" becomes
// "rope_parameters.rope_type".
std::string canonical_model_key(std::string_view key);
// True if the key's value is a map of rope parameters.
bool is_rope_key(std::string_view key);

// Checks a model key that is not in the schema or not of this family. For a list, call it for each item; null
// is "null".
// RETURNS: true if the key may be ignored; false if it is unknown.
// Error: if the key asks for another model than Tidepool computes, such as another activation.
Result<bool> accept_model_key(Family, std::string_view key, std::string_view value);

// A key that changes what is computed. Only the value that Tidepool implements is accepted.
struct DemandedValue {
  std::string_view key;
  std::string_view value;
  u32 families = 0;  // bits, as in family_bits.h
  std::string_view advice = "";
};
std::span<const DemandedValue> demanded_values();
// True if only one value of such a key is accepted.
bool is_demanded(Family, std::string_view key);

// Message such as "is a key of gpt2 models, but this model is llama; its name there is hidden_size, ..."
std::string wrong_family(const Field&, Family);

// A key as the user wrote it. `section` may be empty in an override; `value` is "" for a list or a map.
struct ForeignKey {
  std::string_view section, key, value;
};
// Advice for a well-known foreign key: the key to write instead. "" if there is none.
std::string instead_of(const ForeignKey&, Family);

}  // namespace tidepool
