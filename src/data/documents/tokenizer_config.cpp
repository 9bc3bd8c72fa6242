#include "data/documents/tokenizer_config.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <filesystem>
#include <optional>

#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/path_text.h"
#include "base/types.h"

namespace tidepool {

namespace json = boost::json;
namespace fs = std::filesystem;

namespace {

constexpr u64 config_bytes_max = 16 * mib;  // old files list every added token
constexpr std::array<std::string_view, 7> token_names = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                         "pad_token", "cls_token", "mask_token"};
constexpr std::array<std::string_view, 2> token_lists = {"additional_special_tokens", "extra_special_tokens"};

Error bad_config(const std::string& path, std::string_view text) {
  return {ErrorKind::bad_input, fmt::format("{}: {}", path, text)};
}

// RETURNS: none if there is no such file.
Result<std::optional<json::value>> read_object(const std::string& path) {
  if (!is_named(path)) return std::optional<json::value>();
  TRY_ASSIGN(const std::string text, read_small_file(path, config_bytes_max, ErrorKind::bad_input));
  TRY_ASSIGN(json::value v, parse_json(text, ErrorKind::bad_input, path));
  if (!v.is_object()) return bad_config(path, "must be a JSON object");
  return std::optional<json::value>(std::move(v));
}

// Collects texts, or objects with "content", from a list or a map: versions of the library differ.
void collect_tokens(const std::string& path, const json::value& v, TokenizerConfig& out) {
  if (const json::string* text = v.if_string()) {
    if (!text->empty()) out.tokens.push_back({.file = path, .text = std::string(*text), .id = std::nullopt});
  } else if (const json::array* list = v.if_array()) {
    for (const json::value& element : *list) collect_tokens(path, element, out);
  } else if (const json::object* object = v.if_object()) {
    if (const json::value* content = object->if_contains("content"))
      return collect_tokens(path, *content, out);
    for (const auto& [key, element] : *object) collect_tokens(path, element, out);
  }
}

// Reads a text, or {"content": text}.
Result<void> read_token(const std::string& path, std::string_view name, const json::value& v,
                        TokenizerConfig& out) {
  const json::value* text = &v;
  if (v.is_object()) text = v.get_object().if_contains("content");
  if (v.is_null()) return {};
  if (text == nullptr || !text->is_string())
    return bad_config(path, fmt::format("{} must be text, or an object with \"content\"", name));
  out.special_tokens.try_emplace(std::string(name), text->get_string());
  collect_tokens(path, *text, out);
  return {};
}

// Reads {"32000": {"content": text}}.
Result<void> read_added_tokens(const std::string& path, const json::value& v, TokenizerConfig& out) {
  if (!v.is_object()) return bad_config(path, "added_tokens_decoder must be an object of tokens by id");
  for (const auto& [key, token] : v.get_object()) {
    u32 id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size())
      return bad_config(path,
                        fmt::format("added_tokens_decoder: '{}' is not a token id", std::string_view(key)));
    const size_t had = out.tokens.size();
    collect_tokens(path, token, out);
    for (size_t i = had; i < out.tokens.size(); ++i) out.tokens[i].id = id;
  }
  return {};
}

// Reads {text: 32000}, the format before added_tokens_decoder.
Result<void> read_added_tokens_file(const std::string& path, const json::object& object,
                                    TokenizerConfig& out) {
  for (const auto& [token, v] : object) {
    std::error_code wrong;
    const u32 id = v.to_number<u32>(wrong);
    if (wrong) return bad_config(path, fmt::format("'{}' must have a token id", std::string_view(token)));
    out.tokens.push_back({.file = path, .text = std::string(token), .id = id});
  }
  return {};
}

Result<void> read_flag(const std::string& path, const json::object& object, std::string_view name,
                       std::optional<bool>& out) {
  const json::value* v = object.if_contains(name);
  if (v == nullptr || v->is_null()) return {};
  if (!v->is_bool()) return bad_config(path, fmt::format("{} must be true or false", name));
  out = v->get_bool();
  return {};
}

Result<void> read_frame(const std::string& path, const json::object& object, TokenizerConfig& out) {
  out.frame.file = path;
  const json::value* name = object.if_contains("tokenizer_class");
  if (name != nullptr && name->is_string()) out.frame.tokenizer_class = name->get_string();
  TRY(read_flag(path, object, "add_bos_token", out.frame.add_bos_token));
  TRY(read_flag(path, object, "legacy", out.frame.legacy));
  return read_flag(path, object, "add_eos_token", out.frame.add_eos_token);
}

// Reads tokens by names of the user's own, which are variables of templates like bos_token: an object of
// them, and in tokenizer_config.json itself the keys that end in _token.
Result<void> read_named_tokens(const std::string& path, const json::object& object, TokenizerConfig& out) {
  for (const char* name : {"extra_special_tokens", "model_specific_special_tokens"}) {
    const json::value* tokens = object.if_contains(name);
    if (tokens == nullptr || !tokens->is_object()) continue;
    for (const auto& [key, token] : tokens->get_object()) TRY(read_token(path, key, token, out));
  }
  for (const auto& [key, token] : object) {
    const bool is_token = token.is_string() || (token.is_object() && token.get_object().contains("content"));
    if (key.ends_with("_token") && is_token) TRY(read_token(path, key, token, out));
  }
  return {};
}

Result<void> read_tokens(const std::string& path, const json::object& object, TokenizerConfig& out) {
  for (const std::string_view name : token_names) {
    if (const json::value* v = object.if_contains(name)) TRY(read_token(path, name, *v, out));
  }
  TRY(read_named_tokens(path, object, out));
  for (const std::string_view name : token_lists) {
    if (const json::value* v = object.if_contains(name)) collect_tokens(path, *v, out);
  }
  if (const json::value* v = object.if_contains("added_tokens_decoder"))
    TRY(read_added_tokens(path, *v, out));
  return {};
}

Result<void> read_templates(const std::string& path, const json::value& v, TokenizerConfig& out) {
  if (v.is_null()) return {};
  if (v.is_string()) {
    out.templates["default"] = {path + " (chat_template)", std::string(v.get_string())};
    return {};
  }
  if (!v.is_array())
    return bad_config(path, "chat_template must be text, or a list of {\"name\", \"template\"}");
  for (size_t i = 0; i < v.get_array().size(); ++i) {
    const json::object* named = v.get_array()[i].if_object();
    const json::value* name = named ? named->if_contains("name") : nullptr;
    const json::value* text = named ? named->if_contains("template") : nullptr;
    if (name == nullptr || text == nullptr || !name->is_string() || !text->is_string())
      return bad_config(
          path,
          fmt::format("chat_template[{}] must be an object with the texts \"name\" and \"template\"", i));
    const std::string key(name->get_string());
    out.templates[key] = {fmt::format("{} (chat_template '{}')", path, key), std::string(text->get_string())};
  }
  return {};
}

// Reads template files. A single file replaces all templates of tokenizer_config.json, as in transformers.
Result<void> read_template_files(const std::string& directory, TokenizerConfig& out) {
  std::map<std::string, TokenizerConfig::Source> found;
  std::error_code unused;
  const auto add = [&](const std::string& name, const std::string& file) -> Result<void> {
    TRY_ASSIGN(std::string text, read_small_file(file, template_bytes_max, ErrorKind::bad_input));
    found[name] = {file, std::move(text)};
    return {};
  };
  if (const std::string file = directory + "/chat_template.jinja"; is_named(file)) TRY(add("default", file));
  for (const fs::directory_entry& entry :
       fs::directory_iterator(directory + "/additional_chat_templates", unused)) {
    if (entry.path().extension() == ".jinja") TRY(add(entry.path().stem().string(), entry.path().string()));
  }
  if (!found.empty()) out.templates = std::move(found);
  return {};
}

// Reads the older files. The library ignores them if tokenizer_config.json has an added_tokens_decoder.
Result<void> read_older_files(const std::string& directory, TokenizerConfig& out) {
  const std::string map = directory + "/special_tokens_map.json", added = directory + "/added_tokens.json";
  TRY_ASSIGN(const std::optional<json::value> tokens, read_object(map));
  if (tokens) TRY(read_tokens(map, tokens->get_object(), out));
  TRY_ASSIGN(const std::optional<json::value> ids, read_object(added));
  if (ids) TRY(read_added_tokens_file(added, ids->get_object(), out));
  return {};
}

}  // namespace

Result<TokenizerConfig> read_tokenizer_config(const std::string& directory) {
  TokenizerConfig out;
  const std::string config = directory + "/tokenizer_config.json";
  TRY_ASSIGN(const std::optional<json::value> object, read_object(config));
  bool lists_all = false;
  if (object) {
    lists_all = object->get_object().contains("added_tokens_decoder");
    TRY(read_tokens(config, object->get_object(), out));
    TRY(read_frame(config, object->get_object(), out));
    if (const json::value* v = object->get_object().if_contains("chat_template"))
      TRY(read_templates(config, *v, out));
  }
  if (!lists_all) TRY(read_older_files(directory, out));
  TRY(read_template_files(directory, out));
  return out;
}

}  // namespace tidepool
