// The one table of config keys. Parsing, overrides, the effective config, help, documentation and
// completion all read it, so a new key is one new row.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace tidepool {

// A choice is an enum stored as u8; its value indexes Field::choices.
struct ChoiceRef {
  u8* value;
};

// Where a key's value lives in a Config; the alternative is the key's type.
using FieldRef = std::variant<u32* (*)(Config&), u64* (*)(Config&), double* (*)(Config&), bool* (*)(Config&),
                              std::string* (*)(Config&), std::vector<std::string>* (*)(Config&),
                              std::vector<double>* (*)(Config&), Bytes* (*)(Config&), ChoiceRef (*)(Config&)>;

struct Range {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool open = false;  // `most` itself is out

  bool contains(double v) const { return v >= least && (open ? v < most : v <= most); }
};
inline constexpr Range probability = {0, 1, true};

struct Field {
  std::string_view section;
  std::string_view key;
  FieldRef ref;
  std::string_view help;                           // one sentence, no full stop
  std::string_view unit = "";                      // "steps", "tokens"
  Range range = {};                                // of numbers
  std::span<const std::string_view> choices = {};  // of choices, and of text with fixed values
  std::optional<u64> automatic = {};               // the number that stands for `auto`
  std::string_view alias = "";                     // another common name, accepted too
  bool required = false;
  u32 families = 0;  // which families of models have it, bit f for Family(f); 0: all, or no key of a model
};

// All keys, section by section.
std::span<const Field> schema();
// The part of them that describes a model.
std::span<const Field> model_fields();
// The part about adapters.
std::span<const Field> lora_fields();

bool applies(const Field&, Family);
// The first family that has the key: whose default is shown.
Family example_family(const Field&);
// Whether both are the same part of a Config, under two names.
bool same_value(const Field&, const Field&);
// "gpt2", "all but gpt2"; "" where all have it.
std::string families_text(const Field&);

struct Section {
  std::string_view name;
  std::string_view help;
};
std::span<const Section> sections();

// The type in a word: "integer", "size", "fp32 | bf16", "list of text".
std::string type_name(const Field&);
// "1 to 4096", "at least 0"; "" where any value goes.
std::string range_text(const Field&);

// The value of a key as YAML; `default_text` is the same for a default Config, "required" if it has none.
std::string value_yaml(const Field&, const Config&);
std::string default_text(const Field&);

// Sets a key from its text; the error holds the reason only, without key and place.
Result<void> set_value(const Field&, Config&, std::string_view text);

// null: no such key. `section` may be empty: then every section is searched.
std::vector<const Field*> find_fields(std::string_view section, std::string_view key);

}  // namespace tidepool
