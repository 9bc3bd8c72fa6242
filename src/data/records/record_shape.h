// RecordShapes tells the shapes of records by their keys. Used only inside src/data/documents.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "base/json/large_integers.h"
#include "data/records/record.h"

namespace tidepool {

Error bad_record(const std::string& place, std::string_view text);
// Parses a line, which must be one JSON object.
Result<ExactJson> parse_object(std::string_view line, const std::string& place);

// RETURNS: the key that identifies a shape.
std::string_view key_of(RecordShape);
// RETURNS: the key of the first other shape that the record has; empty: none.
std::string_view key_of_other_shape(const boost::json::object&);
// Shape of a completion, and of a preference: text, or messages.
RecordShape completion_of(const boost::json::object&);
RecordShape preference_of(const boost::json::object&);

}  // namespace tidepool
