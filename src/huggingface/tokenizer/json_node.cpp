#include "huggingface/tokenizer/json_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/value.hpp>

namespace tidepool {

namespace json = boost::json;

namespace {

std::string_view kind_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "true or false";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
    default:
      return "a number";
  }
}

}  // namespace

Error JsonNode::error_at(std::string_view below, std::string_view reason) const {
  const std::string place =
      place_.empty() && below.starts_with('.') ? std::string(below.substr(1)) : place_ + std::string(below);
  return {ErrorKind::bad_input, place.empty() ? fmt::format("{}: {}", *file_, reason)
                                              : fmt::format("{}: {}: {}", *file_, place, reason)};
}

JsonNode JsonNode::below(const json::value& value, std::string_view key) const {
  return {value, *file_, place_.empty() ? std::string(key) : fmt::format("{}.{}", place_, key)};
}

Result<void> JsonNode::expect_keys(std::initializer_list<std::string_view> keys) const {
  if (!value_->is_object()) return error(fmt::format("must be an object, but is {}", kind_of(*value_)));
  for (const auto& member : value_->get_object()) {
    const std::string_view key(member.key().data(), member.key().size());
    if (std::ranges::find(keys, key) == keys.end())
      return error_at(fmt::format(".{}", key),
                      "is not supported; remove it if the tokens do not depend on it");
  }
  return {};
}

Result<JsonNode> JsonNode::member(std::string_view key) const {
  if (!value_->is_object()) return error(fmt::format("must be an object, but is {}", kind_of(*value_)));
  const json::value* found = value_->get_object().if_contains(key);
  if (!found) return error(fmt::format("has no '{}'", key));
  return below(*found, key);
}

Result<std::optional<JsonNode>> JsonNode::find(std::string_view key) const {
  if (!value_->is_object()) return error(fmt::format("must be an object, but is {}", kind_of(*value_)));
  const json::value* found = value_->get_object().if_contains(key);
  if (!found || found->is_null()) return std::optional<JsonNode>();
  return std::optional<JsonNode>(below(*found, key));
}

Result<std::vector<JsonNode>> JsonNode::items() const {
  if (!value_->is_array()) return error(fmt::format("must be an array, but is {}", kind_of(*value_)));
  std::vector<JsonNode> out;
  out.reserve(value_->get_array().size());
  for (const json::value& item : value_->get_array())
    out.push_back({item, *file_, fmt::format("{}[{}]", place_, out.size())});
  return out;
}

Result<std::string> JsonNode::text() const {
  if (!value_->is_string()) return error(fmt::format("must be a string, but is {}", kind_of(*value_)));
  const json::string& text = value_->get_string();
  return std::string(text.data(), text.size());
}

Result<bool> JsonNode::flag() const {
  if (!value_->is_bool()) return error(fmt::format("must be true or false, but is {}", kind_of(*value_)));
  return value_->get_bool();
}

Result<u32> JsonNode::number(u32 most) const {
  const i64 number = value_->is_int64() ? value_->get_int64() : -1;
  if (number < 0 || number > most) return error(fmt::format("must be a whole number from 0 to {}", most));
  return static_cast<u32>(number);
}

Result<std::string> JsonNode::text_or(std::string_view key, std::string_view preset) const {
  TRY_ASSIGN(const std::optional<JsonNode> found, find(key));
  return found ? found->text() : Result<std::string>(std::string(preset));
}

Result<bool> JsonNode::flag_or(std::string_view key, bool preset) const {
  TRY_ASSIGN(const std::optional<JsonNode> found, find(key));
  return found ? found->flag() : Result<bool>(preset);
}

}  // namespace tidepool
