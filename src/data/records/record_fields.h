// RecordFields reads the keys of one record, and names the record's place in every error.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/json/large_integers.h"
#include "base/result.h"

namespace tidepool {

// "a list", "true or false", "null".
std::string_view json_kind_name(const boost::json::value&);
// RETURNS: null if there is no such key, or if its value is null: tables fill columns with nulls.
const boost::json::value* field_of(const boost::json::object&, std::string_view key);

class RecordFields {
 public:
  // REQUIRES: `line` is an object; both outlive this.
  RecordFields(const ExactJson& line, const std::string& place)
      : object_(line.value.get_object()), large_(line.large), place_(place) {}

  Error fault(std::string_view text) const;
  // RETURNS: null as field_of().
  const boost::json::value* field(std::string_view key) const { return field_of(object_, key); }

 protected:
  Result<std::string> text_of(const boost::json::value&, std::string_view what) const;
  Result<std::string> needed(std::string_view key) const;
  Result<std::string> optional(std::string_view key) const;
  // Error: also if the list is empty.
  Result<const boost::json::array*> list(std::string_view key) const;

  const boost::json::object& object_;
  const std::vector<std::string>& large_;  // integers beyond 64 bits that occur in object_
  const std::string& place_;
};

}  // namespace tidepool
