// MessageFields reads the messages of one record.
#pragma once

#include <string>

#include "data/records/record_fields.h"
#include "huggingface/jinja/value.h"

namespace tidepool {

class MessageFields : protected RecordFields {
 public:
  using RecordFields::RecordFields;

 protected:
  // RETURNS: the message as chat templates expect it. `what`: its place in the record, for errors.
  // Error: bad_input, naming the line.
  Result<jinja::Value> message(const boost::json::value&, const std::string& what) const;

 private:
  static const boost::json::value* reasoning_of(const boost::json::object& message);
  jinja::Dict reasoning_first(const boost::json::object& message) const;
  Result<void> check_parts(const boost::json::array& parts, const std::string& what) const;
  jinja::Value parts(const boost::json::array&) const;
};

}  // namespace tidepool
