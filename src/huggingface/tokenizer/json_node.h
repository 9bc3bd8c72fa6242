// JsonNode is a JSON value with its place in the file, so that every error message can name both.
#pragma once

#include <boost/json/fwd.hpp>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// A view of a value.
// REQUIRES: file name and value outlive it.
// Error: bad_input, for all methods.
class JsonNode {
 public:
  JsonNode(const boost::json::value& value, const std::string& file, std::string place)
      : value_(&value), file_(&file), place_(std::move(place)) {}

  const std::string& place() const { return place_; }
  const boost::json::value& value() const { return *value_; }

  // Error "FILE: PLACE: REASON" for this value, or for one below it (".vocab", "[3]").
  Error error(std::string_view reason) const { return error_at("", reason); }
  Error error_at(std::string_view below, std::string_view reason) const;

  // Error if the value has other keys than these, or is not an object.
  Result<void> expect_keys(std::initializer_list<std::string_view> keys) const;
  Result<JsonNode> member(std::string_view key) const;               // error if missing
  Result<std::optional<JsonNode>> find(std::string_view key) const;  // none if missing or null
  Result<std::vector<JsonNode>> items() const;                       // of an array

  Result<std::string> text() const;
  Result<bool> flag() const;
  Result<u32> number(u32 most) const;

  // Members with a default for a missing or null value.
  Result<std::string> text_or(std::string_view key, std::string_view preset) const;
  Result<bool> flag_or(std::string_view key, bool preset) const;

 private:
  JsonNode below(const boost::json::value& value, std::string_view key) const;

  const boost::json::value* value_;
  const std::string* file_;
  std::string place_;
};

}  // namespace tidepool
