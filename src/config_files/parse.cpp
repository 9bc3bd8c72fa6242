// Parses YAML and overrides into a Config. Every error names its place: FILE:LINE, or the override.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "base/text/nearest.h"
#include "base/text/value_text.h"
#include "base/yaml/read_keys.h"
#include "config/foreign_keys.h"
#include "config/schema.h"
#include "config/validate.h"
#include "config_files/load_config.h"
#include "config_files/model_choice.h"
#include "config_files/override_value.h"

namespace tidepool {

namespace {

constexpr std::string_view schedule_map = "lr_scheduler_kwargs";

using ListRef = std::vector<std::string>* (*)(Config&);
using NumbersRef = std::vector<double>* (*)(Config&);
using IntegersRef = std::vector<u32>* (*)(Config&);

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file), places_(schema().size()) {}

  Result<void> read_file(const YAML::Node& root);
  Result<void> read_override(const std::string& text);
  Result<Config> finish();

  // Sets the defaults of the model first: they decide which keys the model has.
  Result<void> begin_model(const ModelChoice& choice, KeptModel kept) {
    directory_ = choice.directory.text;
    TRY_ASSIGN(config_.model, model_of(choice, kept));
    TRY_ASSIGN(adapter_, lora_of(choice, kept));
    config_.lora = adapter_;
    labels_ = config_.model.score;
    if (config_.model.score.on())
      config_.objective.type = config_.model.score.of_tokens     ? ObjectiveType::token_classification
                               : config_.model.score.labels == 1 ? ObjectiveType::reward
                                                                 : ObjectiveType::sequence_classification;
    return {};
  }

 private:
  Result<void> read_key(const std::string& place, std::string_view section, const std::string& key,
                        const YAML::Node& value);
  Result<void> read_value(const std::string& place, const Field& field, const YAML::Node& value);
  Result<void> read_map(const std::string& place, std::string_view section, const std::string& key,
                        const YAML::Node& map);
  Result<void> accept_or_refuse(const std::string& place, std::string_view section, const std::string& key,
                                const YAML::Node& value);
  Result<void> read_key_of_schedule(const std::string& place, const std::string& key,
                                    const YAML::Node& value);
  Result<void> read_list(const std::string& place, const Field& field, const YAML::Node& value);
  Result<void> read_numbers(const std::string& place, const Field& field, const YAML::Node& value);
  Result<std::string> read_weighted(const std::string& place, const YAML::Node& item);
  Error unknown_key(const std::string& place, const ForeignKey& given) const;
  Error unknown_section(const std::string& place, const std::string& name, std::string_view value) const;

  // RETURNS: a key of adapters that was set, preferably not lora_dropout; null if there is none.
  const Field* adapter_key_without_rank();
  Result<void> check_same_adapter();
  Error adapters_without_rank(const Field& of_adapters);
  std::string advice_for(const ForeignKey& given) const { return instead_of(given, config_.model.family); }

  std::string place_in_file(const Field& field);
  std::string& place_of(const Field& field) { return places_[static_cast<size_t>(&field - schema().data())]; }

  std::string file_;
  bool file_is_read_ = true;
  std::vector<std::string> places_;  // by field: place of its last setting; empty: not set
  std::string directory_;            // of the model, from the last place that names it
  LoraConfig adapter_;               // of lora.adapter; off without one
  ScoreHead labels_;                 // of the model directory; off without a classifier
  std::string bare_dropout_;         // place where "dropout" was set without a section; empty: not set
  Config config_;
};

std::string text_of(const YAML::Node& value) {
  return value.IsNull() ? "null" : value.IsScalar() ? value.Scalar() : "";
}

Error key_fault(const std::string& place, const Field& field, std::string_view value,
                std::string_view reason) {
  return fault_at(place, fmt::format("{}.{}: '{}' {}", field.section, field.key, value, reason));
}

Result<void> Reader::read_file(const YAML::Node& root) {
  if (root.IsNull()) return {};  // overrides may set everything
  if (!root.IsMap()) {
    return fault_at(
        place_in(file_, root),
        "a config is a map of sections: model, lora, data, objective, train, memory, machine, output");
  }
  file_is_read_ = false;
  TRY(read_keys(
      file_, root, [&](const auto& place, const auto& section, const YAML::Node& keys) -> Result<void> {
        const bool known = std::ranges::find(sections(), section, &Section::name) != sections().end();
        if (!known) return unknown_section(place, section, text_of(keys));
        if (keys.IsNull() || (section == "model" && is_path(keys))) return {};  // begin_model() has read it
        return read_section(file_, section, keys,
                            [&](const auto& place, const auto& key, const YAML::Node& value) {
                              return read_key(place, section, key, value);
                            });
      }));
  file_is_read_ = true;
  return {};
}

// RETURNS: the place where the file has set the field's value under this name or another; empty: nowhere.
std::string Reader::place_in_file(const Field& field) {
  if (file_is_read_) return "";
  for (const Field& other : schema())
    if (!place_of(other).empty() && (&other == &field || same_value(other, field))) return place_of(other);
  return "";
}

Result<void> Reader::read_key(const std::string& place, std::string_view section, const std::string& key,
                              const YAML::Node& value) {
  const std::string canonical = canonical_model_key(key);
  if (canonical != key) return read_key(place, section, canonical, value);
  if (is_rope_key(key) && value.IsMap()) return read_map(place, "model", key, value);
  if (section == "train" && key == schedule_map && (value.IsMap() || value.IsNull()))
    return read_map(place, section, key, value);
  if (section == "train" && key.starts_with(schedule_map) && key.substr(schedule_map.size()).starts_with('.'))
    return read_key_of_schedule(place, key.substr(schedule_map.size() + 1), value);
  const std::vector<const Field*> found = find_fields(section, key);
  if (found.size() == 1 && applies(*found[0], config_.model.family))
    return read_value(place, *found[0], value);
  if (found.size() > 1) {
    std::vector<std::string> names;
    for (const Field* field : found) names.push_back(fmt::format("{}.{}", field->section, field->key));
    return fault_at(place, fmt::format("'{}' may mean {}; name the section", key, fmt::join(names, " or ")));
  }
  return accept_or_refuse(place, section, key, value);
}

// Reads a key of the map that TrainingArguments has for schedules. Here such keys are keys of `train`.
Result<void> Reader::read_key_of_schedule(const std::string& place, const std::string& key,
                                          const YAML::Node& value) {
  constexpr std::array<std::string_view, 7> keys = {"num_decay_steps", "num_stable_steps", "decay_type",
                                                    "warmup_type",     "min_lr_ratio",     "min_lr_rate",
                                                    "num_cycles"};
  if (std::ranges::find(keys, key) != keys.end()) return read_key(place, "train", key, value);
  const std::string advice = advice_for({.section = "train", .key = key, .value = text_of(value)});
  return fault_at(
      place, fmt::format("train.{}: unknown key '{}'; {}", schedule_map, key,
                         advice.empty() ? fmt::format("the keys are {}", fmt::join(keys, ", ")) : advice));
}

// Handles a key that has no effect in this model.
Result<void> Reader::accept_or_refuse(const std::string& place, std::string_view section,
                                      const std::string& key, const YAML::Node& value) {
  const std::string whole = text_of(value);
  const ForeignKey given{.section = section, .key = key, .value = whole};
  if (section != "model" && !section.empty()) return unknown_key(place, given);
  std::vector<std::string> values;
  for (const YAML::Node& item : value.IsSequence() ? value : YAML::Node())
    values.push_back(item.IsScalar() ? item.Scalar() : "");
  if (values.empty()) values.push_back(whole);
  bool known = false;
  for (const std::string& text : values) {
    const Result<bool> accepted = accept_model_key(config_.model.family, key, text);
    if (!accepted) return fault_at(place, fmt::format("model.{}: {}", key, accepted.error().message));
    known = *accepted;
  }
  if (known) return {};
  if (const auto found = find_fields("model", key); !found.empty())
    return fault_at(place, fmt::format("model.{}: {}", key, wrong_family(*found[0], config_.model.family)));
  return unknown_key(place, given);
}

Result<void> Reader::read_map(const std::string& place, std::string_view section, const std::string& key,
                              const YAML::Node& map) {
  for (const auto& entry : map) {
    if (!entry.first.IsScalar())
      return fault_at(place, fmt::format("{}.{}: every key must be a word", section, key));
    TRY(read_key(place_in(file_, entry.first), section, fmt::format("{}.{}", key, entry.first.Scalar()),
                 entry.second));
  }
  return {};
}

Result<void> Reader::read_value(const std::string& place, const Field& field, const YAML::Node& value) {
  const std::string earlier = place_in_file(field), before = value_yaml(field, config_);
  if (std::holds_alternative<ListRef>(field.ref) && value.IsSequence()) {
    TRY(read_list(place, field, value));
  } else if ((std::holds_alternative<NumbersRef>(field.ref) ||
              std::holds_alternative<IntegersRef>(field.ref)) &&
             value.IsSequence()) {
    TRY(read_numbers(place, field, value));
  } else {
    const std::string text = value.IsScalar() ? value.Scalar() : "";
    if (value.IsMap() || value.IsSequence()) {
      return fault_at(place, fmt::format("{}.{}: must be one value ({}), not a {}", field.section, field.key,
                                         type_name(field), value.IsMap() ? "map" : "list"));
    }
    if (value.IsNull() && !field.automatic) {
      return fault_at(place,
                      fmt::format("{}.{}: has no value ({})", field.section, field.key, type_name(field)));
    }
    if (const Result<void> set = set_value(field, config_, text); !set) {
      return key_fault(place, field, text, set.error().message);
    }
  }
  // Keys have several names, and some may stand in two maps. In a command line the last one wins.
  if (const std::string now = value_yaml(field, config_); !earlier.empty() && now != before)
    return fault_at(place, fmt::format("{}.{} is {} here, and {} at {}; keep one of them", field.section,
                                       field.key, now, before, earlier));
  place_of(field) = place;
  return {};
}

Result<void> Reader::read_list(const std::string& place, const Field& field, const YAML::Node& value) {
  std::vector<std::string> items;
  const bool weighted =
      field.section == "data" && field.key == "train" && value.size() > 0 && value[0].IsMap();
  if (weighted) {
    config_.data.weights.clear();
    place_of(*find_fields("data", "weights")[0]) = place;
  }
  for (const YAML::Node& item : value) {
    if (weighted) {
      TRY_ASSIGN(std::string path, read_weighted(place, item));
      items.push_back(std::move(path));
      continue;
    }
    if (!item.IsScalar() || item.Scalar().empty()) {
      return fault_at(place, fmt::format("{}.{}: every item must be text", field.section, field.key));
    }
    items.push_back(item.Scalar());
  }
  if (items.empty() && field.required) return key_fault(place, field, "[]", "is empty");
  *std::get<ListRef>(field.ref)(config_) = std::move(items);
  return {};
}

Result<void> Reader::read_numbers(const std::string& place, const Field& field, const YAML::Node& value) {
  std::string text;
  for (const YAML::Node& item : value) {
    if (!item.IsScalar())
      return fault_at(place, fmt::format("{}.{}: every item must be a number", field.section, field.key));
    text += (text.empty() ? "" : ",") + item.Scalar();
  }
  if (const Result<void> set = set_value(field, config_, text); !set)
    return key_fault(place, field, text, set.error().message);
  return {};
}

// Reads {path: FILE, weight: 0.7}, an entry of data.train.
// RETURNS: the path.
Result<std::string> Reader::read_weighted(const std::string& place, const YAML::Node& item) {
  const auto wrong = [&](std::string_view why) {
    return fault_at(place,
                    fmt::format("data.train: {}; write every entry as {{path: FILE, weight: 0.7}}", why));
  };
  if (!item.IsMap() || item.size() != 2 || !item["path"] || !item["weight"])
    return wrong("an entry must have exactly path and weight");
  if (!item["path"].IsScalar() || item["path"].Scalar().empty() || !item["weight"].IsScalar())
    return wrong("path must be text and weight a number");
  const Result<double> weight = parse_real(item["weight"].Scalar());
  if (!weight) return wrong(fmt::format("weight '{}' {}", item["weight"].Scalar(), weight.error().message));
  config_.data.weights.push_back(*weight);
  return item["path"].Scalar();
}

Error Reader::unknown_section(const std::string& place, const std::string& name,
                              std::string_view value) const {
  const std::string advice = advice_for({.section = "", .key = name, .value = value});
  if (const auto found = find_fields("", name); !found.empty()) {
    return fault_at(place, fmt::format("key '{}' is outside of any section; put it under '{}:'{}{}", name,
                                       found[0]->section, advice.empty() ? "" : ", or ", advice));
  }
  if (!advice.empty()) return fault_at(place, fmt::format("unknown section '{}'; {}", name, advice));
  std::vector<std::string_view> known;
  for (const Section& section : sections()) known.push_back(section.name);
  std::string near = did_you_mean(name, known);
  if (near.empty()) near = fmt::format("; the sections are {}", fmt::join(known, ", "));
  return fault_at(place, fmt::format("unknown section '{}'{}", name, near));
}

Error Reader::unknown_key(const std::string& place, const ForeignKey& given) const {
  const auto& [section, key, value] = given;
  const std::string what = section.empty() ? fmt::format("unknown key '{}'", key)
                                           : fmt::format("unknown key '{}' in section '{}'", key, section);
  if (const std::string advice = advice_for(given); !advice.empty())
    return fault_at(place, fmt::format("{}; {}", what, advice));
  if (const auto elsewhere = find_fields("", key); !elsewhere.empty()) {
    return fault_at(place, fmt::format("{}; it belongs in section '{}'", what, elsewhere[0]->section));
  }
  std::vector<std::string_view> here, anywhere;
  for (const Field& field : schema()) {
    anywhere.push_back(field.key);
    if (field.section == section) here.push_back(field.key);
  }
  std::string advice = did_you_mean(key, here);
  if (advice.empty()) {
    if (const std::string_view near = nearest(key, anywhere); !near.empty()) {
      advice = fmt::format("; did you mean '{}.{}'?", find_fields("", near)[0]->section, near);
    }
  }
  if (advice.empty()) advice = "; 'tidepool config' lists all keys";
  return fault_at(place, what + advice);
}

bool is_list(std::string_view section, const std::string& key) {
  const std::vector<const Field*> found = find_fields(section, key);
  return found.size() == 1 && std::holds_alternative<ListRef>(found[0]->ref);
}

Result<void> Reader::read_override(const std::string& text) {
  const std::string place = fmt::format("override '{}'", text);
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return fault_at(place, "an override is written key=value");
  std::string key = text.substr(0, equals);
  const std::string value_text = text.substr(equals + 1);

  if (key == "model") return {};  // begin_model() has read it

  std::string section;
  if (key.starts_with(fmt::format("{}.", schedule_map))) key = "train." + key;
  if (const size_t dot = key.find('.');
      dot != std::string::npos && find_fields("", canonical_model_key(key)).empty()) {
    section = key.substr(0, dot);
    key = key.substr(dot + 1);
    if (std::ranges::find(sections(), section, &Section::name) == sections().end()) {
      return unknown_section(place, section, "");
    }
  }
  TRY_ASSIGN(const YAML::Node value, override_value(place, value_text, is_list(section, key)));
  // In an override these keys are errors. In a file's section `model` they may come from a config.json, and
  // are harmless there.
  const std::string whole = text_of(value);
  const ForeignKey given{.section = section, .key = key, .value = whole};
  if (find_fields(section, key).empty() && !advice_for(given).empty()) return unknown_key(place, given);
  if (section.empty() && key == "dropout") bare_dropout_ = place;
  return read_key(place, section, key, value);
}

// Finds a key of adapters in a config without adapters. It is an error: else the whole model would be trained
// by mistake.
const Field* Reader::adapter_key_without_rank() {
  if (adapter_.on()) return nullptr;  // the adapter sets the rank
  const Field* given = nullptr;
  for (const Field& field : schema()) {
    if (field.section != "lora" || place_of(field).empty()) continue;
    if (field.key == "r") return nullptr;
    if (given == nullptr || given->key == "lora_dropout") given = &field;
  }
  return given;
}

Error Reader::adapters_without_rank(const Field& of_adapters) {
  const bool is_dropout = of_adapters.key == "lora_dropout";
  return fault_at(
      place_of(of_adapters),
      fmt::format("lora.{} is for adapters, but their rank, lora.r, is not set: set lora.r (PEFT's "
                  "default is 8), or set lora.r=0 to train the whole model{}{}",
                  of_adapters.key, is_dropout ? ", and for its dropout " : "",
                  is_dropout ? advice_for({.section = "model", .key = "dropout", .value = ""}) : ""));
}

// Refuses a rank or scale that differs from the adapter's: it would change what the adapter computes.
Result<void> Reader::check_same_adapter() {
  if (!adapter_.on()) return {};
  // Other target_modules name adapters of all layers; the tensors of the adapter then decide.
  if (config_.lora.target_modules != adapter_.target_modules) config_.lora.modules.clear();
  const LoraConfig& here = config_.lora;
  const auto differs = [&](std::string_view key, const auto& there, const auto& now) -> Result<void> {
    if (there == now) return {};
    return fault_at(
        place_of(*find_fields("lora", key)[0]),
        fmt::format("lora.{}: is {}, but the adapter in {} has {}; leave the key out, or start from "
                    "another adapter",
                    key, now, adapter_.adapter, there));
  };
  TRY(differs("r", adapter_.r, here.r));
  TRY(differs("lora_alpha", adapter_.alpha, here.alpha));
  TRY(differs("expert_r", adapter_.expert_r, here.expert_r));
  TRY(differs("expert_alpha", adapter_.expert_alpha, here.expert_alpha));
  return differs("use_rslora", adapter_.rslora, here.rslora);
}

Result<Config> Reader::finish() {
  for (const Field& field : schema()) {
    if (field.required && place_of(field).empty()) {
      const std::string_view example = std::holds_alternative<ListRef>(field.ref) ? "data.txt" : "2GiB";
      return fault_at(
          file_,
          fmt::format("'{}' is missing in section '{}'; add '{}: {}' there, or {}.{}={} to the command ({})",
                      field.key, field.section, field.key, example, field.section, field.key, example,
                      field.help));
    }
  }
  const Field* of_adapters = adapter_key_without_rank();
  const bool wants_adapters = of_adapters != nullptr && of_adapters->key != "lora_dropout";
  if (!bare_dropout_.empty() && config_.lora.r == 0 && !wants_adapters) {
    return fault_at(
        bare_dropout_,
        fmt::format("without a section, dropout means lora.lora_dropout, but there are no adapters "
                    "(lora.r is 0); {}",
                    advice_for({.section = "model", .key = "dropout", .value = ""})));
  }
  if (of_adapters != nullptr) return adapters_without_rank(*of_adapters);
  TRY(check_same_adapter());
  config_.model_directory = directory_;
  if (std::string reason = complete_labels(config_, labels_); !reason.empty()) {
    const std::string& place = place_of(*find_fields("objective", "labels")[0]);
    return fault_at(place.empty() ? file_ : place, "objective.labels: " + reason);
  }
  if (config_.train.num_train_epochs > 0 && place_of(*find_fields("train", "max_steps")[0]).empty())
    config_.train.max_steps = steps_by_epochs;
  const std::optional<Complaint> complaint = validate(config_);
  if (!complaint) return config_;
  const Field& field = *find_fields(complaint->section, complaint->key)[0];
  const std::string& place = place_of(field).empty() ? file_ : place_of(field);
  return fault_at(place, fmt::format("{}.{}: {}", field.section, field.key, complaint->reason));
}

}  // namespace

Result<Config> parse_config(std::string_view yaml, std::string_view file_name,
                            const std::vector<std::string>& overrides, KeptModel kept) {
  Reader reader(file_name);
  try {
    TRY_ASSIGN(const YAML::Node root, only_document(file_name, yaml));
    TRY(reader.begin_model(model_choice(file_name, root, overrides), kept));
    TRY(reader.read_file(root));
  } catch (const YAML::Exception& e) {
    return not_yaml(file_name, yaml, e);
  }
  for (const std::string& text : overrides) TRY(reader.read_override(text));
  return reader.finish();
}

}  // namespace tidepool
