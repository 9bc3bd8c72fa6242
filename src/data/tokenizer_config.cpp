#include "data/tokenizer_config.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <optional>

#include "json/text.h"
#include "tidepool/read_file.h"
#include "tidepool/types.h"

namespace tidepool {

namespace json = boost::json;
namespace fs = std::filesystem;

namespace {

constexpr u64 config_bytes_max = 16 * mib;  // old ones list every added token
constexpr u64 template_bytes_max = mib;
constexpr std::array<std::string_view, 7> token_names = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                         "pad_token", "cls_token", "mask_token"};
constexpr std::array<std::string_view, 3> token_lists = {"added_tokens_decoder", "additional_special_tokens",
                                                         "extra_special_tokens"};

Error bad(const std::string& path, std::string_view text) {
  return {ErrorKind::bad_input, fmt::format("{}: {}", path, text)};
}

// None where there is no such file.
Result<std::optional<json::value>> read_object(const std::string& path) {
  std::error_code unused;
  if (!fs::exists(path, unused)) return std::optional<json::value>();
  TRY_ASSIGN(const std::string text, read_small_file(path, config_bytes_max, ErrorKind::bad_input));
  TRY_ASSIGN(json::value v, parse_json(text, ErrorKind::bad_input, path));
  if (!v.is_object()) return bad(path, "must be a JSON object");
  return std::optional<json::value>(std::move(v));
}

// Texts or objects with "content", in a list, by id or by name: versions of the library differ.
void collect_tokens(const std::string& path, const json::value& v, TokenizerConfig& out) {
  if (const json::string* text = v.if_string()) {
    if (!text->empty()) out.tokens.push_back({path, std::string(*text)});
  } else if (const json::array* list = v.if_array()) {
    for (const json::value& element : *list) collect_tokens(path, element, out);
  } else if (const json::object* object = v.if_object()) {
    if (const json::value* content = object->if_contains("content"))
      return collect_tokens(path, *content, out);
    for (const auto& [key, element] : *object) collect_tokens(path, element, out);
  }
}

// A text, or {"content": text}.
Result<void> read_token(const std::string& path, std::string_view name, const json::value& v,
                        TokenizerConfig& out) {
  const json::value* text = &v;
  if (v.is_object()) text = v.get_object().if_contains("content");
  if (v.is_null()) return {};
  if (text == nullptr || !text->is_string())
    return bad(path, fmt::format("{} must be text, or an object with \"content\"", name));
  out.special_tokens.try_emplace(std::string(name), text->get_string());
  collect_tokens(path, *text, out);
  return {};
}

Result<void> read_tokens(const std::string& path, const json::object& object, TokenizerConfig& out) {
  for (const std::string_view name : token_names) {
    if (const json::value* v = object.if_contains(name)) TRY(read_token(path, name, *v, out));
  }
  for (const std::string_view name : token_lists) {
    if (const json::value* v = object.if_contains(name)) collect_tokens(path, *v, out);
  }
  return {};
}

Result<void> read_templates(const std::string& path, const json::value& v, TokenizerConfig& out) {
  if (v.is_null()) return {};
  if (v.is_string()) {
    out.templates["default"] = {path + " (chat_template)", std::string(v.get_string())};
    return {};
  }
  if (!v.is_array()) return bad(path, "chat_template must be text, or a list of {\"name\", \"template\"}");
  for (size_t i = 0; i < v.get_array().size(); ++i) {
    const json::object* named = v.get_array()[i].if_object();
    const json::value* name = named ? named->if_contains("name") : nullptr;
    const json::value* text = named ? named->if_contains("template") : nullptr;
    if (name == nullptr || text == nullptr || !name->is_string() || !text->is_string())
      return bad(
          path,
          fmt::format("chat_template[{}] must be an object with the texts \"name\" and \"template\"", i));
    const std::string key(name->get_string());
    out.templates[key] = {fmt::format("{} (chat_template '{}')", path, key), std::string(text->get_string())};
  }
  return {};
}

// A single one takes the place of all that tokenizer_config.json has, as in transformers.
Result<void> read_template_files(const std::string& directory, TokenizerConfig& out) {
  std::map<std::string, TokenizerConfig::Source> found;
  std::error_code unused;
  const auto add = [&](const std::string& name, const std::string& file) -> Result<void> {
    TRY_ASSIGN(std::string text, read_small_file(file, template_bytes_max, ErrorKind::bad_input));
    found[name] = {file, std::move(text)};
    return {};
  };
  if (const std::string file = directory + "/chat_template.jinja"; fs::exists(file, unused))
    TRY(add("default", file));
  for (const fs::directory_entry& entry :
       fs::directory_iterator(directory + "/additional_chat_templates", unused)) {
    if (entry.path().extension() == ".jinja") TRY(add(entry.path().stem().string(), entry.path().string()));
  }
  if (!found.empty()) out.templates = std::move(found);
  return {};
}

}  // namespace

Result<TokenizerConfig> read_tokenizer_config(const std::string& directory) {
  TokenizerConfig out;
  const std::string config = directory + "/tokenizer_config.json",
                    map = directory + "/special_tokens_map.json", added = directory + "/added_tokens.json";
  TRY_ASSIGN(const std::optional<json::value> object, read_object(config));
  if (object) {
    TRY(read_tokens(config, object->get_object(), out));
    if (const json::value* v = object->get_object().if_contains("chat_template"))
      TRY(read_templates(config, *v, out));
  }
  TRY_ASSIGN(const std::optional<json::value> tokens, read_object(map));
  if (tokens) TRY(read_tokens(map, tokens->get_object(), out));
  TRY_ASSIGN(const std::optional<json::value> ids, read_object(added));
  if (ids) {
    for (const auto& [token, id] : ids->get_object()) out.tokens.push_back({added, std::string(token)});
  }
  TRY(read_template_files(directory, out));
  return out;
}

}  // namespace tidepool
