// A value of a JSON file together with the place where it stands, so that every complaint names both.
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

// A view: file name and value must outlive it. Errors are ErrorKind::bad_input.
class JsonNode {
 public:
  JsonNode(const boost::json::value& value, const std::string& file, std::string place)
      : value_(&value), file_(&file), place_(std::move(place)) {}

  const std::string& place() const { return place_; }
  const boost::json::value& value() const { return *value_; }

  // "FILE: PLACE: REASON", of this value or of something below it (".vocab", "[3]").
  Error error(std::string_view reason) const { return error_at("", reason); }
  Error error_at(std::string_view below, std::string_view reason) const;

  // Refuses keys that are not among these. An error if this is no object.
  Result<void> expect_keys(std::initializer_list<std::string_view> keys) const;
  Result<JsonNode> member(std::string_view key) const;               // must be there
  Result<std::optional<JsonNode>> find(std::string_view key) const;  // nothing if absent or null
  Result<std::vector<JsonNode>> items() const;                       // of an array

  Result<std::string> text() const;
  Result<bool> flag() const;
  Result<u32> number(u32 most) const;

  // Members with a value for where they are absent or null.
  Result<std::string> text_or(std::string_view key, std::string_view preset) const;
  Result<bool> flag_or(std::string_view key, bool preset) const;

 private:
  JsonNode below(const boost::json::value& value, std::string_view key) const;

  const boost::json::value* value_;
  const std::string* file_;
  std::string place_;
};

}  // namespace tidepool
