// The schema is the single table of config keys. Parsing, overrides, the effective config, help,
// documentation and completion read it, so a new key is one new row.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace tidepool {

// A choice is an enum stored as u8. Its value indexes Field::choices.
struct ChoiceRef {
  u8* value;
};

// Location of a key's value in a Config. The alternative of the variant is the key's type.
using FieldRef = std::variant<u32* (*)(Config&), u64* (*)(Config&), double* (*)(Config&), bool* (*)(Config&),
                              std::string* (*)(Config&), std::vector<std::string>* (*)(Config&),
                              std::vector<double>* (*)(Config&), std::vector<u32>* (*)(Config&),
                              Bytes* (*)(Config&), ChoiceRef (*)(Config&)>;

struct Range {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool open = false;  // true: `most` itself is excluded

  bool contains(double v) const { return v >= least && (open ? v < most : v <= most); }
};
inline constexpr Range probability = {0, 1, true};

struct Field {
  std::string_view section;
  std::string_view key;
  FieldRef ref;
  std::string_view help;                           // one sentence, no full stop
  std::string_view unit = "";                      // "steps", "tokens"
  Range range = {};                                // for numbers
  std::span<const std::string_view> choices = {};  // for choices, and for text with fixed values
  std::optional<u64> automatic = {};               // the number that stands for `auto`
  std::string_view alias = "";                     // another common name that is accepted too
  bool required = false;
  u32 families = 0;  // families that have the key, bit f for Family(f); 0: all, or not a key of a model
  std::span<const std::array<std::string_view, 2>> choice_aliases = {};  // other names of choices
};

// All keys, section by section.
std::span<const Field> schema();
// The keys that describe a model.
std::span<const Field> model_fields();
// Those of them that are about positions, the gated delta rule, Mamba-2, and experts with latent attention.
std::span<const Field> rope_fields();
std::span<const Field> layer_size_fields();
std::span<const Field> delta_fields();
std::span<const Field> mamba_fields();
std::span<const Field> expert_fields();
// The keys of adapters, of data, of the objective, and of training.
std::span<const Field> lora_fields();
std::span<const Field> data_fields();
std::span<const Field> objective_fields();
std::span<const Field> train_fields();
// The keys of what a run writes.
std::span<const Field> output_fields();

bool applies(const Field&, Family);
// First family that has the key; its default is shown.
Family example_family(const Field&);
// True if both are names of the same part of a Config.
bool same_value(const Field&, const Field&);
// "gpt2" or "all but gpt2"; "" for all families.
std::string families_text(const Field&);

struct Section {
  std::string_view name;
  std::string_view help;
};
std::span<const Section> sections();

// Name of the type: "integer", "size", "fp32 | bf16", "list of text".
std::string type_name(const Field&);
// "1 to 4096" or "at least 0"; "" if all values are allowed.
std::string range_text(const Field&);

// Value of a key as YAML. `default_text` gives the default, or "required".
std::string value_yaml(const Field&, const Config&);
std::string default_text(const Field&);

// Sets a key from text.
// Error: the reason only, without key and place.
Result<void> set_value(const Field&, Config&, std::string_view text);

// Finds keys by name. An empty `section` searches all sections.
// RETURNS: an empty list if there is none.
std::vector<const Field*> find_fields(std::string_view section, std::string_view key);

}  // namespace tidepool
