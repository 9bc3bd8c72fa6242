// Reads and copies the keys of config.json and generation_config.json that do not describe the model itself.
// They are used for generating, and kept when a model is written.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_from.hpp>
#include <limits>

#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/path_text.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/directory/hf_score.h"
#include "huggingface/directory/hf_window.h"
#include "huggingface/directory/hf_wrapper.h"
#include "huggingface/directory/quantization.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr std::array<const char*, 4> token_keys = {"bos_token_id", "eos_token_id", "pad_token_id",
                                                   "decoder_start_token_id"};

Result<json::object> object_of(std::string_view text, std::string_view file_name) {
  TRY_ASSIGN(json::value root, parse_json(text, ErrorKind::bad_input, file_name));
  if (!root.is_object())
    return Error{ErrorKind::bad_input, fmt::format("{}: is not a JSON object", file_name)};
  return std::move(root.get_object());
}

// The keys of the text model, if the config is a wrapper's.
Result<json::object> text_object_of(std::string_view text, std::string_view file_name) {
  TRY_ASSIGN(json::object whole, object_of(text, file_name));
  return text_config_of(std::move(whole), ErrorKind::bad_input, file_name);
}

// RETURNS: an empty object if there is no such file.
Result<json::object> object_in(const std::string& path) {
  if (!is_named(path)) return json::object();
  TRY_ASSIGN(const std::string text, read_small_file(path, config_bytes_max, ErrorKind::bad_input));
  return text_object_of(text, path);
}

// Reads a number, a list of numbers, or null.
Result<std::vector<u32>> ids_of(const json::value& value, const std::string& path) {
  std::vector<u32> ids;
  const json::array one = {value};
  for (const json::value& id : value.is_array() ? value.get_array() : one) {
    if (id.is_null()) continue;
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() > std::numeric_limits<i32>::max())
      return Error{ErrorKind::bad_input,
                   fmt::format("{}: eos_token_id: must be a token id, or a list of token ids", path)};
    ids.push_back(static_cast<u32>(id.get_int64()));
  }
  return ids;
}

bool same_windows(const ModelConfig& a, const ModelConfig& b) {
  for (u32 layer = 0; layer < std::max(a.layers, b.layers); ++layer)
    if (a.attention_window(layer) != b.attention_window(layer) || a.slides(layer) != b.slides(layer))
      return false;
  return true;
}

}  // namespace

std::string hf_config_text(const ModelConfig& config, Precision precision, std::string_view source) {
  Result<json::object> whole = text_object_of(source, model_config_file);
  const Result<json::object> ours = object_of(hf_config_text(config, precision), model_config_file);
  const Result<ModelConfig> before = parse_hf_config(source, ErrorKind::bad_input, model_config_file);
  if (!whole || !ours || !before) return hf_config_text(config, precision);
  // Windows can be written in several ways: the source's way is kept if it still says the same.
  const json::value* types = whole->if_contains("layer_types");
  const bool other_count =
      types != nullptr && types->is_array() && types->get_array().size() != config.layers;
  const bool keeps_windows = same_windows(*before, config) && !other_count;
  for (const auto& [key, value] : *ours) {
    // If left out, these ids are the family's defaults; if null, the model has none. So the source's choice
    // stays.
    const bool of_tokens = key == "bos_token_id" || key == "eos_token_id" || key == "pad_token_id";
    if (!of_tokens && !is_window_key(config.family, key)) (*whole)[key] = value;
  }
  if (!keeps_windows) write_window(config, *whole);
  if (config.score.on()) write_score(config, *whole);
  return json_text(*whole, JsonStyle::pretty);
}

Result<std::string> with_dtype(std::string_view source, Precision precision, std::string_view file_name) {
  TRY_ASSIGN(json::object object, object_of(source, file_name));
  for (const char* key : {"dtype", "torch_dtype"}) {
    object[key] = hf_dtype(precision);
    json::object* text = wrapper_of(object) != nullptr ? object[text_config_key].if_object() : nullptr;
    if (text != nullptr && text->contains(key)) (*text)[key] = hf_dtype(precision);
  }
  return json_text(object, JsonStyle::pretty);
}

Result<std::string> with_score(std::string_view source, const ScoreHead& score, std::string_view file_name) {
  TRY_ASSIGN(json::object object, object_of(source, file_name));
  TRY_ASSIGN(ModelConfig config, parse_hf_config(source, ErrorKind::bad_input, file_name));
  config.score = score;
  write_score(config, object);
  return json_text(object, JsonStyle::pretty);
}

Result<std::string> without_quantization(std::string_view source, std::string_view file_name) {
  TRY_ASSIGN(json::object object, object_of(source, file_name));
  object.erase(quantization_key);
  json::object* text = wrapper_of(object) != nullptr ? object[text_config_key].if_object() : nullptr;
  if (text != nullptr) text->erase(quantization_key);
  return json_text(object, JsonStyle::pretty);
}

Result<std::string> with_fp8_blocks(std::string_view source, u32 size,
                                    const std::vector<std::string>& unpacked_modules,
                                    std::string_view file_name) {
  TRY_ASSIGN(json::object object, object_of(source, file_name));
  object[quantization_key] = {{"quant_method", "fp8"},
                              {"fmt", "e4m3"},
                              {"activation_scheme", "dynamic"},
                              {"weight_block_size", {size, size}},
                              {"modules_to_not_convert", json::value_from(unpacked_modules)}};
  return json_text(object, JsonStyle::pretty);
}

Result<std::optional<Precision>> hf_precision(const std::string& directory) {
  TRY_ASSIGN(const json::object object, object_in(fmt::format("{}/{}", directory, model_config_file)));
  for (const char* key : {"dtype", "torch_dtype"})
    for (u32 p = 0; p < precision_count; ++p)
      if (const json::value* dtype = object.if_contains(key);
          dtype != nullptr && *dtype == hf_dtype(static_cast<Precision>(p)))
        return static_cast<Precision>(p);
  return std::optional<Precision>();
}

Result<std::vector<u32>> end_token_ids(const std::string& directory) {
  for (const char* file : {generation_config_file, model_config_file}) {
    const std::string path = fmt::format("{}/{}", directory, file);
    TRY_ASSIGN(const json::object object, object_in(path));
    if (const json::value* ids = object.if_contains("eos_token_id"); ids != nullptr && !ids->is_null())
      return ids_of(*ids, path);
  }
  return std::vector<u32>{};
}

Result<std::string> generation_config_text(std::string_view config_json, std::string_view file_name) {
  TRY_ASSIGN(const json::object config, object_of(config_json, file_name));
  json::object out{{"_from_model_config", true}};
  for (const char* key : token_keys)
    if (const json::value* id = config.if_contains(key); id != nullptr && !id->is_null()) out[key] = *id;
  return json_text(out, JsonStyle::pretty);
}

}  // namespace tidepool
