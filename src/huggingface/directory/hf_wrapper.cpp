#include "huggingface/directory/hf_wrapper.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/json/text.h"
#include "base/read_file.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/directory/quantization.h"
#include "huggingface/weights/wrapped_names.h"

namespace tidepool {
namespace json = boost::json;
namespace {

// transformers writes some of these keys beside text_config, others within, and in some versions both.
constexpr std::array<const char*, 8> outer_keys = {
    "tie_word_embeddings", "dtype",        "torch_dtype",    "bos_token_id",
    "eos_token_id",        "pad_token_id", quantization_key, "transformers_version"};

// Lists of modules within a quantization_config.
constexpr std::array<const char*, 3> module_lists = {"modules_to_not_convert", "ignored_layers",
                                                     "llm_int8_skip_modules"};

bool has_value(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && !value->is_null();
}

void rename_modules(json::object& text) {
  json::value* quantization = text.if_contains(quantization_key);
  if (quantization == nullptr || !quantization->is_object()) return;
  for (const char* key : module_lists) {
    json::value* modules = quantization->get_object().if_contains(key);
    if (modules == nullptr || !modules->is_array()) continue;
    for (json::value& module : modules->get_array())
      if (module.is_string()) module = json::string(text_tensor_name(std::string_view(module.get_string())));
  }
}

Result<json::object> object_of(std::string_view text, ErrorKind kind, std::string_view file_name) {
  TRY_ASSIGN(json::value root, parse_json(text, kind, file_name));
  if (!root.is_object()) return Error{kind, fmt::format("{}: is not a JSON object", file_name)};
  return std::move(root.get_object());
}

}  // namespace

const ModelWrapper* wrapper_of(const json::object& config) {
  const json::value* type = config.if_contains("model_type");
  return type != nullptr && type->is_string() ? find_wrapper(std::string_view(type->get_string())) : nullptr;
}

const ModelWrapper* wrapper_of(std::string_view config) {
  const Result<json::object> object = object_of(config, ErrorKind::bad_input, model_config_file);
  return object ? wrapper_of(*object) : nullptr;
}

const ModelWrapper* wrapper_of_directory(const std::string& directory) {
  const std::string path = directory + "/" + model_config_file;
  const Result<std::string> text = read_small_file(path, config_bytes_max, ErrorKind::bad_input);
  return text ? wrapper_of(*text) : nullptr;
}

Result<json::object> text_config_of(json::object config, ErrorKind error_kind, std::string_view file_name) {
  const ModelWrapper* wrapper = wrapper_of(config);
  if (wrapper == nullptr) return config;
  const auto fault = [&](std::string_view key, const std::string& why) {
    return Error{error_kind, fmt::format("{}: {}: {}", file_name, key, why)};
  };
  json::value* inner = config.if_contains(text_config_key);
  if (inner == nullptr || !inner->is_object())
    return fault(text_config_key,
                 fmt::format("is missing, which describes the text model of a {} model: fetch the file again "
                             "from where the model came from",
                             wrapper->name));
  json::object text = std::move(inner->get_object());
  const json::value* type = text.if_contains("model_type");
  if (type != nullptr && *type != json::string_view(name(wrapper->text)))
    return fault("text_config.model_type",
                 fmt::format("{} is not the text model of {} models that Tidepool trains, which is {}",
                             json_text(*type, JsonStyle::line), wrapper->name, name(wrapper->text)));
  for (const char* key : outer_keys)
    if (!has_value(text, key) && has_value(config, key)) text[key] = config.at(key);
  for (const auto& [key, value] : wrapper->left_out)
    if (!key.empty() && !text.contains(key)) text[key] = value;
  text["model_type"] = json::string_view(name(wrapper->text));
  text["architectures"] = json::array{json::string_view(traits(wrapper->text).architecture)};
  rename_modules(text);
  return text;
}

Result<std::string> text_config_of(std::string_view config, ErrorKind error_kind,
                                   std::string_view file_name) {
  TRY_ASSIGN(json::object object, object_of(config, error_kind, file_name));
  TRY_ASSIGN(const json::object text, text_config_of(std::move(object), error_kind, file_name));
  return json_text(text, JsonStyle::pretty);
}

Result<std::string> with_text_changes(std::string_view config, std::string_view was, std::string_view now,
                                      std::string_view file_name) {
  if (was == now) return std::string(config);
  TRY_ASSIGN(json::object whole, object_of(config, ErrorKind::bad_input, file_name));
  TRY_ASSIGN(const json::object before, object_of(was, ErrorKind::bad_input, file_name));
  TRY_ASSIGN(const json::object after, object_of(now, ErrorKind::bad_input, file_name));
  const bool wrapped = wrapper_of(whole) != nullptr;
  json::object& text = wrapped ? whole.at(text_config_key).as_object() : whole;
  for (const auto& [key, value] : after) {
    const json::value* old = before.if_contains(key);
    if (old == nullptr || *old != value) text[key] = value;
  }
  for (const auto& [key, value] : before)
    if (!after.contains(key)) text.erase(key);
  return json_text(whole, JsonStyle::pretty);
}

}  // namespace tidepool
