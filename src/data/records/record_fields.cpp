#include "data/records/record_fields.h"

#include <fmt/format.h>

namespace tidepool {

namespace json = boost::json;

std::string_view json_kind_name(const json::value& v) {
  constexpr std::string_view names[] = {"null",     "true or false", "a number", "a number",
                                        "a number", "text",          "a list",   "an object"};
  return names[static_cast<size_t>(v.kind())];
}

const json::value* field_of(const json::object& object, std::string_view key) {
  const json::value* v = object.if_contains(key);
  return v == nullptr || v->is_null() ? nullptr : v;
}

Error RecordFields::fault(std::string_view text) const {
  return {ErrorKind::bad_input, fmt::format("{}: {}", place_, text)};
}

Result<std::string> RecordFields::text_of(const json::value& v, std::string_view what) const {
  if (!v.is_string()) return fault(fmt::format("{} must be text, not {}", what, json_kind_name(v)));
  return std::string(v.get_string());
}

Result<std::string> RecordFields::needed(std::string_view key) const {
  const json::value* v = object_.if_contains(key);
  if (v == nullptr) return fault(fmt::format("there is no \"{}\"", key));
  return text_of(*v, fmt::format("\"{}\"", key));
}

Result<std::string> RecordFields::optional(std::string_view key) const {
  const json::value* v = field(key);
  if (v == nullptr) return std::string();
  return text_of(*v, fmt::format("\"{}\"", key));
}

Result<const json::array*> RecordFields::list(std::string_view key) const {
  const json::value* v = object_.if_contains(key);
  if (v == nullptr) return fault(fmt::format("there is no \"{}\"", key));
  if (!v->is_array()) return fault(fmt::format("\"{}\" must be a list, not {}", key, json_kind_name(*v)));
  if (v->get_array().empty()) return fault(fmt::format("\"{}\" is empty", key));
  return &v->get_array();
}

}  // namespace tidepool
