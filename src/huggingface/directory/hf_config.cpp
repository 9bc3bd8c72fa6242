// config.json of a model directory: a reader that checks types as transformers does, and a writer.
#include "huggingface/directory/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <filesystem>

#include "base/json/text.h"
#include "base/overloaded.h"
#include "base/read_file.h"
#include "base/text/checkpoint_name.h"
#include "base/text/path_text.h"
#include "config/foreign_keys.h"
#include "config/schema.h"
#include "huggingface/directory/hf_experts.h"
#include "huggingface/directory/hf_layer_kinds.h"
#include "huggingface/directory/hf_layer_sizes.h"
#include "huggingface/directory/hf_mixers.h"
#include "huggingface/directory/hf_rope.h"
#include "huggingface/directory/hf_score.h"
#include "huggingface/directory/hf_window.h"
#include "huggingface/directory/hf_wrapper.h"
#include "huggingface/directory/quantization.h"
#include "huggingface/weights/expert_files.h"
#include "huggingface/weights/packed_sources.h"

namespace tidepool {
namespace json = boost::json;
namespace {

// The defaults that transformers uses for keys that a file leaves out.
ModelConfig hf_default(Family family) {
  const LeftOut& left_out = traits(family).left_out;
  ModelConfig c = default_model(family);
  c.attention.dropout = left_out.dropout;
  if (style(family).residual_dropout) c.residual_dropout = left_out.dropout;
  if (style(family).positions == PositionKind::learned) c.embedding_dropout = left_out.dropout;
  if (left_out.positions != 0) c.positions = left_out.positions;
  if (left_out.norm_epsilon != 0) c.norm_epsilon = left_out.norm_epsilon;
  c.attention.kv_heads_given = left_out.kv_heads;
  c.softmax.head_size_given = left_out.head_size;
  c.softmax.scale_given = left_out.attention_scale_size;
  c.softmax.global_head_size = left_out.global_head_size;
  c.layer_inputs = {.width = left_out.layer_input_width, .vocab_size_given = left_out.layer_input_rows};
  c.softmax.qk_norm = !traits(family).qk_norm_key;
  if (traits(family).experts != nullptr)
    c.experts.normalise =
        !traits(family).experts->normalise_key || traits(family).experts->normalise_left_out;
  return c;
}

// Value as the schema reads it: text without quotes.
std::string text_of(const json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : json_text(value, JsonStyle::line);
}

std::string_view kind_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "an integer";
    case json::kind::double_:
      return "a float";
    case json::kind::string:
      return "a text";
    case json::kind::array:
      return "a list";
    case json::kind::object:
      break;
  }
  return "an object";
}

// The kind of value that a field takes, in the words of kind_of().
std::string_view wanted_kind(const Field& field) {
  return std::visit(
      Overloaded{[](u32* (*)(Config&)) { return "an integer"; },
                 [](u64* (*)(Config&)) { return "an integer"; },
                 [](double* (*)(Config&)) { return "a number"; },
                 [](bool* (*)(Config&)) { return "a boolean"; }, [](const auto&) { return "a text"; }},
      field.ref);
}

// Checks types as transformers does: a number in quotes is no number, and a float is accepted as an integer
// only among rope parameters. "false" in quotes would even count as true there.
bool has_kind(const json::value& value, std::string_view wanted, std::string_view key) {
  if (wanted == "a number" || (wanted == "an integer" && is_rope_key(key.substr(0, key.find('.')))))
    return value.is_number();
  return kind_of(value) == wanted;
}

constexpr std::array<const char*, 2> beside_rope = {"rope_theta", "partial_rotary_factor"};

class Reader {
 public:
  Reader(Family family, ErrorKind kind, std::string_view file_name)
      : family_(family), kind_(kind), file_name_(file_name) {
    config_.model = hf_default(family);
  }

  Result<ModelConfig> read(json::object object) {
    if (const auto wrong = merge_rope_maps(family_, object)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = rename_rotary_width(family_, object)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = rename_expert_count(family_, object)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = rename_mamba_keys(family_, object)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = apply_expert_switch(family_, object)) return fault(wrong->key, wrong->reason);
    // Values within the map of rope parameters override the keys beside it.
    for (const char* key : beside_rope)
      if (const json::value* value = object.if_contains(key)) TRY(read_key(key, *value));
    const bool has_positions = object.contains("n_positions");  // GPT-2's; n_ctx is its older name
    // As in transformers, one of the two maps counts as a whole, and they are never mixed: rope_scaling,
    // unless it is empty.
    const json::value* scaling = object.if_contains("rope_scaling");
    const bool has_scaling = scaling != nullptr && scaling->is_object() && !scaling->get_object().empty();
    for (const auto& [key, value] : object) {
      const bool read_otherwise = std::ranges::find(beside_rope, key) != beside_rope.end() ||
                                  (key == "n_ctx" && has_positions) ||
                                  (key == "rope_parameters" && has_scaling) || key == quantization_key ||
                                  is_window_key(family_, key) || is_mixer_key(family_, key) ||
                                  is_mlp_list(family_, key) || is_layer_size_key(family_, key);
      if (!read_otherwise) TRY(read_key(std::string(key), value));
    }
    TRY(check_required(object));
    if (const auto wrong = take_lengths(object, config_.model)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = read_window(object, config_.model)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = read_layer_sizes(object, config_.model)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = read_mixers(object, config_.model)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = read_mlp_list(object, config_.model)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = read_unrotated(object, config_.model)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = read_score(object, config_.model.score)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = check_model(config_.model)) return fault(wrong->key, wrong->reason);
    return config_.model;
  }

 private:
  Error fault(std::string_view key, std::string_view why) const {
    return {kind_, fmt::format("{}: {}: {}", file_name_, key, why)};
  }

  Result<void> check_required(const json::object& object) const {
    const auto is_missing = [&](std::string_view key) { return !key.empty() && !object.contains(key); };
    constexpr std::string_view missing =
        "is missing: fetch the file again from where the model came from, or add the value that the model "
        "was "
        "trained with";
    for (const std::string_view key : style(family_).required_keys)
      if (is_missing(key)) return fault(key, missing);
    if (const ExpertTraits* experts = traits(family_).experts)
      for (const std::string_view key : experts->required_keys)
        if (is_missing(key)) return fault(key, missing);
    const auto has_map = [&](const char* key) { return object.contains(key) && object.at(key).is_object(); };
    if (traits(family_).rope_required && !has_map("rope_parameters") && !has_map("rope_scaling"))
      return fault("rope_parameters",
                   "is missing, which says how angles are scaled: fetch the file again from where the "
                   "model came from");
    return {};
  }

  Result<void> read_key(const std::string& given, const json::value& value) {
    const std::string key = canonical_model_key(given);
    if (is_rope_key(key) && value.is_object()) {
      if (const auto wrong = check_one_type(key, value.get_object())) return fault(wrong->key, wrong->reason);
      // First, so that a type that is not computed is named, and not one of its parameters.
      for (const char* type : {"rope_type", "type"})
        if (const json::value* given_type = value.get_object().if_contains(type))
          TRY(read_key(fmt::format("{}.{}", key, type), *given_type));
      for (const auto& [inner, inner_value] : value.get_object())
        TRY(read_key(fmt::format("{}.{}", key, std::string_view(inner)), inner_value));
      const auto wrong = check_scaling(key, value.get_object(), config_.model.attention.rope.type);
      return wrong ? Result<void>(fault(wrong->key, wrong->reason)) : Result<void>();
    }
    if (is_rope_key(key) && !value.is_null())
      return fault(key, "must be an object with the keys of the angles, such as rope_type and rope_theta");
    const std::vector<const Field*> found = find_fields("model", key);
    const bool ours = found.size() == 1 && key != "directory" && applies(*found[0], family_);
    if (!ours) return refuse_foreign(key, value);
    Result<void> taken = set(key, *found[0], value);
    if (!taken && key.ends_with("rope_type"))
      return Error{taken.error().kind,
                   taken.error().message +
                       "; a model with other positions cannot be trained here: use a model "
                       "with one of these, such as the model that was extended"};
    return taken;
  }

  Result<void> set(std::string_view key, const Field& field, const json::value& value) {
    if (value.is_null() && !field.automatic) return {};  // same as a missing key
    if (const auto* layers = std::get_if<std::vector<u32>* (*)(Config&)>(&field.ref)) {
      const auto wrong = read_layer_list(field.key, value, *(*layers)(config_));
      return wrong ? Result<void>(fault(wrong->key, wrong->reason)) : Result<void>();
    }
    if (const auto* numbers = std::get_if<std::vector<double>* (*)(Config&)>(&field.ref))
      return set_numbers(key, value, *(*numbers)(config_));
    if (value.is_object() || value.is_array())
      return fault(key, fmt::format("must be one value ({})", type_name(field)));
    if (const std::string_view wanted = wanted_kind(field); !value.is_null() && !has_kind(value, wanted, key))
      return fault(key, fmt::format("{} is {}; it must be {}", json_text(value, JsonStyle::line),
                                    kind_of(value), wanted));
    const std::string text = value.is_null() ? "auto" : text_of(value);
    if (const Result<void> done = set_value(field, config_, text); !done)
      return fault(key, fmt::format("'{}' {}", text, done.error().message));
    return {};
  }

  Result<void> set_numbers(std::string_view key, const json::value& value, std::vector<double>& to) const {
    const auto is_number = [](const json::value& item) { return item.is_number(); };
    if (!value.is_array() || !std::ranges::all_of(value.get_array(), is_number))
      return fault(key, fmt::format("must be a list of numbers, and is {}", kind_of(value)));
    to.clear();
    for (const json::value& item : value.get_array()) to.push_back(item.to_number<double>());
    return {};
  }

  // Ignores unknown keys: files of later versions have them.
  Result<void> refuse_foreign(const std::string& key, const json::value& value) {
    if (value.is_null()) return {};
    if (!value.is_array()) return accept_value(key, value);
    for (const json::value& item : value.get_array()) TRY(accept_value(key, item));
    return {};
  }
  Result<void> accept_value(std::string_view key, const json::value& value) {
    const std::string text = text_of(value);
    TRY(accept(key, text));
    const bool quoted = value.is_string() && (text == "true" || text == "false" || text == "null");
    if (quoted && is_demanded(family_, key))
      return fault(key, fmt::format("\"{0}\" is a text; it must be {0}, without quotes", text));
    return {};
  }
  Result<void> accept(std::string_view key, const std::string& value) {
    const Result<bool> accepted = accept_model_key(family_, key, value);
    if (!accepted) return fault(key, accepted.error().message);
    if (!*accepted && key.starts_with("rope_parameters."))
      return fault(key, "is of a rope type that Tidepool does not compute");
    return {};
  }

  Config config_;
  Family family_;
  ErrorKind kind_;
  std::string_view file_name_;
};

}  // namespace

Result<ModelConfig> parse_hf_config(std::string_view text, ErrorKind error_kind, std::string_view file_name) {
  TRY_ASSIGN(json::value root, parse_json(text, error_kind, file_name));
  if (!root.is_object()) return Error{error_kind, fmt::format("{}: is not a JSON object", file_name)};
  TRY_ASSIGN(const json::object keys, text_config_of(std::move(root.get_object()), error_kind, file_name));
  const json::value* type = keys.if_contains("model_type");
  if (type == nullptr || !type->is_string())
    return Error{error_kind, fmt::format("{}: model_type: must name the family of the model", file_name)};
  const Result<Family> family = parse_family(std::string_view(type->get_string()));
  if (!family) return Error{error_kind, fmt::format("{}: model_type: {}", file_name, family.error().message)};
  TRY_ASSIGN(ModelConfig config, Reader(*family, error_kind, file_name).read(keys));
  TRY_ASSIGN(const std::optional<Quantization> quantization, parse_quantization(text, error_kind, file_name));
  if (quantization) config.quantization = *quantization;
  return config;
}

}  // namespace tidepool
