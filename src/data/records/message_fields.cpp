#include "data/records/message_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>

#include "base/text/lowercase.h"
#include "huggingface/jinja/from_json.h"

namespace tidepool {

namespace json = boost::json;

Result<jinja::Value> MessageFields::message(const json::value& v, const std::string& what) const {
  if (!v.is_object()) return fault(fmt::format("{} must be an object, not {}", what, json_kind_name(v)));
  const json::value* role = v.get_object().if_contains("role");
  if (role == nullptr) return fault(fmt::format("{} has no \"role\"", what));
  TRY_ASSIGN(const std::string given_role, text_of(*role, what + ".role"));
  const json::value* content = v.get_object().if_contains("content");
  const bool has_content = content && !content->is_null();
  if (has_content && !content->is_string() && !content->is_array())
    return fault(
        fmt::format("{}.content must be text, or a list of parts, not {}", what, json_kind_name(*content)));
  const json::value* calls = v.get_object().if_contains("tool_calls");
  if (!has_content && (calls == nullptr || calls->is_null()) && reasoning_of(v.get_object()) == nullptr)
    return fault(fmt::format("{} has neither \"content\" nor \"tool_calls\"", what));
  if (has_content && content->is_array()) TRY(check_parts(content->get_array(), what));
  jinja::Dict out = reasoning_first(v.get_object());
  for (const auto& [key, field] : v.get_object()) {
    if (field.is_null()) continue;
    out.set(key, key == "content" && field.is_array() ? parts(field.get_array())
                                                      : jinja::from_json(field, large_));
  }
  if (const json::value* reasoning = reasoning_of(v.get_object()))
    out.set("reasoning_content", jinja::from_json(*reasoning, large_));
  // Templates compare roles with these words, so "User" is none of their roles.
  const std::string small = lowercase(given_role);
  constexpr std::array<std::string_view, 5> roles = {"system", "developer", "user", "assistant", "tool"};
  if (std::ranges::find(roles, small) != roles.end()) out.set("role", jinja::Value(small));
  return jinja::Value(std::move(out));
}

// Reasoning under the first of its names. As in transformers, a template finds it under reasoning_content,
// and under thinking, which gpt-oss's reads.
const json::value* MessageFields::reasoning_of(const json::object& message) {
  for (const std::string_view key : {"reasoning_content", "thinking", "reasoning"}) {
    if (const json::value* v = field_of(message, key)) return v;
  }
  return nullptr;
}
jinja::Dict MessageFields::reasoning_first(const json::object& message) const {
  jinja::Dict out;
  if (const json::value* reasoning = reasoning_of(message))
    out.set("thinking", jinja::from_json(*reasoning, large_));
  return out;
}

Result<void> MessageFields::check_parts(const json::array& parts, const std::string& what) const {
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = fmt::format("{}.content[{}]", what, i);
    if (!parts[i].is_object())
      return fault(fmt::format("{} must be an object with \"type\" and \"text\", not {}", part,
                               json_kind_name(parts[i])));
    const json::object& fields = parts[i].get_object();
    const json::value* type = field_of(fields, "type");
    if (type != nullptr && *type != "text")
      return fault(fmt::format(
          "{} is of type {}, but Tidepool trains on parts of type \"text\" alone; remove the part", part,
          json::serialize(*type)));
    const json::value* text = field_of(fields, "text");
    if (text == nullptr) return fault(fmt::format("{} has no \"text\"", part));
    TRY(text_of(*text, part + ".text"));
  }
  return {};
}
// Parts without keys that are null: templates ask for pictures by `'image' in part`.
jinja::Value MessageFields::parts(const json::array& all) const {
  jinja::List out;
  for (const json::value& part : all) {
    jinja::Dict fields;
    for (const auto& [key, field] : part.get_object())
      if (!field.is_null()) fields.set(key, jinja::from_json(field, large_));
    out.emplace_back(std::move(fields));
  }
  return jinja::Value(std::move(out));
}

}  // namespace tidepool
